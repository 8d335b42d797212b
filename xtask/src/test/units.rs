//! What is run as one process: a test, tests that share what is costly to make, or many small ones.

use std::collections::BTreeMap;
use std::time::Duration;

use super::binaries::{Binary, Case};
use super::history::History;
use super::suites::{Suites, fits_any};

/// No process takes longer, unless the file of suites says otherwise.
const LIMIT: Duration = Duration::from_secs(600);
/// Tests that are shorter share a process, as many as fill [`BATCH_SECONDS`].
const SHORT_SECONDS: f64 = 0.5;
const BATCH_SECONDS: f64 = 8.0;
/// How many tests run at once in a process whose tests mostly wait.
const THREADS_WAITING: usize = 4;

/// Where a process may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// It computes: as many as there are processors.
    Processor,
    /// It waits: some more beside those.
    Waiting,
    /// Nothing beside it.
    Alone,
}

/// Tests of one binary that are run as one process.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The binary's index.
    pub binary: usize,
    /// The names of the tests: what the binary calls them, and whole.
    pub tests: Vec<(String, String)>,
    /// How many run at once.
    pub threads: usize,
    /// Where it runs.
    pub slot: Slot,
    /// What it uses of which there is one.
    pub uses: Vec<String>,
    /// When it is killed.
    pub limit: Duration,
    /// How long it will take.
    pub expected: f64,
}

/// Cuts tests into units, those first that take longest.
pub fn plan(cases: &[Case], binaries: &[Binary], suites: &Suites, history: &History) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut shared: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    let mut batches: BTreeMap<usize, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        let is_short = history.expected(&case.name) < SHORT_SECONDS;
        let is_plain = suites.used(&case.name).is_empty() && !fits_any(&suites.alone, &case.name);
        if let Some(word) = suites.together(&case.name) {
            shared.entry(word).or_default().push(case);
        } else if is_short && is_plain && binaries[case.binary].name.contains('/') {
            batches.entry(case.binary).or_default().push(case);
        } else {
            units.push(unit(&[case], suites, history));
        }
    }
    units.extend(shared.values().map(|cases| unit(cases, suites, history)));
    for batch in batches.values() {
        units.extend(cut(batch, history).map(|cases| unit(cases, suites, history)));
    }
    units.sort_by(|one, other| other.expected.total_cmp(&one.expected));
    units
}

/// Cuts a binary's short tests where one process has enough of them.
fn cut<'a>(cases: &'a [&'a Case], history: &History) -> impl Iterator<Item = &'a [&'a Case]> {
    let mut filled = 0.0;
    let ends: Vec<bool> = cases
        .iter()
        .map(|case| {
            filled += history.expected(&case.name);
            let is_full = filled > BATCH_SECONDS;
            filled = if is_full { 0.0 } else { filled };
            is_full
        })
        .collect();
    let mut at = 0;
    cases.chunk_by(move |_, _| {
        at += 1;
        !ends[at - 1]
    })
}

fn unit(cases: &[&Case], suites: &Suites, history: &History) -> Unit {
    let any = |words: &[String]| cases.iter().any(|case| fits_any(words, &case.name));
    let slot = match () {
        () if any(&suites.alone) => Slot::Alone,
        () if any(&suites.waiting) => Slot::Waiting,
        () => Slot::Processor,
    };
    let is_shared = cases.len() > 1 && suites.together(&cases[0].name).is_some();
    let threads = match slot {
        Slot::Waiting if is_shared => THREADS_WAITING,
        _ => 1,
    };
    let used = cases.iter().flat_map(|case| suites.used(&case.name));
    let mut uses: Vec<String> = used.map(str::to_owned).collect();
    uses.sort();
    uses.dedup();
    let limits = cases.iter().map(|case| suites.limit_seconds(&case.name));
    let limit = limits.flatten().max().map_or(LIMIT, Duration::from_secs);
    let work: f64 = cases.iter().map(|case| history.expected(&case.name)).sum();
    Unit {
        binary: cases[0].binary,
        tests: cases
            .iter()
            .map(|case| (case.path.clone(), case.name.clone()))
            .collect(),
        threads,
        slot,
        uses,
        limit,
        expected: work / threads as f64,
    }
}

impl Unit {
    /// What it is called where there is room for one name.
    pub fn name(&self) -> String {
        let first = &self.tests[0].1;
        match self.tests.len() {
            1 => first.clone(),
            several => format!("{first} and {} more", several - 1),
        }
    }
}
