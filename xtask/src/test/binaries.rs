//! The test binaries: building them, and asking them for their tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::steps::{cargo, say};

/// A test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// The first word of its tests' names: `gpu`, `analysis/lib`, `analysis/all`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// The folder of its package, in which its tests run.
    pub folder: PathBuf,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The binary's index.
    pub binary: usize,
    /// What the binary calls it.
    pub path: String,
    /// Both in one: `gpu hip::rocm7::graphs`.
    pub name: String,
    /// Whether it is run by hand only.
    pub ignored: bool,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the product and all tests at once, in one profile: that which users get. What does not compile is said by cargo; returns whether all
/// did, and the binaries that were made. With `model`, those of the ring under a model checker, which needs atomics of its own.
pub fn build(model: bool) -> Result<(bool, Vec<Binary>)> {
    let what: &[&str] = if model {
        &["-p", "rsys-wire", "--features", "model", "--test", "model"]
    } else {
        &["--workspace", "--lib", "--bins", "--tests", "--keep-going"]
    };
    let mut child = cargo()
        .args(["build", "--release"])
        .args(what)
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let mut binaries = Vec::new();
    let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    for line in lines {
        if let Ok(message) = serde_json::from_str(&line?) {
            binaries.extend(binary(message));
        }
    }
    binaries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((child.wait()?.success(), binaries))
}

fn binary(message: Message) -> Option<Binary> {
    let is_test = message.reason == "compiler-artifact" && message.profile?.test;
    let (target, folder) = (message.target?, message.manifest_path?);
    let folder = folder.parent()?.to_owned();
    let name = name(&message.package_id?, &folder, &target);
    is_test.then_some(Binary {
        name,
        path: message.executable?,
        folder,
    })
}

/// End-to-end tests go by the name of their binary, all others by their package's and what of it they are.
fn name(package: &str, folder: &Path, target: &Target) -> String {
    let behind = package.rsplit('#').next().unwrap_or_default();
    let package = match behind.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.file_name().unwrap_or_default().display().to_string(),
    };
    let package = package.strip_prefix("rsys-").unwrap_or(&package);
    let is = |kind: &str| target.kind.iter().any(|one| one == kind);
    if is("test") {
        match package {
            "tests" => target.name.clone(),
            _ => format!("{package}/{}", target.name),
        }
    } else if is("bin") {
        format!("{package}/bin")
    } else {
        format!("{package}/lib")
    }
}

/// All tests of these binaries, in the order of their names.
pub fn list(binaries: &[Binary]) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (binary, it) in binaries.iter().enumerate() {
        let mut found: BTreeMap<String, bool> = BTreeMap::new();
        for ignored in [false, true] {
            let mut command = Command::new(&it.path);
            command.arg("--list").current_dir(&it.folder);
            if ignored {
                command.arg("--ignored");
            }
            let output = command.output().context("cannot list tests")?;
            ensure!(output.status.success(), "{}: {output:?}", it.name);
            let text = String::from_utf8_lossy(&output.stdout);
            let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
            found.extend(tests.map(|test| (test.to_owned(), ignored)));
        }
        cases.extend(found.into_iter().map(|(path, ignored)| Case {
            binary,
            name: format!("{} {path}", it.name),
            path,
            ignored,
        }));
    }
    say(&format!(
        "{} tests in {} binaries",
        cases.len(),
        binaries.len()
    ));
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_tests_are() {
        let target = |name: &str, kind: &str| Target {
            name: name.to_owned(),
            kind: vec![kind.to_owned()],
        };
        let folder = Path::new("/r/xtask");
        let crates = "path+file:///r/agent#rsys-agent@0.1.0";
        for (package, target, wanted) in [
            (crates, target("rsys_agent", "cdylib"), "agent/lib"),
            (
                "path+file:///r/xtask#0.1.0",
                target("xtask", "bin"),
                "xtask/bin",
            ),
            ("path+file:///r/a#rsys-a@1", target("all", "test"), "a/all"),
            (
                "path+file:///r/tests#rsys-tests@1",
                target("gpu", "test"),
                "gpu",
            ),
        ] {
            assert_eq!(name(package, folder, &target), wanted);
        }
    }
}
