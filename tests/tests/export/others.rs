//! JSON of rocprofv3 and of AORTA's trainer.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, ensure};
use rsys_tests::{Scratch, TestResult, skip_if_missing};
use serde_json::Value;

use super::{STACK, export, job, rows};

#[test]
fn json_of_rocprofv3_has_all_processes_and_agents() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-rocprofv3")?;
    let [first, second] = job()?;
    let (both, file) = (
        [first.as_path(), second.as_path()],
        scratch.path().join("out_results.json"),
    );
    export(&both, "rocprofv3-json", &file, &[])?;
    let document: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let tools = document["rocprofiler-sdk-tool"]
        .as_array()
        .context("tools")?;
    ensure!(tools.len() == 2);
    let processes = rows(
        &both,
        "select process_id, process from processes order by process_id",
    )?;
    for (tool, process) in tools.iter().zip(processes) {
        ensure!(
            tool["metadata"]["pid"] == process["process"],
            "{}",
            tool["metadata"]
        );
        let records = &tool["buffer_records"];
        let mut found: BTreeMap<(String, u64), (u64, u64)> = BTreeMap::new();
        for dispatch in records["kernel_dispatch"]
            .as_array()
            .context("dispatches")?
        {
            let info = &dispatch["dispatch_info"];
            let kernel = info["kernel_id"].as_u64().context("kernel")? as usize;
            let name = tool["kernel_symbols"][kernel]["formatted_kernel_name"]
                .as_str()
                .context("name")?;
            let times =
                [&dispatch["start_timestamp"], &dispatch["end_timestamp"]].map(Value::as_u64);
            let [Some(start_ns), Some(end_ns)] = times else {
                anyhow::bail!("{dispatch}")
            };
            let agent = info["agent_id"]["handle"].as_u64().context("agent")?;
            let agents = tool["agents"].as_array().context("agents")?;
            ensure!(
                agents
                    .iter()
                    .any(|one| one["id"]["handle"] == agent && one["type"] == 2)
            );
            let sum = found.entry((name.to_owned(), agent - 2)).or_default();
            *sum = (sum.0 + 1, sum.1 + end_ns - start_ns);
        }
        let sql = format!(
            "select name, device, count(*) as count, sum(duration_ns) as ns from operations
             where kind in ('kernel', 'fill') and process_id = {} group by name, device order by name, device",
            process["process_id"]
        );
        let expected: BTreeMap<(String, u64), (u64, u64)> = rows(&both, &sql)?
            .iter()
            .filter_map(|row| {
                let key = (row["name"].as_str()?.to_owned(), row["device"].as_u64()?);
                Some((key, (row["count"].as_u64()?, row["ns"].as_u64()?)))
            })
            .collect();
        ensure!(
            found == expected && !found.is_empty(),
            "{found:?}\n{expected:?}"
        );
        let strings = &tool["strings"]["buffer_records"];
        for call in records["hip_api"].as_array().context("calls")? {
            let kind = call["kind"].as_u64().context("kind")? as usize;
            let operation = call["operation"].as_u64().context("operation")? as usize;
            ensure!(strings[kind]["kind"] == "HIP_RUNTIME_API");
            let name = strings[kind]["operations"][operation]
                .as_str()
                .context("name")?;
            ensure!(
                name.starts_with("hip") || name.starts_with("__hip"),
                "{name}"
            );
        }
    }
    Ok(())
}

#[test]
fn lines_of_aorta_cover_each_step() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-aorta")?;
    let [first, second] = job()?;
    let (both, folder) = (
        [first.as_path(), second.as_path()],
        scratch.path().join("aorta"),
    );
    export(&both, "aorta", &folder, &[])?;
    let mut compute_ms = 0.0;
    for rank in 0..2 {
        let text = fs::read_to_string(folder.join(format!("rank_{rank:02}_metrics.jsonl")))?;
        for line in text.lines() {
            let step: Value = serde_json::from_str(line)?;
            ensure!(step["rank"] == rank && step["world_size"] == 2, "{line}");
            let profile = &step["profile"];
            let overlap = &profile["overlap"];
            let length = |one: &Value| Some(one["end_ms"].as_f64()? - one["start_ms"].as_f64()?);
            let segments = overlap["active_segments"].as_array().context("segments")?;
            let covered: f64 = segments.iter().filter_map(length).sum();
            let total = profile["total_ms"].as_f64().context("total")?;
            ensure!((covered - total).abs() < 1e-3, "{covered} {total}");
            compute_ms += overlap["per_stream_ms"]["compute"].as_f64().unwrap_or(0.0);
        }
    }
    let summary: Value = serde_json::from_str(&fs::read_to_string(folder.join("summary.json"))?)?;
    let of_run = &summary["datasets"]["rsys"];
    let count = of_run["count"].as_f64().context("count")?;
    let mean = of_run["mean_compute_ms"].as_f64().context("mean")?;
    ensure!(
        count > 0.0 && (mean * count - compute_ms).abs() < 1e-3,
        "{of_run} {compute_ms}"
    );
    Ok(())
}
