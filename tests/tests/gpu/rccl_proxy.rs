//! What RCCL's proxies do, by its profiler interface: each operation and step once, with the times that it spent, joined to the program's calls, and the
//! user's own plug-in gets what it has without us.
//!
//! A stand-in plays the library in all versions of the interface, with transfers that end. The real RCCL runs with `--ignored`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rsys_tests::simgpu::{Machine, Stack, library_program, standin as compiled};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, Trace, run_plain, script, skip_if_missing,
};

/// The times of an operation, as the trace names them, and as the stand-in prints them.
const TIMES: [&str; 4] = ["gpu_wait_ns", "peer_wait_ns", "network_ns", "flush_ns"];
/// The plug-in's counts depend on the library alone: of what it asks for by default, and of steps alone.
const MASKS: [&str; 2] = ["0x3f", "0x10"];

/// The stand-in for the library, and the program that opens it.
fn standin() -> anyhow::Result<Invocation> {
    let library = compiled("rccl_standin", "librccl_standin.so", &["-shared"])?;
    let program = compiled("rccl_standin", "rccl_standin", &["-DPROGRAM"])?;
    Ok(Invocation::new(program).arg(library))
}

/// The user's plug-in, which has this version.
fn plug_in(version: usize) -> anyhow::Result<PathBuf> {
    let define = format!("-DVERSION={version}");
    compiled(
        "rccl_plugin",
        &format!("librccl_plugin_{version}.so"),
        &["-shared", &define],
    )
}

/// What the plug-in counted in a run of the program; the log is read and removed.
fn counted(log: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(log).context("the user's plug-in was not used")?;
    fs::remove_file(log)?;
    Ok(text)
}

/// An operation as the program says it: what is exact, and the least and most of each time.
#[derive(Debug)]
struct Told {
    exact: String,
    times: Vec<(i64, i64)>,
}

fn told(outcome: &Outcome) -> anyhow::Result<Vec<Told>> {
    let lines = outcome
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("op "));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let (exact, times) = words.split_at_checked(8).context("too few words")?;
            let times: Vec<i64> = times
                .iter()
                .map(|word| word.parse())
                .collect::<Result<_, _>>()?;
            Ok(Told {
                exact: exact.join(" "),
                times: times.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
            })
        })
        .collect()
}

/// Whether an operation is one that a proxy runs for a process beside its own: the program has a channel for them.
fn is_neighbours(exact: &str) -> bool {
    exact.rsplit(' ').nth(4) == Some("7")
}

/// The operations in a trace, as the program says them, by their beginnings, and the times of each.
fn drawn(trace: &Trace) -> anyhow::Result<Vec<(String, Vec<i64>)>> {
    let argument = |name: &str| format!("extract_arg(arg_set_id, 'debug.{name}')");
    let columns: Vec<String> = [
        "sequence",
        "rank",
        "channel",
        "direction",
        "peer",
        "steps",
        "bytes",
    ]
    .into_iter()
    .chain(TIMES)
    .map(|name| format!("coalesce({}, 0) as {name}", argument(name)))
    .collect();
    let rows = trace.query(&format!(
        "select name, {} from slice where category = 'rccl_proxy' and {} is not null order by ts",
        columns.join(", "),
        argument("steps")
    ))?;
    rows.iter()
        .map(|row| {
            let number = |name: &str| row.int(name);
            let exact = format!(
                "{} {} {} {} {} {} {} {}",
                row.text("name")?,
                number("sequence")?,
                number("rank")?,
                number("channel")?,
                row.text("direction")?,
                number("peer")?,
                number("steps")?,
                number("bytes")?,
            );
            let times = TIMES
                .iter()
                .map(|name| number(name))
                .collect::<anyhow::Result<_>>()?;
            Ok((exact, times))
        })
        .collect()
}

/// Runs the stand-in with an interface up to this version, and judges what the trace has.
fn judge(version: usize, plug_in: Option<&Path>, log: &Path) -> TestResult {
    let mut run = Run::new()
        .options(["-I", "rccl-proxy"])
        .env("RCCL_STANDIN_NEWEST", version.to_string())
        .env("RCCL_PLUGIN_LOG", log)
        .command(standin()?);
    if let Some(plug_in) = plug_in {
        run = run.env("NCCL_PROFILER_PLUGIN", plug_in);
    }
    let outcome = run.run()?;
    assert!(
        outcome
            .expect_success()
            .stdout
            .contains(&format!("plugin=rsys version={version}\n")),
        "{}",
        outcome.story()
    );
    let trace = outcome.trace()?;
    trace.assert_clean();
    let (neighbours, drawn): (Vec<_>, Vec<_>) = drawn(&trace)?
        .into_iter()
        .partition(|(exact, _)| is_neighbours(exact));
    judge_neighbours(&outcome, &trace, &neighbours)?;
    let told = told(&outcome)?;
    assert_eq!(told.len(), drawn.len());
    for (told, (exact, times)) in told.iter().zip(&drawn) {
        // Version 1 numbers its functions, and says no ranks: there is nothing by which the program's call could be found.
        let unknown = if version == 1 { 3 } else { 0 };
        let words = |line: &str| -> Vec<String> {
            line.rsplit(' ')
                .take(8 - unknown)
                .map(str::to_owned)
                .collect()
        };
        let same = words(&told.exact) == words(exact);
        assert!(same, "version {version}: {told:?} is {exact}");
        for (place, (time, (least, most))) in times.iter().zip(&told.times).enumerate() {
            assert!(
                least <= time && time <= most,
                "{told:?}: {} is {time}",
                TIMES[place]
            );
        }
    }
    // Each step once, in a row below its operation's, with its parts inside.
    let steps = trace.number(
        "select count(*) from slice where name = 'step' and category = 'rccl_proxy' and extract_arg(arg_set_id, 'debug.index') < 3",
    )?;
    assert_eq!(steps, 3 * i64::try_from(told.len() + neighbours.len())?);
    let parts = trace.query(
        "select part.name as name, count(*) as parts from slice part join slice step on part.parent_id = step.id
         where step.name = 'step' and part.ts >= step.ts and part.ts + part.dur <= step.ts + step.dur group by 1",
    )?;
    let parts: BTreeMap<&str, i64> = parts
        .iter()
        .map(|row| Ok((row.text("name")?, row.int("parts")?)))
        .collect::<anyhow::Result<_>>()?;
    let half = steps / 2;
    let mut expected = BTreeMap::from([
        ("flush", half),
        ("network", half),
        ("wait for GPU", steps),
        ("wait for data", half),
    ]);
    if version >= 4 {
        expected.insert("wait for peer", half);
    }
    assert_eq!(parts, expected);
    if version > 1 {
        // The communicator is that of the calls, whose number each operation has.
        let joined = trace.number(
            "select count(*) from slice proxy join slice call on call.category = 'rccl' and call.name = proxy.name
               and extract_arg(call.arg_set_id, 'debug.communicator') = extract_arg(proxy.arg_set_id, 'debug.communicator')
               and extract_arg(call.arg_set_id, 'debug.rank') = extract_arg(proxy.arg_set_id, 'debug.rank')
               and extract_arg(call.arg_set_id, 'debug.sequence') = extract_arg(proxy.arg_set_id, 'debug.sequence')
             where extract_arg(proxy.arg_set_id, 'debug.steps') is not null",
        )?;
        assert_eq!(joined, i64::try_from(told.len())?);
        let groups = trace.number(
            "select count(distinct parent.name) from track parent join track line on line.parent_id = parent.id
             where parent.name glob 'RCCL proxies *' and line.name glob 'channel * send to *'",
        )?;
        // The two ranks, and the neighbours.
        assert_eq!(groups, 3);
    }
    Ok(())
}

/// What proxies did for processes beside theirs belongs to no communicator and no call of this one, whatever is at the same addresses here.
fn judge_neighbours(outcome: &Outcome, trace: &Trace, drawn: &[(String, Vec<i64>)]) -> TestResult {
    let told = outcome.stdout.lines();
    let told: Vec<String> = told
        .filter_map(|line| line.strip_prefix("neighbour "))
        .map(|rest| format!("operation of a proxy 0 0 {rest}"))
        .collect();
    assert!(!told.is_empty());
    let exact: Vec<&String> = drawn.iter().map(|(exact, _)| exact).collect();
    assert_eq!(exact, told.iter().collect::<Vec<_>>());
    let misplaced = trace.number(
        "select count(*) from slice where category = 'rccl_proxy' and extract_arg(arg_set_id, 'debug.channel') = 7
           and coalesce(extract_arg(arg_set_id, 'debug.communicator'), extract_arg(arg_set_id, 'debug.rank')) is not null",
    )?;
    assert_eq!(misplaced, 0);
    Ok(())
}

#[test]
fn each_operation_and_step_is_told_once_in_every_version() -> TestResult {
    let scratch = Scratch::new("rccl-proxy")?;
    for version in 1..=6 {
        judge(version, None, &scratch.path().join("log"))?;
    }
    Ok(())
}

#[test]
fn the_users_plug_in_gets_what_it_asks_for_and_nothing_else() -> TestResult {
    let scratch = Scratch::new("rccl-proxy")?;
    let log = scratch.path().join("log");
    for version in 1..=6 {
        let plug_in = plug_in(version)?;
        let alone = standin()?
            .env("NCCL_PROFILER_PLUGIN", &plug_in)
            .env("RCCL_STANDIN_NEWEST", "6")
            .env("RCCL_PLUGIN_LOG", &log);
        run_plain(alone)?.expect_success();
        let alone = counted(&log)?;
        // It has one version, which the library then takes.
        let run = || judge(version, Some(&plug_in), &log);
        run()?;
        assert_eq!(counted(&log)?, alone, "version {version}");
    }
    Ok(())
}

/// The program where the library finds a plug-in by itself, which has version 3, unless the variable says something else.
fn with_default(scratch: &Scratch, variable: Option<&str>) -> anyhow::Result<Outcome> {
    fs::copy(plug_in(3)?, scratch.path().join("librccl-profiler.so"))?;
    // In an environment of the program's alone: the variable decides which libraries are found.
    let line = format!(
        "LD_LIBRARY_PATH={} exec {}",
        scratch.path().display(),
        standin()?
            .words
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    );
    let mut run = Run::new()
        .options(["-I", "rccl-proxy"])
        .env("RCCL_STANDIN_NEWEST", "6")
        .env("RCCL_PLUGIN_LOG", scratch.path().join("log"));
    if let Some(variable) = variable {
        run = run.env("NCCL_PROFILER_PLUGIN", variable);
    }
    run.command(script(&line)).run()
}

/// A library that names nothing opens the plug-in of a certain name, which goes on when ours is named.
#[test]
fn the_plug_in_that_the_library_would_open_by_itself_is_opened() -> TestResult {
    let scratch = Scratch::new("rccl-proxy")?;
    let outcome = with_default(&scratch, None)?;
    // It has version 3, and so the library takes that of ours.
    assert!(
        outcome
            .expect_success()
            .stdout
            .contains("plugin=rsys version=3"),
        "{}",
        outcome.story()
    );
    let counts = counted(&scratch.path().join("log"))?;
    assert!(
        counts.contains("contexts=2 open=0 bad=0 unasked=0"),
        "{counts}"
    );
    Ok(())
}

/// `none` forbids it to the library, which does not care for the case.
#[test]
fn no_plug_in_of_the_users_is_opened_where_there_is_to_be_none() -> TestResult {
    for none in ["none", "None"] {
        let scratch = Scratch::new("rccl-proxy")?;
        let outcome = with_default(&scratch, Some(none))?;
        assert!(
            outcome
                .expect_success()
                .stdout
                .contains("plugin=rsys version=6"),
            "{}",
            outcome.story()
        );
        assert!(!scratch.path().join("log").exists(), "{none}");
        assert!(!drawn(&outcome.trace()?)?.is_empty(), "{none}");
    }
    Ok(())
}

/// More communicators than there is room for: those that have it are recorded on, and the user's plug-in has all of them.
#[test]
fn a_crowd_of_communicators_leaves_the_others_recorded() -> TestResult {
    let scratch = Scratch::new("rccl-proxy")?;
    let log = scratch.path().join("log");
    for plug_in in [None, Some(plug_in(4)?)] {
        let mut run = Run::new()
            .options(["-I", "rccl-proxy"])
            .env("RCCL_STANDIN_NEWEST", "4")
            .env("RCCL_STANDIN_CROWD", "1100")
            .env("RCCL_PLUGIN_LOG", &log)
            .command(standin()?);
        if let Some(plug_in) = &plug_in {
            run = run
                .env("NCCL_PROFILER_PLUGIN", plug_in)
                // Nothing but messages: what proxies do is asked for by rsys alone.
                .env("RCCL_PLUGIN_MASK", "0x4");
        }
        let outcome = run.run()?;
        let told = told(outcome.expect_success())?;
        assert!(!told.is_empty());
        let drawn = drawn(&outcome.trace()?)?;
        let own = drawn.iter().filter(|(exact, _)| !is_neighbours(exact));
        assert_eq!(told.len(), own.count(), "{}", outcome.story());
        if plug_in.is_some() {
            let counts = counted(&log)?;
            assert!(
                counts.contains("contexts=1102 open=0 bad=0 unasked=0"),
                "{counts}"
            );
        }
    }
    Ok(())
}

/// What is under way at an exec is recorded up to then, and if that fails the rest of it: nothing twice.
#[test]
fn what_goes_on_after_an_exec_that_failed_is_told_in_two_parts() -> TestResult {
    let outcome = Run::new()
        .options(["-I", "rccl-proxy"])
        .env("RCCL_STANDIN_NEWEST", "6")
        .env("RCCL_STANDIN_EXEC", "1")
        .command(standin()?)
        .run()?;
    let told = told(outcome.expect_success())?;
    let trace = outcome.trace()?;
    trace.assert_clean();
    let drawn: Vec<_> = drawn(&trace)?
        .into_iter()
        .filter(|(exact, _)| !is_neighbours(exact))
        .collect();
    let [(first, first_times), (rest, rest_times), others @ ..] = &drawn[..] else {
        anyhow::bail!("{drawn:?}");
    };
    let split = |exact: &str| -> anyhow::Result<(String, i64)> {
        let (what, bytes) = exact.rsplit_once(' ').context("no bytes")?;
        Ok((what.to_owned(), bytes.parse()?))
    };
    let (whole, first, rest) = (split(&told[0].exact)?, split(first)?, split(rest)?);
    assert_eq!([&first.0, &rest.0], [&whole.0; 2]);
    assert_eq!(first.1 + rest.1, whole.1);
    for (place, (least, most)) in told[0].times.iter().enumerate() {
        let both = first_times[place] + rest_times[place];
        assert!(
            (*least..=*most).contains(&both),
            "{both} of {:?}: {}",
            told[0],
            TIMES[place]
        );
    }
    assert_eq!(others.len() + 1, told.len());
    // One ends where the other begins, of steps as of operations.
    for what in ["index') = 1", "steps') is not null"] {
        let rows = trace.query(&format!(
            "select ts, ts + dur as until, coalesce(extract_arg(arg_set_id, 'debug.detail'), '') as detail from slice
             where category = 'rccl_proxy' and extract_arg(arg_set_id, 'debug.{what} order by ts limit 2"
        ))?;
        let rows: Vec<_> = rows.iter().collect();
        assert_eq!(rows[0].int("until")?, rows[1].int("ts")?, "{what}");
        let details = [rows[0].text("detail")?, rows[1].text("detail")?];
        assert_eq!(details, ["unfinished", ""], "{what}");
    }
    Ok(())
}

#[test]
fn a_version_that_is_not_known_is_left_alone_and_said() -> TestResult {
    let scratch = Scratch::new("rccl-proxy")?;
    let log = scratch.path().join("log");
    let plug_in = plug_in(7)?;
    let outcome = Run::new()
        .options(["-I", "rccl-proxy"])
        .env("RCCL_STANDIN_NEWEST", "7")
        .env("NCCL_PROFILER_PLUGIN", &plug_in)
        .env("RCCL_PLUGIN_LOG", &log)
        .command(standin()?)
        .run()?;
    let outcome = outcome.expect_success();
    assert!(
        outcome.stdout.contains("plugin=user version=7"),
        "{}",
        outcome.story()
    );
    assert!(
        outcome
            .stderr
            .contains("a version of the interface that rsys does not know"),
        "{}",
        outcome.story()
    );
    assert!(counted(&log)?.contains("bad=0"));
    assert!(drawn(&outcome.trace()?)?.is_empty());
    Ok(())
}

#[test]
fn without_being_asked_for_nothing_is_touched() -> TestResult {
    let outcome = Run::new()
        .options(["-I", "rccl"])
        .command(standin()?)
        .run()?;
    assert!(
        outcome
            .expect_success()
            .stdout
            .contains("plugin=none version=0"),
        "{}",
        outcome.story()
    );
    assert!(drawn(&outcome.trace()?)?.is_empty());
    Ok(())
}

/// The real library: what it lets the user's plug-in have is what it lets it have without us.
#[test]
#[ignore = "needs `cargo xtask runtimes rocm7-rccl`, which is large"]
fn rccl_7_serves_both_plug_ins() -> TestResult {
    let stack = Stack::Rocm7;
    skip_if_missing!(stack.missing_rccl());
    let scratch = Scratch::new("rccl-proxy")?;
    let log = scratch.path().join("log");
    let machine = Machine::new(stack)?.gpus(2);
    for mask in MASKS {
        // What the library says of its own idle threads depends on the moment.
        let run = |run: Run| -> anyhow::Result<String> {
            let program = library_program(stack, "rccl_check", &["rccl", "amdhip64"])?;
            let outcome = run
                .env("NCCL_PROFILER_PLUGIN", plug_in(4)?)
                .env("RCCL_PLUGIN_LOG", &log)
                .env("RCCL_PLUGIN_MASK", mask)
                .command(machine.run(program))
                .run()?;
            assert!(outcome.expect_success().stdout.contains("groups=26"));
            counted(&log)
        };
        let alone = run(Run::bare())?;
        let beside = run(Run::new().options(["-I", "rccl-proxy"]))?;
        assert_eq!(alone, beside);
        assert!(
            alone.contains("contexts=2 open=0 bad=0 unasked=0"),
            "{alone}"
        );
    }
    Ok(())
}

/// The real library with its network between two processes. Kernels have no effect on a simulated GPU, so all operations are still under way at the end: as they
/// are in a job that hangs.
#[test]
#[ignore = "needs `cargo xtask runtimes rocm7-rccl`, which is large"]
fn what_is_under_way_in_rccl_7_is_told_at_the_end() -> TestResult {
    let stack = Stack::Rocm7;
    skip_if_missing!(stack.missing_rccl());
    let program = library_program(stack, "rccl_network", &["rccl", "amdhip64"])?.path();
    let machine = Machine::new(stack)?.gpus(2);
    let folder = Scratch::new("rccl-proxy")?;
    let line = format!(
        "NCCL_HOSTID=one {program} 2 1 {id} {plug_in} & NCCL_HOSTID=two {program} 2 0 {id} {plug_in} && wait",
        program = program.display(),
        plug_in = plug_in(4)?.display(),
        id = folder.path().join("id").display(),
    );
    let outcome = Run::new()
        .options(["-I", "rccl-proxy"])
        .env("NCCL_PROFILER_PLUGIN", plug_in(4)?)
        .command(machine.run(script(&line)))
        .run()?;
    let mut ranks = Vec::new();
    let mut waiting = BTreeSet::new();
    for trace in outcome.expect_success().traces()? {
        let operations = drawn(&trace)?;
        if operations.is_empty() {
            continue;
        }
        trace.assert_clean();
        let rank = trace.number(
            "select distinct extract_arg(arg_set_id, 'debug.rank') from slice where name = 'ncclAllReduce' and category = 'rccl'",
        )?;
        ranks.push(rank);
        let peer = 1 - rank;
        for (exact, times) in &operations {
            let words: Vec<&str> = exact.split(' ').collect();
            assert_eq!(words[0], "ncclAllReduce", "{exact}");
            assert!(["0", "1"].contains(&words[1]), "{exact}");
            assert_eq!(
                [words[2], words[5]],
                [rank.to_string(), peer.to_string()],
                "{exact}"
            );
            // One that has begun a step waits: it sends what the GPU has not made, or receives what nobody sends.
            let waits = if words[4] == "send" {
                times[0]
            } else {
                times[2]
            };
            if waits > 0 {
                waiting.insert((rank, words[4].to_owned()));
            }
        }
        let unfinished = trace.number(
            "select count(*) from slice where category = 'rccl_proxy' and extract_arg(arg_set_id, 'debug.steps') is not null
               and extract_arg(arg_set_id, 'debug.detail') = 'unfinished'",
        )?;
        assert_eq!(unfinished, i64::try_from(operations.len())?);
        // Both collectives, in both directions.
        let kinds = trace.number(
            "select count(distinct extract_arg(arg_set_id, 'debug.sequence') || extract_arg(arg_set_id, 'debug.direction'))
             from slice where category = 'rccl_proxy' and extract_arg(arg_set_id, 'debug.steps') is not null",
        )?;
        assert_eq!(kinds, 4);
    }
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1]);
    assert_eq!(waiting.len(), 4, "{waiting:?}");
    Ok(())
}
