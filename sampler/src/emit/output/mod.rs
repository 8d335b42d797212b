//! The open trace of one process.

pub mod callstacks;
pub mod categories;
pub mod metadata;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::time::ClockId;
use rsys_config::CategoryNames;
use rsys_proto::schema::{SystemInfo, Utsname};
use rsys_proto::{
    CallstackIid, ChildOrdering, ClockReadings, CounterTrack, CounterUnit, CpuMode, NamedTrack,
    PacketBuffer, ProcessNamespace, ProcessTrack, Sample, StringId, ThreadTrack, TraceWriter,
    TrackSequence,
};

use self::callstacks::Stacks;
use super::learned::events::Known;
use super::learned::frames::{FrameId, Frames};
use crate::counters::{Counter, Group as CounterGroup, Unit};
use crate::identity::Identity;
use crate::os;
use crate::run::RunContext;

/// Clocks are compared again after this time.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(10);

/// What is pending goes to the file after this time.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// What the weights of samples are: the time bases of the clocks.
const CPU_TIME: &str = "cpu-time ns";
const WALL_TIME: &str = "waiting-time ns";
const GPU_TIME: &str = "gpu-time ns";

/// Name of the tracks of times off the processor.
const OFF_CPU: &str = "off-CPU";

/// Name of the tracks of waits.
const WAITS: &str = "waiting";

/// Name of the tracks of sampled stacks: behind those of calls and ranges, of which the deep stacks would push away what follows. Viewers order
/// the tracks of a thread by their names.
const STACK: &str = "stack";

/// Name of the group of a process's counters.
const COUNTERS: &str = "counters";

/// Says of tracks that they are not about the process with which they are shown.
const WHOLE_MACHINE: &str = "Of the whole machine, whoever uses it";

const PROCESS_TRACK: u32 = 1;
const METADATA_TRACK: u32 = 2;
const FIRST_THREAD_TRACK: u32 = 3;

/// A track that holds others, in the order in which they are made.
#[derive(Debug)]
pub struct Group {
    uuid: u64,
    children: i32,
}

impl Group {
    /// The rank of the next of its tracks.
    pub fn next_rank(&mut self) -> i32 {
        self.children += 1;
        self.children
    }
}

/// The open trace of one process.
#[derive(Debug)]
pub struct Output {
    writer: TraceWriter<File>,
    path: PathBuf,
    /// How the categories of slices are called.
    category_names: CategoryNames,
    /// That of the functions in samples, if they have one.
    sample_category: Option<StringId>,
    /// The texts that events refer to by numbers.
    event_texts: HashMap<u64, StringId>,
    namespace: ProcessNamespace,
    pid: u32,
    metadata_track: TrackSequence,
    stacks: Stacks,
    wait_stacks: Stacks,
    /// Of kernels, once there was one.
    gpu_stacks: Option<Stacks>,
    /// The tracks of threads, and whether the thread is over. A thread has one: a second would make it two threads in viewers.
    threads: HashMap<u32, (u64, bool)>,
    /// Tracks that stand for the host and its GPUs.
    groups: HashMap<Arc<CounterGroup>, Group>,
    /// The tracks below them, and themselves: those of other processes' traces have the same ids.
    machine: Option<ProcessNamespace>,
    machine_tracks: HashSet<u64>,
    /// The group of the process's own counters.
    counters: Option<u64>,
    next_track: u32,
    last_flush: Instant,
    last_snapshot: Instant,
    /// The first error, until it is taken.
    error: Option<std::io::Error>,
}

impl Output {
    /// Starts the trace of a process in `file`.
    #[must_use]
    pub fn begin(file: File, path: PathBuf, identity: &Identity, run: &RunContext) -> Self {
        let namespace = ProcessNamespace::new(
            &run.boot_id,
            identity.pid,
            identity.start_time_ns,
            identity.instance as u32,
        );
        let mut writer = TraceWriter::new(file, run.compression);
        let out = writer.buffer();
        out.clock_snapshot(&clock_readings());
        out.trace_uuid(namespace.trace_uuid());
        out.system_info(system_info(&run.host));
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
        let stacks = match &run.overflow {
            None => Stacks::new(out, CPU_TIME, Some(run.frequency_hz)),
            Some(overflow) => Stacks::new(out, &overflow.event, None),
        };
        let wait_stacks = Stacks::new(out, WALL_TIME, run.realtime_hz);
        let sample_category = categories::of_samples(run.category_names, run.overflow.is_some())
            .map(|name| out.intern(name));
        Self {
            writer,
            path,
            category_names: run.category_names,
            sample_category,
            event_texts: HashMap::new(),
            namespace,
            pid: identity.pid,
            metadata_track,
            stacks,
            wait_stacks,
            gpu_stacks: None,
            threads: HashMap::new(),
            groups: HashMap::new(),
            machine: (!run.boot_id.is_empty()).then(|| ProcessNamespace::machine(&run.boot_id)),
            machine_tracks: HashSet::new(),
            counters: None,
            next_track: FIRST_THREAD_TRACK,
            last_flush: Instant::now(),
            last_snapshot: Instant::now(),
            error: None,
        }
    }

    /// Where the trace is.
    #[must_use]
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The id of a text that events refer to by `key`, if it is known.
    pub fn event_text(&mut self, known: &Known, key: u64) -> Option<StringId> {
        let text = known.text(key)?;
        let out = self.writer.buffer();
        match self.event_texts.get(&key) {
            Some(&id) if out.strings().text(id) == text => Some(id),
            _ => {
                let id = out.intern(text);
                self.event_texts.insert(key, id);
                Some(id)
            }
        }
    }

    /// How the categories of slices are called.
    #[must_use]
    pub fn category_names(&self) -> CategoryNames {
        self.category_names
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

    fn new_track(&mut self) -> u64 {
        let uuid = self.namespace.track(self.next_track);
        self.next_track += 1;
        uuid
    }

    /// A thread with this id starts: if another had it before, it gets a track of its own.
    pub fn thread_starts(&mut self, tid: u32) {
        if self.threads.get(&tid).is_some_and(|(_, over)| *over) {
            self.threads.remove(&tid);
        }
    }

    /// A thread is over. What is still to come of it goes to its track.
    pub fn thread_ends(&mut self, tid: u32) {
        if let Some((_, over)) = self.threads.get_mut(&tid) {
            *over = true;
        }
    }

    fn thread_track(&mut self, tid: u32, name: &str) -> u64 {
        if let Some((uuid, _)) = self.threads.get(&tid) {
            return *uuid;
        }
        let uuid = self.new_track();
        self.threads.insert(tid, (uuid, false));
        let pid = self.pid;
        self.writer.buffer().thread(&ThreadTrack {
            uuid,
            pid,
            tid,
            name,
            title: STACK,
        });
        uuid
    }

    /// The track of a thread.
    pub fn thread(&mut self, tid: u32, name: &str) -> TrackSequence {
        let uuid = self.thread_track(tid, name);
        TrackSequence::new(self.writer.buffer(), uuid)
    }

    /// A track for a counter.
    pub fn counter_track(&mut self, counter: &Counter) -> TrackSequence {
        match &counter.group {
            Some(group) => {
                let uuid = self.machine_track(group, &counter.name);
                let (parent, rank) = self.machine_group(group);
                self.write_counter_track(uuid, parent, Some(rank), counter)
            }
            None => {
                let parent = self.counters();
                self.counter_track_below(parent, counter)
            }
        }
    }

    /// A track for a counter below another track.
    pub fn counter_track_below(&mut self, parent: u64, counter: &Counter) -> TrackSequence {
        let uuid = self.new_track();
        self.write_counter_track(uuid, parent, None, counter)
    }

    fn write_counter_track(
        &mut self,
        uuid: u64,
        parent: u64,
        rank: Option<i32>,
        counter: &Counter,
    ) -> TrackSequence {
        let out = self.writer.buffer();
        out.counter_track(&CounterTrack {
            uuid,
            parent: Some(parent),
            rank,
            name: &counter.name,
            unit: match counter.unit {
                Unit::Count => CounterUnit::Count,
                Unit::Bytes => CounterUnit::Bytes,
                Unit::Named(name) => CounterUnit::Named(name),
            },
            description: (!counter.description.is_empty()).then_some(&counter.description),
            ..CounterTrack::default()
        });
        TrackSequence::new(out, uuid)
    }

    /// The id of a track of something of the machine.
    fn machine_track(&mut self, group: &CounterGroup, name: &str) -> u64 {
        let Some(machine) = self.machine else {
            return self.new_track();
        };
        let CounterGroup {
            name: title,
            identity,
        } = group;
        let mut uuid = machine.named_track(&format!("{title}\n{identity}\n{name}"));
        while !self.machine_tracks.insert(uuid) {
            uuid = machine.track((uuid as u32).wrapping_add(1));
        }
        uuid
    }

    /// The track that stands for something beside all processes (the host, a GPU's sensors), and the rank of its next child. Viewers put tracks
    /// of no process above all processes.
    fn machine_group(&mut self, of: &Arc<CounterGroup>) -> (u64, i32) {
        if !self.groups.contains_key(of) {
            let uuid = self.machine_track(of, "");
            let group = self.write_group(uuid, None, &of.name, WHOLE_MACHINE);
            self.groups.insert(Arc::clone(of), group);
        }
        let group = self.groups.get_mut(of).expect("it was inserted");
        (group.uuid, group.next_rank())
    }

    /// The group of what was read of the process itself.
    fn counters(&mut self) -> u64 {
        if let Some(uuid) = self.counters {
            return uuid;
        }
        let uuid = self.new_track();
        let parent = Some(self.process_track());
        self.writer.buffer().track(&NamedTrack {
            uuid,
            parent,
            name: COUNTERS,
            description: Some("What was read of this process while it ran"),
            ..NamedTrack::default()
        });
        *self.counters.insert(uuid)
    }

    /// A track for the waits of a thread, beside its own, of which the uuid is given as well.
    pub fn wait_track(&mut self, tid: u32, name: &str) -> (u64, TrackSequence) {
        let thread = self.thread_track(tid, name);
        let waits = self.new_track();
        let out = self.writer.buffer();
        out.track(&NamedTrack {
            uuid: waits,
            parent: Some(thread),
            name: WAITS,
            description: Some("What this thread waited for, by the wall clock"),
            ..NamedTrack::default()
        });
        (thread, TrackSequence::new(out, waits))
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The uuid of the process's track.
    #[must_use]
    pub fn process_track(&self) -> u64 {
        self.namespace.track(PROCESS_TRACK)
    }

    /// The uuid of a thread's track.
    pub fn thread_uuid(&mut self, tid: u32, name: &str) -> u64 {
        self.thread_track(tid, name)
    }

    /// The id of the flow between a call and what it caused.
    #[must_use]
    pub fn flow(&self, correlation: u64) -> u64 {
        self.namespace.flow(correlation)
    }

    /// A group of tracks above all processes, of which it is number `rank`. Viewers put it there because its name begins with a capital letter,
    /// and the names of tracks of processes and threads do not: they number all of these in the order of their names, and what has a high
    /// number comes below the processes.
    pub fn group(&mut self, rank: u32, name: &str, description: &str) -> Group {
        let uuid = self.new_track();
        self.write_group(uuid, Some(rank.cast_signed()), name, description)
    }

    fn write_group(
        &mut self,
        uuid: u64,
        rank: Option<i32>,
        name: &str,
        description: &str,
    ) -> Group {
        self.writer.buffer().track(&NamedTrack {
            uuid,
            rank,
            name,
            child_ordering: Some(ChildOrdering::Explicit),
            description: Some(description),
            ..NamedTrack::default()
        });
        Group { uuid, children: 0 }
    }

    /// A track for slices in a group. Those of equal name are drawn as one.
    pub fn group_track(&mut self, group: &Group, rank: i32, name: &str) -> TrackSequence {
        let uuid = self.new_track();
        let out = self.writer.buffer();
        out.track(&NamedTrack {
            uuid,
            parent: Some(group.uuid),
            rank: Some(rank),
            name,
            ..NamedTrack::default()
        });
        TrackSequence::new(out, uuid)
    }

    /// A track for slices below another. Those of equal name and parent are drawn as one.
    pub fn child_track(
        &mut self,
        parent: u64,
        name: &str,
        description: Option<&str>,
    ) -> TrackSequence {
        let uuid = self.new_track();
        let out = self.writer.buffer();
        out.track(&NamedTrack {
            uuid,
            parent: Some(parent),
            name,
            description,
            ..NamedTrack::default()
        });
        TrackSequence::new(out, uuid)
    }

    /// A track for the times of a thread off the processor, beside its own.
    pub fn off_cpu_track(&mut self, tid: u32, name: &str) -> TrackSequence {
        let thread = self.thread_track(tid, name);
        let description = "When this thread was off the processor, as the kernel recorded it";
        self.child_track(thread, OFF_CPU, Some(description))
    }

    /// The id of the stack of a kernel's time, for [`Output::gpu_samples`] of the same batch.
    pub fn gpu_callstack(&mut self, tables: &Frames, frames: &[FrameId]) -> CallstackIid {
        let out = self.writer.buffer();
        self.gpu_stacks
            .get_or_insert_with(|| Stacks::new(out, GPU_TIME, None))
            .callstack(tables, frames)
    }

    /// Appends the times of kernels.
    pub fn gpu_samples(&mut self, samples: &mut Vec<Sample>) {
        if let Some(stacks) = &mut self.gpu_stacks {
            stacks.append(self.writer.buffer(), samples);
        }
    }

    /// Says that a thread has another name now.
    pub fn rename(&mut self, track: &TrackSequence, tid: u32, name: &str) {
        self.rename_thread(track.track(), tid, name);
    }

    /// Says that the thread with the track `uuid` has another name now.
    pub fn rename_thread(&mut self, uuid: u64, tid: u32, name: &str) {
        let thread = ThreadTrack {
            uuid,
            pid: self.pid,
            tid,
            name,
            title: STACK,
        };
        self.writer.buffer().thread(&thread);
    }

    /// The id of a stack, for [`Output::samples`] of the same batch.
    pub fn callstack(&mut self, tables: &Frames, frames: &[FrameId]) -> CallstackIid {
        self.stacks.callstack(tables, frames)
    }

    /// The id of a waiting thread's stack, for [`Output::wait_samples`] of the same batch.
    pub fn wait_callstack(&mut self, tables: &Frames, frames: &[FrameId]) -> CallstackIid {
        self.wait_stacks.callstack(tables, frames)
    }

    /// A sample for [`Output::samples`] or [`Output::wait_samples`].
    #[must_use]
    pub fn sample(
        &self,
        time_ns: u64,
        tid: u32,
        callstack: CallstackIid,
        weight_ns: u64,
    ) -> Sample {
        Sample {
            time_ns,
            pid: self.pid,
            tid,
            callstack: Some(callstack),
            weight: weight_ns,
            mode: CpuMode::User,
            cpu: None,
        }
    }

    /// Appends the samples of a batch, of all threads.
    pub fn samples(&mut self, samples: &mut Vec<Sample>) {
        self.stacks.append(self.writer.buffer(), samples);
    }

    /// Appends samples of waiting threads.
    pub fn wait_samples(&mut self, samples: &mut Vec<Sample>) {
        self.wait_stacks.append(self.writer.buffer(), samples);
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
            // What was written stays a valid trace: cut off the part of a packet. Later packets could not be read without the lost
            // ones, so this trace ends here.
            let whole = self.writer.written().bytes;
            let file = self.writer.get_mut();
            file.set_len(whole).ok();
            file.seek(SeekFrom::Start(whole)).ok();
            // The first says why; the others, only that it went before.
            self.error.get_or_insert(error);
        }
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
}

fn clock_readings() -> ClockReadings {
    ClockReadings {
        boottime_ns: os::boot_time_ns(),
        monotonic_ns: os::clock_ns(ClockId::CLOCK_MONOTONIC),
        realtime_ns: os::clock_ns(ClockId::CLOCK_REALTIME),
        monotonic_raw_ns: os::clock_ns(ClockId::CLOCK_MONOTONIC_RAW),
    }
}

fn system_info(host: &str) -> SystemInfo {
    let text = |value: &std::ffi::OsStr| Some(value.to_string_lossy().into_owned());
    let utsname = nix::sys::utsname::uname().ok().map(|name| Utsname {
        sysname: text(name.sysname()),
        version: text(name.version()),
        release: text(name.release()),
        machine: text(name.machine()),
    });
    SystemInfo {
        utsname,
        num_cpus: std::thread::available_parallelism()
            .ok()
            .map(|count| count.get() as u32),
        machine_name: (!host.is_empty()).then(|| host.to_owned()),
        ..SystemInfo::default()
    }
}
