//! Places of calls without samples, and what is known of times in which a thread was not on a processor.

use super::*;

/// Twenty calls of a microsecond between two operations, of which one was sampled, and the launch that ends them.
fn polling(model: &mut Model, places: &[StackId]) -> Batch {
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, 1_000, 1), gpu(0, 23_000, 24_000, 2)]);
    for call_number in 0..20 {
        let start_ns = 1_000 + call_number * 1_000;
        let poll = call(model, "hipStreamQuery", start_ns, start_ns + 1_000, 0);
        batch.host.push(poll);
    }
    for (place, stack) in places.iter().enumerate() {
        batch.samples.push(Sample {
            time_ns: 5_000 + place as u64 * 5_000,
            stack: *stack,
            basis: Basis::CallTime,
            ..Sample::default()
        });
    }
    let launch = call(model, "hipLaunchKernel", 22_000, 22_500, 2);
    batch.host.push(launch);
    batch
}

#[test]
fn calls_without_samples_are_where_the_others_are() {
    let mut model = model();
    let poll = stack(&mut model, "poll", "/src/loop.cpp", 25);
    let batch = polling(&mut model, &[poll]);
    let expected = [
        of(
            "runtime_call",
            "hipStreamQuery in poll (loop.cpp:25)",
            20_000,
        ),
        of("launch", "hipLaunchKernel", 1_000),
        of(
            "unknown_no_samples",
            "thread 7, before hipLaunchKernel",
            1_000,
        ),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn calls_of_several_places_stay_without_one() {
    let mut model = model();
    let poll = stack(&mut model, "poll", "/src/loop.cpp", 25);
    let other = stack(&mut model, "drain", "/src/loop.cpp", 40);
    let batch = polling(&mut model, &[poll, other]);
    let found = causes(&gaps(&model, &batch));
    assert!(
        found.contains(&of("runtime_call", "hipStreamQuery", 18_000)),
        "{found:?}"
    );
}

#[test]
fn headers_of_libraries_are_no_places() {
    let mut model = model();
    let own = stack(&mut model, "upload", "/src/loop.cpp", 30);
    let frame = Frame {
        function: model.texts.intern("hipMalloc<int>"),
        mapping: model.texts.intern("/opt/app"),
        source: model
            .texts
            .intern("/opt/rocm/include/hip/hip_runtime_api.h"),
        line: 6729,
    };
    let frame = model.stacks.frame_id(frame);
    let header = model.stacks.child(own, frame);
    let batch = polling(&mut model, &[header]);
    let found = causes(&gaps(&model, &batch));
    let expected = of(
        "runtime_call",
        "hipStreamQuery in upload (loop.cpp:30)",
        20_000,
    );
    assert_eq!(found.first(), Some(&expected));
}
