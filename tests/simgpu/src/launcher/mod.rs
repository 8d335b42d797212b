//! From the command line to the end of the command.

mod accounts;
mod arguments;
mod describe;
mod file;
mod folder;
mod memory;
mod metrics;
mod models;
mod sensors;
mod supervise;
mod tree;
mod truth;

use std::process::ExitCode;

use anyhow::{Context, Result};

pub use arguments::Arguments;

/// Runs the command of these arguments on simulated GPUs.
///
/// # Errors
/// When the configuration is wrong, or the machine or the command cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let plan = describe::Plan::new(arguments)?;
    let library = arguments.find_library()?;
    let folder = folder::Folder::new()?;
    let memory = memory::Memory::new(plan.gpus)?;
    let machine = plan.machine(&folder, &memory, arguments)?;
    tree::build(folder.path(), &plan, &machine)?;
    let description = serde_json::to_vec_pretty(&machine)?;
    std::fs::write(folder.path().join(crate::settings::FILE_NAME), description)
        .context("cannot write the machine's description")?;
    let mut sensors = sensors::Sensors::new(folder.path(), &plan, &machine, memory.board());
    let mut accounts = accounts::Accounts::new(folder.path(), &machine, memory.board());
    let ended = supervise::run(&arguments.command, &library, folder.path(), || {
        accounts.update();
        sensors.update();
    })?;
    if let Some(target) = &arguments.truth {
        truth::collect(&folder.path().join(truth::FOLDER), target)?;
    }
    drop(folder);
    Ok(ended.end_alike())
}
