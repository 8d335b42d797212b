//! What `rsys-report` answers about functions, calls, copies, memory and sensors of programs on simulated GPUs, against Perfetto's own engine and what
//! the program is known to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Invocation, Run, Scratch, TestResult, answer, sampler, skip_if_missing};
use serde_json::Value;

const MACHINE: &str = "
[clock]
drift_ppm = 90.0
[[kernel]]
name = 'spin'
microseconds = 300
[[kernel]]
name = 'touch'
microseconds = 20
[[kernel]]
name = 'node'
microseconds = 2
";

rsys_tests::on_every_stack_with_a_tracer! {
    blocking_calls_have_their_lines;
    answers_agree_with_the_program_and_the_engine;
}

fn rows<'a>(answer: &'a Value, table: &str) -> Result<&'a [Value]> {
    let rows = answer[table].as_array();
    Ok(rows.with_context(|| format!("no {table} in {answer}"))?)
}

fn sum<'a>(rows: impl IntoIterator<Item = &'a Value>, key: &str) -> i64 {
    let values = rows.into_iter().filter_map(|row| row[key].as_i64());
    values.sum()
}

fn of<'a>(rows: &'a [Value], key: &'a str, text: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row[key] == text)
}

/// Bytes of the copies that `hip_ops work` makes on a GPU, by direction.
fn moved() -> BTreeMap<&'static str, i64> {
    let pinned: i64 = (0..20).map(|i| 40_000 + 4096 * i).sum();
    let pageable: i64 = (0..5).map(|i| 200_000 + 4096 * i).sum();
    BTreeMap::from([
        ("host to device", pinned + pageable),
        ("device to device", pinned + 20 * 4),
        ("device to host", pinned + 20 * 8 + pageable + 5 * 4),
    ])
}

fn answers_agree_with_the_program_and_the_engine(stack: Stack) -> TestResult {
    const GPUS: i64 = 2;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.gpus(GPUS as usize).config(MACHINE)?;
    let program = hip_program(stack, "hip_ops")?.args(["work", "20", "5"]);
    let outcome = Run::new()
        .options(["-I", "rocm", "--realtime"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_ops")?;
    let files = outcome.files();

    let calls = answer("calls", &files)?;
    let found = rows(&calls, "calls")?;
    let expected = trace.query(
        "select name, count(*) as count, sum(dur) as total from slice where category = 'hip' group by name",
    )?;
    ensure!(expected.len() == found.len(), "{calls}");
    for row in expected.iter() {
        let name = row.text("name")?;
        let call = of(found, "name", name).next().context(calls.to_string())?;
        let numbers = [call["count"].as_i64(), call["total_ns"].as_i64()];
        let truth = [row.int("count")?, row.int("total")?].map(Some);
        ensure!(numbers == truth, "{name}: {call}, not {truth:?}");
    }
    let runtimes = rows(&calls, "runtimes")?;
    ensure!(
        sum(found, "outermost_ns") == sum(runtimes, "time_ns"),
        "{calls}"
    );
    ensure!(
        sum(found, "blocked_ns") == sum(runtimes, "blocked_ns"),
        "{calls}"
    );
    let waits = of(found, "name", "hipStreamSynchronize").next();
    let waits = waits.context("no call waits")?;
    ensure!(waits["blocked_ns"] == waits["total_ns"], "{waits}");

    let copies = answer("copies", &files)?;
    let found = rows(&copies, "copies")?;
    for (direction, bytes) in moved() {
        let bytes_found = sum(of(found, "direction", direction), "bytes");
        ensure!(bytes_found == GPUS * bytes, "{direction}: {copies}");
    }
    ensure!(sum(found, "count") == GPUS * 70, "{copies}");
    let timeline = answer("timeline", &files)?;
    let devices = rows(&timeline["runs"][0], "devices")?;
    for (of_copies, device) in rows(&copies, "device_copies")?.iter().zip(devices) {
        ensure!(
            of_copies["time_ns"] == device["total_memcpy_ns"],
            "{copies}\n{timeline}"
        );
    }
    let blocking = rows(&copies, "blocking_copies")?;
    ensure!(sum(blocking, "count") == GPUS * 10, "{copies}");
    ensure!(
        of(blocking, "call", "hipMemcpyAsync").next().is_none(),
        "{copies}"
    );

    let memory = answer("memory", &files)?;
    let device = of(rows(&memory, "memory")?, "memory", "device").next();
    let device = device.context(memory.to_string())?;
    let peak = 4096 + 2 * (1 << 20);
    ensure!(
        device["peak_bytes"] == peak && device["end_bytes"] == 0,
        "{device}"
    );
    ensure!(device["allocations"] == 3 * GPUS + 1, "{device}");
    let holders = of(rows(&memory, "memory_holders")?, "memory", "device");
    ensure!(sum(holders, "bytes") == peak, "{memory}");

    let functions = answer("functions", &files)?;
    let processes = rows(&functions, "processes")?;
    let weights = |time_base: &str| {
        trace.number(&format!(
            "select cast(coalesce(sum(c.value), 0) as int) from counter c join perf_counter_track t on c.track_id = t.id
             where t.name = '{time_base}'"
        ))
    };
    let process = of(processes, "process_name", "hip_ops").next();
    let process = process.context(functions.to_string())?;
    ensure!(process["cpu_ns"] == weights("cpu-time ns")?, "{process}");
    ensure!(
        process["wait_ns"] == weights("waiting-time ns")?,
        "{process}"
    );
    let own_ns = sum(rows(&functions, "functions")?, "self_ns");
    ensure!(
        own_ns == sum(processes, "cpu_ns") && own_ns > 0,
        "{functions}"
    );
    let waits_ns = sum(rows(&functions, "waits")?, "wait_ns");
    ensure!(
        waits_ns == sum(processes, "wait_ns") && waits_ns > 0,
        "{functions}"
    );

    // Files in another order say the same.
    let mut reversed = files.clone();
    reversed.reverse();
    for (question, first) in [
        ("functions", functions),
        ("calls", calls),
        ("copies", copies),
        ("memory", memory),
    ] {
        ensure!(
            answer(question, &reversed)? == first,
            "{question} depends on the order"
        );
    }
    Ok(())
}

/// HIP 5.2 has no tracer: its calls are wrapped.
#[test]
fn wrapped_calls_have_their_lines() -> TestResult {
    blocking_calls_have_their_lines(Stack::Debian12)
}

/// Calls that block, as `hip_places` makes them: function and call.
const PLACES: [(&str, &str); 11] = [
    ("allocate", "hipMalloc"),
    ("allocate_managed", "hipMallocManaged"),
    ("allocate_pinned", "hipHostMalloc"),
    ("upload", "hipMemcpy"),
    ("wait_for_device", "hipDeviceSynchronize"),
    ("wait_for_stream", "hipStreamSynchronize"),
    ("wait_for_event", "hipEventSynchronize"),
    ("download", "hipMemcpy"),
    ("release", "hipFree"),
    ("release_managed", "hipFree"),
    ("release_pinned", "hipHostFree"),
];

/// Every call has the place from which it was made, without any sample in it.
fn blocking_calls_have_their_lines(stack: Stack) -> TestResult {
    const ROUNDS: i64 = 20;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.config(MACHINE)?;
    let program = hip_program(stack, "hip_places")?.arg(ROUNDS.to_string());
    let outcome = Run::new()
        .freq(1)
        .options(["-I", "rocm"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let line = |function: &str| -> Result<i64> { Ok(outcome.number(function)? as i64) };
    let shown = |function: &str| format!("{function}()");
    let trace = outcome.trace_of("hip_places")?;
    trace.assert_clean();
    let files = outcome.files();

    // In the trace: a sample for each call, at its begin and on its thread, with its duration as weight.
    for name in PLACES.map(|(_, name)| name) {
        let found = trace.query(&format!(
            "select count(*) as calls,
                    sum(exists(select 1 from perf_sample p join thread t using (utid)
                               where p.ts = s.ts and t.name = 'hip_places' and p.callsite_id is not null)) as stacks,
                    sum(exists(select 1 from counter c join perf_counter_track t on t.id = c.track_id
                               where c.ts = s.ts and c.value = s.dur and t.name = 'call-time ns')) as alike
             from slice s where s.name = '{name}' and s.category = 'hip'"
        ))?;
        let row = found.iter().next().context("no row")?;
        let calls = row.int("calls")?;
        let places = PLACES.iter().filter(|(_, call)| *call == name).count() as i64;
        ensure!(calls >= places * ROUNDS, "{name}: {calls}");
        ensure!(
            row.int("stacks")? == calls && row.int("alike")? == calls,
            "{name}: {row:?}"
        );
    }

    let copies = answer("copies", &files)?;
    let blocking = rows(&copies, "blocking_copies")?;
    for function in ["upload", "download"] {
        let name = shown(function);
        let row = of(blocking, "function", &name).next();
        let row = row.with_context(|| format!("{function}: {copies}"))?;
        ensure!(
            row["count"] == ROUNDS
                && row["line"] == line(function)?
                && row["bytes"] == ROUNDS * 100_000,
            "{row}"
        );
    }
    ensure!(sum(blocking, "count") == 2 * ROUNDS, "{copies}");

    let memory = answer("memory", &files)?;
    let holders = rows(&memory, "memory_holders")?;
    for (function, kind) in [
        ("allocate", "device"),
        ("allocate_managed", "managed"),
        ("allocate_pinned", "pinned host"),
    ] {
        let row = of(holders, "memory", kind).next();
        let row = row.with_context(|| format!("{kind}: {memory}"))?;
        let stack = row["stack"].as_str().unwrap_or_default();
        ensure!(
            row["function"] == shown(function)
                && row["line"] == line(function)?
                && stack.starts_with("_start;")
                && stack.contains(";main;"),
            "{row}"
        );
    }
    ensure!(holders.len() == 3, "{memory}");

    let gaps = answer("gaps", &files)?;
    let causes = gaps["runs"][0]["devices"][0]["causes"].as_array();
    let causes = causes.context(gaps.to_string())?;
    let mut named = 0;
    for cause in causes {
        let place = cause["where"].as_str().unwrap_or_default();
        for (function, call) in PLACES {
            if place.starts_with(&format!("{call} in {} ", shown(function))) {
                ensure!(
                    place.ends_with(&format!("(hip_places.cpp:{})", line(function)?)),
                    "{cause}"
                );
                named += 1;
            }
        }
        // No call that blocks stands without its place.
        ensure!(
            PLACES.iter().all(|(_, call)| place != *call),
            "{cause}\n{gaps}"
        );
    }
    ensure!(named >= 5, "{gaps}");
    Ok(())
}

/// The profiler inside of the simulated machine sees its sensors.
#[test]
fn sensors_are_those_of_the_machine() -> TestResult {
    skip_if_missing!(Stack::Wheel54.missing_to_build());
    let machine = Machine::new(Stack::Wheel54)?.gpus(2).config(MACHINE)?;
    let program = hip_program(Stack::Wheel54, "hip_ops")?.args(["work", "0", "0"]);
    let inside = Invocation::new(sampler()?)
        .args(["-I", "rocm,rocm-smi", "--process-freq", "100"])
        .args([
            "--gpu-metrics",
            "busy,power,mem_usage,clock",
            "-o",
            "traces",
            "--",
        ])
        .program(program);
    let scratch = Scratch::new("answers-sensors")?;
    let outcome = Run::bare()
        .folder(scratch.path())
        .command(machine.run(inside))
        .run()?;
    outcome.expect_success();
    let sensors = answer("sensors", &[traces(&scratch.path().join("traces"))?])?;
    let found = rows(&sensors, "sensors")?;
    for sensor in ["GPU Busy", "GPU Power", "GPU Memory Usage", "GPU Clock"] {
        let numbers: Vec<i64> = of(found, "sensor", sensor)
            .filter_map(|row| row["device"].as_i64())
            .collect();
        ensure!(numbers == [0, 1], "{sensor}: {sensors}");
    }
    for row in found {
        let [min, mean, max] = ["min", "mean", "max"].map(|key| row[key].as_f64());
        ensure!(min <= mean && mean <= max && min.is_some(), "{row}");
    }
    Ok(())
}

/// The folder of the only run below a folder.
fn traces(folder: &Path) -> Result<PathBuf> {
    let mut runs = fs::read_dir(folder)?;
    Ok(runs.next().context("no run")??.path())
}
