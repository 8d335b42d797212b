//! What names of categories and annotations mean, in traces of rsys and of others.

use rsys_proto::KnownNamespace;
use rsys_proto::fields::event;
use rsys_proto::message::{Fields, Value};

use crate::model::{
    Activity, Effect, HostKind, KernelCounter, Kinds, OpKind, StreamOrder, TextId, Texts, classify,
};
use crate::perfetto::EventHead;
use crate::perfetto::interned::{Datum, EventNames};

/// What a slice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Meaning {
    /// Nothing that is asked for: functions of samples, and what is not known.
    #[default]
    None,
    /// An operation of a GPU.
    Gpu(OpKind),
    /// A slice of a thread.
    Host(HostKind),
    /// A wait for a lock, or what was counted of one.
    Lock,
    /// An operation or a step of one of RCCL's proxies, or a part of a step.
    Proxy,
}

/// Categories: ours, rocprof-sys's, rocprofv3's.
const CATEGORIES: [(&str, Meaning); 41] = [
    ("kernel", Meaning::Gpu(OpKind::Kernel)),
    ("rocm_kernel_dispatch", Meaning::Gpu(OpKind::Kernel)),
    ("kernel_dispatch", Meaning::Gpu(OpKind::Kernel)),
    ("copy", Meaning::Gpu(OpKind::Copy)),
    ("rocm_memory_copy", Meaning::Gpu(OpKind::Copy)),
    ("memory_copy", Meaning::Gpu(OpKind::Copy)),
    ("fill", Meaning::Gpu(OpKind::Fill)),
    ("barrier", Meaning::Gpu(OpKind::Other)),
    ("scratch", Meaning::Gpu(OpKind::Other)),
    ("gpu", Meaning::Gpu(OpKind::Other)),
    ("rocm", Meaning::Gpu(OpKind::Other)),
    ("rocm_scratch_memory", Meaning::Gpu(OpKind::Other)),
    ("scratch_memory", Meaning::Gpu(OpKind::Other)),
    ("hip", Meaning::Host(HostKind::Runtime)),
    ("rocm_hip_api", Meaning::Host(HostKind::Runtime)),
    ("hip_api", Meaning::Host(HostKind::Runtime)),
    ("hip_runtime_api", Meaning::Host(HostKind::Runtime)),
    ("hip_runtime_api_ext", Meaning::Host(HostKind::Runtime)),
    ("hsa", Meaning::Host(HostKind::Hsa)),
    ("rocm_hsa_api", Meaning::Host(HostKind::Hsa)),
    ("hsa_api", Meaning::Host(HostKind::Hsa)),
    ("rccl", Meaning::Host(HostKind::Collective)),
    ("rocm_rccl_api", Meaning::Host(HostKind::Collective)),
    ("rccl_api", Meaning::Host(HostKind::Collective)),
    ("rccl_proxy", Meaning::Proxy),
    ("mpi", Meaning::Host(HostKind::Collective)),
    ("shmem", Meaning::Host(HostKind::Collective)),
    ("ucx", Meaning::Host(HostKind::Collective)),
    ("roctx", Meaning::Host(HostKind::Range)),
    ("rocm_marker_api", Meaning::Host(HostKind::Range)),
    ("marker_api", Meaning::Host(HostKind::Range)),
    ("marker_core_range_api", Meaning::Host(HostKind::Range)),
    ("user", Meaning::Host(HostKind::Range)),
    ("itt", Meaning::Host(HostKind::Range)),
    ("nvtx", Meaning::Host(HostKind::Range)),
    ("torch", Meaning::Host(HostKind::Operator)),
    ("openmp", Meaning::Host(HostKind::OpenMp)),
    ("kokkos", Meaning::Host(HostKind::Kokkos)),
    ("mutex", Meaning::Lock),
    ("rwlock", Meaning::Lock),
    ("spinlock", Meaning::Lock),
];

/// What annotations and flows of an event say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Details {
    pub(super) link: u64,
    pub(super) bytes: u64,
    pub(super) address: u64,
    /// The handle of a stream, plus one.
    pub(super) stream: u64,
    pub(super) grid: TextId,
    /// Where a kernel came from.
    pub(super) source: TextId,
    pub(super) direction: TextId,
    /// What an operator was called with.
    pub(super) shapes: TextId,
    pub(super) arguments: TextId,
    /// The number of the GPU, plus one.
    pub(super) device: u64,
    /// The process ended before it did.
    pub(super) is_cut_off: bool,
}

/// Annotations that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Unknown,
    Link,
    Bytes,
    Address,
    Stream,
    Grid,
    Source,
    Direction,
    Device,
    Shapes,
    CutOff,
    /// What a hardware counter counted of a kernel.
    Counter,
}

/// Keys of annotations: ours, rocprof-sys's, rocprofv3's.
const KEYS: [(&str, Key); 19] = [
    ("correlation", Key::Link),
    ("corr_id", Key::Link),
    ("correlation_id", Key::Link),
    ("bytes", Key::Bytes),
    ("size", Key::Bytes),
    ("copy_bytes", Key::Bytes),
    ("address", Key::Address),
    ("event", Key::Address),
    ("stream", Key::Stream),
    ("grid", Key::Grid),
    ("grid_size", Key::Grid),
    ("source", Key::Source),
    ("direction", Key::Direction),
    ("kind", Key::Direction),
    ("device", Key::Device),
    ("agent", Key::Device),
    ("dst_agent", Key::Device),
    ("shapes", Key::Shapes),
    ("cut_off", Key::CutOff),
];

/// Meanings of names that were met, looked up once for each name.
#[derive(Debug, Default)]
pub(super) struct Meanings {
    /// Whether anybody asks what operators were called with.
    with_shapes: bool,
    with_arguments: bool,
    categories: Vec<Option<Meaning>>,
    keys: Vec<Option<Key>>,
    /// What the event that was read last says of hardware counters: their keys and values.
    pub(super) counters: Vec<(TextId, f64)>,
    /// Of names of kernels.
    activities: Vec<Option<Activity>>,
    /// Of names of calls.
    calls: Vec<Option<(StreamOrder, Effect)>>,
}

/// The value at a place of a table, which is made if there is none.
#[inline]
fn cached<T: Copy>(table: &mut Vec<Option<T>>, id: TextId, make: impl FnOnce() -> T) -> T {
    match table.get(id.index()) {
        Some(&Some(value)) => value,
        _ => {
            if id.index() >= table.len() {
                table.resize(id.index() + 1, None);
            }
            *table[id.index()].insert(make())
        }
    }
}

fn find<T: Copy>(list: &[(&str, T)], name: &str) -> Option<T> {
    let found = list.iter().find(|(known, _)| *known == name)?;
    Some(found.1)
}

impl Meaning {
    /// Whether instants of this meaning are marks of the program: not what runtimes say of themselves.
    pub(super) fn has_marks(self) -> bool {
        !matches!(
            self,
            Self::None | Self::Lock | Self::Proxy | Self::Host(HostKind::OpenMp | HostKind::Kokkos)
        )
    }
}

impl Meanings {
    pub(super) fn new(kinds: Kinds) -> Self {
        Self {
            with_shapes: kinds.shapes,
            with_arguments: kinds.arguments,
            ..Self::default()
        }
    }

    /// What slices of a category are.
    #[inline]
    pub(super) fn of(&mut self, category: TextId, texts: &Texts) -> Meaning {
        if category.is_empty() {
            return Meaning::None;
        }
        cached(&mut self.categories, category, || {
            find(&CATEGORIES, texts.get(category)).unwrap_or_default()
        })
    }

    /// What an operation is: with the categories of rocprof-sys, fills have that of copies.
    #[inline]
    pub(super) fn operation(&self, kind: OpKind, name: TextId, texts: &Texts) -> OpKind {
        match kind {
            OpKind::Copy if texts.get(name).starts_with("Fill") => OpKind::Fill,
            kind => kind,
        }
    }

    /// What an operation counts as.
    #[inline]
    pub(super) fn activity(&mut self, kind: OpKind, name: TextId, texts: &Texts) -> Activity {
        match kind {
            OpKind::Kernel => cached(&mut self.activities, name, || {
                classify(kind, texts.get(name))
            }),
            kind => classify(kind, ""),
        }
    }

    /// What a call puts into its stream, and what else it does.
    #[inline]
    pub(super) fn call(
        &mut self,
        kind: HostKind,
        name: TextId,
        texts: &Texts,
    ) -> (StreamOrder, Effect) {
        match kind {
            // Names of HSA's calls are never those that put something into streams of HIP.
            HostKind::Runtime | HostKind::Hsa => cached(&mut self.calls, name, || {
                let name = texts.get(name);
                (StreamOrder::of(name), Effect::of(name))
            }),
            _ => Default::default(),
        }
    }

    /// Reads flows and annotations of an event on the track with the uuid `track`.
    #[inline]
    pub(super) fn details(
        &mut self,
        head: &EventHead<'_>,
        track: u64,
        names: &EventNames,
        texts: &mut Texts,
    ) -> Details {
        let mut details = Details::default();
        self.counters.clear();
        let mut flow = 0;
        for field in Fields::new(head.details) {
            let Ok(field) = field else { break };
            match (field.number, field.value) {
                (event::DEBUG_ANNOTATIONS, Value::Bytes(encoded)) => {
                    // Most say nothing that is asked for, and then their values need not be read.
                    if let Some((key, behind)) = names.key_in_front(encoded) {
                        if self.key(key, texts) == Key::Unknown {
                            continue;
                        }
                        if let Some(number) = EventNames::number_behind_key(behind) {
                            self.detail(&mut details, key, Datum::Uint(number), texts);
                            continue;
                        }
                    }
                    let (key, value) = names.annotation(encoded, texts);
                    self.detail(&mut details, key, value, texts);
                }
                (event::FLOW_IDS | event::TERMINATING_FLOW_IDS, Value::Fixed64(id))
                    if flow == 0 =>
                {
                    flow = id;
                }
                _ => {}
            }
        }
        if flow == 0 && details.link == 0 {
            head.flows(|id| flow = id);
        }
        if details.link == 0 {
            // An arrow of ours has the number in it that stands beside it with `--flows both`.
            let own = KnownNamespace::of_track(track).and_then(|own| own.local_flow(flow));
            details.link = own.unwrap_or(flow);
        }
        details
    }

    #[inline]
    fn key(&mut self, key: TextId, texts: &Texts) -> Key {
        cached(&mut self.keys, key, || match find(&KEYS, texts.get(key)) {
            Some(Key::Shapes) if !self.with_shapes && !self.with_arguments => Key::Unknown,
            Some(known) => known,
            None if texts.get(key).starts_with(KernelCounter::PREFIX) => Key::Counter,
            None => Key::Unknown,
        })
    }

    #[inline]
    fn detail(&mut self, details: &mut Details, key: TextId, value: Datum<'_>, texts: &mut Texts) {
        match self.key(key, texts) {
            Key::Unknown => {}
            Key::Link => details.link = value.count().unwrap_or(0),
            Key::Bytes => details.bytes = value.count().unwrap_or(0),
            Key::Address => details.address = value.count().unwrap_or(0),
            Key::Stream => {
                details.stream = value.count().map_or(0, |handle| handle.saturating_add(1))
            }
            Key::Grid => details.grid = value.text(texts).unwrap_or_default(),
            // Of calls of MPI, it is the number of a rank.
            Key::Source => details.source = value.text(texts).unwrap_or_default(),
            Key::Direction => details.direction = value.text(texts).unwrap_or_default(),
            Key::Shapes => {
                let text = value.text(texts).unwrap_or_default();
                if self.with_shapes {
                    details.shapes = text;
                }
                if self.with_arguments {
                    details.arguments = text;
                }
            }
            Key::Counter => self
                .counters
                .extend(value.number().map(|value| (key, value))),
            Key::CutOff => details.is_cut_off = value == Datum::Bool(true),
            Key::Device => {
                let number = value.count().or_else(|| {
                    let text = value.text(texts)?;
                    number_in(texts.get(text))
                });
                details.device = number.map_or(0, |number| number + 1);
            }
        }
    }
}

/// The first number in a text: `GPU 3`, `AGENT [3]`.
pub(super) fn number_in(text: &str) -> Option<u64> {
    let digits = text.find(|one: char| one.is_ascii_digit())?;
    let rest = &text[digits..];
    let end = rest
        .find(|one: char| !one.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}
