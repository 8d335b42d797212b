//! All call stacks as trees: of CPU time, of waits, and of the time of kernels under the stacks that launched them. Where there are several processes,
//! each has a tree of its own below the root, and so have threads of different names in it.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::measure::Measure;
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::{
    Basis, Batch, Frame, Kinds, Model, Process, ProcessId, StackId, ThreadId,
};

/// A tree has at most so many nodes; the smallest ones are left out, and their time stands in a node of each caller.
const NODES_MAX: usize = 6_000;

/// In place of the number of a frame: callees that are left out.
const SMALLER: &str = "(smaller)";

/// The name of a group: there is no stack.
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
    of_stacks: [HashMap<(ThreadId, StackId), u64>; 3],
    below: Vec<String>,
}

impl Flame {
    /// Graphs in which stacks begin with what the innermost call of one of these functions called. A stack without such a call is whole.
    #[must_use]
    pub fn below(functions: Vec<String>) -> Self {
        Self {
            below: functions,
            ..Self::default()
        }
    }
}

/// What a node stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Content {
    Function(Frame),
    /// A process, threads of one name, or what has no stack.
    Group(String),
}

/// A function called by another: all stacks that have the same functions, in whatever lines.
#[derive(Debug)]
struct Node {
    content: Content,
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
            let key = (sample.thread, sample.stack);
            *self.of_stacks[tree].entry(key).or_default() += sample.weight;
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
            let nodes = Tree::new(weights, model, &self.below).nodes;
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

/// A tree; its first node is the root, and callers stand in front of those that they call.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
    found: HashMap<(usize, Content), usize>,
}

impl Tree {
    fn new(weights: &HashMap<(ThreadId, StackId), u64>, model: &Model, below: &[String]) -> Self {
        let mut groups: BTreeMap<(ProcessId, &str), BTreeMap<StackId, u64>> = BTreeMap::new();
        for (&(thread, stack), &weight) in weights {
            let thread = model.threads.get(thread.index());
            let thread = thread.copied().unwrap_or_default();
            let group = (thread.process, without_number(model.text(thread.name)));
            *groups.entry(group).or_default().entry(stack).or_default() += weight;
        }
        let processes: HashSet<ProcessId> = groups.keys().map(|(process, _)| *process).collect();
        let mut tree = Self {
            nodes: vec![Node::new(Content::Group(String::new()))],
            found: HashMap::new(),
        };
        let mut names: HashMap<ProcessId, usize> = HashMap::new();
        for (process, _) in groups.keys() {
            *names.entry(*process).or_default() += 1;
        }
        for ((process, thread), stacks) in groups {
            let total_ns = stacks.values().sum();
            let mut at = 0;
            if processes.len() > 1 {
                at = tree.group(at, process_name(process, model), total_ns);
            }
            if names[&process] > 1 {
                at = tree.group(at, thread.to_owned(), total_ns);
            }
            tree.add(at, stacks, model, below);
        }
        tree
    }

    fn child(&mut self, parent: usize, content: Content) -> usize {
        let Self { nodes, found } = self;
        let entry = found.entry((parent, content));
        *entry.or_insert_with_key(|(parent, content)| {
            nodes.push(Node::new(content.clone()));
            let at = nodes.len() - 1;
            nodes[*parent].children.push(at);
            at
        })
    }

    fn group(&mut self, parent: usize, name: String, total_ns: u64) -> usize {
        let at = self.child(parent, Content::Group(name));
        self.nodes[at].total_ns += total_ns;
        at
    }

    /// Adds stacks with their own time below a node; what one of the functions `below` calls stands directly below it.
    fn add(
        &mut self,
        top: usize,
        mut stacks: BTreeMap<StackId, u64>,
        model: &Model,
        below: &[String],
    ) {
        let own = stacks.clone();
        let hides_callers = |frame: &Frame| {
            let name = model.text(frame.function);
            below.iter().any(|function| function == name)
        };
        // The caller of a stack has a smaller number.
        let mut totals = Vec::new();
        while let Some((stack, total_ns)) = stacks.pop_last() {
            totals.push((stack, total_ns));
            if let Some((frame, caller)) = model.stacks.split(stack)
                && !hides_callers(frame)
            {
                *stacks.entry(caller).or_default() += total_ns;
            }
        }
        let mut node_of: HashMap<StackId, usize> = HashMap::new();
        for (stack, total_ns) in totals.into_iter().rev() {
            let own_ns = own.get(&stack).copied().unwrap_or(0);
            let Some((frame, caller)) = model.stacks.split(stack) else {
                node_of.insert(stack, top);
                if own_ns > 0 {
                    let at = self.group(top, NO_STACK.to_owned(), own_ns);
                    self.nodes[at].own_ns += own_ns;
                }
                continue;
            };
            if hides_callers(frame) {
                node_of.insert(stack, top);
                if own_ns > 0 {
                    self.function(top, frame, own_ns, own_ns);
                }
                continue;
            }
            let caller = node_of.get(&caller).copied().unwrap_or(top);
            let at = self.function(caller, frame, own_ns, total_ns);
            node_of.insert(stack, at);
        }
    }

    fn function(&mut self, caller: usize, frame: &Frame, own_ns: u64, total_ns: u64) -> usize {
        let at = self.child(caller, Content::Function(Frame { line: 0, ..*frame }));
        let node = &mut self.nodes[at];
        node.line = node.line.max((total_ns, frame.line));
        node.own_ns += own_ns;
        node.total_ns += total_ns;
        at
    }
}

impl Node {
    fn new(content: Content) -> Self {
        Self {
            content,
            own_ns: 0,
            total_ns: 0,
            line: (0, 0),
            children: Vec::new(),
        }
    }
}

/// The name that threads of a pool share.
fn without_number(name: &str) -> &str {
    let stem =
        name.trim_end_matches(|letter: char| letter.is_ascii_digit() || "-_#: ".contains(letter));
    if stem.is_empty() { name } else { stem }
}

fn process_name(process: ProcessId, model: &Model) -> String {
    match model.processes.get(process.index()) {
        Some(Process {
            rank: Some(rank),
            name,
            pid,
            ..
        }) => format!("rank {rank}: {name} {pid}"),
        Some(Process { name, pid, .. }) => format!("{name} {pid}"),
        None => String::new(),
    }
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
    let mut todo: Vec<(usize, Option<u64>)> = vec![(0, None)];
    while let Some((at, parent)) = todo.pop() {
        let node = &nodes[at];
        let mine = match at {
            0 => None,
            _ => {
                let line = Some(node.line.1).filter(|line| *line > 0);
                let frame = match &node.content {
                    Content::Function(frame) => number(*frame).into(),
                    Content::Group(name) => name.as_str().into(),
                };
                Some(row(parent, frame, line, node.own_ns, node.total_ns))
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
            let node = &nodes[child];
            let name = match &node.content {
                Content::Function(frame) => format!("{:?}", frame_cells(frame, model)),
                Content::Group(name) => name.clone(),
            };
            (node.total_ns, std::cmp::Reverse(name))
        });
        todo.extend(large.into_iter().map(|child| (child, mine)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::{Sample, Thread};

    /// A model with threads of these processes and names, in which each spends `10 << number` ns in one function.
    fn widths(threads: &[(u32, &str)]) -> Vec<(String, u64)> {
        let mut model = Model::default();
        let function = model.texts.intern("work");
        let frame = Frame {
            function,
            ..Frame::default()
        };
        let frame = model.stacks.frame_id(frame);
        let stack = model.stacks.child(StackId::ROOT, frame);
        let mut batch = Batch::default();
        for (number, (process, name)) in threads.iter().enumerate() {
            while model.processes.len() <= *process as usize {
                model.processes.push(Process {
                    pid: 100 + model.processes.len() as u32,
                    name: "app".to_owned(),
                    ..Process::default()
                });
            }
            let process = ProcessId::new(*process as usize);
            model.threads.push(Thread {
                process,
                tid: number as u32,
                name: model.texts.intern(name),
            });
            batch.samples.push(Sample {
                weight: 10 << number,
                process,
                thread: ThreadId::new(number),
                stack,
                ..Sample::default()
            });
        }
        let mut flame = Flame::default();
        flame.take(&batch);
        let nodes = Tree::new(&flame.of_stacks[0], &model, &[]).nodes;
        let name = |node: &Node| match &node.content {
            Content::Function(frame) => model.text(frame.function).to_owned(),
            Content::Group(name) => name.clone(),
        };
        nodes[1..]
            .iter()
            .map(|node| (name(node), node.total_ns))
            .collect()
    }

    fn named(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
        expected
            .iter()
            .map(|(name, ns)| ((*name).to_owned(), *ns))
            .collect()
    }

    #[test]
    fn processes_and_threads_stand_apart_where_there_are_several() {
        assert_eq!(widths(&[(0, "main")]), named(&[("work", 10)]));
        assert_eq!(
            widths(&[(0, "pool-1"), (0, "pool-2")]),
            named(&[("work", 30)])
        );
        assert_eq!(
            widths(&[(0, "main"), (0, "pool-1"), (0, "pool-2")]),
            named(&[("main", 10), ("work", 10), ("pool", 60), ("work", 60)])
        );
        assert_eq!(
            widths(&[(0, "main"), (1, "main")]),
            named(&[("app 100", 10), ("work", 10), ("app 101", 20), ("work", 20)])
        );
    }
}
