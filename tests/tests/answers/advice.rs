//! What `rsys-report advice` finds in labelled runs: programs with one planted fault each, at a known place, and healthy ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Invocation, Outcome, Run, TestResult, answer, python, skip_if_missing, workload};
use serde_json::Value;

/// Slow links, so that copies of moderate size take their time without being work for the simulation.
const MACHINE: &str = "
[copies]
host_gb_per_s = 2.0
latency_us = 10.0
[[kernel]]
name = 'long_step'
microseconds = 2000
[[kernel]]
name = 'brief'
microseconds = 50
[[kernel]]
name = 'tiny'
microseconds = 3
[[kernel]]
name = 'step'
microseconds = 300
[[kernel]]
name = 'ncclDevKernel'
microseconds = 800
[[kernel]]
name = 'rcclGeneric'
microseconds = 1500
";

/// A run with `hip_habits`: GPUs, habit, rounds, size; the rule that has to find something, and what its place has to name.
type Case = (
    usize,
    &'static str,
    u32,
    u64,
    Option<(&'static str, &'static str)>,
);

/// A planted fault.
const fn fault(rule: &'static str, place: &'static str) -> Option<(&'static str, &'static str)> {
    Some((rule, place))
}

const CASES: [Case; 34] = [
    (1, "code", 60, 15_000, fault("host_code", "prepares_batch")),
    (
        1,
        "code-of-several",
        25,
        40_000,
        fault("host_code", "parses_records"),
    ),
    (1, "nap", 60, 15_000, fault("host_wait", "naps_between")),
    (
        1,
        "wait-for-thread",
        90,
        10_000,
        fault("host_wait", "waits_for_go"),
    ),
    (1, "input", 60, 20_000, fault("input_wait", "reads_data")),
    (1, "input", 25, 45_000, fault("input_wait", "reads_data")),
    (
        1,
        "sync-each",
        16_000,
        0,
        fault("sync_in_loop", "hipStreamSynchronize"),
    ),
    (
        1,
        "sync-each-few",
        2000,
        6,
        fault("sync_in_loop", "hipDeviceSynchronize"),
    ),
    (
        1,
        "tiny",
        40_000,
        10_000,
        fault("launch_bound", "hipLaunchKernel"),
    ),
    (
        1,
        "tiny-in-turn",
        12_000,
        20_000,
        fault("launch_bound", "hipLaunchKernel"),
    ),
    (
        1,
        "allocate-each",
        16_000,
        1 << 20,
        fault("memory_in_loop", "uses_temporary"),
    ),
    (
        1,
        "allocate-several",
        300,
        64 << 20,
        fault("memory_in_loop", "hip"),
    ),
    (
        1,
        "fetch-each",
        400,
        2 << 20,
        fault("blocking_copies", "fetches"),
    ),
    (
        1,
        "send-each",
        400,
        1 << 20,
        fault("blocking_copies", "sends"),
    ),
    (
        1,
        "pageable-to",
        400,
        2 << 20,
        fault("pageable_copies", "sends_pageable"),
    ),
    (
        1,
        "pageable-from",
        400,
        1 << 20,
        fault("pageable_copies", "fetches_pageable"),
    ),
    (
        1,
        "exposed-to",
        800,
        1 << 20,
        fault("exposed_copies", "hipMemcpyAsync"),
    ),
    (
        1,
        "exposed-from",
        300,
        2 << 20,
        fault("exposed_copies", "hipMemcpyAsync"),
    ),
    (
        1,
        "small-to",
        400,
        512,
        fault("small_copies", "hipMemcpyAsync"),
    ),
    (
        1,
        "small-from",
        200,
        16 << 10,
        fault("small_copies", "hipMemcpyAsync"),
    ),
    (1, "comm-behind", 600, 0, fault("exposed_comm", "GPU 0")),
    (1, "comm-behind-too", 600, 0, fault("exposed_comm", "GPU 0")),
    (2, "unbalanced", 200, 3, fault("gpu_imbalance", "GPU 0")),
    (3, "unbalanced", 200, 2, fault("gpu_imbalance", "GPU 0")),
    (
        1,
        "streams-each",
        100,
        4,
        fault("runtime_calls", "makes_streams"),
    ),
    (
        1,
        "streams-each",
        400,
        1,
        fault("runtime_calls", "makes_streams"),
    ),
    (
        1,
        "late-by-code",
        400,
        2_500_000,
        fault("late_start", "reads_settings"),
    ),
    (
        1,
        "late-by-wait",
        400,
        3_000_000,
        fault("late_start", "waits_for_licence"),
    ),
    (
        1,
        "ends-in-code",
        400,
        2_500_000,
        fault("early_end", "writes_results"),
    ),
    (
        1,
        "ends-in-wait",
        400,
        3_000_000,
        fault("early_end", "waits_for_disk"),
    ),
    (1, "comm-beside", 500, 0, None),
    (1, "steady", 500, 0, None),
    (1, "graph", 50, 0, None),
    (1, "overlapped", 500, 2 << 20, None),
];

/// Healthy, and with several GPUs or with work on the host.
const HEALTHY: [Case; 3] = [
    (2, "balanced", 400, 0, None),
    (1, "ahead", 60, 3_000, None),
    (1, "steady", 3, 0, None),
];

/// What is counted for each rule.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    planted: u32,
    found: u32,
    false_findings: u32,
}

#[derive(Debug, Default)]
struct Scores {
    rules: BTreeMap<String, Score>,
    complaints: Vec<String>,
}

impl Scores {
    /// Compares the findings of a run with its label.
    fn judge(&mut self, name: &str, label: Option<(&str, &str)>, advice: &Value) -> Result<()> {
        let findings = advice["findings"].as_array().context("findings")?;
        if let Some((rule, place)) = label {
            self.rules.entry(rule.to_owned()).or_default().planted += 1;
            let is_it = |finding: &&Value| {
                let found = finding["place"].as_str().unwrap_or_default();
                finding["rule"] == rule && found.contains(place)
            };
            match findings.iter().find(is_it) {
                Some(finding) => {
                    self.rules.entry(rule.to_owned()).or_default().found += 1;
                    is_complete(finding)?;
                }
                None => self
                    .complaints
                    .push(format!("{name}: no {rule} at {place}: {findings:#?}")),
            }
        }
        for finding in findings {
            let rule = finding["rule"].as_str().context("a rule")?;
            if label.is_none_or(|(planted, _)| planted != rule) {
                self.rules
                    .entry(rule.to_owned())
                    .or_default()
                    .false_findings += 1;
                self.complaints
                    .push(format!("{name}: not planted: {finding:#}"));
            }
        }
        Ok(())
    }

    /// What two runs of one case agree in: a busy machine makes any program pause, but not each time by the same rule.
    fn agreed(self, again: Self) -> Self {
        let mut rules = BTreeMap::new();
        for (rule, one) in self.rules {
            let other = again.rules.get(&rule).copied().unwrap_or_default();
            let score = Score {
                planted: one.planted,
                found: one.found.max(other.found),
                false_findings: one.false_findings.min(other.false_findings),
            };
            rules.insert(rule, score);
        }
        Self {
            rules,
            complaints: [self.complaints, again.complaints].concat(),
        }
    }

    fn add(&mut self, other: Self) {
        for (rule, score) in other.rules {
            let sum = self.rules.entry(rule).or_default();
            sum.planted += score.planted;
            sum.found += score.found;
            sum.false_findings += score.false_findings;
        }
        self.complaints.extend(other.complaints);
    }

    /// The sums, as a table by rule; precision and recall of all.
    fn table(&self) -> (String, f64, f64) {
        let mut text = format!("{:20} planted found false\n", "rule");
        let mut sum = Score::default();
        for (rule, score) in &self.rules {
            let Score {
                planted,
                found,
                false_findings,
            } = score;
            text.push_str(&format!(
                "{rule:20} {planted:7} {found:5} {false_findings:5}\n"
            ));
            sum.planted += planted;
            sum.found += found;
            sum.false_findings += false_findings;
        }
        let precision = f64::from(sum.found) / f64::from((sum.found + sum.false_findings).max(1));
        let recall = f64::from(sum.found) / f64::from(sum.planted.max(1));
        text.push_str(&format!("precision {precision:.3}, recall {recall:.3}\n"));
        (text, precision, recall)
    }
}

/// A finding has numbers, a remedy, and a time to look at; what it gives back is no more than the run.
fn is_complete(finding: &Value) -> Result<()> {
    let saves = finding["saves_share"].as_f64().context("saves_share")?;
    ensure!(saves > 0.0 && saves <= 1.0, "{finding:#}");
    ensure!(
        finding["evidence"]
            .as_object()
            .is_some_and(|one| one.len() > 1),
        "{finding:#}"
    );
    ensure!(
        finding["duration_ns"].as_u64().is_some_and(|ns| ns > 0),
        "{finding:#}"
    );
    for key in ["try", "look", "title"] {
        ensure!(
            finding[key].as_str().is_some_and(|text| !text.is_empty()),
            "{finding:#}"
        );
    }
    Ok(())
}

/// Runs with a processor of its own wherever that is allowed: a simulated GPU whose thread has to wait for one is a GPU that pauses.
fn run(command: Invocation) -> Result<Outcome> {
    /// Two programs at once with a priority above others would keep the processors from each other for a tenth of a second each time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let works = std::process::Command::new("chrt")
        .args(["-r", "1", "true"])
        .output();
    let run = match works {
        Ok(tried) if tried.status.success() => Run::new().under(["chrt", "-r", "1"]),
        _ => Run::new(),
    };
    let outcome = run
        .options(["-I", "rocm", "--realtime", "-f", "500"])
        .command(command)
        .run()?;
    outcome.expect_success();
    Ok(outcome)
}

fn judge_cases(stack: Stack, cases: &[Case], scores: &mut Scores) -> Result<()> {
    for &(gpus, habit, rounds, size, label) in cases {
        let machine = Machine::new(stack)?.gpus(gpus).config(MACHINE)?;
        let words = [habit.to_owned(), rounds.to_string(), size.to_string()];
        let program = hip_program(stack, "hip_habits")?.args(words);
        let outcome = run(machine.run(program))?;
        let advice = answer("advice", &outcome.files())?;
        scores.judge(&format!("{habit} {rounds} {size}"), label, &advice)?;
    }
    Ok(())
}

fn corpus_holds(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let judge = |case: Case| -> Result<Scores> {
        let mut scores = Scores::default();
        judge_cases(stack, &[case], &mut scores)?;
        Ok(scores)
    };
    let mut scores = Scores::default();
    for case in CASES {
        let first = judge(case)?;
        scores.add(match first.complaints.is_empty() {
            true => first,
            false => first.agreed(judge(case)?),
        });
    }
    let (table, precision, recall) = scores.table();
    println!("{table}");
    let complaints = scores.complaints.join("\n");
    ensure!(precision >= 0.95 && recall >= 0.9, "{table}{complaints}");
    Ok(())
}

#[test]
fn planted_faults_are_found_at_their_places() -> TestResult {
    corpus_holds(Stack::Wheel54)
}

#[test]
#[ignore = "minutes: the same with another generation of HIP"]
fn planted_faults_are_found_with_newer_runtimes() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing_to_build());
    corpus_holds(Stack::Debian13)
}

/// Nothing is found in programs that have nothing wrong.
#[test]
fn healthy_programs_have_no_findings() -> TestResult {
    skip_if_missing!(Stack::Wheel54.missing_to_build());
    let healthy = CASES.iter().filter(|case| case.4.is_none()).copied();
    for case in healthy.chain(HEALTHY) {
        stays_healthy(|scores| judge_cases(Stack::Wheel54, &[case], scores))?;
    }
    for program in [
        Invocation::from(workload("threads").args(["--count", "4000", "--us", "300"])),
        python("lock_habits.py").args(["calm", "2"]),
    ] {
        stays_healthy(|scores| {
            let advice = answer("advice", &run(program.clone())?.files())?;
            scores.judge("a program without GPUs", None, &advice)
        })?;
    }
    Ok(())
}

/// Runs a healthy program again if something was found: a busy machine makes any program pause, but not each time by the same rule.
fn stays_healthy(judge: impl Fn(&mut Scores) -> Result<()>) -> Result<()> {
    let mut recurring: Option<BTreeSet<String>> = None;
    for _ in 0..3 {
        let mut scores = Scores::default();
        judge(&mut scores)?;
        let mut found: BTreeSet<String> = scores.rules.into_keys().collect();
        found.retain(|rule| {
            recurring
                .as_ref()
                .is_none_or(|before| before.contains(rule))
        });
        if found.is_empty() {
            return Ok(());
        }
        println!("{}", scores.complaints.join("\n"));
        recurring = Some(found);
    }
    bail!("found in each of three runs: {recurring:?}")
}

/// Who computes in Python holds the lock that others wait for.
#[test]
fn a_busy_python_thread_is_named() -> TestResult {
    for habit in ["busy", "busy-two"] {
        let outcome = run(python("lock_habits.py").args([habit, "3"]))?;
        let advice = answer("advice", &outcome.files())?;
        let mut scores = Scores::default();
        scores.judge(habit, Some(("interpreter_lock", "grinds")), &advice)?;
        ensure!(
            scores.complaints.is_empty(),
            "{}",
            scores.complaints.join("\n")
        );
    }
    Ok(())
}

/// A GPU that waits for a thread which waits for that lock: what is said is who holds it, and not a second time that its host waits.
#[test]
fn a_gpu_that_waits_for_the_interpreters_lock_is_one_finding() -> TestResult {
    let stack = Stack::Wheel54;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.config(MACHINE)?;
    let program = python("gpu/lock_holder.py").args(["libamdhip64.so.5", "200"]);
    let advice = answer("advice", &run(machine.run(program))?.files())?;
    let findings = advice["findings"].as_array().context("findings")?;
    let place = |finding: &Value| finding["place"].as_str().unwrap_or_default().to_owned();
    let holder = findings
        .iter()
        .find(|one| one["rule"] == "interpreter_lock");
    ensure!(
        holder.is_some_and(|one| place(one).contains("grinds")),
        "{advice:#}"
    );
    let again = |one: &&Value| place(one).contains("the interpreter's lock");
    ensure!(!findings.iter().any(|one| again(&one)), "{advice:#}");
    Ok(())
}

/// Without waiting threads in the trace, rules that need them say so, and each form of the answer tells the cost of profiling.
#[test]
fn what_is_not_recorded_is_not_judged() -> TestResult {
    let outcome = Run::new()
        .command(workload("threads").args(["--count", "4000", "--us", "300"]))
        .run()?;
    outcome.expect_success();
    let advice = answer("advice", &outcome.files())?;
    let lacking: BTreeSet<&str> = advice["not_judged"]
        .as_array()
        .context("not_judged")?
        .iter()
        .filter(|rule| rule["switch"] == "--realtime")
        .filter_map(|rule| rule["rule"].as_str())
        .collect();
    ensure!(lacking.contains("interpreter_lock"), "{advice}");
    for question in ["advice", "summary", "functions"] {
        let told = answer(question, &outcome.files())?;
        let cost = &told["profiling_cost"][0];
        let samples = cost["samples"].as_u64().context("samples")?;
        ensure!(
            cost["program_estimated_ns"].as_u64() >= Some(samples * 1_000),
            "{cost}"
        );
        ensure!(cost["sampler_cpu_ns"].as_u64() > Some(0), "{cost}");
        ensure!(
            cost["share"].as_f64().is_some_and(|share| share < 1.0),
            "{cost}"
        );
    }
    Ok(())
}
