//! How fast `rsys-report export` writes each format, and with how much memory, beside tools that do the last step of it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::answers::{Form, build_maker, make};
use super::lab::Lab;
use super::numbers::{median, ratio};
use super::process::{self, Finished, Terms};
use super::table::{Cell, Figures, Table};

const LIMIT: Duration = Duration::from_secs(600);

/// A way to make a file.
struct Way {
    name: &'static str,
    /// The command: `{trace}` is the trace, `{out}` the file or folder that is written, `{out FORMAT}` what was written in another format.
    command: &'static [&'static str],
}

/// A format with the ending of its file.
macro_rules! export {
    ($format:literal) => {
        export!($format, $format, "")
    };
    ($name:literal, $format:literal, $ending:literal) => {
        Way {
            name: $name,
            command: &[
                "rsys-report",
                "export",
                "{trace}",
                "--no-cache",
                "--force",
                "--to",
                $format,
                "-o",
                concat!("{out}", $ending),
            ],
        }
    };
}

const WAYS: [Way; 15] = [
    export!("kineto"),
    export!("kineto, packed", "kineto", ".gz"),
    export!("chrome"),
    export!("rpd"),
    export!("rocpd"),
    export!("rocprofv3-json"),
    export!("pprof"),
    export!("folded"),
    export!("speedscope"),
    export!("firefox"),
    export!("aorta"),
    export!("csv"),
    export!("parquet"),
    // The same bytes, by gzip alone; the same database, by SQLite alone.
    Way {
        name: "gzip -1 of kineto",
        command: &["sh", "-c", "exec gzip -1 -c {out kineto} > {out}"],
    },
    Way {
        name: "sqlite3, vacuum into, of rpd",
        command: &["sqlite3", "{out rpd}", "vacuum into '{out}'"],
    },
];

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (kernels, repetitions) = if lab.quick {
        (200_000, 2)
    } else {
        (1_000_000, 5)
    };
    let mut table = Table::new(
        "Exports: one trace of kernels with their calls, launch stacks and samples",
        &[
            "format",
            "trace MB",
            "s (median)",
            "MB/s",
            "CPU s (median)",
            "MB/CPU s",
            "peak MB",
            "output MB",
        ],
    );
    let maker = build_maker(lab)?;
    let folder = lab.scratch.join("exports");
    fs::create_dir_all(&folder)?;
    let form = |is_compressed| Form {
        name: "one file",
        is_compressed,
        has_samples: true,
        files: 1,
    };
    // The packets are counted, but read from a packed file as `rsys-sample` writes it.
    let megabytes = make(lab, &maker, &folder, kernels, &form(false))? as f64 / 1e6;
    make(lab, &maker, &folder, kernels, &form(true))?;
    let mut runs: Vec<Vec<Finished>> = WAYS.iter().map(|_| Vec::new()).collect();
    for repetition in 0..repetitions {
        eprintln!(
            "bench: export: {kernels} kernels, {} of {repetitions}",
            repetition + 1
        );
        for (way, runs) in WAYS.iter().zip(&mut runs) {
            match run(lab, way, &folder) {
                Ok(run) => runs.push(run),
                Err(error) => table.note(format!("{}: not measured: {error:#}", way.name)),
            }
        }
    }
    for (way, runs) in WAYS.iter().zip(&runs) {
        let all = |of: fn(&Finished) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
        let (wall, cpu) = (all(|run| run.wall_s), all(|run| run.tree_cpu_s));
        let peak = runs.iter().filter_map(|run| run.peak_rss_kb).max();
        let peak = peak.map(|kilobytes| kilobytes as f64 / 1024.0);
        let speed = wall.and_then(|wall| ratio(megabytes, wall));
        table.row(vec![
            way.name.into(),
            Cell::number(Some(megabytes), 1),
            Cell::number(wall, 3),
            Cell::number(speed, 0),
            Cell::number(cpu, 2),
            Cell::number(cpu.and_then(|cpu| ratio(megabytes, cpu)), 0),
            Cell::number(peak, 1),
            Cell::number(written(way, &folder), 1),
        ]);
        for (figure, value) in [("mb_per_s", speed), ("cpu_s", cpu), ("peak_mb", peak)] {
            if let Some(value) = value {
                figures.insert(format!("export/{}/{figure}", way.name), value);
            }
        }
    }
    fs::remove_dir_all(&folder)?;
    table.note("megabytes of the trace are those of its packets, which lie packed in a file; reading them and making the tables of records is part of each export. Files are in the page cache; wall time counts what else the machine does, CPU time only in part");
    table.note("gzip and sqlite3 do one step: they pack the text of kineto, and copy the tables and indexes of rpd; their MB/s are of the same trace");
    Ok(vec![table])
}

/// What a way writes to.
fn output(name: &str) -> String {
    let letters = name.chars();
    letters
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect()
}

/// The command's words.
fn words(way: &Way, folder: &Path) -> Vec<String> {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let replaced = way.command.iter().map(|word| {
        let mut word = word.replace("{trace}", &path("0.proto"));
        word = word.replace("{out}", &path(&output(way.name)));
        for other in ["kineto", "rpd"] {
            word = word.replace(&format!("{{out {other}}}"), &path(other));
        }
        word
    });
    replaced.collect()
}

fn run(lab: &Lab, way: &Way, folder: &Path) -> Result<Finished> {
    let words = words(way, folder);
    let (program, words) = words.split_first().context("a way has a program")?;
    let mut command = match program.as_str() {
        "rsys-report" => Command::new(lab.places.rsys_sample.with_file_name("rsys-report")),
        program => Command::new(program),
    };
    if program == "sqlite3" {
        // It writes into no file that is there.
        fs::remove_file(folder.join(output(way.name))).ok();
    }
    command.args(words);
    let terms = Terms {
        limit: LIMIT,
        ..lab.terms(true)
    };
    let finished = process::run(&mut command, terms)?;
    ensure!(finished.status.success(), "{}", finished.last_words());
    Ok(finished)
}

/// Megabytes of what a way has written.
fn written(way: &Way, folder: &Path) -> Option<f64> {
    let name = output(way.name);
    let entries = fs::read_dir(folder).ok()?.flatten();
    let path = entries.map(|entry| entry.path()).find(|path| {
        path.file_name()
            .is_some_and(|one| one == name.as_str() || one == format!("{name}.gz").as_str())
    })?;
    let bytes = match path.is_dir() {
        false => path.metadata().ok()?.len(),
        true => {
            let files = fs::read_dir(path).ok()?.flatten();
            files
                .filter_map(|file| Some(file.metadata().ok()?.len()))
                .sum()
        }
    };
    Some(bytes as f64 / 1e6)
}
