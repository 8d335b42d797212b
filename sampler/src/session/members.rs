//! Processes of a session that have not announced themselves yet.
//!
//! A child that was forked just before its parent ended, or a program that still loads its libraries, is not known, and nothing
//! but its environment tells that it belongs to the run.

use std::fs;

use rsys_wire::handshake::ENV_SESSION;

/// Whether a process that we may look at, zombies aside, has this session in its environment.
#[must_use]
pub fn any(session: &str) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else {
        return false;
    };
    let variable = format!("{ENV_SESSION}={session}").into_bytes();
    entries.flatten().any(|entry| {
        let is_process = entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit);
        is_process
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
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_by_its_environment_while_it_lives() {
        let session = format!("a-session-of-process-{}", std::process::id());
        assert!(!any(&session));
        let mut child = Command::new("cat")
            .env(ENV_SESSION, &session)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat runs");
        assert!(any(&session));
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        assert!(!any(&session));
    }
}
