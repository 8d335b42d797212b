//! `cargo xtask test`: what a change has to pass. [`suites`] says which tests there are for which purpose, [`units`] and [`schedule`] run them.

mod binaries;
mod changed;
mod closing;
mod history;
mod output;
mod schedule;
mod suites;
pub mod supervise;
mod units;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};

use self::binaries::Case;
use self::closing::Closing;
pub use self::closing::Counts;
use self::history::History;
use self::suites::{MODEL, Suites};
use crate::steps::{has_program, received_bytes, say};
use crate::{judges, runtimes, system};

/// What is to be run.
#[derive(Debug, Default, clap::Args)]
pub struct TestOptions {
    /// Of all tests, those whose names contain one of these words; `changed`: those that the changes since `main` ask for
    words: Vec<String>,
    /// Everything, and not the quick set alone
    #[arg(long)]
    all: bool,
    /// Those too that take minutes each and are run by hand only
    #[arg(long)]
    long: bool,
    /// Install nothing
    #[arg(long)]
    no_install: bool,
    /// Run nothing: print how long each test took when it last passed here
    #[arg(long)]
    times: bool,
}

/// Which tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The quick set.
    Quick,
    /// All others.
    Rest,
    /// All.
    All,
    /// Those whose names contain one of these words.
    Named(&'a [String]),
    /// Those that the changes since the main branch ask for.
    Changed,
}

impl TestOptions {
    fn which(&self) -> Which<'_> {
        match &self.words[..] {
            [] if self.all || self.long => Which::All,
            [] => Which::Quick,
            [word] if word == "changed" => Which::Changed,
            words => Which::Named(words),
        }
    }
}

/// Runs what was asked for, and closes with a line of counts.
pub fn run(options: &TestOptions) -> Result<ExitCode> {
    if options.times {
        for (name, seconds) in History::read().longest() {
            println!("{seconds:>8.2} s  {name}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let counts = run_these(options.which(), options.long, !options.no_install, 1)?;
    println!("{counts}");
    Ok(counts.exit_code())
}

/// Prepares, builds and runs tests, so often; everything is said but the sum.
pub fn run_these(which: Which<'_>, long: bool, install: bool, times: u32) -> Result<Counts> {
    let received = received_bytes();
    let mut closing = Closing::default();
    let suites = Suites::read()?;
    let is_small = which == Which::Quick;
    // Nothing can be built without a linker; all else waits for the network while the compiler runs.
    if install && !has_program("cc") {
        closing.time("install", || system::install_missing(is_small))?;
    }
    let (does_compile, binaries, prepared) = thread::scope(|scope| {
        let preparing = install.then(|| scope.spawn(move || prepare(is_small)));
        let start = Instant::now();
        let built = build(which);
        closing.stage("compile", start.elapsed());
        let prepared = preparing.map(|preparing| match preparing.join() {
            Ok(prepared) => prepared,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let (does_compile, binaries) = built?;
        anyhow::Ok((does_compile, binaries, prepared.transpose()?))
    })?;
    for (what, took) in prepared.into_iter().flatten() {
        closing.stage(&format!("{what}, beside"), took);
    }
    let cases = binaries::list(&binaries)?;
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    // What did not compile may be what a name is of.
    if does_compile && which != Which::Rest {
        suites.check(&names)?;
    }
    let chosen = choose(&cases, which, long, &suites)?;
    let mut history = History::read();
    let units = units::plan(&chosen, &binaries, &suites, &history);
    let units = (0..times).flat_map(|_| units.clone()).collect();
    let start = Instant::now();
    let told = Mutex::new((&mut closing, &mut history));
    // A run says something of the change, and not of chance; chance finds more where there is time for it.
    let is_drawn = long || times > 1;
    schedule::run(units, &binaries, is_drawn, &|ended| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let (closing, history) = &mut *told;
        if ended.told.passed && ended.told.skipped().is_none() {
            history.learn(&ended.name, ended.took.as_secs_f64());
        }
        closing.take(&ended);
    })?;
    history.write()?;
    closing.stage("run", start.elapsed());
    closing.print(does_compile);
    let received = received_bytes().saturating_sub(received) >> 20;
    println!("received over the network meanwhile, by all programs: {received} MiB");
    if which == Which::Quick {
        let others = choose(&cases, Which::Rest, false, &suites)?;
        closing::print_others(&others, &history);
    }
    Ok(closing.counts(does_compile))
}

/// Installs and fetches what tests need. A failure is told, and the tests say themselves what they lack.
fn prepare(is_small: bool) -> Result<Vec<(&'static str, std::time::Duration)>> {
    let start = Instant::now();
    system::install_missing(is_small)?;
    let installed = start.elapsed();
    judges::fetch(is_small)?;
    runtimes::fetch_for_tests(is_small)?;
    Ok(vec![
        ("install", installed),
        ("fetch", start.elapsed() - installed),
    ])
}

/// The binaries, and those of the model checker where they are asked for.
fn build(which: Which<'_>) -> Result<(bool, Vec<binaries::Binary>)> {
    let (mut does_compile, mut binaries) = binaries::build(false)?;
    let is_for_model = match which {
        Which::Quick => false,
        Which::Rest | Which::All | Which::Changed => true,
        Which::Named(words) => words.iter().any(|word| MODEL.contains(&**word)),
    };
    if is_for_model {
        let (compiled, further) = binaries::build(true)?;
        does_compile &= compiled;
        binaries.extend(further);
    }
    Ok((does_compile, binaries))
}

fn choose(cases: &[Case], which: Which<'_>, long: bool, suites: &Suites) -> Result<Vec<Case>> {
    let asked_for = match which {
        Which::Changed => changed::words(suites)?,
        _ => Vec::new(),
    };
    let is_wanted = |case: &&Case| {
        let name = &case.name;
        let fits = match which {
            Which::All => true,
            Which::Quick => suites.is_quick(name),
            Which::Rest => !suites.is_quick(name),
            Which::Named(words) => words.iter().any(|word| name.contains(&**word)),
            Which::Changed => changed::is_asked_for(&asked_for, name, suites),
        };
        fits && (long || !case.ignored)
    };
    let chosen: Vec<Case> = cases.iter().filter(is_wanted).cloned().collect();
    if chosen.is_empty() && matches!(which, Which::Named(_)) {
        bail!("no test has such a name; `--long` is for those that are run by hand only");
    }
    if chosen.is_empty() {
        say("no test is asked for");
    }
    Ok(chosen)
}
