//! What is concluded from files of other profilers: each time one with a fault that is planted, and one that is healthy.

use std::path::PathBuf;

use rsys_analysis::show::json;
use serde_json::Value;

use crate::common::{Scratch, asked, judge};

/// A trace as PyTorch's profiler writes it, in microseconds.
#[derive(Default)]
struct Trace {
    events: Vec<String>,
    links: u64,
}

impl Trace {
    fn host(&mut self, category: &str, name: &str, start: u64, duration: u64, args: &str) {
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":100,"tid":100,"ts":{start},"dur":{duration},"args":{{{args}}}}}"#
        ));
    }

    fn gpu(&mut self, name: &str, stream: u64, start: u64, duration: u64, link: u64) {
        self.events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{start},"dur":{duration},"args":{{"device":0,"stream":{stream},"correlation":{link}}}}}"#
        ));
    }

    /// A call, and the kernel that it launches.
    fn launch(&mut self, name: &str, (at, call): (u64, u64), (start, duration): (u64, u64)) {
        self.links += 1;
        let link = format!(r#""correlation":{}"#, self.links);
        self.host("cuda_runtime", "hipLaunchKernel", at, call, &link);
        self.gpu(name, 7, start, duration, self.links);
    }

    fn written(&self, scratch: &Scratch, name: &str, head: &str) -> PathBuf {
        let events = self.events.join(",\n");
        let text = format!(r#"{{"schemaVersion":1,{head}"traceEvents":[{events}]}}"#);
        scratch.write(name, text.as_bytes())
    }

    /// The answer to a question.
    fn answer(&self, question: &str) -> Value {
        let scratch = Scratch::new();
        answer(&[self.written(&scratch, "trace.json", "")], question)
    }

    fn advice(&self) -> Vec<(String, String, u64)> {
        findings(&self.answer("advice"))
    }
}

fn answer(files: &[PathBuf], question: &str) -> Value {
    let all = asked(files);
    let found = all.iter().find(|(name, _)| *name == question);
    let value = json(&found.expect("a question").1);
    judge(&value);
    value
}

fn findings(advice: &Value) -> Vec<(String, String, u64)> {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or("").to_owned();
    let findings = advice["findings"].as_array().expect("findings");
    let found = findings.iter();
    found
        .map(|one| {
            let saves_ns = one["saves_ns"].as_u64().unwrap_or(0);
            (text(one, "rule"), text(one, "place"), saves_ns)
        })
        .collect()
}

fn notes(answer: &Value) -> String {
    answer["notes"].to_string()
}

/// Operators of these names in turn, each in front of a kernel: how long they take, and how long the kernel.
fn operators(names: &[&str], rounds: u64, (code, kernel): (u64, u64)) -> Trace {
    let mut trace = Trace::default();
    let mut now = 1_000_000;
    for _ in 0..rounds {
        for name in names {
            trace.host("cpu_op", name, now, code, "");
            now += code;
            trace.launch("gemm", (now, 5), (now + 10, kernel));
            now += kernel;
        }
    }
    trace
}

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

/// What the trace of a collective says of it.
#[derive(Clone, Copy)]
struct Told {
    kernel: &'static str,
    /// Arguments of the operator around the launch.
    arguments: &'static str,
    range: &'static str,
    /// How much later each rank ends it than the rank before.
    apart: u64,
}

const BY_KERNEL: Told = Told {
    kernel: "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
    arguments: "",
    range: "",
    apart: 0,
};
const RCCL: &str = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)";

/// Four ranks whose kernels of collectives say nothing of themselves; one begins them later, one may have more of them.
fn ranks(told: Told, late: u64, more: u64) -> Value {
    let scratch = Scratch::new();
    answer(
        &files_of_ranks(&scratch, told, (late, more), false),
        "collectives",
    )
}

/// The rank that is late computes until then, or its GPU is idle.
fn files_of_ranks(
    scratch: &Scratch,
    told: Told,
    (late, more): (u64, u64),
    is_idle: bool,
) -> Vec<PathBuf> {
    (0..4)
        .map(|rank| {
            let mut trace = Trace::default();
            let count = 12 + if rank == 3 { more } else { 0 };
            for step in 0..count {
                let at = 1_000_000 + 10_000 * step;
                let begin = at + 100 + if rank == 2 { late } else { 0 };
                let work = if is_idle { 80 } else { begin - at - 20 };
                trace.launch("gemm", (at, 5), (at + 10, work));
                trace.host("cpu_op", "my::log", at + 20, begin - at - 40, "");
                trace.links += 1;
                let link = trace.links;
                let call = begin - 10;
                trace.host(
                    "cuda_runtime",
                    "cudaLaunchKernel",
                    call,
                    5,
                    &format!(r#""correlation":{link}"#),
                );
                let around = (call - 2, 9);
                let operator = "record_param_comms";
                trace.host("cpu_op", operator, around.0, around.1, told.arguments);
                if !told.range.is_empty() {
                    trace.host("user_annotation", told.range, around.0 - 1, 12, "");
                }
                let end = at + 100 + late + 500 + told.apart * rank;
                trace.gpu(told.kernel, 20, begin, end - begin, link);
            }
            let head = format!(r#""distributedInfo":{{"rank":{rank},"world_size":4}},"#);
            trace.written(scratch, &format!("rank{rank}.json"), &head)
        })
        .collect()
}

#[test]
fn what_makes_a_rank_late_is_what_its_gpu_is_idle_for() {
    let scratch = Scratch::new();
    let advice = answer(
        &files_of_ranks(&scratch, BY_KERNEL, (8_000, 0), true),
        "advice",
    );
    let found = findings(&advice);
    assert_eq!(found[0].0, "straggler", "{found:?}");
    assert!(!notes(&advice).contains("smaller part"), "{advice:#}");
}

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

fn stragglers(answer: &Value) -> Vec<u64> {
    let rows = answer["stragglers"].as_array();
    rows.into_iter()
        .flatten()
        .filter_map(|row| row["rank"].as_u64())
        .collect()
}

#[test]
fn ranks_are_compared_by_collectives_without_names() {
    assert_eq!(stragglers(&ranks(BY_KERNEL, 900, 0)), [2]);
    assert_eq!(stragglers(&ranks(BY_KERNEL, 0, 0)), [0; 0]);
    // Where counts differ, collectives cannot be matched.
    let uneven = ranks(BY_KERNEL, 900, 1);
    assert!(!stragglers(&uneven).contains(&3), "{uneven:#}");
    assert!(!notes(&uneven).contains("not all ranks"), "{uneven:#}");
    assert!(notes(&uneven).contains("different numbers"), "{uneven:#}");
}

/// RCCL's kernels have one name: what they are of is said by the host around their launch.
#[test]
fn collectives_are_known_by_what_is_around_their_launch() {
    let arguments = r#""Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"dtype":"Float","Group size":4,"Process Group Name":"7","Process Group Ranks":"[0, 1, 2, 3]""#;
    let ranged = Told {
        kernel: RCCL,
        range: "nccl:all_reduce",
        ..BY_KERNEL
    };
    let older = Told {
        kernel: "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)",
        ..ranged
    };
    let whole = Told {
        arguments,
        ..ranged
    };
    for (told, bytes) in [(ranged, 0), (older, 0), (whole, 4_000)] {
        let found = ranks(told, 900, 0);
        assert_eq!(stragglers(&found), [2], "{found:#}");
        assert!(!notes(&found).contains("left out"), "{found:#}");
        let row = &found["operations"][0];
        assert_eq!(row["operation"], "allreduce", "{found:#}");
        assert_eq!(
            row["message_bytes"].as_u64().unwrap_or(0),
            bytes,
            "{found:#}"
        );
        assert_eq!(stragglers(&ranks(told, 0, 0)), [0; 0]);
    }
    // Only the order is known: they are collectives if all ranks end them together.
    let nothing = Told {
        range: "",
        ..ranged
    };
    let found = ranks(nothing, 900, 0);
    assert_eq!(stragglers(&found), [2], "{found:#}");
    assert_eq!(found["operations"][0]["operation"], "collective");
    let apart = Told {
        apart: 100,
        ..nothing
    };
    assert_eq!(stragglers(&ranks(apart, 900, 0)), [0; 0]);
    let message = Told {
        range: "nccl:send 0->1",
        ..ranged
    };
    let found = ranks(message, 900, 0);
    assert_eq!(stragglers(&found), [0; 0], "{found:#}");
    assert!(notes(&found).contains("48 kernels of collectives are left out: nothing tells"));
    assert!(!notes(&found).contains("no call of RCCL"), "{found:#}");
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
