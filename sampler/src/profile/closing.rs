//! From the target's end to ours: processes that outlive it, the last traces, and what is said of
//! it all.

use std::time::Instant;

use rsys_config::Closing;
use rsys_wire::handshake::FollowChoice;

use super::job_record::end_record;
use super::merging;
use super::watch::Watch;
use crate::emit::outcome::ProcessSummary;
use crate::emit::writer::Outcome;
use crate::jobs::record::{Left, TaskRecord};
use crate::launch::directory::OutputDirectory;
use crate::launch::ending::Ending;
use crate::plan::Plan;
use crate::session::{Failure, LeftOut, Unstarted};
use crate::summary::{self, Circumstances, Wanted};
use crate::terminal::{line_width, say};

/// What is known of processes that have no trace.
struct Missing {
    /// Why the first of the refused datagrams was refused.
    refusal: Option<String>,
    refused: u64,
    failures: Vec<Failure>,
    left_out: LeftOut,
    /// Processes that ended before their deferred start.
    short: Unstarted,
}

/// Follows the target to its end, and says what became of it. Returns how to end.
pub fn serve(
    mut watch: Watch,
    plan: &Plan,
    directory: &OutputDirectory,
    record: Option<TaskRecord>,
) -> Ending {
    let begin = Instant::now();
    let is_ours = watch.target.is_sent_our_signals();
    let leave_at = plan
        .leave_after
        .filter(|_| !is_ours)
        .map(|after| begin + after);
    let ending = watch.until_target_ends(leave_at);
    let wall = begin.elapsed();
    match is_ours {
        true => watch.linger(plan.linger),
        false => watch.leave_target(),
    }
    let verbosity = plan.run.verbosity;
    if verbosity >= 1 && is_ours {
        say(&format!("the command ended: {ending}"));
    }
    if let Some(lost) = watch.collector.lost_switches()
        && verbosity >= 0
    {
        say(&format!(
            "warning: the kernel had no room for {lost} records of context switches"
        ));
    }
    let announced = watch.collector.known();
    let missing = Missing {
        refusal: watch.refusal.take(),
        refused: watch.receiver.refused(),
        failures: watch.receiver.failures(),
        left_out: watch.receiver.left_out(),
        short: watch.receiver.short(),
    };
    let circumstances = Circumstances {
        warned: !missing.left_out.is_empty(),
        follows_none: plan.agent.follow == FollowChoice::None,
        ..Circumstances::of(&plan.run, watch.unsampled.take())
    };
    let command = watch.target.pid().as_raw().unsigned_abs();
    let Some(outcome) = watch.close() else {
        // As where we are killed, the record of the task says that it runs.
        say(&format!(
            "ended before the traces were complete: {} has what was written until then",
            directory.path().display()
        ));
        return ending;
    };
    let processes = &outcome.processes;
    let unstarted = missing.short.count();
    let is_of_job = plan.tasks.is_some() && record.is_some();
    let left = end_record(record, &circumstances, ending, processes, unstarted);
    if verbosity >= 0 {
        say_outcome(&outcome, &missing, &circumstances, plan);
    }
    if plan.merge {
        merging::merge(processes, command, directory.path(), plan);
    }
    if verbosity >= 0 && plan.closing == Closing::Full {
        let own = || {
            summary::table(&summary::Run {
                processes,
                unstarted: &missing.short,
                period_ns: plan.run.period_ns(),
                wall,
                directory: directory.path(),
                width: line_width(),
                realtime: plan.run.realtime_hz.is_some(),
                event: plan.run.overflow.as_ref().map(|by| by.event.as_str()),
            })
        };
        let lines = match &left {
            // Hundreds of tasks share a terminal: the last one speaks for all.
            Some(Left::Nobody(records)) if records.len() > 1 => {
                summary::job_table(records, directory.path(), line_width())
            }
            Some(Left::Others {
                is_first_rank: true,
            }) if is_of_job => {
                let place = directory.path().display();
                vec![format!(
                    "traces in {place}; the rank that ends last sums them up"
                )]
            }
            Some(Left::Others { .. }) if is_of_job => Vec::new(),
            _ => own(),
        };
        lines.iter().for_each(|line| say(line));
    }
    if verbosity >= 2 {
        say_figures(&outcome, announced, missing.refused);
    }
    directory.remove_if_empty();
    let is_last = matches!(left, Some(Left::Nobody(_)));
    if plan.has_own_folder || is_last && plan.has_folder_of_step {
        directory.link_latest();
    }
    ending
}

fn say_outcome(outcome: &Outcome, missing: &Missing, circumstances: &Circumstances, plan: &Plan) {
    if let Some(reason) = &missing.refusal {
        say(&format!(
            "warning: refused {reason}; more of the kind are only counted"
        ));
    }
    for failure in &missing.failures {
        say(&format!("warning: {failure}"));
    }
    for line in missing.left_out.lines() {
        say(&format!("warning: {line}"));
    }
    if outcome.resolver.threadless {
        say(
            "warning: no thread could be made to read symbols (see ulimit -u, -d and -v): functions are shown by their addresses, and a higher limit gives them names",
        );
    }
    let processes = &outcome.processes;
    let has_output = processes.iter().any(ProcessSummary::has_output);
    let is_explained = !missing.failures.is_empty() || !missing.left_out.is_empty();
    if is_explained && !has_output {
        say("no trace: see the warnings above");
    } else {
        let is_verbose = plan.run.verbosity >= 1;
        let wanted = Wanted {
            traces: plan.closing == Closing::Lines || is_verbose,
            details: is_verbose,
        };
        for line in summary::lines(processes, missing.short.count(), circumstances, wanted) {
            say(&line);
        }
    }
    let nothing = summary::no_trace(processes, missing.short.count(), circumstances);
    if nothing.is_some_and(|nothing| !nothing.expected) {
        say("rsys-sample --doctor PROGRAM says what can be recorded here, and what helps");
    }
    if let Some(hint) = summary::gpu_hint(processes).filter(|_| plan.hints_at_gpus) {
        say(&hint);
    }
    if let Some(hint) = summary::mpi_hint(processes).filter(|_| plan.hints_at_mpi) {
        say(&hint);
    }
}

fn say_figures(outcome: &Outcome, announced: u64, refused: u64) {
    let stats = &outcome.resolver;
    say(&format!(
        "{announced} programs announced themselves, {refused} datagrams were refused"
    ));
    say(&format!(
        "names: {} addresses found, {} not; {} from earlier runs; {} files opened of {} modules, {} unusable; {:.3} s",
        stats.resolved,
        stats.unresolved,
        stats.disk_hits,
        stats.modules_opened,
        stats.modules,
        stats.modules_unusable,
        stats.busy.as_secs_f64(),
    ));
}
