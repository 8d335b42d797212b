//! Why a GPU is idle, and what is advised.

use super::{Trace, answer, findings, notes, operators};
use crate::common::Scratch;
use serde_json::Value;

#[test]
fn an_operator_has_its_own_idle_time_and_no_more() {
    let names = ["aten::a", "aten::b", "aten::c"];
    let found = operators(&names, 4, (20_000, 5_000)).advice();
    for name in names {
        let (_, _, saves_ns) = found
            .iter()
            .find(|(rule, place, _)| rule == "host_code" && place == name)
            .unwrap_or_else(|| panic!("{name} in {found:?}"));
        assert!(*saves_ns <= 80_000_000, "{found:?}");
    }
    assert_eq!(operators(&names, 4, (20, 5_000)).advice(), []);
}

#[test]
fn where_no_operator_stands_out_they_are_one_finding() {
    let names: Vec<String> = (0..90).map(|one| format!("aten::op_{one}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = operators(&names, 4, (300, 50)).advice();
    let (rule, place, _) = &found[0];
    assert_eq!(rule, "many_operators", "{found:?}");
    assert!(place.ends_with(" and 89 others"), "{place}");
    assert_eq!(operators(&names, 4, (2, 500)).advice(), []);
}

#[test]
fn a_loader_that_is_waited_for_has_the_remedies_of_input() {
    let loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    let trace = |load: u64| {
        let mut trace = Trace::default();
        for step in 0..6 {
            let at = 1_000_000 + 40_000 * step;
            trace.host("user_annotation", loader, at, load, "");
            for kernel in 0..20 {
                let begin = at + load + 100 + 900 * kernel;
                trace.launch("gemm", (begin, 5), (begin + 10, 880));
            }
        }
        trace
    };
    let found = trace(20_000).answer("advice");
    assert_eq!(findings(&found)[0].0, "input_wait");
    assert!(
        found["findings"][0]["try"]
            .as_str()
            .unwrap()
            .contains("num_workers")
    );
    let rules: Vec<String> = trace(100).advice().into_iter().map(|one| one.0).collect();
    assert!(!rules.contains(&"input_wait".to_owned()), "{rules:?}");
}

#[test]
fn generated_code_is_not_to_be_edited() {
    let name = "/tmp/torchinductor_user/ab/cabc.py(12): call";
    let trace = |code: u64| {
        let mut trace = Trace::default();
        for step in 0..20 {
            let at = 1_000_000 + 2_000 * step;
            trace.host("python_function", name, at, code, "");
            trace.launch(
                "triton_poi",
                (at + code, 5),
                (at + code + 10, 2_000 - code - 10),
            );
        }
        trace.advice()
    };
    assert_eq!(trace(1_000)[0].0, "generated_code");
    assert_eq!(trace(20), []);
}

/// Once, or again in each step: one finding, whatever the compiler was at.
#[test]
fn compiling_is_one_finding() {
    let parts = [
        "bytecode_tracing",
        "GraphLowering.run",
        "async_compile.wait",
    ];
    let trace = |compiled: u64| {
        let (mut trace, mut at) = (Trace::default(), 1_000_000);
        for step in 0..20 {
            for part in parts.iter().filter(|_| (1..=compiled).contains(&step)) {
                trace.host(
                    "user_annotation",
                    &format!("{part} (dynamo_timed)"),
                    at,
                    50_000,
                    "",
                );
                at += 50_000;
            }
            trace.launch("triton_poi", (at, 5), (at + 10, 2_000));
            at += 2_020;
        }
        let found = trace.advice();
        let rules: Vec<String> = found.into_iter().map(|one| one.0).collect();
        rules
    };
    for compiled in [1, 19] {
        assert_eq!(trace(compiled), ["compilation"], "{compiled}");
    }
    assert_eq!(trace(0), [""; 0]);
}

#[test]
fn what_is_made_once_is_told_of_short_traces_too() {
    let trace = |load: u64| {
        let mut trace = Trace::default();
        trace.launch("gemm", (1_000_000, 5), (1_000_010, 100));
        trace.host("cuda_runtime", "hipModuleLoadData", 1_000_120, load, "");
        for kernel in 0..100 {
            let at = 1_000_130 + load + 100 * kernel;
            trace.launch("gemm", (at, 5), (at + 10, 95));
        }
        trace.advice()
    };
    assert_eq!(trace(4_000)[0].0, "start_up");
    assert_eq!(trace(100), []);
}

#[test]
fn a_gpu_that_is_idle_is_told_of_where_no_rule_knows_why() {
    let mut trace = Trace::default();
    // Without calls, what was waited for is unknown.
    for kernel in 0..10 {
        trace.gpu("gemm", 7, 1_000_000 + 1_000 * kernel, 50, 0);
    }
    let advice = trace.answer("advice");
    assert_eq!(findings(&advice), []);
    assert!(notes(&advice).contains("is idle for 94 % of"), "{advice:#}");
    assert!(!notes(&advice).contains("rsys-sample"), "{advice:#}");
    let mut busy = Trace::default();
    (0..10).for_each(|kernel| busy.gpu("gemm", 7, 1_000_000 + 60 * kernel, 50, 0));
    assert!(notes(&busy.answer("advice")).contains("no rule has found anything"));
}

#[test]
fn a_graph_is_launched_once() {
    let mut trace = Trace::default();
    trace.host(
        "cuda_runtime",
        "hipGraphLaunch",
        1_000_000,
        500,
        r#""correlation":9"#,
    );
    trace.host(
        "cuda_runtime",
        "hipGraphLaunch",
        1_100_000,
        500,
        r#""correlation":10"#,
    );
    (0..100).for_each(|node| trace.gpu("node", 7, 1_000_600 + 20 * node, 15, 9));
    let answer = trace.answer("launch");
    let graph = &answer["graph_launches"][0];
    assert_eq!(graph["launches"], 1);
    assert_eq!(graph["nodes"], 100);
    assert_eq!(graph["call_total_ns"], 500_000);
    assert_eq!(graph["queue_total_ns"], 100_000);
    assert_eq!(graph["span_total_ns"], 1_995_000);
    let delays = answer["launch_delays"].as_array().unwrap();
    let sum: u64 = delays
        .iter()
        .filter_map(|row| row["submit_total_ns"].as_u64())
        .sum();
    assert_eq!(sum, 500_000);
    assert_eq!(answer["queue_depth"][0]["operations"], 1);
    assert!(
        notes(&answer).contains("1 launch of graphs without one operation"),
        "{answer:#}"
    );
}

#[test]
fn memory_of_tensors_is_known_by_operator() {
    let mut trace = Trace::default();
    trace.launch("gemm", (1_000_000, 5), (1_000_010, 100));
    trace.host("cpu_op", "aten::mm", 1_000_000, 50, "");
    let mut sum = 0_i64;
    for (at, address, bytes) in [
        (20, 64, 1000),
        (30, 128, 500),
        (200, 64, -1000),
        (210, 999, -10),
    ] {
        sum += bytes;
        trace.events.push(format!(
            r#"{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":100,"tid":100,"ts":{},"args":{{"Bytes":{bytes},"Addr":{address},"Device Type":1,"Device Id":0,"Total Allocated":{sum},"Total Reserved":4000}}}}"#,
            1_000_000 + at
        ));
    }
    let answer = trace.answer("memory");
    let row = &answer["framework_memory"][0];
    for (key, expected) in [
        ("device", 0),
        ("allocations", 2),
        ("peak_bytes", 1500),
        ("end_bytes", 490),
        ("reserved_bytes", 4000),
        ("unused_bytes", 3510),
        ("not_given_back", 1),
        ("not_given_back_bytes", 500),
        ("unknown_frees", 1),
    ] {
        assert_eq!(row[key], expected, "{key}: {row:#}");
    }
    let operator = &answer["framework_memory_operators"][0];
    assert_eq!(operator["operator"], "aten::mm");
    assert_eq!(operator["at_peak_bytes"], 1500);
}

/// Address and bytes of events of one time, with or without the sum afterwards.
fn memory_at_once(events: &[(u64, i64)], has_sums: bool, order: [usize; 4]) -> [Value; 4] {
    let mut trace = Trace::default();
    trace.launch("gemm", (1_000_000, 5), (1_000_010, 100));
    let mut sum = 0;
    let events = events.iter().map(|(address, bytes)| {
        sum += bytes;
        let sums = match has_sums {
            true => format!(r#","Total Allocated":{sum},"Total Reserved":4000"#),
            false => String::new(),
        };
        format!(
            r#"{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":100,"tid":100,"ts":1000020,"args":{{"Bytes":{bytes},"Addr":{address},"Device Type":1,"Device Id":0{sums}}}}}"#
        )
    });
    let events: Vec<String> = events.collect();
    trace
        .events
        .extend(order.map(|place| events[place].clone()));
    let answer = trace.answer("memory");
    let row = &answer["framework_memory"][0];
    ["not_given_back", "unknown_frees", "peak_bytes", "end_bytes"].map(|key| row[key].clone())
}

/// Temporary memory that is given and taken back within a microsecond is not left.
#[test]
fn memory_events_of_one_time_are_in_an_order_that_can_be() {
    let temporary = [(64, 1000), (64, -1000), (128, 300), (128, -300)];
    let reused = [(64, 1000), (64, -1000), (64, 1000), (64, -1000)];
    let nested = [(64, 1000), (128, 300), (64, -1000), (128, -300)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        for (events, has_sums, peak) in [
            (&temporary, true, 1000),
            (&temporary, false, 1000),
            (&reused, true, 1000),
            (&reused, false, 1000),
            (&nested, true, 1300),
        ] {
            let found = memory_at_once(events, has_sums, order);
            let expected: [Value; 4] = [0.into(), 0.into(), peak.into(), 0.into()];
            assert_eq!(found, expected, "{events:?} {has_sums} {order:?}");
        }
    }
}

/// Rounds of a kernel of 2 ms, a copy to the host that is waited for, and 1 ms of code.
fn fetches(copy: u64) -> Vec<(String, String, u64)> {
    let mut trace = Trace::default();
    for round in 0..12 {
        let at = 1_000_000 + (3_000 + copy) * round;
        trace.launch("gemm", (at, 5), (at + 10, 2_000));
        trace.links += 1;
        let link = trace.links;
        trace.events.push(format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":{},"dur":{copy},"args":{{"device":0,"stream":7,"correlation":{link},"bytes":64}}}}"#,
            at + 2_010
        ));
        let args = format!(r#""correlation":{link}"#);
        trace.host(
            "cuda_runtime",
            "hipMemcpyAsync",
            at + 10,
            2_010 + copy,
            &args,
        );
    }
    trace.advice()
}

#[test]
fn a_copy_that_is_far_shorter_than_its_call_is_a_wait() {
    for (copy, expected, other) in [
        (2, "sync_in_loop", "pageable_copies"),
        (2_000, "pageable_copies", "sync_in_loop"),
    ] {
        let found = fetches(copy);
        let has = |rule: &str| found.iter().any(|one| one.0 == rule);
        assert!(has(expected) && !has(other), "{copy} {found:?}");
    }
}

/// What `torch/utils/data` calls for itself, down to a lock, is the loader's.
#[test]
fn what_a_loader_waits_in_is_the_loaders() {
    let mut trace = Trace::default();
    for step in 0..8 {
        let at = 1_000_000 + 40_000 * step;
        let frames = [
            "torch/utils/data/dataloader.py(708): __next__",
            "queue.py(154): get",
            "<built-in method acquire of _thread.lock object>",
        ];
        for (depth, name) in (0..).zip(frames) {
            let (begin, length) = (at + 10 * depth, 20_000 - 20 * depth);
            trace.host("python_function", name, begin, length, "");
        }
        trace.launch("gemm", (at + 20_100, 5), (at + 20_110, 19_000));
    }
    let found = trace.advice();
    assert_eq!(found[0].0, "input_wait", "{found:?}");
    assert!(found[0].1.contains("__next__"), "{found:?}");
    // All of the time, though it is divided among three functions.
    assert!(found[0].2 > 130_000_000, "{found:?}");
}

/// A call of nine seconds.
#[test]
fn long_calls_count_in_whole() {
    let mut trace = Trace::default();
    for step in 0..12 {
        let at = 1_000_000 + 10_000_000 * step;
        trace.launch("gemm", (at, 5), (at + 10, 900_000));
        trace.host("cuda_runtime", "hipFree", at + 910_000, 9_000_000, "");
    }
    let found = trace.advice();
    let (rule, _, saves_ns) = &found[0];
    assert_eq!(rule, "memory_in_loop", "{found:?}");
    assert_eq!(*saves_ns, 11 * 9_000_000_000, "{found:?}");
}

/// Kernels of one launch, with pauses between them that no launch causes.
#[test]
fn pauses_within_a_graph_are_not_launches() {
    let trace = |nodes: u64| {
        let mut trace = Trace::default();
        let mut at = 1_000_000;
        for round in 0..4_000 / nodes {
            let link = round + 1;
            let about = format!(r#""correlation":{link}"#);
            trace.host("cuda_runtime", "hipGraphLaunch", at, 5, &about);
            for node in 0..nodes {
                trace.gpu(&format!("node_{node}"), 7, at + 10 + 5 * node, 3, link);
            }
            at += 15 + 5 * nodes;
        }
        trace
    };
    let found = trace(1_000);
    let advice = found.advice();
    assert_eq!(advice[0].0, "graph_of_small_kernels", "{advice:?}");
    let rules: Vec<&str> = advice.iter().map(|one| one.0.as_str()).collect();
    assert!(!rules.contains(&"launch_bound"), "{rules:?}");
    let causes = found.answer("gaps")["runs"][0]["devices"][0]["causes"].clone();
    assert_eq!(causes[0]["cause"], "graph", "{causes:#}");
    // Graphs of one kernel each are launches.
    let alone = trace(1).advice();
    assert_eq!(alone[0].0, "launch_bound", "{alone:?}");
}

/// Profiles have few steps: what the ranks lose in all of them counts all the same.
#[test]
fn exposed_collectives_of_a_short_profile_are_told() {
    let trace = |exposed: u64| {
        let mut trace = Trace::default();
        for step in 0..10 {
            let at = 1_000_000 + 2_000 * step;
            trace.launch("gemm", (at, 5), (at + 10, 1_980 - exposed));
            let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
            trace.launch(name, (at + 6, 5), (at + 1_990 - exposed, exposed));
        }
        trace.advice()
    };
    let found = trace(800);
    assert_eq!(found[0].0, "exposed_comm", "{found:?}");
    assert_eq!(found[0].2, 8_000_000, "{found:?}");
    assert_eq!(trace(5), []);
}

/// Kernels of two GPUs: each computes for so many milliseconds at its begin and its end, of so many in all.
fn idle_gpus(gpus: [(u64, u64); 2]) -> Trace {
    let mut trace = Trace::default();
    for (gpu, (busy, whole)) in (0..).zip(gpus) {
        let busy = 500 * busy;
        for start in [1_000_000, 1_000_000 + 1_000 * whole - busy] {
            trace.events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":{gpu},"tid":7,"ts":{start},"dur":{busy},"args":{{"device":{gpu},"stream":7}}}}"#
            ));
        }
    }
    trace
}

#[test]
fn a_gpu_that_is_mostly_idle_is_told_beside_one_that_idles_longer() {
    for (gpus, told) in [
        (
            [(11_000, 20_000), (500, 5_500)],
            "GPU 1 of process 0 is idle for 91 %",
        ),
        (
            [(9_000, 20_000), (500, 5_500)],
            "GPU 0 of process 0 is idle for 55 %",
        ),
    ] {
        let answer = idle_gpus(gpus).answer("advice");
        assert!(notes(&answer).contains(told), "{told}: {answer:#}");
    }
}

/// Two recordings of a GPU, of which the second was cut.
#[test]
fn recordings_of_a_gpu_are_not_compared_with_each_other() {
    let scratch = Scratch::new();
    let info = r#""distributedInfo":{"rank":0,"world_size":2},"#;
    let files = [
        (0, 40, ""),
        (60_000_000, 4, ""),
        (0, 40, info),
        (60_000_000, 4, info),
    ];
    let files = files.map(|(begin, steps, info)| {
        let mut trace = Trace::default();
        for step in 0..steps {
            let at = 1_000_000 + begin + 100_000 * step;
            trace.launch("gemm", (at, 5), (at + 10, 99_000));
        }
        trace.written(&scratch, &format!("{begin}{}.trace.json", info.len()), info)
    });
    for two in files.chunks(2) {
        let found = findings(&answer(two, "advice"));
        let is_imbalance = |one: &&(String, String, u64)| one.0.ends_with("imbalance");
        assert_eq!(found.iter().find(is_imbalance), None);
    }
}
