//! `cargo xtask install`: the files that a user needs, below one folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps::{build_release, say, target_dir, workspace_dir};

/// Built files, and where they go.
const BUILT: &[(&str, &str, u32)] = &[
    ("rsys-sample", "bin/rsys-sample", 0o755),
    ("rsys-avail", "bin/rsys-avail", 0o755),
    ("rsys-report", "bin/rsys-report", 0o755),
    ("librsys_agent.so", "lib/librsys_agent.so", 0o755),
];

/// Files of the repository, and where they go.
const SHARED: &[(&str, &str)] = &[
    ("README.md", "share/rsys/README.md"),
    ("LICENSE-APACHE", "share/rsys/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/rsys/LICENSE-MIT"),
    ("config/default.cfg", "share/rsys/default.cfg"),
];

/// What programs print of themselves, and where it goes: manual pages, and completions where shells look for them.
const PRINTED: &[(&str, &[&str], &str)] = &[
    ("rsys-sample", &["--man"], "share/man/man1/rsys-sample.1"),
    (
        "rsys-sample",
        &["--completions", "bash"],
        "share/bash-completion/completions/rsys-sample",
    ),
    (
        "rsys-sample",
        &["--completions", "zsh"],
        "share/zsh/site-functions/_rsys-sample",
    ),
    (
        "rsys-sample",
        &["--completions", "fish"],
        "share/fish/vendor_completions.d/rsys-sample.fish",
    ),
    ("rsys-avail", &["--man"], "share/man/man1/rsys-avail.1"),
    (
        "rsys-avail",
        &["--completions", "bash"],
        "share/bash-completion/completions/rsys-avail",
    ),
    (
        "rsys-avail",
        &["--completions", "zsh"],
        "share/zsh/site-functions/_rsys-avail",
    ),
    (
        "rsys-avail",
        &["--completions", "fish"],
        "share/fish/vendor_completions.d/rsys-avail.fish",
    ),
];

/// Builds and copies.
pub fn run(prefix: &Path) -> Result<()> {
    build_release()?;
    let prefix = std::path::absolute(prefix)?;
    for (from, to, mode) in BUILT {
        copy(
            &target_dir().join("release").join(from),
            &prefix.join(to),
            *mode,
        )?;
    }
    for (from, to) in SHARED {
        copy(&workspace_dir().join(from), &prefix.join(to), 0o644)?;
    }
    for (program, options, to) in PRINTED {
        write_printed(program, options, &prefix.join(to))?;
    }
    say(&format!("installed below {}", prefix.display()));
    Ok(())
}

/// Writes what a program prints of itself.
fn write_printed(program: &str, options: &[&str], to: &Path) -> Result<()> {
    let told = || format!("cannot install {}", to.display());
    let built = target_dir().join("release").join(program);
    let printed = Command::new(built)
        .args(options)
        .output()
        .with_context(told)?;
    anyhow::ensure!(
        printed.status.success(),
        "{}: {program} {options:?} failed",
        told()
    );
    fs::create_dir_all(to.parent().with_context(told)?).with_context(told)?;
    fs::write(to, printed.stdout).with_context(told)?;
    say(&format!("{}", to.display()));
    Ok(())
}

/// Copies beside the goal first: programs that run the old file keep it.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let told = || format!("cannot install {} as {}", from.display(), to.display());
    let draft = to.with_extension("new");
    fs::create_dir_all(to.parent().with_context(told)?).with_context(told)?;
    fs::copy(from, &draft).with_context(told)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).with_context(told)?;
    fs::rename(&draft, to).with_context(told)?;
    say(&format!("{}", to.display()));
    Ok(())
}
