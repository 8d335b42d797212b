//! Iterations and their critical paths.

use super::{Trace, notes};
use serde_json::Value;

/// Twelve steps of one kernel that is waited for; what these have besides, in front of the kernel or behind the wait, takes 20 ms.
fn steps(stalled: &[u64], is_behind: bool) -> Value {
    let mut trace = Trace::default();
    let mut now = 1_000_000;
    for step in 0..12 {
        let begin = now;
        let stall = |trace: &mut Trace, now: &mut u64| {
            if stalled.contains(&step) {
                trace.host("cpu_op", "my::save", *now, 20_000, "");
                *now += 20_000;
            }
        };
        if !is_behind {
            stall(&mut trace, &mut now);
        }
        trace.launch("gemm", (now, 5), (now + 10, 9_000));
        trace.host("cuda_runtime", "hipDeviceSynchronize", now + 5, 9_015, "");
        now += 9_020;
        if is_behind {
            stall(&mut trace, &mut now);
        }
        let name = format!("ProfilerStep#{step}");
        trace.host("user_annotation", &name, begin, now - begin, "");
    }
    trace.answer("overlap")
}

#[test]
fn an_iteration_is_slow_by_what_is_in_it_and_the_usual_one_has_nothing_of_that() {
    for (stalled, is_behind) in [(&[5][..], true), (&[5], false), (&[3, 6, 9], false)] {
        let answer = steps(stalled, is_behind);
        let slow = answer["slow_iterations"].as_array().unwrap();
        assert_eq!(slow.len(), stalled.len(), "{slow:#?}");
        for one in slow {
            let more = one["differences"].as_array().unwrap();
            assert_eq!(more.len(), 1, "{one:#}");
            assert!(more[0]["place"].as_str().unwrap().contains("my::save"));
            assert!(more[0]["more_ns"].as_u64().unwrap().abs_diff(20_000_000) < 50_000);
        }
        let gemm = &answer["faster_kernels"][0];
        assert_eq!(
            (gemm["alone_ns"].as_f64(), gemm["saved_ns"].as_f64()),
            (Some(9e6), Some(1.8e6))
        );
        let gaps = answer["without_gaps"].as_array().into_iter().flatten();
        let saved_ns = gaps.map(|one| one["saved_ns"].as_f64().unwrap());
        assert!(saved_ns.sum::<f64>() <= 20_001.0, "{answer:#}");
    }
}

/// Steps of ten kernels. The queue has room for eight: then a launch takes as long as a kernel.
fn loop_of(kernel: u64) -> Value {
    let mut trace = Trace::default();
    let (mut host, mut gpu) = (1_000_000, 1_000_000_u64);
    let mut ends = Vec::new();
    for step in 0..6 {
        let begin = host;
        for _ in 0..10 {
            let room = ends
                .len()
                .checked_sub(8)
                .map_or(0, |place: usize| ends[place]);
            let call_end = (host + 10).max(room);
            let start = gpu.max(call_end + 5);
            trace.host("cpu_op", "aten::mm", host, call_end + 2 - host, "");
            trace.launch("gemm", (host + 5, call_end - host - 5), (start, kernel));
            gpu = start + kernel;
            ends.push(gpu);
            host = call_end + 5;
        }
        let name = format!("ProfilerStep#{step}");
        trace.host("user_annotation", &name, begin, host - begin, "");
    }
    trace.answer("critical path")
}

#[test]
fn a_loop_is_bound_by_what_it_waits_for() {
    let answer = loop_of(100);
    for path in answer["critical_paths"].as_array().unwrap() {
        assert_eq!(path["bound_by"], "GPU", "{path:#}");
        assert!(path["behind_ns"].as_u64() > Some(500_000), "{path:#}");
    }
    let answer = loop_of(2);
    for path in answer["critical_paths"].as_array().unwrap() {
        assert_eq!(path["bound_by"], "host", "{path:#}");
        assert_eq!(path["behind_ns"], 0);
    }
}

#[test]
fn a_thread_in_a_range_waits_for_the_one_that_launches() {
    let mut trace = Trace::default();
    for step in 0..4 {
        let at = 1_000_000 + 10_000 * step;
        trace.host(
            "user_annotation",
            &format!("ProfilerStep#{step}"),
            at,
            9_900,
            "",
        );
        trace.host("cpu_op", "aten::forward", at, 1_000, "");
        trace.host("cuda_runtime", "hipStreamSynchronize", at + 9_700, 150, "");
        for one in 0..8 {
            trace.links += 1;
            let (begin, link) = (at + 1_200 + 1_000 * one, trace.links);
            trace.events.push(format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"autograd::backward","pid":100,"tid":200,"ts":{begin},"dur":990}}"#
            ));
            trace.events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":100,"tid":200,"ts":{},"dur":5,"args":{{"correlation":{link}}}}}"#,
                begin + 900
            ));
            trace.gpu("grad", 7, begin + 910, 20, link);
        }
    }
    let answer = trace.answer("critical path");
    let sums = answer["critical_path_sums"].as_array().unwrap();
    let of = |name: &str| -> u64 {
        let own = sums.iter().filter(|row| row["name"] == name);
        own.filter_map(|row| row["duration_ns"].as_u64())
            .max()
            .unwrap_or(0)
    };
    assert!(of("autograd::backward") > 6_000_000, "{sums:#?}");
    assert!(of("aten::forward") > 900_000, "{sums:#?}");
    assert!(of("ProfilerStep") < 700_000, "{sums:#?}");
}

#[test]
fn work_from_before_the_record_is_of_no_iteration() {
    let mut trace = Trace::default();
    (0..10).for_each(|kernel| trace.gpu("of_before", 7, 1_000_000 + 100 * kernel, 95, 0));
    for step in 0..3 {
        let at = 1_000_000 + 1_000 * step;
        trace.host(
            "user_annotation",
            &format!("ProfilerStep#{}", step + 5),
            at,
            990,
            "",
        );
        for kernel in 0..10 {
            trace.launch(
                "gemm",
                (at + 20 + 50 * kernel, 5),
                (at + 1_000 + 100 * kernel, 90),
            );
        }
    }
    let answer = trace.answer("overlap");
    for one in answer["iterations"].as_array().unwrap().iter().take(3) {
        assert_eq!(one["computation_ns"], 900_000, "{one:#}");
    }
    assert!(notes(&answer).contains("10 operations of GPUs that had been launched before"));
}

#[test]
fn a_step_of_an_optimizer_ends_an_iteration() {
    let mut trace = Trace::default();
    for step in 0..4 {
        let at = 1_000_000 + 10_000 * step;
        trace.launch("gemm", (at, 5), (at + 10, 3_000 + 100 * step));
        trace.host("user_annotation", "forward", at, 6_000, "");
        let name = "Optimizer.step#SGD.step";
        trace.host("user_annotation", name, at + 9_000, 1_000, "");
        trace.launch("sgd", (at + 9_100, 5), (at + 9_200, 100));
    }
    let answer = trace.answer("overlap");
    let iterations = answer["iterations"].as_array().unwrap();
    let found: Vec<_> = iterations
        .iter()
        .filter(|one| one["iteration"] != "outside")
        .map(|one| (one["duration_ns"].as_u64(), one["computation_ns"].as_u64()))
        .collect();
    let expected = |step: u64| (Some(10_000_000), Some(3_100_000 + 100_000 * step));
    assert_eq!(found[..4], [0, 1, 2, 3].map(expected), "{iterations:#?}");
}

#[test]
fn optimizers_that_take_turns_end_an_iteration_together() {
    let mut trace = Trace::default();
    for step in 0..8 {
        let at = 1_000_000 + 10_000 * step;
        for (name, at) in [("Adam", at), ("AdamW", at + 3_000)] {
            trace.launch("gemm", (at, 5), (at + 10, 1_000));
            let name = format!("Optimizer.step#{name}.step");
            // The first of the two takes longer.
            let duration = if at % 10_000 == 0 { 1_900 } else { 500 };
            trace.host("user_annotation", &name, at + 1_000, duration, "");
        }
    }
    let answer = trace.answer("overlap");
    let rank = &answer["overlap_ranks"][0];
    assert_eq!(
        (&rank["iterations"], &rank["marker"]),
        (&8.into(), &"Optimizer.step#AdamW.step".into())
    );
}

#[test]
fn kernels_that_recur_within_a_step_are_layers() {
    let mut trace = Trace::default();
    trace.host(
        "user_annotation",
        "step[DECODE bs=8]",
        1_000_000,
        24_000,
        "",
    );
    for layer in 0..24 {
        for (place, name) in ["norm", "attention", "mlp"].into_iter().enumerate() {
            let at = 1_000_000 + 1_000 * layer + 300 * place as u64;
            trace.launch(name, (at, 5), (at + 10, 250));
        }
    }
    let answer = trace.answer("overlap");
    assert_eq!(answer["overlap_ranks"][0]["iterations"], 1);
    let layers = &answer["layers"][0];
    assert_eq!(
        (layers["layers"].as_u64(), layers["mean_ns"].as_u64()),
        (Some(24), Some(1_000_000))
    );
    assert_eq!(layers["kernel"], "norm");
}

#[test]
fn parts_of_a_step_are_one_iteration() {
    let mut trace = Trace::default();
    for step in 0..4 {
        let at = 1_000_000 + 10_000 * step;
        for (place, part) in ["data", "forward", "backward"].into_iter().enumerate() {
            let (at, place) = (at + 3_000 * place as u64, place as u64);
            let name = format!("step {}: {part}", step + 5);
            trace.host("user_annotation", &name, at, 2_000 + 500 * place, "");
            trace.launch("gemm", (at, 5), (at + 10, 1_000));
        }
    }
    let answer = trace.answer("overlap");
    let rank = &answer["overlap_ranks"][0];
    assert_eq!(
        (&rank["iterations"], &rank["marker"]),
        (&4.into(), &"step".into())
    );
    for one in answer["iterations"].as_array().unwrap().iter().take(4) {
        assert_eq!(one["duration_ns"], 9_000_000, "{one:#}");
        assert_eq!(one["computation_ns"], 3_000_000, "{one:#}");
    }
}

/// Of most of a path nothing is known.
#[test]
fn what_is_mostly_unknown_is_bound_by_nothing() {
    let mut trace = Trace::default();
    for step in 0..4 {
        let at = 1_000_000 + 10_000 * step;
        let name = format!("ProfilerStep#{step}");
        trace.host("user_annotation", &name, at, 9_900, "");
        trace.launch("gemm", (at, 5), (at + 10, 500));
        trace.gpu("of nobody", 7, at + 9_600, 100, 0);
        trace.host("cuda_runtime", "hipDeviceSynchronize", at + 20, 9_690, "");
    }
    let answer = trace.answer("critical path");
    for path in answer["critical_paths"].as_array().unwrap() {
        assert!(path["unknown_ns"].as_u64() > Some(8_000_000), "{path:#}");
        assert_eq!(path["bound_by"], Value::Null, "{path:#}");
    }
}
