//! A clock of ours that nobody plays with.
//!
//! A library that is preloaded into the program to show it another time (libfaketime) is preloaded into us, too. Times would then be those of
//! nowhere, and our waits end at once or never. So we start again without what is preloaded; the program gets it all the same.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

const LD_PRELOAD: &str = "LD_PRELOAD";
/// Where it is kept while we start again.
const KEPT: &str = "RSYS__LD_PRELOAD";

/// What our times and waits are made of.
const FUNCTIONS: [&CStr; 5] = [
    c"clock_gettime",
    c"poll",
    c"nanosleep",
    c"clock_nanosleep",
    c"ppoll",
];

/// Starts this program again where another library than the C library answers for its clock. Returns in a process to which that does not
/// happen, or where it cannot be helped. To be called first of all.
pub fn be_sure_of_it() {
    if let Some(preloaded) = std::env::var_os(KEPT) {
        // SAFETY: no other thread has been started.
        unsafe {
            std::env::set_var(LD_PRELOAD, preloaded);
            std::env::remove_var(KEPT);
        }
        return;
    }
    let preloaded = std::env::var_os(LD_PRELOAD).filter(|libraries| !libraries.is_empty());
    if let Some(preloaded) = preloaded
        && is_replaced()
        && let Ok(program) = std::env::current_exe()
    {
        let mut words = std::env::args_os();
        // It returns if it fails. Then we go on with the clock that we have.
        drop(again(program.as_os_str(), &mut words, &preloaded).exec());
    }
}

fn again(program: &OsStr, words: &mut dyn Iterator<Item = OsString>, preloaded: &OsStr) -> Command {
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command
        .args(words)
        .env_remove(LD_PRELOAD)
        .env(KEPT, preloaded);
    command
}

/// Whether one of these functions is not the C library's.
fn is_replaced() -> bool {
    // SAFETY: a name and flags; the library is loaded already, or this fails.
    let library =
        unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // SAFETY: looks up a name; nothing of what is found is called.
    let of = |handle, name: &CStr| unsafe { libc::dlsym(handle, name.as_ptr()) };
    !library.is_null()
        && FUNCTIONS
            .iter()
            .any(|name| of(libc::RTLD_DEFAULT, name) != of(library, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_is_kept_for_the_program() {
        assert!(!is_replaced());
        let mut words = ["name", "-q", "true"].into_iter().map(OsString::from);
        let command = again(OsStr::new("/bin/rsys"), &mut words, OsStr::new("a.so b.so"));
        assert!(command.get_args().eq(["-q", "true"]));
        let mut variables = command.get_envs();
        assert!(variables.any(|pair| pair == (OsStr::new(KEPT), Some(OsStr::new("a.so b.so")))));
        let mut variables = command.get_envs();
        assert!(variables.any(|pair| pair == (OsStr::new(LD_PRELOAD), None)));
    }
}
