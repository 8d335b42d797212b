//! Documents, and where they lead to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// All files of the repository that links lead to from this document, and from the documents among them; it is one itself.
pub fn reached_from(root: &Path, document: &str) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut next = vec![PathBuf::from(document)];
    while let Some(file) = next.pop() {
        if !found.insert(file.clone()) || file.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = fs::read_to_string(root.join(&file))
            .with_context(|| format!("cannot read {}", file.display()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let targets = links(&text).filter_map(|link| resolve(&folder.join(link)));
        next.extend(targets.filter(|target| root.join(target).is_file()));
    }
    Ok(found)
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

/// Takes `..` out; a path that leads out of the repository is none.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::workspace_dir;

    /// The anchor that a heading gets: small letters, digits, `_` and `-`, and `-` for spaces.
    fn anchor(heading: &str) -> String {
        let plain = |sign: char| sign.is_alphanumeric() || matches!(sign, '-' | '_' | ' ');
        let letters = heading.trim_start_matches('#').trim().to_lowercase();
        let kept: String = letters.chars().filter(|sign| plain(*sign)).collect();
        kept.replace(' ', "-")
    }

    /// What links may lead to within a document: its headings, and anchors that were set by hand.
    fn anchors(text: &str) -> BTreeSet<String> {
        let by_hand = text.split("<a id=\"").skip(1);
        let by_hand = by_hand.filter_map(|rest| rest.split('"').next().map(str::to_owned));
        let headings = text.lines().filter(|line| line.starts_with('#'));
        headings.map(anchor).chain(by_hand).collect()
    }

    #[test]
    fn links_of_the_documents_lead_somewhere() -> Result<()> {
        assert_eq!(anchor("### kineto, chrome"), "kineto-chrome");
        let root = workspace_dir();
        let mut astray = Vec::new();
        let mut seen = 0;
        for document in reached_from(&root, "README.md")? {
            if document.extension().is_none_or(|ending| ending != "md") {
                continue;
            }
            let text = fs::read_to_string(root.join(&document))?;
            let folder = document.parent().unwrap_or(Path::new(""));
            for link in links_with_anchors(&text).filter(|link| !link.contains(' ')) {
                seen += 1;
                let (file, part) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => Some(document.clone()),
                    file => resolve(&folder.join(file)),
                };
                let leads = target.is_some_and(|target| {
                    let target = root.join(target);
                    let has_part = || {
                        fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(part))
                    };
                    target.exists() && (part.is_empty() || has_part())
                });
                if !leads {
                    astray.push(format!("{}: {link}", document.display()));
                }
            }
        }
        assert!(seen > 100, "only {seen} links were found");
        assert!(astray.is_empty(), "{astray:#?}");
        Ok(())
    }

    #[test]
    fn links_of_a_text() {
        let text = "[a](docs/a.md), [b](https://b.example/x), [c](c.md#part) and [d](#here): f(x)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "c.md"]);
        assert_eq!(resolve(Path::new("a/b/../../c/./d")), Some("c/d".into()));
        assert_eq!(resolve(Path::new("a/../../c")), None);
    }
}
