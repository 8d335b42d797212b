//! `-G`: configuration files.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use rsys_config::{Settings, generate};

use crate::request::Generation;

/// Writes a file for each format, and says which. Nothing is asked: an existing file is an error, unless replacing was allowed.
pub fn write(
    settings: &Settings,
    generation: &Generation,
    choice: &generate::Choice,
) -> Result<()> {
    let heading = format!(
        "Written by rsys-avail {} on {}",
        env!("CARGO_PKG_VERSION"),
        local_time("%Y-%m-%d %H:%M")
    );
    let files: Vec<(PathBuf, String)> = generation
        .formats
        .iter()
        .map(|format| {
            let text = generate::generate(settings, *format, *choice, &heading)?;
            Ok((path(&generation.file, *format), text))
        })
        .collect::<Result<_>>()?;
    // All or none.
    if !generation.force
        && let Some((taken, _)) = files
            .iter()
            .find(|(path, _)| path.symlink_metadata().is_ok())
    {
        return Err(exists(taken));
    }
    for (path, text) in &files {
        create(path, text, generation.force)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!(
        "{} exists and stays as it is; choose another name, or replace it with --force",
        path.display()
    )
}

fn create(path: &Path, text: &str, force: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(path),
        ErrorKind::NotFound => anyhow!(
            "cannot write {}: its folder does not exist; create it first",
            path.display()
        ),
        _ => anyhow!(error).context(format!("cannot write {}", path.display())),
    })?;
    file.write_all(text.as_bytes()).with_context(|| {
        // Half a file would be read as a whole one.
        fs::remove_file(path).ok();
        format!("cannot write {}", path.display())
    })
}

/// The file's own name where its extension is of this format, else one with the format's extension.
fn path(file: &Path, format: generate::Format) -> PathBuf {
    let own = file
        .extension()
        .map(|extension| extension.to_string_lossy().into_owned());
    match own.as_deref().map(generate::Format::of) {
        Some(Some(own)) if own == format => file.to_owned(),
        // A foreign extension belongs to the name: `.rsys` and `run.5` stay whole.
        Some(None) if format == generate::Format::Text => file.to_owned(),
        Some(Some(_)) => file.with_extension(format.extension()),
        _ => {
            let mut name = file.as_os_str().to_owned();
            name.push(".");
            name.push(format.extension());
            PathBuf::from(name)
        }
    }
}

/// The local time in the notation of strftime(3).
pub fn local_time(format: &str) -> String {
    let Ok(format) = std::ffi::CString::new(format) else {
        return String::new();
    };
    let mut buffer = [0_u8; 64];
    // SAFETY: time and localtime_r write to the places given, which are of their types; strftime writes at most the buffer's
    // length and reads a terminated format.
    let length = unsafe {
        let seconds = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&raw const seconds, &raw mut parts).is_null() {
            return String::new();
        }
        libc::strftime(
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            format.as_ptr(),
            &raw const parts,
        )
    };
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_config::generate::Format;

    #[test]
    fn names_of_files() {
        let cases = [
            ("my.cfg", Format::Text, "my.cfg"),
            ("my.txt", Format::Text, "my.txt"),
            ("my.cfg", Format::Json, "my.json"),
            ("my", Format::Text, "my.cfg"),
            ("my", Format::Xml, "my.xml"),
            ("/a/.rsys", Format::Text, "/a/.rsys.cfg"),
            ("run.5", Format::Text, "run.5"),
            ("run.5", Format::Toml, "run.5.toml"),
        ];
        for (file, format, expected) in cases {
            assert_eq!(path(Path::new(file), format), Path::new(expected), "{file}");
        }
    }
}
