//! The place in a program that a call stack stands for: the innermost line of Python of the program, else its innermost function.

use crate::measure::code_place::{file_name, innermost, is_python};
use crate::model::{Frame, Model, StackId};

/// Parts of paths of Python files that belong to no program.
const LIBRARIES_OF_PYTHON: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python"];

/// The place that a stack stands for, or an empty text where it has no frames.
pub(super) fn place(model: &Model, stack: StackId) -> String {
    let is_own_python = |frame: &&Frame| {
        let path = model.text(frame.source);
        is_python(frame, model)
            && !path.starts_with('<')
            && !LIBRARIES_OF_PYTHON.iter().any(|part| path.contains(part))
    };
    let mut frames = model.stacks.innermost_first(stack);
    frames
        .find(is_own_python)
        .or_else(|| innermost(stack, model))
        .or_else(|| model.stacks.innermost_first(stack).next())
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
