//! Time as a tree over call stacks, merged by function.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::ledger::Time;
use rsys_traces::model::TextId;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Node {
    /// Kernels without a call stack.
    NoStack,
    /// Kernels that no operator launched.
    NoOperator,
    /// An operator that was recorded, and what it was called with.
    Operator(TextId, TextId),
    /// A function of the host.
    Function(TextId),
    /// A kernel.
    Kernel(TextId),
    /// Nodes that are too small for rows of their own.
    Small,
}

/// A tree whose leaves have times. A node has a larger number than the one that it is below.
#[derive(Debug)]
pub(super) struct Tree {
    numbers: HashMap<(usize, Node), usize>,
    nodes: Vec<(usize, Node, Time)>,
}

/// A row of a tree that is written from above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) depth: u64,
    pub(super) node: Node,
    pub(super) inclusive: Time,
    pub(super) exclusive: Time,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            nodes: vec![(0, Node::NoStack, Time::default())],
        }
    }
}

impl Tree {
    /// Adds a time below a path, which begins with the outermost function.
    pub(super) fn add(&mut self, path: impl Iterator<Item = Node>, time: Time) {
        let nodes = &mut self.nodes;
        let mut at = 0;
        for node in path {
            let above = at;
            at = *self.numbers.entry((above, node)).or_insert_with(|| {
                nodes.push((above, node, Time::default()));
                nodes.len() - 1
            });
        }
        self.nodes[at].2.plus(time);
    }

    /// All nodes from above, larger ones first. Those with less than `least_ns` are one row for each node that they are below.
    pub(super) fn branches(&self, least_ns: u64, text: impl Fn(TextId) -> String) -> Vec<Branch> {
        let mut inclusive: Vec<Time> = self.nodes.iter().map(|node| node.2).collect();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for number in (1..self.nodes.len()).rev() {
            let (above, time) = (self.nodes[number].0, inclusive[number]);
            inclusive[above].plus(time);
            below[above].push(number);
        }
        let name = |node: Node| match node {
            Node::Function(id) | Node::Kernel(id) => text(id),
            Node::Operator(name, shapes) => text(name) + &text(shapes),
            Node::NoStack | Node::NoOperator | Node::Small => String::new(),
        };
        let mut branches = Vec::new();
        // Nodes that are still to be written, the next one last.
        let mut left = vec![(0_u64, 0_usize)];
        while let Some((depth, number)) = left.pop() {
            if number != 0 {
                let (_, node, exclusive) = self.nodes[number];
                branches.push(Branch {
                    depth: depth - 1,
                    node,
                    inclusive: inclusive[number],
                    exclusive,
                });
            }
            let children = &below[number];
            let (mut large, small): (Vec<usize>, Vec<usize>) = children
                .iter()
                .partition(|&&child| inclusive[child].total_ns >= least_ns);
            if !small.is_empty() {
                let mut time = Time::default();
                small.iter().for_each(|&child| time.plus(inclusive[child]));
                branches.push(Branch {
                    depth,
                    node: Node::Small,
                    inclusive: time,
                    exclusive: time,
                });
            }
            large.sort_by_cached_key(|&child| {
                let node = self.nodes[child].1;
                (Reverse(inclusive[child].total_ns), name(node), node)
            });
            left.extend(large.into_iter().rev().map(|child| (depth + 1, child)));
        }
        branches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::Texts;

    #[test]
    fn every_time_is_in_one_row() {
        let mut texts = Texts::default();
        let [main, step, gemm, tiny] =
            ["main", "step", "gemm", "tiny"].map(|name| texts.intern(name));
        let mut tree = Tree::default();
        let mut add = |path: &[Node], total_ns| {
            tree.add(path.iter().copied(), Time { count: 1, total_ns });
        };
        let (main, step) = (Node::Function(main), Node::Function(step));
        add(&[main, step, Node::Kernel(gemm)], 600);
        add(&[main, Node::Kernel(gemm)], 300);
        add(&[main, Node::Kernel(tiny)], 4);
        add(&[Node::NoStack, Node::Kernel(gemm)], 96);
        let rows = tree.branches(10, |id| texts.get(id).to_owned());
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.depth, row.node, row.inclusive.total_ns))
            .collect();
        let kernel = Node::Kernel(gemm);
        assert_eq!(
            seen,
            [
                (0, main, 904),
                (1, Node::Small, 4),
                (1, step, 600),
                (2, kernel, 600),
                (1, kernel, 300),
                (0, Node::NoStack, 96),
                (1, kernel, 96),
            ]
        );
        let exclusive_ns: u64 = rows.iter().map(|row| row.exclusive.total_ns).sum();
        assert_eq!(exclusive_ns, 1_000);
    }
}
