//! Field numbers of the public Perfetto schema (`perfetto_trace.proto`) that are used without decoding whole messages.
//!
//! The prost types in [`crate::schema`] carry their own numbers; the tests decode with those what was encoded with these.
#![expect(
    missing_docs,
    reason = "the fields are Perfetto's own, documented in its schema"
)]

/// `Trace`: the file.
pub mod trace {
    /// One `TracePacket`; the only field that may appear at the top level of a file.
    pub const PACKET: u32 = 1;
}

/// `TracePacket`.
pub mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const INCREMENTAL_STATE_CLEARED: u32 = 41;
    pub const PROCESS_DESCRIPTOR: u32 = 43;
    pub const THREAD_DESCRIPTOR: u32 = 44;
    pub const SYSTEM_INFO: u32 = 45;
    pub const COMPRESSED_PACKETS: u32 = 50;
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const PERF_SAMPLE: u32 = 66;
    pub const TRACE_UUID: u32 = 89;
    pub const MACHINE_ID: u32 = 98;
}

/// `TracePacketDefaults`.
pub mod defaults {
    pub const TRACK_EVENT: u32 = 11;
    pub const PERF_SAMPLE: u32 = 12;
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
}

/// `PerfSampleDefaults`.
pub mod sample_defaults {
    pub const TIMEBASE: u32 = 1;
}

/// `PerfEvents.Timebase`.
pub mod timebase {
    pub const NAME: u32 = 10;
}

/// `TrackEvent`, and `TrackEventDefaults`, whose fields have the same numbers.
pub mod event {
    pub const EXTRA_COUNTER_TRACK_UUIDS: u32 = 31;
    pub const FLOW_IDS_OLD: u32 = 36;
    pub const TERMINATING_FLOW_IDS_OLD: u32 = 42;
    pub const EXTRA_DOUBLE_COUNTER_TRACK_UUIDS: u32 = 45;
    pub const CATEGORY_IIDS: u32 = 3;
    pub const CATEGORIES: u32 = 22;
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK_UUID: u32 = 11;
    pub const NAME: u32 = 23;
    pub const COUNTER_VALUE: u32 = 30;
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;
    pub const FLOW_IDS: u32 = 47;
    pub const TERMINATING_FLOW_IDS: u32 = 48;
    pub const CORRELATION_ID: u32 = 52;
}

/// `TrackDescriptor`.
pub mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT_UUID: u32 = 5;
    /// `SIBLING_ORDER_RANK`: among processes it counts since Perfetto v57.
    pub const SIBLING_ORDER_RANK: u32 = 12;
    /// On the track with uuid 0, since Perfetto v57.
    pub const PROCESS_ORDERING: u32 = 19;
}

/// `ProcessDescriptor`.
pub mod process {
    pub const PID: u32 = 1;
    pub const NAME: u32 = 6;
}

/// `ThreadDescriptor`.
pub mod thread {
    pub const PID: u32 = 1;
    pub const TID: u32 = 2;
}

/// `DebugAnnotation`.
pub mod annotation {
    pub const NAME_IID: u32 = 1;
    pub const BOOL_VALUE: u32 = 2;
    pub const UINT_VALUE: u32 = 3;
    pub const INT_VALUE: u32 = 4;
    pub const DOUBLE_VALUE: u32 = 5;
    pub const STRING_VALUE: u32 = 6;
    pub const POINTER_VALUE: u32 = 7;
    pub const NAME: u32 = 10;
    pub const STRING_VALUE_IID: u32 = 17;
}

/// `InternedData`.
pub mod interned {
    pub const EVENT_CATEGORIES: u32 = 1;
    pub const EVENT_NAMES: u32 = 2;
    pub const DEBUG_ANNOTATION_NAMES: u32 = 3;
    pub const FUNCTION_NAMES: u32 = 5;
    pub const FRAMES: u32 = 6;
    pub const CALLSTACKS: u32 = 7;
    pub const BUILD_IDS: u32 = 16;
    pub const MAPPING_PATHS: u32 = 17;
    pub const SOURCE_PATHS: u32 = 18;
    pub const MAPPINGS: u32 = 19;
    pub const DEBUG_ANNOTATION_STRING_VALUES: u32 = 29;

    /// `iid` of every interned message.
    pub const IID: u32 = 1;
    /// The text of `EventName`, `EventCategory`, `DebugAnnotationName` and `InternedString`.
    pub const TEXT: u32 = 2;
}

/// `Mapping`.
pub mod mapping {
    pub const BUILD_ID: u32 = 2;
    pub const START_OFFSET: u32 = 3;
    pub const START: u32 = 4;
    pub const END: u32 = 5;
    pub const LOAD_BIAS: u32 = 6;
    pub const PATH_STRING_IDS: u32 = 7;
    pub const EXACT_OFFSET: u32 = 8;
}

/// `Frame`.
pub mod frame {
    pub const FUNCTION_NAME_ID: u32 = 2;
    pub const MAPPING_ID: u32 = 3;
    pub const REL_PC: u32 = 4;
    pub const SOURCE_PATH_IID: u32 = 5;
    pub const LINE_NUMBER: u32 = 6;
}

/// `Callstack`.
pub mod callstack {
    pub const FRAME_IDS: u32 = 2;
}

/// `PerfSample`.
pub mod sample {
    pub const CPU: u32 = 1;
    pub const PID: u32 = 2;
    pub const TID: u32 = 3;
    pub const CALLSTACK_IID: u32 = 4;
    pub const CPU_MODE: u32 = 5;
    pub const TIMEBASE_COUNT: u32 = 6;
}
