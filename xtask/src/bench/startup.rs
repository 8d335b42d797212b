//! What it costs to begin: the smallest program, a thread, a fork, a started program.

use anyhow::Result;

use super::lab::{Lab, Wish};
use super::numbers::{median, minimum};
use super::process;
use super::table::{Cell, Figures, Table};
use super::tools::{FOR_NATIVE, Recording, Tool};

/// The rate of all recordings: the default of rsys.
const RATE_HZ: u32 = 300;

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    Ok(vec![smallest(lab, figures)?, births(lab, figures)])
}

/// The whole run of `/bin/true`, from the start of the profiler to its end.
fn smallest(lab: &Lab, figures: &mut Figures) -> Result<Table> {
    let repetitions = if lab.quick { 20 } else { 100 };
    let target = ["/bin/true".to_owned()];
    let output = lab.scratch.join("output");
    let recording = Recording {
        rate_hz: RATE_HZ,
        output: &output,
        options: &[],
    };
    let tools = lab.choose(&FOR_NATIVE);
    let mut wall_ms: Vec<Vec<f64>> = vec![Vec::new(); tools.len()];
    eprintln!("bench: start-up");
    for repetition in 0..repetitions {
        for turn in 0..tools.len() {
            let which = (repetition + turn) % tools.len();
            let mut command = tools[which].command(&lab.places, recording, &target)?;
            let finished = process::run(&mut command, lab.terms(false))?;
            wall_ms[which].push(1e3 * finished.wall_s);
        }
    }
    lab.empty_output()?;
    let mut table = Table::new(
        "Start-up: /bin/true from the start of the profiler to its end",
        &[
            "program",
            "tool",
            "ms (min)",
            "ms (median)",
            "added ms (min)",
            "added ms (median)",
        ],
    );
    let bare = (minimum(&wall_ms[0]), median(&wall_ms[0]));
    for (tool, times) in tools.iter().zip(&wall_ms) {
        let profiled = *tool != Tool::Bare;
        let added = |value: Option<f64>, bare: Option<f64>| {
            value
                .zip(bare)
                .filter(|_| profiled)
                .map(|(value, bare)| value - bare)
        };
        let added_median = added(median(times), bare.1);
        table.row(vec![
            "/bin/true".into(),
            tool.name().into(),
            Cell::number(minimum(times), 2),
            Cell::number(median(times), 2),
            Cell::number(added(minimum(times), bare.0), 2),
            Cell::number(added_median, 2),
        ]);
        if let Some(added) = added_median {
            figures.insert(format!("startup/true/{}/added_ms", tool.name()), added);
        }
    }
    table.note(format!("{repetitions} repetitions"));
    Ok(table)
}

/// Threads and processes that a profiled program creates.
fn births(lab: &Lab, figures: &mut Figures) -> Table {
    let (repetitions, threads, forks, spawns) = if lab.quick {
        (3, 2000, 100, 50)
    } else {
        (7, 10_000, 300, 100)
    };
    let program = lab.births(threads, forks, spawns);
    let tools: Vec<Tool> = lab
        .working
        .iter()
        .copied()
        .filter(|tool| FOR_NATIVE.contains(tool))
        .collect();
    eprintln!("bench: threads and processes");
    let wish = Wish {
        rate_hz: RATE_HZ,
        ..Wish::default()
    };
    let runs = lab.rounds(&tools, &program, wish, repetitions);
    let mut table = Table::new(
        "Births: what a profiled program pays for threads and processes",
        &[
            "what",
            "tool",
            "wall us (min)",
            "wall us (median)",
            "CPU us (min)",
            "CPU us (median)",
            "added CPU us (min)",
            "added CPU us (median)",
        ],
    );
    for (what, key) in [
        ("thread: create + join", "thread"),
        ("fork + _exit + wait", "fork"),
        ("posix_spawn /bin/true + wait", "spawn"),
    ] {
        let mut bare = (None, None);
        for (tool, runs) in &runs {
            let values = |suffix: &str| -> Vec<f64> {
                let key = format!("{key}{suffix}");
                runs.iter()
                    .filter_map(|run| run.report.get(&key).ok())
                    .collect()
            };
            let (wall, cpu) = (values("_us"), values("_cpu_us"));
            let now = (minimum(&cpu), median(&cpu));
            let profiled = *tool != Tool::Bare;
            if !profiled {
                bare = now;
            }
            let added = |value: Option<f64>, bare: Option<f64>| {
                value
                    .zip(bare)
                    .filter(|_| profiled)
                    .map(|(value, bare)| value - bare)
            };
            let added_minimum = added(now.0, bare.0);
            table.row(vec![
                what.into(),
                tool.name().into(),
                Cell::number(minimum(&wall), 1),
                Cell::number(median(&wall), 1),
                Cell::number(now.0, 1),
                Cell::number(now.1, 1),
                Cell::number(added_minimum, 1),
                Cell::number(added(now.1, bare.1), 1),
            ]);
            if let Some(added) = added_minimum {
                figures.insert(format!("births/{key}/{}/added_cpu_us", tool.name()), added);
            }
        }
    }
    table.note("CPU us: of the program and its children; wall time is mostly waiting for a processor where the machine is busy");
    table.note(format!(
        "means over {threads} threads, {forks} forks, {spawns} programs in a row; {repetitions} repetitions"
    ));
    table
}
