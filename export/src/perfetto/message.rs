//! Messages of Perfetto's traces, as far as they are written. Field numbers are those of `protos/perfetto/trace` of github.com/google/perfetto; lists of
//! numbers are not packed, as its readers expect.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub trusted_packet_sequence_id: u32,
    #[prost(uint32, tag = "13")]
    pub sequence_flags: u32,
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    #[prost(message, optional, tag = "59")]
    pub defaults: Option<Defaults>,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "53")]
    pub render_stage: Option<RenderStage>,
    #[prost(message, optional, tag = "135")]
    pub stack_sample: Option<StackSample>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Named>,
    #[prost(message, repeated, tag = "5")]
    pub function_names: Vec<Named>,
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "17")]
    pub mapping_paths: Vec<Named>,
    #[prost(message, repeated, tag = "18")]
    pub source_paths: Vec<Named>,
    #[prost(message, repeated, tag = "19")]
    pub mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "23")]
    pub graphics_contexts: Vec<Context>,
    #[prost(message, repeated, tag = "24")]
    pub gpu_specifications: Vec<Specification>,
    #[prost(message, repeated, tag = "48")]
    pub task_contexts: Vec<Task>,
    #[prost(message, repeated, tag = "50")]
    pub counter_descriptors: Vec<Timebase>,
}

/// A text with a number; `EventName` and `InternedString` have the same form.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Named {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(string, tag = "2")]
    pub text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Frame {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint64, tag = "2")]
    pub function_name_id: u64,
    #[prost(uint64, optional, tag = "3")]
    pub mapping_id: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub line_number: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub path_string_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Callstack {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// The outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frame_ids: Vec<u64>,
}

/// Whose work operations are: a process and its runtime.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Context {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "3")]
    pub api: i32,
}

/// A queue, or a kind of operations.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Specification {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, tag = "4")]
    pub category: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Task {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint32, tag = "2")]
    pub pid: u32,
    #[prost(uint32, tag = "3")]
    pub tid: u32,
}

/// What weights of samples count.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Timebase {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, tag = "3")]
    pub unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Defaults {
    #[prost(message, optional, tag = "100")]
    pub stack_sample: Option<StackSampleDefaults>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackSampleDefaults {
    #[prost(string, tag = "1")]
    pub source: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct StackSample {
    #[prost(uint64, tag = "2")]
    pub task_context_iid: u64,
    #[prost(uint64, optional, tag = "6")]
    pub callstack_iid: Option<u64>,
    #[prost(uint64, tag = "10")]
    pub primary_descriptor_iid: u64,
    #[prost(uint64, tag = "11")]
    pub primary_weight: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RenderStage {
    #[prost(uint64, tag = "1")]
    pub event_id: u64,
    #[prost(uint64, optional, tag = "2")]
    pub duration: Option<u64>,
    #[prost(uint64, tag = "5")]
    pub context: u64,
    #[prost(message, repeated, tag = "6")]
    pub extra_data: Vec<Extra>,
    #[prost(uint32, optional, tag = "10")]
    pub submission_id: Option<u32>,
    #[prost(int32, optional, tag = "11")]
    pub gpu_id: Option<i32>,
    #[prost(uint64, tag = "13")]
    pub hw_queue_iid: u64,
    #[prost(uint64, tag = "14")]
    pub stage_iid: u64,
    #[prost(uint64, tag = "20")]
    pub name_iid: u64,
    #[prost(message, optional, tag = "21")]
    pub launch: Option<Launch>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Extra {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Launch {
    #[prost(message, optional, tag = "1")]
    pub grid_size: Option<Sizes>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Sizes {
    #[prost(uint32, tag = "1")]
    pub x: u32,
    #[prost(uint32, tag = "2")]
    pub y: u32,
    #[prost(uint32, tag = "3")]
    pub z: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(int32, tag = "9")]
    pub kind: i32,
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    #[prost(uint64, tag = "11")]
    pub track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
    /// Extensions of `gpu_track_event.proto`.
    #[prost(message, optional, tag = "3000")]
    pub gpu_correlation: Option<Correlation>,
    #[prost(int32, optional, tag = "3001")]
    pub gpu_api: Option<i32>,
}

/// The operations that a call submitted, by their event ids.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Correlation {
    #[prost(uint64, repeated, packed = "false", tag = "1")]
    pub submissions: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub uuid: u64,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<Process>,
    #[prost(message, optional, tag = "4")]
    pub thread: Option<Thread>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<Counter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(string, tag = "6")]
    pub process_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(int64, tag = "2")]
    pub tid: i64,
    #[prost(string, tag = "5")]
    pub thread_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Counter {
    #[prost(string, tag = "6")]
    pub unit_name: String,
}
