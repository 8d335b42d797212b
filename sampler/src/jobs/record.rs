//! `job.json`: who took part in a step, and how each ended.
//!
//! Many tasks on many machines write it, on a file system where locks may not work. So nobody
//! changes a file of another: each task has a record of its own in `.tasks/`, made at its start and
//! made anew, under another name, at its end. Whoever ends puts all records together and renames
//! the result into place. If another record came up meanwhile, it does so again: whichever
//! `job.json` was put there last, its writer has looked after that.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::time::ClockId;
use rsys_config::job::Step;
use serde_json::{Value, json};

use super::place::Place;
use crate::emit::digest::{GpuTime, ProcessDigest};
use crate::emit::outcome::ProcessSummary;
use crate::launch::ending::Ending;
use crate::os;
use crate::summary::NoTrace;

/// Version of the format.
const VERSION: u32 = 1;

/// The file beside the traces.
pub const JOB_FILE: &str = "job.json";
/// The folder of the tasks' own records.
pub const TASKS_FOLDER: &str = ".tasks";

const RUNNING: &str = ".running.json";
const ENDED: &str = ".ended.json";

/// When more tasks than this still run, only some of those that end write `job.json`: each reads
/// all records.
const FEW: usize = 8;

/// Whoever makes this file says how the job ended; behind it stands how many tasks that are.
const SAID: &str = ".said-of-";

/// A writer gives up after this many records that came up while it wrote: their writers will see to
/// it.
const ROUNDS_MAX: usize = 20;

/// The record of one task.
#[derive(Debug)]
pub struct TaskRecord {
    directory: PathBuf,
    /// Name of the record, unique in the step.
    name: String,
    /// What is known since the start.
    start: Value,
    is_first_rank: bool,
    /// At least so many tasks are profiled.
    expected: usize,
    job: Value,
}

/// How a task ended.
#[derive(Debug)]
pub struct TaskEnd<'a> {
    /// How its command ended.
    pub ending: Ending,
    /// What became of its processes.
    pub processes: &'a [ProcessSummary],
    /// How many processes ended before they began to record.
    pub unstarted: u64,
    /// Why there is no trace, if there is none.
    pub no_trace: Option<NoTrace>,
    /// Samples stand for CPU time, rather than for another event.
    pub are_cpu_times: bool,
}

/// What a task finds when it has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Left {
    /// Others run, or another says how the job ended.
    Others {
        /// Whether this is the first rank.
        is_first_rank: bool,
    },
    /// It is the last: the records of all tasks, in the order of ranks.
    Nobody(Vec<Value>),
}

/// What a record says of its task.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// Where it stands.
    pub place: &'a Place,
    /// Name of the machine.
    pub host: &'a str,
    /// Id of its boot.
    pub boot_id: &'a str,
    /// The command and its arguments.
    pub command: &'a [String],
    /// How many tasks are profiled, as far as that is known; at least so many.
    pub expected: usize,
}

impl TaskRecord {
    /// Puts down that the task runs. `directory` is that of the step's traces.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn begin(directory: &Path, task: &Task<'_>) -> io::Result<Self> {
        let Task { place, host, .. } = task;
        let rank = place.rank.as_ref();
        let pid = std::process::id();
        let clocks = clocks();
        let host_part = host.replace('/', "_");
        // Process ids come again; with the time of the start they do not.
        let moment = os::boot_time_ns() / 1_000_000;
        let name = match rank {
            Some(rank) => format!("{}.{host_part}.{pid}.{moment}", rank.rank),
            None => format!("{host_part}.{pid}.{moment}"),
        };
        let start = json!({
            "host": host,
            "node_name": place.node_name,
            "node": place.node,
            "rank": rank.map(|rank| rank.rank),
            "rank_source": rank.map(|rank| rank.source),
            "world_size": rank.and_then(|rank| rank.size),
            "local_rank": rank.and_then(|rank| rank.local_rank),
            "pid": pid,
            "boot_id": task.boot_id,
            "command": task.command,
            "working_directory": std::env::current_dir().ok(),
            "start": clocks,
            "state": "running",
        });
        let step = place.step.as_ref();
        let record = Self {
            directory: directory.to_path_buf(),
            name,
            is_first_rank: rank.is_none_or(|rank| rank.rank == 0),
            expected: task.expected,
            job: json!({
                "job": step.and_then(|step| step.job.as_deref()),
                "step": step.and_then(|step| match &step.step {
                    Step::Named(name) => Some(name.as_str()),
                    Step::Launcher(_) => None,
                }),
                "restart": step.map_or(0, |step| step.restart),
            }),
            start,
        };
        fs::create_dir_all(record.tasks())?;
        record.write_whole(&record.path(RUNNING), &record.start)?;
        if record.is_first_rank {
            record.write_job()?;
        }
        Ok(record)
    }

    /// Puts down how the task ended, and what it left, or why that is nothing. Returns whether others still run.
    ///
    /// # Errors
    /// When the records cannot be read or written.
    pub fn end(self, end: TaskEnd<'_>) -> io::Result<Left> {
        let TaskEnd {
            ending,
            processes,
            unstarted,
            no_trace,
            are_cpu_times,
        } = end;
        let mut record = self.start.clone();
        let short = processes.iter().filter(|process| process.short);
        let ended = json!({
            "state": "ended",
            "end": clocks(),
            "exit_code": match ending { Ending::Code(code) => Some(code), Ending::Signal(_) => None },
            "exit_signal": match ending { Ending::Signal(signal) => Some(signal), Ending::Code(_) => None },
            "processes": processes.len() as u64 + unstarted,
            "short_processes": short.count() as u64 + unstarted,
            "dropped": processes.iter().map(|process| process.counts.dropped()).sum::<u64>(),
            "no_trace": no_trace
                .map(|none| json!({ "reason": none.reason, "expected": none.expected })),
            "time": time(processes, are_cpu_times),
            "traces": processes.iter().filter_map(|process| self.trace(process)).chain(self.shared_trace(processes)).collect::<Vec<_>>(),
        });
        merge(&mut record, ended);
        self.write_whole(&self.path(ENDED), &record)?;
        fs::remove_file(self.path(RUNNING)).ok();
        Ok(match self.write_job()? {
            Some(tasks) if self.is_said_by_us(tasks.len()) => Left::Nobody(tasks),
            _ => Left::Others {
                is_first_rank: self.is_first_rank,
            },
        })
    }

    /// Several tasks that end at once may each find that all have ended: one of them makes the file.
    fn is_said_by_us(&self, tasks: usize) -> bool {
        let path = self.tasks().join(format!("{SAID}{tasks}"));
        File::create_new(path).is_ok()
    }

    fn trace(&self, process: &ProcessSummary) -> Option<Value> {
        let path = process.path.as_ref()?;
        let directory = self.directory.as_path();
        let name = |path: &PathBuf| path.strip_prefix(directory).unwrap_or(path).to_owned();
        Some(json!({
            "file": name(path),
            "parts": process.parts.iter().map(name).collect::<Vec<_>>(),
            "pid": process.pid,
            "rank": process.rank,
            "name": process.name,
            "samples": process.tally.samples,
            "weighted_samples": process.tally.weight,
            "dropped": process.counts.dropped(),
            "end": process.end.to_string(),
            "complete": process.trouble.is_none(),
        }))
    }

    /// That of short processes.
    fn shared_trace(&self, processes: &[ProcessSummary]) -> Option<Value> {
        let short = || processes.iter().filter(|process| process.shared.is_some());
        let path = short().find_map(|process| process.shared.as_ref())?;
        let sum = |count: fn(&ProcessSummary) -> u64| short().map(count).sum::<u64>();
        Some(json!({
            "file": path.strip_prefix(&self.directory).unwrap_or(path),
            "parts": [],
            "pid": null,
            "rank": null,
            "name": format!("{} short processes", short().count()),
            "samples": sum(|process| process.tally.samples),
            "weighted_samples": sum(|process| process.tally.weight),
            "dropped": sum(|process| process.counts.dropped()),
            "end": "ended",
            "complete": short().all(|process| process.trouble.is_none()),
        }))
    }

    fn tasks(&self) -> PathBuf {
        self.directory.join(TASKS_FOLDER)
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.tasks().join(format!("{}{ending}", self.name))
    }

    /// Writes a file that is there as a whole or not at all.
    fn write_whole(&self, path: &Path, value: &Value) -> io::Result<()> {
        let temporary = self.path(".tmp");
        let mut text = serde_json::to_vec_pretty(value).map_err(io::Error::other)?;
        text.push(b'\n');
        let written = File::create(&temporary)
            .and_then(|mut file| {
                file.write_all(&text)?;
                os::close(file)
            })
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            fs::remove_file(&temporary).ok();
        }
        written
    }

    /// Puts all records together, as often as others come up meanwhile. Returns them if all tasks have ended.
    fn write_job(&self) -> io::Result<Option<Vec<Value>>> {
        let mut listing = Listing::read(&self.tasks())?;
        for _ in 0..ROUNDS_MAX {
            if !(listing.running <= FEW || listing.ended.is_power_of_two() || self.is_first_rank) {
                return Ok(None);
            }
            let tasks = listing.tasks(&self.tasks());
            let whole = self.job_of(&listing, &tasks);
            self.write_whole(&self.directory.join(JOB_FILE), &whole)?;
            let after = Listing::read(&self.tasks())?;
            if after == listing {
                let are_all = listing.running == 0 && listing.ended >= self.expected;
                return Ok(are_all.then_some(tasks));
            }
            listing = after;
        }
        Ok(None)
    }

    fn job_of(&self, listing: &Listing, tasks: &[Value]) -> Value {
        let names = |key: &str| {
            let mut names: Vec<_> = tasks.iter().filter_map(|task| task[key].as_str()).collect();
            names.sort_unstable();
            names.dedup();
            json!(names)
        };
        let mut whole = json!({
            "version": VERSION,
            "world_size": tasks.iter().filter_map(|task| task["world_size"].as_u64()).max(),
            "hosts": names("host"),
            "nodes": names("node_name"),
            "running": listing.running,
            "ended": listing.ended,
        });
        merge(&mut whole, self.job.clone());
        merge(&mut whole, json!({ "ranks": tasks }));
        whole
    }
}

/// Names of the records in a folder: each task's newest.
#[derive(Debug, PartialEq, Eq)]
struct Listing {
    /// Task, and whether it has ended.
    records: BTreeMap<String, bool>,
    running: usize,
    ended: usize,
}

impl Listing {
    fn read(folder: &Path) -> io::Result<Self> {
        let mut records = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(task) = name.strip_suffix(ENDED) {
                records.insert(task.to_owned(), true);
            } else if let Some(task) = name.strip_suffix(RUNNING) {
                records.entry(task.to_owned()).or_insert(false);
            }
        }
        let ended = records.values().filter(|ended| **ended).count();
        Ok(Self {
            running: records.len() - ended,
            ended,
            records,
        })
    }

    /// The records in the order of ranks, those without one last. One that vanished was replaced, which the next listing shows.
    fn tasks(&self, folder: &Path) -> Vec<Value> {
        let read = |(task, ended): (&String, &bool)| {
            let ending = if *ended { ENDED } else { RUNNING };
            let text = fs::read(folder.join(format!("{task}{ending}"))).ok()?;
            serde_json::from_slice(&text).ok()
        };
        let mut tasks: Vec<Value> = self.records.iter().filter_map(read).collect();
        tasks.sort_by_key(|task: &Value| {
            let number = |key: &str| task[key].as_u64();
            let host = task["host"].as_str().unwrap_or_default();
            let rank = number("rank").unwrap_or(u64::MAX);
            (rank, host.to_owned(), number("pid"))
        });
        tasks
    }
}

/// What the processes of a task did with their time, in nanoseconds.
fn time(processes: &[ProcessSummary], are_cpu_times: bool) -> Value {
    let digests = || processes.iter().map(|process| &process.digest);
    let sum = |of: fn(&ProcessDigest) -> u64| digests().map(of).sum::<u64>();
    let gpus = |of: fn(&GpuTime) -> u64| digests().flat_map(|digest| &digest.gpus).map(of).sum();
    let [total, busy]: [u64; 2] = [gpus(|gpu| gpu.total_ns), gpus(|gpu| gpu.busy_ns)];
    json!({
        "cpu_ns": are_cpu_times.then(|| sum(|digest| digest.cpu_ns)),
        "mpi_ns": sum(|digest| digest.mpi_ns),
        "collective_kernel_ns": sum(|digest| digest.collective_ns),
        "gpu_ns": total,
        "gpu_busy_ns": busy,
    })
}

/// Moves the keys of `other` into `value`.
fn merge(value: &mut Value, other: Value) {
    if let (Value::Object(into), Value::Object(from)) = (value, other) {
        into.extend(from);
    }
}

/// Readings of the clocks at one moment, in nanoseconds.
fn clocks() -> Value {
    json!({
        "boottime_ns": os::boot_time_ns(),
        "monotonic_ns": os::clock_ns(ClockId::CLOCK_MONOTONIC),
        "realtime_ns": os::clock_ns(ClockId::CLOCK_REALTIME),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_config::Environment;

    fn begin(folder: &Path, rank: usize) -> TaskRecord {
        let place = Place::from_env(&Environment::from_pairs([
            ("PMI_RANK".to_owned(), rank.to_string()),
            ("PMI_SIZE".to_owned(), "24".to_owned()),
        ]));
        let task = Task {
            place: &place,
            host: "host",
            boot_id: "boot",
            command: &["app".to_owned(), "x".to_owned()],
            expected: 24,
        };
        TaskRecord::begin(folder, &task).unwrap()
    }

    fn job(folder: &Path) -> Value {
        serde_json::from_slice(&fs::read(folder.join(JOB_FILE)).unwrap()).unwrap()
    }

    #[test]
    fn whoever_comes_last_has_seen_all() {
        let folder = std::env::temp_dir().join(format!("rsys-record-{}", std::process::id()));
        let records: Vec<_> = (0..24).map(|rank| begin(&folder, rank)).collect();
        assert_eq!(job(&folder)["ranks"][0]["state"], "running");
        std::thread::scope(|scope| {
            for (rank, record) in records.into_iter().enumerate() {
                // One of them is killed.
                if rank != 7 {
                    let end = TaskEnd {
                        ending: Ending::Code(rank as u8),
                        processes: &[],
                        unstarted: 0,
                        no_trace: None,
                        are_cpu_times: true,
                    };
                    scope.spawn(move || record.end(end).unwrap());
                }
            }
        });
        let whole = job(&folder);
        let left = fs::read_dir(folder.join(TASKS_FOLDER)).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            (whole["running"].as_u64(), whole["ended"].as_u64()),
            (Some(1), Some(23))
        );
        assert_eq!(whole["world_size"], 24);
        assert_eq!(whole["hosts"], json!(["host"]));
        let tasks = whole["ranks"].as_array().unwrap();
        for (rank, task) in tasks.iter().enumerate() {
            assert_eq!(task["rank"], rank);
            let expected = if rank == 7 { Value::Null } else { json!(rank) };
            assert_eq!(task["exit_code"], expected);
        }
        assert_eq!((tasks.len(), left), (24, 24));
    }
}
