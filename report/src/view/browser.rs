//! How the user comes to the page: a browser here, or one at the other end of an SSH connection.

use std::env;
use std::process::{Command, Stdio};

/// Starts a browser if one can be seen here and is wanted; else returns what the user can do.
pub fn show(address: &str, port: u16, is_wanted: bool) -> Vec<String> {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_display = set("DISPLAY") || set("WAYLAND_DISPLAY");
    if has_display && is_wanted && start(address) {
        return Vec::new();
    }
    if has_display && !set("SSH_CONNECTION") {
        return Vec::new();
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let user = env::var("USER").map(|user| format!("{user}@"));
    vec![format!(
        "if your browser is on another machine, first run there: ssh -N -L {port}:127.0.0.1:{port} {}{}",
        user.unwrap_or_default(),
        host.trim()
    )]
}

fn start(address: &str) -> bool {
    let named = env::var("BROWSER").ok().filter(|name| !name.is_empty());
    let programs = named.as_deref().into_iter().chain(["xdg-open", "gio open"]);
    programs.into_iter().any(|program| {
        let mut words = program.split_whitespace();
        let Some(name) = words.next() else {
            return false;
        };
        let started = Command::new(name)
            .args(words)
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        started.is_ok()
    })
}
