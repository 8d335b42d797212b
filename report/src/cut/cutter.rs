//! Packets of a trace as they stand in a part of it.
//!
//! A part opens alone: what its sequences interned before it stands in front of their first event, slices that are open where it begins are begun
//! there, counters have their last value there, and what is open where it ends is ended there. So times of slices and weights of samples of parts that
//! lie side by side add up to those of the whole.

use std::collections::HashMap;

use rsys_proto::fields::{event, packet, sample, trace};
use rsys_proto::message::{Fields, Torn, put_bytes, put_message, put_u64};
use rsys_proto::schema::event_type;
use rsys_traces::perfetto::clocks::TraceClocks;
use rsys_traces::perfetto::{Decoder, Event, EventKind, PacketHead, TrackIndex};

use super::facts::say;
use super::select::{Kind, Owners, Selection};
use super::sequence::{Sequence, put_moved_head};

/// Copies what is in the part.
#[derive(Debug)]
pub(super) struct Cutter<'a> {
    selection: &'a Selection,
    /// Since the start of the trace.
    from_ns: u64,
    to_ns: Option<u64>,
    /// When the trace starts: the time of its first packet that has one, unless it was said.
    start_ns: Option<u64>,
    /// The earliest event, if it is in front of that.
    pub earlier_ns: Option<u64>,
    decoder: Decoder,
    clocks: TraceClocks,
    owners: Owners,
    sequences: Vec<Sequence>,
    tracks: Vec<Track>,
    /// Whether samples of a process and a thread are in the part, once that was asked.
    samples_kept: HashMap<(u32, u32), bool>,
    /// Events and samples of the part.
    pub kept: u64,
    /// Packets without a time.
    pub timeless: u64,
    /// Malformed packets.
    pub torn: u64,
}

#[derive(Debug, Default)]
struct Track {
    /// Whether it is in the part, once that was asked.
    is_kept: Option<bool>,
    open: Vec<Open>,
    /// The last value in front of the part: its sequence, and the event.
    counter: Option<(usize, Vec<u8>)>,
}

/// A slice that is open.
#[derive(Debug)]
enum Open {
    /// It is in the part.
    Written,
    /// It began in front of the part: its sequence, and the event. In the part if it is not ended before.
    Before(usize, Vec<u8>),
    /// It began behind the part.
    Behind,
}

/// Where a time lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Inside,
    Behind,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(
        (from_ns, to_ns): (u64, Option<u64>),
        start_ns: Option<u64>,
        selection: &'a Selection,
    ) -> Self {
        Self {
            selection,
            from_ns,
            to_ns,
            start_ns,
            earlier_ns: None,
            decoder: Decoder::default(),
            clocks: TraceClocks::default(),
            owners: Owners::default(),
            sequences: Vec::new(),
            tracks: Vec::new(),
            samples_kept: HashMap::new(),
            kept: 0,
            timeless: 0,
            torn: 0,
        }
    }

    /// How long the trace lasts, as far as it was read.
    pub(super) fn length_ns(&self) -> u64 {
        self.decoder
            .last_ns
            .saturating_sub(self.start_ns.unwrap_or(0))
    }

    /// Appends what becomes of a packet; packets come in file order.
    pub(super) fn packet(&mut self, encoded: &[u8], out: &mut Vec<u8>) {
        if self.try_packet(encoded, out).is_err() {
            self.torn += 1;
        }
    }

    fn try_packet(&mut self, encoded: &[u8], out: &mut Vec<u8>) -> Result<(), Torn> {
        let event = self.decoder.packet(encoded)?;
        let sequence = event.sequence.index();
        if sequence >= self.sequences.len() {
            self.sequences.push(Sequence {
                id: event.head.sequence,
                ..Sequence::default()
            });
        }
        if event.head.cleared {
            self.clear(sequence, out);
        }
        self.sequences[sequence].follow(&event.head, &mut self.clocks)?;
        if self.start_ns.is_none() {
            self.start_ns = event.time_ns;
        }
        let is_record = !matches!(event.kind, EventKind::None | EventKind::Described(_));
        if let Some(time_ns) = event.time_ns.filter(|_| is_record)
            && time_ns < self.earlier_ns.or(self.start_ns).unwrap_or(0)
        {
            self.earlier_ns = Some(time_ns);
        }
        let whole = Whole {
            sequence,
            head: event.head,
            time_ns: event.time_ns,
            encoded,
        };
        match event.kind {
            EventKind::None => self.other(&whole, out),
            EventKind::Described(index) => {
                self.owners.learn(&self.decoder.tracks, index);
                self.track(index).is_kept = None;
                self.samples_kept.clear();
                let tracks = &self.decoder.tracks;
                match self.selection.describes(tracks, &self.owners, index) {
                    true => self.write(&whole, None, out),
                    false => self.state(&whole, out),
                }
            }
            EventKind::Instant(_, head)
                if head.name.is_some_and(|name| name.starts_with(b"rsys ")) =>
            {
                // Inside of the part, which a viewer would show as long as the whole otherwise.
                let at = event.time_ns.map(|time| self.clamp(time));
                self.write(&whole, at, out)
            }
            EventKind::Sample(bytes) => self.sample(&whole, bytes, out),
            EventKind::Begin(track, _)
            | EventKind::End(track, _)
            | EventKind::Instant(track, _)
            | EventKind::Counter(track, _) => self.track_event(&whole, &event, track, out),
        }
    }

    /// What a sequence has said counts no more. Slices of it that may be in the part need what counted until now.
    #[cold]
    fn clear(&mut self, sequence: usize, out: &mut Vec<u8>) {
        for index in 0..self.tracks.len() {
            let track = &self.tracks[index];
            let is_of = |open: &Open| matches!(open, Open::Before(of, _) if *of == sequence);
            if track.open.iter().any(is_of) {
                self.begin_track(index, out);
            }
            let counter = &mut self.tracks[index].counter;
            if counter.as_ref().is_some_and(|(of, _)| *of == sequence) {
                *counter = None;
            }
        }
        let sequence = &mut self.sequences[sequence];
        sequence.default_clock = 0;
        sequence.state.clear();
    }

    fn track(&mut self, index: TrackIndex) -> &mut Track {
        if index.index() >= self.tracks.len() {
            self.tracks.resize_with(index.index() + 1, Track::default);
        }
        &mut self.tracks[index.index()]
    }

    fn first_ns(&self) -> u64 {
        self.start_ns.unwrap_or(0).saturating_add(self.from_ns)
    }

    fn end_ns(&self) -> u64 {
        let to_ns = self.to_ns.unwrap_or(u64::MAX);
        self.start_ns.unwrap_or(0).saturating_add(to_ns)
    }

    fn clamp(&self, time_ns: u64) -> u64 {
        time_ns.clamp(self.first_ns(), self.end_ns())
    }

    fn place(&self, time_ns: u64) -> Place {
        match time_ns {
            time_ns if time_ns < self.first_ns() => Place::Before,
            time_ns if time_ns < self.end_ns() => Place::Inside,
            _ => Place::Behind,
        }
    }

    /// A packet that is neither an event nor a sample.
    fn other(&mut self, whole: &Whole<'_>, out: &mut Vec<u8>) -> Result<(), Torn> {
        let (mut says_more, mut names_trace) = (false, false);
        for field in Fields::new(whole.encoded) {
            match field?.number {
                packet::TIMESTAMP
                | packet::TIMESTAMP_CLOCK_ID
                | packet::SEQUENCE_ID
                | packet::SEQUENCE_FLAGS
                | packet::INCREMENTAL_STATE_CLEARED
                | packet::DEFAULTS
                | packet::INTERNED_DATA => {}
                // That of a sequence of its own belongs to its state.
                packet::CLOCK_SNAPSHOT => {
                    says_more |= self.sequences[whole.sequence].clocks.is_empty()
                }
                // The part is another trace.
                packet::TRACE_UUID => names_trace = true,
                _ => says_more = true,
            }
        }
        let is_inside = whole
            .time_ns
            .is_none_or(|time_ns| self.place(time_ns) == Place::Inside);
        if says_more && is_inside && !names_trace {
            return self.write(whole, None, out);
        }
        self.state(whole, out)
    }

    fn sample(&mut self, whole: &Whole<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Torn> {
        let (mut pid, mut tid) = (0, 0);
        for field in Fields::new(bytes) {
            let field = field?;
            match field.number {
                sample::PID => pid = field.value.number32(),
                sample::TID => tid = field.value.number32(),
                _ => {}
            }
        }
        let Some(time_ns) = whole.time_ns else {
            self.timeless += 1;
            return self.state(whole, out);
        };
        if self.place(time_ns) == Place::Inside && self.keeps_samples(pid, tid) {
            self.kept += 1;
            return self.write(whole, None, out);
        }
        self.state(whole, out)
    }

    fn keeps_samples(&mut self, pid: u32, tid: u32) -> bool {
        let (tracks, selection) = (&self.decoder.tracks, self.selection);
        *self
            .samples_kept
            .entry((pid, tid))
            .or_insert_with(|| selection.keeps_samples(tracks, pid, tid))
    }

    fn track_event(
        &mut self,
        whole: &Whole<'_>,
        event: &Event<'_>,
        index: TrackIndex,
        out: &mut Vec<u8>,
    ) -> Result<(), Torn> {
        let is_kept = match self.track(index).is_kept {
            Some(is_kept) => is_kept,
            None => {
                let tracks = &self.decoder.tracks;
                let is_kept = self.selection.keeps(tracks, &self.owners, index);
                *self.track(index).is_kept.insert(is_kept)
            }
        };
        let Some(time_ns) = whole.time_ns else {
            self.timeless += 1;
            return self.state(whole, out);
        };
        if !is_kept {
            return self.state(whole, out);
        }
        let place = self.place(time_ns);
        let at = index.index();
        match (event.kind, place) {
            (EventKind::Begin(..), Place::Before) => {
                let open = Open::Before(
                    whole.sequence,
                    self.selection.strip(whole.head.event.unwrap_or_default())?,
                );
                self.tracks[at].open.push(open);
            }
            (EventKind::Begin(..), Place::Behind) => self.tracks[at].open.push(Open::Behind),
            (EventKind::Begin(..), Place::Inside) => {
                self.begin_track(at, out);
                self.tracks[at].open.push(Open::Written);
                self.kept += 1;
                return self.write(whole, None, out);
            }
            (EventKind::End(..), _) => {
                // What ends where the part begins is not in it.
                if time_ns > self.first_ns()
                    && !matches!(self.tracks[at].open.last(), Some(Open::Behind))
                {
                    self.begin_track(at, out);
                }
                if let Some(Open::Written) = self.tracks[at].open.pop() {
                    let moved = Some(self.clamp(time_ns)).filter(|&clamped| clamped != time_ns);
                    return self.write(whole, moved, out);
                }
            }
            (EventKind::Counter(..), Place::Before) => {
                self.tracks[at].counter = Some((
                    whole.sequence,
                    self.selection.strip(whole.head.event.unwrap_or_default())?,
                ));
            }
            (_, Place::Inside) => {
                if time_ns == self.first_ns() {
                    self.tracks[at].counter = None;
                }
                self.begin_track(at, out);
                self.kept += 1;
                return self.write(whole, None, out);
            }
            _ => {}
        }
        self.state(whole, out)
    }

    /// Begins what is open on a track where the part begins.
    fn begin_track(&mut self, at: usize, out: &mut Vec<u8>) {
        let first_ns = self.first_ns();
        let counter = self.tracks[at].counter.take();
        let mut open = std::mem::take(&mut self.tracks[at].open);
        let begins = open.iter_mut().filter_map(|one| match one {
            Open::Before(..) => match std::mem::replace(one, Open::Written) {
                Open::Before(sequence, event) => Some((sequence, event)),
                Open::Written | Open::Behind => None,
            },
            Open::Written | Open::Behind => None,
        });
        for (sequence, event) in begins.chain(counter) {
            self.kept += 1;
            self.start(sequence, out);
            let id = self.sequences[sequence].id;
            put_message(out, trace::PACKET, |body| {
                put_moved_head(body, first_ns, id);
                put_bytes(body, packet::TRACK_EVENT, &event);
            });
        }
        self.tracks[at].open = open;
    }

    /// Writes what a sequence has said of itself, before its first packet.
    fn start(&mut self, sequence: usize, out: &mut Vec<u8>) {
        let sequence = &mut self.sequences[sequence];
        if !sequence.is_started {
            sequence.is_started = true;
            out.append(&mut sequence.state);
        }
    }

    /// Keeps of a packet what later ones of its sequence refer to.
    fn state(&mut self, whole: &Whole<'_>, out: &mut Vec<u8>) -> Result<(), Torn> {
        let head = &whole.head;
        let says = head.cleared
            || head.defaults.is_some()
            || head.interned.is_some()
            || head.snapshot.is_some();
        if !says {
            return Ok(());
        }
        let mut body = Vec::new();
        for field in Fields::new(whole.encoded) {
            let field = field?;
            if matches!(
                field.number,
                packet::SEQUENCE_ID
                    | packet::SEQUENCE_FLAGS
                    | packet::INCREMENTAL_STATE_CLEARED
                    | packet::DEFAULTS
                    | packet::INTERNED_DATA
                    | packet::CLOCK_SNAPSHOT
            ) {
                body.extend_from_slice(field.encoded);
            }
        }
        let sequence = &mut self.sequences[whole.sequence];
        let to = if sequence.is_started {
            out
        } else {
            &mut sequence.state
        };
        put_bytes(to, trace::PACKET, &body);
        Ok(())
    }

    /// Writes a packet, at another time if it is moved.
    fn write(
        &mut self,
        whole: &Whole<'_>,
        moved_ns: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), Torn> {
        self.start(whole.sequence, out);
        let mut body = Vec::with_capacity(whole.encoded.len() + 8);
        let sequence = &mut self.sequences[whole.sequence];
        match (moved_ns, whole.time_ns) {
            (Some(time_ns), _) => put_moved_head(&mut body, time_ns, sequence.id),
            (None, Some(time_ns)) => sequence.put_head(&mut body, &whole.head, time_ns),
            (None, None) => put_u64(&mut body, packet::SEQUENCE_ID, u64::from(sequence.id)),
        }
        let strips = self.selection.drops(Kind::Flows) || self.selection.drops(Kind::Details);
        for field in Fields::new(whole.encoded) {
            let field = field?;
            match field.number {
                packet::TIMESTAMP | packet::TIMESTAMP_CLOCK_ID | packet::SEQUENCE_ID => {}
                packet::TRACK_EVENT if strips => {
                    put_bytes(
                        &mut body,
                        field.number,
                        &self.selection.strip(whole.head.event.unwrap_or_default())?,
                    );
                }
                _ => body.extend_from_slice(field.encoded),
            }
        }
        put_bytes(out, trace::PACKET, &body);
        Ok(())
    }

    /// Begins what is open throughout the part, ends what is open behind it, and says what this is.
    pub(super) fn finish(&mut self, facts: &[(&str, String)], out: &mut Vec<u8>) {
        let last_ns = self.decoder.last_ns;
        if last_ns < self.first_ns() {
            return;
        }
        for at in 0..self.tracks.len() {
            self.begin_track(at, out);
        }
        let id = self.decoder.last_sequence.saturating_add(1);
        let end_ns = self.end_ns();
        for (track, known) in self.tracks.iter().zip(self.decoder.tracks.iter()) {
            let is_written = |open: &&Open| matches!(open, Open::Written);
            let open = track.open.iter().filter(is_written).count();
            for _ in 0..if last_ns >= end_ns { open } else { 0 } {
                put_message(out, trace::PACKET, |body| {
                    put_moved_head(body, end_ns, id);
                    put_message(body, packet::TRACK_EVENT, |body| {
                        put_u64(body, event::TYPE, event_type::SLICE_END as u64);
                        put_u64(body, event::TRACK_UUID, known.uuid);
                    });
                });
            }
        }
        say(id, self.first_ns(), facts, out);
    }
}

/// A packet.
struct Whole<'p> {
    sequence: usize,
    head: PacketHead<'p>,
    time_ns: Option<u64>,
    encoded: &'p [u8],
}
