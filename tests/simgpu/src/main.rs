//! `rsys-simgpu`: runs a command on a machine with simulated AMD GPUs.
//!
//! The launcher plays the part of the hardware that outlives processes: it makes the folder with the simulated `/sys`
//! and `/dev` (`launcher::tree`), owns the GPUs' memory (`launcher::memory`), moves their sensors
//! (`launcher::sensors`) and removes it all when the command has ended. What happens inside the processes is the
//! driver's part, a library of its own.

mod accounts;
mod board;
mod formula;
mod launcher;
mod settings;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match launcher::run(&launcher::Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rsys-simgpu: {error:#}");
            // As shells do for commands that cannot be run.
            ExitCode::from(126)
        }
    }
}
