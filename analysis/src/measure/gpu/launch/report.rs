//! The tables.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Moved;
use super::delays::{Delays, EXACT_MAX, Values};
use super::depth::Depth;
use super::graphs::OfCall;
use super::ledger::{ChargedTime, Ledger, Time};
use super::stacks::{FunctionKey, HostTimes, OperatorKey, OperatorTimes};
use super::tree::Node;
use crate::containers::id_map::IdMap;
use crate::measure::{DEVICE_COLUMNS, device_cells, notes};
use crate::program::recorded::CodeName;
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::{Model, TextId};
use rsys_traces::words::counted;

const NO_STACK: &str = "(no call stack)";
const NO_OPERATOR: &str = "(no operator)";

/// Nodes of the tree with less than this part of all time have no rows of their own.
const SMALL_PART: u64 = 1_000;

/// Rows of tables in text.
const ROWS: usize = 20;
const TREE_ROWS: usize = 60;

const TIMES: [Column; 4] = [
    Column::plain("count", "count"),
    Column::ns("inclusive_ns", "inclusive"),
    Column::ns("exclusive_ns", "exclusive"),
    Column::share("exclusive_share", "share"),
];

const DELAYS: [Column; 16] = [
    Column::plain("name", "operation"),
    Column::plain("count", "count"),
    Column::plain("unlinked_count", "no call"),
    Column::ns("unlinked_ns", ""),
    Column::ns("submit_total_ns", ""),
    Column::ns("submit_median_ns", "in call: median"),
    Column::ns("submit_p95_ns", "p95"),
    Column::ns("submit_max_ns", "max"),
    Column::ns("queue_total_ns", ""),
    Column::ns("queue_median_ns", "queued: median"),
    Column::ns("queue_p95_ns", "p95"),
    Column::ns("queue_max_ns", "max"),
    Column::ns("run_total_ns", ""),
    Column::ns("run_median_ns", "ran: median"),
    Column::ns("run_p95_ns", "p95"),
    Column::ns("run_max_ns", "max"),
];

const GRAPHS: [Column; 13] = [
    Column::plain("call", "call"),
    Column::plain("launches", "launches"),
    Column::plain("nodes", "nodes"),
    Column::ns("busy_ns", "nodes ran"),
    Column::ns("call_total_ns", ""),
    Column::ns("call_median_ns", "in call: median"),
    Column::ns("call_max_ns", "max"),
    Column::ns("queue_total_ns", ""),
    Column::ns("queue_median_ns", "to the first node: median"),
    Column::ns("queue_max_ns", "max"),
    Column::ns("span_total_ns", ""),
    Column::ns("span_median_ns", "nodes span: median"),
    Column::ns("span_max_ns", "max"),
];

const DEPTHS: [Column; 9] = [
    Column::plain("operations", "operations"),
    Column::ns("span_ns", "span"),
    Column::plain("mean_depth", "mean depth"),
    Column::plain("max_depth", "max"),
    Column::ns("none_waiting_ns", "none waiting"),
    Column::share("none_waiting_share", "share"),
    Column::plain("long_launches", ""),
    Column::plain("held_launches", ""),
    Column::ns("held_ns", ""),
];

/// An answer that is being written.
pub(super) struct Report<'m> {
    model: &'m Model,
    total: Time,
    by_shapes: bool,
    tables: Vec<Table>,
    notes: Vec<String>,
}

impl<'m> Report<'m> {
    pub(super) fn new(model: &'m Model, total: Time, by_shapes: bool) -> Self {
        Self {
            model,
            total,
            by_shapes,
            tables: Vec::new(),
            notes: notes(model),
        }
    }

    /// Operators, functions and the tree of the time of kernels.
    pub(super) fn host_times(&mut self, times: &HostTimes) {
        if self.total.count == 0 {
            return;
        }
        let title = "GPU time of kernels by operator";
        self.operators("gpu_operators", title, &times.operators);
        let mut table = table(
            "gpu_functions",
            "GPU time of kernels by function that launched them",
            &[
                Column::plain("function", "function"),
                Column::plain("module", "module"),
            ],
        );
        let rows = times.functions.parts().map(|(key, part)| match key {
            FunctionKey::Function(function, module) => {
                let names = [function, module].map(|id| Cell::from(self.model.text(id)));
                (names.to_vec(), part)
            }
            FunctionKey::Recorded(name) => (self.recorded_cells(name), part),
            FunctionKey::NoStack => (vec![NO_STACK.into(), Cell::Null], part),
        });
        fill(&mut table, rows.collect(), times.functions.total());
        self.tables.push(table);
        self.tree(times);
    }

    /// A recorded function, with its source file, and line if that is known, in place of a module.
    fn recorded_cells(&self, name: TextId) -> Vec<Cell> {
        let name = CodeName::of(self.model.text(name));
        let place = match name.line {
            0 => name.source.to_owned(),
            line => format!("{}:{line}", name.source),
        };
        let place = (!place.is_empty()).then_some(place);
        vec![name.function.into(), place.into()]
    }

    fn tree(&mut self, times: &HostTimes) {
        let mut table = table(
            "launch_tree",
            "GPU time of kernels by call stack",
            &[
                Column::plain("depth", "depth"),
                Column::plain("kind", "kind"),
                Column::plain("name", "name"),
            ],
        );
        table.rows_in_text = TREE_ROWS;
        let text = |id: TextId| self.model.text(id).to_owned();
        let least_ns = self.total.total_ns / SMALL_PART;
        for branch in times.tree.branches(least_ns, text) {
            let (kind, name) = match branch.node {
                Node::Function(id) => ("function", text(id)),
                Node::Operator(id, shapes) if shapes.is_empty() => ("operator", text(id)),
                Node::Operator(id, shapes) => {
                    ("operator", format!("{}({})", text(id), text(shapes)))
                }
                Node::Kernel(id) => ("kernel", text(id)),
                Node::NoStack => ("none", NO_STACK.to_owned()),
                Node::NoOperator => ("none", NO_OPERATOR.to_owned()),
                Node::Small => ("small", "(less than 0.1 % each)".to_owned()),
            };
            let mut cells = vec![branch.depth.into(), kind.into(), name.into()];
            let part = ChargedTime {
                inclusive: branch.inclusive,
                exclusive: branch.exclusive,
            };
            cells.extend(time_cells(part, self.total));
            table.push(cells);
        }
        self.tables.push(table);
    }

    /// CPU time by operator, if there is any.
    pub(super) fn cpu_operators(&mut self, times: &OperatorTimes) {
        if times.has_operators() {
            self.operators("cpu_operators", "CPU time by operator", times);
        }
    }

    fn operators(&mut self, key: &'static str, title: &str, times: &OperatorTimes) {
        let mut table = table(
            key,
            title,
            &[
                Column::plain("operator", "operator"),
                Column::plain("framework", "of"),
                Column::plain("shapes", "shapes"),
            ][..if self.by_shapes { 3 } else { 2 }],
        );
        let rows = times.ledger.parts().map(|(key, part)| {
            let shapes = match key {
                OperatorKey::Operator(number) => times.operators.get(number).shapes.as_str(),
                _ => "",
            };
            let shapes = (!shapes.is_empty()).then_some(shapes).map(Cell::from);
            let mut cells = match key {
                OperatorKey::Operator(number) => {
                    let operator = times.operators.get(number);
                    vec![operator.name.as_str().into(), operator.framework.into()]
                }
                OperatorKey::NoOperator => vec![NO_OPERATOR.into(), Cell::Null],
                OperatorKey::NoStack => vec![NO_STACK.into(), Cell::Null],
            };
            if self.by_shapes {
                cells.push(shapes.into());
            }
            (cells, part)
        });
        fill(&mut table, rows.collect(), times.ledger.total());
        self.tables.push(table);
    }

    /// GPU time by range; see `Launch::ranges`.
    pub(super) fn ranges(&mut self, ranges: &Ledger<Option<TextId>>) {
        let mut table = table(
            "launch_ranges",
            "GPU time of kernels by range that they were launched in",
            &[Column::plain("range", "range")],
        );
        let rows = ranges.parts().map(|(name, part)| {
            let name = match name {
                None => "(launch unknown)",
                Some(name) if name.is_empty() => "(no range)",
                Some(name) => self.model.text(name),
            };
            (vec![name.into()], part)
        });
        fill(&mut table, rows.collect(), ranges.total());
        self.tables.push(table);
    }

    /// GPU time by call.
    pub(super) fn calls(&mut self, calls: &IdMap<Option<TextId>, Time>) {
        let mut table = table(
            "launch_calls",
            "GPU time of kernels by call that launched them",
            &[Column::plain("call", "call")],
        );
        let mut total = Time::default();
        calls.values().for_each(|&time| total.plus(time));
        let rows = calls.iter().map(|(name, &time)| {
            let name = name.map_or("(launch unknown)", |name| self.model.text(name));
            let part = ChargedTime {
                inclusive: time,
                exclusive: time,
            };
            (vec![name.into()], part)
        });
        fill(&mut table, rows.collect(), total);
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }

    /// Copies and fills by operator.
    pub(super) fn moves(&mut self, moves: BTreeMap<Moved, Time>) {
        let columns = [
            Column::plain("operator", "operator"),
            Column::plain("of", "of"),
            Column::plain("shapes", if self.by_shapes { "shapes" } else { "" }),
            Column::plain("operation", "copy or fill"),
            Column::plain("count", "count"),
            Column::ns("total_ns", "total"),
        ];
        let title = "Copies and fills by the operator that they were launched in";
        let mut table = Table::new("operator_copies", title, &columns);
        let mut rows: Vec<(Moved, Time)> = moves.into_iter().collect();
        // Of equal times they stay in the order of their names.
        rows.sort_by_key(|(_, time)| Reverse(time.total_ns));
        for (moved, time) in rows {
            let (operator, shapes) = moved.operator.map_or_else(
                || (NO_OPERATOR.to_owned(), String::new()),
                |(name, shapes)| (name, shapes),
            );
            table.push(vec![
                operator.into(),
                moved.framework.into(),
                shapes.into(),
                moved.operation.into(),
                time.count.into(),
                time.total_ns.into(),
            ]);
        }
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }

    /// Launches of graphs by call, and how many ran nothing that was recorded.
    pub(super) fn graphs(&mut self, graphs: &BTreeMap<TextId, OfCall>, without_nodes: u64) {
        let mut table = Table::new(
            "graph_launches",
            "Launches of graphs: in the call, from its end to the first node, from the first node to the end of the last",
            &GRAPHS,
        );
        let mut rows: Vec<(&str, &OfCall)> = graphs
            .iter()
            .map(|(&name, of_call)| (self.model.text(name), of_call))
            .collect();
        rows.sort_by_key(|(name, of_call)| (Reverse(of_call.launches), *name));
        for (name, of_call) in rows {
            let mut cells: Vec<Cell> = vec![
                name.into(),
                of_call.launches.into(),
                of_call.nodes.into(),
                of_call.busy_ns.into(),
            ];
            let delays = &of_call.delays;
            for values in [&delays.submit, &delays.queue, &delays.run] {
                let median_ns = values.quantiles_ns().map(|[median_ns, _]| median_ns);
                cells.extend::<[Cell; 3]>([
                    values.total_ns.into(),
                    median_ns.into(),
                    values.max_ns.into(),
                ]);
            }
            table.push(cells);
        }
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
        if without_nodes > 0 {
            let what = counted(without_nodes, "launch");
            let what = what.replace("launchs", "launches");
            self.notes.push(format!(
                "{what} of graphs without one operation in these traces: what those ran was not recorded, so the GPU may have worked where it seems idle"
            ));
        }
    }

    /// Submission and queue delays. A graph is one launch, in the row of its call.
    pub(super) fn delays(
        &mut self,
        delays: &IdMap<TextId, Delays>,
        graphs: &BTreeMap<TextId, OfCall>,
    ) {
        let mut table = Table::new(
            "launch_delays",
            "From the launch to the end: in the call, queued, ran",
            &DELAYS,
        );
        table.rows_in_text = ROWS;
        let mut rows: Vec<(&str, &Delays)> = delays
            .iter()
            .map(|(&name, delays)| (self.model.text(name), delays))
            .chain(
                graphs
                    .iter()
                    .map(|(&name, of_call)| (self.model.text(name), &of_call.delays)),
            )
            .collect();
        rows.sort_by_key(|&(name, delays)| {
            let waited_ns = delays.submit.total_ns + delays.queue.total_ns;
            (Reverse(waited_ns), Reverse(delays.unlinked.total_ns), name)
        });
        let mut is_exact = true;
        for (name, delays) in rows {
            let mut cells: Vec<Cell> = vec![
                name.into(),
                delays.linked.into(),
                delays.unlinked.count.into(),
                delays.unlinked.total_ns.into(),
            ];
            for values in [&delays.submit, &delays.queue, &delays.run] {
                is_exact &= values.is_exact();
                cells.extend(values_cells(values));
            }
            table.push(cells);
        }
        if !is_exact {
            self.notes.push(
                format!("medians and 95th percentiles of the delays of operations that were launched more than {EXACT_MAX} times are within 1 %"),
            );
        }
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }

    /// The depth of the queues of each GPU.
    pub(super) fn depths(&mut self, depths: &mut [Depth]) {
        let columns: Vec<Column> = DEVICE_COLUMNS.into_iter().chain(DEPTHS).collect();
        let title = "Operations submitted and not finished";
        let mut table = Table::new("queue_depth", title, &columns);
        for id in self.model.devices_in_order() {
            let Some(depth) = depths.get_mut(id.index()).filter(|one| one.operations > 0) else {
                continue;
            };
            let over_time = depth.over_time();
            let mut cells = device_cells(self.model, id);
            cells.extend::<[Cell; 9]>([
                depth.operations.into(),
                over_time.span_ns.into(),
                over_time.mean.into(),
                over_time.max.into(),
                over_time.none_waiting_ns.into(),
                share(over_time.none_waiting_ns, over_time.span_ns),
                depth.held.launches.into(),
                depth.held.held.into(),
                depth.held.held_ns.into(),
            ]);
            table.push(cells);
            if over_time.is_rough {
                self.notes.push(format!(
                    "GPU {}: operations came so far out of order that its maximum depth may be wrong",
                    self.model.device(id).ordinal
                ));
            }
        }
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }

    /// Launches that no range or operator could be found for.
    pub(super) fn left_out(&mut self, time: Time) {
        if time.count > 0 {
            self.notes.push(format!(
                "{} launches were too many to find their ranges",
                time.count
            ));
        }
    }

    /// Kernels that are in the samples only.
    pub(super) fn surplus(&mut self, surplus_ns: u64) {
        if surplus_ns > 0 {
            self.notes.push(format!(
                "{surplus_ns} ns of kernels have call stacks, but no record"
            ));
        }
    }

    pub(super) fn answer(mut self) -> Answer {
        let is_empty = self.tables.is_empty();
        if is_empty {
            let text = "neither a kernel nor an operator of a framework is in these traces";
            self.notes.push(text.to_owned());
        }
        Answer {
            tables: self.tables,
            notes: self.notes,
            is_empty,
            ..Answer::default()
        }
    }
}

/// A table of inclusive and exclusive times.
fn table(key: &'static str, title: &str, names: &[Column]) -> Table {
    let columns: Vec<Column> = names.iter().copied().chain(TIMES).collect();
    let mut table = Table::new(key, title, &columns);
    table.rows_in_text = ROWS;
    table
}

fn fill(table: &mut Table, mut rows: Vec<(Vec<Cell>, ChargedTime)>, total: Time) {
    rows.sort_by_cached_key(|(cells, part)| {
        let times = (part.inclusive.total_ns, part.exclusive.total_ns);
        (Reverse(times), format!("{cells:?}"))
    });
    for (mut cells, part) in rows {
        cells.extend(time_cells(part, total));
        table.push(cells);
    }
}

/// The cells of [`TIMES`].
fn time_cells(part: ChargedTime, total: Time) -> [Cell; 4] {
    [
        part.inclusive.count.into(),
        part.inclusive.total_ns.into(),
        part.exclusive.total_ns.into(),
        share(part.exclusive.total_ns, total.total_ns),
    ]
}

fn values_cells(values: &Values) -> [Cell; 4] {
    match values.quantiles_ns() {
        None => [0_u64.into(), Cell::Null, Cell::Null, Cell::Null],
        Some([median, p95]) => [
            values.total_ns.into(),
            median.into(),
            p95.into(),
            values.max_ns.into(),
        ],
    }
}

fn share(part: u64, whole: u64) -> Cell {
    (whole > 0).then(|| part as f64 / whole as f64).into()
}
