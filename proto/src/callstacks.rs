//! The interning tables of call stacks: functions, files, frames and stacks.

use std::hash::Hash;

use crate::fields::{callstack, frame, interned, mapping};
use crate::hashing::FastMap;
use crate::wire::{put_bytes, put_message, put_u64};

macro_rules! iid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// The interning id in the file.
            pub fn get(self) -> u32 {
                self.0
            }
        }
    };
}

iid!(
    /// A function of a [`SampleSequence`](crate::SampleSequence).
    FunctionIid
);
iid!(
    /// A mapped file of a [`SampleSequence`](crate::SampleSequence).
    MappingIid
);
iid!(
    /// A source file of a [`SampleSequence`](crate::SampleSequence).
    SourceIid
);
iid!(
    /// A frame of a [`SampleSequence`](crate::SampleSequence).
    FrameIid
);
iid!(
    /// A call stack of a [`SampleSequence`](crate::SampleSequence).
    CallstackIid
);

/// A mapped file, or a made-up one such as `[python]` for frames of no file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct MappingDesc {
    /// Path of the file.
    pub path: String,
    /// Build id, raw bytes; empty if unknown.
    pub build_id: Vec<u8>,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset of the mapping in the file.
    pub exact_offset: u64,
    /// Offset of the file's first mapping; usually 0.
    pub start_offset: u64,
    /// `p_vaddr - p_offset` of the executable segment.
    pub load_bias: u64,
}

/// A frame. Two frames with the same mapping should differ in `rel_pc` if they differ at all, because the trace processor tells them apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameDesc {
    /// The function, if its name is known.
    pub function: Option<FunctionIid>,
    /// The mapping. Perfetto v52 drops stacks with frames that have none.
    pub mapping: MappingIid,
    /// Address relative to the mapped file.
    pub rel_pc: u64,
    /// Source file (Perfetto v53 and later).
    pub source: Option<SourceIid>,
    /// Line in it.
    pub line: Option<u32>,
}

/// The tables of one sequence, and the definitions that were not written yet.
#[derive(Debug, Default)]
pub(crate) struct CallstackTables {
    functions: Table<Box<str>>,
    sources: Table<Box<str>>,
    path_parts: Table<Box<str>>,
    build_ids: Table<Box<[u8]>>,
    mappings: Table<MappingDesc>,
    frames: Table<FrameDesc>,
    callstacks: Table<Box<[FrameIid]>>,
    /// An `InternedData` body.
    pub pending: Vec<u8>,
}

impl CallstackTables {
    pub fn function(&mut self, name: &str) -> FunctionIid {
        FunctionIid(string(
            &mut self.functions,
            &mut self.pending,
            interned::FUNCTION_NAMES,
            name,
        ))
    }

    pub fn source(&mut self, path: &str) -> SourceIid {
        SourceIid(string(
            &mut self.sources,
            &mut self.pending,
            interned::SOURCE_PATHS,
            path,
        ))
    }

    pub fn mapping(&mut self, desc: &MappingDesc) -> MappingIid {
        if let Some(iid) = self.mappings.get(desc) {
            return MappingIid(iid);
        }
        let build_id = (!desc.build_id.is_empty()).then(|| {
            self.build_ids
                .get(desc.build_id.as_slice())
                .unwrap_or_else(|| {
                    let iid = self.build_ids.insert(desc.build_id.as_slice().into());
                    put_entry(&mut self.pending, interned::BUILD_IDS, iid, |body| {
                        put_bytes(body, interned::TEXT, &desc.build_id)
                    });
                    iid
                })
        });
        // The trace processor joins the parts with a slash before each, so the root needs none of its own.
        let parts: Vec<u32> = desc
            .path
            .strip_prefix('/')
            .unwrap_or(&desc.path)
            .split('/')
            .map(|part| {
                string(
                    &mut self.path_parts,
                    &mut self.pending,
                    interned::MAPPING_PATHS,
                    part,
                )
            })
            .collect();
        let iid = self.mappings.insert(desc.clone());
        put_entry(&mut self.pending, interned::MAPPINGS, iid, |body| {
            put_optional(body, mapping::BUILD_ID, u64::from(build_id.unwrap_or(0)));
            put_optional(body, mapping::START_OFFSET, desc.start_offset);
            put_optional(body, mapping::START, desc.start);
            put_optional(body, mapping::END, desc.end);
            put_optional(body, mapping::LOAD_BIAS, desc.load_bias);
            put_optional(body, mapping::EXACT_OFFSET, desc.exact_offset);
            for part in parts {
                put_u64(body, mapping::PATH_STRING_IDS, u64::from(part));
            }
        });
        MappingIid(iid)
    }

    pub fn frame(&mut self, desc: FrameDesc) -> FrameIid {
        if let Some(iid) = self.frames.get(&desc) {
            return FrameIid(iid);
        }
        let iid = self.frames.insert(desc);
        put_entry(&mut self.pending, interned::FRAMES, iid, |body| {
            put_optional(
                body,
                frame::FUNCTION_NAME_ID,
                u64::from(desc.function.map_or(0, FunctionIid::get)),
            );
            put_u64(body, frame::MAPPING_ID, u64::from(desc.mapping.0));
            put_u64(body, frame::REL_PC, desc.rel_pc);
            put_optional(
                body,
                frame::SOURCE_PATH_IID,
                u64::from(desc.source.map_or(0, SourceIid::get)),
            );
            put_optional(body, frame::LINE_NUMBER, u64::from(desc.line.unwrap_or(0)));
        });
        FrameIid(iid)
    }

    pub fn callstack(&mut self, frames: &[FrameIid]) -> CallstackIid {
        if let Some(iid) = self.callstacks.get(frames) {
            return CallstackIid(iid);
        }
        let iid = self.callstacks.insert(frames.into());
        put_entry(&mut self.pending, interned::CALLSTACKS, iid, |body| {
            for frame in frames {
                put_u64(body, callstack::FRAME_IDS, u64::from(frame.0));
            }
        });
        CallstackIid(iid)
    }
}

/// Values and their interning ids, from 1.
#[derive(Debug)]
struct Table<K> {
    ids: FastMap<K, u32>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            ids: FastMap::default(),
        }
    }
}

impl<K: Eq + Hash> Table<K> {
    fn get<Q>(&self, key: &Q) -> Option<u32>
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.ids.get(key).copied()
    }

    fn insert(&mut self, key: K) -> u32 {
        let iid = u32::try_from(self.ids.len() + 1).expect("fewer than 2^32 entries");
        self.ids.insert(key, iid);
        iid
    }
}

fn string(table: &mut Table<Box<str>>, pending: &mut Vec<u8>, field: u32, text: &str) -> u32 {
    if let Some(iid) = table.get(text) {
        return iid;
    }
    let iid = table.insert(text.into());
    put_entry(pending, field, iid, |body| {
        put_bytes(body, interned::TEXT, text.as_bytes())
    });
    iid
}

fn put_entry(pending: &mut Vec<u8>, field: u32, iid: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_message(pending, field, |body| {
        put_u64(body, interned::IID, u64::from(iid));
        write(body);
    });
}

/// Appends a field unless it has its default value.
fn put_optional(body: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        put_u64(body, field, value);
    }
}
