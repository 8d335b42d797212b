//! When ranks leave a collective, by when they came.

use super::program::Kind;
use super::simulation::{EAGER_BYTES, OVERHEAD_NS, copy_ns};

/// A collective that all its ranks have come to.
pub(crate) struct Meeting<'m> {
    pub(crate) kind: Kind,
    /// When each rank came, by its number in the communicator.
    pub(crate) came_ns: &'m [u64],
    pub(crate) root: usize,
    pub(crate) bytes: u64,
    /// The latency from one to another, by their numbers.
    pub(crate) latency: &'m dyn Fn(usize, usize) -> u64,
}

impl Meeting<'_> {
    /// When each rank leaves.
    pub(crate) fn left_ns(&self) -> Vec<u64> {
        match self.kind {
            Kind::Barrier | Kind::Allreduce | Kind::Allgather | Kind::Alltoall | Kind::Split => {
                self.all()
            }
            Kind::Bcast => self.down_the_tree(),
            Kind::Reduce => self.up_the_tree(),
            Kind::Scatter => self.root_gives(),
            Kind::Gather => self.root_gets(),
        }
    }

    fn count(&self) -> usize {
        self.came_ns.len()
    }

    /// The number in the communicator of who is so far from the root.
    fn behind_root(&self, far: usize) -> usize {
        (far + self.root) % self.count()
    }

    fn came(&self, far: usize) -> u64 {
        self.came_ns[self.behind_root(far)]
    }

    fn latency(&self, from: usize, to: usize) -> u64 {
        (self.latency)(self.behind_root(from), self.behind_root(to))
    }

    /// By their numbers in the communicator instead of the distance from the root.
    fn in_order(&self, by_distance: &[u64]) -> Vec<u64> {
        let mut found = vec![0; self.count()];
        for (far, &at_ns) in by_distance.iter().enumerate() {
            found[self.behind_root(far)] = at_ns;
        }
        found
    }

    /// The children of a node in the binomial tree, the nearest first.
    fn children(&self, node: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let count = self.count();
        let bits = match node {
            0 => usize::BITS - count.leading_zeros(),
            node => node.trailing_zeros(),
        };
        let children = (0..bits).map(move |bit| node + (1 << bit));
        let children: Vec<usize> = children.filter(|child| *child < count).collect();
        children.into_iter()
    }

    /// A message from one to another: when the sender may go on, and when the receiver has it.
    fn message(&self, (from, sent_ns): (usize, u64), (to, taken_ns): (usize, u64)) -> (u64, u64) {
        let latency = self.latency(from, to);
        if self.bytes <= EAGER_BYTES {
            let gone_ns = sent_ns + OVERHEAD_NS + copy_ns(self.bytes);
            return (gone_ns, taken_ns.max(gone_ns + latency));
        }
        let end_ns = (sent_ns + latency).max(taken_ns) + latency + copy_ns(self.bytes);
        (end_ns, end_ns)
    }

    /// Nobody leaves before all have come.
    fn all(&self) -> Vec<u64> {
        let count = self.count();
        let last_ns = self.came_ns.iter().copied().max().unwrap_or(0);
        let steps = u64::from(usize::BITS - count.leading_zeros());
        let data_ns = match self.kind {
            Kind::Alltoall | Kind::Allgather => copy_ns(self.bytes) * count as u64,
            _ => copy_ns(self.bytes) * 2,
        };
        let leave = |number: usize| {
            let latency = (self.latency)(number, (number + count / 2) % count);
            last_ns + OVERHEAD_NS + steps * latency.min(8_000) + data_ns + latency / 4
        };
        (0..count).map(leave).collect()
    }

    fn down_the_tree(&self) -> Vec<u64> {
        let mut has_ns: Vec<u64> = (0..self.count()).map(|far| self.came(far)).collect();
        for node in 0..self.count() {
            for child in self.children(node).rev() {
                let to = (child, self.came(child));
                let (gone_ns, taken_ns) = self.message((node, has_ns[node]), to);
                has_ns[node] = gone_ns;
                has_ns[child] = taken_ns + OVERHEAD_NS;
            }
        }
        self.in_order(&has_ns)
    }

    fn up_the_tree(&self) -> Vec<u64> {
        let mut done_ns: Vec<u64> = (0..self.count()).map(|far| self.came(far)).collect();
        for node in (0..self.count()).rev() {
            for child in self.children(node) {
                let from = (child, done_ns[child]);
                let (gone_ns, taken_ns) = self.message(from, (node, done_ns[node]));
                done_ns[child] = gone_ns;
                done_ns[node] = taken_ns + OVERHEAD_NS + copy_ns(self.bytes);
            }
        }
        self.in_order(&done_ns)
    }

    fn root_gives(&self) -> Vec<u64> {
        let mut left_ns: Vec<u64> = (0..self.count()).map(|far| self.came(far)).collect();
        for far in 1..self.count() {
            let (gone_ns, taken_ns) = self.message((0, left_ns[0]), (far, self.came(far)));
            left_ns[0] = gone_ns;
            left_ns[far] = taken_ns + OVERHEAD_NS;
        }
        self.in_order(&left_ns)
    }

    fn root_gets(&self) -> Vec<u64> {
        let mut left_ns: Vec<u64> = (0..self.count()).map(|far| self.came(far)).collect();
        for far in 1..self.count() {
            let (gone_ns, taken_ns) = self.message((far, self.came(far)), (0, left_ns[0]));
            left_ns[0] = taken_ns + OVERHEAD_NS;
            left_ns[far] = gone_ns;
        }
        self.in_order(&left_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_ns(kind: Kind, bytes: u64, came_ns: &[u64]) -> Vec<u64> {
        let meeting = Meeting {
            kind,
            came_ns,
            root: 0,
            bytes,
            latency: &|_, _| 2_000,
        };
        meeting.left_ns()
    }

    #[test]
    fn only_who_must_waits() {
        let came_ns = [0, 0, 0, 900_000, 0, 0, 0, 0];
        let waits = |kind, bytes| -> Vec<usize> {
            let left_ns = left_ns(kind, bytes, &came_ns);
            (0..8).filter(|one| left_ns[*one] > 800_000).collect()
        };
        assert_eq!(waits(Kind::Allreduce, 8).len(), 8);
        // Rank 3 is a leaf: the root waits for it by way of rank 2.
        assert_eq!(waits(Kind::Reduce, 8), [0, 2, 3]);
        assert_eq!(waits(Kind::Bcast, 8), [3]);
        assert_eq!(waits(Kind::Gather, 8), [0, 3]);
        // Who sends much in order waits for a late receiver, and so do those behind it.
        assert_eq!(waits(Kind::Scatter, 1 << 20), [0, 3, 4, 5, 6, 7]);
    }
}
