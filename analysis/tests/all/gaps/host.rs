//! What threads of the host did while a GPU was idle.

use super::*;

#[test]
fn what_the_launching_thread_did_is_the_cause() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    let load = stack(&mut model, "load", "train.py", 12);
    let mut batch = Batch::default();
    // Idle from 10 to 50 ms: a synchronisation returns, 37 ms of code, then a launch that takes 20 µs.
    batch
        .gpu
        .extend([gpu(0, 0, 10 * MS, 1), gpu(0, 50 * MS, 60 * MS, 2)]);
    batch.host.extend([
        call(&mut model, "hipDeviceSynchronize", MS, 12 * MS, 0),
        call(
            &mut model,
            "hipLaunchKernel",
            50 * MS - 20_000,
            50 * MS - 10_000,
            2,
        ),
    ]);
    batch.samples.extend((13..50).map(|ms| Sample {
        time_ns: ms * MS,
        weight: MS + MS / 36,
        stack: load,
        basis: Basis::CpuTime,
        ..Sample::default()
    }));
    let expected = [
        of("host_code", "load (train.py:12)", 38 * MS - 20_000),
        of("synchronisation", "hipDeviceSynchronize", 2 * MS),
        of("launch", "hipLaunchKernel", 20_000),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn calls_have_the_places_of_their_stacks() {
    let mut model = model();
    let wait = stack(&mut model, "wait", "train.py", 30);
    let upload = stack(&mut model, "upload", "train.py", 40);
    let other = stack(&mut model, "other", "train.py", 50);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, 1_000, 1), gpu(0, 9_000, 10_000, 2)]);
    batch.host.extend([
        call(&mut model, "hipDeviceSynchronize", 500, 4_000, 0),
        call(&mut model, "hipMemcpyAsync", 4_000, 5_000, 2),
    ]);
    let sample = |time_ns, stack, basis| Sample {
        time_ns,
        stack,
        basis,
        ..Sample::default()
    };
    batch.samples = vec![
        sample(4_000, upload, Basis::CallTime),
        sample(500, wait, Basis::CallTime),
        // What a sample shows counts where a call has no stack.
        sample(2_000, other, Basis::CpuTime),
    ];
    let expected = [
        of("launch", "hipMemcpyAsync in upload (train.py:40)", 5_000),
        of(
            "synchronisation",
            "hipDeviceSynchronize in wait (train.py:30)",
            3_000,
        ),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn between_the_kernels_of_a_graph_there_is_no_launch() {
    let mut model = model();
    let mut batch = Batch::default();
    // Two kernels of one graph, launched long before.
    batch.gpu.extend([
        gpu(0, 5_000_000, 5_100_000, 1),
        gpu(0, 5_103_000, 5_200_000, 1),
    ]);
    batch
        .host
        .push(call(&mut model, "hipGraphLaunch", 0, 10_000, 1));
    assert_eq!(
        causes(&gaps(&model, &batch)),
        [of("graph", "hipGraphLaunch", 3_000)]
    );
}

#[test]
fn what_is_not_known_is_said() {
    let mut model = model();
    let mut batch = Batch::default();
    batch.gpu.extend([
        gpu(0, 0, 10, 1),
        gpu(0, 1_000, 1_010, 2),
        gpu(0, 5_000, 5_010, 3),
    ]);
    batch
        .host
        .push(call(&mut model, "hipLaunchKernel", 4_000, 4_100, 3));
    let expected = [
        of(
            "unknown_no_samples",
            "thread 7, before hipLaunchKernel",
            2_990,
        ),
        of("launch", "hipLaunchKernel", 1_000),
        of("unknown_no_call", "", 990),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn an_operation_that_begins_when_another_gpu_ends_has_waited_for_it() {
    let mut model = model();
    let mut batch = Batch::default();
    let (end, launched) = (900_000, 100_000);
    batch.gpu.extend([
        gpu(0, 0, 50_000, 1),
        gpu(0, end + 5_000, end + 9_000, 2),
        gpu(1, 0, end, 3),
    ]);
    batch.host.push(call(
        &mut model,
        "hipLaunchKernel",
        launched,
        launched + 5_000,
        2,
    ));
    let found = causes(&gaps(&model, &batch));
    assert_eq!(
        found[0],
        of(
            "other_gpu",
            "hipLaunchKernel, behind GPU 1",
            end + 5_000 - launched
        )
    );
    // The GPU of another process ends by chance.
    model.processes.push(Process::default());
    model.devices[1].process = ProcessId::new(1);
    batch.gpu[2].process = ProcessId::new(1);
    let found = causes(&gaps(&model, &batch));
    assert_eq!(
        found[0],
        of("queued", "hipLaunchKernel", end + 5_000 - launched)
    );
}

#[test]
fn a_copy_that_blocks_is_the_cause_until_it_returns() {
    let mut model = model();
    let mut batch = Batch::default();
    // The copy is made in two parts, in front of each of which the host moves its memory.
    batch.gpu.extend([
        gpu(0, 0, 1_000, 1),
        gpu(0, 5_000_000, 5_001_000, 2),
        gpu(0, 5_030_000, 5_031_000, 2),
        gpu(0, 9_000_000, 9_001_000, 3),
    ]);
    batch.host.extend([
        call(&mut model, "hipMemcpy", 2_000, 6_000_000, 2),
        call(&mut model, "hipLaunchKernel", 6_000_000, 8_990_000, 3),
    ]);
    let expected = [
        of("blocking_copy", "hipMemcpy", 4_998_000 + 29_000 + 969_000),
        of("runtime_call", "hipLaunchKernel", 2_990_000),
        of("launch", "hipLaunchKernel", 10_000),
        of("unknown_no_samples", "thread 7, before hipMemcpy", 1_000),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn waits_and_late_samples_do_not_reach_into_calls() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    let sleeps = stack(&mut model, "sleeps", "train.py", 12);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, MS, 1), gpu(0, 100 * MS, 101 * MS, 2)]);
    // It sleeps until 60, and waits in a call until 90; from outside, the sleep seems to end at 65.
    let wait = HostSlice {
        kind: HostKind::Wait,
        ..call(&mut model, "clock_nanosleep", 20 * MS, 65 * MS, 0)
    };
    batch.host.extend([
        wait,
        call(&mut model, "hipDeviceSynchronize", 60 * MS, 90 * MS, 0),
        call(&mut model, "hipLaunchKernel", 99_990_000, 100 * MS, 2),
    ]);
    batch.samples.push(Sample {
        time_ns: 65 * MS,
        weight: 45 * MS,
        stack: sleeps,
        basis: Basis::WaitTime,
        ..Sample::default()
    });
    let found = causes(&gaps(&model, &batch));
    let expected = [
        of("host_wait", "sleeps (train.py:12)", 40 * MS),
        of("synchronisation", "hipDeviceSynchronize", 30 * MS),
        of("host_off_processor", "sleeps (train.py:12)", 19 * MS),
        of(
            "host_off_processor",
            "thread 7, before hipLaunchKernel",
            9_990_000,
        ),
        of("launch", "hipLaunchKernel", 10_000),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_end_of_a_wait_counts_once() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    let sleeps = stack(&mut model, "sleeps", "train.py", 12);
    let crunches = stack(&mut model, "crunches", "train.py", 20);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, MS, 1), gpu(0, 9 * MS, 10 * MS, 2)]);
    // It sleeps until 6, and is busy until it launches. The sample of the wait has the time of its end.
    batch.host.extend([
        HostSlice {
            kind: HostKind::Wait,
            ..call(&mut model, "clock_nanosleep", MS, 6 * MS, 0)
        },
        call(&mut model, "hipLaunchKernel", 8_990_000, 9 * MS, 2),
    ]);
    let sample = |time_ns, weight, stack, basis| Sample {
        time_ns,
        weight,
        stack,
        basis,
        ..Sample::default()
    };
    batch.samples = vec![
        sample(6 * MS, 5 * MS, sleeps, Basis::WaitTime),
        sample(7 * MS, 3 * MS, crunches, Basis::CpuTime),
    ];
    let expected = [
        of("host_wait", "sleeps (train.py:12)", 5 * MS),
        of("host_code", "crunches (train.py:20)", 2_990_000),
        of("launch", "hipLaunchKernel", 10_000),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn an_operation_without_a_call_may_have_a_launch_stack() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    let load = stack(&mut model, "load", "train.py", 12);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, MS, 0), gpu(0, 51 * MS, 52 * MS, 0)]);
    batch.samples.push(Sample {
        time_ns: 51 * MS,
        weight: MS,
        stack: load,
        basis: Basis::GpuTime,
        ..Sample::default()
    });
    batch.samples.extend((1..51).map(|ms| Sample {
        time_ns: ms * MS,
        weight: MS,
        stack: load,
        ..Sample::default()
    }));
    let found = causes(&gaps(&model, &batch));
    assert_eq!(found, [of("host_code", "load (train.py:12)", 50 * MS)]);
}

#[test]
fn without_samples_the_innermost_operator_or_function_is_the_place() {
    let mut model = model();
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, 1_000, 1), gpu(0, 50_000, 60_000, 2)]);
    let scope = |model: &mut Model, name, kind, start_ns, end_ns| HostSlice {
        kind,
        depth: HostSlice::UNKNOWN_DEPTH,
        ..call(model, name, start_ns, end_ns, 0)
    };
    let load = "train.py(30): load";
    batch.host.extend([
        scope(&mut model, load, HostKind::Function, 5_000, 40_000),
        scope(&mut model, "aten::cat", HostKind::Operator, 20_000, 30_000),
        scope(&mut model, "step", HostKind::Range, 500, 100_000),
        call(&mut model, "hipLaunchKernel", 48_000, 49_000, 2),
    ]);
    let expected = [
        of("host_code", load, 25_000),
        of("host_code", "step", 12_000),
        of("host_code", "aten::cat", 10_000),
        of("launch", "hipLaunchKernel", 2_000),
    ];
    assert_eq!(causes(&gaps(&model, &batch)), expected);
}

#[test]
fn ranks_that_are_missing_are_told() {
    let mut model = model();
    (model.processes[0].rank, model.processes[0].rank_count) = (Some(3), Some(5));
    let notes = Gaps::default().answer(&model, "").notes;
    assert!(
        notes.contains(&"4 of the job's 5 ranks are not in these traces: 0, 1, 2, 4".to_owned()),
        "{notes:?}"
    );
    model.processes[0].rank_count = Some(1 << 60);
    let notes = Gaps::default().answer(&model, "").notes;
    let expected = ": 0, 1, 2, 4, 5, 6, 7, 8, \u{2026}";
    assert!(
        notes.iter().any(|note| note.ends_with(expected)),
        "{notes:?}"
    );
}

#[test]
fn times_outside_of_the_first_and_last_operation_are_apart() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    (model.processes[0].start_ns, model.processes[0].end_ns) = (100 * MS, 900 * MS);
    let load = stack(&mut model, "load", "train.py", 12);
    let save = stack(&mut model, "save", "train.py", 90);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 300 * MS, 310 * MS, 1), gpu(0, 310 * MS, 320 * MS, 2)]);
    for (start_ms, link) in [(300, 1), (305, 2)] {
        let launch = call(
            &mut model,
            "hipLaunchKernel",
            start_ms * MS,
            start_ms * MS + 10,
            link,
        );
        batch.host.push(launch);
    }
    let samples = (100..300).map(|ms| (ms, load));
    let samples = samples.chain((320..900).map(|ms| (ms, save)));
    batch.samples.extend(samples.map(|(ms, stack)| Sample {
        time_ns: ms * MS,
        weight: MS,
        stack,
        ..Sample::default()
    }));
    let found = gaps(&model, &batch);
    let device = &found["runs"][0]["devices"][0];
    assert_eq!(device["idle_ns"], 0);
    assert_eq!(device["causes"], Value::Array(Vec::new()));
    let outside = device["outside"].as_array().unwrap();
    let rows: Vec<_> = outside
        .iter()
        .map(|row| ["when", "cause", "where", "time_ns"].map(|key| row[key].clone()))
        .collect();
    let row = |when: &str, place: &str, time_ns: u64| {
        [
            when.into(),
            "host_code".into(),
            place.into(),
            time_ns.into(),
        ]
    };
    let expected: [[Value; 4]; 2] = [
        row("before", "load (train.py:12)", 200 * MS),
        row("after", "save (train.py:90)", 580 * MS),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn the_largest_examples_are_single_idle_times() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    let place = stack(&mut model, "prepare", "train.py", 5);
    let mut batch = Batch::default();
    // Idle for 1, 2, 3, 4, 5 ms: too short to be judged alone.
    let mut now_ns = 0;
    for round in 1..=6 {
        batch.gpu.push(gpu(0, now_ns, now_ns + MS, round));
        batch
            .host
            .push(call(&mut model, "hipLaunchKernel", now_ns, now_ns, round));
        now_ns += MS;
        for ms in 0..round {
            batch.samples.push(Sample {
                time_ns: now_ns + ms * MS,
                weight: MS,
                stack: place,
                ..Sample::default()
            });
        }
        now_ns += round * MS;
    }
    let found = gaps(&model, &batch);
    let cause = &found["runs"][0]["devices"][0]["causes"][0];
    assert_eq!(
        (&cause["idle_ns"], &cause["count"]),
        (&(15 * MS).into(), &5.into())
    );
    assert_eq!(
        (&cause["longest_ns"], &cause["longest_at_ns"]),
        (&(5 * MS).into(), &(15 * MS).into())
    );
    let examples: Vec<_> = cause["examples"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            (
                one["start_ns"].as_u64().unwrap() / MS,
                one["duration_ns"].as_u64().unwrap() / MS,
            )
        })
        .collect();
    assert_eq!(examples, [(15, 5), (10, 4), (6, 3)]);
}

#[test]
fn what_openmp_kokkos_mpi_shmem_and_ucx_did_is_named() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    let code = stack(&mut model, "computes", "solve.c", 12);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, MS, 1), gpu(0, 100 * MS, 101 * MS, 2)]);
    let slice = |model: &mut Model, kind, name: &str, start_ns, end_ns| HostSlice {
        kind,
        ..call(model, name, start_ns * MS, end_ns * MS, 0)
    };
    let (openmp, kokkos) = (HostKind::OpenMp, HostKind::Kokkos);
    batch.host.extend([
        slice(&mut model, openmp, "barrier solve (solve.c:20)", 20, 30),
        slice(&mut model, openmp, "parallel solve (solve.c:14)", 10, 40),
        slice(&mut model, HostKind::Collective, "MPI_Allreduce", 42, 50),
        slice(
            &mut model,
            HostKind::Collective,
            "shmem_barrier_all",
            50,
            53,
        ),
        // What UCX does for another library is a part of that call.
        slice(&mut model, HostKind::Collective, "ucp_put_nbx", 51, 52),
        slice(&mut model, HostKind::Collective, "ucp_tag_send_nbx", 53, 54),
        // A call of the runtime within a kernel of Kokkos is a call of the runtime.
        slice(
            &mut model,
            HostKind::Runtime,
            "hipDeviceSynchronize",
            60,
            80,
        ),
        slice(&mut model, kokkos, "axpy", 55, 90),
        call(&mut model, "hipLaunchKernel", 99_990_000, 100 * MS, 2),
    ]);
    batch.samples.extend((1..100).map(|number| Sample {
        time_ns: number * MS + MS / 2,
        weight: MS,
        stack: code,
        ..Sample::default()
    }));
    let found = causes(&gaps(&model, &batch));
    let expected = [
        of("openmp", "parallel solve (solve.c:14)", 20 * MS),
        of("openmp", "barrier solve (solve.c:20)", 10 * MS),
        of("kokkos", "axpy", 15 * MS),
    ];
    for one in expected {
        assert!(found.contains(&one), "{one:?} in {found:#?}");
    }
    let of_cause = |wanted: &str| -> u64 {
        let of_cause = found.iter().filter(|(cause, ..)| cause == wanted);
        of_cause.map(|(_, _, ns)| *ns).sum()
    };
    assert_eq!(of_cause("mpi"), 8 * MS);
    assert_eq!(of_cause("shmem"), 3 * MS);
    assert_eq!(of_cause("ucx"), MS);
    assert_eq!(of_cause("synchronisation"), 20 * MS);
    let all: u64 = found.iter().map(|(_, _, ns)| *ns).sum();
    assert_eq!(all, 99 * MS);
}

/// Waits that follow each other closely are one slice: each part of it has the place where the thread was then.
#[test]
fn a_wait_within_a_longer_one_has_its_own_place() {
    const MS: u64 = 1_000_000;
    let mut model = model();
    let copies = stack(&mut model, "copies", "train.c", 67);
    let sleeps = stack(&mut model, "sleeps", "train.c", 61);
    let mut batch = Batch::default();
    batch
        .gpu
        .extend([gpu(0, 0, 50 * MS, 1), gpu(0, 81 * MS, 82 * MS, 2)]);
    batch.host.extend([
        call(&mut model, "hipMemcpy", MS, 50 * MS, 1),
        HostSlice {
            kind: HostKind::Wait,
            ..call(&mut model, "main", 2 * MS, 80 * MS, 0)
        },
        call(&mut model, "hipLaunchKernel", 81 * MS - 1, 81 * MS, 2),
    ]);
    let sample = |ms, weight, stack| Sample {
        time_ns: ms * MS,
        weight: weight * MS,
        stack,
        basis: Basis::WaitTime,
        ..Sample::default()
    };
    batch.samples = vec![sample(50, 48, copies), sample(80, 30, sleeps)];
    let found = causes(&gaps(&model, &batch));
    let expected = of("host_wait", "sleeps (train.c:61)", 30 * MS);
    assert!(
        found
            .iter()
            .any(|one| one.0 == expected.0 && one.1 == expected.1 && one.2 >= expected.2),
        "{found:#?}"
    );
    assert!(
        !found.iter().any(|one| one.1.contains("copies")),
        "{found:#?}"
    );
}
