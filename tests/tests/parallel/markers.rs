//! roctx, in every way that programs come by it, and `dlsym`, by which some do.

use std::fs;
use std::path::{Path, PathBuf};

use rsys_tests::simgpu::Stack;
use rsys_tests::{
    Invocation, Run, TestResult, Trace, Workload, python, run_plain, signal, skip_if_missing,
    target_dir, workload,
};

/// The real library, beside nothing else: the rest of its folder is for another C library.
fn libroctx() -> anyhow::Result<PathBuf> {
    let folder = target_dir().join("workloads/roctx");
    let library = folder.join("libroctx64.so.4");
    if !library.is_file() {
        fs::create_dir_all(&folder)?;
        let draft = folder.join(format!("{}.draft", std::process::id()));
        fs::copy(Stack::Debian13.libraries().join("libroctx64.so.4"), &draft)?;
        fs::rename(&draft, &library)?;
    }
    Ok(library)
}

/// Options that link a program with a library, and make it find that.
fn linked_with(library: &Path) -> Vec<String> {
    let folder = library.parent().unwrap_or(library).display();
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    vec![
        "-O2".to_owned(),
        "-g".to_owned(),
        "-Wl,--no-as-needed".to_owned(),
        format!("-L{folder}"),
        format!("-l:{name}"),
        format!("-Wl,-rpath,{folder}"),
    ]
}

/// `ranges`, as it comes or linked with the library.
fn ranges(library: Option<&Path>) -> Workload {
    let program = workload("ranges");
    match library {
        Some(library) => program.flags(linked_with(library)),
        None => program,
    }
}

fn profiled(program: impl Into<Invocation>) -> Run {
    Run::new().options(["-I", "roctx"]).command(program)
}

/// How many slices have this name (a pattern).
fn slices(trace: &Trace, name: &str) -> anyhow::Result<i64> {
    trace.number(&format!(
        "select count(*) from slice where name glob '{name}' and category = 'roctx'"
    ))
}

/// The name of the slice around the only one with a name.
fn around(trace: &Trace, name: &str) -> anyhow::Result<String> {
    let rows = trace.query(&format!(
        "select coalesce(parent.name, '') as name from slice child left join slice parent
         on child.parent_id = parent.id where child.name = '{name}' and child.category = 'roctx'"
    ))?;
    let cell = rows.single()?;
    Ok(cell.as_text().unwrap_or_default().to_owned())
}

#[test]
fn every_way_to_the_functions_is_seen() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing());
    let library = libroctx()?;
    let path = library.display().to_string();
    let versioned = format!("version:{path}");
    let bare = run_plain(ranges(Some(&library)).args(["linked", "checks"]))?;
    bare.expect_success();
    for (linked, how) in [
        // Without any library, the agent returns what the library would.
        (false, "linked"),
        (false, "default"),
        (true, "linked"),
        (true, "default"),
        (true, &path),
        (false, &path),
        (false, &versioned),
    ] {
        let program = ranges(linked.then_some(library.as_path())).args([how, "checks"]);
        let outcome = profiled(program).run()?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let what = format!("{how}, linked: {linked}\n{}", outcome.story());
        assert_eq!(around(&trace, "inner")?, "outer", "{what}");
        assert_eq!(around(&trace, "a mark")?, "inner", "{what}");
        assert_eq!(around(&trace, "outer")?, "", "{what}");
        assert_eq!(around(&trace, "level 400")?, "level 399", "{what}");
        // A trace holds 512 levels of one track; deeper ones are counted.
        assert!(slices(&trace, "level *")? >= 500, "{what}");
        assert_eq!(slices(&trace, "in another thread")?, 1, "{what}");
        let unmatched = trace.metadata()?.int("roctx_unmatched_pops")?;
        assert_eq!(unmatched, 3, "{what}");
        assert_eq!(slices(&trace, "xxxx*")?, 1, "{what}");
        // Ranges that overlap, one of which another thread has ended.
        let rows = trace.query(
            "select s.name as name, s.ts as ts, s.dur as dur, s.track_id as track from slice s
             join track t on s.track_id = t.id where t.name = 'roctx ranges' order by s.ts",
        )?;
        let ranges: Vec<(String, i64, i64, i64)> = rows
            .iter()
            .map(|row| {
                let begin = row.int("ts")?;
                let end = begin + row.int("dur")?;
                Ok((row.text("name")?.to_owned(), begin, end, row.int("track")?))
            })
            .collect::<anyhow::Result<_>>()?;
        let [first, second] = &ranges[..] else {
            anyhow::bail!("{ranges:?}\n{what}");
        };
        assert_eq!(
            (first.0.as_str(), second.0.as_str()),
            ("from thread to thread", "overlapping"),
            "{what}"
        );
        assert!(
            first.2 > second.1 && first.3 != second.3,
            "{ranges:?}\n{what}"
        );
    }
    Ok(())
}

#[test]
fn python_by_ctypes_is_seen() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing());
    let program = python("ranges.py").arg(libroctx()?);
    let outcome = profiled(program).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    for (name, count) in [
        ("step *", 11),
        ("forward", 11),
        ("loss", 11),
        ("epoch", 1),
        ("overlapping", 1),
    ] {
        assert_eq!(slices(&trace, name)?, count, "{name}\n{}", outcome.story());
    }
    assert_eq!(around(&trace, "step 10")?, "");
    Ok(())
}

#[test]
fn a_million_ranges_are_all_there() -> TestResult {
    let outcome = profiled(ranges(None).args(["linked", "many", "250000"])).run()?;
    let trace = outcome.expect_success().trace()?;
    assert_eq!(outcome.dropped(), 0, "{}", outcome.story());
    assert_eq!(trace.problems()?, Vec::<String>::new());
    let rows = trace.query(
        "select count(*) as all_of_them, sum(name glob 'often *') as often, sum(dur < 0) as open,
         count(distinct track_id) as tracks, count(distinct name) as names from slice where category = 'roctx'",
    )?;
    let found: Vec<i64> = rows
        .iter()
        .flat_map(|row| {
            ["all_of_them", "often", "open", "tracks", "names"].map(|name| row.int(name))
        })
        .collect::<anyhow::Result<_>>()?;
    assert_eq!(found, [1_000_000, 750_000, 0, 4, 250_003]);
    Ok(())
}

#[test]
fn what_is_open_when_the_program_is_killed_is_there() -> TestResult {
    let running = profiled(ranges(None).args(["linked", "open"])).start()?;
    running.wait_for("ready")?;
    signal(running.target_pid()?, libc::SIGKILL);
    let outcome = running.wait()?;
    let trace = outcome.trace()?;
    trace.assert_clean();
    for name in ["ended", "left open", "never stopped"] {
        assert_eq!(slices(&trace, name)?, 1, "{name}\n{}", outcome.story());
    }
    Ok(())
}

#[test]
fn nothing_is_collected_in_a_pause() -> TestResult {
    let run = profiled(ranges(None).args(["linked", "paused"])).freq(1000);
    let outcome = run.run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    for (name, count) in [
        ("around", 1),
        ("before", 1),
        ("ends in the pause", 1),
        ("seen", 1),
        ("unseen*", 0),
    ] {
        assert_eq!(slices(&trace, name)?, count, "{name}\n{}", outcome.story());
    }
    // What was open goes on, and what was pushed in the pause takes its pop along.
    assert_eq!(around(&trace, "seen")?, "around");
    assert_eq!(around(&trace, "ends in the pause")?, "around");
    let gates = trace.number("select count(*) from slice where name glob 'collection *'")?;
    assert_eq!(gates, 2);
    let shares = trace.shares()?;
    assert!(shares.total_share("seen_work") > 0.5, "{}", outcome.story());
    assert!(
        shares.total_share("unseen_work") < 1e-9,
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_fork_child_tells_its_own_ranges_only() -> TestResult {
    let outcome = profiled(ranges(None).args(["linked", "fork"])).run()?;
    outcome.expect_success();
    let mut found = Vec::new();
    for trace in outcome.traces()? {
        trace.assert_clean();
        found.push((
            slices(&trace, "of the parent")?,
            slices(&trace, "of the child")?,
            slices(&trace, "told twice")?,
        ));
    }
    found.sort_unstable();
    assert_eq!(found, [(0, 1, 1), (1, 0, 2)], "{}", outcome.story());
    Ok(())
}

#[test]
fn dlsym_finds_what_it_finds_without_us() -> TestResult {
    let program = workload("lookups").flags(["-O2", "-g", "-Wl,--no-as-needed"]);
    let one = program.build()?.with_file_name("pluginone.so");
    let mut flags = linked_with(&one);
    flags.extend(["-shared".to_owned(), "-fPIC".to_owned()]);
    let user = workload("lookup_user").flags(flags).build()?;
    let program = Invocation::from(program).arg(user);
    let bare = run_plain(program.clone())?;
    let outcome = Run::new()
        .options(["-I", "roctx", "rccl"])
        .command(program)
        .run()?;
    // The error for a function that only the agent has names another asker.
    let told = |text: &str| -> Vec<String> {
        let nowhere = ["RCCL is not there", "nor behind"];
        text.lines()
            .map(|line| match line.split_once(':') {
                Some((what, _)) if nowhere.contains(&what) => {
                    line.split(',').next().unwrap_or(line).to_owned()
                }
                _ => line.to_owned(),
            })
            .collect()
    };
    assert!(bare.expect_success().stdout.contains("linked: 42"));
    assert_eq!(told(&outcome.expect_success().stdout), told(&bare.stdout));
    let trace = outcome.trace()?;
    trace.assert_clean();
    // Each call once, whichever library it goes to, and not what the library marks itself.
    for (name, count) in [
        ("ncclGroupStart", 6),
        ("ncclGroupEnd", 1),
        ("by the library itself", 0),
    ] {
        let sql = format!("select count(*) from slice where name = '{name}'");
        assert_eq!(trace.number(&sql)?, count, "{name}");
    }
    Ok(())
}
