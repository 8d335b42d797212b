//! Collectives of which no call is recorded: kernels of rocprofv3 alone.

use std::path::PathBuf;

use super::{answer, notes};
use crate::common::Scratch;
use serde_json::{Value, json};

/// How the file of a rank is made.
#[derive(Clone, Copy)]
struct Told {
    kernel: &'static str,
    /// The call of RCCL around launches; empty if none is recorded.
    call: &'static str,
    /// Collectives in one launch, as of a graph.
    at_once: u64,
    ranks: u64,
    /// What the ranks are on: GPUs of one process, or processes.
    is_one_process: bool,
    /// Ranks 0 and 1 are in one communicator, 2 and 3 in another.
    are_pairs: bool,
}

const PLAIN: Told = Told {
    kernel: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    call: "",
    at_once: 1,
    ranks: 4,
    is_one_process: false,
    are_pairs: false,
};
const RCCL: &str = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)";
const STEPS: u64 = 20;

/// The records of a rank: it computes, then runs a collective; the rank with the number 2 computes so much longer.
fn rank_of(told: Told, rank: u64, late_us: u64, steps: u64) -> [Vec<Value>; 3] {
    let [mut kernels, mut launches, mut calls] = [const { Vec::new() }; 3];
    for step in 0..steps {
        let at = 1_000_000_000 + 5_000_000 * step;
        let of_pair = match told.are_pairs && rank >= 2 {
            true => 1_000 * (137 * step * step % 700),
            false => 0,
        };
        let begin = at + of_pair;
        let arrives = begin + 1_000_000 + if rank == 2 { 1_000 * late_us } else { 0 };
        let end = begin + 1_100_000 + 1_000 * late_us;
        let launch = 1_000 * rank + 2 * step / told.at_once + 1;
        let record = |kind: u64, correlation: u64, (start, end): (u64, u64)| {
            json!({"kind": kind, "operation": 1, "thread_id": 7, "start_timestamp": start, "end_timestamp": end,
                   "correlation_id": {"internal": correlation, "external": 0}})
        };
        let mut kernel = |id: u64, stream: u64, correlation: u64, times: (u64, u64)| {
            let mut one = record(0, correlation, times);
            let gpu = if told.is_one_process { 10 + rank } else { 10 };
            one["dispatch_info"] = json!({"agent_id": {"handle": gpu}, "queue_id": {"handle": stream}, "kernel_id": id,
                                          "grid_size": {"x": 64, "y": 1, "z": 1}});
            one["stream_id"] = json!({"handle": stream});
            kernels.push(one);
        };
        let of_gemm = 500_000 + 1_000 * rank + step;
        kernel(1, 1, of_gemm, (at + 10_000, arrives - 10_000));
        kernel(2, 2, launch, (arrives, end));
        launches.push(record(1, of_gemm, (at, at + 5_000)));
        if step % told.at_once == 0 {
            launches.push(record(1, launch, (at + 20_000, at + 25_000)));
            if !told.call.is_empty() {
                calls.push(record(2, 0, (at + 19_000, at + 26_000)));
            }
        }
    }
    [kernels, launches, calls]
}

/// A file of each process.
fn files(scratch: &Scratch, told: Told, late_us: u64, more: u64) -> Vec<PathBuf> {
    let of_rank = |rank: u64| {
        rank_of(
            told,
            rank,
            late_us,
            STEPS + if rank == 3 { more } else { 0 },
        )
    };
    let ranks: Vec<[Vec<Value>; 3]> = (0..told.ranks).map(of_rank).collect();
    let processes: Vec<[Vec<Value>; 3]> = match told.is_one_process {
        false => ranks,
        true => {
            vec![[0, 1, 2].map(|kind| ranks.iter().flat_map(|one| one[kind].clone()).collect())]
        }
    };
    let files = processes.into_iter().enumerate().map(|(number, [kernels, launches, calls])| {
        let agents = (10..14_u64).map(|handle| json!({"id": {"handle": handle}, "type": 2, "logical_node_type_id": handle, "name": "gfx942"}));
        let document = json!({"rocprofiler-sdk-tool": [{
            "metadata": {"pid": 100 + number, "init_time": 5, "fini_time": 9_000_000_000_u64, "node": {"hostname": if told.is_one_process { "" } else { "n1" }}},
            "agents": agents.collect::<Vec<_>>(),
            "strings": {"buffer_records": [
                {"kind": "KERNEL_DISPATCH", "operations": ["NONE"]},
                {"kind": "HIP_RUNTIME_API", "operations": ["NONE", "hipLaunchKernel"]},
                {"kind": "RCCL_API", "operations": ["NONE", told.call]}]},
            "kernel_symbols": [
                {"kernel_id": 1, "formatted_kernel_name": "gemm"},
                {"kernel_id": 2, "formatted_kernel_name": told.kernel}],
            "buffer_records": {"kernel_dispatch": kernels, "hip_api": launches, "rccl_api": calls},
        }]});
        scratch.write(&format!("{number}_results.json"), document.to_string().as_bytes())
    });
    files.collect()
}

fn asked(told: Told, late_us: u64, more: u64) -> Value {
    let scratch = Scratch::new();
    answer(&files(&scratch, told, late_us, more), "collectives")
}

/// The processes that made others wait.
fn late(answer: &Value) -> Vec<u64> {
    let rows = answer["stragglers"].as_array().expect("stragglers");
    let processes = rows.iter().filter_map(|row| row["process"].as_u64());
    processes.collect()
}

#[test]
fn kernels_without_calls_are_matched_by_their_order() {
    let by_call = Told {
        kernel: RCCL,
        call: "ncclAllReduce",
        ..PLAIN
    };
    let silent = Told {
        kernel: RCCL,
        ..PLAIN
    };
    let graph = Told {
        at_once: 5,
        ..PLAIN
    };
    for (told, operation) in [
        (PLAIN, "allreduce"),
        (by_call, "allreduce"),
        (silent, "collective"),
        (graph, "allreduce"),
    ] {
        let found = asked(told, 900, 0);
        assert_eq!(late(&found), [102], "{found:#}");
        let row = &found["operations"][0];
        assert_eq!(
            (row["operation"].as_str(), row["count"].as_u64()),
            (Some(operation), Some(STEPS)),
            "{found:#}"
        );
        assert_eq!(late(&asked(told, 0, 0)), [0; 0]);
    }
}

#[test]
fn where_ranks_have_different_numbers_of_collectives_none_is_matched() {
    let found = asked(PLAIN, 900, 1);
    assert_eq!(late(&found), [0; 0], "{found:#}");
    assert!(
        notes(&found).contains("3 ranks with 20, 1 rank with 21"),
        "{found:#}"
    );
}

#[test]
fn gpus_of_one_process_have_one_clock() {
    let told = Told {
        is_one_process: true,
        ..PLAIN
    };
    let found = asked(told, 900, 0);
    let row = &found["operations"][0];
    assert_eq!(
        (row["ranks"].as_u64(), row["count"].as_u64()),
        (Some(4), Some(STEPS)),
        "{found:#}"
    );
    assert!(!notes(&found).contains("clocks of their own"), "{found:#}");
}

#[test]
fn ranks_that_end_together_are_in_one_communicator() {
    let pairs = Told {
        are_pairs: true,
        ..PLAIN
    };
    let found = asked(pairs, 900, 0);
    let communicators = found["communicators"].as_array().expect("communicators");
    let counts = communicators.iter();
    let counts: Vec<_> = counts
        .map(|row| (row["ranks"].as_u64(), row["matched"].as_u64()))
        .collect();
    assert_eq!(counts, [(Some(2), Some(STEPS)); 2], "{found:#}");
    assert_eq!(late(&found), [102], "{found:#}");
    // One rank alone says nothing.
    let alone = Told { ranks: 1, ..PLAIN };
    let found = asked(alone, 900, 0);
    assert!(
        notes(&found).contains("20 operations are not matched: they have no numbers"),
        "{found:#}"
    );
}
