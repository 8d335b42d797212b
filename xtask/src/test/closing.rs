//! What is said of tests as they end, and at the end of all.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::AddAssign;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::binaries::Case;
use super::history::History;
use super::schedule::Ended;

/// So many of the slowest tests are named.
const SLOWEST: usize = 30;

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Everything that is told at the end.
#[derive(Debug, Default)]
pub struct Closing {
    counts: Counts,
    stages: Vec<(String, Duration)>,
    times: Vec<(Duration, String)>,
    /// Names, and why.
    failed: Vec<(String, String)>,
    /// Reasons, and the tests that lacked something for them.
    skipped: BTreeMap<String, Vec<String>>,
}

impl Closing {
    /// Takes the time of a stage.
    pub fn time<T>(&mut self, stage: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = run();
        self.stage(stage, start.elapsed());
        done
    }

    /// Takes note of a stage.
    pub fn stage(&mut self, stage: &str, took: Duration) {
        self.stages.push((stage.to_owned(), took));
    }

    /// Takes note of a test that has ended. Of one that failed, says all that it said.
    pub fn take(&mut self, ended: &Ended) {
        let name = &ended.name;
        self.times.push((ended.took, name.clone()));
        if !ended.told.passed {
            self.counts.failed += 1;
            self.failed.push((name.clone(), ended.told.reason()));
            println!("---- failed: {name}\n{}\n----", ended.told.said);
        } else if let Some(why) = ended.told.skipped() {
            self.counts.skipped += 1;
            let of = self.skipped.entry(why.to_owned()).or_default();
            of.push(name.clone());
        } else {
            self.counts.passed += 1;
        }
    }

    /// Says where the time went, what was skipped and what failed.
    pub fn print(&mut self, does_compile: bool) {
        self.times.sort_by(|one, other| other.cmp(one));
        println!("the slowest tests:");
        for (took, name) in self.times.iter().take(SLOWEST) {
            println!("{:>8.1} s  {name}", took.as_secs_f64());
        }
        println!("the time of each stage:");
        for (stage, took) in &self.stages {
            println!("{:>8.1} s  {stage}", took.as_secs_f64());
        }
        for (why, names) in &self.skipped {
            println!(
                "skipped: {why} ({} tests: {})",
                names.len(),
                names.join(", ")
            );
        }
        for (name, why) in &self.failed {
            println!("failed: {name}: {why}");
        }
        if !does_compile {
            println!("failed: something does not compile");
        }
    }

    /// The sum. What does not compile is a failure.
    pub fn counts(&self, does_compile: bool) -> Counts {
        let mut counts = self.counts;
        counts.failed += u64::from(!does_compile);
        counts
    }
}

/// Says what the whole set would add to the quick one.
pub fn print_others(others: &[Case], history: &History) {
    let known: f64 = others
        .iter()
        .filter_map(|case| history.known(&case.name))
        .sum();
    let took = match known {
        0.0 => String::new(),
        _ => format!(", which took {:.0} s one after the other", known),
    };
    println!(
        "that was the quick set: `cargo xtask test --all` adds {} tests{took}",
        others.len()
    );
}

impl Counts {
    /// Whether all is well.
    pub fn exit_code(&self) -> ExitCode {
        if self.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Display for Counts {
    /// As CI reads it.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tests: {} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::output::Told;

    #[test]
    fn a_failure_is_a_failure_and_so_is_what_does_not_compile() {
        let mut closing = Closing::default();
        for (passed, said) in [(true, "skipped: no root"), (true, "skip it"), (false, "no")] {
            closing.take(&Ended {
                name: "a".to_owned(),
                told: Told {
                    passed,
                    said: said.to_owned(),
                    took: None,
                },
                took: Duration::ZERO,
            });
        }
        let mut counts = closing.counts(true);
        assert_eq!(counts.to_string(), "tests: 1 passed, 1 failed, 1 skipped");
        counts += closing.counts(false);
        assert_eq!(counts.to_string(), "tests: 2 passed, 3 failed, 2 skipped");
    }
}
