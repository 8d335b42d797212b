//! The causes of idleness: they add up to the idle time of the timeline, in any order of reading, and known cases get their causes.

mod around;
mod holders;
mod host;
mod streams;
mod sums;
mod switches;

use crate::common::schema;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::gaps::Gaps;
use rsys_analysis::measure::gpu::timeline::Timeline;
use rsys_analysis::show;
use rsys_analysis::table::Answer;
use rsys_traces::model::{
    Activity, Basis, Batch, Device, DeviceId, Frame, GpuRecord, HostKind, HostSlice, LockWait,
    Model, Process, ProcessId, Sample, StackId, StreamOrder, TextId, Thread, ThreadId,
};
use serde_json::Value;

/// One process with one thread and two GPUs.
fn model() -> Model {
    let mut model = Model::default();
    model.processes.push(Process::default());
    model.threads.push(Thread {
        tid: 7,
        ..Thread::default()
    });
    for ordinal in 0..2 {
        model.devices.push(Device {
            ordinal,
            is_physical: true,
            ..Device::default()
        });
    }
    model
}

fn stack(model: &mut Model, function: &str, source: &str, line: u32) -> StackId {
    let frame = Frame {
        function: model.texts.intern(function),
        mapping: model.texts.intern("/opt/app"),
        source: model.texts.intern(source),
        line,
    };
    let frame = model.stacks.frame_id(frame);
    model.stacks.child(StackId::ROOT, frame)
}

fn gpu(device: usize, start_ns: u64, end_ns: u64, link: u64) -> GpuRecord {
    GpuRecord {
        start_ns,
        end_ns,
        link,
        process: ProcessId::new(0),
        device: DeviceId::new(device),
        ..GpuRecord::default()
    }
}

fn call(model: &mut Model, name: &str, start_ns: u64, end_ns: u64, link: u64) -> HostSlice {
    HostSlice {
        start_ns,
        end_ns,
        link,
        name: model.texts.intern(name),
        thread: ThreadId::new(0),
        kind: HostKind::Runtime,
        ..HostSlice::default()
    }
}

fn answer(measure: &mut dyn Measure, model: &Model, batch: &Batch) -> Value {
    measure.take(batch);
    let answer: Answer = measure.answer(model, "run");
    let value = show::json(&answer);
    schema::judge(&value);
    value
}

fn gaps(model: &Model, batch: &Batch) -> Value {
    answer(&mut Gaps::default(), model, batch)
}

/// Cause, place and nanoseconds of the first GPU, the longest first.
fn causes(found: &Value) -> Vec<(String, String, u64)> {
    let list = found["runs"][0]["devices"][0]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or("").to_owned();
    list.iter()
        .map(|cause| {
            let idle_ns = cause["idle_ns"].as_u64().unwrap_or(0);
            (text(cause, "cause"), text(cause, "where"), idle_ns)
        })
        .collect()
}

fn of(cause: &str, place: &str, idle_ns: u64) -> (String, String, u64) {
    (cause.to_owned(), place.to_owned(), idle_ns)
}
