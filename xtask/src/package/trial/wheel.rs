//! Wheels, in virtual environments.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::super::{VERSION, stage, tools};
use super::Extent;
use super::place::{Place, check_nothing_left, content};
use crate::steps::succeeds;

/// The module as users write it: outside of the profiler it records nothing and needs nothing, and it finds the programs beside itself.
const MODULE: &str = "import rsys\nwith rsys.range('step', n=3): rsys.mark('m'); rsys.counter('c', 1)\nassert not rsys.is_recording()\n\
                      assert 'operations' in rsys.read('.').tables";
const OLDEST: u32 = 8;
const NEWEST: u32 = 15;

/// Says so when no interpreter can try them.
pub fn missing() -> Option<String> {
    let none = pythons().is_empty();
    none.then(|| {
        "there is no python3 with venv (on Debian and Ubuntu: apt-get install python3-venv)"
            .to_owned()
    })
}

/// Installs them for one interpreter, or for each that is found.
pub fn run(files: &[PathBuf], scratch: &Path, extent: Extent) -> Result<Vec<String>> {
    let count = if extent == Extent::One { 1 } else { usize::MAX };
    let pythons = pythons();
    if let Some(missing) = missing() {
        bail!(missing);
    }
    let mut lines = Vec::new();
    for python in pythons.iter().take(count) {
        stage::empty(scratch)?;
        let line = in_environment(files, python, scratch);
        lines.push(line.with_context(|| python.display().to_string())?);
    }
    Ok(lines)
}

fn in_environment(files: &[PathBuf], python: &Path, scratch: &Path) -> Result<String> {
    let venv = scratch.join("venv");
    tools::run(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
    let bin = venv.join("bin");
    let own = bin.join("python").display().to_string();
    let pip = |words: &[&str]| {
        let mut pip = Command::new(&own);
        pip.args(["-m", "pip", "--disable-pip-version-check"])
            .args(words);
        pip
    };
    let version = tools::run(Command::new(&own).arg("--version"))?;
    // pip and its own modules are compiled as they are used.
    tools::run(&mut pip(&["list"]))?;
    let without = ["bin/__pycache__"];
    let modules_of = |content: std::collections::BTreeSet<PathBuf>| {
        let is_compiled = |path: &PathBuf| path.iter().any(|part| part == "__pycache__");
        content
            .into_iter()
            .filter(|path| !is_compiled(path))
            .collect()
    };
    let before = modules_of(content(&venv, &without)?);
    let (programs, old_names) = (files.first().context("no wheel")?, files.get(1));
    let start = Instant::now();
    tools::run(pip(&["install", "--no-index"]).arg(programs))?;
    let seconds = start.elapsed().as_secs_f64();
    tools::run(Command::new(&own).args(["-c", MODULE]).current_dir(scratch))?;
    let command = |name: &str| Command::new(bin.join(name));
    let place = Place {
        command: &command,
        folder: (scratch.into(), scratch.into()),
        python: own.clone(),
    };
    let used_for = place.use_it()?;
    check_world(&own, &bin.join("rsys-sample"), scratch)?;
    let said = tools::run(Command::new(&own).args(["-m", "rsys", "report", "--version"]))?;
    ensure!(
        said.trim() == format!("rsys-report {VERSION}"),
        "python -m rsys: {said}"
    );
    tools::run(pip(&["install", "--no-index"]).args(old_names))?;
    place.use_old_names()?;
    tools::run(&mut pip(&["check"]))?;
    tools::run(&mut pip(&["uninstall", "--yes", "rsys-old-names", "rsys"]))?;
    check_nothing_left(&before, &modules_of(content(&venv, &without)?))?;
    let version = version.trim();
    Ok(format!(
        "{version}: installed in {seconds:.1} s, used in {used_for:.1} s, removed, nothing left"
    ))
}

/// What is profiled sees the same environment and ignores the same signals as without Python in front of the profiler.
fn check_world(python: &str, command: &Path, scratch: &Path) -> Result<()> {
    let question = "import os, rsys; print(os.path.dirname(rsys.__file__))";
    let package = tools::run(Command::new(python).args(["-c", question]))?;
    let program = Path::new(package.trim()).join("bin/rsys-sample");
    let seen_by = |program: &Path| {
        let mut run = Command::new(program);
        // Of the C locale, Python makes another for itself and its children.
        run.env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("EMPTY", "");
        run.args(["-o", "world", "--", "sh", "-c"]);
        run.arg("env | grep -v ^RSYS | sort; grep SigIgn /proc/self/status");
        tools::run(run.current_dir(scratch))
    };
    let (by_command, by_program) = (seen_by(command)?, seen_by(&program)?);
    ensure!(
        by_command.contains("SigIgn"),
        "nothing was seen: {by_command}"
    );
    ensure!(
        by_command == by_program,
        "by the command: {by_command}by the program: {by_program}"
    );
    Ok(std::fs::remove_dir_all(scratch.join("world"))?)
}

/// Interpreters with pip and venv: of the search path, and those of pyenv.
fn pythons() -> Vec<PathBuf> {
    let versions = (OLDEST..=NEWEST).map(|minor| format!("python3.{minor}"));
    let names: Vec<String> = std::iter::once("python3".to_owned())
        .chain(versions)
        .collect();
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let home = env::var_os("HOME").unwrap_or_default();
    let pyenv = Path::new(&home).join(".pyenv/versions");
    let others = std::fs::read_dir(pyenv).into_iter().flatten().flatten();
    let mut others: Vec<PathBuf> = others.map(|entry| entry.path().join("bin")).collect();
    others.sort();
    folders.extend(others);
    let mut seen = std::collections::BTreeSet::new();
    let mut found = Vec::new();
    for folder in folders {
        for name in &names {
            let python = folder.join(name);
            // What a version is called by several names counts once; shims of pyenv are not interpreters.
            let question = "import sys, ensurepip; assert sys.version_info >= (3, 8); print(sys.base_prefix, sys.version_info[:3])";
            if !python.is_file()
                || folder.ends_with("shims")
                || !succeeds(&python, &["-c", question])
            {
                continue;
            }
            let is = tools::run(Command::new(&python).args(["-c", question])).unwrap_or_default();
            if seen.insert(is) {
                found.push(python);
            }
        }
    }
    found
}
