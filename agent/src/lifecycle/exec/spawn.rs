//! Programs that are started in one call.

use std::ffi::{c_char, c_int, c_void};

use rsys_wire::program::Obstacle;

use crate::lifecycle::exec::call::File;
use crate::lifecycle::exec::handover;
use crate::lifecycle::exec::judge;
use crate::lifecycle::exec::report;
use crate::lifecycle::exec::without;
use crate::target::real;

/// The signature of both functions.
type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

/// The caller's arguments, but for file and environment.
struct Rest {
    pid: *mut libc::pid_t,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *const c_char,
}

/// Calls `real`, with an environment in which the program can run.
///
/// # Safety
/// As `posix_spawn(3)`.
unsafe fn spawn(
    real: Option<Spawn>,
    name: *const c_char,
    file: &File,
    environment: *const *const c_char,
    rest: &Rest,
) -> c_int {
    let Some(real) = real else {
        return libc::ENOSYS;
    };
    let mut child = 0;
    let pid = &raw mut child;
    let start = |environment| {
        // SAFETY: the caller's own arguments, or a part of the variables.
        handover::as_handed_down(|| unsafe {
            real(
                pid,
                name,
                rest.actions,
                rest.attributes,
                rest.arguments,
                environment,
            )
        })
    };
    let mut verdict = judge::judge(file, environment);
    let without = || without::agent(environment, std::iter::empty(), |rest, _| start(rest));
    let forbidden = verdict
        .as_ref()
        .is_some_and(|verdict| verdict.obstacle.forbids_agent());
    let first = if forbidden { without() } else { None };
    let mut result = first.unwrap_or_else(|| start(environment));
    if result == libc::E2BIG && !forbidden && judge::has_agent(environment) {
        verdict = Some(judge::path_of(file, Obstacle::NoRoom));
        result = without().unwrap_or(result);
    }
    if result == 0 {
        if let Some(verdict) = verdict {
            report::send(&verdict, environment, child.unsigned_abs());
        }
        // SAFETY: null, or where the caller wants the number.
        if let Some(pid) = unsafe { rest.pid.as_mut() } {
            *pid = child;
        }
    }
    result
}

macro_rules! spawns {
    ($($name:ident = $file:path;)*) => {
        $(
            /// # Safety
            /// As `posix_spawn(3)`.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name(
                pid: *mut libc::pid_t,
                file: *const c_char,
                actions: *const c_void,
                attributes: *const c_void,
                arguments: *const *const c_char,
                environment: *const *const c_char,
            ) -> c_int {
                let rest = Rest {
                    pid,
                    actions,
                    attributes,
                    arguments,
                };
                // SAFETY: the caller's own arguments.
                unsafe { spawn(real::$name::get(), file, &$file(file), environment, &rest) }
            }
        )*
    };
}

spawns! {
    posix_spawn = File::Path;
    posix_spawnp = File::Searched;
}
