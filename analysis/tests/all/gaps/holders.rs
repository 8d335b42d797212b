//! Who holds the lock for which a thread waits.

use super::*;

const MS: u64 = 1_000_000;

/// A wait of the first thread for the lock, which the thread with this id holds at this place.
fn wait(start_ms: u64, end_ms: u64, holder_tid: u32, holder: TextId, is_sampled: bool) -> LockWait {
    LockWait {
        start_ns: start_ms * MS,
        end_ns: end_ms * MS,
        process: ProcessId::new(0),
        thread: ThreadId::new(0),
        holder_tid,
        holder,
        is_interpreter: true,
        is_sampled,
        ..LockWait::default()
    }
}

fn sample(thread: usize, time_ms: u64, stack: StackId, basis: Basis) -> Sample {
    Sample {
        time_ns: time_ms * MS,
        weight: MS,
        process: ProcessId::new(0),
        thread: ThreadId::new(thread),
        stack,
        basis,
    }
}

/// A model with a second thread, number 99.
fn two_threads() -> Model {
    let mut model = model();
    model.threads.push(Thread {
        process: model.threads[0].process,
        tid: 99,
        ..Thread::default()
    });
    model
}

/// The wait itself names who holds the interpreter's lock, else a sample of its thread shows its place; what was seen from outside counts where nothing was recorded.
#[test]
fn who_holds_the_interpreters_lock_is_named() {
    let mut model = two_threads();
    let serves = stack(&mut model, "serves", "serve.py", 30);
    let grinds = stack(&mut model, "grinds", "serve.py", 12);
    let lock = "the interpreter's lock (GIL)";
    let seen = {
        let frame = Frame {
            function: model.texts.intern(lock),
            ..Frame::default()
        };
        let frame = model.stacks.frame_id(frame);
        model.stacks.child(serves, frame)
    };
    let told = model.texts.intern("loads (load.py:5)");
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, MS, 1), gpu(0, 101 * MS, 102 * MS, 2)]);
    let launch = call(&mut model, "hipLaunchKernel", 101 * MS - 1, 101 * MS, 2);
    batch.host.push(launch);
    batch.lock_waits.extend([
        wait(10, 20, 99, told, true),
        wait(30, 45, 99, TextId::EMPTY, true),
        // Of a thread that has ended, or that was not sampled.
        wait(50, 52, 7777, TextId::EMPTY, true),
        wait(60, 64, 0, TextId::EMPTY, true),
    ]);
    batch.samples.extend([
        sample(0, 15, seen, Basis::WaitTime),
        sample(0, 40, seen, Basis::WaitTime),
        sample(0, 51, seen, Basis::WaitTime),
        sample(0, 62, seen, Basis::WaitTime),
        sample(1, 9, serves, Basis::CpuTime),
        sample(1, 31, grinds, Basis::CpuTime),
    ]);
    let place = format!("serves (serve.py:30), waiting for {lock}");
    let found = causes(&gaps(&model, &batch));
    let of_holder = |holder: &str, ns| of("host_wait", &format!("{place}{holder}"), ns);
    for one in [
        of_holder(", held by thread 99 in loads (load.py:5)", 10 * MS),
        of_holder(", held by thread 99 in grinds (serve.py:12)", 15 * MS),
        of_holder(", held by thread 7777", 2 * MS),
        of_holder("", 4 * MS),
    ] {
        assert!(found.contains(&one), "{one:?} in {found:#?}");
    }
    // Recorded as well: begin, end and the holder's thread are those then.
    batch.samples.push(sample(0, 28, serves, Basis::CallTime));
    batch
        .lock_waits
        .push(wait(28, 46, 99, TextId::EMPTY, false));
    let found = causes(&gaps(&model, &batch));
    let recorded = of_holder(", held by thread 99 in grinds (serve.py:12)", 18 * MS);
    assert!(found.contains(&recorded), "{found:#?}");
    assert!(
        !found.iter().any(|one| one.1.contains("loads")),
        "{found:#?}"
    );
}

/// A wait that began while the GPU worked asks for samples of that time, when it is explained long after they were looked through.
#[test]
fn samples_of_the_holder_are_kept_as_long_as_a_wait_asks_for_them() {
    let mut model = two_threads();
    let serves = stack(&mut model, "serves", "serve.py", 30);
    let grinds = stack(&mut model, "grinds", "serve.py", 12);
    let mut batch = Batch::default();
    for (number, (start_ms, end_ms)) in [(0, 100), (110, 1000), (1001, 2000)]
        .into_iter()
        .enumerate()
    {
        let link = number as u64 + 1;
        batch.gpu.push(gpu(0, start_ms * MS, end_ms * MS, link));
        let launched_ns = start_ms * MS;
        let launch = call(
            &mut model,
            "hipLaunchKernel",
            launched_ns.saturating_sub(1),
            launched_ns,
            link,
        );
        batch.host.push(launch);
    }
    batch
        .lock_waits
        .push(wait(80, 110, 99, TextId::EMPTY, false));
    batch.samples.push(sample(0, 80, serves, Basis::CallTime));
    batch.samples.push(sample(1, 85, grinds, Basis::CpuTime));
    for time_ms in 300..900 {
        batch
            .samples
            .push(sample(1, time_ms, serves, Basis::CpuTime));
    }
    let place = "serves (serve.py:30), waiting for the interpreter's lock (GIL), held by thread 99 in grinds (serve.py:12)";
    let mut bounded = Gaps::bounded(50, MS);
    bounded.take(&batch);
    assert!(bounded.is_full());
    bounded.settle(&model);
    assert!(
        !bounded.is_full(),
        "samples of the time in which the GPU worked"
    );
    let answers = [
        gaps(&model, &batch),
        answer(&mut bounded, &model, &Batch::default()),
    ];
    for found in answers {
        let wanted = of("host_wait", place, 10 * MS - 1);
        assert!(causes(&found).contains(&wanted), "{:#?}", causes(&found));
    }
}

/// Recorded waits for other locks count to the nanosecond, with the function, the place and the holder: one within another once, and none for what is beside them.
#[test]
fn recorded_waits_for_any_lock_explain_idle_times() {
    let mut model = two_threads();
    let takes = stack(&mut model, "take_batch", "app.cc", 77);
    let grows = stack(&mut model, "grow", "pool.cc", 42);
    let told = model.texts.intern("grow (pool.cc:40)");
    let mutex = model.texts.intern("pthread_mutex_lock");
    let condition = model.texts.intern("pthread_cond_wait");
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, MS, 1), gpu(0, 101 * MS, 102 * MS, 2)]);
    let launch = call(&mut model, "hipLaunchKernel", 101 * MS - 1, 101 * MS, 2);
    batch.host.push(launch);
    let of_lock = |start_ns, end_ns, function, holder_tid, holder| LockWait {
        start_ns,
        end_ns,
        function,
        is_interpreter: false,
        ..wait(0, 0, holder_tid, holder, false)
    };
    batch.lock_waits.extend([
        // It began while the GPU worked.
        of_lock(MS / 2, 10 * MS + 1, mutex, 99, told),
        of_lock(2 * MS, 3 * MS, mutex, 99, told),
        of_lock(20 * MS, 25 * MS + 7, mutex, 99, TextId::EMPTY),
        of_lock(30 * MS, 30 * MS + 5, condition, 0, TextId::EMPTY),
    ]);
    // Waits for the interpreter's lock that were seen from outside count beside them.
    batch.lock_waits.push(wait(40, 44, 99, told, true));
    for (time_ns, stack) in [(20 * MS, takes), (30 * MS, takes)] {
        batch.samples.push(Sample {
            time_ns,
            ..sample(0, 0, stack, Basis::CallTime)
        });
    }
    batch.samples.push(sample(1, 22, grows, Basis::CpuTime));
    let found = causes(&gaps(&model, &batch));
    let lock = "waiting in pthread_mutex_lock, held by thread 99 in";
    let python = "waiting for the interpreter's lock (GIL), held by thread 99 in";
    for one in [
        of(
            "host_wait",
            &format!("{lock} grow (pool.cc:40)"),
            9 * MS + 1,
        ),
        of(
            "host_wait",
            &format!("take_batch (app.cc:77), {lock} grow (pool.cc:42)"),
            5 * MS + 7,
        ),
        of(
            "host_wait",
            "take_batch (app.cc:77), waiting in pthread_cond_wait",
            5,
        ),
        of("host_wait", &format!("{python} grow (pool.cc:40)"), 4 * MS),
    ] {
        assert!(found.contains(&one), "{one:?} in {found:#?}");
    }
    let waited_ns: u64 = found
        .iter()
        .filter(|(cause, ..)| cause == "host_wait")
        .map(|(_, _, ns)| *ns)
        .sum();
    assert_eq!(waited_ns, 18 * MS + 13);
    let all_ns: u64 = found.iter().map(|(_, _, ns)| *ns).sum();
    assert_eq!(all_ns, 100 * MS);
}

/// What was recorded of a wait is all of it: the time beside it has another cause, at another place.
#[test]
fn recorded_waits_say_nothing_of_the_time_beside_them() {
    for is_sampled in [false, true] {
        let mut model = two_threads();
        let told = model.texts.intern("loads (load.py:5)");
        let mut batch = Batch::default();
        batch
            .gpu
            .extend([gpu(0, 0, MS, 1), gpu(0, 101 * MS, 102 * MS, 2)]);
        let launch = call(&mut model, "hipLaunchKernel", 101 * MS - 1, 101 * MS, 2);
        batch.host.push(launch);
        batch.lock_waits.push(wait(10, 15, 99, told, is_sampled));
        let runs = stack(&mut model, "serves", "serve.py", 30);
        batch.samples.push(sample(0, 1, runs, Basis::CpuTime));
        let found = causes(&gaps(&model, &batch));
        let mut others = found.iter().filter(|(cause, ..)| cause != "host_wait");
        let is_named = others.any(|(_, place, _)| place.contains("(GIL)"));
        assert_eq!(is_named, is_sampled, "{found:#?}");
    }
}
