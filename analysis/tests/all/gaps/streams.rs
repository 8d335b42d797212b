//! What stood in a stream in front of an operation.

use super::*;

/// A call on the stream with handle 7.
fn on_stream(slice: HostSlice, order: StreamOrder) -> HostSlice {
    HostSlice {
        stream: 8,
        order,
        ..slice
    }
}

#[test]
fn what_was_put_into_the_stream_in_front_is_named() {
    const MS: u64 = 1_000_000;
    let cases = [
        (
            "hipStreamWaitEvent",
            StreamOrder::WaitEvent,
            5 * MS,
            ("event", ", behind hipStreamWaitEvent for GPU 1"),
        ),
        (
            "hipStreamWaitEvent",
            StreamOrder::WaitEvent,
            2 * MS,
            ("event", ", behind hipStreamWaitEvent"),
        ),
        (
            "hipLaunchHostFunc",
            StreamOrder::HostFunction,
            2 * MS,
            ("host_function", ", behind hipLaunchHostFunc"),
        ),
        (
            "hipStreamWaitValue32",
            StreamOrder::WaitValue,
            2 * MS,
            ("memory_value", ", behind hipStreamWaitValue32"),
        ),
        (
            "hipEventRecord",
            StreamOrder::RecordEvent,
            2 * MS,
            ("queued", ""),
        ),
        (
            "hipEventRecord",
            StreamOrder::RecordEvent,
            5 * MS,
            ("other_gpu", ", behind GPU 1"),
        ),
    ];
    for (name, order, other_end_ns, (cause, behind)) in cases {
        // Whether another operation was put into the stream behind it.
        for is_old in [false, true] {
            let mut model = model();
            let mut batch = Batch::default();
            batch.gpu.extend([
                gpu(0, 0, MS, 1),
                gpu(1, 0, other_end_ns, 2),
                gpu(0, 5 * MS + 1_000, 6 * MS, 3),
            ]);
            let launch = |model: &mut Model, start_ns, link| {
                let call = call(model, "hipLaunchKernel", start_ns, start_ns + 10, link);
                on_stream(call, StreamOrder::None)
            };
            let before_ns = if is_old { 900_000 } else { 100 };
            batch.host.extend([
                launch(&mut model, before_ns, 1),
                on_stream(call(&mut model, name, 800_000, 800_010, 9), order),
                launch(&mut model, MS, 3),
            ]);
            let found = causes(&gaps(&model, &batch));
            let (cause, behind) = match (is_old, other_end_ns == 5 * MS) {
                (false, _) => (cause, behind),
                (true, true) => ("other_gpu", ", behind GPU 1"),
                (true, false) => ("queued", ""),
            };
            let place = format!("hipLaunchKernel{behind}");
            assert_eq!(found, [of(cause, &place, 4 * MS + 1_000)], "{name}");
        }
    }
}

#[test]
fn a_barrier_packet_that_ends_directly_before_held_the_operation_up() {
    let mut model = model();
    let mut batch = Batch::default();
    let barrier = |device, start_ns, end_ns| GpuRecord {
        activity: Activity::None,
        ..gpu(device, start_ns, end_ns, 0)
    };
    batch.gpu.extend([
        gpu(0, 0, 10, 1),
        barrier(0, 1_000, 900_000),
        barrier(1, 1_000, 1_990_000),
        gpu(0, 901_000, 910_000, 2),
        gpu(0, 2_000_000, 2_010_000, 3),
    ]);
    batch.host.extend([
        call(&mut model, "hipLaunchKernel", 10, 20, 2),
        call(&mut model, "hipGraphLaunch", 910_000, 910_010, 3),
    ]);
    let expected = [
        of("queued", "hipGraphLaunch", 1_090_000),
        of("barrier", "hipLaunchKernel", 900_990),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}
