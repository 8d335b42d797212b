//! Tests of the closing lines.

use std::time::Duration;

use super::*;
use crate::emit::account::{AgentCounts, Stops, Tally};
use crate::emit::digest::ProcessDigest;
use crate::launch::ending::Ending;
use crate::run::Overflow;

fn usual() -> Circumstances {
    Circumstances {
        overflow: None,
        realtime: false,
        period: Duration::from_micros(3_333),
        cpu: Duration::from_micros(1_200),
        unsampled: None,
        warned: false,
        follows_none: false,
        is_kept: true,
    }
}

fn wanted(details: bool) -> Wanted {
    Wanted {
        traces: true,
        details,
    }
}

fn lines(processes: &[ProcessSummary], unstarted: u64, verbose: bool) -> Vec<String> {
    super::lines(processes, unstarted, &usual(), wanted(verbose))
}

pub(super) fn process() -> ProcessSummary {
    ProcessSummary {
        path: Some("/out/t-7.proto".into()),
        parts: Vec::new(),
        overview: None,
        shared: None,
        profile: Written::default(),
        trouble: None,
        short: false,
        rank: None,
        pid: 7,
        name: "app".into(),
        clock: "timer".into(),
        notes: Vec::new(),
        coverage: Coverage::Unknown,
        interpreters: Vec::new(),
        tally: Tally {
            samples: 10,
            weight: 12,
            threads: 2,
            ..Tally::default()
        },
        stops: Stops::default(),
        counts: AgentCounts::default(),
        digest: ProcessDigest::default(),
        end: End::Process,
    }
}

#[test]
fn every_trace_has_its_line() {
    let mut running = process();
    running.end = End::StillRunning;
    running.counts.dropped_by_cause[0] = 3;
    assert_eq!(
        lines(&[process(), running], 0, false),
        [
            "/out/t-7.proto: 10 samples (12 weighted), 2 threads, 0 dropped, pid 7 (app)",
            "/out/t-7.proto: 10 samples (12 weighted), 2 threads, 3 dropped, pid 7 (app), still running, trace ends here",
        ]
    );
}

#[test]
fn without_a_trace_the_summary_is_told() {
    let written = Written {
        paths: vec!["/out/profile-7.txt".into()],
        ..Written::default()
    };
    let untraced = ProcessSummary {
        path: None,
        profile: written,
        ..process()
    };
    assert_eq!(
        lines(std::slice::from_ref(&untraced), 0, false),
        [
            "no trace asked for: 10 samples (12 weighted), 2 threads, 0 dropped, pid 7 (app)",
            "summary of pid 7: /out/profile-7.txt",
        ]
    );
    let failed = ProcessSummary {
        trouble: Some("disk full".into()),
        ..untraced
    };
    assert_eq!(lines(&[failed], 0, false)[0], "no trace: disk full");
}

#[test]
fn a_run_without_a_trace_says_whether_that_is_well() {
    let none = |process: &ProcessSummary| {
        let none = no_trace(std::slice::from_ref(process), 0, &usual()).expect("it has no trace");
        (none.reason, none.expected)
    };
    assert_eq!(no_trace(&[process()], 0, &usual()), None);
    let mut process = ProcessSummary {
        path: None,
        ..process()
    };
    let (reason, expected) = none(&process);
    assert!(
        expected && reason.contains("too little for a sample"),
        "{reason}"
    );
    process.short = true;
    let (reason, expected) = none(&process);
    assert!(expected && reason.contains("--min-samples"), "{reason}");
    process.short = false;
    process.trouble = Some("disk full".to_owned());
    assert_eq!(none(&process), ("disk full".to_owned(), false));
    assert!(no_trace(&[], 0, &usual()).is_some_and(|none| !none.expected));
}

#[test]
fn much_unseen_time_has_a_likely_cause() {
    let mut process = ProcessSummary {
        coverage: Coverage::OfProcess(5.0),
        ..process()
    };
    assert!(
        process
            .warning()
            .is_some_and(|text| !text.contains("--clock perf"))
    );
    process.clock = CPU_TIMER.to_owned();
    assert!(
        process
            .warning()
            .is_some_and(|text| text.contains("--clock perf"))
    );
    process.coverage = Coverage::OfProcess(95.0);
    assert_eq!(process.warning(), None);
}

#[test]
fn short_processes_are_told_in_one_line() {
    let short = ProcessSummary {
        path: None,
        short: true,
        ..process()
    };
    let expected = "2 short processes left no trace: 20 samples in all; --min-samples 1 keeps them";
    let two = [short.clone(), process(), short];
    assert_eq!(lines(&two, 0, false)[1..], [expected]);
    let one = [two[0].clone()];
    assert_eq!(
        lines(&one, 0, false),
        ["no trace: 1 short process left no trace: 10 samples in all; --min-samples 1 keeps them"]
    );
}

#[test]
fn short_processes_that_share_a_trace_are_told_with_it() {
    let short = ProcessSummary {
        path: None,
        short: true,
        shared: Some("/out/t-short.proto".into()),
        ..process()
    };
    let expected = "/out/t-short.proto: 20 samples of 2 short processes; --min-samples 1 gives each a trace of its own";
    let all = [short.clone(), process(), short];
    assert_eq!(lines(&all, 0, false)[1..], [expected]);
    // One that ended before it began to record is in no trace.
    let lost = "1 short process left no trace: 1 sample in all; --min-samples 1 keeps them";
    assert_eq!(lines(&all, 1, false)[1..], [expected, lost]);
    assert_eq!(no_trace(&all[..1], 0, &usual()), None);
}

#[test]
fn broken_stacks_are_told_with_their_place() {
    let mut process = process();
    process.tally.broken_stacks = 1;
    process.stops.add("/lib/libfoo.so");
    assert_eq!(
        process.details(),
        [
            "pid 7 (app): ended; clock timer",
            "pid 7: stacks: 90.00 % complete, 0 truncated, 1 broken (1 in libfoo.so), 0 with scanned frames",
        ]
    );
}

#[test]
fn nothing_has_a_reason() {
    let silent = ProcessSummary {
        path: None,
        tally: Tally::default(),
        ..process()
    };
    let mut dropped = silent.clone();
    dropped.counts.dropped_by_cause[1] = 1;
    let refused = ProcessSummary {
        trouble: Some("disk full".into()),
        ..silent.clone()
    };
    for (processes, part) in [
        (vec![], "no process could be sampled"),
        (vec![silent.clone()], "used 1.2 ms of CPU time, too little"),
        (
            vec![silent.clone(), silent],
            "none of the 2 processes used enough",
        ),
        (vec![dropped], "agent busy"),
        (vec![refused], "disk full"),
    ] {
        let text = lines(&processes, 0, false).join("\n");
        assert!(
            text.starts_with("no trace: ") && text.contains(part),
            "{text}"
        );
    }
}

#[test]
fn a_command_that_cannot_be_sampled_is_the_reason() {
    let known = Circumstances {
        unsampled: Some("/bin/busybox is statically linked".to_owned()),
        ..usual()
    };
    let text = super::lines(&[], 0, &known, wanted(false)).join("\n");
    assert_eq!(
        text,
        "no trace: /bin/busybox is statically linked, and no program that it started was sampled"
    );
}

#[test]
fn an_empty_trace_has_a_reason() {
    let idle = ProcessSummary {
        tally: Tally::default(),
        ..process()
    };
    let reason = |process: &ProcessSummary, circumstances: &Circumstances| {
        let lines = super::lines(
            std::slice::from_ref(process),
            0,
            circumstances,
            wanted(false),
        );
        assert!(
            lines[0].starts_with("/out/t-7.proto: 0 samples"),
            "{lines:?}"
        );
        let reason = lines[1].strip_prefix("no samples: ");
        reason.expect("a reason").to_owned()
    };
    let text = reason(&idle, &usual());
    assert_eq!(
        text,
        "the command used 1.2 ms of CPU time, too little for a sample every 3.3 ms; --realtime shows what threads wait for"
    );
    let realtime = Circumstances {
        realtime: true,
        ..usual()
    };
    assert!(!reason(&idle, &realtime).contains("--realtime"));
    let elsewhere = Circumstances {
        cpu: Duration::from_millis(53),
        ..usual()
    };
    let text = reason(&idle, &elsewhere);
    let told =
        "the command used 53 ms of CPU time, but not where a sample could be taken: a program";
    assert!(text.starts_with(told), "{text}");
    let killed = |number| ProcessSummary {
        end: End::Child(Ending::Signal(number)),
        ..idle.clone()
    };
    let text = reason(&killed(9), &usual());
    assert_eq!(
        text,
        "the command was killed by SIGKILL before its first sample"
    );
    assert!(
        reason(&killed(31), &usual()).contains("SIGSYS before its first sample; if it does not")
    );
    let by_event = Circumstances {
        overflow: Some(Overflow {
            event: "page-faults".to_owned(),
            period: 100_000,
        }),
        // More than any sample takes, but of another clock.
        cpu: Duration::from_secs(5),
        ..usual()
    };
    let text = reason(&idle, &by_event);
    assert!(
        text.contains("did page-faults happen 100000 times") && text.ends_with("page-faults:1000"),
        "{text}"
    );
    let unseen = Circumstances {
        cpu: Duration::from_secs(5),
        ..usual()
    };
    let text = reason(&idle, &unseen);
    assert!(
        text.starts_with("5.0 s of CPU time passed in programs that cannot be sampled")
            && text.contains("env -i"),
        "{text}"
    );
    let left_out = Circumstances {
        follows_none: true,
        ..unseen
    };
    let text = reason(&idle, &left_out);
    assert!(
        text.contains("--follow none") && !text.contains("env -i"),
        "{text}"
    );
    let others = ProcessSummary {
        tally: Tally {
            other_threads: 7,
            ..Tally::default()
        },
        ..idle.clone()
    };
    assert!(reason(&others, &usual()).contains("--tids"));
    let unselected = ProcessSummary {
        path: None,
        tally: Tally {
            samples: 7,
            unwritten: 7,
            ..Tally::default()
        },
        ..idle.clone()
    };
    assert_eq!(
        lines(&[unselected], 0, false),
        [
            "no trace: 7 samples of ranks that --ranks or --local-ranks leaves out, and none of others"
        ]
    );
    // Where another process has samples, nothing is missing.
    assert_eq!(lines(&[idle, process()], 0, false).len(), 2);
}
