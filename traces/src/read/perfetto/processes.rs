//! Which process and which thread is meant, in files of one process and of many.

use std::collections::HashMap;

use rsys_proto::schema::ClockSnapshot;

use crate::model::{Account, Model, Process, ProcessId, Thread, ThreadId};
use crate::perfetto::clocks::WallClock;
use crate::perfetto::facts::{Facts, MetadataReader};
use crate::perfetto::losses::Losses;
use crate::perfetto::{TrackIndex, Tracks};

/// The processes and threads of a file.
#[derive(Debug)]
pub(super) struct Processes {
    file: String,
    facts: MetadataReader,
    /// The process that was described last. A merged trace has one input behind the other, so what has no process of its own (the tracks
    /// of GPUs) belongs to this one.
    current: Option<ProcessId>,
    /// Comparisons of clocks in front of the first process.
    early: WallClock,
    of_tracks: HashMap<TrackIndex, ProcessId>,
    of_pids: HashMap<u32, ProcessId>,
    threads_of_tracks: HashMap<TrackIndex, ThreadId>,
    threads: HashMap<(u32, u32), ThreadId>,
    /// What was looked up last.
    last: Option<((u32, u32), ThreadId)>,
}

impl Processes {
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            facts: MetadataReader::default(),
            current: None,
            early: WallClock::default(),
            of_tracks: HashMap::new(),
            of_pids: HashMap::new(),
            threads_of_tracks: HashMap::new(),
            threads: HashMap::new(),
            last: None,
        }
    }

    /// Takes in the descriptor of a track.
    pub(super) fn described(&mut self, index: TrackIndex, tracks: &Tracks, model: &mut Model) {
        let track = tracks.get(index);
        if let Some(described) = &track.process {
            let pid = described.pid.unwrap_or(0).cast_unsigned();
            let id = *self.of_tracks.entry(index).or_insert_with(|| {
                model.processes.push(Process::default());
                ProcessId::new(model.processes.len() - 1)
            });
            self.of_pids.insert(pid, id);
            self.current = Some(id);
            let process = &mut model.processes[id.index()];
            process.wall_clock.append(&mut self.early.points);
            process.pid = pid;
            process.file.clone_from(&self.file);
            process.name = described.process_name.clone().unwrap_or_default();
            process.command_line = described.cmdline.join(" ");
            process.start_ns = described
                .start_timestamp_ns
                .unwrap_or(0)
                .max(0)
                .cast_unsigned();
            for label in &described.process_labels {
                if let Some(rank) = label.strip_prefix("rank ") {
                    process.rank = rank.trim().parse().ok();
                } else if let Some(host) = label.strip_prefix("host ") {
                    host.clone_into(&mut process.host);
                }
            }
        }
        if let Some(described) = &track.thread {
            let pid = described.pid.unwrap_or(0).cast_unsigned();
            let tid = described.tid.unwrap_or(0) as u32;
            let process = self.of_pid(pid, model);
            let name = described.thread_name.as_deref().unwrap_or_default();
            let name = model.texts.intern(name);
            let thread = Thread { process, tid, name };
            let id = *self.threads_of_tracks.entry(index).or_insert_with(|| {
                model.threads.push(thread);
                ThreadId::new(model.threads.len() - 1)
            });
            model.threads[id.index()] = thread;
            self.threads.insert((pid, tid), id);
            self.last = None;
        }
    }

    /// Takes in an instant by which a trace of rsys says something about itself.
    pub(super) fn fact(&mut self, encoded: &[u8], time_ns: u64, model: &mut Model) {
        if !self.facts.packet(encoded) {
            return;
        }
        if let (Some(start), Some(id)) = (self.facts.start.take(), self.current) {
            learn(&mut model.processes[id.index()], &start);
        }
        if let (Some(end), Some(id)) = (self.facts.end.take(), self.current) {
            let process = &mut model.processes[id.index()];
            process.end_ns = time_ns;
            let has_any = end.count("off_cpu_intervals").unwrap_or(0) > 0;
            process.has_switches = has_any && end.count("off_cpu_incomplete_ns").is_none();
            process.has_delays = process.has_switches && end.count("off_cpu_with_delays").is_none();
            process.account = Some(account(&end));
        }
    }

    /// Takes in a comparison of clocks.
    pub(super) fn compared(&mut self, snapshot: &ClockSnapshot, model: &mut Model) {
        let Some(id) = self.current else {
            self.early.observe(snapshot);
            return;
        };
        let points = &mut model.processes[id.index()].wall_clock;
        let mut wall_clock = WallClock {
            points: std::mem::take(points),
        };
        wall_clock.observe(snapshot);
        *points = wall_clock.points;
    }

    /// The file ends: all its times are of one clock, also those of other hosts in a merged trace, so that each comparison holds for all its processes.
    pub(super) fn finish(&self, model: &mut Model) {
        let of_file = model.processes.iter().filter(|one| one.file == self.file);
        let mut points: Vec<(i64, i64)> = of_file.flat_map(|one| one.wall_clock.clone()).collect();
        points.sort_unstable();
        points.dedup();
        for process in &mut model.processes {
            if process.file == self.file {
                process.wall_clock.clone_from(&points);
            }
        }
    }

    /// The process of a packet that names none.
    pub(super) fn current(&mut self, model: &mut Model) -> ProcessId {
        *self.current.get_or_insert_with(|| {
            model.processes.push(Process {
                file: self.file.clone(),
                ..Process::default()
            });
            ProcessId::new(model.processes.len() - 1)
        })
    }

    /// The process of a process id.
    pub(super) fn of_pid(&mut self, pid: u32, model: &mut Model) -> ProcessId {
        *self.of_pids.entry(pid).or_insert_with(|| {
            model.processes.push(Process {
                pid,
                file: self.file.clone(),
                ..Process::default()
            });
            ProcessId::new(model.processes.len() - 1)
        })
    }

    /// The process of a track or of one that it belongs to.
    pub(super) fn of_track(&self, index: TrackIndex, tracks: &Tracks) -> Option<ProcessId> {
        let mut chain = tracks.chain(index);
        chain.find_map(|(index, _)| self.of_tracks.get(&index).copied())
    }

    /// The thread of a track or of one that it belongs to.
    pub(super) fn thread_of_track(&self, index: TrackIndex, tracks: &Tracks) -> Option<ThreadId> {
        let thread = tracks.thread(index)?;
        self.threads_of_tracks.get(&thread).copied()
    }

    /// The thread that has an id now.
    #[inline]
    pub(super) fn thread(&mut self, pid: u32, tid: u32, model: &mut Model) -> ThreadId {
        if let Some((key, id)) = self.last
            && key == (pid, tid)
        {
            return id;
        }
        let id = match self.threads.get(&(pid, tid)) {
            Some(&id) => id,
            None => {
                let process = self.of_pid(pid, model);
                model.threads.push(Thread {
                    process,
                    tid,
                    ..Thread::default()
                });
                let id = ThreadId::new(model.threads.len() - 1);
                self.threads.insert((pid, tid), id);
                id
            }
        };
        self.last = Some(((pid, tid), id));
        id
    }
}

/// Takes over what a trace of rsys says about its process.
fn learn(process: &mut Process, facts: &Facts) {
    process.rank = facts.count("rank").or(process.rank);
    process.rank_count = facts.count("rank_count");
    facts.text("boot_id").clone_into(&mut process.boot_id);
    facts.text("backends").clone_into(&mut process.backends);
    if !facts.text("host").is_empty() {
        facts.text("host").clone_into(&mut process.host);
    }
    if let Some(start_ns) = facts.count("start_time_ns") {
        process.start_ns = start_ns;
    }
    let parent = facts.count("parent_pid");
    process.parent_pid = parent.and_then(|pid| pid.try_into().ok()).unwrap_or(0);
    process.wait_frequency_hz = facts.count("realtime_hz").unwrap_or(0);
    let frequency_hz = facts.count("frequency_hz").filter(|&hz| hz > 0);
    if let Some(hz) = frequency_hz.filter(|_| facts.text("overflow_event").is_empty()) {
        process.sample_period_ns = 1_000_000_000 / hz;
    }
}

/// What a trace of rsys says at its end.
fn account(facts: &Facts) -> Account {
    let sum = |keys: &[&str]| -> u64 { keys.iter().filter_map(|key| facts.count(key)).sum() };
    let sampler_cpu_s = facts.number("sampler_cpu_seconds").unwrap_or(0.0);
    let mut losses = Losses::default();
    losses.add(facts);
    Account {
        samples: sum(&["samples"]),
        // A call and the operation that it makes are recorded together.
        events: sum(&["event_calls"]).max(sum(&["gpu_kernels", "gpu_moves"])),
        lost: losses.total(),
        cpu_ns: sum(&["cpu_time_ns"]),
        sampler_pid: sum(&["sampler_pid"]),
        sampler_cpu_ns: (sampler_cpu_s * 1e9) as u64,
    }
}
