//! The profiler is killed at any moment: the program goes on, and gets back what it had.

use std::fs;

use rsys_tests::{Run, TestResult, wait_until, workload};

use super::{ALL, PATIENCE, Program, State, wait_until_recorded};

/// There are not more changes than this that an attach makes, unless it looks at threads in vain for long.
const CHANGES_MAX: u32 = 200;

/// In front of each change that it makes to the process or to one of its threads, until there is none left.
#[test]
fn at_each_change_of_the_attach() -> TestResult {
    // Nobody is left who could begin a call of epoll_wait anew that was interrupted (docs/attach.md).
    let kinds: Vec<&str> = ALL
        .iter()
        .copied()
        .filter(|kind| *kind != "epoll")
        .collect();
    let program = Program::start(&kinds)?;
    let pid = program.pid;
    let before = State::of(pid);
    let mut changes = 0;
    loop {
        let killer = workload("killed_at").build()?;
        let number = (changes + 1).to_string();
        let outcome = Run::new()
            .under([killer.as_os_str(), number.as_ref()])
            .options(["-d", "0.2"])
            .attach(pid)
            .run()?;
        let is_left = wait_until(PATIENCE, || State::of(pid) == before);
        assert!(is_left, "change {number}: {:?}", State::of(pid));
        if outcome.number("killed")? == 0.0 {
            break;
        }
        changes += 1;
        assert!(changes < CHANGES_MAX, "{}", outcome.story());
    }
    // Two threads are stopped, given registers and let go; code is written twice, and the request.
    assert!(changes >= 10, "{changes}");
    // And it can be attached to as ever.
    Run::new()
        .options(["-d", "0.5"])
        .attach(pid)
        .run()?
        .expect_success();
    assert_eq!(State::of(pid), before);
    program.end_well()?;
    Ok(())
}

/// The signal of the samples, in a thread's mask as the kernel has it.
const SAMPLE: u64 = 1 << (libc::SIGSTKFLT - 1);

/// How many threads that compute block that signal.
fn that_block_samples(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let blocks = |status: &String| {
        let mut lines = status.lines();
        let mask = lines.find_map(|line| line.strip_prefix("SigBlk:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & SAMPLE != 0)
    };
    let statuses = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    // The thread that serves the profiler is none of the program's.
    let own = statuses.filter(|status| !status.contains("rsys-attach"));
    own.filter(blocks).count()
}

/// Threads that block all signals let that one through as long as they are recorded, and no longer.
#[test]
fn threads_that_compute_get_their_masks_back() -> TestResult {
    let program = Program::start(&["compute", "compute", "compute"])?;
    let pid = program.pid;
    let before = that_block_samples(pid);
    assert_eq!(before, 4, "three and the first one");
    for _ in 0..5 {
        let run = Run::new().attach(pid).start()?;
        wait_until_recorded(pid);
        let is_open = wait_until(PATIENCE, || that_block_samples(pid) == 1);
        assert!(is_open, "{}", that_block_samples(pid));
        run.signal(libc::SIGKILL);
        run.wait()?.expect_signal(libc::SIGKILL);
        let is_closed = wait_until(PATIENCE, || that_block_samples(pid) == before);
        assert!(is_closed, "{}", that_block_samples(pid));
    }
    program.end_well()?;
    Ok(())
}

#[test]
fn while_it_records() -> TestResult {
    let program = Program::start(ALL)?;
    let pid = program.pid;
    let before = State::of(pid);
    for _ in 0..5 {
        let run = Run::new().attach(pid).start()?;
        wait_until_recorded(pid);
        run.signal(libc::SIGKILL);
        run.wait()?.expect_signal(libc::SIGKILL);
        let is_left = wait_until(PATIENCE, || State::of(pid) == before);
        assert!(is_left, "{:?}", State::of(pid));
    }
    program.end_well()?;
    Ok(())
}
