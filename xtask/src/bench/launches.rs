//! What launches of kernels cost behind the program: the sampler's writer, by itself, and Perfetto's engine with the trace.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::answers::trace_processor;
use super::engines::example;
use super::lab::Lab;
use super::numbers::minimum;
use super::process::{self, Finished, Terms};
use super::table::{Cell, Figures, Table};

const LIMIT: Duration = Duration::from_secs(1200);

/// What is written, as `sampler/examples/write_speed.rs` takes it; a number of launches stands where there is none.
const WRITTEN: [(&str, &[&str]); 4] = [
    ("launches with stacks", &["launches", "", "stacks"]),
    ("launches", &["launches", ""]),
    (
        "launches with stacks, not compressed",
        &["launches", "", "stacks", "plain"],
    ),
    ("samples of 8 threads", &["samples", "8", "300", "60"]),
];

/// What the writer takes for records that come as fast as it takes them.
pub fn writer(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (launches, repetitions) = if lab.quick {
        (100_000, 3)
    } else {
        (500_000, 5)
    };
    eprintln!("bench: writer");
    let mut table = Table::new(
        "The sampler's writer",
        &[
            "records",
            "CPU ns for each (min)",
            "s after the last (min)",
            "bytes for each",
            "peak MB",
        ],
    );
    for (name, words) in WRITTEN {
        let folder = lab.scratch.join("written");
        let (mut cpu_ns, mut end_s, mut said) = (Vec::new(), Vec::new(), None);
        for _ in 0..repetitions {
            let one = write(lab, &folder, words, launches)?;
            cpu_ns.push(one.cpu_ns);
            end_s.push(one.end_s);
            said = Some(one);
        }
        let bytes = fs::metadata(folder.join("trace-4711"))?.len() as f64;
        let last = said.context("nothing was measured")?;
        table.row(vec![
            name.into(),
            Cell::number(minimum(&cpu_ns), 0),
            Cell::number(minimum(&end_s), 3),
            Cell::number(Some(bytes / last.count), 1),
            Cell::number(Some(last.peak_mb), 0),
        ]);
        if let Some(cpu_ns) = minimum(&cpu_ns) {
            figures.insert(format!("writer/{name}/cpu_ns"), cpu_ns);
        }
    }
    table.note(format!(
        "{launches} launches, {repetitions} runs; CPU time of the sampler's threads, for each launch or sample"
    ));
    Ok(vec![table])
}

/// Rows of Perfetto's tables.
const ROWS: [(&str, &str); 4] = [
    ("slices", "select count(*) from slice"),
    ("arguments", "select count(*) from args"),
    ("flows", "select count(*) from flow"),
    ("samples", "select count(*) from perf_sample"),
];

/// What Perfetto's engine pays for a launch with its kernel.
pub fn viewer(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let launches = if lab.quick { 100_000 } else { 400_000 };
    let repetitions = if lab.quick { 2 } else { 3 };
    eprintln!("bench: viewer");
    let mut table = Table::new(
        "Perfetto's engine (WebAssembly, in Node): what a launch with its kernel takes",
        &[
            "--flows",
            "CPU us",
            "bytes",
            "slices",
            "arguments",
            "flows",
            "samples",
        ],
    );
    let folder = lab.scratch.join("viewed");
    for flows in ["both", "arrows", "numbers"] {
        let word = format!("flows={flows}");
        write(lab, &folder, &["launches", "1000", "stacks", &word], 0)?;
        let small = load(lab, &folder, repetitions)?;
        write(lab, &folder, &["launches", "", "stacks", &word], launches)?;
        let large = load(lab, &folder, repetitions)?;
        let for_each = |whole: f64, base: f64| (whole - base) / (launches - 1000) as f64;
        let cpu_us = for_each(large.cpu_s, small.cpu_s) * 1e6;
        let bytes = for_each(large.peak_bytes, small.peak_bytes);
        let mut cells = vec![
            flows.into(),
            Cell::number(Some(cpu_us), 1),
            Cell::number(Some(bytes), 0),
        ];
        for (whole, base) in large.rows.iter().zip(&small.rows) {
            cells.push(Cell::number(Some(for_each(*whole, *base)), 2));
        }
        table.row(cells);
        figures.insert(format!("viewer/{flows}/cpu_us"), cpu_us);
        figures.insert(format!("viewer/{flows}/bytes"), bytes);
    }
    table.note(format!(
        "{launches} launches with launch stacks, above what 1000 of them take; the least of {repetitions} runs"
    ));
    Ok(vec![table])
}

/// What the engine had when it had loaded a trace.
struct Loaded {
    cpu_s: f64,
    peak_bytes: f64,
    rows: Vec<f64>,
}

fn load(lab: &Lab, folder: &Path, repetitions: usize) -> Result<Loaded> {
    let questions = ROWS.map(|(_, sql)| sql);
    let (mut cpu_s, mut peak_bytes, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        let finished = run(lab, &mut trace_processor(lab, folder, &questions)?)?;
        cpu_s.push(finished.tree_cpu_s);
        peak_bytes.extend(finished.peak_rss_kb.map(|kb| kb as f64 * 1024.0));
        let numbers = finished.stdout.lines().filter_map(|line| {
            let (_, number) = line.split_once("[[")?;
            number.trim_end_matches("]]}").parse().ok()
        });
        rows = numbers.collect();
    }
    ensure!(rows.len() == ROWS.len(), "the engine did not answer");
    Ok(Loaded {
        cpu_s: minimum(&cpu_s).context("no time")?,
        peak_bytes: minimum(&peak_bytes).context("no memory")?,
        rows,
    })
}

fn run(lab: &Lab, command: &mut std::process::Command) -> Result<Finished> {
    let terms = Terms {
        limit: LIMIT,
        ..lab.terms(true)
    };
    let finished = process::run(command, terms)?;
    ensure!(finished.status.success(), "{}", finished.last_words());
    Ok(finished)
}

/// What `write_speed` says.
#[derive(Debug, PartialEq)]
struct Said {
    count: f64,
    end_s: f64,
    cpu_ns: f64,
    peak_mb: f64,
}

impl Said {
    /// `100 of launches: 1.700 s, after the last record 0.200 s; CPU 0.400 s, 900 ns for each; peak 40 MB; …`
    fn parse(line: &str) -> Option<Self> {
        let number = |before: &str, after: &str| {
            let (_, rest) = line.split_once(before)?;
            rest.split_once(after)?.0.trim().parse().ok()
        };
        let cpu = line.split_once("; CPU ")?.1.split_once(" s, ")?.1;
        Some(Self {
            count: line.split_once(" of ")?.0.parse().ok()?,
            end_s: number("after the last record ", " s")?,
            cpu_ns: cpu.split_once(" ns")?.0.parse().ok()?,
            peak_mb: number("peak ", " MB")?,
        })
    }
}

/// Writes the only trace of a folder.
fn write(lab: &Lab, folder: &Path, words: &[&str], launches: u64) -> Result<Said> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let (place, count) = (folder.to_string_lossy(), launches.to_string());
    let words = words
        .iter()
        .map(|word| if word.is_empty() { &count } else { *word });
    let words: Vec<&str> = std::iter::once(&*place).chain(words).collect();
    let said = example(lab, "rsys-sampler", "write_speed", &words)?;
    Said::parse(&said).with_context(|| format!("write_speed said {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_write_speed() {
        let line = "500 of launches: 6.705 s, after the last record 1.888 s; CPU 1.476 s, 2953 ns for each; peak 42 MB; Some(EventTally)";
        let said = Said {
            count: 500.0,
            end_s: 1.888,
            cpu_ns: 2953.0,
            peak_mb: 42.0,
        };
        assert_eq!(Said::parse(line), Some(said));
        assert_eq!(Said::parse("something else"), None);
    }
}
