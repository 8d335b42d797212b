//! `rsys-report diff`: what became slower between two runs, and what is chance.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rsys_tests::{Run, Scratch, TestResult, judged, report, workload};
use serde_json::Value;

/// Numbers that look like chance (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// About normal, around 0 with a deviation of 1.
    fn deviate(&mut self) -> f64 {
        let uniform = |_| (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(uniform).sum::<f64>() - 6.0
    }
}

const KERNELS: usize = 50;

/// A run as PyTorch's profiler writes it: kernels whose durations vary by 3 %, one of which takes `slower` times its time.
fn training(folder: &Path, name: &str, seed: u64, slower: f64) -> Result<PathBuf> {
    let mut random = Random(seed);
    let mut events = String::new();
    let mut time_ns = 1_000_000_u64;
    for launch in 0..60 * KERNELS {
        let kernel = launch % KERNELS;
        let mean_ns = 20_000.0 + 3_000.0 * kernel as f64;
        let factor = if kernel == 7 { slower } else { 1.0 };
        let duration_ns = (mean_ns * factor * (1.0 + 0.03 * random.deviate())) as u64;
        write!(
            events,
            r#"{}{{"ph":"X","cat":"kernel","name":"kernel_{}","pid":0,"tid":7,"ts":{}.{:03},"dur":{}.{:03},"args":{{"device":0,"stream":7,"correlation":{}}}}}"#,
            if launch == 0 { "" } else { ",\n" },
            char::from(b'A' + (kernel / 26) as u8).to_string()
                + &char::from(b'a' + (kernel % 26) as u8).to_string(),
            time_ns / 1000,
            time_ns % 1000,
            duration_ns / 1000,
            duration_ns % 1000,
            launch + 1,
        )?;
        time_ns += duration_ns + 2_000;
    }
    let path = folder.join(format!("{name}.trace.json"));
    std::fs::write(&path, format!("{{\"traceEvents\":[\n{events}\n]}}"))?;
    Ok(path)
}

fn diff(words: &[&str], paths: [&Path; 2]) -> Result<Output> {
    let mut command = Command::new(report()?);
    let output = command.arg("diff").args(paths).args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!said.contains("panicked"), "{said}");
    Ok(output)
}

fn json(words: &[&str], paths: [&Path; 2]) -> Result<(Value, Option<i32>)> {
    let output = diff(&[&["--json"], words].concat(), paths)?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    judged(&answer);
    Ok((answer, output.status.code()))
}

fn rows<'v>(answer: &'v Value, table: &str) -> &'v [Value] {
    answer[table].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn two_runs_of_the_same_program_show_no_change() -> TestResult {
    let folder = Scratch::new("diff-same")?;
    let mut quiet = 0;
    for pair in 0..100 {
        let one = training(folder.path(), "one", 2 * pair, 1.0)?;
        let other = training(folder.path(), "other", 2 * pair + 1, 1.0)?;
        let (answer, code) = json(&["--fail-above", "1%"], [&one, &other])?;
        let kernels = rows(&answer, "diff_kernels");
        assert_eq!(kernels.len(), KERNELS);
        let is_quiet = kernels
            .iter()
            .all(|kernel| kernel["verdict"] == "no change");
        assert_eq!(code, Some(i32::from(!rows(&answer, "failures").is_empty())));
        quiet += usize::from(is_quiet);
    }
    println!("{quiet} of 100 pairs without a change");
    assert!(quiet >= 95, "{quiet}");
    Ok(())
}

#[test]
fn a_kernel_that_is_slower_by_three_percent_is_found_among_fifty() -> TestResult {
    let folder = Scratch::new("diff-slower")?;
    let mut found = 0;
    let mut alone = 0;
    for pair in 0..100 {
        let one = training(folder.path(), "one", 1_000 + 2 * pair, 1.0)?;
        let other = training(folder.path(), "other", 1_001 + 2 * pair, 1.03)?;
        let (answer, code) = json(&["--fail-above", "1%"], [&one, &other])?;
        let slower = rows(&answer, "diff_kernels").iter();
        let slower: Vec<_> = slower
            .filter(|kernel| kernel["verdict"] == "slower")
            .collect();
        let failures = rows(&answer, "failures");
        let is_found = slower.iter().any(|kernel| kernel["name"] == "kernel_Ah")
            && failures.iter().any(|one| one["name"] == "kernel_Ah")
            && code == Some(1);
        found += usize::from(is_found);
        alone += usize::from(slower.len() == 1);
    }
    println!("found in {found} of 100 pairs, alone in {alone}");
    assert!(found >= 95 && alone >= 90, "{found} {alone}");
    Ok(())
}

#[test]
fn slower_collectives_may_have_waited() -> TestResult {
    let folder = Scratch::new("diff-collectives")?;
    let one = training(folder.path(), "one", 1, 1.0)?;
    let other = training(folder.path(), "other", 2, 1.2)?;
    let notes = |answer: &Value| answer["notes"].to_string();
    let (answer, _) = json(&[], [&one, &other])?;
    assert!(
        !notes(&answer).contains("rsys-report collectives"),
        "{answer}"
    );
    // The one that is slower.
    for path in [&one, &other] {
        let text = std::fs::read_to_string(path)?;
        std::fs::write(path, text.replace("kernel_Ah\"", "ncclDevKernel_Generic\""))?;
    }
    let (answer, _) = json(&[], [&one, &other])?;
    assert!(
        notes(&answer).contains("rsys-report collectives"),
        "{answer}"
    );
    let (answer, _) = json(&[], [&other, &one])?;
    assert!(
        !notes(&answer).contains("rsys-report collectives"),
        "{answer}"
    );
    Ok(())
}

#[test]
fn sides_that_did_not_do_the_same_work_are_told() -> TestResult {
    let folder = Scratch::new("diff-amounts")?;
    let one = training(folder.path(), "one", 1, 1.0)?;
    let says = |answer: &Value| {
        answer["notes"]
            .to_string()
            .contains("do not do the same work")
    };
    let other = training(folder.path(), "other", 2, 1.0)?;
    let (answer, _) = json(&[], [&one, &other])?;
    assert!(!says(&answer), "{answer}");
    // Two kernels of three are calls of nobody knows what.
    let text = std::fs::read_to_string(&other)?;
    let lines = text.lines().enumerate();
    let lines = lines.map(|(number, line)| match number % 3 {
        0 => line.to_owned(),
        _ => line.replace("\"kernel\"", "\"other\""),
    });
    std::fs::write(&other, lines.collect::<Vec<_>>().join("\n"))?;
    let (answer, _) = json(&[], [&one, &other])?;
    assert!(says(&answer), "{answer}");
    Ok(())
}

#[test]
fn identical_inputs_differ_by_exactly_nothing() -> TestResult {
    let folder = Scratch::new("diff-identical")?;
    let one = training(folder.path(), "one", 5, 1.0)?;
    let other = training(folder.path(), "other", 5, 1.0)?;
    let (answer, code) = json(&["--fail-above", "0%"], [&one, &other])?;
    assert_eq!(code, Some(0));
    for table in ["diff_times", "diff_kernels", "diff_idle"] {
        let rows = rows(&answer, table);
        assert!(!rows.is_empty(), "{table}");
        for row in rows {
            assert_eq!(row["verdict"], "no change", "{row}");
            for key in ["change_share", "low_share", "high_share", "effect_ns"] {
                assert_eq!(row[key].as_f64(), Some(0.0), "{key} of {row}");
            }
        }
    }
    // Three runs of each side are told as such, in the same words each time.
    let more = one.to_string_lossy().into_owned();
    let repeated = [
        "--reference",
        &more,
        "--reference",
        &more,
        "--candidate",
        &more,
        "--candidate",
        &more,
    ];
    let outputs = [
        diff(&repeated, [&one, &other])?,
        diff(&repeated, [&one, &other])?,
    ];
    assert_eq!(outputs[0].stdout, outputs[1].stdout);
    let text = String::from_utf8_lossy(&outputs[0].stdout).into_owned();
    assert!(!text.contains("fewer than three runs"), "{text}");
    Ok(())
}

#[test]
fn overlap_is_compared_by_the_three_numbers_of_aorta() -> TestResult {
    let folder = Scratch::new("diff-overlap")?;
    // 10 of computation, and a collective that runs for 4: all of them at the same time, or 2.
    let run = |name: &str, from: u64| -> Result<PathBuf> {
        let event = |name: &str, stream: u64, from: u64, duration: u64| {
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{from},"dur":{duration},"args":{{"device":0,"stream":{stream}}}}}"#
            )
        };
        let events = [
            event("gemm", 7, 0, 10),
            event("inner", 8, 2, 2),
            event("ncclDevKernel_AllReduce_Sum_f32", 9, from, 4),
        ];
        let path = folder.path().join(format!("{name}.trace.json"));
        std::fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(",")))?;
        Ok(path)
    };
    let (answer, _) = json(&[], [&run("reference", 5)?, &run("candidate", 8)?])?;
    let comparison = &rows(&answer, "comparison")[0];
    for (key, ratio) in [
        ("reference_overlap_ratio", 0.4),
        ("candidate_overlap_ratio", 0.2),
        ("ratio_delta", -0.2),
    ] {
        let found = comparison[key].as_f64();
        assert!(
            found.is_some_and(|found| (found - ratio).abs() < 1e-12),
            "{key}: {comparison}"
        );
    }
    Ok(())
}

#[test]
fn kernels_come_go_and_are_renamed() -> TestResult {
    let folder = Scratch::new("diff-renamed")?;
    let one = training(folder.path(), "one", 5, 1.0)?;
    let text = std::fs::read_to_string(&one)?;
    let text = text
        .replace("kernel_Aa\"", "fused_add_3\"")
        .replace("kernel_Ab\"", "gone|kernel\"");
    std::fs::write(&one, text)?;
    let other = training(folder.path(), "other", 5, 1.0)?;
    let text = std::fs::read_to_string(&other)?;
    let text = text
        .replace("kernel_Aa\"", "fused_add_17\"")
        .replace("kernel_Ab\"", "a_new_kernel\"");
    std::fs::write(&other, text)?;
    let (answer, _) = json(&[], [&one, &other])?;
    let kernel = |name: &str| {
        let mut kernels = rows(&answer, "diff_kernels").iter();
        kernels
            .find(|kernel| kernel["name"] == name)
            .cloned()
            .with_context(|| name.to_owned())
    };
    assert_eq!(kernel("fused_add_17")?["reference_name"], "fused_add_3");
    assert_eq!(kernel("fused_add_17")?["verdict"], "no change");
    assert_eq!(kernel("a_new_kernel")?["verdict"], "new");
    assert_eq!(kernel("gone|kernel")?["verdict"], "gone");
    let markdown = diff(&["--markdown"], [&one, &other])?.stdout;
    let markdown = String::from_utf8(markdown)?;
    assert!(
        markdown.contains("| gone\\|kernel |") && markdown.len() < 20_000,
        "{markdown}"
    );
    let csv = String::from_utf8(diff(&["--csv"], [&one, &other])?.stdout)?;
    assert_eq!(csv.lines().count(), 1 + KERNELS + 1, "{csv}");
    assert!(csv.starts_with("name,reference_name,"), "{csv}");
    Ok(())
}

#[test]
fn functions_of_a_real_program_that_works_more_are_slower() -> TestResult {
    let record = |seconds: &str| {
        let program = workload("hotspots").args(["--threads", "1", "--seconds", seconds]);
        let outcome = Run::new().freq(500).command(program).run()?;
        outcome.expect_success();
        anyhow::Ok(outcome)
    };
    let (short, long) = (record("1")?, record("1.6")?);
    let (answer, code) = json(&["--fail-above", "10%"], [&short.output, &long.output])?;
    assert_eq!(code, Some(1));
    let failures = rows(&answer, "failures");
    let is_named = |row: &&Value| {
        row["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("alpha_heavy"))
    };
    let heavy = failures
        .iter()
        .find(is_named)
        .with_context(|| format!("{answer:#}"))?;
    let change = heavy["change_share"].as_f64().context("a change")?;
    assert!((0.3..1.0).contains(&change), "{heavy}");
    let (answer, code) = json(&["--fail-above", "10%"], [&long.output, &short.output])?;
    let failures = rows(&answer, "failures");
    // What the loader did before may have been slower in the second run.
    let is_of_loader = |row: &Value| {
        let name = row["name"].as_str().unwrap_or_default();
        let own = ["alpha_", "beta_", "worker", "main"];
        row["kind"] == "function" && !own.iter().any(|start| name.starts_with(start))
    };
    assert!(
        failures.iter().all(is_of_loader),
        "what became faster fails nothing: {answer:#}"
    );
    assert_eq!(code, Some(i32::from(!failures.is_empty())), "{answer:#}");
    Ok(())
}

#[test]
fn wrong_input_is_told() -> TestResult {
    let folder = Scratch::new("diff-wrong")?;
    let one = training(folder.path(), "one", 5, 1.0)?;
    let nowhere = folder.path().join("nowhere");
    for (words, paths, code, said) in [
        (
            &["--fail-above", "much"][..],
            [one.as_path(), &one],
            2,
            "not a percentage",
        ),
        (&[], [&one, &nowhere], 1, "nowhere"),
    ] {
        let output = diff(words, paths)?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(said), "{error}");
    }
    Ok(())
}
