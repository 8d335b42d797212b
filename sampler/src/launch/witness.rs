//! A witness of the signals that are sent to our whole process group.
//!
//! A process cannot distinguish a signal that was sent to it alone from one that was sent to its
//! process group. What the group got, the target got too; what we alone got is to be passed on to
//! it. So a tiny process of ours stands in the same group with every signal blocked. Asked, it says
//! which were pending.
//!
//! It is forked, not executed; holds no descriptor but its end of a socket; and ends with us,
//! however we end.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};

use crate::os;

/// Signals that one answer has room for: each of the standard ones, and some that queue.
const MOST: usize = 64;
/// Words of an answer: the time, and [`OF_ONE`] for each signal.
const WORDS: usize = 1 + OF_ONE * MOST;
const OF_ONE: usize = 4;

/// A signal that somebody sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub signal: i32,
    /// Process id of the sender.
    pub sender: i32,
    /// What it sent along (sigqueue(3)), if it did.
    pub value: Option<u64>,
}

/// What the witness got since it was asked before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// When it looked, CLOCK_MONOTONIC in nanoseconds.
    pub looked_ns: u64,
    /// The signals.
    pub sent: Vec<Sent>,
}

/// The witness. It ends when this is dropped.
#[derive(Debug)]
pub struct Witness {
    pid: Pid,
    channel: OwnedFd,
}

impl Witness {
    /// Forks it.
    ///
    /// # Errors
    /// When there can be no further process.
    pub fn call() -> Result<Self, Errno> {
        let (channel, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let us = Pid::this();
        let arguments = os::own_arguments();
        // SAFETY: the child makes system calls only, on memory of its own.
        match unsafe { fork() }? {
            ForkResult::Child => serve(us, theirs.as_raw_fd(), arguments),
            ForkResult::Parent { child } => Ok(Self {
                pid: child,
                channel,
            }),
        }
    }

    /// Asks. The answer comes by the descriptor. Returns false when the witness is gone.
    pub fn ask(&self) -> bool {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let question = [IoSlice::new(b"?")];
        sendmsg::<()>(self.channel.as_raw_fd(), &question, &[], flags, None).is_ok()
    }

    /// The answer, if it is there.
    ///
    /// # Errors
    /// `EAGAIN` when it is not, another when the witness is gone.
    pub fn answer(&self) -> Result<Answer, Errno> {
        let mut bytes = [0; WORDS * 8];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let length = recvmsg::<()>(self.channel.as_raw_fd(), &mut parts, None, flags)?.bytes;
        let mut words = bytes
            .get(..length)
            .unwrap_or(&[])
            .chunks_exact(8)
            .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
        // Nothing at all is the end.
        let looked_ns = words.next().ok_or(Errno::EPIPE)?;
        let mut sent = Vec::new();
        let mut next = || Some([words.next()?, words.next()?, words.next()?, words.next()?]);
        while let Some([signal, sender, code, value]) = next() {
            sent.push(Sent {
                signal: signal as i32,
                sender: sender as i32,
                value: (code as i32 == libc::SI_QUEUE).then_some(value),
            });
        }
        Ok(Answer { looked_ns, sent })
    }
}

impl AsFd for Witness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // It may be gone already; then it only has to be reaped.
        kill(self.pid, Signal::SIGKILL).ok();
        waitpid(self.pid, None).ok();
    }
}

/// The witness's life.
///
/// # Signal safety
/// System calls only: in the child of a fork, other threads may have held locks.
fn serve(parent: Pid, channel: RawFd, arguments: std::ops::Range<usize>) -> ! {
    // SAFETY: plain system calls with numbers, NUL-terminated strings and objects on this stack; the arguments' memory is this process's
    // own, and nothing reads it.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // We may have died before.
        if libc::getppid() != parent.as_raw() {
            libc::_exit(0);
        }
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        close_all_but(channel);
        libc::chdir(c"/".as_ptr());
        // Whoever looks for us by our name or command line, to send us a signal, does not mean the
        // witness.
        libc::prctl(libc::PR_SET_NAME, c"rsys-witness".as_ptr());
        let words = std::ptr::with_exposed_provenance_mut::<u8>(arguments.start);
        let name = b"rsys-witness";
        words.write_bytes(0, arguments.len());
        words.copy_from(
            name.as_ptr(),
            name.len().min(arguments.len().saturating_sub(1)),
        );
        loop {
            let mut question = 0_u8;
            match libc::read(channel, (&raw mut question).cast(), 1) {
                1 => answer(channel, &all),
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(0),
            }
        }
    }
}

/// # Safety
/// For [`serve`].
unsafe fn answer(channel: RawFd, all: &libc::sigset_t) {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut words = [0_u64; WORDS];
    let mut count = 1;
    let mut now = at_once;
    // SAFETY: objects on this stack.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while count + OF_ONE <= WORDS
            && libc::sigtimedwait(&raw const *all, &raw mut info, &raw const at_once) > 0
        {
            if let (true, Some([signal, sender, code, value])) = (
                is_from_a_process(info.si_code),
                words.get_mut(count..count + OF_ONE),
            ) {
                *signal = info.si_signo as u64;
                *sender = info.si_pid() as u64;
                *code = info.si_code as u64;
                *value = info.si_value().sival_ptr.addr() as u64;
                count += OF_ONE;
            }
        }
        words[0] = os::nanoseconds(now);
        libc::write(channel, words.as_ptr().cast(), count * 8);
    }
}

/// Whether a process sent a signal with this `si_code`, not the kernel.
#[must_use]
pub fn is_from_a_process(code: i32) -> bool {
    matches!(code, libc::SI_USER | libc::SI_TKILL | libc::SI_QUEUE)
}

/// # Safety
/// The descriptors of this process must be nobody's.
unsafe fn close_all_but(kept: RawFd) {
    let kept_number = kept.unsigned_abs();
    // SAFETY: numbers only.
    unsafe {
        let close_range = |first: u32, last: u32| {
            first > last || libc::syscall(libc::SYS_close_range, first, last, 0) == 0
        };
        if kept_number > 0
            && close_range(0, kept_number - 1)
            && close_range(kept_number + 1, u32::MAX)
        {
            return;
        }
        // Before Linux 5.9.
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        for fd in 0..limit.rlim_cur.min(1 << 20) as RawFd {
            if fd != kept {
                libc::close(fd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn answer_of(witness: &Witness) -> Answer {
        assert!(witness.ask());
        let mut descriptors = [PollFd::new(witness.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptors, PollTimeout::NONE).expect("an answer");
        witness.answer().expect("an answer")
    }

    #[test]
    fn it_says_what_it_was_sent_once() {
        let witness = Witness::call().expect("a process");
        assert_eq!(answer_of(&witness).sent, []);
        for signal in [Signal::SIGUSR1, Signal::SIGTERM, Signal::SIGUSR1] {
            kill(witness.pid, signal).expect("it lives");
        }
        let sender = Pid::this().as_raw();
        let sent = |signal: Signal| Sent {
            signal: signal as i32,
            sender,
            value: None,
        };
        let mut answer = answer_of(&witness).sent;
        answer.sort_by_key(|sent| sent.signal);
        assert_eq!(answer, [sent(Signal::SIGUSR1), sent(Signal::SIGTERM)]);
        assert_eq!(answer_of(&witness).sent, []);
    }

    #[test]
    fn its_end_is_seen() {
        let witness = Witness::call().expect("a process");
        kill(witness.pid, Signal::SIGKILL).expect("it lives");
        let mut descriptors = [PollFd::new(witness.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptors, PollTimeout::NONE).expect("the end");
        assert_eq!(witness.answer(), Err(Errno::EPIPE));
    }
}
