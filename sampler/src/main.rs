//! `rsys-sample`: runs a program under the sampling profiler.

use std::ffi::OsString;

use rsys_sampler::cli;
use rsys_sampler::launch::exit;
use rsys_sampler::plan::Plan;
use rsys_sampler::profile::{profile, run_without_profiling, say};

fn main() {
    let invocation = match cli::from_env() {
        Ok(invocation) => invocation,
        Err(error) => std::process::exit(error.print()),
    };
    let resolved = &invocation.resolved;
    for warning in &invocation.warnings {
        say(&format!("warning: {warning}"));
    }
    if resolved.verbose >= 1 {
        for line in invocation.settings.report() {
            say(&line);
        }
    }
    let exports = invocation.settings.exports();
    if !resolved.enabled {
        let exports: Vec<(OsString, OsString)> = exports
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        exit::finish(run_without_profiling(&invocation.command, &exports));
    }
    let plan = Plan::new(resolved, invocation.command.clone(), exports);
    exit::finish(profile(plan))
}
