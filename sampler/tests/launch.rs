//! What a command notices of `rsys-sample`: nothing.

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use common::{Folder, heed_the_terminal, sampler, stderr};

/// Standard output of a shell script with and without us.
fn outputs(folder: &Folder, script: &str) -> (String, String) {
    let mut plain = Command::new("sh");
    heed_the_terminal(&mut plain);
    let plain = plain.args(["-c", script]).output().unwrap();
    let sampled = sampler(folder)
        .args(["-q", "--", "sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(
        sampled.status.code(),
        plain.status.code(),
        "{script}: {}",
        stderr(&sampled)
    );
    (
        String::from_utf8_lossy(&plain.stdout).into_owned(),
        String::from_utf8_lossy(&sampled.stdout).into_owned(),
    )
}

#[test]
fn the_command_gets_what_it_would_have_got() {
    let folder = Folder::new("same");
    for script in [
        "echo hello; exit 3",
        "umask; pwd; ulimit -a",
        "ls -l /proc/self/fd | wc -l",
        // Without the two signals that the C library keeps for itself.
        "grep -E 'Sig(Blk|Cgt)|NoNewPrivs' /proc/self/status",
        "grep SigIgn /proc/self/status | tail -c 8",
        "ps -o pgid= -p $$ | wc -l",
        "kill -PIPE $$; echo not reached",
        "exit 255",
    ] {
        let (plain, sampled) = outputs(&folder, script);
        assert_eq!(sampled, plain, "{script}");
    }
}

#[test]
fn the_environment_keeps_its_order() {
    let folder = Folder::new("environment");
    let output = sampler(&folder)
        .env("ZEBRA", "1")
        .env("APPLE", "2")
        .args(["-q", "--", "env"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ours = |line: &&str| !line.starts_with("RSYS_AGENT_SE") && !line.starts_with("LD_PRELOAD=");
    let sampled: Vec<_> = text.lines().filter(ours).collect();
    let mut expected = Command::new("env");
    expected.envs(std::env::vars_os());
    let plain = sampler(&folder)
        .get_envs()
        .fold(expected, |mut command, (name, value)| {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
            command
        })
        .env("ZEBRA", "1")
        .env("APPLE", "2")
        .output()
        .unwrap();
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert_eq!(sampled, plain.lines().collect::<Vec<_>>());
}

#[test]
fn closed_descriptors_stay_closed() {
    let folder = Folder::new("closed");
    let program = env!("CARGO_BIN_EXE_rsys-sample");
    let inner = format!(
        "exec '{program}' -q -c none -o '{}' -- sh -c 'test -e /proc/self/fd/0 && exit 1; exit 5' <&-",
        folder.path().display()
    );
    let mut command = Command::new("sh");
    for (name, value) in sampler(&folder).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.args(["-c", &inner]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
}

#[test]
fn a_fatal_signal_is_ours_too() {
    let folder = Folder::new("fatal");
    for signal in [
        libc::SIGTERM,
        libc::SIGSEGV,
        libc::SIGABRT,
        libc::SIGKILL,
        libc::SIGPIPE,
        libc::SIGRTMIN() + 3,
    ] {
        let script = format!("kill -{signal} $$");
        let output = sampler(&folder)
            .args(["--", "sh", "-c", &script])
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{}", stderr(&output));
    }
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [
        (libc::SIGTERM, "TERM"),
        (libc::SIGINT, "INT"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGHUP, "HUP"),
    ] {
        let folder = Folder::new("forward");
        let script =
            format!("trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.05; done");
        let mut child = sampler(&folder)
            .args(["-q", "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        BufRead::read_line(&mut stdout, &mut line).unwrap();
        // SAFETY: sends a signal to the program that this test started.
        unsafe { libc::kill(child.id() as i32, signal) };
        line.clear();
        BufRead::read_line(&mut stdout, &mut line).unwrap();
        assert_eq!(
            (line.as_str(), child.wait().unwrap().code()),
            ("got\n", Some(9)),
            "{name}"
        );
    }
}

#[test]
fn failures_have_the_codes_that_shells_use() {
    let folder = Folder::new("codes");
    let file = folder.path().join("data");
    std::fs::write(&file, "not a program").unwrap();
    let blocked = folder.path().join("data/below").display().to_string();
    let data = file.display().to_string();
    // arguments => code, part of the message
    let table: &[(&[&str], i32, &str)] = &[
        (
            &["--", "no-such-command-anywhere"],
            127,
            "command not found",
        ),
        (&["--", "/no/such/file"], 127, "not found"),
        (&["--", &data], 126, "chmod +x"),
        (&["record", "x"], 127, "has no commands of its own"),
        (&["--", "/tmp"], 126, "directory"),
        (
            &["-o", &blocked, "--", "true"],
            125,
            "choose a folder with -o",
        ),
        (&["--no-such-option", "--", "true"], 2, "no-such-option"),
        (&[], 2, ""),
    ];
    for (arguments, code, part) in table {
        let output = sampler(&folder).args(*arguments).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(*code),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(part),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_missing_agent_stops_before_the_command_starts() {
    let folder = Folder::new("agent");
    let witness = folder.path().join("witness");
    let output = sampler(&folder)
        .env("RSYS_AGENT_LIBRARY", "/nowhere/librsys_agent.so")
        .args(["--", "touch"])
        .arg(&witness)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("RSYS_AGENT_LIBRARY"),
        "{}",
        stderr(&output)
    );
    assert!(!witness.exists());
}

#[test]
fn a_static_program_runs_with_a_warning() {
    let folder = Folder::new("static");
    let source = folder.path().join("static.c");
    let program = folder.path().join("static");
    std::fs::write(&source, "int main(void) { return 4; }").unwrap();
    let built = Command::new("cc")
        .arg("-static")
        .arg("-o")
        .args([&program, &source])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("no compiler for static programs here");
        return;
    }
    let output = sampler(&folder).arg("--").arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("is statically linked: it runs, but cannot be sampled"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_script_without_a_first_line_runs_in_the_shell() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("script");
    let script = folder.path().join("script");
    std::fs::write(&script, "echo \"$1\"; exit 6\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = sampler(&folder)
        .args(["-q", "--"])
        .arg(&script)
        .arg("word")
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(6), b"word\n".as_slice()),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_stopped_command_goes_on() {
    let folder = Folder::new("stop");
    let script = "echo $$; kill -STOP $$; exit 8";
    let mut child = sampler(&folder)
        .args(["-q", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut pid).unwrap();
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.unwrap().contains(") T ")
    };
    while !is_stopped() {
        std::thread::yield_now();
    }
    assert!(child.try_wait().unwrap().is_none());
    // SAFETY: sends a signal to the program that this test started, which passes it on.
    unsafe { libc::kill(child.id() as i32, libc::SIGCONT) };
    assert_eq!(child.wait().unwrap().code(), Some(8));
}
