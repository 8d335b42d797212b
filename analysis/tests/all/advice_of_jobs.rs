//! Advice on whole jobs, from their traces: each cause is named once, with its rank, where one rank, several together, or each in turn makes the others wait.

use std::path::PathBuf;

use crate::common::{self, Scratch};
use rsys_analysis::advice::advise;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::show::json;
use rsys_analysis::{pass, ranks};
use rsys_synthetic::{Cause, Fault, Job};
use rsys_traces::read::BytesRead;
use serde_json::Value;

const MS: u64 = 1_000_000;

/// All that is found in the traces of a job.
fn findings(files: &[PathBuf]) -> Vec<Value> {
    let (names, mut measures): (Vec<&'static str>, Vec<Box<dyn Measure>>) =
        common::advice_measures().into_iter().unzip();
    let model = pass(files, &mut measures);
    let answers = measures.iter_mut().map(|one| one.answer(&model, "job"));
    let mut answers: Vec<_> = names.into_iter().zip(answers).collect();
    let (collectives, _) = ranks::collectives(files, &BytesRead::default(), 2);
    answers.push(("collectives", collectives));
    let advised = json(&advise(&answers, &profiling_cost(&model)));
    common::judge(&advised);
    advised["findings"].as_array().cloned().unwrap_or_default()
}

fn of_job(job: &Job) -> Vec<Value> {
    let scratch = Scratch::new();
    findings(&common::written(job, &scratch))
}

/// Rule and place of each finding.
fn told(findings: &[Value]) -> Vec<(&str, &str)> {
    findings
        .iter()
        .map(|one| {
            let of = |key: &str| one[key].as_str().unwrap_or("");
            (of("rule"), of("place"))
        })
        .collect()
}

fn saves_ms(finding: &Value) -> u64 {
    finding["saves_ns"].as_u64().unwrap_or(0) / MS
}

/// Eight ranks on two hosts, of whose time the GPUs compute nearly all.
fn job(faults: Vec<Fault>) -> Job {
    Job {
        iterations: 60,
        load_ns: MS / 5,
        faults,
        ..Job::default()
    }
}

fn fault(rank: u64, cause: Cause, amount_ms: u64, every: u64) -> Fault {
    Fault {
        rank,
        cause,
        amount_ns: amount_ms * MS,
        every,
    }
}

#[test]
fn what_makes_a_rank_late_is_one_finding() {
    let slow = fault(3, Cause::SlowLoader, 60, 10);
    let whole = job(vec![slow]);
    let missing = Job {
        missing: vec![5],
        ..whole.clone()
    };
    for job in [whole, missing] {
        let found = of_job(&job);
        let expected = [("straggler", "rank 3 on node00: load_batch (train.py:42)")];
        assert_eq!(told(&found), expected, "{found:#?}");
        // Six times 60 ms; the first time nothing is known of the time before.
        assert!((299..=361).contains(&saves_ms(&found[0])), "{found:#?}");
        // The place to look at is one of these times.
        let duration_ns = found[0]["duration_ns"].as_u64().unwrap_or(0);
        assert!((60..=70).contains(&(duration_ns / MS)), "{found:#?}");
    }
}

#[test]
fn ranks_that_are_late_together_are_one_finding() {
    let slow = (4..8).map(|rank| fault(rank, Cause::LongKernel, 3, 1));
    let found = of_job(&job(slow.collect()));
    let expected = [("straggler", "ranks 4, 5, 6, 7 on node01: gemm_2")];
    assert_eq!(told(&found), expected, "{found:#?}");
    assert!((165..=185).contains(&saves_ms(&found[0])), "{found:#?}");
    // Of many the latest eight are named.
    let slow = (8..20).map(|rank| fault(rank, Cause::LongKernel, 3, 1));
    let found = of_job(&Job {
        ranks: 32,
        ..job(slow.collect())
    });
    let [one] = &told(&found)[..] else {
        panic!("{found:#?}");
    };
    assert!(
        one.1.starts_with("ranks ") && one.1.ends_with(": gemm_2; and 4 more ranks"),
        "{one:?}"
    );
    // Nor are their GPUs' idle times findings.
    let slow = (4..8).map(|rank| fault(rank, Cause::SlowLoader, 3, 1));
    let found = of_job(&job(slow.collect()));
    let expected = [(
        "straggler",
        "ranks 4, 5, 6, 7 on node01: load_batch (train.py:42)",
    )];
    assert_eq!(told(&found), expected, "{found:#?}");
}

#[test]
fn ranks_that_are_late_in_turn_are_one_finding() {
    let every = [7, 8, 9, 10, 11, 12, 13, 15];
    let slow = (0..).zip(every);
    let slow = slow.map(|(rank, every)| fault(rank, Cause::LongKernel, 20, every));
    let found = of_job(&Job {
        iterations: 100,
        ..job(slow.collect())
    });
    let [(rule, place)] = told(&found)[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(rule, "ranks_in_turn");
    // Any of them by 20 ms, before an operation whose number is that of its iteration.
    let rank = place
        .strip_prefix("most at one time rank ")
        .unwrap_or(place);
    let (rank, operation) = rank.split_once(" on node0").unwrap_or((rank, ""));
    let rank: usize = rank.parse().unwrap();
    assert!(
        operation[1..].starts_with(", before ncclAllReduce number "),
        "{place}"
    );
    let start_ns = found[0]["start_ns"].as_u64().unwrap();
    let duration_ns = found[0]["duration_ns"].as_u64().unwrap();
    assert!(rank < every.len() && start_ns > 0, "{place}");
    assert!(
        (19..=20).contains(&((duration_ns + MS / 2) / MS)),
        "{found:#?}"
    );
    // Iterations in which some rank is late.
    let late = (1..100_u64).filter(|at| every.iter().any(|every| at % every == 0));
    let late_ms = 20 * late.count() as u64;
    let off_ms = saves_ms(&found[0]).abs_diff(late_ms);
    assert!(10 * off_ms <= late_ms, "{late_ms} {found:#?}");
}

/// A file of PyTorch's profiler; events as category, name, begin and end in microseconds, and more arguments.
fn kineto(rank: u64, events: &[(&str, &str, u64, u64, String)]) -> Vec<u8> {
    let events = events.iter().map(|(category, name, from, to, more)| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{},"tid":1,"ts":{from},"dur":{},"args":{{{more}}}}}"#,
            match ["kernel", "gpu_memcpy"].contains(category) {
                true => 0,
                false => 100 + rank,
            },
            to - from
        )
    });
    let events: Vec<String> = events.collect();
    format!(
        r#"{{"distributedInfo":{{"rank":{rank},"world_size":3}},"traceEvents":[{}]}}"#,
        events.join(",\n")
    )
    .into_bytes()
}

fn of_files(ranks: &[Vec<u8>]) -> Vec<Value> {
    let scratch = Scratch::new();
    let files = (0..).zip(ranks);
    let files = files.map(|(rank, file)| scratch.write(&format!("rank{rank}.trace.json"), file));
    findings(&files.collect::<Vec<_>>())
}

#[test]
fn a_late_rank_of_pytorch_has_the_function_that_it_was_in() {
    let file = |rank: u64| {
        let load_us = if rank == 1 { 12_000 } else { 1_000 };
        let mut events = Vec::new();
        for step in 0..40 {
            let at = 100_000 + 40_000 * step;
            let launched = at + load_us;
            let link = |number: u64| format!(r#""correlation":{}"#, 4 * step + number);
            let load = "train.py(42): load_batch";
            events.push(("python_function", load, at, launched, String::new()));
            for number in [1, 2] {
                let from = launched + 10 * number;
                events.push((
                    "cuda_runtime",
                    "hipLaunchKernel",
                    from,
                    from + 5,
                    link(number),
                ));
            }
            let gemm = (launched + 20, launched + 20_020);
            events.push(("kernel", "gemm", gemm.0, gemm.1, link(1)));
            let group = format!(
                r#"{},"Collective name":"allreduce","dtype":"Float","In msg nelems":4096,"Out msg nelems":4096,"Group size":3,"Process Group Name":"0","Process Group Ranks":"[0, 1, 2]","Seq":{step}"#,
                link(2)
            );
            events.push((
                "kernel",
                "ncclDevKernel_AllReduce",
                gemm.1,
                at + 33_000,
                group,
            ));
        }
        kineto(rank, &events)
    };
    let found = of_files(&[file(0), file(1), file(2)]);
    assert_eq!(
        told(&found)[0],
        ("straggler", "rank 1: train.py(42): load_batch"),
        "{found:#?}"
    );
    assert_eq!(found[0]["evidence"]["cause"], "host_code");
}

/// Rules, places and milliseconds of three ranks whose GPUs work for so long in each of eight steps, of which rank 1 is in a function for 6 ms longer than the others.
fn of_late_rank(place: &str, works_us: u64) -> Vec<(String, String, u64)> {
    let file = |rank: u64| {
        let mut events = Vec::new();
        for step in 0..8 {
            let at = 100_000 + 20_000 * step;
            let launched = at + if rank == 1 { 7_000 } else { 1_000 };
            let link = |number: u64| format!(r#""correlation":{}"#, 4 * step + number);
            events.push(("user_annotation", place, at, launched, String::new()));
            for number in [1, 2] {
                let from = launched + 10 * number;
                let time = (from, from + 5);
                events.push((
                    "cuda_runtime",
                    "hipLaunchKernel",
                    time.0,
                    time.1,
                    link(number),
                ));
            }
            let (from, to, ends) = (launched + 20, launched + works_us, at + works_us + 7_500);
            events.push(("kernel", "gemm", from, to, link(1)));
            let group = format!(
                r#"{},"Collective name":"allreduce","dtype":"Float","In msg nelems":4096,"Out msg nelems":4096,"Group size":3,"Process Group Name":"0","Process Group Ranks":"[0, 1, 2]","Seq":{step}"#,
                link(2)
            );
            events.push(("kernel", "ncclDevKernel_AllReduce", to, ends, group));
            let wait = (launched + 30, ends + 10);
            events.push((
                "cuda_runtime",
                "hipStreamSynchronize",
                wait.0,
                wait.1,
                link(3),
            ));
            let log = "train.py(12): log_metrics";
            events.push(("python_function", log, wait.1, at + 20_000, String::new()));
        }
        kineto(rank, &events)
    };
    let found = of_files(&[file(0), file(1), file(2)]);
    let saved = told(&found).into_iter().zip(&found);
    let saved = saved.map(|((rule, at), one)| (rule.to_owned(), at.to_owned(), saves_ms(one)));
    let mut saved: Vec<(String, String, u64)> = saved.collect();
    saved.sort_unstable();
    saved
}

#[test]
fn what_all_ranks_lose_makes_none_of_them_late() {
    let told = |rule: &str, place: &str, saves_ms| (rule.to_owned(), place.to_owned(), saves_ms);
    // The late rank waits for its GPU so shortly that what it does afterwards is its own.
    let load = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let expected = [
        // 7.47 ms between each two of eight steps.
        told("host_code", "train.py(12): log_metrics", 52),
        told("straggler", &format!("rank 1: {load}"), 42),
        // The others wait for long enough to have submitted the next step meanwhile.
        told("sync_in_loop", "hipStreamSynchronize", 52),
    ];
    assert_eq!(of_late_rank(load, 5_020), expected);
    // All wait for long, and what makes the late rank late is among what is behind its waits.
    let encode = "train.py(42): encode";
    let expected = [
        told("straggler", &format!("rank 1: {encode}"), 42),
        told("sync_in_loop", "hipStreamSynchronize", 31),
    ];
    assert_eq!(of_late_rank(encode, 9_020), expected);
}

/// A process that was recorded twice, with a minute between.
#[test]
fn a_gpu_that_was_recorded_twice_is_one() {
    let load = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let file = |recording: u64| {
        let mut events = Vec::new();
        for step in 0..8 {
            let at = 100_000 + 60_000_000 * recording + 20_000 * step;
            let (launched, link) = (at + 8_000, format!(r#""correlation":{step}"#));
            let launch = "hipLaunchKernel";
            events.push(("user_annotation", load, at, launched, String::new()));
            events.push(("cuda_runtime", launch, launched, launched + 5, link.clone()));
            events.push(("kernel", "gemm", launched + 10, at + 20_000, link));
        }
        kineto(0, &events)
    };
    let found = of_files(&[file(0), file(1)]);
    assert_eq!(told(&found), [("input_wait", load)], "{found:#?}");
    assert_eq!(found[0]["evidence"]["gpus"], 1);
    // In each recording 8 ms between each two of eight steps.
    assert_eq!(saves_ms(&found[0]), 112);
}

/// PyTorch's profiler recorded ten steps, paused and recorded ten more, each time in a file, in which collectives have no numbers.
#[test]
fn recordings_of_a_job_in_one_folder_have_their_straggler() {
    let file = |rank: u64, recording: u64| {
        let mut events = Vec::new();
        for step in 0..20 {
            let at = 100_000 + 60_000_000 * recording + 50_000 * step;
            let computes_us = if rank == 1 { 45_000 } else { 20_000 };
            let link = |number: u64| format!(r#""correlation":{}"#, 2 * step + number);
            let group = format!(
                r#"{},"Collective name":"allreduce","dtype":"Float","In msg nelems":4096,"Out msg nelems":4096,"Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]""#,
                link(2)
            );
            let (arrives, ends) = (at + computes_us, at + 45_200);
            events.push(("kernel", "gemm", at, arrives, link(1)));
            events.push(("kernel", "ncclDevKernel_AllReduce", arrives, ends, group));
        }
        kineto(rank, &events)
    };
    let files = [file(0, 0), file(1, 0), file(0, 1), file(1, 1)];
    let found = of_files(&files);
    assert_eq!(told(&found)[0], ("straggler", "rank 1: gemm"), "{found:#?}");
    // Forty times 25 ms, but for the first of each recording.
    assert!((940..=1000).contains(&saves_ms(&found[0])), "{found:#?}");
}

/// Both ranks compute 20 ms in an iteration, and in every other one the first or the second 8 ms more, before a collective of 0.2 ms.
#[test]
fn two_ranks_that_are_late_in_turn_cost_all_that_is_lost() {
    let file = |rank: u64| {
        let mut events = Vec::new();
        for step in 0..96 {
            let at = 100_000 + 28_200 * step;
            let computes_us = if step % 2 == rank { 28_000 } else { 20_000 };
            let link = |number: u64| format!(r#""correlation":{}"#, 2 * step + number);
            let group = format!(
                r#"{},"Collective name":"allreduce","dtype":"Float","In msg nelems":4096,"Out msg nelems":4096,"Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":{step}"#,
                link(2)
            );
            let (arrives, ends) = (at + computes_us, at + 28_200);
            events.push(("kernel", "gemm", at, arrives, link(1)));
            events.push(("kernel", "ncclDevKernel_AllReduce", arrives, ends, group));
        }
        kineto(rank, &events)
    };
    let found = of_files(&[file(0), file(1)]);
    let rules: Vec<&str> = told(&found).iter().map(|one| one.0).collect();
    assert_eq!(rules, ["ranks_in_turn"], "{found:#?}");
    // 96 times 8 ms, though each rank waits for half of it only; of the first time nothing is known before it.
    assert!((759..=768).contains(&saves_ms(&found[0])), "{found:#?}");
}

/// `tensor.item()` after each step: the copy is short, and what the host does then keeps the GPU idle.
#[test]
fn copies_that_keep_the_host_from_working_ahead_are_found_without_their_sizes() {
    let mut events = Vec::new();
    for step in 0..100 {
        let at = 100_000 + 26_000 * step;
        let link = |number: u64| format!(r#""correlation":{}"#, 2 * step + number);
        let (gemm, copy) = ((at + 10, at + 20_010), (at + 20_010, at + 20_020));
        events.push(("cuda_runtime", "hipLaunchKernel", at, at + 5, link(1)));
        events.push(("kernel", "gemm", gemm.0, gemm.1, link(1)));
        let fetches = "hipMemcpyWithStream";
        events.push(("cuda_runtime", fetches, at + 6, copy.1 + 2, link(2)));
        events.push((
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Pageable)",
            copy.0,
            copy.1,
            link(2),
        ));
        let rest = (copy.1 + 2, at + 26_000);
        events.push(("cpu_op", "aten::item", rest.0, rest.1, String::new()));
    }
    let found = of_files(&[kineto(0, &events)]);
    assert_eq!(
        told(&found),
        [("blocking_copies", "hipMemcpyWithStream")],
        "{found:#?}"
    );
    // 99 times from the end of the copy to the begin of the next kernel, and the copies.
    let idle_us = 99 * (26_000 - 20_020 + 10);
    assert_eq!(found[0]["saves_ns"], (idle_us + 100 * 10) * 1_000);
    assert!(
        found[0]["evidence"].get("copied_bytes").is_none(),
        "{found:#?}"
    );
}

#[test]
fn stages_that_wait_for_each_others_messages_are_told_so() {
    let file = |rank: u64| {
        let mut events = Vec::new();
        for step in 0..40 {
            let at = 100_000 + 20_200 * step;
            let link = |number: u64| format!(r#""correlation":{}"#, 4 * step + number);
            let message = |name: &str, number: u64, from: u64, to: u64| {
                format!(
                    r#"{},"Collective name":"{name}","dtype":"Float","In msg nelems":4096,"Out msg nelems":4096,"Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","Src Rank":{from},"Dst Rank":{to},"Seq":{step}"#,
                    link(number)
                )
            };
            // One computes while the other waits for what comes of it.
            let (send, receive, compute) = match rank {
                0 => ((10_000, 10_100), (10_100, 20_200), (0, 10_000)),
                _ => ((20_100, 20_200), (0, 10_100), (10_100, 20_100)),
            };
            let sends = message("send", 1, rank, 1 - rank);
            let receives = message("recv", 2, 1 - rank, rank);
            let kernel = "ncclDevKernel_SendRecv";
            for (name, span, more) in [
                (kernel, send, sends),
                (kernel, receive, receives),
                ("gemm", compute, link(3)),
            ] {
                events.push(("kernel", name, at + span.0, at + span.1, more));
            }
        }
        kineto(rank, &events)
    };
    let found = of_files(&[file(0), file(1)]);
    let rules: Vec<&str> = told(&found).iter().map(|one| one.0).collect();
    assert_eq!(rules, ["message_wait"], "{found:#?}");
    assert!((380..=400).contains(&saves_ms(&found[0])), "{found:#?}");
}
