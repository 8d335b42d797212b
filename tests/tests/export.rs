//! `rsys-report export`: what a run holds is in each format, as the format's own tools read it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Run, Scratch, TestResult, answer, report, skip_if_missing, workspace_dir};
use serde_json::Value;

const STACK: Stack = Stack::Debian12;

/// Two ranks on GPUs, each with kernels, copies, fills, samples and waits.
fn job() -> Result<&'static [PathBuf; 2]> {
    static JOB: OnceLock<(Scratch, [PathBuf; 2])> = OnceLock::new();
    static ONCE: Mutex<()> = Mutex::new(());
    let _once = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, files)) = JOB.get() {
        return Ok(files);
    }
    let folder = Scratch::new("export-job")?;
    let mut files = [PathBuf::new(), PathBuf::new()];
    for (rank, file) in files.iter_mut().enumerate() {
        let machine = Machine::new(STACK)?.gpus(2);
        let program = hip_program(STACK, "hip_ops")?.args(["work", "100", "20"]);
        let program = program.env("RANK", rank.to_string()).env("WORLD_SIZE", "2");
        let options = ["-I", "rocm", "--realtime", "-f", "500"];
        let outcome = Run::new()
            .options(options)
            .command(machine.run(program))
            .run()?;
        outcome.expect_success();
        *file = folder.path().join(format!("rank-{rank}.proto"));
        let mut traces = outcome.files().into_iter();
        let trace = traces.find(|path| path.to_string_lossy().contains(".hip_ops."));
        fs::copy(trace.context("a trace of hip_ops")?, &*file)?;
    }
    Ok(&JOB.get_or_init(|| (folder, files)).1)
}

fn run(words: &[&str], paths: &[&Path]) -> Result<Output> {
    let output = Command::new(report()?).args(words).args(paths).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!said.contains("panicked"), "{said}");
    Ok(output)
}

/// Exports files; what it says.
fn export(inputs: &[&Path], to: &str, output: &Path, options: &[&str]) -> Result<()> {
    let path = output.to_string_lossy();
    let words = [&["export", "--to", to, "-o", &path], options].concat();
    let done = run(&words, inputs)?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{words:?}: {said}");
    ensure!(done.stdout.is_empty(), "{words:?}");
    Ok(())
}

/// The rows of a query.
fn rows(inputs: &[&Path], sql: &str) -> Result<Vec<Value>> {
    let mut words = vec!["query", "--json", "--no-cache"];
    let with: Vec<String> = inputs[1..]
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    for path in &with {
        words.extend(["--with", path]);
    }
    let done = run(&words, &[inputs[0], Path::new(sql)])?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{sql}: {said}");
    let answer: Value = serde_json::from_slice(&done.stdout)?;
    answer["rows"].as_array().cloned().context("rows")
}

/// Rows are equal; if not, the first that is different.
fn same(expected: &[Value], found: &[Value]) -> Result<()> {
    let pairs = expected.iter().zip(found);
    if let Some((expected, found)) = pairs.clone().find(|(expected, found)| expected != found) {
        anyhow::bail!("{expected}\nbut\n{found}");
    }
    ensure!(
        expected.len() == found.len(),
        "{} rows, but {}",
        expected.len(),
        found.len()
    );
    Ok(())
}

fn number(inputs: &[&Path], sql: &str) -> Result<u64> {
    let rows = rows(inputs, sql)?;
    let row = rows.first().and_then(Value::as_object).context("a row")?;
    let value = row.values().next().and_then(Value::as_u64);
    value.with_context(|| format!("{sql}: {row:?}"))
}

/// What a script among the judges says of a file.
fn judged(script: &str, file: &Path) -> Result<Value> {
    let script = workspace_dir().join("tests/judge").join(script);
    let done = Command::new("python3").arg(script).arg(file).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{said}");
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn unpacked(path: &Path) -> Result<Value> {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path)?).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// What a file of PyTorch's profiler can hold.
const HELD: [&str; 4] = [
    "select name, grid, start_ns, duration_ns, device, rank, call, call_start_ns, correlation, thread
     from operations where kind = 'kernel' order by start_ns, name, device",
    "select kind, case when direction like '%HostToDevice' then 'host to device' when direction like '%DeviceToHost' then 'device to host'
                 when direction like '%DeviceToDevice' then 'device to device' else direction end as direction, bytes, start_ns, duration_ns, device, rank, call_start_ns, thread
     from operations where kind in ('copy', 'fill') order by start_ns, kind, device",
    "select name, start_ns, duration_ns, thread, rank, bytes from calls where runtime = 'HIP' order by start_ns, thread, name",
    "select activity, count(*) as count, sum(duration_ns) as ns from operations where activity <> 'none' group by activity order by activity",
];

#[test]
fn a_kineto_file_holds_every_operation_and_call_to_the_nanosecond() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-kineto")?;
    for (rank, trace) in job()?.iter().enumerate() {
        let file = scratch.path().join(format!("{rank}.pt.trace.json.gz"));
        export(&[trace], "kineto", &file, &[])?;
        for sql in HELD {
            let (expected, found) = (rows(&[trace], sql)?, rows(&[&file], sql)?);
            ensure!(!expected.is_empty(), "{sql}");
            same(&expected, &found).context(sql)?;
        }
        let (expected, found) = (
            answer("timeline", std::slice::from_ref(trace))?,
            answer("timeline", std::slice::from_ref(&file))?,
        );
        let devices = expected["runs"][0]["devices"]
            .as_array()
            .context("devices")?;
        ensure!(devices.len() == 2, "{expected}");
        for (place, device) in devices.iter().enumerate() {
            for (key, value) in device.as_object().context("a device")? {
                if key.ends_with("_ns") {
                    ensure!(
                        *value == found["runs"][0]["devices"][place][key],
                        "{key}: {device}\n{found}"
                    );
                }
            }
        }
        // What tools read besides.
        let document = unpacked(&file)?;
        ensure!(document["distributedInfo"]["rank"] == rank, "{rank}");
        let events = document["traceEvents"].as_array().context("events")?;
        let count =
            |key: &str, value: &str| events.iter().filter(|event| event[key] == value).count();
        let linked = number(
            &[trace],
            "select count(call) as n from operations where kind <> 'other'",
        )?;
        ensure!(count("ph", "f") as u64 == linked, "{linked}");
        ensure!(count("cat", "cpu_op") > 0);
        ensure!(count("name", "process_name") >= 3, "a process and two GPUs");
    }
    Ok(())
}

#[test]
fn ranks_in_one_file_stay_apart() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-ranks")?;
    let [first, second] = job()?;
    let file = scratch.path().join("all.trace.json");
    export(&[first, second], "chrome", &file, &[])?;
    for sql in [
        "select rank, device, kind, count(*) as count, sum(duration_ns) as ns, min(start_ns) as first from operations
         where kind <> 'other' group by rank, device, kind order by rank, device, kind",
        "select rank, name, count(*) as count, sum(duration_ns) as ns from calls where runtime = 'HIP' group by rank, name order by rank, name",
        "select rank, process from processes order by rank",
    ] {
        let (expected, found) = (rows(&[first, second], sql)?, rows(&[&file], sql)?);
        same(&expected, &found).context(sql)?;
        ensure!(!found.is_empty(), "{sql}");
    }
    let folder = scratch.path().join("each");
    export(&[first, second], "kineto", &folder, &["--each-rank"])?;
    for rank in 0..2 {
        let file = folder.join(format!("rank{rank}.pt.trace.json.gz"));
        let sql = "select count(*) as n from operations where kind <> 'other'";
        ensure!(number(&[&file], sql)? == number(&[&job()?[rank]], sql)?);
    }
    let only = scratch.path().join("one.json");
    export(&[first, second], "kineto", &only, &["--ranks", "1"])?;
    ensure!(number(&[&only], "select min(rank) as n from operations")? == 1);
    Ok(())
}

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
fn call_stacks_add_up() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-stacks")?;
    let [first, second] = job()?;
    let both = [first.as_path(), second.as_path()];
    let profile = scratch.path().join("run.pb.gz");
    export(&both, "pprof", &profile, &[])?;
    let profile = judged("pprof.py", &profile)?;
    let labels: Vec<String> = serde_json::from_value(profile["labels"].clone())?;
    ensure!(
        labels == ["pid", "process", "rank", "thread", "tid"],
        "{labels:?}"
    );
    for (time, sql) in [
        (
            "cpu",
            "select sum(weight) as n from samples where basis = 'cpu'",
        ),
        (
            "wait",
            "select sum(weight) as n from samples where basis = 'wait'",
        ),
        (
            "gpu",
            "select sum(duration_ns) as n from operations where kind = 'kernel'",
        ),
    ] {
        let expected = number(&both, sql)?;
        ensure!(expected > 0, "{sql}");
        ensure!(
            profile["sums"][time] == expected,
            "{time} {expected}: {}",
            profile["sums"]
        );
        let file = scratch.path().join(format!("{time}.folded"));
        export(&both, "folded", &file, &["--of", time])?;
        let text = fs::read_to_string(&file)?;
        let sum: u64 = text
            .lines()
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        ensure!(sum == expected, "{time}: {sum} {expected}");
        ensure!(text.lines().all(|line| line.starts_with("rank ")), "{text}");
        let file = scratch.path().join(format!("{time}.json"));
        export(&both, "speedscope", &file, &["--of", time])?;
        let document: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let frames = document["shared"]["frames"]
            .as_array()
            .context("frames")?
            .len() as u64;
        let mut sum = 0;
        for thread in document["profiles"].as_array().context("profiles")? {
            let samples = thread["samples"].as_array().context("samples")?;
            let weights = thread["weights"].as_array().context("weights")?;
            ensure!(samples.len() == weights.len() && thread["unit"] == "nanoseconds");
            let of_thread: u64 = weights.iter().filter_map(Value::as_u64).sum();
            ensure!(thread["endValue"] == of_thread, "{thread}");
            let mut numbers = samples
                .iter()
                .flat_map(|stack| stack.as_array().into_iter().flatten());
            ensure!(numbers.all(|frame| frame.as_u64().is_some_and(|frame| frame < frames)));
            sum += of_thread;
        }
        ensure!(sum == expected, "{time}: {sum} {expected}");
    }
    // Each kernel is below the stack that launched it.
    for row in rows(
        &both,
        "select name, sum(duration_ns) as ns from operations where kind = 'kernel' group by name",
    )? {
        let name = row["name"].as_str().context("name")?;
        ensure!(profile["leaves"][name]["gpu"] == row["ns"], "{row}");
    }
    Ok(())
}

#[test]
fn json_of_rocprofv3_has_all_processes_and_agents() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-rocprofv3")?;
    let [first, second] = job()?;
    let (both, file) = (
        [first.as_path(), second.as_path()],
        scratch.path().join("out_results.json"),
    );
    export(&both, "rocprofv3-json", &file, &[])?;
    let document: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let tools = document["rocprofiler-sdk-tool"]
        .as_array()
        .context("tools")?;
    ensure!(tools.len() == 2);
    let processes = rows(
        &both,
        "select process_id, process from processes order by process_id",
    )?;
    for (tool, process) in tools.iter().zip(processes) {
        ensure!(
            tool["metadata"]["pid"] == process["process"],
            "{}",
            tool["metadata"]
        );
        let records = &tool["buffer_records"];
        let mut found: BTreeMap<(String, u64), (u64, u64)> = BTreeMap::new();
        for dispatch in records["kernel_dispatch"]
            .as_array()
            .context("dispatches")?
        {
            let info = &dispatch["dispatch_info"];
            let kernel = info["kernel_id"].as_u64().context("kernel")? as usize;
            let name = tool["kernel_symbols"][kernel]["formatted_kernel_name"]
                .as_str()
                .context("name")?;
            let times =
                [&dispatch["start_timestamp"], &dispatch["end_timestamp"]].map(Value::as_u64);
            let [Some(start_ns), Some(end_ns)] = times else {
                anyhow::bail!("{dispatch}")
            };
            let agent = info["agent_id"]["handle"].as_u64().context("agent")?;
            let agents = tool["agents"].as_array().context("agents")?;
            ensure!(
                agents
                    .iter()
                    .any(|one| one["id"]["handle"] == agent && one["type"] == 2)
            );
            let sum = found.entry((name.to_owned(), agent - 2)).or_default();
            *sum = (sum.0 + 1, sum.1 + end_ns - start_ns);
        }
        let sql = format!(
            "select name, device, count(*) as count, sum(duration_ns) as ns from operations
             where kind in ('kernel', 'fill') and process_id = {} group by name, device order by name, device",
            process["process_id"]
        );
        let expected: BTreeMap<(String, u64), (u64, u64)> = rows(&both, &sql)?
            .iter()
            .filter_map(|row| {
                let key = (row["name"].as_str()?.to_owned(), row["device"].as_u64()?);
                Some((key, (row["count"].as_u64()?, row["ns"].as_u64()?)))
            })
            .collect();
        ensure!(
            found == expected && !found.is_empty(),
            "{found:?}\n{expected:?}"
        );
        let strings = &tool["strings"]["buffer_records"];
        for call in records["hip_api"].as_array().context("calls")? {
            let kind = call["kind"].as_u64().context("kind")? as usize;
            let operation = call["operation"].as_u64().context("operation")? as usize;
            ensure!(strings[kind]["kind"] == "HIP_RUNTIME_API");
            let name = strings[kind]["operations"][operation]
                .as_str()
                .context("name")?;
            ensure!(
                name.starts_with("hip") || name.starts_with("__hip"),
                "{name}"
            );
        }
    }
    Ok(())
}

#[test]
fn lines_of_aorta_cover_each_step() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-aorta")?;
    let [first, second] = job()?;
    let (both, folder) = (
        [first.as_path(), second.as_path()],
        scratch.path().join("aorta"),
    );
    export(&both, "aorta", &folder, &[])?;
    let mut compute_ms = 0.0;
    for rank in 0..2 {
        let text = fs::read_to_string(folder.join(format!("rank_{rank:02}_metrics.jsonl")))?;
        for line in text.lines() {
            let step: Value = serde_json::from_str(line)?;
            ensure!(step["rank"] == rank && step["world_size"] == 2, "{line}");
            let profile = &step["profile"];
            let overlap = &profile["overlap"];
            let length = |one: &Value| Some(one["end_ms"].as_f64()? - one["start_ms"].as_f64()?);
            let segments = overlap["active_segments"].as_array().context("segments")?;
            let covered: f64 = segments.iter().filter_map(length).sum();
            let total = profile["total_ms"].as_f64().context("total")?;
            ensure!((covered - total).abs() < 1e-3, "{covered} {total}");
            compute_ms += overlap["per_stream_ms"]["compute"].as_f64().unwrap_or(0.0);
        }
    }
    let summary: Value = serde_json::from_str(&fs::read_to_string(folder.join("summary.json"))?)?;
    let of_run = &summary["datasets"]["rsys"];
    let count = of_run["count"].as_f64().context("count")?;
    let mean = of_run["mean_compute_ms"].as_f64().context("mean")?;
    ensure!(
        count > 0.0 && (mean * count - compute_ms).abs() < 1e-3,
        "{of_run} {compute_ms}"
    );
    Ok(())
}

/// All formats and their outputs.
const FORMATS: [&str; 9] = [
    "kineto",
    "chrome",
    "rpd",
    "folded",
    "speedscope",
    "pprof",
    "rocprofv3-json",
    "aorta",
    "csv",
];

/// All bytes of a file, or of the files of a folder by name.
fn contents(path: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    if path.is_file() {
        return Ok(vec![(String::new(), fs::read(path)?)]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        all.push((
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?,
        ));
    }
    all.sort();
    Ok(all)
}

#[test]
fn the_order_of_inputs_does_not_matter() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-order")?;
    let [first, second] = job()?;
    for format in FORMATS {
        let [one, other] =
            ["one", "other"].map(|name| scratch.path().join(format!("{format}.{name}")));
        export(&[first, second], format, &one, &["--jobs", "1"])?;
        export(&[second, first], format, &other, &["--jobs", "2"])?;
        ensure!(contents(&one)? == contents(&other)?, "{format}");
        ensure!(!contents(&one)?.is_empty(), "{format}");
    }
    Ok(())
}

#[test]
fn parts_of_a_run_can_be_chosen() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-parts")?;
    let [trace, _] = job()?;
    let first = number(
        &[trace],
        "select min(n) as n from (select min(start_ns) as n from operations union all select min(start_ns) from calls
         union all select min(start_ns) from waits union all select min(time_ns) from samples)",
    )?;
    let middle = number(
        &[trace],
        "select start_ns as n from operations where kind = 'kernel' order by start_ns limit 1 offset 20",
    )?;
    let file = scratch.path().join("window.json");
    let window = format!("{}ns..", middle - first);
    export(&[trace], "kineto", &file, &["--window", &window])?;
    let expected = format!(
        "select count(*) as n from operations where kind <> 'other' and max(end_ns, start_ns + 1) > {middle}"
    );
    ensure!(
        number(&[&file], "select count(*) as n from operations")? == number(&[trace], &expected)?
    );
    let folder = scratch.path().join("only");
    export(&[trace], "csv", &folder, &["--only", "samples"])?;
    let names: Vec<String> = contents(&folder)?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    ensure!(names.contains(&"samples.csv".to_owned()), "{names:?}");
    for left_out in ["operations.csv", "calls.csv", "counters.csv"] {
        ensure!(!names.contains(&left_out.to_owned()), "{names:?}");
    }
    let text = fs::read_to_string(folder.join("samples.csv"))?;
    let samples = number(&[trace], "select count(*) as n from samples")?;
    ensure!(text.lines().count() as u64 == samples + 1, "{samples}");
    Ok(())
}

#[test]
fn mistakes_cost_nothing_that_is_there() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-mistakes")?;
    let trace = job()?[0].to_string_lossy().into_owned();
    let file = scratch.path().join("run.folded");
    fs::write(&file, "mine")?;
    let path = file.to_string_lossy().into_owned();
    let folder = scratch.path().join("folder");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("letter.txt"), "mine")?;
    let in_folder = folder.to_string_lossy().into_owned();
    for (words, code, expected) in [
        (vec!["--to", "folded", "-o", &path], 1, "already there"),
        (
            vec!["--to", "csv", "-o", &in_folder, "--force"],
            1,
            "was not written by export",
        ),
        (
            vec!["--to", "folded", "-o", "x", "--ranks", "7"],
            1,
            "other ranks than those: 0",
        ),
        (
            vec!["--to", "folded", "-o", "x", "--ranks", "b"],
            2,
            "no rank",
        ),
        (
            vec!["--to", "folded", "-o", "x", "--window", "3s"],
            2,
            "no stretch of time",
        ),
        (vec!["--to", "tape", "-o", "x"], 2, "speedscope"),
        (vec!["--to", "folded"], 2, "--output"),
    ] {
        let mut command = Command::new(report()?);
        let done = command
            .current_dir(scratch.path())
            .arg("export")
            .arg(&trace)
            .args(&words)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(
            done.status.code() == Some(code) && said.contains(expected),
            "{words:?}: {said}"
        );
    }
    ensure!(fs::read_to_string(&file)? == "mine");
    let mut names = Vec::new();
    for entry in fs::read_dir(scratch.path())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    ensure!(names.contains(&"run.folded".to_owned()));
    ensure!(
        !names
            .iter()
            .any(|name| name.starts_with('.') || name == "x"),
        "{names:?}"
    );
    export(&[Path::new(&trace)], "folded", &file, &["--force"])?;
    ensure!(fs::read_to_string(&file)?.len() > 4);
    Ok(())
}
