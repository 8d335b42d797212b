//! The answer: the path of each iteration, and how much of it is whose and what.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::selection::Span;
use super::timeline::Kind;
use super::walk::Segment;
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::{Model, ProcessId, is_input};
use rsys_traces::words::counted;

/// Rows of the longest table in text.
const STEPS: usize = 60;
/// Steps of a path that have rows of their own, at most; what lies between them is put together.
const LISTED: usize = 5_000;
/// What such a row is.
const SEVERAL: &str = "several";
/// What nothing is known of.
const UNKNOWN: &str = "unknown";
/// Rows of sums in text.
const SUMS: usize = 20;

/// The path of an iteration, and why it is examined.
pub(super) struct Path {
    pub(super) why: &'static str,
    pub(super) span: Span,
    pub(super) segments: Vec<Segment>,
}

impl Path {
    fn share(&self, ns: u64) -> Option<f64> {
        let whole = self.span.duration_ns();
        (whole > 0).then(|| ns as f64 / whole as f64)
    }
}

impl Path {
    /// What most of it is, and how much: the GPU, communication, input, or what the host does else; `None` if more is unknown.
    fn bound_by(&self) -> Option<(&'static str, u64)> {
        let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
        for one in &self.segments {
            let of = match one.kind {
                Kind::Kernel | Kind::Copy | Kind::Fill | Kind::Queue | Kind::Event => "GPU",
                Kind::Collective => "communication",
                Kind::Unknown => UNKNOWN,
                _ if is_input(&one.name) => "input",
                _ => "host",
            };
            *sums.entry(of).or_default() += length(one);
        }
        let most = sums.into_iter().max_by_key(|(_, ns)| *ns);
        most.filter(|(of, _)| *of != UNKNOWN)
    }
}

/// The columns by which a rank is named.
const OWNER: [Column; 3] = [
    Column::plain("rank", "rank"),
    Column::plain("host", ""),
    Column::plain("process", "process"),
];

fn owner(rank: usize, model: &Model) -> [Cell; 3] {
    let process = model.process(ProcessId::new(rank));
    [
        process.rank.into(),
        process.host.as_str().into(),
        process.pid.into(),
    ]
}

fn length(segment: &Segment) -> u64 {
    segment.end.abs_diff(segment.start)
}

/// The answer about the paths, without notes on files.
pub(super) fn answer(paths: &[Path], marker: &str, model: &Model) -> Answer {
    let mut tables = vec![
        overview(paths, marker, model),
        sums(paths, model),
        steps(paths, model),
    ];
    tables.retain(|table| !table.rows.is_empty());
    Answer {
        tables,
        notes: notes(paths, model),
        is_empty: paths.is_empty(),
        ..Answer::default()
    }
}

fn overview(paths: &[Path], marker: &str, model: &Model) -> Table {
    let columns = [
        Column::plain("iteration", "iteration"),
        Column::plain("chosen", "chosen as"),
        Column::plain("ranks", "ranks"),
        Column::ns("duration_ns", "first begin to last end"),
        Column::plain("last_rank", "ends on rank"),
        Column::plain("path_ranks", "ranks on the path"),
        Column::plain("crossings", "collectives crossed"),
        Column::ns("gpu_ns", "on GPUs"),
        Column::ns("collective_ns", "in collectives"),
        Column::ns("host_ns", "on hosts"),
        Column::ns("unknown_ns", "unknown"),
        Column::plain("bound_by", "bound by"),
        Column::share("bound_share", "of it"),
        Column::ns("behind_ns", "GPU behind"),
        Column::ns("uncertainty_ns", "clocks \u{b1}"),
    ];
    let title = format!("Critical paths of iterations ({marker})");
    let mut table = Table::new("critical_paths", title, &columns);
    for path in paths {
        let segments = &path.segments;
        let of = |is_of: fn(Kind) -> bool| -> u64 {
            let some = segments.iter().filter(|one| is_of(one.kind));
            some.map(length).sum()
        };
        let ranks: BTreeSet<usize> = segments.iter().map(|one| one.rank).collect();
        let crossings = segments
            .windows(2)
            .filter(|pair| pair[0].rank != pair[1].rank);
        // One crossing without a bound leaves the whole without one.
        let uncertainties = segments.iter().filter_map(|one| one.crossing);
        let uncertainty_ns = uncertainties
            .map(|one| one.uncertainty_ns)
            .try_fold(0, |most: u64, one| Some(most.max(one?)));
        let bound = path.bound_by();
        table.push(vec![
            path.span.number.into(),
            path.why.into(),
            path.span.ranks.into(),
            path.span.duration_ns().into(),
            model.process(path.span.last.process).rank.into(),
            (ranks.len() as u64).into(),
            (crossings.count() as u64).into(),
            of(|kind| {
                matches!(
                    kind,
                    Kind::Kernel | Kind::Copy | Kind::Fill | Kind::Queue | Kind::Event
                )
            })
            .into(),
            of(|kind| kind == Kind::Collective).into(),
            of(|kind| matches!(kind, Kind::Launch | Kind::Call | Kind::Host(_))).into(),
            of(|kind| kind == Kind::Unknown).into(),
            bound.map(|bound| bound.0).into(),
            bound.and_then(|bound| path.share(bound.1)).into(),
            path.span.last.behind_ns.into(),
            uncertainty_ns.into(),
        ]);
    }
    table
}

fn sums(paths: &[Path], model: &Model) -> Table {
    let mut columns = vec![Column::plain("iteration", "iteration")];
    columns.extend(OWNER);
    columns.extend([
        Column::plain("kind", "kind"),
        Column::ns("duration_ns", "time"),
        Column::share("path_share", "of the path"),
        Column::plain("count", "times"),
        Column::plain("name", "what"),
    ]);
    let mut table = Table::new(
        "critical_path_sums",
        "What the paths consist of, the longest first",
        &columns,
    );
    table.rows_in_text = SUMS * paths.len().max(1);
    for path in paths {
        let mut found: BTreeMap<(usize, Kind, &str), (u64, u64)> = BTreeMap::new();
        for one in &path.segments {
            let sum = found.entry((one.rank, one.kind, &*one.name)).or_default();
            *sum = (sum.0 + length(one), sum.1 + 1);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        let order = |rank: usize| model.process(ProcessId::new(rank)).order();
        found.sort_by(|one, other| {
            let longest_first = Reverse(one.1.0).cmp(&Reverse(other.1.0));
            let by_rank = || order(one.0.0).cmp(&order(other.0.0));
            let by_name = || (one.0.1, one.0.2).cmp(&(other.0.1, other.0.2));
            longest_first.then_with(by_rank).then_with(by_name)
        });
        for ((rank, kind, name), (sum_ns, count)) in found {
            let mut cells = vec![path.span.number.into()];
            cells.extend(owner(rank, model));
            cells.extend([
                kind.text().into(),
                sum_ns.into(),
                path.share(sum_ns).into(),
                count.into(),
                name.into(),
            ]);
            table.push(cells);
        }
    }
    table
}

fn steps(paths: &[Path], model: &Model) -> Table {
    let mut columns = vec![
        Column::plain("iteration", "iteration"),
        Column::plain("step", ""),
    ];
    columns.extend(OWNER);
    columns.extend([
        Column::ns("start_ns", "since its begin"),
        Column::ns("duration_ns", "time"),
        Column::plain("kind", "kind"),
        Column::plain("name", "what"),
        Column::ns("margin_ns", "last by"),
        Column::ns("margin_uncertainty_ns", ""),
        Column::ns("uncertainty_ns", "clocks \u{b1}"),
        Column::plain("verdict", "verdict"),
    ]);
    let mut table = Table::new(
        "critical_path",
        "The paths from begin to end: each step waited for the one above it",
        &columns,
    );
    table.rows_in_text = STEPS * paths.len().max(1);
    for path in paths {
        let listed = listed(&path.segments);
        let of_path: Vec<(&Segment, bool)> = path.segments.iter().zip(listed).collect();
        let rows = of_path.chunk_by(|(one, is_listed), (other, is_other_listed)| {
            // Several short ones of one rank are a row.
            one.rank == other.rank && !is_listed && !is_other_listed
        });
        for (step, of_row) in (0_u64..).zip(rows) {
            let one = of_row[0].0;
            if of_row.len() > 1 {
                let mut cells = vec![path.span.number.into(), step.into()];
                cells.extend(owner(one.rank, model));
                let end = of_row[of_row.len() - 1].0.end;
                cells.extend([
                    one.start.abs_diff(path.span.begin).into(),
                    end.abs_diff(one.start).into(),
                    SEVERAL.into(),
                    counted(of_row.len() as u64, "short step").into(),
                ]);
                cells.resize(columns.len(), Cell::Null);
                table.push(cells);
                continue;
            }
            let crossing = one.crossing;
            let verdict = match (crossing, one.is_unmatched) {
                (Some(crossing), _) if crossing.is_certain() => Some("certain"),
                (Some(_), _) => Some("inconclusive"),
                (None, true) => Some("not matched"),
                (None, false) => None,
            };
            let mut cells = vec![path.span.number.into(), step.into()];
            cells.extend(owner(one.rank, model));
            cells.extend([
                one.start.abs_diff(path.span.begin).into(),
                length(one).into(),
                one.kind.text().into(),
                (&*one.name).into(),
                crossing.map(|one| one.margin_ns).into(),
                crossing.and_then(|one| one.margin_uncertainty_ns).into(),
                crossing.and_then(|one| one.uncertainty_ns).into(),
                verdict.into(),
            ]);
            table.push(cells);
        }
    }
    table
}

/// Which steps of a path have rows of their own: those that cross to another rank, and the longest, of equal ones the first.
fn listed(segments: &[Segment]) -> Vec<bool> {
    let mut listed = vec![segments.len() <= LISTED; segments.len()];
    if segments.len() > LISTED {
        let mut order: Vec<usize> = (0..segments.len()).collect();
        order.select_nth_unstable_by_key(LISTED, |&place| {
            (Reverse(length(&segments[place])), place)
        });
        order[..LISTED]
            .iter()
            .for_each(|&place| listed[place] = true);
        for (listed, one) in listed.iter_mut().zip(segments) {
            *listed |= one.crossing.is_some();
        }
    }
    listed
}

fn notes(paths: &[Path], model: &Model) -> Vec<String> {
    let segments = || paths.iter().flat_map(|path| &path.segments);
    let mut notes = Vec::new();
    for path in paths.iter().filter(|path| path.segments.len() > LISTED) {
        notes.push(format!(
            "the path of iteration {} has {} steps: the longest {LISTED} have rows of their own, what lies between them is put together ({SEVERAL}); what it consists of counts all",
            path.span.number,
            path.segments.len()
        ));
    }
    let inconclusive = segments().filter(|one| one.crossing.is_some_and(|one| !one.is_certain()));
    let inconclusive = inconclusive.count();
    if inconclusive > 0 {
        notes.push(format!(
            "collectives on these paths of which it is not certain who came last: {inconclusive} (verdict inconclusive: the clocks may differ by more)"
        ));
    }
    let unmatched = segments().filter(|one| one.is_unmatched).count();
    if unmatched > 0 && model.processes.len() > 1 {
        notes.push(format!(
            "{unmatched} collectives could not be matched across ranks; the path stays on the same rank there"
        ));
    }
    notes
}
