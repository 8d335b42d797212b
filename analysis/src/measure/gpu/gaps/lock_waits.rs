//! Waits of threads for locks: those that were recorded, and those for the lock of a Python interpreter that were seen from outside.

use crate::containers::packed_rows::{PackedRows, Row};
use rsys_traces::model::{LockWait, TextId};

/// How long after a wait the next sample of a thread may still show where it was during the wait.
pub(super) const STILL_NS: u64 = 50_000_000;

/// A wait of a thread for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The thread that held the lock, 0 if that is not known, and its place, if that was recorded.
    pub(super) holder_tid: u32,
    pub(super) holder: TextId,
    /// Whether it was seen from outside.
    pub(super) is_sampled: bool,
    /// The function that it waits in; `None` if it waits for the interpreter's lock.
    pub(super) function: Option<TextId>,
}

/// The waits of one thread for locks.
#[derive(Debug, Default)]
pub(super) struct LockWaits {
    rows: PackedRows<6>,
    /// Whether waits for the interpreter's lock were recorded.
    has_recorded: bool,
}

impl LockWaits {
    pub(super) fn add(&mut self, wait: &LockWait) {
        self.has_recorded |= wait.is_interpreter && !wait.is_sampled;
        self.rows.push([
            wait.start_ns,
            wait.end_ns - wait.start_ns,
            u64::from(wait.holder_tid),
            wait.holder.index() as u64,
            u64::from(wait.is_sampled),
            match wait.is_interpreter {
                true => 0,
                false => wait.function.index() as u64 + 1,
            },
        ]);
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Brings them into the order of time, without those that end before an earlier one. Of a thread whose waits for the interpreter's lock were recorded, what was seen of
    /// these from outside says nothing more.
    pub(super) fn sort(&mut self) {
        let has_recorded = self.has_recorded;
        let mut last_ns = 0;
        self.rows.settle(|row| {
            let end_ns = row[0] + row[1];
            let stays = (!has_recorded || row[4] == 0) && end_ns > last_ns;
            if stays {
                last_ns = end_ns;
            }
            stays
        });
    }

    /// Begin and end of each, in order.
    pub(super) fn times(&self) -> impl Iterator<Item = (u64, u64)> {
        self.rows.iter().map(|row| (row[0], row[0] + row[1]))
    }

    /// Keeps those of which `stays` says so, by begin and end.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(u64, u64) -> bool) {
        self.rows.settle(|row| stays(row[0], row[0] + row[1]));
    }

    /// Those that overlap an interval, in order: a thread waits for one lock at a time.
    pub(super) fn overlapping(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = Waited> {
        let first = self.rows.partition_point(|row| row[0] + row[1] <= start_ns);
        (first..)
            .map_while(|place| self.rows.get(place))
            .map(
                |[
                    start_ns,
                    duration_ns,
                    holder_tid,
                    holder,
                    is_sampled,
                    function,
                ]: Row<6>| Waited {
                    start_ns,
                    end_ns: start_ns + duration_ns,
                    holder_tid: holder_tid as u32,
                    holder: TextId::at(holder as usize),
                    is_sampled: is_sampled != 0,
                    function: function
                        .checked_sub(1)
                        .map(|index| TextId::at(index as usize)),
                },
            )
            .take_while(move |wait| wait.start_ns < end_ns)
    }
}
