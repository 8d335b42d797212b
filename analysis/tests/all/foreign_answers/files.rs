//! Whose operations are: several processes, several files, and ranks that names tell.

use super::{Trace, answer, notes, operators};
use crate::common::Scratch;
use serde_json::Value;

/// Two processes in one file that says no ranks: each has the GPU that its calls gave work to.
#[test]
fn each_process_has_the_queues_that_its_calls_use() {
    let mut events = Vec::new();
    for (pid, name) in [(100, "aten::a"), (101, "aten::b")] {
        for step in 0..3 {
            let (at, link) = (1_000 + 400 * step, 10 * pid + step);
            let host = |category: &str, name: &str, at: u64, duration: u64| {
                format!(
                    r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{pid},"ts":{at},"dur":{duration},"args":{{"correlation":{link}}}}}"#
                )
            };
            events.push(host("cpu_op", name, at, 50));
            events.push(host("cuda_runtime", "hipLaunchKernel", at + 10, 5));
            let (gpu, start) = (pid - 100, at + 60);
            events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"k","pid":{gpu},"tid":0,"ts":{start},"dur":100,"args":{{"device":{gpu},"stream":0,"correlation":{link}}}}}"#
            ));
        }
    }
    let trace = Trace { events, links: 0 };
    let launch = trace.answer("launch");
    assert!(!notes(&launch).contains("nothing says"), "{launch}");
    for name in ["aten::a", "aten::b"] {
        let rows = launch["gpu_operators"].as_array().expect("operators");
        let row = rows.iter().find(|row| row["operator"] == name);
        let row = row.unwrap_or_else(|| panic!("{name}: {launch:#}"));
        assert_eq!(row["inclusive_ns"], 300_000, "{launch:#}");
    }
    let timeline = trace.answer("timeline");
    let devices = timeline["runs"][0]["devices"].as_array().expect("GPUs");
    let owners: Vec<_> = devices.iter().map(|gpu| &gpu["process"]).collect();
    assert_eq!(
        owners,
        [&Value::from(100), &Value::from(101)],
        "{timeline:#}"
    );
}

/// A process of a file of two: its id, that of its GPU, and when it begins.
struct OfTwo<'a> {
    pid: &'a str,
    gpu: (&'a str, u64),
    begin: u64,
}

/// Two processes whose correlation ids begin at one, or far apart: GPU time of their operators, and the number of notes that the owner of a queue is unknown.
fn of_two(processes: [OfTwo<'_>; 2], apart: u64) -> ([u64; 2], bool) {
    let mut events = Vec::new();
    for (place, one) in (0..).zip(&processes) {
        let OfTwo { pid, gpu, begin } = one;
        for step in 0..20 {
            let (at, link) = (
                begin + 500 * (step / 5) + 8 * (step % 5),
                1 + step + apart * place,
            );
            let name = ["aten::a", "aten::b"][place as usize];
            let host = |category: &str, name: &str, at: u64, duration: u64| {
                format!(
                    r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":1,"ts":{at},"dur":{duration},"args":{{"correlation":{link}}}}}"#
                )
            };
            events.push(host("cpu_op", name, at, 8));
            events.push(host("cuda_runtime", "hipLaunchKernel", at + 2, 5));
            let start = begin + 500 * (step / 5) + 7 + 90 * (step % 5);
            events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"k","pid":{},"tid":0,"ts":{start},"dur":{},"args":{{"device":{},"stream":0,"correlation":{link}}}}}"#,
                gpu.0,
                50 + place,
                gpu.1
            ));
        }
    }
    let trace = Trace { events, links: 0 };
    let launch = trace.answer("launch");
    let inclusive = |name: &str| {
        let rows = launch["gpu_operators"].as_array().expect("operators");
        let row = rows.iter().find(|row| row["operator"] == name);
        row.map_or(0, |row| row["inclusive_ns"].as_u64().unwrap_or(0))
    };
    let says_nothing = notes(&launch).contains("nothing says");
    (["aten::a", "aten::b"].map(inclusive), says_nothing)
}

#[test]
fn times_tell_whose_operations_are_where_links_are_of_several_processes() {
    let own = [1_000_000, 1_020_000];
    let two = |gpus: [(&'static str, u64); 2], begin: u64, apart: u64| {
        let [first, second] = gpus;
        let one = |pid, gpu, begin| OfTwo { pid, gpu, begin };
        of_two([one("10", first, 1_000), one("20", second, begin)], apart)
    };
    let (zero, one) = (("0", 0), ("1", 1));
    // One behind the other, and in step with each other.
    for begin in [90_000, 1_037, 963] {
        assert_eq!(two([zero, one], begin, 0), (own, false), "{begin}");
        assert_eq!(two([one, zero], begin, 0), (own, false), "{begin}");
    }
    // Only the order is known.
    assert_eq!(two([zero, one], 1_000, 0), (own, true));
    // Both on one stream of one GPU.
    assert_eq!(two([zero, zero], 90_000, 0), (own, false));
    assert_eq!(two([zero, zero], 1_013, 1_000), (own, false));
}

#[test]
fn process_ids_may_say_the_rank() {
    let one = |pid, gpu| OfTwo {
        pid,
        gpu,
        begin: 1_000,
    };
    let ranks = [
        one(r#""rank0/10""#, (r#""rank0/1""#, 1)),
        one(r#""rank1/20""#, (r#""rank1/0""#, 0)),
    ];
    assert_eq!(of_two(ranks, 0), ([1_000_000, 1_020_000], false));
}

/// Files that were put together of others have some events twice.
#[test]
fn what_a_file_has_twice_counts_once() {
    let mut trace = operators(&["aten::a", "aten::b"], 3, (20, 100));
    const QUESTIONS: [&str; 3] = ["kernels", "calls", "launch"];
    let once = QUESTIONS.map(|question| trace.answer(question));
    assert!(!notes(&once[0]).contains("twice"), "{}", once[0]);
    let again = trace.events.clone();
    trace.events.extend(again);
    for (question, mut once) in QUESTIONS.into_iter().zip(once) {
        let mut found = trace.answer(question);
        let told = "6 operations of GPUs are there twice, and count once";
        assert!(notes(&found).contains(told), "{found}");
        for answer in [&mut once, &mut found] {
            answer["notes"] = Value::Null;
        }
        assert_eq!(found, once, "{question}");
    }
}

#[test]
fn files_of_rpd2tracing_and_rocprof_1_are_read() {
    let rpd = r#"[ {}
,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}
,{"pid":"2","tid":"0","name":"gemm","ts":"1000030","dur":"100","ph":"X","args":{"desc":"KernelExecution"}}
,{"pid":"2","tid":"0","name":"","ts":"1000200","dur":"50","ph":"X","args":{"desc":"CopyHostToDevice"}}
,{"pid":"100","tid":"101","name":"hipLaunchKernel","ts":"1000010","dur":"8","ph":"X","args":{"desc":""}}
,{"pid":"100","tid":"101","cat":"api_op","name":"api_op","ts":"1000010","id":"1","ph":"s"}
,{"pid":"2","tid":"0","cat":"api_op","name":"api_op","ts":"1000030","id":"1","ph":"f","bp":"e"}
]
"#;
    let rocprof = r#"{ "traceEvents":[{}
,{"args":{"name":"0 CPU HIP API"},"ph":"M","pid":2,"name":"process_name","sort_index":0}
,{"args":{"name":"1 GPU0"},"ph":"M","pid":6,"name":"process_name","sort_index":1}
,{"ts":1000010,"dur":8,"pid":2,"tid":101,"name":"hipLaunchKernel","ph":"X","args":{"BeginNs":"1000010000","EndNs":"1000018000","pid":"100","tid":"101","Name":"hipLaunchKernel","Index":"1","DurationNs":"8000"}}
,{"ts":1000010,"ph":"s","cat":"DataFlow","id":1,"pid":2,"tid":101,"name":"dep"}
,{"ts":1000030,"ph":"t","cat":"DataFlow","id":1,"pid":6,"tid":0,"name":"dep"}
,{"ts":1000030,"dur":100,"pid":6,"tid":0,"name":"gemm","ph":"X","args":{"BeginNs":"1000030000","EndNs":"1000130000","dev-id":"0","queue-id":"0","stream-id":"0","DurationNs":"100000"}}
]}
"#;
    let scratch = Scratch::new();
    for (name, text, ordinal) in [("rpd.json", rpd, 2), ("rocprof.json", rocprof, 0)] {
        let file = [scratch.write(name, text.as_bytes())];
        let timeline = answer(&file, "timeline");
        let device = &timeline["runs"][0]["devices"][0];
        assert_eq!(device["computation_ns"], 100_000, "{name}: {timeline:#}");
        assert_eq!(device["device"], ordinal);
        let launch = answer(&file, "launch");
        assert_eq!(
            launch["launch_calls"][0]["call"], "hipLaunchKernel",
            "{name}: {launch:#}"
        );
    }
}

/// SGLang's merger puts the rank in front of process ids, which are texts then.
#[test]
fn ranks_in_front_of_process_ids_are_ranks() {
    let mut events = Vec::new();
    for (rank, name) in [(0, "a"), (1, "b")] {
        let place = format!(r#""pid":"[TP0{rank}] 100","tid":"[TP0{rank}] 100""#);
        let gpu = format!(r#""pid":"[TP0{rank}] 0","tid":7"#);
        for round in 0..10 {
            let (at, link) = (1_000_000 + 200 * round, round + 1);
            for (category, name, place, begin, length, args) in [
                (
                    "cpu_op",
                    format!("{name}_mm"),
                    &place,
                    at,
                    50,
                    String::new(),
                ),
                (
                    "cuda_runtime",
                    "hipLaunchKernel".to_owned(),
                    &place,
                    at + 10,
                    8,
                    format!(r#""correlation":{link}"#),
                ),
                (
                    "kernel",
                    format!("{name}_gemm"),
                    &gpu,
                    at + 30,
                    100,
                    format!(r#""device":0,"stream":7,"correlation":{link}"#),
                ),
            ] {
                events.push(format!(
                    r#"{{"ph":"X","cat":"{category}","name":"{name}",{place},"ts":{begin},"dur":{length},"args":{{{args}}}}}"#
                ));
            }
        }
    }
    // The order of events counts nowhere.
    for _ in 0..2 {
        events.reverse();
        let trace = Trace {
            events: events.clone(),
            links: 0,
        };
        let launch = trace.answer("launch");
        let operators = launch["operators"]
            .as_array()
            .or(launch["gpu_operators"].as_array());
        let operators: Vec<_> = operators
            .expect("operators")
            .iter()
            .map(|one| (one["operator"].clone(), one["exclusive_ns"].clone()))
            .collect();
        assert_eq!(operators.len(), 2, "{launch:#}");
        assert!(
            operators.iter().all(|one| one.1 == 1_000_000),
            "{operators:?}"
        );
        let timeline = trace.answer("timeline");
        let devices = timeline["runs"][0]["devices"]
            .as_array()
            .expect("devices")
            .clone();
        let ranks: Vec<_> = devices
            .iter()
            .map(|one| (one["rank"].clone(), one["process"].clone()))
            .collect();
        assert_eq!(
            ranks,
            [(0.into(), 100.into()), (1.into(), 100.into())],
            "{timeline:#}"
        );
    }
}

/// Where nothing else says it, the name of a file says the rank: processes in containers have the same number.
#[test]
fn files_that_are_called_by_their_ranks_are_those() {
    let trace = operators(&["aten::a"], 4, (20_000, 5_000));
    let scratch = Scratch::new();
    let info = r#""distributedInfo":{"rank":5,"world_size":8},"#;
    let files = [
        trace.written(&scratch, "rank3.pt.trace.json", ""),
        trace.written(&scratch, "rank_4.json", info),
    ];
    let timeline = answer(&files, "timeline");
    let mut ranks = Vec::new();
    for run in timeline["runs"].as_array().expect("runs") {
        let devices = run["devices"].as_array().expect("devices");
        ranks.extend(devices.iter().map(|one| one["rank"].clone()));
    }
    assert_eq!(ranks, [3, 5], "{timeline:#}");
}

#[test]
fn what_lasts_for_years_is_left_out() {
    let mut trace = operators(&["aten::a"], 4, (20_000, 5_000));
    let questions = ["kernels", "timeline", "gaps", "critical path"];
    let without = questions.map(|question| trace.answer(question));
    for _ in 0..3 {
        let longest = i64::MAX as u64 / 1_000;
        trace.gpu("endless", 7, 1_000_000, longest - 2_000_000, 0);
        trace.host(
            "user_annotation",
            "endless",
            1_000_000,
            longest - 2_000_000,
            "",
        );
    }
    for (question, mut without) in questions.into_iter().zip(without) {
        let mut found = trace.answer(question);
        let told = "6 records left out: by their times they last for more than ten years";
        assert!(notes(&found).contains(told), "{found:#}");
        for answer in [&mut without, &mut found] {
            answer["notes"] = Value::Null;
        }
        assert_eq!(found, without, "{question}");
    }
}

#[test]
fn slices_of_the_host_without_a_duration_are_told() {
    let mut trace = operators(&["aten::a"], 4, (20_000, 5_000));
    let without = |category: &str, name: &str, at: u64| {
        format!(r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":100,"tid":100,"ts":{at}}}"#)
    };
    trace.host("user_annotation", "ProfilerStep#4", 1_000_000, 50_000, "");
    trace
        .events
        .push(without("user_annotation", "ProfilerStep#5", 1_050_000));
    trace
        .events
        .push(without("cuda_runtime", "cudaDeviceSynchronize", 1_099_000));
    let answer = trace.answer("overlap");
    let told = notes(&answer);
    assert!(
        told.contains("1 slice of the host without a duration"),
        "{told}"
    );
    assert!(
        told.contains("1 range of the host without a duration"),
        "{told}"
    );
    let iterations = answer["iterations"].as_array().expect("iterations");
    let last = iterations.iter().find(|one| one["iteration"] == 5);
    let last = last.and_then(|one| one["duration_ns"].as_u64());
    assert!(last >= Some(49_000_000), "{answer:#}");
}

/// Steps of kernels, a copy that is waited for, and a graph; their calls have numbers of their own, or in each step the same.
fn steps_with_links(is_again: bool) -> Trace {
    let mut trace = Trace::default();
    for step in 0..6 {
        let at = 1_000_000 + 10_000 * step;
        let link = |number: u64| number + if is_again { 0 } else { 10 * step };
        let name = format!("ProfilerStep#{step}");
        trace.host("user_annotation", &name, at, 9_900, "");
        let call = |trace: &mut Trace, name: &str, (from, length): (u64, u64), number: u64| {
            let args = format!(r#""correlation":{}"#, link(number));
            trace.host("cuda_runtime", name, at + from, length, &args);
        };
        call(&mut trace, "cudaLaunchKernel", (100, 5), 1);
        trace.gpu("gemm", 7, at + 120, 2_000, link(1));
        call(&mut trace, "cudaMemcpyAsync", (200, 2_100), 2);
        trace.events.push(format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":{},"dur":20,"args":{{"device":0,"stream":7,"correlation":{}}}}}"#,
            at + 2_200,
            link(2)
        ));
        call(&mut trace, "cudaGraphLaunch", (4_000, 30), 3);
        for node in 0..5 {
            trace.gpu("node", 7, at + 4_050 + 108 * node, 100, link(3));
        }
        call(&mut trace, "cudaDeviceSynchronize", (5_000, 100), 4);
    }
    trace
}

#[test]
fn numbers_that_come_again_are_those_of_the_last_call_before() {
    let (own, again) = (steps_with_links(false), steps_with_links(true));
    for question in [
        "gaps",
        "streams",
        "critical path",
        "launch",
        "advice",
        "copies",
    ] {
        let [own, again] = [&own, &again].map(|trace| trace.answer(question));
        assert_eq!(again, own, "{question}");
    }
}

/// Numbers that are texts, as JavaScript's tools and some mergers write them.
#[test]
fn numbers_of_the_document_may_be_texts() {
    let trace = operators(&["aten::a"], 4, (20_000, 5_000));
    let scratch = Scratch::new();
    let head = r#""distributedInfo":{"rank":"5","world_size":"8"},"deviceProperties":[{"id":"0","name":"MI300X"}],"#;
    let file = [trace.written(&scratch, "one.trace.json", head)];
    let device = &answer(&file, "timeline")["runs"][0]["devices"][0];
    assert_eq!(
        (&device["rank"], &device["name"]),
        (&5.into(), &"MI300X".into())
    );
}
