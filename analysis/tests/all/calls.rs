//! Calls of the GPU runtimes.

use crate::common::{batch, model, row, rows, sum, thread};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::host::calls::Calls;
use rsys_traces::model::{HostKind, HostSlice, Model};
use serde_json::Value;

/// Thread, name, begin, end, depth.
type Drawn = (usize, &'static str, u64, u64, u32);

fn answer(slices: &[(HostKind, Drawn)], batch_records: usize) -> rsys_analysis::table::Answer {
    let mut model: Model = model();
    let mut calls = Calls::default();
    for part in slices.chunks(batch_records) {
        calls.take(&batch(|batch| {
            for &(kind, (index, name, start_ns, end_ns, depth)) in part {
                batch.host.push(HostSlice {
                    start_ns,
                    end_ns,
                    thread: thread(index),
                    name: model.texts.intern(name),
                    depth,
                    kind,
                    ..HostSlice::default()
                });
            }
        }));
    }
    calls.answer(&model, "")
}

const HIP: HostKind = HostKind::Runtime;

#[test]
fn nested_calls_count_once_in_the_time_of_their_runtime() {
    let slices = [
        (HIP, (0, "hipMemcpyAsync", 12, 15, 2)),
        (HIP, (0, "hipStreamSynchronize", 15, 19, 2)),
        (HIP, (0, "hipMemcpy", 11, 20, 1)),
        (HostKind::Collective, (0, "ncclAllReduce", 10, 30, 0)),
        (HIP, (0, "hipDeviceSynchronize", 40, 100, 0)),
        (HIP, (1, "hipDeviceSynchronize", 50, 150, 0)),
        (HostKind::Range, (1, "epoch", 0, 1000, 0)),
    ];
    let found = answer(&slices, 2);
    let calls = rows(&found, "calls");
    let times = |name: &str| -> [Value; 4] {
        let row = row(&calls, "name", name);
        ["count", "total_ns", "outermost_ns", "blocked_ns"].map(|key| row[key].clone())
    };
    assert_eq!(times("hipMemcpy"), [1, 9, 9, 9].map(Value::from));
    // It waits too, but within a call that does.
    assert_eq!(times("hipStreamSynchronize"), [1, 4, 0, 0].map(Value::from));
    assert_eq!(times("hipMemcpyAsync"), [1, 3, 0, 0].map(Value::from));
    assert_eq!(
        times("hipDeviceSynchronize"),
        [2, 160, 160, 160].map(Value::from)
    );
    assert_eq!(row(&calls, "name", "hipMemcpy")["waits_for"], "copy");
    assert_eq!(calls.len(), 5, "ranges are no calls");
    let runtimes = rows(&found, "runtimes");
    let hip = row(&runtimes, "runtime", "HIP");
    assert_eq!(
        (&hip["time_ns"], &hip["blocked_ns"]),
        (&169.into(), &169.into())
    );
    assert_eq!(row(&runtimes, "runtime", "RCCL")["time_ns"], 20);
    assert_eq!(sum(&calls, "outermost_ns"), sum(&runtimes, "time_ns"));
    assert_eq!(sum(&calls, "blocked_ns"), sum(&runtimes, "blocked_ns"));
}

#[test]
fn calls_of_files_without_order_nest_as_well() {
    const UNKNOWN: u32 = HostSlice::UNKNOWN_DEPTH;
    let mut slices = vec![
        (HIP, (0, "hipMemcpy", 11, 20, UNKNOWN)),
        (HIP, (0, "hipStreamSynchronize", 15, 20, UNKNOWN)),
        (HIP, (0, "hipMemcpyAsync", 11, 15, UNKNOWN)),
        (HIP, (0, "hipMemcpyAsync", 20, 24, UNKNOWN)),
    ];
    for _ in 0..slices.len() {
        slices.rotate_left(1);
        let found = answer(&slices, 2);
        let calls = rows(&found, "calls");
        let times = |name: &str| {
            let row = row(&calls, "name", name);
            ["total_ns", "outermost_ns", "blocked_ns"].map(|key| row[key].as_u64())
        };
        assert_eq!(times("hipMemcpy"), [9, 9, 9].map(Some));
        assert_eq!(times("hipStreamSynchronize"), [5, 0, 0].map(Some));
        assert_eq!(times("hipMemcpyAsync"), [8, 4, 0].map(Some));
    }
}

#[test]
fn calls_may_be_nested_without_limit() {
    for depth in [0, HostSlice::UNKNOWN_DEPTH] {
        let slices: Vec<_> = (0..300_000_u64)
            .map(|number| {
                (
                    HIP,
                    (
                        0,
                        "hipMalloc",
                        300_000 - number,
                        300_001 + number,
                        depth.max(1),
                    ),
                )
            })
            .collect();
        let calls = rows(&answer(&slices, 100_000), "calls");
        assert_eq!(calls[0]["count"], 300_000);
        assert_eq!(calls[0]["outermost_ns"], 599_999);
    }
}

#[test]
fn quantiles_are_those_of_the_calls() {
    let slices: Vec<_> = (0..100)
        .map(|number| {
            (
                HIP,
                (0, "hipLaunchKernel", 1_000 * number, 1_001 * number, 0),
            )
        })
        .collect();
    let calls = rows(&answer(&slices, 7), "calls");
    assert_eq!(calls[0]["count"], 100);
    assert_eq!(calls[0]["median_ns"], 49.5);
    assert_eq!(calls[0]["max_ns"], 99);
    assert_eq!(calls[0]["blocked_ns"], 0);
    assert_eq!(calls[0]["waits_for"], Value::Null);
}

#[test]
fn without_calls_there_is_no_answer() {
    let found = answer(&[(HostKind::Range, (0, "epoch", 0, 1, 0))], 1);
    assert!(found.is_empty);
    assert_eq!(
        found.notes,
        ["no calls of GPU runtimes are in these traces"]
    );
}
