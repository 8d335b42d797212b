//! A signal of the program's that came too early, sent once more with all that came with it.

use std::ffi::c_int;

use crate::clocks::perf;
use crate::sys;

/// What the kernel keeps of a signal: the part of `siginfo_t` that it fills in.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Sent {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<Sent>() == 48);

/// The kernel reads a whole `siginfo_t`, and insists on zeros behind what it knows.
#[repr(C)]
struct Whole(Sent, [u64; 10]);

impl Sent {
    /// None.
    pub const NONE: Self = Self {
        signal: 0,
        error: 0,
        code: 0,
        padding: 0,
        rest: [0; 4],
    };

    /// The signal that a handler got.
    ///
    /// # Safety
    /// `info` is the second argument of a handler.
    pub unsafe fn new(info: *const libc::siginfo_t) -> Self {
        // SAFETY: a `siginfo_t` is longer.
        unsafe { info.cast::<Sent>().read() }
    }

    /// Whether somebody sent it, rather than the kernel that reports what the thread has done.
    pub fn is_sent(&self) -> bool {
        self.code <= 0
    }

    /// Whether it is a breakpoint or the like of the program's own: no sample of perf's.
    pub fn is_breakpoint(&self) -> bool {
        self.signal == libc::SIGTRAP && self.code > 0 && self.code != perf::TRAP_PERF
    }

    /// Whether it is this signal.
    pub fn is_signal(&self, signal: c_int) -> bool {
        self.signal == signal
    }

    /// Sends it to the calling thread if it was for that one, else to the process. Returns whether it was sent.
    ///
    /// Only the first thread may send what `kill` has sent, as if it came from there. For others it comes from the process itself.
    ///
    /// # Signal safety
    /// Some system calls.
    pub fn send_again(&self) -> bool {
        if self.code != libc::SI_TKILL {
            return self.send();
        }
        // A thread has one signal of a number waiting: a tick that waits would be all that is left.
        let mut waiting = Whole(Self::NONE, [0; 10]);
        let mut other = Self::NONE;
        while sys::take_waiting(self.signal, &raw mut waiting) {
            if !waiting.0.is_tick() {
                other = waiting.0;
            }
        }
        let is_sent = self.send();
        if !other.is_signal(0) {
            other.send();
        }
        is_sent
    }

    /// Whether it brings a sample.
    fn is_tick(&self) -> bool {
        self.code == libc::SI_TIMER || self.code == perf::TRAP_PERF
    }

    fn send(&self) -> bool {
        let whole = Whole(*self, [0; 10]);
        let (info, tid) = (&raw const whole, sys::gettid());
        let is_sent = match self.code {
            libc::SI_TKILL => sys::queue_to_thread(tid, self.signal, info),
            libc::SI_USER => {
                sys::queue_to_process(self.signal, info) || sys::kill_process(self.signal)
            }
            _ => sys::queue_to_process(self.signal, info),
        };
        is_sent || sys::tgkill(tid, self.signal)
    }
}
