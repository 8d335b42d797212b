//! Which names mark iterations.

use serde::{Deserialize, Serialize};

use crate::program::iteration_names::is_number;

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

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
