//! Programs that are started in one call.

use std::ffi::{c_char, c_int, c_void};

use crate::lifecycle::exec::call::File;
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
    let call = |pid: *mut libc::pid_t, environment| {
        // SAFETY: the caller's own arguments, or a part of the variables.
        unsafe {
            real(
                pid,
                name,
                rest.actions,
                rest.attributes,
                rest.arguments,
                environment,
            )
        }
    };
    let Some(verdict) = judge::judge(file, environment) else {
        return call(rest.pid, environment);
    };
    let mut child = 0;
    let mut start = |environment| call(&raw mut child, environment);
    let without = if verdict.obstacle.forbids_agent() {
        without::agent(environment, std::iter::empty(), |environment, _| {
            start(environment)
        })
    } else {
        None
    };
    let result = without.unwrap_or_else(|| start(environment));
    if result == 0 {
        report::send(&verdict, environment, child.unsigned_abs());
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
