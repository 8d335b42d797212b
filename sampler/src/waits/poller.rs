//! The thread that looks at the threads of all processes, again and again.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::look::Rate;
use super::process::{Budget, Watched};
use super::record::WaitRecord;
use crate::offcpu::ThreadRings;
use crate::os;
use crate::session::ProcessKey;

/// At most this many records of a process wait to be taken; beyond it, the process is not looked
/// at.
const RECORDS_MAX: usize = 1 << 18;

/// The longest time without a look, when nothing is left to look at.
const REST_NS_MAX: u64 = 100_000_000;

/// The watch over the waits of all processes of a session.
#[derive(Debug)]
pub struct Waits {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    watch: Mutex<Watch>,
    /// Taken before `watch`: whoever holds it is the next to have that, though the thread looks without a pause.
    next: Mutex<()>,
    /// Something is to be done at once.
    wakeup: Condvar,
    /// What was seen and not taken yet. A lock of its own: nobody waits for a look to end.
    records: Mutex<HashMap<ProcessKey, Seen>>,
}

/// What was seen of a process.
#[derive(Debug, Default)]
struct Seen {
    records: Vec<WaitRecord>,
    /// All looks before this time are among them: CLOCK_BOOTTIME.
    until_ns: u64,
}

#[derive(Debug)]
struct Watch {
    rate: Rate,
    budget: Budget,
    processes: HashMap<ProcessKey, Watched>,
    stop: bool,
}

impl Waits {
    /// Starts the thread. Stacks are walked for `depth_max` frames, those of Python if `python` says
    /// so; with `quiet`, nothing is said of processes that cannot be looked at.
    ///
    /// # Errors
    /// When the system has no thread for us.
    pub fn start(
        frequency_hz: f64,
        depth_max: usize,
        python: bool,
        quiet: bool,
        thread_rings: Option<ThreadRings>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            watch: Mutex::new(Watch {
                rate: Rate {
                    period_ns: (1e9 / frequency_hz).round() as u64,
                    depth_max,
                    quiet,
                    python,
                    thread_rings,
                },
                budget: Budget::of_this_process(),
                processes: HashMap::new(),
                stop: false,
            }),
            wakeup: Condvar::new(),
            next: Mutex::default(),
            records: Mutex::default(),
        });
        let threads = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("rsys-waits".to_owned())
            .spawn(move || threads.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Looks at process `host_pid` from now on, as long as it runs the program whose agent has mapped memory of this inode.
    pub fn begin(&self, key: ProcessKey, (host_pid, pid): (u32, u32), agent_inode: u64) {
        let mut watch = self.shared.watch();
        watch
            .processes
            .insert(key, Watched::new(host_pid, pid, agent_inode));
        self.shared.wakeup.notify_one();
    }

    /// What was seen of a process since the last call, and the time up to which these are all looks.
    #[must_use]
    pub fn take(&self, key: ProcessKey) -> (Vec<WaitRecord>, u64) {
        let mut all = lock(&self.shared.records);
        let seen = all.get_mut(&key);
        seen.map(|seen| (std::mem::take(&mut seen.records), seen.until_ns))
            .unwrap_or_default()
    }

    /// Looks at a process no more, and says what was seen last: all its waits are over.
    #[must_use]
    pub fn end(&self, key: ProcessKey) -> Vec<WaitRecord> {
        let mut watch = self.shared.watch();
        let watched = watch.processes.remove(&key);
        let seen = lock(&self.shared.records).remove(&key);
        let mut records = seen.unwrap_or_default().records;
        if let Some(watched) = watched {
            watched.finish(&mut watch.budget, &mut records);
        }
        records
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.shared.watch().stop = true;
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
    fn watch(&self) -> MutexGuard<'_, Watch> {
        let _next = lock(&self.next);
        lock(&self.watch)
    }

    fn run(&self) {
        let mut random = Random(u64::from(std::process::id()) << 32 | 1);
        let mut watch = lock(&self.watch);
        let period = Duration::from_nanos(watch.rate.period_ns);
        let mut next = Instant::now();
        while !watch.stop {
            if watch.processes.is_empty() {
                watch = self
                    .wakeup
                    .wait(watch)
                    .unwrap_or_else(PoisonError::into_inner);
                next = Instant::now();
                continue;
            }
            // Anywhere in its period: a program that waits in step with us would show one of its
            // places only.
            let moment = next + period.mul_f64(random.fraction());
            let left = moment.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                // Woken early by a new process, or by nothing, it looks early.
                watch = self
                    .wakeup
                    .wait_timeout(watch, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            } else {
                drop(watch);
                watch = self.watch();
            }
            let rest = self.look(&mut watch);
            // Looks that were missed are not made up for, and none is made while all threads rest.
            next = (next + period).max(Instant::now() + rest - period);
        }
    }

    /// Looks at all processes, and says how long there is nothing to look at.
    fn look(&self, watch: &mut Watch) -> Duration {
        let Watch {
            rate,
            budget,
            processes,
            ..
        } = watch;
        let mut seen = Vec::new();
        let mut due_ns = u64::MAX;
        for (key, watched) in processes {
            let waiting = lock(&self.records)
                .get(key)
                .map_or(0, |seen| seen.records.len());
            if waiting > RECORDS_MAX {
                continue;
            }
            let begin_ns = os::boot_time_ns();
            if let Some(due) = watched.look(rate, budget, &mut seen) {
                due_ns = due_ns.min(due);
            }
            let mut all = lock(&self.records);
            let of_process = all.entry(*key).or_default();
            of_process.records.append(&mut seen);
            of_process.until_ns = begin_ns;
        }
        let rest_ns = due_ns.saturating_sub(os::boot_time_ns());
        Duration::from_nanos(rest_ns.min(REST_NS_MAX))
    }
}

/// A xorshift generator: the moments need not be more random than that.
struct Random(u64);

impl Random {
    /// A number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use memmap2::MmapOptions;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    #[test]
    fn processes_come_and_go_while_it_looks_without_a_pause() {
        let waits = Waits::start(1e9, 8, false, true, None).expect("a thread");
        let pid = std::process::id();
        let file = File::from(memfd_create(c"agent", MFdFlags::MFD_CLOEXEC).expect("memory"));
        file.set_len(4096).expect("memory");
        let _mapped = MmapOptions::new().map_raw(&file).expect("memory");
        let inode = file.metadata().expect("an open file").ino();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // There is always something to look at.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            for key in 0..100 {
                waits.begin(key, (pid, pid), inode);
            }
            for key in 0..100 {
                drop(waits.end(key));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
