//! Models and batches made by hand, and values of answers.

use super::schema;
use rsys_analysis::show::json;
use rsys_analysis::table::Answer;
use rsys_traces::model::{
    Batch, Device, Frame, Model, Process, ProcessId, StackId, Thread, ThreadId,
};
use serde_json::Value;

/// One process with two threads and one GPU.
pub fn model() -> Model {
    let mut model = Model::default();
    model.processes.push(Process {
        pid: 10,
        name: "train".to_owned(),
        boot_id: "b00t".to_owned(),
        ..Process::default()
    });
    for tid in [10, 11] {
        model.threads.push(Thread {
            process: ProcessId::new(0),
            tid,
            ..Thread::default()
        });
    }
    model.devices.push(Device {
        is_physical: true,
        ..Device::default()
    });
    model
}

/// The first or second thread of [`model`].
pub fn thread(index: usize) -> ThreadId {
    ThreadId::new(index)
}

/// A stack of functions in files, outermost first: `function@file`. Files that end in `.py` hold Python functions; the line of a frame is the
/// number of its place from the outside.
pub fn stack(model: &mut Model, frames: &[&str]) -> StackId {
    let mut stack = StackId::ROOT;
    for (line, text) in (1..).zip(frames) {
        let (function, file) = text.split_once('@').unwrap_or((text, "/opt/app"));
        let source = if file.ends_with(".py") { file } else { "" };
        let frame = Frame {
            function: model.texts.intern(function),
            mapping: model.texts.intern(file),
            source: model.texts.intern(source),
            line,
        };
        let frame = model.stacks.frame_id(frame);
        stack = model.stacks.child(stack, frame);
    }
    stack
}

/// Shows records to a question, in parts of any size.
pub fn batch(fill: impl FnOnce(&mut Batch)) -> Batch {
    let mut batch = Batch::default();
    fill(&mut batch);
    batch
}

/// The rows of a table as JSON; the whole answer has to be as `docs/report.schema.json` says.
pub fn rows(answer: &Answer, table: &str) -> Vec<Value> {
    let value = json(answer);
    schema::judge(&value);
    value[table].as_array().cloned().unwrap_or_default()
}

/// The row in which a key has a text.
pub fn row(rows: &[Value], key: &str, text: &str) -> Value {
    let found = rows.iter().find(|row| row[key] == text);
    found
        .unwrap_or_else(|| panic!("no {key} {text} in {rows:#?}"))
        .clone()
}

/// The sum of a column.
pub fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().filter_map(|row| row[key].as_u64()).sum()
}
