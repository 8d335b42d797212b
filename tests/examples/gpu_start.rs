//! What it costs to begin to use a GPU, with us and without: `cargo xtask bench --only gpu-start` runs this.
//!
//! Arguments: repetitions, the only stack to measure. One line of JSON for each run; the ways take turns, so that all have the same machine. The runs are made
//! from inside of a machine with simulated GPUs, so that making the machine is nobody's time.

use std::env;
use std::io::Read;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Invocation, Run, Scratch, sampler};

/// The ways to run the program: a name, and the options of `rsys-sample`, if it runs at all.
const WAYS: [(&str, Option<&[&str]>); 4] = [
    ("bare", None),
    ("samples", Some(&[])),
    ("HIP source", Some(&["-I", "roctracer"])),
    (
        "HSA source",
        Some(&["-I", "roctracer", "--gpu-source", "hsa"]),
    ),
];

/// The first argument of this program where it runs inside of a machine.
const INSIDE: &str = "inside";

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [inside, stack, repetitions, sampler, program] = arguments.as_slice()
        && inside == INSIDE
    {
        return measure(stack, repetitions.parse()?, sampler, program);
    }
    let repetitions: usize = arguments.first().map_or(Ok(5), |word| word.parse())?;
    let only = arguments.get(1);
    for stack in Stack::ALL {
        if only.is_some_and(|only| only != stack.name()) {
            continue;
        }
        if let Some(reason) = stack.missing() {
            eprintln!("{}: not measured: {reason}", stack.name());
            continue;
        }
        let machine = Machine::new(stack)?;
        let program = hip_program(stack, "hip_start")?;
        let inside = Invocation::new(env::current_exe()?)
            .args([INSIDE, stack.name(), &repetitions.to_string()])
            .arg(sampler()?)
            .program(program);
        let outcome = Run::bare().command(machine.run(inside)).run()?;
        ensure!(outcome.status.success(), "{}", outcome.stderr);
        print!("{}", outcome.stdout);
    }
    Ok(())
}

fn measure(stack: &str, repetitions: usize, sampler: &str, program: &str) -> Result<()> {
    let output = Scratch::new("gpu-start")?;
    for _ in 0..repetitions {
        for (way, options) in WAYS {
            let mut command = Command::new(if options.is_some() { sampler } else { program });
            if let Some(options) = options {
                command.args(options).arg("-o").arg(output.path());
                command.arg("--").arg(program);
            }
            let times = run(&mut command).with_context(|| format!("{stack}, {way}"))?;
            println!(
                "{{\"stack\":\"{stack}\",\"way\":\"{way}\",\"kernel_wall_ms\":{:.3},\"kernel_cpu_ms\":{:.3},\"whole_wall_ms\":{:.3},\"whole_cpu_ms\":{:.3}}}",
                times.kernel_wall_ms, times.kernel_cpu_ms, times.whole_wall_ms, times.whole_cpu_ms,
            );
        }
    }
    Ok(())
}

/// What one run took, from its start.
struct Times {
    /// Until the program's kernel was done.
    kernel_wall_ms: f64,
    /// CPU time of the program until then.
    kernel_cpu_ms: f64,
    /// Until the end of the program, or of the profiler.
    whole_wall_ms: f64,
    /// CPU time of all processes, the profiler included.
    whole_cpu_ms: f64,
}

fn run(command: &mut Command) -> Result<Times> {
    let (cpu_before, start) = (children_cpu_ms(), monotonic_ms());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut text = String::new();
    let pipe = child.stdout.as_mut().context("no pipe")?;
    pipe.read_to_string(&mut text)?;
    let status = child.wait()?;
    let (end, cpu_after) = (monotonic_ms(), children_cpu_ms());
    ensure!(status.success(), "{status}: {text}");
    let said = |name: &str| -> Result<f64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let ns: f64 = value
            .with_context(|| format!("no {name} in {text}"))?
            .parse()?;
        Ok(ns / 1e6)
    };
    Ok(Times {
        kernel_wall_ms: said("kernel_done_ns=")? - start,
        kernel_cpu_ms: said("kernel_done_cpu_ns=")?,
        whole_wall_ms: end - start,
        whole_cpu_ms: cpu_after - cpu_before,
    })
}

fn monotonic_ms() -> f64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: a valid place, which the call fills.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// CPU time of all children that have been waited for.
fn children_cpu_ms() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: as above.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3)
        .iter()
        .sum()
}
