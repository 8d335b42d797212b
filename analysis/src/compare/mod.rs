//! Two runs, or several of two programs: what became slower, by how much, and how sure that is.
//!
//! | file | holds |
//! |---|---|
//! | `statistics` | estimates and their errors, and whether two differ by more than chance |
//! | `names` | which names of both sides mean the same |
//! | `side` | the runs of a side, and what is taken from their answers |
//!
//! How much something varies is taken from repetitions where a side has three or more, else from stretches of the launches of a kernel, or from the
//! number of samples of a function. Many things are compared at once, of which some differ by chance: a verdict allows for that, so that two runs of the
//! same program have any difference in one of 20 comparisons at most.

mod names;
mod side;
mod statistics;

use std::collections::BTreeMap;

pub use self::side::{Run, Side, measures};

use self::names::{in_file, pairs};
use self::statistics::{Change, Estimate, Verdict};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::{Activity, OpKind, classify};

/// What has less of the time of its kind is not what makes a run slow.
const WORTH_SHARE: f64 = 0.001;

/// Launches that differ by less are those of one work: a warm-up more, say.
const LAUNCHES_SHARE: f64 = 0.01;

/// Rows in text.
const ROWS: usize = 20;

/// Compares two sides. With a limit (0.03: 3 %), the table `failures` lists what became slower by more.
#[must_use]
pub fn compare(reference: &Side, candidate: &Side, limit_share: Option<f64>) -> Answer {
    let compared = Compared::new(reference, candidate);
    let tables = [
        overlap(reference, candidate),
        compared.times(),
        compared.kernels(),
        compared.functions(),
        compared.waits(),
        compared.calls(),
        compared.recorded(),
        compared.idle(),
        compared.operators(),
        compared.memory(),
    ];
    let mut tables: Vec<Table> = tables
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect();
    if let Some(limit_share) = limit_share {
        tables.insert(0, compared.failures(limit_share));
    }
    let mut notes = Vec::new();
    for side in [reference, candidate] {
        for note in side.runs.iter().flat_map(Run::notes) {
            let note = format!("{}: {note}", side.label);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    if !compared.has_repetitions {
        notes.push(
            "fewer than three runs of a side: how much whole runs differ by chance is not known, so intervals are of what varies within a run, and what has \
             only one value for each run has none; name more runs (--reference, --candidate)"
                .to_owned(),
        );
    }
    match compared.functions_by_chance() {
        0 => {}
        count => notes.push(format!(
            "{count} functions differ by no more than chance: their rows are in JSON (--json)"
        )),
    }
    notes.extend(renamed_script(&compared.functions));
    notes.extend(other_amounts([reference, candidate], &compared.kernels));
    if compared.has_slower_collectives() {
        notes.push(
            "kernels of collectives also take longer when ranks wait in them for one that is late: `rsys-report collectives` says which one, and what it did"
                .to_owned(),
        );
    }
    let is_empty = compared.kernels.is_empty() && compared.functions.is_empty();
    Answer {
        tables,
        notes,
        is_empty,
        ..Answer::default()
    }
}

/// What says that functions of one script are compared with those of another.
fn renamed_script(functions: &[Item]) -> Option<String> {
    let mut renamed = functions.iter().filter_map(|item| {
        let (function, old) = in_file(item.renamed.as_deref()?)?;
        let (same, new) = in_file(&item.name)?;
        (function == same && old != new).then_some((old, new))
    });
    let (old, new) = renamed.next()?;
    Some(format!(
        "the script was renamed: functions of {new} are compared with those of the same names in {old}"
    ))
}

/// What says that the sides did not do as much work as each other, so that times of whole runs are no measure of speed.
fn other_amounts(sides: [&Side; 2], kernels: &[Item]) -> Option<String> {
    let launches = [0, 1].map(|side| kernels.iter().map(|item| item.counts[side]).sum::<f64>());
    let amounts = [
        ("kernels", launches, LAUNCHES_SHARE),
        ("GPUs", sides.map(Side::gpus), 0.0),
    ];
    let differ = amounts.iter().filter(|(_, [before, now], share)| {
        *before > 0.0 && *now > 0.0 && (now - before).abs() > share * before.max(*now)
    });
    let differ: Vec<String> = differ
        .map(|(what, [before, now], _)| format!("{what}: {before:.0} before, {now:.0} now"))
        .collect();
    (!differ.is_empty()).then(|| {
        format!(
            "the sides do not do the same work ({}): times of a run are sums of all that ran, so only what one kernel takes tells which is faster",
            differ.join("; ")
        )
    })
}

/// Something that both sides may have.
#[derive(Debug)]
struct Item {
    /// What it is called; in a comparison of kernels, by the candidate.
    name: String,
    /// The reference's name, if that is another.
    renamed: Option<String>,
    /// How often it was there in a run, on average.
    counts: [f64; 2],
    /// Its time in a run, on average.
    totals: [f64; 2],
    estimates: [Option<Estimate>; 2],
    change: Option<Change>,
}

impl Item {
    fn verdict(&self) -> &'static str {
        match (&self.estimates, self.change.map(|change| change.verdict)) {
            ([None, _], _) => "new",
            ([_, None], _) => "gone",
            (_, Some(Verdict::More)) => "slower",
            (_, Some(Verdict::Less)) => "faster",
            (_, Some(Verdict::Same)) => "no change",
            _ => "not certain",
        }
    }

    /// Whether a function differs by no more than chance. Of other things it is not known.
    fn is_chance(&self) -> bool {
        let known = || self.estimates.iter().flatten();
        match self.verdict() {
            "no change" => known().any(Estimate::is_of_samples),
            "new" | "gone" => known().all(Estimate::is_chance),
            _ => false,
        }
    }

    fn effect(&self) -> f64 {
        self.totals[1] - self.totals[0]
    }

    /// The cells of [`CHANGE`].
    fn change_cells(&self) -> Vec<Cell> {
        let interval = self.change.and_then(|change| change.interval);
        vec![
            self.change.and_then(|change| change.share).into(),
            interval.map(|(low, _)| low).into(),
            interval.map(|(_, high)| high).into(),
            self.verdict().into(),
        ]
    }

    fn value(&self, side: usize) -> Cell {
        self.estimates[side].as_ref().map(|one| one.value).into()
    }
}

const CHANGE: [Column; 4] = [
    Column::share("change_share", "change"),
    Column::share("low_share", "from"),
    Column::share("high_share", "to"),
    Column::plain("verdict", "verdict"),
];

/// All that is compared.
#[derive(Debug)]
struct Compared {
    has_repetitions: bool,
    times: Vec<Item>,
    kernels: Vec<Item>,
    functions: Vec<Item>,
    waits: Vec<Item>,
    calls: Vec<Item>,
    recorded: Vec<Item>,
    idle: Vec<Item>,
    operators: Vec<Item>,
    memory: Vec<Item>,
}

impl Compared {
    fn new(reference: &Side, candidate: &Side) -> Self {
        let sides = [reference, candidate];
        let kernels = kernels(sides);
        let mut times = plain(sides.map(Side::times));
        times.extend(all_kernels(&kernels));
        let mut compared = Self {
            has_repetitions: sides.iter().all(|side| side.has_repetitions()),
            times,
            kernels,
            functions: functions(sides),
            waits: plain(sides.map(Side::waits)),
            calls: plain(sides.map(Side::calls)),
            recorded: plain(sides.map(Side::recorded)),
            idle: plain(sides.map(Side::idle)),
            operators: plain(sides.map(Side::operators)),
            memory: plain(sides.map(Side::memory)),
        };
        compared.judge();
        compared
    }

    /// Finds the change of each item, allowing for all that are compared with it.
    fn judge(&mut self) {
        for items in [
            &mut self.times,
            &mut self.kernels,
            &mut self.functions,
            &mut self.waits,
            &mut self.calls,
            &mut self.recorded,
            &mut self.idle,
            &mut self.operators,
            &mut self.memory,
        ] {
            let comparisons = items
                .iter()
                .filter(|item| item.estimates.iter().all(Option::is_some))
                .count();
            for item in &mut *items {
                if let [Some(before), Some(after)] = &item.estimates {
                    item.change = Some(Change::new(before, after, comparisons));
                }
            }
            items.sort_by(|one, other| {
                let chance = one.is_chance().cmp(&other.is_chance());
                let effects = other.effect().abs().total_cmp(&one.effect().abs());
                let totals = other.totals[0].total_cmp(&one.totals[0]);
                let order = chance.then(effects).then(totals);
                order.then_with(|| one.name.cmp(&other.name))
            });
        }
    }

    fn has_slower_collectives(&self) -> bool {
        let mut slower = self
            .kernels
            .iter()
            .filter(|item| item.verdict() == "slower");
        slower.any(|item| classify(OpKind::Kernel, &item.name) == Activity::Comm)
    }

    fn times(&self) -> Table {
        let mut table = table(
            "diff_times",
            "Time of a run, all GPUs and threads together",
            "time",
            "_ns",
            &self.times,
        );
        table.rows_in_text = usize::MAX;
        table
    }

    fn functions(&self) -> Table {
        let mut table = table(
            "diff_functions",
            "CPU time of functions, without those that they call",
            "function",
            "_ns",
            &self.functions,
        );
        table.rows_in_text = ROWS.min(self.functions.len() - self.functions_by_chance());
        table
    }

    /// How many functions differ by no more than chance. They come last.
    fn functions_by_chance(&self) -> usize {
        self.functions.iter().filter(|one| one.is_chance()).count()
    }

    fn waits(&self) -> Table {
        table(
            "diff_waits",
            "What threads waited for, all together",
            "wait",
            "_ns",
            &self.waits,
        )
    }

    fn calls(&self) -> Table {
        table(
            "diff_calls",
            "Time in calls of GPU runtimes, RCCL and MPI, all threads together",
            "call",
            "_ns",
            &self.calls,
        )
    }

    fn recorded(&self) -> Table {
        table(
            "diff_recorded",
            "Time of recorded operators and functions, without those that they call",
            "recorded",
            "_ns",
            &self.recorded,
        )
    }

    fn idle(&self) -> Table {
        table(
            "diff_idle",
            "Idle time of GPUs by cause",
            "cause",
            "_ns",
            &self.idle,
        )
    }

    fn operators(&self) -> Table {
        table(
            "diff_operators",
            "GPU time of kernels by operator",
            "operator",
            "_ns",
            &self.operators,
        )
    }

    fn memory(&self) -> Table {
        table(
            "diff_memory",
            "Memory at its peak, all processes together",
            "memory",
            "_bytes",
            &self.memory,
        )
    }

    fn kernels(&self) -> Table {
        let mut columns = vec![
            Column::plain("name", "kernel"),
            Column::line("reference_name", "was called"),
            Column::plain("reference_count", "count"),
            Column::plain("candidate_count", "now"),
            Column::ns("reference_mean_ns", "mean"),
            Column::ns("candidate_mean_ns", "now"),
        ];
        columns.extend(CHANGE);
        columns.push(Column::ns("effect_ns", "in a run"));
        let mut table = Table::new(
            "diff_kernels",
            "Kernels, by what their change makes of a run",
            &columns,
        );
        table.rows_in_text = ROWS;
        for item in &self.kernels {
            let mut cells: Vec<Cell> = vec![
                item.name.as_str().into(),
                item.renamed.as_deref().into(),
                whole(item.counts[0]),
                whole(item.counts[1]),
                item.value(0),
                item.value(1),
            ];
            cells.extend(item.change_cells());
            cells.push(item.effect().into());
            table.push(cells);
        }
        table
    }

    /// What became slower by more than the limit, and surely so.
    fn failures(&self, limit_share: f64) -> Table {
        let columns = [
            Column::plain("kind", "what"),
            Column::plain("name", "name"),
            Column::share("change_share", "change"),
            Column::share("limit_share", "limit"),
        ];
        let mut table = Table::new("failures", "Slower by more than the limit", &columns);
        for (kind, items) in [
            ("time", &self.times),
            ("kernel", &self.kernels),
            ("function", &self.functions),
            ("idle", &self.idle),
        ] {
            let all: f64 = items.iter().map(|item| item.totals[0]).sum();
            for item in items {
                let Some(change) = item.change.filter(|change| change.verdict == Verdict::More)
                else {
                    continue;
                };
                let is_worth = item.totals[0] >= all * WORTH_SHARE;
                if let Some(share) = change
                    .share
                    .filter(|share| is_worth && *share > limit_share)
                {
                    table.push(vec![
                        kind.into(),
                        item.name.as_str().into(),
                        share.into(),
                        limit_share.into(),
                    ]);
                }
            }
        }
        table
    }
}

/// A number that is whole in all but odd cases: runs that differ.
fn whole(number: f64) -> Cell {
    match number.fract() {
        0.0 => Cell::Count(number as u64),
        _ => number.into(),
    }
}

/// A table of values of a run, in nanoseconds or bytes as the end of their keys says.
fn table(key: &'static str, title: &str, what: &'static str, unit: &str, items: &[Item]) -> Table {
    let (reference, candidate, effect) = match unit {
        "_bytes" => (
            Column::bytes("reference_bytes", "before"),
            Column::bytes("candidate_bytes", "now"),
            Column::bytes("effect_bytes", ""),
        ),
        _ => (
            Column::ns("reference_ns", "before"),
            Column::ns("candidate_ns", "now"),
            Column::ns("effect_ns", ""),
        ),
    };
    let mut columns = vec![Column::plain("name", what), reference, candidate];
    columns.extend(CHANGE);
    columns.push(effect);
    let mut table = Table::new(key, title, &columns);
    table.rows_in_text = ROWS;
    for item in items {
        let mut cells: Vec<Cell> = vec![item.name.as_str().into(), item.value(0), item.value(1)];
        cells.extend(item.change_cells());
        cells.push(item.effect().into());
        table.push(cells);
    }
    table
}

/// Kernels of both sides, by their mean duration.
fn kernels(sides: [&Side; 2]) -> Vec<Item> {
    let of_sides = sides.map(Side::kernels);
    let [before, after] = &of_sides;
    pairs(
        before.keys().map(String::as_str),
        after.keys().map(String::as_str),
    )
    .into_iter()
    .map(|pair| {
        let found = [
            pair.before.and_then(|name| before.get(name)),
            pair.after.and_then(|name| after.get(name)),
        ];
        let name = pair.after.or(pair.before).unwrap_or_default();
        Item {
            name: name.to_owned(),
            renamed: pair
                .before
                .filter(|before| *before != name)
                .map(str::to_owned),
            counts: found.map(|one| one.map_or(0.0, |one| one.count)),
            totals: found.map(|one| one.map_or(0.0, |one| one.total)),
            estimates: found.map(|one| one.map(|one| one.mean.clone())),
            change: None,
        }
    })
    .collect()
}

/// The time of all kernels together, as a row of its own: one that is new or gone counts there.
fn all_kernels(kernels: &[Item]) -> Option<Item> {
    let sum = |side: usize| {
        let parts = kernels.iter();
        let parts =
            parts.filter_map(|item| Some((item.estimates[side].as_ref()?, item.counts[side])));
        Estimate::sum(parts.collect::<Vec<_>>().into_iter())
    };
    (!kernels.is_empty()).then(|| Item {
        name: "all kernels".to_owned(),
        renamed: None,
        counts: [1.0; 2],
        totals: [0, 1].map(|side| kernels.iter().map(|item| item.totals[side]).sum()),
        estimates: [0, 1].map(|side| Some(sum(side))),
        change: None,
    })
}

/// Functions of both sides, by their own CPU time.
fn functions(sides: [&Side; 2]) -> Vec<Item> {
    let of_sides = sides.map(Side::functions);
    plain(of_sides)
}

/// What is there once in a run.
fn plain(of_sides: [BTreeMap<String, Estimate>; 2]) -> Vec<Item> {
    let [before, after] = &of_sides;
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| {
            let found = [before.get(name), after.get(name)];
            Item {
                name: name.clone(),
                renamed: None,
                counts: [1.0; 2],
                totals: found.map(|one| one.map_or(0.0, |one| one.value)),
                estimates: found.map(Option::<&Estimate>::cloned),
                change: None,
            }
        })
        .collect()
}

/// The part of the computation that communication was hidden behind, pooled over GPUs and runs, as AORTA compares it.
fn overlap(reference: &Side, candidate: &Side) -> Table {
    let columns = [
        Column::plain("reference", "reference"),
        Column::plain("reference_runs", "runs"),
        Column::plain("candidate", "candidate"),
        Column::plain("candidate_runs", "runs"),
        Column::share("reference_overlap_ratio", "computation with communication"),
        Column::share("candidate_overlap_ratio", "now"),
        Column::plain("ratio_delta", ""),
    ];
    let ratios = [reference, candidate].map(Side::overlap_ratio);
    let delta = ratios[0]
        .zip(ratios[1])
        .map(|(before, after)| after - before);
    let mut table = Table::new("comparison", "", &columns);
    table.push(vec![
        reference.label.as_str().into(),
        (reference.runs.len() as u64).into(),
        candidate.label.as_str().into(),
        (candidate.runs.len() as u64).into(),
        ratios[0].into(),
        ratios[1].into(),
        delta.into(),
    ]);
    table
}
