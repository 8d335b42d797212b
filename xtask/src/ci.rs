//! `cargo xtask ci`: what a change has to pass. The last line is the sum over all tests.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::steps::{cargo, say, step};
use crate::test::{self, Counts, Which};
use crate::{check, judges, runtimes, system};

/// Makes everything, also when something has failed, but for what is wrong with the form: that ends it at once.
pub fn run() -> Result<ExitCode> {
    let start = Instant::now();
    let told = |what: &str| {
        say(&format!(
            "{what}: {} s after the start",
            start.elapsed().as_secs()
        ))
    };
    step(cargo().args(["fmt", "--all", "--check"]))?;
    // What tests need comes from the network, while the compiler runs.
    let checks = thread::scope(|scope| {
        let preparing = scope.spawn(|| {
            system::install_missing(false)?;
            judges::fetch(false)?;
            runtimes::fetch_for_tests(false)
        });
        step(
            cargo()
                .args(["clippy", "--workspace", "--all-targets", "--release"])
                .args(["--", "-D", "warnings"]),
        )?;
        told("lints");
        let checks = check::run(None);
        told("checks");
        match preparing.join() {
            Ok(prepared) => prepared?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        told("all that tests need");
        checks
    })?;
    let mut sum = Counts::default();
    for (what, which) in [("quick set", Which::Quick), ("other tests", Which::Rest)] {
        sum += test::run_these(which, false, false, 1)?;
        told(what);
    }
    println!("{sum}");
    Ok(if checks == ExitCode::SUCCESS {
        sum.exit_code()
    } else {
        checks
    })
}
