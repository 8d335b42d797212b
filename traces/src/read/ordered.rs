//! Records in an order that does not depend on where they stand in the file.
//!
//! Profilers write what happened in any order, and whole microseconds make many times equal. What comes first of equal times would then count in one order and
//! not in another. So records are sorted by all that they say, and what they refer to has numbers by its names ([`Part::tell_in_order`]). That holds
//! for files of up to [`MOST`] records. Larger ones are sorted piece by piece, which takes no more memory: there, records of equal times may count by
//! their place where they stand that far apart.

use std::cmp::Reverse;
use std::hash::Hash;

use super::seen::Seen;
use super::{BATCH_RECORDS, Reader};
use crate::model::{
    Batch, CollectiveCall, CounterValue, GpuRecord, HostSlice, MemoryEvent, Model, Notice, Part,
    ProcessId,
};

/// Records that are sorted at once, some 90 bytes each.
const MOST: usize = 1 << 18;

/// Slices of a thread that begin and end together, among which one that is there twice is looked for.
const TOGETHER: usize = 256;

/// Whether the order of rows says which of two values of a counter at one time is the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// In tables of a database, which have one.
    Ordered,
    /// In lists of events.
    Unordered,
}

/// Sorts the records of a reader.
pub(super) struct Ordered {
    reader: Box<dyn Reader>,
    rows: Rows,
    /// What the records refer to, until it is told to whoever reads them.
    part: Part,
    held: Batch,
    /// How many pieces there are of what is held, and how many were handed out.
    pieces: (usize, usize),
    goes_on: bool,
    /// How many operations of GPUs were there before, and the process of one.
    twice: (u64, ProcessId),
    /// Linked records of earlier pieces, and others.
    seen: [Seen; 2],
    /// Records that are sorted at once: [`MOST`].
    most: usize,
}

impl Ordered {
    pub(super) fn new(reader: Box<dyn Reader>, rows: Rows) -> Self {
        Self {
            reader,
            rows,
            part: Part::default(),
            held: Batch::default(),
            pieces: (0, 0),
            goes_on: true,
            twice: (0, ProcessId::new(0)),
            seen: Default::default(),
            most: MOST,
        }
    }

    /// Reads as much as is sorted at once.
    fn fill(&mut self, model: &mut Model) {
        let is_first = self.part.is_untold();
        self.held.clear();
        while self.goes_on && self.held.len() < self.most {
            self.goes_on = self.reader.read(&mut self.part.model, &mut self.held);
        }
        match is_first && !self.goes_on {
            true => self.part.tell_in_order(model),
            false if self.part.has_news() => self.part.tell(model),
            false => {}
        }
        self.part.rename(&mut self.held);
        sort(&mut self.held, self.rows);
        if self.rows == Rows::Unordered {
            let within = leave_out_what_is_twice(&mut self.held);
            // Of a file that is one piece nothing was seen before.
            let is_several = !is_first || self.goes_on;
            let before = match is_several {
                true => leave_out_what_was_seen(&mut self.held, &mut self.seen),
                false => None,
            };
            for (count, process) in within.into_iter().chain(before) {
                self.twice = (self.twice.0 + count, process);
            }
        }
        if !self.goes_on {
            std::mem::take(&mut self.part).finish(model);
            self.tell_what_is_twice(model);
        }
        self.pieces = (self.held.len().div_ceil(BATCH_RECORDS), 0);
    }

    fn tell_what_is_twice(&self, model: &mut Model) {
        let (count, process) = self.twice;
        let text = match count {
            0 => return,
            1 => "an operation of a GPU is there twice, and counts once".to_owned(),
            _ => format!("{count} operations of GPUs are there twice, and count once"),
        };
        let text = match self.seen.iter().any(Seen::is_full) {
            true => format!("{text}; the file is too large to look for all of them"),
            false => text,
        };
        let file = model.process(process).file.clone();
        model.notices.push(Notice {
            file,
            offset: None,
            text,
        });
    }
}

impl Reader for Ordered {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        if self.pieces.0 == self.pieces.1 && self.goes_on {
            self.fill(model);
        }
        let (pieces, piece) = self.pieces;
        if piece < pieces {
            hand_out(&self.held, batch, (pieces, piece));
            self.pieces.1 += 1;
        }
        let is_more = self.pieces.1 < pieces;
        if !is_more && !self.goes_on {
            self.held = Batch::default();
        }
        is_more || self.goes_on
    }

    fn zero_ns(&self) -> u64 {
        self.reader.zero_ns()
    }
}

/// Appends a piece of each kind of records.
fn hand_out(held: &Batch, batch: &mut Batch, place: (usize, usize)) {
    fn piece<T: Copy>(from: &[T], to: &mut Vec<T>, (pieces, piece): (usize, usize)) {
        let at = |piece: usize| from.len() * piece / pieces;
        to.extend_from_slice(&from[at(piece)..at(piece + 1)]);
    }
    // All kinds are named: none is forgotten.
    let Batch {
        gpu,
        host,
        marks,
        samples,
        counters,
        collectives,
        open_messages,
        mpi,
        completions,
        locks,
        lock_waits,
        proxies,
        memory,
        gpu_ranges,
        kernel_counters,
    } = held;
    piece(gpu, &mut batch.gpu, place);
    piece(host, &mut batch.host, place);
    piece(marks, &mut batch.marks, place);
    piece(samples, &mut batch.samples, place);
    piece(counters, &mut batch.counters, place);
    piece(collectives, &mut batch.collectives, place);
    piece(open_messages, &mut batch.open_messages, place);
    piece(mpi, &mut batch.mpi, place);
    piece(completions, &mut batch.completions, place);
    piece(locks, &mut batch.locks, place);
    piece(lock_waits, &mut batch.lock_waits, place);
    piece(proxies, &mut batch.proxies, place);
    piece(memory, &mut batch.memory, place);
    piece(gpu_ranges, &mut batch.gpu_ranges, place);
    piece(kernel_counters, &mut batch.kernel_counters, place);
}

/// Sorts records of each kind by time, then by everything else that tells them apart. What only our own traces have keeps its order.
fn sort(batch: &mut Batch, rows: Rows) {
    batch.gpu.sort_unstable_by_key(gpu_key);
    batch.host.sort_unstable_by_key(host_key);
    batch
        .marks
        .sort_unstable_by_key(|one| (one.time_ns, one.thread, one.name));
    batch
        .samples
        .sort_unstable_by_key(|one| (one.time_ns, one.thread, one.stack, one.basis, one.weight));
    let of_counter = |one: &CounterValue| (one.time_ns, one.counter);
    match rows {
        Rows::Ordered => batch.counters.sort_by_key(of_counter),
        Rows::Unordered => batch.counters.sort_unstable_by(|one, other| {
            let by_time = of_counter(one).cmp(&of_counter(other));
            by_time.then_with(|| one.value.total_cmp(&other.value))
        }),
    }
    for calls in [&mut batch.collectives, &mut batch.open_messages] {
        calls.sort_unstable_by_key(collective_key);
    }
    batch
        .gpu_ranges
        .sort_unstable_by_key(|one| (one.start_ns, Reverse(one.end_ns), one.queue, one.name));
    batch.memory.sort_unstable_by_key(memory_key);
}

/// Leaves out what a file has twice, as some that were put together of others: a call does not order the same work for the same time twice. Of what no call is
/// known that cannot be said. The number of operations of GPUs, and the process of one.
fn leave_out_what_is_twice(batch: &mut Batch) -> Option<(u64, ProcessId)> {
    let (mut count, mut process) = (0, None);
    batch.gpu.dedup_by(|one, before| {
        let is_twice =
            one.link != 0 && one.end_ns > one.start_ns && gpu_key(one) == gpu_key(before);
        count += u64::from(is_twice);
        process = process.or(is_twice.then_some(one.process));
        is_twice
    });
    let process = process?;
    // Where most is there twice, so are operators, functions and memory, which no call links with anything.
    let is_most = count >= batch.gpu.len() as u64 / 2;
    let mut same: Vec<HostSlice> = Vec::new();
    batch.host.retain(|one| {
        let place = |one: &HostSlice| (one.start_ns, one.end_ns, one.thread, one.process);
        if same.first().is_some_and(|first| place(first) != place(one)) {
            same.clear();
        }
        let is_twice = (one.link != 0 || is_most) && same.iter().any(|other| is_same(one, other));
        if same.len() < TOGETHER {
            same.push(*one);
        }
        !is_twice
    });
    if is_most {
        batch.memory.dedup();
    }
    batch
        .collectives
        .dedup_by(|one, before| one.link != 0 && collective_key(one) == collective_key(before));
    Some((count, process))
}

/// The same of what was in earlier pieces of the file.
fn leave_out_what_was_seen(
    batch: &mut Batch,
    [seen, others]: &mut [Seen; 2],
) -> Option<(u64, ProcessId)> {
    let (mut count, mut process, mut linked, mut known) = (0_u64, None, 0_u64, 0_u64);
    batch.gpu.retain(|one| {
        if one.link == 0 || one.end_ns <= one.start_ns {
            return true;
        }
        linked += 1;
        let is_twice = seen.is_known(&(0_u8, gpu_key(one)));
        count += u64::from(is_twice);
        known += u64::from(is_twice);
        process = process.or(is_twice.then_some(one.process));
        !is_twice
    });
    batch.host.retain(|one| {
        if one.link == 0 {
            return true;
        }
        linked += 1;
        let is_twice = seen.is_known(&(1_u8, host_key(&without_place(one))));
        known += u64::from(is_twice);
        !is_twice
    });
    batch.collectives.retain(|one| {
        let is_linked = one.link != 0;
        !(is_linked && seen.is_known(&(2_u8, collective_key(one))))
    });
    // Operators and their like do not tell by themselves.
    let is_most = known > 0 && 2 * known >= linked;
    if is_most || !others.is_full() {
        batch.host.retain(|one| {
            one.link != 0 || !(others.is_known(&(1_u8, host_key(&without_place(one)))) && is_most)
        });
        batch
            .memory
            .retain(|one| !(others.is_known(&(3_u8, memory_key(one))) && is_most));
        others.turn();
    }
    seen.turn();
    Some((count, process?))
}

/// What begins together: first what ends last.
fn gpu_key(one: &GpuRecord) -> impl Ord + Hash + use<> {
    let what = (one.kind, one.name, one.grid, one.direction, one.source);
    let times = (one.start_ns, Reverse(one.end_ns));
    (times, one.queue, what, one.link, one.bytes)
}

fn collective_key(one: &CollectiveCall) -> impl Ord + Hash + use<> {
    let place = (one.thread, one.communicator, one.sequence);
    let data = (one.name, one.data_type, one.bytes, one.link, one.process);
    let ranks = (one.rank, one.ranks, one.peer, one.is_blocking);
    (one.start_ns, one.end_ns, place, data, ranks)
}

/// Whether two slices of a thread and time are one, but for their places in the file.
fn is_same(one: &HostSlice, other: &HostSlice) -> bool {
    host_key(&without_place(one)) == host_key(&without_place(other))
}

fn without_place(one: &HostSlice) -> HostSlice {
    HostSlice {
        number: 0,
        depth: 0,
        ..*one
    }
}

fn memory_key(one: &MemoryEvent) -> impl Ord + Hash + use<> {
    let place = (one.thread, one.device, one.address);
    let sums = (one.bytes, one.allocated, one.reserved);
    (one.time_ns, place, sums)
}

/// What begins together: first what ends last, and of what ends together, what is outside.
fn host_key(one: &HostSlice) -> impl Ord + Hash + use<> {
    let times = (one.start_ns, Reverse(one.end_ns));
    let place = (one.thread, one.depth, one.number);
    let what = (one.kind, one.name, one.shapes, one.arguments);
    let told = (one.link, one.bytes, one.address, one.stream, one.is_open);
    (times, place, what, told, one.process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HostKind, Process, ThreadId};

    /// Hands out some records of each kind at once.
    struct Fixed(Vec<(GpuRecord, HostSlice, HostSlice)>);

    impl Reader for Fixed {
        fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
            if model.processes.is_empty() {
                model.processes.push(Process::default());
                model.texts.intern("gemm");
            }
            for (operation, call, operator) in self.0.drain(..self.0.len().min(10)) {
                batch.gpu.push(operation);
                batch.host.extend([call, operator]);
            }
            !self.0.is_empty()
        }
    }

    #[test]
    fn what_is_twice_is_found_in_other_pieces_too() {
        let one = |number: u64| {
            let (start_ns, end_ns) = (100 * number, 100 * number + 50);
            let thread = ThreadId::new(HostSlice::NO_THREAD);
            let host = |kind, link| HostSlice {
                start_ns,
                end_ns,
                kind,
                link,
                thread,
                ..HostSlice::default()
            };
            let operation = GpuRecord {
                start_ns,
                end_ns,
                link: number,
                ..GpuRecord::default()
            };
            let call = host(HostKind::Runtime, number);
            (operation, call, host(HostKind::Operator, 0))
        };
        let once: Vec<_> = (1..=100).map(one).collect();
        for most in [30, 1 << 18] {
            let mut ordered = Ordered::new(
                Box::new(Fixed([once.clone(), once.clone()].concat())),
                Rows::Unordered,
            );
            ordered.most = most;
            let (mut model, mut batch) = (Model::default(), Batch::default());
            while ordered.read(&mut model, &mut batch) {}
            assert_eq!((batch.gpu.len(), batch.host.len()), (100, 200), "{most}");
            let text = "100 operations of GPUs are there twice, and count once";
            assert_eq!(model.notices[0].text, text, "{most}");
        }
    }
}
