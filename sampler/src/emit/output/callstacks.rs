//! The table of call stacks of a trace.

use rsys_proto::hashing::FastMap;
use rsys_proto::{
    CallstackIid, FrameDesc, FrameIid, MappingDesc, PacketBuffer, Sample, SampleSequence,
};

use crate::emit::learned::frames::{FrameId, Frames};

/// The table of call stacks is restarted when its stacks hold more frames than this: memory must
/// not grow with the length of a run.
const STACK_FRAMES_MAX: usize = 6 << 20;

/// So many stacks of events are found by their parts; beyond, they are put together anew.
const OF_EVENTS_MAX: usize = 1 << 15;

/// The call stacks of a trace, and the ids of their frames.
#[derive(Debug)]
pub struct Stacks {
    sequence: SampleSequence,
    frames: Vec<Option<FrameIid>>,
    scratch: Vec<FrameIid>,
    /// How many frames the table's stacks hold, with something for each stack.
    held: usize,
    highest: u32,
    /// Stacks of events that were put together before, by what they consist of.
    of_events: FastMap<(u64, u32), CallstackIid>,
    counter: String,
    frequency_hz: Option<f64>,
}

impl Stacks {
    /// Begins a table of stacks whose samples have weights of that name.
    pub fn new(out: &mut PacketBuffer, counter: &str, frequency_hz: Option<f64>) -> Self {
        Self {
            sequence: SampleSequence::new(
                out,
                counter,
                frequency_hz.map(|hertz| hertz.round() as u64),
            ),
            frames: Vec::new(),
            scratch: Vec::new(),
            held: 0,
            highest: 0,
            of_events: FastMap::default(),
            counter: counter.to_owned(),
            frequency_hz,
        }
    }

    /// Appends the samples and forgets them.
    pub fn append(&mut self, out: &mut PacketBuffer, samples: &mut Vec<Sample>) {
        self.sequence.samples(out, samples);
        samples.clear();
        self.renew_if_large(out);
    }

    /// The id of a stack that `key` stands for; `frames` puts it together.
    pub fn callstack_of(
        &mut self,
        tables: &Frames,
        key: (u64, u32),
        frames: impl FnOnce() -> Vec<FrameId>,
    ) -> CallstackIid {
        if let Some(&known) = self.of_events.get(&key) {
            return known;
        }
        let callstack = self.callstack(tables, &frames());
        if self.of_events.len() >= OF_EVENTS_MAX {
            self.of_events.clear();
        }
        self.of_events.insert(key, callstack);
        callstack
    }

    /// The id of a stack.
    pub fn callstack(&mut self, tables: &Frames, frames: &[FrameId]) -> CallstackIid {
        let mut iids = std::mem::take(&mut self.scratch);
        iids.clear();
        iids.extend(frames.iter().map(|&frame| self.frame(tables, frame)));
        let callstack = self.sequence.intern_callstack(&iids);
        self.scratch = iids;
        // New stacks get the next number.
        if callstack.get() > self.highest {
            self.highest = callstack.get();
            self.held += frames.len() + 8;
        }
        callstack
    }

    fn frame(&mut self, tables: &Frames, id: FrameId) -> FrameIid {
        let index = id.0 as usize;
        if let Some(Some(iid)) = self.frames.get(index) {
            return *iid;
        }
        let frame = tables.frame(id);
        let function = tables.function(frame.function);
        let file = tables.file(function.file);
        let desc = FrameDesc {
            function: Some(self.sequence.intern_function(&function.name)),
            mapping: self.sequence.intern_mapping(&MappingDesc {
                path: file.path.clone(),
                build_id: file.build_id.clone(),
                ..MappingDesc::default()
            }),
            rel_pc: frame.address,
            source: frame
                .source
                .as_deref()
                .map(|source| self.sequence.intern_source(source)),
            line: (frame.line > 0).then_some(frame.line),
        };
        let iid = self.sequence.intern_frame(desc);
        if index >= self.frames.len() {
            self.frames.resize(index + 1, None);
        }
        self.frames[index] = Some(iid);
        iid
    }

    fn renew_if_large(&mut self, out: &mut PacketBuffer) {
        if self.held > STACK_FRAMES_MAX {
            *self = Self::new(out, &self.counter, self.frequency_hz);
        }
    }
}
