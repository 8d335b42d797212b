//! What all measures share: the tools that work here, the programs to profile, and how one run is made.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::install;
use super::process::{self, Finished, Terms};
use super::report::TargetReport;
use super::tools::{Places, Recording, Tool, Yield};

/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(120);

/// A program to profile.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in tables.
    pub name: String,
    /// Its command line.
    pub command: Vec<String>,
}

/// One profiled run.
#[derive(Debug)]
pub struct Run {
    /// What the command left behind.
    pub finished: Finished,
    /// What the program said about itself.
    pub report: TargetReport,
    /// What the recording holds.
    pub harvest: Yield,
}

/// How a run is to be made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// Samples per second.
    pub rate_hz: u32,
    /// Further options of the tool.
    pub options: &'a [&'a str],
    /// Another folder for resolved symbols.
    pub symbol_cache: Option<&'a Path>,
    /// Whether to follow the memory of the tool.
    pub watch_memory: bool,
}

/// The tools, the programs and a folder to work in.
#[derive(Debug)]
pub struct Lab {
    /// Few repetitions, short programs.
    pub quick: bool,
    /// Where the tools are.
    pub places: Places,
    /// The tools that made a recording when they were tried.
    pub working: Vec<Tool>,
    /// The others, and why.
    pub missing: Vec<(Tool, String)>,
    /// A folder that goes away at the end.
    pub scratch: PathBuf,
    /// The root of the repository.
    pub root: PathBuf,
}

impl Lab {
    /// Compiles the programs, finds the tools that are wanted and tries each of them.
    pub fn open(
        root: &Path,
        product: &Path,
        quick: bool,
        wanted: &BTreeSet<Tool>,
        may_install: bool,
    ) -> Result<Self> {
        let rsys_sample = product.join("rsys-sample");
        if !rsys_sample.is_file() {
            bail!("{} is not there", rsys_sample.display());
        }
        // Some measures run it from other folders.
        let rsys_sample = fs::canonicalize(rsys_sample)?;
        let scratch = root
            .join("target/tmp")
            .join(format!("bench-{}", std::process::id()));
        let output = scratch.join("output");
        fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
        let mut lab = Self {
            quick,
            places: Places {
                rsys_sample,
                samply: None,
                paranoid_level: None,
                py_spy: None,
                symbol_cache: scratch.join("symbols"),
            },
            working: vec![Tool::Bare],
            missing: Vec::new(),
            scratch,
            root: root.to_owned(),
        };
        lab.compile("chain")?;
        lab.compile("births")?;
        lab.compile("reckon")?;
        lab.find_tools(wanted, may_install);
        Ok(lab)
    }

    fn compile(&self, name: &str) -> Result<()> {
        let source = self.source(&format!("{name}.c"));
        // Frame pointers make it fair: without them, `perf -g` would see one frame.
        let mut command = Command::new("cc");
        command
            .args(["-O2", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"])
            .arg(self.scratch.join(name))
            .arg(source);
        let finished = process::run(&mut command, self.terms(false))?;
        if !finished.status.success() {
            bail!("{name}.c: {}", finished.last_words());
        }
        Ok(())
    }

    fn source(&self, name: &str) -> PathBuf {
        self.root.join("xtask/workloads").join(name)
    }

    fn find_tools(&mut self, wanted: &BTreeSet<Tool>, may_install: bool) {
        let tools = self.root.join("target/bench-tools");
        let none = || anyhow::anyhow!("not installed");
        let found =
            |for_any: &[Tool], installed: &dyn Fn() -> Result<PathBuf>, usual: Option<PathBuf>| {
                let is_wanted = for_any.iter().any(|tool| wanted.contains(tool));
                if may_install && is_wanted {
                    installed()
                } else {
                    usual.ok_or_else(none)
                }
            };
        let existing = |own: &str, name: &str| {
            let own = tools.join(own);
            own.is_file()
                .then_some(own)
                .or_else(|| install::in_path(name))
        };
        let perf = found(
            &[
                Tool::PerfFloor,
                Tool::PerfFp,
                Tool::PerfDwarf,
                Tool::PerfTrampoline,
            ],
            &|| install::perf(&self.scratch),
            install::in_path("perf"),
        );
        let samply = found(
            &[Tool::Samply],
            &|| install::samply(&tools, &self.scratch),
            existing("bin/samply", "samply"),
        );
        let py_spy = found(
            &[Tool::PySpy, Tool::PySpyNative],
            &|| install::py_spy(&tools, &self.scratch),
            existing("venv/bin/py-spy", "py-spy"),
        );
        self.places.samply = samply.as_ref().ok().cloned();
        self.places.py_spy = py_spy.as_ref().ok().cloned();
        for &tool in wanted.iter().filter(|tool| **tool != Tool::Bare) {
            let place = match tool {
                Tool::Bare | Tool::Rsys => None,
                Tool::PerfFloor | Tool::PerfFp | Tool::PerfDwarf | Tool::PerfTrampoline => {
                    perf.as_ref().err()
                }
                Tool::Samply => samply.as_ref().err(),
                Tool::PySpy | Tool::PySpyNative => py_spy.as_ref().err(),
            };
            let reason = match place {
                Some(error) => Some(format!("{error:#}")),
                None => {
                    let outcome = match self.try_out(tool) {
                        Err(error) if tool == Tool::Samply => self.persuade_samply(error),
                        outcome => outcome,
                    };
                    outcome.err().map(|error| format!("{error:#}"))
                }
            };
            match reason {
                None => self.working.push(tool),
                Some(reason) => {
                    eprintln!("bench: {}: not measured: {reason}", tool.name());
                    self.missing.push((tool, reason));
                }
            }
        }
    }

    /// samply 0.13 takes a processor without a cycle counter (a virtual machine's) for a missing permission, and gives up before it
    /// tries `cpu-clock` if `perf_event_paranoid` is above 1, even for root. Root can show it a lower level.
    fn persuade_samply(&mut self, refusal: anyhow::Error) -> Result<()> {
        let level = self.scratch.join("perf_event_paranoid");
        fs::write(&level, "1\n").context("cannot write a file for samply")?;
        self.places.paranoid_level = Some(level);
        self.try_out(Tool::Samply).map_err(|_| refusal)
    }

    fn try_out(&self, tool: Tool) -> Result<()> {
        let program = match tool {
            Tool::PySpy | Tool::PySpyNative => self.python("python_work.py", "try", &["400"])?,
            Tool::PerfTrampoline => self.new_python(&["400"])?,
            _ => self.chain(30, 1, 3e6),
        };
        let wish = Wish {
            rate_hz: 100,
            ..Wish::default()
        };
        let run = self.run(tool, &program, wish)?;
        if run.harvest.samples == 0.0 {
            bail!("it recorded no samples: {}", run.finished.last_words());
        }
        Ok(())
    }

    /// The C program: `units` of work at a depth of calls, shared by threads.
    pub fn chain(&self, depth: u32, threads: u32, units: f64) -> Program {
        let name = match threads {
            1 => format!("C, depth {depth}"),
            _ => format!("C, depth {depth}, {threads} threads"),
        };
        let program = self.scratch.join("chain").to_string_lossy().into_owned();
        let mut command = vec![program];
        for (option, value) in [
            ("--depth", f64::from(depth)),
            ("--threads", f64::from(threads)),
            ("--units", units.round()),
        ] {
            command.extend([option.to_owned(), value.to_string()]);
        }
        Program { name, command }
    }

    /// The C program that creates threads and processes.
    pub fn births(&self, threads: u32, forks: u32, spawns: u32) -> Program {
        let program = self.scratch.join("births").to_string_lossy().into_owned();
        let mut command = vec![program];
        for (option, value) in [
            ("--threads", threads),
            ("--forks", forks),
            ("--spawns", spawns),
        ] {
            command.extend([option.to_owned(), value.to_string()]);
        }
        Program {
            name: "births".to_owned(),
            command,
        }
    }

    /// A Python program, perhaps with a number of units.
    pub fn python(&self, script: &str, name: &str, units: &[&str]) -> Result<Program> {
        let python = install::python().context("python3 is not there")?;
        let mut command = vec![
            python.to_string_lossy().into_owned(),
            self.source(script).to_string_lossy().into_owned(),
        ];
        for units in units {
            command.extend(["--units".to_owned(), (*units).to_owned()]);
        }
        Ok(Program {
            name: name.to_owned(),
            command,
        })
    }

    /// The Python program without numpy, run by the newest interpreter that has `-X perf`.
    pub fn new_python(&self, units: &[&str]) -> Result<Program> {
        let python = install::new_python().context("there is no Python 3.12 or newer")?;
        let mut program = self.python("python_work.py", "Python 3.12+, pure", units)?;
        program.command[0] = python.to_string_lossy().into_owned();
        program.command.push("--pure".to_owned());
        Ok(program)
    }

    /// How many units the program needs for some seconds of work on this machine: `program(units)` is run alone.
    pub fn calibrate(
        &self,
        seconds: f64,
        trial_units: f64,
        program: impl Fn(f64) -> Result<Program>,
    ) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let run = self.run(Tool::Bare, &program(trial_units)?, Wish::default())?;
            best = best.min(run.report.get("cpu")?);
        }
        Ok((trial_units * seconds / best).ceil())
    }

    /// Runs a program once under a tool. What it wrote stays in the scratch folder's `output` until the next run.
    pub fn run(&self, tool: Tool, program: &Program, wish: Wish<'_>) -> Result<Run> {
        self.empty_output()?;
        let output = self.scratch.join("output");
        let recording = Recording {
            rate_hz: wish.rate_hz,
            output: &output,
            options: wish.options,
        };
        let mut places = self.places.clone();
        if let Some(cache) = wish.symbol_cache {
            places.symbol_cache = cache.to_owned();
        }
        let outcome = || -> Result<Run> {
            let mut command = tool.command(&places, recording, &program.command)?;
            quiet_environment(&mut command);
            let finished = process::run(&mut command, self.terms(wish.watch_memory))?;
            if !finished.status.success() {
                bail!("{}: {}", finished.status, finished.last_words());
            }
            Ok(Run {
                report: TargetReport::parse(&finished.stdout)?,
                harvest: tool.harvest(recording, &finished)?,
                finished,
            })
        };
        outcome().with_context(|| format!("{} under {}", program.name, tool.name()))
    }

    /// Runs a program `repetitions` times under each tool, round-robin, each time with another tool first. A tool that fails in one
    /// round has fewer runs; the round is reported.
    pub fn rounds(
        &self,
        tools: &[Tool],
        program: &Program,
        wish: Wish<'_>,
        repetitions: usize,
    ) -> Vec<(Tool, Vec<Run>)> {
        let mut runs: Vec<(Tool, Vec<Run>)> = self
            .choose(tools)
            .into_iter()
            .map(|tool| (tool, Vec::new()))
            .collect();
        let count = runs.len();
        for repetition in 0..repetitions {
            for turn in 0..count {
                let (tool, runs) = &mut runs[(repetition + turn) % count];
                match self.run(*tool, program, wish) {
                    Ok(run) => runs.push(run),
                    Err(error) => eprintln!("bench: {error:#}"),
                }
            }
        }
        runs
    }

    /// Those of the tools that work here.
    pub fn choose(&self, tools: &[Tool]) -> Vec<Tool> {
        tools
            .iter()
            .copied()
            .filter(|tool| self.working.contains(tool))
            .collect()
    }

    /// Removes what the last run wrote.
    pub fn empty_output(&self) -> Result<()> {
        let output = self.scratch.join("output");
        fs::remove_dir_all(&output)
            .and_then(|()| fs::create_dir_all(&output))
            .with_context(|| format!("cannot empty {}", output.display()))
    }

    /// How commands are run.
    pub fn terms(&self, watch_memory: bool) -> Terms<'_> {
        Terms {
            scratch: &self.scratch,
            limit: LIMIT,
            watch_memory,
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.scratch) {
            eprintln!("bench: cannot remove {}: {error}", self.scratch.display());
        }
    }
}

/// Libraries that start threads of their own, and hashes that differ from run to run, would make the work vary; settings of the user
/// would change ours.
pub fn quiet_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let own = ["RSYS_", "ROCPROFSYS_", "OMNITRACE_"];
        if own
            .iter()
            .any(|start| name.to_string_lossy().starts_with(start))
        {
            command.env_remove(name);
        }
    }
    command
        // Lines whose numbers are read here.
        .env("ROCPROFSYS_SUMMARY", "lines")
        .env("OMP_NUM_THREADS", "1")
        .env("OPENBLAS_NUM_THREADS", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONHASHSEED", "0");
}
