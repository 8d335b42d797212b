//! What was found out about traces, kept so that they need not be read again: answers, and the tables that SQL is asked of.
//!
//! A file of the cache says what it was made of ([`identity`]) and counts only as long as that is so. It is written beside its place and
//! renamed, so that others see a whole file, old or new; one that is damaged, foreign or of another version is as good as none. Whatever goes wrong
//! here costs time only, so it is never an error.

pub(crate) mod answers;
mod encode;
mod identity;
mod place;

use std::iter::once;
use std::path::PathBuf;

use rsys_traces::read;

pub(crate) use identity::Identity;
pub(crate) use place::{Place, unnamed, user_folder};

/// Inputs of fewer bytes are read again quicker than anybody notices.
const INPUT_BYTES_MIN: u64 = 16 << 20;

/// Whether to keep what was found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Of large inputs.
    Large,
    /// Of all.
    Always,
    /// Neither keep nor take what was kept.
    Never,
}

/// The place for what is found out about some files, if it is to be kept.
pub(crate) fn place(inputs: &[PathBuf], files: &[PathBuf], choice: Choice) -> Option<Place> {
    let is_large = || bytes_of(files) >= INPUT_BYTES_MIN;
    let is_kept = match choice {
        Choice::Large => is_large(),
        Choice::Always => true,
        Choice::Never => false,
    };
    is_kept.then(|| Place::of(inputs))
}

/// How many bytes there are to read.
pub(crate) fn bytes_of(files: &[PathBuf]) -> u64 {
    let with_parts = |file: &PathBuf| once(file.clone()).chain(read::further_parts(file));
    let files = files.iter().flat_map(with_parts);
    let sizes = files.filter_map(|file| file.metadata().ok());
    sizes.map(|about| about.len()).sum()
}

/// What the file of the tables of these files is called.
pub(crate) fn name_of_tables(files: &[PathBuf]) -> String {
    format!("tables-{}", identity::name(files, ""))
}
