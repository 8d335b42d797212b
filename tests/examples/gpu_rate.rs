//! What launches cost with us and without: `cargo xtask bench --only gpu` runs this.
//!
//! Arguments: launches of each run, repetitions, and then names of the stacks and ways to run, if not all. One line of JSON for each run; the ways
//! take turns, so that all have the same machine.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Asked, Invocation, Outcome, Run};

/// The ways to run the program: a name, and the options of `rsys-sample`, if it runs at all. In the second and third the program itself is HIP's tracer,
/// which is asked alone, or told of operations too, and does nothing with that; not where HIP has none.
const WAYS: [(&str, Option<&[&str]>); 9] = [
    ("bare", None),
    (ASKED, None),
    (ANY_TRACER, None),
    ("samples", Some(&[])),
    (
        "calls",
        Some(&[
            "-I",
            "roctracer",
            "--gpu-source",
            "off",
            "--launch-stacks=false",
        ]),
    ),
    (
        "lite",
        Some(&[
            "-I",
            "roctracer",
            "--gpu-level",
            "lite",
            "--launch-stacks=false",
        ]),
    ),
    (
        "standard",
        Some(&["-I", "roctracer", "--launch-stacks=false"]),
    ),
    ("with stacks", Some(&["-I", "roctracer"])),
    (
        "hsa source",
        Some(&[
            "-I",
            "roctracer",
            "--gpu-source",
            "hsa",
            "--launch-stacks=false",
        ]),
    ),
];

const ASKED: &str = "asked";
const ANY_TRACER: &str = "any tracer";

/// HIP without a tracer of its own, seen by the HSA source, and two that have one.
const STACKS: [Stack; 3] = [Stack::Debian12, Stack::Wheel54, Stack::Unstable];

fn main() -> Result<()> {
    let asked = Asked::from_arguments(20_000, 3)?;
    let (launches, repetitions) = (asked.launches, asked.repetitions);
    let stacks = STACKS.map(Stack::name);
    let ways = WAYS.map(|(way, _)| way);
    for stack in STACKS {
        if !asked.wants(stack.name(), &stacks) {
            continue;
        }
        if let Some(reason) = stack.missing() {
            eprintln!("{}: not measured: {reason}", stack.name());
            continue;
        }
        let program = hip_program(stack, "hip_rate")?.arg(launches.to_string());
        for _ in 0..repetitions {
            for (way, options) in WAYS {
                let words: &[&str] = match way {
                    ASKED => &["asked"],
                    ANY_TRACER => &["tracer"],
                    _ => &[],
                };
                let has_tracer = stack != Stack::Debian12;
                if !asked.wants(way, &ways) || !(words.is_empty() || has_tracer) {
                    continue;
                }
                let program = program.clone().args(words);
                let cpu_before_ns = children_cpu_ns();
                let outcome = run(stack, &program, options)?;
                let gone_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as f64;
                let all_cpu_ns = (children_cpu_ns() - cpu_before_ns) / launches as f64;
                let said = |name: &str| {
                    let line = outcome
                        .stdout
                        .lines()
                        .find_map(|line| line.strip_prefix(name));
                    line.with_context(|| format!("{way}: no {name}\n{}", outcome.story()))
                };
                let ended_ns: f64 = said("ended_ns=")?.parse()?;
                println!(
                    "{{\"stack\":\"{}\",\"way\":\"{way}\",\"cpu_ns\":{},\"low_ns\":{},\"wall_ns\":{},\"all_cpu_ns\":{all_cpu_ns},\"end_s\":{}}}",
                    stack.name(),
                    said("launch_cpu_ns=")?,
                    said("launch_low_ns=")?,
                    said("launch_wall_ns=")?,
                    (gone_ns - ended_ns) / 1e9,
                );
            }
        }
    }
    Ok(())
}

/// CPU time of all children that were waited for, and of theirs.
fn children_cpu_ns() -> f64 {
    // SAFETY: zero is a valid value of every field.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: room for what the kernel writes.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn run(stack: Stack, program: &Invocation, options: Option<&[&str]>) -> Result<Outcome> {
    let machine = Machine::new(stack)?;
    let run = match options {
        None => Run::bare(),
        Some(options) => Run::new().options(options),
    };
    run.command(machine.run(program.clone())).run()
}
