//! Waits for locks: their times, who held the lock, counts, and programs that do with locks what programs do.

use std::process::Command;

use anyhow::Context;
use rsys_tests::{
    Outcome, Run, TestResult, Trace, answer, missing_tool, python, run_plain, skip_if_missing,
    target_dir, workload,
};
use serde_json::Value;

/// The rows of a table of an answer.
fn rows<'a>(answer: &'a Value, table: &str) -> &'a [Value] {
    answer[table].as_array().map_or(&[], Vec::as_slice)
}

const ALL: [&str; 4] = ["-I", "mutex-locks", "rw-locks", "spin-locks"];

fn profiled(arguments: &[&str]) -> anyhow::Result<Outcome> {
    let program = workload("locks").args(arguments);
    Run::new().options(ALL).command(program).run()
}

/// A sum over the lines of all locks of a category.
fn counted(trace: &Trace, category: &str, what: &str) -> anyhow::Result<i64> {
    trace.number(&format!(
        "select cast(sum(extract_arg(s.arg_set_id, 'debug.{what}')) as int) from slice s join track t on s.track_id = t.id
         where t.name = 'locks' and s.category = '{category}'"
    ))
}

/// Waits of the main thread in a function, in the order of their times: how long, who held the lock and by which stack.
fn waits(trace: &Trace, function: &str) -> anyhow::Result<Vec<(i64, i64, String)>> {
    let rows = trace.query(&format!(
        "select s.dur as dur, coalesce(extract_arg(s.arg_set_id, 'debug.holder_tid'), 0) as holder,
         coalesce(extract_arg(s.arg_set_id, 'debug.holder_stack'), '') as stack
         from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid)
         where tt.name = 'calls' and s.name = '{function}' and s.dur > 1000000 and t.is_main_thread order by s.ts"
    ))?;
    rows.iter()
        .map(|row| {
            Ok((
                row.int("dur")?,
                row.int("holder")?,
                row.text("stack")?.to_owned(),
            ))
        })
        .collect()
}

#[test]
fn a_wait_is_as_long_as_the_program_says_and_names_the_holder() -> TestResult {
    const ROUNDS: usize = 12;
    for (kind, function) in [
        ("mutex", "pthread_mutex_lock"),
        ("timed", "pthread_mutex_timedlock"),
        ("c11", "mtx_lock"),
        ("read", "pthread_rwlock_rdlock"),
        ("write", "pthread_rwlock_wrlock"),
        ("spin", "pthread_spin_lock"),
        ("semaphore", "sem_wait"),
        ("condition", "pthread_cond_wait"),
        ("barrier", "pthread_barrier_wait"),
        ("join", "pthread_join"),
    ] {
        let outcome = profiled(&["held", kind, &ROUNDS.to_string(), "4"])?;
        let trace = outcome.expect_success().trace()?;
        trace.assert_clean();
        let what = format!("{kind}\n{}", outcome.story());
        let waits = waits(&trace, function)?;
        let (truth, blocked) = (outcome.number("waited_ns")?, outcome.number("blocked_ns")?);
        let sum = waits.iter().map(|(ns, ..)| *ns).sum::<i64>() as f64;
        // On its way to the lock and back the waiter may have to wait for a processor.
        assert!(
            sum > 0.95 * blocked && sum < 1.001 * truth,
            "{sum} of {blocked} to {truth}: {what}"
        );
        if ["condition", "barrier", "join"].contains(&kind) {
            continue;
        }
        assert_eq!(waits.len(), ROUNDS, "{what}");
        let holder = trace.number(
            "select t.tid from thread t where not t.is_main_thread and exists
             (select 1 from thread_track tt where tt.utid = t.utid)",
        );
        for (round, (_, tid, stack)) in waits.iter().enumerate() {
            if let Ok(holder) = &holder {
                assert!(*tid == *holder || round == 0, "{round}: {tid}, {what}");
            }
            // Until somebody has waited for it, nobody leaves a stack.
            let way = ["hold_by_one_way", "hold_by_another"][round % 2];
            let expected = format!("hold <- {way} <- holder");
            assert!(
                stack.contains(&expected) || round == 0,
                "{round}: {stack}, {what}"
            );
        }
        let category = match kind {
            "read" | "write" => "rwlock",
            "spin" => "spinlock",
            _ => "mutex",
        };
        assert!(
            counted(&trace, category, "contended")? >= ROUNDS as i64,
            "{what}"
        );
        // Each wait has the stack of the waiter: a sample of the time in calls.
        let stacks = trace.metadata()?.int("call_stacks")?;
        assert!(stacks >= ROUNDS as i64, "{stacks}: {what}");
        if kind == "mutex" {
            let program = workload("locks").args(["held", kind, "5", "2"]);
            let full = Run::new().options(ALL).options(["--summary", "full"]);
            let outcome = full.command(program).run()?;
            let line = outcome.stderr.lines().find(|line| line.contains("LOCK"));
            assert!(
                line.is_some_and(|line| line.contains("held by take")),
                "{what}"
            );
        }
    }
    Ok(())
}

#[test]
fn every_acquisition_is_counted() -> TestResult {
    let outcome = profiled(&["count", "3", "2000"])?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    for (category, expected) in [("mutex", 12_003), ("rwlock", 6_000), ("spinlock", 6_000)] {
        // The ends of threads are waited for, too.
        let sum = counted(&trace, category, "acquisitions")?;
        assert_eq!(sum, expected, "{category}\n{}", outcome.story());
    }
    Ok(())
}

#[test]
fn short_waits_are_counted_and_not_drawn() -> TestResult {
    let program = workload("locks").args(["held", "mutex", "5", "2"]);
    let run = Run::new()
        .options(["--locks-shortest", "30s", "-I", "mutex-locks"])
        .command(program);
    let outcome = run.run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let drawn = trace.number("select count(*) from slice where category = 'mutex' and dur > 0")?;
    assert_eq!(drawn, 0, "{}", outcome.story());
    assert!(counted(&trace, "mutex", "contended")? >= 5);
    let longest = outcome.number("longest_ns")?;
    let blocked = outcome.number("longest_blocked_ns")?;
    let told = trace.number(
        "select max(extract_arg(arg_set_id, 'debug.longest_wait_ns')) from slice
         where category = 'mutex' and extract_arg(arg_set_id, 'debug.kind') = 'mutex'",
    )? as f64;
    assert!(
        told > 0.9 * blocked && told <= 1.001 * longest,
        "{told} of {blocked} to {longest}"
    );
    Ok(())
}

#[test]
fn a_kind_that_nobody_asked_for_is_left_alone() -> TestResult {
    let program = workload("locks").args(["held", "mutex", "3", "2"]);
    let run = Run::new().options(["-I", "rw-locks"]).command(program);
    let outcome = run.run()?;
    let trace = outcome.expect_success().trace()?;
    let locks = trace.number("select count(*) from slice where category in ('mutex', 'rwlock')")?;
    assert_eq!(locks, 0, "{}", outcome.story());
    Ok(())
}

#[test]
fn odd_uses_of_locks_give_what_they_give_without_us() -> TestResult {
    run_plain(workload("locks").args(["odd"]))?.expect_success();
    let outcome = profiled(&["odd"])?;
    outcome.expect_success().trace()?.assert_clean();
    Ok(())
}

#[test]
fn storms_end() -> TestResult {
    for _ in 0..3 {
        let outcome = profiled(&["storm", "4", "150"])?;
        outcome.expect_success();
        assert!(outcome.number("children")? >= 8.0, "{}", outcome.story());
        assert!(outcome.number("signals")? > 0.0, "{}", outcome.story());
        outcome.all_clean()?;
    }
    Ok(())
}

#[test]
fn python_runs_with_its_locks_recorded() -> TestResult {
    let outcome = Run::new()
        .options(ALL)
        .command(python("lock_habits.py").args(["busy", "1"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    // The main thread wants the interpreter's lock back from the one that computes, and that from it.
    for holder in ["!=", "="] {
        let waits = trace.number(&format!(
            "select count(*) from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid)
             join thread h on h.upid = t.upid and h.tid = extract_arg(s.arg_set_id, 'debug.holder_tid')
             where s.name = 'Python GIL' and s.dur > 0 and t.is_main_thread {holder} 1 and h.utid != t.utid",
        ))?;
        assert!(waits > 0, "{holder}: {}", outcome.story());
    }
    assert!(
        counted(&trace, "mutex", "wait_ns")? > 0,
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn without_the_backends_nothing_stands_in_front_of_locks_or_libraries() -> TestResult {
    skip_if_missing!(missing_tool("nm"));
    let exports = |file: &str| -> anyhow::Result<String> {
        let library = target_dir().join("release").join(file);
        let output = Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library)
            .output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let plain = exports("librsys_agent.so")?;
    let parallel = exports("librsys_agent_parallel.so")?;
    let locks = exports("librsys_agent_locks.so")?;
    let of_libraries = [" MPI_Init", " ompt_start_tool", " kokkosp_", " GOMP_"];
    for library in of_libraries {
        assert!(!plain.contains(library), "{library}");
        assert!(
            parallel.contains(library) && locks.contains(library),
            "{library}"
        );
    }
    let of_locks = " pthread_mutex_lock";
    assert!(!plain.contains(of_locks) && !parallel.contains(of_locks) && locks.contains(of_locks));
    for names in [&plain, &parallel, &locks] {
        assert!(names.contains(" pthread_create"));
    }
    // What programs could take for a library that is there.
    assert!(
        plain.lines().count() < 250,
        "{} names",
        plain.lines().count()
    );
    Ok(())
}

/// Programs look whether a library is there by a weak reference to one of its functions.
#[test]
fn what_is_not_recorded_is_not_there_for_weak_references() -> TestResult {
    let looked_for = ["MPI_Init", "ompt_start_tool", "GOMP_parallel"];
    let said = |found: &str| -> String {
        let lines = looked_for.iter().map(|name| format!("{name} {found}\n"));
        lines.collect()
    };
    for (backend, expected) in [("roctx", said("absent")), ("mpip", said("present"))] {
        let run = Run::new().options(["-I", backend]);
        let outcome = run.command(workload("weak_names")).run()?;
        assert_eq!(
            outcome.expect_success().stdout,
            expected,
            "{}",
            outcome.story()
        );
    }
    Ok(())
}

/// Every number of `rsys-report locks` is that of the trace's own track.
#[test]
fn the_answer_about_locks_is_that_of_the_trace() -> TestResult {
    const ROUNDS: u64 = 8;
    let outcome = profiled(&["held", "mutex", &ROUNDS.to_string(), "2"])?;
    let trace = outcome.expect_success().trace()?;
    let locks = answer("locks", &outcome.files())?;
    let said = rows(&locks, "locks");
    let in_trace = trace.query(
        "select extract_arg(s.arg_set_id, 'debug.kind') as kind, extract_arg(s.arg_set_id, 'debug.acquisitions') as taken,
         extract_arg(s.arg_set_id, 'debug.contended') as contended, extract_arg(s.arg_set_id, 'debug.wait_ns') as wait,
         extract_arg(s.arg_set_id, 'debug.longest_wait_ns') as longest
         from slice s join track t on s.track_id = t.id where t.name = 'locks'",
    )?;
    let mut expected = Vec::new();
    for row in in_trace.iter() {
        let numbers = ["taken", "contended", "wait", "longest"].map(|name| row.int(name));
        let numbers: Vec<i64> = numbers.into_iter().collect::<anyhow::Result<_>>()?;
        expected.push((row.text("kind")?.to_owned(), numbers));
    }
    let mut found: Vec<(String, Vec<i64>)> = said
        .iter()
        .map(|row| {
            let numbers = ["acquisitions", "contended", "wait_ns", "longest_ns"];
            let numbers = numbers.iter().filter_map(|name| row[*name].as_i64());
            let kind = row["kind"].as_str().unwrap_or_default();
            (kind.to_owned(), numbers.collect())
        })
        .collect();
    expected.sort();
    found.sort();
    assert!(expected == found && !found.is_empty(), "{locks:#}");
    // The one that is held comes first, with the places of both.
    let first = &said[0];
    let is_at = |key: &str, place: &str| {
        let text = first[key].as_str();
        text.is_some_and(|text| text.starts_with(place) && text.contains("locks.c:"))
    };
    assert!(
        is_at("waiter", "take ") && is_at("holder", "take "),
        "{locks:#}"
    );
    let waits = rows(&locks, "lock_waits").iter();
    let waits: u64 = waits
        .filter(|row| row["lock"] == first["lock"])
        .filter_map(|row| row["waits"].as_u64())
        .sum();
    assert!((ROUNDS..=ROUNDS + 2).contains(&waits), "{locks:#}");
    let summary = answer("summary", &outcome.files())?;
    assert_eq!(summary["locks"]["locks"], locks["locks"]);
    // Runs that recorded none say nothing of them.
    let bare = Run::new().command(workload("locks").args(["count", "2", "400000"]));
    let summary = answer("summary", &bare.run()?.expect_success().files())?;
    assert!(summary.get("locks").is_none(), "{summary:#}");
    Ok(())
}

/// Who waits for a Python interpreter's lock is told the line of Python that the holder runs.
#[test]
fn the_holder_of_the_interpreters_lock_has_its_line() -> TestResult {
    let outcome = Run::new()
        .options(ALL)
        .freq(1000)
        .command(python("lock_habits.py").args(["busy", "1"]))
        .run()?;
    let locks = answer("locks", &outcome.expect_success().files())?;
    let of_gil = |row: &&Value| row["kind"] == "Python GIL";
    let waits = rows(&locks, "lock_waits").iter().filter(of_gil);
    let (mut all, mut told) = (0, 0);
    for row in waits {
        let ns = row["wait_ns"].as_u64().unwrap_or(0);
        all += ns;
        let holder = row["holder"].as_str().unwrap_or_default();
        if holder.contains("(lock_habits.py:") {
            told += ns;
        }
    }
    assert!(
        all > 0 && told * 10 >= all * 8,
        "{told} of {all}: {locks:#}"
    );
    Ok(())
}

/// Waits that were not recorded, but seen from outside, have a table of their own: each thread with what it ran, waited, and for whom.
#[test]
fn waits_for_the_interpreters_lock_that_were_seen_are_estimates() -> TestResult {
    let outcome = Run::new()
        .options(["--realtime"])
        .freq(1000)
        .command(python("lock_habits.py").args(["busy", "2"]))
        .run()?;
    let locks = answer("locks", &outcome.expect_success().files())?;
    assert!(rows(&locks, "locks").is_empty(), "{locks:#}");
    let threads = rows(&locks, "interpreter_threads");
    let of = |function: &str| {
        let mut threads = threads.iter();
        threads.find(|row| {
            row["holds_function"]
                .as_str()
                .is_some_and(|held| held.contains(function))
        })
    };
    let grinds = of("grinds").context("the thread that computes")?;
    let waiter = threads
        .iter()
        .find(|row| row["thread"] == row["process"])
        .context("the main thread")?;
    assert!(
        waiter["waits_function"]
            .as_str()
            .is_some_and(|place| place.contains("lock_habits.py")),
        "{locks:#}"
    );
    assert_eq!(waiter["held_by_thread"], grinds["thread"], "{locks:#}");
    let ns = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0);
    assert!(ns(waiter, "lock_wait_ns") > 0, "{locks:#}");
    assert!(ns(waiter, "held_ns") > 0, "{locks:#}");
    assert!(
        ns(grinds, "python_ns") > ns(waiter, "python_ns"),
        "{locks:#}"
    );
    Ok(())
}

/// Threads that wait for each other for ever are no reason to hang: the program ends as it does alone, and the waits are there up to its end.
fn deadlocks_end(children: usize) -> TestResult {
    let program = || workload("lock_storms").args(["deadlock", "4", &children.to_string()]);
    run_plain(program())?.expect_success();
    let outcome = Run::new().options(ALL).command(program()).run()?;
    outcome.expect_success().all_clean()?;
    assert_eq!(outcome.files().len(), children + 1, "{}", outcome.story());
    // Each of the four waits for another one of the four, up to the end of its process.
    let answer = answer("locks", &outcome.files())?;
    let of_ring = |row: &&Value| row["function"] == "wants_the_next";
    let waits = rows(&answer, "lock_waits").iter().filter(of_ring);
    let waits: u64 = waits.filter_map(|row| row["waits"].as_u64()).sum();
    assert_eq!(waits, 4 * children as u64, "{answer:#}");
    Ok(())
}

/// A thread of high priority waits for one of low priority, while one between them computes.
fn inversions_end(rounds: usize) -> TestResult {
    let program = || workload("lock_storms").args(["inversion", &rounds.to_string()]);
    run_plain(program())?.expect_success();
    let outcome = Run::new().options(ALL).command(program()).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let contended = counted(&trace, "mutex", "contended")?;
    assert!(contended >= rounds as i64, "{}", outcome.story());
    Ok(())
}

#[test]
fn deadlocks_and_priority_inversions_end() -> TestResult {
    deadlocks_end(8)?;
    inversions_end(12)
}

#[test]
#[ignore = "twenty times"]
fn storms_of_deadlocks_and_priority_inversions_end() -> TestResult {
    for _ in 0..20 {
        deadlocks_end(16)?;
        inversions_end(60)?;
        let outcome = profiled(&["storm", "4", "150"])?;
        outcome.expect_success().all_clean()?;
    }
    Ok(())
}
