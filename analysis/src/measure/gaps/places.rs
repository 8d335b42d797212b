//! The place in a program that a call stack stands for: the innermost line of Python or function of the program itself.

use crate::model::{Frame, Model, StackId};

/// Beginnings of the names of files that are no program: the C library, the interpreter, runtimes, and we ourselves.
const NOT_THE_PROGRAM: [&str; 19] = [
    "ld-linux",
    "libc.so",
    "libc-",
    "libm.so",
    "libpthread",
    "libdl.so",
    "libstdc++",
    "libgcc_s",
    "libgomp",
    "libpython",
    "python",
    "libamdhip64",
    "libhsa-runtime64",
    "librccl",
    "libroctx64",
    "librsys_",
    "[vdso",
    "linux-vdso",
    "[kernel",
];

/// Parts of paths of Python files that belong to no program.
const LIBRARIES_OF_PYTHON: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python"];

/// The place that a stack stands for, or an empty text where it has no frames.
pub(super) fn place(model: &Model, stack: StackId) -> String {
    let frames = || model.stacks.innermost_first(stack);
    let is_python = |frame: &&Frame| model.text(frame.source).ends_with(".py");
    let is_own = |frame: &&Frame| {
        let path = model.text(frame.source);
        !LIBRARIES_OF_PYTHON.iter().any(|part| path.contains(part))
    };
    let is_program = |frame: &&Frame| {
        let path = model.text(frame.mapping);
        let name = file_name(path);
        !NOT_THE_PROGRAM.iter().any(|start| name.starts_with(start))
    };
    frames()
        .find(|frame| is_python(frame) && is_own(frame))
        .or_else(|| frames().find(is_python))
        .or_else(|| frames().find(is_program))
        .or_else(|| frames().next())
        .map_or_else(String::new, |frame| text(model, frame))
}

fn text(model: &Model, frame: &Frame) -> String {
    let function = model.text(frame.function);
    match (file_name(model.text(frame.source)), frame.line) {
        ("", _) => function.to_owned(),
        (file, 0) => format!("{function} ({file})"),
        (file, line) => format!("{function} ({file}:{line})"),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
