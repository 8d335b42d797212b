//! One thread of another process, stopped for as long as it takes to look at it, and to give it other registers.
//!
//! It is stopped by `PTRACE_SEIZE` and `PTRACE_INTERRUPT`, which no signal shows to anybody. A system call that it is blocked in is
//! interrupted by that as by a signal without a handler: nearly all begin anew by themselves then. The few that return `EINTR` all the
//! same (signal(7), epoll_wait among them) are begun anew by us ([`Stopped::let_go`]).

use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::procfs;

/// `PTRACE_EVENT_STOP` of linux/ptrace.h.
const EVENT_STOP: i32 = 128;
/// `PTRACE_GETSIGMASK` and `PTRACE_SETSIGMASK` of linux/ptrace.h.
const GET_MASK: libc::c_uint = 0x420a;
const SET_MASK: libc::c_uint = 0x420b;
/// `PTRACE_GET_RSEQ_CONFIGURATION` of linux/ptrace.h (Linux 5.13).
const GET_RSEQ: libc::c_uint = 0x420f;

/// How a system call says to the kernel that it is to be begun anew: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, and
/// ERESTART_RESTARTBLOCK (linux/errno.h).
const RESTARTS: [i64; 4] = [-512, -513, -514, RESTART_BLOCK];
const RESTART_BLOCK: i64 = -516;

/// Registers of a thread.
pub type Registers = libc::user_regs_struct;

/// Why a thread could not be stopped, or not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStopped {
    /// It is gone.
    Gone,
    /// We may not.
    Forbidden(Errno),
    /// The process is stopped by a signal.
    ByOthers,
    /// Something came in between; it runs on.
    Again,
    /// It works in the kernel, and did not come out of it in time.
    Busy,
}

/// A stopped thread. It must be let go.
#[derive(Debug)]
pub struct Stopped {
    pid: u32,
    tid: i32,
    registers: Registers,
    /// A signal waits that will interrupt the call by itself.
    has_signals: bool,
    /// A signal has stopped its whole process, which it stays.
    is_halted: bool,
    /// When the time of the interrupted call is over, by CLOCK_MONOTONIC, where the call is begun anew with a time.
    ends_ns: Option<u64>,
    since: Instant,
}

fn request(kind: libc::c_uint, tid: i32, address: usize, data: usize) -> Result<i64, Errno> {
    // SAFETY: each caller passes what the request takes.
    let result = unsafe { libc::ptrace(kind, tid, address, data) };
    Errno::result(result)
}

impl Stopped {
    /// Stops a thread of process `pid`.
    ///
    /// # Errors
    /// [`NotStopped`].
    pub fn stop(pid: u32, tid: u32) -> Result<Self, NotStopped> {
        let since = Self::begin(tid)?;
        let stopped = Self::settle(pid, tid, wait_for(tid.cast_signed())?, since)?;
        if stopped.is_halted {
            stopped.let_go();
            return Err(NotStopped::ByOthers);
        }
        Ok(stopped)
    }

    /// Stops a thread of process `pid`, if that takes no longer than `patience`; one that a signal has stopped stays so. SIGCHLD must be
    /// blocked in all threads of ours. After [`NotStopped::Busy`] the calling thread has to end, which takes the request back.
    ///
    /// # Errors
    /// [`NotStopped`], but for [`NotStopped::ByOthers`].
    pub fn stop_within(pid: u32, tid: u32, patience: Duration) -> Result<Self, NotStopped> {
        let since = Self::begin(tid)?;
        let status = wait_within(tid.cast_signed(), patience)?;
        Self::settle(pid, tid, status, since)
    }

    /// Asks the kernel to stop it; returns since when it may stand.
    fn begin(tid: u32) -> Result<Instant, NotStopped> {
        let tid = tid.cast_signed();
        let since = Instant::now();
        request(libc::PTRACE_SEIZE, tid, 0, 0).map_err(|error| match error {
            Errno::ESRCH => NotStopped::Gone,
            error => NotStopped::Forbidden(error),
        })?;
        request(libc::PTRACE_INTERRUPT, tid, 0, 0).map_err(|_| NotStopped::Gone)?;
        Ok(since)
    }

    /// What became of the request.
    fn settle(pid: u32, tid: u32, status: i32, since: Instant) -> Result<Self, NotStopped> {
        let tid = tid.cast_signed();
        if !libc::WIFSTOPPED(status) {
            return Err(NotStopped::Gone);
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if event != EVENT_STOP {
            // A signal of its own came first.
            detach(tid, signal);
            return Err(NotStopped::Again);
        }
        let Some(registers) = registers_of(tid) else {
            detach(tid, 0);
            return Err(NotStopped::Gone);
        };
        Ok(Self {
            tid,
            registers,
            pid,
            has_signals: has_signals(pid, tid),
            is_halted: signal != libc::SIGTRAP,
            ends_ns: None,
            since,
        })
    }

    /// Its registers.
    #[must_use]
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Its registers in the order of `gregs` in a `ucontext_t`, for a walk of its stack.
    #[must_use]
    pub fn gregs(&self) -> [i64; 23] {
        let of = &self.registers;
        let mut all = [0; 23];
        let values = [
            of.r8, of.r9, of.r10, of.r11, of.r12, of.r13, of.r14, of.r15, of.rdi, of.rsi, of.rbp,
            of.rbx, of.rdx, of.rax, of.rcx, of.rsp, of.rip,
        ];
        for (place, value) in all.iter_mut().zip(values) {
            *place = value.cast_signed();
        }
        all
    }

    /// The system call that was interrupted, if it can be begun anew.
    #[must_use]
    pub fn call(&self) -> Option<u64> {
        let is_restarted = RESTARTS.contains(&self.result()) || self.is_broken_off();
        // One that a signal ends would begin anew after the handler, and wait for what has come.
        self.was_in_call()
            .filter(|_| is_restarted && !self.has_signals)
    }

    /// Says when the time of the interrupted call is over, which the call would else begin anew with all of: CLOCK_MONOTONIC.
    pub fn call_ends(&mut self, ends_ns: u64) {
        self.ends_ns = Some(ends_ns);
    }

    /// What was said by [`Stopped::call_ends`].
    #[must_use]
    pub fn call_ends_ns(&self) -> Option<u64> {
        self.ends_ns
    }

    /// Whether it was in user mode, between two instructions of its own.
    #[must_use]
    pub fn is_in_user_mode(&self) -> bool {
        self.was_in_call().is_none()
    }

    /// Where the thread goes on, with all its registers, if other code runs in between: at the system call that was interrupted.
    #[must_use]
    pub fn continuation(&self) -> Registers {
        let mut registers = self.registers;
        if let Some(call) = self.call() {
            /// `restart_syscall`: the kernel knows which it was, and how much time it has left.
            const RESTART: u64 = libc::SYS_restart_syscall as u64;
            registers.rip -= 2;
            registers.rax = if self.result() == RESTART_BLOCK {
                RESTART
            } else {
                call
            };
            if let Some(ends_ns) = self.ends_ns {
                // The time limit of epoll_wait(2), rounded up as the kernel does.
                let left_ns = ends_ns.saturating_sub(crate::os::monotonic_ns());
                registers.r10 = left_ns.div_ceil(1_000_000);
            }
        }
        registers
    }

    /// Whether the thread is in a restartable sequence (rseq(2)), which must not be left and entered again. `word` reads its memory.
    #[must_use]
    pub fn is_in_sequence(&self, word: impl Fn(u64) -> Option<u64>) -> bool {
        let mut configuration = [0_u64; 3];
        let place = configuration.as_mut_ptr().expose_provenance();
        if request(GET_RSEQ, self.tid, size_of_val(&configuration), place).is_err() {
            return false;
        }
        // `struct rseq`: two numbers of four bytes, then the address of a description: version and flags, start, length.
        let described = word(configuration[0].wrapping_add(8)).filter(|at| *at != 0);
        let Some(at) = described else { return false };
        let (Some(start), Some(bytes)) = (word(at.wrapping_add(8)), word(at.wrapping_add(16)))
        else {
            return true;
        };
        self.registers.rip.wrapping_sub(start) < bytes
    }

    /// Changes the signals that the thread blocks. Returns whether that was done.
    #[must_use]
    pub fn change_mask(&self, how: impl FnOnce(u64) -> u64) -> bool {
        let mut mask = 0_u64;
        let place = (&raw mut mask).expose_provenance();
        if request(GET_MASK, self.tid, size_of::<u64>(), place).is_err() {
            return false;
        }
        let changed = how(mask);
        let place = (&raw const changed).expose_provenance();
        request(SET_MASK, self.tid, size_of::<u64>(), place).is_ok()
    }

    /// Lets the thread go on as if nothing had been. Returns for how long it stood.
    pub fn let_go(self) -> Duration {
        // Nobody has sent it anything, so that the program must not see that its call was interrupted.
        if self.is_broken_off() && !self.has_signals && !self.is_halted {
            let mut anew = self.continuation();
            anew.orig_rax = u64::MAX;
            set_registers(self.tid, &anew);
        }
        detach(self.tid, 0);
        self.since.elapsed()
    }

    /// Lets the thread go on elsewhere. Returns for how long it stood; `None` if it is as it was.
    pub fn go_on_with(mut self, registers: &Registers) -> Option<Duration> {
        let mut registers = *registers;
        // One may have come since.
        self.has_signals |= has_signals(self.pid, self.tid);
        if self.has_signals && self.was_in_call().is_some() {
            self.let_go();
            return None;
        }
        // No call is begun anew by the kernel.
        registers.orig_rax = u64::MAX;
        let is_set = set_registers(self.tid, &registers);
        detach(self.tid, 0);
        is_set.then(|| self.since.elapsed())
    }

    fn result(&self) -> i64 {
        self.registers.rax.cast_signed()
    }

    fn was_in_call(&self) -> Option<u64> {
        let number = self.registers.orig_rax;
        (number.cast_signed() >= 0).then_some(number)
    }

    /// Whether it was in a system call that returns EINTR.
    fn is_broken_off(&self) -> bool {
        self.was_in_call().is_some() && self.result() == -i64::from(libc::EINTR)
    }
}

/// Waits for a thread that was asked to stop, and returns its status.
fn wait_for(tid: i32) -> Result<i32, NotStopped> {
    let mut status = 0;
    loop {
        // SAFETY: room for the answer.
        let waited = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
        match Errno::result(waited) {
            Ok(_) => return Ok(status),
            Err(Errno::EINTR) => {}
            Err(_) => return Err(NotStopped::Gone),
        }
    }
}

/// The same for a time. The kernel sends SIGCHLD when a thread has stopped.
fn wait_within(tid: i32, patience: Duration) -> Result<i32, NotStopped> {
    let deadline = Instant::now() + patience;
    let mut status = 0;
    // SAFETY: an empty set is made of any memory.
    let mut children: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: it is a signal set.
    unsafe { libc::sigaddset(&raw mut children, libc::SIGCHLD) };
    loop {
        // SAFETY: room for the answer.
        let waited = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
        match Errno::result(waited) {
            Ok(0) => {}
            Ok(_) => return Ok(status),
            Err(Errno::EINTR) => continue,
            Err(_) => return Err(NotStopped::Gone),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NotStopped::Busy);
        }
        let left = libc::timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        // SAFETY: a signal set and a time; nothing is asked about the signal. It returns early or late without harm.
        unsafe { libc::sigtimedwait(&raw const children, std::ptr::null_mut(), &raw const left) };
    }
}

fn detach(tid: i32, signal: i32) {
    request(libc::PTRACE_DETACH, tid, 0, signal.unsigned_abs() as usize).ok();
}

fn registers_of(tid: i32) -> Option<Registers> {
    // SAFETY: all zeros are valid.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    let place = (&raw mut registers).expose_provenance();
    request(libc::PTRACE_GETREGS, tid, 0, place).ok()?;
    Some(registers)
}

fn set_registers(tid: i32, registers: &Registers) -> bool {
    let place = std::ptr::from_ref(registers).expose_provenance();
    request(libc::PTRACE_SETREGS, tid, 0, place).is_ok()
}

/// Whether signals wait that the thread does not block.
fn has_signals(pid: u32, tid: i32) -> bool {
    let status = procfs::text(format!("/proc/{pid}/task/{tid}/status"));
    let status = status.unwrap_or_default();
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
            .unwrap_or(0)
    };
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}
