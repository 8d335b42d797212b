//! Perfetto traces: ours (of one process, merged, cut off), and those of other profilers that write slices of GPUs.
//!
//! Packets are unpacked ahead of their use ([`rsys_proto::packets`]). What a slice is, is told by its category; what it belongs to, by its track ([`places`]). Slices are put together from their begins and ends
//! in [`slices`], samples are looked up in the tables of their sequence in [`samples`], and [`processes`] keeps apart the processes
//! of a file.

mod collective;
mod lock;
mod meaning;
mod mpi;
mod places;
mod processes;
mod proxy;
mod samples;
mod slices;

use std::path::Path;

use prost::Message;
use rsys_proto::message::{Fields, Torn};
use rsys_proto::packets::Packets;
use rsys_proto::reader::ReadError;
use rsys_proto::schema::{ClockSnapshot, event_type};

use super::{BATCH_RECORDS, Input, Reader};
use crate::model::{
    Batch, Completion, CounterValue, HostKind, Joint, KernelCounter, Kinds, Mark, Model, MpiCall,
    Notice, is_test,
};
use crate::perfetto::interned::{EventNames, entries};
use crate::perfetto::{
    Decoder, EventHead, EventKind, SLICE_END, SequenceIndex, ShortPacket, TrackIndex,
};
use collective::collective;
use meaning::{Details, Meaning, Meanings};
use places::Places;
use processes::Processes;
use samples::Samples;
use slices::Slices;

/// Reads a Perfetto trace.
pub(super) struct PerfettoReader {
    file: String,
    kinds: Kinds,
    packets: Packets<Input>,
    decoder: Decoder,
    names: Vec<EventNames>,
    meanings: Meanings,
    processes: Processes,
    places: Places,
    slices: Slices,
    samples: Samples,
    left_out: LeftOut,
    /// Where the first packet is that is malformed, that has no time, and that ends a slice before its begin.
    first_left_out: [Option<u64>; 3],
    /// How many packets with something wrong there were so far.
    placed: u64,
    is_done: bool,
}

/// What was left out of a trace.
#[derive(Debug, Default)]
struct LeftOut {
    torn: u64,
    timeless: u64,
}

impl PerfettoReader {
    pub(super) fn new(path: &Path, input: Input, kinds: Kinds, is_ahead: bool) -> Self {
        let file = path.display().to_string();
        Self {
            kinds,
            packets: Packets::new(input, is_ahead),
            decoder: Decoder::default(),
            names: Vec::new(),
            meanings: Meanings::new(kinds),
            processes: Processes::new(&file),
            places: Places::default(),
            slices: Slices::default(),
            samples: Samples::default(),
            left_out: LeftOut::default(),
            first_left_out: [None; 3],
            placed: 0,
            is_done: false,
            file,
        }
    }

    /// Remembers where the first packet of each kind is that something is wrong with.
    #[cold]
    fn place_left_out(&mut self) {
        let LeftOut { torn, timeless } = self.left_out;
        let counts = [torn, timeless, self.slices.backward];
        for (count, first) in counts.into_iter().zip(&mut self.first_left_out) {
            if count > 0 && first.is_none() {
                *first = Some(self.packets.packet_offset());
            }
        }
    }

    fn finish(&mut self, model: &mut Model, batch: &mut Batch) {
        self.is_done = true;
        let cut_off = self.slices.finish(self.decoder.last_ns, batch);
        self.processes.finish(model);
        let mut notice = |offset, text| {
            model.notices.push(Notice {
                file: self.file.clone(),
                offset,
                text,
            });
        };
        if let Some(truncation) = self.packets.truncation() {
            let text = format!(
                "the file ends within a packet; its {} bytes are left out",
                truncation.bytes
            );
            notice(Some(truncation.offset), text);
        }
        let LeftOut { torn, timeless } = self.left_out;
        let [torn_at, timeless_at, backward_at] = self.first_left_out;
        for (count, first, what) in [
            (torn, torn_at, "malformed packets are left out"),
            (
                timeless,
                timeless_at,
                "events are left out: no clock snapshot relates their clock to BOOTTIME",
            ),
            (
                cut_off,
                None,
                "operations of GPUs are left out: the trace ends before they did",
            ),
            (
                self.slices.beginless(),
                None,
                "ends of operations of GPUs are left out: the trace does not have their begins",
            ),
            (
                self.slices.backward,
                backward_at,
                "slices end before they begin; they count with no duration",
            ),
        ] {
            if count > 0 {
                notice(first, format!("{count} {what}"));
            }
        }
    }
}

impl Reader for PerfettoReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        while !self.is_done && batch.len() < goal {
            let encoded = match self.packets.next() {
                Ok(Some(encoded)) => encoded,
                Ok(None) => {
                    self.finish(model, batch);
                    break;
                }
                Err(error) => {
                    let (offset, is_last) = match &error {
                        ReadError::DamagedBlock { offset } => (Some(*offset), false),
                        ReadError::NotAPacket { offset } | ReadError::TooLong { offset, .. } => {
                            (Some(*offset), true)
                        }
                        ReadError::Malformed { offset, .. } => (Some(*offset), false),
                        ReadError::Io(_) => (None, true),
                    };
                    let rest = if is_last {
                        "; what follows is left out"
                    } else {
                        "; it is left out"
                    };
                    let text = error.to_string();
                    let text = text
                        .split_once(": ")
                        .map_or(text.as_str(), |(_, text)| text);
                    model.notices.push(Notice {
                        file: self.file.clone(),
                        offset,
                        text: format!("{text}{rest}"),
                    });
                    if is_last {
                        self.finish(model, batch);
                    }
                    continue;
                }
            };
            let mut context = Context {
                kinds: self.kinds,
                decoder: &mut self.decoder,
                names: &mut self.names,
                meanings: &mut self.meanings,
                processes: &mut self.processes,
                places: &mut self.places,
                slices: &mut self.slices,
                samples: &mut self.samples,
                left_out: &mut self.left_out,
            };
            let is_whole = match ShortPacket::read(encoded) {
                Some(short) => context.short(encoded, &short, model, batch),
                None => context.packet(encoded, model, batch),
            };
            self.left_out.torn += u64::from(is_whole.is_err());
            let placed = self.left_out.torn + self.left_out.timeless + self.slices.backward;
            if placed != self.placed {
                self.placed = placed;
                self.place_left_out();
            }
        }
        !self.is_done
    }
}

/// The reader without the packets, from which the event borrows.
struct Context<'r> {
    kinds: Kinds,
    decoder: &'r mut Decoder,
    names: &'r mut Vec<EventNames>,
    meanings: &'r mut Meanings,
    processes: &'r mut Processes,
    places: &'r mut Places,
    slices: &'r mut Slices,
    samples: &'r mut Samples,
    left_out: &'r mut LeftOut,
}

impl Context<'_> {
    /// Takes in a packet of any form.
    fn packet(&mut self, encoded: &[u8], model: &mut Model, batch: &mut Batch) -> Result<(), Torn> {
        let packet = self.decoder.packet(encoded)?;
        let (sequence, time_ns, head) = (packet.sequence, packet.time_ns, &packet.head);
        if head.cleared {
            *self.names(sequence) = EventNames::default();
            self.samples.clear(sequence);
        }
        if let Some(defaults) = head.defaults {
            self.samples.set_basis(sequence, defaults);
        }
        if let Some(Ok(snapshot)) = head.snapshot.map(ClockSnapshot::decode) {
            self.processes.compared(&snapshot, model);
        }
        if let Some(interned) = head.interned {
            self.define(sequence, interned, model);
        }
        match &packet.kind {
            EventKind::None => {}
            EventKind::Described(track) => {
                self.places.forget();
                self.processes
                    .described(*track, &self.decoder.tracks, model);
            }
            EventKind::Sample(sample) => self.sample(sequence, time_ns, sample, model, batch),
            EventKind::Begin(track, head)
            | EventKind::End(track, head)
            | EventKind::Instant(track, head)
            | EventKind::Counter(track, head) => {
                let of = (sequence, *track, time_ns);
                self.event(encoded, of, head, model, batch);
            }
        }
        Ok(())
    }

    /// Takes in a packet of the short form.
    #[inline]
    fn short(
        &mut self,
        encoded: &[u8],
        packet: &ShortPacket<'_>,
        model: &mut Model,
        batch: &mut Batch,
    ) -> Result<(), Torn> {
        let (sequence, time_ns) = self.decoder.short(packet);
        if packet.is_sample {
            self.sample(sequence, time_ns, packet.body, model, batch);
            return Ok(());
        }
        if packet.body == SLICE_END
            && let Some(time_ns) = time_ns
        {
            let track = self.decoder.default_track(sequence);
            self.slices.end(track, time_ns, Details::default(), batch);
            return Ok(());
        }
        // Not by `?`, which would copy it.
        let head = EventHead::read(packet.body);
        let head = head.as_ref().map_err(|torn| *torn)?;
        let track = self.decoder.track(sequence, head);
        self.event(encoded, (sequence, track, time_ns), head, model, batch);
        Ok(())
    }

    /// What the events of a sequence refer to.
    #[inline]
    fn names(&mut self, sequence: SequenceIndex) -> &mut EventNames {
        let place = sequence.index();
        if place >= self.names.len() {
            self.names.resize_with(place + 1, EventNames::default);
        }
        &mut self.names[place]
    }

    #[inline]
    fn sample(
        &mut self,
        sequence: SequenceIndex,
        time_ns: Option<u64>,
        encoded: &[u8],
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let Some(time_ns) = time_ns else {
            self.left_out.timeless += 1;
            return;
        };
        if self.kinds.samples {
            let sample = self
                .samples
                .sample(sequence, time_ns, encoded, self.processes, model);
            batch.samples.push(sample);
        }
    }

    /// Takes in an event of a sequence, on a track, at a time.
    #[inline]
    fn event(
        &mut self,
        encoded: &[u8],
        (sequence, track, time_ns): (SequenceIndex, TrackIndex, Option<u64>),
        head: &EventHead<'_>,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let is_known = (event_type::SLICE_BEGIN..=event_type::COUNTER).contains(&head.kind);
        let Some(time_ns) = time_ns else {
            self.left_out.timeless += u64::from(is_known);
            return;
        };
        self.names(sequence);
        let sequence = sequence.index();
        match head.kind {
            event_type::SLICE_BEGIN => self.begin(sequence, track, time_ns, head, (model, batch)),
            event_type::SLICE_END => {
                let more = self.details(sequence, track, head, model);
                self.slices.end(track, time_ns, more, batch);
            }
            event_type::INSTANT if head.name.is_some_and(|name| name.starts_with(b"rsys ")) => {
                self.processes.fact(encoded, time_ns, model);
            }
            event_type::INSTANT if self.kinds.marks || self.kinds.locks => {
                let category = self.names[sequence].category(head, &mut model.texts);
                let meaning = self.meanings.of(category, &model.texts);
                if meaning == Meaning::Lock {
                    if self.kinds.locks {
                        let place =
                            self.places
                                .host(track, &self.decoder.tracks, self.processes, model);
                        let names = &self.names[sequence];
                        batch
                            .locks
                            .extend(lock::counts(head, names, place, &mut model.texts));
                    }
                } else if self.kinds.marks && meaning.has_marks() {
                    let place =
                        self.places
                            .host(track, &self.decoder.tracks, self.processes, model);
                    let name = self.names[sequence].name(head, &mut model.texts);
                    batch.marks.push(Mark {
                        time_ns,
                        process: place.process,
                        thread: place.thread,
                        name,
                    });
                    let is_mpi = meaning == Meaning::Host(HostKind::Collective);
                    if is_mpi && model.text(name) == "completed" {
                        let uuid = self.decoder.tracks.get(track).uuid;
                        let names = &self.names[sequence];
                        batch.completions.push(Completion {
                            time_ns,
                            request: mpi::request(head, uuid, names, &mut model.texts),
                            process: place.process,
                            thread: place.thread,
                        });
                    }
                }
            }
            event_type::COUNTER if self.kinds.counters => {
                let counter = self
                    .places
                    .counter(track, self.decoder, self.processes, model);
                let value = match (head.counter, head.double_counter) {
                    (_, Some(bits)) => f64::from_bits(bits),
                    (Some(value), None) => value.cast_signed() as f64,
                    (None, None) => return,
                };
                batch.counters.push(CounterValue {
                    time_ns,
                    counter,
                    value,
                });
            }
            _ => {}
        }
    }

    #[cold]
    fn define(&mut self, sequence: SequenceIndex, interned: &[u8], model: &mut Model) {
        let names = self.names(sequence);
        for entry in entries(interned) {
            names.define(&entry, &mut model.texts);
        }
        if Fields::new(interned)
            .flatten()
            .any(|field| field.number > 3)
        {
            self.samples.define(sequence, interned, model);
        }
    }

    #[inline]
    fn begin(
        &mut self,
        sequence: usize,
        track: TrackIndex,
        time_ns: u64,
        head: &EventHead<'_>,
        (model, batch): (&mut Model, &mut Batch),
    ) {
        let names = &self.names[sequence];
        let category = names.category(head, &mut model.texts);
        let mut meaning = self.meanings.of(category, &model.texts);
        if meaning == Meaning::None {
            meaning = self.places.meaning(track, &self.decoder.tracks);
        }
        match meaning {
            Meaning::Gpu(_) if !self.kinds.gpu => self.slices.ignored(track),
            Meaning::Host(kind) if !self.kinds.wants(kind) => self.slices.ignored(track),
            Meaning::None => self.slices.ignored(track),
            Meaning::Lock if !self.kinds.locks => self.slices.ignored(track),
            Meaning::Proxy if !self.kinds.proxies => self.slices.ignored(track),
            Meaning::Proxy => {
                let place = self
                    .places
                    .host(track, &self.decoder.tracks, self.processes, model);
                let names = &self.names[sequence];
                match proxy::record(time_ns, head, names, place, &mut model.texts) {
                    Some(record) => self.slices.begin_proxy(track, record),
                    None => self.slices.ignored(track),
                }
            }
            Meaning::Lock => {
                let place = self
                    .places
                    .host(track, &self.decoder.tracks, self.processes, model);
                let names = &self.names[sequence];
                let wait = lock::wait(time_ns, head, names, place, &mut model.texts);
                self.slices.begin_wait(track, wait);
            }
            Meaning::Gpu(kind) => {
                let name = names.name(head, &mut model.texts);
                let kind = self.meanings.operation(kind, name, &model.texts);
                let details = self.details(sequence, track, head, model);
                let place =
                    self.places
                        .gpu(track, &self.decoder.tracks, &details, self.processes, model);
                let counters = self.meanings.counters.drain(..);
                batch
                    .kernel_counters
                    .extend(counters.map(|(counter, value)| KernelCounter {
                        start_ns: time_ns,
                        process: place.process,
                        device: place.device,
                        queue: place.queue,
                        kernel: name,
                        grid: details.grid,
                        counter,
                        value,
                    }));
                let activity = self.meanings.activity(kind, name, &model.texts);
                self.slices
                    .begin_gpu(track, time_ns, name, (kind, activity), place, &details);
            }
            Meaning::Host(kind) => {
                let name = names.name(head, &mut model.texts);
                let kind = kind.of_slice(model.text(name));
                let details = self.details(sequence, track, head, model);
                let does = self.meanings.call(kind, name, &model.texts);
                let place = self
                    .places
                    .host(track, &self.decoder.tracks, self.processes, model);
                let call = match kind {
                    HostKind::Collective => {
                        collective(head, &self.names[sequence], &mut model.texts)
                    }
                    _ => None,
                };
                let is_mpi = kind == HostKind::Collective && model.text(category) == "mpi";
                let uuid = self.decoder.tracks.get(track).uuid;
                let names = &self.names[sequence];
                let of_mpi = is_mpi.then(|| mpi::call(head, uuid, names, &mut model.texts));
                let of_mpi = of_mpi.map(|call| MpiCall {
                    joint: Joint::of(model.text(name)),
                    is_test: is_test(model.text(name)),
                    ..call
                });
                let calls = (call, of_mpi);
                self.slices.begin_host(
                    track,
                    time_ns,
                    name,
                    (kind, does),
                    place,
                    (&details, calls),
                );
                if kind == HostKind::Wait && self.kinds.locks && !head.details.is_empty() {
                    let names = &self.names[sequence];
                    let wait = lock::seen_wait(time_ns, head, names, place, &mut model.texts);
                    if let Some(wait) = wait {
                        self.slices.is_for_lock(track, wait);
                    }
                }
            }
        }
    }

    /// What flows and annotations of an event say.
    #[inline]
    fn details(
        &mut self,
        sequence: usize,
        track: TrackIndex,
        head: &EventHead<'_>,
        model: &mut Model,
    ) -> Details {
        if head.details.is_empty() {
            return Details::default();
        }
        let track = self.decoder.tracks.get(track).uuid;
        let names = &self.names[sequence];
        self.meanings.details(head, track, names, &mut model.texts)
    }
}
