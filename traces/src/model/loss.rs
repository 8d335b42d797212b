//! What an answer could not take in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something about the input that a user has to know: what was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Notice {
    /// The file.
    pub file: String,
    /// The byte in it, if the notice is about a place.
    pub offset: Option<u64>,
    /// What is to be known.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{}: byte {offset}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}
