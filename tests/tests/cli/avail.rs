//! `rsys-avail`, as a user meets it: here, as an unprivileged user, behind a filter, and on machines that are not here.

mod answers;
mod machines;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rsys_tests::{
    Invocation, Machine, Outcome, Run, Scratch, Terminal, TestResult, avail, is_root, run_plain,
    script, skip_if_missing, workload,
};
use serde_json::Value;

/// Runs it with these words.
fn run<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<Outcome> {
    run_plain(Invocation::new(avail()?).args(words))
}

/// Runs it on another machine.
fn run_on(machine: &Machine, line: &str) -> Result<Outcome> {
    let words = line.split_whitespace();
    let outcome = run_plain(
        Invocation::new(avail()?)
            .args(words)
            .env("RSYS_AVAIL_ROOT", machine.root())
            .env_remove("ROCPROFILER_METRICS_PATH"),
    )?;
    outcome.expect_success();
    Ok(outcome)
}

/// The rows of a table in JSON, by name; the later of two with the same name and another device counts.
fn rows(outcome: &Outcome, table: &str) -> Result<Vec<Value>> {
    let document: Value = serde_json::from_str(&outcome.stdout)
        .with_context(|| format!("not JSON:\n{}", outcome.story()))?;
    let rows = document[table]["rows"].as_array();
    Ok(rows.context("no such table")?.clone())
}

fn by_name(rows: &[Value]) -> BTreeMap<&str, &Value> {
    rows.iter()
        .filter_map(|row| Some((row["name"].as_str()?, row)))
        .collect()
}

fn notes(outcome: &Outcome, table: &str) -> Result<String> {
    let document: Value = serde_json::from_str(&outcome.stdout)?;
    Ok(document[table]["notes"].to_string())
}

/// Compares the list with what the kernel itself says to the same process.
fn assert_agrees(listed: &Outcome, probed: &Outcome) -> TestResult {
    let rows = rows(listed.expect_success(), "counters")?;
    let rows = by_name(&rows);
    let mut compared = 0;
    for line in probed.expect_success().stdout.lines() {
        let (name, errors) = line.split_once('=').context("NAME=WHOLE,USER")?;
        let (whole, user) = errors.split_once(',').context("two errors")?;
        let in_kernel = matches!(name, "context-switches" | "bpf-output");
        let expected = whole == "0" || (user == "0" && !in_kernel);
        let row = rows
            .get(name)
            .with_context(|| format!("{name} is not listed"))?;
        assert_eq!(row["available"], expected, "{line}\n{row:#}");
        assert_eq!(row["reason"] == "", whole == "0", "{line}\n{row:#}");
        assert_eq!(row["remedy"] == "", expected, "{line}\n{row:#}");
        compared += 1;
    }
    assert_eq!(compared, 10);
    Ok(())
}

#[test]
fn it_says_what_the_kernel_says() -> TestResult {
    let listed = run(["-H", "--json"])?;
    assert_agrees(&listed, &run_plain(workload("perf_probe"))?)
}

#[test]
fn an_unprivileged_user_is_told_the_same_as_by_the_kernel() -> TestResult {
    skip_if_missing!(
        (!is_root()).then(|| "only root can become another user".to_owned()),
        rsys_tests::missing_tool("setpriv"),
    );
    // Where the build is may be closed to others.
    let folder = std::env::temp_dir().join(format!("rsys-avail-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let as_nobody = |program: &Path, words: &[&str]| -> Result<Outcome> {
        let copy = folder.join(program.file_name().context("a name")?);
        fs::copy(program, &copy)?;
        run_plain(
            Invocation::new("setpriv")
                .args([
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "--inh-caps=-all",
                ])
                .arg(&copy)
                .args(words),
        )
    };
    let listed = as_nobody(&avail()?, &["-H", "--json"])?;
    let probed = as_nobody(&workload("perf_probe").build()?, &[])?;
    fs::remove_dir_all(&folder)?;
    assert_agrees(&listed, &probed)?;
    let level: i32 = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")?
        .trim()
        .parse()?;
    let rows = rows(&listed, "counters")?;
    let row = by_name(&rows)["context-switches"].clone();
    if level >= 2 && row["reason"] != "a seccomp filter forbids perf_event_open" {
        assert_eq!(row["reason"], format!("perf_event_paranoid is {level}"));
        let remedy = row["remedy"].as_str().context("a text")?;
        assert!(
            remedy.contains("sysctl kernel.perf_event_paranoid=1"),
            "{remedy}"
        );
    }
    Ok(())
}

#[test]
fn a_filter_is_recognised_also_when_it_kills() -> TestResult {
    for answer in ["errno", "kill"] {
        let filtered = |program: &Path, words: &[&str]| {
            run_plain(
                workload("deny_perf")
                    .args([answer])
                    .args([program])
                    .args(words),
            )
        };
        let listed = filtered(&avail()?, &["-H", "--json"])?;
        let rows = rows(listed.expect_success(), "counters")?;
        for (name, row) in by_name(&rows) {
            let of_kernel = matches!(
                row["category"][1].as_str(),
                Some("Software" | "Hardware" | "Cache" | "PAPI")
            );
            if of_kernel {
                assert_eq!(row["available"], false, "{answer} {name}");
                assert_eq!(
                    row["reason"], "a seccomp filter forbids perf_event_open",
                    "{name}"
                );
            }
        }
        assert!(notes(&listed, "counters")?.contains("--cap-add PERFMON"));
        // The components know it too.
        let listed = filtered(&avail()?, &["-C", "--json"])?;
        let rows = self::rows(listed.expect_success(), "components")?;
        assert_eq!(by_name(&rows)["perf-clock"]["available"], false);
        assert_eq!(by_name(&rows)["cpu-timer"]["available"], true);
    }
    Ok(())
}

#[test]
fn all_is_told_within_a_tenth_of_a_second_of_cpu_time() -> TestResult {
    let machine = Machine::intel()?;
    for number in 0..4_u32 {
        machine.gpu(number, 90402, "power1_input", &[("junction", 1)])?;
    }
    // As large as the one that ROCm installs.
    let mut definitions =
        String::from("rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n");
    for number in 0..1200 {
        definitions.push_str(&format!(
            "    - name: C{number}\n      description: A counter.\n      properties: []\n      definitions:\n\
             \u{20}       - architectures:\n            - gfx942\n            - gfx90a\n          block: SQ\n          event: {number}\n"
        ));
    }
    machine.file(
        "opt/rocm/share/rocprofiler-sdk/counter_defs.yaml",
        &definitions,
    )?;
    let seconds = |root: Option<&Path>| -> Result<f64> {
        let program = avail()?;
        let mut best = f64::MAX;
        for _ in 0..5 {
            let set = root.map_or_else(String::new, |root| {
                format!("RSYS_AVAIL_ROOT='{}' ", root.display())
            });
            // The second line of `times` is the CPU time of children.
            let line = format!(
                "{set}'{}' -a --advanced >/dev/null && times",
                program.display()
            );
            let outcome = run_plain(script(&line))?;
            let times = outcome
                .expect_success()
                .stdout
                .lines()
                .nth(1)
                .context("two lines")?
                .to_owned();
            let sum: f64 = times
                .split_whitespace()
                .filter_map(|time| {
                    time.trim_end_matches('s')
                        .split_once('m')?
                        .1
                        .parse::<f64>()
                        .ok()
                })
                .sum();
            best = best.min(sum);
        }
        Ok(best)
    };
    for root in [None, Some(machine.root())] {
        let best = seconds(root)?;
        println!("CPU seconds: {best}");
        assert!(best < 0.1, "{best}");
    }
    Ok(())
}
