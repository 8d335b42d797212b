//! What a thread was in. Operators, functions and ranges are all that is known of what it did where there are no samples; what OpenMP and Kokkos did
//! says more than samples.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::program::iteration_names::{is_numbered, with_numbers_out};
use rsys_traces::model::{
    HostKind, HostSlice, Model, TextId, Texts, is_loader, is_of_loader, is_saver,
};

/// A time in which one of them was the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) name: TextId,
    pub(crate) kind: HostKind,
    /// What the program has it in, where it writes a state of that; else empty.
    caller: TextId,
}

impl Scope {
    /// What it is called where it stands for a place: ranges of iterations (`ProfilerStep#3`) are one place, whatever their numbers.
    pub(crate) fn place(&self, model: &Model) -> String {
        let name = model.text(self.name);
        if self.caller != TextId::EMPTY {
            return format!("{name} in {}", model.text(self.caller));
        }
        match self.kind == HostKind::Range && is_numbered(name) {
            true => with_numbers_out(name),
            false => name.to_owned(),
        }
    }
}

/// Begin, end, what stands in front where those are equal, name, kind.
type Slice = (u64, Reverse<u64>, (u8, u64), TextId, HostKind);

/// Name, kind, and in what a state is written.
type What = (TextId, HostKind, TextId);

/// Those of one thread, as slices until [`Scopes::sort`].
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    /// Begin, end, then what stands in front where those are equal: ranges, functions, operators, and their numbers; then name and kind.
    slices: Vec<Slice>,
    innermost: Vec<Scope>,
}

impl Scopes {
    /// Whether a slice is something that a thread is in.
    pub(crate) fn is_one(slice: &HostSlice) -> bool {
        matches!(
            slice.kind,
            HostKind::Operator | HostKind::Function | HostKind::Range
        )
    }

    pub(crate) fn add(&mut self, slice: &HostSlice) {
        let outside = match slice.kind {
            HostKind::Range => 0,
            HostKind::Function => 1,
            _ => 2,
        };
        let number = match slice.number {
            0 => self.slices.len() as u64,
            number => number,
        };
        self.slices.push((
            slice.start_ns,
            Reverse(slice.end_ns),
            (outside, number),
            slice.name,
            slice.kind,
        ));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slices.len()
    }

    /// When they end, in no order.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> {
        self.slices.iter().map(|&(_, Reverse(end_ns), ..)| end_ns)
    }

    /// Forgets those for which `is_kept` does not hold, by begin and end. They are in order after [`Scopes::sort`].
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(u64, u64) -> bool) {
        self.slices
            .retain(|&(start_ns, Reverse(end_ns), ..)| is_kept(start_ns, end_ns));
        self.slices.shrink_to_fit();
        self.innermost = Vec::new();
    }

    /// Finds the innermost at each time. What a loader of data, or what writes a state, calls for itself is its own; functions of the program that it calls are not.
    pub(crate) fn sort(&mut self, texts: &Texts) {
        let mut known: HashMap<TextId, (bool, bool)> = HashMap::new();
        // Whether one is a whole, and whether it writes a state.
        let mut is_whole = |name: TextId| {
            *known.entry(name).or_insert_with(|| {
                let name = texts.get(name);
                let is_saver = is_saver(name);
                (is_saver || is_loader(name), is_saver)
            })
        };
        self.slices.sort_unstable();
        self.innermost.clear();
        let slices = std::mem::take(&mut self.slices);
        let mut now_ns = 0;
        let mut open: Vec<(u64, What)> = Vec::new();
        for &(start_ns, Reverse(end_ns), _, name, kind) in &slices {
            while let Some(inner) = open.pop_if(|inner| inner.0 <= start_ns) {
                self.put(&mut now_ns, inner.0, inner.1);
            }
            let mut what = (name, kind, TextId::EMPTY);
            if let Some(&(_, outer)) = open.last() {
                self.put(&mut now_ns, start_ns, outer);
                let is_programs = || kind == HostKind::Function && !is_of_loader(texts.get(name));
                if is_whole(outer.0).0 && !is_programs() {
                    what = outer;
                } else if is_whole(name).1 && outer.1 == HostKind::Function {
                    what.2 = outer.0;
                }
            }
            now_ns = now_ns.max(start_ns);
            open.push((end_ns, what));
        }
        while let Some((end_ns, what)) = open.pop() {
            self.put(&mut now_ns, end_ns, what);
        }
        self.slices = slices;
    }

    fn put(&mut self, now_ns: &mut u64, end_ns: u64, (name, kind, caller): What) {
        if *now_ns < end_ns {
            self.innermost.push(Scope {
                start_ns: *now_ns,
                end_ns,
                name,
                kind,
                caller,
            });
            *now_ns = end_ns;
        }
    }

    /// Those that overlap an interval, in order; they do not overlap each other.
    pub(crate) fn overlapping(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Scope> {
        let list = &self.innermost;
        let first = list.partition_point(|scope| scope.end_ns <= start_ns);
        list[first..]
            .iter()
            .take_while(move |scope| scope.start_ns < end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::Texts;

    #[test]
    fn the_innermost_counts() {
        let mut texts = Texts::default();
        let [step, forward, linear] = ["step", "forward", "linear"].map(|name| texts.intern(name));
        let mut scopes = Scopes::default();
        for (name, start_ns, end_ns) in [
            (linear, 30, 40),
            (forward, 20, 60),
            (step, 10, 100),
            (linear, 60, 70),
        ] {
            scopes.add(&HostSlice {
                name,
                start_ns,
                end_ns,
                ..HostSlice::default()
            });
        }
        scopes.sort(&texts);
        let found: Vec<_> = scopes
            .overlapping(35, 75)
            .map(|scope| (texts.get(scope.name), scope.start_ns, scope.end_ns))
            .collect();
        let expected = [
            ("linear", 30, 40),
            ("forward", 40, 60),
            ("linear", 60, 70),
            ("step", 70, 100),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_loader_does_is_the_loaders() {
        let mut texts = Texts::default();
        let mut scopes = Scopes::default();
        for (name, start_ns, end_ns) in [
            ("step", 0, 100),
            ("enumerate(DataLoader)#_Iter.__next__", 10, 60),
            ("queue.py(154): get", 20, 40),
            ("<built-in method acquire of _thread.lock object>", 25, 35),
            ("data.py(12): __getitem__", 50, 60),
            ("train.py(7): forward", 70, 80),
        ] {
            scopes.add(&HostSlice {
                name: texts.intern(name),
                start_ns,
                end_ns,
                kind: HostKind::Function,
                ..HostSlice::default()
            });
        }
        scopes.sort(&texts);
        let found: Vec<_> = scopes
            .overlapping(0, 100)
            .map(|scope| (texts.get(scope.name), scope.start_ns, scope.end_ns))
            .collect();
        let of_loader = found.iter().filter(|one| is_loader(one.0));
        assert_eq!(
            of_loader.map(|one| one.2 - one.1).sum::<u64>(),
            40,
            "{found:?}"
        );
        for (own, start_ns, end_ns) in [
            ("data.py(12): __getitem__", 50, 60),
            ("train.py(7): forward", 70, 80),
        ] {
            assert!(found.contains(&(own, start_ns, end_ns)), "{found:?}");
        }
    }
}
