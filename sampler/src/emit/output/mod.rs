//! The open trace of one process: packets on their way into a [`sink`].
//!
//! [`tracks`] and [`counter_tracks`] are the tracks that everything is drawn on, [`samples`] the
//! samples with their [`callstacks`]. [`categories`] names what slices are, [`metadata`] says what
//! the trace is of and what is missing in it, [`clocks`] what the clocks show.

pub mod callstacks;
pub mod categories;
mod clocks;
mod counter_tracks;
mod known;
pub mod metadata;
mod samples;
pub mod sink;
mod tracks;

use std::time::{Duration, Instant};

use rsys_config::{CategoryNames, FileLimits};
use rsys_proto::{
    NamedTrack, PacketBuffer, ProcessNamespace, ProcessTrack, StringId, TraceWriter, TrackSequence,
};

use self::clocks::{clock_readings, system_info};
use self::counter_tracks::CounterGroups;
pub use self::counter_tracks::counter_value;
use self::known::KnownIds;
use self::metadata::Datum;
use self::samples::SampleTables;
use self::sink::Sink;
pub use self::tracks::Group;
use self::tracks::{METADATA_TRACK, PROCESS_TRACK, TrackIds};
use crate::identity::Identity;
use crate::run::RunContext;

/// Clocks are compared again after this time.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(10);

/// What is pending goes to the file after this time.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// The open trace of one process.
#[derive(Debug)]
pub struct Output {
    writer: TraceWriter<Box<dyn Sink>>,
    /// How the categories of slices are called.
    category_names: CategoryNames,
    /// That of the functions in samples, if they have one.
    sample_category: Option<StringId>,
    known: KnownIds,
    /// What the number is called that ties calls to operations.
    correlation: StringId,
    pid: u32,
    tracks: TrackIds,
    counter_groups: CounterGroups,
    samples: SampleTables,
    metadata_track: TrackSequence,
    /// The number of the file, from 0, and the last time that was drawn when it was begun.
    part: u64,
    part_begin_ns: u64,
    last_flush: Instant,
    last_snapshot: Instant,
    /// The first error, until it is taken.
    error: Option<std::io::Error>,
}

impl Output {
    /// Starts the trace of a process in a sink.
    #[must_use]
    pub fn begin(sink: Box<dyn Sink>, identity: &Identity, run: &RunContext) -> Self {
        let namespace = ProcessNamespace::new(
            &run.boot_id,
            identity.pid,
            identity.start_time_ns,
            identity.instance as u32,
        );
        let mut writer = TraceWriter::for_process(sink, run.compression, namespace);
        let out = writer.buffer();
        if !run.split.is_none() {
            out.keep_for_parts();
        }
        begin_file(out, namespace, run);
        let mut labels = Vec::new();
        if let Some(rank) = &identity.rank {
            labels.push(format!("rank {}", rank.rank));
        }
        if !run.host.is_empty() {
            labels.push(format!("host {}", run.host));
        }
        out.process(&ProcessTrack {
            uuid: namespace.track(PROCESS_TRACK),
            pid: identity.pid,
            name: identity.name(),
            cmdline: &identity.command_line,
            start_time_ns: (identity.start_time_ns > 0).then_some(identity.start_time_ns),
            labels: &labels,
        });
        out.track(&NamedTrack {
            uuid: namespace.track(METADATA_TRACK),
            parent: Some(namespace.track(PROCESS_TRACK)),
            name: "rsys",
            description: Some("What rsys recorded here, how, and what it could not record"),
            ..NamedTrack::default()
        });
        let mut metadata_track = TrackSequence::new(out, namespace.track(METADATA_TRACK));
        let data = metadata::at_start(identity, run);
        metadata::write(
            out,
            &mut metadata_track,
            identity.start_time_ns,
            "rsys start",
            &data,
        );
        if let Some(when) = run.attached_at.as_ref().filter(|_| identity.is_command) {
            metadata::write(
                out,
                &mut metadata_track,
                identity.start_time_ns,
                &format!("attached at {when}"),
                &Vec::new(),
            );
        }
        let samples = SampleTables::new(out, run);
        let correlation = out.intern("correlation");
        let sample_category = run
            .category_names
            .of_samples(run.overflow.is_some())
            .map(|name| out.intern(name));
        Self {
            writer,
            category_names: run.category_names,
            sample_category,
            known: KnownIds::default(),
            correlation,
            pid: identity.pid,
            tracks: TrackIds::new(namespace),
            counter_groups: CounterGroups::new(&run.boot_id),
            samples,
            metadata_track,
            part: 0,
            part_begin_ns: identity.start_time_ns.max(run.start_ns),
            last_flush: Instant::now(),
            last_snapshot: Instant::now(),
            error: None,
        }
    }

    /// Whether the file is as large, or tells of as long a time, as it may. `last_time_ns` is the last time that was drawn.
    #[must_use]
    pub fn is_full(&self, limits: FileLimits, last_time_ns: u64) -> bool {
        let is_large = |most| self.writer.written().bytes >= most;
        let is_long = |most| last_time_ns.saturating_sub(self.part_begin_ns) >= most;
        limits.bytes.is_some_and(is_large) || limits.time_ns.is_some_and(is_long)
    }

    /// Goes on in another sink, which tells from `time_ns` on, though events up to `last_time_ns` were drawn. To be called between batches: no id of a call stack is good any more.
    pub fn next_part(
        &mut self,
        sink: Box<dyn Sink>,
        (time_ns, last_time_ns): (u64, u64),
        identity: &Identity,
        run: &RunContext,
    ) {
        self.part += 1;
        let next = vec![("next_part".to_owned(), Datum::Count(self.part + 1))];
        let out = self.writer.buffer();
        metadata::write(
            out,
            &mut self.metadata_track,
            time_ns,
            "rsys part ends",
            &next,
        );
        out.clock_snapshot(&clock_readings());
        match self.writer.next_part(sink, time_ns) {
            Ok(full) => {
                if let Err(error) = full.close() {
                    self.error.get_or_insert(error);
                }
            }
            Err(error) => {
                self.fail(error);
                return;
            }
        }
        let out = self.writer.buffer();
        begin_file(out, self.tracks.namespace, run);
        let mut data = metadata::at_start(identity, run);
        data.push(("part".to_owned(), Datum::Count(self.part + 1)));
        metadata::write(out, &mut self.metadata_track, time_ns, "rsys start", &data);
        self.renew_samples(run);
        self.part_begin_ns = last_time_ns;
    }

    /// What the number is called that ties calls to operations.
    #[must_use]
    pub fn correlation(&self) -> StringId {
        self.correlation
    }

    /// The category of the functions in samples, if they have one.
    #[must_use]
    pub fn sample_category(&self) -> Option<StringId> {
        self.sample_category
    }

    /// The packets that wait.
    pub fn buffer(&mut self) -> &mut PacketBuffer {
        self.writer.buffer()
    }

    /// Writes what waits, if it is time to, or if `now` is set.
    pub fn flush(&mut self, now: bool) {
        if self.last_snapshot.elapsed() >= SNAPSHOT_EVERY && self.writer.pending_packets() > 0 {
            self.writer.buffer().clock_snapshot(&clock_readings());
            self.last_snapshot = Instant::now();
        }
        let due = now || self.last_flush.elapsed() >= FLUSH_EVERY;
        let outcome = if due {
            self.writer.flush()
        } else {
            self.writer.flush_if_full()
        };
        if due {
            self.last_flush = Instant::now();
        }
        if let Err(error) = outcome {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: std::io::Error) {
        // What was written stays a valid trace: cut off the part of a packet. Later packets
        // could not be read without the lost ones, so this trace ends here.
        let whole = self.writer.written().bytes;
        self.writer.get_mut().cut_to(whole).ok();
        // The first says why; the others, only that it went before.
        self.error.get_or_insert(error);
    }

    /// Whether something waits for a flush.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.writer.pending_packets() > 0
    }

    /// Why the trace could not be written further, once.
    pub fn take_error(&mut self) -> Option<std::io::Error> {
        self.error.take()
    }

    /// Ends the trace with its metadata.
    pub fn end(&mut self, time_ns: u64, data: &metadata::Data) {
        metadata::write(
            self.writer.buffer(),
            &mut self.metadata_track,
            time_ns,
            "rsys end",
            data,
        );
        self.writer.buffer().clock_snapshot(&clock_readings());
        self.flush(true);
    }

    /// Closes the sink.
    ///
    /// # Errors
    /// When not all that was written is kept.
    pub fn close(self) -> std::io::Result<()> {
        self.writer.finish()?.close()
    }
}

/// What each file begins with.
fn begin_file(out: &mut PacketBuffer, namespace: ProcessNamespace, run: &RunContext) {
    out.clock_snapshot(&clock_readings());
    out.trace_uuid(namespace.trace_uuid());
    out.system_info(system_info(&run.host));
}
