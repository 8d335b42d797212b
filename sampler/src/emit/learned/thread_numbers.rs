//! The numbers of threads: in each process they are counted in the order in which they start.

use std::collections::HashMap;

use rsys_wire::record::{Kind, Record, Records};

use crate::emit::batch::RingWords;

/// The numbers of the threads of a process.
#[derive(Debug)]
pub struct ThreadNumbers {
    /// Threads by id and time of start: an id may be used again within a batch.
    announced: HashMap<(u32, u64), u32>,
    /// The last thread with each id.
    current: HashMap<u32, u32>,
    next: u32,
}

impl ThreadNumbers {
    /// The first thread is the one with the id of the process.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        Self {
            announced: HashMap::new(),
            current: HashMap::from([(pid, 0)]),
            next: 1,
        }
    }

    /// Takes in the starts of a batch.
    pub fn announce<'a>(&mut self, pid: u32, rings: impl Iterator<Item = &'a RingWords>) {
        let starts = rings
            .flat_map(|ring| Records::of_kinds(&ring.words, &[Kind::ThreadStart]))
            .filter_map(|record| match record {
                Ok(Record::ThreadStart { time_ns, tid, .. }) => Some((time_ns, tid)),
                _ => None,
            });
        self.announce_starts(pid, starts.collect());
    }

    /// Rings are read one after another: the order is that of the times.
    fn announce_starts(&mut self, pid: u32, mut starts: Vec<(u64, u32)>) {
        starts.sort_unstable();
        for (time_ns, tid) in starts {
            // The first thread's id is not used again while the process lives.
            let number = if tid == pid { 0 } else { self.next };
            self.next += u32::from(tid != pid);
            self.announced.insert((tid, time_ns), number);
        }
    }

    /// A thread starts. Returns its number.
    pub fn start(&mut self, tid: u32, time_ns: u64) -> u32 {
        let number = self.announced.remove(&(tid, time_ns)).unwrap_or(u32::MAX);
        self.current.insert(tid, number);
        number
    }

    /// The number of the thread that has this id now, if it is known.
    #[must_use]
    pub fn of(&self, tid: u32) -> Option<u32> {
        self.current.get(&tid).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_in_the_order_of_their_starts() {
        let mut numbers = ThreadNumbers::new(10);
        assert_eq!(numbers.of(10), Some(0));
        numbers.announce_starts(10, vec![(5, 12), (9, 11), (1, 10), (3, 11)]);
        assert_eq!(numbers.start(10, 1), 0);
        assert_eq!(numbers.start(11, 3), 1);
        assert_eq!(numbers.start(12, 5), 2);
        assert_eq!(
            numbers.start(11, 9),
            3,
            "an id that is used again is another thread"
        );
        assert_eq!((numbers.of(11), numbers.of(13)), (Some(3), None));
    }
}
