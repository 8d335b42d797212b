//! Who launched the work, and which operators took the time: what `rsys-report launch` answers.

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Outcome, Run, TestResult, Trace, answer, missing_python_module, python, share_bound,
    skip_if_missing, workload,
};
use serde_json::Value;

fn launch(outcome: &Outcome) -> Result<Value> {
    answer("launch", &outcome.files())
}

fn rows<'a>(answer: &'a Value, table: &str) -> Result<&'a Vec<Value>> {
    answer[table]
        .as_array()
        .with_context(|| format!("no {table} in {answer}"))
}

fn number(row: &Value, key: &str) -> Result<u64> {
    row[key].as_u64().with_context(|| format!("{key} of {row}"))
}

fn sum(rows: &[Value], key: &str) -> Result<u64> {
    rows.iter().map(|row| number(row, key)).sum()
}

#[test]
fn operators_have_the_cpu_time_that_they_took() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(workload("operators").args(["--seconds", "5"]))
        .run()?;
    outcome.expect_success();
    let answer = launch(&outcome)?;
    let operators = rows(&answer, "cpu_operators")?;
    let total_ns = sum(operators, "exclusive_ns")?;
    let samples = outcome.trace()?.samples()?;
    let weights = samples.weight();
    ensure!(
        total_ns as f64 == weights * 1e6,
        "{total_ns} ns of {weights} samples"
    );
    // On a busy machine a sample stands for several periods.
    let draws = samples.shares(|_| true)?.draws();

    let true_ns = ["add", "addmm", "none"].map(|name| outcome.number(name));
    let [add_ns, addmm_ns, none_ns] = true_ns;
    let (add_ns, addmm_ns, none_ns) = (add_ns?, addmm_ns?, none_ns?);
    let whole_ns = add_ns + addmm_ns + none_ns;
    let linear_ns = outcome.number("linear")?;
    let cases = [
        ("aten::add_", "exclusive_ns", add_ns),
        ("aten::addmm", "exclusive_ns", addmm_ns),
        ("aten::linear", "inclusive_ns", linear_ns),
    ];
    for (operator, key, expected_ns) in cases {
        let row = operators.iter().find(|row| row["operator"] == operator);
        let row = row.with_context(|| format!("no {operator} in {answer}"))?;
        let (found, expected) = (
            number(row, key)? as f64 / total_ns as f64,
            expected_ns / whole_ns,
        );
        let bound = share_bound(expected, draws);
        ensure!(
            (found - expected).abs() <= bound,
            "{row}: {expected} ± {bound}"
        );
    }
    // The kernel that `addmm` calls is a part of it.
    let names: Vec<&Value> = operators.iter().map(|row| &row["operator"]).collect();
    ensure!(names.len() == 4, "{names:?}");
    Ok(())
}

rsys_tests::on_every_stack! {
    the_time_of_kernels_is_divided_without_rest;
}

fn the_time_of_kernels_is_divided_without_rest(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?
        .gpus(2)
        .config("[[kernel]]\nname = 'spin'\nmicroseconds = 300\n")?;
    let program = hip_program(stack, "hip_ops")?.args(["work", "500", "20"]);
    let outcome = Run::new()
        .options(["-I", "rocm"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let kernels = outcome.trace_of("hip_ops")?.query(
        "select count(*) as kernels, sum(dur) as total from slice where category = 'kernel'",
    )?;
    let kernels = kernels.iter().next().context("kernels")?;
    let (count, total_ns) = (kernels.int("kernels")?, kernels.int("total")?);
    let answer = launch(&outcome)?;
    for table in [
        "gpu_operators",
        "gpu_functions",
        "launch_tree",
        "launch_calls",
    ] {
        let found_ns = sum(rows(&answer, table)?, "exclusive_ns")?;
        ensure!(
            i64::try_from(found_ns)? == total_ns,
            "{table}: {found_ns}, not {total_ns}: {answer}"
        );
    }
    let functions = rows(&answer, "gpu_functions")?;
    let main = functions.iter().find(|row| row["function"] == "main");
    let main = main.with_context(|| format!("no main in {answer}"))?;
    ensure!(
        number(main, "inclusive_ns")? * 10 > total_ns.unsigned_abs() * 9,
        "{main} of {total_ns}"
    );

    let delays = rows(&answer, "launch_delays")?;
    let launched: u64 = sum(delays, "count")? + sum(delays, "unlinked_count")?;
    ensure!(launched >= count.unsigned_abs(), "{launched} of {count}");
    ensure!(sum(delays, "unlinked_count")? == 0, "{delays:?}");
    for depth in rows(&answer, "queue_depth")? {
        ensure!(number(depth, "max_depth")? >= 1, "{depth}");
        ensure!(
            number(depth, "none_waiting_ns")? <= number(depth, "span_ns")?,
            "{depth}"
        );
    }
    Ok(())
}

/// Real operators, without any help of the framework, against what its own profiler measures in the same run.
#[test]
fn operators_of_pytorch_have_the_time_that_its_profiler_measures() -> TestResult {
    // Where each stands for one period, five percent of a share of three tenths are four standard deviations of so many.
    const SAMPLES: f64 = 7.0 / 3.0 * (4.0 / 0.05) * (4.0 / 0.05);
    skip_if_missing!(missing_python_module("torch"));
    let outcome = Run::new()
        .freq(1000)
        .command(python("operators_torch.py").arg((SAMPLES / 1000.0).to_string()))
        .run()?;
    outcome.expect_success();
    let answer = launch(&outcome)?;
    let operators = rows(&answer, "cpu_operators")?;
    let measured: Vec<(&str, f64)> = outcome
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("aten.")?.split_once('='))
        .filter_map(|(name, time_ns)| Some((name, time_ns.parse().ok()?)))
        .collect();
    let whole_ns: f64 = measured.iter().map(|(_, time_ns)| time_ns).sum();
    let found_ns = |name: &str| {
        let row = operators
            .iter()
            .find(|row| row["operator"] == format!("aten::{name}"));
        row.and_then(|row| row["exclusive_ns"].as_f64())
            .unwrap_or(0.0)
    };
    let whole_found_ns: f64 = measured.iter().map(|(name, _)| found_ns(name)).sum();
    // On a busy machine a sample stands for several periods.
    let summary = outcome.summaries.iter().max_by_key(|one| one.samples);
    let summary = summary.context("no process")?;
    let trace = Trace::load(&summary.path, Some(summary.clone()))?;
    let all = trace.samples()?.shares(|_| true)?;
    let draws = whole_found_ns * 1e-6 * all.draws() / all.weight;
    ensure!(
        whole_found_ns >= SAMPLES * 0.8e6,
        "{whole_found_ns} ns are too few to judge shares: {answer}"
    );
    let mut judged = 0;
    for (name, time_ns) in &measured {
        let (found, expected) = (found_ns(name) / whole_found_ns, time_ns / whole_ns);
        if expected >= 0.3 {
            let bound = share_bound(expected, draws);
            let is_near = (found - expected).abs() <= bound;
            ensure!(
                is_near,
                "{name}: {found}, not {expected} ± {bound}: {answer}"
            );
            judged += 1;
        }
    }
    ensure!(judged >= 2, "{measured:?}");
    Ok(())
}
