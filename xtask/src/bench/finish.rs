//! How long after the program's end its trace is finished.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use super::lab::{Lab, Program, Run, Wish};
use super::numbers::{median, minimum, ratio};
use super::table::{Cell, Figures, Table};
use super::tools::{FOR_NATIVE, FOR_PYTHON, Tool};

/// The rate of all recordings.
const RATE_HZ: u32 = 300;

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let repetitions = if lab.quick { 2 } else { 5 };
    let mut table = Table::new(
        "Finish: seconds from the program's last word to the finished trace, at 300 Hz",
        &[
            "program",
            "tool",
            "s (min)",
            "s (median)",
            "over bare (median)",
            "x ours",
        ],
    );
    let units = lab.calibrate(0.8, 2e6, |units| Ok(lab.chain(30, 1, units)))?;
    let mut cases: Vec<(Program, &[Tool])> = vec![(lab.chain(30, 1, units), &FOR_NATIVE[..])];
    let torch = lab.python("torch_steps.py", "PyTorch", &[])?;
    match lab.run(Tool::Bare, &torch, Wish::default()) {
        Ok(_) => cases.push((torch, &FOR_PYTHON[..])),
        Err(error) => table.note(format!("PyTorch: not measured: {error:#}")),
    }
    for (program, tools) in &cases {
        compare(lab, tools, program, repetitions, &mut table, figures);
    }
    table.note("the program's own end (PyTorch: tearing the interpreter down) is in the bare row");
    table.note("rsys, first: empty symbol cache; rsys, again: the cache that the first run left");
    table.note("perf.data and samply's file hold no names then: 'perf script' is the time to get them from perf.data, added to perf's");
    Ok(vec![table])
}

/// Seconds of one way to profile, one for each repetition.
struct Way {
    name: String,
    seconds: Vec<f64>,
}

fn compare(
    lab: &Lab,
    tools: &[Tool],
    program: &Program,
    repetitions: usize,
    table: &mut Table,
    figures: &mut Figures,
) {
    let mut ways: Vec<Way> = Vec::new();
    let mut add = |name: &str, seconds: Result<f64>| match seconds {
        Ok(seconds) => match ways.iter_mut().find(|way| way.name == name) {
            Some(way) => way.seconds.push(seconds),
            None => ways.push(Way {
                name: name.to_owned(),
                seconds: vec![seconds],
            }),
        },
        Err(error) => eprintln!("bench: {error:#}"),
    };
    for repetition in 0..repetitions {
        eprintln!("bench: finish: {}, round {}", program.name, repetition + 1);
        for tool in lab.choose(tools) {
            match tool {
                Tool::Rsys => {
                    let cache = lab.scratch.join(format!("cache-{repetition}"));
                    add("rsys, first", tail(lab, tool, program, Some(&cache)));
                    add("rsys, again", tail(lab, tool, program, Some(&cache)));
                    drop(fs::remove_dir_all(&cache));
                }
                _ => add(tool.name(), tail(lab, tool, program, None)),
            }
            if tool == Tool::PerfFp && repetition == 0 {
                add("perf -g + perf script", perf_with_names(lab, program));
            }
        }
    }
    let of = |name: &str| {
        ways.iter()
            .find(|way| way.name == name)
            .and_then(|way| median(&way.seconds))
    };
    let bare = of(Tool::Bare.name()).unwrap_or(0.0);
    let ours = of("rsys, again").map(|seconds| seconds - bare);
    for way in &ways {
        let over = median(&way.seconds).map(|seconds| seconds - bare);
        let profiled = way.name != Tool::Bare.name();
        table.row(vec![
            program.name.clone().into(),
            way.name.clone().into(),
            Cell::number(minimum(&way.seconds), 3),
            Cell::number(median(&way.seconds), 3),
            Cell::number(over.filter(|_| profiled), 3),
            Cell::number(
                over.zip(ours)
                    .filter(|_| profiled)
                    .and_then(|(theirs, ours)| ratio(theirs, ours)),
                2,
            ),
        ]);
        if let Some(over) = over {
            figures.insert(format!("finish/{}/{}", program.name, way.name), over);
        }
    }
}

fn tail(lab: &Lab, tool: Tool, program: &Program, cache: Option<&Path>) -> Result<f64> {
    let wish = Wish {
        rate_hz: RATE_HZ,
        symbol_cache: cache,
        ..Wish::default()
    };
    seconds_after(&lab.run(tool, program, wish)?)
}

fn seconds_after(run: &Run) -> Result<f64> {
    Ok(run.finished.ended_s - run.report.get("ended")?)
}

/// perf names nothing while it records. `perf script` does, so its time belongs to the comparison.
fn perf_with_names(lab: &Lab, program: &Program) -> Result<f64> {
    let data = lab.scratch.join("named.perf.data");
    let mut command = Command::new("perf");
    command
        .args(["record", "-e", "cpu-clock", "-g", "-F"])
        .arg(RATE_HZ.to_string())
        .arg("-o")
        .arg(&data)
        .arg("--")
        .args(&program.command);
    let finished = super::process::run(&mut command, lab.terms(false))?;
    let report = super::report::TargetReport::parse(&finished.stdout)?;
    let recorded_s = finished.ended_s - report.get("ended")?;
    let started = Instant::now();
    Command::new("timeout")
        .args(["120", "perf", "script", "-i"])
        .arg(&data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run perf script")?;
    Ok(recorded_s + started.elapsed().as_secs_f64())
}
