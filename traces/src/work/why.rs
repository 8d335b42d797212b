//! Why there is no figure.

use std::fmt;

/// What is missing, or wrong, where an operator has no figure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// No rule says what an operator of this name works on.
    NoModel,
    /// The trace does not say what it was called with.
    NoArguments,
    /// What it was called with is no list of shapes.
    Unreadable,
    /// An argument is not there, or is no tensor; its name.
    Missing(&'static str),
    /// A number that the result depends on is not there; its name.
    NoValue(&'static str),
    /// Shapes that do not go together; how they are to do that.
    Contradiction(String),
    /// Types of elements are not recorded, so bytes are not known.
    NoTypes,
    /// A type of elements that is not known.
    UnknownType(String),
    /// A dimension is negative.
    Negative,
    /// Dimensions whose product is beyond any memory.
    TooLarge,
    /// Sequences of different lengths, which are values in the memory of the GPU; between how many operations it did.
    Lengths(u128, u128),
    /// What its work depends on is in the memory of the GPU: which.
    Values(&'static str),
}

impl Why {
    /// Shapes that contradict each other.
    pub(super) fn contradiction(text: impl Into<String>) -> Self {
        Self::Contradiction(text.into())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoModel => write!(out, "no model of this operator"),
            Self::NoArguments => write!(
                out,
                "its shapes were not recorded (PyTorch: record_shapes=True; rsys-sample: -I torch --torch-shapes)"
            ),
            Self::Unreadable => write!(out, "its shapes cannot be read"),
            Self::Missing(name) => {
                write!(out, "the shape of its argument {name} is not in the trace")
            }
            Self::NoValue(name) => {
                write!(out, "the value of its argument {name} is not in the trace")
            }
            Self::Contradiction(text) => write!(out, "its shapes contradict each other: {text}"),
            Self::NoTypes => write!(out, "the types of its tensors are not in the trace"),
            Self::UnknownType(name) => write!(out, "its type {name} is not known"),
            Self::Negative => write!(out, "one of its dimensions is negative"),
            Self::TooLarge => write!(out, "its shapes are too large to be true"),
            Self::Lengths(least, most) => write!(
                out,
                "the lengths of its sequences are not in the trace: {:.3e} to {:.3e} operations",
                *least as f64, *most as f64
            ),
            Self::Values(which) => write!(
                out,
                "its work depends on {which}, which the trace does not have"
            ),
        }
    }
}
