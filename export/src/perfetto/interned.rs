//! What packets refer to by number: each is written once, with the first packet that needs it.

use std::collections::HashMap;
use std::hash::Hash;

use super::message::{
    Callstack, Context, Frame, InternedData, Mapping, Named, Specification, Task, Timebase,
};
use crate::stacks::Stacks;

/// Numbers of one kind, which begin at 1.
#[derive(Debug)]
struct Numbers<K>(HashMap<K, u64>);

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Numbers<K> {
    /// The number of a key; the second says whether it is new.
    fn of(&mut self, key: K) -> (u64, bool) {
        let next = self.0.len() as u64 + 1;
        let number = *self.0.entry(key).or_insert(next);
        (number, number == next)
    }
}

/// Texts of one kind.
#[derive(Debug, Default)]
struct Texts(HashMap<String, u64>);

impl Texts {
    fn of(&mut self, text: &str, new: &mut Vec<Named>) -> u64 {
        if let Some(&number) = self.0.get(text) {
            return number;
        }
        let iid = self.0.len() as u64 + 1;
        self.0.insert(text.to_owned(), iid);
        let text = text.to_owned();
        new.push(Named { iid, text });
        iid
    }
}

/// All that was written, and what is to be written with the next packet.
#[derive(Debug, Default)]
pub(super) struct Interned {
    new: InternedData,
    has_new: bool,
    names: Texts,
    functions: Texts,
    sources: Texts,
    mapping_paths: Texts,
    mappings: Numbers<u64>,
    /// By row of the stacks.
    frames: Numbers<usize>,
    callstacks: Numbers<usize>,
    contexts: Numbers<u64>,
    queues: HashMap<(u64, u64), HashMap<String, u64>>,
    specifications: u64,
    stages: HashMap<&'static str, u64>,
    tasks: Numbers<(u64, u64)>,
    timebases: Numbers<&'static str>,
}

/// HIP in `InternedGraphicsContext.Api`.
pub(super) const HIP: i32 = 5;
/// In `RenderStageCategory`.
const COMPUTE: i32 = 2;
/// In `StackSample.Unit`.
const NANOSECONDS: i32 = 1;
const COUNT: i32 = 9;

impl Interned {
    /// What is new, for the packet that needs it.
    pub(super) fn take(&mut self) -> Option<InternedData> {
        let has_new = std::mem::take(&mut self.has_new);
        has_new.then(|| std::mem::take(&mut self.new))
    }

    pub(super) fn name(&mut self, text: &str) -> u64 {
        let before = self.new.event_names.len();
        let iid = self.names.of(text, &mut self.new.event_names);
        self.has_new |= self.new.event_names.len() > before;
        iid
    }

    /// A process whose work operations are.
    pub(super) fn context(&mut self, process: u64, pid: u64) -> u64 {
        let (iid, is_new) = self.contexts.of(process);
        if is_new {
            let pid = pid as i32;
            self.new
                .graphics_contexts
                .push(Context { iid, pid, api: HIP });
            self.has_new = true;
        }
        iid
    }

    fn specification(&mut self, name: String, category: i32) -> u64 {
        self.specifications += 1;
        let iid = self.specifications;
        self.new.gpu_specifications.push(Specification {
            iid,
            name,
            category,
        });
        self.has_new = true;
        iid
    }

    /// A stream or queue of a process on a GPU.
    pub(super) fn queue(&mut self, process: u64, gpu: u64, name: &str) -> u64 {
        let known = self.queues.get(&(process, gpu));
        if let Some(&iid) = known.and_then(|of_gpu| of_gpu.get(name)) {
            return iid;
        }
        let iid = self.specification(format!("GPU {gpu} {name}"), COMPUTE);
        let of_gpu = self.queues.entry((process, gpu)).or_default();
        of_gpu.insert(name.to_owned(), iid);
        iid
    }

    /// A kind of operations.
    pub(super) fn stage(&mut self, kind: &'static str) -> u64 {
        if let Some(&iid) = self.stages.get(kind) {
            return iid;
        }
        let category = if kind == "Kernel" { COMPUTE } else { 0 };
        let iid = self.specification(kind.to_owned(), category);
        self.stages.insert(kind, iid);
        iid
    }

    /// A thread that was sampled.
    pub(super) fn task(&mut self, process: u64, pid: u64, tid: u64) -> u64 {
        let (iid, is_new) = self.tasks.of((process, tid));
        if is_new {
            let (pid, tid) = (pid as u32, tid as u32);
            self.new.task_contexts.push(Task { iid, pid, tid });
            self.has_new = true;
        }
        iid
    }

    /// What the weights of samples count.
    pub(super) fn timebase(&mut self, name: &'static str) -> u64 {
        let (iid, is_new) = self.timebases.of(name);
        if is_new {
            self.new.counter_descriptors.push(Timebase {
                iid,
                name: name.to_owned(),
                unit: if name == "events" { COUNT } else { NANOSECONDS },
            });
            self.has_new = true;
        }
        iid
    }

    /// A call stack; none if it is empty.
    pub(super) fn callstack(&mut self, stacks: &Stacks, stack: usize) -> Option<u64> {
        if stacks.is_empty(stack) {
            return None;
        }
        let (iid, is_new) = self.callstacks.of(stack);
        if is_new {
            let rows: Vec<usize> = stacks.rows(stack).collect();
            let frames = rows.into_iter().rev();
            let frame_ids = frames.map(|row| self.frame(stacks, row)).collect();
            self.new.callstacks.push(Callstack { iid, frame_ids });
            self.has_new = true;
        }
        Some(iid)
    }

    fn frame(&mut self, stacks: &Stacks, row: usize) -> u64 {
        let (iid, is_new) = self.frames.of(row);
        if !is_new {
            return iid;
        }
        let frame = stacks.frame(row);
        let new = &mut self.new;
        let function_name_id = self.functions.of(frame.function, &mut new.function_names);
        let source = (!frame.source.is_empty())
            .then(|| self.sources.of(frame.source, &mut new.source_paths));
        let mapping = (!frame.module.is_empty()).then(|| {
            let path = self.mapping_paths.of(frame.module, &mut new.mapping_paths);
            let (iid, is_new) = self.mappings.of(path);
            if is_new {
                let path_string_ids = vec![path];
                new.mappings.push(Mapping {
                    iid,
                    path_string_ids,
                });
            }
            iid
        });
        new.frames.push(Frame {
            iid,
            function_name_id,
            mapping_id: mapping,
            source_path_iid: source,
            line_number: u32::try_from(frame.line).ok().filter(|&line| line > 0),
        });
        self.has_new = true;
        iid
    }
}
