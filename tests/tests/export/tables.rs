//! Tables of records as files.

use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};
use rsys_tests::{Scratch, TestResult, judge_dir, skip_if_missing};
use serde_json::Value;

use super::{STACK, export, job, rows};

/// Why tables cannot be read by others.
fn missing_readers() -> Option<String> {
    let folder = judge_dir().join("tables");
    (!folder.is_dir())
        .then(|| "DuckDB and Polars are not there: `cargo xtask test` fetches them".to_owned())
}

/// All rows of each table by DuckDB, and what Polars counts and adds up.
const READERS: &str = "
import json, os, sys, duckdb, polars
found = {}
for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    cursor = duckdb.sql(f\"select * from '{path}'\")
    keys = cursor.columns
    table = [dict(zip(keys, row)) for row in cursor.fetchall()]
    frame = polars.read_parquet(path)
    assert frame.columns == list(keys), name
    for key in keys:
        assert frame[key].to_list() == [row[key] for row in table], (name, key)
    found[name.removesuffix('.parquet')] = table
print(json.dumps(found))
";

#[test]
fn duckdb_and_polars_read_every_row_of_parquet_files() -> TestResult {
    skip_if_missing!(STACK.missing());
    skip_if_missing!(missing_readers());
    let scratch = Scratch::new("export-parquet")?;
    let [first, second] = job()?;
    let both = [first.as_path(), second.as_path()];
    let folder = scratch.path().join("tables");
    export(&both, "parquet", &folder, &[])?;
    let output = Command::new("python3")
        .args(["-c", READERS])
        .arg(&folder)
        .env("PYTHONPATH", judge_dir().join("tables"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let found = found.as_object().context("tables")?;
    for needed in [
        "operations",
        "calls",
        "samples",
        "waits",
        "stacks",
        "counters",
        "processes",
    ] {
        ensure!(found.contains_key(needed), "{needed}");
    }
    for (table, of_table) in found {
        let expected = rows(&both, &format!("select * from {table}"))?;
        let of_table = of_table.as_array().context("rows")?;
        ensure!(expected.len() == of_table.len(), "{table}");
        for (expected, found) in expected.iter().zip(of_table) {
            // Measured numbers are whole in one text and not in the other.
            let is_same = |(key, value): (&String, &Value)| {
                *value == found[key]
                    || value
                        .as_f64()
                        .is_some_and(|value| found[key].as_f64() == Some(value))
            };
            let expected = expected.as_object().context("a row")?;
            ensure!(
                expected.iter().all(is_same),
                "{table}: {expected:?}\nbut\n{found}"
            );
        }
    }
    Ok(())
}

#[test]
fn parquet_files_hold_the_rows_that_are_chosen() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-parquet-part")?;
    let folder = scratch.path().join("samples");
    export(&[&job()?[0]], "parquet", &folder, &["--only", "samples"])?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    ensure!(names.contains(&"samples.parquet".to_owned()), "{names:?}");
    ensure!(
        !names.contains(&"operations.parquet".to_owned()),
        "{names:?}"
    );
    Ok(())
}
