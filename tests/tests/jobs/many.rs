//! Many ranks, and those that are left out.

use std::process::Stdio;

use rsys_tests::slurm::{clean_command, told};
use rsys_tests::steps::{job_json, of_tasks};
use rsys_tests::{Scratch, TestResult, workload};
use serde_json::json;

use super::{files, of_step, profiled, with};

const RANKS: usize = 512;

/// CPU time of all children so far, in ms.
fn children_ms() -> f64 {
    // SAFETY: all zero is a valid value of the plain structure that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}

#[test]
fn five_hundred_ranks_at_once() -> TestResult {
    let scratch = Scratch::new("many-ranks")?;
    let output = scratch.path().join("traces");
    let program = workload("rate").build()?.display().to_string();
    let program = [&program, "--seconds", "0.01"].map(str::to_owned);
    let sampled = [&profiled(&output)?[..], &program[..]].concat();
    let mut costs = Vec::new();
    for line in [&program[..], &sampled[..]] {
        let before = children_ms();
        let mut ranks = Vec::new();
        for rank in 0..RANKS {
            let mut command = clean_command(&line[0]);
            command
                .env("SLURM_JOB_ID", "77")
                .env("SLURM_STEP_ID", "0")
                .env("SLURM_PROCID", rank.to_string())
                .env("SLURM_STEP_NUM_TASKS", RANKS.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            ranks.push(with(command, &line[1..]).spawn()?);
        }
        for mut rank in ranks {
            assert!(rank.wait()?.success());
        }
        costs.push((children_ms() - before) / RANKS as f64);
    }
    let cost = costs[1] - costs[0];
    println!(
        "each start costs {cost:.1} ms of CPU time beyond the program's {:.1}",
        costs[0]
    );
    // Where caches are cold and time is stolen, the program's own start takes longer as well: all but the 10 ms that it computes.
    let most = f64::max(60.0, 15.0 * (costs[0] - 10.0));
    assert!(cost < most, "{costs:?}, at most {most}");
    assert_eq!(files(&output), of_step("77.0", RANKS));
    let job = job_json(&output.join("77.0"))?;
    assert_eq!((&job["ended"], &job["running"]), (&json!(RANKS), &json!(0)));
    let ranks: Vec<usize> = (0..RANKS).collect();
    assert_eq!(json!(of_tasks(&job, "rank")), json!(ranks));
    Ok(())
}

#[test]
fn ranks_that_are_left_out_run_as_without_us() -> TestResult {
    let scratch = Scratch::new("left-out")?;
    // option, list, rank, whether it is profiled
    for (option, list, rank, is_profiled) in [
        ("--ranks", "0,8-15", "9", true),
        ("--ranks", "0,8-15", "7", false),
        ("--ranks", "0-1023:64", "128", true),
        ("--ranks", "0-1023:64", "129", false),
        ("--local-ranks", "0", "5", true),
        ("--local-ranks", "1", "5", false),
        ("--nodes", "n3", "5", true),
        ("--nodes", "0-2", "5", false),
    ] {
        let output = scratch.path().join(format!("{option}-{list}-{rank}"));
        let mut line = profiled(&output)?;
        line.splice(1..1, [option.to_owned(), list.to_owned()]);
        line.extend(["sh", "-c", "echo \"$LD_PRELOAD$PPID\"; exit 3"].map(str::to_owned));
        let mut command = clean_command(&line[0]);
        command
            .env("SLURM_JOB_ID", "77")
            .env("SLURM_STEP_ID", "0")
            .env("SLURM_PROCID", rank)
            .env("SLURM_LOCALID", "0")
            .env("SLURM_NODEID", "3")
            .env("SLURMD_NODENAME", "n3");
        let done = with(command, &line[1..]).output()?;
        assert_eq!(done.status.code(), Some(3), "{}", told(&done));
        assert_eq!(
            output.exists(),
            is_profiled,
            "{option} {list}: {}",
            told(&done)
        );
        // We are its parent: rsys-sample gave way to it.
        let own = format!("{}\n", std::process::id());
        let gave_way = String::from_utf8_lossy(&done.stdout) == own;
        assert_eq!(gave_way, !is_profiled, "{option} {list}: {}", told(&done));
    }
    Ok(())
}
