//! Jobs and programs that hang in a collective or on a GPU, and are ended.

use anyhow::ensure;
use rsys_tests::simgpu::{Machine, RanksOnGpus, Stack, code_object};
use rsys_tests::{
    Invocation, Outcome, Run, TestResult, answer, script, skip_if_missing, workspace_dir,
};

const NEVER: &str = "
[[kernel]]
name = \"long_kernel\"
fault = \"hang\"
";

#[test]
fn who_is_missing_in_a_collective_is_named_with_what_it_does() -> TestResult {
    skip_if_missing!(RanksOnGpus::STACK.missing());
    let job = RanksOnGpus::new("rccl_late.py", "stuck", NEVER)?;
    let line = script(&job.of_all()?);
    let outcome = Run::new()
        .under(job.machine().around().words)
        .options(["-I", "rocm", "rccl", "--realtime"])
        .command(RanksOnGpus::STACK.with_runtimes(line))
        .run()?;
    let answer = answer("stuck", &outcome.files())?;
    let found = &answer["never_done"][0];
    let place = found["missing_place"].as_str().unwrap_or_default();
    ensure!(
        found["operation"] == "ncclBroadcast"
            && found["sequence"] == RanksOnGpus::STEPS
            && found["missing"] == "rank 1"
            && found["waiting"] == "rank 0, 2, 3"
            && place.starts_with("wait_for_data (rccl_late.py:"),
        "{answer:#}"
    );
    let places = answer["last_places"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(places.len() == RanksOnGpus::RANKS, "{answer:#}");
    for row in places {
        let place = row["place"].as_str().unwrap_or_default();
        let expected = match row["rank"].as_u64() {
            Some(1) => "wait_for_data (rccl_late.py:",
            _ => "hipDeviceSynchronize in main (rccl_late.py:",
        };
        ensure!(place.starts_with(expected), "{answer:#}");
    }
    let advice = rsys_tests::answer("advice", &outcome.files())?;
    let first = &advice["findings"][0];
    let place = first["place"].as_str().unwrap_or_default();
    let told = "ncclBroadcast number 20, in which rank 1 is missing: it was at wait_for_data (rccl_late.py:";
    ensure!(
        first["rule"] == "stuck" && place.starts_with(told),
        "{advice:#}"
    );
    Ok(())
}

/// A program that an alarm ends while it waits for a long kernel and many short ones.
fn ended_by_an_alarm(stack: Stack, library: &str, config: &str) -> anyhow::Result<Outcome> {
    let machine = Machine::new(stack)?.config(config)?;
    let script = workspace_dir().join("tests/workloads/gpu/hip_alarm.py");
    let program = Invocation::new("/usr/bin/python3")
        .arg(script)
        .arg(library)
        .arg(code_object("gfx90a")?);
    Run::new()
        .options(["-I", "rocm"])
        .command(machine.run(program))
        .run()
}

fn the_kernel_that_never_ends_is_named(stack: Stack, library: &str) -> TestResult {
    skip_if_missing!(stack.missing());
    let outcome = ended_by_an_alarm(stack, library, NEVER)?;
    let answer = answer("stuck", &outcome.files())?;
    let rows = answer["never_ended"].as_array().map_or(0, Vec::len);
    let found = &answer["never_ended"][0];
    let starts =
        |key: &str, start: &str| found[key].as_str().unwrap_or_default().starts_with(start);
    ensure!(
        rows == 1
            && found["kernel"] == "long_kernel"
            && starts("launch_place", "launch (hip_alarm.py:")
            && found["unended"] == 1_001
            && found["between_ranks"] == "no"
            && found["longest_ended_ns"].is_null()
            && found["call"] == "hipDeviceSynchronize"
            && starts("place", "wait (hip_alarm.py:"),
        "{answer:#}\n{}",
        outcome.story()
    );
    let advice = rsys_tests::answer("advice", &outcome.files())?;
    let findings = advice["findings"].as_array().cloned().unwrap_or_default();
    let place = findings[0]["place"].as_str().unwrap_or_default();
    let told = "long_kernel, launched by launch (hip_alarm.py:";
    ensure!(
        findings[0]["rule"] == "hung_kernel" && place.starts_with(told),
        "{advice:#}"
    );
    ensure!(
        findings.iter().all(|one| one["rule"] != "early_end"),
        "{advice:#}"
    );
    Ok(())
}

#[test]
fn a_kernel_that_never_ends_is_named_with_hip_5() -> TestResult {
    the_kernel_that_never_ends_is_named(Stack::Debian13, "libamdhip64.so.5")
}

#[test]
fn a_kernel_that_never_ends_is_named_with_hip_6() -> TestResult {
    the_kernel_that_never_ends_is_named(Stack::Unstable, "libamdhip64.so.6")
}

fn a_gpu_with_much_to_do_has_not_hung(stack: Stack, library: &str) -> TestResult {
    skip_if_missing!(stack.missing());
    let busy = "[[kernel]]\nname = 'short_kernel'\nmicroseconds = 20000\n";
    let outcome = ended_by_an_alarm(stack, library, busy)?;
    let answer = answer("stuck", &outcome.files())?;
    let rows = answer["never_ended"].as_array().map_or(0, Vec::len);
    ensure!(
        rows == 0 && outcome.status.to_string().contains("SIGALRM"),
        "{answer:#}\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_gpu_with_much_to_do_has_not_hung_with_hip_5() -> TestResult {
    a_gpu_with_much_to_do_has_not_hung(Stack::Debian13, "libamdhip64.so.5")
}

#[test]
fn a_gpu_with_much_to_do_has_not_hung_with_hip_6() -> TestResult {
    a_gpu_with_much_to_do_has_not_hung(Stack::Unstable, "libamdhip64.so.6")
}
