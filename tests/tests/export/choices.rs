//! What is written, where, and what stays as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use rsys_tests::{Scratch, TestResult, is_root, report, skip_if_missing};

use super::training::training;
use super::{STACK, export, job, number};

/// All formats and their outputs.
const FORMATS: [&str; 12] = [
    "kineto",
    "chrome",
    "rpd",
    "rocpd",
    "folded",
    "speedscope",
    "pprof",
    "firefox",
    "rocprofv3-json",
    "aorta",
    "csv",
    "parquet",
];

/// All bytes of a file, or of the files of a folder by name.
fn contents(path: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    if path.is_file() {
        return Ok(vec![(String::new(), fs::read(path)?)]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        all.push((
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?,
        ));
    }
    all.sort();
    Ok(all)
}

#[test]
fn the_order_of_inputs_does_not_matter() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-order")?;
    let [first, second] = job()?;
    for format in FORMATS {
        let [one, other] =
            ["one", "other"].map(|name| scratch.path().join(format!("{format}.{name}")));
        export(&[first, second], format, &one, &["--jobs", "1"])?;
        export(&[second, first], format, &other, &["--jobs", "2"])?;
        ensure!(contents(&one)? == contents(&other)?, "{format}");
        ensure!(!contents(&one)?.is_empty(), "{format}");
    }
    Ok(())
}

#[test]
fn parts_of_a_run_can_be_chosen() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-parts")?;
    let [trace, _] = job()?;
    let first = number(
        &[trace],
        "select min(n) as n from (select min(start_ns) as n from operations union all select min(start_ns) from calls
         union all select min(start_ns) from waits union all select min(time_ns) from samples)",
    )?;
    let middle = number(
        &[trace],
        "select start_ns as n from operations where kind = 'kernel' order by start_ns limit 1 offset 20",
    )?;
    let file = scratch.path().join("window.json");
    let window = format!("{}ns..", middle - first);
    export(&[trace], "kineto", &file, &["--window", &window])?;
    let expected = format!(
        "select count(*) as n from operations where kind <> 'other' and max(end_ns, start_ns + 1) > {middle}"
    );
    ensure!(
        number(&[&file], "select count(*) as n from operations")? == number(&[trace], &expected)?
    );
    let folder = scratch.path().join("only");
    export(&[trace], "csv", &folder, &["--only", "samples"])?;
    let names: Vec<String> = contents(&folder)?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    ensure!(names.contains(&"samples.csv".to_owned()), "{names:?}");
    for left_out in ["operations.csv", "calls.csv", "counters.csv"] {
        ensure!(!names.contains(&left_out.to_owned()), "{names:?}");
    }
    let text = fs::read_to_string(folder.join("samples.csv"))?;
    let samples = number(&[trace], "select count(*) as n from samples")?;
    ensure!(text.lines().count() as u64 == samples + 1, "{samples}");
    Ok(())
}

#[test]
fn mistakes_cost_nothing_that_is_there() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-mistakes")?;
    let trace = job()?[0].to_string_lossy().into_owned();
    let file = scratch.path().join("run.folded");
    fs::write(&file, "mine")?;
    let path = file.to_string_lossy().into_owned();
    let folder = scratch.path().join("folder");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("letter.txt"), "mine")?;
    let in_folder = folder.to_string_lossy().into_owned();
    for (words, code, expected) in [
        (vec!["--to", "folded", "-o", &path], 1, "already there"),
        (
            vec!["--to", "csv", "-o", &in_folder, "--force"],
            1,
            "was not written by export",
        ),
        (
            vec!["--to", "folded", "-o", "x", "--ranks", "7"],
            1,
            "other ranks than those: 0",
        ),
        (
            vec!["--to", "folded", "-o", "x", "--ranks", "b"],
            2,
            "not a rank",
        ),
        (
            vec!["--to", "folded", "-o", "x", "--window", "3s"],
            2,
            "not a time range",
        ),
        (vec!["--to", "tape", "-o", "x"], 2, "speedscope"),
        (vec!["--to", "folded"], 2, "--output"),
    ] {
        let mut command = Command::new(report()?);
        let done = command
            .current_dir(scratch.path())
            .arg("export")
            .arg(&trace)
            .args(&words)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(
            done.status.code() == Some(code) && said.contains(expected),
            "{words:?}: {said}"
        );
    }
    ensure!(fs::read_to_string(&file)? == "mine");
    let mut names = Vec::new();
    for entry in fs::read_dir(scratch.path())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    ensure!(names.contains(&"run.folded".to_owned()));
    ensure!(
        !names
            .iter()
            .any(|name| name.starts_with('.') || name == "x"),
        "{names:?}"
    );
    export(&[Path::new(&trace)], "folded", &file, &["--force"])?;
    ensure!(fs::read_to_string(&file)?.len() > 4);
    Ok(())
}

/// A program on a disk with little room: mounts one of so many bytes in a file system of its own, runs the rest of the line, lists what is there and shows the file `mine`.
const ON_SMALL_DISK: &str =
    "mount -t tmpfs -o size=\"$1\" none \"$2\" && echo old > \"$2/mine\" || exit 99
    disk=$2; shift 2; \"$@\"; code=$?; ls -A \"$disk\"; cat \"$disk/mine\"; exit $code";

/// Says so when a program cannot have a disk of its own, as in many containers.
fn missing_small_disk(apart: &str) -> Option<String> {
    let mount = "mount -t tmpfs -o size=16k none /mnt";
    let tried = Command::new("unshare")
        .args([apart, "sh", "-c", mount])
        .output();
    let works = tried.is_ok_and(|tried| tried.status.success());
    (!works).then(|| "no program may mount a disk of its own here".to_owned())
}

/// A size at which a file ends amid its rows: a database with few of them has its whole schema, and indexes come last.
fn amid_rows(scratch: &Scratch, traces: &[PathBuf], format: &str) -> Result<u64> {
    let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let size = |words: &[&str]| -> Result<u64> {
        let file = scratch.path().join("amid");
        export(&inputs, format, &file, words)?;
        Ok(fs::metadata(file)?.len())
    };
    let few = size(&["--force", "--only", "sensors"])?;
    Ok(few + (size(&["--force"])? - few) / 4)
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() -> TestResult {
    // No other program sees the disk, and it is gone with this one.
    let apart = if is_root() { "-m" } else { "-rm" };
    skip_if_missing!(missing_small_disk(apart));
    let scratch = Scratch::new("export-full-disk")?;
    let traces = training(&scratch)?;
    let disk = scratch.path().join("disk");
    fs::create_dir_all(&disk)?;
    // SQLite writes the schema of a database, and we its rows.
    let [of_rpd, of_rocpd] = ["rpd", "rocpd"].map(|one| amid_rows(&scratch, &traces, one));
    let (of_rpd, of_rocpd) = (of_rpd?, of_rocpd?);
    for (format, name, size, why) in [
        ("kineto", "new", 1 << 14, "No space left on device"),
        ("chrome", "mine", 1 << 14, "No space left on device"),
        ("rocprofv3-json", "mine", 1 << 14, "No space left on device"),
        ("firefox", "new", 1 << 14, "No space left on device"),
        ("rpd", "mine", 1 << 14, "database or disk is full"),
        ("rpd", "mine", of_rpd, "No space left on device"),
        ("rocpd", "new", 1 << 14, "database or disk is full"),
        ("rocpd", "new", of_rocpd, "No space left on device"),
        ("csv", "new", 1 << 14, "No space left on device"),
    ] {
        let output = disk.join(name);
        let done = Command::new("unshare")
            .args([apart, "sh", "-c", ON_SMALL_DISK, "sh"])
            .arg(size.to_string())
            .arg(&disk)
            .arg(report()?)
            .args(["export", "--no-cache", "--force", "--to", format, "-o"])
            .arg(&output)
            .args(&traces)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(
            done.status.code() == Some(1),
            "{format}: {}: {said}",
            done.status
        );
        let told = format!("cannot write {}: ", output.display());
        ensure!(
            said.contains(&told) && said.contains(why),
            "{format}: {said}"
        );
        ensure!(said.lines().count() == 1, "{format}: {said}");
        let left = String::from_utf8_lossy(&done.stdout);
        ensure!(left == "mine\nold\n", "{format}: {left}");
    }
    Ok(())
}

#[test]
fn a_limit_of_file_sizes_is_told_and_leaves_nothing() -> TestResult {
    let scratch = Scratch::new("export-file-limit")?;
    let traces = training(&scratch)?;
    for format in ["chrome", "rpd", "rocpd"] {
        // More than the file of tables has, which is written first.
        let blocks = amid_rows(&scratch, &traces, format)? / 512;
        let folder = scratch.path().join(format);
        fs::create_dir_all(&folder)?;
        let output = folder.join("new");
        let done = Command::new("sh")
            .args(["-c", "ulimit -f \"$1\"; shift; exec \"$@\"", "sh"])
            .arg(blocks.to_string())
            .arg(report()?)
            .args(["export", "--no-cache", "--to", format, "-o"])
            .arg(&output)
            .args(&traces)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.code() == Some(1), "{format}: {}", done.status);
        let told = format!("cannot write {}: File too large", output.display());
        ensure!(said.contains(&told), "{format}: {said}");
        let left = fs::read_dir(&folder)?.count();
        ensure!(left == 0, "{format}: {left} files are left");
    }
    Ok(())
}
