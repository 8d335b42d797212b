//! How fast jobs of many ranks are compared: what is found of each trace, and how that is put together.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::lab::Lab;
use super::numbers::ratio;
use super::process::{self, Finished};
use super::table::{Cell, Figures, Table};

/// Collectives of an iteration.
const COLLECTIVES: u64 = 20;
const QUESTIONS: [&str; 2] = ["collectives", "overlap"];

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    // Ranks and iterations: the last of them have as many operations, so that what a rank costs beyond those is seen.
    let cases: &[(u64, u64)] = if lab.quick {
        &[(64, 50)]
    } else {
        &[(8, 1_000), (64, 1_000), (1_000, 64)]
    };
    let maker = build_maker(lab)?;
    let mut table = Table::new(
        "Jobs of many ranks: parts of traces, and the answer of these",
        &[
            "ranks",
            "iterations",
            "question",
            "trace MB",
            "parts s",
            "part kB (mean)",
            "answer s",
            "operations/s",
            "peak MB",
        ],
    );
    for &(ranks, iterations) in cases {
        eprintln!(
            "bench: ranks: {ranks} ranks, {iterations} iterations of {COLLECTIVES} collectives"
        );
        let folder = lab.scratch.join("ranks");
        let traces = folder.join("traces");
        fs::create_dir_all(&traces)?;
        let numbers = [
            ("--ranks", ranks),
            ("--iterations", iterations),
            ("--buckets", COLLECTIVES),
        ];
        let mut command = Command::new(&maker);
        command.arg(&traces).args(["--fault", "3:slow_loader:5"]);
        for (option, number) in numbers {
            command.arg(option).arg(number.to_string());
        }
        finished(lab, &mut command)?;
        let megabytes = bytes_of(&traces)? as f64 / 1e6;
        for question in QUESTIONS {
            let parts = folder.join(question);
            let ask = |share: &[&str]| {
                let mut command =
                    Command::new(lab.places.rsys_sample.with_file_name("rsys-report"));
                command
                    .arg(question)
                    .arg(&traces)
                    .arg("--parts")
                    .arg(&parts);
                command.args(share).args(["--json"]);
                command
            };
            let mapped = finished(lab, &mut ask(&["--share", "0/1"]))?;
            let reduced = finished(lab, &mut ask(&[]))?;
            let part_kb = bytes_of(&parts)? as f64 / ranks as f64 / 1e3;
            let operations = (ranks * iterations * COLLECTIVES) as f64;
            let peak_mb = reduced
                .peak_rss_kb
                .map(|kilobytes| kilobytes as f64 / 1024.0);
            table.row(vec![
                ranks.to_string().into(),
                iterations.to_string().into(),
                question.into(),
                Cell::number(Some(megabytes), 1),
                Cell::number(Some(mapped.wall_s), 2),
                Cell::number(Some(part_kb), 1),
                Cell::number(Some(reduced.wall_s), 2),
                Cell::number(ratio(operations, reduced.wall_s), 0),
                Cell::number(peak_mb, 1),
            ]);
            for (figure, value) in [
                ("parts_s", Some(mapped.wall_s)),
                ("answer_s", Some(reduced.wall_s)),
                ("part_kb", Some(part_kb)),
                ("peak_mb", peak_mb),
            ] {
                if let Some(value) = value {
                    figures.insert(
                        format!("ranks/{ranks}/{iterations}/{question}/{figure}"),
                        value,
                    );
                }
            }
        }
        fs::remove_dir_all(&folder)?;
    }
    table.note("files are in the page cache; the memory is that of putting parts together. Wall time counts what else the machine does");
    Ok(vec![table])
}

fn build_maker(lab: &Lab) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .current_dir(&lab.root)
        .args(["build", "--release", "--quiet", "-p", "rsys-synthetic"])
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the maker of jobs cannot be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(lab.root.join(target).join("release/rsys-synthetic"))
}

fn finished(lab: &Lab, command: &mut Command) -> Result<Finished> {
    let finished = process::run(command, lab.terms(true))?;
    ensure!(finished.status.success(), "{}", finished.last_words());
    Ok(finished)
}

/// How many bytes the files of a folder have.
fn bytes_of(folder: &Path) -> Result<u64> {
    let entries = fs::read_dir(folder)?.flatten();
    let sizes = entries.map(|entry| Ok(entry.metadata()?.len()));
    sizes.sum()
}
