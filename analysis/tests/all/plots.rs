//! What pictures are drawn from.

use crate::common::{batch, model, stack, thread};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::pictures::plots::{Courses, Flame, KernelDurations};
use rsys_analysis::show::json;
use rsys_traces::model::{
    Activity, Basis, Counter, CounterId, CounterValue, GpuRecord, Model, OpKind, Sample, StackId,
};
use serde_json::{Value, json as value};

fn sample(stack: StackId, basis: Basis, time_ns: u64, weight: u64) -> Sample {
    Sample {
        time_ns,
        weight,
        thread: thread(0),
        stack,
        basis,
        ..Sample::default()
    }
}

fn sum(rows: &Value, key: &str) -> u64 {
    let rows = rows.as_array().unwrap();
    rows.iter().map(|row| row[key].as_u64().unwrap()).sum()
}

#[test]
fn parts_of_the_time_add_up_to_what_a_gpu_did() {
    let mut courses = Courses::default();
    let operation = |activity, start_ns, end_ns| GpuRecord {
        start_ns,
        end_ns,
        activity,
        ..GpuRecord::default()
    };
    courses.take(&batch(|batch| {
        batch.gpu = vec![
            operation(Activity::Compute, 10_000, 700_000),
            operation(Activity::Fill, 600_000, 710_000),
            // Half of it is hidden.
            operation(Activity::Comm, 700_000, 720_000),
            operation(Activity::Copy, 900_000, 1_000_000),
            operation(Activity::None, 1_000_000, 2_000_000),
        ];
    }));
    let answer = json(&courses.answer(&model(), ""));
    let busy = &answer["busy"][0];
    assert_eq!(busy["origin_ns"], 10_000);
    assert_eq!(busy["axis_ns"], 990_000);
    let buckets = &busy["buckets"];
    let count = buckets.as_array().unwrap().len() as u64;
    assert!((100..=600).contains(&count), "{count}");
    assert_eq!(sum(buckets, "computation_ns"), 700_000);
    assert_eq!(sum(buckets, "exposed_comm_ns"), 10_000);
    assert_eq!(sum(buckets, "exposed_memcpy_ns"), 100_000);
    let bucket_ns = busy["bucket_ns"].as_u64().unwrap();
    assert_eq!(buckets[0]["computation_ns"], bucket_ns);
}

#[test]
fn processors_and_counters_have_one_axis() {
    let mut model = model();
    model.processes[0].sample_period_ns = 1_000_000;
    let counter = Counter {
        name: model.texts.intern("GPU Power [0] (S)"),
        ..Counter::default()
    };
    model.counters.push(counter);
    let mut courses = Courses::default();
    courses.take(&batch(|batch| {
        batch.samples = (1..=2_000)
            .map(|number| {
                let basis = match number % 2 {
                    0 => Basis::CpuTime,
                    _ => Basis::WaitTime,
                };
                sample(StackId::ROOT, basis, number * 1_000_000, 1_000_000)
            })
            .collect();
        batch.counters = [(0, 5.0), (1, 7.0), (1_000_000_000, 9.0)]
            .map(|(time_ns, value)| CounterValue {
                time_ns,
                counter: CounterId::new(0),
                value,
            })
            .to_vec();
    }));
    let answer = json(&courses.answer(&model, ""));
    let process = &answer["processors"][0];
    assert_eq!(process["cpu_ns"], 1_000_000_000);
    assert_eq!(sum(&process["buckets"], "cpu_ns"), 1_000_000_000);
    // Half a processor in each part but the last: parts are long enough to tell.
    let bucket_ns = process["bucket_ns"].as_u64().unwrap();
    assert!(bucket_ns >= 8_000_000);
    let parts = process["buckets"].as_array().unwrap();
    for part in &parts[1..parts.len() - 1] {
        let share = part["cpu_ns"].as_u64().unwrap() as f64 / bucket_ns as f64;
        assert!((0.4..0.6).contains(&share), "{part}");
    }
    let curve = &answer["curves"][0];
    assert_eq!(curve["origin_ns"], process["origin_ns"]);
    assert_eq!(curve["axis_ns"], process["axis_ns"]);
    let first = &curve["values"][0];
    assert_eq!(
        [&first["min"], &first["mean"], &first["max"]],
        [&value!(5.0), &value!(6.0), &value!(7.0)]
    );
    assert_eq!(curve["values"][1]["mean"], 9.0);
}

#[test]
fn durations_are_counted_in_their_classes() {
    let mut model = model();
    let name = model.texts.intern("gemm");
    let mut durations = KernelDurations::default();
    durations.take(&batch(|batch| {
        batch.gpu = [100, 100, 111, 112, 5_000]
            .map(|end_ns| GpuRecord {
                end_ns,
                name,
                kind: OpKind::Kernel,
                ..GpuRecord::default()
            })
            .to_vec();
    }));
    let answer = json(&durations.answer(&model, ""));
    let gemm = &answer["kernel_durations"][0];
    let expected = value!([
        { "from_ns": 96, "to_ns": 112, "count": 3 },
        { "from_ns": 112, "to_ns": 128, "count": 1 },
        { "from_ns": 4096, "to_ns": 5120, "count": 1 },
    ]);
    assert_eq!(
        (&gemm["name"], &gemm["durations"]),
        (&value!("gemm"), &expected)
    );
}

/// The nodes of a tree: names from the outermost on, own and whole time.
fn paths(answer: &Value, tree: &str) -> Vec<(String, u64, u64)> {
    let mut found: Vec<(String, u64, u64)> = Vec::new();
    for node in answer[tree].as_array().unwrap() {
        let name = match node["frame"].as_u64() {
            Some(frame) => &answer["flame_frames"][frame as usize]["function"],
            None => &node["frame"],
        };
        let name = name.as_str().unwrap();
        let path = match node["parent"].as_u64() {
            Some(parent) => format!("{};{name}", found[parent as usize].0),
            None => name.to_owned(),
        };
        let [own, total] = ["self_ns", "total_ns"].map(|key| node[key].as_u64().unwrap());
        found.push((path, own, total));
    }
    found
}

fn flame(samples: &[(&[&str], Basis, u64)]) -> Value {
    flame_below(samples, &[])
}

fn flame_below(samples: &[(&[&str], Basis, u64)], below: &[&str]) -> Value {
    let mut model: Model = model();
    let samples: Vec<Sample> = samples
        .iter()
        .map(|&(frames, basis, weight)| sample(stack(&mut model, frames), basis, 0, weight))
        .collect();
    let mut flame = Flame::below(below.iter().map(|&name| name.to_owned()).collect());
    flame.take(&batch(|batch| batch.samples = samples));
    json(&flame.answer(&model, ""))
}

#[test]
fn stacks_are_one_tree_for_each_basis_in_whatever_order_they_come() {
    let samples: [(&[&str], Basis, u64); 6] = [
        (&["main", "solve"], Basis::CpuTime, 5),
        (&["main", "solve", "dot"], Basis::CpuTime, 20),
        (&["main", "read"], Basis::CpuTime, 7),
        (&[], Basis::CpuTime, 3),
        (&["main", "[waiting]"], Basis::WaitTime, 11),
        (&["main", "launch", "gemm"], Basis::GpuTime, 13),
    ];
    let answer = flame(&samples);
    let expected = [
        ("main", 0, 32),
        ("main;solve", 5, 25),
        ("main;solve;dot", 20, 20),
        ("main;read", 7, 7),
        ("[no stack]", 3, 3),
    ]
    .map(|(path, own, total)| (path.to_owned(), own, total));
    assert_eq!(paths(&answer, "flame_cpu"), expected);
    assert_eq!(paths(&answer, "flame_waits").last().unwrap().2, 11);
    assert_eq!(paths(&answer, "flame_gpu")[2].0, "main;launch;gemm");
    let mut reversed = samples;
    reversed.reverse();
    assert_eq!(flame(&reversed), answer);
}

#[test]
fn callers_of_a_function_are_left_out_with_what_they_would_have_been_as_wide_as() {
    let samples: [(&[&str], Basis, u64); 5] = [
        (&["main", "run", "cell", "solve"], Basis::CpuTime, 20),
        // Called again from within: the innermost call counts.
        (&["main", "run", "magic", "run", "cell"], Basis::CpuTime, 7),
        (&["main", "run"], Basis::CpuTime, 2),
        (&["main", "poll"], Basis::CpuTime, 3),
        (&["helper"], Basis::CpuTime, 1),
    ];
    let nodes = paths(&flame_below(&samples, &["run"]), "flame_cpu");
    let expected = [
        ("cell", 7, 27),
        ("cell;solve", 20, 20),
        ("main", 0, 3),
        ("main;poll", 3, 3),
        ("run", 2, 2),
        ("helper", 1, 1),
    ];
    let expected = expected.map(|(path, own, total)| (path.to_owned(), own, total));
    assert_eq!(nodes, expected);
}

#[test]
fn what_is_too_small_is_told_in_its_caller() {
    let names: Vec<String> = (0..20_000).map(|number| format!("f{number}")).collect();
    let stacks: Vec<[&str; 2]> = names.iter().map(|name| ["main", name.as_str()]).collect();
    let samples: Vec<(&[&str], Basis, u64)> = (1..)
        .zip(&stacks)
        .map(|(weight, stack)| (&stack[..], Basis::CpuTime, weight))
        .collect();
    let answer = flame(&samples);
    let nodes = paths(&answer, "flame_cpu");
    assert!(nodes.len() <= 6_002, "{}", nodes.len());
    let whole: u64 = samples.iter().map(|sample| sample.2).sum();
    assert_eq!((nodes[0].0.as_str(), nodes[0].2), ("main", whole));
    assert_eq!(nodes.iter().map(|node| node.1).sum::<u64>(), whole);
    let smaller = nodes.iter().filter(|node| node.0 == "main;(smaller)");
    assert_eq!(smaller.count(), 1);
    let notes = answer["notes"].as_array().unwrap();
    assert!(notes[0].as_str().unwrap().contains("folded into (smaller)"));
}
