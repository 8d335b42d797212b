//! The licences of what is linked into our programs.
//!
//! Permissive licences ask that their text goes with the program. The texts lie in the sources that cargo has fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::steps::{PROGRAMS, cargo};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// How files with licences begin, in small letters.
const NAMES: [&str; 6] = [
    "license",
    "licence",
    "copying",
    "copyright",
    "notice",
    "unlicense",
];
/// Of a crate that brings a library in C, that library's licence is some folders down.
const DEPTH: usize = 3;

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    authors: Vec<String>,
    /// None for members of the workspace.
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// None for what is linked; `dev` and `build` otherwise.
    kind: Option<String>,
}

/// All crates that our programs are linked with, and the text of each of their licences once.
///
/// # Errors
/// When cargo does not know the crates, or one says nothing of its licence.
pub fn of_dependencies() -> Result<String> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", TARGET])
        .output()
        .context("cannot start cargo")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {errors}");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let mut text = String::from(
        "What is linked into the programs and libraries of rsys, with the licences of each.\n\n",
    );
    // What crates have word for word stands here once.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in linked(&metadata) {
        let Package { name, version, .. } = package;
        let license = package.license.as_deref();
        let license = license.with_context(|| format!("{name} {version} names no licence"))?;
        writeln!(
            text,
            "{name} {version}: {license}; {}",
            package.authors.join(", ")
        )?;
        for file in texts_below(package.manifest_path.parent().context("no folder")?, DEPTH)? {
            let words = String::from_utf8_lossy(&fs::read(file)?).replace("\r\n", "\n");
            let owners = texts.entry(words.trim().to_owned()).or_default();
            let owner = format!("{name} {version}");
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        }
    }
    for file in texts_of_rust()? {
        let words = fs::read_to_string(file)?;
        let owners = texts.entry(words.trim().to_owned()).or_default();
        owners.push("the standard library of Rust".to_owned());
    }
    for (words, owners) in texts {
        write!(
            text,
            "\n{}\n{}\n\n{words}\n",
            "=".repeat(80),
            owners.join(", ")
        )?;
    }
    Ok(text)
}

/// The crates of others that our programs reach, without those that only make code.
fn linked(metadata: &Metadata) -> Vec<&Package> {
    let packages = metadata.packages.iter();
    let packages: BTreeMap<&str, &Package> = packages.map(|one| (one.id.as_str(), one)).collect();
    let nodes = metadata.resolve.nodes.iter();
    let nodes: BTreeMap<&str, &Node> = nodes.map(|node| (node.id.as_str(), node)).collect();
    let ours = metadata.packages.iter().filter(|one| one.source.is_none());
    let ours = ours.filter(|one| PROGRAMS.contains(&one.name.as_str()));
    let mut next: Vec<&str> = ours.map(|one| one.id.as_str()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = next.pop() {
        if !seen.insert(id) {
            continue;
        }
        let deps = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let deps = deps.filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        next.extend(deps.map(|dep| dep.pkg.as_str()).filter(|id| {
            let package = packages.get(id);
            !package.is_some_and(|one| one.is_macro())
        }));
    }
    let mut found: Vec<&Package> = seen
        .iter()
        .filter_map(|id| packages.get(id))
        .copied()
        .collect();
    found.retain(|package| package.source.is_some());
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    found
}

impl Package {
    fn is_macro(&self) -> bool {
        let mut kinds = self.targets.iter().flat_map(|target| &target.kind);
        kinds.any(|kind| kind == "proc-macro")
    }
}

/// Files with licences in a folder and below.
fn texts_below(folder: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if path.is_dir() {
            if depth > 0 {
                found.extend(texts_below(&path, depth - 1)?);
            }
        } else if NAMES.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Those of the standard library, where the toolchain has them.
fn texts_of_rust() -> Result<Vec<PathBuf>> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.context("cannot start rustc")?;
    let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let folder = Path::new(&sysroot).join("share/doc/rust/licenses");
    let names = ["MIT.txt", "Apache-2.0.txt"];
    let files = names.map(|name| folder.join(name));
    Ok(files.into_iter().filter(|file| file.is_file()).collect())
}
