//! Memory that programs made and gave back.

use crate::common::{batch, model, row, rows, stack, sum, thread};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::memory::Memory;
use rsys_analysis::table::Answer;
use rsys_traces::model::{Basis, HostSlice, Sample};

/// Name, begin, end, address, bytes.
type Drawn = (&'static str, u64, u64, u64, u64);

fn answer(calls: &[Drawn], batch_records: usize) -> Answer {
    let mut model = model();
    let inside = stack(
        &mut model,
        &["main", "build", "hipMalloc@/opt/rocm/lib/libamdhip64.so"],
    );
    let made = stack(
        &mut model,
        &[
            "[calls]@",
            "main",
            "stage",
            "hipHostMalloc@/opt/rocm/lib/libamdhip64.so",
        ],
    );
    let mut memory = Memory::default();
    for part in calls.chunks(batch_records) {
        memory.take(&batch(|batch| {
            for &(name, start_ns, end_ns, address, bytes) in part {
                batch.host.push(HostSlice {
                    start_ns,
                    end_ns,
                    address,
                    bytes,
                    thread: thread(0),
                    name: model.texts.intern(name),
                    ..HostSlice::default()
                });
            }
            let sample = |time_ns, stack, basis| Sample {
                time_ns,
                stack,
                basis,
                ..Sample::default()
            };
            // Within the first call alone, and of the third.
            batch.samples = vec![
                sample(5, inside, Basis::CpuTime),
                sample(25, made, Basis::CallTime),
            ];
        }));
    }
    memory.answer(&model, "")
}

const CALLS: [Drawn; 8] = [
    ("hipMalloc", 0, 10, 0xA0, 100),
    ("hipMallocAsync", 20, 21, 0xB0, 50),
    ("hipHostMalloc", 25, 26, 0xC0, 1_000),
    ("hipFree", 30, 31, 0xA0, 0),
    ("hipMalloc", 30, 40, 0xA0, 70),
    ("hipMemcpy", 45, 50, 0, 4_000),
    ("hipFreeAsync", 60, 61, 0xB0, 0),
    ("hipFree", 70, 71, 0xDEAD, 0),
];

#[test]
fn the_peak_is_made_of_its_holders() {
    let answer = answer(&CALLS, 3);
    let memory = rows(&answer, "memory");
    let device = row(&memory, "memory", "device");
    for (key, value) in [
        ("allocations", 3),
        ("allocated_bytes", 220),
        ("frees", 2),
        ("freed_bytes", 150),
        ("peak_bytes", 150),
        ("peak_time_ns", 21),
        ("end_bytes", 70),
    ] {
        assert_eq!(device[key], value, "{key}");
    }
    assert_eq!(row(&memory, "memory", "pinned host")["peak_bytes"], 1_000);
    let holders = rows(&answer, "memory_holders");
    let pinned = row(&holders, "memory", "pinned host");
    assert_eq!(
        (&pinned["function"], &pinned["stack"]),
        (&"stage".into(), &"main;stage".into())
    );
    let of_device: Vec<_> = holders
        .iter()
        .filter(|row| row["memory"] == "device")
        .cloned()
        .collect();
    assert_eq!(sum(&of_device, "bytes"), 150);
    let seen = row(&of_device, "function", "build");
    assert_eq!(
        (&seen["bytes"], &seen["stack"]),
        (&100.into(), &"main;build".into())
    );
    assert_eq!(
        row(&of_device, "call", "hipMallocAsync")["function"],
        "[no sample within the call]"
    );
    let doubt = "1 calls give back memory whose allocation is not in these traces";
    assert!(
        answer.notes.iter().any(|note| note == doubt),
        "{:?}",
        answer.notes
    );
}

#[test]
fn the_course_over_time_agrees_with_the_sums() {
    let answer = answer(&CALLS, 100);
    let device = row(&rows(&answer, "memory"), "memory", "device");
    let parts = device["over_time"].as_array().unwrap();
    assert_eq!(sum(parts, "allocations"), 3);
    assert_eq!(sum(parts, "frees"), 2);
    let most = parts
        .iter()
        .filter_map(|part| part["max_bytes"].as_u64())
        .max();
    assert_eq!(most, Some(150));
    assert_eq!(parts.last().unwrap()["end_bytes"], 70);
}

#[test]
fn the_order_of_records_does_not_matter() {
    let mut backwards = CALLS;
    backwards.reverse();
    assert_eq!(answer(&CALLS, 1), answer(&backwards, 1));
}

#[test]
fn an_address_that_nobody_gave_back_is_said() {
    let calls = [
        ("hipMalloc", 0, 1, 0xA0, 100),
        ("hipMalloc", 2, 3, 0xA0, 30),
    ];
    let answer = answer(&calls, 1);
    assert_eq!(rows(&answer, "memory")[0]["end_bytes"], 30);
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.starts_with("1 allocations have the address"))
    );
}
