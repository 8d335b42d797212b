//! Merged traces beside those that they were made of, and what is said of a trace that was cut off.

use std::process::Command;

use crate::common::{FIRST, SECOND, Scratch, Writer, merge_all, whole_packets};
use rsys_proto::Compression;

fn check(scratch: &Scratch, more: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rsys-report"))
        .arg("check")
        .args(more)
        .arg(&scratch.0)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn a_merged_trace_beside_its_parts_is_counted_and_skipped() {
    let scratch = Scratch::new();
    let parts = [
        scratch.write("perfetto-trace-0.proto", &FIRST.ordinary()),
        scratch.write("perfetto-trace-1.proto", &SECOND.ordinary()),
    ];
    let (_, bytes) = merge_all(&scratch.0, &parts).unwrap();
    let (code, text) = check(&scratch, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("ok: 2 traces, 2 hosts, 2 of 2 ranks"),
        "{text}"
    );
    let note = "note: merged.pftrace: merged from 2 traces, 2 ranks and 20 samples are in it; it is not judged";
    assert!(text.contains(note), "{text}");
    let (_, json) = check(&scratch, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["traces"].as_array().map(Vec::len), Some(2));
    let merged = &json["merged"][0];
    assert_eq!(
        (&merged["traces"], &merged["samples"]),
        (&2.into(), &20.into())
    );
    assert_eq!(merged["ranks"], serde_json::json!([0, 1]));

    // Once more, with the merged trace in the folder: it is left out.
    let folder = std::slice::from_ref(&scratch.0);
    scratch.write("job.pftrace", &bytes);
    let (merged, again) = merge_all(&scratch.0, folder).unwrap();
    assert_eq!((merged.traces, again), (2, bytes.clone()));
    let remarks = merged.remarks.join("\n");
    assert!(
        remarks.contains("job.pftrace: a merged trace already, left out"),
        "{remarks}"
    );

    // A part that is lost is missed, whatever the merged trace holds.
    std::fs::remove_file(&parts[1]).unwrap();
    let (code, text) = check(&scratch, &[]);
    assert!(
        code == 1 && text.contains("no trace of 1 of 2 ranks: 1"),
        "{text}"
    );
}

#[test]
fn a_merged_trace_alone_is_judged_by_what_is_in_it() {
    let scratch = Scratch::new();
    let parts = [
        scratch.write("perfetto-trace-0.proto", &FIRST.ordinary()),
        scratch.write("perfetto-trace-1.proto", &SECOND.ordinary()),
    ];
    let (_, bytes) = merge_all(&scratch.0, &parts).unwrap();
    for part in &parts {
        std::fs::remove_file(part).unwrap();
    }
    let (code, text) = check(&scratch, &[]);
    assert!(
        code == 0 && text.contains("20 samples are in it\n"),
        "{text}"
    );
    assert!(text.contains("ok: 1 merged trace"), "{text}");
    scratch.write("job.json", br#"{ "world_size": 3 }"#);
    let (code, text) = check(&scratch, &[]);
    assert!(
        code == 1 && text.contains("no trace of 1 of 3 ranks: 2"),
        "{text}"
    );
    scratch.write("merged.pftrace", &bytes[..bytes.len() - 3]);
    let (code, text) = check(&scratch, &[]);
    assert!(
        code == 1 && text.contains("merged.pftrace: cut off within a packet"),
        "{text}"
    );
}

#[test]
fn a_cut_trace_says_how_many_samples_it_holds() {
    for compression in [Compression::None, Compression::Zlib] {
        let scratch = Scratch::new();
        let unfinished = Writer {
            finished: false,
            compression,
            ..FIRST
        };
        let bytes = unfinished.ordinary();
        scratch.write("perfetto-trace-0.proto", &bytes);
        let (code, text) = check(&scratch, &[]);
        assert!(
            code == 1
                && text.contains(", cut, rank 0, host alpha, pid ")
                && text.contains(", 10 samples, "),
            "{text}"
        );
        assert!(
            text.contains("cut off; `rsys-report recover` finishes it and keeps its 10 samples"),
            "{text}"
        );
        // What check counts is what recover keeps, wherever the trace was cut.
        for length in (bytes.len() / 2..bytes.len()).step_by(7) {
            if whole_packets(&bytes[..length]) == 0 {
                continue;
            }
            let path = scratch.write("perfetto-trace-0.proto", &bytes[..length]);
            let (_, json) = check(&scratch, &["--json"]);
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let goal = scratch.0.join("whole");
            let done = rsys_report::recover::recover(&path, Some(&goal)).unwrap();
            if let rsys_report::recover::Recovery::Done { samples, .. } = done {
                assert_eq!(json["traces"][0]["samples"], samples, "{length}");
                std::fs::remove_file(&goal).unwrap();
            }
        }
    }
}
