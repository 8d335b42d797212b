//! Waits for a GPU that lasted until the end, and the kernels that had not ended.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{LONG_NS, Stuck};
use crate::measure::{PROCESS_COLUMNS, process_cells};
use crate::program::code_place::place_text;
use crate::table::{Cell, Column, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{
    Activity, Basis, GpuRecord, HostKind, HostSlice, Model, OpKind, ProcessId, Sample, StackId,
    StreamOrder, TextId, ThreadId, classify, waits_for,
};

/// A wait is reported if it is longer by this factor than what was submitted has ever taken.
const TIMES_LONGEST: u64 = 3;
/// Assumed duration of a kernel whose name has no completed dispatch.
const UNSEEN_NS: u64 = 10_000_000;
/// The shortest wait that is reported where no kernel is known that had not ended.
const LONG_WITHOUT_KERNEL_NS: u64 = 10_000_000_000;
/// With at least this many unfinished dispatches nothing is reported. HIP reports completions when the program synchronizes, so a healthy
/// process with a long queue looks the same.
const QUEUED: usize = 4_096;
/// The most stacks of calls kept, which come at the end of a trace for calls that were open.
const CALL_STACKS: usize = 256;
/// Resolution of the start times of launches, in nanoseconds.
const STEP_NS: u64 = 64;

/// What is kept of a process.
#[derive(Debug, Default)]
pub(super) struct GpuState {
    /// Calls of the runtime that were open when the trace ended.
    open: Vec<HostSlice>,
    /// Kernels that had not ended: thread, launch, and the launching stack with the kernel.
    unended: Vec<Sample>,
    /// Captures for graphs that have begun: when, by thread and stream.
    capturing: HashMap<(ThreadId, u64), u64>,
    /// Between these times the launches of a thread were captured for a graph.
    captures: Vec<(ThreadId, u64, u64)>,
    /// The latest calls whose stacks are known: thread, begin, stack.
    stacks: VecDeque<(ThreadId, u64, StackId)>,
    longest_ns: u64,
}

impl GpuState {
    pub(super) fn call(&mut self, slice: &HostSlice) {
        if slice.is_open {
            self.open.push(*slice);
        }
        let (begins, ends) = match slice.order {
            StreamOrder::BeginCapture => (Some(slice.start_ns), slice.start_ns),
            StreamOrder::EndCapture => (None, slice.end_ns),
            _ => return,
        };
        // One that is never over has failed, as far as the trace says.
        let key = (slice.thread, slice.stream);
        let begun = match begins {
            Some(start_ns) => self.capturing.insert(key, start_ns),
            None => self.capturing.remove(&key),
        };
        if let Some(start_ns) = begun {
            self.captures.push((slice.thread, start_ns, ends));
        }
    }

    pub(super) fn operation(&mut self, record: &GpuRecord) {
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
        let is_captured = |sample: &&Sample| {
            let time_ns = sample.time_ns.saturating_add(STEP_NS);
            let mut captures = self.captures.iter();
            captures.any(|&(thread, start_ns, end_ns)| {
                thread == sample.thread && (start_ns..end_ns).contains(&time_ns)
            })
        };
        let launched = self.unended.iter();
        let launched = launched.filter(|sample| !is_captured(sample));
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

/// How long kernels take at most, by the indices of their names; `None` if none has ended.
#[derive(Debug, Default)]
pub(super) struct Durations(Vec<Option<u64>>);

impl Durations {
    #[inline]
    pub(super) fn add(&mut self, record: &GpuRecord) {
        if record.kind == OpKind::Kernel {
            let longest = entry(&mut self.0, record.name.index());
            *longest = Some(record.duration_ns()).max(*longest);
        }
    }

    fn longest_ns(&self, kernel: TextId) -> Option<u64> {
        self.0.get(kernel.index()).copied().flatten()
    }

    /// Upper bound of the duration of kernels that run one after the other. Kernels of collectives count once, as the longest of them: they all
    /// wait for the same ranks.
    fn of_all_ns(&self, kernels: &[Kernel], between_ranks: &BTreeSet<TextId>) -> u64 {
        let (mut sum_ns, mut between_ns) = (0_u64, 0);
        for kernel in kernels {
            let longest_ns = self.longest_ns(kernel.name).unwrap_or(UNSEEN_NS);
            match between_ranks.contains(&kernel.name) {
                true => between_ns = longest_ns.max(between_ns),
                false => sum_ns = sum_ns.saturating_add(longest_ns),
            }
        }
        sum_ns.saturating_add(between_ns)
    }
}

/// The names of kernels that wait for other ranks.
fn between_ranks(kernels: &[Kernel], model: &Model) -> BTreeSet<TextId> {
    let mut names: BTreeSet<TextId> = kernels.iter().map(|kernel| kernel.name).collect();
    names.retain(|name| classify(OpKind::Kernel, model.text(*name)) == Activity::Comm);
    names
}

impl Stuck {
    /// Waits for GPUs that lasted until the end, of processes that are not known to wait for other ranks; and whether some do all the same, by their kernels.
    pub(super) fn hung(&self, explained: &BTreeSet<usize>, model: &Model) -> (Table, bool) {
        let columns = [&PROCESS_COLUMNS[..], &HUNG_COLUMNS].concat();
        let mut table = Table::new(
            "never_ended",
            "Waits for a GPU that lasted until the end",
            &columns,
        );
        let mut are_between_ranks = false;
        let processes = self.processes.iter().enumerate();
        for (index, process) in processes.filter(|(index, _)| !explained.contains(index)) {
            let (id, of_gpu) = (ProcessId::new(index), &process.gpu);
            let waits = of_gpu.waits(model);
            if waits.is_empty() || !process.is_seen_to_its_end(id, model) {
                continue;
            }
            let kernels = of_gpu.kernels(model);
            let between_ranks = between_ranks(&kernels, model);
            let least_ns = match kernels.len() {
                0 => LONG_WITHOUT_KERNEL_NS.max(of_gpu.longest_ns.saturating_mul(TIMES_LONGEST)),
                QUEUED.. => continue,
                _ => {
                    let longest_ns = self.durations.of_all_ns(&kernels, &between_ranks);
                    LONG_NS.saturating_add(longest_ns.saturating_mul(TIMES_LONGEST))
                }
            };
            // Dispatches before a collective's kernel may have completed: HIP reports completions when the program synchronizes.
            let mut of_ranks = kernels.iter();
            let of_ranks = of_ranks.find(|kernel| between_ranks.contains(&kernel.name));
            let kernel = of_ranks.or(kernels.first());
            let launched_by = kernel.and_then(|one| place_text(one.launched_by, model));
            let end_ns = process.end_ns(id, model);
            for slice in waits.into_values() {
                // What still ended while the thread waited is not what it waited for at the end.
                let since_ns = slice.start_ns.max(process.progress_ns);
                let waited_ns = end_ns.saturating_sub(since_ns);
                if waited_ns < least_ns {
                    continue;
                }
                are_between_ranks |= of_ranks.is_some();
                let mut cells = process_cells(model, id).to_vec();
                cells.extend::<[Cell; 11]>([
                    model.text(slice.name).into(),
                    waited_ns.into(),
                    model.threads[slice.thread.index()].tid.into(),
                    kernel
                        .map(|one| end_ns.saturating_sub(one.launched_ns))
                        .into(),
                    (kernels.len() as u64).into(),
                    of_ranks.is_some().into(),
                    kernel.map(|one| model.text(one.name)).into(),
                    kernel
                        .and_then(|one| self.durations.longest_ns(one.name))
                        .into(),
                    launched_by.as_deref().into(),
                    of_gpu.place(slice, model).as_deref().into(),
                    since_ns.into(),
                ]);
                table.push(cells);
            }
        }
        (table, are_between_ranks)
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

const HUNG_COLUMNS: [Column; 11] = [
    Column::plain("call", "call"),
    Column::ns("waited_ns", "waited"),
    Column::plain("thread", "thread"),
    Column::ns("launched_before_end_ns", "launched before the end"),
    Column::plain("unended", "kernels not ended"),
    Column::plain("between_ranks", "between ranks"),
    Column::line("kernel", "the first of them"),
    Column::ns("longest_ended_ns", "longest that ended"),
    Column::line("launch_place", "launched at"),
    Column::line("place", "waited for at"),
    Column::ns("since_ns", ""),
];
