//! One run of `rsys-sample`, from the command to its end.
//!
//! The main thread prepares the run and starts the [`target`] ([`start`]), with all that looks at
//! it from outside ([`observers`]). Then it serves everything that can happen ([`watch`]): signals,
//! new processes, their ends, and the time to empty the rings ([`interval`]). At last it says what
//! became of it all ([`closing`]), in a parallel job also in the record that its tasks share
//! ([`job_record`]); one trace of all is made there too ([`merging`]). Two threads help: one takes datagrams, one writes traces.

mod attached;
mod closing;
mod interval;
mod job_record;
mod merging;
mod observers;
mod opened;
mod start;
mod target;
mod tracees;
mod watch;

use std::ffi::{OsStr, OsString};

use crate::launch::command;
use crate::launch::ending::{self, Ending};
use crate::launch::inherited::Inherited;
use crate::launch::spawn;
use crate::plan::Plan;
use crate::terminal::say;

/// Why a run did not begin.
#[derive(Debug)]
struct Refusal {
    text: String,
    code: u8,
}

impl Refusal {
    fn new(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: ending::FAILED,
        }
    }
}

/// Runs the plan and returns how to end.
#[must_use]
pub fn profile(plan: &Plan) -> Ending {
    match start::run(plan) {
        Ok(ending) => ending,
        Err(refusal) => {
            say(&format!("error: {}", refusal.text));
            Ending::Code(refusal.code)
        }
    }
}

/// Records a process that runs already, by the plan, and returns how to end.
#[must_use]
pub fn attach(plan: &Plan, pid: u32) -> Ending {
    match attached::run(plan, pid) {
        Ok(ending) => ending,
        Err(refusal) => {
            say(&format!("error: {}", refusal.text));
            Ending::Code(refusal.code)
        }
    }
}

/// Runs the command in place of us, without profiling it. Returns only when that failed.
#[must_use]
pub fn run_without_profiling(command: &[OsString], exports: &[(OsString, OsString)]) -> Ending {
    let inherited = Inherited::take();
    let environment: Vec<_> = std::env::vars_os().chain(exports.iter().cloned()).collect();
    let path = std::env::var_os("PATH");
    match command::find(first(command), path.as_deref()) {
        Err(error) => {
            say(&format!("error: {error}"));
            Ending::Code(error.exit_code())
        }
        Ok(file) => {
            let error = spawn::replace(&file, command, &environment, &inherited);
            say(&format!("error: {error}"));
            Ending::Code(error.exit_code())
        }
    }
}

/// The name of the program in a command.
fn first(command: &[OsString]) -> &OsStr {
    command.first().map(OsString::as_os_str).unwrap_or_default()
}
