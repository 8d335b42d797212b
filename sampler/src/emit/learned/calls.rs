//! The calls that operations of GPUs refer to, which may be recorded minutes later.
//!
//! A program has millions of calls, but few that differ in what operations need of them. So a call
//! is the number of what it shares with others and the time since others, in a chunk of calls with
//! neighbouring correlations: eight bytes. A chunk is forgotten when it is old, and no call in it awaits an operation.

use std::collections::{BTreeSet, VecDeque};

use rsys_proto::hashing::FastMap;

/// What operations need of the call that caused them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Call {
    /// The thread that made it.
    pub tid: u32,
    /// Handle of the stream, if the call names one.
    pub stream: Option<u64>,
    /// Id of the stack that made it, or 0.
    pub stack: u64,
    /// How much it copies or fills.
    pub bytes: Option<u64>,
    /// Key of the text that says from where to where it copies, or 0.
    pub direction: u64,
    /// Key of the name of the kernel that it launches, or 0.
    pub kernel: u64,
}

/// Calls of a chunk.
const CHUNK: usize = 256;
/// At least this many of the latest chunks are kept: a million calls, or four megabytes.
const LATEST: usize = 1 << 12;
/// Chunks are never more than this (16 million calls, or 64 megabytes): some calls cause nothing
/// though they might, and some operations are never recorded. HIP itself needs a hundred times as
/// much for a call whose operation it has not reported.
const MOST: usize = 1 << 16;

/// Times of calls are kept in such steps, which leaves a chunk two minutes.
const STEP_NS: i64 = 64;

/// In a chunk: the call awaits an operation.
const AWAITED: u32 = 1 << 31;

/// Calls with neighbouring correlations: one more than the number of what they share with others,
/// or 0.
#[derive(Debug)]
struct Chunk {
    calls: Box<[u32; CHUNK]>,
    /// When they began: steps from `base_ns`.
    starts: Box<[i32; CHUNK]>,
    base_ns: u64,
    awaited: usize,
    is_old: bool,
}

/// What calls share, and how many of them.
#[derive(Debug, Default)]
struct Shared {
    list: Vec<(Call, usize)>,
    numbers: FastMap<Call, u32>,
    free: Vec<u32>,
    /// Most calls are as the one before.
    last: Option<(Call, u32)>,
}

/// The calls of a process.
#[derive(Debug, Default)]
pub struct KeptCalls {
    chunks: FastMap<u64, Chunk>,
    /// Their numbers in order.
    order: BTreeSet<u64>,
    /// The latest chunks, oldest first.
    latest: VecDeque<u64>,
    shared: Shared,
    /// The latest kernel of each stream that was recorded, by its correlation; the stream that was used last is in front.
    latest_kernels: Vec<(Option<u64>, u64)>,
}

fn place(correlation: u64) -> (u64, usize) {
    let chunk = CHUNK as u64;
    (correlation / chunk, (correlation % chunk) as usize)
}

impl Chunk {
    fn start_ns(&self, at: usize) -> u64 {
        let steps = i64::from(self.starts[at]) * STEP_NS;
        self.base_ns.saturating_add_signed(steps)
    }
}

impl KeptCalls {
    /// Keeps a call; with `awaited`, until an operation of it is recorded, however long that takes.
    pub fn insert(&mut self, correlation: u64, call: Call, start_ns: u64, awaited: bool) {
        let (number, at) = place(correlation);
        let chunk = self.chunks.entry(number).or_insert_with(|| {
            self.latest.push_back(number);
            self.order.insert(number);
            Chunk {
                calls: Box::new([0; CHUNK]),
                starts: Box::new([0; CHUNK]),
                base_ns: start_ns,
                awaited: 0,
                is_old: false,
            }
        });
        let before = std::mem::replace(&mut chunk.calls[at], 0);
        chunk.awaited += usize::from(awaited);
        chunk.awaited -= usize::from(before & AWAITED != 0);
        let awaited = if awaited { AWAITED } else { 0 };
        chunk.calls[at] = (self.shared.take(call) + 1) | awaited;
        let steps = start_ns.wrapping_sub(chunk.base_ns).cast_signed() / STEP_NS;
        chunk.starts[at] =
            i32::try_from(steps).unwrap_or(if steps < 0 { i32::MIN } else { i32::MAX });
        self.shared.give_back(before);
        if self.latest.len() > LATEST {
            self.age();
        }
        if self.chunks.len() > MOST
            && let Some(oldest) = self.order.first().copied()
        {
            self.forget(oldest);
        }
    }

    /// The call with a correlation of which an operation was recorded now, and when it began (to 64 ns), if it is known. There may be more
    /// operations of it, but not much later.
    pub fn told(&mut self, correlation: u64) -> Option<(Call, u64)> {
        let (number, at) = place(correlation);
        let chunk = self.chunks.get_mut(&number)?;
        let call = *self.shared.get(chunk.calls[at])?;
        let start_ns = chunk.start_ns(at);
        if chunk.calls[at] & AWAITED != 0 {
            chunk.calls[at] &= !AWAITED;
            chunk.awaited -= 1;
            self.forget_if_done(number);
        }
        if call.kernel != 0 {
            self.note_kernel(call.stream, correlation);
        }
        Some((call, start_ns))
    }

    fn note_kernel(&mut self, stream: Option<u64>, correlation: u64) {
        let mut known = self.latest_kernels.iter();
        match known.position(|(known, _)| *known == stream) {
            Some(at) => {
                self.latest_kernels.swap(0, at);
                let latest = &mut self.latest_kernels[0].1;
                *latest = correlation.max(*latest);
            }
            None => self.latest_kernels.push((stream, correlation)),
        }
    }

    /// Launches of kernels that were not recorded, newest first, and when they began (to 64 ns). One that is followed by a recorded one of its stream is left
    /// out: it failed, or was captured for a graph.
    pub fn unended(&self) -> impl Iterator<Item = (Call, u64)> {
        let chunks = self.order.iter().rev().filter_map(|number| {
            let chunk = self.chunks.get(number)?;
            (chunk.awaited > 0).then_some((*number, chunk))
        });
        chunks.flat_map(move |(number, chunk)| {
            (0..CHUNK).rev().filter_map(move |at| {
                let call = *self.shared.get(chunk.calls[at])?;
                let correlation = number * CHUNK as u64 + at as u64;
                let mut latest = self.latest_kernels.iter();
                let latest = latest.find(|(stream, _)| *stream == call.stream);
                let is_past = latest.is_some_and(|(_, latest)| *latest > correlation);
                let is_awaited = chunk.calls[at] & AWAITED != 0;
                (is_awaited && call.kernel != 0 && !is_past).then(|| (call, chunk.start_ns(at)))
            })
        })
    }

    /// The oldest of the latest chunks is one of them no more.
    fn age(&mut self) {
        if let Some(number) = self.latest.pop_front() {
            if let Some(chunk) = self.chunks.get_mut(&number) {
                chunk.is_old = true;
            }
            self.forget_if_done(number);
        }
    }

    fn forget_if_done(&mut self, number: u64) {
        let is_done = |chunk: &Chunk| chunk.is_old && chunk.awaited == 0;
        if self.chunks.get(&number).is_some_and(is_done) {
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u64) {
        self.order.remove(&number);
        if let Some(chunk) = self.chunks.remove(&number) {
            self.shared.forget(&chunk);
        }
    }
}

impl Shared {
    /// The number of what a call shares with others, which has one call more now.
    fn take(&mut self, call: Call) -> u32 {
        let number = match self.last {
            Some((last, number)) if last == call => number,
            _ => self.number(call),
        };
        self.last = Some((call, number));
        self.list[number as usize].1 += 1;
        number
    }

    fn number(&mut self, call: Call) -> u32 {
        if let Some(&number) = self.numbers.get(&call) {
            return number;
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = (call, 0);
                number
            }
            None => {
                self.list.push((call, 0));
                self.list.len() as u32 - 1
            }
        };
        self.numbers.insert(call, number);
        number
    }

    fn get(&self, entry: u32) -> Option<&Call> {
        let number = (entry & !AWAITED).checked_sub(1)?;
        self.list.get(number as usize).map(|(call, _)| call)
    }

    fn give_back(&mut self, entry: u32) {
        let Some(number) = (entry & !AWAITED).checked_sub(1) else {
            return;
        };
        let (call, uses) = &mut self.list[number as usize];
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(call);
            self.free.push(number);
            self.last = None;
        }
    }

    fn forget(&mut self, chunk: &Chunk) {
        for entry in chunk.calls.iter() {
            self.give_back(*entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(stack: u64) -> Call {
        Call {
            tid: 7,
            stack,
            ..Call::default()
        }
    }

    /// Calls that make everything before them old.
    fn many(kept: &mut KeptCalls, from: u64) {
        for correlation in from..from + (2 * LATEST * CHUNK) as u64 {
            kept.insert(correlation, call(1), 0, false);
        }
    }

    #[test]
    fn a_call_that_awaits_an_operation_is_never_too_old() {
        let mut kept = KeptCalls::default();
        for correlation in 1..=10_000 {
            kept.insert(correlation, call(correlation), 0, true);
        }
        many(&mut kept, 1_000_000);
        for correlation in 1..=10_000 {
            assert_eq!(kept.told(correlation), Some((call(correlation), 0)));
        }
        assert_eq!(kept.told(1), None);
        assert!(kept.chunks.len() <= LATEST && kept.order.len() == kept.chunks.len());
        assert_eq!(
            kept.shared.numbers.len(),
            1,
            "what nobody refers to is gone"
        );
    }

    #[test]
    fn what_is_recorded_stays_for_a_while() {
        let mut kept = KeptCalls::default();
        kept.insert(5, call(3), 0, true);
        assert_eq!(kept.told(5), Some((call(3), 0)));
        assert_eq!(kept.told(5), Some((call(3), 0)));
        many(&mut kept, 1_000_000);
        assert_eq!(kept.told(5), None);
    }

    #[test]
    fn memory_is_bounded_even_if_nothing_is_ever_told() {
        let mut kept = KeptCalls::default();
        for chunk in 0..MOST as u64 + 1000 {
            kept.insert(chunk * CHUNK as u64 + 1, call(chunk), 0, true);
        }
        assert_eq!(kept.chunks.len(), MOST);
        assert_eq!(kept.shared.numbers.len(), MOST);
        assert_eq!(kept.order.len(), MOST);
        assert_eq!(kept.told(1), None);
        let last = MOST as u64 + 999;
        let told = kept.told(last * CHUNK as u64 + 1);
        assert_eq!(told, Some((call(last), 0)));
    }

    #[test]
    fn a_correlation_that_comes_again_is_another_call() {
        let mut kept = KeptCalls::default();
        kept.insert(9, call(1), 0, true);
        kept.insert(9, call(2), 0, false);
        assert_eq!(kept.chunks[&0].awaited, 0);
        assert_eq!(kept.told(9), Some((call(2), 0)));
        assert_eq!(kept.shared.numbers.len(), 1);
    }

    #[test]
    fn launches_behind_the_last_recorded_kernel_of_their_stream_have_not_ended() {
        let mut kept = KeptCalls::default();
        let launch = |kernel, stream| Call {
            kernel,
            stream: Some(stream),
            ..call(1)
        };
        for (correlation, kernel, stream) in [
            (3, 1, 0),
            (300, 2, 0),
            (301, 0, 0),
            (302, 3, 0),
            (303, 4, 5),
        ] {
            kept.insert(correlation, launch(kernel, stream), 64 * correlation, true);
        }
        let unended = |kept: &KeptCalls| -> Vec<(u64, u64)> {
            let all = kept.unended();
            all.map(|(call, start_ns)| (call.kernel, start_ns / 64))
                .collect()
        };
        assert_eq!(
            unended(&kept),
            [(4, 303), (3, 302), (2, 300), (1, 3)],
            "a copy is no kernel"
        );
        // The first of the stream was captured, or failed.
        assert!(kept.told(300).is_some());
        assert_eq!(unended(&kept), [(4, 303), (3, 302)]);
        assert!(kept.told(303).is_some());
        assert_eq!(unended(&kept), [(3, 302)], "each stream for itself");
    }

    #[test]
    fn starts_are_kept_to_a_step() {
        let mut kept = KeptCalls::default();
        for (correlation, start_ns) in [(7, 5_000_000), (8, 5_000_640), (6, 4_999_936)] {
            kept.insert(correlation, call(1), start_ns, false);
            assert_eq!(kept.told(correlation), Some((call(1), start_ns)));
        }
        kept.insert(9, call(1), 1 << 50, false);
        assert!(
            kept.told(9)
                .is_some_and(|(_, start_ns)| start_ns > 5_000_000)
        );
        assert_eq!(kept.told(5), None);
    }
}
