//! The kernel's records of context switches, from one ring per processor, or from one per thread.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use rsys_machine::perf::{Attributes, open_event, open_event_of};

use crate::os;
use crate::procfs;

/// Data of a ring. What an unprivileged user may lock is 512 KiB per processor, by default.
const RING_BYTES: usize = 256 << 10;
/// The same of records that are taken by default, on machines of more than a few processors: memory is left for other profilers of the same user.
const SMALL_RING_BYTES: usize = 64 << 10;
const FEW_PROCESSORS: usize = 16;

/// Data of the ring of a thread: some 680 records.
const THREAD_RING_BYTES: usize = 16 << 10;
/// Maximum of threads that have rings. Each takes a descriptor, of which others need three quarters.
const THREADS_MAX: u64 = 768;

/// Offsets in `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const PAGE: usize = 4096;

/// Kinds of records.
const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
/// Bits of their `misc`.
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// A thread left a processor, or came to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Its process, as we see it.
    pub pid: u32,
    /// The thread, as we see it.
    pub tid: u32,
    /// CLOCK_BOOTTIME.
    pub time_ns: u64,
    /// What happened.
    pub change: Change,
}

/// What happened at a context switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It came to the processor.
    On,
    /// It went to wait.
    Blocked,
    /// Another one was put in its place.
    Preempted,
}

/// The rings of all processors.
#[derive(Debug)]
pub struct OffCpu {
    rings: Vec<Ring>,
    ring_bytes: usize,
    lost: u64,
}

impl OffCpu {
    /// Opens the events on the calling thread: its children from now on inherit them. The rings are small where the records are not `wanted`
    /// by the user.
    ///
    /// # Errors
    /// What the kernel says; of the first processor when it is the same for all.
    pub fn open(wanted: bool) -> io::Result<Self> {
        let processors = processors();
        let bytes = match processors {
            few if wanted || few <= FEW_PROCESSORS => RING_BYTES,
            _ => SMALL_RING_BYTES,
        };
        let mut rings = Vec::new();
        for processor in 0..processors {
            let processor = u32::try_from(processor).unwrap_or(u32::MAX);
            match Ring::open(processor, bytes) {
                Ok(ring) => rings.push(ring),
                // It is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            rings,
            ring_bytes: bytes,
            lost: 0,
        })
    }

    /// Moves all records to the end of `out`. Returns how full the fullest ring was: 0 to 1.
    fn drain(&mut self, out: &mut Vec<Switch>) -> f64 {
        let mut fullest = 0;
        for ring in &mut self.rings {
            let (bytes, lost) = ring.drain(out);
            fullest = fullest.max(bytes);
            self.lost += lost;
        }
        fullest as f64 / self.ring_bytes as f64
    }
}

/// The rings of single threads, opened from outside.
#[derive(Debug)]
pub struct OfThreads {
    threads_max: u64,
    rings: Vec<OfThread>,
    /// Records of threads that have ended since, and of those that waited already when they got their ring.
    held: Vec<Switch>,
    lost: u64,
    /// Some threads have no ring.
    is_incomplete: bool,
    is_closed: bool,
}

/// Rings of threads: the poller and the collector open them, whichever finds a thread first.
pub type ThreadRings = Arc<Mutex<OfThreads>>;

/// Locks rings of threads.
pub fn lock(rings: &ThreadRings) -> MutexGuard<'_, OfThreads> {
    rings.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct OfThread {
    pid: u32,
    tid: u32,
    ring: Ring,
}

impl OfThreads {
    /// None yet.
    #[must_use]
    pub fn shared() -> ThreadRings {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        Arc::new(Mutex::new(Self {
            threads_max: THREADS_MAX.min(limit / 4),
            rings: Vec::new(),
            held: Vec::new(),
            lost: 0,
            is_incomplete: false,
            is_closed: false,
        }))
    }

    /// Gives rings to the threads of a process that have none, and takes them from those that have ended.
    pub fn follow(&mut self, pid: u32) {
        // It has ended, where there is nothing.
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        let tasks = tasks.into_iter().flatten().flatten();
        let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        let tids: HashSet<u32> = tids.collect();
        let is_over = |one: &mut OfThread| one.pid == pid && !tids.contains(&one.tid);
        for mut over in self.rings.extract_if(.., is_over) {
            self.lost += over.ring.drain(&mut self.held).1;
        }
        for &tid in &tids {
            self.follow_thread(pid, tid);
        }
    }

    /// Gives a thread a ring, if it has none.
    pub fn follow_thread(&mut self, pid: u32, tid: u32) {
        if self.is_closed || self.rings.iter().any(|one| one.tid == tid) {
            return;
        }
        if self.rings.len() as u64 >= self.threads_max {
            self.is_incomplete = true;
            return;
        }
        match Ring::of_thread(tid) {
            Ok(ring) => self.rings.push(OfThread { pid, tid, ring }),
            // It has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return,
            Err(_) => {
                self.is_incomplete = true;
                return;
            }
        }
        if is_asleep(pid, tid) {
            self.held.push(Switch {
                pid,
                tid,
                time_ns: os::boot_time_ns(),
                change: Change::Blocked,
            });
        }
    }

    /// Closes all rings for good.
    fn close(&mut self) {
        self.rings.clear();
        self.is_closed = true;
    }

    fn drain(&mut self, out: &mut Vec<Switch>) -> f64 {
        out.append(&mut self.held);
        let mut fullest = 0;
        for one in &mut self.rings {
            let (bytes, lost) = one.ring.drain(out);
            fullest = fullest.max(bytes);
            self.lost += lost;
        }
        fullest as f64 / THREAD_RING_BYTES as f64
    }

    /// Closes the rings of a process, and returns what was in them.
    pub fn end(&mut self, pid: u32) -> Vec<Switch> {
        let mut out = Vec::new();
        for mut over in self.rings.extract_if(.., |one| one.pid == pid) {
            self.lost += over.ring.drain(&mut out).1;
        }
        out
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        if let Self::Threads(rings) = self {
            lock(rings).close();
        }
    }
}

/// Whether a thread is neither running nor ready to.
fn is_asleep(pid: u32, tid: u32) -> bool {
    let stat = procfs::text(format!("/proc/{pid}/task/{tid}/stat"));
    let stat = stat.unwrap_or_default();
    // The name may hold anything, brackets too.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    matches!(state, Some(b'S' | b'D'))
}

/// Where records come from.
#[derive(Debug)]
pub enum Rings {
    /// All processors; threads inherit their events.
    Processors(OffCpu),
    /// Single threads.
    Threads(ThreadRings),
}

impl Rings {
    /// Moves all records to the end of `out`. Returns how full the fullest ring was: 0 to 1.
    pub fn drain(&mut self, out: &mut Vec<Switch>) -> f64 {
        match self {
            Self::Processors(rings) => rings.drain(out),
            Self::Threads(rings) => lock(rings).drain(out),
        }
    }

    /// Whether some threads have no records.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        matches!(self, Self::Threads(rings) if lock(rings).is_incomplete)
    }

    /// Records that the kernel had no room for.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match self {
            Self::Processors(rings) => rings.lost,
            Self::Threads(rings) => lock(rings).lost,
        }
    }
}

/// Processors that the machine may have.
#[must_use]
pub fn processors() -> usize {
    let count = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_CONF);
    let configured = count.ok().flatten();
    let configured = configured.and_then(|count| usize::try_from(count).ok());
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    configured.unwrap_or(1).max(usable)
}

/// The ring of one processor.
#[derive(Debug)]
struct Ring {
    mapping: MmapRaw,
    data_bytes: usize,
    scratch: Vec<u8>,
    _event: File,
}

impl Ring {
    fn open(processor: u32, data_bytes: usize) -> io::Result<Self> {
        let attributes = Attributes::context_switches((data_bytes / 2) as u32);
        Self::of(open_event(&attributes, Some(processor)), data_bytes)
    }

    fn of_thread(tid: u32) -> io::Result<Self> {
        let wakeup_bytes = (THREAD_RING_BYTES / 2) as u32;
        let attributes = Attributes::context_switches_of_thread(wakeup_bytes);
        Self::of(open_event_of(&attributes, tid), THREAD_RING_BYTES)
    }

    fn of(event: Result<OwnedFd, Errno>, data_bytes: usize) -> io::Result<Self> {
        let event = event.map_err(|errno: Errno| io::Error::from_raw_os_error(errno as i32))?;
        let file = File::from(event);
        let mapping = MmapOptions::new().len(PAGE + data_bytes).map_raw(&file)?;
        Ok(Self {
            mapping,
            data_bytes,
            scratch: Vec::new(),
            _event: file,
        })
    }

    /// One of the two places in the ring that both sides know.
    fn place(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping holds them, aligned; the kernel and we access them atomically.
        unsafe { &*self.mapping.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Takes what is there. Returns how many bytes that were, and how many records were lost.
    fn drain(&mut self, out: &mut Vec<Switch>) -> (usize, u64) {
        let head = self.place(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.place(DATA_TAIL).load(Ordering::Relaxed);
        let length = (head.wrapping_sub(tail) as usize).min(self.data_bytes);
        let start = tail as usize % self.data_bytes;
        let first = length.min(self.data_bytes - start);
        self.scratch.clear();
        self.scratch.reserve(length);
        for (from, bytes) in [(start, first), (0, length - first)] {
            // SAFETY: within the data, which begins at the second page; the kernel does not write between tail and head, and the
            // vector has room for `length` bytes in all.
            unsafe {
                let source = self.mapping.as_ptr().add(PAGE + from);
                let end = self.scratch.len();
                std::ptr::copy_nonoverlapping(source, self.scratch.as_mut_ptr().add(end), bytes);
                self.scratch.set_len(end + bytes);
            }
        }
        self.place(DATA_TAIL).store(head, Ordering::Release);
        (length, parse(&self.scratch, out))
    }
}

/// Reads records. Returns how many the kernel says that it lost.
fn parse(bytes: &[u8], out: &mut Vec<Switch>) -> u64 {
    let mut lost = 0;
    let mut rest = bytes;
    while let Some((header, _)) = rest.split_at_checked(8) {
        let word = u64::from_le_bytes(header.try_into().unwrap_or_default());
        let (kind, misc, size) = (word as u32, (word >> 32) as u16, (word >> 48) as usize);
        let Some((record, behind)) = rest.split_at_checked(size).filter(|_| size >= 8) else {
            break;
        };
        rest = behind;
        let number = |at: usize| {
            let bytes = record.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        match kind {
            RECORD_SWITCH => {
                let (Some(ids), Some(time_ns)) = (number(8), number(16)) else {
                    continue;
                };
                out.push(Switch {
                    pid: ids as u32,
                    tid: (ids >> 32) as u32,
                    time_ns,
                    change: match misc {
                        misc if misc & SWITCH_OUT == 0 => Change::On,
                        misc if misc & SWITCH_OUT_PREEMPT != 0 => Change::Preempted,
                        _ => Change::Blocked,
                    },
                });
            }
            // After the header: an id, and how many.
            RECORD_LOST => lost += number(16).unwrap_or(0),
            _ => {}
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * words.len() as u64;
        let head = u64::from(kind) | u64::from(misc) << 32 | size << 48;
        let words = [&[head], words].concat();
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_thread_that_is_found_late_has_its_records_from_then_on() {
        if Ring::of_thread(nix::unistd::gettid().as_raw().cast_unsigned()).is_err() {
            eprintln!("skipped: perf events are not permitted");
            return;
        }
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw().cast_unsigned())
                .unwrap();
            wait.recv().unwrap();
            // What the record is about.
            std::thread::sleep(std::time::Duration::from_millis(1));
        });
        let tid = told.recv().unwrap();
        while !is_asleep(std::process::id(), tid) {
            std::thread::yield_now();
        }
        let rings = OfThreads::shared();
        let mut rings = lock(&rings);
        rings.follow(std::process::id());
        let begin_ns = os::boot_time_ns();
        go.send(()).unwrap();
        thread.join().unwrap();
        // The ring of a thread that is gone is read, and closed.
        rings.follow(std::process::id());
        assert!(rings.rings.iter().all(|one| one.tid != tid));
        let mut switches = Vec::new();
        rings.drain(&mut switches);
        let own = switches.iter().filter(|switch| switch.tid == tid);
        let own: Vec<_> = own.map(|switch| (switch.change, switch.time_ns)).collect();
        assert_eq!(own[0].0, Change::Blocked, "asleep when it was found");
        assert!(own[0].1 <= begin_ns, "{own:?}");
        let awake = own.iter().position(|one| one.0 == Change::On).unwrap();
        let slept = own[awake..].iter().any(|one| one.0 == Change::Blocked);
        assert!(own[awake].1 > begin_ns && slept, "{own:?}");
    }

    #[test]
    fn records_of_the_kernel() {
        let ids = 70 | 71 << 32;
        let bytes = [
            record(RECORD_SWITCH, SWITCH_OUT, &[ids, 5]),
            record(RECORD_SWITCH, 0, &[ids, 9]),
            record(RECORD_LOST, 0, &[1, 3, ids, 9]),
            record(33, 0, &[1, 2, 3]),
            record(RECORD_SWITCH, SWITCH_OUT | SWITCH_OUT_PREEMPT, &[ids, 11]),
            record(RECORD_SWITCH, 0, &[ids]),
        ]
        .concat();
        let mut out = Vec::new();
        assert_eq!(parse(&bytes, &mut out), 3);
        let switch = |time_ns, change| Switch {
            pid: 70,
            tid: 71,
            time_ns,
            change,
        };
        let expected = [
            switch(5, Change::Blocked),
            switch(9, Change::On),
            switch(11, Change::Preempted),
        ];
        assert_eq!(out, expected);
        for cut in 0..bytes.len() {
            parse(&bytes[..cut], &mut Vec::new());
        }
        parse(&[0; 64], &mut Vec::new());
    }
}
