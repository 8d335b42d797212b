//! A job that is written by hand, for other tools to read: two ranks of twenty steps, each with kernels on one stream, a collective beside them on another, a
//! copy, a fill, a graph of three kernels, and a value of a sensor. Nothing begins where something else ends, and no time is a whole number of microseconds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_synthetic::random_run::{
    Basis, Call, Operation, OperationKind, Process, Range, Sample, Sensor, write_process,
};
use rsys_tests::{Scratch, TestResult, judge_dir, workspace_dir};
use serde_json::Value;

/// How many ranks it has.
pub(super) const RANKS: u64 = 2;
/// How many steps each has.
pub(super) const STEPS: u64 = 20;
/// What PyTorch calls its steps, by which HTA finds them.
const STEP: &str = "ProfilerStep#";

/// Why the packages of Python are not there.
pub(super) fn missing_readers() -> Option<String> {
    missing(&judge_dir().join("readers"), "HTA, AORTA and pandas are")
}

/// Why speedscope is not there.
pub(super) fn missing_speedscope() -> Option<String> {
    missing(
        &judge_dir().join("node_modules/speedscope"),
        "speedscope is",
    )
}

/// Where the Firefox Profiler's own code is.
pub(super) fn firefox_modules() -> PathBuf {
    judge_dir().join("firefox/node_modules")
}

/// Why the Firefox Profiler's own code is not there, or does not run.
pub(super) fn missing_firefox() -> Option<String> {
    /// Its package demands 24, but this runs it.
    const NODE: u32 = 20;
    let told = Command::new("node").arg("--version").output();
    let told = told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    let told = told.unwrap_or_default();
    let major = told.trim_start_matches('v').split('.').next();
    let is_new = major.is_some_and(|major| major.parse().is_ok_and(|major: u32| major >= NODE));
    if !is_new {
        return Some(format!(
            "the Firefox Profiler's command line needs Node {NODE}, not {told:?}"
        ));
    }
    missing(
        &firefox_modules().join("@firefox-devtools/profiler-cli"),
        "the Firefox Profiler's command line is",
    )
}

fn missing(folder: &Path, what: &str) -> Option<String> {
    (!folder.is_dir()).then(|| format!("{what} not there: `cargo xtask test` fetches them"))
}

/// A kernel, copy or fill of a step, that the last call caused.
fn operation(
    process: &Process,
    kind: OperationKind,
    name: &str,
    stream: u32,
    (start_ns, duration_ns): (u64, u64),
) -> Operation {
    Operation {
        kind,
        name: name.to_owned(),
        start_ns,
        end_ns: start_ns + duration_ns,
        device: process.number,
        stream,
        call: Some(process.calls.len() - 1),
        bytes: if kind == OperationKind::Kernel {
            0
        } else {
            1 << 20
        },
        direction: if kind == OperationKind::Copy {
            "CopyHostToDevice"
        } else {
            ""
        },
        grid: if kind == OperationKind::Kernel {
            "64\u{d7}1\u{d7}1"
        } else {
            ""
        },
    }
}

/// A rank.
fn process(rank: u64) -> Process {
    let pid = 1000 + rank as u32;
    let mut process = Process {
        number: rank as u32,
        pid,
        rank: Some(rank),
        start_ns: 5_000_000_000_000 + rank * 1_237,
        wall_offset_ns: 1_790_000_000_000_000_000,
        threads: vec![pid],
        ..Process::default()
    };
    for step in 0..STEPS {
        let begin_ns = process.start_ns + 10_007 + step * 1_000_003;
        process.ranges.push(Range {
            name: format!("{STEP}{step}"),
            start_ns: begin_ns,
            end_ns: begin_ns + 940_001,
            thread: 0,
        });
        let call = |process: &mut Process, name: &'static str, at_ns: u64| {
            process.calls.push(Call {
                category: "hip",
                name,
                start_ns: begin_ns + at_ns,
                end_ns: begin_ns + at_ns + 3_011,
                thread: 0,
                correlation: process.calls.len() as u64 + 1,
                bytes: 0,
                collective: None,
            });
        };
        let more_ns = 97 * step + 1_013 * rank;
        let of_step = [
            (
                "hipLaunchKernel",
                OperationKind::Kernel,
                "gemm",
                1,
                20_017,
                300_011 + more_ns,
            ),
            (
                "hipExtLaunchKernel",
                OperationKind::Kernel,
                "ncclDevKernel_AllReduce_Sum_bf16",
                2,
                200_029,
                250_007 + 2 * more_ns,
            ),
            (
                "hipMemcpyAsync",
                OperationKind::Copy,
                "CopyHostToDevice",
                1,
                500_003,
                40_009,
            ),
            (
                "hipMemsetAsync",
                OperationKind::Fill,
                "FillBuffer",
                1,
                560_009,
                7_013,
            ),
        ];
        for (place, (name, kind, what, stream, at_ns, duration_ns)) in (0..).zip(of_step) {
            call(&mut process, name, 1_003 + place * 4_001);
            let one = operation(
                &process,
                kind,
                what,
                stream,
                (begin_ns + at_ns, duration_ns),
            );
            process.operations.push(one);
        }
        call(&mut process, "hipGraphLaunch", 18_013);
        for node in 0..3 {
            let time = (begin_ns + 600_001 + node * 60_007, 50_013);
            let one = operation(
                &process,
                OperationKind::Kernel,
                &format!("node_{node}"),
                1,
                time,
            );
            process.operations.push(one);
        }
        process.sensors.push(Sensor {
            time_ns: begin_ns + 5_003,
            device: process.number,
            value: 200.0 + step as f64 / 4.0,
        });
        for (basis, weight, function) in [
            (Basis::Cpu, 400_009, "prepare"),
            (Basis::Wait, 300_007, "synchronize"),
        ] {
            process.samples.push(Sample {
                time_ns: begin_ns + weight,
                basis,
                weight: weight + step,
                thread: 0,
                functions: ["main", "train", function].map(str::to_owned).to_vec(),
            });
        }
    }
    process
}

/// The traces of the job.
pub(super) fn training(scratch: &Scratch) -> Result<Vec<PathBuf>> {
    let ranks =
        (0..RANKS).map(|rank| write_process(&process(rank), RANKS as usize, scratch.path()));
    ranks.collect()
}

/// What a script among the judges says, with the packages that are fetched for it.
pub(super) fn read_by(script: &str, path: &Path) -> Result<Value> {
    let done = Command::new("python3")
        .arg(workspace_dir().join("tests/judge").join(script))
        .arg(path)
        .env("PYTHONPATH", judge_dir().join("readers"))
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{script}: {said}");
    // The packages may have said something in front of the answer.
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(serde_json::from_str(
        text.lines().last().context("an answer")?,
    )?)
}

/// A number that is not an integer is near another.
pub(super) fn near(found: &Value, expected: f64, by: f64, what: &str) -> TestResult {
    let found = found.as_f64().with_context(|| format!("{what}: {found}"))?;
    ensure!(
        (found - expected).abs() <= by,
        "{what}: {found}, not {expected}"
    );
    Ok(())
}

/// Rows with a value in a column.
pub(super) fn with<'a>(
    rows: &'a Value,
    key: &str,
    value: &Value,
) -> impl Iterator<Item = &'a Value> {
    let (key, value) = (key.to_owned(), value.clone());
    let rows = rows.as_array().into_iter().flatten();
    rows.filter(move |row| row[&key] == value)
}
