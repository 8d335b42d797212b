//! Symbols and debug information, in files beside the programs.
//!
//! `gdb` and `perf` follow the link in a program's section `.gnu_debuglink`: a name and a checksum, looked for in the program's folder
//! and in `.debug` below it (GDB manual, "Debugging Information in Separate Files").

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::steps::has_program;

const TOOL: &str = "objcopy";

/// Whether the tool is there. It comes with the linker that built us.
pub fn can_be_split() -> bool {
    has_program(TOOL)
}

/// Where the symbols of a program go that is installed here.
pub fn place(program: &Path) -> PathBuf {
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(".debug");
    let folder = program.parent().unwrap_or(Path::new(""));
    folder.join(".debug").join(name)
}

/// Writes the symbols of a program.
pub fn extract(program: &Path, to: &Path) -> Result<()> {
    run(
        &["--only-keep-debug", "--compress-debug-sections"],
        program,
        to,
    )
}

/// Writes a program without its symbols; they were extracted to the place that belongs to `installed`. Unwind tables and dynamic symbols
/// are loaded, and stay.
pub fn strip(program: &Path, to: &Path, installed: &Path) -> Result<()> {
    if !can_be_split() {
        fs::copy(program, to).with_context(|| format!("cannot copy {}", program.display()))?;
        return Ok(());
    }
    let symbols = place(installed);
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    run(&["--strip-all", &link], program, to)
}

fn run(options: &[&str], from: &Path, to: &Path) -> Result<()> {
    ensure!(from.is_file(), "{} is not built", from.display());
    let output = Command::new(TOOL)
        .args(options)
        .arg(from)
        .arg(to)
        .output()
        .with_context(|| format!("cannot start {TOOL}"))?;
    if !output.status.success() {
        bail!("{TOOL} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
