//! The bytes of a segment.
//!
//! ```text
//! 0        SegmentHeader          identity, geometry, process-wide counters
//! 4096     process information    tagged strings, written before the hand-shake
//! 16384    RingHeader × n
//! page     ring words × n
//! ```

use crate::VERSION;
use crate::handshake::{Hello, MAGIC};
use crate::ring::RingHeader;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Offset of the process information.
pub const INFO_OFFSET: usize = 4096;
/// Size of the process information.
pub const INFO_BYTES: usize = 12 * 1024;
const RINGS_OFFSET: usize = INFO_OFFSET + INFO_BYTES;
const PAGE: usize = 4096;

/// The most rings that one segment may have.
pub const MAX_RINGS: u32 = 4096;
/// The largest ring, in words.
pub const MAX_RING_WORDS: u32 = 1 << 24;

/// Process-wide counters, by their place in [`SegmentHeader::counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Threads that got a ring and a clock.
    ThreadsSampled = 0,
    /// Threads for which no ring could be had.
    ThreadsWithoutRing = 1,
    /// Threads for which no timer could be made.
    ThreadsWithoutTimer = 2,
    /// Threads found by the sampler and adopted at its request.
    ThreadsAdopted = 3,
    /// Faults in guarded reads that were mended.
    MendedFaults = 4,
    /// Threads for which perf was asked and could not be had.
    ThreadsWithoutPerf = 5,
    /// Value of `errno` of the last failure above.
    LastError = 6,
    /// 1 after the process installed a seccomp filter: nothing new is set up from then on.
    Seccomp = 7,
    /// 1 after the agent went to sleep for good (it has no session, or does not follow this process).
    Dormant = 8,
    /// Samples that the process-wide handler could not attribute to a thread.
    Unattributed = 9,
    /// CPU time of the process in nanoseconds, since the agent began, at its end; 0 when its end was not seen.
    CpuTime = 10,
    /// GPU operations that an interception saw.
    GpuSeen = 11,
    /// Those of them that became events.
    GpuRecorded = 12,
    /// Those that did not: the process ended before they did.
    GpuLostAtEnd = 13,
    /// They are no kernels.
    GpuNotKernel = 14,
    /// They came in a batch for which there was no memory.
    GpuBatch = 15,
    /// Their queue is unknown.
    GpuNoQueue = 16,
    /// No signal was left to learn their times with.
    GpuPool = 17,
    /// The runtime gave no times for them.
    GpuTimeFailed = 18,
    /// The runtime gave impossible times.
    GpuTimeInvalid = 19,
    /// Operations whose times were impossible and were moved.
    GpuClamped = 20,
    /// Calls of a runtime that were seen.
    Calls = 21,
    /// Pops of roctx ranges on threads that had none open.
    UnmatchedPops = 22,
    /// Periods of CPU time that were not sampled because the program had paused the profiler.
    Paused = 23,
    /// Threads whose events could not be counted.
    ThreadsWithoutCounters = 24,
    /// Samples that were not taken, because the sampler wanted none at that time.
    NotWanted = 25,
    /// Events of threads for which no ring could be had.
    EventsWithoutRing = 26,
    /// How often threads had the program handle their system calls, and were not sampled meanwhile.
    ThreadsDispatched = 27,
    /// 1 after the process has set up a GPU runtime while nothing of it was asked for.
    GpuNotAskedFor = 28,
    /// Threads that asked their parent to trace them, and were not sampled from then on.
    ThreadsTraced = 29,
}

/// How many process-wide counters there is room for.
pub const COUNTERS: usize = 64;

/// In [`SegmentHeader::sampler`]: the rings have no reader any more. `FUTEX_OWNER_DIED` of linux/futex.h.
pub const SAMPLER_GONE: u32 = 0x4000_0000;

/// The head of a segment.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct SegmentHeader {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Number of this segment in its process.
    pub segment: u32,
    /// As in [`Hello::instance`].
    pub instance: u64,
    /// Number of rings.
    pub ring_count: u32,
    /// Words per ring.
    pub ring_words: u32,
    /// Bytes of process information that are valid.
    pub info_bytes: AtomicU32,
    /// Not 0 while the sampler sends a signal to a thread of the process, having seen that the process executes no program. Written by the sampler;
    /// only that of segment 0 counts.
    pub asking: AtomicU32,
    /// CLOCK_BOOTTIME in nanoseconds before which the sampler wants no samples. Written by the sampler; only that of segment 0 counts.
    pub quiet_until_ns: AtomicU64,
    /// Changes while the sampler works on what it took from the rings, however long that takes: a thread that waits for room may wait on. Written
    /// by the sampler; only that of segment 0 counts.
    pub work: AtomicU64,
    /// Thread id of the sampler, a robust futex: the kernel sets [`SAMPLER_GONE`] when the sampler ends, however that comes about. 0 before the
    /// sampler has mapped the segment. Only that of segment 0 counts.
    pub sampler: AtomicU32,
    /// The entry of [`SegmentHeader::sampler`] in the sampler's robust list: an address of the sampler's.
    pub robust_next: AtomicU64,
    /// CLOCK_BOOTTIME in nanoseconds at which the process last began to execute a program, or 0. From then on the sampler sends no signal: it would
    /// end the new program. Only that of segment 0 counts.
    pub executing_ns: AtomicU64,
    /// Process-wide counters, by [`Counter`]. Only those of segment 0 are used.
    pub counters: [AtomicU64; COUNTERS],
}

impl SegmentHeader {
    /// Adds to a process-wide counter.
    ///
    /// # Signal safety
    /// One relaxed atomic addition.
    pub fn count(&self, counter: Counter, by: u64) {
        if let Some(cell) = self.counters.get(counter as usize) {
            cell.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Sets a process-wide counter.
    ///
    /// # Signal safety
    /// One relaxed store.
    pub fn set(&self, counter: Counter, value: u64) {
        if let Some(cell) = self.counters.get(counter as usize) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Reads a process-wide counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters
            .get(counter as usize)
            .map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
}

/// Shape of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    ring_count: u32,
    ring_words: u32,
}

impl Geometry {
    /// Checks the numbers.
    ///
    /// Returns `None` when there are no rings, too many, or when a ring's size is out of range or
    /// no power of two.
    #[must_use]
    pub fn new(ring_count: u32, ring_words: u32) -> Option<Geometry> {
        let sane = (1..=MAX_RINGS).contains(&ring_count)
            && ring_words.is_power_of_two()
            && (64..=MAX_RING_WORDS).contains(&ring_words);
        sane.then_some(Geometry {
            ring_count,
            ring_words,
        })
    }

    /// The geometry that a datagram announces, if it is consistent.
    #[must_use]
    pub fn of_hello(hello: &Hello) -> Option<Geometry> {
        Geometry::new(hello.ring_count, hello.ring_words)
            .filter(|geometry| geometry.bytes() as u64 == hello.segment_bytes)
    }

    /// Number of rings.
    #[must_use]
    pub fn ring_count(&self) -> u32 {
        self.ring_count
    }

    /// Words per ring.
    #[must_use]
    pub fn ring_words(&self) -> u32 {
        self.ring_words
    }

    const fn data_offset(&self) -> usize {
        (RINGS_OFFSET + self.ring_count as usize * size_of::<RingHeader>()).next_multiple_of(PAGE)
    }

    /// Size of the whole segment in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.data_offset() + self.ring_count as usize * self.ring_words as usize * 8
    }
}

/// A mapped segment.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    base: *const u8,
    geometry: Geometry,
}

// SAFETY: everything reached through a segment is atomic or read only; `new`'s caller vouches for
// the mapping's life.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A view of mapped memory.
    ///
    /// # Safety
    /// `base` must be the page-aligned start of a readable and writable shared mapping of at least
    /// `geometry.bytes()` bytes which outlives every reference that is taken from the view, and the
    /// object behind it must not be able to shrink (it is sealed).
    #[must_use]
    pub unsafe fn new(base: *const u8, geometry: Geometry) -> Segment {
        Segment { base, geometry }
    }

    /// The shape.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &SegmentHeader {
        // SAFETY: the mapping is page-aligned and larger than the header (`new`); the plain fields
        // are written once, before the hand-shake.
        unsafe { &*self.base.cast::<SegmentHeader>() }
    }

    /// The header of ring `index`, if there is one.
    #[must_use]
    pub fn ring_header(&self, index: u32) -> Option<&RingHeader> {
        if index >= self.geometry.ring_count {
            return None;
        }
        let offset = RINGS_OFFSET + index as usize * size_of::<RingHeader>();
        // SAFETY: in bounds by the check above, and aligned since 16384 and 192 are multiples of 64.
        Some(unsafe { &*self.base.add(offset).cast::<RingHeader>() })
    }

    /// The words of ring `index`, if there is one.
    #[must_use]
    pub fn ring_words(&self, index: u32) -> Option<&[AtomicU64]> {
        if index >= self.geometry.ring_count {
            return None;
        }
        let words = self.geometry.ring_words as usize;
        let offset = self.geometry.data_offset() + index as usize * words * 8;
        // SAFETY: in bounds by the check above and `Geometry::bytes`; page-aligned; atomics only.
        Some(unsafe {
            std::slice::from_raw_parts(self.base.add(offset).cast::<AtomicU64>(), words)
        })
    }

    /// Writes the header and the process information into a fresh mapping.
    ///
    /// # Safety
    /// No other thread may read the mapping yet.
    pub unsafe fn initialise(&self, segment: u32, instance: u64, info: &[u8]) {
        let header = self.base.cast_mut().cast::<SegmentHeader>();
        let info_bytes = info.len().min(INFO_BYTES);
        // SAFETY: the mapping is writable and exclusively ours for now; offsets are within it.
        unsafe {
            (*header).magic = MAGIC;
            (*header).version = VERSION;
            (*header).segment = segment;
            (*header).instance = instance;
            (*header).ring_count = self.geometry.ring_count;
            (*header).ring_words = self.geometry.ring_words;
            std::ptr::copy_nonoverlapping(
                info.as_ptr(),
                self.base.cast_mut().add(INFO_OFFSET),
                info_bytes,
            );
            (*header)
                .info_bytes
                .store(info_bytes as u32, Ordering::Release);
        }
    }

    /// Copies the process information out.
    #[must_use]
    pub fn info(&self) -> Vec<u8> {
        let bytes = (self.header().info_bytes.load(Ordering::Acquire) as usize).min(INFO_BYTES);
        (0..bytes.div_ceil(8))
            .flat_map(|word| {
                // SAFETY: within the information area, which is a multiple of eight bytes; atomic,
                // so that a hostile writer cannot race a plain read.
                let cell = unsafe { &*self.base.add(INFO_OFFSET + word * 8).cast::<AtomicU64>() };
                cell.load(Ordering::Relaxed).to_le_bytes()
            })
            .take(bytes)
            .collect()
    }
}

/// What [`InfoTag::Clock`] says where samples come by CPU timers only.
pub const CPU_TIMER: &str = "CPU timer";

/// What it says where few signals may be pending, and timers are left to the program.
pub const FEW_SIGNALS: &str =
    "perf cpu-clock (user mode) without a timer, for few signals may be pending";

/// The same where the user wants timers.
pub const FEW_SIGNALS_TIMER: &str = "CPU timer, though few signals may be pending";

/// Tags of the process information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum InfoTag {
    /// Path of the executable.
    Executable = 1,
    /// The arguments, separated by NUL.
    CommandLine = 2,
    /// One `NAME=value` of the environment that names a rank or a job.
    Environment = 3,
    /// The parent's process id, decimal.
    ParentPid = 4,
    /// CLOCK_BOOTTIME in nanoseconds when the agent started in this program, decimal.
    StartTime = 5,
    /// Which clock the samples follow, in words: [`CPU_TIMER`] if no other.
    Clock = 6,
    /// Instance of the process that forked this one, decimal.
    ParentInstance = 7,
    /// Something the user should know, in words.
    Note = 8,
    /// Length of the kernel's tick in nanoseconds, decimal.
    TickNs = 9,
}

/// Appends one entry to process information in a fixed buffer; too long a value is cut.
///
/// Returns the new length.
#[inline]
pub fn push_info(
    buffer: &mut [u8; INFO_BYTES],
    length: usize,
    tag: InfoTag,
    value: &[u8],
) -> usize {
    let rest = buffer.get_mut(length..).unwrap_or(&mut []);
    let Some((head, room)) = rest.split_first_chunk_mut::<8>() else {
        return length;
    };
    let copied = value.len().min(room.len());
    // Nothing here may panic: it runs in a signal handler, once.
    *head = (tag as u64 | (copied as u64) << 32).to_le_bytes();
    for (to, from) in room.iter_mut().zip(value) {
        *to = *from;
    }
    length + 8 + copied
}

/// Reads process information: pairs of tag and value. Stops at the first entry that does not fit.
pub fn info_entries(info: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = info;
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_at_checked(8)?;
        let tag = u32::from_le_bytes(head[..4].try_into().ok()?);
        let length = u32::from_le_bytes(head[4..].try_into().ok()?);
        let (value, tail) = tail.split_at_checked(length as usize)?;
        rest = tail;
        Some((tag, value))
    })
}
