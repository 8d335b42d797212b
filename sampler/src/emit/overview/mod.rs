//! A small trace of a whole long run, beside the files that hold all of it.
//!
//! What is drawn in files is also summed up here, over [`spans`] of time that become longer as the run does: samples by thread and stack, kernels by
//! device and by launching stack, readings of counters. [`paths`] makes slices of what a thread did most, [`long`] keeps the longest calls and ranges.
//! Totals are those of the files; only the times within a span are lost. [`draw`] writes it, once, at the end.

mod draw;
mod long;
mod paths;
mod spans;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use rsys_proto::hashing::FastMap;

pub use self::draw::Pen;
use self::long::{Long, Longest};
use self::spans::{Spans, Sum};
use super::learned::frames::{FrameId, Frames, FunctionId};
use crate::counters::{Counter, Reading};

/// About so many samples are written, and so many readings of counters.
const SAMPLES_MAX: usize = 1 << 16;
const READINGS_MAX: usize = 1 << 15;
/// Stacks beyond so many are shown by their outermost functions only.
const STACKS_MAX: usize = 1 << 16;
const OUTERMOST: usize = 2;
/// Slices are this deep.
const OUTLINE: usize = 24;
/// Operations of a GPU come nearly in order: at least so many wait for earlier ones.
const WAITING: usize = 1 << 13;

/// What a sum is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Of {
    /// The samples of a thread's CPU time.
    Cpu,
    /// Its time of waiting.
    Waiting,
    /// The time of the kernels that it launched.
    Launched,
    /// The time of a device's kernels by name.
    Kernel,
    /// The time in which a device did something.
    Busy,
}

/// A kind of sum, the thread or device, and the stack or kernel.
type Key = (Of, u32, u32);

/// The sum of a counter's values, and how many they are.
#[derive(Debug, Clone, Copy, Default)]
struct Values(f64, u32);

impl Sum for Values {
    fn add(&mut self, other: Self) {
        self.0 += other.0;
        self.1 += other.1;
    }
}

/// A GPU.
#[derive(Debug, Default)]
struct Device {
    name: String,
    /// Operations that wait for earlier ones.
    waiting: Vec<(u64, u64)>,
    /// It is known up to here when it was busy.
    end_ns: u64,
}

/// The sums of a process.
#[derive(Debug)]
pub struct Overview {
    period_ns: u64,
    times: Spans<Key, u64>,
    /// The samples and waits by their outer functions alone, for slices: these are few, so that spans stay short where stacks are many.
    outlines: Spans<Key, u64>,
    values: Spans<u32, Values>,
    stacks: Stacks,
    devices: BTreeMap<u32, Device>,
    counters: HashMap<u32, Arc<Counter>>,
    longest: Longest,
    /// Names that events brought themselves, numbered from [`OWN_NAME`] on.
    own_names: HashMap<String, u64>,
}

/// Ids of names from here on are of [`Overview::own_names`]: texts of events have addresses or small numbers.
const OWN_NAME: u64 = 1 << 63;
/// More than so many names are not told apart.
const OWN_NAMES_MAX: u64 = 1 << 14;

impl Overview {
    /// Of a process that began at this time, with samples that are so far apart.
    pub fn new(begin_ns: u64, period_ns: u64) -> Self {
        Self {
            period_ns,
            times: Spans::new(begin_ns, SAMPLES_MAX),
            outlines: Spans::new(begin_ns, SAMPLES_MAX),
            values: Spans::new(begin_ns, READINGS_MAX),
            stacks: Stacks::default(),
            devices: BTreeMap::new(),
            counters: HashMap::new(),
            longest: Longest::default(),
            own_names: HashMap::new(),
        }
    }

    /// Adds a sample of CPU time.
    pub fn cpu(
        &mut self,
        tid: u32,
        (time_ns, weight): (u64, u64),
        stack: &[FrameId],
        frames: &Frames,
    ) {
        let (stack, outline) = self.stacks.with_outline(stack, frames);
        self.outlines.add((Of::Cpu, tid, outline), time_ns, weight);
        self.times.add((Of::Cpu, tid, stack), time_ns, weight);
    }

    /// Adds a wait, or a part of one.
    pub fn wait(
        &mut self,
        tid: u32,
        (begin_ns, end_ns): (u64, u64),
        stack: &[FrameId],
        frames: &Frames,
    ) {
        let (stack, outline) = self.stacks.with_outline(stack, frames);
        self.outlines
            .add_time((Of::Waiting, tid, outline), begin_ns, end_ns);
        self.times
            .add_time((Of::Waiting, tid, stack), begin_ns, end_ns);
    }

    /// Adds a kernel under the stack that launched it, whose innermost frame is its name.
    pub fn kernel(
        &mut self,
        device: u32,
        tid: u32,
        (begin_ns, end_ns): (u64, u64),
        stack: impl FnOnce() -> Vec<FrameId>,
        frames: &Frames,
    ) {
        let stack = stack();
        if let Some(name) = stack.last() {
            self.times
                .add_time((Of::Kernel, device, name.0), begin_ns, end_ns);
        }
        let stack = self.stacks.id(&stack, frames);
        self.times
            .add((Of::Launched, tid, stack), begin_ns, end_ns - begin_ns);
    }

    /// Adds a time in which a GPU did something.
    pub fn operation(&mut self, device: u32, name: &str, times: (u64, u64)) {
        let of_device = self.devices.entry(device).or_default();
        if of_device.name.is_empty() {
            name.clone_into(&mut of_device.name);
        }
        of_device.waiting.push(times);
        if of_device.waiting.len() >= 2 * WAITING {
            self.take_operations(device, WAITING);
        }
    }

    /// Takes over the earliest operations of those that wait.
    fn take_operations(&mut self, number: u32, count: usize) {
        let Some(device) = self.devices.get_mut(&number) else {
            return;
        };
        device.waiting.sort();
        for (begin_ns, end_ns) in device.waiting.drain(..count) {
            let begin_ns = begin_ns.max(device.end_ns);
            self.times.add_time((Of::Busy, number, 0), begin_ns, end_ns);
            device.end_ns = device.end_ns.max(end_ns);
        }
    }

    /// Adds a call or range of a thread, on the track with this title and description.
    pub fn call(
        &mut self,
        tid: u32,
        track: (&'static str, &'static str),
        (begin_ns, end_ns): (u64, u64),
        name: u64,
    ) {
        self.longest.add(Long {
            tid,
            track,
            begin_ns,
            end_ns,
            name,
        });
    }

    /// The id of a name that no text has.
    pub fn own_name(&mut self, name: Option<String>) -> u64 {
        let Some(name) = name else {
            return 0;
        };
        let next = self.own_names.len() as u64;
        match self.own_names.get(&name) {
            Some(&id) => id,
            None if next < OWN_NAMES_MAX => *self.own_names.entry(name).or_insert(OWN_NAME + next),
            None => 0,
        }
    }

    /// Adds a reading of a counter.
    pub fn reading(&mut self, reading: &Reading) {
        let id = reading.counter.id;
        self.counters
            .entry(id)
            .or_insert_with(|| Arc::clone(&reading.counter));
        self.values
            .add(id, reading.time_ns, Values(reading.value, 1));
    }
}

/// Stacks of functions, each with the frame by which the function is shown.
#[derive(Debug, Default)]
struct Stacks {
    ids: FastMap<Rc<[FunctionId]>, u32>,
    stacks: Vec<Rc<[FunctionId]>>,
    frames: FastMap<FunctionId, FrameId>,
    scratch: Vec<FunctionId>,
}

impl Stacks {
    /// The ids of a stack and of its outer part.
    fn with_outline(&mut self, stack: &[FrameId], frames: &Frames) -> (u32, u32) {
        let whole = self.id(stack, frames);
        match stack.get(..OUTLINE) {
            Some(outer) if outer.len() < stack.len() => (whole, self.id(outer, frames)),
            _ => (whole, whole),
        }
    }

    fn id(&mut self, stack: &[FrameId], frames: &Frames) -> u32 {
        let mut functions = std::mem::take(&mut self.scratch);
        functions.clear();
        functions.extend(stack.iter().map(|&frame| frames.frame(frame).function));
        if self.stacks.len() >= STACKS_MAX && !self.ids.contains_key(&*functions) {
            functions.truncate(OUTERMOST);
        }
        let id = match self.ids.get(&*functions) {
            Some(&id) => id,
            None => {
                for (&function, &frame) in functions.iter().zip(stack) {
                    self.frames.entry(function).or_insert(frame);
                }
                let stack: Rc<[FunctionId]> = functions.as_slice().into();
                let id = self.stacks.len() as u32;
                self.stacks.push(Rc::clone(&stack));
                self.ids.insert(stack, id);
                id
            }
        };
        self.scratch = functions;
        id
    }

    fn functions(&self, id: u32) -> &Rc<[FunctionId]> {
        &self.stacks[id as usize]
    }

    fn frames(&self, id: u32) -> Vec<FrameId> {
        self.functions(id)
            .iter()
            .map(|function| self.frames[function])
            .collect()
    }
}
