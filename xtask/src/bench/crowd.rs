//! What many short processes cost, in the CPU time of all: of the programs, the launcher and the profiler.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::install;
use super::lab::{Lab, Program, quiet_environment};
use super::numbers::{median, minimum};
use super::process;
use super::table::{Cell, Figures, Table};
use super::tools::{Recording, Tool};

/// Those that a build is measured with.
pub const TOOLS: [Tool; 4] = [Tool::Bare, Tool::Rsys, Tool::PerfFp, Tool::Samply];

/// The rate of all recordings: the default of rsys.
const RATE_HZ: u32 = 300;

/// Files of the build. Each takes the compiler's driver, the compiler and the assembler.
const FILES: [u32; 2] = [40, 300];

/// A way to run the programs: a tool of the others, or one that traces each process and records no samples.
#[derive(Debug, Clone, Copy)]
enum Way {
    Tool(Tool),
    Strace,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Tool(tool) => tool.name(),
            Self::Strace => "strace -f",
        }
    }

    fn command(self, lab: &Lab, output: &Path, target: &[String]) -> Result<Command> {
        let recording = Recording {
            rate_hz: RATE_HZ,
            output,
            options: &[],
        };
        match self {
            Self::Tool(tool) => tool.command(&lab.places, recording, target),
            Self::Strace => {
                let mut command = Command::new("strace");
                command.args(["-f", "-o"]).arg(output.join("strace"));
                command.arg("--").args(target);
                Ok(command)
            }
        }
    }
}

/// What one way cost, a value for each repetition.
#[derive(Debug)]
struct Cost {
    way: Way,
    cpu_ms: Vec<f64>,
    wall_ms: Vec<f64>,
}

/// 300 runs of `/bin/true` in a row, and one alone.
pub fn short(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (processes, repetitions) = if lab.quick { (300, 5) } else { (300, 15) };
    let many = lab.births(0, 0, processes);
    let alone = Program {
        name: "true".to_owned(),
        command: vec!["/bin/true".to_owned()],
    };
    let ways = || {
        let mut ways: Vec<Way> = lab.choose(&TOOLS).into_iter().map(Way::Tool).collect();
        if install::in_path("strace").is_some() {
            ways.push(Way::Strace);
        }
        ways
    };
    eprintln!("bench: short processes");
    let of_many = costs(lab, &ways(), &many, repetitions)?;
    let of_one = costs(lab, &ways(), &alone, 2 * repetitions)?;
    Ok(vec![
        table(
            &format!("Short processes: {processes} x /bin/true in a row, for each"),
            "short",
            &of_many,
            f64::from(processes),
            figures,
        ),
        table(
            "One short process: /bin/true alone",
            "alone",
            &of_one,
            1.0,
            figures,
        ),
    ])
}

/// A build of many small files by two jobs.
pub fn make(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let files = FILES[usize::from(!lab.quick)];
    let folder = lab.scratch.join("build");
    let program = build_of(&folder, files)?;
    eprintln!("bench: a build");
    let ways: Vec<Way> = lab.choose(&TOOLS).into_iter().map(Way::Tool).collect();
    let found = costs(lab, &ways, &program, if lab.quick { 3 } else { 7 })?;
    let mut table = table(
        &format!(
            "A build: make -j2 of {files} small C files, {} processes",
            1 + 3 * files
        ),
        "make",
        &found,
        1.0,
        figures,
    );
    table.note("-B: everything is built anew, by cc -c");
    Ok(vec![table])
}

/// Writes the files of a build, and says how it is run.
fn build_of(folder: &Path, files: u32) -> Result<Program> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut makefile = String::from("all:");
    for file in 0..files {
        makefile.push_str(&format!(" f{file}.o"));
        let text = format!(
            "#include <stdio.h>\nint f{file}(int n) {{ return printf(\"%d\", n + {file}); }}\n"
        );
        let path = folder.join(format!("f{file}.c"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    makefile.push_str("\n%.o: %.c\n\t@cc -O1 -c $< -o $@\n");
    let path = folder.join("Makefile");
    fs::write(&path, makefile).with_context(|| format!("cannot write {}", path.display()))?;
    let folder = folder.to_string_lossy().into_owned();
    Ok(Program {
        name: "make".to_owned(),
        command: ["make", "-B", "-s", "-j2", "-C", &folder]
            .map(str::to_owned)
            .to_vec(),
    })
}

/// Runs a program in all ways by turns.
fn costs(lab: &Lab, ways: &[Way], program: &Program, repetitions: usize) -> Result<Vec<Cost>> {
    let cost = |&way| Cost {
        way,
        cpu_ms: Vec::new(),
        wall_ms: Vec::new(),
    };
    let mut costs: Vec<Cost> = ways.iter().map(cost).collect();
    for repetition in 0..repetitions {
        for turn in 0..costs.len() {
            let which = (repetition + turn) % costs.len();
            let cost = &mut costs[which];
            let (cpu_ms, wall_ms) = once(lab, cost.way, program)
                .with_context(|| format!("{} under {}", program.name, cost.way.name()))?;
            cost.cpu_ms.push(cpu_ms);
            cost.wall_ms.push(wall_ms);
        }
    }
    Ok(costs)
}

/// CPU time of everything, and wall time, in milliseconds.
fn once(lab: &Lab, way: Way, program: &Program) -> Result<(f64, f64)> {
    lab.empty_output()?;
    let command = way.command(lab, &lab.scratch.join("output"), &program.command)?;
    let mut reckoned = Command::new(lab.scratch.join("reckon"));
    reckoned.arg(command.get_program()).args(command.get_args());
    quiet_environment(&mut reckoned);
    let finished = process::run(&mut reckoned, lab.terms(false))?;
    if !finished.status.success() {
        bail!("{}: {}", finished.status, finished.last_words());
    }
    let said = finished.stderr.lines().rev();
    let cpu_us: f64 = said
        .filter_map(|line| line.strip_prefix("reckoned_cpu_us="))
        .find_map(|number| number.parse().ok())
        .context("its CPU time was not said")?;
    Ok((cpu_us / 1e3, 1e3 * finished.wall_s))
}

fn table(title: &str, key: &str, costs: &[Cost], processes: f64, figures: &mut Figures) -> Table {
    let mut table = Table::new(
        title,
        &[
            "tool",
            "CPU ms (min)",
            "CPU ms (median)",
            "added CPU ms (median)",
            "x bare (min)",
            "x bare (median)",
            "added wall ms (median)",
        ],
    );
    let Some(bare) = costs.first() else {
        return table;
    };
    let [least, middle] = [minimum, median].map(|of| of(&bare.cpu_ms));
    for cost in costs {
        let each = |value: Option<f64>| value.map(|value| value / processes);
        let (own_least, own_middle) = (minimum(&cost.cpu_ms), median(&cost.cpu_ms));
        let added = own_middle.zip(middle).map(|(own, bare)| own - bare);
        let ratio =
            |own: Option<f64>, bare: Option<f64>| own.zip(bare).map(|(own, bare)| own / bare);
        let wall = median(&cost.wall_ms)
            .zip(median(&bare.wall_ms))
            .map(|(own, bare)| own - bare);
        table.row(vec![
            cost.way.name().into(),
            Cell::number(each(own_least), 3),
            Cell::number(each(own_middle), 3),
            Cell::number(each(added), 3),
            Cell::number(ratio(own_least, least), 3),
            Cell::number(ratio(own_middle, middle), 3),
            Cell::number(each(wall), 3),
        ]);
        if let Some(added) = each(added) {
            figures.insert(format!("{key}/{}/added_cpu_ms", cost.way.name()), added);
        }
        if let Some(ratio) = ratio(own_middle, middle) {
            figures.insert(format!("{key}/{}/cpu_ratio", cost.way.name()), ratio);
        }
    }
    table.note("CPU time of the programs, of what starts them and of the profiler until its files are written");
    table.note(format!("{} repetitions", bare.cpu_ms.len()));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_for_each_process_and_above_bare() {
        let cost = |way, cpu_ms: f64| Cost {
            way,
            cpu_ms: vec![cpu_ms],
            wall_ms: vec![cpu_ms],
        };
        let costs = [cost(Way::Tool(Tool::Bare), 100.0), cost(Way::Strace, 250.0)];
        let mut figures = Figures::new();
        table("t", "short", &costs, 50.0, &mut figures);
        assert_eq!(figures["short/strace -f/added_cpu_ms"], 3.0);
        assert_eq!(figures["short/strace -f/cpu_ratio"], 2.5);
    }
}
