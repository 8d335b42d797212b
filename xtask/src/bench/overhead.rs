//! What sampling costs the program: CPU time, wall time, and both per sample.

use anyhow::Result;

use super::lab::{Lab, Program, Run, Wish};
use super::numbers::{median, median_excess_percent, minimum, percent_over, ratio};
use super::table::{Cell, Figures, Table};
use super::tools::{FOR_NATIVE, FOR_NEW_PYTHON, FOR_PYTHON, Tool};

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (seconds, repetitions, rates_hz) = if lab.quick {
        (0.5, 4, &[100, 300, 1000][..])
    } else {
        (0.8, 7, &[100, 300, 1000][..])
    };
    let units = lab.calibrate(seconds, 2e6, |units| Ok(lab.chain(30, 1, units)))?;
    let mut cases: Vec<(Program, &[Tool])> = [(10, 1), (30, 1), (100, 1), (30, 4)]
        .into_iter()
        .map(|(depth, threads)| (lab.chain(depth, threads, units), &FOR_NATIVE[..]))
        .collect();
    let python = |units: f64| lab.python("python_work.py", "Python", &[&units.to_string()]);
    match lab.calibrate(seconds, 200.0, python) {
        Ok(units) => cases.push((python(units)?, &FOR_PYTHON[..])),
        Err(error) => eprintln!("bench: the Python program is not measured: {error:#}"),
    }
    let new_python = |units: f64| lab.new_python(&[&units.to_string()]);
    match lab.calibrate(seconds, 200.0, new_python) {
        Ok(units) => cases.push((new_python(units)?, &FOR_NEW_PYTHON[..])),
        Err(error) => eprintln!("bench: Python with -X perf is not measured: {error:#}"),
    }
    let mut table = Table::new(
        "Overhead: what sampling costs the program",
        &[
            "program",
            "Hz",
            "tool",
            "CPU s (min)",
            "CPU s (median)",
            "CPU +% (min)",
            "CPU +% (median)",
            "wall +% (min)",
            "us/sample (min)",
            "us/sample (median)",
            "x ours",
            "tool CPU s",
            "samples",
        ],
    );
    for &rate_hz in rates_hz {
        for (program, tools) in &cases {
            eprintln!("bench: overhead: {}, {rate_hz} Hz", program.name);
            let wish = Wish {
                rate_hz,
                ..Wish::default()
            };
            let runs = lab.rounds(tools, program, wish, repetitions);
            tabulate(&runs, &program.name, rate_hz, &mut table, figures);
        }
    }
    table.note(format!(
        "{repetitions} repetitions, all tools in turn within each; CPU time is the program's own, from the beginning of its work"
    ));
    table.note("(min): smallest of all runs against the smallest bare run; (median): of the differences within each repetition");
    table.note("us/sample: (CPU - bare CPU) / samples; for rsys, samples that the clock merged count once, as one interruption");
    table.note(
        "x ours: the tool's us/sample (min) over ours; '-' where noise is larger than the cost",
    );
    table.note("tool CPU s: median CPU time of the whole tree minus the program's: the profiler's own process, in steps of 10 ms");
    table.note(
        "-X perf is a way to run Python that costs by itself: that is part of the row's overhead",
    );
    table.note("py-spy stops the program to look at it: its cost is in the wall time, and so are its samples: its us/sample compares with nobody's");
    Ok(vec![table])
}

/// One tool's outcome.
struct Outcome {
    cpu: Vec<f64>,
    wall: Vec<f64>,
    samples: Vec<f64>,
    tool_cpu: Vec<f64>,
}

impl Outcome {
    fn of(runs: &[Run]) -> Self {
        let values = |value: &dyn Fn(&Run) -> Option<f64>| runs.iter().filter_map(value).collect();
        Self {
            cpu: values(&|run| run.report.get("cpu").ok()),
            wall: values(&|run| run.report.get("wall").ok()),
            samples: values(&|run| Some(run.harvest.samples)),
            tool_cpu: values(&|run| {
                Some(run.finished.tree_cpu_s - run.report.get("cpu_total").ok()?)
            }),
        }
    }

    fn us_per_sample_minimum(&self, bare: &Self) -> Option<f64> {
        let cost = minimum(&self.cpu)? - minimum(&bare.cpu)?;
        let samples = median(&self.samples)?;
        (samples > 0.0).then(|| 1e6 * cost / samples)
    }

    fn us_per_sample_median(&self, bare: &Self) -> Option<f64> {
        let costs: Vec<f64> = self
            .cpu
            .iter()
            .zip(&bare.cpu)
            .zip(&self.samples)
            .filter(|(_, samples)| **samples > 0.0)
            .map(|((cpu, bare), samples)| 1e6 * (cpu - bare) / samples)
            .collect();
        median(&costs)
    }
}

fn tabulate(
    runs: &[(Tool, Vec<Run>)],
    program: &str,
    rate_hz: u32,
    table: &mut Table,
    figures: &mut Figures,
) {
    let outcomes: Vec<(Tool, Outcome)> = runs
        .iter()
        .map(|(tool, runs)| (*tool, Outcome::of(runs)))
        .collect();
    let of = |wanted: Tool| {
        outcomes
            .iter()
            .find(|(tool, _)| *tool == wanted)
            .map(|(_, outcome)| outcome)
    };
    let Some(bare) = of(Tool::Bare) else {
        return;
    };
    let ours_us = of(Tool::Rsys).and_then(|ours| ours.us_per_sample_minimum(bare));
    for (tool, outcome) in &outcomes {
        let profiled = *tool != Tool::Bare;
        let over_minimum = |values: &[f64], bare: &[f64]| {
            profiled
                .then(|| Some(percent_over(minimum(values)?, minimum(bare)?)))
                .flatten()
        };
        let cpu_percent = over_minimum(&outcome.cpu, &bare.cpu);
        let cpu_percent_median = profiled
            .then(|| median_excess_percent(&outcome.cpu, &bare.cpu))
            .flatten();
        let wall_percent = over_minimum(&outcome.wall, &bare.wall);
        let us_per_sample = outcome.us_per_sample_minimum(bare);
        let times_ours = us_per_sample
            .zip(ours_us)
            .and_then(|(theirs, ours)| ratio(theirs, ours));
        table.row(vec![
            program.into(),
            Cell::number(Some(f64::from(rate_hz)), 0),
            tool.name().into(),
            Cell::number(minimum(&outcome.cpu), 4),
            Cell::number(median(&outcome.cpu), 4),
            Cell::number(cpu_percent, 2),
            Cell::number(cpu_percent_median, 2),
            Cell::number(wall_percent, 2),
            Cell::number(us_per_sample, 2),
            Cell::number(
                profiled
                    .then(|| outcome.us_per_sample_median(bare))
                    .flatten(),
                2,
            ),
            Cell::number(times_ours, 2),
            Cell::number(profiled.then(|| median(&outcome.tool_cpu)).flatten(), 2),
            Cell::number(profiled.then(|| median(&outcome.samples)).flatten(), 0),
        ]);
        let key = format!("overhead/{program}/{rate_hz}/{}", tool.name());
        for (figure, value) in [
            ("cpu_percent", cpu_percent),
            ("cpu_percent_median", cpu_percent_median),
            ("wall_percent", wall_percent),
            ("us_per_sample", us_per_sample),
            (
                "us_per_sample_median",
                outcome.us_per_sample_median(bare).filter(|_| profiled),
            ),
        ] {
            if let Some(value) = value {
                figures.insert(format!("{key}/{figure}"), value);
            }
        }
    }
}
