//! What launches of graphs cost with us and without, and whether the GPU stays busy: `cargo xtask bench --only graphs` runs this.
//!
//! Arguments: launches of each run, repetitions, and then names of the stacks and ways to run, if not all. One line of JSON for each run; the ways take
//! turns, so that all have the same machine.

use anyhow::{Context, Result};
use rsys_tests::simgpu::{Machine, Stack, Truth, hip_program};
use rsys_tests::{Asked, Invocation, Run};

/// The ways to run the program: a name, and the options of `rsys-sample`, if it runs at all. In the second the program itself is HIP's tracer, and
/// does nothing with what it is told.
const WAYS: [(&str, Option<&[&str]>); 5] = [
    ("bare", None),
    (ANY_TRACER, None),
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
];
const ANY_TRACER: &str = "any tracer";
const STACKS: [Stack; 4] = [
    Stack::Wheel54,
    Stack::Debian13,
    Stack::Unstable,
    Stack::Rocm7,
];
/// Graphs of this many kernels: what they have in common is the launch, the rest is the node.
const NODES: [u32; 2] = [32, 512];
/// Kernels of a decode step are short, and longer than it takes to submit them.
const MACHINE: &str = "[[kernel]]\nname = 'node'\nmicroseconds = 10\n";
/// A gap that an engine would notice.
const GAP_NS: u64 = 100_000;

fn main() -> Result<()> {
    let asked = Asked::from_arguments(100, 3)?;
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
        for nodes in NODES {
            let program = hip_program(stack, "hip_graph_rate")?
                .args([nodes.to_string(), launches.to_string()]);
            for _ in 0..repetitions {
                for (way, options) in WAYS {
                    if !asked.wants(way, &ways) {
                        continue;
                    }
                    let program = match way {
                        ANY_TRACER => program.clone().arg("tracer"),
                        _ => program.clone(),
                    };
                    let line = run(stack, &program, options).with_context(|| {
                        format!("{way}, {nodes} nodes, runtimes {}", stack.name())
                    })?;
                    println!(
                        "{{\"stack\":\"{}\",\"way\":\"{way}\",\"nodes\":{nodes},{line}}}",
                        stack.name()
                    );
                }
            }
        }
    }
    Ok(())
}

/// One run: members of a JSON object.
fn run(stack: Stack, program: &Invocation, options: Option<&[&str]>) -> Result<String> {
    let machine = Machine::new(stack)?.config(MACHINE)?;
    let run = match options {
        None => Run::bare(),
        Some(options) => Run::new().options(options),
    };
    let outcome = run.command(machine.run(program.clone())).run()?;
    outcome.expect_success();
    let (busy, gaps, kernels) = busy_share(&machine.truth()?);
    // What is told of the operations: exact on every stack, or the cost says nothing.
    let told = outcome
        .stderr
        .lines()
        .filter_map(|line| {
            line.rsplit_once(" kernels")?
                .0
                .rsplit_once(' ')?
                .1
                .parse::<u64>()
                .ok()
        })
        .sum::<u64>();
    Ok(format!(
        "\"cpu_ns\":{},\"wall_ns\":{},\"median_ns\":{},\"busy\":{busy},\"gaps\":{gaps},\"kernels\":{kernels},\"told\":{told}",
        outcome.number("launch_cpu_ns")?,
        outcome.number("launch_wall_ns")?,
        outcome.number("launch_median_ns")?,
    ))
}

/// Of the time from the first kernel to the last: the share in which one ran, and the longer gaps. And how many kernels there were.
fn busy_share(truth: &Truth) -> (f64, u32, u64) {
    let mut spans: Vec<(u64, u64)> = truth
        .kernels_named("node")
        .map(|kernel| (kernel.start_ns, kernel.end_ns))
        .collect();
    spans.sort_unstable();
    let (mut busy_ns, mut gaps) = (0, 0);
    let mut until = spans.first().map_or(0, |first| first.0);
    let begin = until;
    for &(start, end) in &spans {
        gaps += u32::from(start.saturating_sub(until) > GAP_NS);
        busy_ns += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    let share = busy_ns as f64 / until.saturating_sub(begin).max(1) as f64;
    (share, gaps, spans.len() as u64)
}
