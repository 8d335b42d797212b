//! The times in which a GPU worked without a break, and the operation with which each begins.

use crate::containers::packed_rows::{PackedRows, Row};
use rsys_traces::model::{DeviceId, GpuRecord, ProcessId, QueueId, TextId};

/// A stretch of work, and the operation that began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) start_ns: u64,
    /// See [`GpuRecord::link`]. Of operations that begin together one with a call comes first; ids of the others depend on the order of the file.
    pub(crate) link: u64,
    pub(super) queue: QueueId,
    pub(super) name: TextId,
    /// Last: of operations that begin together the same one begins the stretch, however far it was united with others before.
    pub(crate) end_ns: u64,
}

impl Stretch {
    fn row(&self) -> Row<5> {
        let (queue, name) = (self.queue.index() as u64, self.name.index() as u64);
        [
            self.start_ns,
            self.link.wrapping_sub(1),
            queue,
            name,
            self.end_ns,
        ]
    }

    fn of([start_ns, link, queue, name, end_ns]: Row<5>) -> Self {
        Self {
            start_ns,
            end_ns,
            queue: QueueId::new(queue as usize),
            name: TextId::at(name as usize),
            link: link.wrapping_add(1),
        }
    }
}

/// The stretches of one GPU, in no order until [`Stretches::sort`]: some ten bytes for each, three once the idle time behind it is explained.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    /// Those that came last.
    recent: Vec<Stretch>,
    packed: PackedRows<5>,
    process: Option<ProcessId>,
    /// What its process did before this was discarded in part before anything was known of the GPU.
    pub(super) known_from_ns: u64,
    settled: Option<Settled>,
    /// The ends of the stretches of which one was made.
    ends: PackedRows<1>,
}

/// The idle times that were explained already: of the stretches around them one was made.
#[derive(Debug, Clone, Copy)]
struct Settled {
    /// The first of all.
    first: Stretch,
    /// The begin of the last.
    until_ns: u64,
    /// The idle times between them.
    idle_ns: u64,
    /// Operations that were reported later.
    late: u64,
}

/// So many are united before they are packed.
const RECENT: usize = 1 << 14;

impl Stretches {
    /// Adds an operation. One without duration begins a stretch as well: it ends an idle time like any other.
    #[inline]
    pub(crate) fn add(&mut self, record: &GpuRecord) {
        self.process = Some(record.process);
        if let Some(settled) = &mut self.settled {
            settled.late += u64::from(record.start_ns < settled.until_ns);
        }
        if let Some(last) = self.recent.last_mut()
            && last.start_ns < record.start_ns
            && record.start_ns <= last.end_ns
        {
            last.end_ns = last.end_ns.max(record.end_ns);
            return;
        }
        self.recent.push(Stretch {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            queue: record.queue,
            name: record.name,
            link: record.link,
        });
        if self.recent.len() == RECENT {
            self.pack(RECENT / 2);
        }
    }

    /// Unites those that came last where they overlap or touch, and packs all but the last `left` of them.
    fn pack(&mut self, left: usize) {
        self.recent.sort_unstable_by_key(Stretch::row);
        self.recent.dedup_by(|later, earlier| {
            let touches = later.start_ns <= earlier.end_ns;
            if touches {
                earlier.end_ns = earlier.end_ns.max(later.end_ns);
            }
            touches
        });
        let count = self.recent.len().saturating_sub(left);
        let packed = self.recent.drain(..count);
        packed.for_each(|one| self.packed.push(one.row()));
    }

    /// Whose GPU it is, once there is an operation.
    pub(super) fn process(&self) -> Option<ProcessId> {
        self.process
    }

    /// Brings the stretches into order; no two touch then. The order of arrival does not count.
    pub(crate) fn sort(&mut self) {
        self.pack(0);
        self.ends.sort();
        self.packed.unite(|before, row| {
            let touches = row[0] <= before[4];
            if touches {
                before[4] = before[4].max(row[4]);
            }
            touches
        });
    }

    /// Once sorted: all stretches.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Stretch> {
        self.packed.iter().map(Stretch::of)
    }

    /// Once sorted: shows the idle times that end by a time, each with its begin and the stretch behind it, and makes one stretch of all around them.
    pub(super) fn settle(&mut self, until_ns: u64, mut idle: impl FnMut(u64, &Stretch)) {
        let Some(first) = self.first() else { return };
        let settled = self.settled.get_or_insert(Settled {
            first,
            until_ns: 0,
            idle_ns: 0,
            late: 0,
        });
        let ends = &mut self.ends;
        self.packed.unite(|before, row| {
            let goes = row[0] <= until_ns;
            if goes {
                idle(before[4], &Stretch::of(*row));
                settled.idle_ns += row[0] - before[4];
                settled.until_ns = row[0];
                ends.push([before[4]]);
                *before = [before[0], row[1], row[2], row[3], row[4]];
            }
            goes
        });
    }

    /// The idle times that were explained already, together.
    pub(super) fn settled_idle_ns(&self) -> u64 {
        self.settled.map_or(0, |settled| settled.idle_ns)
    }

    /// How many operations were reported when the idle times around them had been explained.
    pub(super) fn late(&self) -> u64 {
        self.settled.map_or(0, |settled| settled.late)
    }

    /// Once sorted: the first stretch.
    pub(crate) fn first(&self) -> Option<Stretch> {
        let first = self.packed.get(0).map(Stretch::of)?;
        let settled = self.settled.map(|settled| settled.first);
        Some(settled.map_or(first, |settled| {
            std::cmp::min_by_key(settled, first, Stretch::row)
        }))
    }

    /// Once sorted: the last stretch.
    pub(super) fn last(&self) -> Option<Stretch> {
        let last = self.packed.len().checked_sub(1)?;
        self.packed.get(last).map(Stretch::of)
    }

    /// Once sorted: the end of the last stretch that had ended at a time.
    pub(super) fn ended_by(&self, time_ns: u64) -> Option<u64> {
        let behind = self.packed.partition_point(|row| row[4] <= time_ns);
        match behind.checked_sub(1) {
            Some(last) => Some(self.packed.get(last)?[4]),
            None => {
                let behind = self.ends.partition_point(|row| row[0] <= time_ns);
                Some(self.ends.get(behind.checked_sub(1)?)?[0])
            }
        }
    }
}

/// Barrier packets that a GPU was held up by: those that took long. In no order until [`Barriers::sort`].
#[derive(Debug, Default)]
pub(super) struct Barriers {
    /// GPU and end.
    list: Vec<(DeviceId, u64)>,
}

impl Barriers {
    /// Shorter ones hold up nothing.
    const LEAST_NS: u64 = 50_000;

    pub(super) fn add(&mut self, record: &GpuRecord) {
        if record.duration_ns() >= Self::LEAST_NS {
            self.list.push((record.device, record.end_ns));
        }
    }

    pub(super) fn sort(&mut self) {
        self.list.sort_unstable();
    }

    /// Forgets those of a GPU that ended so long before a time that nothing behind it waited for them.
    pub(super) fn discard(&mut self, device: DeviceId, until_ns: u64, within_ns: u64) {
        let until_ns = until_ns.saturating_sub(within_ns);
        self.list
            .retain(|&(of, end_ns)| of != device || end_ns >= until_ns);
    }

    /// Whether one of a GPU ended at a time or up to `within_ns` before.
    pub(super) fn ended_within(&self, device: DeviceId, time_ns: u64, within_ns: u64) -> bool {
        let behind = self.list.partition_point(|one| *one <= (device, time_ns));
        let last = behind.checked_sub(1).and_then(|last| self.list.get(last));
        last.is_some_and(|(of, end_ns)| *of == device && time_ns - end_ns <= within_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_operation_begins_a_stretch_in_whatever_order_they_came() {
        let operation = |(start_ns, end_ns, link)| GpuRecord {
            start_ns,
            end_ns,
            link,
            ..GpuRecord::default()
        };
        let operations = [(6, 40, 1), (5, 6, 2), (5, 6, 3), (50, 60, 4)].map(operation);
        for order in [[0, 1, 2, 3], [2, 1, 0, 3], [3, 2, 0, 1], [1, 3, 2, 0]] {
            for is_sorted_between in [false, true] {
                let mut stretches = Stretches::default();
                for place in order {
                    stretches.add(&operations[place]);
                    if is_sorted_between {
                        stretches.sort();
                    }
                }
                stretches.sort();
                let found: Vec<_> = stretches
                    .iter()
                    .map(|one| (one.start_ns, one.end_ns, one.link))
                    .collect();
                assert_eq!(found, [(5, 40, 2), (50, 60, 4)], "{order:?}");
                let ended: Vec<_> = [4, 39, 40, 99]
                    .map(|at_ns| stretches.ended_by(at_ns))
                    .to_vec();
                assert_eq!(ended, [None, None, Some(40), Some(60)]);
            }
        }
    }
}
