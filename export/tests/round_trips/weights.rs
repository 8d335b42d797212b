//! What adds up in formats that are only written: every nanosecond that the run has of a kind of time, and no other.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use rsys_export::{Format, Only, Selection, Time};
use rsys_proto::message::{Fields, Value, packed_varints};
use rsys_synthetic::random_run::{Basis, Operation, OperationKind, RandomRun};
use serde_json::Value as Json;

use crate::store::{Folder, Tables};
use crate::{numbers, written};

const TIMES: [(Time, &str); 3] = [(Time::Cpu, "cpu"), (Time::Wait, "wait"), (Time::Gpu, "gpu")];

/// Nanoseconds of a kind of time, and how many records there are.
fn truth(run: &RandomRun, time: Time) -> (u64, u64) {
    let mut sum = (0, 0);
    for process in &run.processes {
        let of_samples = |basis| {
            let samples = process.samples.iter();
            let samples = samples.filter(move |one| one.basis == basis);
            samples.map(|one| one.weight).collect::<Vec<u64>>()
        };
        let weights = match time {
            Time::Cpu => of_samples(Basis::Cpu),
            Time::Wait => of_samples(Basis::Wait),
            Time::Gpu => {
                let kernels = process.operations.iter();
                let kernels = kernels.filter(|one| one.kind == OperationKind::Kernel);
                kernels.map(|one| one.end_ns - one.start_ns).collect()
            }
        };
        sum.0 += weights.iter().sum::<u64>();
        sum.1 += weights.len() as u64;
    }
    sum
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Nanoseconds of milliseconds with six decimals.
fn nanoseconds(milliseconds: &Json) -> u64 {
    (milliseconds.as_f64().unwrap() * 1e6).round() as u64
}

/// The values of the samples of a profile, by the name of their kind.
fn of_pprof(path: &Path) -> HashMap<String, u64> {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    let (mut texts, mut kinds, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for field in Fields::new(&bytes).map(Result::unwrap) {
        let (number, body) = (field.number, field.value.bytes());
        match number {
            1 => {
                let mut fields = Fields::new(body).map(Result::unwrap);
                kinds.push(fields.find(|one| one.number == 1).unwrap().value.number());
                sums.push(0);
            }
            2 => {
                for field in Fields::new(body).map(Result::unwrap) {
                    let Value::Bytes(values) = field.value else {
                        continue;
                    };
                    if field.number == 2 {
                        let values = packed_varints(values).map(Result::unwrap);
                        sums.iter_mut()
                            .zip(values)
                            .for_each(|(sum, one)| *sum += one);
                    }
                }
            }
            6 => texts.push(String::from_utf8(body.to_vec()).unwrap()),
            _ => {}
        }
    }
    let kinds = kinds.iter().map(|kind| texts[*kind as usize].clone());
    kinds.zip(sums).collect()
}

#[test]
fn call_stacks_keep_all_time() {
    let folder = Folder::new("weights");
    let output = folder.path("output");
    for number in numbers() {
        let run = RandomRun::draw(number);
        let tables = Tables::read(&written(&run, &folder));
        tables.export(Format::Pprof, false, &Selection::default(), &output);
        let profile = of_pprof(&output);
        for (time, word) in TIMES {
            let what = format!("run {number} {word}");
            let (expected, count) = truth(&run, time);
            let counted = match time {
                Time::Cpu => "samples",
                Time::Wait => "waits",
                Time::Gpu => "kernels",
            };
            assert_eq!(profile[word], expected, "{what}: pprof");
            assert_eq!(profile[counted], count, "{what}: pprof");
            let selection = Selection {
                time,
                ..Selection::default()
            };
            tables.export(Format::Folded, false, &selection, &output);
            let text = fs::read_to_string(&output).unwrap();
            let weights = text.lines().map(|line| line.rsplit_once(' ').unwrap().1);
            let sum: u64 = weights.map(|weight| weight.parse::<u64>().unwrap()).sum();
            assert_eq!(sum, expected, "{what}: folded");
            tables.export(Format::Speedscope, false, &selection, &output);
            let document = json(&output);
            let frames = document["shared"]["frames"].as_array().unwrap().len() as u64;
            let mut sum = 0;
            for profile in document["profiles"].as_array().unwrap() {
                let stacks = profile["samples"].as_array().unwrap().iter();
                for frame in stacks.flat_map(|stack| stack.as_array().unwrap()) {
                    assert!(frame.as_u64().unwrap() < frames, "{what}");
                }
                let weights = profile["weights"].as_array().unwrap().iter();
                sum += weights.map(|weight| weight.as_u64().unwrap()).sum::<u64>();
            }
            assert_eq!(sum, expected, "{what}: speedscope");
            tables.export(Format::Firefox, false, &selection, &output);
            let document = json(&output);
            let mut sum = 0;
            for thread in document["threads"].as_array().unwrap() {
                let weights = thread["samples"]["weight"].as_array().unwrap().iter();
                sum += weights.map(nanoseconds).sum::<u64>();
            }
            assert_eq!(sum, expected, "{what}: firefox");
        }
    }
}

/// Time in which something of a kind runs, by a bitmap of all moments at which anything begins or ends.
fn swept(ranges: &[(String, u64, u64)]) -> BTreeMap<String, u64> {
    let mut edges: Vec<u64> = ranges
        .iter()
        .flat_map(|(_, start, end)| [*start, *end])
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let mut found = BTreeMap::new();
    for pair in edges.windows(2) {
        let runs = |kind: &str| {
            let mut ranges = ranges.iter();
            ranges.any(|(one, start, end)| one == kind && *start <= pair[0] && *end >= pair[1])
        };
        let mut add = |what: &str| *found.entry(what.to_owned()).or_default() += pair[1] - pair[0];
        for kind in ["compute", "aux", "allreduce", "reducescatter"] {
            if runs(kind) {
                add(kind);
            }
        }
        if runs("compute") && (runs("allreduce") || runs("reducescatter")) {
            add("compute_comm");
        }
    }
    found
}

#[test]
fn lines_of_aorta_keep_all_time_of_gpus() {
    let folder = Folder::new("aorta");
    let output = folder.path("output");
    // Without ranges all is one step.
    let selection = Selection {
        only: Only {
            ranges: false,
            ..Only::ALL
        },
        ..Selection::default()
    };
    for number in numbers() {
        let run = RandomRun::draw(number);
        let tables = Tables::read(&written(&run, &folder));
        tables.export(Format::Aorta, false, &selection, &output);
        let mut found = 0;
        for entry in fs::read_dir(&output).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "jsonl") {
                continue;
            }
            for line in fs::read_to_string(&path).unwrap().lines() {
                let step: Json = serde_json::from_str(line).unwrap();
                let profile = &step["profile"];
                let ranges = profile["ranges"].as_array().unwrap().iter();
                let ranges: Vec<(String, u64, u64)> = ranges
                    .map(|one| {
                        let stream = one["stream"].as_str().unwrap().to_owned();
                        (
                            stream,
                            nanoseconds(&one["start_ms"]),
                            nanoseconds(&one["end_ms"]),
                        )
                    })
                    .collect();
                let overlap = &profile["overlap"];
                let idle = nanoseconds(&overlap["overlap_ms"]["idle"]);
                found += nanoseconds(&profile["total_ms"]) - idle;
                for (kind, expected) in swept(&ranges) {
                    let value = match kind.as_str() {
                        "compute_comm" => &overlap["overlap_ms"][&kind],
                        _ => &overlap["per_stream_ms"][&kind],
                    };
                    assert_eq!(nanoseconds(value), expected, "run {number}: {kind}");
                }
            }
        }
        let busy = run.processes.iter().map(|process| {
            let operations = process.operations.iter();
            let operations = operations.filter(|one| one.kind != OperationKind::Barrier);
            let any = |one: &Operation| ("aux".to_owned(), one.start_ns, one.end_ns);
            let of_process: Vec<_> = operations.map(any).collect();
            swept(&of_process).get("aux").copied().unwrap_or(0)
        });
        assert_eq!(found, busy.sum::<u64>(), "run {number}");
    }
}
