//! Steps of Slurm: one folder each, one trace for each rank, nothing overwritten.

use std::fs;
use std::path::Path;

use rsys_tests::slurm::LIMIT;
use rsys_tests::slurm::{missing_slurm, slurm, told};
use rsys_tests::steps::{job_json, of_tasks, only_folder};
use rsys_tests::{
    Scratch, TestResult, missing_python_module, python, skip_if_missing, wait_until, workload,
};
use serde_json::json;

use super::{assert_rank, files, of_step, profiled, with};

fn rate() -> anyhow::Result<Vec<String>> {
    let program = workload("rate").build()?.display().to_string();
    Ok(vec![program, "--seconds".to_owned(), "0.1".to_owned()])
}

#[test]
fn tasks_on_two_nodes_share_a_folder() -> TestResult {
    skip_if_missing!(missing_slurm());
    let slurm = slurm()?;
    let scratch = Scratch::new("two-nodes")?;
    for around in [false, true] {
        let output = scratch.path().join(format!("traces-{around}"));
        let mut words = profiled(&output)?;
        let srun = ["srun", "-N2", "-n4", "--distribution=block"].map(str::to_owned);
        // `srun rsys-sample app` and `rsys-sample srun app` leave the same.
        if around {
            words.extend(srun);
        } else {
            words.splice(0..0, srun);
        }
        words.extend(rate()?);
        let program = words.remove(0);
        let done = with(slurm.command(program), &words).output()?;
        assert!(done.status.success(), "{}", told(&done));
        let step = only_folder(&output)?;
        let name = step.file_name().unwrap_or_default().to_string_lossy();
        assert_eq!(files(&output), of_step(&name, 4), "{}", told(&done));
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(stderr.contains("note: each rank gets"), around, "{stderr}");
        let job = job_json(&step)?;
        assert_eq!(
            (&job["ended"], &job["running"], &job["world_size"]),
            (&json!(4), &json!(0), &json!(4))
        );
        assert_eq!(job["nodes"], json!(["n1", "n2"]));
        assert_eq!(of_tasks(&job, "rank"), [0, 1, 2, 3]);
        assert_eq!(of_tasks(&job, "exit_code"), [0, 0, 0, 0]);
        let ends = of_tasks(&job, "end");
        assert!(
            ends.iter()
                .all(|clocks| clocks["boottime_ns"].is_u64() && clocks["realtime_ns"].is_u64())
        );
        assert_rank(&step, 3)?;
        assert_eq!(fs::read_link(output.join("latest"))?, Path::new(&*name));
        // One of the ranks speaks for all.
        let count = |part: &str| stderr.lines().filter(|line| line.contains(part)).count();
        let counts = [" ranks on ", "next: rsys-report", " rate on n"].map(count);
        assert_eq!(counts, [1, 1, 4], "{stderr}");
        assert!(
            stderr.contains("4 ranks on 2 hosts, 4 traces in "),
            "{stderr}"
        );
    }
    Ok(())
}

#[test]
fn arrays_with_steps_and_restarts() -> TestResult {
    skip_if_missing!(missing_slurm());
    let slurm = slurm()?;
    let scratch = Scratch::new("array")?;
    let output = scratch.path().join("traces");
    let line = [profiled(&output)?, rate()?].concat().join(" ");
    // Slurm counts how often it started a job anew.
    let script = format!("set -e\n{line}\nsrun -n2 {line}\nSLURM_RESTART_COUNT=2 srun -n1 {line}");
    let job = slurm.submit(scratch.path(), &["-n2", "--array=3-4"], &script)?;
    let known = slurm.wait_for_end(&job)?;
    assert_eq!(known.matches("JobState=COMPLETED").count(), 2, "{known}");
    let mut found = files(&output);
    // The batch script is no task, and has no rank.
    let in_batch: Vec<String> = found
        .extract_if(.., |name| name.contains(".batch/"))
        .collect();
    let expected = [
        of_step(&format!("{job}_3.0"), 2),
        of_step(&format!("{job}_3.1.r2"), 1),
        of_step(&format!("{job}_4.0"), 2),
        of_step(&format!("{job}_4.1.r2"), 1),
    ];
    assert_eq!(found, expected.concat());
    assert_eq!(in_batch.len(), 4, "{in_batch:?}");
    assert!(
        in_batch.iter().all(|name| !name.ends_with("-0.proto")),
        "{in_batch:?}"
    );
    Ok(())
}

#[test]
fn a_job_that_is_started_anew_overwrites_nothing() -> TestResult {
    skip_if_missing!(missing_slurm());
    let slurm = slurm()?;
    let scratch = Scratch::new("requeue")?;
    let output = scratch.path().join("traces");
    let line = [profiled(&output)?, rate()?].concat().join(" ");
    let done = scratch.path().join("first");
    // The first time it waits for its end behind its step.
    let script = format!(
        "srun -n1 {line}\nif [ -z \"$SLURM_RESTART_COUNT\" ]; then touch {}; exec sleep 1000; fi",
        done.display()
    );
    let job = slurm.submit(scratch.path(), &["-n1", "--requeue"], &script)?;
    assert!(
        wait_until(LIMIT, || done.exists()),
        "{}",
        slurm.show_job(&job)
    );
    slurm.requeue(&job)?;
    let known = slurm.wait_for_end(&job)?;
    assert!(known.contains("JobState=COMPLETED"), "{known}");
    let expected = [
        of_step(&format!("{job}.0"), 1),
        of_step(&format!("{job}.0.r1"), 1),
    ];
    let mut expected = expected.concat();
    expected.sort();
    assert_eq!(files(&output), expected);
    let job = job_json(&output.join(format!("{job}.0.r1")))?;
    assert_eq!((&job["restart"], &job["ended"]), (&json!(1), &json!(1)));
    Ok(())
}

#[test]
fn training_on_four_ranks_with_loader_workers() -> TestResult {
    skip_if_missing!(missing_slurm(), missing_python_module("torch"));
    let slurm = slurm()?;
    let scratch = Scratch::new("ddp")?;
    let output = scratch.path().join("traces");
    let train = python("train_ddp.py")
        .arg("2")
        .arg(scratch.path().join("meeting"));
    let words: Vec<String> = train
        .words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut srun = slurm.command("srun");
    srun.env("OMP_NUM_THREADS", "1").args(["-N2", "-n4"]);
    let done = with(with(srun, &profiled(&output)?), &words).output()?;
    assert!(done.status.success(), "{}", told(&done));
    // Every rank prints the loss of the same model.
    let stdout = String::from_utf8_lossy(&done.stdout);
    let mut losses: Vec<&str> = stdout
        .lines()
        .filter(|line| line.starts_with("model "))
        .collect();
    assert_eq!(losses.len(), 4, "{}", told(&done));
    losses.dedup();
    assert_eq!(losses.len(), 1, "the ranks differ: {losses:?}");
    let step = only_folder(&output)?;
    let job = job_json(&step)?;
    assert_eq!(of_tasks(&job, "exit_code"), [0, 0, 0, 0]);
    // Beside each rank its two workers, named after it.
    let names = files(&step);
    for rank in 0..4 {
        assert!(
            names.contains(&format!("perfetto-trace-{rank}.proto")),
            "{names:?}"
        );
        let workers = names
            .iter()
            .filter(|name| name.starts_with(&format!("perfetto-trace-{rank}.")));
        // One of them is the rank's own.
        assert!(workers.count() >= 3, "rank {rank}: {names:?}");
        assert_rank(&step, rank)?;
    }
    Ok(())
}
