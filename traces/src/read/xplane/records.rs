//! Records from events.

use std::collections::HashMap;

use rsys_proto::message::{Fields, Value};

use super::names::{Plane, PlaneKind};
use crate::model::{
    Batch, Device, DeviceId, Effect, Framework, GpuRecord, HostKind, HostSlice, Kinds, Model,
    OpKind, Process, ProcessId, Queue, QueueId, StreamOrder, TextId, Thread, ThreadId,
};
use crate::read::kineto::host_kind;
use crate::read::known::{Activities, Effects, direction};

/// Calls and kernels that wait for each other, at most, in some 40 bytes each.
const WAITING: usize = 1 << 22;

/// The line that is read.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) time_ns: u64,
}

/// Makes records of events.
#[derive(Debug)]
pub(super) struct Records {
    file: String,
    kinds: Kinds,
    pub(super) line: Line,
    process: Option<ProcessId>,
    threads: HashMap<u64, ThreadId>,
    devices: HashMap<u32, DeviceId>,
    queues: HashMap<(u32, u64), QueueId>,
    activities: Activities,
    effects: Effects,
    /// Calls by their links, until an operation says which operator they are of; and the reverse.
    calls: HashMap<u64, HostSlice>,
    operators: HashMap<u64, TextId>,
    has_gpu: bool,
    has_accelerator: bool,
    /// Events that end before they begin.
    pub(super) negative: u64,
}

/// An event, as it is written.
#[derive(Debug, Default)]
struct Event<'e> {
    name: u64,
    offset_ps: u64,
    duration_ps: u64,
    /// A sum of many, without times.
    is_sum: bool,
    told: Told<'e>,
}

/// Properties of an event that count.
#[derive(Debug, Default)]
struct Told<'e> {
    link: u64,
    operator: &'e [u8],
    /// `kind_src:host kind_dst:device size:1024 …`
    copy: &'e [u8],
    /// `regs:32 grid:16,1,1 block:256,1,1 …`
    kernel: &'e [u8],
    is_step: bool,
}

/// The text behind a key in words with spaces between them.
fn word<'w>(words: &'w [u8], key: &[u8]) -> Option<&'w str> {
    let mut words = words.split(|byte| *byte == b' ');
    let word = words.find_map(|word| word.strip_prefix(key))?;
    std::str::from_utf8(word).ok()
}

impl<'e> Told<'e> {
    fn take(&mut self, stat: &'e [u8], plane: &'e Plane) {
        const NAME: u32 = 1;
        const REFERENCE: u32 = 7;
        let (mut name, mut number, mut text): (u64, u64, &[u8]) = (0, 0, b"");
        for field in Fields::new(stat).flatten() {
            match (field.number, field.value) {
                (NAME, value) => name = value.number(),
                (REFERENCE, value) => {
                    let known = plane.stats.get(&value.number());
                    text = known.map_or(b"", |known| known.as_bytes());
                }
                (_, Value::Bytes(bytes)) => text = bytes,
                (_, value) => number = value.number(),
            }
        }
        let in_words = || std::str::from_utf8(text).ok()?.parse().ok();
        match plane.stats.get(&name).map(String::as_str) {
            Some("correlation_id") => self.link = in_words().unwrap_or(number),
            Some("hlo_op") => self.operator = text,
            Some("memcpy_details" | "memset_details") => self.copy = text,
            Some("kernel_details") => self.kernel = text,
            Some("step_num") => self.is_step = true,
            _ => {}
        }
    }
}

impl<'e> Event<'e> {
    fn read(bytes: &'e [u8], plane: &'e Plane) -> Self {
        let mut event = Self::default();
        for field in Fields::new(bytes).flatten() {
            match field.number {
                1 => event.name = field.value.number(),
                2 => event.offset_ps = field.value.number(),
                3 => event.duration_ps = field.value.number(),
                4 => event.told.take(field.value.bytes(), plane),
                5 => event.is_sum = true,
                _ => {}
            }
        }
        let of_name = plane.events.get(&event.name).map(|about| &about.stats);
        for field in Fields::new(of_name.map_or(b"", |stats| stats.as_slice())).flatten() {
            event.told.take(field.value.bytes(), plane);
        }
        event
    }

    /// Whether it ends before it begins, or begins before its line: both are signed in the file.
    fn is_negative(&self) -> bool {
        let is_negative = |ps: u64| ps.cast_signed() < 0;
        is_negative(self.offset_ps) || is_negative(self.duration_ps)
    }

    /// Begin and end on a line whose times count from this one.
    fn times(&self, since_ns: u64) -> (u64, u64) {
        let since_ps = u128::from(since_ns) * 1_000 + u128::from(self.offset_ps);
        let ns = |ps: u128| u64::try_from(ps / 1_000).unwrap_or(u64::MAX);
        (ns(since_ps), ns(since_ps + u128::from(self.duration_ps)))
    }
}

impl Records {
    pub(super) fn new(file: &str, kinds: Kinds) -> Self {
        Self {
            file: file.to_owned(),
            kinds,
            line: Line::default(),
            process: None,
            threads: HashMap::new(),
            devices: HashMap::new(),
            queues: HashMap::new(),
            activities: Activities::default(),
            effects: Effects::default(),
            calls: HashMap::new(),
            operators: HashMap::new(),
            has_gpu: false,
            has_accelerator: false,
            negative: 0,
        }
    }

    /// Whether lines of a plane are read.
    pub(super) fn wants(&mut self, kind: PlaneKind) -> bool {
        self.has_accelerator |= kind == PlaneKind::Accelerator;
        match kind {
            PlaneKind::Gpu(_) => self.kinds.gpu || self.kinds.host || self.kinds.recorded,
            PlaneKind::Calls | PlaneKind::Host => self.kinds.host || self.kinds.recorded,
            PlaneKind::Accelerator | PlaneKind::Other => false,
        }
    }

    /// Takes in an event of the line.
    pub(super) fn event(
        &mut self,
        bytes: &[u8],
        plane: &Plane,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let event = Event::read(bytes, plane);
        if event.is_sum {
            return;
        }
        if event.is_negative() {
            self.negative += 1;
            return;
        }
        let name = plane.events.get(&event.name);
        let name = name.map_or("", |about| about.name.as_str());
        match plane.kind {
            PlaneKind::Gpu(ordinal) if self.line.name.starts_with("Stream #") => {
                self.operation(&event, (name, ordinal), model, batch);
            }
            PlaneKind::Host | PlaneKind::Calls => {
                self.slice(&event, (name, plane.kind), model, batch);
            }
            _ => {}
        }
    }

    fn process(&mut self, model: &mut Model) -> ProcessId {
        let file = &self.file;
        *self.process.get_or_insert_with(|| {
            model.processes.push(Process {
                file: file.clone(),
                framework: Framework::Xla,
                ..Process::default()
            });
            ProcessId::new(model.processes.len() - 1)
        })
    }

    fn operation(
        &mut self,
        event: &Event<'_>,
        (name, ordinal): (&str, u32),
        model: &mut Model,
        batch: &mut Batch,
    ) {
        self.has_gpu = true;
        let process = self.process(model);
        let told = &event.told;
        if !told.operator.is_empty() && told.link != 0 {
            let operator = model.texts.intern_bytes(told.operator);
            self.operator(told.link, operator, batch);
        }
        if !self.kinds.gpu {
            return;
        }
        let device = *self.devices.entry(ordinal).or_insert_with(|| {
            model.devices.push(Device {
                process,
                ordinal,
                ..Device::default()
            });
            DeviceId::new(model.devices.len() - 1)
        });
        let id = self.line.id;
        let queue = *self.queues.entry((ordinal, id)).or_insert_with(|| {
            let name = model.texts.intern(&format!("stream {id}"));
            model.queues.push(Queue { device, name });
            QueueId::new(model.queues.len() - 1)
        });
        let kind = match name {
            name if name.starts_with("Memcpy") => OpKind::Copy,
            name if name.starts_with("Memset") => OpKind::Fill,
            _ => OpKind::Kernel,
        };
        let (start_ns, end_ns) = event.times(self.line.time_ns);
        let name_id = model.texts.intern(name);
        let grid = word(told.kernel, b"grid:").map(|grid| grid.replace(',', "\u{d7}"));
        let direction = match kind {
            OpKind::Copy => direction(name, b""),
            _ => "",
        };
        batch.gpu.push(GpuRecord {
            start_ns,
            end_ns,
            link: told.link,
            bytes: word(told.copy, b"size:")
                .and_then(|size| size.parse().ok())
                .unwrap_or(0),
            process,
            device,
            queue,
            name: name_id,
            grid: model.texts.intern(grid.as_deref().unwrap_or("")),
            source: TextId::EMPTY,
            direction: model.texts.intern(direction),
            kind,
            activity: self.activities.of(kind, name_id, &model.texts),
        });
    }

    fn slice(
        &mut self,
        event: &Event<'_>,
        (name, plane): (&str, PlaneKind),
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let told = &event.told;
        let kind = match plane {
            PlaneKind::Calls => HostKind::Runtime,
            _ => host_kind(name.as_bytes(), !told.operator.is_empty(), told.is_step),
        };
        let is_call = kind == HostKind::Runtime;
        if !self.kinds.wants(kind) && !is_call {
            return;
        }
        let process = self.process(model);
        let tid = self.line.id;
        let line = &self.line.name;
        let thread = *self.threads.entry(tid).or_insert_with(|| {
            let name = model.texts.intern(line);
            model.threads.push(Thread {
                process,
                tid: u32::try_from(tid).unwrap_or(0),
                name,
            });
            ThreadId::new(model.threads.len() - 1)
        });
        let (start_ns, end_ns) = event.times(self.line.time_ns);
        // An operator is called what XLA calls it, not what runs it.
        let name = match kind {
            HostKind::Operator => model.texts.intern_bytes(told.operator),
            _ => model.texts.intern(name),
        };
        let (order, effect) = match is_call {
            true => self.effects.of(name, &model.texts),
            false => (StreamOrder::None, Effect::None),
        };
        let slice = HostSlice {
            start_ns,
            end_ns,
            link: if is_call { told.link } else { 0 },
            process,
            thread,
            name,
            depth: HostSlice::UNKNOWN_DEPTH,
            kind,
            order,
            effect,
            ..HostSlice::default()
        };
        // All that a graph runs has one call, and operators of their own.
        if is_call && told.link != 0 && !model.text(name).contains("GraphLaunch") {
            match self.operators.remove(&told.link) {
                Some(operator) => self.of_operator(&slice, operator, batch),
                None if self.calls.len() < WAITING => {
                    self.calls.insert(told.link, slice);
                }
                None => {}
            }
        }
        if self.kinds.wants(kind) {
            batch.host.push(slice);
        }
    }

    /// An operation says which operator it is of.
    fn operator(&mut self, link: u64, operator: TextId, batch: &mut Batch) {
        match self.calls.remove(&link) {
            Some(call) => self.of_operator(&call, operator, batch),
            None if self.operators.len() < WAITING => {
                self.operators.insert(link, operator);
            }
            None => {}
        }
    }

    fn of_operator(&self, call: &HostSlice, name: TextId, batch: &mut Batch) {
        if self.kinds.wants(HostKind::Operator) {
            batch.host.push(HostSlice {
                name,
                link: 0,
                kind: HostKind::Operator,
                order: StreamOrder::None,
                effect: Effect::None,
                ..*call
            });
        }
    }

    /// The file was read.
    pub(super) fn finish(&mut self, host: &str, model: &mut Model) {
        let process = self.process(model);
        host.clone_into(&mut model.processes[process.index()].host);
    }

    /// What the user is told of what is not there.
    pub(super) fn left_out(&self) -> Option<&'static str> {
        match (self.has_gpu, self.has_accelerator) {
            (_, true) => Some("processors other than GPUs (TPUs) are left out"),
            (false, _) => Some(
                "no operations of GPUs: JAX ran on the CPU, or its profiler did not see the GPU",
            ),
            _ => None,
        }
    }
}
