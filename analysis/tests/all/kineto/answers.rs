//! Answers on files of PyTorch's profiler, with times that are written out here.

use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::copies::Copies;
use rsys_analysis::measure::gpu::gaps::Gaps;
use rsys_analysis::measure::gpu::kernels::Kernels;
use rsys_analysis::measure::gpu::launch::Launch;
use rsys_analysis::measure::host::functions::{By, Functions};
use rsys_analysis::show;
use serde_json::{Value, json};

use super::{document, event, kernel, read_bytes};
use crate::common::schema;

fn answer(text: &str, mut measure: impl Measure) -> Value {
    let (model, batch) = read_bytes(text.as_bytes(), measure.needs());
    measure.take(&batch);
    let answer = show::json(&measure.answer(&model, "run"));
    schema::judge(&answer);
    answer
}

#[test]
fn functions_of_one_name_and_file_that_call_each_other_are_one_time() {
    let function = |name: &str, ts: &str, dur: &str| event("python_function", name, ts, dur, "");
    let file = document(&[
        function("net.py(40): forward", "0", "100"),
        function("net.py(7): forward", "10", "50"),
        function("net.py(7): forward", "70", "10"),
        function("net.py(7): forward", "95", "25"),
    ]);
    let times = |by: By| -> Vec<Value> {
        let answer = answer(&file, Functions::new(by));
        let rows = answer["recorded"].as_array().unwrap().iter();
        let times = rows.map(|row| json!([row["count"], row["self_ns"], row["total_ns"]]));
        times.collect()
    };
    assert_eq!(times(By::default()), [json!([4, 120_000, 120_000])]);
    let by_line = By {
        line: true,
        ..By::default()
    };
    let expected = [json!([3, 85_000, 85_000]), json!([1, 35_000, 100_000])];
    assert_eq!(times(by_line), expected);
}

#[test]
fn idle_times_in_ranges_of_iterations_are_of_one_place() {
    let mut events = Vec::new();
    for step in 0..3 {
        let at = |us: u64| (1_000 * step + us).to_string();
        let name = format!("ProfilerStep#{step}");
        let link = format!(r#""correlation": {}"#, step + 1);
        events.push(event("user_annotation", &name, &at(0), "1000", ""));
        events.push(event(
            "cuda_runtime",
            "hipLaunchKernel",
            &at(600),
            "5",
            &link,
        ));
        events.push(kernel("gemm", &at(605), "300", 0, 7, &format!(", {link}")));
    }
    let answer = answer(&document(&events), Gaps::default());
    let causes = answer["runs"][0]["devices"][0]["causes"]
        .as_array()
        .unwrap();
    let code: Vec<&Value> = causes
        .iter()
        .filter(|row| row["cause"] == "host_code")
        .collect();
    assert_eq!(code.len(), 1, "{causes:#?}");
    assert_eq!(code[0]["where"], "ProfilerStep");
    // Two times from the end of a kernel to the call that launches the next.
    assert_eq!(code[0]["idle_ns"], 2 * (95 + 600) * 1_000);
}

#[test]
fn calls_that_wait_for_copies_need_not_tell_bytes() {
    let file = document(&[
        event(
            "cuda_runtime",
            "hipMemcpyWithStream",
            "10",
            "30",
            r#""correlation": 1"#,
        ),
        event(
            "cuda_runtime",
            "hipMemcpyAsync",
            "50",
            "5",
            r#""correlation": 2"#,
        ),
    ]);
    let answer = answer(&file, Copies::default());
    let [blocking] = &answer["blocking_copies"].as_array().unwrap()[..] else {
        panic!("{answer:#}");
    };
    assert_eq!(blocking["call"], "hipMemcpyWithStream");
    assert_eq!(
        (&blocking["count"], &blocking["blocked_ns"]),
        (&json!(1), &json!(30_000))
    );
    assert!(blocking["bytes"].is_null(), "{blocking}");
}

/// Two ranks whose process ids are equal, as in containers: an operator comes before anything else of them.
#[test]
fn operators_of_merged_files_are_of_their_ranks() {
    // What is of the profiler itself says no rank.
    let mut events = vec![event(
        "Trace",
        "PyTorch Profiler (0)",
        "0",
        "90",
        r#""Op count": 0"#,
    )];
    for rank in 0..2 {
        let rank_is = format!(r#""rank": {rank}"#);
        let link = format!(r#"{rank_is}, "correlation": 7"#);
        let dur = ["30", "50"][rank];
        let step = "train.py(3): step";
        events.push(event("cpu_op", "aten::mm", "10", dur, &rank_is));
        events.push(event("python_function", step, "5", "60", &rank_is));
        events.push(event("cuda_runtime", "hipLaunchKernel", "12", "3", &link));
        events.push(kernel("gemm", "20", "5", 0, 7, &format!(", {link}")));
    }
    let file = document(&events);
    let recorded = answer(&file, Functions::default());
    let recorded = recorded["recorded"].as_array().unwrap().iter();
    let times = recorded.map(|row| json!([row["function"], row["count"], row["self_ns"]]));
    let expected = [json!(["aten::mm", 2, 80_000]), json!(["step", 2, 40_000])];
    assert_eq!(times.collect::<Vec<_>>(), expected);
    let launched = answer(&file, Launch::default());
    for (table, key, name) in [
        ("gpu_operators", "operator", "aten::mm"),
        ("gpu_functions", "function", "step"),
    ] {
        let rows = launched[table].as_array().unwrap();
        assert_eq!(rows.len(), 1, "{launched:#}");
        assert_eq!(
            (&rows[0][key], &rows[0]["count"]),
            (&json!(name), &json!(2))
        );
    }
    // The process ids are known though nothing of the host is asked for.
    let (model, _) = read_bytes(file.as_bytes(), Kernels::default().needs());
    let processes = model.processes.iter().map(|one| (one.rank, one.pid));
    assert_eq!(
        processes.collect::<Vec<_>>(),
        [(Some(0), 4711), (Some(1), 4711)]
    );
}
