//! What serves old habits alone: names, options and settings of rocprof-sys and omnitrace that mean
//! something else here, or nothing. Deleting a row here takes nothing from who never used the original.
//!
//! - [`categories`], [`clocks`], [`domains`], [`sensors`]: the original's names for what has a name of
//!   ours.
//! - [`switches`]: settings whose work another setting does here.
//! - [`ignored`]: settings that are accepted without effect.
//! - [`options`]: command-line options for old command lines only.
//! - [`programs`]: programs that are called by their old names.

pub(crate) mod categories;
pub(crate) mod clocks;
pub(crate) mod domains;
pub(crate) mod ignored;
pub(crate) mod options;
pub(crate) mod programs;
pub(crate) mod sensors;
pub(crate) mod switches;
