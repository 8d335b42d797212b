//! The file behind `/dev/kfd`: a page of doorbells and a page of registers per GPU.
//!
//! The runtime maps both with the offsets that the driver tells. It splits the offset of a doorbell into page and slot
//! with a 32-bit mask, so pages lie at multiples of 4 GiB.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys;

/// Bytes of a GPU's doorbells.
pub const PAGE_BYTES: u64 = 8192;
/// Doorbells of a GPU; the first one is not used.
const SLOTS: usize = (PAGE_BYTES / 8) as usize;
/// Offset of the first GPU's registers.
const REGISTERS: u64 = 1 << 40;

/// All doorbells of a process.
#[derive(Debug)]
pub struct Doorbells {
    fd: i32,
    identity: (u64, u64),
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    slots: &'static [AtomicU64; SLOTS],
    next: AtomicUsize,
}

impl Doorbells {
    /// For so many GPUs.
    ///
    /// # Errors
    /// When there are no more descriptors or mappings.
    pub fn new(gpus: usize) -> io::Result<Self> {
        let fd = sys::memory_file(c"kfd", 1 << 41)?;
        let map_page = |gpu| {
            let page = sys::map(fd, page_offset(gpu), PAGE_BYTES as usize)?;
            // SAFETY: a mapping of that size, never removed; the other side of a doorbell writes whole words.
            let slots = unsafe { &*page.cast::<[AtomicU64; SLOTS]>() };
            Ok(Page {
                slots,
                next: AtomicUsize::new(1),
            })
        };
        let pages: io::Result<Vec<Page>> = (0..gpus).map(map_page).collect();
        let identity = sys::identity(fd).ok_or_else(io::Error::last_os_error)?;
        Ok(Self {
            fd,
            identity,
            pages: pages?,
        })
    }

    /// The file.
    pub fn fd(&self) -> i32 {
        self.fd
    }

    /// Its device number and inode.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// A free doorbell of this GPU with its first value, and its offset for the runtime; none when all are taken.
    pub fn take(&self, gpu: usize, first_value: u64) -> Option<(&'static AtomicU64, u64)> {
        let page = &self.pages[gpu];
        // Slots are used in turn: a late write to the doorbell of a queue that is gone wakes nobody else for long.
        let slot = page.next.fetch_add(1, Ordering::Relaxed) % (SLOTS - 1) + 1;
        let doorbell = &page.slots[slot];
        doorbell.store(first_value, Ordering::Release);
        Some((doorbell, page_offset(gpu) + 8 * slot as u64))
    }
}

/// Where the doorbells of a GPU are in the file.
pub fn page_offset(gpu: usize) -> u64 {
    (gpu as u64 + 1) << 32
}

/// Where the registers of a GPU are in the file.
pub fn registers_offset(gpu: usize) -> u64 {
    REGISTERS + ((gpu as u64) << 16)
}
