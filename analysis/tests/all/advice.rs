//! Rules on records made by hand: those that simulated GPUs cannot play, and what holds for all.

use crate::common::{self, batch, model, stack, thread};
use rsys_analysis::advice::{advise, rule_names};
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::show::json;
use rsys_traces::model::{
    Account, Activity, Basis, Batch, Counter, CounterId, CounterValue, Device, DeviceId, Effect,
    GpuRecord, HostKind, HostSlice, LockWait, Model, OpKind, Process, ProcessId, Sample,
};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// All that advice is made of, for some records.
fn advice(model: &Model, batch: &Batch) -> Value {
    let mut measures = common::advice_measures();
    let answers: Vec<_> = measures
        .iter_mut()
        .map(|(name, measure)| {
            measure.take(batch);
            (*name, measure.answer(model, "run"))
        })
        .collect();
    let answer = advise(&answers, &profiling_cost(model));
    let value = json(&answer);
    common::judge(&value);
    value
}

/// Rule and place of each finding.
fn found(advice: &Value) -> Vec<(String, String)> {
    let findings = advice["findings"].as_array().cloned().unwrap_or_default();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("").to_owned();
    findings
        .iter()
        .map(|finding| (text(finding, "rule"), text(finding, "place")))
        .collect()
}

fn finding(rule: &str, place: &str) -> (String, String) {
    (rule.to_owned(), place.to_owned())
}

/// Whether a rule said that it lacks something.
fn is_not_judged(advice: &Value, rule: &str) -> bool {
    let rules = advice["not_judged"].as_array().cloned().unwrap_or_default();
    rules.iter().any(|one| one["rule"] == rule)
}

fn gpu(device: usize, start_ns: u64, end_ns: u64, link: u64) -> GpuRecord {
    GpuRecord {
        start_ns,
        end_ns,
        link,
        device: DeviceId::new(device),
        ..GpuRecord::default()
    }
}

fn call(model: &mut Model, name: &str, start_ns: u64, end_ns: u64, link: u64) -> HostSlice {
    HostSlice {
        start_ns,
        end_ns,
        link,
        name: model.texts.intern(name),
        kind: HostKind::Runtime,
        effect: Effect::of(name),
        ..HostSlice::default()
    }
}

/// Name, unit, and values at times.
type Sensor<'a> = (&'a str, &'a str, &'a [(u64, f64)]);

/// Values of sensors, and the GPU at work without a pause for ten seconds.
fn with_sensor(sensors: &[Sensor<'_>]) -> Value {
    let mut model = model();
    for (name, unit, _) in sensors {
        let counter = Counter {
            process: ProcessId::new(0),
            group: model.texts.intern("Sensors of GPU 0 (gfx90a)"),
            name: model.texts.intern(name),
            unit: model.texts.intern(unit),
        };
        model.counters.push(counter);
    }
    let batch = batch(|batch| {
        batch.gpu = (0..100)
            .map(|number| gpu(0, number * 100 * MS, (number + 1) * 100 * MS, 0))
            .collect();
        for (index, (_, _, values)) in sensors.iter().enumerate() {
            batch
                .counters
                .extend(values.iter().map(|&(time_ns, value)| CounterValue {
                    time_ns,
                    counter: CounterId::new(index),
                    value,
                }));
        }
    });
    advice(&model, &batch)
}

#[test]
fn a_clock_that_falls_while_the_gpu_works_is_throttling() {
    let falls = [(0, 1700.0), (4_000 * MS, 850.0), (6_000 * MS, 1700.0)];
    let advised = with_sensor(&[("GPU Clock [0] (S)", "MHz", &falls)]);
    assert_eq!(
        found(&advised),
        [finding("throttling", "GPU Clock of GPU 0")]
    );
    // Two seconds at half the clock: one could be saved.
    assert_eq!(advised["findings"][0]["saves_ns"], 1_000 * MS);
    assert_eq!(advised["findings"][0]["start_ns"], 4_000 * MS);
    let steady = [(0, 1700.0), (4_000 * MS, 1650.0), (6_000 * MS, 1700.0)];
    let advised = with_sensor(&[("GPU Clock [0] (S)", "MHz", &steady)]);
    assert!(found(&advised).is_empty());
    assert!(!is_not_judged(&advised, "throttling"));
    let advised = with_sensor(&[("GPU Power [0] (S)", "W", &falls)]);
    assert!(is_not_judged(&advised, "throttling"));
}

#[test]
fn memory_is_full_by_what_there_is() {
    let used = [(0, 1e9), (5_000 * MS, 63e9)];
    for (size, expected) in [
        (64e9, vec![finding("memory_full", "GPU 0")]),
        (80e9, Vec::new()),
    ] {
        let advised = with_sensor(&[
            ("GPU Memory Usage [0] (S)", "By", &used),
            ("GPU Memory Size [0] (S)", "By", &[(0, size)]),
        ]);
        assert_eq!(found(&advised), expected);
        assert!(!is_not_judged(&advised, "memory_full"));
    }
    let advised = with_sensor(&[("GPU Memory Usage [0] (S)", "By", &used)]);
    assert!(is_not_judged(&advised, "memory_full"));
}

/// Two GPUs that work in turns of 10 ms, the second of a `late_ns` after the first; all work is submitted at once.
fn in_turns(late_ns: u64) -> Value {
    let mut model = model();
    model.devices.push(Device {
        ordinal: 1,
        is_physical: true,
        ..Device::default()
    });
    let mut records = Batch::default();
    for turn in 0..100_u64 {
        let device = (turn % 2) as usize;
        let start_ns = 100 * MS + turn * 10 * MS + if device == 1 { late_ns } else { 0 };
        records
            .gpu
            .push(gpu(device, start_ns, 110 * MS + turn * 10 * MS, turn + 1));
        let launch = call(
            &mut model,
            "hipLaunchKernel",
            MS + turn,
            MS + turn + 1,
            turn + 1,
        );
        records.host.push(launch);
    }
    advice(&model, &records)
}

#[test]
fn what_begins_when_another_gpu_has_ended_waits_for_that() {
    let behind = |gpu| finding("other_gpu", &format!("hipLaunchKernel, behind GPU {gpu}"));
    assert_eq!(found(&in_turns(10_000)), [behind(0), behind(1)]);
    // What waits for no known reason is no dependency, and that is said.
    let advised = in_turns(5 * MS);
    let known: Vec<String> = found(&advised).into_iter().map(|one| one.0).collect();
    assert!(
        !known.contains(&"dependency_wait".to_owned()),
        "{advised:#}"
    );
}

#[test]
fn the_rank_that_computes_longest_is_named() {
    let mut model = model();
    model.processes[0].rank = Some(0);
    model.processes.push(Process {
        pid: 11,
        rank: Some(1),
        ..Process::default()
    });
    model.devices.push(Device {
        process: ProcessId::new(1),
        is_physical: true,
        ..Device::default()
    });
    let compute = |ms: [u64; 2]| {
        batch(|batch| {
            for (rank, ms) in ms.into_iter().enumerate() {
                batch.gpu.push(GpuRecord {
                    process: ProcessId::new(rank),
                    ..gpu(rank, 0, ms * MS, 0)
                });
            }
        })
    };
    let advised = advice(&model, &compute([4_000, 5_000]));
    assert_eq!(
        found(&advised),
        [finding("rank_imbalance", "rank 1, GPU 0")]
    );
    assert_eq!(advised["findings"][0]["saves_ns"], 500 * MS);
    assert!(found(&advice(&model, &compute([4_900, 5_000]))).is_empty());
}

#[test]
fn gpus_that_run_collectives_alone_are_one_finding() {
    let mut model = model();
    model.devices.push(Device {
        is_physical: true,
        ordinal: 1,
        ..Device::default()
    });
    let batch = batch(|batch| {
        for (device, end_ms) in [(0, 5_000), (1, 5_500)] {
            batch.gpu.push(gpu(device, 0, 4_000 * MS, 0));
            let comm = gpu(device, 4_000 * MS, end_ms * MS, 0);
            let activity = Activity::Comm;
            batch.gpu.push(GpuRecord { activity, ..comm });
        }
    });
    let advised = advice(&model, &batch);
    let found = found(&advised);
    assert_eq!(found, [finding("exposed_comm", "collectives on GPU 1")]);
    let first = &advised["findings"][0];
    assert_eq!(first["saves_ns"], 1_500 * MS);
    assert_eq!(first["evidence"]["gpus"], 2);
    // Without an answer to `collectives` the rule for stragglers has no finding, and nothing that it lacks.
    assert!(!is_not_judged(&advised, "straggler"));
}

#[test]
fn copies_of_equal_processes_are_told_apart_by_their_hosts() {
    let mut model = model();
    let pid = model.processes[0].pid;
    model.processes[0].host = "a".to_owned();
    model.processes.push(Process {
        pid,
        host: "b".to_owned(),
        ..Process::default()
    });
    model.devices.push(Device {
        process: ProcessId::new(1),
        is_physical: true,
        ..Device::default()
    });
    // A second of copies and four of kernels on both; on the first host a call waits for its copy.
    let wait = HostSlice {
        bytes: 1 << 30,
        ..call(&mut model, "hipMemcpy", 0, 1_000 * MS, 1)
    };
    let records = batch(|batch| {
        for host in [0, 1] {
            let of = |record: GpuRecord| GpuRecord {
                process: ProcessId::new(host),
                ..record
            };
            let link = if host == 0 { 1 } else { 0 };
            batch.gpu.push(of(GpuRecord {
                activity: Activity::Copy,
                kind: OpKind::Copy,
                bytes: 1 << 30,
                ..gpu(host, 0, 1_000 * MS, link)
            }));
            batch.gpu.push(of(gpu(host, 1_000 * MS, 5_000 * MS, 0)));
        }
        batch.host.push(wait);
    });
    let advised = advice(&model, &records);
    let rules: Vec<_> = found(&advised).into_iter().map(|one| one.0).collect();
    assert_eq!(rules, ["blocking_copies", "exposed_copies"], "{advised:#}");
    for finding in advised["findings"].as_array().unwrap() {
        assert_eq!(finding["evidence"]["gpus"], 1, "{advised:#}");
        assert_eq!(finding["saves_ns"], 1_000 * MS, "{advised:#}");
    }
}

/// Kernels of `run_us` with pauses of `pause_us`, launched one by one with nothing to wait for.
fn launches(run_us: u64, pause_us: u64) -> Value {
    let mut model = model();
    let mut records = Batch::default();
    for number in 0..40_000 {
        let start_ns = number * (run_us + pause_us) * 1_000;
        records.gpu.push(gpu(
            0,
            start_ns + 3_000,
            start_ns + 3_000 + run_us * 1_000,
            number + 1,
        ));
        let launch = call(
            &mut model,
            "hipLaunchKernel",
            start_ns,
            start_ns + 2_000,
            number + 1,
        );
        records.host.push(launch);
    }
    advice(&model, &records)
}

#[test]
fn launches_that_take_longer_than_kernels_are_a_phase() {
    let advised = launches(4, 6);
    assert_eq!(
        found(&advised)[0],
        finding("launch_bound", "hipLaunchKernel")
    );
    let first = &advised["findings"][0];
    assert_eq!(first["saves_ns"], 39_999 * 6_000);
    assert_eq!(first["evidence"]["phases"], 1);
    // Long kernels hide the same launches.
    assert!(found(&launches(100, 2)).is_empty());
}

#[test]
fn few_samples_and_lost_records_are_said() {
    let mut model = model();
    model.processes[0].sample_period_ns = MS;
    let load = stack(&mut model, &["main", "load@train.py"]);
    let launch = |model: &mut Model, number: u64| {
        let start_ns = (number * 200 + 190) * MS;
        call(
            model,
            "hipLaunchKernel",
            start_ns,
            start_ns + 1_000,
            number + 1,
        )
    };
    let host: Vec<HostSlice> = (0..10).map(|number| launch(&mut model, number)).collect();
    let run = |samples: u64| {
        batch(|batch| {
            batch.host.clone_from(&host);
            batch.gpu = (0..10)
                .map(|number| {
                    gpu(
                        0,
                        (number * 200 + 191) * MS,
                        (number * 200 + 200) * MS,
                        number + 1,
                    )
                })
                .collect();
            batch.samples = (0..samples)
                .map(|number| Sample {
                    time_ns: number * 1_900 * MS / samples,
                    weight: 1_900 * MS / samples,
                    thread: thread(0),
                    stack: load,
                    basis: Basis::CpuTime,
                    ..Sample::default()
                })
                .collect();
        })
    };
    let rules = |advised: &Value| -> Vec<String> {
        found(advised).into_iter().map(|(rule, _)| rule).collect()
    };
    let known = advice(&model, &run(1_000));
    assert_eq!(rules(&known), ["host_code"], "{known:#}");
    let unknown = advice(&model, &run(5));
    assert!(
        rules(&unknown).contains(&"few_samples".to_owned()),
        "{unknown:#}"
    );

    model.processes[0].account = Some(Account {
        samples: 1_000,
        lost: 300,
        cpu_ns: 2_000 * MS,
        sampler_cpu_ns: 30 * MS,
        ..Account::default()
    });
    let lossy = advice(&model, &run(1_000));
    assert!(
        rules(&lossy).contains(&"records_lost".to_owned()),
        "{lossy:#}"
    );
    assert!(
        !rules(&lossy).contains(&"profiling_cost".to_owned()),
        "{lossy:#}"
    );
    model.processes[0].account = Some(Account {
        samples: 100_000,
        cpu_ns: 3_000 * MS,
        sampler_cpu_ns: 30 * MS,
        ..Account::default()
    });
    let dear = advice(&model, &run(1_000));
    assert!(
        rules(&dear).contains(&"profiling_cost".to_owned()),
        "{dear:#}"
    );
}

/// A loop of a kernel of 1 ms, a call that waits for it, and `host_us` until the next launch.
fn synchronising(call_name: &str, host_us: u64) -> Value {
    let mut model = model();
    let mut records = Batch::default();
    let step_ns = MS + host_us * 1_000;
    for number in 0..1_000 {
        let start_ns = number * step_ns;
        let end_ns = start_ns + MS;
        records.gpu.push(gpu(0, start_ns, end_ns, number + 1));
        let before_ns = start_ns.saturating_sub(1_000);
        records.host.extend([
            call(
                &mut model,
                "hipLaunchKernel",
                before_ns,
                start_ns,
                number + 1,
            ),
            call(&mut model, call_name, start_ns, end_ns + 2_000, 0),
        ]);
    }
    advice(&model, &records)
}

#[test]
fn a_wait_has_no_more_than_could_have_run_meanwhile() {
    for (name, host_us, saves_ns) in [
        ("hipDeviceSynchronize", 200, 999 * 200_000),
        // Of 1.5 ms between two kernels of 1 ms, one could be hidden, and the call takes 2 µs to return.
        ("hipStreamSynchronize", 1_500, 999 * (MS + 2_000)),
    ] {
        let advised = synchronising(name, host_us);
        let findings = advised["findings"].as_array().cloned().unwrap_or_default();
        let sync = findings.iter().find(|one| one["rule"] == "sync_in_loop");
        let sync = sync.unwrap_or_else(|| panic!("{advised:#}"));
        assert_eq!(sync["saves_ns"], saves_ns);
        assert_eq!(sync["place"], name);
    }
    // Without a wait, and where the host does most.
    for (name, host_us) in [("hipStreamQuery", 200), ("hipStreamSynchronize", 5_000)] {
        let advised = synchronising(name, host_us);
        let rules = found(&advised);
        assert!(
            !rules.iter().any(|one| one.0 == "sync_in_loop"),
            "{advised:#}"
        );
    }
}

/// Fifty times 10 ms of work and 20 ms without, in which the thread is in a slice, in a recorded wait for a lock, or nowhere.
fn between_work(slice: Option<(HostKind, &str)>, lock: Option<&str>) -> Value {
    let mut model = model();
    let load = stack(&mut model, &["main", "load@train.py"]);
    let mut records = Batch::default();
    for number in 0..50 {
        let start_ns = number * 30 * MS;
        let end_ns = start_ns + 10 * MS;
        records.gpu.push(gpu(0, start_ns, end_ns, number + 1));
        let before_ns = start_ns.saturating_sub(10_000);
        records.host.push(call(
            &mut model,
            "hipLaunchKernel",
            before_ns,
            start_ns,
            number + 1,
        ));
        if let Some((kind, name)) = slice {
            records.host.push(HostSlice {
                kind,
                ..call(&mut model, name, end_ns, end_ns + 19 * MS, 0)
            });
        }
        if let Some(function) = lock {
            records.lock_waits.push(LockWait {
                start_ns: end_ns,
                end_ns: end_ns + 19 * MS,
                thread: thread(0),
                function: model.texts.intern(function),
                holder_tid: 11,
                holder: model.texts.intern("grow (pool.cc:42)"),
                ..LockWait::default()
            });
        }
        records.samples.push(Sample {
            time_ns: start_ns + MS,
            weight: MS,
            thread: thread(0),
            stack: load,
            basis: Basis::CpuTime,
            ..Sample::default()
        });
    }
    advice(&model, &records)
}

/// Recorded waits for locks say why the host waits, though none was sampled.
#[test]
fn a_gpu_that_waits_for_a_lock_of_the_host_has_the_holder_named() {
    let advised = between_work(None, Some("pthread_mutex_lock"));
    let place = "waiting in pthread_mutex_lock, held by thread 11 in grow (pool.cc:42)";
    assert_eq!(
        found(&advised),
        [finding("host_wait", place)],
        "{advised:#}"
    );
    assert!(is_not_judged(&advised, "input_wait"), "{advised:#}");
}

#[test]
fn calls_of_libraries_and_threads_without_a_processor_are_told_apart() {
    for (slice, expected) in [
        (
            Some((HostKind::Collective, "ncclAllReduce")),
            finding("collective_calls", "ncclAllReduce"),
        ),
        (
            Some((HostKind::Runtime, "hipModuleLoad")),
            finding("runtime_calls", "hipModuleLoad"),
        ),
        (
            None,
            finding("host_off_processor", "thread 10, before hipLaunchKernel"),
        ),
    ] {
        let advised = between_work(slice, None);
        assert_eq!(found(&advised), [expected], "{advised:#}");
    }
}

#[test]
fn every_rule_is_documented() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/advice.md");
    let text = std::fs::read_to_string(path).unwrap();
    let documented: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .flat_map(|names| names.split(", "))
        .collect();
    let mut names: Vec<&str> = rule_names().map(|(name, _)| name).collect();
    assert!(names.len() >= 24, "{names:?}");
    let mut sorted = documented.clone();
    sorted.sort_unstable();
    names.sort_unstable();
    assert_eq!(sorted, names);
}

#[test]
fn an_empty_trace_has_no_findings() {
    let advised = advice(&Model::default(), &Batch::default());
    assert!(found(&advised).is_empty());
    assert!(is_not_judged(&advised, "host_code"));
}
