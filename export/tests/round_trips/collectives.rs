//! Collectives of a job, whose ranks have a Kineto file each.

use std::path::{Path, PathBuf};

use rsys_analysis::measure::Measure;
use rsys_analysis::measure::job::collectives::Collectives;
use rsys_analysis::pass_in_order;
use rsys_export::{Format, Selection};
use rsys_synthetic::{Cause, Fault, Job};
use rsys_traces::read::BytesRead;

use crate::store::{Folder, Row, Tables, same};

const COLUMNS: [&str; 6] = ["rank", "name", "sequence", "bytes", "member", "members"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    // What the job is made of stands beside its traces.
    files.retain(|path| !path.ends_with("truth.json"));
    files.sort();
    files
}

/// What `rsys-report collectives` says, by the columns that both have.
fn answer(files: &[PathBuf]) -> serde_json::Value {
    let collectives = Collectives::default();
    let mut measures: [Box<dyn Measure>; 1] = [Box::new(collectives.clone())];
    let model = pass_in_order(files, &mut measures, &BytesRead::default(), 1);
    let answer = collectives.clone().answer(&model, "");
    rsys_analysis::show::json(&answer)
}

/// What does not depend on the clocks of hosts: of each communicator how many operations there were, how long the last rank took, and the bandwidth.
fn measured(answer: &serde_json::Value) -> Vec<String> {
    let operations = answer["operations"].as_array().unwrap().iter();
    let mut rows: Vec<String> = operations
        .map(|row| {
            let communicator = row["communicator"].as_str().unwrap();
            let name = communicator.split(' ').next().unwrap_or_default();
            let values = [
                "count",
                "ranks",
                "message_bytes",
                "latency_min_mean_ns",
                "bus_gb_s",
            ];
            format!("{name} {:?}", values.map(|key| row[key].to_string()))
        })
        .collect();
    rows.sort();
    rows
}

/// Each host counts from its own start: one file of all says which ranks ran where, so that the straggler is the same.
#[test]
fn one_file_of_several_hosts_names_them() {
    let job = Job {
        ranks: 6,
        ranks_per_host: 2,
        iterations: 20,
        faults: vec![Fault {
            rank: 3,
            cause: Cause::LongKernel,
            amount_ns: 3_000_000,
            every: 1,
        }],
        ..Job::default()
    };
    let folder = Folder::new("hosts");
    rsys_synthetic::write(&job, &folder.path("job")).unwrap();
    let tables = Tables::read(&files(&folder.path("job")));
    for (format, name) in [
        (Format::Kineto, "kineto.json"),
        (Format::Chrome, "chrome.json"),
    ] {
        let output = folder.path(name);
        tables.export(format, false, &Selection::default(), &output);
        let again = Tables::read(std::slice::from_ref(&output));
        let columns = ["rank", "host"];
        let expected = tables.rows("processes", &columns);
        assert_eq!(expected.len(), 6);
        same("processes", expected, again.rows("processes", &columns));
        let answer = answer(&[output]);
        let stragglers = answer["stragglers"].as_array().unwrap();
        assert_eq!(stragglers.len(), 1, "{stragglers:?}");
        assert_eq!(stragglers[0]["rank"], 3);
        let waits = answer["ranks"].as_array().unwrap().iter();
        let longest_ns = waits.filter_map(|row| row["wait_ns"].as_u64()).max();
        assert!(
            longest_ns.is_some_and(|ns| ns < 1_000_000_000),
            "{longest_ns:?}"
        );
    }
}

#[test]
fn ranks_have_the_arguments_of_their_collectives() {
    let job = Job {
        ranks: 6,
        ranks_per_host: 6,
        iterations: 6,
        group: 3,
        faults: vec![Fault {
            rank: 4,
            cause: Cause::LongKernel,
            amount_ns: 3_000_000,
            every: 1,
        }],
        ..Job::default()
    };
    let folder = Folder::new("collectives");
    rsys_synthetic::write(&job, &folder.path("job")).unwrap();
    let traces = files(&folder.path("job"));
    let tables = Tables::read(&traces);
    let output = folder.path("output");
    tables.export(Format::Kineto, true, &Selection::default(), &output);
    let ranks = files(&output);
    assert_eq!(ranks.len(), 6);
    let again = Tables::read(&ranks);
    let mut expected: Vec<Row> = tables.rows("collectives", &COLUMNS);
    for row in &mut expected {
        row[1] = match row[1].as_str() {
            "ncclAllReduce" => "allreduce".to_owned(),
            "ncclAllGather" => "_allgather_base".to_owned(),
            name => panic!("{name}"),
        };
    }
    assert!(!expected.is_empty());
    same("collectives", expected, again.rows("collectives", &COLUMNS));

    let (from_traces, from_files) = (answer(&traces), answer(&ranks));
    for answer in [&from_traces, &from_files] {
        let stragglers = answer["stragglers"].as_array().unwrap();
        assert_eq!(stragglers.len(), 1, "{stragglers:?}");
        assert_eq!(stragglers[0]["rank"], 4);
    }
    let measured = measured(&from_traces);
    assert_eq!(measured.len(), 3);
    assert_eq!(measured, self::measured(&from_files));
}
