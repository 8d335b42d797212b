//! The record of a task in the file that all tasks of a parallel job share.

use crate::emit::outcome::ProcessSummary;
use crate::jobs::record::{JOB_FILE, Left, Task, TaskEnd, TaskRecord};
use crate::launch::directory::OutputDirectory;
use crate::launch::ending::Ending;
use crate::plan::Plan;
use crate::summary::{Circumstances, no_trace};
use crate::terminal::say;

/// The record of this task, if it is a task of a parallel job.
pub fn begin_record(plan: &Plan, directory: &OutputDirectory) -> Option<TaskRecord> {
    let place = &plan.place;
    if !plan.is_kept || (place.rank.is_none() && place.step.is_none()) {
        return None;
    }
    let task = Task {
        place,
        host: &plan.run.host,
        boot_id: &plan.run.boot_id,
        command: &plan.run.keys.command,
        expected: plan.tasks.unwrap_or(1),
    };
    TaskRecord::begin(directory.path(), &task)
        .map_err(|error| warn_of_record(&error))
        .ok()
}

/// Says in the record how the task ended. Returns whether other tasks still run, where that is known.
pub fn end_record(
    record: Option<TaskRecord>,
    circumstances: &Circumstances,
    ending: Ending,
    processes: &[ProcessSummary],
    unstarted: u64,
) -> Option<Left> {
    let end = TaskEnd {
        ending,
        processes,
        unstarted,
        no_trace: no_trace(processes, unstarted, circumstances),
        are_cpu_times: circumstances.overflow.is_none(),
    };
    let left = record?.end(end);
    left.map_err(|error| warn_of_record(&error)).ok()
}

fn warn_of_record(error: &std::io::Error) {
    say(&format!(
        "warning: {JOB_FILE} beside the traces is not complete: {error}"
    ));
}
