//! Whether programs of gcc run with another runtime of OpenMP than their own, and which.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rsys_config::Resolved;
use rsys_machine::openmp::{REMEDY, can_replace_libgomp, installed, missing_functions};
use rsys_machine::rocm::Environment;
use rsys_machine::roots::Roots;

use crate::launch::command;

/// The backend that makes use of it.
const BACKEND: &str = "ompt";
/// Programs keep their own runtime.
const OF_PROGRAM: &str = "program";
/// Any libomp that is installed.
const ANY: &str = "libomp";

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The runtime that is loaded in front of libgomp.
    pub runtime: Option<PathBuf>,
    /// Why there is none though it was asked for.
    pub complaints: Vec<String>,
}

/// Chooses the runtime for a command, whose first word is `program`.
#[must_use]
pub fn choose(resolved: &Resolved, program: &OsStr) -> Choice {
    let wanted = resolved.openmp_runtime.as_str();
    if wanted.is_empty() || wanted.eq_ignore_ascii_case(OF_PROGRAM) {
        return Choice::default();
    }
    let found = if resolved.backends.is_on(BACKEND, false) {
        find(wanted, program)
    } else {
        Err("counts only with -I ompt".to_owned())
    };
    match found {
        Ok(runtime) => Choice {
            runtime: Some(runtime),
            complaints: Vec::new(),
        },
        Err(why) => Choice {
            runtime: None,
            complaints: vec![format!(
                "--openmp-runtime {wanted}: {why}; programs keep their own runtime of OpenMP"
            )],
        },
    }
}

fn find(wanted: &str, program: &OsStr) -> Result<PathBuf, String> {
    let candidates = if wanted.eq_ignore_ascii_case(ANY) {
        installed(&Roots::of_this_process(), &Environment::of_this_process())
    } else if wanted.contains('/') {
        vec![named(wanted)?]
    } else {
        return Err(format!(
            "expected `{OF_PROGRAM}`, `{ANY}`, or the path of a library"
        ));
    };
    let can_be_preloaded = |path: &PathBuf| {
        let forbidden = |letter: char| matches!(letter, ' ' | '\t' | ':' | '$');
        !path.to_string_lossy().contains(forbidden)
    };
    let candidates: Vec<PathBuf> = candidates.into_iter().filter(can_be_preloaded).collect();
    if candidates.is_empty() && wanted.contains('/') {
        return Err("LD_PRELOAD cannot name a path with a blank, `:` or `$` in it".to_owned());
    }
    if candidates.is_empty() {
        let remedy = REMEDY.trim_end_matches('.');
        return Err(format!(
            "there is none with the interface for tools (OMPT) at a path without blanks and colons. {remedy}"
        ));
    }
    let path = std::env::var_os("PATH");
    let Ok(program) = command::find(program, path.as_deref()) else {
        // Said when it is to run.
        return Ok(candidates[0].clone());
    };
    let mut lacking = None;
    for candidate in candidates {
        let missing = missing_functions(&program, &candidate);
        let Some(first) = missing.first() else {
            return Ok(candidate);
        };
        lacking.get_or_insert_with(|| {
            format!(
                "{} uses {first}, which {} does not have",
                program.display(),
                candidate.display()
            )
        });
    }
    Err(lacking.unwrap_or_default())
}

/// The library at a path that the user gave.
fn named(path: &str) -> Result<PathBuf, String> {
    let path = std::path::absolute(Path::new(path)).unwrap_or_else(|_| PathBuf::from(path));
    if !path.is_file() {
        return Err("there is no such file".to_owned());
    }
    if !can_replace_libgomp(&path) {
        return Err(
            "not a runtime that has the functions of libgomp (GOMP_parallel) and the interface for tools (ompt_start_tool)"
                .to_owned(),
        );
    }
    Ok(path)
}
