//! What the GPUs do, and the calls that make them do it.
//!
//! Operations are recorded in one of two ways ([`owner`]). [`hip`] gets them from the HIP runtime itself, which has a place for a tracer.
//! [`hsa`] stands between a program and the HSA runtime below HIP: for programs without HIP, and where the tracer's place is taken.
//!
//! Nothing here loads a library or calls a runtime before the program does. The agent learns that a runtime is there when
//! the program's first use of a GPU leads into `hsa_init`, which is wrapped ([`init`]), and when the HSA runtime
//! calls the tool's entry point ([`tool`]).

pub mod devices;
mod handlers;
pub mod helper;
pub mod hip;
pub mod hip_functions;
pub mod hsa;
pub mod init;
mod instant;
pub mod kernel_lines;
pub mod owner;
pub mod threads;
mod tool;
pub mod words;
mod wrappers;

use rsys_wire::sources::Category;

use crate::events;
use crate::sources::source::{Ending, Source};
use crate::state;

/// A GPU runtime has been set up: looks for HIP, and takes the place of its tracer if that is wished and free.
///
/// May be called as often as there is a reason to think that something has changed; costs a look at the list of libraries
/// as long as there is no HIP. Not for signal handlers.
pub fn runtime_is_up() {
    if !events::is_on() || state::is_confined() {
        return;
    }
    devices::learn();
    hip::start();
}

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Hip, Category::Hsa],
    answers: &[(hip::TAKE_TRACER, hip::answer), (init::NAME, init::answer)],
    after_fork_in_child,
    at_end,
    unsampled_cpu_ns,
    ..Source::NONE
};

/// Gets what the runtimes have not reported yet.
fn at_end(ending: Ending) {
    match ending {
        Ending::Exit => {
            hip::at_end(ending);
            hsa::at_exit();
        }
        Ending::Exec => {
            hip::at_end(ending);
            hsa::before_exec();
        }
        Ending::Abort => {
            hip::at_abort();
            hsa::before_end();
        }
    }
}

/// CPU time of helper threads of ours and of threads of the runtimes.
fn unsampled_cpu_ns() -> u64 {
    helper::cpu_ns()
        .saturating_add(hip::helpers_cpu_ns())
        .saturating_add(threads::unsampled_cpu_ns())
}

/// GPU runtimes do not survive a fork, and neither do our records of them.
fn after_fork_in_child() {
    threads::after_fork_in_child();
    kernel_lines::after_fork_in_child();
    wrappers::after_fork_in_child();
    helper::after_fork_in_child();
    hip::after_fork_in_child();
    hsa::after_fork_in_child();
}
