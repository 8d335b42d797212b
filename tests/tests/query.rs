//! `rsys-report query`: tables that hold what the trace holds, SQL that can do nothing but read them, and answers that are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{
    Outcome, Run, Scratch, TestResult, report, skip_if_missing, workload, workspace_dir,
};
use serde_json::Value;

const STACK: Stack = Stack::Debian12;

/// Runs `rsys-report` with a cache folder of its own.
fn ask(words: &[&str], input: &Path, cache: &Path) -> Result<Output> {
    let mut command = Command::new(report()?);
    let (question, rest) = words.split_first().context("a question")?;
    command.arg(question).arg(input).args(rest);
    command.env("XDG_CACHE_HOME", cache);
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!said.contains("panicked"), "{said}");
    Ok(output)
}

/// The rows of a query.
fn rows(input: &Path, sql: &str) -> Result<Vec<Value>> {
    let output = ask(&["query", sql, "--json", "--no-cache"], input, input)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{sql}: {said}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    answer["rows"].as_array().cloned().context("rows")
}

/// A program on two simulated GPUs.
fn gpu_run(options: &[&str]) -> Result<Outcome> {
    let machine = Machine::new(STACK)?.gpus(2);
    let program = hip_program(STACK, "hip_ops")?.args(["work", "500", "20"]);
    let run = Run::new().options(["-I", "rocm"]).options(options.to_vec());
    let outcome = run.command(machine.run(program)).run()?;
    outcome.expect_success();
    Ok(outcome)
}

fn number(value: &Value) -> Result<i64> {
    value.as_i64().with_context(|| format!("{value}"))
}

#[test]
fn tables_hold_what_the_trace_holds() -> TestResult {
    skip_if_missing!(STACK.missing());
    let outcome = gpu_run(&[])?;
    let trace = outcome.trace_of("hip_ops")?;
    let expected = trace.query(
        "select name, category, count(*) as count, sum(dur) as ns, min(ts) as first from slice
         where category in ('kernel', 'copy', 'fill') group by name, category order by category, name",
    )?;
    let found = rows(
        trace.path(),
        "select name, kind, count(*) as count, sum(duration_ns) as ns, min(start_ns) as first
         from operations where kind <> 'other' group by name, kind order by kind, name",
    )?;
    ensure!(
        found.len() == expected.len() && !found.is_empty(),
        "{found:?}"
    );
    for (found, expected) in found.iter().zip(expected.iter()) {
        ensure!(found["name"] == expected.text("name")?, "{found}");
        for key in ["count", "ns", "first"] {
            ensure!(
                number(&found[key])? == expected.int(key)?,
                "{key} of {found}"
            );
        }
    }
    let calls = trace
        .query("select count(*) as count, sum(dur) as ns from slice where category = 'hip'")?;
    let found = rows(
        trace.path(),
        "select count(*) as count, sum(duration_ns) as ns from calls where runtime = 'HIP'",
    )?;
    let expected = calls.iter().next().context("calls")?;
    for key in ["count", "ns"] {
        ensure!(
            number(&found[0][key])? == expected.int(key)?,
            "{key} of {found:?}"
        );
    }
    // What comes apart from its record in the trace is joined: the call of each kernel, and where it was launched.
    let launched = rows(
        trace.path(),
        "select count(*) as count, count(o.call) as calls, count(o.stack_id) as stacks, count(o.device) as devices,
                sum(case when o.delay_ns >= 0 then 1 else 0 end) as delays, min(o.place) as place, min(o.name) as name
         from operations o where kind = 'kernel' and name not like '\\_\\_amd%'",
    )?;
    let kernels = number(&launched[0]["count"])?;
    ensure!(kernels >= 100, "{launched:?}");
    for key in ["calls", "stacks", "devices", "delays"] {
        ensure!(
            number(&launched[0][key])? == kernels,
            "{key} of {launched:?}"
        );
    }
    let same = rows(
        trace.path(),
        "select count(*) as count from operations o join calls c
           on c.process_id = o.process_id and c.correlation = o.correlation
              and c.start_ns = o.call_start_ns and c.name = o.call and c.thread_id = o.thread_id",
    )?;
    let all = rows(trace.path(), "select count(call) as count from operations")?;
    ensure!(same == all, "{same:?}, {all:?}");
    Ok(())
}

#[test]
fn samples_are_those_of_the_functions() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .command(workload("rate").args(["--threads", "2"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    let found = rows(
        trace.path(),
        "select function, sum(weight) as ns, count(*) as samples, min(frames) as frames
         from samples join stacks using (stack_id, function) where basis = 'cpu' group by function order by ns desc",
    )?;
    let answer = rsys_tests::answer("functions", &[trace.path().to_path_buf()])?;
    for row in answer["functions"]
        .as_array()
        .context("functions")?
        .iter()
        .take(3)
    {
        if row["self_ns"] == 0 || row["function"] == "[no stack]" {
            continue;
        }
        let same = found
            .iter()
            .find(|found| found["function"] == row["function"]);
        let same = same.with_context(|| format!("{row} is not in {found:?}"))?;
        ensure!(
            same["ns"] == row["self_ns"] && same["samples"] == row["samples"],
            "{same} {row}"
        );
        let frames = same["frames"].as_str().context("frames")?;
        ensure!(
            frames.ends_with(row["function"].as_str().unwrap_or("?")),
            "{frames}"
        );
    }
    Ok(())
}

/// The queries of the documentation.
fn documented() -> Result<Vec<String>> {
    let text = fs::read_to_string(workspace_dir().join("docs/query.md"))?;
    let blocks = text.split("```sql\n").skip(1);
    Ok(blocks
        .filter_map(|block| Some(block.split_once("```")?.0.to_owned()))
        .collect())
}

#[test]
fn documented_queries_and_tables_are_there() -> TestResult {
    skip_if_missing!(STACK.missing());
    let outcome = gpu_run(&["--process-monitor", "--freq", "1000"])?;
    let trace = outcome.trace_of("hip_ops")?;
    let queries = documented()?;
    ensure!(queries.len() >= 10, "{queries:?}");
    for sql in &queries {
        let found = rows(trace.path(), sql)?;
        ensure!(!found.is_empty(), "no rows: {sql}");
    }
    let tables = Command::new(report()?)
        .args(["query", "--tables", "--json"])
        .output()?;
    let tables: Value = serde_json::from_slice(&tables.stdout)?;
    let text = fs::read_to_string(workspace_dir().join("docs/query.md"))?;
    for table in tables["tables"].as_array().context("tables")? {
        let name = table["name"].as_str().context("name")?;
        let section = text.split(&format!("### {name}\n")).nth(1);
        let section = section.with_context(|| format!("{name} is not in docs/query.md"))?;
        let section = section.split("\n### ").next().unwrap_or("");
        for column in table["columns"].as_array().context("columns")? {
            let (column, about) = (&column["name"], &column["about"]);
            let (Some(column), Some(about)) = (column.as_str(), about.as_str()) else {
                anyhow::bail!("{table}");
            };
            let row = section
                .lines()
                .find(|line| line.starts_with(&format!("| `{column}` |")));
            ensure!(
                row.is_some_and(|row| row.contains(about)),
                "{name}.{column}: {row:?}"
            );
            // All columns can be read.
            rows(
                trace.path(),
                &format!("select {column} from {name} limit 3"),
            )?;
        }
    }
    Ok(())
}

#[test]
fn what_is_wrong_with_a_query_is_told() -> TestResult {
    let outcome = Run::new()
        .freq(100)
        .command(workload("rate").args(["--threads", "1"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    let scratch = Scratch::new("query")?;
    let victim = scratch.path().join("victim.csv");
    fs::write(&victim, "a,b\n1,2\n")?;
    let shown = victim.display();
    let new = scratch.path().join("new");
    for (sql, code, expected) in [
        ("select", 2, ""),
        ("selekt 1", 2, "selekt"),
        ("select nam from samples", 2, "nam"),
        ("select * from sample", 2, "sample"),
        ("select no_such_function(1)", 2, "no_such_function"),
        ("select 1; select 2", 2, ""),
        ("select 1 / 0", 1, "zero"),
        ("drop table samples", 2, ""),
        ("insert into samples values (1)", 2, ""),
        ("create table x as select 1", 2, ""),
        ("set datafusion.execution.batch_size = 1", 2, ""),
        (&format!("select * from '{shown}'"), 2, ""),
        (
            &format!("create external table x stored as csv location '{shown}'"),
            2,
            "",
        ),
        (
            &format!("copy samples to '{}' stored as csv", new.display()),
            2,
            "",
        ),
    ] {
        let output = ask(&["query", sql], trace.path(), scratch.path())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let is_told = said.starts_with("rsys-report: error: ") && said.lines().count() == 1;
        ensure!(is_told && said.contains(expected), "{sql}: {said}");
        ensure!(
            output.status.code() == Some(code),
            "{sql}: {:?} {said}",
            output.status
        );
        ensure!(output.stdout.is_empty(), "{sql}");
    }
    ensure!(
        !new.exists() && fs::read(&victim)? == b"a,b\n1,2\n",
        "a query wrote"
    );
    let none = ask(
        &[
            "query",
            "select * from markers where name = 'none'",
            "--csv",
        ],
        trace.path(),
        scratch.path(),
    )?;
    ensure!(none.status.success(), "{none:?}");
    ensure!(
        String::from_utf8_lossy(&none.stdout).lines().count() == 1,
        "{none:?}"
    );
    let missing = Command::new(report()?)
        .args(["query", "select 1", "--", "none"])
        .env("RSYS_QUERY", "/nowhere/rsys-query")
        .output()?;
    ensure!(missing.status.code() == Some(1), "{missing:?}");
    Ok(())
}

/// All questions with default options.
const QUESTIONS: [&str; 11] = [
    "summary",
    "advice",
    "timeline",
    "gaps",
    "kernels",
    "copies",
    "calls",
    "functions",
    "memory",
    "sensors",
    "launch",
];

/// Where the files of the cache are.
fn kept(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// A folder with a trace of some hundred kilobytes, which is no longer read when it is answered about from the cache.
fn folder_with_trace(scratch: &Scratch) -> Result<PathBuf> {
    let outcome = gpu_run(&["--compress=false", "--freq", "1000"])?;
    let trace = outcome.trace_of("hip_ops")?;
    let folder = scratch.path().join("run");
    fs::create_dir_all(&folder)?;
    fs::copy(trace.path(), folder.join("one.proto"))?;
    Ok(folder)
}

/// Damages the middle of a file, where nothing looks that only wants to know whether it is the same.
fn damage_unseen(path: &Path) -> Result<()> {
    let about = fs::metadata(path)?;
    let mut bytes = fs::read(path)?;
    ensure!(bytes.len() > 400_000, "only {} bytes", bytes.len());
    let middle = bytes.len() / 2;
    bytes[middle - 50_000..middle + 50_000].fill(0xff);
    fs::write(path, bytes)?;
    fs::File::options()
        .write(true)
        .open(path)?
        .set_modified(about.modified()?)?;
    Ok(())
}

#[test]
fn answers_from_the_cache_are_the_same() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("cache")?;
    let folder = folder_with_trace(&scratch)?;
    let home = scratch.path().join("home");
    let hidden = folder.join(".rsys-cache");
    let forms: [&[&str]; 3] = [&[], &["--json"], &["--csv"]];
    let sql = "select name, count(*), sum(duration_ns) from operations group by name order by name";
    let all = |choice: &str| -> Result<Vec<Output>> {
        let mut answers = Vec::new();
        for form in forms {
            for question in QUESTIONS {
                let words = [&[question, choice], form].concat();
                answers.push(ask(&words, &folder, &home)?);
            }
            answers.push(ask(
                &[&["query", sql, choice], form].concat(),
                &folder,
                &home,
            )?);
        }
        Ok(answers)
    };
    let expected = all("--no-cache")?;
    ensure!(!hidden.exists() && !home.exists(), "something was kept");
    ensure!(
        expected
            .iter()
            .all(|answer| answer.status.code() != Some(2)),
        "{expected:?}"
    );
    // The first makes it, and what follows is answered from it, whatever is in the trace meanwhile.
    let first = ask(&["summary", "--cache"], &folder, &home)?;
    ensure!(first == expected[0], "{first:?}");
    let query = ask(&["query", sql, "--cache"], &folder, &home)?;
    ensure!(query == expected[QUESTIONS.len()], "{query:?}");
    ensure!(kept(&hidden)?.len() == 2, "{:?}", kept(&hidden)?);
    damage_unseen(&folder.join("one.proto"))?;
    for (place, (found, expected)) in all("--cache")?.iter().zip(&expected).enumerate() {
        ensure!(found == expected, "{place}: {found:?}\n{expected:?}");
    }
    ensure!(kept(&hidden)?.len() == 2, "{:?}", kept(&hidden)?);
    // Options that change an answer are another question, and other names of the same files another one too.
    let by = ask(&["kernels", "--by", "stream", "--cache"], &folder, &home)?;
    let read = ask(&["kernels", "--by", "stream", "--no-cache"], &folder, &home)?;
    ensure!(by == read && by != expected[4], "{by:?}");
    // No command takes it for a trace.
    let merged = scratch.path().join("merged.pftrace");
    let words = ["merge", "-o", &merged.display().to_string()];
    let said = ask(&words, &folder, &home)?;
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(!said.contains(".rsys-cache"), "{said}");
    Ok(())
}

#[test]
fn a_cache_that_is_wrong_is_none() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("cache-wrong")?;
    let folder = folder_with_trace(&scratch)?;
    let home = scratch.path().join("home");
    let hidden = folder.join(".rsys-cache");
    let trace = folder.join("one.proto");
    let sql = "select count(*) as count, sum(duration_ns) from operations";
    let both = |choice: &str| -> Result<[Output; 2]> {
        Ok([
            ask(&["timeline", choice], &folder, &home)?,
            ask(&["query", sql, choice], &folder, &home)?,
        ])
    };
    let expected = both("--no-cache")?;
    ensure!(both("--cache")? == expected, "the first time");
    for name in kept(&hidden)? {
        let whole = fs::read(&name)?;
        for damage in [0, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[damage] ^= 0x20;
            fs::write(&name, &bytes)?;
            ensure!(both("--cache")? == expected, "{name:?}, byte {damage}");
            fs::write(&name, &whole[..damage])?;
            ensure!(both("--cache")? == expected, "{name:?}, {damage} bytes");
        }
        // It was written again each time.
        ensure!(fs::read(&name)?.len() == whole.len(), "{name:?}");
    }
    // Another trace under the same name.
    let bytes = fs::read(&trace)?;
    fs::write(&trace, &bytes[..bytes.len() * 3 / 4])?;
    let expected = both("--no-cache")?;
    ensure!(both("--cache")? == expected, "a trace that was cut");
    ensure!(
        String::from_utf8_lossy(&expected[0].stdout).contains("cut")
            || expected[0].status.success()
    );
    // Where the folder takes no files, the user's cache does.
    fs::remove_dir_all(&hidden)?;
    fs::write(&hidden, "in the way")?;
    ensure!(both("--cache")? == expected, "no folder");
    let of_user = home.join("rsys/answers");
    ensure!(kept(&of_user)?.len() == 2, "{:?}", kept(&of_user)?);
    damage_unseen(&trace)?;
    ensure!(both("--cache")? == expected, "from the user's cache");
    // And where nothing does, nothing is kept.
    fs::remove_dir_all(&home)?;
    fs::write(&home, "in the way")?;
    ensure!(both("--cache")? == both("--no-cache")?, "nowhere");
    Ok(())
}

#[test]
fn many_may_ask_at_once() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("cache-many")?;
    let folder = folder_with_trace(&scratch)?;
    let sql = "select count(*), sum(start_ns) from operations";
    let expected = ask(&["query", sql, "--no-cache"], &folder, scratch.path())?;
    let program = report()?;
    let start = || {
        Command::new(&program)
            .arg("query")
            .arg(&folder)
            .args([sql, "--cache"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let askers: Vec<_> = (0..8).map(|_| start()).collect::<Result<_, _>>()?;
    for asker in askers {
        let found = asker.wait_with_output()?;
        ensure!(found == expected, "{found:?}");
    }
    ensure!(
        kept(&folder.join(".rsys-cache"))?.len() == 1,
        "one file of tables"
    );
    Ok(())
}
