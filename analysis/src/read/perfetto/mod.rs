//! Perfetto traces: ours (of one process, merged, cut off), and those of other profilers that write slices of GPUs.
//!
//! What a slice is, is told by its category; what it belongs to, by its track ([`places`]). Slices are put together from their begins and ends
//! in [`slices`], samples are looked up in the tables of their sequence in [`samples`], and [`processes`] keeps apart the processes
//! of a file.

mod meaning;
mod places;
mod processes;
mod samples;
mod slices;

use std::path::Path;

use rsys_proto::message::Fields;
use rsys_proto::reader::{PacketReader, ReadError};

use super::{BATCH_RECORDS, Input, Reader};
use crate::model::{Batch, CounterValue, Kinds, Mark, Model, Notice};
use crate::perfetto::interned::{EventNames, entries};
use crate::perfetto::{Decoder, Event, EventHead, EventKind, TrackIndex};
use meaning::{Meaning, Meanings};
use places::Places;
use processes::Processes;
use samples::Samples;
use slices::Slices;

/// Reads a Perfetto trace.
pub(super) struct PerfettoReader {
    file: String,
    kinds: Kinds,
    packets: PacketReader<Input>,
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
    is_done: bool,
}

/// What was left out of a trace.
#[derive(Debug, Default)]
struct LeftOut {
    torn: u64,
    timeless: u64,
}

impl PerfettoReader {
    pub(super) fn new(path: &Path, input: Input, kinds: Kinds) -> Self {
        let file = path.display().to_string();
        Self {
            kinds,
            packets: PacketReader::new(input),
            decoder: Decoder::default(),
            names: Vec::new(),
            meanings: Meanings::default(),
            processes: Processes::new(&file),
            places: Places::default(),
            slices: Slices::default(),
            samples: Samples::default(),
            left_out: LeftOut::default(),
            first_left_out: [None; 3],
            is_done: false,
            file,
        }
    }

    /// Remembers where the first packet of each kind is that something is wrong with.
    #[inline]
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
            let encoded = match self.packets.next_encoded() {
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
            let Ok(event) = self.decoder.packet(encoded) else {
                self.left_out.torn += 1;
                self.place_left_out();
                continue;
            };
            let mut context = Context {
                kinds: self.kinds,
                decoder: &self.decoder,
                names: &mut self.names,
                meanings: &mut self.meanings,
                processes: &mut self.processes,
                places: &mut self.places,
                slices: &mut self.slices,
                samples: &mut self.samples,
                left_out: &mut self.left_out,
            };
            context.take(encoded, &event, model, batch);
            self.place_left_out();
        }
        !self.is_done
    }
}

/// The reader without the packets, from which the event borrows.
struct Context<'r> {
    kinds: Kinds,
    decoder: &'r Decoder,
    names: &'r mut Vec<EventNames>,
    meanings: &'r mut Meanings,
    processes: &'r mut Processes,
    places: &'r mut Places,
    slices: &'r mut Slices,
    samples: &'r mut Samples,
    left_out: &'r mut LeftOut,
}

impl Context<'_> {
    #[inline]
    fn take(&mut self, encoded: &[u8], event: &Event<'_>, model: &mut Model, batch: &mut Batch) {
        let sequence = event.sequence.index();
        if sequence >= self.names.len() {
            self.names.resize_with(sequence + 1, EventNames::default);
        }
        let head = &event.head;
        if head.cleared {
            self.names[sequence] = EventNames::default();
            self.samples.clear(event.sequence);
        }
        if let Some(defaults) = head.defaults {
            self.samples.set_basis(event.sequence, defaults);
        }
        if let Some(interned) = head.interned {
            self.define(event, interned, model);
        }
        if let EventKind::Described(track) = event.kind {
            self.places.forget();
            self.processes.described(track, &self.decoder.tracks, model);
            return;
        }
        if matches!(event.kind, EventKind::None) {
            return;
        }
        let Some(time_ns) = event.time_ns else {
            self.left_out.timeless += 1;
            return;
        };
        match event.kind {
            EventKind::Begin(track, head) => self.begin(sequence, track, time_ns, &head, model),
            EventKind::End(track, head) => {
                let more = self.details(sequence, &head, model);
                self.slices.end(track, time_ns, more, batch);
            }
            EventKind::Sample(_) if !self.kinds.samples => {}
            EventKind::Counter(..) if !self.kinds.counters => {}
            EventKind::Sample(sample) => {
                let sample =
                    self.samples
                        .sample(event.sequence, time_ns, sample, self.processes, model);
                batch.samples.push(sample);
            }
            EventKind::Counter(track, head) => {
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
            EventKind::Instant(track, head) => {
                if head.name.is_some_and(|name| name.starts_with(b"rsys ")) {
                    self.processes.fact(encoded, time_ns, model);
                    return;
                }
                let category = self.names[sequence].category(&head, &mut model.texts);
                let is_wanted =
                    self.kinds.marks && self.meanings.of(category, &model.texts) != Meaning::None;
                if is_wanted {
                    let place =
                        self.places
                            .host(track, &self.decoder.tracks, self.processes, model);
                    batch.marks.push(Mark {
                        time_ns,
                        process: place.process,
                        thread: place.thread,
                        name: self.names[sequence].name(&head, &mut model.texts),
                    });
                }
            }
            EventKind::None | EventKind::Described(_) => {}
        }
    }

    #[cold]
    fn define(&mut self, event: &Event<'_>, interned: &[u8], model: &mut Model) {
        let names = &mut self.names[event.sequence.index()];
        for entry in entries(interned) {
            names.define(&entry, &mut model.texts);
        }
        if Fields::new(interned)
            .flatten()
            .any(|field| field.number > 3)
        {
            self.samples.define(event.sequence, interned, model);
        }
    }

    #[inline]
    fn begin(
        &mut self,
        sequence: usize,
        track: TrackIndex,
        time_ns: u64,
        head: &EventHead<'_>,
        model: &mut Model,
    ) {
        let names = &self.names[sequence];
        let category = names.category(head, &mut model.texts);
        let mut meaning = self.meanings.of(category, &model.texts);
        if meaning == Meaning::None {
            meaning = self.places.meaning(track, &self.decoder.tracks);
        }
        match meaning {
            Meaning::Gpu(_) if !self.kinds.gpu => self.slices.ignored(track),
            Meaning::Host(_) if !self.kinds.host => self.slices.ignored(track),
            Meaning::None => self.slices.ignored(track),
            Meaning::Gpu(kind) => {
                let name = names.name(head, &mut model.texts);
                let kind = self.meanings.operation(kind, name, &model.texts);
                let details = self.details(sequence, head, model);
                let place =
                    self.places
                        .gpu(track, &self.decoder.tracks, &details, self.processes, model);
                let activity = self.meanings.activity(kind, name, &model.texts);
                self.slices
                    .begin_gpu(track, time_ns, name, (kind, activity), place, &details);
            }
            Meaning::Host(kind) => {
                let name = names.name(head, &mut model.texts);
                let details = self.details(sequence, head, model);
                let order = self.meanings.order(kind, name, &model.texts);
                let place = self
                    .places
                    .host(track, &self.decoder.tracks, self.processes, model);
                self.slices
                    .begin_host(track, time_ns, name, (kind, order), place, &details);
            }
        }
    }

    /// What flows and annotations of an event say.
    #[inline]
    fn details(
        &mut self,
        sequence: usize,
        head: &EventHead<'_>,
        model: &mut Model,
    ) -> meaning::Details {
        if head.details.is_empty() {
            return meaning::Details::default();
        }
        self.meanings
            .details(head, &self.names[sequence], &mut model.texts)
    }
}
