//! Runs of `rsys-sample` with a played agent: what it writes into shared memory becomes a trace,
//! however it ends.

#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod load;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::fake::{self, FakeAgent, at, put_end, put_module, put_start};
use common::trace::Trace;
use common::{Folder, fake_command, sampler, stderr};
use rsys_wire::record::{self, SAMPLE_TRUNCATED};
use rsys_wire::ring::{DropCause, Producer};

const MILLISECOND: u64 = 1_000_000;
const RING_WORDS: u32 = 8192;

/// Not a test by itself: the target of the other tests, when it is told to be.
#[test]
fn plays_the_agent() {
    let Ok(scenario) = std::env::var(fake::SCENARIO) else {
        return;
    };
    match scenario.as_str() {
        "work" => drop(work(true)),
        "killed" => {
            let _agent = work(false);
            std::thread::sleep(Duration::from_millis(150));
            kill_self(libc::SIGKILL);
        }
        "killed at once" => {
            let _agent = work(false);
            kill_self(libc::SIGKILL);
        }
        "runs on" => {
            let _agent = work(false);
            if let Ok(path) = std::env::var("TELL_READY") {
                std::fs::write(path, "ready\n").expect("somebody listens");
            }
            std::thread::sleep(Duration::from_secs(60));
        }
        "idle" => {
            let agent = FakeAgent::new(1, 1, RING_WORDS);
            agent.announce();
            std::thread::sleep(Duration::from_millis(50));
        }
        "ours" => within_the_profiler(),
        "exec" => exec(),
        "hostile" => hostile::hostile(),
        "noise" => hostile::noise(),
        "storm" => load::storm(),
        "stream" => load::stream(),
        other => panic!("no scenario {other}"),
    }
    std::process::exit(7);
}

fn kill_self(signal: i32) {
    // SAFETY: sends a signal, which ends us.
    unsafe { libc::kill(libc::getpid(), signal) };
    std::thread::sleep(Duration::from_secs(5));
}

/// Two threads that did something for some milliseconds; the second needs the first one's module.
fn work(ended: bool) -> FakeAgent {
    let agent = FakeAgent::new(1, 4, RING_WORDS);
    agent.announce();
    // What its samples stand for lies behind its start.
    let base = fake::boot_time_ns() + 10 * MILLISECOND;
    let (first, second) = (agent.ring(0), agent.ring(1));
    let pid = std::process::id();
    put_start(&first, base, pid, "main");
    put_start(&second, base, pid + 1, "worker");
    put_module(&first, base);
    // Ring, milliseconds, weight, flags, shared frames, new frames.
    type Written<'a> = (&'a Producer<'a>, u64, u32, u8, u16, &'a [u64]);
    let samples: [Written<'_>; 6] = [
        (&first, 10, 1, 0, 0, &[at(0x300), at(0x200), at(0x100)]),
        (&first, 20, 1, 0, 2, &[at(0x400)]),
        (&first, 30, 1, 0, 2, &[at(0x400)]),
        (&second, 15, 2, 0, 0, &[at(0x200)]),
        (&second, 100, 1, SAMPLE_TRUNCATED, 0, &[at(0x500)]),
        (&first, 90, 1, 0, 1, &[at(0x600)]),
    ];
    for (ring, time, weight, flags, shared, frames) in samples {
        assert!(record::put_sample(
            ring,
            base + time * MILLISECOND,
            weight,
            flags,
            shared,
            frames
        ));
    }
    first.header().count_drop(DropCause::RingFull, 5);
    if ended {
        put_end(
            &second,
            base + 101 * MILLISECOND,
            30 * MILLISECOND,
            "renamed",
        );
        put_end(&first, base + 102 * MILLISECOND, 40 * MILLISECOND, "main");
    }
    agent
}

/// A sample that met nothing but the agent.
fn within_the_profiler() {
    let agent = FakeAgent::new(1, 1, RING_WORDS);
    agent.announce();
    let base = fake::boot_time_ns();
    let ring = agent.ring(0);
    put_start(&ring, base, std::process::id(), "main");
    fake::put_module_of(&ring, base, b"/opt/played/librsys_agent.so");
    let time_ns = base + 10 * MILLISECOND;
    assert!(record::put_sample(&ring, time_ns, 1, 0, 0, &[at(0x100)]));
    put_end(&ring, time_ns, 10 * MILLISECOND, "main");
}

/// Perfetto counts empty call stacks as errors.
#[test]
fn no_stack_is_empty() {
    let folder = Folder::new("ours");
    let output = sampler(&folder)
        .args(["-f", "100", "--min-samples", "1", "--"])
        .args(fake_command("ours"))
        .output()
        .unwrap();
    let trace = Trace::read(&folder.traces()[0]);
    assert_eq!(trace.samples.len(), 1, "{}", stderr(&output));
    assert_eq!(trace.samples[0].3, ["[rsys]"]);
}

/// What [`work`] paints at 100 Hz.
fn assert_work(trace: &Trace) {
    let pid = i64::from(trace.process.0);
    // The worker paints its first sample with the weight of two periods: from 15 - 20 milliseconds
    // on.
    let base = trace
        .slices
        .iter()
        .map(|slice| slice.range.0)
        .min()
        .unwrap()
        + 5 * MILLISECOND;
    assert_eq!(
        trace.painted(pid, base),
        [
            "libwork.so+0x100@0-30".to_owned(),
            ".libwork.so+0x200@0-30".to_owned(),
            "..libwork.so+0x300@0-10".to_owned(),
            "..libwork.so+0x400@10-30".to_owned(),
            "libwork.so+0x100@80-90".to_owned(),
            ".libwork.so+0x600@80-90".to_owned(),
        ]
    );
    assert_eq!(trace.painted(pid + 1, base)[0], "libwork.so+0x200@-5-15");
    let names: Vec<_> = trace
        .slices
        .iter()
        .filter(|slice| slice.tid == pid + 1)
        .map(|slice| slice.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["libwork.so+0x200", "[truncated]", "libwork.so+0x500"]
    );
    assert!(
        trace.slices.iter().all(|slice| slice.range.1.is_some()),
        "all slices are closed"
    );
    assert_eq!(trace.samples.len(), 6);
    let weight: u64 = trace.samples.iter().map(|sample| sample.2).sum();
    assert_eq!(weight, 7 * 10 * MILLISECOND);
    assert_eq!(
        trace.samples[0].3,
        ["libwork.so+0x100", "libwork.so+0x200", "libwork.so+0x300"]
    );
    for (key, expected) in [
        ("samples", 6),
        ("weighted_samples", 7),
        ("threads", 2),
        ("dropped", 1),
        ("dropped_weight", 5),
        ("dropped_ring_full", 1),
        ("truncated_stacks", 1),
        ("broken_stacks", 0),
        ("corrupt_records", 0),
        ("modules", 1),
    ] {
        assert_eq!(trace.end(key), expected, "{key}");
    }
    let start = &trace.metadata["rsys start"];
    assert_eq!(start["command_line"], "program --fast");
    assert_eq!(start["frequency_hz"], "100");
    assert_eq!(start["clock"], "timer");
    assert_eq!(trace.process.1, "program");
}

#[test]
fn records_become_a_trace() {
    let folder = Folder::new("work");
    let output = sampler(&folder)
        .args(["-f", "100", "--"])
        .args(fake_command("work"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let traces = folder.traces();
    assert_eq!(traces.len(), 1, "{}", stderr(&output));
    let trace = Trace::read(&traces[0]);
    assert_work(&trace);
    let pid = i64::from(trace.process.0);
    assert_eq!(
        (
            trace.threads[&pid].as_str(),
            trace.threads[&(pid + 1)].as_str()
        ),
        ("main", "renamed")
    );
    assert_eq!(trace.metadata["rsys end"]["exit_code"], "7");
    let coverage: f64 = trace.metadata["rsys end"]["coverage_percent_of_ended_threads"]
        .parse()
        .unwrap();
    assert!((coverage - 100.0).abs() < 1e-9, "{coverage}");
    let line = format!(
        "{}: 6 samples (7 weighted), 2 threads, 1 dropped, pid {pid} (program)",
        traces[0].display()
    );
    assert_eq!(stderr(&output).trim(), format!("rsys: {line}"));
}

#[test]
fn a_killed_target_keeps_its_records_and_its_signal() {
    use std::os::unix::process::ExitStatusExt;
    for scenario in ["killed", "killed at once"] {
        let folder = Folder::new("killed");
        let output = sampler(&folder)
            .args(["-f", "100"])
            .args(fake_command(scenario))
            .output()
            .unwrap();
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGKILL),
            "{}",
            stderr(&output)
        );
        let trace = Trace::read(&folder.traces()[0]);
        assert_work(&trace);
        assert_eq!(trace.end("exit_signal"), 9);
    }
}

#[test]
fn a_killed_sampler_leaves_a_valid_prefix() {
    let folder = Folder::new("prefix");
    let mut child = sampler(&folder)
        .args(["-f", "100"])
        .args(fake_command("runs on"))
        // It is a test program itself, and would be counted as one that never told its result.
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let trace = wait_for_trace(&folder, 6);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(trace.samples.len(), 6);
    let again = Trace::read(&folder.traces()[0]);
    assert!(!again.truncated);
    assert!(!again.metadata.contains_key("rsys end"));
    end_target(again.process.0);
}

/// Waits until so many samples are on disk.
fn wait_for_trace(folder: &Folder, samples: usize) -> Trace {
    loop {
        std::thread::sleep(Duration::from_millis(25));
        if let Some(path) = folder.traces().first() {
            let trace = Trace::read(path);
            if trace.samples.len() >= samples {
                return trace;
            }
        }
    }
}

fn end_target(pid: i32) {
    // SAFETY: sends a signal to the target that this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn a_process_that_outlives_the_command_is_named_so() {
    let folder = Folder::new("linger");
    let words = fake_command("runs on")
        .iter()
        .map(|word| format!("'{word}'"))
        .collect::<Vec<_>>()
        .join(" ");
    // The command ends once the other process is there.
    let script =
        format!("mkfifo $TELL_READY; {words} >/dev/null 2>&1 & read ready <$TELL_READY; exit 3");
    let output = sampler(&folder)
        .args(["-f", "100", "--linger", "0.2", "--", "sh", "-c", &script])
        .env("TELL_READY", folder.path().join("ready"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(text.contains("still running, trace ends here"), "{text}");
    let trace = Trace::read(&folder.traces()[0]);
    end_target(trace.process.0);
    assert_work(&trace);
    assert_eq!(trace.metadata["rsys end"]["end"], "still running");
}

#[test]
fn a_command_without_samples_leaves_its_trace() {
    let folder = Folder::new("idle");
    let output = sampler(&folder)
        .args(fake_command("idle"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let text = stderr(&output);
    let [path] = &folder.traces()[..] else {
        panic!("{text}");
    };
    let trace = Trace::read(path);
    assert_eq!(trace.samples.len(), 0);
    assert_eq!(trace.metadata["rsys end"]["end"], "exit code 7");
    assert!(text.contains("no samples: the command used "), "{text}");
}

/// The program samples once, then executes itself over itself and does its work.
fn exec() {
    use std::os::unix::process::CommandExt;
    let agent = FakeAgent::new(9, 1, RING_WORDS);
    agent.announce();
    let base = fake::boot_time_ns();
    put_start(&agent.ring(0), base, std::process::id(), "before");
    assert!(record::put_sample(
        &agent.ring(0),
        base + MILLISECOND,
        1,
        0,
        0,
        &[at(0x10)]
    ));
    let words = fake_command("work");
    panic!("{}", Command::new(&words[0]).args(&words[1..]).exec());
}

#[test]
fn a_program_that_execs_has_a_trace_for_each() {
    let folder = Folder::new("exec");
    let output = sampler(&folder)
        .args(["-f", "100", "--min-samples", "1"])
        .args(fake_command("exec"))
        .output()
        .unwrap();
    let traces: Vec<_> = folder
        .traces()
        .iter()
        .map(|path| Trace::read(path))
        .collect();
    assert_eq!(traces.len(), 2, "{}", stderr(&output));
    let (work, before): (Vec<_>, Vec<_>) =
        traces.iter().partition(|trace| trace.samples.len() == 6);
    assert_work(work[0]);
    assert_eq!(before[0].metadata["rsys end"]["end"], "replaced by exec");
    assert_eq!(before[0].samples.len(), 1);
}

#[test]
fn ranks_name_traces() {
    let folder = Folder::new("rank");
    let words = fake_command("work")
        .iter()
        .map(|word| format!("'{word}'"))
        .collect::<Vec<_>>()
        .join(" ");
    let script = format!("{words}; {words}; exit 0");
    let output = sampler(&folder)
        .env("SLURM_PROCID", "3")
        .args(["-f", "100", "--", "sh", "-c", &script])
        .output()
        .unwrap();
    let mut names: Vec<_> = folder
        .traces()
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{}", stderr(&output));
    assert!(
        names.contains(&"perfetto-trace-3.proto".to_owned()),
        "{names:?}"
    );
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("perfetto-trace-3.") && name != "perfetto-trace-3.proto"),
        "{names:?}"
    );
    let trace = Trace::read(&folder.traces()[0]);
    assert!(
        trace.process.2.contains(&"rank 3".to_owned()),
        "{:?}",
        trace.process
    );
}
