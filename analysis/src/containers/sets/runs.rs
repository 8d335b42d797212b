//! A union of intervals, kept small.
//!
//! Intervals wait until so many are there that what is older than most of them can be sorted, united and appended to a run of encoded
//! differences: some five bytes for each interval that touches no other. What comes later than that begins a run of its own; runs are merged when the
//! set is read.

use super::in_order;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Intervals that wait for those that should stand in front of them.
const WAITING: usize = 1 << 14;
/// And so many, if they are in order: there are many sets where each kernel has one.
const WAITING_IN_ORDER: usize = 1 << 10;

/// A union of half-open intervals in nanoseconds.
#[derive(Debug, Default)]
pub struct IntervalSet {
    waiting: Vec<(u64, u64)>,
    runs: Vec<Run>,
}

/// Intervals in order that do not touch, encoded: from the end of the one before to the start, and from there to the end.
#[derive(Debug, Default)]
struct Run {
    bytes: Vec<u8>,
    /// The end of the last encoded interval.
    end_ns: u64,
    /// The interval behind that, which may still grow.
    open: (u64, u64),
}

impl IntervalSet {
    /// Adds an interval; an empty one adds nothing.
    #[inline]
    pub fn add(&mut self, start_ns: u64, end_ns: u64) {
        if start_ns >= end_ns {
            return;
        }
        // Most follow the one before, and many touch it.
        if let Some(last) = self.waiting.last_mut()
            && last.0 <= start_ns
            && start_ns <= last.1
        {
            last.1 = last.1.max(end_ns);
            return;
        }
        in_order::push(&mut self.waiting, (start_ns, end_ns));
        let count = self.waiting.len();
        if count == WAITING || count == WAITING_IN_ORDER && self.waiting.is_sorted() {
            self.store(count / 2);
        }
    }

    /// Moves the oldest of what waits to the runs.
    fn store(&mut self, count: usize) {
        in_order::sort(&mut self.waiting);
        let Some(&(first_ns, _)) = self.waiting.first() else {
            return;
        };
        let fitting = self.runs.iter().position(|run| run.open.0 <= first_ns);
        let place = fitting.unwrap_or_else(|| {
            self.runs.push(Run::default());
            self.runs.len() - 1
        });
        let run = &mut self.runs[place];
        for (start_ns, end_ns) in self.waiting.drain(..count) {
            run.push(start_ns, end_ns);
        }
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.runs.is_empty()
    }

    /// The union in order: intervals that neither overlap nor touch.
    pub fn intervals(&mut self) -> Intervals<'_> {
        Self::union_of([self])
    }

    /// The union of several sets, in order.
    pub fn union_of<'s>(sets: impl IntoIterator<Item = &'s mut IntervalSet>) -> Intervals<'s> {
        let mut heap = BinaryHeap::new();
        for set in sets {
            set.store(set.waiting.len());
            for run in &set.runs {
                let mut reader = RunReader {
                    run,
                    at: 0,
                    end_ns: 0,
                    has_open: true,
                };
                if let Some(next) = reader.next() {
                    heap.push(Head { next, reader });
                }
            }
        }
        Intervals { heap }
    }
}

impl Extend<(u64, u64)> for IntervalSet {
    fn extend<I: IntoIterator<Item = (u64, u64)>>(&mut self, intervals: I) {
        let intervals = intervals.into_iter();
        intervals.for_each(|(start_ns, end_ns)| self.add(start_ns, end_ns));
    }
}

impl Run {
    #[inline]
    fn push(&mut self, start_ns: u64, end_ns: u64) {
        if start_ns <= self.open.1 && self.open.1 > 0 {
            self.open.1 = self.open.1.max(end_ns);
            return;
        }
        self.close();
        self.open = (start_ns, end_ns);
    }

    fn close(&mut self) {
        let (start_ns, end_ns) = self.open;
        if end_ns > 0 {
            put(&mut self.bytes, start_ns - self.end_ns);
            put(&mut self.bytes, end_ns - start_ns);
            self.end_ns = end_ns;
        }
    }
}

#[inline]
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads a run.
#[derive(Debug)]
struct RunReader<'s> {
    run: &'s Run,
    at: usize,
    end_ns: u64,
    has_open: bool,
}

impl RunReader<'_> {
    #[inline]
    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        while let Some(&byte) = self.run.bytes.get(self.at) {
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        if self.at < self.run.bytes.len() {
            let start_ns = self.end_ns + self.varint();
            self.end_ns = start_ns + self.varint();
            return Some((start_ns, self.end_ns));
        }
        let has_open = std::mem::take(&mut self.has_open);
        (has_open && self.run.open.1 > 0).then_some(self.run.open)
    }
}

/// A run at its next interval; the heap has the earliest on top.
#[derive(Debug)]
struct Head<'s> {
    next: (u64, u64),
    reader: RunReader<'s>,
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.next == other.next
    }
}

impl Eq for Head<'_> {}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        Reverse(self.next).cmp(&Reverse(other.next))
    }
}

/// The intervals of a union in order.
#[derive(Debug)]
pub struct Intervals<'s> {
    heap: BinaryHeap<Head<'s>>,
}

impl Intervals<'_> {
    #[inline]
    fn pop(&mut self) -> Option<(u64, u64)> {
        let mut head = self.heap.peek_mut()?;
        let found = head.next;
        match head.reader.next() {
            Some(next) => head.next = next,
            None => _ = PeekMut::pop(head),
        }
        Some(found)
    }
}

impl Iterator for Intervals<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        let (start_ns, mut end_ns) = self.pop()?;
        while self.heap.peek().is_some_and(|head| head.next.0 <= end_ns) {
            let (_, other_ns) = self.pop()?;
            end_ns = end_ns.max(other_ns);
        }
        Some((start_ns, end_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_intervals_are_united_with_what_was_stored() {
        let mut set = IntervalSet::default();
        let count = 3 * WAITING as u64;
        for number in 0..count {
            set.add(1 + 10 * number, 5 + 10 * number);
        }
        // Long after: what fills the gaps of the first thousand, backwards.
        for number in (0..1_000).rev() {
            set.add(5 + 10 * number, 11 + 10 * number);
        }
        set.add(7, 7);
        let found: Vec<_> = set.intervals().collect();
        assert_eq!(found[0], (1, 10_005));
        assert_eq!(found.len() as u64, count - 1_000);
        assert_eq!(found.last(), Some(&(10 * count - 9, 10 * count - 5)));
        let again: Vec<_> = set.intervals().collect();
        assert_eq!(found, again);
    }
}
