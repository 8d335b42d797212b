//! `--demo`: a first trace, of a program that is installed with rsys (`packaging/demo`).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::early_exit::CliExit;
use crate::launch::command::find;

/// What chooses a GPU and becomes this program again: from the prefix of an installation, and from the root of a checkout.
const INSTALLED: &str = "share/rsys/demo/demo.py";
const IN_CHECKOUT: &str = "packaging/demo/demo.py";
const INTERPRETER: &str = "python3";

/// The demo in our place, with these arguments for the recording.
pub(super) fn instead(arguments: &[OsString], has_command: bool) -> CliExit {
    if has_command {
        return CliExit::error("--demo records a program of its own; leave it or the command out");
    }
    let path = std::env::var_os("PATH");
    let interpreter = match find(OsStr::new(INTERPRETER), path.as_deref()) {
        Ok(interpreter) => interpreter,
        Err(error) => {
            return CliExit::error(&format!(
                "the demo is a program of Python: {error}; install Python 3.8 or newer, or record a program of yours"
            ));
        }
    };
    let executable = std::env::current_exe().unwrap_or_default();
    match script(&executable) {
        Some(script) => CliExit::instead(call(&interpreter, &script, &executable, arguments)),
        None => CliExit::error(&format!(
            "the demo does not belong to {}: {INSTALLED} is missing below its prefix; install rsys again",
            executable.display()
        )),
    }
}

/// The demo that belongs to an executable, which is in `bin` of an installation or below the target folder of a checkout.
fn script(executable: &Path) -> Option<PathBuf> {
    let prefix = executable.parent().and_then(Path::parent);
    let installed = prefix.map(|prefix| prefix.join(INSTALLED));
    let in_checkout = executable
        .ancestors()
        .map(|folder| folder.join(IN_CHECKOUT));
    let mut places = installed.into_iter().chain(in_checkout);
    places.find(|file| file.is_file())
}

fn call(
    interpreter: &Path,
    script: &Path,
    executable: &Path,
    arguments: &[OsString],
) -> Vec<OsString> {
    let mut words: Vec<OsString> = [interpreter, script, executable]
        .map(|path| path.into())
        .into();
    let others = arguments
        .iter()
        .filter(|word| *word != "--demo" && *word != "--");
    words.extend(others.cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_handed_on() {
        let arguments = ["--demo", "-o", "out", "--"].map(OsString::from);
        let path = Path::new;
        let words = call(
            path("/bin/python3"),
            path("/p/demo.py"),
            path("/p/rsys-sample"),
            &arguments,
        );
        let expected = "/bin/python3 /p/demo.py /p/rsys-sample -o out";
        assert_eq!(words.join(OsStr::new(" ")), expected);
    }

    #[test]
    fn the_demo_is_found_in_a_checkout_and_nowhere_else() {
        let own = std::env::current_exe().unwrap_or_default();
        let found = script(&own);
        assert!(
            found
                .as_ref()
                .is_some_and(|file| file.ends_with(IN_CHECKOUT)),
            "{found:?}"
        );
        assert_eq!(script(Path::new("/nowhere/bin/rsys-sample")), None);
    }

    #[test]
    fn a_command_beside_it_is_refused() {
        let exit = instead(&[], true);
        assert!(exit.to_string().contains("leave it or the command out"));
    }
}
