//! Opening a trace in the real user interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::judge::web_dir;
use crate::paths::{judge_dir, target_dir, workspace_dir};

/// What a user sees of a trace.
#[derive(Debug)]
pub struct View {
    /// The picture.
    pub picture: PathBuf,
    /// All tracks in the order in which they stand, a line each; children are indented by two spaces.
    pub outline: String,
    places: Places,
}

#[derive(Debug, Deserialize)]
struct Places {
    /// Where the details begin, below the tracks.
    fold: f64,
    tracks: Vec<Place>,
}

#[derive(Debug, Deserialize)]
struct Place {
    title: String,
    top: f64,
    bottom: f64,
}

/// So much of a track that is higher has to be seen, in pixels: two rows of slices.
const ENOUGH: f64 = 40.0;

impl View {
    /// The titles of what is seen without scrolling, from above.
    #[must_use]
    pub fn first_screen(&self) -> Vec<&str> {
        let Places { fold, tracks } = &self.places;
        let seen = |place: &&Place| place.bottom.min(place.top + ENOUGH) <= *fold;
        let mut seen: Vec<&Place> = tracks.iter().filter(seen).collect();
        seen.sort_by(|one, other| one.top.total_cmp(&other.top));
        seen.iter().map(|place| place.title.as_str()).collect()
    }
}

/// Opens a trace in Perfetto's UI in a headless browser, with all groups of tracks open, selects all of it so that the flame graph shows, and
/// keeps a picture as `target/screenshots/NAME.png`. Returns the picture's path.
///
/// # Errors
/// When the UI reports a problem with the trace, or does not show a flame graph.
pub fn screenshot(trace: &Path, name: &str) -> Result<PathBuf> {
    Ok(view(trace, name, &[])?.picture)
}

/// Opens a trace like [`screenshot`], in a window of 1600 × 1200, with the groups of tracks open whose names begin with one of `open`; none:
/// all. Beside the picture, `NAME.txt` has the tracks and `NAME.json` their places.
///
/// # Errors
/// When the UI reports a problem with the trace, or does not show a flame graph.
pub fn view(trace: &Path, name: &str, open: &[&str]) -> Result<View> {
    let picture = target_dir().join("screenshots").join(format!("{name}.png"));
    fs::create_dir_all(picture.parent().context("a picture without a folder")?)?;
    let done = Command::new("node")
        .arg(workspace_dir().join("tests/judge/shot.mjs"))
        .arg(web_dir()?)
        .arg(trace)
        .arg(&picture)
        .args(open)
        .env("RSYS_JUDGE_DIR", judge_dir())
        .output()
        .context("cannot start `node`, which drives the browser")?;
    if !done.status.success() {
        let (stdout, stderr) = (
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr),
        );
        bail!(
            "the user interface is not content with {}\n{stdout}{stderr}",
            trace.display()
        );
    }
    Ok(View {
        outline: fs::read_to_string(picture.with_extension("txt"))?,
        places: serde_json::from_slice(&fs::read(picture.with_extension("json"))?)?,
        picture,
    })
}
