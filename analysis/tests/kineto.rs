//! Files of PyTorch's profiler, made by hand with what real ones surprise with.

mod common;

use common::{Scratch, read};
use rsys_analysis::model::{Activity, HostKind, Model, OpKind};

fn header(events: &str) -> String {
    format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": 3, "world_size": 8}},
        "traceEvents": [{events}],
        "deviceProperties": [{{"id": 1, "name": "AMD Instinct MI300X", "totalGlobalMem": 5}}], "traceName": "x"}}"#
    )
}

fn kernel(name: &str, ts: &str, dur: &str, device: u32, stream: u32, more: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": {device}, "tid": {stream}, "ts": {ts}, "dur": {dur},
        "args": {{"External id": 5, "device": {device}, "stream": {stream}{more}}}}}"#
    )
}

#[test]
fn times_are_exact_and_devices_are_told_apart() {
    let scratch = Scratch::new();
    let events = [
        kernel("gemm", "1716543210123456.789", "0.001", 0, 7, r#", "correlation": 12, "grid": [4, 1, 1]"#),
        kernel("ncclDevKernel_Generic", "1716543210123456.7", "2", 1, 7, ""),
        kernel("mine", "1716543210123457", "0", 1, 9, r#", "Collective name": "allreduce""#),
        r#"{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 9,
            "ts": "5.5", "dur": 1, "args": {"device": 0, "stream": 9, "bytes": 4096}}"#.to_owned(),
        r#"{"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 9, "ts": 1, "dur": 1, "args": {}}"#.to_owned(),
        r#"{"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 4711, "tid": 4712,
            "ts": 1.25, "dur": 3.5, "args": {"correlation": 12}}"#.to_owned(),
        r#"{"ph": "f", "id": 12, "pid": 0, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g", "bp": "e"}"#.to_owned(),
    ];
    let path = scratch.write("rank3.json", header(&events.join(",\n")).as_bytes());
    let (model, batch) = read(&path);
    assert_eq!(model.notices, []);
    let process = &model.processes[0];
    assert_eq!(
        (process.rank, process.rank_count, process.pid),
        (Some(3), Some(8), 4711)
    );
    let [gemm, nccl, mine, copy, fill] = batch.gpu.as_slice() else {
        panic!("{:?}", batch.gpu);
    };
    assert_eq!(
        (gemm.start_ns, gemm.end_ns),
        (1_716_543_210_123_456_789, 1_716_543_210_123_456_790)
    );
    assert_eq!(
        (gemm.link, model.text(gemm.grid), gemm.activity),
        (12, "[4, 1, 1]", Activity::Compute)
    );
    assert_eq!(
        (nccl.activity, mine.activity, mine.duration_ns()),
        (Activity::Comm, Activity::Comm, 0)
    );
    assert_eq!(nccl.start_ns, 1_716_543_210_123_456_700);
    assert_eq!(
        (
            copy.kind,
            copy.bytes,
            model.text(copy.direction),
            copy.start_ns
        ),
        (OpKind::Copy, 4096, "host to device", 5_500)
    );
    assert_eq!(fill.kind, OpKind::Fill);
    let device = |record: &rsys_analysis::model::GpuRecord| {
        let device = model.device(record.device);
        (device.ordinal, device.name.as_str())
    };
    assert_eq!(device(gemm), (0, ""));
    assert_eq!(device(nccl), (1, "AMD Instinct MI300X"));
    assert_ne!(nccl.queue, mine.queue);
    let [call] = batch.host.as_slice() else {
        panic!("{:?}", batch.host);
    };
    assert_eq!(
        (call.kind, call.link, call.start_ns, call.end_ns),
        (HostKind::Runtime, 12, 1_250, 4_750)
    );
    assert_eq!(model.threads[call.thread.index()].tid, 4712);
}

fn notices(model: &Model) -> Vec<(Option<u64>, &str)> {
    let notices = model.notices.iter();
    notices
        .map(|notice| (notice.offset, notice.text.as_str()))
        .collect()
}

#[test]
fn what_is_wrong_is_said_and_the_rest_is_read() {
    let scratch = Scratch::new();
    let good = kernel("gemm", "1", "1", 0, 7, "");
    let whole = format!(
        r#"[{good}, {{"ph": 5}}, {}, {good}]"#,
        kernel("late", "-1", "1", 0, 7, "")
    );
    let (model, batch) = read(&scratch.write("a.json", whole.as_bytes()));
    assert_eq!(batch.gpu.len(), 2);
    let place = good.len() as u64 + 3;
    assert_eq!(
        notices(&model),
        [
            (
                Some(place),
                "the first of 1 malformed events, which are left out"
            ),
            (
                None,
                "1 events are left out: their times are no numbers from 0 on"
            ),
        ]
    );
    let cut = &whole.as_bytes()[..whole.len() - 5];
    let (model, batch) = read(&scratch.write("b.json", cut));
    assert_eq!(batch.gpu.len(), 1);
    let start = (whole.len() - 1 - good.len()) as u64;
    assert_eq!(
        notices(&model)[0],
        (Some(start), "the file ends here, within a value")
    );
}
