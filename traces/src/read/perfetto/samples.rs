//! Samples and their call stacks.

use rsys_proto::fields::{callstack, frame, interned, mapping, sample};
use rsys_proto::message::{Fields, Value, packed_varints};

use super::processes::Processes;
use crate::model::{Basis, Frame, FrameId, Model, Sample, StackId, TextId};
use crate::perfetto::interned::{Entry, IidTable, entries};
use crate::perfetto::{SequenceIndex, sample_time_base};

/// The tables of call stacks, by sequence.
#[derive(Debug, Default)]
pub(super) struct Samples {
    sequences: Vec<Tables>,
}

/// What the samples of a sequence refer to.
#[derive(Debug, Default)]
struct Tables {
    basis: Basis,
    functions: IidTable<TextId>,
    path_parts: IidTable<TextId>,
    sources: IidTable<TextId>,
    mappings: IidTable<TextId>,
    frames: IidTable<Option<FrameId>>,
    stacks: IidTable<StackId>,
}

impl Samples {
    fn tables(&mut self, sequence: SequenceIndex) -> &mut Tables {
        if sequence.index() >= self.sequences.len() {
            self.sequences
                .resize_with(sequence.index() + 1, Tables::default);
        }
        &mut self.sequences[sequence.index()]
    }

    /// The tables of a sequence begin anew.
    pub(super) fn clear(&mut self, sequence: SequenceIndex) {
        let tables = self.tables(sequence);
        *tables = Tables {
            basis: tables.basis,
            ..Tables::default()
        };
    }

    /// Learns what the samples of a sequence count.
    pub(super) fn set_basis(&mut self, sequence: SequenceIndex, defaults: &[u8]) {
        if let Some(name) = sample_time_base(defaults) {
            self.tables(sequence).basis = match name {
                b"cpu-time ns" => Basis::CpuTime,
                b"waiting-time ns" => Basis::WaitTime,
                b"gpu-time ns" => Basis::GpuTime,
                b"call-time ns" => Basis::CallTime,
                _ => Basis::Event,
            };
        }
    }

    /// Takes in interned data. Entries refer to others of the same packet in any order.
    pub(super) fn define(&mut self, sequence: SequenceIndex, interned: &[u8], model: &mut Model) {
        let tables = self.tables(sequence);
        for entry in entries(interned) {
            let table = match entry.table {
                interned::FUNCTION_NAMES => &mut tables.functions,
                interned::MAPPING_PATHS => &mut tables.path_parts,
                interned::SOURCE_PATHS => &mut tables.sources,
                _ => continue,
            };
            table.set(entry.iid, model.texts.intern_bytes(entry.text));
        }
        let of = |table: u32| entries(interned).filter(move |entry| entry.table == table);
        of(interned::MAPPINGS).for_each(|entry| tables.mapping(&entry, model));
        of(interned::FRAMES).for_each(|entry| tables.frame(&entry, model));
        of(interned::CALLSTACKS).for_each(|entry| tables.stack(&entry, model));
    }

    /// A sample, from an encoded `PerfSample`.
    #[inline]
    pub(super) fn sample(
        &mut self,
        sequence: SequenceIndex,
        time_ns: u64,
        encoded: &[u8],
        processes: &mut Processes,
        model: &mut Model,
    ) -> Sample {
        let (mut pid, mut tid, mut stack, mut weight) = (0, 0, 0, 1);
        for field in Fields::new(encoded) {
            let Ok(field) = field else { break };
            match field.number {
                sample::PID => pid = field.value.number32(),
                sample::TID => tid = field.value.number32(),
                sample::CALLSTACK_IID => stack = field.value.number(),
                sample::TIMEBASE_COUNT => weight = field.value.number(),
                _ => {}
            }
        }
        let tables = self.tables(sequence);
        let thread = processes.thread(pid, tid, model);
        Sample {
            time_ns,
            weight,
            process: model.threads[thread.index()].process,
            thread,
            stack: tables.stacks.get(stack),
            basis: tables.basis,
        }
    }
}

impl Tables {
    fn mapping(&mut self, entry: &Entry<'_>, model: &mut Model) {
        let mut path = String::new();
        let mut part = |iid: u64| {
            path.push('/');
            path.push_str(model.texts.get(self.path_parts.get(iid)));
        };
        each(entry.body, mapping::PATH_STRING_IDS, &mut part);
        let path = model.texts.intern(&path);
        self.mappings.set(entry.iid, path);
    }

    fn frame(&mut self, entry: &Entry<'_>, model: &mut Model) {
        let mut found = Frame::default();
        for field in Fields::new(entry.body).flatten() {
            let number = field.value.number();
            match field.number {
                frame::FUNCTION_NAME_ID => found.function = self.functions.get(number),
                frame::MAPPING_ID => found.mapping = self.mappings.get(number),
                frame::SOURCE_PATH_IID => found.source = self.sources.get(number),
                frame::LINE_NUMBER => found.line = number as u32,
                _ => {}
            }
        }
        let id = model.stacks.frame_id(found);
        self.frames.set(entry.iid, Some(id));
    }

    fn stack(&mut self, entry: &Entry<'_>, model: &mut Model) {
        let mut stack = StackId::ROOT;
        each(entry.body, callstack::FRAME_IDS, &mut |iid| {
            if let Some(frame) = self.frames.get(iid) {
                stack = model.stacks.child(stack, frame);
            }
        });
        self.stacks.set(entry.iid, stack);
    }
}

/// The numbers of a repeated field, packed or not.
fn each(message: &[u8], number: u32, take: &mut impl FnMut(u64)) {
    for field in Fields::new(message).flatten() {
        match field.value {
            _ if field.number != number => {}
            Value::Bytes(packed) => packed_varints(packed).flatten().for_each(&mut *take),
            value => take(value.number()),
        }
    }
}
