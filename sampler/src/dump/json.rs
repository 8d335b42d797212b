//! The same as JSON, for programs; docs/dump.md describes it.

use serde_json::{Value, json};

use super::named::{Frame, Process, Thread};
use super::owner::Kind;
use super::thread::Doing;
use crate::attach::Refusal;
use crate::waits::record::Completeness;

/// The version of what is written: it grows when a field gets another meaning or goes.
const VERSION: u32 = 1;

/// All processes.
pub(super) fn document(time: &str, processes: Vec<Value>) -> String {
    let document = json!({ "version": VERSION, "time": time, "processes": processes });
    format!("{document:#}\n")
}

/// A process that could not be read.
pub(super) fn refusal(pid: u32, refusal: &Refusal) -> Value {
    json!({ "pid": pid, "error": refusal.0 })
}

/// A process.
pub(super) fn process(process: &Process) -> Value {
    let tracer = process.tracer.as_ref();
    json!({
        "pid": process.pid,
        "pid_in_namespace": process.own_pid,
        "name": process.name,
        "command": process.command,
        "executable": process.executable,
        "traced_by": tracer.map(|(pid, name)| json!({ "pid": pid, "name": name })),
        "notes": process.notes,
        "longest_stop_ms": process.stood.as_secs_f64() * 1e3,
        "threads": process.threads.iter().map(thread).collect::<Vec<_>>(),
    })
}

fn thread(thread: &Thread) -> Value {
    let state = match thread.doing {
        Doing::Running => "running",
        Doing::Runnable => "runnable",
        Doing::Asleep => "asleep",
        Doing::Uninterruptible => "uninterruptible",
        Doing::Stopped => "stopped",
        Doing::Traced => "traced",
        Doing::Ended => "ended",
    };
    let stack = match thread.completeness {
        _ if thread.trouble.is_some() || thread.frames.is_empty() => "none",
        Completeness::Complete => "complete",
        Completeness::Truncated => "truncated",
        Completeness::Broken => "broken",
    };
    let waits_for = match thread.waits_for.as_ref() {
        "" => Value::Null,
        label => label.into(),
    };
    let holder = thread.holder.as_ref().map(|holder| {
        let relation = match holder.owner.map(|owner| owner.kind) {
            None => "interpreter_lock",
            Some(Kind::Mutex | Kind::Inheriting) => "mutex",
            Some(Kind::End) => "end_of_thread",
        };
        json!({ "tid": holder.tid, "name": holder.name, "of": relation })
    });
    json!({
        "tid": thread.tid,
        "tid_in_namespace": thread.own_tid,
        "name": thread.name,
        "state": state,
        "cpu_seconds": thread.cpu.as_secs_f64(),
        "waits_for": waits_for,
        "waits_for_thread": holder,
        "holds_interpreter_lock": thread.holds_interpreter,
        "stack": stack,
        "no_stack_because": thread.trouble,
        "frames": thread.frames.iter().map(frame).collect::<Vec<_>>(),
    })
}

fn frame(frame: &Frame) -> Value {
    json!({
        "function": frame.function,
        "language": if frame.is_python { "python" } else { "native" },
        "file": frame.source.as_deref(),
        "line": (frame.line > 0).then_some(frame.line),
        "module": frame.module,
    })
}
