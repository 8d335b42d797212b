//! README and the pages of `docs`: what they link to, and the code that they show.

#[cfg(test)]
mod command_lines;
pub mod faults;
#[cfg(test)]
mod shell;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// The table of contents, in a newcomer's order.
pub const CONTENTS: &str = "docs/SUMMARY.md";

/// All files of the repository that links lead to from this document, and from the documents among them; it is one itself.
pub fn reached_from(root: &Path, document: &str) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut next = vec![PathBuf::from(document)];
    while let Some(file) = next.pop() {
        if !found.insert(file.clone()) || !is_page(&file) {
            continue;
        }
        let text = read(root, &file)?;
        let targets = links(&text).filter_map(|link| target(&file, link));
        next.extend(targets.filter(|target| root.join(target).is_file()));
    }
    Ok(found)
}

/// The text of a page, which is named by its path in the repository.
pub fn read(root: &Path, page: &Path) -> Result<String> {
    fs::read_to_string(root.join(page)).with_context(|| format!("cannot read {}", page.display()))
}

/// Whether a file is a page of Markdown.
pub fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "md")
}

/// The files that a text in Markdown links to, without those elsewhere.
pub fn links(text: &str) -> impl Iterator<Item = &str> {
    let files = links_with_anchors(text).filter_map(|link| link.split('#').next());
    files.filter(|file| !file.is_empty())
}

/// The links of a text in Markdown with their anchors, without those elsewhere.
fn links_with_anchors(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.split("](").skip(1);
    let links = behind.filter_map(|rest| rest.split(')').next());
    links.filter(|link| !link.contains("://"))
}

/// The path in the repository that a link of a page leads to, if it does not lead out of the repository.
pub fn target(page: &Path, link: &str) -> Option<PathBuf> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut plain = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

/// Whether each line of a text in Markdown is code: between fences, or indented behind a blank line. Fences are code themselves.
fn are_code(text: &str) -> Vec<bool> {
    let (mut in_fence, mut may_begin) = (false, true);
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            return true;
        }
        let is_indented = may_begin && line.starts_with("    ");
        may_begin = line.trim().is_empty() || is_indented;
        in_fence || is_indented
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_text() {
        let text = "[a](docs/a.md), [b](https://b.example/x), [c](c.md#part) and [d](#here): f(x)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "c.md"]);
        let to = |page: &str, link| target(Path::new(page), link);
        assert_eq!(to("a/b/p.md", "../../c/./d"), Some("c/d".into()));
        assert_eq!(to("a/p.md", "../../c"), None);
    }

    #[test]
    fn code_of_a_text() {
        let text = "text\n    of a paragraph\n\n    code\n\n    more\ntext\n```\nfenced\n```\ntext";
        let code = [
            false, false, false, true, false, true, false, true, true, true, false,
        ];
        assert_eq!(are_code(text), code);
    }
}
