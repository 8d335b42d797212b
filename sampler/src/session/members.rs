//! Processes of a session that have not announced themselves yet.
//!
//! A child that was forked just before its parent ended, or a program that still loads its libraries, is not known, and nothing
//! but its environment tells that it belongs to the run.

use std::fs::{self, File};
use std::io::Read;

use rsys_wire::handshake::ENV_SESSION;

use crate::os;
use crate::proc;

/// What is read of an environment at once: most are shorter.
const CHUNK_BYTES: usize = 32 << 10;

/// Which processes are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// All of the session.
    All,
    /// Those whose agent waits until there is something to record: they catch its signal. Or that have not come so far as to load it.
    Unborn,
}

/// Whether a process that we may look at, zombies aside, has this session in its environment.
///
/// Only process ids above `first` are looked at: those of a run are younger than its command. (After a wrap of the ids some are
/// not; then a straggler may be missed.) Where hundreds of ranks end at once, each looks at all the others: it has to be cheap.
#[must_use]
pub fn any(session: &str, first: u32, which: Members) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else {
        return false;
    };
    let variable = format!("\0{ENV_SESSION}={session}\0").into_bytes();
    let mut environment = vec![0; 1 + CHUNK_BYTES];
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|&pid| pid > first) else {
            return false;
        };
        File::open(entry.path().join("environ"))
            .is_ok_and(|file| holds(file, &variable, &mut environment))
            && (which == Members::All || proc::catches_samples(pid) || is_coming_up(pid))
    })
}

/// Whether a process does not wait for anything and has hardly done anything yet: on a busy machine it may take a while to load its
/// libraries, ours among them.
fn is_coming_up(pid: u32) -> bool {
    /// More than it takes to get there.
    const TICKS: u64 = 20;
    proc::state_and_ticks(&pid.to_string())
        .is_some_and(|(state, ticks)| matches!(state, 'R' | 'D') && ticks < TICKS)
}

/// Whether an environment has a variable, which is given with a NUL on both sides. `buffer` is memory to work in.
fn holds(mut file: File, variable: &[u8], buffer: &mut Vec<u8>) -> bool {
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
            return os::contains(&buffer[..length], variable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_by_its_environment_while_it_lives() {
        let session = format!("a-session-of-process-{}", std::process::id());
        assert!(!any(&session, 0, Members::All));
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
        let state = || proc::state_and_ticks(&child.id().to_string()).map(|(state, _)| state);
        while state() != Some('S') {
            std::thread::yield_now();
        }
        assert!(!any(&session, 0, Members::Unborn));
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        assert!(!any(&session, 0, Members::All));
    }
}
