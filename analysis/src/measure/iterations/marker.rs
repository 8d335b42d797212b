//! Which names mark iterations.

use serde::{Deserialize, Serialize};

/// What a marker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MarkerKind {
    /// A range that the program marked, from its begin to its end.
    Range,
    /// A mark: an iteration lasts until the next one.
    Mark,
    /// An operator of a framework.
    Operator,
    /// A function, where calls and returns were recorded.
    Function,
    /// A call of HIP, HSA or RCCL: an iteration lasts until the next one.
    Call,
    /// A kernel, or another operation of a GPU: an iteration lasts until the next one.
    Kernel,
    /// None: the whole trace is one iteration.
    Whole,
}

impl MarkerKind {
    /// In a word.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Mark => "mark",
            Self::Operator => "operator",
            Self::Function => "function",
            Self::Call => "call",
            Self::Kernel => "kernel",
            Self::Whole => "whole trace",
        }
    }
}

/// How names of iterations begin, if nothing is named, in small letters.
const DEFAULTS: [&str; 7] = [
    "profilerstep",
    "training_step",
    "train_step",
    "iteration",
    "iter",
    "step",
    "batch",
];

/// What may stand between a name and its number.
const SEPARATORS: [char; 6] = [' ', '#', '_', ':', '-', '='];

/// Whether a name is what programs commonly call an iteration: `step`, `iter 17`, `ProfilerStep#3`.
#[must_use]
pub fn is_default_marker(text: &str) -> bool {
    let small = text.to_ascii_lowercase();
    DEFAULTS
        .iter()
        .any(|name| small.strip_prefix(name).is_some_and(is_number))
}

/// Whether what stands behind a name is at most a number: ``, ` 17`, `#3`, `_4/100`.
fn is_number(rest: &str) -> bool {
    let digits = rest.trim_start_matches(SEPARATORS);
    let behind = digits.trim_start_matches(|one: char| one.is_ascii_digit());
    let has_digits = behind.len() < digits.len();
    match has_digits {
        true => !behind.starts_with(|one: char| one.is_alphanumeric() || one == '_'),
        false => rest.is_empty(),
    }
}

/// Whether a marker that is named means a text: the same, one with a number behind it, a function with its file or arguments behind it, or one that a star
/// stands for (`step*`).
pub(super) fn is_meant(marker: &str, text: &str) -> bool {
    if let Some(start) = marker.strip_suffix('*') {
        return text.starts_with(start);
    }
    let Some(rest) = text.strip_prefix(marker) else {
        // `void gemm<float>(…)`: types stand in front of names of kernels.
        return text
            .split_once(' ')
            .is_some_and(|(front, rest)| front == "void" && is_meant(marker, rest));
    };
    is_number(rest)
        || rest.starts_with(['(', '<', '.'])
        || rest.starts_with(" (")
        || rest.starts_with(" [")
}

/// A name without its numbers: names that differ in these alone are one marker.
pub(in crate::measure) fn without_numbers(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    for one in text.chars() {
        match one.is_ascii_digit() {
            true if found.ends_with('#') => {}
            true => found.push('#'),
            false => found.push(one),
        }
    }
    let trimmed = found.trim_end_matches('#').trim_end_matches(SEPARATORS);
    trimmed.to_owned()
}

/// The first number in a name.
pub(super) fn number(text: &str) -> Option<u64> {
    let first = text.find(|one: char| one.is_ascii_digit())?;
    let digits = text[first..]
        .split(|one: char| !one.is_ascii_digit())
        .next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_names_of_iterations_are_known() {
        for (text, is_one) in [
            ("step", true),
            ("step 17", true),
            ("Iteration: 4", true),
            ("iter_12/100", true),
            ("ProfilerStep#3", true),
            ("step_backward", false),
            ("iterator", false),
            ("optimizer.step", false),
            ("step 3a", false),
        ] {
            assert_eq!(is_default_marker(text), is_one, "{text}");
        }
    }

    #[test]
    fn a_marker_means_its_name_with_a_number_or_a_file_behind_it() {
        for (marker, text, is_one) in [
            ("step", "step", true),
            ("step", "step 17", true),
            ("step", "step_two", false),
            ("step*", "step_two", true),
            ("train", "train (train.py)", true),
            ("gemm", "gemm<float>(int)", true),
            ("gemm", "void gemm<float>(int)", true),
            ("gemm", "gemm_2", true),
            ("gemm", "big_gemm", false),
        ] {
            assert_eq!(is_meant(marker, text), is_one, "{marker} {text}");
        }
        assert_eq!(number("iter_12/100"), Some(12));
        assert_eq!(without_numbers("iter_12/100"), "iter_#/");
        assert_eq!(without_numbers("step 17"), "step");
    }
}
