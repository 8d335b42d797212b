//! `cargo xtask floors`: whether the arrows between folders point one way.
//!
//! Four rules hold, by the paths that files import from their own crate:
//! - `floors.toml` names the floors of a crate, from the ground up; a file may use what stands on its
//!   own floor and on lower ones;
//! - no circle passes through a folder: neither of two folders, nor of a folder and a file beside it;
//! - a circle of files in one folder is small;
//! - each crate of the workspace is checked, and ARCHITECTURE.md shows the floors as they are (see
//!   [`page`]).
//!
//! That each `unsafe` says why it is sound is clippy's business (`undocumented_unsafe_blocks` and
//! `missing_safety_doc`, also in private code).

mod graph;
mod imports;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use self::graph::Graph;
use crate::steps::{say, workspace_dir};

/// Where the floors are written down, below the root of the repository.
const FILE: &str = "floors.toml";

/// The content of [`FILE`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Floors {
    /// The most files of a folder that may use one another in a circle.
    largest_circle_of_files: usize,
    /// The crates that are checked, by their folders.
    crates: Vec<String>,
    /// The crates that are not checked yet.
    #[serde(default)]
    unchecked: Vec<String>,
    /// The floors of a crate, or of a folder below its `src`, from the ground up, each a list of folders (or files without `.rs`) directly
    /// below that.
    #[serde(default)]
    floors: BTreeMap<String, Vec<Vec<String>>>,
}

impl Floors {
    fn read(root: &Path) -> Result<Self> {
        let file = root.join(FILE);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", file.display()))
    }

    /// The folder below the `src` of crate `name` whose floors `place` names: itself, if `place` is that crate.
    fn folder_of(&self, name: &str, place: &str) -> Option<Vec<String>> {
        let below = |name: &str| -> Option<Vec<String>> {
            let rest = place.strip_prefix(name)?;
            let is_below = rest.is_empty() || rest.starts_with('/');
            let parts = rest.split('/').filter(|part| !part.is_empty());
            is_below.then(|| parts.map(str::to_owned).collect())
        };
        // A crate may lie in the folder of another one.
        let all = self.crates.iter().filter(|one| below(one).is_some());
        let innermost = all.max_by_key(|one| one.len())?;
        (innermost == name).then(|| below(name)).flatten()
    }
}

/// One file that uses another of its crate.
#[derive(Debug, Clone)]
struct Arrow {
    /// Below `src`, without `.rs`; a folder's `mod.rs` is the folder.
    from: Vec<String>,
    to: Vec<String>,
    line: usize,
}

/// Checks the repository and prints what is wrong.
///
/// # Errors
/// When a file cannot be read.
pub fn run() -> Result<ExitCode> {
    let root = workspace_dir();
    if std::env::var_os("RSYS_BLESS").is_some() {
        page::write(&root, &Floors::read(&root)?.floors)?;
    }
    let problems = check(&root)?;
    for problem in &problems {
        say(problem);
    }
    Ok(if problems.is_empty() {
        say("every arrow points down, and there is no circle between folders");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn check(root: &Path) -> Result<Vec<String>> {
    let floors = Floors::read(root)?;
    let mut problems = members(root, &floors)?;
    for name in &floors.crates {
        let source = root.join(name).join("src");
        let arrows = arrows_of(&source)?;
        let mut found = circles(&arrows, floors.largest_circle_of_files);
        for (place, levels) in &floors.floors {
            if let Some(folder) = floors.folder_of(name, place) {
                found.extend(upward(&arrows, levels, &source, &folder)?);
            }
        }
        problems.extend(
            found
                .into_iter()
                .map(|problem| format!("{name}: {problem}")),
        );
    }
    problems.extend(page::check(root, &floors.floors)?);
    Ok(problems)
}

/// Members of the workspace that [`FILE`] does not name, or names twice.
fn members(root: &Path, floors: &Floors) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Manifest {
        workspace: Workspace,
    }
    #[derive(Deserialize)]
    struct Workspace {
        members: Vec<String>,
    }
    let file = root.join("Cargo.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let manifest: Manifest =
        toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
    let mut problems = Vec::new();
    for name in &manifest.workspace.members {
        let times = |names: &[String]| names.iter().filter(|other| *other == name).count();
        match times(&floors.crates) + times(&floors.unchecked) {
            1 => {}
            0 => problems.push(format!("{FILE} does not name the crate {name}")),
            _ => problems.push(format!("{FILE} names the crate {name} twice")),
        }
    }
    Ok(problems)
}

/// Every import of one file from another below `source`.
fn arrows_of(source: &Path) -> Result<Vec<Arrow>> {
    let mut files = BTreeMap::new();
    collect(source, &mut Vec::new(), &mut files)?;
    let mut arrows = Vec::new();
    for (module, path) in &files {
        for import in imports::of_file(path, module)? {
            let target = (0..=import.path.len())
                .rev()
                .map(|length| &import.path[..length])
                .find(|prefix| files.contains_key(*prefix));
            if let Some(target) = target.filter(|target| *target != module.as_slice()) {
                arrows.push(Arrow {
                    from: module.clone(),
                    to: target.to_vec(),
                    line: import.line,
                });
            }
        }
    }
    Ok(arrows)
}

/// Maps the modules below a folder to their files. Files of tests are left out.
fn collect(
    folder: &Path,
    module: &mut Vec<String>,
    files: &mut BTreeMap<Vec<String>, PathBuf>,
) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        if path.is_dir() {
            module.push(name.to_owned());
            collect(&path, module, files)?;
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut own = module.clone();
            match name {
                "mod" | "lib" => {}
                "main" if folder.join("lib.rs").exists() => continue,
                "main" => {}
                _ if name == "tests" || name.ends_with("_tests") => continue,
                _ => own.push(name.to_owned()),
            }
            files.insert(own, path);
        }
    }
    Ok(())
}

/// Circles that pass through a folder, at each depth, and circles of more than `most_files` files.
fn circles(arrows: &[Arrow], most_files: usize) -> Vec<String> {
    let mut folders: BTreeSet<Vec<String>> = BTreeSet::new();
    for arrow in arrows {
        for module in [&arrow.from, &arrow.to] {
            folders.extend((0..module.len()).map(|length| module[..length].to_vec()));
        }
    }
    let mut problems = Vec::new();
    for folder in &folders {
        let mut graph = Graph::default();
        for arrow in arrows {
            let below = |module: &[String]| -> Option<String> {
                module.strip_prefix(folder.as_slice())?.first().cloned()
            };
            if let (Some(from), Some(to)) = (below(&arrow.from), below(&arrow.to)) {
                graph.add(&from, &to);
            }
        }
        for circle in graph.circles() {
            let is_folder = |name: &String| {
                let path: Vec<String> = folder.iter().chain([name]).cloned().collect();
                folders.contains(&path)
            };
            if circle.len() > most_files || circle.iter().any(is_folder) {
                let names: Vec<&str> = circle.iter().map(String::as_str).collect();
                let place = folder.join("/");
                problems.push(format!("circle in src/{place}: {}", names.join(", ")));
                problems.extend(arrows_among(arrows, folder, &circle));
            }
        }
    }
    problems
}

/// A line for each pair of a circle's members, with the first import that makes the arrow.
fn arrows_among(arrows: &[Arrow], folder: &[String], circle: &BTreeSet<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let member = |module: &[String]| -> Option<String> {
        let name = module.strip_prefix(folder)?.first()?;
        circle.get(name).cloned()
    };
    let mut lines = Vec::new();
    for arrow in arrows {
        if let (Some(from), Some(to)) = (member(&arrow.from), member(&arrow.to))
            && from != to
            && seen.insert((from.clone(), to.clone()))
        {
            lines.push(format!("  {from} -> {to}: {}", shown(arrow)));
        }
    }
    lines
}

/// Imports within a folder below `source` that lead to a higher floor, and folders without one.
fn upward(
    arrows: &[Arrow],
    levels: &[Vec<String>],
    source: &Path,
    folder: &[String],
) -> Result<Vec<String>> {
    let folder_path = source.join(folder.iter().collect::<PathBuf>());
    let mut level_of = BTreeMap::new();
    for (level, names) in levels.iter().enumerate() {
        for name in names {
            let place = folder_path.join(name);
            if !place.is_dir() && !place.with_extension("rs").is_file() {
                bail!("{FILE} names {}, which is not there", place.display());
            }
            level_of.insert(name.as_str(), level);
        }
    }
    let mut problems = BTreeSet::new();
    for arrow in arrows {
        let below = |module: &[String]| module.strip_prefix(folder)?.first().cloned();
        let (Some(from), Some(to)) = (below(&arrow.from), below(&arrow.to)) else {
            continue;
        };
        match (level_of.get(from.as_str()), level_of.get(to.as_str())) {
            (Some(low), Some(high)) if low < high => {
                problems.insert(format!("upward: {}", shown(arrow)));
            }
            (Some(_), Some(_)) => {}
            (None, _) => {
                problems.insert(format!(
                    "{FILE} gives {} no floor",
                    shown_below(folder, &from)
                ));
            }
            (_, None) => {
                problems.insert(format!(
                    "{FILE} gives {} no floor",
                    shown_below(folder, &to)
                ));
            }
        }
    }
    Ok(problems.into_iter().collect())
}

fn shown_below(folder: &[String], name: &str) -> String {
    let parts = folder.iter().map(String::as_str).chain([name]);
    format!("src/{}", parts.collect::<Vec<_>>().join("/"))
}

fn shown(arrow: &Arrow) -> String {
    format!(
        "src/{} line {} uses {}",
        arrow.from.join("/"),
        arrow.line,
        arrow.to.join("::")
    )
}

#[cfg(test)]
mod tests;
