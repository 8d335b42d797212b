//! `rsys-report check` and `recover` as they are called.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{FIRST, SECOND, Scratch, Writer, contents, merge_all, whole_packets};
use rsys_proto::Compression;
use rsys_report::recover::Recovery;

fn report(arguments: &[&str], path: &Path) -> (i32, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_rsys-report"))
        .args(arguments)
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), text)
}

#[test]
fn a_whole_job_is_ok_and_each_fault_is_told() {
    let scratch = Scratch::new();
    scratch.write("perfetto-trace-0.proto", &FIRST.ordinary());
    scratch.write("perfetto-trace-1.proto", &SECOND.ordinary());
    let (code, text) = report(&["check"], &scratch.0);
    assert!(
        text.contains("ok: 2 traces, 2 hosts, 2 of 2 ranks"),
        "{text}"
    );
    assert_eq!(code, 0, "{text}");

    let cut = FIRST.ordinary();
    let unfinished = Writer {
        finished: false,
        ..SECOND
    };
    let lossy = Writer {
        dropped: 30,
        ..SECOND
    };
    for (name, bytes, allowed, problem) in [
        ("perfetto-trace-1.proto", lossy.ordinary(), "80", ""),
        (
            "perfetto-trace-1.proto",
            lossy.ordinary(),
            "50",
            "75.00 % lost (30 ring full)",
        ),
        (
            "perfetto-trace-1.proto",
            unfinished.ordinary(),
            "0",
            "cut off; `rsys-report recover`",
        ),
        (
            "perfetto-trace-0.proto",
            cut[..cut.len() - 3].to_vec(),
            "0",
            "cut off within a packet",
        ),
        (
            "perfetto-trace-1.proto",
            b"text".to_vec(),
            "0",
            "no trace of 1 of 2 ranks: 1",
        ),
        (
            "perfetto-trace-1.proto",
            b"text".to_vec(),
            "0",
            "unreadable: byte 0",
        ),
    ] {
        scratch.write("perfetto-trace-0.proto", &FIRST.ordinary());
        scratch.write("perfetto-trace-1.proto", &SECOND.ordinary());
        scratch.write(name, &bytes);
        let (code, text) = report(&["check", "--allow-loss", allowed], &scratch.0);
        assert_eq!(code, i32::from(!problem.is_empty()), "{text}");
        assert!(text.contains(problem), "{text}");
    }
}

/// Whatever was lost, of samples, events or operations of GPUs, is no whole trace, alone or merged.
#[test]
fn every_loss_is_a_problem() {
    for (more, told) in [
        (
            &[("event_calls", 3), ("events_dropped", 1)][..],
            "25.00 % lost (1 events)",
        ),
        (
            &[("gpu_kernels", 1), ("gpu_dropped_at_end", 1)],
            "50.00 % lost (1 GPU operations at end)",
        ),
        (
            &[("gpu_dropped_no_queue", 2)],
            "100.00 % lost (2 GPU operations no queue)",
        ),
        (
            &[("corrupt_records", 10)],
            "50.00 % lost (10 corrupt records)",
        ),
    ] {
        let scratch = Scratch::new();
        let lossy = Writer { more, ..FIRST };
        let inputs = [
            scratch.write("perfetto-trace-0.proto", &lossy.ordinary()),
            scratch.write("perfetto-trace-1.proto", &SECOND.ordinary()),
        ];
        let lost: u64 = more
            .iter()
            .filter(|(key, _)| key.contains("dropped") || key.contains("corrupt"))
            .map(|(_, count)| count)
            .sum();
        let (code, text) = report(&["check"], &scratch.0);
        assert!(
            code == 1 && text.contains(&format!("problem: perfetto-trace-0.proto: {told}")),
            "{text}"
        );
        assert!(
            text.contains(&format!(" 10 samples, {lost} lost,")),
            "{text}"
        );
        let (code, text) = report(&["check", "--allow-loss", "100"], &scratch.0);
        assert!(
            code == 0 && text.contains(&format!("note: perfetto-trace-0.proto: {told}")),
            "{text}"
        );
        let (_, json) = report(&["kernels", "--json"], &scratch.0);
        assert!(
            json.contains(&format!("\"lost\": {lost}"))
                || json.contains(&format!("\"lost\":{lost}")),
            "{json}"
        );

        merge_all(&scratch.0, &inputs).unwrap();
        inputs
            .iter()
            .for_each(|input| std::fs::remove_file(input).unwrap());
        let (code, text) = report(&["check"], &scratch.0);
        assert!(
            code == 1 && text.contains("problem: merged.pftrace: "),
            "{text}"
        );
    }
}

#[test]
fn the_job_says_which_ranks_there_should_be() {
    let scratch = Scratch::new();
    scratch.write("perfetto-trace-0.proto", &FIRST.ordinary());
    scratch.write("perfetto-trace-1.proto", &SECOND.ordinary());
    let job = r#"{ "world_size": 16, "ranks": [{ "rank": 0, "exit_code": 3 }, { "rank": 1 }, { "rank": 8 }, { "rank": 9 }] }"#;
    scratch.write("job.json", job.as_bytes());
    let (code, text) = report(&["check"], &scratch.0);
    assert!(
        code == 1 && text.contains("no trace of 2 of 4 ranks: 8-9"),
        "{text}"
    );
    assert!(
        text.contains("note: rank 0 ended with exit code 3"),
        "{text}"
    );
    let (code, text) = report(&["check", "--json"], &scratch.0);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &value["ok"]), (1, &false.into()));
    assert_eq!(value["ranks_missing"], serde_json::json!([8, 9]));
    assert_eq!(value["traces"][1]["host"], "beta");
    assert_eq!(value["traces"][0]["state"], "finished");
}

#[test]
fn a_trace_cut_anywhere_is_finished_and_its_original_kept() {
    for compression in [Compression::None, Compression::Zlib] {
        let bytes = Writer {
            compression,
            ..FIRST
        }
        .ordinary();
        for length in (1..bytes.len()).rev().step_by(7) {
            let scratch = Scratch::new();
            let path = scratch.write("perfetto-trace-0.proto", &bytes[..length]);
            match rsys_report::recover::recover(&path, None) {
                Ok(Recovery::Done { .. }) => {}
                // Cut behind its last word, or in front of its first.
                Ok(Recovery::Whole) => {
                    assert_eq!(whole_packets(&bytes[..length]), length);
                    assert_eq!(scratch.names(), ["perfetto-trace-0.proto"]);
                    continue;
                }
                Err(error) => {
                    assert!(
                        format!("{error:#}").contains("no whole packet"),
                        "{error:#}"
                    );
                    continue;
                }
            }
            assert_eq!(
                scratch.names(),
                ["perfetto-trace-0.proto", "perfetto-trace-0.proto.cut"]
            );
            let kept = std::fs::read(scratch.0.join("perfetto-trace-0.proto.cut")).unwrap();
            assert!(kept == bytes[..length]);
            let finished = std::fs::read(&path).unwrap();
            let found = contents(&finished);
            assert_eq!(found.open, 0, "{length}");
            assert!(found.instants.iter().any(|name| name == "rsys recovered"));
            // Once is enough, and the result can be merged.
            let again = rsys_report::recover::recover(&path, None).unwrap();
            assert_eq!(again, Recovery::Whole, "{length}");
            assert!(std::fs::read(&path).unwrap() == finished);
            merge_all(&scratch.0, &[path]).unwrap();
        }
    }
}

#[test]
fn a_trace_that_is_being_written_is_left_alone() {
    let bytes = FIRST.ordinary();
    let scratch = Scratch::new();
    let path = scratch.write("perfetto-trace-0.proto", &bytes[..bytes.len() - 9]);
    let mut writer = Command::new("sh")
        .args(["-c", "exec 3>>\"$0\"; echo; read line"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut opened = [0];
    let output = writer.stdout.as_mut().unwrap();
    output.read_exact(&mut opened).unwrap();
    let error = rsys_report::recover::recover(&path, None).unwrap_err();
    let said = format!("process {} is still writing it", writer.id());
    assert!(format!("{error:#}").contains(&said), "{error:#}");
    assert_eq!(scratch.names(), ["perfetto-trace-0.proto"]);
    drop(writer.stdin.take());
    writer.wait().unwrap();
    let done = rsys_report::recover::recover(&path, None).unwrap();
    assert!(matches!(done, Recovery::Done { .. }), "{done:?}");
}

#[test]
fn a_finished_trace_is_left_alone_and_a_folder_is_gone_through() {
    let scratch = Scratch::new();
    scratch.write("perfetto-trace-0.proto", &FIRST.ordinary());
    let unfinished = Writer {
        finished: false,
        ..SECOND
    }
    .ordinary();
    scratch.write("perfetto-trace-1.proto", &unfinished);
    let (code, text) = report(&["recover"], &scratch.0);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("perfetto-trace-0.proto: finished, left alone"),
        "{text}"
    );
    assert!(
        text.contains("perfetto-trace-1.proto: finished now: 10 samples, 0 open slices"),
        "{text}"
    );
    let (code, text) = report(&["check"], &scratch.0);
    assert!(
        code == 0 && text.contains("perfetto-trace-1.proto, recovered, rank 1"),
        "{text}"
    );
}

#[test]
fn a_job_cut_anywhere_is_judged_and_never_taken_for_whole() {
    let scratch = Scratch::new();
    scratch.write("perfetto-trace-1.proto", &SECOND.ordinary());
    let whole = FIRST.ordinary();
    let path = scratch.0.join("perfetto-trace-0.proto");
    let mut states = std::collections::BTreeSet::new();
    // Behind its last word there is a reading of the clocks.
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let report = rsys_report::check::check(std::slice::from_ref(&scratch.0), 0.0).unwrap();
        let value = report.json();
        let state = value["traces"][0]["state"].as_str().unwrap().to_owned();
        assert!(
            !report.is_ok() || (state == "finished" && whole_packets(&whole[..length]) == length),
            "{length}: {value:#}"
        );
        states.insert(state);
    }
    assert!(states.len() > 1, "{states:?}");
}

#[test]
fn ranks_that_had_nothing_to_record_are_no_problem() {
    let scratch = Scratch::new();
    scratch.write("perfetto-trace-0.proto", &FIRST.ordinary());
    let none = |rank: u64, reason: &str, expected: bool| serde_json::json!({ "rank": rank, "no_trace": { "reason": reason, "expected": expected } });
    let whole = serde_json::json!({ "rank": 0, "no_trace": null });
    let mut ranks = vec![whole, none(1, "idle", true), none(2, "idle", true)];
    let mut check = |more: Vec<serde_json::Value>| {
        ranks.extend(more);
        let job = serde_json::json!({ "version": 1, "ranks": ranks }).to_string();
        scratch.write("job.json", job.as_bytes());
        report(&["check"], &scratch.0)
    };
    let (code, text) = check(Vec::new());
    assert!(
        code == 0 && text.contains("note: ranks 1-2 left no trace: idle"),
        "{text}"
    );
    assert!(text.contains("1 of 3 ranks"), "{text}");
    // One whose disk was full, after a task of the same rank that was idle; and one that has told nothing.
    let more = vec![
        none(3, "idle", true),
        none(3, "disk full", false),
        serde_json::json!({ "rank": 4 }),
    ];
    let (code, text) = check(more);
    assert!(
        code == 1 && text.contains("problem: no trace of 2 of 5 ranks: 3-4"),
        "{text}"
    );
    assert!(
        text.contains("note: rank 3 left no trace: disk full"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_with_the_description_of_the_job_is_told() {
    let scratch = Scratch::new();
    scratch.write("perfetto-trace-0.proto", &FIRST.ordinary());
    scratch.write("perfetto-trace-1.proto", &SECOND.ordinary());
    for (job, code, told) in [
        ("", 0, "job.json is ignored"),
        ("{ \"ranks\": [", 0, "job.json is ignored"),
        ("[]", 0, "2 of 2 ranks"),
        ("{}", 0, "2 of 2 ranks"),
        (
            r#"{ "version": 1, "world_size": 3 }"#,
            1,
            "no trace of 1 of 3 ranks: 2",
        ),
        (r#"{ "version": 9 }"#, 0, "version 9"),
        // What it cannot mean.
        (
            r#"{ "ranks": [{ "rank": -1 }, { "rank": "x" }, null, 7.5] }"#,
            0,
            "2 of 2 ranks",
        ),
    ] {
        scratch.write("job.json", job.as_bytes());
        let (found, text) = report(&["check"], &scratch.0);
        assert!(
            found == code && text.contains(told),
            "{job}: {found} {text}"
        );
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn clocks_that_are_ages_apart_are_survived() {
    // From the same second to almost all that 63 bits hold.
    for ahead_ns in [
        0,
        1_000_000_000,
        1 << 40,
        (1 << 62) + 1,
        (1 << 63) - 20_000_000,
    ] {
        let scratch = Scratch::new();
        let far = Writer { ahead_ns, ..SECOND };
        let inputs = [
            scratch.write("perfetto-trace-0.proto", &FIRST.ordinary()),
            scratch.write("perfetto-trace-1.proto", &far.ordinary()),
        ];
        let (merged, bytes) = merge_all(&scratch.0, &inputs).unwrap();
        assert_eq!(merged.hosts.len(), 2);
        let found = contents(&bytes);
        assert_eq!((found.samples.len(), found.open), (20, 0), "{ahead_ns}");
        let (code, text) = report(&["check"], &scratch.0);
        assert!(code < 2 && !text.contains("panicked"), "{text}");
    }
}

#[test]
fn wrong_words_have_the_usual_exit_code() {
    let scratch = Scratch::new();
    for (arguments, code) in [(&["merge"][..], 2), (&["nonsense"], 2), (&["check"], 1)] {
        assert_eq!(report(arguments, &scratch.0).0, code);
    }
}
