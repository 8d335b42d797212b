//! How `rsys-sample` ends: as its target did.

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;

use crate::os;

/// Exit code for a wrong command line or setting.
pub const USAGE: u8 = 2;
/// Exit code when `rsys-sample` itself failed before it started the command.
pub const FAILED: u8 = 125;
/// Exit code when the command cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code when there is no such command.
pub const NOT_FOUND: u8 = 127;

/// How a target ended, or what stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an exit code.
    Code(u8),
    /// By a signal.
    Signal(i32),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Code(code) => write!(f, "exit code {code}"),
            Ending::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "{}", signal.as_str()),
                Err(_) => write!(f, "signal {number}"),
            },
        }
    }
}

/// Ends this process in the same way. A fatal signal is sent to ourselves, so that our parent sees
/// what it would have seen; a core file of ours would hide the target's.
pub fn finish(ending: Ending) -> ! {
    match ending {
        Ending::Code(code) => std::process::exit(i32::from(code)),
        Ending::Signal(number) => {
            setrlimit(Resource::RLIMIT_CORE, 0, 0).ok();
            os::end_by_signal(number);
            // It was one that does not end a process by default.
            std::process::exit(128_i32.saturating_add(number));
        }
    }
}
