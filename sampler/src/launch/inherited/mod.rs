//! What the process was given by its parent, and what becomes of it: the command gets it as if we were not there.
//!
//! Nearly everything passes through fork and exec by itself. What does not, or what we need otherwise, is put back in the child before its
//! exec; `docs/compatibility.md` has the table. Rust's runtime ignores SIGPIPE and opens `/dev/null` in place of closed standard
//! descriptors, and a timer that runs would end us: these are looked at from a constructor that runs before the runtime does.

mod system;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

use crate::os;

use system::{PendingSignal, Scheduling};

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static PENDING_SIGPIPE: OnceLock<Vec<PendingSignal>> = OnceLock::new();
static SIGCHLD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
/// Time to the first expiry, and from one to the next.
static TIMERS: [[AtomicI64; 2]; 3] = [const { [const { AtomicI64::new(0) }; 2] }; 3];
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);

/// The interval timers of a process, which exec keeps and fork does not.
const KINDS: [i32; 3] = [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF];

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: takes integers only.
        let closed = unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1;
        was_closed.store(closed, Ordering::Relaxed);
    }
    SIGPIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    // The kernel drops one that waits when it is ignored.
    PENDING_SIGPIPE.get_or_init(|| system::take_pending(Some(libc::SIGPIPE)));
    // We have to learn how our children end.
    if is_ignored(libc::SIGCHLD) {
        SIGCHLD_WAS_IGNORED.store(true, Ordering::Relaxed);
        // SAFETY: takes integers only.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
    LOOKED_NS.store(os::monotonic_ns(), Ordering::Relaxed);
    for (kind, [first, next]) in KINDS.into_iter().zip(&TIMERS) {
        let stopped = Timer::default().to_c();
        let mut before = stopped;
        // SAFETY: valid objects.
        if unsafe { libc::setitimer(kind, &raw const stopped, &raw mut before) } == 0 {
            first.store(microseconds(before.it_value), Ordering::Relaxed);
            next.store(microseconds(before.it_interval), Ordering::Relaxed);
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zero is a valid value of the plain structure that the next call fills.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `action` is a valid place for the answer.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

fn microseconds(time: libc::timeval) -> i64 {
    time.tv_sec
        .saturating_mul(1_000_000)
        .saturating_add(time.tv_usec)
}

/// Whether we may have as many descriptors as it takes to profile one process. Each further one has its own, or is not sampled.
#[must_use]
pub fn has_room_for_files() -> bool {
    const NEEDED: usize = 12;
    /// From here on it is not looked which are open.
    const MANY: rlim_t = 256;
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return true;
    };
    // SAFETY: takes integers only.
    let is_free = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == -1;
    hard > MANY || (0..hard as i32).filter(is_free).count() >= NEEDED
}

/// An interval timer; zero in front means that it does not run.
#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    first_us: i64,
    next_us: i64,
}

impl Timer {
    fn to_c(self) -> libc::itimerval {
        let time = |us| libc::timeval {
            tv_sec: us / 1_000_000,
            tv_usec: us % 1_000_000,
        };
        libc::itimerval {
            it_interval: time(self.next_us),
            it_value: time(self.first_us),
        }
    }
}

/// What a target must be given back.
#[derive(Debug, Clone)]
pub struct Inherited {
    /// Whether SIGPIPE and SIGCHLD were ignored.
    sigpipe_ignored: bool,
    sigchld_ignored: bool,
    /// Which of the descriptors 0, 1 and 2 were closed.
    closed: [bool; 3],
    /// Soft and hard limit of open files.
    open_files: Option<(rlim_t, rlim_t)>,
    timers: [Timer; 3],
    /// Signals that were sent, and are blocked.
    pending: Vec<PendingSignal>,
    /// The signal at the death of the parent, or 0.
    death_signal: i32,
    is_subreaper: bool,
    /// How it is scheduled, where the kernel resets that in children.
    scheduling: Option<Scheduling>,
    /// Whether there are children that stay ours.
    pub has_children: bool,
}

impl Inherited {
    /// Looks, and then changes what we need for ourselves: each process that we watch takes a few open files.
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
            sigchld_ignored: SIGCHLD_WAS_IGNORED.load(Ordering::Relaxed),
            closed: [0, 1, 2].map(|fd| {
                WAS_CLOSED
                    .get(fd)
                    .is_some_and(|closed| closed.load(Ordering::Relaxed))
            }),
            open_files,
            timers: TIMERS.each_ref().map(|[first, next]| Timer {
                first_us: first.load(Ordering::Relaxed),
                next_us: next.load(Ordering::Relaxed),
            }),
            pending: [
                PENDING_SIGPIPE.get().cloned().unwrap_or_default(),
                system::take_pending(None),
            ]
            .concat(),
            death_signal: system::death_signal(),
            is_subreaper: system::leave_subreaper(),
            scheduling: Scheduling::without_children(),
            has_children: system::has_children(),
        }
    }

    /// Undoes in the child of a fork, or in this process before it becomes the command, what is not the command's: all but mask, pending
    /// signals and timers.
    ///
    /// # Signal safety
    /// System calls only: in the child of a fork, other threads may have held locks.
    pub fn give_back(&self) {
        // SAFETY: plain system calls with numbers and objects that live across them.
        unsafe {
            if let Some((soft, hard)) = self.open_files {
                let limit = libc::rlimit {
                    rlim_cur: soft,
                    rlim_max: hard,
                };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
            if !self.sigpipe_ignored {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            }
            if self.sigchld_ignored {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            for (fd, closed) in (0..).zip(self.closed) {
                if closed {
                    libc::close(fd);
                }
            }
            if self.death_signal != 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, self.death_signal);
            }
            if self.is_subreaper {
                libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            }
        }
        if let Some(scheduling) = &self.scheduling {
            scheduling.set();
        }
    }

    /// Sends what was pending to this process, and starts the timers. Behind [`Inherited::give_back`], with the command's mask.
    ///
    /// # Signal safety
    /// As [`Inherited::give_back`].
    pub fn go_on(&self) {
        for signal in &self.pending {
            signal.send_to_ourselves();
        }
        let since_ns = os::monotonic_ns().saturating_sub(LOOKED_NS.load(Ordering::Relaxed));
        for (kind, timer) in KINDS.into_iter().zip(&self.timers) {
            if timer.first_us == 0 {
                continue;
            }
            // Only this one counts the time that passes for us.
            let passed_us = match kind {
                libc::ITIMER_REAL => since_ns.cast_signed() / 1000,
                _ => 0,
            };
            let rest = Timer {
                first_us: timer.first_us.saturating_sub(passed_us).max(1),
                ..*timer
            };
            let rest = rest.to_c();
            // SAFETY: a valid object.
            unsafe { libc::setitimer(kind, &raw const rest, std::ptr::null_mut()) };
        }
    }
}
