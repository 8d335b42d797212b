//! Large programs of others that live by locks do with all three lock backends what they do alone: a database, a virtual machine, a learning framework.

use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, language_source, missing_python_module,
    missing_tool, python, run_plain, script, skip_if_missing,
};

const ALL: [&str; 4] = ["-I", "mutex-locks", "rw-locks", "spin-locks"];

/// Runs a program alone and with its locks recorded: it succeeds, and says the same.
fn says_the_same(program: impl Fn() -> Invocation) -> anyhow::Result<Outcome> {
    let alone = run_plain(program())?;
    let outcome = Run::new().options(ALL).command(program()).run()?;
    outcome.expect_success().all_clean()?;
    assert_eq!(
        outcome.stdout,
        alone.expect_success().stdout,
        "{}",
        outcome.story()
    );
    Ok(outcome)
}

/// A server with its processes, clients that write and read, and an orderly end.
#[test]
fn postgresql_starts_works_and_stops() -> TestResult {
    let folders = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut binaries = folders.flatten().map(|entry| entry.path().join("bin"));
    let missing = || Some("PostgreSQL is not installed in /usr/lib/postgresql".to_owned());
    let binaries = binaries.find(|folder| folder.join("postgres").is_file());
    skip_if_missing!(binaries.as_ref().map_or_else(missing, |_| None));
    let binaries = binaries.unwrap_or_default();
    let line = format!(
        "set -e; d=$(mktemp -d); trap 'rm -r $d' EXIT; chown nobody $d
         su nobody -s /bin/sh -c \"set -e; cd $d; export PGDATA=$d/db PGHOST=$d PATH={}:$PATH
         initdb -A trust --no-sync >init.log
         pg_ctl start -w -l server.log -o \\\"-k $d -c listen_addresses= -c fsync=off\\\" >start.log || cat server.log
         pgbench -i -q postgres 2>/dev/null >&2
         pgbench -n -c 4 -j 2 -t 50 postgres | grep processed
         psql -tAc 'select count(*) from pgbench_history' postgres
         pg_ctl stop -m fast -w\"",
        binaries.display()
    );
    let outcome = says_the_same(|| script(&line))?;
    let said = &outcome.stdout;
    assert!(
        said.contains("200/200") && said.contains("server stopped"),
        "{said}"
    );
    assert!(outcome.files().len() >= 8, "{}", outcome.story());
    Ok(())
}

/// Monitors, locks and queues of Java, and its garbage collector.
#[test]
fn java_runs() -> TestResult {
    skip_if_missing!(missing_tool("javac"));
    let folder = Scratch::new("java-locks")?;
    let compiled = Invocation::new("javac").arg("-d");
    let compiled = compiled.args([folder.path(), &language_source("Locks.java")]);
    run_plain(compiled)?.expect_success();
    let outcome = says_the_same(|| {
        let java = Invocation::new("java").arg("-cp").arg(folder.path());
        java.args(["Locks", "4", "5000"])
    })?;
    assert_eq!(outcome.stdout, "20000 20000 20000 20000\n");
    Ok(())
}

/// Threads of the program's, of the backward pass and of loops, and loaders in processes of their own.
#[test]
fn pytorch_runs() -> TestResult {
    skip_if_missing!(missing_python_module("torch"));
    says_the_same(|| python("torch_locks.py"))?;
    Ok(())
}
