//! A copy of the Perfetto UI.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// What browsers insist on.
const TYPES: &[(&str, &str)] = &[
    ("css", "text/css"),
    ("html", "text/html"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("wasm", "application/wasm"),
    ("woff2", "font/woff2"),
];

/// The folder of the copy.
#[derive(Debug)]
pub struct Pages(PathBuf);

impl Pages {
    /// Takes the folder.
    ///
    /// # Errors
    /// When it has no start page.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.join("index.html").is_file() {
            bail!(
                "{}: not a copy of the Perfetto UI: it has no index.html",
                folder.display()
            );
        }
        let folder = folder.canonicalize();
        let folder = folder.context("cannot read the copy of the Perfetto UI")?;
        Ok(Self(folder))
    }

    /// The file of a path of the page, and its type. Nothing outside of the folder is given out, by `..` and links neither.
    pub fn file(&self, path: &str) -> Option<(File, &'static str)> {
        let path = match path.strip_prefix('/')? {
            "" => "index.html",
            path => path,
        };
        let is_plain = |part| matches!(part, Component::Normal(_));
        if !Path::new(path).components().all(is_plain) {
            return None;
        }
        let path = self.0.join(path).canonicalize().ok()?;
        if !path.starts_with(&self.0) || !path.is_file() {
            return None;
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        let known = TYPES.iter().find(|(known, _)| Some(*known) == ending);
        let kind = known.map_or("application/octet-stream", |(_, kind)| kind);
        Some((File::open(path).ok()?, kind))
    }
}
