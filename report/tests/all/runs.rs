//! Several runs in one folder.

use std::path::Path;

use crate::common::Scratch;

/// The trace of a rank in one run, with so many kernels of ten microseconds.
fn trace(rank: u32, pid: u32, kernels: u32) -> String {
    let events = (0..kernels).map(|number| {
        let (at, link) = (1_000 + 20 * number, number + 1);
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":{pid},"tid":{pid},"ts":{at},"dur":1,"args":{{"correlation":{link}}}}},
               {{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{},"dur":10,"args":{{"device":0,"stream":7,"correlation":{link}}}}}"#,
            at + 2
        )
    });
    let events: Vec<String> = events.collect();
    format!(
        r#"{{"schemaVersion":1,"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
        events.join(",")
    )
}

/// Exit code and text of an answer.
fn ask(words: &[&str], folder: &Path) -> (i32, String) {
    let output = folder.join("answer.txt");
    std::fs::remove_file(&output).ok();
    let mut all: Vec<std::ffi::OsString> =
        vec!["rsys-report".into(), words[0].into(), folder.into()];
    all.extend(words[1..].iter().map(Into::into));
    all.extend(["--no-cache".into(), "-o".into(), output.clone().into()]);
    let code = rsys_report::run(all);
    (code, std::fs::read_to_string(output).unwrap_or_default())
}

#[test]
fn the_first_line_says_that_ranks_are_several_times_and_without_times_none_can_be_asked_for() {
    let scratch = Scratch::new();
    for (run, pid, kernels) in [(1, 100, 3), (2, 200, 5)] {
        for rank in 0..2 {
            let name = format!("run{run}-rank{rank}.json");
            let text = trace(rank, pid + rank, kernels);
            scratch.write(&name, text.as_bytes());
        }
    }
    for question in ["timeline", "kernels", "collectives", "overlap", "advice"] {
        let (_, text) = ask(&[question], &scratch.0);
        assert!(
            text.starts_with("ranks are several times in this folder"),
            "{question}: {text}"
        );
    }
    let (code, text) = ask(&["kernels", "--run", "1"], &scratch.0);
    assert_eq!((code, text.as_str()), (1, ""));
}

/// A trace of rocprofv3 in which rank 0 has so many kernels.
fn timed(pid: u32, begin_ns: u64, kernels: u64) -> String {
    let kernels = (0..kernels).map(|number| {
        let at = begin_ns + 100_000 * number;
        format!(
            r#"{{"kind":0,"operation":1,"thread_id":7,"start_timestamp":{at},"end_timestamp":{},"correlation_id":{{"internal":1,"external":0}},
               "dispatch_info":{{"agent_id":{{"handle":10}},"queue_id":{{"handle":1}},"kernel_id":1,"grid_size":{{"x":64,"y":1,"z":1}}}},"stream_id":{{"handle":1}}}}"#,
            at + 50_000
        )
    });
    let kernels: Vec<String> = kernels.collect();
    format!(
        r#"{{"rocprofiler-sdk-tool":[{{"metadata":{{"pid":{pid},"init_time":{begin_ns},"fini_time":{},"node":{{"hostname":"n1"}},"rank":0}},
            "agents":[{{"id":{{"handle":10}},"type":2,"logical_node_type_id":0,"name":"gfx942"}}],
            "strings":{{"buffer_records":[{{"kind":"KERNEL_DISPATCH","operations":["NONE"]}}]}},
            "kernel_symbols":[{{"kernel_id":1,"formatted_kernel_name":"gemm"}}],
            "buffer_records":{{"kernel_dispatch":[{}]}}}}]}}"#,
        begin_ns + 9_000_000,
        kernels.join(",")
    )
}

#[test]
fn where_times_tell_runs_apart_one_can_be_asked_for() {
    let scratch = Scratch::new();
    for (run, pid, kernels) in [(1, 100, 3), (2, 200, 5)] {
        let text = timed(pid, 1_000_000_000 * run, kernels);
        scratch.write(&format!("{run}_results.json"), text.as_bytes());
    }
    let (_, text) = ask(&["kernels"], &scratch.0);
    assert!(text.starts_with("2 runs in this folder: "), "{text}");
    for (run, expected) in [("1", "3"), ("2", "5")] {
        let (code, text) = ask(&["kernels", "--run", run], &scratch.0);
        assert_eq!(code, 0, "{text}");
        assert!(!text.contains("runs in this folder"), "{text}");
        let row = text.lines().find(|line| line.contains("gemm"));
        let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
        assert!(words.contains(&expected), "{text}");
    }
    assert_eq!(ask(&["kernels", "--run", "3"], &scratch.0).0, 1);
}
