//! `cargo xtask test changed`: what a change asks for.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::suites::{ALL, Suites, fits_any};
use crate::steps::{say, workspace_dir};

/// The words of the tests that the files ask for that differ from the main branch's, committed or not.
pub fn words(suites: &Suites) -> Result<Vec<String>> {
    let base = git(&["merge-base", "HEAD", "main"])?;
    let mut files = git(&["diff", "--name-only", base.trim()])?;
    files.push_str(&git(&["ls-files", "--others", "--exclude-standard"])?);
    let words = asked_for(files.lines(), suites);
    say(&format!("the changes ask for: {}", words.join(", ")));
    Ok(words)
}

/// Whether one of the words is for a test.
pub fn is_asked_for(words: &[String], name: &str, suites: &Suites) -> bool {
    fits_any(words, name) || words.iter().any(|word| word == ALL) && suites.is_quick(name)
}

/// Each file asks for what the longest beginning of its path asks for.
fn asked_for<'a>(files: impl Iterator<Item = &'a str>, suites: &Suites) -> Vec<String> {
    let of = |file: &'a str| {
        let rows = suites.changed.iter();
        let fitting = rows.filter(|(path, _)| file.starts_with(&***path));
        fitting.max_by_key(|(path, _)| path.len())
    };
    let words: BTreeSet<&String> = files.filter_map(of).flat_map(|(_, words)| words).collect();
    words.into_iter().cloned().collect()
}

fn git(words: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(words)
        .current_dir(workspace_dir())
        .output()
        .context("cannot start git")?;
    ensure!(output.status.success(), "git {words:?}: {output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_counts() -> Result<()> {
        let mut suites = Suites::read()?;
        suites.changed = [
            ("agent/", vec!["agent", "gpu"]),
            ("agent/src/sources/gpu/", vec!["gpu"]),
        ]
        .map(|(path, words)| {
            (
                path.to_owned(),
                words.into_iter().map(str::to_owned).collect(),
            )
        })
        .into();
        let asked = |files: &[&str]| asked_for(files.iter().copied(), &suites);
        assert_eq!(
            asked(&["agent/src/sources/gpu/hip/a.rs", "LICENSE"]),
            ["gpu"]
        );
        assert_eq!(asked(&["agent/src/a.rs"]), ["agent", "gpu"]);
        Ok(())
    }
}
