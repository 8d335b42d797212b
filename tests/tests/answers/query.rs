//! `rsys-report query`: tables that hold what the trace holds, SQL that can do nothing but read them, and answers that are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
         from operations o where kind = 'kernel' and name not glob '__amd*'",
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
        "select s.function, s.module, s.source, sum(weight) as ns, count(*) as samples, min(frames) as frames
         from samples s join stacks using (stack_id) where basis = 'cpu' group by 1, 2, 3 order by ns desc",
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
        // Libraries have functions of one name.
        let same = found.iter().find(|found| {
            ["function", "module", "source"]
                .iter()
                .all(|&key| found[key] == row[key])
        });
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

/// Queries that only group are answered column by column, all others by SQLite: a comment makes one of the others of each.
#[test]
fn groups_are_those_of_sqlite() -> TestResult {
    skip_if_missing!(STACK.missing());
    let outcome = gpu_run(&["--host", "--freq", "1000"])?;
    let trace = outcome.trace_of("hip_ops")?;
    for sql in [
        "select count(*) from operations",
        "select count(*), sum(duration_ns), min(start_ns), avg(bytes), max(correlation) from operations where kind = 'none'",
        "select kind, count(*) from operations where name = 'none' group by kind",
        "select kind, count(*), count(bytes), sum(bytes), avg(bytes), min(bytes), max(bytes) from operations group by kind",
        "select queue, name, count(*) as n, avg(duration_ns) / 1000 as us from operations group by queue, name order by n desc, name, queue",
        "SELECT direction, kind, Count(*) FROM operations GROUP BY direction, kind;",
        "select name, sum(duration_ns) * 100 / count(*) as hundredths, round(avg(duration_ns), 1) from operations where kind <> 'copy' \
         and duration_ns >= 1000 and grid is not null group by name having count(*) > 1 and name like '%e%' order by 2 desc, 1 limit 5 offset 1",
        "select device, kind, max(end_ns) - min(start_ns) from operations where bytes is null and start_ns > -1 group by kind, device order by device desc",
        "select runtime, name, count(*), count(stack_id), sum(duration_ns) from calls group by runtime, name",
        "select function, line, sum(weight), count(*) from samples where basis = 'cpu' group by function, line order by sum(weight) desc, function, line",
        "select place, count(*) from operations where place > 'a' group by place",
        "select thread_id, count(*), 'it''s' from calls group by thread_id order by count(*)",
        "select belongs_to, name, count(*), count(value) from counters group by belongs_to, name",
        "select case when count(*) > 10 then 'many' else 'few' end as often, name from calls group by name",
    ] {
        let found = rows(trace.path(), sql)?;
        let expected = rows(trace.path(), &format!("/* all */ {sql}"))?;
        ensure!(found == expected, "{sql}: {found:?} {expected:?}");
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
    let outcome = gpu_run(&["--host", "--freq", "1000"])?;
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
        ("select", 2, "incomplete"),
        ("selekt 1", 2, "selekt"),
        ("select nam from samples", 2, "nam"),
        ("select * from sample", 2, "sample"),
        ("select no_such_function(1)", 2, "no_such_function"),
        ("select 1; select 2", 2, "one at a time"),
        ("", 2, "empty"),
        ("select percentile(1, 200)", 1, "percentile(x, p)"),
        ("drop table samples", 2, ""),
        ("delete from samples", 2, ""),
        ("insert into samples values (1)", 2, ""),
        ("create table x as select 1", 2, "only reading"),
        ("create temp view x as select 1", 2, "only reading"),
        ("pragma temp_store = 1", 2, "only reading"),
        ("begin", 2, "only reading"),
        ("select load_extension('x')", 2, ""),
        (&format!("attach '{shown}' as other"), 2, "only reading"),
        (&format!("vacuum into '{}'", new.display()), 2, ""),
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
    Ok(())
}

#[test]
fn tables_are_kept_as_long_as_they_are_those_of_the_traces() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("query-kept")?;
    let outcome = gpu_run(&["--compress=false"])?;
    let folder = scratch.path().join("run");
    fs::create_dir_all(&folder)?;
    let trace = folder.join("one.proto");
    fs::copy(outcome.trace_of("hip_ops")?.path(), &trace)?;
    let sql = "select name, count(*), sum(duration_ns) from operations group by name order by name";
    let answer = |choice: &str| ask(&["query", sql, choice, "--csv"], &folder, scratch.path());
    let expected = answer("--no-cache")?;
    let hidden = folder.join(".rsys-cache");
    ensure!(
        !hidden.exists() && expected.status.success(),
        "{expected:?}"
    );
    let askers: Vec<_> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..4).map(|_| scope.spawn(|| answer("--cache"))).collect();
        let answers = askers.into_iter().map(|asker| asker.join());
        answers.filter_map(Result::ok).collect()
    });
    ensure!(askers.len() == 4, "an asker panicked");
    for found in askers {
        ensure!(found? == expected, "with others at once");
    }
    let kept = || -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&hidden)?.map(|entry| Ok(entry?.path()));
        entries.collect()
    };
    let [tables] = &kept()?[..] else {
        anyhow::bail!("{:?}", kept()?);
    };
    let whole = fs::read(tables)?;
    for damage in [0, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 0x20;
        fs::write(tables, &bytes)?;
        ensure!(answer("--cache")? == expected, "byte {damage}");
        fs::write(tables, &whole[..damage])?;
        ensure!(answer("--cache")? == expected, "{damage} bytes");
        ensure!(fs::read(tables)? == whole, "was not written anew");
    }
    // Kept tables are what is asked: the trace is not read for them.
    let about = fs::metadata(&trace)?;
    let mut bytes = fs::read(&trace)?;
    let middle = bytes.len() / 2;
    ensure!(bytes.len() > 400_000, "only {} bytes", bytes.len());
    bytes[middle - 50_000..middle + 50_000].fill(0xff);
    fs::write(&trace, &bytes)?;
    fs::File::options()
        .write(true)
        .open(&trace)?
        .set_modified(about.modified()?)?;
    ensure!(answer("--cache")? == expected, "from the tables");
    // Those of a trace that has changed are none.
    fs::write(&trace, &bytes[..middle - 60_000])?;
    let expected = answer("--no-cache")?;
    ensure!(answer("--cache")? == expected, "a trace that was cut");
    Ok(())
}

#[test]
fn what_is_no_trace_is_an_error() -> TestResult {
    let scratch = Scratch::new("no-trace")?;
    let input = scratch.path().join("junk.proto");
    fs::write(&input, [0xd7; 3000])?;
    let output = scratch.path().join("out.json");
    let words = |path: &Path| path.display().to_string();
    let export = [
        "export",
        &words(&input),
        "--to",
        "kineto",
        "-o",
        &words(&output),
    ];
    for words in [&["query", &words(&input), "select 1"][..], &export] {
        let asked = Command::new(report()?).args(words).output()?;
        let said = String::from_utf8_lossy(&asked.stderr);
        ensure!(
            asked.status.code() == Some(1) && said.contains("junk.proto: neither"),
            "{said}"
        );
    }
    ensure!(!output.exists(), "a file without records");
    Ok(())
}
