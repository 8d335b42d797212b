//! How the categories of slices are called.

/// Whose names the categories in a trace have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CategoryNames {
    /// Ours: `kernel`, `hip`.
    #[default]
    Rsys,
    /// Those of the original: `rocm_kernel_dispatch`, `rocm_hip_api`.
    Original,
}

impl CategoryNames {
    /// The word for it in files and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CategoryNames::Rsys => "rsys",
            CategoryNames::Original => "original",
        }
    }

    /// By the word in files and on the command line; the table allows no other.
    pub(crate) fn from_word(word: &str) -> Self {
        if word == "original" {
            CategoryNames::Original
        } else {
            CategoryNames::Rsys
        }
    }
}
