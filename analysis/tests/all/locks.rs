//! Locks: counts as they are in traces, waits by place, and who held a lock meanwhile.

use crate::common::{batch, model, row, rows, stack, sum, thread};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::host::locks::Locks;
use rsys_analysis::table::Answer;
use rsys_traces::model::{Basis, LockCounts, LockWait, Model, ProcessId, Sample, StackId};

fn wait(model: &mut Model, function: &str, (start_ns, end_ns): (u64, u64)) -> LockWait {
    LockWait {
        start_ns,
        end_ns,
        process: ProcessId::new(0),
        thread: thread(0),
        function: model.texts.intern(function),
        address: 0xA0,
        ..LockWait::default()
    }
}

fn sample(time_ns: u64, index: usize, basis: Basis, stack: StackId) -> Sample {
    Sample {
        time_ns,
        weight: 10,
        thread: thread(index),
        stack,
        basis,
        ..Sample::default()
    }
}

/// Two threads want one mutex, one of them by two ways, and one wants the interpreter's lock.
fn answer(with_counts: bool) -> Answer {
    let mut model = model();
    let libc = "pthread_mutex_lock@/lib/libc.so.6";
    let ways = ["take", "retry"].map(|way| stack(&mut model, &["[calls]@", "main", way, libc]));
    let python = stack(&mut model, &["serve@/home/me/serve.py"]);
    let computes = stack(
        &mut model,
        &[
            "work@/home/me/work.py",
            "sum@/usr/lib/python3.11/statistics.py",
        ],
    );
    let holder = model.texts.intern("hold (hold.c:7)");
    let mutex = |model: &mut Model, times| LockWait {
        holder,
        holder_tid: 11,
        ..wait(model, "pthread_mutex_lock", times)
    };
    let mut waits = vec![
        mutex(&mut model, (100, 140)),
        mutex(&mut model, (200, 210)),
        mutex(&mut model, (300, 305)),
    ];
    for times in [(1000, 1100), (2000, 2050), (9000, 9001)] {
        waits.push(LockWait {
            address: 0xB0,
            holder_tid: 11,
            ..wait(&mut model, "Python GIL", times)
        });
    }
    let mut counts = LockCounts {
        process: ProcessId::new(0),
        kind: model.texts.intern("mutex"),
        address: 0xA0,
        acquisitions: 50,
        contended: 7,
        wait_ns: 58,
        longest_ns: 40,
        waiter: model.texts.intern("take (a.c:1)"),
        holder,
    };
    let mut locks = Locks::default();
    for (number, wait) in waits.iter().enumerate() {
        let stack = match wait.start_ns {
            100 | 300 => ways[0],
            200 => ways[1],
            _ => python,
        };
        locks.take(&batch(|batch| {
            batch.lock_waits.push(*wait);
            let start_ns = wait.start_ns;
            batch
                .samples
                .push(sample(start_ns, 0, Basis::CallTime, stack));
            // The holder computes while others wait, at the end of its period, and long after.
            let at_ns = [0, 0, 0, 1050, 2055, 9500][number];
            if at_ns > 0 {
                batch
                    .samples
                    .push(sample(at_ns, 1, Basis::CpuTime, computes));
            }
        }));
    }
    if with_counts {
        let rest = LockCounts {
            address: 0,
            acquisitions: 3,
            contended: 0,
            wait_ns: 0,
            ..counts
        };
        counts.process = ProcessId::new(0);
        locks.take(&batch(|batch| batch.locks.extend([rest, counts])));
    }
    locks.answer(&model, "")
}

#[test]
fn counts_are_those_of_the_trace() {
    let answer = answer(true);
    let locks = rows(&answer, "locks");
    assert_eq!(locks.len(), 2, "{locks:#?}");
    let own = row(&locks, "lock", "0xa0");
    assert_eq!(own["acquisitions"], 50);
    assert_eq!(own["contended"], 7);
    assert_eq!(own["wait_ns"], 58);
    assert_eq!(own["longest_ns"], 40);
    assert_eq!(own["waiter"], "take (a.c:1)");
    assert_eq!(own["holder"], "hold (hold.c:7)");
    assert_eq!(row(&locks, "lock", "other locks")["acquisitions"], 3);
}

#[test]
fn waits_are_told_apart_by_the_places_of_waiters_and_holders() {
    let waits = rows(&answer(true), "lock_waits");
    let take = row(&waits, "function", "take");
    assert_eq!((&take["waits"], &take["wait_ns"]), (&2.into(), &45.into()));
    assert_eq!(take["longest_ns"], 40);
    assert_eq!(take["holder"], "hold (hold.c:7)");
    assert_eq!(row(&waits, "function", "retry")["wait_ns"], 10);
    assert_eq!(sum(&waits, "wait_ns"), 55 + 151);
}

#[test]
fn who_holds_the_interpreters_lock_is_what_its_thread_computes() {
    let waits = rows(&answer(true), "lock_waits");
    let gil: Vec<_> = waits
        .iter()
        .filter(|row| row["kind"] == "Python GIL")
        .collect();
    assert_eq!(gil.len(), 2, "{gil:#?}");
    assert_eq!(gil[0]["function"], "serve");
    assert_eq!(gil[0]["holder"], "work (work.py:1)");
    assert_eq!(
        (&gil[0]["waits"], &gil[0]["wait_ns"]),
        (&2.into(), &150.into())
    );
    // What the thread does later says nothing of the last one.
    assert!(gil[1]["holder"].is_null(), "{gil:#?}");
}

#[test]
fn a_process_that_was_killed_has_its_waits() {
    let answer = answer(false);
    let locks = rows(&answer, "locks");
    assert_eq!(locks.len(), 2, "{locks:#?}");
    let own = row(&locks, "kind", "mutex");
    assert!(own["acquisitions"].is_null());
    assert_eq!(
        (&own["contended"], &own["wait_ns"]),
        (&3.into(), &55.into())
    );
    assert_eq!(own["waiter"], "take");
    let gil = row(&locks, "kind", "Python GIL");
    assert_eq!(gil["holder"], "work (work.py:1)");
}

/// What was seen from outside stands in a table of its own, as estimates; not beside what was recorded.
#[test]
fn waits_for_the_interpreters_lock_that_were_seen_have_their_threads() {
    let answer = |is_recorded: bool| {
        let mut model = model();
        let mark = "the interpreter's lock (GIL)@";
        let waits = stack(&mut model, &["serve@/home/me/serve.py", mark]);
        let runs = stack(&mut model, &["work@/home/me/work.py"]);
        let mut locks = Locks::default();
        let recorded = LockWait {
            is_interpreter: true,
            ..wait(&mut model, "Python GIL", (100, 110))
        };
        let seen = LockWait {
            is_interpreter: true,
            is_sampled: true,
            holder_tid: 11,
            ..wait(&mut model, "", (100, 130))
        };
        locks.take(&batch(|batch| {
            batch.lock_waits.push(seen);
            if is_recorded {
                batch.lock_waits.push(recorded);
            }
            // One wait of which two looks tell, each at its end, and a shorter one before.
            for (end_ns, weight) in [(50, 15), (120, 20), (130, 10)] {
                batch.samples.push(Sample {
                    weight,
                    ..sample(end_ns, 0, Basis::WaitTime, waits)
                });
            }
            for time_ns in [100, 110, 120] {
                batch.samples.push(sample(time_ns, 1, Basis::CpuTime, runs));
            }
        }));
        locks.answer(&model, "")
    };
    let seen = answer(false);
    assert!(!seen.is_empty);
    assert!(rows(&seen, "locks").is_empty());
    let threads = rows(&seen, "interpreter_threads");
    let waiter = row(&threads, "waits_function", "serve");
    assert_eq!(
        (&waiter["lock_wait_ns"], &waiter["python_ns"]),
        (&45.into(), &0.into())
    );
    assert_eq!(
        (&waiter["longest_ns"], &waiter["longest_at_ns"]),
        (&30.into(), &100.into())
    );
    assert_eq!(
        (&waiter["held_by_thread"], &waiter["held_ns"]),
        (&11.into(), &30.into())
    );
    let holder = row(&threads, "holds_function", "work");
    assert_eq!(
        (&holder["lock_wait_ns"], &holder["python_ns"]),
        (&0.into(), &30.into())
    );
    let recorded = answer(true);
    assert_eq!(rows(&recorded, "locks").len(), 1);
    assert!(
        recorded
            .tables
            .iter()
            .all(|table| table.key != "interpreter_threads")
    );
}

#[test]
fn without_locks_a_note_says_how_they_are_recorded() {
    let answer = Locks::default().answer(&model(), "");
    assert!(answer.is_empty);
    assert!(answer.notes.iter().any(|note| note.contains("mutex-locks")));
}
