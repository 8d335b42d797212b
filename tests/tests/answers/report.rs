//! `rsys-report` on traces of real programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Judge, Outcome, Run, TestResult, Trace, report, scan_packets, script, wait_until, workload,
};

/// Runs `rsys-report`; its exit code and all that it says.
fn rsys_report(verb: &str, arguments: &[&Path]) -> Result<(Option<i32>, String)> {
    let output = Command::new(report()?).arg(verb).args(arguments).output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

/// All that a viewer shows of each process, as one number per kind, in no order of processes.
const CONTENTS: &str = "
    with recursive
    stack(id, hash) as (
        select c.id, hash(f.name, m.name, f.rel_pc) from stack_profile_callsite c
            join stack_profile_frame f on c.frame_id = f.id join stack_profile_mapping m on f.mapping = m.id
            where c.parent_id is null
        union all
        select c.id, hash(s.hash, f.name, m.name, f.rel_pc) from stack_profile_callsite c
            join stack s on c.parent_id = s.id
            join stack_profile_frame f on c.frame_id = f.id join stack_profile_mapping m on f.mapping = m.id
    ),
    found(upid, kind, hash) as (
        select t.upid, 'thread slice', hash(s.ts, s.dur, s.depth, s.name, coalesce(t.name, ''), t.is_main_thread)
            from slice s join thread_track k on s.track_id = k.id join thread t using (utid)
        union all
        select k.upid, 'process slice', hash(s.ts, s.dur, s.depth, s.name, k.name)
            from slice s join process_track k on s.track_id = k.id
        union all
        select t.upid, 'fact', hash(s.ts, a.key, coalesce(a.display_value, ''))
            from slice s join process_track t on s.track_id = t.id join args a using (arg_set_id)
        union all
        select t.upid, 'sample', hash(p.ts, k.hash, coalesce(t.name, ''), t.is_main_thread)
            from perf_sample p join thread t using (utid) join stack k on p.callsite_id = k.id
        union all
        select upid, 'thread', hash(coalesce(t.name, ''), t.is_main_thread) from thread t join process p using (upid)
            where p.pid != 0
    )
    select kind, count(*) as items, sum(hash & 0xffffffff) as sum from found group by upid, kind
    order by kind, items, sum";

fn shown(judge: &mut Judge) -> Result<Vec<(String, i64, i64)>> {
    let rows = judge.query(CONTENTS)?;
    let row = |row: rsys_tests::Row<'_>| {
        Ok((
            row.text("kind")?.to_owned(),
            row.int("items")?,
            row.int("sum")?,
        ))
    };
    rows.iter().map(row).collect()
}

/// Two programs, one of them with several threads, and their waits.
fn recorded() -> Result<Outcome> {
    let rate = workload("rate").build()?;
    let line = format!(
        "{0} --threads 3 --seconds 0.2 & {0} --seconds 0.3; wait",
        rate.display()
    );
    Run::new()
        .freq(500)
        .options(["--follow", "exec", "--compress=false", "--realtime"])
        .command(script(&line))
        .run()
}

/// A copy of a trace as another machine would have written it: another boot id, of the same length.
fn copy_of(trace: &[u8], boot_id: &str, number: usize) -> Vec<u8> {
    let other = format!("{number:0width$}", width = boot_id.len());
    let mut copy = trace.to_vec();
    let places: Vec<usize> = copy
        .windows(boot_id.len())
        .enumerate()
        .filter(|(_, window)| *window == boot_id.as_bytes())
        .map(|(place, _)| place)
        .collect();
    for place in places {
        copy[place..place + other.len()].copy_from_slice(other.as_bytes());
    }
    copy
}

#[test]
fn any_number_of_traces_shows_what_each_shows_alone() -> TestResult {
    let outcome = recorded()?;
    outcome.expect_success();
    let files = outcome.files();
    let boot_id = outcome.traces()?[0].metadata()?.text("boot_id")?;
    let folder = files[0].with_file_name("copies");
    let mut alone = Vec::new();
    for copies in [1_usize, 8, 64] {
        let inputs = folder.join(copies.to_string());
        fs::create_dir_all(&inputs)?;
        for file in &files {
            let bytes = fs::read(file)?;
            let name = file
                .file_stem()
                .context("a trace has a name")?
                .to_string_lossy();
            for number in 0..copies {
                let path = inputs.join(format!("{name}.copy{number}.proto"));
                fs::write(&path, copy_of(&bytes, &boot_id, number))?;
                if copies == 1 {
                    alone.extend(shown(&mut Judge::load(&[path])?)?);
                }
            }
        }
        let merged = inputs.with_extension("pftrace");
        let (code, said) = rsys_report("merge", &[&inputs, Path::new("-o"), &merged])?;
        ensure!(code == Some(0), "{said}");
        let mut judge = Judge::load(&[&merged])?;
        let stats = judge.query(
            "select name, value from stats where value > 0
             and (severity in ('error', 'data_loss') or name like '%skipped%')",
        )?;
        assert!(stats.is_empty(), "{copies} copies: {stats}");
        let open = judge.query("select count(*) from slice where dur < 0")?;
        assert_eq!(open.single()?.as_int(), Some(0));
        // The facts name the boot id, which the other copies have another of.
        let compared = |(kind, ..): &&(String, i64, i64)| copies == 1 || kind != "fact";
        let together: Vec<_> = shown(&mut judge)?
            .iter()
            .filter(compared)
            .cloned()
            .collect();
        let expected = alone.iter().filter(compared);
        let mut expected: Vec<_> = expected
            .flat_map(|item| std::iter::repeat_n(item.clone(), copies))
            .collect();
        expected.sort();
        assert_eq!(together, expected, "{copies} copies");
        for kind in ["thread slice", "process slice", "sample", "thread"] {
            assert!(together.iter().any(|item| item.0 == kind), "no {kind}");
        }
        assert_eq!(scan_packets(&merged)?.torn_bytes, 0);
    }
    Ok(())
}

#[test]
fn what_a_killed_profiler_left_is_finished() -> TestResult {
    let run = Run::new()
        .freq(300)
        .command(workload("rate").args(["--seconds", "600"]))
        .start()?;
    let traces = || -> Vec<PathBuf> {
        let folders = fs::read_dir(run.output()).into_iter().flatten().flatten();
        let files =
            folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        files.map(|file| file.path()).collect()
    };
    let has_samples = || {
        let scans = traces()
            .iter()
            .filter_map(|path| scan_packets(path).ok())
            .collect::<Vec<_>>();
        scans.iter().any(|scan| scan.samples > 10)
    };
    ensure!(
        wait_until(Duration::from_secs(60), has_samples),
        "nothing is written"
    );
    let target = run.target_pid()?;
    run.signal(libc::SIGKILL);
    let outcome = run.wait()?;
    rsys_tests::signal(target, libc::SIGKILL);
    let [trace] = &outcome.files()[..] else {
        anyhow::bail!("not one trace\n{}", outcome.story());
    };
    let before = scan_packets(trace)?;
    let folder = trace.parent().context("a trace lies in a folder")?;
    let (code, said) = rsys_report("check", &[folder])?;
    assert!(code == Some(1) && said.contains("recover"), "{said}");
    let (code, said) = rsys_report("recover", &[folder])?;
    assert!(code == Some(0) && said.contains("finished now"), "{said}");
    let (code, said) = rsys_report("check", &[folder])?;
    assert!(code == Some(0) && said.contains("recovered"), "{said}");
    let after = scan_packets(trace)?;
    assert_eq!(
        (after.samples, after.begins),
        (before.samples, before.begins)
    );
    assert_eq!((after.ends, after.torn_bytes), (after.begins, 0));
    let loaded = Trace::load(trace, None)?;
    loaded.assert_valid_prefix();
    assert_eq!(
        loaded.number("select count(*) from slice where dur < 0")?,
        0
    );
    Ok(())
}

/// What the trace processor makes of slices, counters and samples.
const SUMS: &str = "select 'slices of ' || name as what, sum(dur) as sum from slice
     where name not like 'rsys %' group by name
     union all select 'samples of ' || coalesce(t.name, ''), count(*) from perf_sample join thread t using (utid)
     group by t.name order by what";

/// The sums of a trace, of which nothing is wrong and every slice is closed.
fn sums(path: &Path) -> Result<std::collections::BTreeMap<String, i64>> {
    let trace = Trace::load(path, None)?;
    trace.assert_valid_prefix();
    ensure!(trace.number("select count(*) from slice where dur < 0")? == 0);
    let rows = trace.query(SUMS)?;
    rows.iter()
        .map(|row| Ok((row.text("what")?.to_owned(), row.int("sum")?)))
        .collect()
}

#[test]
fn parts_of_a_real_trace_open_alone_and_add_up() -> TestResult {
    let outcome = recorded()?;
    outcome.expect_success();
    let merged = outcome.files()[0].with_file_name("merged.pftrace");
    let folder = outcome.files()[0].with_file_name("");
    let (code, said) = rsys_report("merge", &[&folder, Path::new("-o"), &merged])?;
    ensure!(code == Some(0), "{said}");
    let mut together = std::collections::BTreeMap::new();
    for (number, range) in [["0ms", "60ms"], ["60ms", "110ms"], ["110ms", "1h"]]
        .iter()
        .enumerate()
    {
        let part = merged.with_file_name(format!("part{number}.pftrace"));
        let words = [
            "-o",
            &part.to_string_lossy(),
            "--from",
            range[0],
            "--to",
            range[1],
        ]
        .map(str::to_owned);
        let mut arguments = vec![merged.as_path()];
        arguments.extend(words.iter().map(Path::new));
        let (code, said) = rsys_report("cut", &arguments)?;
        ensure!(code == Some(0), "{said}");
        for (what, sum) in sums(&part)? {
            *together.entry(what).or_insert(0) += sum;
        }
    }
    let whole = sums(&merged)?;
    ensure!(
        whole.keys().any(|what| what.starts_with("samples of rate")),
        "{whole:?}"
    );
    assert_eq!(together, whole);
    Ok(())
}
