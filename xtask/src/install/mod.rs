//! `cargo xtask install` and `uninstall`: the files that a user needs, below one folder.
//!
//! Programs go without their symbols, which stand in `.debug` folders beside them, where debuggers look. A list of all that was put
//! there makes it possible to take it away again.

mod licences;
mod list;
mod symbols;
#[cfg(test)]
mod tests;
mod ui;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

pub use self::list::List;
use crate::documents;
use crate::steps::{PROGRAMS, build_packages, say, target_dir, workspace_dir};

/// Built files, and where they go.
const BUILT: &[(&str, &str)] = &[
    ("rsys-sample", "bin/rsys-sample"),
    ("rsys-avail", "bin/rsys-avail"),
    ("rsys-report", "bin/rsys-report"),
    ("librsys_agent.so", "lib/librsys_agent.so"),
    ("librsys_agent_parallel.so", "lib/librsys_agent_parallel.so"),
    ("librsys_agent_locks.so", "lib/librsys_agent_locks.so"),
    // For the demo.
    ("rsys-simgpu", "lib/rsys/rsys-simgpu"),
    ("librsys_simgpu.so", "lib/rsys/librsys_simgpu.so"),
];

/// Files of the repository, and where they go; to them come all documents that the first one leads to.
const SHARED: &[(&str, &str)] = &[
    ("README.md", "share/rsys/README.md"),
    ("LICENSE-APACHE", "share/rsys/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/rsys/LICENSE-MIT"),
    ("config/default.cfg", "share/rsys/default.cfg"),
    ("user/include/rsys.h", "include/rsys.h"),
    ("packaging/modulefile", "share/rsys/modulefiles/rsys"),
    (
        "user/python/rsys/__init__.py",
        "share/rsys/python/rsys/__init__.py",
    ),
    (
        "user/python/rsys/_notebook.py",
        "share/rsys/python/rsys/_notebook.py",
    ),
    (
        "user/python/rsys/_page.py",
        "share/rsys/python/rsys/_page.py",
    ),
    (
        "user/python/rsys/_profile.py",
        "share/rsys/python/rsys/_profile.py",
    ),
    ("user/python/rsys/_run.py", "share/rsys/python/rsys/_run.py"),
    (
        "user/python/rsys/_tables.py",
        "share/rsys/python/rsys/_tables.py",
    ),
    ("packaging/demo/demo.py", "share/rsys/demo/demo.py"),
    ("packaging/demo/train.py", "share/rsys/demo/train.py"),
    ("packaging/demo/hip_gpu.py", "share/rsys/demo/hip_gpu.py"),
    ("packaging/demo/hsa_gpu.py", "share/rsys/demo/hsa_gpu.py"),
    (
        "packaging/demo/kernels.toml",
        "share/rsys/demo/kernels.toml",
    ),
    (
        "packaging/demo/kernels.gfx90a.co",
        "share/rsys/demo/kernels.gfx90a.co",
    ),
    ("user/fortran/rsys.f90", "share/rsys/fortran/rsys.f90"),
];

/// What each program prints of itself, and where `man` and the shells look for it; `NAME` is the program's.
const PRINTED: &[(&[&str], &str)] = &[
    (&["--man"], "share/man/man1/NAME.1"),
    (
        &["--completions", "bash"],
        "share/bash-completion/completions/NAME",
    ),
    (&["--completions", "zsh"], "share/zsh/site-functions/_NAME"),
    (
        &["--completions", "fish"],
        "share/fish/vendor_completions.d/NAME.fish",
    ),
];

/// Names that programs had in the original, and ours.
pub const OLD_NAMES: &[(&str, &str)] = &[
    ("rocprof-sys-sample", "rsys-sample"),
    ("rocprof-sys-avail", "rsys-avail"),
    ("omnitrace-sample", "rsys-sample"),
    ("omnitrace-avail", "rsys-avail"),
];

/// A file to be made.
#[derive(Debug)]
enum Origin {
    /// A built file, without its symbols.
    Program(PathBuf),
    /// The symbols of a built file.
    Symbols(PathBuf),
    /// A file as it is.
    File(PathBuf),
    /// What a built program prints.
    Output(PathBuf, &'static [&'static str]),
    /// A text of ours.
    Text(String),
    /// A link to a file in the same folder.
    Link(&'static str),
}

/// What an installation may have beside what is built.
#[derive(Debug, Default)]
pub struct Extras {
    /// Links of the original's names.
    pub old_names: bool,
    /// Files of the Perfetto UI: their places below the prefix, and where they are.
    pub ui: Vec<(PathBuf, PathBuf)>,
}

/// Builds what users need, and copies it below `prefix`; with links of the original's names and a copy of the Perfetto UI, if they are
/// wanted.
pub fn run(prefix: &Path, old_names: bool, with_ui: bool) -> Result<()> {
    build()?;
    let built = target_dir().join("release");
    let ui = match with_ui {
        true => ui::files(&built)?,
        false => Vec::new(),
    };
    let prefix = std::path::absolute(prefix)?;
    let files = install(&built, &prefix, Extras { old_names, ui })?;
    for place in &files {
        say(&prefix.join(place).display().to_string());
    }
    say(&format!(
        "installed below {}; `cargo xtask uninstall --prefix {}` takes it away",
        prefix.display(),
        prefix.display()
    ));
    Ok(())
}

/// Builds what users need.
pub fn build() -> Result<()> {
    build_packages(
        "rsys-sample, rsys-avail, rsys-report and the agent",
        PROGRAMS,
    )
}

/// Removes what an installation put below `prefix`, and nothing else.
pub fn uninstall(prefix: &Path) -> Result<()> {
    let prefix = std::path::absolute(prefix)?;
    let Some(list) = List::read(&prefix)? else {
        bail!(
            "nothing is installed below {} (there is no {})",
            prefix.display(),
            list::PLACE
        );
    };
    let files = list.files.len();
    list.remove(&prefix)?;
    say(&format!("removed {files} files below {}", prefix.display()));
    Ok(())
}

/// Installs what is built in a folder; returns the places of the files below the prefix.
pub fn install(built: &Path, prefix: &Path, extras: Extras) -> Result<Vec<PathBuf>> {
    let mut files = files(built, extras.old_names)?;
    let ui = extras.ui.into_iter();
    files.extend(ui.map(|(place, from)| (place, Origin::File(from))));
    let places: Vec<PathBuf> = files.iter().map(|(place, _)| place.clone()).collect();
    let before = List::read(prefix)?.unwrap_or_default();
    let list = List::new(prefix, places.iter().cloned(), &before);
    // Written first, so that an installation that fails half-way can be taken away too.
    list.write(prefix)?;
    for (place, origin) in &files {
        let to = prefix.join(place);
        make(origin, &to).with_context(|| format!("cannot install {}", to.display()))?;
    }
    before.without(&list).remove(prefix)?;
    Ok(places)
}

/// All files of an installation: their places below the prefix, and where they come from.
fn files(built: &Path, old_names: bool) -> Result<Vec<(PathBuf, Origin)>> {
    let mut files = Vec::new();
    for (name, place) in BUILT {
        let (from, place) = (built.join(name), PathBuf::from(place));
        if symbols::can_be_split() {
            files.push((symbols::place(&place), Origin::Symbols(from.clone())));
        }
        files.push((place, Origin::Program(from)));
    }
    for (name, place) in SHARED {
        files.push((place.into(), Origin::File(workspace_dir().join(name))));
    }
    for document in documents::reached_from(&workspace_dir(), "README.md")? {
        let place = Path::new("share/rsys").join(&document);
        if !files.iter().any(|(other, _)| *other == place) {
            files.push((place, Origin::File(workspace_dir().join(document))));
        }
    }
    for (program, _) in BUILT.iter().filter(|(_, place)| place.starts_with("bin/")) {
        for (options, place) in PRINTED {
            let place = place.replace("NAME", program);
            files.push((place.into(), Origin::Output(built.join(program), options)));
        }
    }
    let licences = Origin::Text(licences::of_dependencies()?);
    files.push(("share/rsys/THIRD-PARTY.txt".into(), licences));
    if old_names {
        let links = OLD_NAMES.iter();
        files.extend(links.map(|(old, ours)| (Path::new("bin").join(old), Origin::Link(ours))));
    }
    Ok(files)
}

/// Makes a file beside its place first: programs that run the old one keep it.
fn make(origin: &Origin, to: &Path) -> Result<()> {
    let folder = to.parent().context("no folder")?;
    fs::create_dir_all(folder)?;
    let mut name = to.file_name().context("no name")?.to_owned();
    name.push(".new");
    let draft = folder.join(name);
    let mode = match origin {
        Origin::Program(from) => {
            symbols::strip(from, &draft, to)?;
            0o755
        }
        Origin::Symbols(from) => {
            symbols::extract(from, &draft)?;
            0o644
        }
        Origin::File(from) => {
            fs::copy(from, &draft).with_context(|| format!("cannot copy {}", from.display()))?;
            0o644 | fs::metadata(from)?.permissions().mode() & 0o111
        }
        Origin::Output(program, options) => {
            fs::write(&draft, printed(program, options)?)?;
            0o644
        }
        Origin::Text(text) => {
            fs::write(&draft, text)?;
            0o644
        }
        Origin::Link(target) => {
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error)?,
                _ => symlink(target, &draft)?,
            }
            return Ok(fs::rename(&draft, to)?);
        }
    };
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode))?;
    Ok(fs::rename(&draft, to)?)
}

/// What a program prints of itself.
fn printed(program: &Path, options: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(options)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    anyhow::ensure!(
        output.status.success(),
        "{} {options:?} failed: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
