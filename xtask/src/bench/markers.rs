//! What an event costs that a runtime tells its tool: nanoseconds per call of the tool, beside the program alone.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::lab::Lab;
use super::numbers::minimum;
use super::process;
use super::table::{Cell, Figures, Table};
use super::tools::{Recording, Tool};

/// A program that makes many events of one kind.
struct Kind {
    name: &'static str,
    source: &'static str,
    compiler: &'static [&'static str],
    libraries: &'static [&'static str],
    arguments: &'static [&'static str],
    backend: &'static str,
    /// Calls of the tool for each round whose time the program prints.
    events: f64,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "OMPT",
        source: "openmp_ends.c",
        compiler: &["clang", "-O2", "-fopenmp"],
        libraries: &[],
        arguments: &["critical", "2000"],
        backend: "ompt",
        events: 3.0,
    },
    Kind {
        name: "Kokkos",
        source: "kokkos_caller.c",
        compiler: &["cc", "-O2"],
        libraries: &["-ldl"],
        arguments: &["new", "2000"],
        backend: "kokkosp",
        events: 2.0,
    },
];

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let repetitions = if lab.quick { 5 } else { 15 };
    let mut table = Table::new(
        "Events that runtimes tell: ns for each",
        &["interface", "bare (min)", "rsys (min)", "added per event"],
    );
    for kind in &KINDS {
        eprintln!("bench: markers, {}", kind.name);
        let program = lab.scratch.join(kind.source.trim_end_matches(".c"));
        compile(
            kind,
            &lab.root.join("tests/workloads").join(kind.source),
            &program,
        )?;
        let target: Vec<String> = std::iter::once(program.display().to_string())
            .chain(kind.arguments.iter().map(|word| (*word).to_owned()))
            .collect();
        let output = lab.scratch.join("output");
        let mut times_ns = [Vec::new(), Vec::new()];
        for repetition in 0..repetitions {
            for turn in 0..2 {
                let which = (repetition + turn) % 2;
                let options: &[&str] = &["-I", kind.backend];
                let recording = Recording {
                    rate_hz: 300,
                    output: &output,
                    options: options.get(..2 * which).unwrap_or_default(),
                };
                let tool = if which == 0 { Tool::Bare } else { Tool::Rsys };
                let mut command = tool.command(&lab.places, recording, &target)?;
                let finished = process::run(&mut command, lab.terms(false))?;
                let value = finished
                    .stdout
                    .lines()
                    .find_map(|line| line.strip_prefix("ns="));
                times_ns[which].push(value.with_context(|| finished.last_words())?.parse()?);
            }
        }
        lab.empty_output()?;
        let [bare, profiled] = times_ns.each_ref().map(|times| minimum(times));
        let added = profiled
            .zip(bare)
            .map(|(profiled, bare)| (profiled - bare) / kind.events);
        table.row(vec![
            kind.name.into(),
            Cell::number(bare, 1),
            Cell::number(profiled, 1),
            Cell::number(added, 1),
        ]);
        if let Some(added) = added {
            figures.insert(format!("markers/{}/added_ns", kind.name), added);
        }
    }
    table.note(format!(
        "the best of {repetitions} runs in turns, each the best of 20 parts of 2000 rounds: a critical section of one thread (3 calls of \
         the tool), a kernel without work (2 calls)"
    ));
    Ok(vec![table])
}

fn compile(kind: &Kind, source: &Path, program: &Path) -> Result<()> {
    let [compiler, flags @ ..] = kind.compiler else {
        return Ok(());
    };
    let built = Command::new(compiler)
        .args(flags)
        .arg("-o")
        .args([program, source])
        .args(kind.libraries)
        .status()
        .with_context(|| format!("no {compiler}"))?;
    ensure!(built.success(), "{} does not compile", source.display());
    Ok(())
}
