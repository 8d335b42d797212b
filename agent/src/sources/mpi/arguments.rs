//! The arguments of a call, by the letters that stand for them in the [`table`](crate::sources::mpi::table).

use std::ffi::c_int;

use crate::interpose::trampoline::Call;
use crate::sources::mpi::communicators::Communicator;
use crate::sources::mpi::datatypes::{self, Datatype};
use crate::sources::mpi::library::Library;

/// One side of an exchange: how much of what.
#[derive(Debug, Default, Clone, Copy)]
pub struct Side {
    /// How many elements.
    count: Option<i64>,
    /// Whether it is a count for each rank of the communicator.
    is_for_each: bool,
    /// An array of counts, one for each rank, or 0.
    counts: usize,
    /// The type.
    datatype: Option<usize>,
    /// An array of types, one for each rank, or 0.
    datatypes: usize,
    /// The buffer, which may stand for "the same as the other".
    buffer: usize,
    /// Whether there is a buffer among the arguments.
    has_buffer: bool,
}

/// All that is read of a call. Places in the program's memory are 0 where the function takes none.
#[derive(Debug, Default)]
pub struct Arguments {
    pub communicator: Option<usize>,
    pub send: Side,
    pub receive: Side,
    pub destination: Option<c_int>,
    pub source: Option<c_int>,
    pub root: Option<c_int>,
    pub tag: Option<c_int>,
    pub receive_tag: Option<c_int>,
    pub color: Option<c_int>,
    pub window: Option<usize>,
    pub file: Option<usize>,
    /// Where a request is put or stands.
    pub request: usize,
    /// An array of requests, and how many.
    pub requests: (usize, usize),
    /// Where is put whether it is done.
    pub flag: usize,
    /// Where is put which request is done.
    pub index: usize,
    /// Where is put which requests are, and how many.
    pub indices: (usize, usize),
    pub new_communicator: usize,
    pub old_communicator: usize,
    pub old_datatype: usize,
    is_large: bool,
}

impl Arguments {
    /// Reads the arguments of a call.
    #[inline]
    pub fn read(call: &Call, letters: &[u8], is_large: bool) -> Arguments {
        let mut read = Arguments {
            is_large,
            ..Arguments::default()
        };
        for (place, letter) in letters.iter().enumerate() {
            if *letter == b'.' {
                continue;
            }
            let word = call.argument(place);
            let number = word as c_int;
            let count = Some(if is_large {
                word as i64
            } else {
                i64::from(number)
            });
            match letter {
                b'b' => (read.send.buffer, read.send.has_buffer) = (word, true),
                b'B' => (read.receive.buffer, read.receive.has_buffer) = (word, true),
                b'n' => read.send.count = count,
                b'm' => (read.send.count, read.send.is_for_each) = (count, true),
                b'N' => read.receive.count = count,
                b'M' => (read.receive.count, read.receive.is_for_each) = (count, true),
                b'v' => read.send.counts = word,
                b'V' => read.receive.counts = word,
                b't' => read.send.datatype = Some(word),
                b'T' => read.receive.datatype = Some(word),
                b'w' => read.send.datatypes = word,
                b'W' => read.receive.datatypes = word,
                b'd' => read.destination = Some(number),
                b's' => read.source = Some(number),
                b'r' => read.root = Some(number),
                b'g' => read.tag = Some(number),
                b'G' => read.receive_tag = Some(number),
                b'c' => read.communicator = Some(word),
                b'e' => read.color = Some(number),
                b'o' => read.new_communicator = word,
                b'z' => read.old_communicator = word,
                b'u' => read.old_datatype = word,
                b'q' => read.request = word,
                b'Q' => read.requests.0 = word,
                b'k' => read.requests.1 = usize::try_from(number).unwrap_or(0),
                b'l' => read.flag = word,
                b'i' => read.index = word,
                b'I' => read.indices.0 = word,
                b'K' => read.indices.1 = word,
                b'x' => read.window = Some(word),
                b'f' => read.file = Some(word),
                _ => {}
            }
        }
        read
    }

    /// A count at this place of an array of counts.
    fn count_in(&self, array: usize, index: usize) -> i64 {
        // SAFETY: the library reads an array of as many counts there, of this width.
        unsafe {
            if self.is_large {
                *std::ptr::with_exposed_provenance::<i64>(array).wrapping_add(index)
            } else {
                i64::from(*std::ptr::with_exposed_provenance::<i32>(array).wrapping_add(index))
            }
        }
    }
}

/// What a call moves, as it says itself.
#[derive(Debug, Default, Clone, Copy)]
pub struct Volume {
    /// Elements that the call names.
    pub count: Option<u64>,
    /// Their type.
    pub datatype: Option<Datatype>,
    /// Count times size of the type.
    pub bytes: Option<u64>,
    /// What this rank gives to others, and what it gets.
    pub sent: u64,
    pub received: u64,
}

/// A side of an exchange in numbers.
#[derive(Debug, Default, Clone, Copy)]
struct Amount {
    count: u64,
    /// Of the call, and of all ranks together.
    bytes: u64,
    total: u64,
    datatype: Option<Datatype>,
}

impl Arguments {
    /// How much a side has; `None` where the call does not say.
    fn amount(&self, side: &Side, library: &Library, ranks: usize) -> Option<Amount> {
        let datatype_of = |word: usize| datatypes::find(library, library.handle(word));
        if let Some(count) = side.count {
            let datatype = datatype_of(side.datatype?)?;
            let count = u64::try_from(count).ok()?;
            let bytes = count.saturating_mul(datatype.bytes);
            let times = if side.is_for_each { ranks as u64 } else { 1 };
            return Some(Amount {
                count,
                bytes,
                total: bytes.saturating_mul(times),
                datatype: Some(datatype),
            });
        }
        if side.counts == 0 {
            return None;
        }
        let mut sum = Amount::default();
        for rank in 0..ranks {
            let count = u64::try_from(self.count_in(side.counts, rank)).ok()?;
            let datatype = match (side.datatype, side.datatypes) {
                _ if count == 0 => continue,
                (Some(word), _) => datatype_of(word)?,
                (None, 0) => return None,
                (None, array) => datatypes::find(library, library.handle_in(array, rank))?,
            };
            sum.count = sum.count.saturating_add(count);
            sum.bytes = sum
                .bytes
                .saturating_add(count.saturating_mul(datatype.bytes));
            sum.datatype = Some(datatype);
        }
        sum.total = sum.bytes;
        Some(sum)
    }

    /// What a call of this kind moves.
    pub fn volume(
        &self,
        kind: u8,
        library: &Library,
        communicator: Option<&Communicator>,
    ) -> Volume {
        // With two groups it depends on the side, and the sizes of the arrays on the other group.
        if communicator.is_some_and(Communicator::joins_two) && kind == b'c' {
            return Volume::default();
        }
        let ranks = communicator.map_or(0, |known| usize::try_from(known.ranks()).unwrap_or(0));
        let amount = |side: &Side| self.amount(side, library, ranks);
        let one = |amount: Option<Amount>, sends: bool, receives: bool| {
            let Some(amount) = amount else {
                return Volume::default();
            };
            Volume {
                count: Some(amount.count),
                datatype: amount.datatype,
                bytes: Some(amount.bytes),
                sent: if sends { amount.total } else { 0 },
                received: if receives { amount.total } else { 0 },
            }
        };
        let is_nobody = |rank: Option<c_int>| rank.is_some_and(|rank| rank < 0);
        match kind {
            b's' | b'p' => one(amount(&self.send), !is_nobody(self.destination), false),
            b'g' => one(amount(&self.send), false, !is_nobody(self.destination)),
            b'r' => one(amount(&self.send), false, true),
            b'i' | b'o' => one(amount(&self.send), false, false),
            b'x' => {
                let sent = amount(&self.send);
                let received = match self.receive.count {
                    Some(_) => amount(&self.receive),
                    None => sent,
                };
                Volume {
                    received: received.map_or(0, |received| received.total),
                    ..one(sent, !is_nobody(self.destination), true)
                }
            }
            b'c' => self.collective(communicator, &amount, &one),
            _ => Volume::default(),
        }
    }

    fn collective(
        &self,
        communicator: Option<&Communicator>,
        amount: &impl Fn(&Side) -> Option<Amount>,
        one: &impl Fn(Option<Amount>, bool, bool) -> Volume,
    ) -> Volume {
        let Some(communicator) = communicator else {
            return Volume::default();
        };
        let is_root = self.root == Some(communicator.rank());
        let is_rooted = self.root.is_some();
        let sends_to_each = self.send.is_for_each || self.send.counts != 0;
        // Gathers and scatters have a count on each side; of a reduce-scatter only what is received has one, with the type of both.
        let has_send = self.send.count.is_some() || self.send.counts != 0;
        let has_receive = self.receive.count.is_some() || self.receive.counts != 0;
        // What stands for "in place": 1 in OpenMPI and the standard ABI, -1 in MPICH.
        let is_in_place = |side: &Side| side.has_buffer && matches!(side.buffer, 1 | usize::MAX);
        match (has_send, has_receive) {
            // A broadcast has one buffer.
            (true, false) if is_rooted && !self.receive.has_buffer => {
                one(amount(&self.send), is_root, !is_root)
            }
            (true, false) => one(amount(&self.send), true, !is_rooted || is_root),
            (false, true) => {
                let side = Side {
                    datatype: self.receive.datatype.or(self.send.datatype),
                    ..self.receive
                };
                let found = amount(&side);
                let ranks = communicator.ranks().max(1) as u64;
                let mut volume = one(found, true, true);
                if self.receive.count.is_some() {
                    volume.sent = volume.sent.saturating_mul(ranks);
                } else if let (Some(datatype), Ok(rank)) =
                    (volume.datatype, usize::try_from(communicator.rank()))
                {
                    let own = u64::try_from(self.count_in(self.receive.counts, rank)).unwrap_or(0);
                    volume.received = own.saturating_mul(datatype.bytes);
                }
                volume
            }
            (true, true) => {
                // Only the root's arguments count on the side of all ranks.
                let counts = |is_of_root: bool| !is_rooted || !is_of_root || is_root;
                let send = (counts(sends_to_each) && !is_in_place(&self.send))
                    .then(|| amount(&self.send))
                    .flatten();
                let receive = (counts(!sends_to_each) && !is_in_place(&self.receive))
                    .then(|| amount(&self.receive))
                    .flatten();
                let named = one(send.or(receive), false, false);
                // In place, every rank gives what it would get from each.
                let sent = match (send, receive) {
                    (Some(send), _) => send.total,
                    (None, Some(receive)) if !is_rooted && self.send.is_for_each => receive.total,
                    (None, Some(receive)) if !is_rooted => receive.bytes,
                    _ => 0,
                };
                Volume {
                    sent,
                    received: receive.map_or(0, |receive| receive.total),
                    ..named
                }
            }
            (false, false) => Volume::default(),
        }
    }
}
