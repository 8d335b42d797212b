//! Files of PyTorch's profiler, made by hand with what real ones surprise with.

mod advice;
mod answers;
mod collectives;
mod counters;
mod damage;
mod efficiency;
mod forms;
mod ours;
mod recorded;
mod records;
use crate::common::Scratch;
use rsys_traces::model::{Batch, Kinds, Model};
use rsys_traces::read;

/// What a file of these bytes holds.
pub fn read_bytes(bytes: &[u8], kinds: Kinds) -> (Model, Batch) {
    let scratch = Scratch::new();
    let path = scratch.write("trace.json", bytes);
    let (mut model, mut batch) = (Model::default(), Batch::default());
    let mut reader = read::open(&path, kinds).unwrap();
    while reader.read(&mut model, &mut batch) {}
    (model, batch)
}

/// All that a file of this text holds.
pub fn read_text(text: &str) -> (Model, Batch) {
    read_bytes(text.as_bytes(), Kinds::ALL)
}

/// A whole document with these events.
pub fn document(events: &[String]) -> String {
    format!(
        "{{\"schemaVersion\": 1, \"traceEvents\": [{}]}}",
        events.join(",\n  ")
    )
}

/// An event of thread 4712.
pub fn event(category: &str, name: &str, ts: &str, dur: &str, args: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 4711, "tid": 4712, "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}"#
    )
}

/// A kernel with its place.
pub fn kernel(name: &str, ts: &str, dur: &str, device: u32, stream: u32, more: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": {device}, "tid": {stream}, "ts": {ts}, "dur": {dur},
        "args": {{"External id": 5, "device": {device}, "stream": {stream}{more}}}}}"#
    )
}

/// Begins and ends of the operations.
pub fn times(batch: &Batch) -> Vec<(u64, u64)> {
    let records = batch.gpu.iter();
    records
        .map(|record| (record.start_ns, record.end_ns))
        .collect()
}

/// Places and texts of the notices.
pub fn notices(model: &Model) -> Vec<(Option<u64>, &str)> {
    let notices = model.notices.iter();
    notices
        .map(|notice| (notice.offset, notice.text.as_str()))
        .collect()
}
