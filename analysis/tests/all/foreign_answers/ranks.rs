//! Ranks that are late in collectives.

use std::path::PathBuf;

use super::{Trace, answer, findings, notes};
use crate::common::Scratch;
use serde_json::Value;

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

/// Files of two ranks in one, of which the second has a clock that is ahead by so much, and comes so much later.
fn fused(ahead: u64, late: u64) -> Value {
    let mut events = Vec::new();
    for rank in 0..2 {
        for step in 0..20 {
            let at = 1_000_000 + 20_000 * step;
            let (begin, end) = (at + 1_000 + rank * late, at + 1_200 + late);
            let clock = ahead * rank;
            let link = 2 * step + 1;
            let kernel = |name: &str, (from, to): (u64, u64), link: u64, args: &str| {
                format!(
                    r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":{rank},"tid":7,"ts":{},"dur":{},"args":{{"device":{rank},"stream":7,"rank":{rank},"correlation":{link}{args}}}}}"#,
                    from + clock,
                    to - from
                )
            };
            let group = format!(
                r#","Collective name":"allreduce","dtype":"Float","In msg nelems":4096,"Out msg nelems":4096,"Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":{step}"#
            );
            events.push(kernel("gemm", (at, begin), link, ""));
            let reduce = "ncclDevKernel_AllReduce";
            events.push(kernel(reduce, (begin, end), link + 1, &group));
        }
    }
    Trace { events, links: 0 }.answer("collectives")
}

#[test]
fn ranks_of_a_file_may_have_several_clocks() {
    let of = |answer: &Value| -> (u64, bool) {
        let instances = answer["instances"].as_array().expect("instances");
        let skew_ns = instances[0]["start_skew_ns"].as_u64().expect("a skew");
        (skew_ns, notes(answer).contains("clocks of their own"))
    };
    // Times of GPUs are no more exact than that.
    let off = fused(210, 0);
    assert_eq!(of(&off), (210_000, false), "{off:#}");
    for late in [0, 150] {
        let skew_ns = 1_000 * late;
        let one = fused(0, late);
        assert_eq!(of(&one), (skew_ns, false), "{one:#}");
        let two = fused(5_000, late);
        let (found_ns, is_told) = of(&two);
        let clocks = two["clocks"].as_array().expect("clocks");
        let uncertainty_ns = clocks[1]["uncertainty_ns"].as_u64().expect("a bound");
        assert!(is_told, "{two:#}");
        assert!(found_ns.abs_diff(skew_ns) <= uncertainty_ns, "{two:#}");
        assert!(uncertainty_ns < 500_000, "{two:#}");
    }
}

/// The others wait in a barrier for the rank that writes a checkpoint.
#[test]
fn who_writes_a_checkpoint_makes_the_others_wait() {
    let scratch = Scratch::new();
    let files = (0..2).map(|rank| {
        let mut trace = Trace::default();
        for step in 0..20 {
            let at = 1_000_000 + 10_000 * step;
            trace.launch("gemm", (at, 5), (at + 10, 3_000));
            let arrives = match rank {
                0 => {
                    let function = "python_function";
                    trace.host(function, "train.py(52): checkpoint", at + 3_100, 5_000, "");
                    let save = "torch/serialization.py(944): save";
                    trace.host(function, save, at + 3_110, 4_980, "");
                    let write = "<built-in method write_record of PyTorchFileWriter object>";
                    trace.host(function, write, at + 3_200, 4_000, "");
                    at + 8_200
                }
                _ => at + 3_200,
            };
            let barrier = "user_annotation";
            trace.host(barrier, "gloo:barrier", arrives, at + 8_300 - arrives, "");
        }
        let head = format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}},"#);
        trace.written(&scratch, &format!("rank{rank}.json"), &head)
    });
    let files: Vec<PathBuf> = files.collect();
    let found = answer(&files, "collectives");
    assert_eq!(stragglers(&found), [0], "{found:#}");
    let place = "torch/serialization.py(944): save in train.py(52): checkpoint";
    assert_eq!(found["stragglers"][0]["place"], place, "{found:#}");
    assert_eq!(found["operations"][0]["operation"], "barrier");
    let advice = answer(&files, "advice");
    let told = findings(&advice);
    assert_eq!(told[0].1, format!("rank 0: {place}"), "{told:?}");
}
