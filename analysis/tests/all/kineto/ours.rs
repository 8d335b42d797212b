//! The same records as a file of PyTorch's profiler and as a trace of ours give the same answers,
//! which are also right.

use std::collections::HashSet;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::kernels::{By, Kernels};
use rsys_analysis::measure::gpu::timeline::Timeline;
use rsys_analysis::{pass, show};
use rsys_proto::{
    ClockReadings, Compression, Event, EventKind, Name, NamedTrack, PacketBuffer, ProcessNamespace,
    ProcessTrack, TraceWriter, TrackSequence,
};
use serde_json::Value;

use crate::common::Scratch;

const PID: u32 = 4711;
const EPOCH_NS: u64 = 1_716_543_210_123_000_000;
const LENGTH_NS: u64 = 3_000;
const GPU_NAME: &str = "AMD Instinct MI300X";

/// Names of operations, with our category, Kineto's, and the activity.
const OPERATIONS: [(&str, &str, &str, usize); 6] = [
    ("gemm<float, \u{3b1}>", "kernel", "kernel", COMPUTE),
    ("relu \"in place\"", "kernel", "kernel", COMPUTE),
    ("ncclDevKernel_Generic", "kernel", "kernel", COMM),
    (
        "__amd_rocclr_fillBufferAligned",
        "kernel",
        "kernel",
        COMPUTE,
    ),
    ("CopyHostToDevice", "copy", "gpu_memcpy", COPY),
    ("Memset", "fill", "gpu_memset", COMPUTE),
];
const COMPUTE: usize = 0;
const COMM: usize = 1;
const COPY: usize = 2;

/// An operation of a GPU.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    start_ns: u64,
    duration_ns: u64,
    operation: usize,
    device: u64,
    stream: u64,
}

prop_compose! {
    /// Streams overlap, and so do operations of one stream; many take no time.
    fn drawn()(
        start_ns in 0..LENGTH_NS,
        duration_ns in prop_oneof![Just(0), 0..20_u64, 0..LENGTH_NS / 3],
        operation in 0..OPERATIONS.len(),
        device in 0..3_u64,
        stream in 0..3_u64,
    ) -> Drawn {
        Drawn { start_ns, duration_ns, operation, device, stream }
    }
}

/// Microseconds with as many decimals as they need, at least one.
fn us(time_ns: u64, as_text: bool) -> String {
    let decimals = format!("{:03}", time_ns % 1000);
    let decimals = match decimals.trim_end_matches('0') {
        "" => "0",
        some => some,
    };
    let mark = if as_text { "\"" } else { "" };
    format!("{mark}{}.{decimals}{mark}", time_ns / 1000)
}

/// The records as PyTorch's profiler writes them; the base of all times stands apart in every other
/// file.
fn kineto(records: &[Drawn]) -> String {
    let has_base = records.len().is_multiple_of(2);
    let start_ns = if has_base { 0 } else { EPOCH_NS };
    let mut events = vec![format!(
        r#"{{"ph": "M", "name": "process_labels", "pid": {PID}, "tid": 0, "args": {{"labels": "CPU"}}}}"#
    )];
    for (number, record) in records.iter().enumerate() {
        let (name, _, category, _) = OPERATIONS[record.operation];
        let name = name.replace('"', "\\\"");
        events.push(format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {device}, "tid": {stream}, "ts": {}, "dur": {},
            "args": {{"device": {device}, "stream": {stream}, "correlation": {number}}}}}"#,
            us(start_ns + record.start_ns, number % 5 == 0),
            us(record.duration_ns, false),
            device = record.device,
            stream = record.stream,
        ));
    }
    let base_ns = EPOCH_NS - start_ns;
    let devices = (0..3).map(|id| format!(r#"{{"id": {id}, "name": "{GPU_NAME}"}}"#));
    let devices = devices.collect::<Vec<_>>().join(",");
    format!(
        r#"{{"baseTimeNanoseconds": {base_ns}, "traceEvents": [{}], "deviceProperties": [{devices}]}}"#,
        events.join(",\n")
    )
}

/// The same in our form: a track for each record, since those of one track nest.
fn ours(records: &[Drawn], scratch: &Scratch) -> PathBuf {
    let path = scratch.write("trace.proto", b"");
    let file = std::fs::File::create(&path).unwrap();
    let mut trace = TraceWriter::new(file, Compression::None);
    let out = trace.buffer();
    let ids = ProcessNamespace::new("", PID, 17, 0);
    out.clock_snapshot(&ClockReadings {
        boottime_ns: EPOCH_NS,
        ..ClockReadings::default()
    });
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid: PID,
        ..ProcessTrack::default()
    });
    for device in 0..3_u32 {
        let name = format!("GPU {device} \u{b7} {GPU_NAME}");
        out.track(&NamedTrack {
            uuid: ids.track(2 + device),
            name: &name,
            ..NamedTrack::default()
        });
    }
    for (number, record) in (10..).zip(records) {
        slice(out, &ids, number, record);
    }
    trace.flush().unwrap();
    path
}

fn slice(out: &mut PacketBuffer, ids: &ProcessNamespace, number: u32, record: &Drawn) {
    let (name, category, ..) = OPERATIONS[record.operation];
    let stream = format!("stream {}", record.stream);
    out.track(&NamedTrack {
        uuid: ids.track(number),
        parent: Some(ids.track(2 + record.device as u32)),
        name: &stream,
        ..NamedTrack::default()
    });
    let mut track = TrackSequence::new(out, ids.track(number));
    let event = Event {
        name: Name::Interned(out.intern(name)),
        category: Some(out.intern(category)),
        ..Event::default()
    };
    let start_ns = EPOCH_NS + record.start_ns;
    track.event(out, start_ns, EventKind::SliceBegin, &event);
    track.slice_end(out, start_ns + record.duration_ns);
}

/// All answers on a file.
fn answers(path: PathBuf) -> (Value, Value, Value) {
    let by = By {
        stream: true,
        ..By::default()
    };
    let mut measures: Vec<Box<dyn Measure>> = vec![
        Box::<Timeline>::default(),
        Box::<Kernels>::default(),
        Box::new(Kernels::new(by)),
    ];
    let model = pass(&[path], &mut measures);
    let mut json = measures
        .iter_mut()
        .map(|measure| show::json(&measure.answer(&model, "run")));
    let mut next = || json.next().unwrap_or_default();
    (next(), next(), next())
}

/// Total, computation, exposed communication, exposed copies and idleness, from the set of
/// nanoseconds in which each kind went on.
fn divided(records: &[Drawn], device: u64) -> [u64; 5] {
    let own = records.iter().filter(|record| record.device == device);
    let first = own.clone().map(|record| record.start_ns).min();
    let last = own
        .clone()
        .map(|record| record.start_ns + record.duration_ns)
        .max();
    let total = last.unwrap_or(0) - first.unwrap_or(0);
    let mut times: [HashSet<u64>; 3] = Default::default();
    for record in own {
        let (.., activity) = OPERATIONS[record.operation];
        times[activity].extend(record.start_ns..record.start_ns + record.duration_ns);
    }
    let [compute, comm, copy] = times;
    let exposed_comm: HashSet<u64> = comm.difference(&compute).copied().collect();
    let hidden: HashSet<u64> = compute.union(&comm).copied().collect();
    let parts = [
        compute.len() as u64,
        exposed_comm.len() as u64,
        copy.difference(&hidden).count() as u64,
    ];
    let busy: u64 = parts.iter().sum();
    [total, parts[0], parts[1], parts[2], total - busy]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_do_not_depend_on_the_form(records in vec(drawn(), 1..60)) {
        let scratch = Scratch::new();
        let of_kineto = answers(scratch.write("trace.json", kineto(&records).as_bytes()));
        let of_ours = answers(ours(&records, &scratch));
        prop_assert_eq!(&of_kineto, &of_ours);

        let devices = of_kineto.0["runs"][0]["devices"].as_array().unwrap();
        let used: HashSet<u64> = records.iter().map(|record| record.device).collect();
        prop_assert_eq!(devices.len(), used.len());
        for device in devices {
            let found = ["total_ns", "computation_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns"]
                .map(|key| device[key].as_u64().unwrap());
            prop_assert_eq!(found, divided(&records, device["device"].as_u64().unwrap()));
            prop_assert_eq!(device["process"].as_u64(), Some(u64::from(PID)));
        }
    }
}
