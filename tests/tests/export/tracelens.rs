//! A test that reads the fields of `kineto` files that TraceLens reads (TraceLens itself was not run): its way from launches to operations,
//! of collectives between ranks, and of its timeline.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rsys_synthetic::Job;
use rsys_tests::{Scratch, TestResult, answer, skip_if_missing};
use serde_json::Value;

use super::training::{RANKS, STEPS, training};
use super::{STACK, export, job, rows, unpacked};

/// The categories of operations, and of calls that launch them.
const OPERATIONS: [&str; 3] = ["kernel", "gpu_memcpy", "gpu_memset"];
const LAUNCHES: [&str; 2] = ["cuda_runtime", "cuda_driver"];
/// It takes calls of these names for launches of graphs, which have many operations.
const GRAPH: &str = "hipGraphLaunch";

/// A complete event: begin and end in nanoseconds.
struct Complete<'d> {
    event: &'d Value,
    start_ns: u64,
    end_ns: u64,
}

impl Complete<'_> {
    fn category(&self) -> &str {
        self.event["cat"].as_str().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.event["name"].as_str().unwrap_or_default()
    }

    /// Where it stands: process and thread, which are numbers.
    fn row(&self) -> Option<(u64, u64)> {
        row(self.event)
    }

    fn argument(&self, key: &str) -> &Value {
        &self.event["args"][key]
    }
}

fn row(event: &Value) -> Option<(u64, u64)> {
    event["pid"].as_u64().zip(event["tid"].as_u64())
}

fn nanoseconds(microseconds: &Value) -> Result<u64> {
    let time = microseconds.as_f64().context("a time that is a number")?;
    Ok((time * 1e3).round() as u64)
}

fn events(document: &Value) -> Result<&Vec<Value>> {
    document["traceEvents"].as_array().context("traceEvents")
}

/// The events of the phase `X`, each with a name, a category, a place and times.
fn complete(document: &Value) -> Result<Vec<Complete<'_>>> {
    let mut found = Vec::new();
    for event in events(document)?.iter().filter(|event| event["ph"] == "X") {
        let start_ns = nanoseconds(&event["ts"]).with_context(|| event.to_string())?;
        let duration_ns = nanoseconds(&event["dur"]).with_context(|| event.to_string())?;
        ensure!(
            event["name"].is_string() && event["cat"].is_string(),
            "{event}"
        );
        ensure!(row(event).is_some(), "{event}");
        found.push(Complete {
            event,
            start_ns,
            end_ns: start_ns + duration_ns,
        });
    }
    Ok(found)
}

/// Operations by call and name.
type Links = BTreeMap<(String, String), u64>;

/// The calls of all operations by `correlation`, and of these those to which TraceLens finds no way: of a call with several operations that launches no graph it
/// follows the first arrow only.
fn linked(document: &Value) -> Result<(Links, Links)> {
    let complete = complete(document)?;
    let launches = complete
        .iter()
        .filter(|one| LAUNCHES.contains(&one.category()));
    let operations = complete
        .iter()
        .filter(|one| OPERATIONS.contains(&one.category()));
    // The first launch decides by what all are linked.
    let first = launches.clone().next().context("a launch")?;
    ensure!(first.argument("correlation").is_u64(), "{}", first.event);
    let mut starts: HashMap<u64, Vec<&Value>> = HashMap::new();
    let mut ends: HashMap<u64, Vec<&Value>> = HashMap::new();
    for event in events(document)?
        .iter()
        .filter(|event| event["cat"] == "ac2g")
    {
        let id = event["id"].as_u64().context("a number of an arrow")?;
        match event["ph"].as_str() {
            Some("s") => starts.entry(id).or_default().push(event),
            Some("f") => {
                ensure!(event["bp"] == "e", "{event}");
                ends.entry(id).or_default().push(event);
            }
            _ => anyhow::bail!("{event}"),
        }
    }
    let mut by_key: HashMap<u64, Vec<&Complete<'_>>> = HashMap::new();
    let mut by_place = HashMap::new();
    for one in operations.clone() {
        let key = one
            .argument("correlation")
            .as_u64()
            .context("correlation")?;
        ensure!(one.argument("External id") == key, "{}", one.event);
        ensure!(
            one.argument("stream").is_u64() && one.argument("device").is_u64(),
            "{}",
            one.event
        );
        by_key.entry(key).or_default().push(one);
        by_place.entry((one.row(), key)).or_insert(one);
    }
    let (mut found, mut unreached) = (Links::new(), Links::new());
    for launch in launches {
        let Some(key) = launch.argument("correlation").as_u64() else {
            continue;
        };
        let Some(of_key) = by_key.get(&key) else {
            continue;
        };
        // An arrow begins in its call, whatever else does at the time.
        let start = starts.get(&key).and_then(|starts| starts.first());
        let start = start.with_context(|| launch.event.to_string())?;
        let at_ns = nanoseconds(&start["ts"])?;
        ensure!(
            row(start) == launch.row() && (launch.start_ns..=launch.end_ns).contains(&at_ns),
            "{start}"
        );
        let reached: Vec<&Complete<'_>> = match launch.name() {
            GRAPH => of_key.clone(),
            _ => {
                let end = ends.get(&key).and_then(|ends| ends.first());
                let end = end.with_context(|| launch.event.to_string())?;
                let operation = by_place.get(&(row(end), key)).context("an operation")?;
                ensure!(nanoseconds(&end["ts"])? == operation.start_ns, "{end}");
                vec![operation]
            }
        };
        for operation in of_key {
            let pair = (launch.name().to_owned(), operation.name().to_owned());
            if !reached.iter().any(|one| std::ptr::eq(*one, *operation)) {
                *unreached.entry(pair.clone()).or_default() += 1;
            }
            *found.entry(pair).or_default() += 1;
        }
    }
    Ok((found, unreached))
}

/// Slices of a thread nest, or TraceLens leaves some out of its tree.
fn check_tree(document: &Value) -> Result<()> {
    let mut threads: HashMap<(u64, u64), Vec<Complete<'_>>> = HashMap::new();
    for one in complete(document)? {
        if !OPERATIONS.contains(&one.category()) {
            let thread = one.row().context("a thread")?;
            threads.entry(thread).or_default().push(one);
        }
    }
    ensure!(!threads.is_empty());
    for slices in threads.values_mut() {
        slices.sort_by_key(|one| (one.start_ns, std::cmp::Reverse(one.end_ns)));
        let mut open: Vec<&Complete<'_>> = Vec::new();
        for one in slices.iter() {
            open.retain(|outer| outer.end_ns > one.start_ns || outer.start_ns == one.start_ns);
            if let Some(outer) = open.last() {
                // It allows for less than a microsecond.
                let is_within = one.end_ns <= outer.end_ns + 999;
                ensure!(is_within, "{} in {}", one.event, outer.event);
            }
            open.push(one);
        }
    }
    Ok(())
}

/// What names processes and threads: of the host and of each GPU.
fn check_metadata(document: &Value, rank: u64, ranks: u64) -> Result<()> {
    let told = &document["distributedInfo"];
    ensure!(
        told["rank"] == rank && told["world_size"] == ranks,
        "{told}"
    );
    ensure!(
        told["backend"] == "nccl" && document["schemaVersion"].is_u64(),
        "{told}"
    );
    let mut named: HashMap<u64, BTreeMap<&str, &Value>> = HashMap::new();
    for event in events(document)?.iter().filter(|event| event["ph"] == "M") {
        let pid = event["pid"].as_u64().context("a process")?;
        let name = event["name"].as_str().context("a name")?;
        named.entry(pid).or_default().insert(name, &event["args"]);
    }
    for one in complete(document)? {
        let (pid, _) = one.row().context("a place")?;
        let of_process = named.get(&pid).with_context(|| one.event.to_string())?;
        ensure!(
            of_process["process_name"]["name"].is_string(),
            "{of_process:?}"
        );
        ensure!(
            of_process["process_sort_index"]["sort_index"].is_u64(),
            "{of_process:?}"
        );
        let label = of_process["process_labels"]["labels"]
            .as_str()
            .context("a label")?;
        if OPERATIONS.contains(&one.category()) {
            ensure!(
                one.argument("device") == pid && label == format!("GPU {pid}"),
                "{label}: {}",
                one.event
            );
            let devices = document["deviceProperties"].as_array().context("devices")?;
            ensure!(
                devices.iter().any(|device| device["id"] == pid),
                "{devices:?}"
            );
        } else {
            ensure!(label == "CPU", "{label}: {}", one.event);
        }
    }
    Ok(())
}

fn expected_links(trace: &Path) -> Result<Links> {
    let sql = "select call, kind, name, direction, count(*) as n from operations where kind <> 'other' and call is not null group by call, kind, name, direction";
    let mut expected = BTreeMap::new();
    for row in rows(&[trace], sql)? {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        // Those of PyTorch.
        let name = match (text("kind"), text("direction")) {
            ("fill", _) => "Memset (Device)",
            ("copy", to) if to.ends_with("HostToDevice") => "Memcpy HtoD (Host -> Device)",
            ("copy", to) if to.ends_with("DeviceToHost") => "Memcpy DtoH (Device -> Host)",
            ("copy", to) if to.ends_with("DeviceToDevice") => "Memcpy DtoD (Device -> Device)",
            _ => text("name"),
        };
        let count = row["n"].as_u64().context("a count")?;
        *expected
            .entry((text("call").to_owned(), name.to_owned()))
            .or_default() += count;
    }
    Ok(expected)
}

#[test]
fn each_operation_is_linked_with_its_call_also_of_a_graph() -> TestResult {
    let scratch = Scratch::new("export-tracelens")?;
    let traces = training(&scratch)?;
    let files = scratch.path().join("kineto");
    export(
        &[&traces[0], &traces[1]],
        "kineto",
        &files,
        &["--each-rank"],
    )?;
    for (rank, trace) in (0..).zip(traces) {
        let document = unpacked(&files.join(format!("rank{rank}.pt.trace.json.gz")))?;
        let (found, unreached) = linked(&document)?;
        ensure!(found == expected_links(&trace)?, "{found:?}");
        ensure!(unreached.is_empty(), "{unreached:?}");
        ensure!(
            found[&(GRAPH.to_owned(), "node_1".to_owned())] == STEPS,
            "{found:?}"
        );
        check_metadata(&document, rank, RANKS)?;
    }
    Ok(())
}

#[test]
fn the_real_thing_is_linked_and_nests() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-tracelens-real")?;
    let traces = job()?;
    let files = scratch.path().join("kineto");
    export(
        &[&traces[0], &traces[1]],
        "kineto",
        &files,
        &["--each-rank"],
    )?;
    for (rank, trace) in (0..).zip(traces) {
        let document = unpacked(&files.join(format!("rank{rank}.pt.trace.json.gz")))?;
        let (found, unreached) = linked(&document)?;
        ensure!(found == expected_links(trace)?, "{found:?}");
        let is_launch = |(call, _): &(String, String)| call.contains("Launch");
        ensure!(!unreached.keys().any(is_launch), "{unreached:?}");
        check_tree(&document)?;
        check_metadata(&document, rank, 2)?;
    }
    Ok(())
}

/// Times in which something is so: sorted, apart from each other.
fn union(mut times: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    times.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (start, end) in times {
        match all.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

fn length(times: &[(u64, u64)]) -> u64 {
    times.iter().map(|(start, end)| end - start).sum()
}

/// How long one is so and the other is not.
fn length_without(times: &[(u64, u64)], others: &[(u64, u64)]) -> u64 {
    length(&union([times, others].concat())) - length(others)
}

#[test]
fn its_timeline_says_what_ours_does() -> TestResult {
    let scratch = Scratch::new("export-tracelens-timeline")?;
    let traces = training(&scratch)?;
    let timeline = answer("timeline", &traces)?;
    for (rank, trace) in traces.iter().enumerate() {
        let file = scratch.path().join(format!("{rank}.pt.trace.json.gz"));
        export(&[trace], "kineto", &file, &[])?;
        let document = unpacked(&file)?;
        let operations = complete(&document)?;
        let of = |is: fn(&Complete<'_>) -> bool| {
            let these = operations
                .iter()
                .filter(|one| OPERATIONS.contains(&one.category()));
            union(
                these
                    .filter(|one| is(one))
                    .map(|one| (one.start_ns, one.end_ns))
                    .collect(),
            )
        };
        fn is_comm(one: &Complete<'_>) -> bool {
            let name = one.name().to_lowercase();
            ["rccl", "nccl", "cross_device_reduce"]
                .iter()
                .any(|word| name.contains(word))
        }
        let all = of(|_| true);
        let (comm, copies) = (of(is_comm), of(|one| one.category() == "gpu_memcpy"));
        let computation = of(|one| one.category() != "gpu_memcpy" && !is_comm(one));
        let total_ns = all.last().context("an end")?.1 - all[0].0;
        let busy = union([computation.as_slice(), comm.as_slice()].concat());
        let devices = timeline["runs"][0]["devices"]
            .as_array()
            .context("devices")?;
        let device = devices.iter().find(|device| device["rank"] == rank);
        let device = device.context("a device")?;
        for (key, found_ns) in [
            ("computation_ns", length(&computation)),
            ("exposed_comm_ns", length_without(&comm, &computation)),
            ("exposed_memcpy_ns", length_without(&copies, &busy)),
            ("busy_ns", length(&all)),
            ("total_ns", total_ns),
            ("idle_ns", total_ns - length(&all)),
        ] {
            ensure!(
                device[key] == found_ns && found_ns > 0,
                "{key}: {}, {found_ns}",
                device[key]
            );
        }
    }
    Ok(())
}

/// TraceLens pairs collectives of ranks by the name of the process group and their order in it, and compares what they say of themselves.
#[test]
fn collectives_of_ranks_are_the_same_by_group_and_order() -> TestResult {
    const WANTED: [&str; 6] = [
        "Collective name",
        "In msg nelems",
        "Out msg nelems",
        "dtype",
        "Group size",
        "Process Group Ranks",
    ];
    let scratch = Scratch::new("export-tracelens-collectives")?;
    let job = Job {
        ranks: 4,
        iterations: 5,
        group: 2,
        ..Job::default()
    };
    let folder = scratch.path().join("job");
    std::fs::create_dir_all(&folder)?;
    rsys_synthetic::write(&job, &folder)?;
    let files = scratch.path().join("kineto");
    export(&[folder.as_path()], "kineto", &files, &["--each-rank"])?;
    // What each rank says, by group and number.
    type Told = Vec<(u64, [Value; 6])>;
    let mut by_order: BTreeMap<(String, u64), Told> = BTreeMap::new();
    for rank in 0..4_u64 {
        let document = unpacked(&files.join(format!("rank{rank}.pt.trace.json.gz")))?;
        let mut kernels = complete(&document)?;
        kernels
            .retain(|one| one.category() == "kernel" && one.name().to_lowercase().contains("nccl"));
        kernels.sort_by_key(|one| one.start_ns);
        ensure!(!kernels.is_empty());
        let mut counts: HashMap<String, u64> = HashMap::new();
        for kernel in kernels {
            let group = kernel
                .argument("Process Group Name")
                .as_str()
                .context("a group")?;
            let count = counts.entry(group.to_owned()).or_default();
            ensure!(
                kernel.argument("Seq") == *count && kernel.argument("seq_num") == *count,
                "{}",
                kernel.event
            );
            for key in ["In msg nelems", "Out msg nelems", "Group size", "stream"] {
                ensure!(kernel.argument(key).is_u64(), "{key}: {}", kernel.event);
            }
            for key in [
                "In split size",
                "Out split size",
                "Process Group Description",
                "Comms Id",
            ] {
                ensure!(kernel.argument(key).is_string(), "{key}: {}", kernel.event);
            }
            // A list as text, in which the rank of the file stands at its own place.
            let ranks = kernel
                .argument("Process Group Ranks")
                .as_str()
                .context("ranks")?;
            let ranks: Vec<u64> = serde_json::from_str(ranks)?;
            let place = kernel.argument("Rank").as_u64().context("a place")? as usize;
            ensure!(
                ranks.get(place) == Some(&rank) && kernel.argument("Group size") == ranks.len(),
                "{}",
                kernel.event
            );
            let says = WANTED.map(|key| kernel.argument(key).clone());
            by_order
                .entry((group.to_owned(), *count))
                .or_default()
                .push((rank, says));
            *count += 1;
        }
    }
    ensure!(by_order.len() > 10, "{}", by_order.len());
    for (key, members) in &by_order {
        let (_, says) = &members[0];
        ensure!(says[4] == members.len(), "{key:?}: {members:?}");
        ensure!(
            members.iter().all(|(_, other)| other == says),
            "{key:?}: {members:?}"
        );
    }
    Ok(())
}
