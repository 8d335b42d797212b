//! Summaries of the samples of one process: by function, by thread, and as a tree of calls.
//!
//! They are gathered while the trace is written and put into files of their own at the end.
//! Whatever the program does, they take a bounded amount of memory: what does not fit is counted
//! where its callers are.

mod json;
mod text;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use rsys_config::ProfileForms;

use super::learned::frames::{Frames, FunctionId};
use crate::run::layout::{FileId, JSON_FILE, Layout, TEXT_FILE};

/// Nodes of the tree of calls.
const NODES_MAX: usize = 1 << 18;
/// Functions of all threads together.
const THREAD_FUNCTIONS_MAX: usize = 1 << 18;
/// At most this many threads have entries of their own.
const THREADS_MAX: usize = 1 << 14;

/// Samples and the time that they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Samples.
    pub samples: u64,
    /// Their time.
    pub ns: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// The cost of a function itself, and with all that it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Itself.
    pub own: Cost,
    /// With what it calls; once for each sample, however often it is in its stack.
    pub total: Cost,
}

/// A thread.
#[derive(Debug, Default)]
struct ThreadShares {
    number: u32,
    tid: u32,
    name: String,
    cost: Cost,
    functions: HashMap<FunctionId, Share>,
}

/// A function in the tree of calls.
#[derive(Debug, Clone, Copy)]
struct Node {
    function: FunctionId,
    /// Another node, before this one; its own number for roots.
    parent: u32,
    own: Cost,
}

/// What samples of one clock say.
#[derive(Debug, Default)]
pub struct Gathered {
    cost: Cost,
    functions: HashMap<FunctionId, Share>,
    threads: HashMap<(u32, u32), ThreadShares>,
    thread_functions: usize,
    nodes: Vec<Node>,
    children: HashMap<(Option<u32>, FunctionId), u32>,
    /// Samples whose stacks did not find room in the tree.
    cut: u64,
    seen: Vec<FunctionId>,
}

/// The summary of a process.
#[derive(Debug)]
pub struct Profile {
    forms: ProfileForms,
    /// CPU time.
    pub running: Gathered,
    /// Wall time of blocked threads.
    pub waiting: Gathered,
}

/// Which thread a sample is of.
#[derive(Debug, Clone, Copy)]
pub struct Whose<'a> {
    /// Its number in the process.
    pub number: u32,
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub name: &'a str,
}

/// What the summary is about.
#[derive(Debug, Clone)]
pub struct About {
    /// The process.
    pub pid: u32,
    /// The program.
    pub name: String,
    /// The command line.
    pub command_line: Vec<String>,
    /// The rank, if there is one.
    pub rank: Option<u32>,
    /// The machine.
    pub host: String,
    /// Samples per second of CPU time.
    pub frequency_hz: f64,
}

/// What was written.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// The files.
    pub paths: Vec<PathBuf>,
    /// What to print.
    pub console: Vec<String>,
    /// What went wrong.
    pub trouble: Option<String>,
}

impl Written {
    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.console.is_empty()
    }
}

impl Profile {
    /// An empty summary.
    #[must_use]
    pub fn new(forms: ProfileForms) -> Self {
        Self {
            forms,
            running: Gathered::default(),
            waiting: Gathered::default(),
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Adds a sample of CPU time; functions from the outermost inwards.
    pub fn run(&mut self, whose: Whose<'_>, functions: &[FunctionId], ns: u64) {
        self.running.add(whose, functions, ns, &self.forms);
    }

    /// Adds a sample of a blocked thread.
    pub fn wait(&mut self, whose: Whose<'_>, functions: &[FunctionId], ns: u64) {
        self.waiting.add(whose, functions, ns, &self.forms);
    }

    /// A thread is called otherwise than its samples knew.
    pub fn rename(&mut self, whose: Whose<'_>) {
        for gathered in [&mut self.running, &mut self.waiting] {
            if let Some(thread) = gathered.threads.get_mut(&(whose.number, whose.tid)) {
                whose.name.clone_into(&mut thread.name);
            }
        }
    }

    /// Writes the files beside the trace that is called `id`.
    #[must_use]
    pub fn write(&self, about: &About, frames: &Frames, layout: &Layout, id: &FileId) -> Written {
        let mut written = Written::default();
        let mut file = |name: &str, render: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let layout = layout.of_file(name);
            let result = layout.create(id).and_then(|(file, path)| {
                let mut out = BufWriter::new(file);
                render(&mut out)?;
                out.into_inner().map_err(|error| error.into_error())?;
                Ok(path)
            });
            match result {
                Ok(path) => written.paths.push(path),
                Err(error) => {
                    let path = layout.path(id);
                    let text = format!("{} cannot be written: {error}", path.display());
                    written.trouble.get_or_insert(text);
                }
            }
        };
        let view = View {
            about,
            frames,
            profile: self,
        };
        if self.forms.text {
            file(TEXT_FILE, &|out| text::write(&view, out));
        }
        if self.forms.json {
            file(JSON_FILE, &|out| json::write(&view, out));
        }
        if self.forms.console {
            written.console = text::console(&view);
        }
        written
    }
}

/// All that is needed to write a summary.
struct View<'a> {
    about: &'a About,
    frames: &'a Frames,
    profile: &'a Profile,
}

impl Gathered {
    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cost.samples == 0
    }

    fn add(&mut self, whose: Whose<'_>, functions: &[FunctionId], ns: u64, forms: &ProfileForms) {
        let cost = Cost { samples: 1, ns };
        self.cost.add(cost);
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        seen.extend_from_slice(functions);
        seen.sort_unstable_by_key(|function| function.0);
        seen.dedup();
        let leaf = functions.last().copied();
        count(&mut self.functions, &seen, leaf, cost);
        self.add_to_thread(whose, &seen, leaf, cost);
        self.seen = seen;
        if forms.tree {
            self.add_to_tree(functions, cost, forms.max_depth);
        }
    }

    fn add_to_thread(
        &mut self,
        whose: Whose<'_>,
        seen: &[FunctionId],
        leaf: Option<FunctionId>,
        cost: Cost,
    ) {
        let mut key = (whose.number, whose.tid);
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&key) {
            // The rest of them.
            key = (u32::MAX, 0);
        }
        let thread = self.threads.entry(key).or_default();
        (thread.number, thread.tid) = key;
        if key.1 != 0 && thread.name != whose.name && !whose.name.is_empty() {
            whose.name.clone_into(&mut thread.name);
        }
        thread.cost.add(cost);
        if self.thread_functions < THREAD_FUNCTIONS_MAX {
            let before = thread.functions.len();
            count(&mut thread.functions, seen, leaf, cost);
            self.thread_functions += thread.functions.len() - before;
        }
    }

    fn add_to_tree(&mut self, functions: &[FunctionId], cost: Cost, max_depth: u32) {
        let mut at: Option<u32> = None;
        for (depth, &function) in functions.iter().enumerate() {
            if depth >= max_depth as usize {
                break;
            }
            let next = match self.children.get(&(at, function)) {
                Some(&node) => node,
                None if self.nodes.len() >= NODES_MAX => {
                    self.cut += 1;
                    break;
                }
                None => {
                    let node = self.nodes.len() as u32;
                    self.nodes.push(Node {
                        function,
                        parent: at.unwrap_or(node),
                        own: Cost::default(),
                    });
                    self.children.insert((at, function), node);
                    node
                }
            };
            at = Some(next);
        }
        if let Some(node) = at {
            self.nodes[node as usize].own.add(cost);
        }
    }

    /// Threads by their numbers.
    fn threads(&self) -> Vec<&ThreadShares> {
        let mut threads: Vec<&ThreadShares> = self.threads.values().collect();
        threads.sort_unstable_by_key(|thread| (thread.number, thread.tid));
        threads
    }

    /// The cost of each node with all below it. A node stands behind its parent.
    fn totals(&self) -> Vec<Cost> {
        let mut totals: Vec<Cost> = self.nodes.iter().map(|node| node.own).collect();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let parent = node.parent as usize;
            if parent != index {
                let total = totals[index];
                totals[parent].add(total);
            }
        }
        totals
    }
}

fn count(
    functions: &mut HashMap<FunctionId, Share>,
    seen: &[FunctionId],
    leaf: Option<FunctionId>,
    cost: Cost,
) {
    for function in seen {
        functions.entry(*function).or_default().total.add(cost);
    }
    if let Some(leaf) = leaf {
        functions.entry(leaf).or_default().own.add(cost);
    }
}

/// Functions by their own time, then by their whole time, then by name.
fn ranked(functions: &HashMap<FunctionId, Share>, frames: &Frames) -> Vec<(FunctionId, Share)> {
    let mut ranked: Vec<(FunctionId, Share)> =
        functions.iter().map(|(id, share)| (*id, *share)).collect();
    ranked.sort_by(|(left, a), (right, b)| {
        let name = |id: &FunctionId| frames.function(*id).name.clone();
        (b.own.ns, b.total.ns)
            .cmp(&(a.own.ns, a.total.ns))
            .then_with(|| name(left).cmp(&name(right)))
            .then_with(|| left.0.cmp(&right.0))
    });
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: ProfileForms = ProfileForms {
        text: true,
        json: true,
        console: true,
        tree: true,
        max_depth: 3,
    };

    fn whose(number: u32) -> Whose<'static> {
        Whose {
            number,
            tid: 100 + number,
            name: "worker",
        }
    }

    fn stack(functions: &[u32]) -> Vec<FunctionId> {
        functions.iter().map(|&id| FunctionId(id)).collect()
    }

    #[test]
    fn a_function_counts_once_for_each_sample() {
        let mut profile = Profile::new(FORMS);
        for (thread, functions, ns) in [
            (0, &[1, 2, 3][..], 10),
            (0, &[1, 2, 2], 5),
            (1, &[1, 3], 7),
            (1, &[1, 2, 3, 4, 5], 1),
        ] {
            profile.run(whose(thread), &stack(functions), ns);
        }
        let gathered = &profile.running;
        let share = |id| {
            let share = gathered.functions[&FunctionId(id)];
            (share.own.ns, share.total.ns, share.total.samples)
        };
        assert_eq!(share(1), (0, 23, 4));
        assert_eq!(share(2), (5, 16, 3), "recursion counts once");
        assert_eq!(share(3), (17, 18, 3));
        assert_eq!(gathered.cost, Cost { samples: 4, ns: 23 });
        let threads: Vec<_> = gathered
            .threads()
            .iter()
            .map(|thread| (thread.number, thread.cost.ns))
            .collect();
        assert_eq!(threads, [(0, 15), (1, 8)]);
        // 1, 1-2, 1-2-3, 1-2-2, 1-3: what is deeper than three is counted there.
        assert_eq!(gathered.nodes.len(), 5);
        assert_eq!(gathered.totals()[0].ns, 23);
        assert_eq!(gathered.totals()[1].ns, 16);
        assert_eq!(gathered.nodes[2].own.ns, 11);
        assert!(profile.waiting.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut gathered = Gathered::default();
        for id in 0..(NODES_MAX as u32 + 100) {
            gathered.add(whose(id), &stack(&[1, id + 2]), 1, &FORMS);
        }
        assert_eq!(gathered.nodes.len(), NODES_MAX);
        assert_eq!(gathered.cut, 101);
        assert!(gathered.threads.len() <= THREADS_MAX + 1);
        assert!(gathered.thread_functions <= THREAD_FUNCTIONS_MAX + 2);
        assert_eq!(
            gathered.totals()[0].ns,
            NODES_MAX as u64 + 100,
            "nothing is lost"
        );
    }
}
