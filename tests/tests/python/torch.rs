//! Operators of PyTorch, against PyTorch's own profiler.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{entering, runtimes_dir};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, Trace, answer, judged, report, skip_if_missing,
    workspace_dir,
};
use serde_json::Value;

/// The system's Python with PyTorch, and the program.
fn program() -> Invocation {
    let script = workspace_dir().join("tests/workloads/torch_operators.py");
    Invocation::new("/usr/bin/python3").arg(script)
}

fn missing_torch() -> Option<String> {
    let has_torch = Command::new("/usr/bin/python3")
        .args(["-c", "import torch"])
        .output()
        .is_ok_and(|output| output.status.success());
    (!has_torch).then(|| "no PyTorch of the system".to_owned())
}

/// How often each operator ran, by name and shapes.
type Counts = BTreeMap<String, i64>;

/// What PyTorch's profiler has counted.
fn told(outcome: &Outcome) -> Counts {
    let lines = outcome.stdout.lines();
    lines
        .filter_map(|line| {
            let (count, what) = line.strip_prefix("told: ")?.split_once(' ')?;
            Some((what.to_owned(), count.parse().ok()?))
        })
        .collect()
}

/// What a trace has between the marks. Tensors without dimensions are nothing to PyTorch's profiler.
fn recorded(trace: &Trace) -> anyhow::Result<Counts> {
    let rows = trace.query(
        "select s.name, extract_arg(s.arg_set_id, 'debug.shapes') as shapes, count(*) as count
         from slice s join slice w on w.name = 'window' and s.ts > w.ts and s.ts < w.ts + w.dur
         where s.category = 'torch' group by 1, 2",
    )?;
    let mut counts = Counts::new();
    for row in rows.iter() {
        let shapes = row.cell("shapes")?.as_text().unwrap_or_default();
        let shapes = shapes
            .replace("[] ", "")
            .replace(" []", "")
            .replace("[]", "");
        let what = format!("{}|{shapes}", row.text("name")?);
        *counts.entry(what).or_default() += row.int("count")?;
    }
    Ok(counts)
}

/// What `rsys-report functions --by shapes` has of a trace.
fn answered(trace: &Path) -> anyhow::Result<Counts> {
    let output = Command::new(report()?)
        .args(["functions", "--by", "shapes", "--json"])
        .arg(trace)
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    judged(&answer);
    let rows = answer["recorded"].as_array().context("recorded")?;
    let counts = rows.iter().map(|row| {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let what = format!("{}|{}", text("function"), text("shapes"));
        Some((what, row["count"].as_i64()?))
    });
    counts.collect::<Option<_>>().context("counts")
}

/// The same of all operators of a trace, by a query.
fn queried(trace: &Trace) -> anyhow::Result<Counts> {
    let rows = trace.query(
        "select name || '|' || coalesce(extract_arg(arg_set_id, 'debug.shapes'), '') as what, count(*) as count
         from slice where category = 'torch' group by 1",
    )?;
    let counts = rows
        .iter()
        .map(|row| Ok((row.text("what")?.to_owned(), row.int("count")?)));
    counts.collect()
}

#[test]
fn operators_are_those_that_pytorchs_profiler_counts() -> TestResult {
    skip_if_missing!(missing_torch());
    let bare = Run::bare().command(program().args(["count"])).run()?;
    let truth = told(bare.expect_success());
    assert!(truth.len() > 30, "{}", bare.story());
    let outcome = Run::new()
        .options(["-I", "torch", "--torch-shapes"])
        .command(program().args(["count"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert_eq!(recorded(&trace)?, truth, "{}", outcome.story());
    // PyTorch's profiler gets everything as well.
    assert_eq!(told(&outcome), truth, "{}", outcome.story());
    let functions = answer("functions", std::slice::from_ref(&outcome.output))?;
    let operators = functions["recorded"].as_array().context("recorded")?;
    let answered: i64 = operators
        .iter()
        .filter_map(|one| one["count"].as_i64())
        .sum();
    let all = trace.number("select count(*) from slice where category = 'torch'")?;
    assert_eq!(answered, all, "{operators:?}");
    let counts = queried(&trace)?;
    assert!(
        counts.keys().any(|what| what.contains("|[16, 64]")),
        "{counts:?}"
    );
    assert_eq!(self::answered(&outcome.output)?, counts);
    // Without PyTorch's profiler, and without being asked for shapes.
    let outcome = Run::new()
        .options(["-I", "torch"])
        .command(program())
        .run()?;
    let mut names = Counts::new();
    for (what, count) in truth {
        let name = what.split('|').next().unwrap_or_default();
        *names.entry(format!("{name}|")).or_default() += count;
    }
    let trace = outcome.expect_success().trace()?;
    assert_eq!(recorded(&trace)?, names, "{}", outcome.story());
    Ok(())
}

/// What `torch.compile` makes for processors: each run of a kernel is a range with its name, the Python that calls it and the C++ that it is made of have lines.
#[test]
#[ignore = "needs `cargo xtask runtimes torch`, which is large"]
fn kernels_of_torch_compile_have_names_and_lines() -> TestResult {
    let tree = runtimes_dir().join("torch");
    ensure!(tree.join(".complete").is_file(), "PyTorch 2 is missing");
    let scratch = Scratch::new("torch-compiled")?;
    let libraries = "/usr/lib/x86_64-linux-gnu";
    let program = Invocation::new("/usr/bin/env")
        .args([
            &format!("LD_LIBRARY_PATH={libraries}:{libraries}/blas:{libraries}/lapack"),
            "/usr/bin/python3.13",
        ])
        .arg(workspace_dir().join("tests/workloads/torch_compiled.py"))
        .arg(scratch.path())
        .arg("2");
    let outcome = Run::new()
        .freq(500)
        .options(["-I", "torch"])
        .command(entering(&tree).program(program))
        .run()?;
    let [runs, cpu_ns] = ["runs", "cpu_ns"].map(|name| outcome.number(name));
    let (runs, cpu_ns) = (runs?, cpu_ns?);
    let trace = outcome.expect_success().trace_of("python3.13")?;
    trace.assert_clean();
    let within = trace.number(
        "select count(*) from slice s join slice p on s.parent_id = p.id
         where s.name glob 'graph_*_cpp_fused_*tanh*' and p.name glob 'Torch-Compiled Region*'",
    )?;
    assert_eq!(within as f64, runs, "{}", outcome.story());
    let output = Command::new(report()?)
        .args(["functions", "--by", "line", "--json"])
        .arg(&outcome.output)
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    judged(&answer);
    let rows = answer["functions"].as_array().context("functions")?;
    let mut kernel_ns = 0.0;
    let mut calls_a_kernel = false;
    for row in rows {
        let (Some(source), Some(line)) = (row["source"].as_str(), row["line"].as_u64()) else {
            continue;
        };
        if !Path::new(source).starts_with(scratch.path().join("made")) {
            continue;
        }
        let text = fs::read_to_string(source)?;
        let text = text.lines().nth(line as usize - 1).context("a line")?;
        match row["function"].as_str().unwrap_or_default() {
            // Lines of the kernel: each sample within is at one of them.
            "kernel" => kernel_ns += row["total_ns"].as_f64().unwrap_or(0.0),
            name if name.starts_with("call (") => calls_a_kernel |= text.contains("cpp_fused_"),
            _ => {}
        }
    }
    assert!(calls_a_kernel, "{rows:?}");
    assert!(
        (0.8..1.2).contains(&(kernel_ns / cpu_ns)),
        "{kernel_ns} of {cpu_ns}: {}",
        outcome.story()
    );
    Ok(())
}
