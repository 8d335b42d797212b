//! A place where a package is installed: what runs there, and what is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::super::{VERSION, stage, tools};

/// Burns CPU time in a function of this name, and has output and an exit code of its own.
const PROGRAM: &str = "\
import sys
def burn(n):
    return sum(i * i for i in range(n))
print(burn(4000000))
sys.exit(3)
";
const PRINTED: &str = "21333325333334000000\n";
const EXIT_CODE: i32 = 3;

/// Where programs run.
pub struct Place<'a> {
    /// Makes the command that runs a program of this name or path.
    pub command: &'a dyn Fn(&str) -> Command,
    /// The folder that these programs may write to, as we see it, and as they see it.
    pub folder: (PathBuf, PathBuf),
    /// The Python that is profiled.
    pub python: String,
}

impl Place<'_> {
    /// Profiles a program, and has it reported; returns the seconds that it took.
    pub fn use_it(&self) -> Result<f64> {
        let start = Instant::now();
        let (outside, inside) = &self.folder;
        let script = inside.join("burn.py").display().to_string();
        let output = inside.join("traces").display().to_string();
        stage::write(&outside.join("burn.py"), PROGRAM)?;
        let mut sample = (self.command)("rsys-sample");
        sample.args(["-f", "500", "-o", &output, "--", &self.python, &script]);
        let done = sample
            .output()
            .with_context(|| format!("cannot start {sample:?}"))?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(
            done.status.code() == Some(EXIT_CODE) && done.stdout == PRINTED.as_bytes(),
            "{sample:?}: {}: {}{said}",
            done.status,
            String::from_utf8_lossy(&done.stdout)
        );
        ensure!(said.contains("next: rsys-report view"), "no trace: {said}");
        let answer = tools::run((self.command)("rsys-report").arg(&output))?;
        ensure!(
            answer.contains("burn"),
            "the report does not name `burn`: {answer}"
        );
        let page = inside.join("report.html").display().to_string();
        tools::run((self.command)("rsys-report").args(["html", &output, "-o", &page]))?;
        let page = fs::read_to_string(outside.join("report.html"))?;
        ensure!(page.contains("burn"), "the page does not name `burn`");
        self.show_demo()?;
        for name in ["rsys-sample", "rsys-report", "rsys-avail"] {
            let said = tools::run((self.command)(name).arg("--version"))?;
            ensure!(said.trim() == format!("{name} {VERSION}"), "{name}: {said}");
        }
        for name in ["burn.py", "report.html"] {
            fs::remove_file(outside.join(name))?;
        }
        fs::remove_dir_all(outside.join("traces"))?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Runs the demo, which is found wherever the package has put it.
    fn show_demo(&self) -> Result<()> {
        let (outside, inside) = &self.folder;
        let mut sample = (self.command)("rsys-sample");
        // For a GPU, something would be fetched, and stay.
        sample.env("RSYS_DEMO_DEVICE", "processor");
        sample.args(["--demo", "-o"]).arg(inside.join("demo"));
        let done = sample
            .output()
            .with_context(|| format!("cannot start {sample:?}"))?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(
            done.status.success() && said.contains("(train.py)"),
            "{sample:?}: {}: {said}",
            done.status
        );
        Ok(fs::remove_dir_all(outside.join("demo"))?)
    }

    /// Runs the original's names: each says once which program it is.
    pub fn use_old_names(&self) -> Result<()> {
        for (old, ours) in crate::install::OLD_NAMES {
            let mut command = (self.command)(old);
            let done = command.arg("--version").output()?;
            let said = String::from_utf8_lossy(&done.stdout);
            let errors = String::from_utf8_lossy(&done.stderr);
            ensure!(
                done.status.success() && said.trim() == format!("{ours} {VERSION}"),
                "{command:?}: {said}{errors}"
            );
            let note = format!("note: {old} is {ours} {VERSION} here");
            let told = errors.lines().filter(|line| line.contains(&note)).count();
            ensure!(told == 1, "{command:?}: {errors}");
        }
        Ok(())
    }
}

/// All that is in a folder and below, but what is below these folders.
pub fn content(folder: &Path, without: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut next = vec![folder.to_path_buf()];
    while let Some(path) = next.pop() {
        for entry in fs::read_dir(&path)? {
            let path = entry?.path();
            let place = path.strip_prefix(folder)?;
            if without.iter().any(|name| place.starts_with(name)) {
                continue;
            }
            found.insert(place.to_path_buf());
            if path.is_dir() && !path.is_symlink() {
                next.push(path);
            }
        }
    }
    Ok(found)
}

/// Fails when a folder does not have what it had.
pub fn check_nothing_left(before: &BTreeSet<PathBuf>, after: &BTreeSet<PathBuf>) -> Result<()> {
    let left: Vec<_> = after.difference(before).collect();
    let gone: Vec<_> = before.difference(after).collect();
    ensure!(
        left.is_empty() && gone.is_empty(),
        "left: {left:?}, gone: {gone:?}"
    );
    Ok(())
}
