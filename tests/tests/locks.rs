//! Waits for locks: their times, who held the lock, counts, and programs that do with locks what programs do.

use std::process::Command;

use rsys_tests::{
    Outcome, Run, TestResult, Trace, missing_python_module, missing_tool, python, run_plain,
    script, skip_if_missing, target_dir, workload,
};

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
        let truth = outcome.number("waited_ns")?;
        let sum = waits.iter().map(|(ns, ..)| *ns).sum::<i64>() as f64;
        if kind == "barrier" {
            // Whichever comes last does not wait.
            assert!(waits.len() >= ROUNDS / 2 && sum <= truth, "{what}");
            continue;
        }
        assert!(
            sum > 0.95 * truth && sum < 1.001 * truth,
            "{sum} of {truth}: {what}"
        );
        if ["condition", "join"].contains(&kind) {
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
    let told = trace.number(
        "select max(extract_arg(arg_set_id, 'debug.longest_wait_ns')) from slice
         where category = 'mutex' and extract_arg(arg_set_id, 'debug.kind') = 'mutex'",
    )? as f64;
    assert!(
        told > 0.9 * longest && told <= 1.001 * longest,
        "{told} of {longest}"
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

/// A database, a virtual machine and a learning framework start and work with all three backends on.
#[test]
#[ignore = "large programs"]
fn large_programs_run() -> TestResult {
    for (missing, line) in [
        (missing_tool("java"), "java -version"),
        (
            missing_python_module("torch"),
            "/usr/bin/python3 -c 'import torch; print(torch.ones(64, 64).matmul(torch.ones(64, 64)).sum())'",
        ),
        (
            missing_tool("initdb"),
            "d=$(mktemp -d) && chown nobody $d && chmod 755 $d && su nobody -s /bin/sh -c \"initdb -D $d/db >/dev/null && \
             echo 'select count(*) from pg_class' | $(dirname $(readlink -f $(which initdb)))/postgres --single -D $d/db postgres\"; rm -r $d",
        ),
    ] {
        if let Some(why) = missing {
            println!("skipped: {why}");
            continue;
        }
        let outcome = Run::new().options(ALL).command(script(line)).run()?;
        outcome.expect_success();
        outcome.all_clean()?;
    }
    Ok(())
}
