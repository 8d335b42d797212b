//! The part of the public Perfetto schema that rsys writes and reads, as prost types.
//!
//! Field names, types and numbers are those of `perfetto_trace.proto`, so they are not described again here. `TracePacket.data` is a oneof
//! there; here its members are plain optional fields, which is the same on the wire and easier to use. Fields that are not listed are skipped when
//! reading.
#![expect(
    missing_docs,
    reason = "the fields are Perfetto's own, documented in its schema"
)]

use prost::Message;

/// `SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED`.
pub const SEQ_INCREMENTAL_STATE_CLEARED: u32 = 1;
/// `SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE`.
pub const SEQ_NEEDS_INCREMENTAL_STATE: u32 = 2;

/// `BuiltinClock` values, and the sequence-local clock that rsys defines.
pub mod clock {
    /// `CLOCK_REALTIME`.
    pub const REALTIME: u32 = 1;
    /// `CLOCK_MONOTONIC`.
    pub const MONOTONIC: u32 = 3;
    /// `CLOCK_MONOTONIC_RAW`.
    pub const MONOTONIC_RAW: u32 = 5;
    /// `CLOCK_BOOTTIME`, the clock of every time in the traces of rsys.
    pub const BOOTTIME: u32 = 6;
    /// First clock id that is local to a sequence: rsys counts deltas of BOOTTIME on it.
    pub const SEQUENCE_DELTA: u32 = 64;
}

/// `TrackEvent.Type` values.
pub mod event_type {
    /// Opens a slice.
    pub const SLICE_BEGIN: i32 = 1;
    /// Closes the innermost slice of the track.
    pub const SLICE_END: i32 = 2;
    /// A point in time.
    pub const INSTANT: i32 = 3;
    /// A value of a counter track.
    pub const COUNTER: i32 = 4;
}

/// One record of a trace.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(bool, optional, tag = "41")]
    pub incremental_state_cleared: Option<bool>,
    #[prost(uint32, optional, tag = "42")]
    pub previous_packet_dropped: Option<u32>,
    #[prost(uint32, optional, tag = "98")]
    pub machine_id: Option<u32>,
    #[prost(message, optional, boxed, tag = "59")]
    pub trace_packet_defaults: Option<Box<TracePacketDefaults>>,
    #[prost(message, optional, boxed, tag = "12")]
    pub interned_data: Option<Box<InternedData>>,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "66")]
    pub perf_sample: Option<PerfSample>,
    #[prost(message, optional, boxed, tag = "60")]
    pub track_descriptor: Option<Box<TrackDescriptor>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub clock_snapshot: Option<Box<ClockSnapshot>>,
    #[prost(message, optional, boxed, tag = "45")]
    pub system_info: Option<Box<SystemInfo>>,
    #[prost(message, optional, tag = "89")]
    pub trace_uuid: Option<TraceUuid>,
    #[prost(message, optional, boxed, tag = "61")]
    pub module_symbols: Option<Box<ModuleSymbols>>,
    #[prost(bytes = "vec", optional, tag = "50")]
    pub compressed_packets: Option<Vec<u8>>,
}

/// Values that hold for all packets of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub track_event_defaults: Option<TrackEventDefaults>,
    #[prost(message, optional, tag = "12")]
    pub perf_sample_defaults: Option<PerfSampleDefaults>,
}

/// Defaults of the track events of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEventDefaults {
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
}

/// Defaults of the samples of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct PerfSampleDefaults {
    #[prost(message, optional, tag = "1")]
    pub timebase: Option<Timebase>,
}

/// `PerfEvents.Timebase`: what a sample counts.
#[derive(Clone, PartialEq, Message)]
pub struct Timebase {
    #[prost(uint64, optional, tag = "1")]
    pub period: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub frequency: Option<u64>,
    #[prost(int32, optional, tag = "4")]
    pub counter: Option<i32>,
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    #[prost(int32, optional, tag = "11")]
    pub timestamp_clock: Option<i32>,
}

/// A slice's begin or end, an instant or a counter value.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
    #[prost(uint64, optional, tag = "52")]
    pub correlation_id: Option<u64>,
}

/// A key and a typed value on an event.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    pub double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    #[prost(uint64, optional, tag = "7")]
    pub pointer_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    #[prost(uint64, optional, tag = "17")]
    pub string_value_iid: Option<u64>,
}

/// New entries of a sequence's interning tables.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "5")]
    pub function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "16")]
    pub build_ids: Vec<InternedString>,
    #[prost(message, repeated, tag = "17")]
    pub mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<InternedString>,
}

/// `EventName`, `EventCategory` and `DebugAnnotationName`, which have the same shape.
#[derive(Clone, PartialEq, Message)]
pub struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// A string, or raw bytes such as a build id.
#[derive(Clone, PartialEq, Message)]
pub struct InternedString {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub str: Option<Vec<u8>>,
}

/// A file mapped into a process.
#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub build_id: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub start_offset: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub start: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub end: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub load_bias: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub path_string_ids: Vec<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub exact_offset: Option<u64>,
}

/// A frame of a call stack.
#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub function_name_id: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub mapping_id: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub rel_pc: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub line_number: Option<u32>,
}

/// A call stack, outermost frame first.
#[derive(Clone, PartialEq, Message)]
pub struct Callstack {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frame_ids: Vec<u64>,
}

/// A CPU sample.
#[derive(Clone, PartialEq, Message)]
pub struct PerfSample {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub pid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub tid: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub callstack_iid: Option<u64>,
    #[prost(int32, optional, tag = "5")]
    pub cpu_mode: Option<i32>,
    #[prost(uint64, optional, tag = "6")]
    pub timebase_count: Option<u64>,
    #[prost(int32, optional, tag = "16")]
    pub unwind_error: Option<i32>,
}

/// What a track is called and where it belongs.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    #[prost(bool, optional, tag = "9")]
    pub disallow_merging_with_system_tracks: Option<bool>,
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
    #[prost(int32, optional, tag = "15")]
    pub sibling_merge_behavior: Option<i32>,
    #[prost(string, optional, tag = "16")]
    pub sibling_merge_key: Option<String>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, repeated, tag = "2")]
    pub cmdline: Vec<String>,
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
    #[prost(int64, optional, tag = "7")]
    pub start_timestamp_ns: Option<i64>,
    #[prost(string, repeated, tag = "8")]
    pub process_labels: Vec<String>,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// A counter's unit.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub unit_multiplier: Option<i64>,
    #[prost(bool, optional, tag = "5")]
    pub is_incremental: Option<bool>,
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub y_axis_share_key: Option<String>,
}

/// The values of several clocks at one moment.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub primary_trace_clock: Option<u32>,
}

/// One clock of a snapshot.
#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
    #[prost(bool, optional, tag = "3")]
    pub is_incremental: Option<bool>,
    #[prost(uint64, optional, tag = "4")]
    pub unit_multiplier_ns: Option<u64>,
}

/// The machine.
#[derive(Clone, PartialEq, Message)]
pub struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub utsname: Option<Utsname>,
    #[prost(string, optional, tag = "4")]
    pub tracing_service_version: Option<String>,
    #[prost(uint32, optional, tag = "6")]
    pub page_size: Option<u32>,
    #[prost(int32, optional, tag = "7")]
    pub timezone_off_mins: Option<i32>,
    #[prost(uint32, optional, tag = "8")]
    pub num_cpus: Option<u32>,
    #[prost(uint64, optional, tag = "16")]
    pub system_ram_bytes: Option<u64>,
    #[prost(string, optional, tag = "17")]
    pub machine_name: Option<String>,
}

/// What `uname` says.
#[derive(Clone, PartialEq, Message)]
pub struct Utsname {
    #[prost(string, optional, tag = "1")]
    pub sysname: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub version: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub release: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub machine: Option<String>,
}

/// The identity of a trace.
#[derive(Clone, PartialEq, Message)]
pub struct TraceUuid {
    #[prost(int64, optional, tag = "1")]
    pub msb: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub lsb: Option<i64>,
}

/// Symbols of addresses that were written raw.
#[derive(Clone, PartialEq, Message)]
pub struct ModuleSymbols {
    #[prost(string, optional, tag = "1")]
    pub path: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub build_id: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    pub address_symbols: Vec<AddressSymbols>,
}

/// The functions at an address, innermost first.
#[derive(Clone, PartialEq, Message)]
pub struct AddressSymbols {
    #[prost(uint64, optional, tag = "1")]
    pub address: Option<u64>,
    #[prost(message, repeated, tag = "2")]
    pub lines: Vec<Line>,
}

/// A function and its place in the source.
#[derive(Clone, PartialEq, Message)]
pub struct Line {
    #[prost(string, optional, tag = "1")]
    pub function_name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub source_file_name: Option<String>,
    #[prost(uint32, optional, tag = "3")]
    pub line_number: Option<u32>,
}
