//! Sensors of GPUs.

use crate::common::{batch, model, rows};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::sensors::Sensors;
use rsys_analysis::table::Answer;
use rsys_traces::model::{Counter, CounterId, CounterValue, GpuRecord, Model, ProcessId};

/// Values of a clock and of what is no sensor of a GPU, and kernels: name, begin, end.
fn answer(clock: &[(u64, f64)], kernels: &[(&str, u64, u64)]) -> Answer {
    answer_until(0, clock, kernels)
}

/// The same of a process whose trace ends then; 0: it does not say.
fn answer_until(end_ns: u64, clock: &[(u64, f64)], kernels: &[(&str, u64, u64)]) -> Answer {
    let mut model: Model = model();
    model.processes[0].end_ns = end_ns;
    for (group, name, unit) in [
        ("Sensors of GPU 0 (gfx90a)", "GPU Clock [0] (S)", "MHz"),
        ("Host", "CPU Frequency mean (S)", "MHz"),
    ] {
        let counter = Counter {
            process: ProcessId::new(0),
            group: model.texts.intern(group),
            name: model.texts.intern(name),
            unit: model.texts.intern(unit),
        };
        model.counters.push(counter);
    }
    let mut sensors = Sensors::default();
    sensors.take(&batch(|batch| {
        let values = |counter| {
            clock.iter().map(move |&(time_ns, value)| CounterValue {
                time_ns,
                counter: CounterId::new(counter),
                value,
            })
        };
        batch.counters = values(0).chain(values(1)).collect();
        batch.gpu = kernels
            .iter()
            .map(|&(name, start_ns, end_ns)| GpuRecord {
                start_ns,
                end_ns,
                name: model.texts.intern(name),
                ..GpuRecord::default()
            })
            .collect();
    }));
    sensors.answer(&model, "")
}

#[test]
fn means_are_weighted_by_time() {
    let answer = answer(&[(0, 1000.0), (30, 2000.0)], &[("gemm", 0, 40)]);
    let sensors = rows(&answer, "sensors");
    assert_eq!(sensors.len(), 1, "the host's are left out");
    assert_eq!(sensors[0]["sensor"], "GPU Clock");
    assert_eq!(sensors[0]["unit"], "MHz");
    let numbers = ["min", "mean", "max"].map(|key| sensors[0][key].as_f64());
    assert_eq!(numbers, [Some(1000.0), Some(1250.0), Some(2000.0)]);
    assert_eq!(sensors[0]["values"], 2);
}

#[test]
fn the_last_value_holds_until_the_trace_ends() {
    let answer = answer_until(40, &[(0, 1000.0), (30, 2000.0)], &[("gemm", 0, 10)]);
    assert_eq!(rows(&answer, "sensors")[0]["mean"].as_f64(), Some(1250.0));
}

#[test]
fn slow_clocks_name_the_kernels_that_ran() {
    let clock = [
        (0, 500.0),
        (100, 1000.0),
        (200, 800.0),
        (250, 850.0),
        (300, 1000.0),
        (400, 500.0),
    ];
    let kernels = [
        ("gemm", 100, 220),
        ("softmax", 210, 260),
        ("gemm", 290, 400),
    ];
    let answer = answer(&clock, &kernels);
    let slow = rows(&answer, "slow_clocks");
    // While it was idle, at both ends, a slow clock is none.
    assert_eq!(slow.len(), 1);
    let numbers = ["start_ns", "duration_ns", "worked_ns"].map(|key| slow[0][key].as_u64());
    assert_eq!(numbers, [Some(200), Some(100), Some(70)]);
    assert_eq!(
        (slow[0]["min"].as_f64(), slow[0]["usual"].as_f64()),
        (Some(800.0), Some(1000.0))
    );
    let kernels = slow[0]["kernels"].to_string();
    assert_eq!(
        kernels,
        r#"[{"name":"softmax","time_ns":50},{"name":"gemm","time_ns":30}]"#
    );
}

#[test]
fn a_steady_clock_is_not_slow() {
    let answer = answer(&[(0, 1000.0), (50, 901.0)], &[("gemm", 0, 100)]);
    assert!(rows(&answer, "slow_clocks").is_empty());
}
