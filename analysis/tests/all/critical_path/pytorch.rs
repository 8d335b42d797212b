//! Paths in files of PyTorch's profiler.

use super::{ask, ns, steps};
use crate::common::Scratch;

#[test]
fn what_pytorch_was_in_is_on_the_path_and_what_has_no_call_is_unknown() {
    let event = |category: &str, name: &str, (from_us, to_us): (u64, u64), link: u64| {
        let pid = if category == "kernel" { 0 } else { 100 };
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":1,"ts":{from_us},"dur":{},"args":{{"correlation":{link}}}}}"#,
            to_us - from_us
        )
    };
    let events = [
        event("user_annotation", "ProfilerStep#7", (0, 1_000), 0),
        event("python_function", "data.py(3): load", (0, 300), 0),
        event("cpu_op", "aten::mm", (300, 350), 0),
        event("cuda_runtime", "hipLaunchKernel", (310, 320), 1),
        event("kernel", "gemm", (330, 500), 1),
        event("kernel", "of nobody", (700, 900), 2),
        event("cuda_runtime", "hipDeviceSynchronize", (360, 910), 3),
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let scratch = Scratch::new();
    let file = scratch.write("rank0.trace.json", text.as_bytes());
    let answer = ask(&[file], &[7], 1);
    let steps: Vec<(String, String, u64)> = steps(&answer, 7)
        .iter()
        .map(|step| {
            let text = |key: &str| step[key].as_str().unwrap().to_owned();
            (text("kind"), text("name"), ns(step, "duration_ns") / 1_000)
        })
        .collect();
    let expected = [
        ("host_code", "data.py(3): load", 300),
        ("host_code", "aten::mm", 10),
        ("call", "hipLaunchKernel", 10),
        ("launch", "gemm", 10),
        ("kernel", "gemm", 170),
        ("unknown", "of nobody", 200),
        ("kernel", "of nobody", 200),
        ("call", "hipDeviceSynchronize", 10),
        ("host_code", "ProfilerStep", 90),
    ];
    let expected = expected.map(|(kind, name, us)| (kind.to_owned(), name.to_owned(), us));
    assert_eq!(steps, expected);
}

/// Communication on a stream of its own takes longer than what it runs beside, and the last kernel waits for it.
#[test]
fn a_path_goes_over_to_the_stream_that_an_event_was_waited_for_in_files_of_pytorch() {
    let event = |category: &str, name: &str, (from_us, to_us): (u64, u64), stream, link| {
        let pid = if category == "kernel" { 0 } else { 100 };
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{stream},"ts":{from_us},"dur":{},"args":{{"correlation":{link}}}}}"#,
            to_us - from_us
        )
    };
    let call = |name: &str, from_us: u64, link: u64| {
        event("cuda_runtime", name, (from_us, from_us + 5), 1, link)
    };
    let events = [
        event("user_annotation", "step 1", (0, 910), 1, 0),
        call("hipLaunchKernel", 0, 1),
        call("hipStreamWaitEvent", 10, 2),
        call("hipLaunchKernel", 20, 3),
        call("hipLaunchKernel", 30, 4),
        call("hipStreamWaitEvent", 40, 5),
        call("hipLaunchKernel", 50, 6),
        event("cuda_runtime", "hipDeviceSynchronize", (60, 910), 1, 7),
        event("kernel", "backward", (10, 100), 7, 1),
        event("kernel", "reduce", (100, 800), 8, 3),
        event("kernel", "backward", (100, 200), 7, 4),
        event("kernel", "adam", (800, 900), 7, 6),
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let scratch = Scratch::new();
    let file = scratch.write("rank0.trace.json", text.as_bytes());
    let answer = ask(&[file], &[1], 1);
    let steps: Vec<(String, u64)> = steps(&answer, 1)
        .iter()
        .filter(|step| step["kind"] == "kernel")
        .map(|step| {
            let name = step["name"].as_str().unwrap().to_owned();
            (name, ns(step, "duration_ns") / 1_000)
        })
        .collect();
    let expected = [("backward", 90), ("reduce", 700), ("adam", 100)];
    assert_eq!(steps, expected.map(|(name, us)| (name.to_owned(), us)));
}

/// An event of a file of PyTorch, in microseconds; operations are of streams, all others of thread 1.
fn event(
    category: &str,
    name: &str,
    (from_us, to_us): (u64, u64),
    stream: u64,
    link: u64,
) -> String {
    let is_of_gpu = ["kernel", "gpu_memcpy"].contains(&category);
    let pid = if is_of_gpu { 0 } else { 100 };
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{stream},"ts":{from_us},"dur":{},"args":{{"correlation":{link}}}}}"#,
        to_us - from_us
    )
}

/// The path of an iteration of a file with these events: kind, name and microseconds of each step.
fn path(events: &[String], iteration: u64) -> Vec<(String, String, u64)> {
    path_beside(events, iteration, &[])
}

/// [`path`], where others are asked for as well.
fn path_beside(events: &[String], iteration: u64, others: &[u64]) -> Vec<(String, String, u64)> {
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let scratch = Scratch::new();
    let file = scratch.write("rank0.trace.json", text.as_bytes());
    let wanted = [&[iteration], others].concat();
    let answer = ask(&[file], &wanted, 1);
    let steps = steps(&answer, iteration);
    let steps = steps.iter().map(|step| {
        let text = |key: &str| step[key].as_str().unwrap().to_owned();
        (text("kind"), text("name"), ns(step, "duration_ns") / 1_000)
    });
    steps.collect()
}

fn owned(steps: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    let steps = steps.iter();
    steps
        .map(|(kind, name, us)| ((*kind).to_owned(), (*name).to_owned(), *us))
        .collect()
}

/// As `item()` does it: the copy waits for the kernels, and its call for the copy. What another stream has done since is beside that.
#[test]
fn a_path_goes_through_an_asynchronous_copy_that_has_held_its_call() {
    for (call, copied, is_held) in [
        ("cudaMemcpyAsync", (960, 965), true),
        ("hipMemcpyAsync", (960, 965), true),
        ("cudaMemcpyAsync", (960, 971), false),
    ] {
        let events = [
            event("user_annotation", "step 1", (0, 1_000), 1, 0),
            event("cuda_runtime", "cudaLaunchKernel", (0, 5), 1, 1),
            event("cuda_runtime", "cudaLaunchKernel", (5, 10), 1, 2),
            event("cuda_runtime", "cudaLaunchKernel", (10, 15), 1, 3),
            event("cuda_runtime", call, (20, 970), 1, 4),
            event("kernel", "gemm", (10, 450), 7, 1),
            event("kernel", "gemm", (450, 950), 7, 2),
            event("kernel", "aside", (600, 968), 8, 3),
            event(
                "gpu_memcpy",
                "Memcpy DtoH (Device -> Pageable)",
                copied,
                7,
                4,
            ),
        ];
        let held = owned(&[
            ("call", "cudaLaunchKernel", 5),
            ("launch", "gemm", 5),
            ("kernel", "gemm", 440),
            ("kernel", "gemm", 500),
            ("queue", "Memcpy DtoH (Device -> Pageable)", 10),
            ("copy", "Memcpy DtoH (Device -> Pageable)", 5),
            ("call", call, 5),
            ("host_code", "step", 30),
        ]);
        assert_eq!(path(&events, 1) == held, is_held, "{call}");
    }
}

/// A call that prepares its copy while the GPU has nothing to do is the host's time up to the copy.
#[test]
fn a_call_that_its_copy_holds_has_the_time_in_front_of_it() {
    let copy = "Memcpy HtoD (Pageable -> Device)";
    let events = [
        event("user_annotation", "step 1", (0, 1_000), 1, 0),
        event("cuda_runtime", "cudaMemcpyAsync", (100, 970), 1, 1),
        event("gpu_memcpy", copy, (600, 960), 7, 1),
    ];
    let expected = owned(&[
        ("host_code", "step", 100),
        ("call", "cudaMemcpyAsync", 500),
        ("copy", copy, 360),
        ("call", "cudaMemcpyAsync", 10),
        ("host_code", "step", 30),
    ]);
    assert_eq!(path(&events, 1), expected);
}

/// Of each step communication on a stream of its own is what the optimizer waits for; all calls were made steps before.
#[test]
fn a_path_knows_calls_from_before_its_iteration() {
    let mut events = Vec::new();
    let call = |name: &str, from_us: u64, link: u64| {
        event("cuda_runtime", name, (from_us, from_us + 5), 1, link)
    };
    let (mut gpu, mut link) = (100, 0);
    for step in 0..6 {
        let at = step * 1_000;
        let name = format!("ProfilerStep#{step}");
        events.push(event("user_annotation", &name, (at, at + 990), 1, 0));
        let forward = gpu + 1_000;
        let operations = [
            ("forward", 7, (gpu, forward)),
            (
                "ncclDevKernel_AllReduce",
                20,
                (forward + 10, forward + 1_510),
            ),
            ("backward", 7, (forward + 5, forward + 805)),
            ("adam", 7, (forward + 1_520, forward + 2_000)),
        ];
        for (number, (name, stream, time)) in (0..).zip(operations) {
            let at = at + 100 * number;
            if stream == 20 || name == "adam" {
                link += 1;
                events.push(call("cudaStreamWaitEvent", at, link));
            }
            link += 1;
            events.push(call("cudaLaunchKernel", at + 10, link));
            events.push(event("kernel", name, time, stream, link));
        }
        gpu = forward + 2_005;
    }
    link += 1;
    events.push(event(
        "cuda_runtime",
        "cudaDeviceSynchronize",
        (6_010, gpu),
        1,
        link,
    ));
    for others in [&[][..], &[5], &[0]] {
        let mut sums: Vec<(String, String, u64)> = Vec::new();
        for (kind, name, us) in path_beside(&events, 2, others) {
            match sums
                .iter_mut()
                .find(|sum| (&sum.0, &sum.1) == (&kind, &name))
            {
                Some(sum) => sum.2 += us,
                None => sums.push((kind, name, us)),
            }
        }
        let expected = owned(&[
            ("collective", "ncclDevKernel_AllReduce", 610 + 1_500 + 1_500),
            ("event", "adam", 30),
            ("kernel", "adam", 3 * 480),
            ("queue", "forward", 10),
            ("kernel", "forward", 2 * 1_000),
            ("event", "ncclDevKernel_AllReduce", 20),
        ]);
        assert_eq!(sums, expected, "{others:?}");
    }
}

/// The trace has no call that makes a stream wait: `adam` begins right behind the communication, or some time later.
#[test]
fn an_operation_that_begins_right_behind_one_of_another_stream_has_waited_for_that() {
    let reduce = "ncclDevKernel_AllReduce";
    for (begin, launched, has_waited) in [
        (3_550, 110, true),
        (3_600, 110, false),
        (3_550, 3_500, false),
    ] {
        let events = [
            event("user_annotation", "step 1", (0, 4_700), 1, 0),
            event("cuda_runtime", "cudaLaunchKernel", (0, 5), 1, 1),
            event("cuda_runtime", "cudaLaunchKernel", (55, 60), 1, 2),
            event(
                "cuda_runtime",
                "cudaLaunchKernel",
                (launched - 10, launched),
                1,
                3,
            ),
            event(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                (launched, 4_610),
                1,
                4,
            ),
            event("kernel", "gemm", (30, 2_030), 7, 1),
            event("kernel", reduce, (2_040, 3_540), 20, 2),
            event("kernel", "adam", (begin, 4_600), 7, 3),
        ];
        let found = path(&events, 1);
        let waited = owned(&[
            ("call", "cudaLaunchKernel", 5),
            ("launch", "gemm", 25),
            ("kernel", "gemm", 2_000),
            ("event", reduce, 10),
            ("collective", reduce, 1_500),
            ("event", "adam", 10),
            ("kernel", "adam", 1_050),
            ("call", "cudaDeviceSynchronize", 10),
            ("host_code", "step", 90),
        ]);
        assert_eq!(found == waited, has_waited, "{found:?}");
        let is_on_it = found.iter().any(|step| step.0 == "collective");
        assert_eq!(is_on_it, has_waited, "{found:?}");
    }
}

/// The thread that calls `backward` waits for that of autograd, whatever operators follow.
#[test]
fn a_path_goes_over_to_the_thread_of_autograd() {
    let engine = "<built-in method run_backward of torch._C._EngineBase object at 0x7f00>";
    let gradient = "autograd::engine::evaluate_function: MulBackward0";
    for (category, backward) in [("user_annotation", "backward"), ("python_function", engine)] {
        let events = [
            event("user_annotation", "step 1", (0, 1_000), 1, 0),
            event("cuda_runtime", "cudaLaunchKernel", (10, 20), 1, 1),
            event(category, backward, (100, 700), 1, 0),
            event("cpu_op", gradient, (150, 690), 2, 0),
            event("cuda_runtime", "cudaLaunchKernel", (200, 210), 2, 2),
            event("cuda_runtime", "cudaLaunchKernel", (600, 640), 2, 3),
            event("cpu_op", "optimizer", (700, 900), 1, 0),
            event("cuda_runtime", "cudaLaunchKernel", (850, 860), 1, 4),
            event("cuda_runtime", "cudaDeviceSynchronize", (900, 960), 1, 5),
            event("kernel", "gemm", (25, 40), 7, 1),
            event("kernel", "gemm", (215, 230), 7, 2),
            event("kernel", "gemm", (645, 660), 7, 3),
            event("kernel", "adam", (870, 950), 7, 4),
        ];
        let found = path(&events, 1);
        let of = |name: &str| -> u64 {
            let steps = found.iter().filter(|step| step.1 == name);
            steps.map(|step| step.2).sum()
        };
        assert_eq!((of(gradient), of("optimizer")), (490, 150), "{found:?}");
        // Addresses of objects are no part of a name.
        let backward = backward.replace(" at 0x7f00", "");
        assert_eq!(of(&backward), 10 + 50, "{found:?}");
    }
}

/// A function of the program or an operator waits for nobody, whatever its name.
#[test]
fn a_path_stays_with_what_is_only_called_backward() {
    for (category, name) in [
        ("python_function", "train.py(3): check_backward"),
        ("cpu_op", "Loss::backward"),
    ] {
        let events = [
            event("user_annotation", "step 1", (0, 1_000), 1, 0),
            event(category, name, (100, 700), 1, 0),
            event("cpu_op", "loader", (150, 690), 2, 0),
            event("cuda_runtime", "cudaLaunchKernel", (600, 640), 2, 3),
            event("cuda_runtime", "cudaLaunchKernel", (850, 860), 1, 4),
            event("cuda_runtime", "cudaDeviceSynchronize", (900, 960), 1, 5),
            event("kernel", "gemm", (645, 660), 7, 3),
            event("kernel", "adam", (870, 950), 7, 4),
        ];
        let found = path(&events, 1);
        let is_there = |name: &str| found.iter().any(|step| step.1 == name);
        assert!(is_there(name) && !is_there("loader"), "{found:?}");
    }
}

/// Of a pipeline: the second rank waits in its kernel for what the first sends.
#[test]
fn a_path_goes_from_the_kernel_that_receives_to_the_rank_that_sends() {
    let scratch = Scratch::new();
    let files = [0, 1].map(|rank| {
        let mut events = Vec::new();
        for step in 0..4 {
            let at = 1_000 * step;
            let link = 10 * step + 1;
            let name = format!("ProfilerStep#{step}");
            let message = |name: &str, times: (u64, u64)| {
                let told = format!(
                    r#""Collective name":"{name}","Src Rank":0,"Dst Rank":1,"dtype":"Float","In msg nelems":8,"Out msg nelems":8,"Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","correlation""#
                );
                let kernel = event("kernel", "ncclDevKernel_SendRecv", times, 20, link);
                kernel.replace(r#""correlation""#, &told)
            };
            let call = |name: &str, times: (u64, u64), link: u64| {
                event("cuda_runtime", name, (at + times.0, at + times.1), 1, link)
            };
            if rank == 0 {
                events.extend([
                    event("user_annotation", &name, (at, at + 720), 1, 0),
                    event("cpu_op", "prepare", (at + 10, at + 600), 1, 0),
                    call("cudaLaunchKernel", (610, 615), link),
                    message("send", (at + 620, at + 700)),
                ]);
            } else {
                events.extend([
                    event("user_annotation", &name, (at, at + 950), 1, 0),
                    call("cudaLaunchKernel", (10, 15), link),
                    message("recv", (at + 20, at + 700)),
                    call("cudaLaunchKernel", (30, 35), link + 1),
                    event("kernel", "gemm", (at + 700, at + 900), 20, link + 1),
                    call("cudaDeviceSynchronize", (40, 910), link + 2),
                ]);
            }
        }
        let text = format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
            events.join(",")
        );
        scratch.write(&format!("rank{rank}.trace.json"), text.as_bytes())
    });
    let found = steps(&ask(&files, &[2], 1), 2);
    let told = |kind: &str, rank: u64| -> u64 {
        let steps = found.iter();
        let steps = steps.filter(|step| step["kind"] == kind && step["rank"] == rank);
        steps.map(|step| ns(step, "duration_ns") / 1_000).sum()
    };
    assert_eq!(told("collective", 1), 80, "{found:#?}");
    // What the sender did before it.
    assert_eq!(told("host_code", 0), 610, "{found:#?}");
}
