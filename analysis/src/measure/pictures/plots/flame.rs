//! All call stacks as trees: of CPU time, of waits, and of the time of kernels under the stacks that launched them.

use std::collections::HashMap;

use crate::measure::Measure;
use crate::model::{Basis, Batch, Frame, Kinds, Model, StackId};
use crate::table::{Answer, Cell, Column, Table};

/// A tree has at most so many nodes; the smallest ones are left out, and their time stands in a node of each caller.
const NODES_MAX: usize = 6_000;

/// In place of the number of a frame: callees that are left out.
const SMALLER: &str = "(smaller)";

/// In place of the number of a frame: there is no stack.
const NO_STACK: &str = "[no stack]";

/// Key and title of each tree, by basis.
const TREES: [(&str, &str); 3] = [
    ("flame_cpu", "CPU time"),
    ("flame_waits", "Waiting"),
    ("flame_gpu", "GPU time"),
];

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Flame {
    of_stacks: [HashMap<StackId, u64>; 3],
}

/// A function called by another: all stacks that have the same functions, in whatever lines.
#[derive(Debug, Default)]
struct Node {
    frame: Frame,
    own_ns: u64,
    total_ns: u64,
    /// The line that had most time.
    line: (u64, u32),
    children: Vec<usize>,
}

impl Measure for Flame {
    fn needs(&self) -> Kinds {
        Kinds {
            samples: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for sample in &batch.samples {
            let tree = match sample.basis {
                Basis::CpuTime => 0,
                Basis::WaitTime => 1,
                Basis::GpuTime => 2,
                Basis::CallTime | Basis::Event => continue,
            };
            *self.of_stacks[tree].entry(sample.stack).or_default() += sample.weight;
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let columns = [
            Column::plain("function", "function"),
            Column::plain("module", ""),
            Column::plain("source", ""),
        ];
        let mut frames = Table::new("flame_frames", "", &columns);
        let mut known = HashMap::new();
        let mut notes = Vec::new();
        let mut tables = Vec::new();
        for ((key, title), weights) in TREES.iter().zip(&self.of_stacks) {
            let nodes = tree(weights, model);
            let least_ns = least(&nodes);
            if least_ns > 0 {
                notes.push(format!(
                    "{title}: of the flame graph's {} nodes those below {least_ns} ns are folded into {SMALLER}",
                    nodes.len()
                ));
            }
            let columns = [
                Column::plain("parent", ""),
                Column::plain("frame", ""),
                Column::plain("line", ""),
                Column::ns("self_ns", "self"),
                Column::ns("total_ns", "total"),
            ];
            let mut table = Table::new(key, *title, &columns);
            let mut number = |frame: Frame| {
                *known.entry(frame).or_insert_with(|| {
                    frames.push(frame_cells(&frame, model));
                    frames.rows.len() as u64 - 1
                })
            };
            write(&nodes, least_ns, model, &mut number, &mut table);
            tables.push(table);
        }
        let is_empty = tables.iter().all(|table| table.rows.is_empty());
        tables.push(frames);
        Answer {
            tables,
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

fn frame_cells(frame: &Frame, model: &Model) -> Vec<Cell> {
    let text = |id| Some(model.text(id)).filter(|text| !text.is_empty());
    vec![
        model.text(frame.function).into(),
        text(frame.mapping).into(),
        text(frame.source).into(),
    ]
}

/// The tree of all stacks; its first node is the root, and callers stand in front of those that they call.
fn tree(weights: &HashMap<StackId, u64>, model: &Model) -> Vec<Node> {
    let mut totals = vec![0_u64; model.stacks.len()];
    for (&stack, &weight) in weights {
        totals[stack.index()] += weight;
    }
    // The caller of a stack has a smaller number.
    let ids: Vec<StackId> = model.stacks.ids().collect();
    for &stack in ids.iter().rev() {
        if let Some((_, caller)) = model.stacks.split(stack) {
            totals[caller.index()] += totals[stack.index()];
        }
    }
    let mut nodes = vec![Node::default()];
    let mut node_of = vec![0_usize; ids.len()];
    let mut found: HashMap<(usize, Frame), usize> = HashMap::new();
    for &stack in ids.iter().filter(|stack| totals[stack.index()] > 0) {
        let own_ns = weights.get(&stack).copied().unwrap_or(0);
        let total_ns = totals[stack.index()];
        let mut at = 0;
        if let Some((frame, caller)) = model.stacks.split(stack) {
            let caller = node_of[caller.index()];
            let function = Frame { line: 0, ..*frame };
            at = *found.entry((caller, function)).or_insert_with(|| {
                nodes.push(Node {
                    frame: function,
                    ..Node::default()
                });
                let at = nodes.len() - 1;
                nodes[caller].children.push(at);
                at
            });
            nodes[at].line = nodes[at].line.max((total_ns, frame.line));
        }
        node_of[stack.index()] = at;
        nodes[at].own_ns += own_ns;
        nodes[at].total_ns += total_ns;
    }
    nodes
}

/// Nodes with no more time than this are too many.
fn least(nodes: &[Node]) -> u64 {
    let mut totals: Vec<u64> = nodes.iter().map(|node| node.total_ns).collect();
    if totals.len() <= NODES_MAX {
        return 0;
    }
    totals.sort_unstable_by(|one, other| other.cmp(one));
    totals[NODES_MAX]
}

/// Writes the nodes depth first, the largest of those that one function calls first. The parent of a node is the number of its row.
fn write(
    nodes: &[Node],
    least_ns: u64,
    model: &Model,
    number: &mut impl FnMut(Frame) -> u64,
    table: &mut Table,
) {
    let mut row =
        |parent: Option<u64>, frame: Cell, line: Option<u32>, own_ns: u64, total_ns: u64| {
            table.push(vec![
                parent.into(),
                frame,
                line.into(),
                own_ns.into(),
                total_ns.into(),
            ]);
            table.rows.len() as u64 - 1
        };
    let root = &nodes[0];
    if root.own_ns > 0 {
        row(None, NO_STACK.into(), None, root.own_ns, root.own_ns);
    }
    let mut todo: Vec<(usize, Option<u64>)> = vec![(0, None)];
    while let Some((at, parent)) = todo.pop() {
        let node = &nodes[at];
        let mine = match at {
            0 => None,
            _ => {
                let line = Some(node.line.1).filter(|line| *line > 0);
                let frame = number(node.frame);
                Some(row(parent, frame.into(), line, node.own_ns, node.total_ns))
            }
        };
        let (mut large, small): (Vec<usize>, Vec<usize>) = node
            .children
            .iter()
            .partition(|&&child| nodes[child].total_ns > least_ns);
        let small_ns: u64 = small.iter().map(|&child| nodes[child].total_ns).sum();
        if small_ns > 0 {
            row(mine, SMALLER.into(), None, small_ns, small_ns);
        }
        // Taken from the end.
        large.sort_by_cached_key(|&child| {
            let cells = format!("{:?}", frame_cells(&nodes[child].frame, model));
            (nodes[child].total_ns, std::cmp::Reverse(cells))
        });
        todo.extend(large.into_iter().map(|child| (child, mine)));
    }
}
