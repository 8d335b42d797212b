//! `cargo xtask demo`: a first trace, worth looking at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::gpu_program::{self, Hip, Hsa};
use crate::steps::{
    PROFILER, build_packages, find_program, say, step, succeeds, target_dir, workspace_dir,
};

/// What the demo is made from, the compilers that can, and what there is to see.
struct Program {
    source: &'static str,
    compilers: &'static [&'static str],
    /// Arguments with which it ends at once.
    trial: &'static [&'static str],
    look: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        source: "imagery.cpp",
        compilers: &["g++", "clang++"],
        trial: &["1"],
        look: "Look at the threads `render`, `blur` and `edges`: each shows what it was doing over time, and every third batch\n\
               of frames takes `blur` longer.",
    },
    Program {
        source: "callchain.c",
        compilers: &["cc", "gcc", "clang"],
        trial: &["--seconds", "0"],
        look: "Without a C++ compiler this is the smaller demo: a chain of calls that is hard to follow, with callbacks out of\n\
               the C library and jumps across frames. `leaf_work` is at its end. (`apt-get install g++` brings the larger one.)",
    },
];

/// Builds, says what there will be to see, and profiles: the last that is said is what a run ends with.
pub fn run() -> Result<()> {
    say(
        "three steps: compile a small program, build the profiler, profile the program for a few seconds",
    );
    let folder = target_dir().join("demo");
    let (program, look) = compile(&folder, find_program)?;
    let hip = Hip::for_gpus();
    let for_gpus = hip.as_ref().and_then(|hip| or_say(hip.compile(&folder)));
    // What the network brings comes while the compiler works.
    let (built, simulated) = thread::scope(|scope| {
        let fetching = for_gpus
            .is_none()
            .then(|| scope.spawn(|| or_say(simulated(&folder))));
        let simulation = fetching.as_ref().map(|_| gpu_program::PACKAGE);
        let packages: Vec<&str> = PROFILER.iter().copied().chain(simulation).collect();
        let built = build_packages("rsys-sample and its agent", &packages);
        let simulated = fetching.and_then(|fetching| fetching.join().ok()?);
        (built, simulated)
    });
    built?;
    let simulated = simulated.filter(|(hsa, train)| or_say(hsa.try_out(train)).is_some());
    let traces = folder.join("traces");
    let (look, mut command) = match (&for_gpus, &simulated) {
        (Some(program), _) => (GPUS_LOOK, program.profiled_for_real(&traces)),
        (None, Some((hsa, train))) => (SIMULATED_LOOK, hsa.profiled(train, &traces)),
        (None, None) => (look, on_processor(&program, &traces)),
    };
    println!(
        "\nA run ends with a table: where its trace is, where the time went, and what to type next. rsys-report, which the last lines\n\
         name, is `cargo run --release -p rsys-report --` here; without it, open https://ui.perfetto.dev and drop the trace on the page.\n\
         The file stays on your machine: the page reads it in the browser and sends it nowhere.\n\n\
         {look}\n\n\
         Then drag over any stretch of the samples to see its flame graph below.\n"
    );
    profile(&mut command)
}

fn on_processor(program: &Path, traces: &Path) -> Command {
    let mut command = Command::new(target_dir().join("release/rsys-sample"));
    command
        .args(["-f", "1000", "-o"])
        .arg(traces)
        .arg("--")
        .arg(program);
    command
}

/// What there is to see of a program on GPUs.
const GPUS_LOOK: &str = "Look at the GPUs above the process: they are idle for reasons of the program's, which the table and `rsys-report gaps` name.";
const SIMULATED_LOOK: &str = "The two GPUs are SIMULATED, for there is none here: the HSA runtime is the real one, but kernels do nothing and take the time that they\n\
     are told to. Look at them above the process `train`: they wait while the threads `worker 0` and `worker 1` decode images, and now and then\n\
     for a checkpoint, which the table and `rsys-report gaps` name by line.";

/// The program on simulated GPUs, which are still to be built.
fn simulated(folder: &Path) -> Result<(Hsa, PathBuf)> {
    let compilers = ["cc", "gcc", "clang"];
    let compiler = compilers.iter().find_map(|name| find_program(name));
    let compiler = compiler.context("no C compiler is installed")?;
    let hsa = Hsa::find_or_fetch()?;
    let program = hsa.compile(&compiler, folder)?;
    Ok((hsa, program))
}

/// Says why there is no part on GPUs, where there is none.
fn or_say<T>(part: Result<T>) -> Option<T> {
    match part {
        Ok(part) => Some(part),
        Err(error) => {
            say(&format!("no part on GPUs: {error:#}"));
            None
        }
    }
}

/// Runs a program under the profiler, which says at the end what there is to see.
fn profile(command: &mut Command) -> Result<()> {
    step(command.env_remove("RSYS_SUMMARY"))
}

/// The program, by the first compiler that works, and what to look at in its trace.
fn compile(
    folder: &Path,
    find: impl Fn(&str) -> Option<PathBuf>,
) -> Result<(PathBuf, &'static str)> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut broken = Vec::new();
    for program in PROGRAMS {
        for name in program.compilers {
            let Some(compiler) = find(name) else {
                continue;
            };
            match program.compile(&compiler, folder) {
                Ok(file) => return Ok((file, program.look)),
                Err(error) => {
                    say(&format!("{name} does not work: {error:#}"));
                    broken.push(*name);
                }
            }
        }
    }
    if broken.is_empty() {
        bail!("no C or C++ compiler is installed: try `apt-get install g++`");
    }
    bail!(
        "of the compilers that are installed none works ({}): try `apt-get install --reinstall g++`",
        broken.join(", ")
    )
}

impl Program {
    /// Compiles it and sees whether it runs: a compiler may lack its libraries, or make programs for another machine.
    fn compile(&self, compiler: &Path, folder: &Path) -> Result<PathBuf> {
        let workloads = workspace_dir().join("tests/workloads");
        let program = folder.join(Path::new(self.source).file_stem().unwrap_or_default());
        if program.exists() {
            fs::remove_file(&program)?;
        }
        step(
            Command::new(compiler)
                .args(["-O2", "-g", "-pthread", "-I"])
                .arg(&workloads)
                .arg(workloads.join(self.source))
                .arg("-o")
                .arg(&program),
        )?;
        ensure!(
            succeeds(&program, self.trial),
            "what it makes of {} does not run",
            self.source
        );
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with compilers that do not work, each in a way of its own.
    fn broken_compilers(folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        for (name, text, mode) in [
            (
                "fails",
                "#!/bin/sh\necho 'cannot execute cc1plus' >&2\nexit 1\n",
                0o755,
            ),
            ("silent", "#!/bin/sh\n", 0o755),
            (
                "foreign",
                "#!/bin/sh\nfor last; do :; done\necho rubbish >\"$last\"; chmod +x \"$last\"\n",
                0o755,
            ),
            ("locked", "", 0o644),
        ] {
            let file = folder.join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    #[test]
    fn a_broken_compiler_is_passed_over() -> Result<()> {
        let folder = target_dir().join("tmp/demo-compilers");
        broken_compilers(&folder)?;
        for broken in ["fails", "silent", "foreign", "locked"] {
            // The next one is a C compiler, so the program is the smaller one.
            let (program, _) = compile(&folder, |name| match name {
                "g++" | "clang++" | "cc" => Some(folder.join(broken)),
                name => find_program(name),
            })?;
            ensure!(program.ends_with("callchain"), "{}", program.display());
            ensure!(succeeds(&program, &["--seconds", "0"]), "{broken}");
            let all =
                compile(&folder, |_| Some(folder.join(broken))).map_err(|error| error.to_string());
            ensure!(
                all.is_err_and(|text| text.contains("none works")),
                "{broken}"
            );
        }
        fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
