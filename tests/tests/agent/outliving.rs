//! A process whose profiler is gone, killed or ended in good order, is as if it had never been profiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Run, Running, Scratch, TestResult, descendants, script, signal, skip_if_missing, wait_until,
    workload, workspace_dir,
};

/// More than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends a process that lives on when its test is over, also when that fails.
struct EndsWithTest(u32);

impl Drop for EndsWithTest {
    fn drop(&mut self) {
        signal(self.0, libc::SIGKILL);
    }
}

/// What the kernel shows of a process that it has for its profiler.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    timers: usize,
    perf_events: usize,
    shared_mappings: usize,
    threads_of_ours: usize,
}

fn lines_with(path: PathBuf, word: &str) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.contains(word)).count()
}

fn kept(pid: u32) -> Kept {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let files = fs::read_dir(process.join("fd")).into_iter().flatten();
    let targets = files.flatten().flat_map(|file| fs::read_link(file.path()));
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten();
    let names = tasks
        .flatten()
        .flat_map(|task| fs::read_to_string(task.path().join("comm")));
    Kept {
        timers: lines_with(process.join("timers"), "ID:"),
        perf_events: targets
            .filter(|target| target.ends_with("anon_inode:[perf_event]"))
            .count(),
        shared_mappings: lines_with(process.join("maps"), "/memfd:rsys"),
        threads_of_ours: names.filter(|name| name.starts_with("rsys")).count(),
    }
}

fn mappings(pid: u32) -> usize {
    lines_with(PathBuf::from(format!("/proc/{pid}/maps")), "-")
}

/// How many threads the program has made, and how often it could not have what it wanted.
fn progress(file: &Path) -> anyhow::Result<[u64; 2]> {
    let bytes = fs::read(file)?;
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 8).context("no progress")?;
        anyhow::Ok(u64::from_le_bytes(bytes.try_into()?))
    };
    Ok([word(0)?, word(8)?])
}

/// Waits until the process is left alone, and has done much more since.
fn assert_left_alone(pid: u32, file: &Path, story: &str) -> TestResult {
    let is_free = wait_until(PATIENCE, || kept(pid) == Kept::default());
    assert!(is_free, "{story}: {:?}", kept(pid));
    let before = mappings(pid);
    let [made, _] = progress(file)?;
    let goes_on = wait_until(PATIENCE, || {
        progress(file).is_ok_and(|[now, _]| now > made + 300)
    });
    assert!(goes_on, "{story}: the program stands still");
    let after = mappings(pid);
    assert!(
        after <= before + 8,
        "{story}: {before} mappings, then {after}"
    );
    let [_, failures] = progress(file)?;
    assert_eq!(failures, 0, "{story}");
    assert_eq!(kept(pid), Kept::default(), "{story}");
    Ok(())
}

/// Kills the profiler once the program is sampled, which then is left alone.
fn kill_when_sampled(run: Running, file: &Path, options: &[&str]) -> TestResult {
    let pid: u32 = run.wait_for("ready")?.parse()?;
    let _ends = EndsWithTest(pid);
    let is_sampled = wait_until(PATIENCE, || {
        let kept = kept(pid);
        kept.timers > 2 && kept.shared_mappings > 0
    });
    assert!(is_sampled, "{options:?}: {:?}", kept(pid));
    run.signal(libc::SIGKILL);
    run.wait()?.expect_signal(libc::SIGKILL);
    assert_left_alone(pid, file, &format!("{options:?}"))
}

fn outliving() -> rsys_tests::Workload {
    let include = workspace_dir().join("user/include");
    workload("outliving").flags(["-O2", "-pthread", &format!("-I{}", include.display())])
}

const MODES: [&[&str]; 4] = [
    &[],
    &["-f", "1000"],
    &["-I", "mutex-locks"],
    &["--realtime", "-I", "roctracer"],
];

#[test]
fn a_killed_profiler_leaves_nothing() -> TestResult {
    for options in MODES {
        let scratch = Scratch::new("outliving")?;
        let file = scratch.path().join("progress");
        let mut program = outliving().args([&file]);
        if options.contains(&"mutex-locks") {
            program = program.args(["--locks"]);
        }
        let run = Run::new().options(options).command(program).start()?;
        kill_when_sampled(run, &file, options)?;
    }
    Ok(())
}

/// One that had no time to learn of the process at all.
#[test]
fn a_profiler_that_is_killed_before_it_sees_the_process_leaves_nothing() -> TestResult {
    for options in [&[][..], &["-f", "1000", "--clock", "perf"]] {
        let scratch = Scratch::new("outliving")?;
        let file = scratch.path().join("progress");
        let program = outliving().build()?;
        let line = format!(
            "kill -STOP $PPID; exec {} {} --without-ranges",
            program.display(),
            file.display()
        );
        let run = Run::new().options(options).command(script(&line)).start()?;
        kill_when_sampled(run, &file, options)?;
    }
    Ok(())
}

#[test]
fn a_profiler_that_ends_leaves_nothing() -> TestResult {
    let scratch = Scratch::new("outliving")?;
    let file = scratch.path().join("progress");
    let program = outliving().build()?;
    // The command ends at once, and its child lives on.
    let line = format!("{} {} & echo pid $!", program.display(), file.display());
    let run = Run::new()
        .options(["--linger", "1"])
        .command(script(&line))
        .start()?;
    let pid: u32 = run.wait_for("pid")?.parse()?;
    let _ends = EndsWithTest(pid);
    // Its folder is the program's working folder.
    let outcome = run.wait()?;
    outcome.expect_success();
    assert_left_alone(pid, &file, "linger")
}

/// What starts after the end of the profiler, with its variables, runs alone.
#[test]
fn programs_that_start_later_run_alone() -> TestResult {
    let scratch = Scratch::new("outliving")?;
    let file = scratch.path().join("progress");
    let go = scratch.path().join("go");
    let program = outliving().build()?;
    let line = format!(
        "(while ! [ -e {} ]; do sleep 0.05; done; exec {} {}) & echo pid $!; exit 0",
        go.display(),
        program.display(),
        file.display(),
    );
    let run = Run::new()
        .options(["--linger", "1"])
        .command(script(&line))
        .start()?;
    let pid: u32 = run.wait_for("pid")?.parse()?;
    let _ends = EndsWithTest(pid);
    let outcome = run.wait()?;
    outcome.expect_success();
    fs::write(&go, "")?;
    let has_begun = wait_until(PATIENCE, || progress(&file).is_ok_and(|[made, _]| made > 0));
    assert!(has_begun);
    assert_left_alone(pid, &file, "later")
}

/// A GPU program launches on, and its results are right, when the thread that followed its operations is gone.
#[test]
fn a_killed_profiler_leaves_gpus_alone() -> TestResult {
    for (stack, source) in [
        (Stack::Debian12, "hip"),
        (Stack::Debian12, "hsa"),
        (Stack::Unstable, "hip"),
        (Stack::Unstable, "hsa"),
    ] {
        skip_if_missing!(stack.missing().or_else(|| Stack::Debian13.missing()));
        let scratch = Scratch::new("outliving")?;
        let said = scratch.path().join("said");
        let machine = Machine::new(stack)?.config("[[kernel]]\nmicroseconds = 2\n")?;
        let flood = hip_program(stack, "hip_flood")?.path();
        let line = format!(
            "{} 2 2 100000 100 > {said} 2>&1; echo exit $? >> {said}",
            flood.display(),
            said = said.display()
        );
        let run = Run::new()
            .options(["-I", "roctracer", "--gpu-source", source])
            .command(machine.run(script(&line)))
            .start()?;
        // The queues of the oldest runtimes must not get full, which is known from what is followed.
        let threads_of_ours = usize::from(stack == Stack::Debian12 && source == "hsa");
        let mut pid = None;
        let is_sampled = wait_until(PATIENCE, || {
            let named = |pid: &u32| {
                fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name == "hip_flood\n")
            };
            pid = descendants(run.pid()).into_iter().find(named);
            // Samples, and events of at least one thread; queues are followed.
            pid.is_some_and(|pid| {
                let now = kept(pid);
                now.shared_mappings > 1 && now.threads_of_ours >= threads_of_ours
            })
        });
        assert!(is_sampled, "{stack:?}, {source}");
        let pid = pid.context("no program")?;
        let _ends = EndsWithTest(pid);
        run.signal(libc::SIGKILL);
        // Its folder is the program's working folder.
        let outcome = run.wait()?;
        outcome.expect_signal(libc::SIGKILL);
        let left = Kept {
            threads_of_ours,
            ..Kept::default()
        };
        // Quick machines may be done with it by then. Of a process that is gone nothing is kept either: below, it must have ended well.
        let has_ended = || fs::read_to_string(&said).is_ok_and(|said| said.contains("exit "));
        let is_free = wait_until(PATIENCE, || kept(pid) == left || has_ended());
        assert!(is_free, "{stack:?}, {source}: {:?}", kept(pid));
        let ends = wait_until(Duration::from_secs(300), has_ended);
        assert!(ends, "{stack:?}, {source}: the program stands still");
        let said = fs::read_to_string(&said)?;
        assert!(
            said.contains("launches=400000") && said.contains("exit 0"),
            "{stack:?}, {source}: {said}"
        );
    }
    Ok(())
}
