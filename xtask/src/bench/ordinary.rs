//! How fast ordinary traces, which are compressed, become one, and are checked.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use super::answers::{Form, build_maker, make};
use super::lab::Lab;
use super::numbers::{median, ratio};
use super::process;
use super::table::{Cell, Figures, Table};

const FILES: u64 = 8;

/// Programs of `rsys-report`, and whether they write a merged trace.
const WAYS: [(&str, &[&str], bool); 3] = [
    ("merge", &["merge", "--force", "-o"], true),
    (
        "merge, plain output",
        &["merge", "--force", "--compress=no", "-o"],
        true,
    ),
    ("check", &["check"], false),
];

/// Merges and checks traces of processes that launch kernels.
pub fn table(lab: &Lab, figures: &mut Figures) -> Result<Table> {
    let (kernels, repetitions) = if lab.quick {
        (200_000, 3)
    } else {
        (1_600_000, 5)
    };
    let maker = build_maker(lab)?;
    let folder = lab.scratch.join("ordinary");
    let form = |name, is_compressed| Form {
        name,
        is_compressed,
        has_samples: false,
        files: FILES,
    };
    let (plain, packed) = (folder.join("plain"), folder.join("packed"));
    fs::create_dir_all(&plain)?;
    fs::create_dir_all(&packed)?;
    let content = make(lab, &maker, &plain, kernels, &form("plain", false))? as f64 / 1e6;
    fs::remove_dir_all(&plain)?;
    let bytes = make(lab, &maker, &packed, kernels, &form("compressed", true))?;
    let mut table = Table::new(
        "Ordinary traces, compressed, of 8 processes that launch kernels",
        &[
            "way",
            "MB of packets",
            "MB read",
            "MB written",
            "s (median)",
            "MB of packets/s",
            "MB/CPU s",
            "peak MB",
        ],
    );
    let output = folder.join("merged.pftrace");
    for (name, words, has_output) in WAYS {
        eprintln!("bench: merge: ordinary traces, {name}");
        let (mut seconds, mut cpu_seconds, mut peak) = (Vec::new(), Vec::new(), None);
        for _ in 0..repetitions {
            let mut command = Command::new(lab.places.rsys_sample.with_file_name("rsys-report"));
            command.args(words);
            if has_output {
                command.arg(&output);
            }
            command.arg(&packed);
            let finished = process::run(&mut command, lab.terms(true))?;
            // `check` finds that the maker does not end its traces.
            let is_judged = finished.status.code() == Some(1) && !has_output;
            ensure!(
                finished.status.success() || is_judged,
                "{name}: {}",
                finished.last_words()
            );
            seconds.push(finished.wall_s);
            cpu_seconds.push(finished.tree_cpu_s);
            peak = peak.max(finished.peak_rss_kb);
        }
        let took = median(&seconds);
        let speed = took.and_then(|took| ratio(content, took));
        let written = has_output.then(|| fs::metadata(&output)).transpose()?;
        let written = written.map(|data| data.len() as f64 / 1e6);
        let peak_mb = peak.map(|kilobytes| kilobytes as f64 / 1024.0);
        for (figure, value) in [
            ("mb_per_s", speed),
            ("written_mb", written),
            ("peak_mb", peak_mb),
        ] {
            if let Some(value) = value {
                figures.insert(format!("merge/ordinary/{name}/{figure}"), value);
            }
        }
        table.row(vec![
            name.into(),
            Cell::number(Some(content), 1),
            Cell::number(Some(bytes as f64 / 1e6), 1),
            Cell::number(written, 1),
            Cell::number(took, 3),
            Cell::number(speed, 0),
            Cell::number(median(&cpu_seconds).and_then(|cpu| ratio(content, cpu)), 0),
            Cell::number(peak_mb, 1),
        ]);
    }
    fs::remove_dir_all(&folder)?;
    table.note("made by rsys-analysis/examples/gpu_trace: kernels with their calls, flows and launch stacks");
    Ok(table)
}
