//! Pythons, and whether their functions are shown.

use std::path::{Path, PathBuf};

use rsys_config::{Python, Resolved};
use rsys_machine::names::Named;
use rsys_machine::rocm::{Environment, Program};
use rsys_machine::roots::{Roots, names};

use super::finding::{Finding, Level};

const NAME: &str = "Python";

/// Minor versions of Python 3 whose functions are shown (`python/src/layout.rs`).
const SHOWN: std::ops::RangeInclusive<u32> = 8..=15;

/// The Python of the program; else all that are found.
pub fn findings(roots: &Roots, resolved: &Resolved, program: Option<&Program>) -> Vec<Finding> {
    if resolved.python == Python::Off {
        return vec![Finding::ok(
            NAME,
            "its functions are switched off (--python off)",
        )];
    }
    if let Some(program) = program {
        let version = program.files.iter().find_map(|path| version_of(path));
        let version = version.filter(|_| program.is_python || embeds(program));
        return version
            .map(|version| judged(&program.path, version, Level::Warning))
            .into_iter()
            .collect();
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for path in interpreters(roots) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    let judged = found.iter().filter_map(|path| {
        let version = version_of(path)?;
        Some(judged(path, version, Level::Note))
    });
    judged.collect()
}

/// Whether a program has Python as a library.
fn embeds(program: &Program) -> bool {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libpython")
    };
    program.files.iter().any(is_library)
}

fn judged(path: &Path, (major, minor): (u32, u32), else_level: Level) -> Finding {
    let finding = format!("{major}.{minor} ({})", path.display());
    if major == 3 && SHOWN.contains(&minor) {
        return Finding::ok(NAME, finding);
    }
    Finding::at(else_level, NAME, finding)
        .means(format!(
            "the interpreter's native functions are shown in place of Python's, which are known of 3.{} to 3.{}",
            SHOWN.start(),
            SHOWN.end()
        ))
        .mend("an interpreter of one of these versions")
}

/// The version in a file's name: `python3.11`, `libpython3.11.so.1.0`.
fn version_of(path: &Path) -> Option<(u32, u32)> {
    let name = path.file_name()?.to_str()?;
    let rest = name
        .strip_prefix("lib")
        .unwrap_or(name)
        .strip_prefix("python")?;
    let mut numbers = rest.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Interpreters where they mostly are: real files, without scripts that choose one.
fn interpreters(roots: &Roots) -> Vec<PathBuf> {
    let environment = Environment::of_this_process();
    let mut folders: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(|name| Some(environment.folder(name)?.join("bin")))
        .collect();
    folders.extend(environment.folders("PATH"));
    folders.extend(
        [
            "/usr/bin",
            "/usr/local/bin",
            "/opt/venv/bin",
            "/opt/conda/bin",
        ]
        .map(PathBuf::from),
    );
    let mut found = Vec::new();
    for folder in folders {
        let all = names(&roots.inside(&folder));
        let pythons = all.iter().filter(|name| {
            let rest = name.strip_prefix("python");
            rest.is_some_and(|rest| {
                rest.bytes()
                    .all(|byte| byte == b'.' || byte.is_ascii_digit())
            })
        });
        let paths = pythons.filter_map(|name| roots.resolve(&folder.join(name)));
        found.extend(paths.filter(|path| Named::of(roots, path).is_some()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_versions() {
        for (name, version) in [
            ("/usr/bin/python3.11", Some((3, 11))),
            ("/usr/lib/libpython3.8.so.1.0", Some((3, 8))),
            ("/usr/bin/python2.7", Some((2, 7))),
            ("/usr/bin/python3", None),
            ("/usr/bin/perl5.36", None),
        ] {
            assert_eq!(version_of(Path::new(name)), version, "{name}");
        }
        let level = |minor| judged(Path::new("python"), (3, minor), Level::Warning).level;
        assert_eq!(
            [7, 8, 15, 16].map(level),
            [Level::Warning, Level::Ok, Level::Ok, Level::Warning]
        );
    }
}
