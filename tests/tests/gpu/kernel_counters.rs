//! Hardware counters of single kernels: commands of AMD's library around each, against what the simulated GPUs counted.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{EXACT_NS, Machine, Stack, Truth, code_object, hip_program, hsa_program};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, Trace, answer, run_plain, script,
    skip_if_missing,
};

use super::counters::DEFINITIONS;

const MACHINE: &str = "
[clock]
drift_ppm = 90.0
offset_s = 7654321.0
[[kernel]]
name = 'short_kernel'
microseconds = 60
[[kernel]]
name = 'spin'
microseconds = 300
[[counter]]
block = 'TCC'
event = 17
per_wave = 3.0
[[counter]]
block = 'GRBM'
event = 40
per_kernel = 5.0
";

fn missing() -> Option<String> {
    let stack = Stack::Rocm7;
    let beside = || stack.missing_beside("rocm7-counters");
    stack.missing_to_build().or_else(beside)
}

fn flood(mode: &str, threads: u32, kernels: u32, signals: u32) -> Result<Invocation> {
    Ok(hsa_program("hsa_flood")?
        .arg(code_object("gfx90a")?)
        .arg(mode)
        .args([threads, kernels, signals].map(|number| number.to_string())))
}

/// What a run has left.
struct Counted {
    outcome: Outcome,
    scratch: Scratch,
    kernels: Vec<Kernel>,
}

/// A kernel in the trace.
#[derive(Debug)]
struct Kernel {
    start_ns: u64,
    end_ns: u64,
    name: String,
    gpu: usize,
    counters: BTreeMap<String, f64>,
}

/// Runs the profiler inside of a machine.
fn counted(machine: &Machine, program: Invocation, options: &[&str]) -> Result<Counted> {
    let scratch = Scratch::new("kernel_counters")?;
    fs::write(scratch.path().join("counter_defs.yaml"), DEFINITIONS)?;
    let inside = Invocation::new(rsys_tests::sampler()?)
        .args(["-E", "rocm-smi", "-o", "traces"])
        .args(["--counter-definitions", "counter_defs.yaml"])
        .args(options)
        .arg("--")
        .program(program);
    let run = Run::bare()
        .folder(scratch.path())
        .command(machine.run(inside));
    let outcome = run.run()?;
    let trace = Trace::load(trace_in(&scratch, &outcome)?.as_ref(), None)?;
    let rows = trace.query(
        "select s.ts as ts, s.dur as dur, s.name as name, extract_arg(s.arg_set_id, 'debug.device') as device,
             (select group_concat(substr(a.flat_key, 15) || '=' || ifnull(a.int_value, a.real_value), ' ')
              from args a where a.arg_set_id = s.arg_set_id and a.flat_key glob 'debug.counter_*') as counters
         from slice s where s.category = 'kernel' order by s.ts",
    )?;
    let kernels = rows.iter().map(|row| {
        let start_ns = u64::try_from(row.int("ts")?)?;
        let counters = row.text("counters").unwrap_or_default().split(' ');
        let counters = counters.filter_map(|one| one.split_once('='));
        Ok(Kernel {
            start_ns,
            end_ns: start_ns + u64::try_from(row.int("dur")?)?,
            name: row.text("name")?.to_owned(),
            gpu: usize::try_from(row.int("device")?)?,
            counters: counters
                .map(|(name, value)| Ok((name.to_owned(), value.parse()?)))
                .collect::<Result<_>>()?,
        })
    });
    let kernels = kernels.collect::<Result<_>>()?;
    Ok(Counted {
        outcome,
        scratch,
        kernels,
    })
}

fn trace_in(scratch: &Scratch, outcome: &Outcome) -> Result<String> {
    let find = format!("find {} -name '*.proto'", scratch.path().display());
    let found = run_plain(script(&find))?;
    let trace = found.stdout.lines().next().map(str::to_owned);
    trace.with_context(|| format!("no trace\n{}", outcome.story()))
}

/// What an event had counted when it was read behind a kernel on its GPU, in each instance.
fn instances_of(truth: &Truth, kernel: &Kernel, (block, event): (&str, u32)) -> Option<Vec<u64>> {
    let is_it = |one: &&rsys_tests::simgpu::Dispatch| {
        one.gpu == kernel.gpu && one.start_ns.abs_diff(kernel.start_ns) <= EXACT_NS
    };
    let dispatch = truth.dispatches().find(is_it)?;
    let mut reads: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let own = truth.counters().filter(|read| {
        (read.gpu, &*read.block, read.event) == (kernel.gpu, block, event)
            && read.start_tick >= dispatch.end_tick
    });
    for read in own {
        reads.entry(read.start_tick).or_default().push(read.value);
    }
    reads.into_values().next()
}

/// The same over all instances.
fn truth_of(truth: &Truth, kernel: &Kernel, event: (&str, u32)) -> Option<u64> {
    Some(instances_of(truth, kernel, event)?.iter().sum())
}

/// Counters of all instances, engines and dies, and one that is computed from them.
const NAMES: &str = "SQ_WAVES,Wavefronts,TCC:17,GRBM_COUNT,GRBM_GUI_ACTIVE,GPUBusy";

/// The values of each kernel are those that were read behind it.
fn check_values(run: &Counted, truth: &Truth) -> TestResult {
    for kernel in &run.kernels {
        let story = || format!("{kernel:?}\n{}", run.outcome.story());
        for (name, event) in [
            ("SQ_WAVES", ("SQ", 4)),
            ("Wavefronts", ("SQ", 4)),
            ("TCC:17", ("TCC", 17)),
            ("GRBM_COUNT", ("GRBM", 0)),
            ("GRBM_GUI_ACTIVE", ("GRBM", 2)),
        ] {
            let expected = truth_of(truth, kernel, event).with_context(story)?;
            let found = kernel.counters.get(name).with_context(story)?;
            ensure!(*found == expected as f64, "{name}: {expected}: {}", story());
            ensure!(expected > 0, "{name}: nothing was counted: {}", story());
        }
        let [busy, all] = [2, 0].map(|event| {
            let instances = instances_of(truth, kernel, ("GRBM", event))?;
            instances.into_iter().max()
        });
        let (busy, all) = busy.zip(all).with_context(story)?;
        let expected = 100.0 * busy as f64 / all as f64;
        let found = kernel.counters.get("GPUBusy").with_context(story)?;
        ensure!((*found - expected).abs() < 1e-9, "{expected}: {}", story());
    }
    Ok(())
}

#[test]
fn each_kernel_has_what_was_counted_of_it() -> TestResult {
    skip_if_missing!(missing());
    let machine = Machine::new(Stack::Rocm7)?.gpus(2).config(MACHINE)?;
    let program = flood("reuse", 2, 150, 8)?;
    let run = counted(&machine, program, &["--gpu-counters", NAMES])?;
    let story = || run.outcome.story();
    ensure!(
        run.outcome.expect_success().stdout.contains("done=300"),
        "{}",
        story()
    );
    ensure!(
        run.outcome.stderr.contains("one after the other"),
        "{}",
        story()
    );
    ensure!(
        run.kernels.len() == 300,
        "{}\n{}",
        run.kernels.len(),
        story()
    );
    check_values(&run, &machine.truth()?)?;
    // Grids have one to four waves in turn.
    for gpu in 0..2 {
        let of_gpu = run.kernels.iter().filter(|kernel| kernel.gpu == gpu);
        let waves: Vec<f64> = of_gpu.map(|one| one.counters["SQ_WAVES"]).collect();
        let expected: Vec<f64> = (0..150).map(|kernel| f64::from(1 + kernel % 4)).collect();
        ensure!(waves == expected, "{gpu}: {waves:?}");
    }
    // The same in the answer.
    let files = [trace_in(&run.scratch, &run.outcome)?.into()];
    let found = answer("kernels", &files)?;
    let rows = found["kernel_counters"].as_array().context("no table")?;
    let row = rows.iter().find(|row| row["counter"] == "SQ_WAVES");
    let row = row.context("no row")?;
    let mean = (0..150)
        .map(|kernel| f64::from(1 + kernel % 4))
        .sum::<f64>()
        / 150.0;
    ensure!(row["counted"] == 300 && row["mean"] == mean, "{row}");
    ensure!(row["min"] == 1.0 && row["max"] == 4.0, "{row}");
    Ok(())
}

/// Eight dies, whose counters are summed.
#[test]
fn kernels_of_a_gpu_of_several_dies_have_what_all_of_them_counted() -> TestResult {
    skip_if_missing!(missing());
    let machine = Machine::new(Stack::Rocm7)?
        .gpus(2)
        .model("gfx942")
        .config(MACHINE)?;
    let program = hip_program(Stack::Rocm7, "hip_causes")?.args(["6", "1"]);
    let mut run = counted(&machine, program, &["--gpu-counters", NAMES])?;
    run.outcome.expect_success();
    // HIP's own are counted too, but may run beside others.
    let own = ["spin", "slow", "awaits", "follows"];
    run.kernels
        .retain(|kernel| own.iter().any(|name| kernel.name.contains(name)));
    // Values of those beside which another ran are left out.
    run.kernels.retain(|kernel| !kernel.counters.is_empty());
    ensure!(run.kernels.len() >= 10, "{}", run.outcome.story());
    check_values(&run, &machine.truth()?)
}

/// HIP would report its operations itself: counters have them recorded at its queues. A filter names kernels.
#[test]
fn kernels_of_hip_are_counted_by_their_names() -> TestResult {
    skip_if_missing!(missing());
    let machine = Machine::new(Stack::Rocm7)?.gpus(2).config(MACHINE)?;
    let program =
        || Ok::<_, anyhow::Error>(hip_program(Stack::Rocm7, "hip_causes")?.args(["4", "1"]));
    let options = [
        "--gpu-counters",
        "SQ_WAVES:device=0",
        "--gpu-counters-kernels",
        "4spin",
    ];
    let run = counted(&machine, program()?, &options)?;
    run.outcome.expect_success();
    let (spins, others): (Vec<&Kernel>, Vec<&Kernel>) = run
        .kernels
        .iter()
        .partition(|kernel| kernel.name.contains("spin") && kernel.gpu == 0);
    ensure!(
        spins.len() >= 8 && !others.is_empty(),
        "{}",
        run.outcome.story()
    );
    let is_one = |kernel: &&Kernel| kernel.counters.get("SQ_WAVES") == Some(&1.0);
    ensure!(
        spins.iter().all(is_one),
        "{spins:?}\n{}",
        run.outcome.story()
    );
    ensure!(
        others.iter().all(|one| one.counters.is_empty()),
        "{others:?}"
    );
    let every = [&options[..], &["--gpu-counters-every", "3"]].concat();
    let run = counted(&machine, program()?, &every)?;
    run.outcome.expect_success();
    let spins = run
        .kernels
        .iter()
        .filter(|one| one.name.contains("spin") && one.gpu == 0);
    let has: Vec<bool> = spins.map(|one| !one.counters.is_empty()).collect();
    let expected: Vec<bool> = (0..has.len()).map(|place| place % 3 == 0).collect();
    ensure!(has == expected, "{has:?}\n{}", run.outcome.story());
    Ok(())
}

#[test]
fn what_cannot_be_counted_of_kernels_is_said_and_the_rest_goes_on() -> TestResult {
    skip_if_missing!(missing());
    let machine = Machine::new(Stack::Rocm7)?.config(MACHINE)?;
    let names = "SQ_WAVES,SQ_WAVE,NOBLOCK:3,GRBM:40,GRBM:41,GRBM:42";
    let run = counted(
        &machine,
        flood("none", 1, 40, 0)?,
        &["--gpu-counters", names],
    )?;
    ensure!(run.outcome.expect_success().stdout.contains("done=40"));
    let story = || run.outcome.story();
    for line in [
        "no SQ_WAVE: there is no such counter; did you mean SQ_WAVES?",
        "for NOBLOCK:3 on the GPU at ",
        "this GPU has no such block",
        "for GRBM:42 on the GPU at ",
        "no room for it beside the others",
    ] {
        ensure!(run.outcome.stderr.contains(line), "{line}\n{}", story());
    }
    for kernel in &run.kernels {
        let names: Vec<&str> = kernel.counters.keys().map(String::as_str).collect();
        ensure!(
            names == ["GRBM:40", "GRBM:41", "SQ_WAVES"],
            "{kernel:?}\n{}",
            story()
        );
    }
    for (options, line) in [
        (["--gpu-source", "hip"], "leaves alone"),
        (["--gpu-level", "lite"], "leaves packets as they are"),
        (["--gpu-counters-kernels", "(a"], "a group has no )"),
    ] {
        let options = [&["--gpu-counters", "SQ_WAVES", "-I", "rocm"][..], &options].concat();
        let run = counted(&machine, flood("none", 1, 40, 0)?, &options)?;
        ensure!(run.outcome.expect_success().stdout.contains("done=40"));
        ensure!(
            run.outcome.stderr.contains(line),
            "{line}\n{}",
            run.outcome.story()
        );
        ensure!(run.kernels.iter().all(|kernel| kernel.counters.is_empty()));
    }
    Ok(())
}

/// Without the library, the program and all else go on.
#[test]
fn a_missing_library_is_said() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let machine = Machine::new(Stack::Debian12)?.config(MACHINE)?;
    let run = counted(
        &machine,
        flood("none", 1, 40, 0)?,
        &["--gpu-counters", "SQ:4"],
    )?;
    ensure!(run.outcome.expect_success().stdout.contains("done=40"));
    let line =
        "counters of kernels are not recorded (libhsa-amd-aqlprofile64.so.1 cannot be loaded";
    let said = run.outcome.stderr.matches(line).count();
    ensure!(said == 1, "{said}: {}", run.outcome.story());
    ensure!(run.kernels.len() == 40, "{}", run.outcome.story());
    Ok(())
}

/// However a program fills its queues, it ends as without us; and no kernel has values beside which another ran.
#[test]
fn floods_of_kernels_are_counted_and_end() -> TestResult {
    skip_if_missing!(missing());
    for (mode, threads, kernels, signals) in [
        ("none", 1, 3000, 0),
        ("many", 1, 3000, 0),
        ("crowd", 4, 500, 0),
        ("shared", 2, 400, 1),
        ("batch", 4, 400, 16),
        ("reuse", 4, 400, 16),
    ] {
        let machine = Machine::new(Stack::Rocm7)?.config(MACHINE)?;
        let program = flood(mode, threads, kernels, signals)?;
        let run = counted(&machine, program, &["--gpu-counters", "SQ_WAVES"])?;
        let story = || format!("{mode}: {}", run.outcome.story());
        let done = format!("done={}", threads * kernels);
        ensure!(
            run.outcome.expect_success().stdout.contains(&done),
            "{}",
            story()
        );
        let queues_share = threads > 1 && mode != "crowd";
        let with: Vec<&Kernel> = run
            .kernels
            .iter()
            .filter(|one| !one.counters.is_empty())
            .collect();
        if !queues_share {
            ensure!(
                with.len() == run.kernels.len(),
                "{} of {}\n{}",
                with.len(),
                run.kernels.len(),
                story()
            );
            ensure!(!with.is_empty(), "{}", story());
        }
        let truth = machine.truth()?;
        let mut all: Vec<(u64, u64)> = truth
            .dispatches()
            .map(|one| (one.start_ns, one.end_ns))
            .collect();
        all.sort_unstable();
        for kernel in with {
            let expected = truth_of(&truth, kernel, ("SQ", 4)).with_context(story)?;
            ensure!(
                kernel.counters["SQ_WAVES"] == expected as f64,
                "{expected}: {kernel:?}\n{}",
                story()
            );
            let (from, to) = (
                kernel.start_ns + EXACT_NS,
                kernel.end_ns.saturating_sub(EXACT_NS),
            );
            let beside = all
                .iter()
                .filter(|(start, end)| *start < to && *end > from)
                .count();
            ensure!(
                beside <= 1,
                "{beside} ran at the time of {kernel:?}\n{}",
                story()
            );
        }
        let says_so = run
            .outcome
            .stderr
            .contains("kernels of other queues ran beside them");
        ensure!(says_so || !queues_share, "{}", story());
    }
    // The process ends while kernels run.
    let machine = Machine::new(Stack::Rocm7)?.config(MACHINE)?;
    let run = counted(
        &machine,
        flood("hang", 2, 300, 0)?,
        &["--gpu-counters", "SQ_WAVES"],
    )?;
    ensure!(
        run.outcome.expect_success().stdout.contains("kernels=600"),
        "{}",
        run.outcome.story()
    );
    Ok(())
}
