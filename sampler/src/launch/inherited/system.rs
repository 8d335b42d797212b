//! The system calls by which a process learns what it was given, each behind a safe face.

use std::mem::MaybeUninit;

/// A signal that was sent, with all that came with it.
#[derive(Clone, Copy)]
pub struct PendingSignal(libc::siginfo_t);

// SAFETY: its addresses are only passed to the kernel, and never dereferenced here.
unsafe impl Send for PendingSignal {}
// SAFETY: as above.
unsafe impl Sync for PendingSignal {}

impl std::fmt::Debug for PendingSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "signal {} ({})", self.0.si_signo, self.0.si_code)
    }
}

impl PendingSignal {
    /// Sends it to this process, or to this thread if it was for one.
    ///
    /// # Signal safety
    /// System calls only.
    pub fn send_to_ourselves(&self) {
        let PendingSignal(info) = self;
        // SAFETY: numbers, and a whole siginfo_t that the kernel copies. To ourselves any code may be sent.
        unsafe {
            let pid = libc::c_long::from(libc::getpid());
            let signal = libc::c_long::from(info.si_signo);
            if info.si_code == libc::SI_TKILL {
                let tid = libc::syscall(libc::SYS_gettid);
                libc::syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    pid,
                    tid,
                    signal,
                    &raw const *info,
                );
            } else {
                libc::syscall(libc::SYS_rt_sigqueueinfo, pid, signal, &raw const *info);
            }
        }
    }
}

/// Takes the signals that were sent to us and that we block; or only this one.
pub fn take_pending(only: Option<i32>) -> Vec<PendingSignal> {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut taken = Vec::new();
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: valid objects. Not by the C library's function, which changes the code of what was sent to a thread.
    unsafe {
        if libc::sigpending(set.as_mut_ptr()) != 0 {
            return taken;
        }
        if let Some(signal) = only {
            if libc::sigismember(set.as_ptr(), signal) != 1 {
                return taken;
            }
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        while libc::syscall(
            libc::SYS_rt_sigtimedwait,
            set.as_ptr(),
            info.as_mut_ptr(),
            &raw const at_once,
            size_of::<u64>(),
        ) > 0
        {
            taken.push(PendingSignal(info.assume_init()));
        }
    }
    taken
}

/// The signal that we get when our parent dies, or 0.
pub fn death_signal() -> i32 {
    let mut signal = 0;
    // SAFETY: a valid place for the answer.
    unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) };
    signal
}

/// Whether orphans below us become our children; not any more.
pub fn leave_subreaper() -> bool {
    let mut is_subreaper = 0;
    // SAFETY: a valid place for the answer, and a number.
    unsafe {
        libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper);
        if is_subreaper != 0 {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0);
        }
    }
    is_subreaper != 0
}

/// Whether this process has children already: whoever executed us had.
pub fn has_children() -> bool {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: a valid place for the answer.
    unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) == 0 }
}

/// `struct sched_attr` of Linux 3.14 (include/uapi/linux/sched/types.h).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    deadline: [u64; 3],
}

const _: () = assert!(size_of::<Scheduling>() == 48);

impl Scheduling {
    /// Ours, if the kernel resets it in children.
    pub fn without_children() -> Option<Self> {
        const RESET_ON_FORK: u64 = 1;
        let mut ours = Self::default();
        // SAFETY: a place of that size for the answer.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                0,
                &raw mut ours,
                size_of::<Self>(),
                0,
            )
        };
        (result == 0 && ours.flags & RESET_ON_FORK != 0).then_some(ours)
    }

    /// Sets it for this thread.
    ///
    /// # Signal safety
    /// A system call.
    pub fn set(&self) {
        // SAFETY: a valid object.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *self, 0) };
    }
}
