//! Packages for Debian and its kin, put together by `dpkg-deb`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::stage::{self, Stage, empty, put};
use super::{VERSION, tools};
use crate::install::OLD_NAMES;
use crate::steps::workspace_dir;

const MAINTAINER: &str = "The rsys authors <rsys@localhost>";

/// What `control` says of a package.
struct About {
    name: &'static str,
    architecture: &'static str,
    depends: String,
    section: &'static str,
    summary: &'static str,
    more: &'static str,
}

/// The programs, their symbols, and the original's names.
pub fn make(stage: &Stage, output: &Path) -> Result<Vec<PathBuf>> {
    let tree = output.join("deb");
    let exactly = format!("rsys (= {VERSION})");
    empty(&tree)?;
    stage.copy(&stage.files, &tree, |place| Some(place_on_debian(place)))?;
    compress_manual(&tree)?;
    let programs = About {
        name: "rsys",
        architecture: "amd64",
        depends: "libc6 (>= 2.17), libgcc-s1 | libgcc1".to_owned(),
        section: "devel",
        summary: "sampling profiler for CPUs and AMD GPUs",
        more: " Runs a program unmodified, and shows where its time goes: timelines for\n Perfetto, and answers in words.\n",
    };
    let programs = pack(&programs, &tree, output)?;

    empty(&tree)?;
    stage.copy(&stage.symbols, &tree, |place| Some(place_on_debian(place)))?;
    let symbols = About {
        name: "rsys-dbgsym",
        architecture: "amd64",
        depends: exactly.clone(),
        section: "debug",
        summary: "debug symbols for rsys",
        more: " For debuggers only.\n",
    };
    let symbols = pack(&symbols, &tree, output)?;

    empty(&tree)?;
    let bin = tree.join("usr/bin");
    fs::create_dir_all(&bin)?;
    for (old, ours) in OLD_NAMES {
        symlink(ours, bin.join(old))?;
    }
    let old_names = About {
        name: "rsys-old-names",
        architecture: "all",
        depends: exactly,
        section: "devel",
        summary: "rsys by the names of rocprofiler-systems and omnitrace",
        more: " Links rocprof-sys-sample, rocprof-sys-avail, omnitrace-sample and\n omnitrace-avail.\n",
    };
    let old_names = pack(&old_names, &tree, output)?;
    fs::remove_dir_all(tree)?;
    Ok(vec![programs, symbols, old_names])
}

/// Debian's zsh looks for completions of packages in a folder of its own.
fn place_on_debian(place: &Path) -> PathBuf {
    let usr = Path::new("usr");
    match place.strip_prefix("share/zsh/site-functions") {
        Ok(name) => usr.join("share/zsh/vendor-completions").join(name),
        Err(_) => usr.join(place),
    }
}

fn compress_manual(tree: &Path) -> Result<()> {
    for page in fs::read_dir(tree.join("usr/share/man/man1"))? {
        tools::run(Command::new("gzip").arg("-9n").arg(page?.path()))?;
    }
    Ok(())
}

fn pack(about: &About, tree: &Path, output: &Path) -> Result<PathBuf> {
    let About {
        name,
        architecture,
        depends,
        section,
        summary,
        more,
    } = about;
    let root = workspace_dir();
    let documents = tree.join("usr/share/doc").join(name);
    put(&root.join("CHANGELOG.md"), &documents.join("CHANGELOG.md"))?;
    stage::write(&documents.join("copyright"), copyright(&root)?)?;
    let size = tools::run(
        Command::new("du")
            .args(["-sk", "--apparent-size"])
            .arg(tree),
    )?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let control = format!(
        "Package: {name}\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\n\
         Depends: {depends}\nSection: {section}\nPriority: optional\nDescription: {summary}\n{more}"
    );
    stage::write(&tree.join("DEBIAN/control"), control)?;
    let file = output.join(format!("{name}_{VERSION}_{architecture}.deb"));
    // Debian 11 cannot read what Ubuntu packs by default (zstd). Symbols are compressed already.
    let packing = if *section == "debug" {
        ["-Zgzip", "-z1"]
    } else {
        ["-Zxz", "-z6"]
    };
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.arg("--root-owner-group")
        .args(packing)
        .arg("--build")
        .arg(tree)
        .arg(&file)
        .env("SOURCE_DATE_EPOCH", tools::epoch().to_string());
    tools::run(&mut dpkg)?;
    Ok(file)
}

/// What Debian asks for: who may do what. What is linked in is in a file beside.
fn copyright(root: &Path) -> Result<String> {
    let mut text = String::from(
        "rsys may be used under the MIT licence or the Apache License 2.0, both below.\n\
         The licences of what is linked in are in /usr/share/rsys/THIRD-PARTY.txt of the package rsys.\n",
    );
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        text.push('\n');
        text.push_str(&fs::read_to_string(root.join(name))?);
    }
    Ok(text)
}
