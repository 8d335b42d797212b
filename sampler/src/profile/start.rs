//! The start of a run: everything that can fail before the target runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::job_record::{begin_record, end_record};
use super::opened::Opened;
use super::target::Spawned;
use super::{Refusal, closing, first, observers, run_without_profiling};
use rsys_wire::program::Obstacle;
use rsys_wire::sources::Build;

use crate::collect::Collector;
use crate::launch::agent::{
    ENV_AGENT, beside, find_agent, preloaded, taken_by_others, target_environment,
};
use crate::launch::command::{self, Verdict};
use crate::launch::ending::Ending;
use crate::launch::inherited::{self, Inherited};
use crate::launch::signals::Signals;
use crate::launch::spawn;
use crate::plan::Plan;
use crate::summary::Circumstances;
use crate::terminal::say;

/// Runs the plan and returns how to end.
pub fn run(plan: &Plan) -> Result<Ending, Refusal> {
    let path = std::env::var_os("PATH");
    let file = command::find(first(&plan.command), path.as_deref()).map_err(|error| Refusal {
        code: error.exit_code(),
        text: error.to_string(),
    })?;
    let mut unsampled = match command::judge(&file) {
        Verdict::Sampled => None,
        Verdict::Ignored(reason) => {
            warn_of_unsampled(&reason, plan);
            Some(reason)
        }
        Verdict::Refused(reason) => {
            warn_of_unsampled(&reason, plan);
            return Ok(run_without_profiling(&plan.command, &plan.exports));
        }
    };
    if plan.run.verbosity >= 0 {
        for complaint in &plan.complaints {
            say(&format!("warning: {complaint}"));
        }
        if let Some(runtime) = &plan.run.openmp_runtime {
            say(&format!(
                "programs of gcc run with {} in place of libgomp (--openmp-runtime)",
                runtime.display()
            ));
        }
    }
    if !inherited::has_room_for_files() {
        warn_of_unsampled("too few open files (ulimit -n)", plan);
        return Ok(run_without_profiling(&plan.command, &plan.exports));
    }
    let inherited = Inherited::take();
    if inherited.has_children && plan.run.verbosity >= 0 {
        say(
            "warning: the process that became rsys-sample by exec has children. They stay children of rsys-sample: the command cannot wait for them (start rsys-sample without exec, and wait for them there)",
        );
    }
    let agent = find_agent(&own_executable(), std::env::var_os(ENV_AGENT).as_deref())
        .map_err(Refusal::new)?;
    let agent = chosen_agent(agent, plan);
    let mut opened = Opened::open(plan, None)?;
    let plain_environment = plain_environment(plan);
    let environment = environment(plan, &plain_environment, &agent, &opened.session);
    if plan.run.verbosity >= 2 {
        let settings = plan.agent.to_line();
        say(&format!("agent {}: {settings}", agent.display()));
    }
    let record = begin_record(plan, &opened.directory);
    let off_cpu = observers::off_cpu(plan);
    let started = spawn_target(
        plan,
        &file,
        &environment,
        &plain_environment,
        &mut opened.signals,
        &inherited,
    );
    let target = match started {
        Ok(started) => {
            if !started.with_agent {
                let reason = format!("{} {}", file.display(), Obstacle::NoRoom);
                warn_of_unsampled(&reason, plan);
                unsampled = Some(reason);
            }
            Spawned(started.pid)
        }
        Err(refusal) => {
            let circumstances = Circumstances::of(&plan.run, unsampled);
            end_record(record, &circumstances, Ending::Code(refusal.code), &[], 0);
            opened.directory.remove_if_empty();
            return Err(refusal);
        }
    };
    let target = Box::new(target);
    let (watch, directory) = opened.watch(plan, target, off_cpu, unsampled, Collector::set_child);
    Ok(closing::serve(watch, plan, &directory, record))
}

/// The build of the agent that records what the plan wants. Without it, the run goes on with the plain one.
fn chosen_agent(agent: PathBuf, plan: &Plan) -> PathBuf {
    let build = plan.agent.events.build();
    if build == Build::Plain {
        return agent;
    }
    beside(&agent, build).unwrap_or_else(|error| {
        say(&format!("warning: {error}"));
        agent
    })
}

fn warn_of_unsampled(reason: &str, plan: &Plan) {
    if plan.run.verbosity >= 0 {
        say(&format!(
            "warning: {reason}: it runs, but cannot be sampled"
        ));
    }
}

/// The environment that the command would have without us, with what the user wants in it.
fn plain_environment(plan: &Plan) -> Vec<(OsString, OsString)> {
    let is_replaced = |name: &OsString| plan.exports.iter().any(|(key, _)| key == name);
    std::env::vars_os()
        .filter(|(name, _)| !is_replaced(name))
        .chain(plan.exports.iter().cloned())
        .collect()
}

/// The environment that loads the agent, which finds us by the name of our socket.
fn environment(
    plan: &Plan,
    plain: &[(OsString, OsString)],
    agent: &Path,
    socket: &str,
) -> Vec<(OsString, OsString)> {
    let inherited = plain.to_vec();
    for (variable, tool) in taken_by_others(&inherited, &plan.agent) {
        say(&format!(
            "warning: {variable} names {}, which gets what the program says by this interface; rsys does not (unset it for rsys to record)",
            tool.display()
        ));
    }
    let inherited = match &plan.run.openmp_runtime {
        Some(runtime) => preloaded(inherited, runtime),
        None => inherited,
    };
    target_environment(inherited, agent, socket, &plan.agent)
}

fn spawn_target(
    plan: &Plan,
    file: &Path,
    environment: &[(OsString, OsString)],
    plain_environment: &[(OsString, OsString)],
    signals: &mut Signals,
    inherited: &Inherited,
) -> Result<spawn::Started, Refusal> {
    let mask = *signals.original_mask();
    // Behind the target: whoever looks for it takes our first child. Its program begins when the
    // witness is there.
    let call_witness = || signals.call_witness();
    spawn::spawn(
        file,
        &plan.command,
        environment,
        plain_environment,
        &mask,
        inherited,
        call_witness,
    )
    .map_err(|error| Refusal {
        code: error.exit_code(),
        text: error.to_string(),
    })
}

/// Our own file. Without `/proc` it is what we were called by.
pub(super) fn own_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| {
        let name = std::env::args_os().next().unwrap_or_default();
        let path = command::find(&name, std::env::var_os("PATH").as_deref()).unwrap_or_default();
        path.canonicalize().unwrap_or(path)
    })
}
