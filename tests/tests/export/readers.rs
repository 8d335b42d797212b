//! Programs that answer questions read our exports, and say what we say: HTA, AORTA, pandas.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rsys_tests::{Scratch, TestResult, answer, skip_if_missing};
use serde_json::Value;

use super::training::{RANKS, STEPS, missing_readers, near, read_by, training, with};
use super::{export, number, rows, same};

/// How long fills took, which overlap no kernel.
fn fills_ns(inputs: &[&Path]) -> Result<f64> {
    let sql = "select sum(duration_ns) as n from operations where kind = 'fill'";
    Ok(number(inputs, sql)? as f64)
}

#[test]
fn hta_breaks_down_what_we_break_down() -> TestResult {
    skip_if_missing!(missing_readers());
    let scratch = Scratch::new("export-hta")?;
    let traces = training(&scratch)?;
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let folder = scratch.path().join("kineto");
    export(&inputs, "kineto", &folder, &["--each-rank"])?;
    let found = read_by("hta_answers.py", &folder)?;
    let timeline = answer("timeline", &traces)?;
    // HTA moves each begin and each end by less than a microsecond; a step has eight operations.
    for (key, rounding_us) in [("exact", 0.01), ("rounded", (STEPS * 16) as f64)] {
        let found = &found[key];
        for rank in 0..RANKS {
            let of_rank = Value::from(rank);
            let of_trace = &inputs[rank as usize..=rank as usize];
            ensure!(
                found["ranks"][rank.to_string()] == rank,
                "{}",
                found["ranks"]
            );
            ensure!(
                found["hosts"][rank.to_string()] == "node00",
                "{}",
                found["hosts"]
            );
            let devices = &timeline["runs"][0]["devices"];
            let device = with(devices, "rank", &of_rank).next().context("a device")?;
            let ns = |key: &str| device[key].as_f64().with_context(|| key.to_owned());
            let row = with(&found["temporal"], "rank", &of_rank)
                .next()
                .context("a rank")?;
            // Fills are computation to us and memory to HTA.
            let computation_ns = ns("computation_ns")? - fills_ns(of_trace)?;
            for (column, expected_ns) in [
                ("idle_time(us)", ns("idle_ns")?),
                ("compute_time(us)", computation_ns),
                ("non_compute_time(us)", ns("busy_ns")? - computation_ns),
                ("kernel_time(us)", ns("total_ns")?),
            ] {
                near(&row[column], expected_ns / 1e3, rounding_us, column)?;
            }
            let hidden = ns("comm_hidden_share")?;
            ensure!(hidden > 0.3 && hidden < 0.7, "{hidden}");
            let row = with(&found["overlap"], "rank", &of_rank)
                .next()
                .context("a rank")?;
            // Two decimals; rounding moves ends by a microsecond of 250.
            let percent = if key == "exact" { 0.006 } else { 1.0 };
            near(
                &row["comp_comm_overlap_pctg"],
                hidden * 100.0,
                percent,
                "overlap",
            )?;
            let kernels = rows(
                of_trace,
                "select name, count(*) as count, sum(duration_ns) as ns, min(duration_ns) as least, max(duration_ns) as most
                 from operations where kind = 'kernel' group by name",
            )?;
            ensure!(kernels.len() == 5, "{kernels:?}");
            for kernel in kernels {
                let row = with(&found["kernels"], "name", &kernel["name"])
                    .find(|row| row["rank"] == rank);
                let row = row.with_context(|| kernel.to_string())?;
                for (column, expected, moves) in [
                    ("sum (us)", "ns", 2 * STEPS),
                    ("min (us)", "least", 2),
                    ("max (us)", "most", 2),
                ] {
                    let by = if key == "exact" { 0.01 } else { moves as f64 };
                    let expected = kernel[expected].as_f64().context("a number")? / 1e3;
                    near(&row[column], expected, by, column)?;
                }
            }
            // Of launches it knows those of CUDA alone, but bandwidths of copies and fills are there.
            let bandwidths = &found["bandwidths"][rank as usize];
            let sql = "select count(*) as n from operations where kind in ('copy', 'fill')";
            ensure!(
                bandwidths["count"] == number(of_trace, sql)?,
                "{bandwidths}"
            );
        }
        let steps = found["steps"].as_array().context("steps")?.len() as u64;
        // HTA leaves out the last one.
        ensure!(steps >= STEPS - 1, "{steps}");
    }
    let sql = "select host, rank, process from processes order by rank";
    let files = ["rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz"].map(|name| folder.join(name));
    same(&rows(&inputs, sql)?, &rows(&[&files[0], &files[1]], sql)?)?;
    Ok(())
}

#[test]
fn aorta_reads_every_step() -> TestResult {
    skip_if_missing!(missing_readers());
    let scratch = Scratch::new("export-aorta-report")?;
    let traces = training(&scratch)?;
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let folder = scratch.path().join("aorta");
    export(&inputs, "aorta", &folder, &[])?;
    let found = read_by("aorta_report.py", &folder)?;
    ensure!(
        found["summary"]["total_iterations"] == RANKS * STEPS,
        "{found}"
    );
    ensure!(found["summary"]["nan_iterations"] == 0, "{found}");
    ensure!(
        found["summary"]["ranks"] == serde_json::json!([0, 1]),
        "{found}"
    );
    let files = [
        "kernel_trace_findings.csv",
        "kernel_trace_report.html",
        "kernel_trace_summary.json",
    ];
    ensure!(found["files"] == serde_json::json!(files), "{found}");
    let timeline = answer("timeline", &traces)?;
    for device in timeline["runs"][0]["devices"]
        .as_array()
        .context("devices")?
    {
        let sums = &found["sums"][device["rank"].to_string()];
        for (key, ours) in [
            ("compute", "computation_ns"),
            ("allreduce", "total_comm_ns"),
            ("compute_allreduce", "comm_overlapped_by_compute_ns"),
        ] {
            let mut expected = device[ours].as_f64().context("a time")? / 1e6;
            ensure!(expected > 0.0, "{ours}");
            if key == "compute" {
                // Fills are computation to us and other work to AORTA.
                let rank = device["rank"].as_u64().context("a rank")? as usize;
                expected -= fills_ns(&inputs[rank..=rank])? / 1e6;
            }
            near(&sums[key], expected, 1e-4, key)?;
        }
    }
    Ok(())
}

#[test]
fn pandas_adds_up_what_we_add_up() -> TestResult {
    skip_if_missing!(missing_readers());
    let scratch = Scratch::new("export-pandas")?;
    let traces = training(&scratch)?;
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    for format in ["csv", "parquet"] {
        let folder = scratch.path().join(format);
        export(&inputs, format, &folder, &[])?;
        let found = read_by("pandas_tables.py", &folder)?;
        for (table, column) in [
            ("operations", "duration_ns"),
            ("calls", "duration_ns"),
            ("ranges", "duration_ns"),
            ("samples", "weight"),
        ] {
            let sql = format!("select count(*) as n from {table}");
            ensure!(
                found[table]["rows"] == number(&inputs, &sql)?,
                "{format} {table}: {found}"
            );
            let sql = format!("select sum({column}) as n from {table}");
            ensure!(
                found[table][column] == number(&inputs, &sql)?,
                "{format} {table}: {found}"
            );
        }
        for row in rows(
            &inputs,
            "select name, sum(duration_ns) as ns from operations group by name",
        )? {
            let name = row["name"].as_str().context("a name")?;
            ensure!(found["by_name"][name] == row["ns"], "{format}: {row}");
        }
    }
    Ok(())
}
