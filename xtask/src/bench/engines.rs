//! The two inner loops on their own: walking a stack, and naming addresses. Each has an example program that measures it beside its
//! peer in one process; their words are passed on.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::install;
use super::lab::Lab;
use super::process::{self, Terms};
use super::table::{Cell, Figures, Table};

/// Building the examples takes a while.
const LIMIT: Duration = Duration::from_secs(1200);

/// Walks: our unwinder beside framehop.
pub fn walks(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    eprintln!("bench: walks");
    let said = example(lab, "rsys-unwind", "walk_speed", &[])?;
    let mut table = Table::new(
        "Walks: one stack, our unwinder beside framehop, without handler and guard",
        &["frames", "cache", "ours ns", "framehop ns", "x ours"],
    );
    for line in said.lines() {
        let Some(walk) = Walk::parse(line) else {
            continue;
        };
        table.row(vec![
            walk.frames.to_string().into(),
            walk.cache.clone().into(),
            Cell::number(Some(walk.ours_ns), 0),
            Cell::number(Some(walk.framehop_ns), 0),
            Cell::number(Some(walk.framehop_ns / walk.ours_ns), 2),
        ]);
        let key = format!("walks/{}/{}", walk.frames, walk.cache);
        figures.insert(format!("{key}/frames"), f64::from(walk.frames));
        figures.insert(format!("{key}/ours_ns"), walk.ours_ns);
        figures.insert(format!("{key}/framehop_ns"), walk.framehop_ns);
    }
    if table.rows.is_empty() {
        bail!("walk_speed printed no figures: {said}");
    }
    table.note("warm: the rules of all frames are cached (p50 and p99: walks timed one by one); cold: an empty cache; no cache: the tables are read for every frame");
    Ok(vec![table])
}

#[derive(Debug, PartialEq)]
struct Walk {
    frames: u32,
    cache: String,
    ours_ns: f64,
    framehop_ns: f64,
}

impl Walk {
    /// `  12 frames  warm      cfi      180 ns ( 15.0/frame)   framehop      300 ns …`
    fn parse(line: &str) -> Option<Self> {
        let (frames, rest) = line.split_once(" frames ")?;
        let (cache, rest) = rest.split_once(" cfi ")?;
        let (ours, rest) = rest.split_once(" ns ")?;
        let (_, rest) = rest.split_once(" framehop ")?;
        let (framehop, _) = rest.split_once(" ns ")?;
        Some(Self {
            frames: frames.trim().parse().ok()?,
            cache: cache.trim().to_owned(),
            ours_ns: ours.trim().parse().ok()?,
            framehop_ns: framehop.trim().parse().ok()?,
        })
    }
}

/// Python frames: what they add to a walk, in the interpreters that come as a library.
pub fn python_frames(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    const FIND: &str = "import sysconfig as s\n\
        print(s.get_config_var('LIBDIR') + '/' + (s.get_config_var('INSTSONAME') or '-'))";
    eprintln!("bench: Python frames");
    let mut command = Command::new(install::python().context("python3 is not there")?);
    command.args(["-c", FIND]);
    let library = process::run(&mut command, lab.terms(false))?.stdout;
    let said = example(lab, "rsys-python", "frames_speed", &[library.trim()])?;
    let mut table = Table::new(
        &format!("Python frames: {}", library.trim()),
        &["frames", "ns", "ns per frame"],
    );
    for line in said.lines() {
        let Some((frames, ns)) = python_walk(line) else {
            continue;
        };
        table.row(vec![
            frames.to_string().into(),
            Cell::number(Some(ns), 0),
            Cell::number(Some(ns / frames), 1),
        ]);
        figures.insert(format!("python/{frames}/ns"), ns);
    }
    if table.rows.is_empty() {
        bail!("frames_speed printed no figures: {said}");
    }
    table.note("thread state and frames, all code objects known to the sampler; loads as the handler makes them");
    Ok(vec![table])
}

/// `  20 frames  python    180 ns`
fn python_walk(line: &str) -> Option<(f64, f64)> {
    let (frames, rest) = line.split_once(" frames  python ")?;
    let (ns, _) = rest.split_once(" ns")?;
    Some((frames.trim().parse().ok()?, ns.trim().parse().ok()?))
}

/// Names: addresses of a large library, beside addr2line.
pub fn names(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    eprintln!("bench: names");
    let library = large_library(lab)?;
    let file_name = library
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let path = library.to_string_lossy().into_owned();
    let said = example(lab, "rsys-sampler", "resolve_speed", &[&path])?;
    let mut table = Table::new(
        &format!("Names: 10 000 addresses of {file_name}"),
        &["resolver", "s", "peak RSS MB"],
    );
    for line in said.lines() {
        let Some((name, rest)) = line.trim().split_once(':') else {
            continue;
        };
        let Some(seconds) = rest.split(',').next().and_then(|text| seconds(text.trim())) else {
            continue;
        };
        let peak_mb = rest
            .split_whitespace()
            .zip(rest.split_whitespace().skip(1))
            .find(|(_, unit)| unit.trim_end_matches(',') == "MB")
            .and_then(|(value, _)| value.parse().ok());
        table.row(vec![
            name.into(),
            Cell::number(Some(seconds), 3),
            Cell::number(peak_mb, 0),
        ]);
        figures.insert(format!("names/{name}/seconds"), seconds);
        if let Some(peak_mb) = peak_mb {
            figures.insert(format!("names/{name}/peak_mb"), peak_mb);
        }
    }
    if table.rows.is_empty() {
        bail!("resolve_speed printed no figures: {said}");
    }
    table.note("second run: with the symbol cache that the first one wrote");
    Ok(vec![table])
}

/// Reads a time as Rust prints it: `1.5s`, `20.1ms`, `7µs`.
fn seconds(text: &str) -> Option<f64> {
    let split = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
    let (value, unit) = text.split_at(split);
    let scale = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(value.parse::<f64>().ok()? * scale)
}

/// libtorch where it is, else the interpreter, else whatever compiled this.
fn large_library(lab: &Lab) -> Result<PathBuf> {
    const FIND: &str = "import torch\n\
        paths = {line.split()[-1] for line in open('/proc/self/maps') if 'libtorch_cpu' in line}\n\
        print(sorted(paths)[0])";
    let python = install::python().context("python3 is not there")?;
    let mut command = Command::new(&python);
    command.args(["-c", FIND]);
    let finished = process::run(&mut command, lab.terms(false))?;
    let path = PathBuf::from(finished.stdout.trim());
    if finished.status.success() && path.is_file() {
        return Ok(path);
    }
    python
        .canonicalize()
        .with_context(|| format!("{} leads nowhere", python.display()))
}

pub(super) fn example(lab: &Lab, package: &str, name: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(&lab.root)
        .args([
            "run",
            "--release",
            "-q",
            "-p",
            package,
            "--example",
            name,
            "--",
        ])
        .args(arguments);
    let terms = Terms {
        limit: LIMIT,
        ..lab.terms(false)
    };
    let finished = process::run(&mut command, terms)?;
    if !finished.status.success() {
        bail!("example {name}: {}", finished.last_words());
    }
    Ok(finished.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_walk_speed() {
        let line = "  12 frames  no cache  cfi     2700 ns (225.0/frame)   framehop     2600 ns (216.7/frame)   ratio 0.96";
        let walk = Walk {
            frames: 12,
            cache: "no cache".to_owned(),
            ours_ns: 2700.0,
            framehop_ns: 2600.0,
        };
        assert_eq!(Walk::parse(line), Some(walk));
        assert_eq!(Walk::parse("something else"), None);
    }

    #[test]
    fn a_line_of_frames_speed() {
        assert_eq!(
            python_walk("  20 frames  python    180 ns"),
            Some((20.0, 180.0))
        );
        assert_eq!(python_walk("libpython3.11.so: 30b02f0"), None);
    }

    #[test]
    fn times_as_rust_prints_them() {
        assert_eq!(seconds("1.5s"), Some(1.5));
        assert_eq!(seconds("20.0ms"), Some(0.02));
        assert_eq!(seconds("fast"), None);
    }
}
