//! The table of settings: what each is called, what it may be, and what it is for.
//!
//! One file per category holds the rows. Everything that a user reads about a setting — `--help`, `default.cfg`,
//! `docs/settings.md`, error messages — is printed from these rows, and every value, wherever it comes from, is checked against them.

mod counters;
mod diagnostics;
mod general;
mod gpu;
mod locks;
mod mpi;
mod openmp;
mod output;
mod processes;
mod profile;
mod sampling;
mod selection;
mod torch;
mod windows;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::original::switches;
pub use crate::setting::{Category, Choice, CommandOption, Kind, PREFIXES, Setting, bare_name};

/// All settings, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    [
        general::SETTINGS,
        output::SETTINGS,
        sampling::SETTINGS,
        selection::SETTINGS,
        windows::SETTINGS,
        profile::SETTINGS,
        processes::SETTINGS,
        counters::SETTINGS,
        switches::OVERFLOW,
        general::BACKEND_SETTINGS,
        switches::BACKENDS,
        gpu::SETTINGS,
        locks::SETTINGS,
        mpi::SETTINGS,
        openmp::SETTINGS,
        torch::SETTINGS,
        diagnostics::SETTINGS,
    ]
    .into_iter()
    .flatten()
}

/// The setting with that name or alias, in any case, with or without a prefix.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    BY_NAME.get(bare_name(name).as_str()).copied()
}

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static Setting>> = LazyLock::new(|| {
    let names_of = |setting: &'static Setting| {
        let names = std::iter::once(&setting.name).chain(setting.aliases);
        names.map(move |name| (*name, setting))
    };
    all().flat_map(names_of).collect()
});

/// The name of the setting that `name` most probably was meant to be.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let bare = bare_name(name);
    let names = all()
        .flat_map(|setting| std::iter::once(setting.name).chain(setting.aliases.iter().copied()));
    crate::nearest::nearest(&bare, names)
}
