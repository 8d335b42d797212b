//! An image of `packaging/Containerfile`, by Podman or Docker.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::stage::Stage;
use super::{VERSION, deb, tools};
use crate::steps::{find_program, step, workspace_dir};

const BUILDERS: [&str; 2] = ["podman", "docker"];

fn builder() -> Option<PathBuf> {
    BUILDERS.iter().find_map(|name| find_program(name))
}

/// Says so when nothing here makes images.
pub fn missing() -> Option<String> {
    let none = builder().is_none();
    none.then(|| "neither podman nor docker is installed".to_owned())
}

fn image() -> String {
    format!("rsys:{VERSION}")
}

/// Builds the image of the Debian package in `output`, and saves it.
pub fn make(stage: &Stage, output: &Path) -> Result<Vec<PathBuf>> {
    let builder = builder().context("neither podman nor docker is installed")?;
    if !output.join(format!("rsys_{VERSION}_amd64.deb")).is_file() {
        deb::make(stage, output)?;
    }
    let file = workspace_dir().join("packaging/Containerfile");
    let version = format!("VERSION={VERSION}");
    let archive = output.join(format!("rsys-{VERSION}-image.tar"));
    step(
        Command::new(&builder)
            .args([
                "build",
                "--tag",
                &image(),
                "--build-arg",
                &version,
                "--file",
            ])
            .arg(file)
            .arg(output),
    )?;
    step(
        Command::new(&builder)
            .args(["save", "--output"])
            .arg(&archive)
            .arg(image()),
    )?;
    Ok(vec![archive])
}

/// Profiles a program in a container of the image, and removes it.
pub fn run() -> Result<Vec<String>> {
    let builder = builder().context("neither podman nor docker is installed")?;
    let line = "rsys-sample -o /tmp/out -- sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done' && rsys-report /tmp/out";
    let said = tools::run(
        Command::new(builder)
            .args(["run", "--rm", "--entrypoint", "sh"])
            .arg(image())
            .args(["-c", line]),
    )?;
    anyhow::ensure!(said.contains("sh"), "no report: {said}");
    Ok(vec!["profiled in a container".to_owned()])
}
