//! How fast traces of many processes become one, and with how much memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::lab::{Lab, Wish};
use super::numbers::{median, ratio};
use super::table::{Cell, Figures, Table};
use super::tools::Tool;

/// The rate of the recording that is merged with copies of itself.
const RATE_HZ: u32 = 4000;

/// A way to make one file of many.
struct Way {
    name: &'static str,
    /// The command line in front of the inputs, with `{out}` for the output.
    command: &'static [&'static str],
}

const WAYS: [Way; 3] = [
    Way {
        name: "rsys-report",
        command: &[
            "rsys-report",
            "merge",
            "--force",
            "--compress=no",
            "-o",
            "{out}",
        ],
    },
    Way {
        name: "cat",
        command: &["sh", "-c", "cat \"$@\" > {out}", "sh"],
    },
    Way {
        name: "rsys-report, compressing",
        command: &[
            "rsys-report",
            "merge",
            "--force",
            "--compress=yes",
            "-o",
            "{out}",
        ],
    },
];

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    // Traces, and whether each is of another host.
    let (seconds, cases, repetitions): (f64, &[(usize, bool)], usize) = if lab.quick {
        (2.0, &[(8, false)], 2)
    } else {
        (4.0, &[(1, false), (8, false), (64, false), (64, true)], 5)
    };
    let mut table = Table::new(
        "Merge: megabytes of packets per second",
        &[
            "traces",
            "hosts",
            "way",
            "MB",
            "s (median)",
            "MB/s",
            "MB/CPU s",
            "x cat's time",
            "peak MB",
        ],
    );
    let units = lab.calibrate(seconds, 2e6, |units| Ok(lab.chain(30, 1, units)))?;
    let program = lab.chain(30, 8, 8.0 * units);
    let boot_id =
        fs::read_to_string("/proc/sys/kernel/random/boot_id").context("cannot read the boot id")?;
    let wish = Wish {
        rate_hz: RATE_HZ,
        options: &["--compress=false"],
        ..Wish::default()
    };
    lab.run(Tool::Rsys, &program, wish)?;
    let trace = largest(&lab.scratch.join("output"))?;
    let trace = fs::read(&trace).with_context(|| format!("cannot read {}", trace.display()))?;
    let folder = lab.scratch.join("merge");
    for &(count, many_hosts) in cases {
        let hosts = if many_hosts { count } else { 1 };
        eprintln!("bench: merge: {count} traces of {hosts} hosts");
        let inputs = folder.join("inputs");
        fs::create_dir_all(&inputs)?;
        for number in 0..count {
            let name = format!("{number}.proto");
            let mut copy = copy_of(&trace, boot_id.trim(), number)?;
            if many_hosts {
                change_boot(&mut copy, boot_id.trim(), number);
            }
            fs::write(inputs.join(&name), copy)?;
        }
        let megabytes = count as f64 * trace.len() as f64 / 1e6;
        let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
        let mut cpu_seconds: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
        let mut peaks = vec![None; WAYS.len()];
        for _ in 0..repetitions {
            for (place, way) in WAYS.iter().enumerate() {
                let finished = run(lab, way, &inputs, &folder.join("merged.pftrace"))?;
                seconds[place].push(finished.wall_s);
                cpu_seconds[place].push(finished.tree_cpu_s);
                peaks[place] = peaks[place].max(finished.peak_rss_kb);
            }
        }
        let cat = median(&seconds[1]);
        for (place, way) in WAYS.iter().enumerate() {
            let took = median(&seconds[place]);
            let speed = took.and_then(|took| ratio(megabytes, took));
            let per_cpu = median(&cpu_seconds[place]).and_then(|cpu| ratio(megabytes, cpu));
            let peak_mb = peaks[place].map(|kilobytes| kilobytes as f64 / 1024.0);
            table.row(vec![
                count.to_string().into(),
                hosts.to_string().into(),
                way.name.into(),
                Cell::number(Some(megabytes), 1),
                Cell::number(took, 3),
                Cell::number(speed, 0),
                Cell::number(per_cpu, 0),
                Cell::number(took.zip(cat).and_then(|(took, cat)| ratio(took, cat)), 2),
                Cell::number(peak_mb, 1),
            ]);
            for (figure, value) in [
                ("mb_per_s", speed),
                ("mb_per_cpu_s", per_cpu),
                ("peak_mb", peak_mb),
            ] {
                if let Some(value) = value {
                    let key = format!("merge/{count}/{hosts}/{}/{figure}", way.name);
                    figures.insert(key, value);
                }
            }
        }
        fs::remove_dir_all(&folder)?;
    }
    table.note("copies of one trace, of 8 threads at 4000 Hz, as other processes of the same host, or of a host each, would have left them; the files are in the page cache. Wall time counts what else the machine does, CPU time only in part");
    Ok(vec![table, super::ordinary::table(lab, figures)?])
}

fn largest(folder: &Path) -> Result<PathBuf> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "proto")
            {
                found.push((entry.metadata()?.len(), path));
            }
        }
    }
    let (_, path) = found
        .into_iter()
        .max()
        .context("the recording left no trace")?;
    Ok(path)
}

/// The trace as another process of the same machine would have left it: what differs is the name of the host, which stands behind the boot id.
fn copy_of(trace: &[u8], boot_id: &str, number: usize) -> Result<Vec<u8>> {
    const STRING_VALUE: u8 = 6 << 3 | 2;
    let boot = trace
        .windows(boot_id.len())
        .position(|window| window == boot_id.as_bytes())
        .context("the trace does not name the boot id")?;
    let behind = boot + boot_id.len();
    let key = trace[behind..]
        .iter()
        .position(|&byte| byte == STRING_VALUE)
        .context("the trace does not name the host")?;
    let start = behind + key + 2;
    let length = usize::from(trace[start - 1]);
    let mut copy = trace.to_vec();
    let mut rest = number;
    for place in copy[start..start + length].iter_mut().rev() {
        *place = b"0123456789abcdefghijklmnopqrstuvwxyz"[rest % 36];
        rest /= 36;
    }
    ensure!(
        rest == 0,
        "the host's name is too short for {number} copies"
    );
    Ok(copy)
}

/// Makes the trace one of another boot, of another host therefore.
fn change_boot(trace: &mut [u8], boot_id: &str, number: usize) {
    let other = format!("{number:08x}");
    let boot = boot_id.as_bytes();
    let mut at = 0;
    while let Some(found) = trace[at..]
        .windows(boot.len())
        .position(|window| window == boot)
    {
        trace[at + found..at + found + other.len()].copy_from_slice(other.as_bytes());
        at += found + boot.len();
    }
}

fn product(lab: &Lab) -> PathBuf {
    lab.places.rsys_sample.with_file_name("rsys-report")
}

fn run(lab: &Lab, way: &Way, inputs: &Path, output: &Path) -> Result<super::process::Finished> {
    let out = output.to_string_lossy();
    let words = way.command.iter().map(|word| word.replace("{out}", &out));
    let mut words = words.collect::<Vec<_>>().into_iter();
    let program = words.next().context("a way has a program")?;
    let mut command = match program.as_str() {
        "rsys-report" => Command::new(product(lab)),
        _ => Command::new(program),
    };
    command.args(words);
    for entry in fs::read_dir(inputs)?.flatten() {
        command.arg(entry.path());
    }
    let finished = super::process::run(&mut command, lab.terms(true))?;
    ensure!(
        finished.status.success(),
        "{}: {}",
        way.name,
        finished.last_words()
    );
    Ok(finished)
}
