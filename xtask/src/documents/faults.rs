//! What is wrong with the pages: links that lead nowhere, pages that the table of contents lacks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{CONTENTS, are_code, is_page, links, links_with_anchors, reached_from, read, target};

/// What is wrong with README, the pages of `docs` and all pages that these lead to: a line each.
///
/// # Errors
/// When a page cannot be read.
pub fn of_pages(root: &Path) -> Result<Vec<String>> {
    let mut pages = reached_from(root, "README.md")?;
    pages.retain(|file| is_page(file));
    pages.extend(pages_below(root, Path::new("docs"))?);
    let mut found = out_of_contents(&pages, &read(root, Path::new(CONTENTS))?);
    for page in &pages {
        found.extend(astray(root, page)?);
    }
    Ok(found)
}

/// All pages in a folder and below it.
fn pages_below(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(root.join(folder));
    for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let place = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(pages_below(root, &place)?);
        } else if is_page(&place) {
            found.push(place);
        }
    }
    Ok(found)
}

/// The pages that are not exactly once in the table of contents: what is not in it, the site does not have.
fn out_of_contents(pages: &BTreeSet<PathBuf>, contents: &str) -> Vec<String> {
    let listed: Vec<PathBuf> = links(contents)
        .filter_map(|link| target(Path::new(CONTENTS), link))
        .collect();
    let pages = pages.iter().filter(|page| *page != Path::new(CONTENTS));
    let counted = pages.map(|page| (page, listed.iter().filter(|one| *one == page).count()));
    let wrong = counted.filter(|(_, times)| *times != 1);
    let lines = wrong.map(|(page, times)| match times {
        0 => format!("{CONTENTS}: {} is missing", page.display()),
        _ => format!("{CONTENTS}: {} is there {times} times", page.display()),
    });
    lines.collect()
}

/// The links of a page that lead to no file, or to no part of it.
fn astray(root: &Path, page: &Path) -> Result<Vec<String>> {
    let text = read(root, page)?;
    let mut found = Vec::new();
    // What has a blank in it is code.
    for link in links_with_anchors(&text).filter(|link| !link.contains(' ')) {
        let (file, part) = link.split_once('#').unwrap_or((link, ""));
        let place = match file {
            "" => Some(page.to_owned()),
            file => target(page, file),
        };
        let leads = match place.filter(|place| root.join(place).exists()) {
            None => false,
            Some(_) if part.is_empty() => true,
            Some(place) => anchors(&read(root, &place)?).contains(part),
        };
        if !leads {
            found.push(format!("{}: {link} leads nowhere", page.display()));
        }
    }
    Ok(found)
}

/// What links may lead to within a page: its headings, and anchors that were set by hand.
fn anchors(text: &str) -> BTreeSet<String> {
    let by_hand = text.split("<a id=\"").skip(1);
    let by_hand = by_hand.filter_map(|rest| rest.split('"').next().map(str::to_owned));
    let lines = text.lines().zip(are_code(text));
    let headings = lines.filter(|(line, is_code)| !is_code && line.starts_with('#'));
    headings
        .map(|(line, _)| anchor(line))
        .chain(by_hand)
        .collect()
}

/// The anchor that a heading gets: small letters, digits, `_` and `-`, and `-` for spaces.
fn anchor(heading: &str) -> String {
    let plain = |sign: char| sign.is_alphanumeric() || matches!(sign, '-' | '_' | ' ');
    let letters = heading.trim_start_matches('#').trim().to_lowercase();
    let kept: String = letters.chars().filter(|sign| plain(*sign)).collect();
    kept.replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::{target_dir, workspace_dir};

    #[test]
    fn pages_have_no_faults() -> Result<()> {
        let found = of_pages(&workspace_dir())?;
        assert!(found.is_empty(), "{found:#?}");
        Ok(())
    }

    #[test]
    fn faults_are_found() -> Result<()> {
        let root = target_dir().join("tmp/faults-of-pages");
        fs::create_dir_all(root.join("docs"))?;
        for (name, text) in [
            (
                "README.md",
                "[a](docs/a.md#one) [b](docs/a.md#two) [c](docs/c.md)",
            ),
            ("docs/a.md", "# One\n\n    # two\n"),
            ("docs/b.md", "# B\n"),
            (
                "docs/SUMMARY.md",
                "- [r](../README.md)\n- [a](a.md)\n- [a](a.md)\n",
            ),
        ] {
            fs::write(root.join(name), text)?;
        }
        let expected = [
            "docs/SUMMARY.md: docs/a.md is there 2 times",
            "docs/SUMMARY.md: docs/b.md is missing",
            "README.md: docs/a.md#two leads nowhere",
            "README.md: docs/c.md leads nowhere",
        ];
        assert_eq!(of_pages(&root)?, expected);
        fs::remove_dir_all(root)?;
        Ok(())
    }

    #[test]
    fn anchors_are_those_of_the_headings() {
        assert_eq!(anchor("### kineto, chrome"), "kineto-chrome");
        let text = "# One `two`\n```\n# code\n```\n<a id=\"set\"></a>";
        let found: Vec<String> = anchors(text).into_iter().collect();
        assert_eq!(found, ["one-two", "set"]);
    }
}
