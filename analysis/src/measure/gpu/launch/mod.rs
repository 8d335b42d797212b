//! Who launched the work of the GPUs, and how long it waited.
//!
//! | file | holds |
//! |---|---|
//! | `stacks` | the time of kernels under the stacks that launched them, and CPU time: operators, functions, a tree |
//! | `ledger`, `tree` | inclusive and exclusive times |
//! | `join` | which call caused which operation |
//! | `contexts` | ranges, operators and functions that were open at a launch |
//! | `graphs` | launches of graphs, which are one each |
//! | `delays`, `depth` | how long launches waited, and how many at once |
//! | `report` | the tables |
//!
//! The sum of all exclusive times is the sum of the durations of all kernels: what has no stack, no operator, no range or no call is a
//! row of its own.

pub(super) mod contexts;
mod delays;
mod depth;
mod graphs;
pub(super) mod join;
mod ledger;
mod report;
mod stacks;
mod tree;

use std::collections::BTreeMap;

use self::contexts::Contexts;
use self::delays::{Delays, submitted_ns};
use self::depth::Depth;
use self::graphs::Graphs;
use self::join::{Call, Join, Operation};
use self::ledger::{Ledger, Time};
use self::report::Report;
use self::stacks::{HostTimes, OperatorTimes, StackTimes};
use crate::containers::id_map::IdMap;
use crate::measure::Measure;
use crate::table::Answer;
use rsys_traces::model::entry;
use rsys_traces::model::{
    Activity, Basis, Batch, Effect, HostKind, Kinds, Model, OpKind, ProcessId, TextId,
};

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Launch {
    /// Whether recorded operators are told apart by what they were called with.
    by_shapes: bool,
    /// Kernels by the stacks that launched them.
    gpu_stacks: StackTimes,
    cpu_stacks: StackTimes,
    processes: Vec<ProcessKernels>,
    joins: Vec<Join>,
    launches: Launches,
}

/// The kernels of a process.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessKernels {
    /// All of them.
    kernels: Time,
    /// Those that are there as samples as well.
    sampled: Time,
}

/// A copy or a fill, with the operator that it was launched in and the shapes of that.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moved {
    operator: Option<(String, String)>,
    framework: &'static str,
    operation: String,
}

/// What is known of operations whose call is known, and of those whose call will never be.
#[derive(Debug, Default)]
struct Launches {
    delays: IdMap<TextId, Delays>,
    /// By GPU.
    depths: Vec<Depth>,
    /// The time of kernels by the call that launched them.
    calls: IdMap<Option<TextId>, Time>,
    contexts: Contexts,
    graphs: Graphs,
}

impl Launches {
    fn add(&mut self, operation: &Operation, call: Option<Call>) {
        self.delays
            .entry(operation.name)
            .or_default()
            .add(operation, call);
        if let Some(call) = call.filter(|call| call.is_graph) {
            self.graphs.node(operation, call);
        } else if let Some(call) = call {
            let depth = entry(&mut self.depths, operation.device.index());
            depth.add(
                submitted_ns(operation, call),
                operation.start_ns,
                operation.end_ns,
            );
            // Kernels of the runtime copy and fill, which calls wait for anyway.
            if operation.kind == OpKind::Kernel
                && matches!(operation.activity, Activity::Compute | Activity::Comm)
            {
                let ran_ns = (operation.start_ns, operation.end_ns);
                depth.held.add(ran_ns, (call.start_ns, call.end_ns));
            }
        }
        if operation.kind == OpKind::Kernel {
            let time = self.calls.entry(call.map(|call| call.name)).or_default();
            time.add(operation.duration_ns());
        }
        if let Some(call) = call {
            self.contexts.launch(operation, call);
        }
    }
}

impl Measure for Launch {
    fn needs(&self) -> Kinds {
        Kinds {
            shapes: self.by_shapes,
            ..Kinds::GPU_HOST_AND_SAMPLES
        }
    }

    fn take(&mut self, batch: &Batch) {
        let launches = &mut self.launches;
        for slice in &batch.host {
            launches.contexts.slice(slice);
            if slice.effect == Effect::LaunchesGraph {
                launches.graphs.call();
            }
            let is_call = matches!(slice.kind, HostKind::Runtime | HostKind::Hsa);
            if is_call && slice.link != 0 {
                let join = entry(&mut self.joins, slice.process.index());
                join.call(slice, |operation, call| {
                    launches.add(&operation, Some(call))
                });
            }
        }
        for record in &batch.gpu {
            if record.kind == OpKind::Other {
                continue;
            }
            if record.kind == OpKind::Kernel {
                let of_process = entry(&mut self.processes, record.process.index());
                of_process.kernels.add(record.duration_ns());
            }
            let join = entry(&mut self.joins, record.process.index());
            join.operation(record, |operation, call| launches.add(&operation, call));
        }
        for sample in &batch.samples {
            match sample.basis {
                Basis::CpuTime => self.cpu_stacks.add(sample.stack, sample.weight),
                // Those without time are kernels that never ended.
                Basis::GpuTime if sample.weight == 0 => {}
                Basis::GpuTime => {
                    self.gpu_stacks.add(sample.stack, sample.weight);
                    let of_process = entry(&mut self.processes, sample.process.index());
                    of_process.sampled.add(sample.weight);
                }
                Basis::WaitTime | Basis::CallTime | Basis::Event => {}
            }
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        for join in &mut self.joins {
            for operation in join.rest() {
                self.launches.add(&operation, None);
            }
        }
        let mut cpu = OperatorTimes::default();
        for (stack, time) in self.cpu_stacks.of(model) {
            cpu.charge_stack(model, stack, time);
        }
        let gpu = self.host_times(model);
        let moves = self.moves(model);
        let ranges = self.ranges();
        let total = self.total();
        let Launches {
            delays,
            depths,
            calls,
            contexts,
            graphs,
        } = &mut self.launches;
        let of_graphs = graphs.by_call(depths);
        let mut report = Report::new(model, total, self.by_shapes);
        report.host_times(&gpu);
        if let Some(ranges) = &ranges {
            report.ranges(ranges);
        }
        report.moves(moves);
        report.calls(calls);
        report.graphs(&of_graphs, graphs.without_nodes());
        report.delays(delays, &of_graphs);
        report.depths(depths);
        report.cpu_operators(&cpu);
        report.left_out(contexts.left_out);
        let surplus = self.processes.iter();
        let surplus = surplus
            .map(|of| of.sampled.without(of.kernels).total_ns)
            .sum();
        report.surplus(surplus);
        report.answer()
    }
}

impl Launch {
    /// The question; `by_shapes` tells recorded operators apart by the types and dimensions of their arguments.
    #[must_use]
    pub fn new(by_shapes: bool) -> Self {
        Self {
            by_shapes,
            ..Self::default()
        }
    }

    /// All kernels: those that are only there as samples too.
    fn total(&self) -> Time {
        let mut total = Time::default();
        for of_process in &self.processes {
            total.plus(of_process.sampled);
            total.plus(of_process.kernels.without(of_process.sampled));
        }
        total
    }

    /// The time of kernels by what launched them: by their stacks, and in traces without by the operators and functions that were recorded.
    fn host_times(&mut self, model: &Model) -> HostTimes {
        let mut times = HostTimes::default();
        for (stack, time) in self.gpu_stacks.of(model) {
            times.charge_kernel(model, stack, time);
        }
        let mut charged = vec![Time::default(); self.processes.len()];
        let processes = &self.processes;
        let has_samples = |id: ProcessId| {
            processes
                .get(id.index())
                .is_some_and(|of| of.sampled.count > 0)
        };
        self.launches.contexts.each_in_recorded(|launched| {
            let Some(thread) = model.threads.get(launched.thread.index()) else {
                return;
            };
            let process = thread.process;
            if !has_samples(process) {
                entry(&mut charged, process.index()).plus(launched.time);
                times.charge_recorded(model, &launched);
            }
        });
        for (of_process, charged) in self.processes.iter().zip(charged) {
            let rest = of_process.kernels.without(of_process.sampled);
            times.charge_none(rest.without(charged));
        }
        times
    }

    /// Copies and fills by the innermost operator in which they were launched and their names, if operators were recorded.
    fn moves(&mut self, model: &Model) -> BTreeMap<Moved, Time> {
        let mut moves: BTreeMap<Moved, Time> = BTreeMap::new();
        let mut has_operators = false;
        self.launches.contexts.each_moved(|launched| {
            let operator = launched.scopes.iter().find(|scope| scope.is_operator);
            has_operators |= operator.is_some();
            let process = model.threads.get(launched.thread.index());
            let framework = process.map(|thread| model.process(thread.process).framework);
            let moved = Moved {
                operator: operator.map(|scope| {
                    let shapes = model.text(scope.shapes).to_owned();
                    (model.text(scope.name).to_owned(), shapes)
                }),
                framework: framework.unwrap_or_default().name(),
                operation: model.text(launched.kernel).to_owned(),
            };
            moves.entry(moved).or_default().plus(launched.time);
        });
        if has_operators {
            moves
        } else {
            BTreeMap::new()
        }
    }

    /// The time of kernels by range: `None` if there are no ranges. The empty name stands for none, and no name for launches that are unknown.
    fn ranges(&mut self) -> Option<Ledger<Option<TextId>>> {
        let total = self.total();
        let contexts = &mut self.launches.contexts;
        if !contexts.has_ranges() {
            return None;
        }
        let mut ranges = Ledger::default();
        contexts.each_in_ranges(|launched| {
            let names = launched.scopes.iter().map(|range| Some(range.name));
            let names: Vec<Option<TextId>> = names.collect();
            ranges.charge(&names, Some(TextId::EMPTY), launched.time);
        });
        let rest = total.without(ranges.total());
        if rest != Time::default() {
            ranges.charge(&[], None, rest);
        }
        Some(ranges)
    }
}
