//! The command: started, supplied with sensors and signals, and waited for.

use std::env;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

use anyhow::{Context, Result};

use crate::settings::ENV_ROOT;

/// How often sensors move.
const PERIOD_NS: i64 = 100_000_000;

/// Signals that are passed on to the command.
const PASSED_ON: [i32; 6] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// How the command ended.
#[derive(Debug)]
pub struct Ended(ExitStatus);

/// Runs the command with the driver's library; `tick` is called from time to time.
///
/// # Errors
/// When it cannot be started.
pub fn run(
    command: &[OsString],
    library: &Path,
    root: &Path,
    mut tick: impl FnMut(),
) -> Result<Ended> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let (waited, before) = block_signals();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env(ENV_ROOT, root);
    // SAFETY: between fork and exec only a system call that is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            Ok(())
        });
    }
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    loop {
        tick();
        if let Some(signal) = next_signal(&waited) {
            pass_on(&child, &signal);
        }
        if let Some(status) = child.try_wait()? {
            tick();
            return Ok(Ended(status));
        }
    }
}

/// Blocks the signals that are waited for; returns them, and what was blocked before.
fn block_signals() -> (libc::sigset_t, libc::sigset_t) {
    let (mut waited, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are valid places and are initialised here.
    unsafe {
        libc::sigemptyset(waited.as_mut_ptr());
        for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(waited.as_mut_ptr(), signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, waited.as_ptr(), before.as_mut_ptr());
        (waited.assume_init(), before.assume_init())
    }
}

fn next_signal(waited: &libc::sigset_t) -> Option<libc::siginfo_t> {
    let period = libc::timespec {
        tv_sec: 0,
        tv_nsec: PERIOD_NS,
    };
    let mut information = MaybeUninit::uninit();
    // SAFETY: valid places; the information is complete when a signal is returned.
    unsafe {
        let signal = libc::sigtimedwait(waited, information.as_mut_ptr(), &raw const period);
        (signal > 0).then(|| information.assume_init())
    }
}

fn pass_on(child: &Child, information: &libc::siginfo_t) {
    // What the terminal sends goes to the command anyway.
    let from_terminal = information.si_code > 0;
    if information.si_signo != libc::SIGCHLD && !from_terminal {
        // SAFETY: the child was not waited for yet, so the number is still its.
        unsafe { libc::kill(child.id().cast_signed(), information.si_signo) };
    }
}

impl Ended {
    /// Ends this process as the command ended: with its status, or by its signal.
    pub fn end_alike(&self) -> ExitCode {
        let Some(signal) = self.0.signal() else {
            return ExitCode::from(self.0.code().unwrap_or(1) as u8);
        };
        // SAFETY: plain calls; the limit keeps this process from leaving a second core file.
        unsafe {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::raise(signal);
        }
        // A signal that does not end us by itself.
        ExitCode::from(128 + signal as u8)
    }
}
