//! Counters in the trace: of threads, processes, host and GPUs, beside what the kernel and the simulated GPUs say themselves.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, Trace, is_root, missing_tool, run_plain, script,
    skip_if_missing, wait_until, workload,
};

/// Only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(300);

/// The last value of a counter of this process, or of the host.
fn last(trace: &Trace, counter: &str) -> Result<f64> {
    let rows = trace.query(&format!(
        "select c.value as value from counter c join track t on c.track_id = t.id
         where t.name = '{counter}' order by c.ts desc limit 1"
    ))?;
    rows.iter()
        .next()
        .with_context(|| format!("no counter {counter}"))?
        .float("value")
}

/// The last values of a counter of threads, by thread.
fn last_of_threads(trace: &Trace, counter: &str) -> Result<Vec<(u32, f64)>> {
    let rows = trace.query(&format!(
        "select th.tid as tid, max(c.value) as value from counter c join thread_counter_track t on c.track_id = t.id
         join thread th using (utid) where t.name = '{counter}' group by th.tid"
    ))?;
    rows.iter()
        .map(|row| Ok((row.int("tid")? as u32, row.float("value")?)))
        .collect()
}

/// Within a hundredth of what is expected, or so much of it.
fn is_near(value: f64, expected: f64, more: f64) -> bool {
    (value - expected).abs() <= 0.01 * expected + more
}

/// The lines `thread=TID faults=N cpu_ns=N` of the workload.
fn accounts(text: &str) -> Vec<(u32, f64, f64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("thread="));
    lines
        .filter_map(|line| {
            let mut words = line
                .split(' ')
                .map(|word| word.rsplit('=').next().unwrap_or(""));
            Some((
                words.next()?.parse().ok()?,
                words.next()?.parse().ok()?,
                words.next()?.parse().ok()?,
            ))
        })
        .collect()
}

/// The trace below a folder that somebody still writes.
fn trace_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().find_map(|path| {
        if path.is_dir() {
            return trace_in(&path);
        }
        let is_trace = path.extension().is_some_and(|ending| ending == "proto");
        is_trace.then_some(path)
    })
}

#[test]
fn threads_count_what_the_kernel_counts() -> TestResult {
    let outcome = Run::new()
        .options(["-C", "page-faults,task-clock", "-C", "nonsense"])
        .command(workload("counted"))
        .run()?;
    let warnings = &outcome.expect_success().stderr;
    assert!(
        warnings.contains("event 'nonsense' is not counted: no event is called 'nonsense'"),
        "{warnings}"
    );
    let trace = outcome.trace()?;
    trace.assert_clean();
    let faults = last_of_threads(&trace, "Thread page-faults (S)")?;
    let clocks = last_of_threads(&trace, "Thread task-clock (S)")?;
    let accounts = accounts(&outcome.stdout);
    assert_eq!(accounts.len(), 2, "{}", outcome.story());
    for (tid, thread_faults, cpu_ns) in accounts {
        let of = |values: &[(u32, f64)]| values.iter().find(|(id, _)| *id == tid).map(|one| one.1);
        let (counted, clock) = (of(&faults), of(&clocks));
        assert!(
            counted.is_some_and(|counted| is_near(counted, thread_faults, 0.0)),
            "{counted:?} page faults, not {thread_faults}"
        );
        assert!(
            clock.is_some_and(|clock| is_near(clock, cpu_ns, 2e6)),
            "{clock:?} ns, not {cpu_ns}"
        );
    }
    Ok(())
}

#[test]
fn samples_by_page_faults_show_who_faults() -> TestResult {
    let outcome = Run::new()
        .options(["--overflow", "page-faults:50"])
        .command(workload("counted"))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    let samples = trace.samples()?;
    let faults: f64 = accounts(&outcome.stdout).iter().map(|one| one.1).sum();
    let seen = samples
        .iter()
        .filter(|sample| sample.names().last() == Some(&"touch"));
    let seen = seen.count() as f64 * 50.0;
    assert!(is_near(seen, faults, 100.0), "{seen}, not {faults}");
    Ok(())
}

#[test]
fn processes_and_host_are_watched() -> TestResult {
    let scratch = Scratch::new("monitors")?;
    let stop = scratch.path().join("stop");
    let running = Run::new()
        .options(["--process-freq", "50", "--cpus", "0"])
        .command(workload("counted").args([OsStr::new("--stay"), stop.as_os_str()]))
        .start()?;
    running.wait_for("ready=1")?;
    // The program is at rest: what it said of itself holds until it is told to end.
    let mut trace = None;
    wait_until(LIMIT, || {
        let loaded = trace_in(running.output()).and_then(|path| Trace::load(&path, None).ok());
        let threads = loaded
            .as_ref()
            .and_then(|trace| last(trace, "CPU Kernel Time (S)").ok())
            .and(loaded.as_ref())
            .and_then(|trace| resting(trace).ok());
        trace = loaded.filter(|_| threads == Some(true));
        trace.is_some()
    });
    fs::write(&stop, "")?;
    let outcome = running.wait()?;
    outcome.expect_success();
    let trace = trace.context("the counters of the process did not come to rest")?;
    let said = |name: &str| outcome.number(name);
    for (counter, expected, more) in [
        ("CPU Page Faults (S)", said("all_faults")?, 0.0),
        ("CPU Memory Usage (S)", said("resident")?, 0.0),
        ("CPU Peak Memory (S)", said("peak")?, 1e6),
        ("CPU Virtual Memory Usage (S)", said("virtual")?, 0.0),
        ("I/O Written (S)", said("written")?, 0.0),
        ("Threads (S)", said("threads")?, 0.0),
    ] {
        let value = last(&trace, counter)?;
        assert!(
            is_near(value, expected, more),
            "{counter}: {value}, not {expected}"
        );
    }
    let cpu = last(&trace, "CPU User Time (S)")? + last(&trace, "CPU Kernel Time (S)")?;
    let expected = (said("user_ns")? + said("system_ns")?) / 1e9;
    // The kernel's ticks are hundredths of a second, for each of the two.
    assert!(is_near(cpu, expected, 0.05), "{cpu} s, not {expected}");
    let switches = last(&trace, "CPU Context Switches (S)")?;
    assert!(switches >= 1.0, "{switches} context switches");
    assert!(last(&trace, "Host Memory Used (S)")? > said("resident")?);
    outcome.trace()?.assert_clean();
    let load = last(&outcome.trace()?, "CPU Load [0] (S)")?;
    assert!((0.0..=100.0).contains(&load), "{load} %");
    Ok(())
}

/// Whether the process was read while it was at rest: it waits, with its three threads, for a while.
fn resting(trace: &Trace) -> Result<bool> {
    let rows = trace.query(
        "select max(c.ts) as last, (select max(ts) from counter join track on track_id = track.id
         where name like 'Host Memory%') as now
         from counter c join track t on c.track_id = t.id where t.name in ('CPU User Time (S)', 'CPU Page Faults (S)')",
    )?;
    let row = rows.iter().next().context("no row")?;
    // Half a second without a tick or a fault of its own.
    Ok(row.int("now")? - row.int("last")? > 500_000_000)
}

#[test]
fn what_is_forbidden_is_said_and_left_out() -> TestResult {
    for answer in ["errno", "kill"] {
        let filter = workload("deny_perf").build()?;
        let outcome = Run::new()
            .under([filter.as_os_str(), answer.as_ref()])
            .options(["--clock", "timer", "-C", "page-faults", "--off-cpu"])
            .options(["--overflow", "page-faults"])
            .command(workload("counted").args(["--no-perf"]))
            .run()?;
        let warnings = &outcome.expect_success().stderr;
        let reason = "a seccomp filter forbids perf_event_open";
        for said in [
            format!("event 'page-faults' is not counted: {reason}"),
            format!("no samples by event 'page-faults': {reason}"),
            "times off the processor are not recorded".to_owned(),
        ] {
            assert!(
                warnings.contains(&said),
                "{answer}: no `{said}` in\n{warnings}"
            );
        }
        let trace = outcome.trace()?;
        trace.assert_clean();
        assert!(last_of_threads(&trace, "Thread page-faults (S)")?.is_empty());
        ensure!(trace.samples()?.count() > 0, "no samples by CPU time");
    }
    Ok(())
}

#[test]
fn an_unprivileged_user_counts_user_mode() -> TestResult {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    skip_if_missing!(
        (!is_root()).then(|| "only root can become another user".to_owned()),
        missing_tool("setpriv"),
        (level.trim() != "2").then(|| "perf_event_paranoid is not 2".to_owned()),
    );
    // Where the build is may be closed to others.
    let folder = std::env::temp_dir().join(format!("rsys-monitors-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    let sampler = rsys_tests::sampler()?;
    let agent = sampler.with_file_name("librsys_agent.so");
    let program = workload("counted").build()?;
    let copy = |path: &Path| -> Result<PathBuf> {
        let there = folder.join(path.file_name().context("a name")?);
        fs::copy(path, &there)?;
        Ok(there)
    };
    let (sampler, program) = (copy(&sampler)?, copy(&program)?);
    copy(&agent)?;
    let words = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let outcome = run_plain(
        Invocation::new("setpriv")
            .args(words)
            .arg("--inh-caps=-all")
            .arg(sampler)
            .args(["-C", "page-faults,context-switches", "--off-cpu", "-o"])
            .arg(folder.join("traces"))
            .arg("--")
            .arg(program),
    )?;
    let warnings = &outcome.expect_success().stderr;
    assert!(
        warnings.contains("event 'context-switches' is not counted: perf_event_paranoid is 2")
            && warnings.contains("sysctl kernel.perf_event_paranoid=1"),
        "{warnings}"
    );
    let path = trace_in(&folder.join("traces")).context("no trace")?;
    let trace = Trace::load(&path, None)?;
    let faults = last_of_threads(&trace, "Thread page-faults (user mode) (S)")?;
    for (tid, thread_faults, _) in accounts(&outcome.stdout) {
        let counted = faults.iter().find(|(id, _)| *id == tid);
        assert!(
            counted.is_some_and(|(_, counted)| is_near(*counted, thread_faults, 50.0)),
            "{faults:?}, not {thread_faults} of {tid}"
        );
    }
    assert!(!trace.off_cpu_timeline()?.is_empty(), "no context switches");
    fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn a_sleeping_thread_is_off_the_processor() -> TestResult {
    const TURNS: usize = 5;
    let outcome = Run::new()
        .options(["--off-cpu"])
        .command(workload("naps").args(["--turns", &TURNS.to_string()]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let absences = trace.off_cpu_timeline()?;
    absences.check_nesting()?;
    // Each nap takes 200 ms at least; what else blocks the thread for so long is not in its hands.
    let naps: Vec<_> = absences
        .iter()
        .filter(|slice| slice.name == "blocked" && slice.duration_ns >= 200_000_000)
        .collect();
    assert!(naps.len() >= TURNS, "{naps:?}");
    // The stack that waits is beside it; the first nap may pass before anybody looks.
    let waits = trace.wait_timeline()?;
    let is_seen = |nap: &rsys_tests::Slice| {
        let middle = nap.start_ns + nap.duration_ns / 2;
        waits.iter().any(|slice| {
            slice.name.contains("nanosleep") && slice.start_ns < middle && middle < slice.end_ns()
        })
    };
    assert!(
        naps.iter().any(|nap| is_seen(nap)),
        "nobody saw what {naps:?} waited for"
    );
    Ok(())
}

/// The profiler inside of the simulated machine sees its sensors.
#[test]
fn sensors_show_what_the_gpus_do() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let machine = Machine::new(Stack::Debian12)?
        .gpus(2)
        .config("[[kernel]]\nname = 'spin'\nmicroseconds = 3600000000")?;
    let program = hip_program(Stack::Debian12, "hip_once")?.path();
    // The kernel never ends: the sensors show it from some time on, and the shell waits until it is told to end.
    let line = format!(
        "{} > /dev/null & until [ -e stop ]; do sleep 0.05; done; cat /sys/class/drm/card0/device/mem_info_vram_used; kill -KILL $!",
        program.display()
    );
    let metrics = "busy,temp,power,mem_usage,clock,energy,link";
    let inside = Invocation::new(rsys_tests::sampler()?)
        .args([
            "--realtime",
            "--follow",
            "none",
            "-D",
            "--gpu-metrics",
            metrics,
        ])
        .args(["-o", "traces", "--"])
        .program(script(&line));
    let scratch = Scratch::new("sensors")?;
    let running = Run::bare()
        .folder(scratch.path())
        .command(machine.run(inside))
        .start()?;
    let traces = scratch.path().join("traces");
    let mut seen = None;
    wait_until(LIMIT, || {
        let trace = trace_in(&traces).and_then(|path| Trace::load(&path, None).ok());
        let busy = |trace: &Trace| last(trace, "GPU Busy [0] (S)").ok() == Some(100.0);
        seen = trace.filter(busy);
        seen.is_some()
    });
    fs::write(scratch.path().join("stop"), "")?;
    let outcome: Outcome = running.wait()?;
    let trace = seen.with_context(|| format!("GPU 0 is never busy\n{}", outcome.story()))?;
    let used: f64 = outcome.stdout.lines().last().context("no line")?.parse()?;
    let value = |name: &str| last(&trace, name);
    assert_eq!(value("GPU Busy [1] (S)")?, 0.0);
    assert_eq!(value("GPU Memory Usage [0] (S)")?, used);
    assert!(value("GPU Power [0] (S)")? > 2.0 * value("GPU Power [1] (S)")?);
    assert!(value("GPU Clock [0] (S)")? > value("GPU Clock [1] (S)")?);
    assert!(value("GPU Temperature [0] (S)")? >= 34.0);
    assert!(value("GPU Energy [0] (S)")? > 0.0);
    let warnings = &outcome.stderr;
    assert!(
        warnings.matches("no link").count() <= 2,
        "a sensor is missed once for each GPU\n{warnings}"
    );
    Ok(())
}

/// What the driver tells of a process and of its GPU, at the times that it tells.
#[test]
fn events_of_the_driver_are_recorded() -> TestResult {
    const EVENTS: &str = "
[[event]]
kind = 'page-fault'
after_dispatches = 10000
microseconds = 2000
[[event]]
kind = 'page-fault'
after_dispatches = 30000
microseconds = 3000
[[event]]
kind = 'migration-in'
after_dispatches = 300
bytes = 2097152
[[event]]
kind = 'migration-out'
after_dispatches = 400
bytes = 1048576
[[event]]
kind = 'eviction'
after_dispatches = 500
microseconds = 7000
[[event]]
kind = 'throttle'
after_dispatches = 600
[[event]]
kind = 'reset'
after_dispatches = 700
[[event]]
kind = 'throttle'
gpu = 1
after_dispatches = 1
";
    skip_if_missing!(Stack::Debian12.missing());
    let machine = Machine::new(Stack::Debian12)?.gpus(2).config(EVENTS)?;
    let program = hip_program(Stack::Debian12, "hip_rate")?.arg("200000");
    let inside = Invocation::new(rsys_tests::sampler()?)
        .args(["-D", "--gpu-metrics", "events", "--process-freq", "100"])
        .args(["-o", "traces", "--"])
        .program(program);
    let scratch = Scratch::new("driver-events")?;
    let outcome = Run::bare()
        .folder(scratch.path())
        .command(machine.run(inside))
        .run()?;
    outcome.expect_success();
    let path = trace_in(&scratch.path().join("traces")).context("no trace")?;
    let trace = Trace::load(&path, None)?;
    for (counter, expected) in [
        ("GPU Page Faults of Process [0] (S)", 2.0),
        ("GPU Page Fault Time of Process [0] (S)", 0.005),
        ("GPU Memory Migrated In of Process [0] (S)", 2_097_152.0),
        ("GPU Memory Migrated Out of Process [0] (S)", 1_048_576.0),
        ("GPU Queues Evicted of Process [0] (S)", 0.0),
        ("GPU Throttled [0] (S)", 1.0),
        ("GPU Resets [0] (S)", 1.0),
    ] {
        let value = last(&trace, counter)?;
        ensure!(
            (value - expected).abs() < 1e-9,
            "{counter} is {value}, not {expected}\n{}",
            outcome.story()
        );
    }
    let evicted = trace.number(
        "select max(c.ts) - min(c.ts) from counter c join track t on c.track_id = t.id where t.name like 'GPU Queues Evicted%'",
    )?;
    ensure!(evicted == 7_000_000, "evicted for {evicted} ns");
    // Nothing happened on the other one.
    let others = trace.number("select count(*) from track where name glob 'GPU *[[]1] (S)'")?;
    ensure!(others == 0, "{others} counters of GPU 1");
    Ok(())
}
