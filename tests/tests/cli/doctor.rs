//! What `--doctor` says: against the machine itself, against what a run then does, and of machines that are not here.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{self, Stack, hip_program};
use rsys_tests::{
    Invocation, Machine, Outcome, Run, Scratch, TestResult, avail, is_root, missing_tool, pythons,
    run_plain, sampler, skip_if_missing, workload,
};
use serde_json::Value;

/// A finding in JSON.
struct Finding(Value);

impl Finding {
    fn text(&self, column: &str) -> &str {
        self.0[column].as_str().unwrap_or("")
    }

    fn is(&self, level: &str) -> bool {
        self.text("level") == level
    }
}

/// The findings of an answer, which must end with 1 where there is a problem, and else with 0.
fn findings(outcome: &Outcome) -> Result<Vec<Finding>> {
    let document: Value = serde_json::from_str(&outcome.stdout).with_context(|| outcome.story())?;
    let rows = document["doctor"]["rows"].as_array().context("rows")?;
    let found: Vec<Finding> = rows.iter().cloned().map(Finding).collect();
    for one in &found {
        let level = one.text("level");
        ensure!(
            ["ok", "note", "warning", "problem"].contains(&level),
            "{level}"
        );
        ensure!(
            level == "ok" || !one.text("meaning").is_empty(),
            "without meaning: {}",
            one.0
        );
    }
    let has_problem = found.iter().any(|one| one.is("problem"));
    outcome.expect_code(i32::from(has_problem));
    Ok(found)
}

/// The only finding of this name.
fn only<'a>(found: &'a [Finding], name: &str) -> Result<&'a Finding> {
    let mut fitting = found.iter().filter(|one| one.text("name") == name);
    let first = fitting
        .next()
        .with_context(|| format!("no finding {name}"))?;
    ensure!(fitting.next().is_none(), "several findings {name}");
    Ok(first)
}

/// All findings of this name.
fn all<'a>(found: &'a [Finding], name: &'a str) -> impl Iterator<Item = &'a Finding> {
    found.iter().filter(move |one| one.text("name") == name)
}

/// Asks `rsys-avail`.
fn ask<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<Outcome> {
    run_plain(question().arg("--doctor").args(words))
}

fn question() -> Invocation {
    Invocation::new(avail().unwrap_or_default()).arg("--json")
}

/// Asks `rsys-sample` with its own options, behind which the program stands.
fn ask_sampler(words: &[&str]) -> Invocation {
    Invocation::new(sampler().unwrap_or_default())
        .args(["--doctor", "--json"])
        .args(words)
}

#[test]
fn it_says_what_the_machine_says() -> TestResult {
    let found = findings(&ask::<&str>([])?)?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    ensure!(only(&found, "kernel")?.text("finding") == format!("Linux {}", release.trim()));
    for name in [
        "agent",
        "ptrace",
        "perf clock",
        "context switches",
        "counters",
        "SMI library",
        "Slurm",
        "MPI",
        "output folder",
        "free space",
        "overhead",
    ] {
        only(&found, name)?;
    }
    // A default asks for nothing that may be missing.
    ensure!(!found.iter().any(|one| one.is("problem")));
    Ok(())
}

/// The sampler's command line is judged, and what stands behind it is not run.
#[test]
fn the_options_of_a_run_count() -> TestResult {
    let scratch = Scratch::new("doctor")?;
    let file = scratch.path().join("made");
    let config = scratch.path().join("counted.cfg");
    fs::write(&config, "RSYS_CPU_EVENTS = no-such-event\n")?;
    let config = config.display().to_string();
    for (words, asked_by) in [
        (&["-C", "page-faults,no-such-event"][..], "-C"),
        (&["-c", &config], "-C"),
        (&["--overflow", "no-such-event:100"], "--overflow"),
    ] {
        let command = ask_sampler(words).args(["--", "touch"]).arg(&file);
        let outcome = run_plain(command)?;
        let found = findings(&outcome)?;
        let mut events = all(&found, "event");
        let missing = events
            .find(|one| one.text("finding").starts_with("no-such-event"))
            .with_context(|| outcome.story())?;
        ensure!(missing.is("problem"), "{}", missing.0);
        ensure!(missing.0["asked_by"][0] == asked_by, "{}", missing.0);
        let touch = only(&found, "program")?;
        ensure!(touch.text("finding").ends_with("/touch"), "{}", touch.0);
        ensure!(!file.exists(), "the command was run");
    }
    let found = findings(&run_plain(ask_sampler(&["-C", "page-faults"]))?)?;
    ensure!(only(&found, "event")?.is("ok"));
    // The same settings by a variable, and by --set.
    let by_variable = question()
        .arg("--doctor")
        .env("RSYS_CPU_EVENTS", "no-such-event");
    ensure!(only(&findings(&run_plain(by_variable)?)?, "event")?.is("problem"));
    let by_set = question().args(["--set", "CPU_EVENTS=no-such-event", "--doctor"]);
    ensure!(only(&findings(&run_plain(by_set)?)?, "event")?.is("problem"));
    Ok(())
}

#[test]
fn wrong_words_are_told_apart_from_findings() -> TestResult {
    for words in [
        &["--doctor", "/no/such/program"][..],
        &["--doctor", "4294967290"],
        &["--doctor", "--set", "NO_SUCH_SETTING=1"],
    ] {
        run_plain(Invocation::new(avail()?).args(words))?.expect_code(2);
    }
    run_plain(ask_sampler(&["--no-such-option"]))?.expect_code(2);
    run_plain(Invocation::new(sampler()?).args(["--json", "true"]))?.expect_code(2);
    Ok(())
}

#[test]
fn for_the_eye_there_is_a_line_for_each_finding() -> TestResult {
    let outcome = run_plain(Invocation::new(avail()?).args(["--doctor", "-W", "80"]))?;
    let text = &outcome.expect_success().stdout;
    ensure!(text.contains("ok       kernel            Linux "), "{text}");
    ensure!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let sums = text.lines().last().context("a line")?;
    ensure!(sums.contains("0 problems"), "{sums}");
    Ok(())
}

/// A kernel that refuses is a warning where samples are frequent, and a problem for who insists.
#[test]
fn refused_perf_events_weigh_as_the_settings_need_them() -> TestResult {
    let machine = Machine::new(4, "0000000000000000")?;
    machine.kernel("* EACCES")?;
    for (words, level) in [
        (&[][..], "warning"),
        (&["-f", "100"], "note"),
        (&["--clock", "timer"], "note"),
        (&["--clock", "perf"], "problem"),
    ] {
        let command = ask_sampler(words).env("RSYS_AVAIL_ROOT", machine.root());
        let found = findings(&run_plain(command)?)?;
        let clock = only(&found, "perf clock")?;
        ensure!(clock.is(level), "{words:?}: {}", clock.0);
        ensure!(clock.text("finding") == "perf_event_paranoid is 4");
        ensure!(clock.text("remedy") == "sudo sysctl kernel.perf_event_paranoid=2");
    }
    let command = ask_sampler(&["--off-cpu"]).env("RSYS_AVAIL_ROOT", machine.root());
    ensure!(only(&findings(&run_plain(command)?)?, "context switches")?.is("problem"));
    Ok(())
}

/// Also a filter that ends who asks, as the run's own start is ended by it.
#[test]
fn a_filter_before_perf_events_is_seen() -> TestResult {
    for answer in ["errno", "kill"] {
        let ask = |words: &[&str]| {
            let command = ask_sampler(words);
            run_plain(Invocation::from(workload("deny_perf").args([answer])).program(command))
        };
        let found = findings(&ask(&[])?)?;
        let clock = only(&found, "perf clock")?;
        ensure!(clock.is("warning"), "{answer}: {}", clock.0);
        ensure!(clock.text("finding") == "a seccomp filter forbids perf_event_open");
        ensure!(clock.text("remedy").contains("--cap-add PERFMON"));
        ensure!(only(&found, "seccomp")?.is("note"));
        ensure!(only(&findings(&ask(&["--clock", "perf"])?)?, "perf clock")?.is("problem"));
    }
    Ok(())
}

#[test]
fn limits_are_those_of_the_process() -> TestResult {
    skip_if_missing!(missing_tool("prlimit"));
    let under = |limit: &str| -> Result<Vec<Finding>> {
        let command = Invocation::new("prlimit")
            .arg(limit)
            .program(ask_sampler(&[]));
        findings(&run_plain(command)?)
    };
    let found = under("--nofile=300")?;
    let files = only(&found, "open files")?;
    ensure!(files.is("note") && files.text("meaning").contains("75 threads"));
    let found = under("--sigpending=100")?;
    let signals = only(&found, "pending signals")?;
    ensure!(signals.is("warning") && signals.text("remedy") == "ulimit -i unlimited");
    // As a run under the same limit says.
    let outcome = Run::new()
        .under(["prlimit", "--sigpending=100"])
        .command(workload("rate").args(["--seconds", "0.2"]))
        .run()?;
    ensure!(
        outcome
            .expect_success()
            .stderr
            .contains("few signals may be pending"),
        "{}",
        outcome.story()
    );
    ensure!(only(&under("--data=6000000")?, "memory")?.is("problem"));
    ensure!(
        under("--nofile=4096")?
            .iter()
            .all(|one| one.text("name") != "memory")
    );
    Ok(())
}

/// Rings for context switches need memory that the kernel grants.
#[test]
fn little_memory_for_rings_is_a_problem_for_off_cpu() -> TestResult {
    let machine = Machine::epyc()?;
    machine.file(
        "proc/self/limits",
        "Max locked memory         65536                65536                bytes",
    )?;
    for (kilobytes, level) in [("516", "ok"), ("64", "problem")] {
        machine.file("proc/sys/kernel/perf_event_mlock_kb", kilobytes)?;
        let command = ask_sampler(&["--off-cpu"]).env("RSYS_AVAIL_ROOT", machine.root());
        let found = findings(&run_plain(command)?)?;
        let memory = only(&found, "locked memory")?;
        ensure!(memory.is(level), "{}", memory.0);
    }
    Ok(())
}

/// What cannot be sampled is told with the words of the run.
#[test]
fn a_program_is_judged_as_the_run_does() -> TestResult {
    let fixed = workload("rate").flags(["-static"]).build()?;
    let found = findings(&ask([&fixed])?)?;
    let program = only(&found, "program")?;
    ensure!(program.is("problem"), "{}", program.0);
    let outcome = Run::new()
        .command(Invocation::new(&fixed).args(["--seconds", "0.1"]))
        .run()?;
    ensure!(
        outcome.stderr.contains("is statically linked")
            && program.text("finding").ends_with("is statically linked"),
        "{}: {}",
        program.0,
        outcome.story()
    );
    // Then the run points here.
    ensure!(
        outcome.stderr.contains("--doctor PROGRAM"),
        "{}",
        outcome.story()
    );
    let plain = workload("rate").build()?;
    ensure!(only(&findings(&ask([&plain])?)?, "program")?.is("ok"));
    Ok(())
}

#[test]
fn files_without_names_are_told() -> TestResult {
    skip_if_missing!(missing_tool("strip"));
    let scratch = Scratch::new("doctor")?;
    let path = |name: &str| scratch.path().join(name);
    fs::write(
        path("library.c"),
        "static int f(int x) { return x * 3; }\nint g(int x) { return f(x); }\n",
    )?;
    fs::write(
        path("program.c"),
        "int g(int);\nint main(void) { return g(0); }\n",
    )?;
    let run = |program: &str, words: &[&str]| -> TestResult {
        let output = Command::new(program)
            .args(words)
            .current_dir(scratch.path())
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    };
    run(
        "gcc",
        &["-g", "-shared", "-fPIC", "library.c", "-o", "libplain.so"],
    )?;
    run(
        "gcc",
        &[
            "-g",
            "program.c",
            "-o",
            "program",
            "-L.",
            "-lplain",
            "-Wl,-rpath,$ORIGIN",
        ],
    )?;
    let names = || -> Result<(String, String)> {
        let found = findings(&ask([path("program")])?)?;
        let texts: Vec<&str> = all(&found, "names")
            .map(|one| one.text("finding"))
            .collect();
        let own = texts.iter().find(|text| text.contains("/program"));
        Ok((own.context("a finding")?.to_string(), texts.join("\n")))
    };
    let (own, all) = names()?;
    ensure!(own.ends_with("functions, inlined ones, lines"), "{own}");
    ensure!(!all.contains("libplain.so"), "{all}");
    run("strip", &["-g", "program"])?;
    run("strip", &["libplain.so"])?;
    let (own, all) = names()?;
    ensure!(own.ends_with(": functions"), "{own}");
    ensure!(all.contains("libplain.so"), "{all}");
    run("strip", &["program"])?;
    ensure!(names()?.0.ends_with("is stripped"));
    Ok(())
}

/// By somebody who has no rights: neither to the folder nor to the GPU's devices.
#[test]
fn what_a_plain_user_may_not_do_is_told_with_the_remedy() -> TestResult {
    skip_if_missing!(
        (!is_root()).then(|| "only root can become another user".to_owned()),
        missing_tool("setpriv"),
    );
    // Where the build is may be closed to others.
    let folder = std::env::temp_dir().join(format!("rsys-doctor-{}", std::process::id()));
    fs::create_dir_all(folder.join("closed"))?;
    let open = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(&folder, 0o755)?;
    open(&folder.join("closed"), 0o700)?;
    let copy = folder.join("rsys-avail");
    fs::copy(avail()?, &copy)?;
    let as_nobody = |words: &[&str]| {
        Invocation::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--inh-caps=-all",
            ])
            .arg(&copy)
            .args(["--json", "--doctor"])
            .args(words)
    };
    let output = folder.join("closed/traces");
    let refused = run_plain(as_nobody(&[]).env("RSYS_OUTPUT_PATH", &output))?;

    // A GPU of another machine, whose devices are files here.
    let root = folder.join("root");
    let machine = Machine::epyc()?;
    machine.gpu(0, 90402, "power1_input", &[])?;
    for device in ["dev/kfd", "dev/dri/renderD128"] {
        machine.file(device, "")?;
    }
    machine.file("etc/group", "root:x:0:\nrender:x:109:\n")?;
    let copied = Command::new("cp")
        .arg("-a")
        .arg(machine.root())
        .arg(&root)
        .status()?;
    ensure!(copied.success());
    open(&root, 0o755)?;
    let kfd = root.join("dev/kfd");
    open(&kfd, 0o660)?;
    std::os::unix::fs::chown(&kfd, Some(0), Some(109))?;
    open(&root.join("dev/dri/renderD128"), 0o666)?;
    let ask = || as_nobody(&["--set", "INCLUDE_BACKENDS=rocm"]).env("RSYS_AVAIL_ROOT", &root);
    let closed = run_plain(ask())?;
    open(&kfd, 0o666)?;
    let opened = run_plain(ask())?;
    fs::remove_file(&kfd)?;
    let gone = run_plain(ask())?;
    fs::remove_dir_all(&folder)?;

    let found = findings(&refused)?;
    let folder = only(&found, "output folder")?;
    ensure!(
        folder.is("problem") && folder.text("finding").contains("Permission denied"),
        "{}",
        folder.0
    );
    let found = findings(&closed)?;
    ensure!(only(&found, "GPU")?.text("finding").contains("gfx942"));
    let devices = only(&found, "GPU devices")?;
    ensure!(devices.is("problem"), "{}", devices.0);
    ensure!(
        devices
            .text("finding")
            .contains("/dev/kfd may not be opened"),
        "{}",
        devices.0
    );
    ensure!(
        devices
            .text("remedy")
            .starts_with("sudo usermod -aG render $USER"),
        "{}",
        devices.0
    );
    ensure!(only(&findings(&opened)?, "GPU devices")?.is("ok"));
    let found = findings(&gone)?;
    let devices = only(&found, "GPU devices")?;
    ensure!(
        devices.text("finding") == "/dev/kfd is not here",
        "{}",
        devices.0
    );
    Ok(())
}

/// Without a GPU, who asks for one has a problem, and who does not has none.
#[test]
fn a_machine_without_gpu_suits_who_asks_for_none() -> TestResult {
    let machine = Machine::epyc()?;
    for (words, level) in [
        (&[][..], "note"),
        (&["-I", "rocm"], "problem"),
        (&["-I", "rocm-smi"], "problem"),
    ] {
        let command = ask_sampler(words).env("RSYS_AVAIL_ROOT", machine.root());
        let found = findings(&run_plain(command)?)?;
        let gpu = only(&found, "GPU")?;
        ensure!(gpu.is(level), "{words:?}: {}", gpu.0);
    }
    Ok(())
}

/// On simulated GPUs: the runtimes that a program loads, and the source that the run then takes.
#[test]
fn the_source_is_the_one_that_the_run_takes() -> TestResult {
    for (stack, version) in [
        (Stack::Debian12, "HIP 5.2.21153"),
        (Stack::Wheel54, "HIP 5.3 or later"),
    ] {
        if let Some(why) = stack.missing() {
            skip_if_missing!(Some(why));
        }
        let command = hip_program(stack, "hip_once")?;
        let program = command.path();
        let question = ask_sampler(&["-I", "rocm"]).arg("--").arg(&program);
        let found = findings(&run_plain(stack.with_runtimes(question))?)?;
        ensure!(all(&found, "runtime").any(|one| one.text("finding").starts_with(version)));
        let machine = simgpu::Machine::new(stack)?;
        let outcome = Run::new()
            .options(["-I", "rocm", "--min-samples", "1"])
            .command(machine.run(command))
            .run()?;
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let trace = outcome.expect_success().trace_of(&name)?;
        let why = trace.metadata()?.text("gpu source")?.to_owned();
        let said = all(&found, "GPU source").any(|one| {
            let text = one.text("finding");
            text.starts_with("kernels and copies: by ") && text.ends_with(&format!("({why})"))
        });
        ensure!(said, "{}: {why}", stack.name());
    }
    Ok(())
}

/// A process has its program, its interpreter and its rights; it goes on undisturbed.
#[test]
fn a_running_process_is_looked_at() -> TestResult {
    let mut pythons = pythons();
    // The newest live in file trees of their own.
    pythons.retain(|python| python.minor() < 14);
    skip_if_missing!(pythons.is_empty().then(|| "no Python".to_owned()));
    for python in pythons {
        let mut child = Command::new(python.to_string())
            .args(["-c", "import sys; print(1, flush=True); sys.stdin.read()"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let mut line = [0; 1];
        let stdout = child.stdout.as_mut().context("a pipe")?;
        std::io::Read::read_exact(stdout, &mut line)?;
        let outcome = ask([child.id().to_string()]);
        let alive = child.try_wait()?.is_none();
        drop(child.stdin.take());
        ensure!(alive && child.wait()?.success(), "it did not go on");
        let found = findings(&outcome?)?;
        let version = only(&found, "Python")?;
        let minor = format!("3.{} ", python.minor());
        ensure!(
            version.is("ok") && version.text("finding").starts_with(&minor),
            "{}",
            version.0
        );
        ensure!(all(&found, "attaching").any(|one| one.is("ok")), "{python}");
    }
    Ok(())
}
