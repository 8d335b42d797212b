//! Running units: some that compute, some that wait beside them, and those alone that bear nothing beside them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::binaries::Binary;
use super::output::{self, Line, Told};
use super::supervise::Report;
use super::units::{Slot, Unit};
use crate::judges;
use crate::steps::say;

/// By which tests of properties draw their cases (proptest's `Config`).
const SEED: &str = "PROPTEST_RNG_SEED";
/// So often is said how far it is.
const TELL: Duration = Duration::from_secs(60);

/// A test that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its whole name.
    pub name: String,
    /// What became of it.
    pub told: Told,
    /// Its time; that of the process divided by its tests where they ran at once.
    pub took: Duration,
}

/// What the workers share.
struct State {
    /// Longest first.
    waiting: Vec<Unit>,
    running: Vec<String>,
    used: BTreeSet<String>,
    ended: usize,
    failed: usize,
    said_at: Instant,
}

/// Runs all; what each test became is handed over as soon as it has ended.
/// Tests of properties have the same cases in each run, unless these are drawn.
pub fn run(
    units: Vec<Unit>,
    binaries: &[Binary],
    is_drawn: bool,
    ended: &(dyn Fn(Ended) + Sync),
) -> Result<()> {
    let (alone, beside): (Vec<Unit>, Vec<Unit>) =
        units.into_iter().partition(|unit| unit.slot == Slot::Alone);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    // Those that wait leave the processors to the others.
    let waiting = processors + 1;
    let slots = [Slot::Processor].repeat(processors);
    let slots = [slots, [Slot::Waiting].repeat(waiting)].concat();
    run_in(&slots, beside, binaries, is_drawn, ended)?;
    run_in(&[Slot::Alone], alone, binaries, is_drawn, ended)
}

fn run_in(
    slots: &[Slot],
    units: Vec<Unit>,
    binaries: &[Binary],
    is_drawn: bool,
    ended: &(dyn Fn(Ended) + Sync),
) -> Result<()> {
    let shared = &Shared {
        is_drawn,
        state: Mutex::new(State {
            waiting: units,
            running: Vec::new(),
            used: BTreeSet::new(),
            ended: 0,
            failed: 0,
            said_at: Instant::now(),
        }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let workers: Vec<_> = slots
            .iter()
            .map(|&slot| scope.spawn(move || shared.work(slot, binaries, ended)))
            .collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Vec<Result<()>>>().into_iter().collect()
    })
}

struct Shared {
    is_drawn: bool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one unit after the other, until none is left for such a slot.
    fn work(&self, slot: Slot, binaries: &[Binary], ended: &dyn Fn(Ended)) -> Result<()> {
        while let Some(unit) = self.next(slot) {
            let (binary, name) = (&binaries[unit.binary], unit.name());
            let done = run_unit(&unit, binary, self.is_drawn);
            let mut state = self.state();
            state.running.retain(|running| *running != name);
            for thing in &unit.uses {
                state.used.remove(thing);
            }
            let done = done?;
            state.ended += done.len();
            state.failed += done.iter().filter(|one| !one.told.passed).count();
            state.tell();
            drop(state);
            self.changed.notify_all();
            done.into_iter().for_each(ended);
        }
        self.changed.notify_all();
        Ok(())
    }

    /// The longest unit that may run now; none when all for such a slot have begun.
    fn next(&self, slot: Slot) -> Option<Unit> {
        let mut state = self.state();
        loop {
            let fits = |unit: &Unit| unit.slot == slot;
            let is_free = |unit: &Unit| !unit.uses.iter().any(|thing| state.used.contains(thing));
            let found = state
                .waiting
                .iter()
                .position(|unit| fits(unit) && is_free(unit));
            if let Some(at) = found {
                let unit = state.waiting.remove(at);
                state.used.extend(unit.uses.iter().cloned());
                state.running.push(unit.name());
                return Some(unit);
            }
            if !state.waiting.iter().any(fits) {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn tell(&mut self) {
        if self.said_at.elapsed() > TELL {
            self.said_at = Instant::now();
            let left: usize = self.waiting.iter().map(|unit| unit.tests.len()).sum();
            say(&format!(
                "{} tests ended, {} failed, {left} wait; running: {}",
                self.ended,
                self.failed,
                self.running.join(", ")
            ));
        }
    }
}

/// Runs a unit's tests in a process of their own.
fn run_unit(unit: &Unit, binary: &Binary, is_drawn: bool) -> Result<Vec<Ended>> {
    let start = Instant::now();
    let one_by_one = unit.threads == 1;
    let is_given = std::env::var_os(SEED).is_some();
    let cases = (!is_drawn && !is_given).then_some((SEED, "1"));
    // Also where what we were started from was built anew meanwhile.
    let mut child = Command::new("/proc/self/exe")
        .arg("supervise")
        .args(["--limit-seconds", &unit.limit.as_secs().to_string()])
        .arg("--")
        .arg(&binary.path)
        .args(unit.tests.iter().map(|(path, _)| path))
        .args(["--exact", "--include-ignored"])
        .args(["--test-threads", &unit.threads.to_string()])
        // What a test says that is killed comes out only where nobody keeps it.
        .arg(if one_by_one {
            "--nocapture"
        } else {
            "--show-output"
        })
        .current_dir(&binary.folder)
        .env("CARGO_MANIFEST_DIR", &binary.folder)
        .env("RSYS_JUDGE_DIR", judges::folder())
        .envs(cases)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // The terminal's signals are ours: it learns of our end by its standard input.
        .process_group(0)
        .spawn()
        .context("cannot start a supervisor")?;
    let mut lines: Vec<Line> = Vec::new();
    for line in BufReader::new(child.stdout.take().context("no output")?).split(b'\n') {
        lines.push((
            start.elapsed(),
            String::from_utf8_lossy(&line?).into_owned(),
        ));
    }
    let mut report = String::new();
    let mut said = child.stderr.take().context("no report")?;
    said.read_to_string(&mut report)?;
    child.wait()?;
    let end = start.elapsed();
    let paths: Vec<&str> = unit.tests.iter().map(|(path, _)| path.as_str()).collect();
    let mut told = if one_by_one {
        output::one_by_one(&lines, &paths, end)
    } else {
        output::captured(&lines, &paths)
    };
    let ending = match serde_json::from_str::<Report>(report.trim()) {
        Ok(report) => match report.killed {
            Some(killed) => killed,
            None => format!("the process ended with {}", report.status),
        },
        Err(_) => format!("the supervisor failed: {report}"),
    };
    let share = end.div_f64(paths.len().max(1) as f64);
    let tests = unit.tests.iter().filter_map(|(path, name)| {
        let mut told = told.remove(path)?;
        if !told.passed {
            told.said.push_str(&format!("\n{ending}"));
        }
        let took = told.took.unwrap_or(share);
        let name = name.clone();
        Some(Ended { name, told, took })
    });
    Ok(tests.collect())
}
