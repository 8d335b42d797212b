//! Copies of GPUs.

use crate::common::{batch, model, row, rows, stack, sum, thread};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::copies::Copies;
use rsys_traces::model::{
    Activity, Basis, Batch, Effect, GpuRecord, HostSlice, Model, OpKind, Sample, TextId,
};

fn copy(
    model: &mut Model,
    direction: &str,
    bytes: u64,
    (start_ns, end_ns): (u64, u64),
) -> GpuRecord {
    GpuRecord {
        start_ns,
        end_ns,
        bytes,
        direction: model.texts.intern(direction),
        kind: OpKind::Copy,
        activity: Activity::Copy,
        ..GpuRecord::default()
    }
}

fn call(name: TextId, effect: Effect, link: u64, (start_ns, end_ns): (u64, u64)) -> HostSlice {
    HostSlice {
        start_ns,
        end_ns,
        link,
        bytes: 100,
        thread: thread(0),
        name,
        effect,
        ..HostSlice::default()
    }
}

fn measured(model: &Model, batches: &[Batch]) -> rsys_analysis::table::Answer {
    let mut copies = Copies::default();
    batches.iter().for_each(|batch| copies.take(batch));
    copies.answer(model, "")
}

#[test]
fn times_are_united_and_bandwidth_is_of_their_union() {
    let mut model = model();
    let gpu = vec![
        copy(&mut model, "host to device", 3_000, (0, 1_000)),
        copy(
            &mut model,
            "MEMORY_COPY_HOST_TO_DEVICE",
            4_000,
            (500, 2_000),
        ),
        copy(&mut model, "host to device", 5_000, (2_500, 3_000)),
        copy(&mut model, "device to host", 0, (1_000, 5_000)),
    ];
    let answer = measured(&model, &[batch(|batch| batch.gpu = gpu)]);
    let copies = rows(&answer, "copies");
    assert_eq!(copies.len(), 3);
    let small = row(&copies, "size", "up to 4 KiB");
    assert_eq!(
        (&small["count"], &small["bytes"]),
        (&2.into(), &7_000.into())
    );
    assert_eq!(
        (&small["total_ns"], &small["time_ns"]),
        (&2_500.into(), &2_000.into())
    );
    assert_eq!(small["bandwidth_bytes_per_s"], 3.5e9);
    let unknown = row(&copies, "size", "unknown");
    assert_eq!(unknown["direction"], "device to host");
    assert!(unknown["bandwidth_bytes_per_s"].is_null());
    let device = &rows(&answer, "device_copies")[0];
    assert_eq!(
        (&device["count"], &device["time_ns"]),
        (&4.into(), &5_000.into())
    );
    assert_eq!(device["total_ns"], sum(&copies, "total_ns"));
    assert!(
        device["bandwidth_bytes_per_s"].is_null(),
        "a size is unknown"
    );
}

#[test]
fn blocking_calls_have_their_place_by_their_stacks_and_by_samples() {
    let mut model = model();
    let inside = [
        "main",
        "load@/home/me/train.py",
        "hipMemcpy@/opt/rocm/lib/libamdhip64.so",
    ];
    let inside = stack(&mut model, &inside);
    let made = [
        "[calls]@",
        "main",
        "save",
        "hipMemcpy@/opt/rocm/lib/libamdhip64.so",
    ];
    let made = stack(&mut model, &made);
    let [waits, returns] = ["hipMemcpy", "hipMemcpyAsync"].map(|name| model.texts.intern(name));
    let answer = measured(
        &model,
        &[batch(|batch| {
            batch.host = vec![
                call(waits, Effect::Copies, 1, (10, 20)),
                call(returns, Effect::CopiesAside, 2, (30, 40)),
                call(waits, Effect::Copies, 3, (50, 80)),
                call(waits, Effect::Copies, 4, (90, 95)),
            ];
            let sample = |time_ns, stack, basis| Sample {
                time_ns,
                weight: 10,
                stack,
                basis,
                ..Sample::default()
            };
            batch.samples = vec![
                sample(60, inside, Basis::CpuTime),
                sample(50, made, Basis::CallTime),
                sample(20, inside, Basis::CpuTime),
                sample(15, inside, Basis::WaitTime),
                sample(35, inside, Basis::CpuTime),
                // Of a call within another, which has none.
                sample(91, made, Basis::CallTime),
            ];
        })],
    );
    let blocking = rows(&answer, "blocking_copies");
    let blocked = |function: &str| row(&blocking, "function", function)["blocked_ns"].clone();
    assert_eq!(blocked("load"), 10);
    assert_eq!(blocked("save"), 30);
    assert_eq!(blocked("[no sample within the call]"), 5);
    assert_eq!((blocking.len(), sum(&blocking, "count")), (3, 3));
    assert_eq!(sum(&blocking, "bytes"), 300);
    assert_eq!(row(&blocking, "function", "load")["line"], 2);
}
