//! `rsys-report overlap --parts` and `collectives --parts`: jobs that are analysed in parts, and what others read of these; and what the page shows of iterations.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rsys_synthetic::{Cause, Fault, HostClock, Job};
use rsys_tests::{Scratch, TestResult, judge_dir, report, skip_if_missing, workspace_dir};
use serde_json::Value;

/// Runs `rsys-report overlap`, successfully.
fn overlap(arguments: &[&str], traces: &Path) -> Result<Output> {
    ask("overlap", arguments, traces)
}

/// Asks `rsys-report`, successfully.
fn ask(question: &str, arguments: &[&str], traces: &Path) -> Result<Output> {
    let output = Command::new(report()?)
        .arg(question)
        .arg(traces)
        .args(arguments)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {said}");
    Ok(output)
}

/// The files of a folder that end so, in order.
fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let entries: Result<Vec<PathBuf>> = entries.collect();
    let mut files = entries?;
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files.sort();
    Ok(files)
}

/// A job in a folder, and its parts in another.
struct Parts {
    scratch: Scratch,
    traces: PathBuf,
    parts: PathBuf,
}

impl Parts {
    fn new(job: &Job) -> Result<Self> {
        let scratch = Scratch::new("parts")?;
        let (traces, parts) = (scratch.path().join("job"), scratch.path().join("parts"));
        rsys_synthetic::write(job, &traces)?;
        Ok(Self {
            scratch,
            traces,
            parts,
        })
    }

    fn overlap(&self, arguments: &[&str]) -> Result<Output> {
        self.ask("overlap", arguments)
    }

    fn collectives(&self, arguments: &[&str]) -> Result<Output> {
        self.ask("collectives", arguments)
    }

    fn ask(&self, question: &str, arguments: &[&str]) -> Result<Output> {
        let parts = self.parts.to_str().context("a path")?;
        let arguments = [&["--parts", parts], arguments].concat();
        ask(question, &arguments, &self.traces)
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        files(&self.parts, ".iterations.parquet")
    }
}

fn job() -> Job {
    Job {
        ranks: 6,
        iterations: 12,
        ..Job::default()
    }
}

#[test]
fn parts_give_the_same_answer_and_only_what_is_missing_is_made() -> TestResult {
    let job = Parts::new(&job())?;
    let whole = overlap(&["--json"], &job.traces)?.stdout;
    for share in ["0/4", "1/4", "2/4", "3/4"] {
        let said = job.overlap(&["--share", share])?;
        ensure!(String::from_utf8(said.stdout)?.contains(" part"));
    }
    let made = job.files()?;
    ensure!(made.len() == 6, "{made:?}");
    let changed = |path: &PathBuf| Ok(fs::metadata(path)?.modified()?);
    let times: Result<Vec<_>> = made.iter().map(changed).collect();
    ensure!(job.overlap(&["--json"])?.stdout == whole);
    // What is gone, cut off or of another question is made again, the others stay.
    fs::remove_file(&made[0])?;
    fs::write(&made[1], &fs::read(&made[1])?[..500])?;
    ensure!(job.overlap(&["--json"])?.stdout == whole);
    let again: Result<Vec<_>> = job.files()?.iter().map(changed).collect();
    ensure!(times?[2..] == again?[2..], "parts were made again");
    let calls = job
        .overlap(&["--json", "--marker", "ncclAllReduce"])?
        .stdout;
    ensure!(calls != whole);
    ensure!(job.overlap(&["--json"])?.stdout == whole);
    Ok(())
}

/// A job on three hosts, whose clocks are wrong, with communicators of some ranks and one that is late.
fn late_job() -> Job {
    let clock = |wall_error_ns| HostClock {
        wall_error_ns,
        drift_ppb: 0,
    };
    Job {
        ranks: 6,
        ranks_per_host: 2,
        iterations: 30,
        group: 2,
        clocks: vec![clock(0), clock(1_000_000), clock(-300_000)],
        faults: vec![Fault {
            rank: 4,
            cause: Cause::SlowLoader,
            amount_ns: 5_000_000,
            every: 1,
        }],
        missing: vec![1],
        ..Job::default()
    }
}

#[test]
fn collectives_of_parts_are_those_of_the_traces() -> TestResult {
    let job = Parts::new(&late_job())?;
    let whole = ask("collectives", &["--json"], &job.traces)?.stdout;
    let answer: Value = serde_json::from_slice(&whole)?;
    ensure!(
        answer["stragglers"][0]["cause"] == "host_code",
        "{answer:#}"
    );
    for share in ["0/2", "1/2"] {
        let said = job.collectives(&["--share", share])?;
        ensure!(String::from_utf8(said.stdout)?.contains(" part"));
    }
    let made = files(&job.parts, ".collectives.parquet")?;
    ensure!(made.len() == 5, "{made:?}");
    let changed = |path: &PathBuf| Ok(fs::metadata(path)?.modified()?);
    let times: Result<Vec<_>> = made.iter().map(changed).collect();
    ensure!(job.collectives(&["--json"])?.stdout == whole);
    fs::remove_file(&made[0])?;
    fs::write(&made[1], &fs::read(&made[1])?[..700])?;
    ensure!(job.collectives(&["--json", "--jobs", "1"])?.stdout == whole);
    let again: Result<Vec<_>> = made.iter().map(changed).collect();
    ensure!(times?[2..] == again?[2..], "parts were made again");
    Ok(())
}

#[test]
fn a_large_part_has_rounded_times_and_says_so() -> TestResult {
    let job = Parts::new(&Job {
        ranks: 3,
        iterations: 1_000,
        buckets: 20,
        ..late_job()
    })?;
    let exact: Value =
        serde_json::from_slice(&ask("collectives", &["--json"], &job.traces)?.stdout)?;
    let rounded: Value = serde_json::from_slice(&job.collectives(&["--json"])?.stdout)?;
    for part in files(&job.parts, ".collectives.parquet")? {
        let bytes = fs::metadata(&part)?.len();
        ensure!(bytes <= 64_000, "{}: {bytes} bytes", part.display());
    }
    let notes = |answer: &Value| answer["notes"].to_string().contains("are rounded to");
    ensure!(notes(&rounded) && !notes(&exact), "{rounded:#}");
    for key in ["communicators", "what_if"] {
        let count = |answer: &Value| answer[key].as_array().map(Vec::len);
        ensure!(count(&exact) == count(&rounded), "{key}");
    }
    // Each of so many operations is off by less than two microseconds.
    let late = |answer: &Value| {
        let rows = answer["ranks"].as_array().into_iter().flatten();
        let late = rows.map(|row| {
            (
                row["rank"].to_string(),
                row["late_ns"].as_u64().unwrap_or(0),
            )
        });
        late.collect::<BTreeMap<_, _>>()
    };
    let (exact, rounded) = (late(&exact), late(&rounded));
    ensure!(exact.keys().eq(rounded.keys()), "{rounded:?}");
    for (rank, late_ns) in &exact {
        ensure!(
            late_ns.abs_diff(rounded[rank]) < 20_000 * 2_000,
            "{rank}: {exact:?} {rounded:?}"
        );
    }
    Ok(())
}

#[test]
fn an_answer_that_was_kept_is_taken() -> TestResult {
    const QUESTIONS: [&str; 2] = ["collectives", "overlap"];
    let job = Parts::new(&Job {
        ranks: 2,
        iterations: 1_000,
        ..Job::default()
    })?;
    let answer = |question: &str, cache: &str| -> Result<Vec<u8>> {
        Ok(ask(question, &["--json", cache], &job.traces)?.stdout)
    };
    let first: Result<Vec<_>> = QUESTIONS
        .map(|one| answer(one, "--cache"))
        .into_iter()
        .collect();
    // In the middle nothing looks that only wants to know whether the file is the same.
    let trace = files(&job.traces, ".proto")?.remove(0);
    let (mut bytes, changed) = (fs::read(&trace)?, fs::metadata(&trace)?.modified()?);
    let middle = bytes.len() / 2;
    ensure!(middle > 200_000, "only {} bytes", bytes.len());
    bytes[middle - 50_000..middle + 50_000].fill(0xff);
    fs::write(&trace, bytes)?;
    fs::File::options()
        .write(true)
        .open(&trace)?
        .set_modified(changed)?;
    for (question, first) in QUESTIONS.into_iter().zip(first?) {
        ensure!(
            answer(question, "--cache")? == first,
            "{question} was read again"
        );
        ensure!(
            answer(question, "--no-cache")? != first,
            "{question} was not read again"
        );
    }
    Ok(())
}

#[test]
fn the_batch_script_makes_parts_on_all_tasks_and_one_answer() -> TestResult {
    let job = Parts::new(&job())?;
    // Slurm's launcher, of three tasks.
    let bin = job.scratch.path().join("bin");
    fs::create_dir(&bin)?;
    let launcher = "#!/bin/bash\nfor task in 0 1 2; do SLURM_PROCID=$task SLURM_NTASKS=3 \"$@\" || exit 1; done\n";
    let srun = bin.join("srun");
    fs::write(&srun, launcher)?;
    ensure!(
        Command::new("chmod")
            .arg("+x")
            .arg(&srun)
            .status()?
            .success()
    );
    let program = report()?;
    let folder = program.parent().context("a folder")?;
    let path = std::env::var("PATH")?;
    let output = Command::new("bash")
        .arg(workspace_dir().join("slurm/report.sh"))
        .arg(&job.traces)
        .args(["--marker", "step"])
        .env(
            "PATH",
            format!("{}:{}:{path}", bin.display(), folder.display()),
        )
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let answer = fs::read(job.traces.join("overlap.txt"))?;
    ensure!(
        output
            .stdout
            .ends_with(&fs::read(job.traces.join("collectives.txt"))?)
    );
    ensure!(
        String::from_utf8(output.stdout)?
            .matches(": 2 parts")
            .count()
            == 6
    );
    ensure!(answer == overlap(&["--marker", "step"], &job.traces)?.stdout);
    let answer = fs::read(job.traces.join("collectives.txt"))?;
    ensure!(answer == ask("collectives", &[], &job.traces)?.stdout);
    Ok(())
}

/// Why tables cannot be read by others.
fn missing_readers() -> Option<String> {
    let folder = judge_dir().join("tables");
    (!folder.is_dir())
        .then(|| "DuckDB and Polars are not there: `cargo xtask test` fetches them".to_owned())
}

#[test]
fn duckdb_and_polars_read_parts_as_they_are() -> TestResult {
    skip_if_missing!(missing_readers());
    let job = Parts::new(&job())?;
    let answer: Value = serde_json::from_slice(&job.overlap(&["--json"])?.stdout)?;
    let rows = answer["iterations"].as_array().context("iterations")?;
    let own = rows.iter().filter(|row| row["verdict"] != "outside");
    let sum = |key: &str| own.clone().filter_map(|row| row[key].as_u64()).sum::<u64>();
    let expected = [
        "duration_ns",
        "computation_ns",
        "exposed_comm_ns",
        "idle_host_ns",
    ]
    .map(sum);
    let program = "
import sys, duckdb, polars
files, keys = sys.argv[1], ['duration_ns', 'computation_ns', 'exposed_comm_ns', 'idle_host_ns']
sums = ', '.join(f'sum({key})' for key in keys)
print(*duckdb.sql(f\"select count(*), count(distinct rank), count(power_w), avg(clock_mhz)::int, {sums} from '{files}'\").fetchall()[0])
table = polars.read_parquet(files)
print(len(table), table['rank'].n_unique(), table['power_w'].count(), round(table['clock_mhz'].mean()), *(table[key].sum() for key in keys))
print(sorted(set(table['host'])), duckdb.sql(f\"select distinct host from '{files}' order by 1\").fetchall())
";
    let output = Command::new("python3")
        .args(["-c", program])
        .arg(job.parts.join("*.parquet"))
        .env("PYTHONPATH", judge_dir().join("tables"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let [duration, computation, exposed, idle] = expected;
    let line = format!("72 6 0 2100 {duration} {computation} {exposed} {idle}\n");
    let hosts = "['node00', 'node01'] [('node00',), ('node01',)]\n";
    let read = String::from_utf8(output.stdout)?;
    ensure!(read == format!("{line}{line}{hosts}"), "{read}{line}");
    Ok(())
}

#[test]
fn others_read_the_parts_of_collectives() -> TestResult {
    skip_if_missing!(missing_readers());
    let job = Parts::new(&late_job())?;
    let answer: Value = serde_json::from_slice(&job.collectives(&["--json"])?.stdout)?;
    let operations = answer["ranks"].as_array().into_iter().flatten();
    let operations = operations.filter_map(|row| row["operations"].as_u64());
    let operations: u64 = operations.sum();
    let bytes: u64 = answer["operations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["message_bytes"].as_u64())
        .max()
        .context("bytes")?;
    let program = "
import sys, duckdb, polars
files = sys.argv[1]
print(*duckdb.sql(f\"select count(*), max(message_bytes), count(peer), sum(duration_ticks * tick_ns), max(start_ticks * tick_ns) from '{files}'\").fetchall()[0])
table = polars.read_parquet(files)
print(len(table), table['message_bytes'].max(), table['peer'].count(), (table['duration_ticks'] * table['tick_ns']).sum(), (table['start_ticks'] * table['tick_ns']).max())
print(sorted(set(table['timing'])), sorted(set(table['operation'])), duckdb.sql(f\"select distinct timing, operation from '{files}' order by all\").fetchall())
";
    let output = Command::new("python3")
        .args(["-c", program])
        .arg(job.parts.join("*.collectives.parquet"))
        .env("PYTHONPATH", judge_dir().join("tables"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let read = String::from_utf8(output.stdout)?;
    let lines: Vec<&str> = read.lines().collect();
    ensure!(lines.len() == 3 && lines[0] == lines[1], "{read}");
    ensure!(
        lines[0].starts_with(&format!("{operations} {bytes} 0 ")),
        "{read} {operations} {bytes}"
    );
    let operations = "['kernel'] ['ncclAllGather', 'ncclAllReduce'] [('kernel', 'ncclAllGather'), ('kernel', 'ncclAllReduce')]";
    ensure!(lines[2] == operations, "{read}");
    Ok(())
}

/// With a Python that has pyspark, which `RSYS_SPARK_PYTHON` names, and a JRE: half a minute, most of it Spark's start.
#[test]
#[ignore = "needs pyspark and a JRE"]
fn spark_reads_parts_as_they_are() -> TestResult {
    let job = Parts::new(&late_job())?;
    let answer: Value = serde_json::from_slice(&job.overlap(&["--json"])?.stdout)?;
    job.collectives(&["--share", "0/1"])?;
    let rows = answer["iterations"].as_array().context("iterations")?;
    let own = rows.iter().filter(|row| row["verdict"] != "outside");
    let sum = |key: &str| own.clone().filter_map(|row| row[key].as_u64()).sum::<u64>();
    let (duration, exposed) = (sum("duration_ns"), sum("exposed_comm_ns"));
    let program = "
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false').getOrCreate()
folder = sys.argv[1]
print(*spark.sql(f'select count(distinct rank), sum(duration_ns), sum(exposed_comm_ns), count(power_w) from parquet.`{folder}/*.iterations.parquet`').collect()[0])
print(*spark.sql(f'select count(*), count(distinct rank), count(peer), sum(duration_ticks * tick_ns) from parquet.`{folder}/*.collectives.parquet`').collect()[0])
";
    let python = std::env::var("RSYS_SPARK_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python)
        .args(["-c", program])
        .arg(&job.parts)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    // Nothing of these jobs hides communication: it is all of the time of collectives.
    let read = String::from_utf8(output.stdout)?;
    let expected = format!("5 {duration} {exposed} 0\n600 5 0 {exposed}\n");
    ensure!(read == expected, "{read}{expected}");
    Ok(())
}

#[test]
fn a_part_is_small_and_copies_of_a_job_cost_as_much_each() -> TestResult {
    let job = Parts::new(&Job {
        ranks: 2,
        iterations: 1_000,
        ..Job::default()
    })?;
    let first: Value = serde_json::from_slice(&job.overlap(&["--json"])?.stdout)?;
    for part in job.files()? {
        let bytes = fs::metadata(&part)?.len();
        ensure!(bytes <= 64_000, "{}: {bytes} bytes", part.display());
    }
    // Each copy of a job has parts of its own, which are those of the first one.
    let copies = job.scratch.path().join("copies");
    for number in 0..3 {
        let folder = copies.join(number.to_string());
        fs::create_dir_all(&folder)?;
        for trace in files(&job.traces, ".proto")? {
            fs::copy(&trace, folder.join(trace.file_name().context("a name")?))?;
        }
    }
    let all: Value = serde_json::from_slice(&overlap(&["--json"], &copies)?.stdout)?;
    let ranks = |answer: &Value| {
        answer["overlap_ranks"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let (one, three) = (ranks(&first), ranks(&all));
    ensure!(three.len() == 3 * one.len());
    for rank in &three {
        let same = one.iter().find(|other| other["rank"] == rank["rank"]);
        let same = same.context("the rank")?;
        for key in [
            "mean_ns",
            "computation_ns",
            "exposed_comm_ns",
            "idle_ns",
            "gpu_idle_ns",
        ] {
            ensure!(same[key] == rank[key], "{key}: {rank}");
        }
    }
    Ok(())
}

#[test]
fn the_page_of_a_job_has_its_iterations() -> TestResult {
    let job = Parts::new(&job())?;
    let page = job.scratch.path().join("page.html");
    let output = Command::new(report()?)
        .arg("html")
        .arg(&job.traces)
        .arg("-o")
        .arg(&page)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let page = fs::read_to_string(page)?;
    let (_, data) = page.split_once("id=\"data\">").context("data")?;
    let (data, _) = data.split_once("</script>").context("its end")?;
    let data: Value = serde_json::from_str(data)?;
    let parts = data["parts"].as_array().context("parts")?;
    let overlap = parts.iter().find(|part| part["name"] == "overlap");
    let tables = overlap.and_then(|part| part["tables"].as_array());
    let tables = tables.context("iterations")?;
    let map = tables.iter().find(|table| table["key"] == "iteration_map");
    let rows = map
        .and_then(|map| map["rows"].as_array())
        .context("a map")?;
    ensure!(rows.len() == 6, "{rows:?}");
    for row in rows {
        // Behind the cells of a rank: its iterations.
        let places = row[3][0]["rows"].as_array().context("places")?;
        ensure!(places.len() == 12, "{row}");
    }
    Ok(())
}
