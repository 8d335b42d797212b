//! How well the time of GPUs was used, against PyTorch's own counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::{Scratch, TestResult, report, skip_if_missing, workspace_dir};
use serde_json::Value;

/// A Python whose PyTorch counts operations: that of `RSYS_TORCH_PYTHON`, or the system's.
fn python() -> Option<PathBuf> {
    let own = std::env::var_os("RSYS_TORCH_PYTHON").map(PathBuf::from);
    let candidates = own
        .into_iter()
        .chain(["python3", "/usr/bin/python3"].map(PathBuf::from));
    let mut fitting = candidates.filter(|python| {
        let mut command = Command::new(python);
        command.args(["-c", "import torch.utils.flop_counter"]);
        command.output().is_ok_and(|output| output.status.success())
    });
    fitting.next()
}

/// What a case's kernel says: the operator, the number, operations and bytes.
fn told(kernels: &str) -> Option<(&str, u64, u64)> {
    let mut words = kernels.strip_prefix("case ")?.split(' ');
    let (operator, _) = (words.next()?, words.next()?);
    Some((
        operator,
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
    ))
}

/// Compares all cases of a file; how many there were of each operator.
fn compared(file: &Path) -> Result<BTreeMap<String, usize>> {
    let output = Command::new(report()?)
        .args(["efficiency", "--by", "kernel", "--json"])
        .arg(file)
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let rows = found["efficiency"].as_array().context("efficiency")?;
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    for row in rows {
        let kernels = row["kernels"].as_str().context("kernels")?;
        let (operator, operations, bytes) = told(kernels).context("a case")?;
        let counted = (row["flop"].as_u64(), row["moved_bytes"].as_u64());
        if counted != (Some(operations), Some(bytes)) {
            wrong.push(format!("{kernels}: {counted:?} {}", row["why"]));
        }
        *counts.entry(operator.to_owned()).or_default() += 1;
    }
    ensure!(
        wrong.is_empty(),
        "{} of {}: {:#?}",
        wrong.len(),
        rows.len(),
        &wrong[..wrong.len().min(20)]
    );
    Ok(counts)
}

#[test]
#[ignore = "needs a PyTorch with torch.utils.flop_counter: RSYS_TORCH_PYTHON names its Python"]
fn operations_and_bytes_are_those_that_pytorch_counts() -> TestResult {
    let python = python();
    skip_if_missing!(
        python
            .is_none()
            .then(|| "no PyTorch with torch.utils.flop_counter".to_owned())
    );
    let python = python.context("a Python")?;
    let scratch = Scratch::new("efficiency")?;
    let file = scratch.path().join("trace.json");
    let script = workspace_dir().join("tests/workloads/operator_work.py");
    let output = Command::new(python)
        .arg(script)
        .arg(&file)
        .arg("200")
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let counts = compared(&file)?;
    assert!(counts.len() > 45, "{counts:?}");
    assert!(counts.values().sum::<usize>() >= 33 * 200, "{counts:?}");
    Ok(())
}
