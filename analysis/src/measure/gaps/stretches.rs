//! The times in which a GPU worked without a break, and the operation with which each begins.

use crate::model::{DeviceId, GpuRecord, ProcessId, QueueId, TextId};

/// A stretch of work, and the operation that began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) queue: QueueId,
    pub(super) name: TextId,
    /// See [`GpuRecord::link`].
    pub(super) link: u64,
}

/// The stretches of one GPU, in no order until [`Stretches::sorted`].
#[derive(Debug, Default)]
pub(super) struct Stretches {
    list: Vec<Stretch>,
    process: Option<ProcessId>,
    /// What its process did before this was forgotten in part before anything was known of the GPU.
    pub(super) known_from_ns: u64,
    /// They are united when there are this many.
    limit: usize,
}

/// The least number at which they are united.
const LEAST: usize = 1 << 16;

impl Stretches {
    /// Adds an operation. One without duration begins a stretch as well: it ends an idle time like any other.
    #[inline]
    pub(super) fn add(&mut self, record: &GpuRecord) {
        self.process = Some(record.process);
        if let Some(last) = self.list.last_mut()
            && last.start_ns < record.start_ns
            && record.start_ns <= last.end_ns
        {
            last.end_ns = last.end_ns.max(record.end_ns);
            return;
        }
        self.list.push(Stretch {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            queue: record.queue,
            name: record.name,
            link: record.link,
        });
        if self.list.len() >= self.limit.max(LEAST) {
            self.unite();
            self.limit = 2 * self.list.len();
        }
    }

    /// Makes one of those that overlap or touch. The order of arrival does not count.
    fn unite(&mut self) {
        self.list.sort_unstable();
        self.list.dedup_by(|later, earlier| {
            let touches = later.start_ns <= earlier.end_ns;
            if touches {
                earlier.end_ns = earlier.end_ns.max(later.end_ns);
            }
            touches
        });
    }

    /// Whose GPU it is, once there is an operation.
    pub(super) fn process(&self) -> Option<ProcessId> {
        self.process
    }

    /// The stretches in order; no two touch.
    pub(super) fn sorted(&mut self) -> &[Stretch] {
        self.unite();
        &self.list
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

    /// Whether one of a GPU ended at a time or up to `within_ns` before.
    pub(super) fn ended_within(&self, device: DeviceId, time_ns: u64, within_ns: u64) -> bool {
        let behind = self.list.partition_point(|one| *one <= (device, time_ns));
        let last = behind.checked_sub(1).and_then(|last| self.list.get(last));
        last.is_some_and(|(of, end_ns)| *of == device && time_ns - end_ns <= within_ns)
    }
}
