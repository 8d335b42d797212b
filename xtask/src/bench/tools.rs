//! The profilers: how each is called, and what its recording holds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::process::Finished;

/// A way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// The program alone.
    Bare,
    /// `rsys-sample`.
    Rsys,
    /// `perf record -e cpu-clock`, no stacks: what the interrupts alone cost.
    PerfFloor,
    /// `perf record --call-graph fp`.
    PerfFp,
    /// `perf record --call-graph dwarf`.
    PerfDwarf,
    /// `perf record --call-graph fp` of `python -X perf`, which makes a frame for every Python function.
    PerfTrampoline,
    /// `samply record --save-only`.
    Samply,
    /// `py-spy record`.
    PySpy,
    /// `py-spy record --native`.
    PySpyNative,
}

/// All that can profile any program.
pub const FOR_NATIVE: [Tool; 6] = [
    Tool::Bare,
    Tool::Rsys,
    Tool::PerfFloor,
    Tool::PerfFp,
    Tool::PerfDwarf,
    Tool::Samply,
];

/// Those whose rate is measured.
pub const FOR_RATE: [Tool; 3] = [Tool::Rsys, Tool::PerfFloor, Tool::PerfFp];

/// All that can profile Python.
pub const FOR_PYTHON: [Tool; 8] = [
    Tool::Bare,
    Tool::Rsys,
    Tool::PerfFloor,
    Tool::PerfFp,
    Tool::PerfDwarf,
    Tool::Samply,
    Tool::PySpy,
    Tool::PySpyNative,
];

/// Those that show Python functions, with perf's cost alone beside them. `python -X perf` needs Python 3.12.
pub const FOR_NEW_PYTHON: [Tool; 6] = [
    Tool::Bare,
    Tool::Rsys,
    Tool::PerfFloor,
    Tool::PerfTrampoline,
    Tool::PySpy,
    Tool::PySpyNative,
];

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Places {
    /// `rsys-sample`, with the agent beside it.
    pub rsys_sample: PathBuf,
    /// `samply`, if it was found.
    pub samply: Option<PathBuf>,
    /// A file that samply is to see in place of the kernel's `perf_event_paranoid`; see `Lab::persuade_samply`.
    pub paranoid_level: Option<PathBuf>,
    /// `py-spy`, if it was found.
    pub py_spy: Option<PathBuf>,
    /// The folder for resolved symbols that rsys uses unless a measure brings its own.
    pub symbol_cache: PathBuf,
}

/// One recording to be made.
#[derive(Debug, Clone, Copy)]
pub struct Recording<'a> {
    /// Samples per second.
    pub rate_hz: u32,
    /// An empty folder for the output.
    pub output: &'a Path,
    /// Further options of the tool.
    pub options: &'a [&'a str],
}

/// What a recording holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Yield {
    /// Samples in the output.
    pub samples: f64,
    /// What they stand for: rsys gives one sample several weights where the clock ran over.
    pub weighted: f64,
    /// Size of the output.
    pub bytes: f64,
}

impl Tool {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Rsys => "rsys",
            Self::PerfFloor => "perf, no stacks",
            Self::PerfFp => "perf -g (fp)",
            Self::PerfDwarf => "perf dwarf",
            Self::PerfTrampoline => "perf -g, -X perf",
            Self::Samply => "samply",
            Self::PySpy => "py-spy",
            Self::PySpyNative => "py-spy --native",
        }
    }

    /// The command line that makes a recording of a program.
    pub fn command(
        self,
        places: &Places,
        recording: Recording<'_>,
        target: &[String],
    ) -> Result<Command> {
        let rate = recording.rate_hz.to_string();
        let mut command = match self {
            Self::Bare => {
                let (program, arguments) = target.split_first().context("no program to run")?;
                let mut command = Command::new(program);
                command.args(arguments);
                return Ok(command);
            }
            Self::Rsys => {
                let mut command = Command::new(&places.rsys_sample);
                command.args(["-c", "none", "-f", &rate, "-o"]);
                command.arg(recording.output);
                command.arg("--symbol-cache").arg(&places.symbol_cache);
                command
            }
            Self::PerfFloor | Self::PerfFp | Self::PerfDwarf | Self::PerfTrampoline => {
                let mut command = Command::new("perf");
                command.args(["record", "-e", "cpu-clock", "-F", &rate]);
                match self {
                    Self::PerfFp | Self::PerfTrampoline => {
                        command.args(["--call-graph", "fp"]);
                    }
                    Self::PerfDwarf => drop(command.args(["--call-graph", "dwarf"])),
                    _ => {}
                }
                command.arg("-o").arg(recording.output.join("perf.data"));
                command
            }
            Self::Samply => {
                let samply = places.samply.as_ref().context("samply was not found")?;
                let mut command = match &places.paranoid_level {
                    None => Command::new(samply),
                    Some(level) => with_paranoid_level(level, samply),
                };
                command.args(["record", "--save-only", "--rate", &rate, "-o"]);
                command.arg(recording.output.join("profile.json.gz"));
                command
            }
            Self::PySpy | Self::PySpyNative => {
                let mut command =
                    Command::new(places.py_spy.as_ref().context("py-spy was not found")?);
                command.args(["record", "--rate", &rate, "--format", "speedscope", "-o"]);
                command.arg(recording.output.join("profile.json"));
                if self == Self::PySpyNative {
                    command.arg("--native");
                }
                command
            }
        };
        command.args(recording.options).arg("--");
        match target.split_first() {
            Some((python, arguments)) if self == Self::PerfTrampoline => {
                command.arg(python).args(["-X", "perf"]).args(arguments);
            }
            _ => drop(command.args(target)),
        }
        Ok(command)
    }

    /// What the recording holds, from what the tool said and from its files.
    pub fn harvest(self, recording: Recording<'_>, finished: &Finished) -> Result<Yield> {
        let bytes = size_of(recording.output)?;
        let (samples, weighted) = match self {
            Self::Bare => return Ok(Yield::default()),
            Self::Rsys => rsys_samples(&finished.stderr),
            Self::PerfFloor | Self::PerfFp | Self::PerfDwarf | Self::PerfTrampoline => {
                twice(number_before(&finished.stderr, " samples)"))
            }
            Self::Samply => twice(samply_samples(&recording.output.join("profile.json.gz"))?),
            Self::PySpy | Self::PySpyNative => {
                let said = format!("{}\n{}", finished.stdout, finished.stderr);
                twice(number_after(&said, "Samples: "))
            }
        };
        Ok(Yield {
            samples,
            weighted,
            bytes,
        })
    }
}

/// A command that runs a program which sees another `perf_event_paranoid`; nobody else does.
fn with_paranoid_level(level: &Path, program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind \"$0\" /proc/sys/kernel/perf_event_paranoid && exec \"$@\"")
        .arg(level)
        .arg(program);
    command
}

fn twice(value: f64) -> (f64, f64) {
    (value, value)
}

/// Sums `N samples (M weighted)` over the lines of all processes.
fn rsys_samples(stderr: &str) -> (f64, f64) {
    stderr
        .lines()
        .filter(|line| line.contains(" weighted), "))
        .fold((0.0, 0.0), |(samples, weighted), line| {
            (
                // A process with one sample is `1 sample`.
                samples + number_before(line, " sample"),
                weighted + number_before(line, " weighted), "),
            )
        })
}

fn number_before(text: &str, mark: &str) -> f64 {
    let Some((before, _)) = text.split_once(mark) else {
        return 0.0;
    };
    let start = before
        .rfind(|character: char| !character.is_ascii_digit())
        .map_or(0, |at| at + 1);
    before[start..].parse().unwrap_or(0.0)
}

fn number_after(text: &str, mark: &str) -> f64 {
    let Some((_, after)) = text.split_once(mark) else {
        return 0.0;
    };
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0.0)
}

/// Counts the samples of all threads of a profile in the Firefox profiler's format.
fn samply_samples(path: &Path) -> Result<f64> {
    let output = Command::new("gzip")
        .arg("-dc")
        .arg(path)
        .output()
        .context("cannot run gzip")?;
    let profile: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} is not a profile", path.display()))?;
    let threads = profile["threads"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(threads
        .iter()
        .filter_map(|thread| thread["samples"]["length"].as_f64())
        .sum())
}

/// Bytes in all files of a folder and below.
pub fn size_of(folder: &Path) -> Result<f64> {
    let mut bytes = 0.0;
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            size_of(&entry.path())?
        } else {
            metadata.len() as f64
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_processes_are_summed() {
        let said = "rsys: /o/a.proto: 10 samples (12 weighted), 1 thread, 0 dropped, pid 1 (a)\n\
                    rsys: /o/b.proto: 1 sample (5 weighted), 1 thread, 0 dropped, pid 2 (b)\n";
        assert_eq!(rsys_samples(said), (11.0, 17.0));
    }

    #[test]
    fn counts_of_the_peers() {
        let perf = "[ perf record: Captured and wrote 0.06 MB perf.data (1083 samples) ]";
        assert_eq!(number_before(perf, " samples)"), 1083.0);
        assert_eq!(
            number_after("py-spy> Samples: 97 Errors: 0", "Samples: "),
            97.0
        );
        assert_eq!(number_after("nothing", "Samples: "), 0.0);
    }
}
