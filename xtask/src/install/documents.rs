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
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter_map(|link| link.split('#').next())
        .filter(|link| !link.is_empty() && !link.contains("://"))
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

    #[test]
    fn links_of_a_text() {
        let text = "[a](docs/a.md), [b](https://b.example/x), [c](c.md#part) and [d](#here): f(x)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "c.md"]);
        assert_eq!(resolve(Path::new("a/b/../../c/./d")), Some("c/d".into()));
        assert_eq!(resolve(Path::new("a/../../c")), None);
    }
}
