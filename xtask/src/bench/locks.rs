//! What a free lock costs: nanoseconds to take it and give it back, bare, under rsys, and with its locks recorded.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::lab::Lab;
use super::numbers::minimum;
use super::process;
use super::table::{Cell, Figures, Table};
use super::tools::{Recording, Tool};

/// What the program prints.
const KINDS: [&str; 5] = ["mutex", "read", "write", "spin", "semaphore"];

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (pairs, repetitions) = if lab.quick {
        ("2000000", 5)
    } else {
        ("10000000", 9)
    };
    let program = lab.scratch.join("locks");
    let source = lab.root.join("tests/workloads/locks.c");
    let built = Command::new("cc")
        .args(["-O2", "-o"])
        .args([&program, &source])
        .arg("-lpthread")
        .status()
        .context("no C compiler")?;
    ensure!(built.success(), "{} does not compile", source.display());
    let target = [
        program.display().to_string(),
        "pairs".to_owned(),
        pairs.to_owned(),
    ];
    let output = lab.scratch.join("output");
    let ways: [(&str, Tool, &[&str]); 3] = [
        ("bare", Tool::Bare, &[]),
        ("rsys", Tool::Rsys, &[]),
        (
            "rsys, locks",
            Tool::Rsys,
            &["-I", "mutex-locks", "rw-locks", "spin-locks"],
        ),
    ];
    eprintln!("bench: locks");
    let mut times_ns: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); KINDS.len()]; ways.len()];
    for repetition in 0..repetitions {
        for turn in 0..ways.len() {
            let which = (repetition + turn) % ways.len();
            let (_, tool, options) = ways[which];
            let recording = Recording {
                rate_hz: 300,
                output: &output,
                options,
            };
            let mut command = tool.command(&lab.places, recording, &target)?;
            let finished = process::run(&mut command, lab.terms(false))?;
            for (kind, times) in KINDS.iter().zip(&mut times_ns[which]) {
                let name = format!("{kind}_ns=");
                let mut lines = finished.stdout.lines();
                let value = lines.find_map(|line| line.strip_prefix(&name));
                let value = value.with_context(|| finished.last_words())?;
                times.push(value.parse()?);
            }
        }
    }
    lab.empty_output()?;
    let mut table = Table::new(
        "Locks: ns to take a free lock and give it back",
        &["lock", "way", "ns (min)", "added ns"],
    );
    for (at, kind) in KINDS.iter().enumerate() {
        let bare = minimum(&times_ns[0][at]);
        for ((way, tool, _), times) in ways.iter().zip(&times_ns) {
            let own = minimum(&times[at]);
            let profiled = *tool != Tool::Bare;
            let added = own
                .zip(bare)
                .filter(|_| profiled)
                .map(|(own, bare)| own - bare);
            table.row(vec![
                (*kind).into(),
                (*way).into(),
                Cell::number(own, 2),
                Cell::number(added, 2),
            ]);
            if let Some(added) = added {
                figures.insert(format!("locks/{kind}/{way}/added_ns"), added);
            }
        }
    }
    table.note(format!(
        "the best of {repetitions} runs in turns, each the best of 20 parts of {pairs} pairs"
    ));
    Ok(vec![table])
}
