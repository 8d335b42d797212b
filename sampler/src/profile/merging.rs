//! One trace of all processes at the end of a run. `rsys-report`, which stands beside us, makes it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rsys_config::Closing;

use super::start::own_executable;
use crate::emit::outcome::ProcessSummary;
use crate::plan::Plan;
use crate::terminal::say;
use crate::words::counted;

/// The program that merges.
const PROGRAM: &str = "rsys-report";
/// What the merged trace is called.
const NAME: &str = "merged.pftrace";

/// Puts the traces of the run into one and says where it is, or why there is none. The traces stay. `command` is the process id of the command.
pub(super) fn merge(processes: &[ProcessSummary], command: u32, directory: &Path, plan: &Plan) {
    let verbosity = plan.run.verbosity;
    let is_told = verbosity >= 0 && plan.closing != Closing::Off;
    if plan.place.rank.is_some() || plan.place.step.is_some() {
        // Only the last task could: others may still write. One of them says so.
        let is_first = plan.place.rank.as_ref().is_none_or(|rank| rank.rank == 0);
        if is_first && is_told {
            say(&format!(
                "note: --merge leaves the tasks of a parallel job alone; when all have ended: {PROGRAM} merge {} -o {NAME}",
                directory.display()
            ));
        }
        return;
    }
    let traced = || processes.iter().filter(|process| process.path.is_some());
    let shared = processes.iter().find_map(|process| process.shared.as_ref());
    // If it executed other programs, its first one ended first.
    let named = traced().find(|process| process.pid == command);
    let Some(named) = named.or_else(|| traced().next()) else {
        return;
    };
    let traces: Vec<&Path> = traced()
        .flat_map(|process| process.path.iter().chain(&process.parts))
        .chain(shared)
        .map(PathBuf::as_path)
        .collect();
    let (inputs, output) = match plan.has_own_folder {
        // More processes than a command line has room for may be in it.
        true => (vec![directory], directory.join(NAME)),
        false => (
            traces.clone(),
            beside(named.path.as_deref().unwrap_or(directory)),
        ),
    };
    match run(&inputs, &output) {
        Ok(()) if is_told => say(&format!(
            "{} merged: {}",
            counted(traces.len() as u64, "trace"),
            output.display()
        )),
        Ok(()) => {}
        Err(why) => say(&format!("warning: the traces were not merged: {why}")),
    }
}

/// The merged trace beside one of those that it is made of, which nothing else is called.
fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.file_stem().map(OsString::from).unwrap_or_default();
    name.push(format!("-{NAME}"));
    trace.with_file_name(name)
}

/// Runs the program; an error says why there is no merged trace.
fn run(inputs: &[&Path], output: &Path) -> Result<(), String> {
    let program = own_executable().with_file_name(PROGRAM);
    // Standard output is the target's.
    let done = Command::new(&program)
        .arg("merge")
        .args(inputs)
        .arg("-o")
        .arg(output)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(match last {
        Some(line) => line
            .trim_start_matches("rsys-report: ")
            .trim_start_matches("error: ")
            .to_owned(),
        None => format!("{PROGRAM}: {}", done.status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_in_a_shared_folder_has_a_merged_trace_of_its_own() {
        for (trace, merged) in [
            ("/o/run.proto", "/o/run-merged.pftrace"),
            ("/o/run-1.proto", "/o/run-1-merged.pftrace"),
        ] {
            assert_eq!(beside(Path::new(trace)), Path::new(merged));
        }
    }
}
