//! Profiles of JAX and TensorFlow as they come out of the profiler: `*.xplane.pb`, an `XSpace` in protobuf form.
//!
//! A file has planes (a GPU, the host), a plane lines (a stream, a thread), a line events. Names of events and of their properties stand behind the lines of
//! their plane, so a file is read twice: [`names`] first, then the events as they come. [`stream`] reads fields from a stream, without a copy of the file.
//!
//! | plane | line | event |
//! |---|---|---|
//! | `/device:GPU:0` | `Stream #14(…)` | an operation of that GPU |
//! | `/device:GPU:0` | any other | drawn from those once more: nothing |
//! | `/host:CUPTI`, `/host:ROCTRACER` | a thread | a call of the runtime |
//! | `/host:CPU` | a thread | an operator of XLA if it has `hlo_op`, a step if it has `step_num`, a call, or a function |
//!
//! A kernel says by `hlo_op` which operator of XLA it is of, and by `correlation_id` which call launched it: for the time of that call, the operator is open on its thread.

mod names;
mod records;
mod stream;

use std::path::Path;

use super::{BATCH_RECORDS, Input, Reader, counted_input};
use crate::model::{Batch, Kinds, Model, Notice};
use crate::read::BytesRead;
use crate::words::counted;
use names::Names;
use records::{Line, Records};
use stream::{Stream, Value};

/// How such files are called.
pub(super) const ENDING: &str = ".xplane.pb";

/// Numbers of fields.
mod field {
    pub(super) const PLANES: u32 = 1;
    pub(super) const HOST_NAMES: u32 = 4;
    pub(super) const PLANE_NAME: u32 = 2;
    pub(super) const PLANE_LINES: u32 = 3;
    pub(super) const PLANE_EVENT_NAMES: u32 = 4;
    pub(super) const PLANE_STAT_NAMES: u32 = 5;
    pub(super) const LINE_ID: u32 = 1;
    pub(super) const LINE_NAME: u32 = 2;
    pub(super) const LINE_TIME: u32 = 3;
    pub(super) const LINE_EVENTS: u32 = 4;
}

/// Whether a file that begins like this is one: its first plane has a name as such planes have.
pub(super) fn is_one(start: &[u8]) -> bool {
    let mut rest = start;
    let mut take = |byte: u8| {
        rest = rest.strip_prefix(&[byte])?;
        rsys_proto::message::varint(&mut rest)
    };
    if take(0x0A).is_none() {
        return false;
    }
    // Its number may stand in front.
    take(0x08);
    take(0x12);
    const NAMES: [&[u8]; 4] = [b"/host:", b"/device:", b"Task Environment", b"#Chip"];
    NAMES.iter().any(|name| rest.starts_with(name))
}

/// Reads a file.
pub(super) struct XplaneReader {
    file: String,
    stream: Stream<Input>,
    names: Names,
    records: Records,
    /// The number of the plane that is read, where it ends, and where its line ends.
    plane: usize,
    plane_end: Option<u64>,
    line_end: Option<u64>,
    is_done: bool,
}

impl XplaneReader {
    pub(super) fn new(path: &Path, input: Input, kinds: Kinds) -> Self {
        let file = path.display().to_string();
        // What is read first counts as read: nobody waits for it alone.
        let again = counted_input(path, &BytesRead::default());
        let names = again.map_or_else(|_| Names::default(), |input| Names::of(Stream::new(input)));
        Self {
            records: Records::new(&file, kinds),
            file,
            stream: Stream::new(input),
            names,
            plane: 0,
            plane_end: None,
            line_end: None,
            is_done: false,
        }
    }

    /// Reads a field of whatever is open. `None` at the end.
    fn step(&mut self, model: &mut Model, batch: &mut Batch) -> Option<()> {
        let at = self.stream.position();
        self.line_end = self.line_end.filter(|end| at < *end);
        if self.line_end.is_none() && self.plane_end.is_some_and(|end| end <= at) {
            self.plane_end = None;
            self.plane += 1;
        }
        let about = self.names.planes.get(self.plane);
        match (self.plane_end, self.line_end, self.stream.field()?) {
            (_, Some(_), (field::LINE_ID, Value::Number(id))) => self.records.line.id = id,
            (_, Some(_), (field::LINE_TIME, Value::Number(time_ns))) => {
                self.records.line.time_ns = time_ns;
            }
            (_, Some(_), (field::LINE_NAME, Value::Length(length))) => {
                let name = self.stream.take(length)?;
                self.records.line.name = String::from_utf8_lossy(name).into_owned();
            }
            (_, Some(_), (field::LINE_EVENTS, Value::Length(length))) => {
                let event = self.stream.take(length)?;
                if let Some(about) = about {
                    self.records.event(event, about, model, batch);
                }
            }
            (Some(_), None, (field::PLANE_LINES, Value::Length(length))) => {
                match about.is_some_and(|about| self.records.wants(about.kind)) {
                    true => {
                        self.line_end = Some(self.stream.position() + length);
                        self.records.line = Line::default();
                    }
                    false => self.stream.skip(length)?,
                }
            }
            (None, _, (field::PLANES, Value::Length(length))) => {
                self.plane_end = Some(self.stream.position() + length);
            }
            (.., (_, Value::Length(length))) => self.stream.skip(length)?,
            (.., (_, Value::Number(_))) => {}
        }
        Some(())
    }

    fn finish(&mut self, model: &mut Model) {
        self.is_done = true;
        let notice = |offset, text: String| Notice {
            file: self.file.clone(),
            offset,
            text,
        };
        if let Some(offset) = self.stream.torn() {
            let text = "the file ends before its last message does, or is damaged; what begins here is left out";
            model.notices.push(notice(Some(offset), text.to_owned()));
        }
        self.records.finish(&self.names.host, model);
        if self.records.negative > 0 {
            let events = counted(self.records.negative, "event");
            let text = format!("{events} with a negative time or duration are left out");
            model.notices.push(notice(None, text));
        }
        if let Some(text) = self.records.left_out() {
            model.notices.push(notice(None, text.to_owned()));
        }
    }
}

impl Reader for XplaneReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        while !self.is_done && batch.len() < goal {
            if self.step(model, batch).is_none() {
                self.finish(model);
            }
        }
        !self.is_done
    }
}
