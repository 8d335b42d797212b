//! Memory as the graphics driver knows it: dma-bufs, by which drivers and processes pass it on, the buffers that render nodes make of
//! them, and where these are mapped.
//!
//! A dma-buf is a memory file as long as the memory, which begins with a record of what it stands for: so a descriptor may be copied and
//! sent to other processes. Nobody maps it.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use super::{Allocation, Backing, Memory, Owner};
use crate::sys;

/// A part of a GPU's memory file, that any process can find.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    magic: u64,
    /// Index of the GPU.
    pub gpu: u64,
    /// Where in the memory file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The compute driver's flags of the allocation.
    pub flags: u64,
}

const MAGIC: u64 = u64::from_le_bytes(*b"simgpu-b");

/// A buffer of a render node.
#[derive(Debug)]
struct Buffer {
    range: Range,
    /// The allocation of this process that it keeps.
    kept: Option<u64>,
}

/// An address range of GPUs where a buffer is mapped.
#[derive(Debug)]
struct Mapped {
    handle: u64,
    count: u32,
}

/// All buffers of the process.
#[derive(Debug, Default)]
pub struct Buffers {
    last: u32,
    /// Render node and handle → buffer.
    open: BTreeMap<(usize, u32), Buffer>,
    by_address: BTreeMap<u64, Mapped>,
}

/// An allocation that buffers keep.
#[derive(Debug, Default)]
pub struct Kept {
    count: u32,
    /// When the compute driver has freed it.
    allocation: Option<Allocation>,
}

impl Kept {
    /// The allocation was freed; it stays as long as there are buffers.
    pub fn take(&mut self, allocation: Allocation) {
        self.allocation = Some(allocation);
    }

    /// What is only there for the buffers' sake.
    pub fn allocation(&self) -> Option<&Allocation> {
        self.allocation.as_ref()
    }
}

impl Range {
    /// A descriptor of a dma-buf of it.
    ///
    /// # Errors
    /// An error number, when there are no more descriptors.
    pub fn export(&self, flags: i32) -> Result<i32, i32> {
        let error = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::ENOMEM);
        let fd = sys::memory_file(c"simgpu-dmabuf", self.size.max(size_of::<Self>() as u64))
            .map_err(error)?;
        // SAFETY: a structure of plain numbers without holes.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const *self).cast::<u8>(), size_of::<Self>())
        };
        sys::write_at_start(fd, bytes).map_err(|failure| {
            sys::close(fd);
            error(failure)
        })?;
        if flags & libc::O_CLOEXEC == 0 {
            sys::keep_over_exec(fd);
        }
        Ok(fd)
    }

    /// What a dma-buf stands for; none: the descriptor is of something else.
    pub fn of_descriptor(fd: i32) -> Option<Self> {
        let mut range = Self {
            magic: 0,
            gpu: 0,
            offset: 0,
            size: 0,
            flags: 0,
        };
        // SAFETY: as above; any numbers are valid.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut range).cast::<u8>(), size_of::<Self>())
        };
        (sys::read_at_start(fd, bytes) && range.magic == MAGIC).then_some(range)
    }
}

impl Memory {
    /// The memory of an allocation, if other processes may have it.
    pub fn range(&self, handle: u64) -> Option<Range> {
        self.with(handle, Allocation::range).flatten()
    }

    /// A render node's buffer of a range: the same for the same range.
    pub fn open_buffer(&self, node: usize, range: Range) -> u32 {
        let mut buffers = self.buffers();
        let known = buffers
            .open
            .iter()
            .find(|((gpu, _), buffer)| *gpu == node && buffer.range == range);
        if let Some(((_, handle), _)) = known {
            return *handle;
        }
        buffers.last += 1;
        let handle = buffers.last;
        let kept = self.keep(range);
        buffers.open.insert((node, handle), Buffer { range, kept });
        handle
    }

    /// What a render node's buffer is of.
    pub fn buffer(&self, node: usize, handle: u32) -> Option<Range> {
        let buffers = self.buffers();
        buffers.open.get(&(node, handle)).map(|buffer| buffer.range)
    }

    /// The end of a buffer. Returns whether it was known.
    pub fn close_buffer(&self, owner: Owner<'_>, node: usize, handle: u32) -> bool {
        let Some(buffer) = self.buffers().open.remove(&(node, handle)) else {
            return false;
        };
        if let Some(kept) = buffer.kept {
            self.let_go(owner, kept);
        }
        true
    }

    /// Maps a part of a buffer for GPUs. Several GPUs may have the same at the same address.
    ///
    /// # Errors
    /// An error number, when it cannot be mapped.
    pub fn map_buffer(
        &self,
        owner: Owner<'_>,
        range: Range,
        offset: u64,
        (address, size): (u64, u64),
    ) -> Result<(), i32> {
        if offset.checked_add(size).is_none_or(|end| end > range.size) {
            return Err(libc::EINVAL);
        }
        let mut buffers = self.buffers();
        if let Some(mapped) = buffers.by_address.get_mut(&address) {
            mapped.count += 1;
            return Ok(());
        }
        let backing = Backing::Imported {
            offset: range.offset + offset,
        };
        let place = (address, size);
        let (handle, _) = self.allocate(
            owner,
            range.gpu as usize,
            place,
            backing,
            range.flags as u32,
        )?;
        buffers
            .by_address
            .insert(address, Mapped { handle, count: 1 });
        Ok(())
    }

    /// Ends the mapping at this address for one GPU. Returns whether there was one.
    pub fn unmap_buffer(&self, owner: Owner<'_>, address: u64) -> bool {
        let mut buffers = self.buffers();
        let Some(mapped) = buffers.by_address.get_mut(&address) else {
            return false;
        };
        mapped.count -= 1;
        if mapped.count == 0 {
            let handle = mapped.handle;
            buffers.by_address.remove(&address);
            self.free(owner, handle);
        }
        true
    }

    /// Keeps the allocation of this process that a range is of; none: it is another process's.
    fn keep(&self, range: Range) -> Option<u64> {
        let mut table = self.table();
        let is_it = |allocation: &Allocation| {
            !matches!(allocation.backing, Backing::Imported { .. })
                && allocation.range() == Some(range)
        };
        let known = table.by_handle.iter().find(|(_, known)| is_it(known));
        let freed = || {
            let mut freed = table.kept.iter();
            freed.find(|(_, kept)| kept.allocation().is_some_and(is_it))
        };
        let handle = known
            .map(|(handle, _)| *handle)
            .or_else(|| freed().map(|(handle, _)| *handle))?;
        table.kept.entry(handle).or_default().count += 1;
        Some(handle)
    }

    /// A buffer does not need the allocation any more.
    fn let_go(&self, owner: Owner<'_>, handle: u64) {
        let mut table = self.table();
        let Some(kept) = table.kept.get_mut(&handle) else {
            return;
        };
        kept.count -= 1;
        if kept.count > 0 {
            return;
        }
        let freed = table.kept.remove(&handle).and_then(|kept| kept.allocation);
        drop(table);
        if let Some(allocation) = freed {
            allocation.give_back(owner);
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allocation {
    fn range(&self) -> Option<Range> {
        let is_shareable = !matches!(self.backing, Backing::User(_) | Backing::Registers);
        is_shareable.then_some(Range {
            magic: MAGIC,
            gpu: self.gpu as u64,
            offset: self.offset,
            size: self.size,
            flags: self.flags.into(),
        })
    }
}
