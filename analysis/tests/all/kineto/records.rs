//! What events become.

use rsys_traces::model::{Activity, GpuRecord, HostKind, HostSlice, Kinds, OpKind};

use super::{document, event, kernel, notices, read_bytes, read_text, times};

#[test]
fn times_are_exact_to_the_digit() {
    let events = [
        (
            "1716543210123456.789",
            "0.001",
            (1_716_543_210_123_456_789, 1),
        ),
        (
            "1716543210123456.79",
            "2",
            (1_716_543_210_123_456_790, 2_000),
        ),
        (
            "\"1716543210123457\"",
            "\"1.5\"",
            (1_716_543_210_123_457_000, 1_500),
        ),
        ("1.7165432101234567e15", "0", (1_716_543_210_123_456_700, 0)),
        (
            "1716543210123456.0004",
            "12.345999999999",
            (1_716_543_210_123_456_000, 12_346),
        ),
    ];
    let kernels = events.map(|(ts, dur, _)| kernel("k", ts, dur, 0, 7, ""));
    let expected = events.map(|(.., (start_ns, duration_ns))| (start_ns, start_ns + duration_ns));
    let (model, batch) = read_text(&document(&kernels));
    assert_eq!(times(&batch), expected);
    assert_eq!(model.notices, []);
}

#[test]
fn times_count_from_the_base() {
    let text = r#"{"baseTimeNanoseconds": 1727746742000000001, "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": -0.5, "dur": 0.25}]}"#;
    let (_, batch) = read_text(text);
    let start_ns = 1_727_746_741_999_999_501;
    assert_eq!(times(&batch), [(start_ns, start_ns + 250)]);
}

#[test]
fn a_base_behind_the_events_changes_no_time() {
    let text = format!(
        r#"{{"traceEvents": [{}], "baseTimeNanoseconds": "5"}}"#,
        kernel("k", "1", "1", 0, 7, "")
    );
    let (model, batch) = read_text(&text);
    assert_eq!(times(&batch), [(1_000, 2_000)]);
    // PyTorch writes it there: nobody can do anything about it.
    assert_eq!(model.notices, []);
}

#[test]
fn a_file_is_a_process_with_gpus_and_streams() {
    let text = format!(
        r#"{{"distributedInfo": {{"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{{"name": "x"}}]}},
        "traceEvents": [
        {{"name": "process_name", "ph": "M", "ts": 0.000, "pid": 4711, "tid": 0, "args": {{"name": "python3"}}}},
        {{"name": "process_labels", "ph": "M", "ts": 0.000, "pid": 4711, "tid": 0, "args": {{"labels": "CPU"}}}},
        {{"name": "process_name", "ph": "M", "ts": 0.000, "pid": 1, "tid": 0, "args": {{"name": "python3"}}}},
        {{"name": "process_labels", "ph": "M", "ts": 0.000, "pid": 1, "tid": 0, "args": {{"labels": "GPU 1"}}}},
        {{"name": "thread_name", "ph": "M", "ts": 0.000, "pid": 4711, "tid": 4712, "args": {{"name": "thread 4712 (caf\u00e9)"}}}},
        {}, {}, {}, {},
        {{"ph": "X", "cat": "Trace", "ts": 0, "dur": 9, "pid": "Spans", "tid": "PyTorch Profiler", "name": "x"}}],
        "deviceProperties": [{{"id": 0}}, {{"id": 1, "name": "AMD Instinct MI300X"}}]}}"#,
        kernel("gemm", "1", "1", 0, 7, ""),
        kernel("gemm", "2", "1", 1, 7, ""),
        kernel("gemm", "3", "1", 1, 9, ""),
        event("cpu_op", "aten::mm", "1", "1", ""),
    );
    for kinds in [Kinds::ALL, Kinds::GPU] {
        let (model, batch) = read_bytes(text.as_bytes(), kinds);
        let [process] = model.processes.as_slice() else {
            panic!("{:?}", model.processes);
        };
        assert_eq!((process.pid, process.name.as_str()), (4711, "python3"));
        assert_eq!((process.rank, process.rank_count), (Some(3), Some(8)));
        let place = |record: &GpuRecord| {
            let device = model.device(record.device);
            let queue = &model.queues[record.queue.index()];
            assert_eq!(queue.device, record.device);
            (
                device.ordinal,
                device.name.clone(),
                model.text(queue.name).to_owned(),
            )
        };
        let places: Vec<_> = batch.gpu.iter().map(place).collect();
        let name = "AMD Instinct MI300X";
        let expected = [
            (0, "", "stream 7"),
            (1, name, "stream 7"),
            (1, name, "stream 9"),
        ];
        let expected =
            expected.map(|(number, name, stream)| (number, name.to_owned(), stream.to_owned()));
        assert_eq!(places, expected);
        assert_eq!(model.notices, []);
    }
    let (model, batch) = read_text(&text);
    let thread = &model.threads[batch.host[0].thread.index()];
    assert_eq!(
        (thread.tid, model.text(thread.name)),
        (4712, "thread 4712 (caf\u{e9})")
    );
}

#[test]
fn the_process_is_known_by_its_slices_even_if_nobody_asks_for_them() {
    let events = [
        kernel("k", "1", "1", 0, 7, ""),
        event("cpu_op", "mm", "1", "1", ""),
    ];
    for kinds in [Kinds::ALL, Kinds::GPU] {
        let (model, _) = read_bytes(document(&events).as_bytes(), kinds);
        assert_eq!(model.processes.len(), 1);
        assert_eq!(model.processes[0].pid, 4711);
    }
}

#[test]
fn categories_and_names_decide_what_operations_are() {
    let collective = r#", "Collective name": "allreduce", "dtype": "Float", "Seq": 1"#;
    let of = |category: &str, name: &str, args: &str| {
        event(
            category,
            name,
            "1",
            "1",
            &format!(r#""device": 0, "stream": 0{args}"#),
        )
    };
    let cases = [
        (of("kernel", "gemm", ""), OpKind::Kernel, Activity::Compute),
        (of("Kernel", "gemm", ""), OpKind::Kernel, Activity::Compute),
        (
            of("kernel", "ncclDevKernel_Generic", ""),
            OpKind::Kernel,
            Activity::Comm,
        ),
        (
            of("kernel", "mine", collective),
            OpKind::Kernel,
            Activity::Comm,
        ),
        (
            of("kernel", "__amd_rocclr_copyBuffer", ""),
            OpKind::Kernel,
            Activity::Copy,
        ),
        (
            of("gpu_memcpy", "Memcpy HtoD", ""),
            OpKind::Copy,
            Activity::Copy,
        ),
        (of("Memcpy", "ncclCopy", ""), OpKind::Copy, Activity::Copy),
        (
            of("gpu_memset", "Memset (Device)", ""),
            OpKind::Fill,
            Activity::Fill,
        ),
        (
            of("Memset", "Memset (Device)", ""),
            OpKind::Fill,
            Activity::Fill,
        ),
    ];
    let events: Vec<String> = cases.iter().map(|(event, ..)| event.clone()).collect();
    let (_, batch) = read_text(&document(&events));
    let mut found: Vec<_> = batch
        .gpu
        .iter()
        .map(|record| (record.kind, record.activity))
        .collect();
    let mut expected: Vec<_> = cases
        .iter()
        .map(|(_, kind, activity)| (*kind, *activity))
        .collect();
    // Kernels of collectives without a word about these come when the file has ended.
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let (_, batch) = read_text(&document(&[of("gpu_user_annotation", "x", "")]));
    assert_eq!((batch.len(), batch.gpu_ranges.len()), (1, 1));
    let ignored = ["overhead", "Trace", "cuda_sync", "ac2g"];
    let ignored = ignored.map(|category| of(category, "x", ""));
    let (_, batch) = read_text(&document(&ignored));
    assert!(batch.is_empty());
}

#[test]
fn details_of_operations_have_the_forms_of_our_own_traces() {
    let copy = r#""device": 0, "stream": 0, "bytes": 4096, "kind": "CopyHostToDevice""#;
    let events = [
        event("gpu_memcpy", "Memcpy", "1", "1", copy),
        event(
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Pinned)",
            "1",
            "1",
            r#""bytes": "8""#,
        ),
        kernel(
            "k",
            "1",
            "1",
            0,
            7,
            r#", "grid": [ 304, 2,1 ], "shared": {"a": [{"grid": [7]}]}"#,
        ),
    ];
    let (model, batch) = read_text(&document(&events));
    let details = |record: &GpuRecord| {
        let texts = [record.direction, record.grid].map(|text| model.text(text).to_owned());
        (record.bytes, texts)
    };
    let found: Vec<_> = batch.gpu.iter().map(details).collect();
    let expected = [
        (4096, ["host to device", ""]),
        (8, ["device to host", ""]),
        (0, ["", "304\u{d7}2\u{d7}1"]),
    ];
    let expected = expected.map(|(bytes, texts)| (bytes, texts.map(str::to_owned)));
    assert_eq!(found, expected);
}

#[test]
fn calls_and_operations_are_linked() {
    let call = |args: &str| event("cuda_runtime", "hipLaunchKernel", "1", "1", args);
    let events = [
        call(r#""correlation": 12, "External id": 3"#),
        call(r#""correlation": "13""#),
        call(r#""External id": 12"#),
        event("cpu_op", "aten::mm", "1", "1", r#""External id": 12"#),
        // The kernels of a graph have the correlation of its launch.
        kernel("first", "1", "1", 0, 7, r#", "correlation": 12"#),
        kernel("second", "2", "1", 0, 7, r#", "correlation": 12"#),
        kernel("unlinked", "3", "1", 0, 7, r#", "correlation": 0"#),
        event("kernel", "by its id", "1", "1", r#""External id": 12"#),
    ];
    let (_, batch) = read_text(&document(&events));
    let calls: Vec<u64> = batch.host.iter().map(|slice| slice.link).collect();
    let kernels: Vec<u64> = batch.gpu.iter().map(|record| record.link).collect();
    let by_id = calls[2];
    assert!(by_id > u64::from(u32::MAX));
    assert_eq!(calls, [12, 13, by_id, 0]);
    assert_eq!(kernels, [12, 12, 0, by_id]);
}

#[test]
fn kernels_of_collectives_without_a_call_have_links_of_their_own() {
    let args = r#""device": 0, "stream": 0, "Collective name": "allreduce", "dtype": "Float""#;
    let events = ["1700000000000000", "1700000000000000", "1700000000000009"]
        .map(|ts| event("kernel", "ncclDevKernel_Generic", ts, "1", args));
    let (_, batch) = read_text(&document(&events));
    let links: Vec<u64> = batch.gpu.iter().map(|record| record.link).collect();
    let calls: Vec<u64> = batch.collectives.iter().map(|call| call.link).collect();
    assert_eq!(links, calls);
    // What is shown of them counts up, whatever the time was.
    let numbers: Vec<u64> = links.iter().map(|link| link & ((1 << 48) - 1)).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(links.iter().all(|link| *link > u64::from(u32::MAX)));
}

#[test]
fn slices_of_the_host_have_their_kinds() {
    let cases = [
        ("cuda_runtime", HostKind::Runtime),
        ("hip_runtime", HostKind::Runtime),
        ("cuda_driver", HostKind::Runtime),
        ("cpu_op", HostKind::Operator),
        ("Operator", HostKind::Operator),
        ("user_annotation", HostKind::Range),
        ("python_function", HostKind::Function),
    ];
    let events = cases.map(|(category, _)| event(category, "x", "1.25", "3.5", ""));
    let (_, batch) = read_text(&document(&events));
    let found: Vec<_> = batch
        .host
        .iter()
        .map(|slice| (slice.kind, slice.start_ns, slice.end_ns))
        .collect();
    assert_eq!(found, cases.map(|(_, kind)| (kind, 1_250, 4_750)));
}

#[test]
fn instants_of_the_program_are_marks() {
    let instant = |category: &str, name: &str| {
        format!(
            r#"{{"ph": "i", "s": "t", "cat": "{category}", "name": "{name}", "pid": 1, "tid": 2, "ts": 3.5}}"#
        )
    };
    let events = [
        instant("cpu_instant_event", "checkpoint"),
        instant("cpu_instant_event", "[memory]"),
        instant("", "Record Window End"),
    ];
    let (model, batch) = read_text(&document(&events));
    let marks: Vec<_> = batch
        .marks
        .iter()
        .map(|mark| (mark.time_ns, model.text(mark.name)))
        .collect();
    assert_eq!(marks, [(3_500, "checkpoint")]);
}

/// A begin or an end on thread 4712.
fn half(phase: char, category: &str, name: &str, ts: u32) -> String {
    format!(
        r#"{{"ph": "{phase}", "cat": "{category}", "name": "{name}", "pid": 4711, "tid": 4712, "ts": {ts}, "args": {{}}}}"#
    )
}

#[test]
fn begins_and_ends_are_matched_by_thread() {
    let events = [
        half('B', "cpu_op", "outer", 1),
        half('B', "unknown", "between", 2),
        half('B', "cpu_op", "inner", 3),
        half('E', "", "", 4),
        half('E', "", "", 5),
        half('E', "", "", 6),
        half('E', "", "", 7),
        half('B', "kernel", "done", 8),
        half('E', "", "", 9),
        half('B', "kernel", "cut off", 10),
        half('B', "cpu_op", "open", 11),
    ];
    let text = document(&events);
    let (model, batch) = read_text(&text);
    let slice = |slice: &HostSlice| {
        let name = model.text(slice.name).to_owned();
        (name, slice.start_ns, slice.end_ns, slice.is_open)
    };
    let slices: Vec<_> = batch.host.iter().map(slice).collect();
    let expected = [
        ("inner", 3_000, 4_000, false),
        ("outer", 1_000, 6_000, false),
        ("open", 11_000, 11_000, true),
    ];
    assert_eq!(
        slices,
        expected.map(|(name, start, end, open)| (name.to_owned(), start, end, open))
    );
    assert_eq!(times(&batch), [(8_000, 9_000)]);
    let unmatched = text.find(&events[6]).unwrap() as u64;
    assert_eq!(
        notices(&model),
        [
            (
                Some(unmatched),
                "an event is left out here: ends of slices that never began"
            ),
            (None, "the file ends within 1 GPU operation, left out"),
        ]
    );
}

#[test]
fn an_event_without_a_duration_takes_no_time() {
    let events = [
        kernel("a", "1", "null", 0, 7, ""),
        kernel("b", "2", "0", 0, 7, ""),
    ];
    let (model, batch) = read_text(&document(&events));
    assert_eq!(times(&batch), [(1_000, 1_000), (2_000, 2_000)]);
    let notice = "1 GPU operation without a duration: the profiler did not see the end, and no time is counted";
    assert_eq!(notices(&model), [(None, notice)]);
}

#[test]
fn names_are_unescaped() {
    let events = [
        kernel(r#"void a<\"b\">(\u00b5\ud83d\ude00)\/"#, "1", "1", 0, 7, ""),
        kernel("void a<\u{3b1}\u{1f600}>", "1", "1", 0, 7, ""),
    ];
    let (model, batch) = read_text(&document(&events));
    let names: Vec<_> = batch
        .gpu
        .iter()
        .map(|record| model.text(record.name))
        .collect();
    assert_eq!(
        names,
        [
            "void a<\"b\">(\u{b5}\u{1f600})/",
            "void a<\u{3b1}\u{1f600}>"
        ]
    );
}

#[test]
fn ranks_of_merged_files_are_processes() {
    let of_rank = |rank: u32| {
        let args = format!(r#", "rank": {rank}, "correlation": 1"#);
        let kernel = kernel("k", "1", "1", 0, 7, &args)
            .replace("\"pid\": 0", &format!("\"pid\": {rank}00000"));
        let args = format!(
            r#""rank": {rank}, "pid_raw": {}, "correlation": 1"#,
            50 + rank
        );
        [
            event("cuda_runtime", "hipLaunchKernel", "1", "1", &args),
            kernel,
        ]
    };
    let events = [of_rank(1), of_rank(0)].concat();
    let (model, batch) = read_text(&document(&events));
    let processes: Vec<_> = model
        .processes
        .iter()
        .map(|process| (process.rank, process.pid))
        .collect();
    assert_eq!(processes, [(Some(1), 51), (Some(0), 50)]);
    assert_eq!(model.devices.len(), 2);
    for (slice, record) in batch.host.iter().zip(&batch.gpu) {
        assert_eq!(slice.process, record.process);
        assert_eq!(model.device(record.device).process, record.process);
        assert_eq!(model.device(record.device).ordinal, 0);
    }
}
