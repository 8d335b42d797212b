//! What streams waited for, kernels that recur, ranges as the GPU saw them, and counters, of files of PyTorch's profiler.

use rsys_analysis::show;
use serde_json::Value;

use crate::common::{Scratch, asked, judge};
use crate::kineto::document;

/// The answer to a question about a file with these events.
fn answer(question: &str, events: &[String]) -> Value {
    let scratch = Scratch::new();
    let path = scratch.write("trace.json", document(events).as_bytes());
    let all = asked(&[path]);
    let (_, answer) = all.iter().find(|(name, _)| *name == question).unwrap();
    let json = show::json(answer);
    judge(&json);
    json
}

fn launch(link: u64, ts: u64) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":100,"tid":100,"ts":{ts},"dur":2,"args":{{"correlation":{link}}}}}"#
    )
}

fn on_stream(cat: &str, name: &str, link: u64, ts: u64, dur: f64) -> String {
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7,"correlation":{link}}}}}"#
    )
}

#[test]
fn idle_time_of_a_stream_is_by_what_its_next_operation_waited_for() {
    let events = [
        launch(1, 100),
        on_stream("kernel", "a", 1, 110, 10.0),
        // Launched while the first ran, and begins 20 ns behind it.
        launch(2, 112),
        on_stream("kernel", "b", 2, 120, 9.98),
        // Launched while the second ran; it waits for something else.
        launch(3, 125),
        on_stream("kernel", "c", 3, 140, 10.0),
        // Launched when the stream had nothing to do.
        launch(4, 170),
        on_stream("kernel", "d", 4, 180, 10.0),
        // Nobody knows when it was launched.
        on_stream("kernel", "e", 9, 191, 9.0),
    ];
    let found = answer("streams", &events);
    let row = &found["stream_idle"][0];
    let told = |key: &str| row[key].as_u64().unwrap();
    // `c` begins 10.02 µs behind the end of `b`.
    assert_eq!(told("other_wait_ns"), 10_020);
    assert_eq!(told("host_wait_ns"), 30_000);
    assert_eq!(told("unknown_ns"), 1_000);
    assert_eq!(told("kernel_wait_ns"), 0);
    assert_eq!((told("idle_ns"), told("total_ns")), (41_020, 90_000));
}

#[test]
fn kernels_that_recur_are_one_sequence_whatever_their_turn() {
    let mut events = Vec::new();
    for round in 0..10 {
        for (place, name) in ["gemm", "gelu", "gemm", "add"].iter().enumerate() {
            let ts = 1_000 + 100 * round + 20 * place as u64;
            events.push(on_stream("kernel", name, 0, ts, 10.0));
        }
    }
    let found = answer("streams", &events);
    let rows = found["kernel_sequences"].as_array().unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row["sequence"].as_str().unwrap(), row["count"].as_u64()))
        .collect();
    let expected = ("gemm \u{2192} gelu \u{2192} gemm \u{2192} add", Some(10));
    assert_eq!(told, [expected]);
    assert_eq!(rows[0]["kernels_ns"], 400_000);
    assert_eq!(rows[0]["share"], 1.0);
}

#[test]
fn ranges_of_the_gpu_say_how_much_of_them_it_worked() {
    let mut events = Vec::new();
    for step in 0..2 {
        let ts = 1_000 * (step + 1);
        let name = format!("ProfilerStep#{step}");
        events.push(on_stream("gpu_user_annotation", &name, 0, ts, 100.0));
        events.push(on_stream("kernel", "a", 0, ts, 30.0));
        events.push(on_stream("kernel", "b", 0, ts + 90, 20.0));
    }
    let found = answer("streams", &events);
    let rows = found["gpu_ranges"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["range"], "ProfilerStep");
    assert_eq!(rows[0]["count"], 2);
    assert_eq!(rows[0]["total_ns"], 200_000);
    assert_eq!(rows[0]["busy_ns"], 80_000);
    // They are no operations.
    assert_eq!(found["stream_idle"][0]["operations"], 4);
}

#[test]
fn copies_and_fills_belong_to_the_operators_that_launched_them() {
    let operator = |name: &str, ts: u64| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":100,"tid":100,"ts":{ts},"dur":50,"args":{{}}}}"#
        )
    };
    let events = [
        operator("aten::copy_", 100),
        launch(1, 110),
        on_stream("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 120, 10.0),
        operator("aten::zero_", 200),
        launch(2, 210),
        on_stream("gpu_memset", "Memset (Device)", 2, 220, 5.0),
        launch(3, 300),
        on_stream("gpu_memset", "Memset (Device)", 3, 320, 2.0),
    ];
    let found = answer("launch", &events);
    let rows = found["operator_copies"].as_array().unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row["operator"].as_str().unwrap(), row["total_ns"].as_u64()))
        .collect();
    let expected = [
        ("aten::copy_", Some(10_000)),
        ("aten::zero_", Some(5_000)),
        ("(no operator)", Some(2_000)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn counters_of_others_are_shown() {
    let range = |ts: u64, value: u64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_profiler_range","name":"gemm","pid":0,"tid":7,"ts":{ts},"dur":10,"args":{{"device":0,"stream":7,"SQ_WAVES":{value}}}}}"#
        )
    };
    let load = r#"{"ph":"C","name":"loader queue","pid":100,"ts":100,"args":{"batches":3}}"#;
    let events = [
        launch(1, 100),
        on_stream("kernel", "gemm", 1, 110, 10.0),
        range(110, 64),
        range(210, 32),
        load.to_owned(),
    ];
    let found = answer("sensors", &events);
    let rows = found["counters"].as_array().unwrap();
    let row = |counter: &str| rows.iter().find(|row| row["counter"] == counter).unwrap();
    let waves = row("SQ_WAVES");
    assert_eq!(
        (&waves["of"], &waves["process"]),
        (&"gemm".into(), &100.into())
    );
    assert_eq!(
        (waves["sum"].as_f64(), waves["max"].as_f64()),
        (Some(96.0), Some(64.0))
    );
    assert_eq!(row("batches")["of"], "loader queue");
}
