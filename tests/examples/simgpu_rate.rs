//! How fast the simulated GPU is, and what it costs: `cargo xtask bench --only simgpu` runs this.
//!
//! Arguments: dispatches, starts of `/bin/true`. One line of JSON for each stack.

use std::env;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, code_object, hsa_program};
use rsys_tests::{Invocation, Run};

/// Seconds at rest after the last dispatch.
const REST_S: &str = "2";

/// The first argument of this program where it runs inside of a machine.
const INSIDE: &str = "inside";

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [inside, starts] = arguments.as_slice()
        && inside == INSIDE
    {
        return measure_starts(starts.parse()?);
    }
    let word =
        |at: usize, default: &str| arguments.get(at).map_or(default.to_owned(), Clone::clone);
    let (dispatches, starts) = (word(0, "1000000"), word(1, "200"));
    for stack in Stack::ALL {
        if let Some(reason) = stack.missing() {
            eprintln!("{}: not measured: {reason}", stack.name());
            continue;
        }
        let machine = Machine::new(stack)?
            .config("[[kernel]]\nname = \"short_kernel\"\nmicroseconds = 2.0\n")?;
        let program = hsa_program("hsa_rate")?
            .arg(code_object("gfx90a")?)
            .args([dispatches.as_str(), REST_S]);
        let rate = run(&machine, program)?;
        let number = |name: &str| -> Result<f64> {
            let line = rate.lines().find_map(|line| line.strip_prefix(name));
            Ok(line
                .with_context(|| format!("no {name} in {rate}"))?
                .parse()?)
        };
        let inside = Invocation::new(env::current_exe()?).args([INSIDE, &starts]);
        let start_ms: f64 = run(&machine, inside)?.trim().parse()?;
        println!(
            "{{\"stack\":\"{}\",\"dispatches_per_s\":{},\"producer_ns\":{},\"idle_percent\":{},\"start_ms\":{start_ms}}}",
            stack.name(),
            number("dispatches_per_s=")?,
            number("producer_ns_per_dispatch=")?,
            number("idle_percent=")?,
        );
    }
    Ok(())
}

fn run(machine: &Machine, program: Invocation) -> Result<String> {
    let outcome = Run::bare().command(machine.run(program)).run()?;
    ensure!(outcome.status.success(), "{}", outcome.stderr);
    Ok(outcome.stdout)
}

/// Prints what the simulator adds to the start of a program that uses no GPU, in ms, by the smallest of so many starts.
fn measure_starts(starts: u32) -> Result<()> {
    let mut least = [f64::INFINITY; 2];
    for _ in 0..starts {
        for (which, least) in least.iter_mut().enumerate() {
            let mut command = Command::new("/bin/true");
            if which == 0 {
                command.env_remove("LD_PRELOAD");
            }
            let start = Instant::now();
            ensure!(command.status()?.success(), "/bin/true failed");
            *least = least.min(1e3 * start.elapsed().as_secs_f64());
        }
    }
    println!("{}", least[1] - least[0]);
    Ok(())
}
