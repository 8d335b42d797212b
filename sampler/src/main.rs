//! `rsys-sample`: runs a program under the sampling profiler.

use std::ffi::OsString;

use rsys_config::{Environment, told_of};
use rsys_sampler::cli::{self, Invocation};
use rsys_sampler::dump::dump;
use rsys_sampler::gpu_counters;
use rsys_sampler::jobs::launchers::{Arrangement, arrange};
use rsys_sampler::jobs::place::Place;
use rsys_sampler::launch::command::find;
use rsys_sampler::launch::{ending, own_clock};
use rsys_sampler::plan::{Plan, dump_options};
use rsys_sampler::profile::{attach, profile, run_without_profiling};
use rsys_sampler::run::boot_and_host;
use rsys_sampler::smi;
use rsys_sampler::terminal::{self, say};

fn main() {
    own_clock::be_sure_of_it();
    if smi::reader::is_called() {
        smi::reader::serve();
    }
    if gpu_counters::reader::is_called() {
        gpu_counters::reader::serve();
    }
    let name = std::env::args_os().next().unwrap_or_default();
    if let Some(line) = told_of("rsys-sample", env!("CARGO_PKG_VERSION"), &name) {
        say(&line);
    }
    let invocation = match cli::from_env() {
        Ok(invocation) => invocation,
        Err(error) => std::process::exit(error.print()),
    };
    let resolved = &invocation.resolved;
    if resolved.monochrome {
        terminal::set_monochrome();
    }
    for warning in &invocation.warnings {
        say(&format!("warning: {warning}"));
    }
    if resolved.verbose >= 1 || resolved.list_settings {
        for line in invocation.settings.report() {
            say(&line);
        }
    }
    let exports: Vec<(OsString, OsString)> = invocation
        .settings
        .exports()
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    if !invocation.dump.is_empty() {
        let options = dump_options(resolved, invocation.json);
        ending::finish(dump(&invocation.dump, &options));
    }
    if let Some(pid) = invocation.attach {
        let place = Place::from_env(&Environment::default());
        let command = command_of(pid);
        let plan = Plan::new(resolved, command, exports, place);
        ending::finish(attach(&plan, pid));
    }
    if !resolved.enabled {
        ending::finish(run_without_profiling(&invocation.command, &exports));
    }
    let place = Place::from_env(&Environment::of_this_process());
    let arrangement = arrange_here(&invocation);
    let starts_ranks = arrangement != Arrangement::Ordinary;
    let (_, host) = boot_and_host();
    if !place.is_selected(resolved, &host, starts_ranks) {
        if resolved.verbose >= 1 {
            say("this rank or node is not to be profiled");
        }
        ending::finish(run_without_profiling(&invocation.command, &exports));
    }
    let note = |text: &str| {
        if resolved.verbose >= 0 {
            say(&format!("note: {text}"));
        }
    };
    match arrangement {
        Arrangement::Ordinary | Arrangement::Around(None) => {}
        Arrangement::Around(Some(advice)) => note(&advice),
        Arrangement::Useless(advice) => {
            note(&advice);
            ending::finish(run_without_profiling(&invocation.command, &exports));
        }
        Arrangement::Inside(command) => {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            note(&format!(
                "each rank gets an rsys-sample of its own, on its own machine: {}",
                words.join(" ")
            ));
            ending::finish(run_without_profiling(&command, &[]));
        }
    }
    let plan = Plan::new(resolved, invocation.command.clone(), exports, place);
    ending::finish(profile(&plan))
}

/// The words of the command that a process runs; empty where it is gone.
fn command_of(pid: u32) -> Vec<OsString> {
    use std::os::unix::ffi::OsStringExt;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}

/// What to do if the command starts ranks.
fn arrange_here(invocation: &Invocation) -> Arrangement {
    let path = std::env::var_os("PATH");
    let name = invocation.command.first().map(OsString::as_os_str);
    // A command that is not found is reported when it is to run.
    let Ok(file) = find(name.unwrap_or_default(), path.as_deref()) else {
        return Arrangement::Ordinary;
    };
    arrange(&file, &invocation.command, &calling_words(invocation))
}

/// How to call rsys-sample with the same options from somewhere else.
fn calling_words(invocation: &Invocation) -> Vec<OsString> {
    let given: Vec<OsString> = std::env::args_os().collect();
    let executable = std::env::current_exe().map_or_else(|_| "rsys-sample".into(), OsString::from);
    let options = given.len().saturating_sub(invocation.command.len());
    let mut words = vec![executable];
    words.extend(
        given
            .into_iter()
            .take(options)
            .skip(1)
            .filter(|word| word != "--"),
    );
    // Ranks may start in another folder. What begins with a key may be absolute, though.
    let output = invocation.settings.get("OUTPUT_PATH");
    let output = output.map(ToString::to_string).unwrap_or_default();
    if !output.starts_with(['/', '%', '$'])
        && let Ok(folder) = std::env::current_dir()
    {
        let path = OsString::from(folder.join(&output));
        let is_given = |pair: &[OsString]| pair[0] == "-o" && pair[1] == *output;
        match words.windows(2).position(is_given) {
            Some(place) => words[place + 1] = path,
            None => words.extend(["-o".into(), path]),
        }
    }
    words.push("--".into());
    words
}
