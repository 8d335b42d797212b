//! Records from events.

use std::borrow::Cow;
use std::collections::HashMap;

use super::collective::Collectives;
use super::counters::Counters;
use super::decimal::nanoseconds;
use super::event::Event;
use super::labels::{labelled, without_label};
use super::lanes::Lanes;
use super::left_out::Contents;
use super::meaning::{Meaning, of_category};
use super::memory;
use super::names::without_address;
use super::open::{OpenSlice, OpenSlices};
use super::places::{HostKeys, Key, Places};
use super::shapes::{Lists, Shapes};
use super::survey::{Names, arrow_end};
use crate::model::{
    Activity, Batch, Effect, Framework, GpuRange, GpuRecord, HostKind, HostSlice, Kinds, Mark,
    MemoryEvent, Model, OpKind, ProcessId, StreamOrder, TextId,
};
use crate::read::checked::LONGEST_NS;
use crate::read::json::number;
use crate::read::json::text::{intern, unescaped};
use crate::read::known::{Activities, Effects, direction};
use crate::read::left_out::LeftOut;

/// Set in links by `External id`, which count differently from those by `correlation`.
pub(super) const BY_EXTERNAL_ID: u64 = 1 << 63;

/// The name of instants by which PyTorch records allocations.
const ALLOCATION: &[u8] = b"[memory]";

/// Makes records of events.
#[derive(Debug)]
pub(super) struct Records {
    kinds: Kinds,
    pub(super) places: Places,
    pub(super) left_out: LeftOut,
    pub(super) contents: Contents,
    open: OpenSlices,
    activities: Activities,
    effects: Effects,
    collectives: Collectives,
    counters: Counters,
    shapes: Shapes,
    arguments: Lists,
    lanes: Lanes,
    /// Links by where arrows begin and end.
    arrows: HashMap<u64, u64>,
    /// What all times are counted from.
    pub(super) base_ns: i64,
    /// The latest time of a record.
    last_ns: Option<u64>,
    grid: String,
}

/// An event with what it stands in.
#[derive(Clone, Copy)]
pub(super) struct Source<'d> {
    /// The byte in the document where it begins.
    pub(super) offset: u64,
    /// What its spans lie in.
    pub(super) bytes: &'d [u8],
    pub(super) event: &'d Event,
}

impl Records {
    pub(super) fn new(file: &str, kinds: Kinds) -> Self {
        Self {
            kinds,
            places: Places::new(file),
            left_out: LeftOut::default(),
            contents: Contents::default(),
            open: OpenSlices::default(),
            activities: Activities::default(),
            effects: Effects::default(),
            collectives: Collectives::default(),
            counters: Counters::default(),
            shapes: Shapes::default(),
            arguments: Lists::default(),
            lanes: Lanes::default(),
            arrows: HashMap::new(),
            base_ns: 0,
            last_ns: None,
            grid: String::new(),
        }
    }

    /// Whether a record was made already.
    pub(super) fn has_times(&self) -> bool {
        self.last_ns.is_some()
    }

    /// Whether ranges or operators of the file may tell of collectives.
    pub(super) fn may_tell_collectives(&mut self, may: bool) {
        self.collectives.want_launches(may);
    }

    /// The file ends. Returns how many operations of GPUs were open.
    pub(super) fn finish(&mut self, model: &mut Model, batch: &mut Batch) -> u64 {
        self.collectives.finish(model, batch);
        let last_ns = self.last_ns.unwrap_or(0);
        self.open.finish(last_ns, batch, &mut self.left_out)
    }

    /// Takes in an event.
    #[inline]
    pub(super) fn take(&mut self, source: Source<'_>, model: &mut Model, batch: &mut Batch) {
        let Source { bytes, event, .. } = source;
        match event.phase.of(bytes) {
            b"X" => self.complete(source, model, batch),
            b"i" | b"I" => self.instant(source, model, batch),
            b"B" => self.begin(source, model),
            b"E" => self.end(source, model, batch),
            b"C" => self.counter(source, model, batch),
            b"M" => self.description(source, model),
            _ => {}
        }
    }

    #[inline]
    fn meaning(&self, source: Source<'_>, model: &mut Model) -> Meaning {
        let Source { bytes, event, .. } = source;
        if event.category.is_empty() && !self.lanes.is_empty() {
            let (_, pid, tid) = host_keys(source, model);
            let name = event.name.of(bytes);
            return self.lanes.meaning((pid, tid), name, (&event.args, bytes));
        }
        of_category(event.category.of(bytes), event.pid.of(bytes))
    }

    /// Whether nobody asks for events like this one.
    #[inline]
    fn is_ignored(&mut self, meaning: Meaning, source: Source<'_>, model: &mut Model) -> bool {
        match meaning {
            Meaning::Gpu(_) => !self.kinds.gpu,
            Meaning::GpuRange => !(self.kinds.gpu && self.kinds.host),
            Meaning::Counters => !self.kinds.counters,
            Meaning::Host(kind) if self.kinds.wants(kind) => false,
            Meaning::Host(_) => {
                let pid = source.event.pid.of(source.bytes);
                if rank(source).is_none() {
                    // The process of the GPU's work has its id from the host's.
                    if !self.places.knows_main() {
                        let pid = Key::new(pid, &mut model.texts);
                        self.places.is_main(pid, model);
                    }
                } else if self.kinds.counters {
                    self.process_rank(Key::new(pid, &mut model.texts), source, model);
                } else if let Some(rank) = rank(source) {
                    let pid = original_pid(source, model)
                        .unwrap_or_else(|| Key::new(pid, &mut model.texts));
                    self.places.pid_of_rank(rank, pid, model);
                }
                true
            }
            Meaning::Mark | Meaning::None => true,
        }
    }

    #[inline]
    fn complete(&mut self, source: Source<'_>, model: &mut Model, batch: &mut Batch) {
        let meaning = self.meaning(source, model);
        self.contents.count(meaning);
        if meaning == Meaning::None && !source.event.duration.is_empty() {
            self.contents
                .unknown(source.event.category.of(source.bytes));
        }
        if self.is_ignored(meaning, source, model) {
            return;
        }
        let Some((start_ns, end_ns)) = self.times(source) else {
            return;
        };
        if end_ns - start_ns <= LONGEST_NS {
            self.last_ns = self.last_ns.max(Some(end_ns));
        }
        match meaning {
            Meaning::Gpu(kind) => {
                self.contents.unfinished += u64::from(source.event.duration.is_empty());
                let record = self.gpu(kind, start_ns, source, model);
                let record = GpuRecord { end_ns, ..record };
                let args = &source.event.args;
                match kind {
                    OpKind::Kernel if !args.collective.is_empty() && self.kinds.host => {
                        let of_kernel = (record, args);
                        self.collectives.take(of_kernel, source.bytes, model, batch);
                    }
                    OpKind::Kernel if record.activity == Activity::Comm && self.kinds.host => {
                        self.collectives.take_unnamed(record);
                    }
                    _ => batch.gpu.push(record),
                }
            }
            Meaning::Host(kind) => {
                let slice = self.host(kind, start_ns, source, model);
                let slice = HostSlice { end_ns, ..slice };
                if self.kinds.host && self.kinds.gpu {
                    self.collectives.take_host(&slice, source, model);
                }
                match (source.event.duration.is_empty(), slice.kind) {
                    (true, HostKind::Range) => {
                        self.contents.unfinished_ranges += 1;
                        self.open.never_ends(slice, batch);
                    }
                    (is_unfinished, _) => {
                        self.contents.unfinished_host += u64::from(is_unfinished);
                        batch.host.push(slice);
                    }
                }
            }
            Meaning::Counters => {
                let process = self.gpu(OpKind::Other, start_ns, source, model).process;
                self.values((process, start_ns), source, model, batch);
            }
            Meaning::GpuRange => {
                let record = self.gpu(OpKind::Other, start_ns, source, model);
                batch.gpu_ranges.push(GpuRange {
                    start_ns,
                    end_ns,
                    process: record.process,
                    device: record.device,
                    queue: record.queue,
                    name: record.name,
                });
            }
            Meaning::Mark | Meaning::None => {}
        }
    }

    /// When something was; `None` if its time is none.
    #[inline]
    fn time_ns(&mut self, source: Source<'_>) -> Option<u64> {
        let time_ns = nanoseconds(source.event.time.of(source.bytes));
        let time_ns = time_ns.and_then(|time_ns| self.base_ns.checked_add(time_ns));
        let time_ns = time_ns.and_then(|time_ns| u64::try_from(time_ns).ok());
        if time_ns.is_none() {
            self.left_out.timeless.add(source.offset);
        }
        time_ns
    }

    /// Begin and end; `None` if they are no times. What has no duration takes none.
    #[inline]
    fn times(&mut self, source: Source<'_>) -> Option<(u64, u64)> {
        let start_ns = self.time_ns(source)?;
        let duration = source.event.duration;
        let duration_ns = match duration.is_empty() {
            true => Some(0),
            false => nanoseconds(duration.of(source.bytes)),
        };
        match duration_ns.map(u64::try_from) {
            Some(Ok(duration_ns)) => Some((start_ns, start_ns.saturating_add(duration_ns))),
            Some(Err(_)) => {
                self.left_out.backward.add(source.offset);
                None
            }
            None => {
                self.left_out.timeless.add(source.offset);
                None
            }
        }
    }

    /// An operation of a GPU that begins.
    #[inline]
    fn gpu(
        &mut self,
        kind: OpKind,
        start_ns: u64,
        source: Source<'_>,
        model: &mut Model,
    ) -> GpuRecord {
        let Source { bytes, event, .. } = source;
        let args = &event.args;
        let pid = Key::new(event.pid.of(bytes), &mut model.texts);
        let ordinal = number(args.device.of(bytes)).and_then(|number| u32::try_from(number).ok());
        let ordinal = ordinal.or_else(|| self.lanes.gpu(pid));
        let original_pid = original_pid(source, model);
        let ordinal = ordinal.or_else(|| original_pid.unwrap_or(pid).number());
        let ordinal = ordinal.unwrap_or(0);
        let stream = event.stream(bytes);
        let stream_key = Key::new(stream, &mut model.texts);
        let time_ns = start_ns.cast_signed().saturating_sub(self.base_ns);
        let owner = self.places.owner((pid, stream), event.link(bytes), time_ns);
        let keys = (rank(source), pid, ordinal, stream_key, owner);
        let place = self.places.gpu(keys, original_pid, stream, model);
        let name = intern(event.name.of(bytes), &mut model.texts);
        let activity = match args.collective.is_empty() || kind != OpKind::Kernel {
            true => self.activities.of(kind, name, &model.texts),
            false => Activity::Comm,
        };
        let direction = match kind {
            OpKind::Copy => {
                let direction = direction(model.texts.get(name), args.kind.of(bytes));
                model.texts.intern(direction)
            }
            _ => TextId::EMPTY,
        };
        GpuRecord {
            start_ns,
            end_ns: start_ns,
            link: self.link(start_ns, source),
            bytes: copied(args.bytes.of(bytes)),
            process: place.process,
            device: place.device,
            queue: place.queue,
            name,
            grid: self.grid(args.grid.of(bytes), model),
            direction,
            source: TextId::EMPTY,
            kind,
            activity,
        }
    }

    /// What links a call with what it caused: a number of both, or an arrow from one to the other.
    #[inline]
    fn link(&self, start_ns: u64, source: Source<'_>) -> u64 {
        match link(source) {
            0 if !self.arrows.is_empty() => {
                let Source { bytes, event, .. } = source;
                let ids = [event.pid, event.tid].map(|span| span.of(bytes));
                let at = arrow_end(ids, i128::from(start_ns) - i128::from(self.base_ns));
                self.arrows.get(&at).copied().unwrap_or(0)
            }
            link => link,
        }
    }

    /// What a look at the whole file has found.
    pub(super) fn learn(&mut self, names: Names, model: &mut Model) {
        for (pid, name) in names.processes {
            let pid = Key::new(&pid, &mut model.texts);
            self.lanes.process(pid, &name);
        }
        for (pid, tid, name) in names.threads {
            let [pid, tid] = [&pid, &tid].map(|id| Key::new(id, &mut model.texts));
            self.lanes.thread(pid, tid, &name);
        }
        self.arrows = names.arrows;
    }

    /// A grid as our own traces write it: `[4, 1, 1]` becomes `4×1×1`.
    fn grid(&mut self, list: &[u8], model: &mut Model) -> TextId {
        if list.is_empty() {
            return TextId::EMPTY;
        }
        self.grid.clear();
        for &byte in list {
            match byte {
                b'[' | b']' | b' ' | b'\n' | b'\r' | b'\t' => {}
                b',' => self.grid.push('\u{d7}'),
                byte => self.grid.push(char::from(byte)),
            }
        }
        model.texts.intern(&self.grid)
    }

    /// A slice of the host that begins.
    #[inline]
    fn host(
        &mut self,
        kind: HostKind,
        start_ns: u64,
        source: Source<'_>,
        model: &mut Model,
    ) -> HostSlice {
        let Source { bytes, event, .. } = source;
        let original_pid = original_pid(source, model);
        let keys = host_keys(source, model);
        let place = self.places.host(keys, original_pid, model);
        if kind == HostKind::Operator && event.category.is_empty() && !self.lanes.is_empty() {
            model.processes[place.process.index()].framework = Framework::Xla;
        }
        let name_bytes = match kind {
            HostKind::Function => without_address(event.name.of(bytes)),
            _ => Cow::Borrowed(event.name.of(bytes)),
        };
        let name = intern(&name_bytes, &mut model.texts);
        let kind = kind.of_slice(model.text(name));
        let (order, effect) = match kind {
            HostKind::Runtime => self.effects.of(name, &model.texts),
            _ => (StreamOrder::None, Effect::None),
        };
        HostSlice {
            start_ns,
            end_ns: start_ns,
            link: match kind {
                HostKind::Runtime => self.link(start_ns, source),
                _ => 0,
            },
            bytes: count(event.args.bytes.of(bytes)),
            process: place.process,
            thread: place.thread,
            name,
            shapes: match kind {
                HostKind::Operator if self.kinds.shapes => {
                    let [types, dimensions] = [event.args.input_types, event.args.input_dimensions];
                    let texts = &mut model.texts;
                    self.shapes
                        .text(types.of(bytes), dimensions.of(bytes), texts)
                }
                _ => TextId::EMPTY,
            },
            arguments: match kind {
                HostKind::Operator if self.kinds.arguments => {
                    let args = &event.args;
                    let lists = [
                        args.input_types,
                        args.input_dimensions,
                        args.input_strides,
                        args.input_values,
                    ];
                    let lists = lists.map(|list| list.of(bytes));
                    self.arguments.text(lists, &mut model.texts)
                }
                _ => TextId::EMPTY,
            },
            sequence: match kind {
                HostKind::Operator if self.kinds.arguments => {
                    let number = number(event.args.sequence.of(bytes));
                    let number = number.and_then(|number| u64::try_from(number).ok());
                    number.map_or(0, |number| number.saturating_add(1))
                }
                _ => 0,
            },
            number: match kind {
                HostKind::Operator | HostKind::Function | HostKind::Range => {
                    number_of(source, &name_bytes)
                }
                _ => 0,
            },
            depth: HostSlice::UNKNOWN_DEPTH,
            kind,
            order,
            effect,
            ..HostSlice::default()
        }
    }

    fn begin(&mut self, source: Source<'_>, model: &mut Model) {
        let meaning = self.meaning(source, model);
        self.contents.count(meaning);
        let time_ns = self.time_ns(source);
        let slice = match (meaning, time_ns) {
            _ if self.is_ignored(meaning, source, model) => OpenSlice::Ignored,
            (Meaning::Gpu(kind), Some(start_ns)) => {
                OpenSlice::Gpu(self.gpu(kind, start_ns, source, model))
            }
            (Meaning::Host(kind), Some(start_ns)) => {
                OpenSlice::Host(self.host(kind, start_ns, source, model))
            }
            _ => OpenSlice::Ignored,
        };
        let time_ns = time_ns.inspect(|&time_ns| self.last_ns = self.last_ns.max(Some(time_ns)));
        self.open.begin(time_ns, host_keys(source, model), slice);
    }

    fn end(&mut self, source: Source<'_>, model: &mut Model, batch: &mut Batch) {
        let Some(end_ns) = self.time_ns(source) else {
            return;
        };
        let keys = host_keys(source, model);
        self.open.end(end_ns, keys, source.offset);
        self.open.settle(batch, &mut self.left_out);
        self.last_ns = self.last_ns.max(Some(end_ns));
    }

    fn instant(&mut self, source: Source<'_>, model: &mut Model, batch: &mut Batch) {
        let Source { bytes, event, .. } = source;
        let is_mark = matches!(
            self.meaning(source, model),
            Meaning::Mark | Meaning::Host(HostKind::Range)
        );
        if event.name.of(bytes) == ALLOCATION {
            return self.allocation(source, model, batch);
        }
        if !self.kinds.marks || !is_mark {
            return;
        }
        let Some(time_ns) = self.time_ns(source) else {
            return;
        };
        let original_pid = original_pid(source, model);
        let place = self
            .places
            .host(host_keys(source, model), original_pid, model);
        batch.marks.push(Mark {
            time_ns,
            process: place.process,
            thread: place.thread,
            name: intern(event.name.of(bytes), &mut model.texts),
        });
        self.last_ns = self.last_ns.max(Some(time_ns));
    }

    /// What PyTorch says of its memory.
    fn allocation(&mut self, source: Source<'_>, model: &mut Model, batch: &mut Batch) {
        let Source { bytes, event, .. } = source;
        if !self.kinds.host || event.args.begin == 0 {
            return;
        }
        let Some(time_ns) = self.time_ns(source) else {
            return;
        };
        let original_pid = original_pid(source, model);
        let place = self
            .places
            .host(host_keys(source, model), original_pid, model);
        let told = memory::read(bytes, event.args.begin);
        batch.memory.push(MemoryEvent {
            time_ns,
            process: place.process,
            thread: place.thread,
            ..told
        });
        self.last_ns = self.last_ns.max(Some(time_ns));
    }

    /// Values of counters at a time: each argument is one, by its unit if the file is ours.
    fn counter(&mut self, source: Source<'_>, model: &mut Model, batch: &mut Batch) {
        let Source { bytes, event, .. } = source;
        if !self.kinds.counters || event.args.begin == 0 {
            return;
        }
        let Some(time_ns) = self.time_ns(source) else {
            return;
        };
        let pid = Key::new(event.pid.of(bytes), &mut model.texts);
        let process = self.places.process(pid, model);
        self.values((process, time_ns), source, model, batch);
        self.last_ns = self.last_ns.max(Some(time_ns));
    }

    /// Each argument of an event is a value of a counter.
    fn values(
        &mut self,
        when: (ProcessId, u64),
        source: Source<'_>,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let Source { bytes, event, .. } = source;
        if event.args.begin == 0 {
            return;
        }
        let name = [event.category, event.name, event.id].map(|span| span.of(bytes));
        let arguments = (bytes, event.args.begin);
        self.counters.take(when, name, arguments, model, batch);
    }

    /// Takes in the rank that an event says its process has, for counters.
    fn process_rank(&mut self, pid: Key, source: Source<'_>, model: &mut Model) {
        if let Some(rank) = rank(source) {
            let told = (rank, original_pid(source, model));
            self.places.is_of_rank(pid, told, model);
        }
    }

    /// An event that names a process or a thread.
    fn description(&mut self, source: Source<'_>, model: &mut Model) {
        let Source { bytes, event, .. } = source;
        let name = event.args.name.of(bytes);
        match event.name.of(bytes) {
            b"process_name" => {
                let pid = Key::new(event.pid.of(bytes), &mut model.texts);
                self.process_rank(pid, source, model);
                let name = unescaped(name);
                self.lanes.process(pid, &name);
                self.places.process_name(pid, &name, model);
            }
            b"process_labels" if event.args.labels.of(bytes) == b"CPU" => {
                let pid = Key::new(event.pid.of(bytes), &mut model.texts);
                self.places.is_main(pid, model);
            }
            b"thread_name" => {
                let keys = host_keys(source, model);
                self.lanes.thread(keys.1, keys.2, name);
                let name = intern(name, &mut model.texts);
                self.places.thread_name(keys, name, model);
            }
            _ => {}
        }
    }
}

/// In which order slices stand that begin and end together: by the numbers that PyTorch gives them, and without these by their names, whatever the order of the
/// file.
fn number_of(source: Source<'_>, name: &[u8]) -> u64 {
    let args = &source.event.args;
    let told = Some(count(args.external_id.of(source.bytes))).filter(|number| *number > 0);
    // Behind all that have numbers: a few letters of the name are enough.
    let of_name = || {
        let start = name.iter().chain(&[0; 7]).take(7);
        let start = start.fold(0, |number, byte| number << 8 | u64::from(*byte));
        start | 1 << 60
    };
    told.unwrap_or_else(of_name)
}

pub(super) fn count(bytes: &[u8]) -> u64 {
    let count = number(bytes).and_then(|count| u64::try_from(count).ok());
    count.unwrap_or(0)
}

/// How many bytes were copied or filled. JAX's profiler writes `kind_src:host kind_dst:device size:1024 …`.
fn copied(bytes: &[u8]) -> u64 {
    let mut words = bytes.split(|&byte| byte == b' ');
    let size = words.find_map(|word| word.strip_prefix(b"size:"));
    count(size.unwrap_or(bytes))
}

/// What links a call with what it caused.
#[inline]
fn link(source: Source<'_>) -> u64 {
    let args = &source.event.args;
    if !args.correlation.is_empty() {
        return count(args.correlation.of(source.bytes));
    }
    match count(args.external_id.of(source.bytes)) {
        0 => 0,
        id => id | BY_EXTERNAL_ID,
    }
}

#[inline]
fn rank(source: Source<'_>) -> Option<u32> {
    let Source { bytes, event, .. } = source;
    if event.args.rank.is_empty() {
        return Some(labelled(event.pid.of(bytes))?.0);
    }
    u32::try_from(number(event.args.rank.of(bytes))?).ok()
}

/// The process id that an event had before its file was merged with others.
#[inline]
fn original_pid(source: Source<'_>, model: &mut Model) -> Option<Key> {
    let Source { bytes, event, .. } = source;
    let original_pid = match event.args.original_pid {
        told if !told.is_empty() => told.of(bytes),
        _ => labelled(event.pid.of(bytes))?.1,
    };
    Some(Key::new(original_pid, &mut model.texts))
}

#[inline]
fn host_keys(source: Source<'_>, model: &mut Model) -> HostKeys {
    let Source { bytes, event, .. } = source;
    let pid = Key::new(event.pid.of(bytes), &mut model.texts);
    let tid = Key::new(without_label(event.tid.of(bytes)), &mut model.texts);
    (rank(source), pid, tid)
}
