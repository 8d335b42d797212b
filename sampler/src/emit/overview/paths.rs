//! Which functions a thread was in for most of a span.

use std::collections::HashMap;
use std::rc::Rc;

use crate::emit::learned::frames::FunctionId;

/// More than this is not shown.
const DEPTH_MAX: usize = 48;

/// The functions, outermost first, each of which was on the stack for at least `least_ns` of the time of these stacks, inside of those before it.
pub fn heaviest(stacks: &[(Rc<[FunctionId]>, u64)], least_ns: u64) -> Vec<FunctionId> {
    let mut inside: Vec<&(Rc<[FunctionId]>, u64)> = stacks.iter().collect();
    let mut path = Vec::new();
    let mut times: HashMap<FunctionId, u64> = HashMap::new();
    while path.len() < DEPTH_MAX {
        times.clear();
        for (stack, time_ns) in &inside {
            if let Some(function) = stack.get(path.len()) {
                *times.entry(*function).or_default() += time_ns;
            }
        }
        let most = times
            .iter()
            .max_by_key(|(function, time_ns)| (**time_ns, u32::MAX - function.0));
        let Some((&function, _)) = most.filter(|(_, time_ns)| **time_ns >= least_ns.max(1)) else {
            break;
        };
        inside.retain(|(stack, _)| stack.get(path.len()) == Some(&function));
        path.push(function);
    }
    path
}

/// A slice that begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// It begins at this time.
    Begin(u64, FunctionId),
    /// The innermost one that is open ends.
    End(u64),
}

/// Makes slices of paths: what is the same from one span to the next goes on.
#[derive(Debug, Default)]
pub struct Joined {
    open: Vec<FunctionId>,
    end_ns: u64,
    /// The slices so far.
    pub edges: Vec<Edge>,
}

impl Joined {
    /// Adds the path of the span from `begin_ns` to `end_ns`, which lies behind the one before.
    pub fn add(&mut self, (begin_ns, end_ns): (u64, u64), path: &[FunctionId]) {
        let common = match begin_ns > self.end_ns {
            true => 0,
            false => self
                .open
                .iter()
                .zip(path)
                .take_while(|(one, other)| one == other)
                .count(),
        };
        self.close_to(common);
        for &function in &path[common..] {
            self.edges.push(Edge::Begin(begin_ns, function));
            self.open.push(function);
        }
        self.end_ns = end_ns;
    }

    /// Ends what is open.
    pub fn finish(&mut self) {
        self.close_to(0);
    }

    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            self.open.pop();
            self.edges.push(Edge::End(self.end_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &[u32]) -> Rc<[FunctionId]> {
        functions.iter().map(|&id| FunctionId(id)).collect()
    }

    #[test]
    fn a_path_ends_where_no_function_took_half() {
        let stacks = [
            (stack(&[1, 2, 3]), 30),
            (stack(&[1, 2, 4]), 30),
            (stack(&[1, 5]), 20),
            (stack(&[6]), 20),
        ];
        assert_eq!(heaviest(&stacks, 50), [FunctionId(1), FunctionId(2)]);
        assert_eq!(heaviest(&stacks, 81), []);
        assert_eq!(heaviest(&[], 0), []);
    }

    #[test]
    fn what_goes_on_is_one_slice() {
        let (one, two, three) = (FunctionId(1), FunctionId(2), FunctionId(3));
        let mut joined = Joined::default();
        joined.add((0, 10), &[one, two]);
        joined.add((10, 20), &[one, three]);
        joined.add((30, 40), &[one]);
        joined.finish();
        let expected = [
            Edge::Begin(0, one),
            Edge::Begin(0, two),
            Edge::End(10),
            Edge::Begin(10, three),
            Edge::End(20),
            Edge::End(20),
            Edge::Begin(30, one),
            Edge::End(40),
        ];
        assert_eq!(joined.edges, expected);
    }
}
