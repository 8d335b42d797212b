//! Whatever is asked of a run is answered alike from our traces and from each format that is read again, but for what docs/formats.md lists.

use std::path::PathBuf;

use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::copies::Copies;
use rsys_analysis::measure::gpu::gaps::Gaps;
use rsys_analysis::measure::gpu::kernels::Kernels;
use rsys_analysis::measure::gpu::launch::Launch;
use rsys_analysis::measure::gpu::memory::Memory;
use rsys_analysis::measure::gpu::sensors::Sensors;
use rsys_analysis::measure::gpu::streams::Streams;
use rsys_analysis::measure::gpu::timeline::Timeline;
use rsys_analysis::measure::host::calls::Calls;
use rsys_analysis::measure::host::functions::Functions;
use rsys_analysis::measure::job::iterations::Options;
use rsys_analysis::measure::job::stuck::Stuck;
use rsys_analysis::{answers, pass_counted, ranks, show};
use rsys_export::{Format, Selection};
use rsys_synthetic::{Cause, Fault, Job};
use rsys_traces::read::BytesRead;
use serde_json::Value;

use crate::store::{Folder, Tables};

/// What a format does not keep, as docs/formats.md says.
struct Loses {
    name: &'static str,
    format: Format,
    is_each_rank: bool,
    /// Keys that have other values, or none.
    keys: &'static [&'static str],
    /// Tables that have other rows.
    tables: &'static [&'static str],
}

/// Without samples: code has no places, so what is known by the place of code is another.
const BY_PLACE: [&str; 10] = [
    "causes",
    "outside",
    "functions",
    "own_code",
    "threads",
    "processes",
    "without_gaps",
    "stragglers",
    "memory_holders",
    "blocking_copies",
];

const FORMATS: [Loses; 5] = [
    Loses {
        name: "kineto",
        format: Format::Kineto,
        is_each_rank: true,
        keys: &["clock_mhz", "communicator", "operation", "data_type"],
        tables: &[
            "sensors",
            "slow_clocks",
            "gpu_operators",
            "gpu_functions",
            "launch_tree",
        ],
    },
    Loses {
        name: "chrome",
        format: Format::Chrome,
        is_each_rank: false,
        keys: &["communicator", "operation", "data_type"],
        tables: &["gpu_operators", "gpu_functions", "launch_tree"],
    },
    Loses {
        name: "rpd",
        format: Format::Rpd,
        is_each_rank: false,
        keys: &[
            "rank",
            "own_rank",
            "longest_rank",
            "ranks",
            "name",
            "stream",
            "values",
            "mean",
            "clock_mhz",
        ],
        tables: &[
            "collective_map",
            "communicators",
            "ranks",
            "instances",
            "operations",
            "bandwidths",
            "what_if",
            "slow_clocks",
            "gpu_operators",
            "gpu_functions",
            "launch_tree",
        ],
    },
    Loses {
        name: "rocpd",
        format: Format::Rocpd,
        is_each_rank: false,
        keys: &[],
        tables: &[
            "collective_map",
            "communicators",
            "ranks",
            "instances",
            "operations",
            "bandwidths",
            "what_if",
            "stragglers",
        ],
    },
    Loses {
        name: "rocprofv3",
        format: Format::Rocprofv3Json,
        is_each_rank: true,
        keys: &["clock_mhz"],
        tables: &[
            "collective_map",
            "communicators",
            "ranks",
            "instances",
            "operations",
            "bandwidths",
            "what_if",
            "sensors",
            "slow_clocks",
            "stream_idle",
            "gpu_operators",
            "gpu_functions",
            "launch_tree",
        ],
    },
];

/// The answers to all questions, without notes.
fn asked(files: &[PathBuf]) -> Vec<(&'static str, Value)> {
    let mut measures: Vec<(&'static str, Box<dyn Measure>)> = vec![
        ("timeline", Box::<Timeline>::default()),
        ("gaps", Box::<Gaps>::default()),
        ("kernels", Box::<Kernels>::default()),
        ("launch", Box::<Launch>::default()),
        ("copies", Box::<Copies>::default()),
        ("calls", Box::<Calls>::default()),
        ("functions", Box::<Functions>::default()),
        ("memory", Box::<Memory>::default()),
        ("sensors", Box::<Sensors>::default()),
        ("streams", Box::<Streams>::default()),
        ("stuck", Box::<Stuck>::default()),
    ];
    let read = BytesRead::default();
    let (names, mut asked): (Vec<_>, Vec<_>) = measures.drain(..).unzip();
    let model = pass_counted(files, &mut asked, &read, 1);
    let found = answers(&mut asked, &model, "run", 1);
    let found = found.iter().map(show::json);
    let mut all: Vec<(&'static str, Value)> = names.into_iter().zip(found).collect();
    let options = Options::default();
    all.push((
        "overlap",
        show::json(&ranks::overlap(files, &options, &read, 1).0),
    ));
    all.push((
        "collectives",
        show::json(&ranks::collectives(files, &read, 1).0),
    ));
    all
}

/// Takes out what a format does not keep, and what names files and runs.
fn reduced(value: &mut Value, loses: &Loses) {
    match value {
        Value::Object(object) => {
            // Each format has names of its own for copies.
            if let Some(Value::String(name)) = object.get_mut("name")
                && (name.starts_with("Copy ")
                    || name.contains("Memcpy")
                    || name.contains("MEMORY_COPY"))
            {
                "a copy".clone_into(name);
            }
            object.retain(|key, _| {
                let key = key.as_str();
                let of_reading = [
                    "notes",
                    "profiling_cost",
                    "label",
                    "host",
                    "process_name",
                    "words",
                ];
                let has_samples = loses.format == Format::Rocpd;
                !of_reading.contains(&key)
                    && !loses.keys.contains(&key)
                    && !loses.tables.contains(&key)
                    && (has_samples || !BY_PLACE.contains(&key))
            });
            object.values_mut().for_each(|value| reduced(value, loses));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| reduced(value, loses)),
        _ => {}
    }
}

/// Where two values differ first.
fn difference(one: &Value, other: &Value, place: &str) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys());
            keys.filter_map(|key| {
                let none = Value::Null;
                let [one, other] = [one, other].map(|object| object.get(key).unwrap_or(&none));
                difference(one, other, &format!("{place}.{key}"))
            })
            .next()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .filter_map(|(at, (one, other))| difference(one, other, &format!("{place}[{at}]")))
                .next()
        }
        _ => (one != other).then(|| format!("{place}: {one} became {other}")),
    }
}

#[test]
fn every_question_is_answered_alike_from_every_format() {
    let folder = Folder::new("questions");
    let job = Job {
        ranks: 2,
        iterations: 6,
        buckets: 2,
        faults: vec![Fault {
            rank: 1,
            cause: Cause::SlowLoader,
            amount_ns: 5_000_000,
            every: 1,
        }],
        ..Job::default()
    };
    let traces = folder.path("job");
    rsys_synthetic::write(&job, &traces).unwrap();
    let entries = std::fs::read_dir(&traces).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "proto"));
    files.sort();
    let tables = Tables::read(&files);
    let ours = asked(&files);
    let mut differences = Vec::new();
    for loses in &FORMATS {
        let output = folder.path("output");
        tables.export(
            loses.format,
            loses.is_each_rank,
            &Selection::default(),
            &output,
        );
        let files = match loses.is_each_rank {
            true => {
                let files = std::fs::read_dir(&output).unwrap();
                let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
                files.sort();
                files
            }
            false => vec![output],
        };
        for ((question, found), (_, expected)) in asked(&files).iter_mut().zip(&ours) {
            let mut expected = expected.clone();
            reduced(found, loses);
            reduced(&mut expected, loses);
            if let Some(text) = difference(&expected, found, question) {
                differences.push(format!("{}: {text}", loses.name));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
