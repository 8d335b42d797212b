//! The memory of the GPUs, and where the engine finds it.
//!
//! Device memory is a shared file per GPU; an allocation is a range of it that is never given out twice. The runtime
//! maps such ranges itself, at the addresses that the GPU uses too. The engine needs mappings of its own, because the
//! runtime may map device memory without access, and because registered host memory has another address on the GPU.

mod buffers;
mod view;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::account::Account;
use crate::board::GpuBoard;
use crate::simulation::Simulation;
use crate::sys;

pub use buffers::Range;
pub use view::{Place, Unmapped, View};

/// Allocations start at multiples of this in the memory file: huge pages.
const ALIGNMENT: u64 = 2 << 20;

/// What backs an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// The GPU's own memory.
    Device,
    /// Host memory that the driver gives out.
    Host,
    /// Memory of the process at this address.
    User(u64),
    /// Doorbells or registers: never accessed by the engine.
    Registers,
    /// Device memory of another process.
    Imported {
        /// Where in the memory file.
        offset: u64,
    },
}

/// One allocation.
#[derive(Debug)]
pub struct Allocation {
    /// The GPU that it was made on.
    pub gpu: usize,
    /// The address on the GPU.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// What backs it.
    pub backing: Backing,
    /// Where in the GPU's memory file, for [`Backing::Device`], [`Backing::Host`] and imports.
    pub offset: u64,
    /// The kernel driver's flags.
    pub flags: u32,
    mapping: Arc<Mapping>,
}

/// Memory that the engine can access.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    /// Zero: not ours to unmap.
    owned_bytes: usize,
}

// SAFETY: a mapping is an address; who accesses the memory behind it is up to the program and its packets.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.owned_bytes > 0 {
            // SAFETY: the last one who knew it is gone.
            unsafe { sys::unmap(self.start, self.owned_bytes) };
        }
    }
}

/// On whose behalf memory is allocated and freed.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The machine.
    pub simulation: &'static Simulation,
    /// Whether device memory is taken from the machine and given back to it.
    pub counts: bool,
    /// The account of the process; none: there are too many processes, or it ends.
    pub account: Option<&'a Account>,
}

/// All allocations of the process.
#[derive(Debug, Default)]
pub struct Memory {
    table: Mutex<Table>,
    /// Taken before the table.
    buffers: Mutex<buffers::Buffers>,
    /// Changes with every allocation and every free.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    last_handle: u64,
    by_handle: BTreeMap<u64, Allocation>,
    /// What must stay although it may have been freed.
    kept: BTreeMap<u64, buffers::Kept>,
    /// First address → handle.
    by_address: BTreeMap<u64, u64>,
}

impl Memory {
    /// Allocates; returns handle and offset in the memory file, or an error number.
    ///
    /// # Errors
    /// ENOMEM when the GPU's memory is full or nothing can be mapped.
    pub fn allocate(
        &self,
        owner: Owner<'_>,
        gpu: usize,
        (address, size): (u64, u64),
        backing: Backing,
        flags: u32,
    ) -> Result<(u64, u64), i32> {
        let simulation = owner.simulation;
        let board = &simulation.board.gpus[gpu];
        let vram_bytes = simulation.machine.gpus[gpu].vram_bytes;
        let counts = backing == Backing::Device && owner.counts;
        if counts && !reserve(board, size, vram_bytes) {
            return Err(libc::ENOMEM);
        }
        let offset = match backing {
            Backing::Device | Backing::Host => board
                .next_offset
                .fetch_add(size.next_multiple_of(ALIGNMENT), Ordering::Relaxed),
            Backing::Imported { offset } => offset,
            Backing::User(_) | Backing::Registers => 0,
        };
        let mapping = map(simulation, gpu, backing, offset, size).ok_or_else(|| {
            if counts {
                board.used_bytes.fetch_sub(size, Ordering::Relaxed);
            }
            libc::ENOMEM
        })?;
        let mut table = self.table();
        table.last_handle += 1;
        let handle = table.last_handle;
        let allocation = Allocation {
            gpu,
            address,
            size,
            backing,
            offset,
            flags,
            mapping: Arc::new(mapping),
        };
        // Memory may be made without an address, to be mapped later.
        if backing != Backing::Registers && address != 0 {
            table.by_address.insert(address, handle);
        }
        table.by_handle.insert(handle, allocation);
        if let Some(account) = owner.account.filter(|_| counts) {
            account.take(gpu, size);
        }
        self.generation.fetch_add(1, Ordering::Release);
        Ok((handle, offset))
    }

    /// Frees; returns whether the handle was known.
    pub fn free(&self, owner: Owner<'_>, handle: u64) -> bool {
        let mut table = self.table();
        let Some(allocation) = table.by_handle.remove(&handle) else {
            return false;
        };
        if table.by_address.get(&allocation.address) == Some(&handle) {
            table.by_address.remove(&allocation.address);
        }
        self.generation.fetch_add(1, Ordering::Release);
        if let Some(kept) = table.kept.get_mut(&handle) {
            kept.take(allocation);
            return true;
        }
        drop(table);
        allocation.give_back(owner);
        true
    }

    /// Looks at an allocation.
    pub fn with<T>(&self, handle: u64, look: impl FnOnce(&Allocation) -> T) -> Option<T> {
        self.table().by_handle.get(&handle).map(look)
    }

    /// Gives everything back to the machine. The process keeps its mappings: its exit handlers may still run.
    pub fn release_all(&self, simulation: &Simulation) {
        // Whoever holds the lock now will never give it back.
        let Ok(table) = self.table.try_lock() else {
            return;
        };
        let freed = table.kept.values().filter_map(buffers::Kept::allocation);
        for allocation in table.by_handle.values().chain(freed) {
            if allocation.backing == Backing::Device {
                simulation.board.gpus[allocation.gpu]
                    .used_bytes
                    .fetch_sub(allocation.size, Ordering::Relaxed);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allocation {
    /// Gives its memory back to the machine and to the system.
    fn give_back(&self, owner: Owner<'_>) {
        if self.backing == Backing::Device && owner.counts {
            if let Some(account) = owner.account {
                account.give_back(self.gpu, self.size);
            }
            owner.simulation.board.gpus[self.gpu]
                .used_bytes
                .fetch_sub(self.size, Ordering::Relaxed);
        }
        release(owner.simulation, self);
    }
}

/// Takes bytes of a GPU's memory; returns whether they were there.
fn reserve(board: &GpuBoard, size: u64, vram_bytes: u64) -> bool {
    let take = |used: u64| used.checked_add(size).filter(|used| *used <= vram_bytes);
    board
        .used_bytes
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
}

fn release(simulation: &Simulation, allocation: &Allocation) {
    let machine = &simulation.machine.gpus[allocation.gpu];
    if matches!(allocation.backing, Backing::Device | Backing::Host)
        && let Ok(path) = CString::new(machine.memory.as_os_str().as_bytes())
        && let Ok(fd) = sys::open(&path, libc::O_RDWR | libc::O_CLOEXEC)
    {
        sys::punch(fd, allocation.offset, allocation.size);
        sys::close(fd);
    }
}

fn map(
    simulation: &Simulation,
    gpu: usize,
    backing: Backing,
    offset: u64,
    size: u64,
) -> Option<Mapping> {
    match backing {
        Backing::User(address) => Some(Mapping {
            start: std::ptr::with_exposed_provenance_mut(address as usize),
            owned_bytes: 0,
        }),
        Backing::Registers => Some(Mapping {
            start: std::ptr::null_mut(),
            owned_bytes: 0,
        }),
        Backing::Device | Backing::Host | Backing::Imported { .. } => {
            let path = &simulation.machine.gpus[gpu].memory;
            let path = CString::new(path.as_os_str().as_bytes()).ok()?;
            let fd = sys::open(&path, libc::O_RDWR | libc::O_CLOEXEC).ok()?;
            let mapped = sys::map(fd, offset, size as usize);
            sys::close(fd);
            Some(Mapping {
                start: mapped.ok()?,
                owned_bytes: size as usize,
            })
        }
    }
}
