//! `cargo xtask site`: README and all pages that it leads to as a site with search, made by mdBook.
//!
//! Pages lead to files all over the repository, so all of them are copied with their paths, and what is built is looked through for links
//! that lead nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::documents::{self, CONTENTS, faults};
use crate::steps::{cargo, say, step, target_dir, workspace_dir};

/// What builds it, from crates.io.
const MDBOOK_VERSION: &str = "0.5.4";

/// Builds the site, and says where it is.
///
/// # Errors
/// When mdBook cannot be compiled or fails, or a link leads nowhere.
pub fn make() -> Result<()> {
    let root = workspace_dir();
    let found = faults::of_pages(&root)?;
    ensure!(found.is_empty(), "\n{}", found.join("\n"));
    let mdbook = mdbook()?;
    let folder = target_dir().join("site");
    lay_out(&root, &folder)?;
    step(Command::new(mdbook).arg("build").arg(&folder))?;
    let site = folder.join("html");
    let astray = astray(&site)?;
    ensure!(astray.is_empty(), "\n{}", astray.join("\n"));
    say(&format!(
        "the site is {}: open index.html, or serve the folder",
        site.display()
    ));
    Ok(())
}

/// mdBook below `target/site-tools`: as it was compiled before, or compiled now, without its own server.
fn mdbook() -> Result<PathBuf> {
    let tools = target_dir().join("site-tools");
    let program = tools.join("bin/mdbook");
    let version = Command::new(&program).arg("--version").output();
    let is_right = version.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim() == format!("mdbook v{MDBOOK_VERSION}")
    });
    if !is_right {
        say("compiling mdBook, once: some minutes on two cores");
        step(
            cargo()
                .args(["install", "mdbook", "--locked", "--force", "--version"])
                .arg(format!("={MDBOOK_VERSION}"))
                .args(["--no-default-features", "--features", "search", "--root"])
                .arg(&tools),
        )?;
    }
    Ok(program)
}

/// Puts all that mdBook reads into a folder; what was built there before is removed.
fn lay_out(root: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let sources = folder.join("source");
    for file in documents::reached_from(root, "README.md")? {
        let to = sources.join(&file);
        fs::create_dir_all(to.parent().context("no folder")?)?;
        fs::copy(root.join(&file), to)
            .with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let contents = documents::read(root, Path::new(CONTENTS))?;
    // Pages link to the contents, too.
    let contents = format!("{}\n[All pages]({CONTENTS})\n", from_root(&contents)?);
    fs::write(sources.join("SUMMARY.md"), contents)?;
    fs::copy(root.join("docs/book.toml"), folder.join("book.toml")).context("docs/book.toml")?;
    Ok(())
}

/// The table of contents with links as they are from the root of the repository.
fn from_root(contents: &str) -> Result<String> {
    let mut text = String::new();
    for (index, part) in contents.split("](").enumerate() {
        if index == 0 {
            text.push_str(part);
            continue;
        }
        let (link, rest) = part.split_once(')').context("a link without an end")?;
        let place = documents::target(Path::new(CONTENTS), link);
        let place = place.with_context(|| format!("{link} leads out of the repository"))?;
        text.push_str(&format!("]({}){rest}", place.display()));
    }
    Ok(text)
}

/// The links in the pages of a site that lead to no file of it, or to no part of one.
fn astray(site: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    read_pages(site, Path::new(""), &mut texts)?;
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> = texts
        .iter()
        .map(|(page, text)| (page, values(text, "id").collect()))
        .collect();
    let mut found = Vec::new();
    for (page, text) in &texts {
        let links = values(text, "href").chain(values(text, "src"));
        for link in links.filter(|link| is_within(link)) {
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let place = match file {
                "" => Some(page.clone()),
                file => documents::target(page, file),
            };
            let leads = place.is_some_and(|place| {
                let has_part = ids.get(&place).is_some_and(|ids| ids.contains(part));
                site.join(&place).exists() && (part.is_empty() || has_part)
            });
            if !leads {
                found.push(format!("{}: {link} leads nowhere", page.display()));
            }
        }
    }
    Ok(found)
}

/// Whether a link leads to a file of the same site.
fn is_within(link: &str) -> bool {
    let scheme = |sign: char| sign.is_ascii_alphabetic();
    let leads_elsewhere = link
        .split_once(':')
        .is_some_and(|(before, _)| before.chars().all(scheme));
    !link.is_empty() && !leads_elsewhere && !link.starts_with('/')
}

/// Reads all pages in a folder of a site and below it, but the one for pages that do not exist: a server shows it anywhere.
fn read_pages(site: &Path, folder: &Path, texts: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(site.join(folder))? {
        let entry = entry?;
        let place = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            read_pages(site, &place, texts)?;
        } else if place.extension().is_some_and(|ending| ending == "html")
            && place != Path::new("404.html")
        {
            texts.insert(place, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// The values of an attribute in a text in HTML.
fn values<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let behind = text
        .split(&format!(" {name}=\""))
        .skip(1)
        .collect::<Vec<_>>();
    behind.into_iter().filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_paths_from_the_root() -> Result<()> {
        let contents = "# All\n\n[r](../README.md)\n- [a](a.md)\n  - [b](design/b.md)\n";
        let expected = "# All\n\n[r](README.md)\n- [a](docs/a.md)\n  - [b](docs/design/b.md)\n";
        assert_eq!(from_root(contents)?, expected);
        assert!(from_root("[x](../../x.md)").is_err());
        Ok(())
    }

    #[test]
    fn all_pages_are_laid_out() -> Result<()> {
        let folder = target_dir().join("tmp/site-layout");
        lay_out(&workspace_dir(), &folder)?;
        let contents = fs::read_to_string(folder.join("source/SUMMARY.md"))?;
        let listed: Vec<&str> = documents::links(&contents).collect();
        assert!(listed.len() > 30, "{listed:?}");
        for page in listed.iter().chain(&["docs/images/trace.webp"]) {
            let place = folder.join("source").join(page);
            assert!(place.is_file(), "{}", place.display());
        }
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn links_of_a_site_lead_somewhere() -> Result<()> {
        let site = target_dir().join("tmp/site-links");
        fs::create_dir_all(site.join("docs"))?;
        let index = "<a href=\"docs/a.html#x\"><a href=\"docs/a.html#y\"><img src=\"b.png\"><a href=\"https://c.example\">";
        fs::write(site.join("index.html"), index)?;
        let page = "<h1 id=\"x\"><a href=\"../index.html\"><a href=\"#x\">";
        fs::write(site.join("docs/a.html"), page)?;
        let expected = [
            "index.html: docs/a.html#y leads nowhere",
            "index.html: b.png leads nowhere",
        ];
        assert_eq!(astray(&site)?, expected);
        fs::remove_dir_all(site)?;
        Ok(())
    }
}
