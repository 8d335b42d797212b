//! Whatever ends a job, its exit code is its own and its traces open.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rsys_tests::slurm::{LIMIT, Slurm, field, missing_slurm, slurm};
use rsys_tests::steps::{job_json, of_tasks, only_folder};
use rsys_tests::{
    Scratch, TestResult, Trace, python, scan_packets, signal, skip_if_missing, wait_until,
};

use super::{files, profiled, with};

/// A step that runs `signalled.py`.
struct Step {
    child: Child,
    log: std::path::PathBuf,
}

impl Step {
    /// Starts `srun` with the given options, and waits until each of its tasks has burned some time.
    fn start(
        slurm: &Slurm,
        options: &[&str],
        profile: &[String],
        way: &str,
        log: &Path,
    ) -> Result<Self> {
        let mut srun = slurm.command("srun");
        srun.args(options).args(profile);
        srun.args(python("signalled.py").words).arg(way).arg(log);
        let tasks = options.iter().find_map(|option| option.strip_prefix("-n"));
        let tasks: usize = tasks.context("no -n")?.parse()?;
        let child = quiet(srun).spawn()?;
        let step = Self {
            child,
            log: log.to_owned(),
        };
        let all_ready = || step.told().iter().filter(|line| *line == "ready").count() == tasks;
        assert!(wait_until(LIMIT, all_ready), "not ready: {:?}", step.told());
        Ok(step)
    }

    /// What its tasks wrote.
    fn told(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn job(&self) -> Result<String> {
        let told = self.told();
        let job = told.iter().find_map(|line| line.strip_prefix("job "));
        Ok(job.context("no job")?.to_owned())
    }

    /// How srun ends.
    fn wait(&mut self) -> Result<ExitStatus> {
        let mut status = None;
        let child = &mut self.child;
        let ended = wait_until(LIMIT, || {
            status = child.try_wait().ok().flatten();
            status.is_some()
        });
        assert!(ended, "srun does not end: {:?}", self.told());
        status.context("no status")
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn quiet(mut command: Command) -> Command {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The traces open, as far as they go; there are so many.
fn assert_prefixes(output: &Path, count: usize) -> Result<()> {
    let step = only_folder(output)?;
    let mut names = files(&step);
    names.retain(|name| name.ends_with(".proto"));
    assert_eq!(names.len(), count, "{names:?}");
    for name in names {
        Trace::load(&step.join(name), None)?.assert_valid_prefix();
    }
    Ok(())
}

/// Waits until each of so many traces has samples on disk.
fn wait_for_samples(output: &Path, count: usize) {
    let has_samples = || {
        let names = files(output);
        let with_samples = names
            .iter()
            .filter(|name| name.ends_with(".proto"))
            .filter(|name| scan_packets(&output.join(name)).is_ok_and(|scan| scan.samples > 0));
        with_samples.count() == count
    };
    assert!(
        wait_until(LIMIT, has_samples),
        "no samples: {:?}",
        files(output)
    );
}

/// How srun ended, and what its tasks wrote.
type Seen = (Option<i32>, Vec<String>);

/// What ends a step.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// scancel, after so many other signals of the same kind.
    Cancel(usize),
    /// The time limit: SIGTERM, again SIGTERM, SIGKILL.
    TimeLimit,
}

/// Ends a step, and waits for its end.
fn struck(slurm: &Slurm, folder: &Path, way: &str, blow: Blow, is_profiled: bool) -> Result<Seen> {
    let name = format!("{way}-{is_profiled}");
    let output = folder.join(&name);
    let profile = if is_profiled {
        profiled(&output)?
    } else {
        Vec::new()
    };
    let log = folder.join(format!("{name}.log"));
    let mut step = Step::start(slurm, &["-n2"], &profile, way, &log)?;
    if is_profiled {
        wait_for_samples(&output, 2);
    }
    let job = step.job()?;
    match blow {
        Blow::Cancel(before) => {
            // Signals that come while another waits to be handled are one.
            for times in 1..=before {
                slurm.output("scancel", ["-s", "TERM", &job])?;
                let came =
                    || step.told().iter().filter(|line| *line == "TERM").count() >= 2 * times;
                assert!(wait_until(LIMIT, came), "{:?}", step.told());
            }
            slurm.output("scancel", [&job])?;
        }
        // Slurm's shortest limit is a minute, but the end can be moved. It looks every half minute.
        Blow::TimeLimit => {
            let job = format!("JobId={job}");
            slurm.output("scontrol", ["update", &job, "EndTime=now+1"])?;
        }
    }
    let status = step.wait()?;
    let known = slurm.wait_for_end(&job)?;
    if let Blow::TimeLimit = blow {
        assert_eq!(field(&known, "JobState"), Some("TIMEOUT"), "{known}");
    }
    if is_profiled {
        assert_prefixes(&output, 2)?;
    }
    let mut told = step.told();
    told.retain(|line| !line.starts_with("job "));
    told.sort();
    if let Blow::TimeLimit = blow {
        // It sends two at once, of which a task may see one.
        told.dedup();
    }
    // srun does not always hear of tasks that Slurm kills; it ends with 0 then.
    let code = match (way, status.code()) {
        ("ignore", Some(0)) => Some(128 + libc::SIGKILL),
        (_, code) => code,
    };
    Ok((code, told))
}

/// Each way to take a blow, with and without us, all at once: they mostly wait for Slurm.
fn assert_same_end(slurm: &Slurm, folder: &Path, cases: &[(&str, Blow, &[&str])]) -> TestResult {
    std::thread::scope(|scope| -> TestResult {
        let runs: Vec<_> = cases
            .iter()
            .map(|&(way, blow, expected)| {
                let run = |is_profiled| {
                    scope.spawn(move || struck(slurm, folder, way, blow, is_profiled))
                };
                (way, expected, run(false), run(true))
            })
            .collect();
        for (way, expected, bare, profiled) in runs {
            let join = |run: std::thread::ScopedJoinHandle<'_, Result<Seen>>| {
                run.join().expect("see above")
            };
            let (bare, profiled) = (join(bare)?, join(profiled)?);
            assert_eq!(bare, profiled, "{way}");
            assert_eq!(profiled.1, expected, "{way}");
        }
        Ok(())
    })
}

#[test]
fn what_ends_a_step_ends_it_as_without_us() -> TestResult {
    skip_if_missing!(missing_slurm());
    let scratch = Scratch::new("scancel")?;
    // What the program does about SIGTERM, and how often it gets one. Who ignores it is killed.
    let cases: &[(&str, Blow, &[&str])] = &[
        ("default", Blow::Cancel(0), &["ready", "ready"]),
        ("exit", Blow::Cancel(0), &["TERM", "TERM", "ready", "ready"]),
        (
            "ignore",
            Blow::Cancel(1),
            &["TERM", "TERM", "TERM", "TERM", "ready", "ready"],
        ),
    ];
    assert_same_end(slurm()?, scratch.path(), cases)
}

#[test]
fn a_time_limit_ends_a_step_as_without_us() -> TestResult {
    skip_if_missing!(missing_slurm());
    let scratch = Scratch::new("time-limit")?;
    let cases: &[(&str, Blow, &[&str])] = &[
        ("default", Blow::TimeLimit, &["ready"]),
        ("exit", Blow::TimeLimit, &["TERM", "ready"]),
        ("ignore", Blow::TimeLimit, &["TERM", "ready"]),
    ];
    assert_same_end(slurm()?, scratch.path(), cases)
}

#[test]
fn a_rank_that_fails_ends_the_others() -> TestResult {
    skip_if_missing!(missing_slurm());
    let slurm = slurm()?;
    let scratch = Scratch::new("failing-rank")?;
    let mut codes = Vec::new();
    for is_profiled in [false, true] {
        let output = scratch.path().join(format!("traces-{is_profiled}"));
        let profile = if is_profiled {
            profiled(&output)?
        } else {
            Vec::new()
        };
        let log = scratch.path().join(format!("log-{is_profiled}"));
        let mut step = Step::start(slurm, &["-n3", "-K1"], &profile, "rank-1-fails", &log)?;
        if is_profiled {
            wait_for_samples(&output, 3);
        }
        fs::write(log.with_extension("go"), "")?;
        codes.push(step.wait()?.code());
        if is_profiled {
            assert_prefixes(&output, 3)?;
            let job = job_json(&only_folder(&output)?)?;
            assert_eq!(of_tasks(&job, "exit_code")[1], 7, "{job:#}");
        }
    }
    assert_eq!(codes[0], codes[1]);
    Ok(())
}

#[test]
fn a_killed_step_leaves_valid_prefixes() -> TestResult {
    skip_if_missing!(missing_slurm());
    let slurm = slurm()?;
    let scratch = Scratch::new("killed-step")?;
    let output = scratch.path().join("traces");
    let log = scratch.path().join("log");
    let mut step = Step::start(slurm, &["-n2"], &profiled(&output)?, "default", &log)?;
    wait_for_samples(&output, 2);
    // Tasks of an srun that is told to end are killed at once.
    assert!(signal(step.child.id(), libc::SIGTERM));
    step.wait()?;
    let job = step.job()?;
    slurm.wait_for_end(&job)?;
    assert_prefixes(&output, 2)?;
    let running = |step: &Path| job_json(step).map(|job| job["running"].clone());
    let left = running(&only_folder(&output)?)?;
    assert!(left.as_u64().is_some(), "{left}");
    Ok(())
}

#[test]
fn exit_codes_of_steps_are_their_own() -> TestResult {
    skip_if_missing!(missing_slurm());
    let slurm = slurm()?;
    let scratch = Scratch::new("exit-codes")?;
    let line = "exit $((SLURM_PROCID * 3))";
    let mut codes = Vec::new();
    for profile in [Vec::new(), profiled(&scratch.path().join("traces"))?] {
        let mut srun = slurm.command("srun");
        srun.arg("-n3");
        let srun = with(srun, &profile);
        let words = ["sh", "-c", line].map(str::to_owned);
        codes.push(quiet(with(srun, &words)).status()?.code());
    }
    assert_eq!(codes, [Some(6), Some(6)]);
    Ok(())
}
