//! Waits that end when something is handed over, as their stacks say: from a queue, through a pipe, or by a condition of the program's own.

use crate::program::code_place::{file_name, is_own_code, is_python};
use rsys_traces::model::{Frame, Model, StackId, is_input, is_loader};

/// How something is handed to a thread that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handover {
    /// By a thread of its process.
    Thread,
    /// Through a pipe or socket, perhaps by another process.
    Pipe,
}

/// Functions that wait for the end of a thread, which hands over nothing.
const JOINS: [&str; 7] = [
    "join (threading.py)",
    "join (process.py)",
    "(popen_fork.py)",
    "_wait_for_tstate_lock",
    "_shutdown (threading.py)",
    "pthread_join",
    "ThreadHandle_join",
];
/// Functions of the C and C++ libraries that wait until another thread says that they may go on.
const CONDITIONS: [&str; 3] = ["pthread_cond_", "condition_variable", "sem_"];
/// Ends of the files of Python's libraries that hand over, in the process and from others.
const QUEUES: [&str; 2] = ["/queue.py", "/multiprocessing/queues.py"];
const PIPES: [&str; 2] = [
    "/multiprocessing/connection.py",
    "/multiprocessing/queues.py",
];
/// Parts of the files of those that divide work: who waits there waits for a share of it.
const DIVIDERS: [&str; 3] = [
    "/concurrent/futures/",
    "/multiprocessing/pool.py",
    "/multiprocessing/managers.py",
];
/// Parts of the files of those in which a thread waits until others say that it may go on, whatever for.
const WAITERS: [&str; 4] = [
    "/queue.py",
    "/threading.py",
    "/multiprocessing/",
    "/concurrent/futures/",
];
/// Beginnings of the names of files that such functions are in, beside the program's.
const LIBRARIES: [&str; 10] = [
    "libc-",
    "libc.so",
    "libc++",
    "libpthread",
    "libstdc++",
    "ld-linux",
    "libpython",
    "python",
    "_queue",
    "select.",
];
/// Beginnings of what is waited for at a pipe.
const READS: [&str; 7] = [
    "read", "recv", "poll", "ppoll", "select", "pselect", "epoll_",
];

/// Beginnings of the calls by which a process waits for other than its own threads.
const REQUESTS: [&str; 7] = [
    "recv", "accept", "poll", "ppoll", "select", "pselect", "epoll_",
];

/// Whether this call is one by which servers wait for what comes from outside.
pub(super) fn waits_for_requests(call: &str) -> bool {
    REQUESTS.iter().any(|start| call.starts_with(start))
}

/// How something is handed to a thread that waits, as its stack says; `None` where it waits for something else.
pub(super) fn handover(stack: StackId, model: &Model) -> Option<Handover> {
    wait_for_others(stack, model).and_then(|(kind, is_handed)| is_handed.then_some(kind))
}

/// Whether a thread waits until others give it something to do, or say that it may go on.
pub(super) fn is_idle(stack: StackId, model: &Model) -> bool {
    wait_for_others(stack, model).is_some()
}

/// Whether a thread waits for what it is handed in a function that loads, by its name.
pub(super) fn names_loader(stack: StackId, model: &Model) -> bool {
    let mut frames = to_own_code(stack, model);
    handover(stack, model).is_some()
        && frames.any(|frame| is_input(name(frame, model)) || is_loader(name(frame, model)))
}

/// How a thread waits for others, and whether it is handed something then.
fn wait_for_others(stack: StackId, model: &Model) -> Option<(Handover, bool)> {
    let mut frames = to_own_code(stack, model);
    let waited_for = model.text(frames.next()?.function);
    let is_lock = waited_for.starts_with("futex");
    if !is_lock && !READS.iter().any(|start| waited_for.starts_with(start)) {
        return None;
    }
    let [mut by_condition, mut by_queue, mut by_pipe, mut waits] = [false; 4];
    let [mut loads, mut divides, mut is_of_python] = [false; 3];
    let mut is_named = false;
    for frame in frames {
        let function = model.text(frame.function);
        let source = model.text(frame.source);
        let has = |parts: &[&str]| parts.iter().any(|part| function.contains(part));
        if has(&JOINS) {
            return None;
        }
        by_condition |= has(&CONDITIONS);
        is_named |= is_input(name(frame, model));
        if is_python(frame, model) {
            is_of_python = true;
            by_queue |= QUEUES.iter().any(|end| source.ends_with(end));
            by_pipe |= PIPES.iter().any(|end| source.ends_with(end));
            waits |= WAITERS.iter().any(|part| source.contains(part));
            divides |= DIVIDERS.iter().any(|part| source.contains(part));
            loads |=
                is_loader(name(frame, model)) || !is_own_code(frame, model) && is_loader(source);
        }
        let file = file_name(model.text(frame.mapping));
        let is_known = file.is_empty()
            || file.starts_with('[')
            || LIBRARIES.iter().any(|start| file.starts_with(start));
        if !is_known && !is_python(frame, model) && !is_own_code(frame, model) {
            return None;
        }
    }
    let may_hand = loads || !divides;
    // A lock that is wanted by others is another matter.
    let by_condition = by_condition && !is_of_python;
    // Threads that share work wait for each other in the same functions: only a loader's name distinguishes them.
    let by_own = by_condition && is_named;
    match is_lock {
        true => (waits || loads || by_condition)
            .then_some((Handover::Thread, may_hand && (by_queue || loads || by_own))),
        false => (waits || loads).then_some((Handover::Pipe, may_hand && (by_pipe || loads))),
    }
}

/// The frames of a stack from the innermost to the first of the program's own.
fn to_own_code(stack: StackId, model: &Model) -> impl Iterator<Item = &Frame> {
    let mut is_behind = false;
    let frames = model.stacks.innermost_first(stack);
    frames.take_while(move |frame| !std::mem::replace(&mut is_behind, is_own_code(frame, model)))
}

/// What a function is called; one of the program's own without its file, whose name need say nothing of it.
fn name<'m>(frame: &Frame, model: &'m Model) -> &'m str {
    let function = model.text(frame.function);
    match is_own_code(frame, model) {
        true => function.split(" (").next().unwrap_or(function),
        false => function,
    }
}
