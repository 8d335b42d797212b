//! The ground truth of all processes, put together.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folder of the files of all processes, in the machine's folder.
pub const FOLDER: &str = "truth";

/// Puts the files in `folder` together into one, in the order in which processes began.
///
/// # Errors
/// When it cannot be read or written.
pub fn collect(folder: &Path, target: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", target.display());
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    // Names end with the time.
    files.sort_by_key(|path| {
        path.extension()
            .and_then(|time| time.to_str()?.parse::<u64>().ok())
    });
    let mut output = BufWriter::new(File::create(target).with_context(cannot)?);
    for file in files {
        let text = fs::read(&file)?;
        // Files are longer than what is in them.
        let used = text.iter().rposition(|byte| *byte == b'\n');
        output
            .write_all(&text[..used.map_or(0, |end| end + 1)])
            .with_context(cannot)?;
    }
    output.flush().with_context(cannot)
}
