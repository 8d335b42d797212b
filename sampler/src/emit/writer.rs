//! The thread that makes traces of what was collected.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::account::{AgentCounts, End};
use super::batch::Batch;
use super::cpu_windows::CpuWindows;
use super::drawing::trace::{is_gone, removed};
use super::host_counters::HostCounters;
use super::output::sink::{Sinks, TraceFiles};
use super::process::ProcessTrace;
use super::tools::Tools;
use crate::counters::{Reading, Readings};
use crate::emit::outcome::ProcessSummary;
use crate::identity::Identity;
use crate::offcpu::OffCpuInterval;
use crate::os;
use crate::resolve::{Resolver, ResolverOptions, ResolverStats};
use crate::run::RunContext;
use crate::session::ProcessKey;
use crate::terminal::say;
use crate::waits::record::WaitRecord;

/// Memory that waiting work may take. When they take more, the rings are left alone: they are a
/// buffer of their own, and what does not fit there is counted there.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Time between two looks at the threads: their names, and whether they still run.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What waits is written after this time when nothing else comes.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// Work for the thread.
#[derive(Debug)]
enum Job {
    Start(ProcessKey, Box<Identity>),
    Batch(ProcessKey, Batch),
    Waits(ProcessKey, Vec<WaitRecord>),
    Counters(ProcessKey, Vec<Reading>),
    OffCpuIntervals(ProcessKey, Vec<OffCpuInterval>),
    /// Records of context switches are missing, since a time.
    LacksSwitches(ProcessKey, u64),
    HostCounters(Vec<Reading>),
    End(ProcessKey, End, Box<AgentCounts>),
    Foreground,
}

impl Job {
    /// The process that it is about.
    fn process(&self) -> Option<ProcessKey> {
        match self {
            Self::Start(key, _)
            | Self::Batch(key, _)
            | Self::Waits(key, _)
            | Self::Counters(key, _)
            | Self::OffCpuIntervals(key, _)
            | Self::LacksSwitches(key, _)
            | Self::End(key, ..) => Some(*key),
            Self::HostCounters(_) | Self::Foreground => None,
        }
    }

    /// The memory of what may come faster than it is written.
    fn bytes(&self) -> usize {
        match self {
            Self::Batch(_, batch) => batch.bytes(),
            Self::Waits(_, records) => size_of_val(records.as_slice()),
            Self::OffCpuIntervals(_, intervals) => size_of_val(intervals.as_slice()),
            _ => 0,
        }
    }
}

/// What the thread leaves.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// All processes, in the order of their ends.
    pub processes: Vec<ProcessSummary>,
    /// What finding names took.
    pub resolver: ResolverStats,
}

/// The running thread.
#[derive(Debug)]
pub struct Writer {
    jobs: Sender<Job>,
    waiting_bytes: Arc<AtomicUsize>,
    heartbeat: Arc<AtomicU64>,
    hurry: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
    done: OwnedFd,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for us.
    pub fn start(run: RunContext, options: ResolverOptions) -> io::Result<Self> {
        let (jobs, queue) = unbounded();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let heartbeat = Arc::new(AtomicU64::new(0));
        let hurry = Arc::new(AtomicBool::new(false));
        let shared = Shared {
            waiting_bytes: Arc::clone(&waiting_bytes),
            heartbeat: Arc::clone(&heartbeat),
            hurry: Arc::clone(&hurry),
        };
        let (done, end) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        let thread = std::thread::Builder::new()
            .name("rsys-write".to_owned())
            .spawn(move || {
                // Closed when the thread ends, however it does: whoever polls the other end wakes
                // up.
                let _end = end;
                os::lower_thread_priority();
                work(&run, options, &queue, &shared)
            })?;
        Ok(Self {
            jobs,
            waiting_bytes,
            heartbeat,
            hurry,
            thread,
            done,
        })
    }

    /// Whether more should be collected now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) < WAITING_BYTES_MAX
    }

    /// Changes as long as the writer works.
    #[must_use]
    pub fn heartbeat(&self) -> u64 {
        self.heartbeat.load(Ordering::Relaxed)
    }

    /// Announces a process.
    pub fn begin(&self, key: ProcessKey, identity: Identity) {
        self.send(Job::Start(key, Box::new(identity)));
    }

    /// Hands over what was collected from a process.
    pub fn batch(&self, key: ProcessKey, batch: Batch) {
        self.send(Job::Batch(key, batch));
    }

    /// Hands over what was seen of the blocked threads of a process.
    pub fn waits(&self, key: ProcessKey, records: Vec<WaitRecord>) {
        if !records.is_empty() {
            self.send(Job::Waits(key, records));
        }
    }

    /// Hands over what was seen of context switches.
    pub fn intervals(&self, key: ProcessKey, intervals: Vec<OffCpuInterval>) {
        if !intervals.is_empty() {
            self.send(Job::OffCpuIntervals(key, intervals));
        }
    }

    /// Records of context switches of a process are missing, since a time (CLOCK_BOOTTIME).
    pub fn lacks_switches(&self, key: ProcessKey, since_ns: u64) {
        self.send(Job::LacksSwitches(key, since_ns));
    }

    /// Hands over what was read of processes, host and GPUs.
    pub fn counters(&self, readings: Readings) {
        for (key, readings) in readings.processes {
            self.send(Job::Counters(key, readings));
        }
        if !readings.host.is_empty() {
            self.send(Job::HostCounters(readings.host));
        }
    }

    /// Ends the trace of a process.
    pub fn end(&self, key: ProcessKey, end: End, counts: AgentCounts) {
        self.send(Job::End(key, end, Box::new(counts)));
    }

    /// The target has ended and leaves the CPU to us: names may be found as fast as the machine can.
    pub fn to_foreground(&self) {
        self.send(Job::Foreground);
    }

    /// Nothing more will come.
    #[must_use]
    pub fn close(self) -> Closing {
        Closing {
            hurry: self.hurry,
            thread: self.thread,
            done: self.done,
        }
    }

    fn send(&self, job: Job) {
        self.waiting_bytes.fetch_add(job.bytes(), Ordering::Relaxed);
        // Only a thread that panicked does not take it.
        self.jobs.send(job).ok();
    }
}

/// A thread that writes what it has.
#[derive(Debug)]
pub struct Closing {
    hurry: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
    done: OwnedFd,
}

impl Closing {
    /// A descriptor that hangs up when all is written.
    #[must_use]
    pub fn done(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// From now on, addresses are written in place of names that are not known yet.
    pub fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    /// Waits until all is written.
    #[must_use]
    pub fn finish(self) -> Outcome {
        // A panic there was reported when it happened; what was written before is valid.
        self.thread.join().unwrap_or_default()
    }
}

/// What the thread and its owner share.
#[derive(Debug)]
struct Shared {
    waiting_bytes: Arc<AtomicUsize>,
    heartbeat: Arc<AtomicU64>,
    hurry: Arc<AtomicBool>,
}

fn work(
    run: &RunContext,
    options: ResolverOptions,
    queue: &Receiver<Job>,
    shared: &Shared,
) -> Outcome {
    let resolver = Resolver::new(options);
    resolver.set_background(true);
    let mut sinks: Box<dyn Sinks> = Box::new(TraceFiles::default());
    let mut traces: HashMap<ProcessKey, ProcessTrace> = HashMap::new();
    let mut cpu_windows: HashMap<ProcessKey, CpuWindows> = HashMap::new();
    let mut host = HostCounters::default();
    let mut processes = Vec::new();
    let mut last_look = Instant::now();
    loop {
        let job = if traces.values().any(ProcessTrace::is_pending) {
            queue.recv_timeout(FLUSH_AFTER)
        } else if traces.is_empty() {
            queue.recv().map_err(RecvTimeoutError::from)
        } else {
            queue.recv_timeout(LOOK_EVERY)
        };
        if let Ok(Job::Batch(key, batch)) = &job
            && let Some(windows) = cpu_windows.get_mut(key)
        {
            windows.advance(batch);
        }
        let bytes = job.as_ref().map_or(0, Job::bytes);
        let own = job.as_ref().ok().and_then(Job::process);
        let own = own.and_then(|key| cpu_windows.get(&key));
        let mut tools = Tools {
            run: own.map_or(run, CpuWindows::run),
            resolver: &resolver,
            sinks: sinks.as_mut(),
            heartbeat: &shared.heartbeat,
            hurry: &shared.hurry,
        };
        match job {
            Ok(Job::Start(key, identity)) => {
                host.begin(identity.host_pid);
                tools.sinks.announce(&identity, run);
                traces.insert(key, ProcessTrace::new(*identity, run));
                cpu_windows.extend(CpuWindows::new(run).map(|windows| (key, windows)));
            }
            Ok(Job::Batch(key, batch)) => {
                if let Some(trace) = traces.get_mut(&key) {
                    trace.take(batch, &mut tools);
                }
            }
            Ok(Job::Waits(key, records)) => {
                if let Some(trace) = traces.get_mut(&key) {
                    trace.take_waits(&records, &mut tools);
                }
            }
            Ok(Job::Counters(key, readings)) => {
                if let Some(trace) = traces.get_mut(&key) {
                    trace.take_counters(readings, &tools);
                }
            }
            Ok(Job::OffCpuIntervals(key, intervals)) => {
                if let Some(trace) = traces.get_mut(&key) {
                    trace.take_off_cpu(intervals, &tools);
                }
            }
            Ok(Job::LacksSwitches(key, since_ns)) => {
                if let Some(trace) = traces.get_mut(&key) {
                    trace.lacks_switches(since_ns);
                }
            }
            Ok(Job::HostCounters(readings)) => {
                host.hold(readings);
                give_host_counters(&mut host, &mut traces, &tools, false);
            }
            Ok(Job::End(key, end, counts)) => {
                // Those that are not open may stay so: a shell that only waits has no trace.
                let is_last_chance = traces
                    .iter()
                    .all(|(other, trace)| *other == key || !trace.is_open());
                if is_last_chance
                    && host.is_unclaimed()
                    && let Some(trace) = traces.get_mut(&key)
                {
                    trace.open_for_command(end, &mut tools);
                }
                give_host_counters(&mut host, &mut traces, &tools, is_last_chance);
                if let Some(trace) = traces.remove(&key) {
                    processes.push(trace.finish(end, *counts, &mut tools));
                }
                cpu_windows.remove(&key);
            }
            Ok(Job::Foreground) => resolver.set_background(false),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        for trace in traces.values_mut().filter(|trace| trace.is_pending()) {
            trace.flush();
        }
        if last_look.elapsed() >= LOOK_EVERY {
            last_look = Instant::now();
            let now_ns = os::boot_time_ns();
            for trace in traces.values_mut() {
                trace.look_at_threads(now_ns);
            }
        }
    }
    resolver.flush();
    forget_removed(&mut processes);
    Outcome {
        processes,
        resolver: resolver.stats(),
    }
}

/// Somebody may have removed the trace of short processes, which has no other owner who would notice.
fn forget_removed(processes: &mut [ProcessSummary]) {
    let mut short = processes
        .iter()
        .filter_map(|process| process.shared.clone());
    let Some(path) = short.next().filter(|path| is_gone(path)) else {
        return;
    };
    let text = removed(&path);
    say(&format!("error: {text}"));
    for process in processes.iter_mut() {
        if process.shared.take().is_some() {
            process.trouble = Some(text.clone());
        }
    }
}

/// Gives the counters of the host to a trace, as far as it is clear to which.
fn give_host_counters(
    host: &mut HostCounters,
    traces: &mut HashMap<ProcessKey, ProcessTrace>,
    tools: &Tools<'_>,
    is_last_chance: bool,
) {
    let open = traces.iter().filter(|(_, trace)| trace.is_open());
    let open = open.map(|(key, trace)| (*key, trace.identity().host_pid));
    if let Some(owner) = host.owner(open, is_last_chance)
        && let Some(trace) = traces.get_mut(&owner)
    {
        trace.take_counters(host.hand_out(owner), tools);
    }
}
