//! Waits for a GPU that lasted until the end, and the kernels that had not ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{LONG_NS, Stuck};
use crate::measure::code_place::place_text;
use crate::measure::{PROCESS_COLUMNS, entry, process_cells};
use crate::model::{
    Activity, Basis, DeviceId, GpuRecord, HostKind, HostSlice, Model, OpKind, ProcessId, Sample,
    StackId, StreamOrder, TextId, ThreadId, waits_for,
};
use crate::table::{Cell, Column, Table};

/// A wait is reported if it is longer by this factor than what was submitted takes as a rule.
const TIMES_USUAL: u64 = 3;
/// So long a kernel takes that has never ended before.
const UNSEEN_NS: u64 = 10_000_000;
/// The shortest wait that is reported where no kernel is known that had not ended.
const LONG_WITHOUT_KERNEL_NS: u64 = 10_000_000_000;
/// Where so many kernels were submitted, they may well be on their way: HIP tells of them when the program has waited.
const QUEUED: usize = 4_096;
/// The most stacks of calls kept, which come at the end of a trace for calls that were open.
const CALL_STACKS: usize = 256;
/// Launches are known to so many nanoseconds.
const STEP_NS: u64 = 64;

/// What is kept of a process.
#[derive(Debug, Default)]
pub(super) struct OfGpu {
    /// Calls of the runtime that were open when the trace ended.
    open: Vec<HostSlice>,
    /// Kernels that had not ended: thread, launch, and the launching stack with the kernel.
    unended: Vec<Sample>,
    /// Between these times kernels were not launched, but captured for a graph.
    captures: Vec<(u64, u64)>,
    /// The latest calls whose stacks are known: thread, begin, stack.
    stacks: VecDeque<(ThreadId, u64, StackId)>,
    devices: Vec<DeviceId>,
    longest_ns: u64,
}

impl OfGpu {
    pub(super) fn call(&mut self, slice: &HostSlice) {
        if slice.is_open {
            self.open.push(*slice);
        }
        match slice.order {
            StreamOrder::BeginCapture => self.captures.push((slice.start_ns, u64::MAX)),
            StreamOrder::EndCapture => {
                if let Some((_, end_ns)) = self.captures.last_mut() {
                    *end_ns = slice.end_ns.min(*end_ns);
                }
            }
            _ => {}
        }
    }

    pub(super) fn operation(&mut self, record: &GpuRecord) {
        if self.devices.last() != Some(&record.device) && !self.devices.contains(&record.device) {
            self.devices.push(record.device);
        }
        // Those between ranks take as long as the ranks are apart.
        if record.activity != Activity::Comm {
            self.longest_ns = self.longest_ns.max(record.duration_ns());
        }
    }

    pub(super) fn sample(&mut self, sample: &Sample) {
        match sample.basis {
            Basis::GpuTime if sample.weight == 0 => self.unended.push(*sample),
            Basis::CallTime => {
                if self.stacks.len() == CALL_STACKS {
                    self.stacks.pop_front();
                }
                self.stacks
                    .push_back((sample.thread, sample.time_ns, sample.stack));
            }
            _ => {}
        }
    }

    /// Kernels that were launched and had not ended, oldest first, with the stacks that launched them.
    fn kernels(&self, model: &Model) -> Vec<Kernel> {
        let is_captured = |time_ns: u64| {
            let mut captures = self.captures.iter();
            captures.any(|(start_ns, end_ns)| (*start_ns..*end_ns).contains(&(time_ns + STEP_NS)))
        };
        let launched = self.unended.iter();
        let launched = launched.filter(|sample| !is_captured(sample.time_ns));
        let mut kernels: Vec<Kernel> = launched
            .filter_map(|sample| {
                let (frame, launched_by) = model.stacks.split(sample.stack)?;
                Some(Kernel {
                    name: frame.function,
                    launched_by,
                    launched_ns: sample.time_ns,
                })
            })
            .collect();
        kernels.sort_by_key(|kernel| kernel.launched_ns);
        kernels
    }

    /// The outermost call of each thread that waits for a GPU and was open at the end.
    fn waits(&self, model: &Model) -> BTreeMap<ThreadId, &HostSlice> {
        let mut waits: BTreeMap<ThreadId, &HostSlice> = BTreeMap::new();
        let open = self.open.iter();
        for slice in open.filter(|slice| waits_for(model.text(slice.name)).is_some()) {
            let known = waits.entry(slice.thread).or_insert(slice);
            if slice.start_ns < known.start_ns {
                *known = slice;
            }
        }
        waits
    }

    fn place(&self, slice: &HostSlice, model: &Model) -> Option<String> {
        let mut stacks = self.stacks.iter().rev();
        let of_slice = |known: &&(ThreadId, u64, StackId)| {
            (known.0, known.1) == (slice.thread, slice.start_ns)
        };
        let (.., stack) = stacks.find(of_slice)?;
        place_text(*stack, model)
    }
}

/// A kernel that had not ended.
struct Kernel {
    name: TextId,
    launched_by: StackId,
    launched_ns: u64,
}

/// How long kernels take, by their names.
#[derive(Debug, Default)]
pub(super) struct Durations {
    /// Count and sum, by the index of the name.
    of: Vec<(u64, u64)>,
}
impl Durations {
    #[inline]
    pub(super) fn add(&mut self, record: &GpuRecord) {
        if record.kind == OpKind::Kernel {
            let (count, sum_ns) = entry(&mut self.of, record.name.index());
            *count += 1;
            *sum_ns = sum_ns.saturating_add(record.duration_ns());
        }
    }

    /// How long it takes as a rule.
    fn usual_ns(&self, kernel: TextId) -> u64 {
        let known = self.of.get(kernel.index());
        let mean = known.and_then(|(count, sum_ns)| sum_ns.checked_div(*count));
        mean.unwrap_or(UNSEEN_NS)
    }
}

impl Stuck {
    /// Waits for GPUs that lasted until the end, of processes that do not wait for other ranks.
    pub(super) fn hung(&self, explained: &BTreeSet<usize>, model: &Model) -> Table {
        let columns = [&PROCESS_COLUMNS[..], &HUNG_COLUMNS].concat();
        let mut table = Table::new(
            "never_ended",
            "Waits for a GPU that lasted until the end",
            &columns,
        );
        let processes = self.processes.iter().enumerate();
        for (index, process) in processes.filter(|(index, _)| !explained.contains(index)) {
            let (id, of_gpu) = (ProcessId::new(index), &process.gpu);
            let waits = of_gpu.waits(model);
            if waits.is_empty() || !process.is_seen_to_its_end(id, model) {
                continue;
            }
            let kernels = of_gpu.kernels(model);
            let least_ns = match kernels.len() {
                0 => LONG_WITHOUT_KERNEL_NS.max(TIMES_USUAL * of_gpu.longest_ns),
                QUEUED.. => continue,
                _ => {
                    let usual = kernels.iter();
                    let usual = usual.map(|kernel| self.durations.usual_ns(kernel.name));
                    LONG_NS + TIMES_USUAL * usual.sum::<u64>()
                }
            };
            let end_ns = process.end_ns(id, model);
            for slice in waits.into_values() {
                // What still ended while the thread waited is not what it waited for at the end.
                let since_ns = slice.start_ns.max(process.progress_ns);
                let waited_ns = end_ns.saturating_sub(since_ns);
                if waited_ns < least_ns {
                    continue;
                }
                let kernel = kernels.first();
                let launched_by = kernel.and_then(|one| place_text(one.launched_by, model));
                let device = match of_gpu.devices[..] {
                    [device] => Some(u64::from(model.device(device).ordinal)),
                    _ => None,
                };
                let mut cells = process_cells(model, id).to_vec();
                cells.extend::<[Cell; 10]>([
                    model.text(slice.name).into(),
                    waited_ns.into(),
                    model.threads[slice.thread.index()].tid.into(),
                    device.into(),
                    kernel
                        .map(|one| end_ns.saturating_sub(one.launched_ns))
                        .into(),
                    (kernels.len() as u64).into(),
                    kernel.map(|one| model.text(one.name)).into(),
                    launched_by.as_deref().into(),
                    of_gpu.place(slice, model).as_deref().into(),
                    since_ns.into(),
                ]);
                table.push(cells);
            }
        }
        table
    }
}

/// Whether a call may be one that is kept.
pub(super) fn is_of_gpu(slice: &HostSlice) -> bool {
    slice.kind == HostKind::Runtime
        && (slice.is_open
            || matches!(
                slice.order,
                StreamOrder::BeginCapture | StreamOrder::EndCapture
            ))
        && slice.thread.index() != HostSlice::NO_THREAD
}

const HUNG_COLUMNS: [Column; 10] = [
    Column::plain("call", "call"),
    Column::ns("waited_ns", "waited"),
    Column::plain("thread", "thread"),
    Column::plain("device", "GPU"),
    Column::ns("launched_ns", "launched before the end"),
    Column::plain("unended", "kernels not ended"),
    Column::line("kernel", "the first of them"),
    Column::line("launch_place", "launched at"),
    Column::line("place", "waited for at"),
    Column::ns("since_ns", ""),
];
