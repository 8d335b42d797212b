//! The place in a program that a call stack stands for, in words.

use crate::program::code_place::{file_name, own_place, waits_for_interpreter};
use rsys_traces::model::{Frame, Model, StackId, WAITING_FOR_INTERPRETER};

/// The place that a stack stands for, or an empty text where it has no frames.
pub(super) fn place(model: &Model, stack: StackId) -> String {
    let place = own_place(stack, model)
        .or_else(|| model.stacks.innermost_first(stack).next())
        .map_or_else(String::new, |frame| text(model, frame));
    if waits_for_interpreter(stack, model) {
        return format!("{place}, {WAITING_FOR_INTERPRETER}");
    }
    place
}

fn text(model: &Model, frame: &Frame) -> String {
    let function = model.text(frame.function);
    let file = file_name(model.text(frame.source));
    // Python functions are called `load (train.py)`.
    let in_file = format!(" ({file})");
    let function = function.strip_suffix(&in_file).unwrap_or(function);
    match (file, frame.line) {
        ("", _) => function.to_owned(),
        (file, 0) => format!("{function} ({file})"),
        (file, line) => format!("{function} ({file}:{line})"),
    }
}
