//! Peak memory of the program and of the profiler.

use anyhow::Result;

use super::lab::{Lab, Program, Run, Wish};
use super::numbers::{median, ratio};
use super::table::{Cell, Figures, Table};
use super::tools::{FOR_NATIVE, FOR_PYTHON, Tool};

/// The rate of all recordings.
const RATE_HZ: u32 = 1000;
/// Threads of the case with many.
const THREADS: u32 = 64;

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let repetitions = if lab.quick { 1 } else { 3 };
    let mut table = Table::new(
        "Memory: peak resident set, at 1000 Hz",
        &[
            "program",
            "tool",
            "program MB",
            "above bare MB",
            "profiler MB",
            "profiler, x ours",
        ],
    );
    let units = lab.calibrate(1.0, 2e6, |units| Ok(lab.chain(30, 1, units)))?;
    let mut cases: Vec<(Program, &[Tool])> = vec![
        (lab.chain(30, 1, units), &FOR_NATIVE[..]),
        (lab.chain(30, THREADS, 2.0 * units), &FOR_NATIVE[..]),
    ];
    let torch = lab.python("torch_steps.py", "PyTorch", &[])?;
    match lab.run(Tool::Bare, &torch, Wish::default()) {
        Ok(_) => cases.push((torch, &FOR_PYTHON[..])),
        Err(error) => table.note(format!("PyTorch: not measured: {error:#}")),
    }
    for (program, tools) in &cases {
        eprintln!("bench: memory: {}", program.name);
        let wish = Wish {
            rate_hz: RATE_HZ,
            watch_memory: true,
            ..Wish::default()
        };
        let runs = lab.rounds(tools, program, wish, repetitions);
        tabulate(&runs, &program.name, &mut table, figures);
    }
    table.note("program MB: VmHWM, read by the program at its end; shared memory counts, so the rings are in it");
    table.note("profiler MB: VmHWM of the profiler's process, read every millisecond; what it maps together with the program counts in both");
    Ok(vec![table])
}

fn tabulate(runs: &[(Tool, Vec<Run>)], program: &str, table: &mut Table, figures: &mut Figures) {
    let median_mb = |runs: &[Run], value: &dyn Fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(value).collect();
        median(&values).map(|kb| kb / 1024.0)
    };
    let of_program = |runs: &[Run]| median_mb(runs, &|run| run.report.get("rss_kb").ok());
    let of_profiler = |runs: &[Run]| {
        median_mb(runs, &|run| {
            run.finished.peak_rss_kb.map(|kilobytes| kilobytes as f64)
        })
    };
    let find = |wanted: Tool| {
        runs.iter()
            .find(|(tool, _)| *tool == wanted)
            .map(|(_, runs)| runs.as_slice())
    };
    let bare = find(Tool::Bare).and_then(of_program);
    let ours = find(Tool::Rsys).and_then(of_profiler);
    for (tool, runs) in runs {
        let program_mb = of_program(runs);
        let above = program_mb.zip(bare).map(|(all, bare)| all - bare);
        let profiled = *tool != Tool::Bare;
        let profiler = of_profiler(runs).filter(|_| profiled);
        table.row(vec![
            program.into(),
            tool.name().into(),
            Cell::number(program_mb, 1),
            Cell::number(above.filter(|_| profiled), 1),
            Cell::number(profiler, 1),
            Cell::number(
                profiler
                    .zip(ours)
                    .and_then(|(theirs, ours)| ratio(theirs, ours)),
                2,
            ),
        ]);
        let key = format!("memory/{program}/{}", tool.name());
        for (figure, value) in [("above_bare_mb", above), ("profiler_mb", profiler)] {
            if let Some(value) = value {
                figures.insert(format!("{key}/{figure}"), value);
            }
        }
    }
}
