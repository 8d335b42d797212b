//! What is shown of the waits: which calls waited for what, whose work was behind it, and what could not be judged.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::matching::Kind;
use super::{Job, is_unjudged, unjudged_ns};
use crate::measure::job::ranks::{RANK, rank_cells};
use crate::table::{Column, Table};
use rsys_traces::model::{Model, ProcessId};
use rsys_traces::words::nanoseconds;

/// Time in calls that is mentioned where it could not be judged.
const MENTIONED_NS: u64 = 10_000_000;

/// What calls of one function did.
#[derive(Debug, Clone, Default)]
struct OfFunction {
    calls: u64,
    in_calls_ns: u64,
    waits: BTreeMap<Kind, (u64, u64)>,
    unknown_calls: u64,
    unknown_ns: u64,
}

/// What the work of a rank was waited for.
#[derive(Debug, Clone, Default)]
struct OfCause {
    sum_ns: u64,
    /// By ranks that did not wait for this one but for one that did.
    through_ns: u64,
    /// By the rank that waited.
    ranks: BTreeMap<ProcessId, u64>,
}

/// The tables of a job; none where it is empty.
pub(crate) fn tables(job: &Job, model: &Model) -> Vec<Table> {
    match job.is_empty() {
        true => Vec::new(),
        false => vec![waits(job), causes(job, model)],
    }
}

/// What is not judged, in words.
pub(crate) fn notes(job: &Job) -> Vec<String> {
    let functions = functions(job);
    let mut unknown: Vec<_> = functions
        .iter()
        .filter(|(_, of)| of.unknown_ns >= MENTIONED_NS)
        .collect();
    unknown.sort_by_key(|(name, of)| (Reverse(of.unknown_ns), *name));
    let mut notes: Vec<String> = unknown
        .into_iter()
        .map(|(name, of)| {
            format!(
                "{} in {} calls of {name} are not judged: for which rank they waited is not recorded, or that rank is not in these traces",
                nanoseconds(of.unknown_ns),
                of.unknown_calls
            )
        })
        .collect();
    let tested = job.matched.tested.iter().map(|(_, tested)| tested);
    let tested = tested.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if tested.1 >= MENTIONED_NS {
        notes.push(format!(
            "{} in which requests were asked for by MPI_Test until they were done ({} calls) are not judged",
            nanoseconds(tested.1),
            tested.0
        ));
    }
    if job.matched.left_out > 0 {
        notes.push(format!(
            "{} calls of MPI are not compared: of each rank the first ones are taken",
            job.matched.left_out
        ));
    }
    notes
}

fn functions(job: &Job) -> BTreeMap<&str, OfFunction> {
    let matched = &job.matched;
    let mut functions: BTreeMap<&str, OfFunction> = BTreeMap::new();
    for (place, call) in matched.calls.iter().enumerate() {
        let name = matched.names[call.name as usize].as_str();
        let of = functions.entry(name).or_default();
        let duration_ns = (call.end - call.start).unsigned_abs();
        of.calls += 1;
        of.in_calls_ns += duration_ns;
        let wait = job.waits.of(place);
        if let Some(wait) = wait {
            let sum = of.waits.entry(wait.kind).or_default();
            *sum = (sum.0 + 1, sum.1 + wait.duration_ns());
        }
        if is_unjudged(matched, &job.waits, place) {
            of.unknown_calls += 1;
            of.unknown_ns += unjudged_ns(matched, &job.waits, place);
        }
    }
    functions
}

/// Per function and what it waited for.
fn waits(job: &Job) -> Table {
    let columns = [
        Column::plain("function", "call"),
        Column::plain("calls", "calls"),
        Column::ns("in_calls_ns", "in calls"),
        Column::plain("waited_for", "waited for"),
        Column::plain("waits", "times"),
        Column::ns("wait_ns", "waited"),
        Column::share("wait_share", "of it"),
    ];
    let title = "What calls of MPI waited for, of all ranks";
    let mut table = Table::new("mpi_waits", title, &columns);
    table.rows_in_text = 12;
    let mut rows = Vec::new();
    for (name, of) in functions(job) {
        for (kind, (count, sum_ns)) in of.waits {
            rows.push((sum_ns, name, kind, count, of.calls, of.in_calls_ns));
        }
    }
    rows.sort_by_key(|row| (Reverse(row.0), row.1, row.2));
    for (sum_ns, name, kind, count, calls, in_calls_ns) in rows {
        table.push(vec![
            name.into(),
            calls.into(),
            in_calls_ns.into(),
            kind.word().into(),
            count.into(),
            sum_ns.into(),
            (sum_ns as f64 / in_calls_ns.max(1) as f64).into(),
        ]);
    }
    table
}

/// Per rank: how long others waited for its own work, in the end.
fn causes(job: &Job, model: &Model) -> Table {
    let mut columns = RANK.to_vec();
    columns.extend([
        Column::ns("caused_ns", "others waited"),
        Column::ns("through_ns", "through others"),
        Column::plain("ranks", "ranks that waited"),
        Column::plain("most_rank", "most of all rank"),
        Column::ns("most_ns", "waited"),
    ]);
    let title = "Whose own work the ranks waited for, also through ranks that waited themselves";
    let mut table = Table::new("mpi_causes", title, &columns);
    table.rows_in_text = 12;
    let matched = &job.matched;
    let mut causes: BTreeMap<ProcessId, OfCause> = BTreeMap::new();
    for wait in &job.waits.list {
        let waited = matched.line(&matched.calls[wait.call as usize]).process;
        let directly = matched.calls[wait.other as usize].line;
        for part in job.waits.parts(wait) {
            let duration_ns = (part.end - part.start).unsigned_abs();
            let cause = causes
                .entry(matched.lines[part.line as usize].process)
                .or_default();
            cause.sum_ns += duration_ns;
            cause.through_ns += if part.line == directly {
                0
            } else {
                duration_ns
            };
            *cause.ranks.entry(waited).or_default() += duration_ns;
        }
    }
    let mut rows: Vec<_> = causes.into_iter().collect();
    rows.sort_by_key(|(id, cause)| (Reverse(cause.sum_ns), model.process(*id).order()));
    for (id, cause) in rows {
        let most = cause.ranks.iter();
        let most = most.max_by_key(|(id, ns)| (**ns, Reverse(model.process(**id).order())));
        let mut cells = rank_cells(model, id).to_vec();
        cells.extend([
            cause.sum_ns.into(),
            cause.through_ns.into(),
            (cause.ranks.len() as u64).into(),
            most.and_then(|(id, _)| model.process(*id).rank).into(),
            most.map(|(_, ns)| *ns).into(),
        ]);
        table.push(cells);
    }
    table
}
