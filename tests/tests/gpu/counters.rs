//! Hardware counters of GPUs: AMD's library programs the simulated ones, which tell what they have counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, Truth, hip_program};
use rsys_tests::{
    Invocation, Outcome, Run, Running, Scratch, TestResult, Trace, run_plain, script,
    skip_if_missing, wait_until,
};

/// Definitions as ROCm has them; `Late` is of a kind that is not computed here.
pub(crate) const DEFINITIONS: &str = "
rocprofiler-sdk:
  counters-schema-version: 1
  counters:
    - name: SQ_WAVES
      description: Waves.
      definitions: [{architectures: [gfx90a, gfx942], block: SQ, event: 4}]
    - name: GRBM_COUNT
      description: Cycles.
      definitions: [{architectures: [gfx90a, gfx942], block: GRBM, event: 0}]
    - name: GRBM_GUI_ACTIVE
      description: Busy cycles.
      definitions: [{architectures: [gfx90a, gfx942], block: GRBM, event: 2}]
    - name: TCC_HIT
      description: Hits.
      definitions: [{architectures: [gfx90a, gfx942], block: TCC, event: 17}]
    - name: Wavefronts
      description: Waves of all engines.
      definitions: [{architectures: [gfx90a, gfx942], expression: 'reduce(SQ_WAVES,sum)'}]
    - name: GPUBusy
      description: Percent.
      definitions: [{architectures: [gfx90a, gfx942], expression: '100*reduce(GRBM_GUI_ACTIVE,max)/reduce(GRBM_COUNT,max)'}]
    - name: Late
      description: Not here.
      definitions: [{architectures: [gfx90a, gfx942], expression: 'accumulate(SQ_WAVES,HIGH_RES)'}]
";

const KERNELS: &str = "[[kernel]]\nname = \"spin\"\nmicroseconds = 300\n[[counter]]\nblock = \"TCC\"\nevent = 17\nper_wave = 3.0\n";

/// As many as the program wants.
const GPUS: usize = 2;

/// So often a counter is read before the program ends.
const READS: usize = 10;

/// In the records of the waves of GPU 0, on which the program runs a kernel after it has run one on the other.
const WAVES: &str = r#""gpu":0,"block":"SQ","event":4,"#;

/// Only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(60);

fn machine(config: &str) -> Result<Machine> {
    Machine::new(Stack::Rocm7)?.gpus(GPUS).config(config)
}

fn missing() -> Option<String> {
    let stack = Stack::Rocm7;
    let beside = || stack.missing_beside("rocm7-counters");
    stack.missing_to_build().or_else(beside)
}

/// The begin of what was counted, and how much that was.
type Reading = (i64, f64);

/// How often the counter with `part` in its records was read up to now and had counted something, by the files in which the machine keeps the truth
/// while it runs.
fn reads_so_far(run: &Running, part: &str) -> usize {
    let folder = std::env::temp_dir().join(format!("rsys-simgpu-{}/truth", run.pid()));
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut ticks = BTreeSet::new();
    for bytes in files.filter_map(|file| fs::read(file.path()).ok()) {
        // Files are longer than what is in them.
        let used = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..used]);
        let is_own = |line: &&str| line.contains(part) && !line.contains("\"value\":0,");
        let own = text.lines().filter(is_own);
        let tick = |line: &str| Some(line.split_once("\"start_tick\":")?.1.to_owned());
        ticks.extend(own.filter_map(tick));
    }
    ticks.len()
}

/// Runs the profiler inside of a machine, until the counter with `part` in its records was read often: before, its library is loaded, and that takes a
/// busy machine as long as it takes. The trace's counters: name, and readings in the order of time.
fn profiled(
    machine: &Machine,
    options: &[&str],
    part: &str,
) -> Result<(Outcome, BTreeMap<String, Vec<Reading>>)> {
    let scratch = Scratch::new("counters")?;
    let mark = scratch.path().join("mark");
    fs::write(scratch.path().join("counter_defs.yaml"), DEFINITIONS)?;
    let program = hip_program(Stack::Rocm7, "hip_causes")?
        .args(["1", "20"])
        .env("HIP_CAUSES_UNTIL", &mark);
    let inside = Invocation::new(rsys_tests::sampler()?)
        .args(["--process-freq", "50", "-E", "rocm-smi", "-o", "traces"])
        .args(["--counter-definitions", "counter_defs.yaml"])
        .args(options)
        .arg("--")
        .program(program);
    let run = Run::bare()
        .folder(scratch.path())
        .command(machine.run(inside))
        .start()?;
    wait_until(LIMIT, || {
        // There is much to read, and no hurry.
        thread::sleep(Duration::from_millis(50));
        reads_so_far(&run, part) >= READS
    });
    fs::write(&mark, "")?;
    let outcome = run.wait()?;
    let find = script(&format!(
        "find {} -name '*.proto'",
        scratch.path().display()
    ));
    let found = run_plain(find)?;
    let trace = found.stdout.lines().next();
    let trace = trace.with_context(|| format!("no trace\n{}", outcome.story()))?;
    let trace = Trace::load(trace.as_ref(), None)?;
    let rows = trace.query(
        "select t.name as name, c.ts as ts, c.value as value from counter c join track t on c.track_id = t.id
         where t.name like '% (C)' order by c.ts",
    )?;
    let mut counters: BTreeMap<String, Vec<Reading>> = BTreeMap::new();
    for row in rows.iter() {
        let of_name = counters.entry(row.text("name")?.to_owned()).or_default();
        of_name.push((row.int("ts")?, row.float("value")?));
    }
    Ok((outcome, counters))
}

/// What an event had counted on a GPU with all dies, engines and instances, each time that it was read.
fn truth_of(truth: &Truth, gpu: usize, block: &str, event: u32) -> Vec<u64> {
    let mut reads: BTreeMap<u64, u64> = BTreeMap::new();
    let own = truth
        .counters()
        .filter(|read| (read.gpu, &*read.block, read.event) == (gpu, block, event));
    for read in own {
        *reads.entry(read.start_tick).or_default() += read.value;
    }
    reads.into_values().collect()
}

#[test]
fn counters_of_each_gpu_are_those_that_it_counted() -> TestResult {
    skip_if_missing!(missing());
    for model in ["gfx90a", "gfx942"] {
        let machine = machine(KERNELS)?.model(model);
        let names = "SQ_WAVES,GRBM_COUNT,GRBM_GUI_ACTIVE:device=0,TCC:17,Wavefronts,GPUBusy";
        let (outcome, counters) = profiled(&machine, &["-G", names], WAVES)?;
        outcome.expect_success();
        let truth = machine.truth()?;
        for gpu in 0..GPUS {
            for (name, block, event) in [
                ("SQ_WAVES", "SQ", 4),
                ("Wavefronts", "SQ", 4),
                ("GRBM_COUNT", "GRBM", 0),
                ("GRBM_GUI_ACTIVE", "GRBM", 2),
                ("TCC:17", "TCC", 17),
            ] {
                let found = counters.get(&format!("{name} [{gpu}] (C)"));
                if name == "GRBM_GUI_ACTIVE" && gpu > 0 {
                    ensure!(found.is_none(), "{counters:?}");
                    continue;
                }
                let found = found.with_context(|| format!("no {name}: {}", outcome.story()))?;
                ensure!(found.len() > 3, "{name}: {found:?}");
                // The last one may have been read when nobody waited for it any more.
                let reads = truth_of(&truth, gpu, block, event);
                let upto = reads.get(found.len() - 1).context("too few were read")?;
                let sum: f64 = found.iter().map(|(_, value)| value).sum();
                ensure!(
                    sum == *upto as f64,
                    "{model} {name} [{gpu}]: {sum}, not {upto}"
                );
                ensure!(*upto > 0, "{model} {name} [{gpu}]: nothing was counted");
            }
        }
        let busy = &counters["GPUBusy [0] (C)"];
        ensure!(
            busy.iter().all(|(_, share)| (0.0..=100.5).contains(share)),
            "{busy:?}"
        );
        ensure!(busy.iter().any(|(_, share)| *share > 0.0), "{busy:?}");
    }
    Ok(())
}

/// Events for which a block has no room at once are counted in turn, and scaled.
#[test]
fn events_that_do_not_fit_together_are_counted_in_turn() -> TestResult {
    skip_if_missing!(missing());
    let steady: String = (30..34)
        .map(|event| format!("[[counter]]\nblock = \"GRBM\"\nevent = {event}\nper_second = 1e6\n"))
        .collect();
    let machine = machine(&format!("{KERNELS}{steady}"))?;
    let names = "GRBM:30,GRBM:31,GRBM:32,GRBM:33";
    let part = r#""gpu":1,"block":"GRBM","event":33,"#;
    let (outcome, counters) = profiled(&machine, &["-G", names], part)?;
    outcome.expect_success();
    ensure!(counters.len() == 4 * GPUS, "{counters:?}");
    // Each counts a million a second, in half of the time. When a pass began and ended is known as well as the machine is free: most are known well.
    for (name, readings) in &counters {
        ensure!(readings.len() > 3, "{name}: {readings:?}");
        let mut shares: Vec<f64> = readings
            .windows(2)
            .map(|pair| pair[0].1 / ((pair[1].0 - pair[0].0) as f64 * 1e-3))
            .collect();
        shares.sort_by(f64::total_cmp);
        let share = shares[shares.len() / 2];
        ensure!((0.7..1.3).contains(&share), "{name}: {share}: {readings:?}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_counted_is_said_and_the_rest_goes_on() -> TestResult {
    skip_if_missing!(missing());
    let machine = machine(KERNELS)?;
    let names = "SQ_WAVES:device=0,SQ_WAVE,Late,NOBLOCK:3,GRBM_COUNT:device=7";
    let (outcome, counters) = profiled(&machine, &["-G", names], WAVES)?;
    outcome.expect_success();
    ensure!(
        counters.contains_key("SQ_WAVES [0] (C)"),
        "{}",
        outcome.story()
    );
    ensure!(counters.len() == 1, "{counters:?}");
    for line in [
        "no SQ_WAVE: there is no such counter; did you mean SQ_WAVES?",
        "no Late: `accumulate(…)` cannot be computed here",
        "no NOBLOCK:3 (a hardware counter); libhsa-amd-aqlprofile64: this GPU has no block NOBLOCK",
        "no GRBM_COUNT: there is no GPU 7",
    ] {
        ensure!(outcome.stderr.contains(line), "{line}\n{}", outcome.story());
    }
    // Where the library is missing, that is what is said.
    let machine = Machine::new(Stack::Debian12)?;
    let program = Invocation::new(rsys_tests::sampler()?).args([
        "-E",
        "rocm-smi",
        "-G",
        "SQ:4",
        "-o",
        "/dev/null",
        "--",
        "sleep",
        "0.5",
    ]);
    let outcome = run_plain(machine.run(program))?;
    let told = "libhsa-amd-aqlprofile64.so.1 cannot be loaded";
    ensure!(
        outcome.expect_success().stderr.contains(told),
        "{}",
        outcome.story()
    );
    Ok(())
}
