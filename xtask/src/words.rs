//! `cargo xtask words`: phrases that a reader stumbles over, and what to write instead.
//!
//! It reads README, the pages of `docs`, and the texts in the code of what we ship.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::steps::{say, workspace_dir};

/// What not to write, and what a native writer would.
const PHRASES: [(&str, &str); 9] = [
    ("the begin", "the start"),
    ("at most so many", "at most this many"),
    ("the how manieth", "the index of"),
    ("is no number", "is not a number"),
    ("told so late", "reported too late"),
    ("told late", "reported late"),
    ("it is dear", "it is expensive"),
    ("so it is on", "the same holds on"),
    ("decides of", "decides on"),
];

/// The folders whose code is part of what we ship.
const PRODUCT: [&str; 14] = [
    "agent",
    "analysis",
    "avail",
    "config",
    "databases",
    "export",
    "machine",
    "proto",
    "python",
    "query",
    "report",
    "sampler",
    "tables",
    "traces",
];

/// Prints where such phrases stand.
///
/// # Errors
/// When a file cannot be read.
pub fn run() -> Result<ExitCode> {
    let found = check(&workspace_dir())?;
    for line in &found {
        say(line);
    }
    Ok(match found.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = vec![root.join("README.md")];
    collect(&root.join("docs"), "md", &mut files)?;
    for name in PRODUCT {
        collect(&root.join(name).join("src"), "rs", &mut files)?;
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let is_code = file.extension().is_some_and(|extension| extension == "rs");
        let place = file.strip_prefix(root).unwrap_or(&file).display();
        for (number, line) in text.lines().enumerate() {
            let shown = if is_code {
                texts(line)
            } else {
                line.to_owned()
            };
            for (phrase, better) in found_in(&shown) {
                found.push(format!(
                    "{place}:{}: \u{201c}{phrase}\u{201d}: write \u{201c}{better}\u{201d}",
                    number + 1
                ));
            }
        }
    }
    Ok(found)
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}

/// What stands between double quotes on a line of code that is no comment.
fn texts(line: &str) -> String {
    if line.trim_start().starts_with("//") {
        return String::new();
    }
    line.split('"')
        .skip(1)
        .step_by(2)
        .collect::<Vec<_>>()
        .join(" ; ")
}

/// The phrases of a text, as whole words.
fn found_in(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lower = text.to_lowercase();
    PHRASES.into_iter().filter(move |(phrase, _)| {
        lower.match_indices(phrase).any(|(at, _)| {
            let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
            let bytes = lower.as_bytes();
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            !is_letter(before) && !is_letter(bytes.get(at + phrase.len()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_ship_has_none() -> Result<()> {
        let found = check(&workspace_dir())?;
        assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    }

    #[test]
    fn whole_words_of_shown_texts_are_found() {
        let phrases = |text| found_in(text).map(|one| one.0).collect::<Vec<_>>();
        assert_eq!(
            phrases("From the begin. It is DEAR."),
            ["the begin", "it is dear"]
        );
        assert_eq!(phrases("the beginning, bathe begins"), [""; 0]);
        assert_eq!(texts(r#"    say("the begin", x); // "#), "the begin");
        assert_eq!(texts(r#"    // "the begin""#), "");
    }
}
