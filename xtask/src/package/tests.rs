//! Packages of what is built, made and tried.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use yaml_rust2::YamlLoader;

use super::trial::{self, Extent};
use super::{Kind, VERSION, check_tag, make_and_try, tools};
use crate::steps::{PROGRAMS, target_dir, workspace_dir};

#[test]
fn a_tarball_and_a_wheel_install_profile_report_and_go() -> Result<()> {
    let built = target_dir().join("release");
    if !built.join("rsys-report").is_file() {
        println!("skipped: {PROGRAMS:?} are not built");
        return Ok(());
    }
    if let Some(missing) = trial::wheel::missing() {
        println!("skipped: {missing}");
        return Ok(());
    }
    let output = target_dir().join("tmp/packages");
    let kinds = [Kind::Tarball, Kind::Wheel];
    let lines = make_and_try(&built, &output, &kinds, Some(Extent::One))?;
    let worked = lines.iter().filter(|line| line.ends_with("nothing left"));
    ensure!(worked.count() == kinds.len(), "{lines:#?}");
    fs::remove_dir_all(output)?;
    Ok(())
}

#[test]
fn a_tag_is_of_the_version_whose_changes_are_written_down() -> Result<()> {
    let changes = fs::read_to_string(workspace_dir().join("CHANGELOG.md"))?;
    check_tag(&format!("v{VERSION}"), &changes)?;
    for (tag, changes) in [
        ("v0.0.1", changes.as_str()),
        (VERSION, &changes),
        (&format!("v{VERSION}"), "## Unreleased\n"),
    ] {
        ensure!(check_tag(tag, changes).is_err(), "{tag} passed");
    }
    Ok(())
}

/// The commands of ours in the workflow are commands that there are.
#[test]
fn the_release_workflow_calls_what_there_is() -> Result<()> {
    let text = fs::read_to_string(workspace_dir().join(".github/workflows/release.yml"))?;
    let workflow = YamlLoader::load_from_str(&text)?;
    let jobs = workflow[0]["jobs"].as_hash().context("no jobs")?;
    let mut called = 0;
    for job in jobs.values() {
        ensure!(job["runs-on"].as_str().is_some(), "a job runs nowhere");
        for step in job["steps"].as_vec().context("no steps")? {
            let line = step["run"].as_str();
            ensure!(
                line.is_some() != step["uses"].as_str().is_some(),
                "{step:?}"
            );
            let Some((_, words)) = line.and_then(|line| line.split_once("cargo ")) else {
                continue;
            };
            let words = words.split_whitespace().map(|word| word.trim_matches('"'));
            crate::Arguments::try_parse_from(words)?;
            called += 1;
        }
    }
    ensure!(called == 1, "{called} commands");
    Ok(())
}

/// Files in Python are read by the oldest Python that wheels are for, as far as one is here.
#[test]
fn recipes_in_python_can_be_compiled() -> Result<()> {
    let folder = workspace_dir().join("packaging");
    let line = "import ast, pathlib, sys\n\
                files = sorted(pathlib.Path(sys.argv[1]).rglob('*.py'))\n\
                for file in files: ast.parse(file.read_text(), str(file), feature_version=(3, 8))\n\
                print(len(files))";
    let said = tools::run(Command::new("python3").args(["-c", line]).arg(folder))?;
    ensure!(said.trim() == "9", "{said}");
    Ok(())
}
