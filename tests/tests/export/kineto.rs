//! JSON of PyTorch's profiler and of Chrome.

use anyhow::{Context, ensure};
use rsys_tests::{Scratch, TestResult, answer, skip_if_missing};

use super::{STACK, export, job, number, rows, same, unpacked};

/// What a file of PyTorch's profiler can hold.
const HELD: [&str; 4] = [
    "select name, grid, start_ns, duration_ns, device, rank, call, call_start_ns, correlation, thread
     from operations where kind = 'kernel' order by start_ns, name, device",
    "select kind, case when direction like '%HostToDevice' then 'host to device' when direction like '%DeviceToHost' then 'device to host'
                 when direction like '%DeviceToDevice' then 'device to device' else direction end as direction, bytes, start_ns, duration_ns, device, rank, call_start_ns, thread
     from operations where kind in ('copy', 'fill') order by start_ns, kind, device",
    "select name, start_ns, duration_ns, thread, rank, bytes from calls where runtime = 'HIP' order by start_ns, thread, name",
    "select activity, count(*) as count, sum(duration_ns) as ns from operations where activity <> 'none' group by activity order by activity",
];

#[test]
fn a_kineto_file_holds_every_operation_and_call_to_the_nanosecond() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-kineto")?;
    for (rank, trace) in job()?.iter().enumerate() {
        let file = scratch.path().join(format!("{rank}.pt.trace.json.gz"));
        export(&[trace], "kineto", &file, &[])?;
        for sql in HELD {
            let (expected, found) = (rows(&[trace], sql)?, rows(&[&file], sql)?);
            ensure!(!expected.is_empty(), "{sql}");
            same(&expected, &found).context(sql)?;
        }
        let (expected, found) = (
            answer("timeline", std::slice::from_ref(trace))?,
            answer("timeline", std::slice::from_ref(&file))?,
        );
        let devices = expected["runs"][0]["devices"]
            .as_array()
            .context("devices")?;
        ensure!(devices.len() == 2, "{expected}");
        for (place, device) in devices.iter().enumerate() {
            for (key, value) in device.as_object().context("a device")? {
                if key.ends_with("_ns") {
                    ensure!(
                        *value == found["runs"][0]["devices"][place][key],
                        "{key}: {device}\n{found}"
                    );
                }
            }
        }
        // What tools read besides.
        let document = unpacked(&file)?;
        ensure!(document["distributedInfo"]["rank"] == rank, "{rank}");
        let events = document["traceEvents"].as_array().context("events")?;
        let count =
            |key: &str, value: &str| events.iter().filter(|event| event[key] == value).count();
        let linked = number(
            &[trace],
            "select count(call) as n from operations where kind <> 'other'",
        )?;
        ensure!(count("ph", "f") as u64 == linked, "{linked}");
        ensure!(count("cat", "cpu_op") > 0);
        ensure!(count("name", "process_name") >= 3, "a process and two GPUs");
    }
    Ok(())
}

#[test]
fn ranks_in_one_file_stay_apart() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-ranks")?;
    let [first, second] = job()?;
    let file = scratch.path().join("all.trace.json");
    export(&[first, second], "chrome", &file, &[])?;
    for sql in [
        "select rank, device, kind, count(*) as count, sum(duration_ns) as ns, min(start_ns) as first from operations
         where kind <> 'other' group by rank, device, kind order by rank, device, kind",
        "select rank, name, count(*) as count, sum(duration_ns) as ns from calls where runtime = 'HIP' group by rank, name order by rank, name",
        "select rank, process from processes order by rank",
    ] {
        let (expected, found) = (rows(&[first, second], sql)?, rows(&[&file], sql)?);
        same(&expected, &found).context(sql)?;
        ensure!(!found.is_empty(), "{sql}");
    }
    let folder = scratch.path().join("each");
    export(&[first, second], "kineto", &folder, &["--each-rank"])?;
    for rank in 0..2 {
        let file = folder.join(format!("rank{rank}.pt.trace.json.gz"));
        let sql = "select count(*) as n from operations where kind <> 'other'";
        ensure!(number(&[&file], sql)? == number(&[&job()?[rank]], sql)?);
    }
    let only = scratch.path().join("one.json");
    export(&[first, second], "kineto", &only, &["--ranks", "1"])?;
    ensure!(number(&[&only], "select min(rank) as n from operations")? == 1);
    Ok(())
}
