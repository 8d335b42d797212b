//! What an event costs of which a runtime calls its tool, a call of MPI, a step of RCCL's proxies, and an operator of PyTorch: nanoseconds per call of the tool,
//! beside the program alone.

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
    /// What makes a program of it, or for a script the interpreter, and what shows that it can run it.
    compiler: &'static [&'static str],
    libraries: &'static [&'static str],
    arguments: &'static [&'static str],
    options: &'static [&'static str],
    /// Calls of the tool, or of the library, for each round whose time the program prints.
    events: f64,
}

const KINDS: [Kind; 8] = [
    Kind {
        name: "OMPT",
        source: "openmp_ends.c",
        compiler: &["clang", "-O2", "-fopenmp"],
        libraries: &[],
        arguments: &["critical", "2000"],
        options: &["-I", "ompt"],
        events: 3.0,
    },
    Kind {
        name: "Kokkos",
        source: "kokkos_caller.c",
        compiler: &["cc", "-O2"],
        libraries: &["-ldl"],
        arguments: &["new", "2000"],
        options: &["-I", "kokkosp"],
        events: 2.0,
    },
    Kind {
        name: "MPI (OpenMPI)",
        source: "mpi_ends.c",
        compiler: &["mpicc.openmpi", "-O2"],
        libraries: &[],
        arguments: &["2000"],
        options: &["-I", "mpip"],
        events: 2.0,
    },
    Kind {
        name: "MPI (MPICH)",
        source: "mpi_ends.c",
        compiler: &["mpicc.mpich", "-O2"],
        libraries: &[],
        arguments: &["2000"],
        options: &["-I", "mpip"],
        events: 2.0,
    },
    Kind {
        name: "UCX",
        source: "ucx_calls.c",
        compiler: &["cc", "-O2"],
        libraries: &["-lucp", "-lucs"],
        arguments: &["2000"],
        options: &["-I", "ucx"],
        events: 2.0,
    },
    // Five calls of the plug-in, of which one event is made.
    Kind {
        name: "RCCL proxy step",
        source: "gpu/rccl_standin.c",
        compiler: &["cc", "-O2", "-DMEASURE"],
        libraries: &["-ldl", "-lpthread"],
        arguments: &["500"],
        options: &["-I", "rccl-proxy"],
        events: 1.0,
    },
    Kind {
        name: "PyTorch operator",
        source: "torch_ends.py",
        compiler: SYSTEM_PYTHON,
        libraries: &[],
        arguments: &["2000"],
        options: &["-I", "torch"],
        events: 1.0,
    },
    Kind {
        name: "PyTorch operator, shapes",
        source: "torch_ends.py",
        compiler: SYSTEM_PYTHON,
        libraries: &[],
        arguments: &["2000"],
        options: &["-I", "torch", "--torch-shapes"],
        events: 1.0,
    },
];

/// The Python whose PyTorch comes from the distribution, as the tests use it.
const SYSTEM_PYTHON: &[&str] = &["/usr/bin/python3", "-c", "import torch"];

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let repetitions = if lab.quick { 5 } else { 15 };
    let mut table = Table::new(
        "Events that runtimes tell, and calls of MPI: ns for each",
        &["interface", "bare (min)", "rsys (min)", "added per event"],
    );
    for kind in &KINDS {
        eprintln!("bench: markers, {}", kind.name);
        let source = lab.root.join("tests/workloads").join(kind.source);
        let Some(mut target) = kind.prepare(&source, &lab.scratch)? else {
            table.note(format!(
                "{}: no {} here",
                kind.name,
                kind.compiler.join(" ")
            ));
            continue;
        };
        target.extend(kind.arguments.iter().map(|word| (*word).to_owned()));
        let output = lab.scratch.join("output");
        let mut times_ns = [Vec::new(), Vec::new()];
        for repetition in 0..repetitions {
            for turn in 0..2 {
                let which = (repetition + turn) % 2;
                let recording = Recording {
                    rate_hz: 300,
                    output: &output,
                    options: if which == 0 { &[] } else { kind.options },
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
         the tool), a kernel without work (2 calls), a send to and a receive from nobody (2 calls), a put and a fence (2 calls); of RCCL, parts of 500 steps; of PyTorch, `neg_` of eight numbers"
    ));
    Ok(vec![table])
}

impl Kind {
    /// The words that run it; none where this machine lacks what it needs.
    fn prepare(&self, source: &Path, scratch: &Path) -> Result<Option<Vec<String>>> {
        let [compiler, flags @ ..] = self.compiler else {
            return Ok(None);
        };
        let works = |flags: &[&str]| {
            let output = Command::new(compiler).args(flags).output();
            output.is_ok_and(|output| output.status.success())
        };
        if source.extension().is_some_and(|ending| ending == "py") {
            let words = vec![(*compiler).to_owned(), source.display().to_string()];
            return Ok(works(flags).then_some(words));
        }
        if !works(&["--version"]) {
            return Ok(None);
        }
        let program = scratch.join(source.file_stem().unwrap_or_default());
        let built = Command::new(compiler)
            .args(flags)
            .arg("-o")
            .args([&program, source])
            .args(self.libraries)
            .status()
            .with_context(|| format!("no {compiler}"))?;
        ensure!(built.success(), "{} does not compile", source.display());
        Ok(Some(vec![program.display().to_string()]))
    }
}
