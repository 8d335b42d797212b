//! The command line, as a user meets it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rsys_tests::{
    Run, Scratch, Terminal, TestResult, Workload, is_root, script, skip_if_missing, workload,
};

fn brief() -> Workload {
    workload("rate").args(["--seconds", "0.1"])
}

#[test]
fn help_names_the_options() -> TestResult {
    let outcome = Run::new().options(["--help"]).command("true").run()?;
    outcome.expect_success();
    for option in [
        "--follow",
        "--linger",
        "--unwinder",
        "-f",
        "-o",
        "-c",
        "-I",
        "-E",
        "-v",
    ] {
        assert!(
            outcome.stdout.contains(option),
            "{option} is missing:\n{}",
            outcome.stdout
        );
    }
    Ok(())
}

#[test]
fn a_wrong_option_names_the_nearest_one() -> TestResult {
    for (wrong, nearest) in [
        (&["--folow", "all"][..], "--follow"),
        (&["--follow", "exce"], "exec"),
        (&["--unwinder", "framehob"], "framehop"),
    ] {
        let outcome = Run::new().options(wrong).command(brief()).run()?;
        assert!(
            !outcome.status.success() && outcome.stderr.contains(nearest),
            "{wrong:?}\n{}",
            outcome.story()
        );
        assert!(
            outcome.stdout.is_empty(),
            "the program ran in spite of {wrong:?}"
        );
    }
    for rate in ["0", "-5", "many"] {
        let outcome = Run::new().options(["-f", rate]).command(brief()).run()?;
        assert!(
            !outcome.status.success() && outcome.stderr.contains(rate),
            "-f {rate}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn no_command_is_an_error() -> TestResult {
    let outcome = Run::new().command(rsys_tests::Invocation::new("")).run()?;
    assert!(!outcome.status.success());
    Ok(())
}

#[test]
fn a_missing_command_and_one_that_cannot_run() -> TestResult {
    let outcome = Run::new().command("no-such-program-here --x").run()?;
    outcome.expect_code(127);
    assert!(
        outcome.stderr.contains("no-such-program-here"),
        "{}",
        outcome.story()
    );
    let scratch = Scratch::new("no-program")?;
    let file = scratch.path().join("no-program");
    fs::write(&file, "true")?;
    let outcome = Run::new()
        .command(rsys_tests::Invocation::new(&file))
        .run()?;
    outcome.expect_code(126);
    assert!(outcome.stderr.contains("no-program"), "{}", outcome.story());
    assert!(outcome.files().is_empty(), "{}", outcome.story());
    Ok(())
}

#[test]
fn the_default_output_is_named_after_the_command() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .default_output()
        .command(brief())
        .run()?;
    let trace = outcome.expect_success().trace()?;
    let parent = trace.path().parent().and_then(Path::parent);
    assert_eq!(
        parent,
        Some(outcome.scratch.path().join("rsys-rate-output").as_path())
    );
    Ok(())
}

#[test]
fn nothing_is_overwritten() -> TestResult {
    let scratch = Scratch::new("output")?;
    let run = Run::new()
        .freq(1000)
        .output(scratch.path())
        .env("PMI_RANK", "0")
        .command(brief());
    for times in 1..=3 {
        let outcome = run.run()?;
        assert_eq!(
            outcome.expect_success().files().len(),
            times,
            "{}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn input_output_and_environment_are_the_programs_own() -> TestResult {
    let outcome = Run::new().command("cat").input("one\ntwo\n").run()?;
    assert_eq!(outcome.expect_success().stdout, "one\ntwo\n");
    let outcome = Run::new()
        .command(script("echo to stderr >&2; echo \"$MARK $PWD $(umask)\""))
        .env("MARK", "a  b")
        .folder("/")
        .run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        format!(
            "a  b / {}",
            Run::bare().command(script("umask")).run()?.stdout
        )
    );
    assert!(
        outcome.stderr.starts_with("to stderr\n"),
        "{}",
        outcome.story()
    );
    // The same descriptors are open as without us, for the program and its children.
    let listing = || script("ls /proc/self/fd");
    assert_eq!(
        Run::new().command(listing()).run()?.stdout,
        Run::bare().command(listing()).run()?.stdout
    );
    Ok(())
}

#[test]
fn options_end_where_the_command_begins() -> TestResult {
    let outcome = Run::new()
        .command(script("echo \"$0\" \"$@\"").args(["-f", "--help", "--"]))
        .run()?;
    assert_eq!(outcome.expect_success().stdout, "-f --help --\n");
    Ok(())
}

/// A folder that is not there yet is made behind a link as well, and what goes to the null device is not kept.
#[test]
fn output_goes_where_links_lead_or_nowhere() -> TestResult {
    let scratch = std::env::temp_dir().join(format!("rsys-links-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let path = |name: &str| scratch.join(name);
    for (name, to) in [
        ("link", "link2"),
        ("link2", "far/away"),
        ("forgotten", "/dev/null"),
    ] {
        std::os::unix::fs::symlink(to, path(name))?;
    }
    let outcome = Run::new().output(path("link")).command(brief()).run()?;
    outcome.expect_success();
    let latest = path("far/away/latest");
    assert!(latest.is_dir(), "{}", outcome.story());
    let names = || -> std::io::Result<Vec<_>> {
        let mut names = fs::read_dir(&scratch)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let before = names()?;
    for output in ["/dev/null".into(), path("forgotten")] {
        for option in ["--trace", "--profile", "--merge"] {
            let run = Run::new().output(&output).options([option]);
            let outcome = run.command(brief()).run()?;
            outcome.expect_success();
            let told = "taken and none kept, for the output is /dev/null (-o)";
            assert!(outcome.stderr.contains(told), "{}", outcome.story());
        }
    }
    assert_eq!(names()?, before);
    fs::remove_dir_all(&scratch)?;
    Ok(())
}

#[test]
fn an_existing_preload_is_kept() -> TestResult {
    let early = workload("early").build()?.with_file_name("libearly.so");
    let outcome = Run::new()
        .freq(500)
        .env("LD_PRELOAD", &early)
        .command(brief())
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert!(
        trace.shares()?.total_share("early_worker") > 0.05,
        "{:?}",
        trace.shares()?.top(10)
    );
    Ok(())
}

#[test]
fn a_static_program_runs_and_the_reason_is_told() -> TestResult {
    let program = workload("rate")
        .flags(["-O2", "-static"])
        .args(["--seconds", "0.1"]);
    let outcome = Run::new().command(program).run()?;
    assert!(outcome.expect_success().number("cpu")? > 0.09);
    let mut lines = outcome.stderr.lines();
    let is_named = |line: &str| {
        line.starts_with("rsys: no trace: ") && line.contains(" is statically linked, ")
    };
    assert!(lines.any(is_named), "{}", outcome.story());
    Ok(())
}

#[test]
fn a_setuid_program_runs_and_the_reason_is_told() -> TestResult {
    skip_if_missing!(
        (!is_root()).then(|| "only root can make a setuid program of somebody else".to_owned())
    );
    let scratch = Scratch::new("setuid")?;
    let program = scratch.path().join("rate");
    fs::copy(workload("rate").build()?, &program)?;
    std::os::unix::fs::chown(&program, Some(65534), Some(65534))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755))?;
    let outcome = Run::new()
        .command(rsys_tests::Invocation::new(&program).args(["--seconds", "0.1"]))
        .run()?;
    assert!(outcome.expect_success().number("cpu")? > 0.09);
    assert!(outcome.stderr.contains("setuid"), "{}", outcome.story());
    Ok(())
}

#[test]
fn an_output_that_cannot_be_made_is_told_before_the_run() -> TestResult {
    let scratch = Scratch::new("blocked")?;
    let file = scratch.path().join("a-file");
    fs::write(&file, "")?;
    let outcome = Run::new()
        .output(file.join("below"))
        .command(brief())
        .run()?;
    assert!(outcome.stderr.contains("a-file"), "{}", outcome.story());
    // Either it refuses at once, or it runs the program and says that nothing is recorded: never a run that is lost.
    assert!(
        !outcome.status.success() || outcome.stdout.contains("cpu="),
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_full_disk_does_not_cost_the_run() -> TestResult {
    skip_if_missing!((!is_root()).then(|| "only root can mount a small disk".to_owned()));
    // It is full while the program runs, and when the trace is ended.
    for kilobytes in [8, 16] {
        fill(&SmallDisk::mount(kilobytes)?)?;
    }
    Ok(())
}

fn fill(disk: &SmallDisk) -> TestResult {
    let program = workload("imagery").args(["60"]);
    let outcome = Run::new()
        .freq(4000)
        .output(disk.0.path())
        .command(program)
        .run()?;
    assert!(
        outcome.expect_success().stdout.contains("60 frames"),
        "{}",
        outcome.story()
    );
    let told =
        outcome.stderr.contains("perfetto-trace-") && outcome.stderr.contains("No space left");
    assert!(
        told,
        "neither the file nor the cause is named\n{}",
        outcome.story()
    );
    for file in outcome.files() {
        rsys_tests::Trace::load(&file, None)?.assert_valid_prefix();
    }
    Ok(())
}

/// A file system with little room.
struct SmallDisk(Scratch);

impl SmallDisk {
    fn mount(kilobytes: u32) -> anyhow::Result<Self> {
        let disk = Self(Scratch::new("disk")?);
        let mut mount = Command::new("mount");
        let status = mount
            .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"])
            .arg(disk.0.path())
            .status()?;
        anyhow::ensure!(status.success(), "cannot mount a small disk");
        Ok(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = Command::new("umount").arg(self.0.path()).status() {
            eprintln!("cannot unmount: {error}");
        }
    }
}

#[test]
fn control_c_in_a_terminal() -> TestResult {
    let program = workload("ends").args(["wait"]);
    let mut terminal = Terminal::start(&Run::new().freq(500).command(program))?;
    terminal.wait_for("ready")?;
    terminal.press(&[3])?;
    let (status, screen) = terminal.wait()?;
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(libc::SIGINT),
        "{status}\n{screen}"
    );
    assert!(screen.contains(" weighted), "), "no summary:\n{screen}");
    Ok(())
}

#[test]
fn a_program_that_handles_control_c_itself() -> TestResult {
    let line = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start(&Run::new().command(script(line)))?;
    terminal.wait_for("ready")?;
    terminal.press(&[3])?;
    let (status, screen) = terminal.wait()?;
    assert_eq!(status.code(), Some(5), "{screen}");
    // Once, not twice: the terminal has signalled the program already.
    assert_eq!(screen.matches("caught").count(), 1, "{screen}");
    Ok(())
}

#[test]
fn the_terminal_is_a_terminal() -> TestResult {
    let line = "test -t 0 && test -t 1 && test -t 2 && stty -a >/dev/null && echo all-terminals";
    let (status, screen) = Terminal::start(&Run::new().command(script(line)))?.wait()?;
    assert!(
        status.success() && screen.contains("all-terminals"),
        "{status}\n{screen}"
    );
    Ok(())
}
