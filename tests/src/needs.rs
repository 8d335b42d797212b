//! What a test may find missing on a user's machine.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a missing optional thing is a failure: in CI, or where `RSYS_REQUIRE_ALL` is set.
#[must_use]
pub fn must_not_skip() -> bool {
    let set = |name| {
        env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0" && value != "false")
    };
    set("CI") || set("RSYS_REQUIRE_ALL")
}

/// Says so when a program is not on the search path.
#[must_use]
pub fn missing_tool(name: &str) -> Option<String> {
    let found = env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(name).is_file()));
    (!found && !Path::new(name).is_file()).then(|| format!("the program `{name}` is not installed"))
}

/// Says so when the system's Python cannot import a module.
#[must_use]
pub fn missing_python_module(name: &str) -> Option<String> {
    let works = Command::new("/usr/bin/python3")
        .args([
            "-c",
            &format!(
                "import importlib.util, sys; sys.exit(importlib.util.find_spec('{name}') is None)"
            ),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    (!works).then(|| format!("/usr/bin/python3 has no module `{name}`"))
}

/// Whether the tests run as root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
