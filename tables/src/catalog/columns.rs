//! Columns that several tables have, and how columns are made.

use super::Source::{Of, Optional, Sum, Value};
use super::{Column, Kind, Source};

pub(super) const fn column(
    name: &'static str,
    kind: Kind,
    source: Source,
    about: &'static str,
) -> Column {
    Column {
        name,
        kind,
        about,
        source,
    }
}

pub(super) const fn int(name: &'static str, source: Source, about: &'static str) -> Column {
    column(name, Kind::Integer, source, about)
}

pub(super) const fn id(name: &'static str, source: Source, about: &'static str) -> Column {
    column(name, Kind::Unsigned, source, about)
}

pub(super) const fn text(name: &'static str, source: Source, about: &'static str) -> Column {
    column(name, Kind::Text, source, about)
}

pub(super) const PROCESS_ID: Column = int(
    "process_id",
    Value("process"),
    "row of `processes`: tells processes apart whose ids are equal",
);
pub(super) const PID: Column = int(
    "process",
    Of("process", "processes", "process"),
    "process id",
);
pub(super) const RANK: Column = int(
    "rank",
    Of("process", "processes", "rank"),
    "rank of the process in its job",
);
pub(super) const THREAD_ID: Column = int("thread_id", Optional("thread"), "row of `threads`");
pub(super) const TID: Column = int("thread", Of("thread", "threads", "thread"), "thread id");
pub(super) const THREAD_NAME: Column = text(
    "thread_name",
    Of("thread", "threads", "name"),
    "name of the thread",
);
pub(super) const DEVICE: Column = int(
    "device",
    Of("device", "devices", "device"),
    "number of the GPU",
);
pub(super) const STACK: Column = int(
    "stack_id",
    Optional("stack"),
    "row of `stacks`: the call stack",
);
pub(super) const PLACE: Column = text(
    "place",
    Of("stack", "stacks", "place"),
    "the place in the program: function, and file and line as far as they are known",
);
pub(super) const START: Column = int("start_ns", Value("start"), "begin (CLOCK_BOOTTIME)");
pub(super) const END: Column = int("end_ns", Sum("start", "duration"), "end");
pub(super) const DURATION: Column = int("duration_ns", Value("duration"), "how long it took");
pub(super) const DEPTH: Column = int(
    "depth",
    Optional("depth"),
    "how many others of its track it stands in; NULL if the trace does not say",
);
pub(super) const OPEN: Column = int(
    "is_open",
    Value("open"),
    "1 if it had not ended when the trace ended, which is its end then",
);
