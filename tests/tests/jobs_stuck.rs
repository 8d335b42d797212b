//! A job that hangs in a collective, and is ended.

use anyhow::ensure;
use rsys_tests::simgpu::RanksOnGpus;
use rsys_tests::{Run, TestResult, answer, script, skip_if_missing};

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
