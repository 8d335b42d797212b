//! The thread that reads all counters at even intervals.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::time::ClockId;
use rsys_config::Numbers;
use rsys_machine::roots::Roots;

use super::fdinfo::Engines;
use super::file::SCRATCH_BYTES;
use super::gpu::Gpus;
use super::host::Host;
use super::kfd::Usage;
use super::process::Process;
use crate::counters::Readings;
use crate::os;
use crate::run::RunContext;
use crate::session::ProcessKey;

/// By default, what one reading costs in CPU time is at most this share of the time to the next.
const SHARE_MAX: f64 = 0.004;

/// The first reading comes after this time, or after a period that is shorter.
const FIRST: Duration = Duration::from_millis(100);

/// At most this many readings wait to be taken; beyond it, none is added.
const READINGS_MAX: usize = 1 << 16;

/// What is read, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Readings per second.
    pub frequency_hz: f64,
    /// Whether the interval grows when reading costs too much: not when the user chose it.
    pub frugal: bool,
    /// Whether the host is read.
    pub host: bool,
    /// Processors with tracks of their own.
    pub processors: Numbers,
}

/// The watch over processes, host and GPUs.
#[derive(Debug)]
pub struct Monitors {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something is to be done at once.
    wakeup: Condvar,
    /// What was read and not taken yet. A lock of its own: nobody waits for a reading to end.
    readings: Mutex<Readings>,
}

#[derive(Debug, Default)]
struct State {
    /// What the thread is still to do with processes.
    begun: Vec<(ProcessKey, u32)>,
    ended: Vec<ProcessKey>,
    stop: bool,
}

/// Processes that came and went.
#[derive(Debug, Default)]
struct Changes {
    begun: Vec<(ProcessKey, u32)>,
    ended: Vec<ProcessKey>,
}

/// What the thread reads.
struct Watch {
    roots: Roots,
    run: RunContext,
    host: Option<Host>,
    gpus: Option<Gpus>,
    processes: HashMap<ProcessKey, (Process, Option<(Usage, Engines)>)>,
    scratch: Vec<u8>,
}

impl Monitors {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for us.
    pub fn start(choice: Choice, gpus: Option<Gpus>, run: &RunContext) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let run = run.clone();
        let thread = std::thread::Builder::new()
            .name("rsys-monitor".to_owned())
            .spawn(move || theirs.run(&choice, gpus, run))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Reads process `host_pid` from the next reading on: of processes that live no longer than to
    /// it, there may be thousands.
    pub fn begin(&self, key: ProcessKey, host_pid: u32) {
        lock(&self.shared.state).begun.push((key, host_pid));
    }

    /// Reads a process no more.
    pub fn end(&self, key: ProcessKey) {
        lock(&self.shared.state).ended.push(key);
    }

    /// What was read since the last call.
    #[must_use]
    pub fn take(&self) -> Readings {
        std::mem::take(&mut lock(&self.shared.readings))
    }
}

impl Drop for Monitors {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.wakeup.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened.
            thread.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn run(&self, choice: &Choice, gpus: Option<Gpus>, run: RunContext) {
        let period = Duration::from_secs_f64(1.0 / choice.frequency_hz);
        // The first reading comes after a while: a program that ends at once pays for none.
        let mut next = Instant::now() + period.min(FIRST);
        let Some(mut changes) = self.wait_until(next) else {
            return;
        };
        let mut watch = Watch::new(choice, gpus, run);
        loop {
            let before_ns = os::clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
            watch.change(changes);
            self.hand_on(watch.read());
            next += period;
            let cost_ns = os::clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(before_ns);
            // Readings that were missed are not made up for.
            let mut earliest = Instant::now();
            if choice.frugal {
                earliest += Duration::from_nanos((cost_ns as f64 / SHARE_MAX) as u64);
            }
            next = next.max(earliest);
            changes = match self.wait_until(next) {
                Some(changes) => changes,
                None => return,
            };
        }
    }

    /// Waits, and says which processes came and went; nothing when it is to stop.
    fn wait_until(&self, moment: Instant) -> Option<Changes> {
        let mut state = lock(&self.state);
        while !state.stop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(Changes {
                    begun: std::mem::take(&mut state.begun),
                    ended: std::mem::take(&mut state.ended),
                });
            }
            let woken = self.wakeup.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn hand_on(&self, new: Readings) {
        let mut waiting = lock(&self.readings);
        if waiting.host.len() < READINGS_MAX {
            waiting.host.extend(new.host);
        }
        for (key, readings) in new.processes {
            let list = waiting.processes.entry(key).or_default();
            if list.len() < READINGS_MAX {
                list.extend(readings);
            }
        }
    }
}

impl Watch {
    fn new(choice: &Choice, gpus: Option<Gpus>, run: RunContext) -> Self {
        let roots = Roots::of_this_process();
        Self {
            host: choice.host.then(|| Host::new(&roots, &choice.processors)),
            roots,
            run,
            gpus,
            processes: HashMap::new(),
            scratch: vec![0; SCRATCH_BYTES],
        }
    }

    /// Whether what is read now is kept.
    fn active(&self, time_ns: u64) -> bool {
        self.run.windows.monitors.active(time_ns)
    }

    /// Takes in processes that came, and forgets those that went.
    fn change(&mut self, changes: Changes) {
        for (key, pid) in changes.begun {
            if changes.ended.contains(&key) {
                continue;
            }
            // One that is gone already, or hides, has no counters.
            let Ok(process) = Process::open(pid) else {
                continue;
            };
            let usage = self.gpus.as_ref().map(|gpus| {
                let usage = Usage::new(&self.roots, pid, &gpus.ids, gpus.memory, gpus.occupancy);
                let folder = PathBuf::from(format!("/proc/{pid}"));
                (usage, Engines::new(&folder, &gpus.engines))
            });
            self.processes.insert(key, (process, usage));
        }
        for key in changes.ended {
            self.processes.remove(&key);
        }
    }

    /// Reads everything.
    fn read(&mut self) -> Readings {
        let mut readings = Readings::default();
        let time_ns = os::boot_time_ns();
        if !self.active(time_ns) {
            return readings;
        }
        if let Some(host) = &mut self.host {
            host.read(time_ns, &mut self.scratch, &mut readings.host);
        }
        if let Some(gpus) = &mut self.gpus {
            gpus.read(time_ns, &mut readings.host);
        }
        self.processes.retain(|key, (process, usage)| {
            let mut own = Vec::new();
            let is_there = process.read(time_ns, &mut self.scratch, &mut own).is_ok();
            if let Some((usage, engines)) = usage {
                usage.read(time_ns, &mut self.scratch, &mut own);
                engines.read(time_ns, &mut own);
                if let Some(gpus) = &mut self.gpus {
                    own.extend(gpus.events_of(usage.pid));
                }
            }
            if !own.is_empty() {
                readings.processes.insert(*key, own);
            }
            is_there
        });
        readings
    }
}
