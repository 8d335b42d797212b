//! Perfetto traces: encoding and decoding.
//!
//! Writing has two layers. [`PacketBuffer`] collects encoded packets: descriptors of tracks ([`ProcessTrack`] and so on) through prost, events
//! through [`TrackSequence`] and [`SampleSequence`], which are encoded by hand because there are many. [`TraceWriter`] brings the buffer to a file in
//! blocks, so that the file is a valid trace at every moment. Reading is [`reader`], which yields the prost types of [`schema`], and
//! [`resolve`], which undoes interning and delta times; [`blocks`] reads many packets at once, and [`packets`] does so ahead of their use. [`message`] looks into encoded packets, and copies them, without decoding them.
//!
//! ```
//! use rsys_proto::{ClockReadings, Compression, ProcessNamespace, ProcessTrack, ThreadTrack, TraceWriter, TrackSequence};
//!
//! # fn main() -> std::io::Result<()> {
//! let ids = ProcessNamespace::new("boot id", 4242, 17, 0);
//! let mut trace = TraceWriter::new(Vec::new(), Compression::Zlib);
//! let out = trace.buffer();
//! out.clock_snapshot(&ClockReadings { boottime_ns: 1_000, ..ClockReadings::default() });
//! out.process(&ProcessTrack { uuid: ids.track(1), pid: 4242, name: "app", ..ProcessTrack::default() });
//! out.thread(&ThreadTrack { uuid: ids.track(2), pid: 4242, tid: 4242, name: "main", ..ThreadTrack::default() });
//! let mut thread = TrackSequence::new(out, ids.track(2));
//! let compute = out.intern("compute");
//! thread.slice_begin(out, 2_000, compute);
//! thread.slice_end(out, 5_000);
//! trace.flush()?;
//! # Ok(())
//! # }
//! ```
//!
//! Two rules of Perfetto are the caller's to keep: a track's descriptor goes before its events, and slices of one track nest (overlapping work, as on a
//! GPU queue, needs one track per lane).

pub mod blocks;
mod buffer;
mod callstacks;
mod event;
pub mod fields;
pub mod hashing;
mod ids;
pub mod message;
pub mod packets;
mod parts;
pub mod reader;
pub mod resolve;
mod runtime_files;
mod sample_sequence;
pub mod schema;
mod short_names;
mod strings;
mod track_sequence;
mod tracks;
mod wire;
mod writer;

pub use buffer::{PacketBuffer, SequenceId};
pub use callstacks::{
    CallstackIid, FrameDesc, FrameIid, FunctionIid, MappingDesc, MappingIid, SourceIid,
};
pub use event::{Annotation, CounterValue, Event, EventKind, Name, Value};
pub use ids::{KnownNamespace, ProcessNamespace, is_shared_flow, shared_flow};
pub use runtime_files::{is_library_header, is_runtime_file};
pub use sample_sequence::{CpuMode, Sample, SampleSequence};
pub use short_names::without_arguments;
pub use strings::{StringId, StringTable};
pub use track_sequence::{DEPTH_MAX, LeftOut, TrackSequence};
pub use tracks::{
    ChildOrdering, ClockReadings, CounterTrack, CounterUnit, NamedTrack, ProcessTrack,
    SiblingMerge, ThreadTrack,
};
pub use writer::{BLOCK_BYTES, Compression, Compressor, Effort, TraceWriter, Written};
