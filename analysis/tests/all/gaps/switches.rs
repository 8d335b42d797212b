//! Threads whose context switches were recorded.

use super::*;

/// Between two operations a thread waits for 5 ms, runs for 3 ms, loses its processor for 1 ms, and runs again for 1 ms; one sample says where it ran.
fn switched(model: &mut Model) -> Batch {
    const MS: u64 = 1_000_000;
    let load = stack(model, "load", "/src/loop.cpp", 25);
    let crunch = stack(model, "crunch", "/src/loop.cpp", 40);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, MS, 1), gpu(0, 11 * MS, 12 * MS, 2)]);
    let off = |model: &mut Model, kind, name: &str, start_ns, end_ns| HostSlice {
        kind,
        ..call(model, name, start_ns, end_ns, 0)
    };
    let slices = [
        off(model, HostKind::Wait, "nanosleep", MS, 6 * MS),
        off(model, HostKind::Runnable, "preempted", 9 * MS, 10 * MS),
        call(model, "hipLaunchKernel", 11 * MS, 11 * MS + 500, 2),
    ];
    batch.host.extend(slices);
    let sample = |time_ns, stack, weight, basis| Sample {
        time_ns,
        stack,
        weight,
        basis,
        ..Sample::default()
    };
    batch.samples.extend([
        sample(6 * MS, load, 5 * MS, Basis::WaitTime),
        sample(8 * MS, crunch, MS, Basis::CpuTime),
    ]);
    batch
}

#[test]
fn a_thread_ran_whenever_it_was_not_off_its_processor() {
    let mut model = model();
    model.processes[0].has_switches = true;
    let batch = switched(&mut model);
    let expected = [
        of("host_wait", "load (loop.cpp:25)", 5_000_000),
        of("host_code", "crunch (loop.cpp:40)", 4_000_000),
        of(
            "host_runnable",
            "thread 7, before hipLaunchKernel",
            1_000_000,
        ),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn without_all_switches_samples_say_for_how_long_a_thread_ran() {
    let mut model = model();
    let batch = switched(&mut model);
    let found = causes(&gaps(&model, &batch));
    assert!(
        found.contains(&of("host_code", "crunch (loop.cpp:40)", 1_000_000)),
        "{found:?}"
    );
    let off: u64 = found
        .iter()
        .filter(|one| one.0 == "host_off_processor")
        .map(|one| one.2)
        .sum();
    assert_eq!(off, 3_000_000);
}
