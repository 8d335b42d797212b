//! Which files a command line means.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// How trace files end.
const EXTENSIONS: [&str; 4] = ["proto", "pftrace", "perfetto-trace", "perfetto"];

/// How deep below a named folder traces are looked for: `<output>/<time>/<prefix>/`.
const DEPTH_MAX: usize = 4;

/// The files that `paths` name, and the traces in the folders that they name, sorted and each once. `except` is left out.
///
/// # Errors
/// When a path is not there, or a folder holds no trace.
pub fn traces(paths: &[PathBuf], except: Option<&Path>) -> Result<Vec<PathBuf>> {
    let except = except.and_then(|path| path.canonicalize().ok());
    let mut found = Vec::new();
    for path in paths {
        let about =
            std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if about.is_dir() {
            let before = found.len();
            below(path, DEPTH_MAX, &mut found)?;
            if found.len() == before {
                bail!(
                    "{}: no traces (*.{}) in this folder",
                    path.display(),
                    EXTENSIONS.join(", *.")
                );
            }
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| {
        let same = path.canonicalize().unwrap_or_else(|_| path.clone());
        except.as_ref() != Some(&same) && seen.insert(same)
    });
    if found.is_empty() {
        bail!("there is no trace to read");
    }
    Ok(found)
}

fn below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let told = || format!("cannot read the folder {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(told)? {
        let entry = entry.with_context(told)?;
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let kind = entry.file_type().with_context(told)?;
        if kind.is_dir() && depth > 0 && !hidden {
            below(&path, depth - 1, found)?;
        } else if !kind.is_dir() && !hidden && is_trace(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_trace(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// The last part of a path, for messages.
pub fn short_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
