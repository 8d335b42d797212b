//! What `rsys-report` answers about programs on GPUs, against what the simulated GPUs did and what Perfetto's own engine reads.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Run, TestResult, Trace, answer, report, skip_if_missing};
use serde_json::Value;

const MACHINE: &str = "
[clock]
drift_ppm = 90.0
[[kernel]]
name = 'spin'
microseconds = 300
[[kernel]]
name = 'touch'
microseconds = 20
[[kernel]]
name = 'node'
microseconds = 2
";

/// How far a time in the trace may be from the truth.
const EXACT_NS: u64 = 1000;

rsys_tests::on_every_stack! {
    timeline_and_kernels_are_the_truth;
}

/// Begin and end of an operation, and what it counts as: 0 computation, 2 copies.
type Operation = (i64, i64, usize);

/// The operations of each GPU in a trace.
fn operations(trace: &Trace) -> Result<BTreeMap<i64, Vec<Operation>>> {
    let rows = trace.query(
        "select ts, dur, name, category, extract_arg(arg_set_id, 'debug.device') as device from slice
         where category in ('kernel', 'copy', 'fill')",
    )?;
    let mut found: BTreeMap<i64, Vec<Operation>> = BTreeMap::new();
    for row in rows.iter() {
        let (start_ns, name) = (row.int("ts")?, row.text("name")?);
        let is_copy =
            row.text("category")? == "copy" || name.starts_with("__amd_rocclr_copyBuffer");
        let operation = (
            start_ns,
            start_ns + row.int("dur")?,
            usize::from(is_copy) * 2,
        );
        found.entry(row.int("device")?).or_default().push(operation);
    }
    Ok(found)
}

/// Total, computation, all copies, exposed copies and idleness, by counting what is open at each time that something begins or ends.
fn reference(operations: &[Operation]) -> [i64; 5] {
    let mut changes: Vec<(i64, i64, usize)> = Vec::new();
    for &(start_ns, end_ns, what) in operations {
        changes.extend([(start_ns, 1, what), (end_ns, -1, what)]);
    }
    changes.sort_unstable();
    let (mut open, mut times) = ([0_i64; 3], [0; 5]);
    for (place, &(at_ns, step, what)) in changes.iter().enumerate() {
        open[what] += step;
        let next_ns = changes.get(place + 1).map_or(at_ns, |next| next.0);
        let holds = [
            true,
            open[0] > 0,
            open[2] > 0,
            open[2] > 0 && open[0] == 0,
            open == [0; 3],
        ];
        for (time, holds) in times.iter_mut().zip(holds) {
            *time += if holds { next_ns - at_ns } else { 0 };
        }
    }
    times
}

fn number(value: &Value, key: &str) -> Result<i64> {
    value[key]
        .as_i64()
        .with_context(|| format!("{key} of {value}"))
}

fn timeline_and_kernels_are_the_truth(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.gpus(2).config(MACHINE)?;
    let program = hip_program(stack, "hip_ops")?.args(["work", "500", "20"]);
    let outcome = Run::new()
        .options(["-I", "rocm"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let truth = machine.truth()?;

    let trace = outcome.trace_of("hip_ops")?;
    let timeline = answer("timeline", &outcome.files())?;
    ensure!(timeline["schema_version"] == 1, "{timeline}");
    let devices = timeline["runs"][0]["devices"]
        .as_array()
        .context("devices")?;
    let expected = operations(&trace)?;
    ensure!(devices.len() == expected.len(), "{timeline}");
    for device in devices {
        let operations = &expected[&number(device, "device")?];
        let keys = [
            "total_ns",
            "computation_ns",
            "total_memcpy_ns",
            "exposed_memcpy_ns",
            "idle_ns",
        ];
        let found: Vec<i64> = keys
            .iter()
            .map(|key| number(device, key))
            .collect::<Result<_>>()?;
        ensure!(found == reference(operations), "{device}");
        let parts = [
            "computation_ns",
            "exposed_comm_ns",
            "exposed_memcpy_ns",
            "idle_ns",
        ];
        let sum: i64 = parts
            .iter()
            .map(|key| number(device, key))
            .sum::<Result<_>>()?;
        ensure!(sum == number(device, "total_ns")?, "{device}");
        let records = &device["records"];
        let counted = number(records, "compute")? + number(records, "memcpy")?;
        ensure!(usize::try_from(counted)? == operations.len(), "{device}");
    }

    // A merged trace says the same, and so do the files in another order.
    let merged = outcome.files()[0].with_file_name("merged.pftrace");
    let merge = Command::new(report()?)
        .args(["merge", "-o"])
        .arg(&merged)
        .args(outcome.files())
        .output()?;
    ensure!(merge.status.success(), "{merge:?}");
    let of_merged = answer("timeline", &[merged])?;
    ensure!(
        of_merged["runs"][0]["devices"] == timeline["runs"][0]["devices"],
        "{of_merged}"
    );
    let mut files = outcome.files();
    files.retain(|file| !file.ends_with("merged.pftrace"));
    files.reverse();
    let reversed = answer("timeline", &files)?;
    ensure!(
        reversed["runs"][0]["devices"] == timeline["runs"][0]["devices"],
        "{reversed}"
    );

    let kernels = answer("kernels", &files)?;
    let kernels = kernels["kernels"].as_array().context("kernels")?;
    for name in ["spin", "touch", "node"] {
        let of_name = |kernel: &&Value| {
            kernel["name"]
                .as_str()
                .is_some_and(|found| found.starts_with(&format!("{name}(")))
        };
        let kernel = kernels
            .iter()
            .find(of_name)
            .with_context(|| format!("no kernel {name}"))?;
        let ran: Vec<u64> = truth
            .kernels_named(name)
            .map(|dispatch| dispatch.end_ns - dispatch.start_ns)
            .collect();
        ensure!(
            kernel["count"].as_u64() == Some(ran.len() as u64),
            "{kernel}: {} ran",
            ran.len()
        );
        let sum_ns: u64 = ran.iter().sum();
        let total_ns = number(kernel, "total_ns")?.unsigned_abs();
        ensure!(
            total_ns.abs_diff(sum_ns) <= 2 * EXACT_NS.max(ran.len() as u64),
            "{kernel}: {sum_ns} ns"
        );
    }
    Ok(())
}
