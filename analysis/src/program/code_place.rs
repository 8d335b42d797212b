//! Which frame of a call stack is the program's own, as opposed to the libraries below it.

use rsys_proto::{is_library_header, is_runtime_file};

use crate::table::Cell;
use rsys_traces::model::{
    Frame, INTERPRETER_LOCK, LockWait, Model, StackId, WAITING_FOR_INTERPRETER, WAITING_FOR_LOCK,
};

/// Whether a function is Python: such frames have their source file in place of a loaded file.
pub(crate) fn is_python(frame: &Frame, model: &Model) -> bool {
    let source = model.text(frame.source);
    let mapping = model.text(frame.mapping);
    source.ends_with(".py")
        || !source.is_empty() && mapping.trim_start_matches('/') == source.trim_start_matches('/')
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a frame is of the program and its own libraries: Python, or native code that is no runtime's, nor the interpreter's.
fn is_program(frame: &Frame, model: &Model) -> bool {
    if is_python(frame, model) {
        // The interpreter's own: `<frozen importlib._bootstrap>`.
        return !model.text(frame.source).starts_with("<frozen ");
    }
    let function = model.text(frame.function);
    let file = file_name(model.text(frame.mapping));
    // `[waiting]`, `[broken]`, `[kernel]` and the like are no code.
    let is_mark = |text: &str| text.starts_with('[');
    !is_mark(function) && !file.is_empty() && !is_mark(file) && !is_runtime_file(file)
}

/// A stack without the frames below its innermost one that is the program's; `None` if it has no such frame. What is compiled into the
/// program from headers of libraries counts only where nothing else does.
pub(crate) fn program_part(stack: StackId, model: &Model) -> Option<StackId> {
    let (mut at, mut of_header) = (stack, None);
    while let Some((frame, caller)) = model.stacks.split(at) {
        if is_program(frame, model) {
            if !is_library_header(model.text(frame.source)) {
                return Some(at);
            }
            of_header = of_header.or(Some(at));
        }
        at = caller;
    }
    of_header
}

/// The innermost frame of a stack that is the program's.
pub(crate) fn innermost(stack: StackId, model: &Model) -> Option<&Frame> {
    let (frame, _) = model.stacks.split(program_part(stack, model)?)?;
    Some(frame)
}

/// Parts of paths of files that belong to installations of Python, and beginnings of those that belong to the system or to ROCm.
const LIBRARIES_OF_PYTHON: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python"];
const LIBRARIES: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib", "/opt/rocm"];

fn is_own_python(frame: &Frame, model: &Model) -> bool {
    let path = model.text(frame.source);
    is_python(frame, model)
        && !path.starts_with('<')
        && !LIBRARIES_OF_PYTHON.iter().any(|part| path.contains(part))
}

/// Whether a frame is of the user's own files: his Python, his programs and their libraries; not what is installed with Python, the system
/// or ROCm.
pub(crate) fn is_own_code(frame: &Frame, model: &Model) -> bool {
    if is_python(frame, model) {
        return is_own_python(frame, model);
    }
    let file = model.text(frame.mapping);
    let is_library = LIBRARIES.iter().any(|start| file.starts_with(start))
        || LIBRARIES_OF_PYTHON.iter().any(|part| file.contains(part));
    !is_library && is_program(frame, model) && !is_library_header(model.text(frame.source))
}

/// The frame that stands for a stack: the innermost line of Python that the program's own files have, else its innermost function.
#[must_use]
pub fn own_place(stack: StackId, model: &Model) -> Option<&Frame> {
    let mut frames = model.stacks.innermost_first(stack);
    frames
        .find(|frame| is_own_python(frame, model))
        .or_else(|| innermost(stack, model))
}

/// The place that stands for a stack in words, for instance `load_batch (train.py:42)`; `None` where nothing of it is the program's.
pub(crate) fn place_text(stack: StackId, model: &Model) -> Option<String> {
    let frame = own_place(stack, model)?;
    let function = model.text(frame.function);
    let source = file_name(model.text(frame.source));
    // Names of Python functions end with their file as it is.
    let function = function
        .strip_suffix(&format!(" ({source})"))
        .unwrap_or(function);
    Some(match (source, frame.line) {
        ("", _) => function.to_owned(),
        (source, 0) => format!("{function} ({source})"),
        (source, line) => format!("{function} ({source}:{line})"),
    })
}

/// The function of the GPU's runtime, RCCL or MPI that a thread was in, the one nearest to the program, and the stack from which it was called.
pub(crate) fn runtime_call(stack: StackId, model: &Model) -> Option<(&str, StackId)> {
    const RUNTIMES: [&str; 7] = ["hip", "hsa_", "nccl", "MPI_", "PMPI_", "shmem_", "ucp_"];
    let (mut at, mut found) = (stack, None);
    while let Some((frame, caller)) = model.stacks.split(at) {
        let name = model.text(frame.function);
        let is_library = file_name(model.text(frame.mapping)).starts_with("lib");
        if is_library && RUNTIMES.iter().any(|start| name.starts_with(start)) {
            // Names of functions in C++ go on with their arguments.
            found = Some((name.split('(').next().unwrap_or_default(), caller));
        }
        at = caller;
    }
    found
}

/// A wait for a lock in words: where the thread is in the program, what it waits in (`None`: for the lock of a Python interpreter), and who holds the
/// lock, for instance `by thread 4711 in grow (pool.cc:42)`; what is not known is empty.
pub(crate) fn waiting_text(mut place: String, function: Option<&str>, holder: &str) -> String {
    let what = match function {
        None => WAITING_FOR_INTERPRETER.to_owned(),
        Some(function) => format!("{WAITING_FOR_LOCK}{function}"),
    };
    if !place.ends_with(&what) {
        let comma = if place.is_empty() { "" } else { ", " };
        place = format!("{place}{comma}{what}");
    }
    match holder {
        "" => place,
        holder => format!("{place}, held {holder}"),
    }
}

/// A recorded wait for a lock in words, by the stack of the call that waits.
pub(crate) fn lock_wait_text(wait: &LockWait, stack: Option<StackId>, model: &Model) -> String {
    let place = stack.and_then(|stack| place_text(stack, model));
    let function = (!wait.is_interpreter).then(|| model.text(wait.function));
    // Without the thread's number: waits of several ranks at one place are compared.
    let holder = match model.text(wait.holder) {
        "" => String::new(),
        holder => format!("in {holder}"),
    };
    waiting_text(place.unwrap_or_default(), function, &holder)
}

/// Whether a stack is of a thread that waits until it may run Python.
pub(crate) fn waits_for_interpreter(stack: StackId, model: &Model) -> bool {
    let innermost = model.stacks.split(stack);
    innermost.is_some_and(|(frame, _)| model.text(frame.function) == INTERPRETER_LOCK)
}

/// Function, source and line of a frame, as cells: `function`, `source`, `line`.
pub(crate) fn cells(frame: Option<&Frame>, model: &Model, missing: &str) -> [Cell; 3] {
    let Some(frame) = frame else {
        return [missing.into(), Cell::Null, Cell::Null];
    };
    let source = model.text(frame.source);
    [
        model.text(frame.function).into(),
        (!source.is_empty()).then_some(source).into(),
        (frame.line > 0).then_some(frame.line).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_a_library_is_the_program_only_alone() {
        let mut model = Model::default();
        let mut child = |stack, function, source| {
            let frame = Frame {
                function: model.texts.intern(function),
                mapping: model.texts.intern("/opt/app/solver"),
                source: model.texts.intern(source),
                line: 7,
            };
            let frame = model.stacks.frame_id(frame);
            model.stacks.child(stack, frame)
        };
        let vector = "/usr/include/c++/12/bits/stl_vector.h";
        let header = child(StackId::ROOT, "std::thread::_Invoker<>", vector);
        let own = child(header, "assemble", "/home/me/assemble.cpp");
        let inner = child(own, "std::vector<>::push_back", vector);
        assert_eq!(program_part(inner, &model), Some(own));
        assert_eq!(program_part(header, &model), Some(header));
    }

    #[test]
    fn libraries_and_marks_are_not_the_program() {
        let mut model = Model::default();
        let mut stack = StackId::ROOT;
        for (function, mapping, source) in [
            ("[waiting]", "", ""),
            ("main", "/opt/app/solver", "solver.c"),
            ("<module>", "/home/me/train.py", "/home/me/train.py"),
            ("_load", "/<frozen importlib>", "<frozen importlib>"),
            ("_PyEval_EvalFrameDefault", "/usr/bin/python3.11", ""),
            ("hipMalloc", "/opt/rocm/lib/libamdhip64.so.6", ""),
            ("ioctl", "/lib/libc.so.6", ""),
            (
                "<module>",
                "/usr/lib/python3.11/queue.py",
                "/usr/lib/python3.11/queue.py",
            ),
            (INTERPRETER_LOCK, "/[kernel]", ""),
        ] {
            let frame = Frame {
                function: model.texts.intern(function),
                mapping: model.texts.intern(mapping),
                source: model.texts.intern(source),
                line: 7,
            };
            let frame = model.stacks.frame_id(frame);
            stack = model.stacks.child(stack, frame);
        }
        let found = own_place(stack, &model).unwrap();
        assert_eq!(model.text(found.source), "/home/me/train.py");
        assert!(waits_for_interpreter(stack, &model));
        // The library itself, where nothing of the program is outside of it.
        let found = innermost(stack, &model).unwrap();
        assert_eq!(model.text(found.source), "/usr/lib/python3.11/queue.py");
        assert!(is_python(found, &model));
        assert!(innermost(StackId::ROOT, &model).is_none());
    }
}
