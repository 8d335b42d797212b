//! CPU samples with their call stacks.

use crate::buffer::{DeltaClock, PacketBuffer, SequenceId, put_packet_head};
use crate::callstacks::{
    CallstackIid, CallstackTables, FrameDesc, FrameIid, FunctionIid, MappingDesc, MappingIid,
    SourceIid,
};
use crate::fields::{packet, sample};
use crate::schema::{self, TracePacket, clock};
use crate::wire::{self, Short, put_message};

/// Where the processor was when the sample was taken (`Profiling.CpuMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum CpuMode {
    /// Not recorded, which saves two bytes.
    #[default]
    Unknown = 0,
    /// In the kernel.
    Kernel = 1,
    /// In the program.
    User = 2,
}

/// One CPU sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// BOOTTIME.
    pub time_ns: u64,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The stack; `None` if it could not be walked.
    pub callstack: Option<CallstackIid>,
    /// What the sample stands for, in the unit of the sequence's counter. Viewers add the weights up.
    pub weight: u64,
    /// Where the processor was.
    pub mode: CpuMode,
    /// The processor, if known.
    pub cpu: Option<u32>,
}

/// The samples of one process, all threads on one sequence so that they share the tables of frames and stacks.
///
/// A sample that is late against the one before costs twelve bytes more than one in time order, so hand over the samples of several threads with
/// [`samples`](Self::samples), which sorts them.
#[derive(Debug)]
pub struct SampleSequence {
    id: SequenceId,
    counter: String,
    frequency: Option<u64>,
    clock: DeltaClock,
    tables: CallstackTables,
}

impl SampleSequence {
    /// A sequence of samples of `counter` (for instance `cpu-time ns`), taken `frequency` times a second.
    pub fn new(out: &mut PacketBuffer, counter: &str, frequency: Option<u64>) -> Self {
        Self {
            id: out.new_sequence(),
            counter: counter.to_owned(),
            frequency,
            clock: DeltaClock::default(),
            tables: CallstackTables::default(),
        }
    }

    /// The id of a function.
    pub fn intern_function(&mut self, name: &str) -> FunctionIid {
        self.tables.function(name)
    }

    /// The id of a source file.
    pub fn intern_source(&mut self, path: &str) -> SourceIid {
        self.tables.source(path)
    }

    /// The id of a mapped file.
    pub fn intern_mapping(&mut self, mapping: &MappingDesc) -> MappingIid {
        self.tables.mapping(mapping)
    }

    /// The mapping for frames of no known file.
    pub fn unknown_mapping(&mut self) -> MappingIid {
        self.tables.mapping(&MappingDesc {
            path: "[unknown]".to_owned(),
            ..MappingDesc::default()
        })
    }

    /// The id of a frame.
    pub fn intern_frame(&mut self, frame: FrameDesc) -> FrameIid {
        self.tables.frame(frame)
    }

    /// The id of a call stack, outermost frame first.
    pub fn intern_callstack(&mut self, frames: &[FrameIid]) -> CallstackIid {
        self.tables.callstack(frames)
    }

    /// Sorts `samples` by time and appends them.
    pub fn samples(&mut self, out: &mut PacketBuffer, samples: &mut [Sample]) {
        samples.sort_by_key(|sample| sample.time_ns);
        for sample in samples {
            self.sample(out, sample);
        }
    }

    /// Appends a sample, together with the definitions that it may need.
    pub fn sample(&mut self, out: &mut PacketBuffer, one: &Sample) {
        if !self.clock.is_started() {
            self.start(out, one.time_ns);
        }
        let time = self.clock.advance(one.time_ns);
        let sample = encode(one);
        let (id, pending) = (self.id, &mut self.tables.pending);
        out.raw_packet(|body, _| {
            put_packet_head(body, time, id);
            if !pending.is_empty() {
                put_message(body, packet::INTERNED_DATA, |body| body.append(pending));
            }
            sample.append_to(body);
        });
    }

    #[cold]
    fn start(&mut self, out: &mut PacketBuffer, time_ns: u64) {
        let snapshot = self.clock.start(time_ns);
        out.packet(&TracePacket {
            trusted_packet_sequence_id: Some(self.id.get()),
            sequence_flags: Some(schema::SEQ_INCREMENTAL_STATE_CLEARED),
            clock_snapshot: Some(Box::new(snapshot)),
            trace_packet_defaults: Some(Box::new(schema::TracePacketDefaults {
                timestamp_clock_id: Some(clock::SEQUENCE_DELTA),
                track_event_defaults: None,
                perf_sample_defaults: Some(schema::PerfSampleDefaults {
                    timebase: Some(schema::Timebase {
                        frequency: self.frequency,
                        name: Some(self.counter.clone()),
                        ..Default::default()
                    }),
                }),
            })),
            ..Default::default()
        });
    }
}

/// The `perf_sample` field of a packet, key and length included.
#[inline]
fn encode(one: &Sample) -> Short<64> {
    let mut bytes = Short::new();
    bytes.varint(const { wire::bytes_key(packet::PERF_SAMPLE) as u64 });
    let length = bytes.len();
    bytes.byte(0);
    let mut put = |field: u32, value: u64| {
        bytes.varint(u64::from(wire::varint_key(field)));
        bytes.varint(value);
    };
    if let Some(cpu) = one.cpu {
        put(sample::CPU, u64::from(cpu));
    }
    put(sample::PID, u64::from(one.pid));
    put(sample::TID, u64::from(one.tid));
    if let Some(callstack) = one.callstack {
        put(sample::CALLSTACK_IID, u64::from(callstack.get()));
    }
    if one.mode != CpuMode::Unknown {
        put(sample::CPU_MODE, one.mode as u64);
    }
    put(sample::TIMEBASE_COUNT, one.weight);
    bytes.set(length, (bytes.len() - length - 1) as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_sample_fits() {
        let mut tables = CallstackTables::default();
        let callstack = Some(tables.callstack(&[]));
        let one = Sample {
            time_ns: 0,
            pid: u32::MAX,
            tid: u32::MAX,
            callstack,
            weight: u64::MAX,
            mode: CpuMode::User,
            cpu: Some(u32::MAX),
        };
        // A larger callstack id would take four bytes more.
        assert_eq!(encode(&one).len(), 3 + 3 * 6 + 2 + 2 + 11);
    }
}
