//! Modules as a tree: the time and work of each with all that it calls, those of one class at one place together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::contexts::{Contexts, class, instance};
use super::figures::Figures;
use rsys_traces::model::Model;

/// Modules of one class that stand in the same modules.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Module {
    /// The classes that they stand in, and their own.
    pub(super) path: String,
    pub(super) class: String,
    /// 0: the outermost.
    pub(super) depth: u64,
    /// How many modules they are, and how often all of them were called.
    pub(super) instances: u64,
    pub(super) calls: u64,
    /// Busy time of what they launched themselves.
    pub(super) own_ns: u64,
    /// Sums with all that they call.
    pub(super) all: Figures,
    /// The one with most busy time.
    pub(super) worst: String,
    pub(super) worst_ns: u64,
}

/// The tree from above, larger modules first. `own` has what contexts launched themselves.
pub(super) fn tree(
    contexts: &Contexts,
    mut own: BTreeMap<u32, Figures>,
    model: &Model,
) -> Vec<Module> {
    let list = contexts.list();
    let own_ns: BTreeMap<u32, u64> = own
        .iter()
        .map(|(&number, figures)| (number, figures.busy_ns))
        .collect();
    let mut inside: Vec<Vec<u32>> = vec![Vec::new(); list.len()];
    for number in (1..list.len() as u32).rev() {
        let outer = list[number as usize].outer;
        inside[outer as usize].push(number);
        if let Some(figures) = own.get(&number).cloned() {
            own.entry(outer).or_default().add(&figures);
        }
    }
    let texts = contexts.texts(model);
    let busy_ns = |number: u32| own.get(&number).map_or(0, |figures| figures.busy_ns);
    let mut modules = Vec::new();
    // Groups that are still to be written, the next one last.
    let mut left: Vec<Vec<u32>> = Vec::new();
    let put = |outer: &[u32], left: &mut Vec<Vec<u32>>| {
        let mut classes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for &number in outer.iter().flat_map(|&one| &inside[one as usize]) {
            let name = model.text(list[number as usize].name);
            classes.entry(class(name)).or_default().push(number);
        }
        let mut groups: Vec<(&str, Vec<u32>)> = classes.into_iter().collect();
        groups.sort_by_key(|(class, group)| {
            let group_ns: u64 = group.iter().map(|&number| busy_ns(number)).sum();
            (Reverse(group_ns), *class)
        });
        left.extend(groups.into_iter().rev().map(|(_, group)| group));
    };
    put(&[0], &mut left);
    while let Some(group) = left.pop() {
        let name = |number: u32| model.text(list[number as usize].name);
        let mut all = Figures::default();
        for number in &group {
            if let Some(figures) = own.get(number) {
                all.add(figures);
            }
        }
        // Of equal ones the first by name.
        let worst = group
            .iter()
            .max_by_key(|&&number| (busy_ns(number), Reverse(instance(name(number)))));
        let first = group[0] as usize;
        modules.push(Module {
            path: texts[first].clone(),
            class: class(name(group[0])).to_owned(),
            depth: u64::from(list[first].depth - 1),
            instances: group.len() as u64,
            calls: group
                .iter()
                .map(|&number| list[number as usize].calls)
                .sum(),
            own_ns: group.iter().filter_map(|number| own_ns.get(number)).sum(),
            worst: worst.map_or(String::new(), |&number| instance(name(number)).to_owned()),
            worst_ns: worst.map_or(0, |&number| busy_ns(number)),
            all,
        });
        put(&group, &mut left);
    }
    // Modules that launched nothing are none of the GPU's.
    modules.retain(|module| module.all.operations > 0);
    modules
}
