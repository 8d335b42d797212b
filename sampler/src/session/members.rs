//! Processes of a session that have not announced themselves yet.
//!
//! A child that was forked just before its parent ended, or a program that still loads its libraries, is not known, and nothing
//! but its environment tells that it belongs to the run.

use std::fs;

use rsys_wire::handshake::ENV_SESSION;

/// Whether a process that we may look at, zombies aside, has this session in its environment.
///
/// Only process ids above `first` are looked at: those of a run are younger than its command. (After a wrap of the ids some are
/// not; then a straggler may be missed.)
#[must_use]
pub fn any(session: &str, first: u32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else {
        return false;
    };
    let variable = format!("{ENV_SESSION}={session}").into_bytes();
    entries.flatten().any(|entry| {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        pid.is_some_and(|pid| pid > first)
            && fs::read(entry.path().join("environ")).is_ok_and(|environment| {
                environment
                    .split(|byte| *byte == 0)
                    .any(|entry| entry == variable)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_by_its_environment_while_it_lives() {
        let session = format!("a-session-of-process-{}", std::process::id());
        assert!(!any(&session, 0));
        let mut child = Command::new("cat")
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
        assert!(any(&session, 0));
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        assert!(!any(&session, 0));
    }
}
