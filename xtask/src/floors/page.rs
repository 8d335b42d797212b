//! The floors as ARCHITECTURE.md shows them: between two marks stands a list that is made of `floors.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- floors: made of floors.toml by RSYS_BLESS=1 cargo xtask floors -->\n";
const END: &str = "<!-- end of floors -->\n";

/// The floors of each crate, from the ground up.
type Floors = BTreeMap<String, Vec<Vec<String>>>;

/// What is wrong with the page, if anything is.
///
/// # Errors
/// When the page cannot be read.
pub(super) fn check(root: &Path, floors: &Floors) -> Result<Option<String>> {
    let text = read(root)?;
    Ok(match shown(&text) {
        None => Some(format!(
            "{PAGE} has no place for the floors: {}",
            BEGIN.trim_end()
        )),
        Some(shown) if shown == list(floors) => None,
        Some(_) => Some(format!(
            "{PAGE} shows other floors than floors.toml; RSYS_BLESS=1 cargo xtask floors brings them in"
        )),
    })
}

/// Writes the floors into the page, where it has a place for them.
///
/// # Errors
/// When the page cannot be read or written.
pub(super) fn write(root: &Path, floors: &Floors) -> Result<()> {
    let text = read(root)?;
    let Some(old) = shown(&text) else {
        return Ok(());
    };
    let new = text.replacen(
        &format!("{BEGIN}{old}{END}"),
        &format!("{BEGIN}{}{END}", list(floors)),
        1,
    );
    std::fs::write(root.join(PAGE), new).with_context(|| format!("cannot write {PAGE}"))
}

fn read(root: &Path) -> Result<String> {
    let page = root.join(PAGE);
    std::fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))
}

fn shown(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(BEGIN)?;
    rest.split_once(END).map(|(shown, _)| shown)
}

/// A table row for each crate: `wire` | a, b → c → d.
fn list(floors: &Floors) -> String {
    let mut text = String::from("\n| crate | floors, from the ground up |\n|---|---|\n");
    for (name, levels) in floors {
        let levels: Vec<String> = levels.iter().map(|names| names.join(", ")).collect();
        text.push_str(&format!("| `{name}` | {} |\n", levels.join(" → ")));
    }
    text.push('\n');
    text
}
