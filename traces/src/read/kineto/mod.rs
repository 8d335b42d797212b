//! JSON as PyTorch's profiler (Kineto) writes it: events in Chrome's form, with categories for
//! kernels, copies, fills, calls and operators.
//!
//! | file | step |
//! |---|---|
//! | `document` | events and members of the document one after another, also past what is no JSON |
//! | `event` | the parts of one event that count |
//! | `records` | the record that an event makes |
//! | `collective`, `around` | what a kernel, or the host around its launch, says of the collective that it is of |
//! | `counters`, `memory` | values of counters; what is said of memory |
//! | `meaning`, `lanes`, `places`, `open` | what its category, its process and its ids stand for, and what has begun |
//! | `names` | names of functions without what differs between processes |
//! | `shapes` | what operators were called with |
//! | `survey`, `owners` | which process used the GPUs, before anything is read; of several, which of them used which queue |
//! | `decimal` | times exact to the digit |
//! | `left_out` | what the user is told of the file |
//!
//! Times are kept as they are, counted from the file's `baseTimeNanoseconds` if it has one: nothing
//! relates them to BOOTTIME. Slices of the host come in the order of the file, whatever their times:
//! the calls of a thread stand behind its operators.

mod around;
mod collective;
mod counters;
mod decimal;
mod document;
mod event;
mod labels;
mod lanes;
mod left_out;
mod meaning;
mod memory;
mod names;
mod open;
mod owners;
mod places;
mod records;
mod shapes;
mod survey;

use std::path::Path;

use serde_json::Value;

use super::json::text::unescaped;
use super::json::{number, whole};
use super::{BATCH_RECORDS, Input, Reader};
use crate::model::{Batch, Kinds, Model, Notice, Process};
use crate::words::counted;
use document::{Document, Element, Member};
pub(super) use lanes::host_kind;
use records::{Records, Source};
use survey::{Names, Survey};

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
    survey: Survey,
    is_done: bool,
}

impl KinetoReader {
    pub(super) fn new(path: &Path, input: Input, kinds: Kinds) -> Self {
        let file = path.display().to_string();
        let mut survey = Survey::of(path);
        let mut records = Records::new(&file, kinds);
        let owners = std::mem::take(&mut survey.owners);
        records.places.used_by(survey.main, owners);
        records.may_tell_collectives(survey.communicates);
        Self {
            document: Document::new(input, kinds.shapes || kinds.arguments),
            records,
            survey,
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
                // PyTorch writes it behind the events. It is the same for all ranks of a job, which are compared all the same.
                if !self.records.has_times() {
                    self.records.base_ns = number(value).unwrap_or(0);
                }
            }
            Member::DistributedInfo => {
                let value = parsed();
                let (rank, count) = (whole(&value["rank"]), whole(&value["world_size"]));
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
                    let id = whole(&device["id"]).and_then(|id| u32::try_from(id).ok());
                    if let (Some(id), Some(name)) = (id, device["name"].as_str()) {
                        places.device_name(id, name, model);
                    }
                }
            }
        }
    }

    fn finish(&mut self, model: &mut Model, batch: &mut Batch) {
        self.is_done = true;
        self.records.places.name_the_rest(model);
        let cut_off = self.records.finish(model, batch);
        model
            .notices
            .extend(self.records.left_out.notices(&self.file));
        if cut_off > 0 {
            let text = format!(
                "the file ends within {}, left out",
                counted(cut_off, "GPU operation")
            );
            self.notice(None, text, model);
        }
        if self.records.contents.unfinished > 0 {
            let what = counted(self.records.contents.unfinished, "GPU operation");
            let text = format!(
                "{what} without a duration: the profiler did not see the end, and no time is counted"
            );
            self.notice(None, text, model);
        }
        if self.records.contents.unfinished_host > 0 {
            let what = counted(self.records.contents.unfinished_host, "slice");
            let text = format!(
                "{what} of the host without a duration (calls, operators or functions): no time is counted"
            );
            self.notice(None, text, model);
        }
        if self.records.contents.unfinished_ranges > 0 {
            let what = counted(self.records.contents.unfinished_ranges, "range");
            let text = format!(
                "{what} of the host without a duration: the end of the file counts as theirs"
            );
            self.notice(None, text, model);
        }
        if let Some(text) = self.records.contents.of_unknown() {
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
        } else if self.survey.rivals >= 2 {
            let text = format!(
                "calls of {} processes, and nothing says which of them used which queue: where there are as many GPUs, they are taken in order of their numbers, else that of the lowest number counts",
                self.survey.rivals
            );
            self.notice(None, text, model);
        }
    }
}

impl Reader for KinetoReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let names = std::mem::take(&mut self.survey.names);
        if names != Names::default() {
            self.records.learn(names, model);
        }
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

    fn zero_ns(&self) -> u64 {
        u64::try_from(self.records.base_ns).unwrap_or(0)
    }
}
