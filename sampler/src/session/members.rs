//! Processes of a session that have not announced themselves yet.
//!
//! A child that was forked just before its parent ended, or a program that still loads its
//! libraries, is not known, and only its environment shows that it belongs to the run.

use std::fs::{self, File};
use std::io::Read;

use nix::errno::Errno;
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
use rsys_wire::handshake::ENV_SESSION;

use crate::os;
use crate::procfs;

/// What is read of an environment at once: most are shorter.
const CHUNK_BYTES: usize = 32 << 10;

/// So many ids are asked for one by one: listing all processes takes longer.
const FEW: u32 = 256;

/// Which processes are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// All of the session.
    All,
    /// Those whose agent waits until there is something to record: they catch its signal. Or that
    /// have not come so far as to load it.
    Deferred,
}

/// Whether a process that we may look at, zombies aside, has this session in its environment.
///
/// Only process ids that were given since `first` are looked at: those of a run are younger than
/// its command. Where hundreds of ranks end at once, each looks at all the others: it has to be
/// cheap.
#[must_use]
pub fn any(session: &str, first: u32, which: Members) -> bool {
    let mut is_one = is_one_of(session, which);
    let mut next = first.saturating_add(1);
    while is_kernels_own()
        && let Some(last) = procfs::last_pid()
        && last >= first
        && last - first <= FEW
    {
        if next > last {
            return false;
        }
        if (next..=last)
            .filter(|&pid| is_process(pid))
            .any(&mut is_one)
        {
            return true;
        }
        // What one of these has forked meanwhile is younger.
        next = last + 1;
    }
    let Ok(entries) = fs::read_dir("/proc") else {
        return false;
    };
    let last = procfs::last_pid().unwrap_or(u32::MAX);
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| is_since(pid, first, last))
        .any(is_one)
}

/// A test whether a process belongs to the session.
fn is_one_of(session: &str, which: Members) -> impl FnMut(u32) -> bool {
    let variable = format!("\0{ENV_SESSION}={session}\0").into_bytes();
    let mut environment = vec![0; 1 + CHUNK_BYTES];
    move |pid: u32| {
        let Ok(file) = File::open(format!("/proc/{pid}/environ")) else {
            return false;
        };
        match found_in(file, &variable, &mut environment) {
            Found::Yes => {
                which == Members::All || procfs::catches_samples(pid) || is_coming_up(pid)
            }
            Found::No => false,
            // In the midst of an exec there is none yet; on a busy machine that takes a while. It
            // may be any program.
            Found::Nothing => is_coming_up(pid) && !procfs::is_kernel_thread(pid),
        }
    }
}

/// Whether `/proc` tells of our process ids, and the kernel itself says which came last: in containers another program may (lxcfs).
fn is_kernels_own() -> bool {
    let is_proc =
        statfs("/proc/loadavg").is_ok_and(|file| file.filesystem_type() == PROC_SUPER_MAGIC);
    let own = fs::read_link("/proc/self");
    let own = own.ok().and_then(|own| own.to_str()?.parse::<u32>().ok());
    is_proc && own == Some(std::process::id())
}

/// Whether there may be a process of this id. That of a thread is none.
fn is_process(pid: u32) -> bool {
    // ENOENT is what newer kernels say of a thread. Old ones know no such call.
    !matches!(
        os::pidfd_open(pid),
        Err(Errno::ESRCH | Errno::EINVAL | Errno::ENOENT)
    )
}

/// Whether a process id was given since `first` was, when `last` is the newest. The ids begin anew
/// when they are used up.
fn is_since(pid: u32, first: u32, last: u32) -> bool {
    if last >= first {
        pid > first
    } else {
        pid > first || pid <= last
    }
}

/// Whether a process does not wait for anything and has hardly done anything yet: on a busy machine
/// it may take a while to load its libraries, ours among them.
fn is_coming_up(pid: u32) -> bool {
    /// More than it takes to get there.
    const TICKS: u64 = 20;
    procfs::state_and_ticks(&pid.to_string())
        .is_some_and(|(state, ticks)| matches!(state, 'R' | 'D') && ticks < TICKS)
}

/// What an environment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Yes,
    No,
    /// There is none.
    Nothing,
}

/// Whether an environment has a variable, which is given with a NUL on both sides. `buffer` is
/// memory to work in.
fn found_in(mut file: File, variable: &[u8], buffer: &mut Vec<u8>) -> Found {
    // In front of the first variable there is none.
    let mut length = 1;
    buffer[0] = 0;
    loop {
        if buffer.len() - length < CHUNK_BYTES {
            buffer.resize(length + CHUNK_BYTES, 0);
        }
        let room = buffer.len() - length;
        // One that ends meanwhile has nothing more to say.
        let count = file.read(&mut buffer[length..]).unwrap_or(0);
        length += count;
        // The kernel fills what it is given, unless that is the end.
        if count < room {
            return match os::contains(&buffer[..length], variable) {
                true => Found::Yes,
                false if length == 1 => Found::Nothing,
                false => Found::No,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn ids_that_began_anew_are_younger() {
        for (pid, first, last, expected) in [
            (8, 7, 100, true),
            (7, 7, 100, false),
            (6, 7, 100, false),
            (32_000, 31_000, 50, true),
            (50, 31_000, 50, true),
            (51, 31_000, 50, false),
            (30_000, 31_000, 50, false),
        ] {
            assert_eq!(is_since(pid, first, last), expected, "{pid} {first} {last}");
        }
    }

    #[test]
    fn a_child_is_found_by_its_environment_while_it_lives() {
        let session = format!("a-session-of-process-{}", std::process::id());
        // Any other process may be in the midst of an exec: what is not found is judged on the child alone.
        let is_found = |pid, which| is_one_of(&session, which)(pid);
        assert!(!is_found(std::process::id(), Members::All));
        let mut child = Command::new("cat")
            .env("A", "x".repeat(3 * CHUNK_BYTES))
            .env(ENV_SESSION, &session)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat runs");
        // Once it answers, it has its environment.
        let mut answer = [0; 3];
        let input = child.stdin.as_mut().expect("a pipe");
        input.write_all(b"hi\n").expect("cat reads");
        let output = child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut answer).expect("cat answers");
        assert!(any(&session, 0, Members::All));
        // It has no agent; while it runs it could get one.
        let state = || procfs::state_and_ticks(&child.id().to_string()).map(|(state, _)| state);
        while state() != Some('S') {
            std::thread::yield_now();
        }
        assert!(!is_found(child.id(), Members::Deferred));
        assert!(is_found(child.id(), Members::All));
        // All processes are listed, or the few that came after one are asked for.
        assert!(any(&session, child.id() - 1, Members::All));
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        assert!(!is_found(child.id(), Members::All));
    }
}
