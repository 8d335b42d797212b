//! What counters cost: those that are read from outside, as a share of a processor, and those of threads, for each sample.

use anyhow::Result;

use super::lab::{Lab, Wish};
use super::numbers::{median, minimum};
use super::process;
use super::table::{Cell, Figures, Table};
use super::tools::{Recording, Tool};

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    Ok(vec![outside(lab, figures)?, of_threads(lab, figures)?])
}

/// CPU time of the whole run of a program that sleeps, with the monitors and without.
fn outside(lab: &Lab, figures: &mut Figures) -> Result<Table> {
    let (seconds, repetitions) = if lab.quick { (10, 3) } else { (30, 5) };
    let target = ["/bin/sleep".to_owned(), seconds.to_string()];
    let output = lab.scratch.join("output");
    let wishes: [(&str, &[&str]); 3] = [
        ("none", &["--process-sampling=false"]),
        ("default", &[]),
        ("100 Hz", &["--process-freq", "100"]),
    ];
    let mut cpu_s: Vec<Vec<f64>> = vec![Vec::new(); wishes.len()];
    eprintln!("bench: monitors");
    for repetition in 0..repetitions {
        for turn in 0..wishes.len() {
            let which = (repetition + turn) % wishes.len();
            let recording = Recording {
                rate_hz: 300,
                output: &output,
                options: wishes[which].1,
            };
            let mut command = Tool::Rsys.command(&lab.places, recording, &target)?;
            cpu_s[which].push(process::run(&mut command, lab.terms(false))?.tree_cpu_s);
        }
    }
    lab.empty_output()?;
    let mut table = Table::new(
        "Monitors: what counters of processes and host cost beside a program that sleeps",
        &[
            "monitors",
            "CPU ms/s (min)",
            "CPU ms/s (median)",
            "% of a core",
        ],
    );
    let per_s = |value: Option<f64>| value.map(|cpu_s| 1e3 * cpu_s / f64::from(seconds));
    let bare = per_s(median(&cpu_s[0]));
    for ((name, _), times) in wishes.iter().zip(&cpu_s) {
        let own = per_s(median(times));
        let percent = own.zip(bare).map(|(own, bare)| (own - bare) / 10.0);
        table.row(vec![
            (*name).into(),
            Cell::number(per_s(minimum(times)), 2),
            Cell::number(own, 2),
            Cell::number(percent, 3),
        ]);
        if let Some(percent) = percent {
            figures.insert(format!("monitors/{name}/core_percent"), percent);
        }
    }
    table.note(format!(
        "{repetitions} repetitions of {seconds} s; the last column is what is above none, by the medians"
    ));
    Ok(table)
}

/// CPU time of a program whose threads count events.
fn of_threads(lab: &Lab, figures: &mut Figures) -> Result<Table> {
    const RATE_HZ: u32 = 1000;
    const FOUR: &str = "page-faults,task-clock,context-switches,cpu-migrations";
    let (seconds, repetitions) = if lab.quick { (2.0, 5) } else { (5.0, 9) };
    let units = lab.calibrate(seconds, 2e6, |units| Ok(lab.chain(10, 1, units)))?;
    let program = lab.chain(10, 1, units);
    let wishes: [(&str, f64, &[&str]); 3] = [
        ("none", 0.0, &[]),
        ("one", 1.0, &["-C", "page-faults"]),
        ("four", 4.0, &["-C", FOUR]),
    ];
    let mut cpu_us: Vec<Vec<f64>> = vec![Vec::new(); wishes.len()];
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); wishes.len()];
    for repetition in 0..repetitions {
        for turn in 0..wishes.len() {
            let which = (repetition + turn) % wishes.len();
            let wish = Wish {
                rate_hz: RATE_HZ,
                options: wishes[which].2,
                ..Wish::default()
            };
            let run = lab.run(Tool::Rsys, &program, wish)?;
            cpu_us[which].push(1e6 * run.report.get("cpu_total")?);
            samples[which].push(run.harvest.samples);
        }
    }
    let mut table = Table::new(
        "Counters of threads: what a group of events adds to a sample",
        &[
            "events",
            "samples",
            "CPU s (min)",
            "us/sample",
            "us/sample and event",
        ],
    );
    let bare = minimum(&cpu_us[0]);
    for (((name, count, _), times), taken) in wishes.iter().zip(&cpu_us).zip(&samples) {
        let added = minimum(times).zip(bare).zip(median(taken));
        let per_sample = added.map(|((own, bare), taken)| (own - bare) / taken.max(1.0));
        let per_event = per_sample.filter(|_| *count > 0.0).map(|us| us / count);
        table.row(vec![
            (*name).into(),
            Cell::number(median(taken), 0),
            Cell::number(minimum(times).map(|us| us / 1e6), 3),
            Cell::number(per_sample.filter(|_| *count > 0.0), 2),
            Cell::number(per_event, 2),
        ]);
        if let Some(us) = per_event {
            figures.insert(format!("counters/{name}/us_per_sample_and_event"), us);
        }
    }
    table.note(format!(
        "{repetitions} repetitions at {RATE_HZ} Hz; the smallest CPU times are compared"
    ));
    Ok(table)
}
