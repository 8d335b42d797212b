//! Steps of a rank, and what its GPUs did in them.

use std::collections::HashMap;

use rsys_analysis::containers::packed_rows::{Finder, PackedRows};

use super::sweep::{ALLREDUCE, AUX, COMPUTE, REDUCESCATTER, STREAMS};
use crate::Failure;
use crate::rows::each;
use crate::run::Run;

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
    /// The kind of work, its begin and end inside of the step; that of each kind does not overlap itself.
    pub work: Vec<(usize, u64, u64)>,
}

/// What the GPUs of a rank did: stretches of each kind of work, begin and end, none of which touches another.
pub(super) struct Work([PackedRows<2>; STREAMS.len()]);

impl Work {
    /// The first begin and the last end.
    fn ends(&self) -> Option<(u64, u64)> {
        let firsts = self.0.iter().filter_map(|work| work.get(0));
        let lasts = self.0.iter();
        let lasts = lasts.filter_map(|work| work.get(work.len().checked_sub(1)?));
        let start_ns = firsts.map(|[start_ns, _]| start_ns).min()?;
        Some((start_ns, lasts.map(|[_, end_ns]| end_ns).max()?))
    }

    /// To ask for the work of steps, best in their order.
    pub(super) fn finder(&self) -> WorkFinder<'_> {
        WorkFinder(self.0.each_ref().map(Finder::new))
    }
}

/// Finds it.
pub(super) struct WorkFinder<'w>([Finder<'w, 2>; STREAMS.len()]);

impl WorkFinder<'_> {
    /// What lies in a step.
    pub(super) fn inside(&mut self, step: &Step) -> Vec<(usize, u64, u64)> {
        let mut inside = Vec::new();
        for (stream, work) in self.0.iter_mut().enumerate() {
            let (_, mut next) = work.around(|[_, end_ns]| *end_ns <= step.start_ns);
            while let Some(stretch) = next.filter(|[start_ns, _]| *start_ns < step.end_ns) {
                let [start_ns, end_ns] = stretch;
                let range = start_ns.max(step.start_ns)..end_ns.min(step.end_ns);
                inside.push((stream, range.start, range.end));
                (_, next) = work.around(|row| *row <= stretch);
            }
        }
        inside
    }
}

/// The steps of the processes of a rank, in order of time and still without their work, and all work.
///
/// # Errors
/// When the store is damaged.
pub(super) fn steps(run: &Run<'_>, ids: &[usize]) -> Result<(Vec<Step>, Work), Failure> {
    let mut work = [(); STREAMS.len()].map(|()| run.rows());
    const COLUMNS: [&str; 6] = [
        "process_id",
        "activity",
        "name",
        "call",
        "start_ns",
        "end_ns",
    ];
    let is_ours = |id: u64| ids.contains(&(id as usize));
    each(run.view, "operations", &COLUMNS, |row| {
        let (id, start_ns, end_ns) = (row.number(0), row.number(4), row.number(5));
        if is_ours(id) && run.during(id, start_ns, end_ns).is_some() {
            let stream = stream(row.text(1), row.text(2), row.text(3));
            if let Some(stream) = stream.filter(|_| start_ns < end_ns) {
                work[stream].push([start_ns, end_ns]);
            }
        }
        Ok(())
    })?;
    work.iter_mut().for_each(merge);
    let (work, mut steps) = (Work(work), marked(run, &is_ours)?);
    if steps.is_empty()
        && let Some((start_ns, end_ns)) = work.ends()
    {
        steps.push(Step {
            name: "run".to_owned(),
            start_ns,
            end_ns,
            work: Vec::new(),
        });
    }
    Ok((steps, work))
}

/// The stretches of time that are covered, each once.
fn merge(stretches: &mut PackedRows<2>) {
    stretches.unite(|before, next| {
        let is_one = next[0] <= before[1];
        if is_one {
            before[1] = before[1].max(next[1]);
        }
        is_one
    });
}

/// The kind of work that an operation is; collectives by the names of kernels and calls.
fn stream(activity: &str, name: &str, call: &str) -> Option<usize> {
    let is = |word: &str| name.contains(word) || call.contains(word);
    match activity {
        "compute" => Some(COMPUTE),
        "communication" if is("ReduceScatter") => Some(REDUCESCATTER),
        "communication"
            if ["AllGather", "Broadcast", "SendRecv", "AlltoAll", "AllToAll"]
                .into_iter()
                .any(is) =>
        {
            Some(AUX)
        }
        "communication" => Some(ALLREDUCE),
        "copy" | "fill" => Some(AUX),
        _ => None,
    }
}

/// Outermost ranges whose names differ in numbers alone, if there are several: those of which there are most.
fn marked(run: &Run<'_>, is_ours: &impl Fn(u64) -> bool) -> Result<Vec<Step>, Failure> {
    const COLUMNS: [&str; 7] = [
        "process_id",
        "kind",
        "name",
        "start_ns",
        "end_ns",
        "thread_id",
        "depth",
    ];
    let mut families: HashMap<(u64, String), Vec<Step>> = HashMap::new();
    if !run.only.ranges {
        return Ok(Vec::new());
    }
    each(run.view, "ranges", &COLUMNS, |row| {
        let (id, start_ns, end_ns) = (row.number(0), row.number(3), row.number(4));
        let is_range = is_ours(id) && row.text(1) == "range" && row.number(6) == 0;
        let Some(thread) = row.known(5).filter(|_| is_range) else {
            return Ok(());
        };
        if run.during(id, start_ns, end_ns).is_some() {
            let digits = |letter: char| letter.is_ascii_digit();
            let family: String = row.text(2).split(digits).collect();
            families.entry((thread, family)).or_default().push(Step {
                name: row.text(2).to_owned(),
                start_ns,
                end_ns,
                work: Vec::new(),
            });
        }
        Ok(())
    })?;
    let mut families: Vec<_> = families.into_iter().collect();
    families
        .sort_by(|(one, steps), (other, others)| (others.len(), one).cmp(&(steps.len(), other)));
    let largest = families.into_iter().next();
    let mut steps = largest.map_or_else(Vec::new, |(_, steps)| steps);
    if steps.len() < 2 {
        return Ok(Vec::new());
    }
    steps.sort_by_key(|step| step.start_ns);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_are_told_apart_by_names() {
        for (activity, name, call, expected) in [
            ("compute", "gemm", "", Some(COMPUTE)),
            (
                "communication",
                "ncclDevKernel_AllReduce_Sum_f32",
                "",
                Some(ALLREDUCE),
            ),
            (
                "communication",
                "ncclDevKernel_ReduceScatter_Sum",
                "",
                Some(REDUCESCATTER),
            ),
            (
                "communication",
                "ncclDevKernel_Generic",
                "ncclAllGather",
                Some(AUX),
            ),
            (
                "communication",
                "ncclDevKernel_Generic",
                "",
                Some(ALLREDUCE),
            ),
            ("copy", "", "", Some(AUX)),
            ("none", "barrier", "", None),
        ] {
            assert_eq!(stream(activity, name, call), expected, "{name} {call}");
        }
    }

    #[test]
    fn stretches_that_touch_are_one() {
        let mut stretches = PackedRows::default();
        for stretch in [[5, 9], [1, 3], [3, 4], [8, 12], [20, 21]] {
            stretches.push(stretch);
        }
        merge(&mut stretches);
        assert!(stretches.iter().eq([[1, 4], [5, 12], [20, 21]]));
        let mut work = [(); STREAMS.len()].map(|()| PackedRows::default());
        work[AUX] = stretches;
        let work = Work(work);
        assert_eq!(work.ends(), Some((1, 21)));
        let mut finder = work.finder();
        for ((start_ns, end_ns), expected) in [
            ((3, 21), vec![(AUX, 3, 4), (AUX, 5, 12), (AUX, 20, 21)]),
            ((12, 20), vec![]),
            ((0, 6), vec![(AUX, 1, 4), (AUX, 5, 6)]),
        ] {
            let step = Step {
                name: String::new(),
                start_ns,
                end_ns,
                work: Vec::new(),
            };
            assert_eq!(finder.inside(&step), expected);
        }
    }
}
