//! What the process was given by its parent, before Rust's runtime changed it.
//!
//! The runtime ignores SIGPIPE and opens `/dev/null` in place of closed standard descriptors. A
//! target must get neither, so both are looked at from a constructor that runs before the runtime
//! does.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: takes integers only.
        let closed = unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1;
        was_closed.store(closed, Ordering::Relaxed);
    }
    // SAFETY: all zero is a valid value of the plain structure that the next call fills.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `action` is a valid place for the answer.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    let ignored = asked == 0 && action.sa_sigaction == libc::SIG_IGN;
    SIGPIPE_WAS_IGNORED.store(ignored, Ordering::Relaxed);
}

/// What a target must be given back.
#[derive(Debug, Clone, Copy)]
pub struct Inherited {
    /// Whether SIGPIPE was ignored.
    pub sigpipe_ignored: bool,
    /// Which of the descriptors 0, 1 and 2 were closed.
    pub closed: [bool; 3],
    /// Soft and hard limit of open files.
    pub open_files: Option<(rlim_t, rlim_t)>,
}

impl Inherited {
    /// Looks, and then raises our own limit of open files: each process that we watch takes a few.
    #[must_use]
    pub fn take() -> Self {
        let open_files = getrlimit(Resource::RLIMIT_NOFILE).ok();
        if let Some((soft, hard)) = open_files
            && soft < hard
        {
            // A refusal leaves the limit as it was, which serves some hundred processes.
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok();
        }
        Self {
            sigpipe_ignored: SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed),
            closed: [0, 1, 2].map(|fd| {
                WAS_CLOSED
                    .get(fd)
                    .is_some_and(|closed| closed.load(Ordering::Relaxed))
            }),
            open_files,
        }
    }
}
