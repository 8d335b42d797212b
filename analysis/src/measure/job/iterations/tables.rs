//! The answer: tables of ranks, of iterations, and of what was different.

use std::cmp::Reverse;

use super::Options;
use super::job::{Drift, FASTER, Saving, Together, drifts, savings, together};
use super::lane::{Detail, Iteration, Lane, SENSORS, ranks_of};
use super::map::map;
use super::notes::notes;
use super::sums::{FIELDS, Field, Sums};
use super::verdicts::{Verdict, median};
use crate::table::{Answer, Cell, Column, Table};

/// The slowest iterations that are shown.
const SLOWEST: usize = 10;
/// Those that are longer than is usual by less than this part are as long as any.
const SLOWER: u64 = 100;
/// Rows of each table in text.
const ROWS: usize = 10;
/// Beyond this many rows the table of iterations is left out.
const ITERATIONS_MAX: usize = 200_000;

/// Whether so many iterations of ranks are not listed.
#[must_use]
pub fn are_too_many(iterations: usize) -> bool {
    iterations > ITERATIONS_MAX
}

/// The columns by which a rank and its GPU are named.
const OWNER: [Column; 4] = [
    Column::plain("rank", "rank"),
    Column::plain("host", ""),
    Column::plain("process", "process"),
    Column::plain("device", "GPU"),
];

fn owner(lane: &Lane) -> Vec<Cell> {
    vec![
        lane.rank.into(),
        lane.host.as_str().into(),
        lane.pid.into(),
        lane.device.0.into(),
    ]
}

/// The answer about all lanes, in the order of output.
#[must_use]
pub fn answer(lanes: &[Lane], options: &Options) -> Answer {
    let together = together(lanes);
    let drifts = drifts(lanes);
    let count: usize = lanes.iter().map(|lane| lane.iterations.len()).sum();
    let mut tables = vec![
        overlap(lanes, options),
        ranks(lanes, &drifts),
        slowest(lanes, &together),
        faster(lanes, &together),
        without(lanes, &together),
        changes(lanes),
        job(lanes, &together),
        layers(lanes),
        map(lanes),
    ];
    if !are_too_many(count)
        && lanes
            .iter()
            .all(|lane| lane.details.len() == lane.iterations.len())
    {
        tables.push(iterations(lanes));
    }
    tables.retain(|table| !table.rows.is_empty());
    Answer {
        tables,
        notes: notes(lanes, options, count),
        is_empty: count == 0,
        ..Answer::default()
    }
}

/// What recurs within iterations.
fn layers(lanes: &[Lane]) -> Table {
    let mut columns = OWNER.to_vec();
    columns.extend([
        Column::plain("layers", "layers in an iteration"),
        Column::ns("mean_ns", "of"),
        Column::plain("kernel", "each begins with"),
    ]);
    let title = "Kernels that recur within an iteration, as those of layers do";
    let mut table = Table::new("layers", title, &columns);
    table.rows_in_text = ROWS;
    for lane in lanes {
        if let Some(layers) = &lane.layers {
            let mut cells = owner(lane);
            cells.extend::<[Cell; 3]>([
                layers.count.into(),
                layers.mean_ns.into(),
                layers.kernel.as_str().into(),
            ]);
            table.push(cells);
        }
    }
    table
}

fn overlap(lanes: &[Lane], options: &Options) -> Table {
    let columns = [
        Column::plain("assign", "assigned by"),
        Column::plain("ranks", "ranks"),
        Column::plain("iterations", "iterations"),
        Column::ns("computation_ns", ""),
        Column::ns("compute_comm_ns", ""),
        Column::share("overlap_ratio", "of computation with comm"),
        Column::ns("total_comm_ns", ""),
        Column::ns("hidden_comm_ns", ""),
        Column::share("comm_hidden_share", "of comm hidden"),
    ];
    let mut table = Table::new(
        "overlap",
        "Computation and communication of all ranks",
        &columns,
    );
    let mut sums = Sums::default();
    lanes.iter().for_each(|lane| sums.add_all(&lane.sums));
    let count: usize = lanes.iter().map(|lane| lane.iterations.len()).sum();
    if !lanes.is_empty() {
        table.push(vec![
            options.assign.text().into(),
            (ranks_of(lanes) as u64).into(),
            (count as u64).into(),
            sums.get(Field::Computation).into(),
            sums.get(Field::ComputeComm).into(),
            sums.overlap_ratio().into(),
            sums.get(Field::Comm).into(),
            sums.hidden_ns().into(),
            sums.hidden_share().into(),
        ]);
    }
    table
}

fn ranks(lanes: &[Lane], drifts: &[Option<Drift>]) -> Table {
    let mut columns = OWNER.to_vec();
    columns.extend([
        Column::plain("name", ""),
        Column::plain("marker", "marker"),
        Column::plain("marker_kind", "is a"),
        Column::plain("iterations", "iterations"),
        Column::plain("not_steady", "not steady"),
        Column::ns("mean_ns", "mean"),
        Column::ns("steady_mean_ns", ""),
        Column::ns("median_ns", "median"),
        Column::ns("p95_ns", "p95"),
        Column::ns("max_ns", "max"),
        Column::ns("computation_mean_ns", "computation"),
        Column::ns("exposed_comm_mean_ns", "exposed comm"),
        Column::ns("exposed_memcpy_mean_ns", "exposed copies"),
        Column::ns("idle_mean_ns", "idle"),
        Column::share("comm_hidden_share", "comm hidden"),
        Column::share("overlap_ratio", ""),
        Column::ns("drift_ns", "drift"),
        Column::ns("drift_most_ns", ""),
        Column::ns("host_ahead_ns", ""),
    ]);
    columns.extend(FIELDS.map(|(_, key, _)| of_key(key)));
    columns.extend(GPU.map(|(_, key)| of_key(key)));
    let title = "Iterations of each rank, means of one";
    let mut table = Table::new("overlap_ranks", title, &columns);
    for (lane, drift) in lanes.iter().zip(drifts) {
        let mut durations: Vec<u64> = lane.iterations.iter().map(|one| one.duration_ns).collect();
        let steady = lane
            .iterations
            .iter()
            .filter(|one| one.verdict == Verdict::Steady);
        let steady: Vec<u64> = steady.map(|one| one.duration_ns).collect();
        let sums = lane.sums;
        let count = durations.len() as u64;
        let mean = |sum: u64| sum.checked_div(count);
        let median_ns = (count > 0).then(|| median(&mut durations));
        let at = |share: f64| {
            durations
                .get(((count.max(1) - 1) as f64 * share).ceil() as usize)
                .copied()
        };
        let mut cells = owner(lane);
        cells.extend::<[Cell; 19]>([
            lane.device.1.as_str().into(),
            lane.marker.as_str().into(),
            lane.marker_kind.text().into(),
            count.into(),
            (count - steady.len() as u64).into(),
            mean(durations.iter().sum()).into(),
            steady
                .iter()
                .sum::<u64>()
                .checked_div(steady.len() as u64)
                .into(),
            median_ns.into(),
            at(0.95).into(),
            at(1.0).into(),
            mean(sums.get(Field::Computation)).into(),
            mean(sums.get(Field::ExposedComm)).into(),
            mean(sums.get(Field::ExposedMemcpy)).into(),
            mean(sums.get(Field::Idle)).into(),
            sums.hidden_share().into(),
            sums.overlap_ratio().into(),
            drift.map(|one| one.last_ns as f64).into(),
            drift.map(|one| one.most_ns as f64).into(),
            lane.host_ahead_ns.into(),
        ]);
        cells.extend(sums.0.map(Cell::from));
        cells.extend(GPU.map(|(field, _)| lane.whole.get(field).into()));
        table.push(cells);
    }
    table
}

/// Numbers of the whole GPU, of all iterations and of what is of none.
const GPU: [(Field, &str); 6] = [
    (Field::Computation, "gpu_computation_ns"),
    (Field::Comm, "gpu_total_comm_ns"),
    (Field::ExposedComm, "gpu_exposed_comm_ns"),
    (Field::Memcpy, "gpu_total_memcpy_ns"),
    (Field::ExposedMemcpy, "gpu_exposed_memcpy_ns"),
    (Field::Idle, "gpu_idle_ns"),
];

/// A column that text does not have.
const fn of_key(key: &'static str) -> Column {
    Column::plain(key, "")
}

fn slowest(lanes: &[Lane], together: &[Together]) -> Table {
    let columns = [
        Column::plain("iteration", "iteration"),
        Column::ns("duration_ns", "took"),
        Column::ns("usual_ns", "usually"),
        Column::plain("verdict", "which is"),
        OWNER[0],
        OWNER[1],
        OWNER[2],
        OWNER[3],
        Column::ns("own_ns", "of its own"),
        Column::line("more", "more of"),
    ];
    let title = "The slowest iterations, the rank that had the most to do with each, and what that had more of";
    let mut table = Table::new("slow_iterations", title, &columns);
    let closed = together.iter().filter(|one| one.verdict != Verdict::Open);
    let usual_ns = median(&mut closed.clone().map(|one| one.max_ns).collect::<Vec<_>>());
    let least_ns = usual_ns + usual_ns / SLOWER;
    let mut slowest: Vec<&Together> = closed.filter(|one| one.max_ns > least_ns).collect();
    slowest.sort_by_key(|one| (Reverse(one.max_ns), one.number));
    for one in slowest.into_iter().take(SLOWEST) {
        let (lane, place) = one.own;
        let lane = &lanes[lane];
        let more = lane.differences.get(&place).map_or(&[][..], Vec::as_slice);
        let mut cells: Vec<Cell> = vec![
            one.number.into(),
            one.max_ns.into(),
            usual_ns.into(),
            one.verdict.text().into(),
        ];
        cells.extend(owner(lane));
        let words: Vec<String> = more
            .iter()
            .map(|one| {
                let at = if one.place.is_empty() { "" } else { ", " };
                format!(
                    "{}{at}{} (+{})",
                    one.what,
                    one.place,
                    milliseconds(one.more_ns)
                )
            })
            .collect();
        cells.push(one.own_ns.into());
        cells.push(words.join("; ").into());
        let parts = [
            Column::plain("what", ""),
            Column::plain("place", ""),
            Column::plain("more_ns", ""),
        ];
        let mut below = Table::new("differences", "", &parts);
        below.is_detail = true;
        for one in more {
            below.push(vec![
                one.what.as_str().into(),
                one.place.as_str().into(),
                one.more_ns.into(),
            ]);
        }
        table.push(crate::table::Row {
            cells,
            below: vec![below],
        });
    }
    table
}

/// What iterations would gain by faster kernels.
fn faster(lanes: &[Lane], together: &[Together]) -> Table {
    let title = format!(
        "If a kernel took {:.0} % less time on all ranks, by how long it is all that the GPU does in an iteration",
        100.0 * FASTER
    );
    let savings = savings(lanes, |lane| &lane.kernels, FASTER);
    what_if(
        ("faster_kernels", title),
        Column::plain("kernel", "kernel"),
        savings,
        together,
    )
}

/// What iterations would gain without an idle time.
fn without(lanes: &[Lane], together: &[Together]) -> Table {
    let title = "If the GPUs were not idle for a cause on any rank".to_owned();
    let savings = savings(lanes, |lane| &lane.gaps, 1.0);
    what_if(
        ("without_gaps", title),
        Column::plain("gap", "idle by"),
        savings,
        together,
    )
}

fn what_if(
    (key, title): (&'static str, String),
    what: Column,
    savings: Vec<Saving>,
    together: &[Together],
) -> Table {
    let columns = [
        what,
        Column::ns("alone_ns", "in an iteration"),
        Column::ns("iteration_ns", "iteration"),
        Column::ns("predicted_ns", "then"),
        Column::ns("saved_ns", "saved"),
        Column::share("saved_share", "of it"),
    ];
    let mut table = Table::new(key, title, &columns);
    table.rows_in_text = ROWS;
    let closed = together.iter().filter(|one| one.verdict != Verdict::Open);
    let usual_ns = median(&mut closed.map(|one| one.max_ns).collect::<Vec<_>>()) as f64;
    if usual_ns > 0.0 {
        for saving in savings {
            table.push(vec![
                saving.name.into(),
                saving.alone_ns.into(),
                usual_ns.into(),
                (usual_ns - saving.saved_ns).into(),
                saving.saved_ns.into(),
                (saving.saved_ns / usual_ns).into(),
            ]);
        }
    }
    table
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn changes(lanes: &[Lane]) -> Table {
    let mut columns = OWNER.to_vec();
    columns.extend([
        Column::plain("iteration", "from iteration"),
        Column::ns("at_ns", ""),
        Column::ns("before_ns", "before"),
        Column::ns("after_ns", "after"),
        Column::share("change_share", "change"),
    ]);
    let title = "Where the length of iterations changes for long (medians)";
    let mut table = Table::new("iteration_changes", title, &columns);
    table.rows_in_text = ROWS;
    for lane in lanes {
        for change in &lane.changes {
            let first = &lane.iterations[change.from];
            let share = change.after_ns as f64 / change.before_ns as f64 - 1.0;
            let mut cells = owner(lane);
            cells.extend::<[Cell; 5]>([
                first.number.into(),
                first.start_ns.into(),
                change.before_ns.into(),
                change.after_ns.into(),
                share.into(),
            ]);
            table.push(cells);
        }
    }
    table
}

/// Each iteration over all ranks, if there are several.
fn job(lanes: &[Lane], together: &[Together]) -> Table {
    let columns = [
        Column::plain("iteration", "iteration"),
        Column::plain("ranks", "ranks"),
        Column::ns("min_ns", "min"),
        Column::ns("median_ns", "median"),
        Column::ns("max_ns", "max"),
        Column::plain("longest_rank", "rank with max"),
        Column::plain("own_rank", ""),
        Column::ns("own_ns", ""),
        Column::plain("verdict", "which is"),
    ];
    let mut table = Table::new("job_iterations", "Each iteration over all ranks", &columns);
    table.rows_in_text = ROWS;
    if ranks_of(lanes) > 1 {
        for one in together {
            table.push(vec![
                one.number.into(),
                one.ranks.into(),
                one.min_ns.into(),
                one.median_ns.into(),
                one.max_ns.into(),
                lanes[one.longest.0].rank.into(),
                lanes[one.own.0].rank.into(),
                one.own_ns.into(),
                one.verdict.text().into(),
            ]);
        }
    }
    table
}

fn iterations(lanes: &[Lane]) -> Table {
    let mut columns = OWNER.to_vec();
    columns.extend([
        Column::plain("iteration", "iteration"),
        Column::plain("verdict", "which is"),
        Column::ns("start_ns", ""),
        Column::ns("duration_ns", "took"),
    ]);
    columns.extend(FIELDS.map(|(_, key, title)| match key.ends_with("_ns") {
        true => Column::ns(key, title),
        false => Column::plain(key, title),
    }));
    columns.extend([
        Column::share("comm_hidden_share", "comm hidden"),
        Column::share("overlap_ratio", ""),
    ]);
    columns.extend(SENSORS.map(|(_, _, key)| Column::plain(key, "")));
    let mut table = Table::new("iterations", "Iterations", &columns);
    table.rows_in_text = ROWS;
    for lane in lanes {
        for (one, detail) in lane.iterations.iter().zip(&lane.details) {
            table.push(iteration(lane, Some(one), detail));
        }
        let outside = Detail {
            sums: lane.outside,
            sensors: [None; 3],
        };
        table.push(iteration(lane, None, &outside));
    }
    table
}

/// A row of an iteration, or of what is of none.
fn iteration(lane: &Lane, one: Option<&Iteration>, detail: &Detail) -> Vec<Cell> {
    let sums = &detail.sums;
    let mut cells = owner(lane);
    cells.extend::<[Cell; 4]>([
        one.map(|one| one.number).into(),
        one.map_or("outside", |one| one.verdict.text()).into(),
        one.map(|one| one.start_ns).into(),
        one.map(|one| one.duration_ns).into(),
    ]);
    cells.extend(sums.0.map(Cell::from));
    cells.extend([sums.hidden_share().into(), sums.overlap_ratio().into()]);
    cells.extend(detail.sensors.map(Cell::from));
    cells
}
