//! Arrows between things, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};

/// Who uses whom; by name, so that what is reported has an order.
#[derive(Debug, Default)]
pub struct Graph {
    arrows: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Adds an arrow. One from a thing to itself says nothing.
    pub fn add(&mut self, from: &str, to: &str) {
        self.arrows.entry(to.to_owned()).or_default();
        let targets = self.arrows.entry(from.to_owned()).or_default();
        if from != to {
            targets.insert(to.to_owned());
        }
    }

    /// The sets of things that all reach one another, of two or more.
    pub fn circles(&self) -> Vec<BTreeSet<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .arrows
            .keys()
            .map(|from| (from.as_str(), self.reached_from(from)))
            .collect();
        let mut circles = BTreeSet::new();
        for (from, all) in &reached {
            let circle: BTreeSet<String> = all
                .iter()
                .filter(|to| reached[*to].contains(from))
                .map(|name| (*name).to_owned())
                .collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    fn reached_from<'graph>(&'graph self, from: &str) -> BTreeSet<&'graph str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.targets(from).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.targets(next));
            }
        }
        reached
    }

    fn targets(&self, from: &str) -> impl Iterator<Item = &str> {
        self.arrows
            .get(from)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_nothing_else() {
        let mut graph = Graph::default();
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "e")] {
            graph.add(from, to);
        }
        let expected = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(graph.circles(), [expected]);
    }
}
