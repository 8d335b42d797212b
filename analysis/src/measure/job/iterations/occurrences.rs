//! Where a marker is in a process.

use std::collections::{BTreeMap, HashMap};

use super::marker::{MarkerKind, is_meant};
use super::records::{MARK, Records};
use crate::program::iteration_names::{is_default_marker, number, of_part, without_numbers};
use rsys_traces::model::{Model, ProcessId, TextId};

/// A range without a common name is taken for an iteration if it recurs so often, and covers this part of the time.
const RECURS_MIN: usize = 3;
const COVERS_MIN: f64 = 0.5;
/// How PyTorch names the last thing of a training step, `Optimizer.step#SGD.step` (`torch/optim/optimizer.py`, `profile_hook_step`): an iteration ends with it.
const OPTIMIZER: &str = "Optimizer.step#";
/// The fewest optimizer steps that make iterations.
const OPTIMIZED_MIN: usize = 2;

/// A time that a marker marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The number in its name.
    pub(super) number: Option<u64>,
    /// Its end is not known: the trace ends before, or nothing marks it.
    pub(super) is_open: bool,
    /// Its name, as it is.
    name: u64,
}

/// A marker in a process.
#[derive(Debug, Clone)]
pub(super) struct Marked {
    pub(super) name: String,
    pub(super) kind: MarkerKind,
    /// By thread plus one; 0: ranges of the process.
    pub(super) by_thread: BTreeMap<u64, Vec<Occurrence>>,
    /// Occurrences within others.
    pub(super) nested: u64,
}

/// The kinds of markers that are slices or marks, by the number that rows have for them, and in the order in which they are taken.
const KINDS: [(u64, MarkerKind); 4] = [
    (0, MarkerKind::Range),
    (MARK, MarkerKind::Mark),
    (1, MarkerKind::Operator),
    (2, MarkerKind::Function),
];

/// Occurrences of names that are meant, by kind, name without numbers, and thread.
type ByName = BTreeMap<(u64, String), BTreeMap<u64, Vec<Occurrence>>>;

/// The marker that is wanted, or one that is found, in a process; `None`: there is none but perhaps a kernel.
pub(super) fn marked(
    records: &Records,
    model: &Model,
    process: ProcessId,
    wanted: Option<&str>,
) -> Option<Marked> {
    let end_ns = records.gaps.span(process).map_or(0, |span| span.1);
    match wanted {
        Some(wanted) => {
            let mut found = slices(records, model, process, |text| is_meant(wanted, text));
            if found.is_empty() {
                found = parts(records, model, process, |of| is_meant(wanted, of));
            }
            let of_slices = KINDS.iter().find_map(|(number, kind)| {
                let mut by_thread: BTreeMap<u64, Vec<Occurrence>> = BTreeMap::new();
                for ((_, _), threads) in found.iter().filter(|((of, _), _)| of == number) {
                    for (thread, list) in threads {
                        by_thread.entry(*thread).or_default().extend(list);
                    }
                }
                let is_there = !by_thread.is_empty();
                is_there.then(|| Marked::new(wanted.to_owned(), *kind, by_thread, end_ns))
            });
            of_slices.or_else(|| calls(records, model, process, wanted, end_ns))
        }
        None => {
            let common = slices(records, model, process, is_default_marker);
            let ended = || optimized(records, model, process);
            let put_together = || {
                let found = parts(records, model, process, is_default_marker);
                most(found, end_ns, |_| true)
            };
            let found = most(common, end_ns, |_| true).or_else(put_together);
            found.or_else(ended).or_else(|| {
                let all = slices(records, model, process, |_| true);
                let ranges = all.into_iter().filter(|((kind, _), _)| *kind == 0);
                let span = records.gaps.span(process)?;
                let least_ns = (span.1 - span.0) as f64 * COVERS_MIN;
                most(ranges.collect(), end_ns, |marked| {
                    marked.most() >= RECURS_MIN && marked.covered_ns() as f64 >= least_ns
                })
            })
        }
    }
}

/// Iterations that end with a step of an optimizer: each from the end of the one before.
fn optimized(records: &Records, model: &Model, process: ProcessId) -> Option<Marked> {
    let (begin_ns, end_ns) = records.gaps.span(process)?;
    let steps = slices(records, model, process, |text| text.starts_with(OPTIMIZER));
    let found = most(steps.clone(), end_ns, |marked| {
        marked.most() >= OPTIMIZED_MIN
    })?;
    // Where optimizers take turns, as those of a GAN do, an iteration ends with the last of each round.
    let first_ns = |by_thread: &BTreeMap<u64, Vec<Occurrence>>| {
        let all = by_thread.values().flatten();
        all.map(|one| one.start_ns).min()
    };
    let second = found.by_thread.values().filter_map(|list| list.get(1));
    let second_ns = second.map(|one| one.start_ns).max();
    let take_turns = steps.into_iter().filter(|((kind, _), by_thread)| {
        let count = by_thread.values().map(Vec::len).max().unwrap_or(0);
        KINDS.contains(&(*kind, found.kind))
            && count.abs_diff(found.most()) <= 1
            && first_ns(by_thread) < second_ns
    });
    let last = take_turns.max_by_key(|(_, by_thread)| first_ns(by_thread));
    let mut marked = most(last.into_iter().collect(), end_ns, |_| true)?;
    for list in marked.by_thread.values_mut() {
        let mut since_ns = begin_ns;
        for one in list {
            one.start_ns = since_ns.min(one.start_ns);
            since_ns = one.end_ns;
        }
    }
    Some(marked)
}

/// Of several, the one of the likeliest kind that covers most.
fn most(found: ByName, end_ns: u64, is_fit: impl Fn(&Marked) -> bool) -> Option<Marked> {
    let marked = found.into_iter().map(|((kind, name), by_thread)| {
        let place = KINDS.iter().position(|(number, _)| *number == kind)?;
        let marked = Marked::new(name, KINDS[place].1, by_thread, end_ns);
        Some((place, marked))
    });
    let fit = marked.flatten().filter(|(_, marked)| is_fit(marked));
    let mut fit: Vec<(usize, Marked)> = fit.collect();
    fit.sort_by(|(place, one), (other_place, other)| {
        let covered = other.covered_ns().cmp(&one.covered_ns());
        place
            .cmp(other_place)
            .then(covered)
            .then(one.name.cmp(&other.name))
    });
    fit.into_iter().next().map(|(_, marked)| marked)
}

/// Slices and marks of a process whose names are meant.
fn slices(
    records: &Records,
    model: &Model,
    process: ProcessId,
    is_meant: impl Fn(&str) -> bool,
) -> ByName {
    named(records, model, process, is_meant, |text| text)
}

/// The same, under what `of` makes of their names.
fn named(
    records: &Records,
    model: &Model,
    process: ProcessId,
    is_meant: impl Fn(&str) -> bool,
    of: impl Fn(&str) -> &str,
) -> ByName {
    let mut names: HashMap<u64, Option<(String, Option<u64>)>> = HashMap::new();
    let mut found = ByName::new();
    let Some(rows) = records.slices.get(process.index()) else {
        return found;
    };
    for [start_ns, duration_ns, kind, name, thread] in rows.iter() {
        let known = names.entry(name).or_insert_with(|| {
            let text = model.text(TextId::at(name as usize));
            is_meant(text).then(|| (without_numbers(of(text)), number(text)))
        });
        let text = name;
        let Some((name, number)) = known else {
            continue;
        };
        let by_thread = found.entry((kind >> 1, name.clone())).or_default();
        by_thread.entry(thread).or_default().push(Occurrence {
            start_ns,
            end_ns: start_ns + duration_ns,
            number: *number,
            is_open: kind & 1 != 0,
            name: text,
        });
    }
    found
}

/// Iterations of which only parts are marked (`step 5: forward`, `step 5: backward`): all of a number together, if what stands in front of them is meant.
fn parts(
    records: &Records,
    model: &Model,
    process: ProcessId,
    is_meant: impl Fn(&str) -> bool,
) -> ByName {
    let is_one = |text: &str| of_part(text).is_some_and(&is_meant);
    let mut found = named(records, model, process, is_one, |text| {
        of_part(text).unwrap_or(text)
    });
    for list in found.values_mut().flat_map(BTreeMap::values_mut) {
        list.sort_by_key(|one| (one.start_ns, one.end_ns, one.number));
        // Where numbers begin again with each epoch and there is but one, an iteration begins with the part that was the first.
        let is_one = list.iter().all(|one| one.number == list[0].number);
        list.dedup_by(|one, before| {
            let begins = is_one && one.name == before.name;
            let is_same = one.number == before.number && !begins;
            if is_same {
                before.end_ns = before.end_ns.max(one.end_ns);
                before.is_open |= one.is_open;
            }
            is_same
        });
    }
    found
}

/// Calls of a name, each until the next one.
fn calls(
    records: &Records,
    model: &Model,
    process: ProcessId,
    wanted: &str,
    end_ns: u64,
) -> Option<Marked> {
    let mut by_thread: BTreeMap<u64, Vec<Occurrence>> = BTreeMap::new();
    let named = records.gaps.calls(process);
    for call in named.filter(|call| is_meant(wanted, model.text(call.name))) {
        let of_thread = by_thread.entry(call.thread.index() as u64 + 1).or_default();
        of_thread.push(Occurrence {
            start_ns: call.start_ns,
            end_ns: call.end_ns,
            number: None,
            is_open: false,
            name: call.name.index() as u64,
        });
    }
    let is_there = !by_thread.is_empty();
    is_there.then(|| Marked::new(wanted.to_owned(), MarkerKind::Call, by_thread, end_ns))
}

impl Marked {
    fn new(
        name: String,
        kind: MarkerKind,
        mut by_thread: BTreeMap<u64, Vec<Occurrence>>,
        end_ns: u64,
    ) -> Self {
        let mut nested = 0;
        for list in by_thread.values_mut() {
            nested += match kind {
                MarkerKind::Mark | MarkerKind::Call => until_the_next(list, end_ns),
                _ => apart(list),
            };
            with_numbers_that_rise(list);
        }
        Self {
            name,
            kind,
            by_thread,
            nested,
        }
    }

    /// How often it is there on the thread that has it most.
    fn most(&self) -> usize {
        self.by_thread.values().map(Vec::len).max().unwrap_or(0)
    }

    fn covered_ns(&self) -> u64 {
        let of_thread =
            |list: &Vec<Occurrence>| list.iter().map(|one| one.end_ns - one.start_ns).sum();
        self.by_thread.values().map(of_thread).max().unwrap_or(0)
    }

    /// The thread whose iterations are those of operations that so many threads have launched: by thread plus one, how many operations.
    pub(super) fn thread_of(&self, launches: &BTreeMap<u64, u64>) -> Option<u64> {
        let by_launches = |thread: &&u64| launches.get(*thread).copied().unwrap_or(0);
        let threads = self.by_thread.keys();
        threads
            .max_by_key(|thread| {
                let list = &self.by_thread[*thread];
                (by_launches(thread), list.len(), u64::MAX - **thread)
            })
            .copied()
    }
}

/// Leaves out what lies within others, and ends what overlaps the next where that begins; how many were left out.
pub(super) fn apart(list: &mut Vec<Occurrence>) -> u64 {
    list.sort_by_key(|one| (one.start_ns, u64::MAX - one.end_ns));
    let before = list.len();
    let mut end_ns = 0;
    list.retain(|one| {
        let is_outside = one.end_ns > end_ns || end_ns == 0;
        end_ns = end_ns.max(one.end_ns);
        is_outside
    });
    let starts: Vec<u64> = list.iter().skip(1).map(|one| one.start_ns).collect();
    for (one, next_ns) in list.iter_mut().zip(starts) {
        one.end_ns = one.end_ns.min(next_ns);
    }
    (before - list.len()) as u64
}

/// Has each last until the next one.
fn until_the_next(list: &mut Vec<Occurrence>, end_ns: u64) -> u64 {
    list.sort_by_key(|one| one.start_ns);
    let before = list.len();
    list.dedup_by_key(|one| one.start_ns);
    let starts: Vec<u64> = list.iter().skip(1).map(|one| one.start_ns).collect();
    for (place, one) in list.iter_mut().enumerate() {
        let next_ns = starts.get(place);
        one.is_open = next_ns.is_none();
        one.end_ns = next_ns.copied().unwrap_or(end_ns.max(one.end_ns));
    }
    (before - list.len()) as u64
}

/// Numbers count only if all have one, and they rise.
fn with_numbers_that_rise(list: &mut [Occurrence]) {
    let numbers = || list.iter().map(|one| one.number);
    let rises =
        numbers().all(|one| one.is_some()) && numbers().is_sorted_by(|one, next| one < next);
    if !rises {
        list.iter_mut().for_each(|one| one.number = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(times: &[(u64, u64)]) -> Vec<Occurrence> {
        let one = |&(start_ns, end_ns)| Occurrence {
            start_ns,
            end_ns,
            number: Some(start_ns),
            is_open: false,
            name: 0,
        };
        times.iter().map(one).collect()
    }

    fn times(list: &[Occurrence]) -> Vec<(u64, u64)> {
        list.iter().map(|one| (one.start_ns, one.end_ns)).collect()
    }

    #[test]
    fn iterations_stand_side_by_side() {
        let mut found = list(&[(10, 20), (0, 10), (12, 15), (20, 30), (25, 40), (0, 5)]);
        assert_eq!(apart(&mut found), 2);
        assert_eq!(times(&found), [(0, 10), (10, 20), (20, 25), (25, 40)]);
        let mut found = list(&[(7, 7), (3, 4), (3, 5)]);
        assert_eq!(until_the_next(&mut found, 9), 1);
        assert_eq!(times(&found), [(3, 7), (7, 9)]);
        assert!(found[1].is_open);
    }

    #[test]
    fn numbers_count_only_where_they_rise() {
        let mut found = list(&[(1, 2), (3, 4)]);
        with_numbers_that_rise(&mut found);
        assert_eq!(found[1].number, Some(3));
        found[1].number = Some(1);
        with_numbers_that_rise(&mut found);
        assert_eq!(found[0].number, None);
    }
}
