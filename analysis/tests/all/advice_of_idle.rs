//! Whose the idle time of a GPU is: a call's that waited, or that of what the host did behind it. Files of PyTorch's profiler, written here.

use crate::common::{self, Scratch};
use rsys_analysis::advice::advise;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::pass;
use rsys_analysis::show::json;
use serde_json::Value;

/// Events of a process with one GPU; all times in microseconds.
#[derive(Default)]
struct Events {
    list: Vec<String>,
    links: u64,
}

impl Events {
    fn add(&mut self, category: &str, name: &str, time: (u64, u64), args: &str) {
        self.add_of(1, category, name, time, args);
    }

    /// An event of a thread.
    fn add_of(&mut self, tid: u64, category: &str, name: &str, (from, to): (u64, u64), args: &str) {
        let pid = match ["kernel", "gpu_memcpy"].contains(&category) {
            true => 0,
            false => 100,
        };
        let (from, length) = (from + 100_000, to - from);
        self.list.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{from},"dur":{length},"args":{{{args}}}}}"#
        ));
    }

    fn link(&mut self) -> String {
        self.links += 1;
        format!(r#""correlation":{}"#, self.links)
    }

    /// A call, and the operations of the GPU that it asks for.
    fn submit(&mut self, call: (&str, u64, u64), what: &str, operations: &[(u64, u64)]) {
        let link = self.link();
        self.add("cuda_runtime", call.0, (call.1, call.2), &link);
        let (category, name) = match what {
            "" => ("kernel", "gemm"),
            what => ("gpu_memcpy", what),
        };
        for &time in operations {
            self.add(category, name, time, &link);
        }
    }

    fn launch(&mut self, at: u64, kernel: (u64, u64)) {
        self.submit(("hipLaunchKernel", at, at + 5), "", &[kernel]);
    }

    fn call(&mut self, name: &str, time: (u64, u64)) {
        let link = self.link();
        self.add("cuda_runtime", name, time, &link);
    }

    fn python(&mut self, name: &str, time: (u64, u64)) {
        self.add("python_function", name, time, "");
    }

    /// All that advice says, as JSON.
    fn advised(&self) -> Value {
        let scratch = Scratch::new();
        let document = format!(r#"{{"traceEvents":[{}]}}"#, self.list.join(",\n"));
        let file = scratch.write("one.trace.json", document.as_bytes());
        let (names, mut measures): (Vec<&'static str>, Vec<Box<dyn Measure>>) =
            common::advice_measures().into_iter().unzip();
        let model = pass(&[file], &mut measures);
        let answers = measures.iter_mut().map(|one| one.answer(&model, "job"));
        let answers: Vec<_> = names.into_iter().zip(answers).collect();
        let advised = json(&advise(&answers, &profiling_cost(&model)));
        common::judge(&advised);
        advised
    }

    /// Rule, place, and microseconds that each finding could save.
    fn found(&self) -> Vec<(String, String, u64)> {
        let advised = self.advised();
        let findings = advised["findings"].as_array().cloned().unwrap_or_default();
        let found = findings.iter().map(|one| {
            let of = |key: &str| one[key].as_str().unwrap_or("").to_owned();
            let saves_us = one["saves_ns"].as_u64().unwrap_or(0) / 1_000;
            (of("rule"), of("place"), saves_us)
        });
        found.collect()
    }
}

fn finding(rule: &str, place: &str, saves_us: u64) -> (String, String, u64) {
    (rule.to_owned(), place.to_owned(), saves_us)
}

/// The host logs while the GPU works, and comes to wait when that has all but ended.
#[test]
fn a_wait_that_holds_the_host_shortly_is_not_the_cause() {
    for (call, copy) in [
        ("hipDeviceSynchronize", None),
        (
            "hipMemcpyWithStream",
            Some("Memcpy DtoH (Device -> Pageable)"),
        ),
    ] {
        let mut events = Events::default();
        for step in 0..20 {
            let at = 10_000 * step;
            events.launch(at, (at + 100, at + 5_000));
            events.python("train.py(20): log", (at + 10, at + 4_980));
            match copy {
                None => events.call(call, (at + 4_990, at + 5_010)),
                Some(copy) => {
                    let time = (at + 5_000, at + 5_005);
                    events.submit((call, at + 4_990, at + 5_010), copy, &[time]);
                }
            }
            events.python("train.py(30): augment", (at + 5_010, at + 10_000));
        }
        let place = "train.py(30): augment";
        let expected = finding("host_code", place, 19 * 4_990);
        assert_eq!(events.found(), [expected], "{call}");
    }
}

/// The copy's call could go before the wait for data, which would hide nothing of that.
#[test]
fn a_wait_for_data_behind_another_wait_has_all_of_its_time() {
    let mut events = Events::default();
    for step in 0..10 {
        let at = 20_000 * step;
        let loads = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
        events.add("user_annotation", loads, (at, at + 12_000), "");
        events.launch(at + 12_100, (at + 12_200, at + 19_950));
        events.call("hipDeviceSynchronize", (at + 12_300, at + 19_960));
    }
    let found = events.found();
    let loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    assert_eq!(found, [finding("input_wait", loader, 9 * 12_000)]);
}

/// Releases and waits that last for long after the GPU has ended its work.
#[test]
fn what_a_call_lasts_past_the_end_of_the_work_is_its_own() {
    for (call, rule) in [
        ("hipFree", "memory_in_loop"),
        ("hipDeviceSynchronize", "sync_in_loop"),
    ] {
        let mut events = Events::default();
        for step in 0..20 {
            let at = 2_000 * step;
            events.launch(at, (at + 50, at + 100));
            events.call(call, (at + 60, at + 1_260));
        }
        // From the end of the kernel to that of the call; what follows is more than the kernel took.
        assert_eq!(events.found(), [finding(rule, call, 19 * 1_160)]);
    }
}

/// Each step waits for the GPU, and the host logs for as long as that had worked. How many steps there are changes whose finding it is, not that there is one.
#[test]
fn waits_of_short_profiles_are_told() {
    let log = "train.py(12): log_metrics";
    for (call, rule) in [
        ("hipStreamSynchronize", "sync_in_loop"),
        ("hipFree", "memory_in_loop"),
    ] {
        for steps in [3, 4, 9, 12] {
            let mut events = Events::default();
            for step in 0..steps {
                let at = 20_000 * step;
                events.launch(at, (at + 50, at + 10_050));
                events.call(call, (at + 60, at + 10_060));
                events.python(log, (at + 10_060, at + 20_000));
            }
            let pauses = steps - 1;
            // Two pauses are no loop: they are what the host did.
            let expected = match pauses {
                2 => finding("host_code", log, pauses * 9_940),
                _ => finding(rule, call, pauses * 10_000),
            };
            let advised = events.advised();
            let then = &advised["findings"][0]["evidence"]["host_then_in"];
            assert_eq!(then.as_str(), (pauses > 2).then_some(log), "{advised:#}");
            assert_eq!(events.found(), [expected], "{steps} steps");
        }
    }
}

#[test]
fn pauses_within_graphs_count_once() {
    let mut events = Events::default();
    for step in 0..20 {
        let at = 3_000 * step;
        let kernels: Vec<(u64, u64)> = (0..200)
            .map(|number| (at + 60 + number * 12, at + 64 + number * 12))
            .collect();
        events.submit(("hipGraphLaunch", at + 10, at + 40), "", &kernels);
        events.call("hipStreamSynchronize", (at + 50, at + 2_470));
    }
    let expected = [
        finding("graph_of_small_kernels", "hipGraphLaunch", 20 * 199 * 8),
        // From the end of a graph to the next: all idle time is that of two findings.
        finding("sync_in_loop", "hipStreamSynchronize", 19 * 608),
    ];
    assert_eq!(events.found(), expected);
}

/// Ten steps without pauses, before one of which a function takes `stall_us`.
fn with_stall(stall_us: u64) -> Events {
    let (mut events, mut at) = (Events::default(), 0);
    for step in 0..10 {
        if step == 5 {
            events.python("train.py(99): evaluate", (at, at + stall_us));
            at += stall_us;
        }
        for number in 0..9 {
            let (launch, run) = (at + number * 20, at + 100 + number * 1_000);
            events.add("cpu_op", "aten::mm", (launch, launch + 15), "");
            events.launch(launch + 5, (run, run + 1_000));
        }
        at += 9_100;
    }
    events
}

#[test]
fn one_long_stall_is_the_function_it_was_in() {
    let stands_out = |stall_us| {
        let found = with_stall(stall_us).found();
        found
            .into_iter()
            .map(|one| (one.0, one.1))
            .collect::<Vec<_>>()
    };
    let place = "train.py(99): evaluate".to_owned();
    assert_eq!(stands_out(40_000), [("host_code".to_owned(), place)]);
    // A tenth of a short trace may be chance, and is not that of many operators.
    assert!(stands_out(10_000).is_empty());
}

#[test]
fn a_function_between_launches_is_not_their_cost() {
    let mut events = Events::default();
    for step in 0..500 {
        let at = 300 * step;
        events.python("tokenise.py(5): encode", (at, at + 190));
        events.add("cpu_op", "aten::mm", (at + 195, at + 215), "");
        events.launch(at + 200, (at + 210, at + 330));
    }
    let found = events.found();
    let rules: Vec<&str> = found.iter().map(|one| one.0.as_str()).collect();
    assert_eq!(rules, ["host_code"], "{found:#?}");
    assert_eq!(found[0].1, "tokenise.py(5): encode");
    // It runs for 30 µs beside each kernel.
    assert_eq!(found[0].2, 499 * 160);
}

/// Pinned copies to the GPU, kernels, and a small copy back whose call waits for all of that.
#[test]
fn a_call_that_waits_has_no_copies_of_others() {
    let mut events = Events::default();
    for step in 0..20 {
        let at = 10_000 * step;
        let pinned = "Memcpy HtoD (Pinned -> Device)";
        let copy = ("hipMemcpyAsync", at + 10, at + 20);
        events.submit(copy, pinned, &[(at + 30, at + 5_030)]);
        events.launch(at + 100, (at + 5_030, at + 9_030));
        let back = ("hipMemcpyWithStream", at + 305, at + 9_055);
        let time = (at + 9_035, at + 9_040);
        events.submit(back, "Memcpy DtoH (Device -> Pageable)", &[time]);
    }
    let expected = [
        finding("exposed_copies", "hipMemcpyAsync", 20 * 4_000),
        finding("blocking_copies", "hipMemcpyWithStream", 19 * 990 + 20 * 5),
    ];
    assert_eq!(events.found(), expected);
}

/// After the ids of calls begin anew, an operation belongs to the last call before it.
#[test]
fn links_that_come_again_are_told_apart() {
    let mut events = Events::default();
    for window in 0..3 {
        events.links = 0;
        for step in 0..20 {
            let at = window * 30_000 + step * 1_000;
            events.launch(at + 10, (at + 30, at + 430));
        }
    }
    let advised = events.advised();
    let notes = advised["notes"].as_array().cloned().unwrap_or_default();
    assert!(
        !notes
            .iter()
            .any(|note| note.as_str().unwrap_or("").contains("queued")),
        "{advised:#}"
    );
}

/// Titles stand in tables, which cut longer texts.
#[test]
fn titles_have_room_in_tables() {
    for (rule, title) in rsys_analysis::advice::rule_names() {
        assert!(title.chars().count() <= 72, "{rule}: {title}");
    }
}

/// Each kernel begins long after its launch, which the call in front of it has nothing to do with.
#[test]
fn what_waits_though_it_was_submitted_is_no_wait_of_the_host() {
    let of = |late_us: u64| {
        let mut events = Events::default();
        for step in 0..60 {
            let at = 5_000 * step;
            let begin = at + 1_510;
            events.launch(begin - late_us, (begin, begin + 2_000));
            let wait = (begin - late_us + 10, begin + 2_005);
            events.call("hipStreamSynchronize", wait);
        }
        let found = events.found();
        found.iter().any(|one| one.0 == "sync_in_loop")
    };
    assert!(!of(3_000) && of(10));
}

/// One process with two GPUs, one of which computes for all of the time; and the same with both at half of it.
#[test]
fn a_wait_costs_no_more_than_the_busiest_gpu_is_not_busy() {
    let of = |busiest_us: u64| {
        let mut events = Events::default();
        for step in 0..20 {
            let at = 10_000 * step;
            for (device, length) in [(0, busiest_us), (1, 4_000)] {
                let link = events.link();
                let launch = (at + 5 * device, at + 5 * device + 4);
                events.add("cuda_runtime", "hipLaunchKernel", launch, &link);
                let args = format!(r#"{link},"device":{device},"stream":7"#);
                events.add("kernel", "gemm", (at + 20, at + 20 + length), &args);
            }
            let end = at + 25 + busiest_us.max(4_000);
            events.call("hipDeviceSynchronize", (at + 30, end));
        }
        events.found()
    };
    let waits = |found: &[(String, String, u64)]| found.iter().any(|one| one.0 == "sync_in_loop");
    let (planted, healthy) = (of(9_960), of(4_000));
    assert!(!waits(&planted), "{planted:#?}");
    assert!(waits(&healthy), "{healthy:#?}");
}

/// One release of a library's first use is no loop, however many short ones follow.
#[test]
fn what_is_long_once_is_start_up() {
    let of = |long_us: u64, short_us: u64| {
        let (mut events, mut at) = (Events::default(), 0);
        for step in 0..16 {
            events.launch(at, (at + 50, at + 2_050));
            let length = if step == 0 { long_us } else { short_us };
            events.call("hipFree", (at + 2_060, at + 2_060 + length));
            at += 2_100 + length;
        }
        let found = events.found();
        let rules: Vec<String> = found.into_iter().map(|one| one.0).collect();
        rules
    };
    assert_eq!(of(2_000_000, 200), ["start_up"]);
    assert_eq!(of(20_000, 20_000), ["memory_in_loop"]);
    // The first launch of a kernel loads its code.
    let mut events = Events::default();
    events.launch(0, (10, 20_010));
    events.submit(
        ("hipLaunchKernel", 20_100, 1_020_100),
        "",
        &[(1_020_105, 1_040_105)],
    );
    let found = events.found();
    assert_eq!(found[0].0, "start_up", "{found:#?}");
}

/// A barrier on the host is a wait for other ranks.
#[test]
fn a_barrier_of_gloo_is_no_code() {
    for (name, is_code) in [("gloo:barrier", false), ("save", true)] {
        let mut events = Events::default();
        for step in 0..10 {
            let at = 40_000 * step;
            events.add("user_annotation", name, (at, at + 30_000), "");
            events.launch(at + 30_005, (at + 30_010, at + 39_900));
        }
        let found = events.found();
        let code = found.iter().any(|one| one.0 == "host_code");
        assert_eq!(code, is_code, "{found:#?}");
    }
}

/// Collectives that nothing is computed beside, in the file of one rank.
#[test]
fn what_one_rank_waits_for_others_is_unknown() {
    let of = |gpus: u64| {
        let mut events = Events::default();
        for step in 0..20 {
            let at = 10_000 * step;
            for device in 0..gpus {
                let args = format!(r#"{},"device":{device},"stream":7"#, events.link());
                events.add("kernel", "gemm", (at, at + 5_000), &args);
                let collective =
                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
                events.add("kernel", collective, (at + 5_000, at + 10_000), &args);
            }
            events.call("hipGetDevice", (at, at + 2));
        }
        let advised = events.advised();
        let finding = &advised["findings"][0];
        assert_eq!(finding["rule"], "exposed_comm", "{advised:#}");
        finding["evidence"]["waited_ns"].as_u64()
    };
    assert_eq!((of(1), of(2)), (None, Some(0)));
}

/// Two GPUs are idle in thirty operators, of which another one is the longest for each.
#[test]
fn many_operators_are_one_finding_for_all_gpus() {
    let mut events = Events::default();
    for number in 0..300 {
        let (at, operator) = (300 * number, number % 30);
        let name = format!("aten::op{operator}");
        events.add("cpu_op", &name, (at, at + 200 + operator), "");
        for device in 0..2 {
            let link = events.link();
            let launch = (at + 180 + 5 * device, at + 184 + 5 * device);
            events.add("cuda_runtime", "hipLaunchKernel", launch, &link);
            let args = format!(r#"{link},"device":{device},"stream":7"#);
            // The second GPU works while the longest operator runs.
            let length = 10 + 300 * device * u64::from(operator == 28);
            let kernel = (at + 250, at + 250 + length);
            events.add("kernel", "gemm", kernel, &args);
        }
    }
    let found = events.found();
    let rules: Vec<&str> = found.iter().map(|one| one.0.as_str()).collect();
    assert_eq!(rules, ["many_operators"], "{found:#?}");
}

/// What makes a context before the first kernel is no idle time of the GPU, and most of the run.
#[test]
fn long_calls_before_the_first_operation_are_start_up() {
    let of = |long_us: u64| {
        let mut events = Events::default();
        events.python("train.py(5): main", (0, long_us + 900_000));
        events.call("cudaDeviceGetStreamPriorityRange", (10, 10 + long_us));
        for step in 0..80 {
            let at = 20_000 + long_us + 10_000 * step;
            events.launch(at, (at + 50, at + 9_900));
        }
        events.found()
    };
    let found = of(3_000_000);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].0.as_str(), found[0].2), ("start_up", 3_000_000));
    assert!(
        found[0].1.starts_with("cudaDeviceGetStreamPriorityRange"),
        "{found:#?}"
    );
    assert_eq!(of(2_000), []);
}

/// Calls return when their kernels have ended.
#[test]
fn launches_that_wait_for_their_kernels_are_told() {
    let of = |waits: bool, busy_us: u64| {
        let mut events = Events::default();
        for step in 0..60 {
            let at = 10_000 * step;
            let kernel = (at + 10, at + 10 + busy_us);
            let end = if waits { kernel.1 + 3 } else { at + 8 };
            events.submit(("hipLaunchKernel", at, end), "", &[kernel]);
            events.python("train.py(30): augment", (kernel.1 + 5, at + 9_990));
        }
        events.found()
    };
    let rules = |found: Vec<(String, String, u64)>| -> Vec<String> {
        found.into_iter().map(|one| one.0).collect()
    };
    // Half of the time the GPU is idle: all of that the host could have worked ahead.
    assert_eq!(rules(of(true, 6_000)), ["blocking_launches"]);
    assert_eq!(rules(of(false, 6_000)), ["host_code"]);
    assert_eq!(rules(of(false, 9_900)), Vec::<String>::new());
}

/// Kernels with which the runtime copies, and calls that begin long after their kernels, do not say that launches wait.
#[test]
fn what_calls_wait_for_anyway_says_nothing_of_launches() {
    let of = |name: &str, later_us: u64| {
        let mut events = Events::default();
        for step in 0..60 {
            let at = 10_000 * step;
            let link = events.link();
            let args = format!(r#"{link},"device":0,"stream":7"#);
            let call = (at + later_us, at + later_us + 6_013);
            events.add("cuda_runtime", "hipLaunchKernel", call, &link);
            events.add("kernel", name, (at + 10, at + 6_010), &args);
            events.python("train.py(30): augment", (at + 7_000, at + 9_990));
        }
        events
            .found()
            .iter()
            .any(|one| one.0 == "blocking_launches")
    };
    assert!(of("gemm", 0));
    assert!(!of("__amd_rocclr_copyBuffer", 0) && !of("gemm", 500));
}

/// What precedes the first operation of a second GPU is a wait for the first one's work.
#[test]
fn a_wait_for_another_gpu_is_no_start_up() {
    let mut events = Events::default();
    events.python("train.py(5): main", (0, 1_000_000));
    let link = events.link();
    events.add("cuda_runtime", "hipLaunchKernel", (10, 20), &link);
    let args = format!(r#"{link},"device":0,"stream":7"#);
    events.add("kernel", "gemm", (30, 600_000), &args);
    events.call("hipDeviceSynchronize", (40, 600_010));
    for step in 0..40 {
        let (at, link) = (600_100 + 10_000 * step, events.link());
        events.add("cuda_runtime", "hipLaunchKernel", (at, at + 5), &link);
        let args = format!(r#"{link},"device":1,"stream":7"#);
        events.add("kernel", "gemm", (at + 10, at + 9_980), &args);
    }
    let found = events.found();
    assert!(found.iter().all(|one| one.0 != "start_up"), "{found:#?}");
}

/// A call that copies from memory that is pinned, and waits all the same.
#[test]
fn pinned_memory_is_not_to_be_pinned() {
    let of = |name: &str| {
        let mut events = Events::default();
        for step in 0..30 {
            let at = 10_000 * step;
            events.launch(at, (at + 10, at + 3_000));
            events.submit(
                ("hipMemcpyAsync", at + 20, at + 7_000),
                name,
                &[(at + 3_010, at + 6_990)],
            );
        }
        let found = events.found();
        found.iter().any(|one| one.0 == "pageable_copies")
    };
    assert!(of("Memcpy HtoD (Pageable -> Device)"));
    assert!(!of("Memcpy HtoD (Pinned -> Device)"));
}

/// The functions of Python around a call say where it was made.
#[test]
fn recorded_functions_are_the_place_of_a_call() {
    let mut events = Events::default();
    for step in 0..30 {
        let at = 10_000 * step;
        events.python("train.py(3): step", (at, at + 9_990));
        events.python("train.py(9): log", (at + 1_000, at + 6_100));
        events.python("torch/_tensor.py(8): item", (at + 1_005, at + 6_050));
        events.launch(at + 5, (at + 10, at + 6_000));
        events.call("hipDeviceSynchronize", (at + 1_010, at + 6_010));
    }
    let found = events.found();
    let place = "hipDeviceSynchronize in train.py(9): log";
    assert!(found.iter().any(|one| one.1 == place), "{found:#?}");
}

/// A short use of a GPU in a long run.
#[test]
fn what_is_no_part_of_the_run_is_no_finding() {
    let of = |run_us: u64| {
        let mut events = Events::default();
        events.python("train.py(1): main", (0, run_us));
        for step in 0..20 {
            let at = 1_000 * step;
            events.launch(at, (at + 10, at + 400));
            events.call("hipDeviceSynchronize", (at + 20, at + 410));
            events.python("train.py(30): augment", (at + 410, at + 990));
        }
        events.found()
    };
    assert!(!of(20_000).is_empty());
    assert_eq!(of(100_000_000), []);
}
