//! Steps of a rank, and what its GPUs did in them.

use std::collections::HashMap;

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

/// The steps of the processes of a rank, in order of time.
///
/// # Errors
/// When the store is damaged.
pub(super) fn steps(run: &Run<'_>, ids: &[usize]) -> Result<Vec<Step>, Failure> {
    let mut work: [Vec<(u64, u64)>; STREAMS.len()] = Default::default();
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
            work.get_mut(stream.unwrap_or(STREAMS.len()))
                .into_iter()
                .for_each(|work| work.push((start_ns, end_ns)));
        }
        Ok(())
    })?;
    work.iter_mut().for_each(merge);
    let mut steps = marked(run, &is_ours)?;
    if steps.is_empty() {
        let all = || work.iter().flatten();
        let starts = all().map(|(start_ns, _)| *start_ns);
        let Some(start_ns) = starts.min() else {
            return Ok(Vec::new());
        };
        let end_ns = all().map(|(_, end_ns)| *end_ns).max().unwrap_or(start_ns);
        steps.push(Step {
            name: "run".to_owned(),
            start_ns,
            end_ns,
            work: Vec::new(),
        });
    }
    for (stream, work) in work.iter().enumerate() {
        for step in &mut steps {
            let first = work.partition_point(|(_, end_ns)| *end_ns <= step.start_ns);
            let inside = work[first..].iter();
            for (start_ns, end_ns) in inside.take_while(|(start_ns, _)| *start_ns < step.end_ns) {
                let range = (*start_ns).max(step.start_ns)..(*end_ns).min(step.end_ns);
                step.work.push((stream, range.start, range.end));
            }
        }
    }
    Ok(steps)
}

/// The stretches of time that are covered, each once, without those that take none.
fn merge(stretches: &mut Vec<(u64, u64)>) {
    stretches.retain(|(start_ns, end_ns)| start_ns < end_ns);
    stretches.sort_unstable();
    stretches.dedup_by(|next, before| {
        let is_one = next.0 <= before.1;
        if is_one {
            before.1 = before.1.max(next.1);
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
        let mut stretches = vec![(5, 9), (1, 3), (3, 4), (8, 12), (20, 21), (15, 15)];
        merge(&mut stretches);
        assert_eq!(stretches, [(1, 4), (5, 12), (20, 21)]);
    }
}
