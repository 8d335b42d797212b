//! `cargo xtask check`: what no test sees. Documentation, licences and versions of dependencies, the
//! minimum version of Rust, the fuzz targets, and undefined behaviour in what Miri can run.

mod dependencies;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::documents::faults;
use crate::steps::{cargo, has_program, say, step, succeeds, target_dir, workspace_dir};

/// One check.
struct Check {
    name: &'static str,
    run: fn() -> Result<Outcome>,
}

enum Outcome {
    Passed,
    /// It cannot be made here, for this reason.
    Skipped(String),
}

const CHECKS: [Check; 6] = [
    Check {
        name: "dependencies",
        run: || dependencies::check().map(|()| Outcome::Passed),
    },
    Check {
        name: "pages",
        run: pages,
    },
    Check {
        name: "documentation",
        run: documentation,
    },
    Check {
        name: "minimum-rust",
        run: minimum_rust,
    },
    Check {
        name: "fuzz-targets",
        run: fuzz_targets,
    },
    Check {
        name: "miri",
        run: miri,
    },
];

/// Makes all checks, or the one with this name, and closes with a line of counts.
///
/// # Errors
/// When there is no check of that name.
pub fn run(only: Option<&str>) -> Result<ExitCode> {
    let wanted = |check: &&Check| only.is_none_or(|name| name == check.name);
    if !CHECKS.iter().any(|check| wanted(&check)) {
        let names = CHECKS.map(|check| check.name).join(", ");
        bail!("no such check; there are {names}");
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for check in CHECKS.iter().filter(wanted) {
        match (check.run)() {
            Ok(Outcome::Passed) => passed += 1,
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                say(&format!("skipped: {}: {reason}", check.name));
            }
            Err(error) => {
                failed += 1;
                say(&format!("failed: {}: {error:#}", check.name));
            }
        }
    }
    println!("checks: {passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Every link of README and the pages leads somewhere, and every page is in the table of contents once.
fn pages() -> Result<Outcome> {
    let found = faults::of_pages(&workspace_dir())?;
    ensure!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(Outcome::Passed)
}

/// Every link of the documentation of the code leads somewhere, in private code too.
fn documentation() -> Result<Outcome> {
    // The pages are for whoever works on rsys: they show private items, so links to these are good.
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    step(
        cargo()
            .args(["doc", "--release", "--no-deps", "--workspace"])
            .arg("--document-private-items")
            .env("RUSTDOCFLAGS", flags),
    )?;
    Ok(Outcome::Passed)
}

/// What users build compiles with the oldest Rust that `Cargo.toml` promises: it brings no tests, so libraries of these need not be compiled.
fn minimum_rust() -> Result<Outcome> {
    let minimum = declared_minimum()?;
    let in_use = Command::new("rustc")
        .arg("--version")
        .current_dir(workspace_dir())
        .output()
        .context("cannot start rustc")?;
    let in_use = String::from_utf8_lossy(&in_use.stdout).into_owned();
    if in_use.starts_with(&format!("rustc {minimum}.")) {
        say(&format!(
            "Rust {minimum}, the minimum, is what builds everything here"
        ));
        return Ok(Outcome::Passed);
    }
    let toolchain = format!("{minimum}.0");
    let profile = ["--profile", "minimal"];
    if !has_program("rustup") {
        return Ok(Outcome::Skipped("there is no rustup".to_owned()));
    }
    step(
        Command::new("rustup")
            .args(["toolchain", "install", &toolchain])
            .args(profile),
    )?;
    step(
        Command::new("rustup")
            .args(["run", &toolchain, "cargo", "check", "--locked"])
            // The C code of libraries is compiled to be thrown away.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("CARGO_TARGET_DIR", target_dir().join("minimum-rust"))
            .current_dir(workspace_dir()),
    )?;
    Ok(Outcome::Passed)
}

#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    package: Package,
    exclude: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Package {
    rust_version: String,
}

fn manifest() -> Result<Workspace> {
    let text = std::fs::read_to_string(workspace_dir().join("Cargo.toml"))?;
    let manifest: Manifest = toml::from_str(&text).context("Cargo.toml")?;
    Ok(manifest.workspace)
}

fn declared_minimum() -> Result<String> {
    Ok(manifest()?.package.rust_version)
}

/// The fuzz targets, which are no members of the workspace, compile: with its versions and its profile, so that what clippy has compiled
/// need not be compiled again.
fn fuzz_targets() -> Result<Outcome> {
    for folder in manifest()?.exclude {
        let folder = workspace_dir().join(folder);
        // Without the network, one of before has what is only there for fuzzing.
        let (versions, own) = (
            workspace_dir().join("Cargo.lock"),
            folder.join("Cargo.lock"),
        );
        let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
        if changed(&own) < changed(&versions) {
            std::fs::copy(versions, own)?;
        }
        step(
            cargo()
                .args(["check", "--release", "--manifest-path"])
                .arg(folder.join("Cargo.toml"))
                .env("CARGO_TARGET_DIR", target_dir())
                .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
                .env("CARGO_PROFILE_RELEASE_SPLIT_DEBUGINFO", "off"),
        )?;
    }
    Ok(Outcome::Passed)
}

/// What Miri runs in two minutes: the unwinder's unit tests.
fn miri() -> Result<Outcome> {
    if !succeeds("cargo", &["+nightly", "miri", "--version"]) {
        let remedy = "rustup component add miri rust-src --toolchain nightly";
        return Ok(Outcome::Skipped(format!("there is no Miri: {remedy}")));
    }
    for arguments in MIRI {
        step(
            Command::new("cargo")
                .args(["+nightly", "miri", "test"])
                .args(*arguments)
                .env("MIRIFLAGS", "-Zmiri-disable-isolation")
                .env("CARGO_TARGET_DIR", target_dir().join("miri"))
                .current_dir(workspace_dir()),
        )?;
    }
    Ok(Outcome::Passed)
}

const MIRI: &[&[&str]] = &[&["-p", "rsys-unwind", "--lib"]];
