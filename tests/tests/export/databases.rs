//! Databases of rocmProfileData and rocprofiler-sdk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::{Scratch, TestResult, skip_if_missing};
use serde_json::Value;

use super::{STACK, export, job, judged, number, rows, run, same};

#[test]
fn a_database_of_rocm_profile_data_answers_its_scripts() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-rpd")?;
    let [first, second] = job()?;
    let (both, file) = (
        [first.as_path(), second.as_path()],
        scratch.path().join("run.rpd"),
    );
    export(&both, "rpd", &file, &[])?;
    let found = judged("rpd.py", &file)?;
    let views = found["views"].as_object().context("views")?;
    for view in [
        "api",
        "op",
        "busy",
        "top",
        "kernel",
        "copy",
        "copyop",
        "stackframe",
        "napi",
        "nop",
    ] {
        ensure!(
            views[view].as_u64().is_some_and(|rows| rows > 0),
            "{view}: {views:?}"
        );
    }
    ensure!(
        found["metadata"]["schema_version"] == "3",
        "{}",
        found["metadata"]
    );
    let list =
        |key: &str| -> Result<Vec<Vec<Value>>> { Ok(serde_json::from_value(found[key].clone())?) };
    let expected = rows(
        &both,
        "select name, count(*) as count, sum(duration_ns) as ns from operations where kind = 'kernel' group by name order by name",
    )?;
    let ops: BTreeMap<String, (Value, Value)> = list("ops")?
        .into_iter()
        .filter_map(|row| {
            Some((
                row[0].as_str()?.to_owned(),
                (row[1].clone(), row[2].clone()),
            ))
        })
        .collect();
    for row in &expected {
        let name = row["name"].as_str().context("name")?;
        let (count, ns) = ops.get(name).with_context(|| format!("{name}: {ops:?}"))?;
        ensure!(
            *count == row["count"] && *ns == row["ns"],
            "{row}: {count} {ns}"
        );
    }
    let all: u64 = number(&both, "select count(*) as n from operations")?;
    ensure!(found["tables"]["rocpd_op"] == all, "{all}");
    let linked = number(
        &both,
        "select count(*) as n from operations where kind = 'kernel' and call is not null",
    )?;
    let kernels: u64 = list("ktop")?.iter().filter_map(|row| row[1].as_u64()).sum();
    ensure!(kernels == linked, "{kernels} {linked}");
    for (busy, row) in list("busy")?.iter().zip(rows(
        &both,
        "select device, sum(duration_ns) as ns from operations group by device order by device",
    )?) {
        ensure!(
            busy[0] == row["device"] && busy[1] == row["ns"],
            "{busy:?} {row}"
        );
    }
    let calls = number(
        &both,
        "select count(*) as n from calls where runtime = 'HIP'",
    )?;
    let api = list("api")?;
    let hip = api.iter().find(|row| row[0] == "hip").context("hip")?;
    ensure!(hip[1] == calls, "{hip:?} {calls}");
    Ok(())
}

#[test]
fn a_database_of_rocm_profile_data_is_read_back() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-rpd-back")?;
    let [trace, _] = job()?;
    let file = scratch.path().join("run.rpd");
    export(&[trace], "rpd", &file, &[])?;
    for sql in [
        "select kind, case kind when 'kernel' then name end as name, start_ns, duration_ns, device, thread, call, call_start_ns
         from operations where kind in ('kernel', 'fill') order by start_ns, name, device",
        "select grid, start_ns, device from operations where kind = 'kernel' and call = 'hipLaunchKernel' order by start_ns, device",
        "select kind, start_ns, duration_ns, device, thread, call_start_ns, bytes,
                case when direction like '%HostToDevice' then 'host to device' when direction like '%DeviceToHost' then 'device to host'
                     when direction like '%DeviceToDevice' then 'device to device' else direction end as direction
         from operations where kind = 'copy' order by start_ns, device",
        "select name, start_ns, duration_ns, thread, bytes, address from calls order by start_ns, thread, name",
    ] {
        let (expected, found) = (rows(&[trace], sql)?, rows(&[&file], sql)?);
        ensure!(!expected.is_empty(), "{sql}");
        same(&expected, &found).context(sql)?;
    }
    Ok(())
}

#[test]
fn samples_and_counters_of_a_database_are_read_back() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-rocpd-back")?;
    let [first, second] = job()?;
    let both = [first.as_path(), second.as_path()];
    let file = scratch.path().join("run.db");
    export(&both, "rocpd", &file, &[])?;
    for sql in [
        "select s.basis, s.time_ns, s.weight, s.thread, p.process, s.function, s.module, s.source, s.line from samples s join processes p using (process_id)
         where s.basis in ('cpu', 'wait', 'event') order by p.process, s.time_ns, s.thread, s.basis, s.weight",
        "select p.process, c.belongs_to, c.name, c.unit, c.time_ns, c.value from counters c join processes p using (process_id)
         order by p.process, c.belongs_to, c.name, c.time_ns, c.value",
    ] {
        let (expected, found) = (rows(&both, sql)?, rows(&[&file], sql)?);
        ensure!(!expected.is_empty(), "{sql}");
        same(&expected, &found).context(sql)?;
    }
    // Whole stacks, without the names of process and thread in front of them.
    for time in ["cpu", "wait"] {
        let [ours, back] =
            ["ours", "back"].map(|name| scratch.path().join(format!("{name}.{time}")));
        export(&both, "folded", &ours, &["--of", time])?;
        export(&[&file], "folded", &back, &["--of", time])?;
        let (ours, back) = (folded(&ours)?, folded(&back)?);
        ensure!(
            !ours.is_empty() && ours == back,
            "{time}: {ours:?}\n{back:?}"
        );
    }
    Ok(())
}

/// Weights of the call stacks of a folded file, whosever they are.
fn folded(path: &Path) -> Result<BTreeMap<String, u64>> {
    let mut weights = BTreeMap::new();
    for line in fs::read_to_string(path)?.lines() {
        let (stack, weight) = line.rsplit_once(' ').context("a weight")?;
        let frames = stack.splitn(3, ';').nth(2).unwrap_or_default();
        *weights.entry(frames.to_owned()).or_default() += weight.parse::<u64>()?;
    }
    Ok(weights)
}

/// A database as others write it, by statements of SQL.
fn database(scratch: &Scratch, name: &str, sql: &str) -> Result<PathBuf> {
    let file = scratch.path().join(name);
    let script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
    let mut command = Command::new("python3");
    let done = command.args(["-c", script]).arg(&file).arg(sql).output()?;
    ensure!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(file)
}

/// Version 1: texts of arguments among the names, no domains.
const VERSION_1: &str = "
create table rocpd_string (id integer primary key, string text);
create table rocpd_api (id integer primary key, pid integer, tid integer, start integer, end integer, apiName_id integer, args_id integer);
create table rocpd_op (id integer primary key, gpuId integer, queueId integer, sequenceId integer, start integer, end integer,
    description_id integer, opType_id integer);
create table rocpd_api_ops (id integer primary key, api_id integer, op_id integer);
insert into rocpd_string values (1, ''), (2, 'hipLaunchKernel'), (3, 'KernelExecution'), (4, 'gemm'), (5, 'UserMarker'), (6, 'step 1');
insert into rocpd_api values (10, 77, 78, 1000, 1500, 2, 1), (11, 77, 78, 900, 3000, 5, 6);
insert into rocpd_op values (5, 1, 2, 0, 2000, 2700, 4, 3), (6, 1, 2, 0, 9000, 8000, 4, 3);
insert into rocpd_api_ops values (1, 10, 5);
";

/// Two hosts in one file.
const MERGED: &str = "
create table rocpd_metadata (id integer primary key, tag text, value text);
insert into rocpd_metadata (tag, value) values ('pid_stride', '10000000'), ('gpu_stride', '1000'), ('schema_version', '3');
insert into rocpd_api values (20, 10000077, 9, 1100, 1200, 2, 1);
insert into rocpd_op values (25, 1001, 0, 0, 2100, 2200, 4, 3);
insert into rocpd_api_ops values (2, 20, 25);
";

/// rocm-trace-lite's: ranges are operations, no operation has a process.
const TRACE_LITE: &str = "
create table rocpd_string (id integer primary key, string text unique);
create table rocpd_op (id integer primary key, gpuId integer, queueId integer, sequenceId integer, completionSignal text, start integer, end integer,
    description_id integer, opType_id integer, roctxId integer);
create table rocpd_api (id integer primary key, pid integer, tid integer, start integer, end integer, apiName_id integer, args_id integer);
create table rocpd_api_ops (id integer primary key, api_id integer, op_id integer);
insert into rocpd_string values (1, 'KernelExecution'), (2, 'gemm'), (3, 'UserMarker'), (4, 'forward');
insert into rocpd_op values (1, 0, 3, 0, 'hwq=0x7f wg=64,1,1 grid=256,2,1', 500, 900, 2, 1, 0), (2, -1, 0, 0, '', 400, 950, 4, 3, 0);
";

#[test]
fn databases_of_others_are_read() -> TestResult {
    let scratch = Scratch::new("export-others")?;
    let file = database(&scratch, "old.rpd", VERSION_1)?;
    let kernels = rows(
        &[&file],
        "select name, start_ns, duration_ns, device, process, call, call_start_ns, thread from operations",
    )?;
    let expected = serde_json::json!([{
        "name": "gemm", "start_ns": 2000, "duration_ns": 700, "device": 1, "process": 77, "call": "hipLaunchKernel",
        "call_start_ns": 1000, "thread": 78,
    }]);
    ensure!(Value::Array(kernels.clone()) == expected, "{kernels:?}");
    ensure!(
        number(
            &[&file],
            "select duration_ns as n from ranges where name = 'step 1'"
        )? == 2100
    );
    let done = run(&["kernels"], &[&file])?;
    let said =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    ensure!(
        said.contains(
            "1 of rocpd_op without times that make sense are left out, the first with id 6"
        ),
        "{said}"
    );

    let file = database(&scratch, "merged.rpd", &(VERSION_1.to_owned() + MERGED))?;
    let found = rows(
        &[&file],
        "select process, host, device, duration_ns from operations order by duration_ns",
    )?;
    let expected = serde_json::json!([
        { "process": 77, "host": "host 1", "device": 1, "duration_ns": 100 },
        { "process": 77, "host": null, "device": 1, "duration_ns": 700 },
    ]);
    ensure!(Value::Array(found.clone()) == expected, "{found:?}");

    let file = database(&scratch, "lite.db", TRACE_LITE)?;
    let found = rows(
        &[&file],
        "select name, duration_ns, grid, queue from operations",
    )?;
    let expected = serde_json::json!([
        { "name": "gemm", "duration_ns": 400, "grid": "256\u{d7}2\u{d7}1", "queue": "queue 3" },
    ]);
    ensure!(Value::Array(found.clone()) == expected, "{found:?}");
    ensure!(
        number(
            &[&file],
            "select duration_ns as n from ranges where name = 'forward'"
        )? == 550
    );

    let file = database(
        &scratch,
        "cookies.db",
        "create table cookies (id integer primary key)",
    )?;
    let done = run(&["kernels"], &[&file])?;
    let said =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    ensure!(said.contains("nor a database of one"), "{said}");
    Ok(())
}

#[test]
fn a_database_of_rocprofiler_sdk_has_every_record_in_its_views() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-rocpd")?;
    let [first, second] = job()?;
    let both = [first.as_path(), second.as_path()];
    let file = scratch.path().join("run.db");
    export(&both, "rocpd", &file, &[])?;
    let found = judged("rocpd.py", &file)?;
    ensure!(
        found["metadata"]["schema_version"] == "3",
        "{}",
        found["metadata"]
    );
    // The judge's lists are ordered by the bytes of names, as the queries are.
    for (key, sql) in [
        (
            "kernels",
            "select rank, process as pid, device, name, count(*) as count, sum(duration_ns) as ns, min(start_ns) as first, max(end_ns) as last
             from operations where kind in ('kernel', 'fill') group by rank, process, device, name order by rank, device, name",
        ),
        (
            "grids",
            "select grid, count(*) as count from operations where kind = 'kernel' and grid <> '' group by grid order by grid",
        ),
        (
            "copies",
            "select rank, sum(bytes) as bytes, sum(duration_ns) as ns, min(start_ns) as first, count(*) as count
             from operations where kind = 'copy' group by rank order by rank",
        ),
        (
            "linked",
            "select rank, count(call) as count from operations where kind <> 'other' group by rank order by rank",
        ),
        (
            "calls",
            "select rank, thread, name, count(*) as count, sum(duration_ns) as ns, min(start_ns) as first from calls
             where runtime = 'HIP' group by rank, thread, name order by rank, thread, name",
        ),
        (
            "allocations",
            "select rank, sum(bytes) as bytes, count(*) as count from calls where name glob 'hip*Malloc*' or name glob 'hip*Free*'
             or name glob 'hipHostAlloc*' or name glob 'hsa*memory*allocate' or name glob 'hsa*memory*free' group by rank order by rank",
        ),
        (
            "waits",
            "select rank, thread, name, count(*) as count, sum(duration_ns) as ns from waits group by rank, thread, name order by rank, thread, name",
        ),
        (
            "samples",
            "select rank, thread, count(*) as count, sum(weight) as ns, min(time_ns) as first from samples where basis = 'cpu'
             group by rank, thread order by rank, thread",
        ),
        (
            "innermost",
            "select function, sum(weight) as ns from samples where basis = 'cpu' and function <> '' group by function order by function",
        ),
        (
            "counters",
            "select name, count(*) as count, min(time_ns) as first, max(value) as value from counters group by name order by name",
        ),
    ] {
        let expected = rows(&both, sql)?;
        let names = expected.first().and_then(Value::as_object);
        let names: Vec<&String> = names.with_context(|| format!("no {key}"))?.keys().collect();
        let found = found[key].as_array().with_context(|| key.to_owned())?;
        let object = |row: &Value| -> Value {
            names.iter().map(|name| ((*name).clone(), row[name.as_str()].clone())).collect()
        };
        let found: Vec<Value> = found.iter().map(object).collect();
        same(&expected, &found).context(key)?;
    }
    Ok(())
}
