//! The kernel's records of context switches, from one ring per processor.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use rsys_machine::perf::{Attributes, open_event};

/// Data of a ring. What an unprivileged user may lock is 512 KiB per processor, by default.
const RING_BYTES: usize = 256 << 10;
/// The same on machines with many processors.
const SMALL_RING_BYTES: usize = 64 << 10;
const MANY_PROCESSORS: usize = 64;

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
    lost: u64,
}

impl OffCpu {
    /// Opens the events on the calling thread: its children from now on inherit them.
    ///
    /// # Errors
    /// What the kernel says; of the first processor when it is the same for all.
    pub fn open() -> io::Result<Self> {
        let processors = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .max(configured_processors());
        let bytes = if processors > MANY_PROCESSORS {
            SMALL_RING_BYTES
        } else {
            RING_BYTES
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
        Ok(Self { rings, lost: 0 })
    }

    /// Moves all records to the end of `out`.
    pub fn drain(&mut self, out: &mut Vec<Switch>) {
        for ring in &mut self.rings {
            self.lost += ring.drain(out);
        }
    }

    /// Records that the kernel had no room for.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn configured_processors() -> usize {
    let count = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_CONF);
    count
        .ok()
        .flatten()
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(1)
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
        let event = open_event(&attributes, Some(processor))
            .map_err(|errno: Errno| io::Error::from_raw_os_error(errno as i32))?;
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

    /// Takes what is there. Returns how many records were lost.
    fn drain(&mut self, out: &mut Vec<Switch>) -> u64 {
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
        parse(&self.scratch, out)
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
