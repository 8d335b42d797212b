//! Traces with typed packets, read by Perfetto's published schema.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::{Run, Scratch, TestResult, skip_if_missing, workload, workspace_dir};
use serde_json::{Value, json};

use super::{STACK, export, job, number, rows, same};

/// What a trace or an archive of them holds.
fn judged(file: &Path) -> Result<Value> {
    let done = Command::new("python3")
        .env("PYTHONPATH", workspace_dir().join("target/judge/schema"))
        .arg(workspace_dir().join("tests/judge/perfetto_typed.py"))
        .arg(file)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{said}");
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn missing() -> Option<String> {
    let schema = workspace_dir().join("target/judge/schema");
    let missing = (!schema.exists()).then(|| format!("no {}", schema.display()));
    STACK.missing().or(missing)
}

/// Rows in an order that does not depend on that of the file.
fn in_order(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_cached_key(Value::to_string);
    rows
}

#[test]
fn typed_packets_hold_operations_calls_and_samples() -> TestResult {
    skip_if_missing!(missing());
    let [first, second] = job()?;
    // Ranges of roctx that overlap, of no thread.
    let outcome = Run::new()
        .options(["-I", "roctx"])
        .command(workload("ranges").args(["linked", "checks"]))
        .run()?;
    let mut traces = outcome.expect_success().files();
    let ranges = traces.pop().context("a trace of ranges")?;
    let inputs: [&Path; 3] = [first, second, &ranges];
    let folder = Scratch::new("export-perfetto")?;
    let file = folder.path().join("job.pftrace");
    export(&inputs, "perfetto-typed", &file, &[])?;
    let found = judged(&file)?;
    let operations = "select operation_id + 1 as id, name, start_ns, duration_ns, process as pid, device,
        'GPU ' || device || ' ' || queue as queue,
        case kind when 'kernel' then 'Kernel' when 'copy' then 'Copy' when 'fill' then 'Fill' else 'Other' end as stage
        from operations order by operation_id";
    let expected = rows(&inputs, operations)?;
    ensure!(!expected.is_empty(), "operations");
    same(
        &expected,
        found["operations"].as_array().context("operations")?,
    )?;
    let slices = "select coalesce(name, '') as name, start_ns, end_ns, process, coalesce(thread, 0) as thread, category from (
        select name, start_ns, end_ns, process, thread, runtime as category from calls
        union all select name, start_ns, end_ns, process, thread, kind from ranges)";
    let slices = rows(&inputs, slices)?;
    let overlapping = slices.iter().find(|row| row["name"] == "overlapping");
    ensure!(overlapping.context("overlapping")?["thread"] == 0);
    let found_slices = found["slices"].as_array().context("slices")?;
    same(&in_order(slices), &in_order(found_slices.clone()))?;
    for (what, sql) in [
        ("marks", "select count(*) from markers"),
        ("counters", "select count(*) from counters"),
        (
            "submitted",
            "select count(*) from operations o where exists (select 1 from calls c where c.process_id = o.process_id and c.correlation = o.correlation)",
        ),
    ] {
        ensure!(
            found[what] == number(&inputs, sql)?,
            "{what}: {}",
            found[what]
        );
    }
    for (timebase, basis) in [("cpu-time", "cpu"), ("wait-time", "wait")] {
        let sql = format!("select sum(weight) from samples where basis = '{basis}'");
        ensure!(
            found["samples"][timebase] == number(&inputs, &sql)?,
            "{timebase}"
        );
    }

    // An archive has a trace for each rank.
    let archive = folder.path().join("job.tar");
    export(&inputs[..2], "perfetto-typed", &archive, &[])?;
    let found = judged(&archive)?;
    let manifest = &found["manifest"]["perfetto_manifest"];
    ensure!(manifest["version"] == 1, "{manifest}");
    let paths: Vec<&Value> = manifest["files"]
        .as_array()
        .context("files")?
        .iter()
        .map(|file| &file["path"])
        .collect();
    ensure!(
        paths == [&json!("rank0.pftrace"), &json!("rank1.pftrace")],
        "{manifest}"
    );
    let files = found["files"].as_object().context("files")?;
    let of_files: usize = files
        .values()
        .map(|file| file["operations"].as_array().map_or(0, Vec::len))
        .sum();
    ensure!(
        files.len() == 2 && of_files == expected.len(),
        "{of_files} operations"
    );
    Ok(())
}
