//! JSON as PyTorch's profiler (Kineto) writes it: events in Chrome's form, with categories for
//! kernels, copies, fills, calls and operators.
//!
//! | file | step |
//! |---|---|
//! | `document` | events and members of the document one after another, also past what is no JSON |
//! | `event` | the parts of one event that count |
//! | `records` | the record that an event makes |
//! | `collective` | what a kernel says of the collective that it is of |
//! | `counters` | values of counters |
//! | `meaning`, `lanes`, `places`, `open` | what its category, its process and its ids stand for, and what has begun |
//! | `names` | names of functions without what differs between processes |
//! | `shapes` | what operators were called with |
//! | `decimal` | times exact to the digit |
//! | `left_out` | what the user is told of the file |
//!
//! Times are kept as they are, counted from the file's `baseTimeNanoseconds` if it has one: nothing
//! relates them to BOOTTIME. Slices of the host come in the order of the file, whatever their times:
//! the calls of a thread stand behind its operators.

mod collective;
mod counters;
mod decimal;
mod document;
mod event;
mod lanes;
mod left_out;
mod meaning;
mod names;
mod open;
mod places;
mod records;
mod shapes;

use std::path::Path;

use serde_json::Value;

use super::json::number;
use super::json::text::unescaped;
use super::{BATCH_RECORDS, Input, Reader};
use crate::model::{Batch, Kinds, Model, Notice, Process};
use document::{Document, Element, Member};
use records::{Records, Source};

/// Whether a file that begins like this is JSON with an object or a list.
///
/// A trace in protobuf form begins with a line feed as JSON may, and a bracket may follow it; then
/// all of the start has to be text.
pub(super) fn is_json(start: &[u8]) -> bool {
    let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
        && (start.first() != Some(&b'\n') || start.iter().all(is_plain))
}

/// Reads a file.
pub(super) struct KinetoReader {
    file: String,
    document: Document<Input>,
    records: Records,
    is_done: bool,
}

impl KinetoReader {
    pub(super) fn new(path: &Path, input: Input, kinds: Kinds) -> Self {
        let file = path.display().to_string();
        Self {
            document: Document::new(input, kinds.shapes),
            records: Records::new(&file, kinds),
            is_done: false,
            file,
        }
    }

    fn notice(&self, offset: Option<u64>, text: impl Into<String>, model: &mut Model) {
        model.notices.push(Notice {
            file: self.file.clone(),
            offset,
            text: text.into(),
        });
    }

    /// Takes in a member of the document, whose value is in the document's bytes.
    fn member(&mut self, member: Member, value: &[u8], model: &mut Model) {
        let places = &mut self.records.places;
        let parsed = || serde_json::from_slice(value).unwrap_or(Value::Null);
        match member {
            Member::BaseTime => {
                self.records.base_ns = number(value).unwrap_or(0);
                if self.records.has_times() {
                    let text = "baseTimeNanoseconds stands behind events, whose times do not count from it";
                    self.notice(None, text, model);
                }
            }
            Member::DistributedInfo => {
                let value = parsed();
                let (rank, count) = (value["rank"].as_u64(), value["world_size"].as_u64());
                places.ranks(rank, count, model);
            }
            Member::HostName => {
                places.host_name(&unescaped(value), model);
            }
            Member::HostNames => {
                let value = parsed();
                let names = value.as_object().into_iter().flatten();
                for (rank, host) in names {
                    if let (Ok(rank), Some(host)) = (rank.parse(), host.as_str()) {
                        places.host_of_rank(rank, host, model);
                    }
                }
            }
            Member::DeviceProperties => {
                for device in parsed().as_array().into_iter().flatten() {
                    let id = device["id"].as_u64().and_then(|id| u32::try_from(id).ok());
                    if let (Some(id), Some(name)) = (id, device["name"].as_str()) {
                        places.device_name(id, name, model);
                    }
                }
            }
        }
    }

    fn finish(&mut self, model: &mut Model, batch: &mut Batch) {
        self.is_done = true;
        let cut_off = self.records.finish(batch);
        model
            .notices
            .extend(self.records.left_out.notices(&self.file));
        if cut_off > 0 {
            let text = format!(
                "the file ends within {}, left out",
                left_out::counted(cut_off, "operation of a GPU")
            );
            self.notice(None, text, model);
        }
        let is_of_file = |process: &Process| process.file == self.file;
        if !self.records.contents.is_empty() && !model.processes.iter().any(is_of_file) {
            // Something was recorded, though nothing that was asked for.
            model.processes.push(Process {
                file: self.file.clone(),
                ..Process::default()
            });
        }
        if !self.document.has_events {
            self.notice(None, "JSON without a list of events (traceEvents)", model);
        } else if let Some(text) = self.records.contents.without_gpu() {
            self.notice(None, text, model);
        } else if self.records.places.unranked() > 1 {
            let text = format!(
                "calls of {} processes, and nothing says which of them used the GPUs; the first counts",
                self.records.places.unranked()
            );
            self.notice(None, text, model);
        }
    }
}

impl Reader for KinetoReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        while !self.is_done && batch.len() < goal {
            match self.document.next() {
                Ok(Element::Event(offset, event)) => {
                    let source = Source {
                        offset,
                        bytes: self.document.bytes(),
                        event: &event,
                    };
                    self.records.take(source, model, batch);
                }
                Ok(Element::Member(member, span)) => {
                    let value = span.of(self.document.bytes()).to_vec();
                    self.member(member, &value, model);
                }
                Ok(Element::Malformed(offset)) => self.records.left_out.malformed.add(offset),
                Ok(Element::CutOff(offset)) => {
                    let text = "the file ends before its JSON does; what begins here is left out";
                    self.notice(Some(offset), text, model);
                    self.finish(model, batch);
                }
                Ok(Element::End) => self.finish(model, batch),
                Err(error) => {
                    let offset = self.document.position();
                    let text =
                        format!("cannot be read further: {error}; what begins here is left out");
                    self.notice(Some(offset), text, model);
                    self.finish(model, batch);
                }
            }
        }
        !self.is_done
    }
}
