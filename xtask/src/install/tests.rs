//! An installation from what is built, and its removal.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{BUILT, Extras, install, uninstall};
use crate::documents;
use crate::steps::{has_program, target_dir};

/// Everything below a folder, as paths relative to it.
fn below(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut next = vec![folder.to_path_buf()];
    while let Some(path) = next.pop() {
        for entry in fs::read_dir(&path)? {
            let path = entry?.path();
            found.push(path.strip_prefix(folder)?.display().to_string());
            if path.is_dir() {
                next.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn output(program: &Path, words: &[&str]) -> Result<String> {
    let done = Command::new(program).args(words).output()?;
    let text =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    ensure!(
        done.status.success(),
        "{} {words:?}: {text}",
        program.display()
    );
    Ok(text)
}

#[test]
fn an_installation_is_whole_small_and_goes_again() -> Result<()> {
    let built = target_dir().join("release");
    if let Some((name, _)) = BUILT.iter().find(|(name, _)| !built.join(name).is_file()) {
        println!("skipped: {name} is not built");
        return Ok(());
    }
    let prefix = target_dir().join("tmp/installed");
    if prefix.exists() {
        fs::remove_dir_all(&prefix)?;
    }
    // A folder and a file of somebody else's.
    fs::create_dir_all(prefix.join("share/man"))?;
    fs::write(prefix.join("share/other"), "")?;
    let before = below(&prefix)?;
    let with_old_names = || Extras {
        old_names: true,
        ui: Vec::new(),
    };
    install(&built, &prefix, with_old_names())?;
    let first = below(&prefix)?;
    check_links(&prefix.join("share/rsys"))?;
    check_programs(&built, &prefix)?;
    check_old_names(&prefix.join("bin"))?;
    // With the viewer, as files that `--ui` has fetched.
    let place = Path::new("share/rsys/ui/v1/index.html");
    let page = target_dir().join("tmp/page.html");
    fs::write(&page, "a page")?;
    let viewer = Extras {
        ui: vec![(place.to_owned(), page.clone())],
        ..with_old_names()
    };
    install(&built, &prefix, viewer)?;
    ensure!(fs::read_to_string(prefix.join(place))? == "a page");
    fs::remove_file(page)?;
    // A second installation replaces the first, and what that one had more goes.
    let stale = prefix.join("share/rsys/stale");
    fs::write(&stale, "")?;
    let list = prefix.join(super::list::PLACE);
    fs::write(&list, fs::read_to_string(&list)? + "share/rsys/stale\n")?;
    install(&built, &prefix, with_old_names())?;
    ensure!(below(&prefix)? == first, "{:?}\n{first:?}", below(&prefix)?);
    uninstall(&prefix)?;
    ensure!(below(&prefix)? == before, "{:?}", below(&prefix)?);
    ensure!(
        uninstall(&prefix).is_err(),
        "nothing is there to be removed"
    );
    fs::remove_dir_all(&prefix)?;
    Ok(())
}

/// Each link of each installed document leads to an installed file.
fn check_links(folder: &Path) -> Result<()> {
    let mut seen = 0;
    for name in below(folder)?.iter().filter(|name| name.ends_with(".md")) {
        let document = folder.join(name);
        let text = fs::read_to_string(&document)?;
        for link in documents::links(&text) {
            let target = document.parent().context("no folder")?.join(link);
            ensure!(
                target.exists(),
                "{name} links to {link}, which is not installed"
            );
            seen += 1;
        }
    }
    ensure!(seen > 20, "only {seen} links");
    Ok(())
}

/// By each of the original's names it is our program that answers, and says so once.
fn check_old_names(bin: &Path) -> Result<()> {
    for (old, ours) in super::OLD_NAMES {
        let words: &[&str] = match *ours {
            "rsys-sample" => &["-o", "tmp", "--", "true"],
            _ => &["--brief"],
        };
        let done = Command::new(bin.join(old))
            .args(words)
            .current_dir(bin)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "{old}: {said}");
        let told = said
            .lines()
            .filter(|line| line.contains(old) && line.contains(ours));
        ensure!(told.count() == 1, "{old}: {said}");
    }
    Ok(fs::remove_dir_all(bin.join("tmp"))?)
}

/// Installed programs are small, run, and their symbols are found without complaint.
fn check_programs(built: &Path, prefix: &Path) -> Result<()> {
    for (name, place) in BUILT {
        let (from, to) = (
            fs::metadata(built.join(name))?,
            fs::metadata(prefix.join(place))?,
        );
        ensure!(
            to.len() < from.len() / 2,
            "{place}: {} bytes, built with {}",
            to.len(),
            from.len()
        );
        if !has_program("gdb") {
            println!("skipped: gdb is missing");
            continue;
        }
        let words = ["-batch", "-nx", "-ex", "info line rust_panic"];
        let file = prefix.join(place);
        let said = Command::new("gdb").args(words).arg(&file).output()?;
        let errors = String::from_utf8_lossy(&said.stderr);
        ensure!(
            !errors.to_lowercase().contains("dwo") && !errors.contains("separate debug info"),
            "{place}: {errors}"
        );
        let line = String::from_utf8_lossy(&said.stdout);
        ensure!(line.contains("panicking.rs"), "{place}: {line}{errors}");
    }
    let bin = prefix.join("bin");
    let traces = prefix.join("tmp");
    let words = [
        "-f",
        "1000",
        "-o",
        traces.to_str().context("no text")?,
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done",
    ];
    let said = output(&bin.join("rsys-sample"), &words)?;
    ensure!(said.contains("next: rsys-report view"), "{said}");
    fs::remove_dir_all(traces)?;
    for program in ["rsys-sample", "rsys-avail", "rsys-report"] {
        ensure!(
            output(&bin.join(program), &["--version"])?.contains(program),
            "{program}"
        );
        let page = fs::read_to_string(prefix.join(format!("share/man/man1/{program}.1")))?;
        ensure!(page.contains(".TH "), "{program}");
    }
    Ok(())
}
