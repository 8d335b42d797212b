//! `cargo xtask demo`: a first trace, worth looking at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::steps::{build_release, has_program, step, target_dir, workspace_dir};

/// What the demo is made from, the compilers that can, and what there is to see.
struct Program {
    source: &'static str,
    compilers: &'static [&'static str],
    look: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        source: "imagery.cpp",
        compilers: &["g++", "clang++"],
        look: "Look at the threads `render`, `blur` and `edges`: each shows what it was doing over time, and every third batch\n\
               of frames takes `blur` longer.",
    },
    Program {
        source: "callchain.c",
        compilers: &["cc", "gcc", "clang"],
        look: "Without a C++ compiler this is the smaller demo: a chain of calls that is hard to follow, with callbacks out of\n\
               the C library and jumps across frames. `leaf_work` is at its end. (`apt-get install g++` brings the larger one.)",
    },
];

/// Builds, profiles, and says what to do with the result.
pub fn run() -> Result<()> {
    build_release()?;
    let (program, look) = compile()?;
    let output = target_dir().join("demo/traces");
    let mut command = Command::new(target_dir().join("release/rsys-sample"));
    step(
        command
            .arg("-f")
            .arg("1000")
            .arg("-o")
            .arg(&output)
            .arg("--")
            .arg(program),
    )?;
    let trace =
        newest_trace(&output).with_context(|| format!("no trace below {}", output.display()))?;
    println!(
        "\nThe trace is at\n\n    {}\n\n\
         Open https://ui.perfetto.dev in a browser and drop the file on the page. The file stays on your machine:\n\
         the page reads it in the browser and sends it nowhere.\n\n\
         {look}\n\n\
         Then drag over any stretch of the samples to see its flame graph below.",
        trace.display()
    );
    Ok(())
}

/// The program, and what to look at in its trace.
fn compile() -> Result<(PathBuf, &'static str)> {
    let mut candidates = PROGRAMS.iter().flat_map(|program| {
        let compilers = program.compilers.iter();
        compilers.map(move |compiler| (*compiler, program))
    });
    let found = candidates.find(|(compiler, _)| has_program(compiler));
    let (compiler, Program { source, look, .. }) =
        found.context("no C or C++ compiler is installed: try `apt-get install g++`")?;
    let workloads = workspace_dir().join("tests/workloads");
    let name = Path::new(source).file_stem().unwrap_or_default();
    let program = target_dir().join("demo").join(name);
    fs::create_dir_all(target_dir().join("demo"))?;
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-g", "-pthread", "-I"])
        .arg(&workloads)
        .arg(workloads.join(source))
        .arg("-o")
        .arg(&program);
    step(&mut command)?;
    Ok((program, look))
}

fn newest_trace(folder: &Path) -> Option<PathBuf> {
    let runs = fs::read_dir(folder).ok()?.flatten().map(|run| run.path());
    let files = runs
        .filter_map(|run| fs::read_dir(run).ok())
        .flat_map(|files| files.flatten().map(|file| file.path()));
    let traces = files.filter(|file| file.extension().is_some_and(|ending| ending == "proto"));
    traces.max_by_key(|file| {
        fs::metadata(file)
            .and_then(|about| about.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    })
}
