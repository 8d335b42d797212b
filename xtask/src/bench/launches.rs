//! What launches of kernels cost behind the program: the sampler's writer, by itself, and Perfetto's engine with the trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

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
const ROWS: [(&str, &str); 5] = [
    ("slices", "select count(*) from slice"),
    ("arguments", "select count(*) from args"),
    ("flows", "select count(*) from flow"),
    ("samples", "select count(*) from perf_sample"),
    ("counters", "select count(*) from counter"),
];

/// What is viewed, as `write_speed` takes it; a number of launches or of seconds stands where there is none.
const VIEWED: [(&str, &[&str]); 6] = [
    ("dispatch, arrows", &["launches", "", "stacks"]),
    ("dispatch, both", &["launches", "", "stacks", "flows=both"]),
    (
        "dispatch, numbers",
        &["launches", "", "stacks", "flows=numbers"],
    ),
    ("dispatch without launch stacks", &["launches", ""]),
    (SAMPLE, &["samples", "8", "300", ""]),
    (SAMPLE_ALONE, &["samples", "8", "300", "", "still"]),
];
const SAMPLE: &str = "sample";
const SAMPLE_ALONE: &str = "sample in the same stack";
/// Of a second of `VIEWED`.
const SAMPLES: u64 = 8 * 300;

/// What Perfetto's engine pays for a launch with its kernel, and for a sample.
pub fn viewer(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (launches, seconds, repetitions) = if lab.quick {
        (100_000, 20, 2)
    } else {
        (400_000, 80, 3)
    };
    eprintln!("bench: viewer");
    let mut columns = vec!["for each", "CPU us", "bytes"];
    columns.extend(ROWS.map(|(name, _)| name));
    let mut table = Table::new(
        "Perfetto's engine (WebAssembly, in Node): what a launch with its kernel, and a sample takes",
        &columns,
    );
    let mut samples = Vec::new();
    for (name, words) in VIEWED {
        let is_launch = words[0] == "launches";
        let whole = if is_launch { launches } else { seconds };
        let [half, whole] = [
            Viewed::written(lab, words, whole / 2)?,
            Viewed::written(lab, words, whole)?,
        ];
        let [half_cost, whole_cost] = in_turns(lab, [&half, &whole], repetitions)?;
        let records = (if is_launch {
            launches
        } else {
            seconds * SAMPLES
        }) as f64
            / 2.0;
        let for_each = whole_cost.less(&half_cost, records);
        let mut cells = vec![
            name.into(),
            Cell::number(Some(for_each.cpu_s * 1e6), 1),
            Cell::number(Some(for_each.bytes), 0),
        ];
        let rows = for_each.rows.iter();
        cells.extend(rows.map(|rows| Cell::number(Some(*rows), 2)));
        table.row(cells);
        figures.insert(format!("viewer/{name}/cpu_us"), for_each.cpu_s * 1e6);
        figures.insert(format!("viewer/{name}/bytes"), for_each.bytes);
        if !is_launch {
            samples.push(for_each);
        }
    }
    if let [moving, still] = &samples[..] {
        let slices = moving.rows[0] - still.rows[0];
        let slice = moving.less(still, slices);
        let mut cells = vec![
            "slice of a sample".into(),
            Cell::number(Some(slice.cpu_s * 1e6), 1),
            Cell::number(Some(slice.bytes), 0),
        ];
        let rows = slice.rows.iter();
        cells.extend(rows.map(|rows| Cell::number(Some(*rows), 2)));
        table.row(cells);
        figures.insert("viewer/slice/cpu_us".to_owned(), slice.cpu_s * 1e6);
        figures.insert("viewer/slice/bytes".to_owned(), slice.bytes);
    }
    table.note(format!(
        "{launches} launches, {seconds} s of 8 threads at 300 Hz, above half of them; the least of {repetitions} runs, in turns. Bytes: memory of the \
         engine's own that it has touched. A slice: sample less sample in the same stack, for each slice"
    ));
    Ok(vec![table])
}

/// A folder with a trace.
struct Viewed(PathBuf);

impl Viewed {
    fn written(lab: &Lab, words: &[&str], count: u64) -> Result<Self> {
        let folder = lab.scratch.join(format!("viewed-{count}"));
        write(lab, &folder, words, count)?;
        Ok(Self(folder))
    }
}

/// The least that the engine took for two traces, by turns.
fn in_turns(lab: &Lab, viewed: [&Viewed; 2], repetitions: usize) -> Result<[Cost; 2]> {
    let mut least: [Option<Cost>; 2] = [None, None];
    for _ in 0..repetitions {
        for (least, viewed) in least.iter_mut().zip(viewed) {
            let cost = load(lab, &viewed.0)?;
            *least = Some(match least.take() {
                None => cost,
                Some(before) => Cost {
                    cpu_s: before.cpu_s.min(cost.cpu_s),
                    bytes: before.bytes.min(cost.bytes),
                    rows: cost.rows,
                },
            });
        }
    }
    let [Some(half), Some(whole)] = least else {
        bail!("nothing was measured");
    };
    Ok([half, whole])
}

/// What the engine has taken for a trace, or for a part of one.
struct Cost {
    cpu_s: f64,
    bytes: f64,
    rows: Vec<f64>,
}

impl Cost {
    /// What it took more than for another, for each of `count`.
    fn less(&self, other: &Cost, count: f64) -> Cost {
        let rows = self.rows.iter().zip(&other.rows);
        Cost {
            cpu_s: (self.cpu_s - other.cpu_s) / count,
            bytes: (self.bytes - other.bytes) / count,
            rows: rows.map(|(one, other)| (one - other) / count).collect(),
        }
    }
}

fn load(lab: &Lab, folder: &Path) -> Result<Cost> {
    let questions = ROWS.map(|(_, sql)| serde_json::json!({ "sql": sql }));
    let questions = [&questions[..], &[serde_json::json!({ "memory": true })]].concat();
    let finished = run(lab, &mut trace_processor(lab, folder, &questions)?)?;
    let said = finished.stdout.lines();
    let said = said.filter_map(|line| serde_json::from_str(line).ok());
    let said: Vec<serde_json::Value> = said.collect();
    let rows: Vec<f64> = said
        .iter()
        .filter_map(|said| said["rows"][0][0].as_f64())
        .collect();
    ensure!(rows.len() == ROWS.len(), "the engine did not answer");
    Ok(Cost {
        cpu_s: finished.tree_cpu_s,
        bytes: said
            .iter()
            .find_map(|said| said["memory"].as_f64())
            .context("no memory")?,
        rows,
    })
}

fn run(lab: &Lab, command: &mut std::process::Command) -> Result<Finished> {
    let terms = Terms {
        limit: LIMIT,
        ..lab.terms(false)
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
