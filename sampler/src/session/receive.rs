//! The thread that takes datagrams as soon as they come: the kernel queues ten, and agents do not
//! wait long.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{geteuid, getuid};
use rsys_wire::handshake::{Hello, HelloKind};
use rsys_wire::program::Obstacle;

use super::left_out::LeftOut;
use super::segment::MappedSegment;
use super::socket::{Datagram, SessionSocket};
use crate::os;
use crate::procfs;

/// How the end of a process is learnt.
#[derive(Debug)]
pub enum ExitWatch {
    /// This descriptor becomes readable.
    Watched(OwnedFd),
    /// There is no such descriptor: a kernel before 5.3, or a filter of system calls. We look for a process of this id and start ([`procfs::has_ended`]).
    LookedFor(u32, u64),
    /// It ended before we could watch it.
    Exited,
    /// We cannot watch it: it is outside of our pid namespace, or there are no descriptors left.
    Unwatched,
}

/// A segment that an agent announced.
#[derive(Debug)]
pub struct Arrival {
    /// What it said.
    pub hello: Hello,
    /// The kind, checked.
    pub kind: HelloKind,
    /// The sender's process id in our pid namespace, 0 when it has none there.
    pub pid: u32,
    /// Its memory.
    pub segment: MappedSegment,
    /// Its exit_watch.
    pub exit_watch: ExitWatch,
    /// Its root directory as we see it, if it is not ours: read at once, for it may end before anybody takes this.
    pub root: Option<PathBuf>,
    /// The folder that it is in, for the same reason.
    pub folder: Option<PathBuf>,
}

/// A process that cannot be sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its id, as it sees itself.
    pub pid: u32,
    /// Its name, if it could still be asked.
    pub name: String,
    /// Why it got no segment. It asked for none with EBUSY, because a debugger or Valgrind runs it,
    /// and with ENOEXEC, because its own runtime makes its system calls.
    pub errno: Errno,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { pid, name, errno } = self;
        write!(f, "pid {pid} ({name}) is not sampled: ")?;
        match errno {
            Errno::EFBIG => write!(
                f,
                "its limit on the size of files (ulimit -f) leaves no room for shared memory"
            ),
            Errno::ENOMEM => write!(f, "it can have no more memory (see ulimit -v)"),
            Errno::EMFILE | Errno::ENFILE => {
                write!(f, "it can open no more files (see ulimit -n)")
            }
            Errno::EBUSY => write!(
                f,
                "a debugger or Valgrind runs it, which would stumble over every sample"
            ),
            Errno::ENOEXEC => write!(
                f,
                "it needs no C library, and would end at the first sample (Go without cgo is built so: CGO_ENABLED=1 and an import of \"C\" \
                 make it one that can be sampled)"
            ),
            errno => write!(f, "no shared memory: {errno}"),
        }
    }
}

/// What is waiting to be taken.
#[derive(Debug)]
enum News {
    Arrival(Arrival),
    Failure(Failure),
    /// A name, and periods of CPU time.
    Short(Vec<u8>, u32),
    LeftOut(Obstacle, Vec<u8>),
    /// See [`Receiver::settle`].
    Mark(u64),
}

/// At most this many "cannot be sampled" failures are kept for the closing report.
const FAILURES_MAX: usize = 20;

/// A patient owner is woken when this many arrivals wait: each holds a descriptor and a mapping, also when its process is gone.
const ARRIVALS_WAITING_MAX: usize = 32;

/// Names of programs that are kept; further ones have none.
const NAMES_MAX: usize = 1024;

/// Processes that ended before they began to record, by the names of their programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unstarted(BTreeMap<String, (u64, u64)>);

impl Unstarted {
    /// Adds one, with its periods of CPU time.
    pub fn add(&mut self, name: &[u8], periods: u32) {
        let mut name = String::from_utf8_lossy(name).into_owned();
        if self.0.len() >= NAMES_MAX && !self.0.contains_key(&name) {
            name.clear();
        }
        let of_name = self.0.entry(name).or_default();
        *of_name = (of_name.0 + 1, of_name.1 + u64::from(periods));
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// Names, how many processes each had, and their periods of CPU time.
    pub fn programs(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let programs = self.0.iter();
        programs.map(|(name, (count, periods))| (name.as_str(), *count, *periods))
    }
}

/// What the thread and its owner share.
#[derive(Debug)]
struct Shared {
    arrivals: Mutex<VecDeque<Arrival>>,
    wakeup: EventFd,
    /// See [`Receiver::set_patient`].
    patient: AtomicBool,
    refused: AtomicU64,
    first_refusal: Mutex<Option<String>>,
    failures: Mutex<Vec<Failure>>,
    short: Mutex<Unstarted>,
    left_out: Mutex<LeftOut>,
    stop: AtomicBool,
    /// The last mark that came; see [`Receiver::settle`].
    mark: Mutex<u64>,
    marked: Condvar,
}

/// First word of a mark: "rsysmark" in ASCII.
const MARK: u64 = u64::from_le_bytes(*b"rsysmark");

/// How long to wait for a mark: the thread may have to wait for a CPU.
const SETTLE_MAX: Duration = Duration::from_secs(2);

/// The running thread.
#[derive(Debug)]
pub struct Receiver {
    socket: Arc<SessionSocket>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Starts to receive.
    ///
    /// # Errors
    /// When the system has no thread or descriptor for us.
    pub fn start(socket: SessionSocket) -> std::io::Result<Self> {
        let socket = Arc::new(socket);
        let shared = Arc::new(Shared {
            arrivals: Mutex::default(),
            wakeup: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            patient: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            first_refusal: Mutex::default(),
            failures: Mutex::default(),
            short: Mutex::default(),
            left_out: Mutex::default(),
            stop: AtomicBool::new(false),
            mark: Mutex::new(0),
            marked: Condvar::new(),
        });
        let (thread_socket, thread_shared) = (Arc::clone(&socket), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("rsys-hello".to_owned())
            .spawn(move || receive_all(&thread_socket, &thread_shared))?;
        Ok(Self {
            socket,
            shared,
            thread: Some(thread),
        })
    }

    /// A patient owner takes what arrived when its time has come: it is woken only when a lot waits.
    pub fn set_patient(&self, patient: bool) {
        self.shared.patient.store(patient, Ordering::Relaxed);
        // What came while it was patient.
        if !patient && !lock(&self.shared.arrivals).is_empty() {
            self.shared.wakeup.write(1).ok();
        }
    }

    /// Becomes readable when something arrived.
    #[must_use]
    pub fn wakeup(&self) -> BorrowedFd<'_> {
        self.shared.wakeup.as_fd()
    }

    /// What arrived since the last call.
    #[must_use]
    pub fn take(&self) -> VecDeque<Arrival> {
        // Cleared first: what comes after sets it again.
        self.shared.wakeup.read().ok();
        std::mem::take(&mut lock(&self.shared.arrivals))
    }

    /// Waits until everything that was sent before this call has arrived.
    ///
    /// A process may announce itself in its last moment. We send a mark behind what waits in the
    /// socket, and wait until it comes out.
    pub fn settle(&self) {
        let mut mark = lock(&self.shared.mark);
        let awaited = *mark + 1;
        let bytes = [MARK.to_le_bytes(), awaited.to_le_bytes()].concat();
        drop(mark);
        if self.socket.send_to_ourselves(&bytes).is_err() {
            return;
        }
        mark = lock(&self.shared.mark);
        let waiting = self
            .shared
            .marked
            .wait_timeout_while(mark, SETTLE_MAX, |mark| *mark < awaited);
        drop(waiting);
    }

    /// The first of the processes that said that they cannot be sampled.
    #[must_use]
    pub fn failures(&self) -> Vec<Failure> {
        lock(&self.shared.failures).clone()
    }

    /// Programs that run without an agent.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        lock(&self.shared.left_out).clone()
    }

    /// The processes that ended before they began to record, with something to record.
    #[must_use]
    pub fn short(&self) -> Unstarted {
        lock(&self.shared.short).clone()
    }

    /// How many datagrams were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Why the first of them was; given out once.
    #[must_use]
    pub fn first_refusal(&self) -> Option<String> {
        lock(&self.shared.first_refusal).take()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.socket.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened.
            thread.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn receive_all(socket: &SessionSocket, shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let outcome = match socket.receive() {
            Ok(_) if shared.stop.load(Ordering::Relaxed) => return,
            Ok(datagram) => news(datagram),
            Err(Errno::EINTR) => continue,
            Err(errno) => {
                // For instance no descriptor left: do not spin while it lasts.
                std::thread::sleep(Duration::from_millis(1));
                Err(format!("a datagram that cannot be received: {errno}"))
            }
        };
        match outcome {
            Ok(News::Mark(mark)) => {
                let mut last = lock(&shared.mark);
                // Anybody may send one; only the next counts.
                *last += u64::from(mark == *last + 1);
                shared.marked.notify_all();
            }
            Ok(News::Failure(failure)) => {
                let mut failures = lock(&shared.failures);
                if failures.len() < FAILURES_MAX {
                    failures.push(failure);
                }
            }
            Ok(News::Short(name, periods)) => lock(&shared.short).add(&name, periods),
            Ok(News::LeftOut(obstacle, path)) => lock(&shared.left_out).add(obstacle, &path),
            Ok(News::Arrival(arrival)) => {
                let mut arrivals = lock(&shared.arrivals);
                arrivals.push_back(arrival);
                let waiting = arrivals.len();
                drop(arrivals);
                // Read after the arrival was queued: `set_patient` checks the queue after its store.
                if waiting >= ARRIVALS_WAITING_MAX || !shared.patient.load(Ordering::Relaxed) {
                    // Full means that it is ringing already.
                    shared.wakeup.write(1).ok();
                }
            }
            Err(reason) => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
                lock(&shared.first_refusal).get_or_insert(reason);
            }
        }
    }
}

fn mark_in(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; 16] = bytes.try_into().ok()?;
    let (magic, mark) = bytes.split_at(8);
    (magic == MARK.to_le_bytes()).then(|| u64::from_le_bytes(mark.try_into().unwrap_or_default()))
}

fn news(datagram: Datagram) -> Result<News, String> {
    if let Some(mark) = mark_in(&datagram.bytes) {
        return Ok(News::Mark(mark));
    }
    let (hello, path) = Hello::with_path(&datagram.bytes).map_err(|error| error.to_string())?;
    let kind = hello.kind().map_err(|error| error.to_string())?;
    let sender = datagram.sender.ok_or("a datagram without a sender")?;
    // Abstract names are public: others must not fill our files. A target may have changed its user
    // if it was root.
    if !geteuid().is_root()
        && sender.uid() != getuid().as_raw()
        && sender.uid() != geteuid().as_raw()
    {
        return Err(format!("a datagram of another user ({})", sender.uid()));
    }
    let pid = u32::try_from(sender.pid()).unwrap_or(0);
    if kind == HelloKind::Failed {
        let name = procfs::text(format!("/proc/{pid}/comm")).unwrap_or_default();
        return Ok(News::Failure(Failure {
            pid: hello.pid,
            name: name.trim_end().to_owned(),
            errno: Errno::from_raw(hello.segment.cast_signed()),
        }));
    }
    if kind == HelloKind::Short {
        return Ok(News::Short(path.to_vec(), hello.segment));
    }
    if kind == HelloKind::LeftOut {
        let obstacle = Obstacle::from_number(hello.segment).ok_or("an unknown obstacle")?;
        return Ok(News::LeftOut(obstacle, path.to_vec()));
    }
    let exit_watch = match pid {
        0 => ExitWatch::Unwatched,
        _ => match os::pidfd_open(pid) {
            Ok(descriptor) => ExitWatch::Watched(descriptor),
            Err(Errno::ESRCH) => ExitWatch::Exited,
            Err(_) => match procfs::start_ticks(pid) {
                Ok(start) => ExitWatch::LookedFor(pid, start),
                Err(error) if procfs::is_of_ended(&error) => ExitWatch::Exited,
                Err(_) => ExitWatch::Unwatched,
            },
        },
    };
    let segment =
        MappedSegment::map(datagram.descriptors, &hello).map_err(|error| error.to_string())?;
    let is_process = kind == HelloKind::Process;
    let root = is_process.then(|| procfs::foreign_root(pid)).flatten();
    let folder = || std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let folder = is_process.then(folder).flatten();
    Ok(News::Arrival(Arrival {
        hello,
        kind,
        pid,
        segment,
        exit_watch,
        root,
        folder,
    }))
}
