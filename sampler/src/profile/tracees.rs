//! Threads that have made us their tracer (`ptrace(PTRACE_TRACEME)`, as programs do that want to know whether a debugger has them). Each signal
//! stops them until their tracer says what becomes of it, and their process does not end before their tracer has taken note of their end. Both
//! are passed on as without a tracer. Exception: a SIGTRAP that a program sends itself by `kill` is dropped, for it cannot be told from the one that the kernel sends for an `exec`.

use std::fs;

use crate::procfs;

/// Changes that are taken at once: other work waits meanwhile.
const AT_ONCE: usize = 256;

/// Lets tracees go on that have stopped, and takes note of the ends of those that are not `child`, whose end is its run's. To be called by the
/// thread that started them.
pub fn release(child: i32) {
    for _ in 0..AT_ONCE {
        let Some(changed) = changed((libc::P_ALL, 0), libc::WEXITED | libc::WSTOPPED) else {
            return;
        };
        if changed.tid == child && changed.has_ended {
            return;
        }
        if !is_ours(changed.tid) {
            // Another child is reported first, and may hide this one and its threads.
            return release_each(child);
        }
        if !proceed(changed.tid) {
            return;
        }
    }
}

/// The same for the threads of a process, each of which is asked.
fn release_each(process: i32) {
    let id = libc::id_t::from(process.unsigned_abs());
    if is_ours(process) && changed((libc::P_PID, id), libc::WSTOPPED).is_some() {
        proceed(process);
    }
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        return;
    };
    let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    for tid in tids.filter(|tid| *tid != process && is_ours(*tid)) {
        proceed(tid);
    }
}

/// A child of ours, or a thread of one that we trace, of which something is new.
#[derive(Debug)]
struct Changed {
    tid: i32,
    has_ended: bool,
}

/// One of those with such a change, which is left to be taken.
fn changed((kind, id): (libc::idtype_t, libc::id_t), changes: i32) -> Option<Changed> {
    let wanted = changes | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: all of it is numbers, for which 0 is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a valid place for the answer.
    let result = unsafe { libc::waitid(kind, id, &raw mut info, wanted) };
    // SAFETY: it was filled for a child, or left as it was.
    let tid = unsafe { info.si_pid() };
    let has_ended = ![libc::CLD_STOPPED, libc::CLD_TRAPPED].contains(&info.si_code);
    (result == 0 && tid != 0).then_some(Changed { tid, has_ended })
}

/// Whether we trace a thread.
fn is_ours(tid: i32) -> bool {
    let status = procfs::text(format!("/proc/{tid}/status"));
    status.is_ok_and(|status| procfs::tracer(&status) == Some(std::process::id()))
}

/// Takes what is new of a tracee, which goes on if it has stopped. Returns whether there was something.
fn proceed(tid: i32) -> bool {
    let mut status = 0;
    let wanted = libc::WNOHANG | libc::WUNTRACED | libc::__WALL;
    // SAFETY: `status` is a valid place for the answer.
    if unsafe { libc::waitpid(tid, &raw mut status, wanted) } != tid {
        return false;
    }
    if libc::WIFSTOPPED(status) {
        go_on(tid, libc::WSTOPSIG(status));
    }
    true
}

/// Lets a thread go on from a stop with a signal.
fn go_on(tid: i32, signal: i32) {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: all of it is numbers, for which 0 is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a valid place for the answer.
    let answer = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid, none, &raw mut info) };
    let (request, signal) = match answer {
        // What the kernel sends for a program that was executed is for a tracer only.
        0 if signal == libc::SIGTRAP && info.si_code == libc::SI_USER => (libc::PTRACE_CONT, 0),
        0 => (libc::PTRACE_CONT, signal),
        // A stop without a signal is one of the whole process, which ends without us only if we do not trace it.
        _ => (libc::PTRACE_DETACH, signal),
    };
    let signal = std::ptr::without_provenance_mut::<libc::c_void>(signal as usize);
    // SAFETY: neither request reads memory of ours; the last argument is a number. One that is gone meanwhile does not matter.
    unsafe { libc::ptrace(request, tid, none, signal) };
}
