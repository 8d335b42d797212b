//! Calls about memory.

use std::sync::atomic::Ordering;

use super::{Answer, gpu_index};
use crate::abi::{
    AllocMemory, AvailableMemory, ExportDmabuf, FreeMemory, GetDmabufInfo, ImportDmabuf, IpcExport,
    IpcImport, MapMemory, flag,
};
use crate::board::MAX_EXPORTS;
use crate::faults;
use crate::memory::{Backing, Range};
use crate::process::{Process, doorbells};

/// Marks handles for other processes as ours.
const SHARE_MAGIC: u32 = 0x5253_5953;

/// Memory, doorbells or registers.
pub fn allocate(process: &Process, arguments: &mut AllocMemory) -> Answer {
    let gpu = gpu_index(process, arguments.gpu_id)?;
    if arguments.size == 0 {
        return Err(libc::EINVAL);
    }
    let flags = arguments.flags;
    let backing = if flags & flag::VRAM != 0 {
        if faults::fails_allocation(process) {
            return Err(libc::ENOMEM);
        }
        Backing::Device
    } else if flags & flag::GTT != 0 {
        Backing::Host
    } else if flags & flag::USERPTR != 0 {
        Backing::User(arguments.mmap_offset)
    } else if flags & (flag::DOORBELL | flag::MMIO_REMAP) != 0 {
        Backing::Registers
    } else {
        return Err(libc::EINVAL);
    };
    let range = (arguments.va_addr, arguments.size);
    let (handle, offset) = process
        .memory
        .allocate(process.owner(), gpu, range, backing, flags)?;
    arguments.handle = handle;
    arguments.mmap_offset = match backing {
        Backing::User(address) => address,
        Backing::Registers if flags & flag::DOORBELL != 0 => doorbells::page_offset(gpu),
        Backing::Registers => doorbells::registers_offset(gpu),
        Backing::Device | Backing::Host | Backing::Imported { .. } => offset,
    };
    Ok(())
}

/// The end of an allocation.
pub fn free(process: &Process, arguments: &FreeMemory) -> Answer {
    if process.memory.free(process.owner(), arguments.handle) {
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

/// Access for GPUs, or its end: every GPU may access everything.
pub fn map(process: &Process, arguments: &mut MapMemory) -> Answer {
    let known = process.memory.with(arguments.handle, |_| ());
    known.ok_or(libc::EINVAL)?;
    arguments.n_success = arguments.n_devices;
    Ok(())
}

/// What is left of a GPU's memory.
pub fn available(process: &Process, arguments: &mut AvailableMemory) -> Answer {
    let gpu = gpu_index(process, arguments.gpu_id)?;
    let used = process.simulation.board.gpus[gpu]
        .used_bytes
        .load(Ordering::Relaxed);
    arguments.available = process.simulation.machine.gpus[gpu]
        .vram_bytes
        .saturating_sub(used);
    Ok(())
}

/// Makes a buffer known to other processes.
pub fn export(process: &Process, arguments: &mut IpcExport) -> Answer {
    let board = process.simulation.board;
    let range = process.memory.range(arguments.handle).ok_or(libc::EINVAL)?;
    let index = board.export_count.fetch_add(1, Ordering::Relaxed) as usize;
    let entry = board.exports.get(index).ok_or(libc::ENOSPC)?;
    entry.offset.store(range.offset, Ordering::Relaxed);
    entry.size.store(range.size, Ordering::Relaxed);
    entry
        .driver_flags
        .store(range.flags as u32, Ordering::Relaxed);
    entry
        .runtime_flags
        .store(arguments.flags, Ordering::Relaxed);
    entry.gpu.store(range.gpu as u32, Ordering::Relaxed);
    entry.ready.store(1, Ordering::Release);
    arguments.share_handle = [SHARE_MAGIC, index as u32, 0, 0];
    Ok(())
}

/// Brings in a buffer of another process.
pub fn import(process: &Process, arguments: &mut IpcImport) -> Answer {
    let [magic, index, ..] = arguments.share_handle;
    let index = index as usize;
    if magic != SHARE_MAGIC || index >= MAX_EXPORTS {
        return Err(libc::EINVAL);
    }
    let entry = &process.simulation.board.exports[index];
    if entry.ready.load(Ordering::Acquire) == 0 {
        return Err(libc::EINVAL);
    }
    let offset = entry.offset.load(Ordering::Relaxed);
    let size = entry.size.load(Ordering::Relaxed);
    let gpu = entry.gpu.load(Ordering::Relaxed) as usize;
    let flags = entry.driver_flags.load(Ordering::Relaxed);
    let backing = Backing::Imported { offset };
    let range = (arguments.va_addr, size);
    let (handle, _) = process
        .memory
        .allocate(process.owner(), gpu, range, backing, flags)?;
    arguments.handle = handle;
    arguments.mmap_offset = offset;
    arguments.flags = entry.runtime_flags.load(Ordering::Relaxed);
    Ok(())
}

/// A dma-buf of an allocation.
pub fn export_dmabuf(process: &Process, arguments: &mut ExportDmabuf) -> Answer {
    let range = process.memory.range(arguments.handle).ok_or(libc::EINVAL)?;
    arguments.dmabuf_fd = range.export(arguments.flags.cast_signed())?;
    Ok(())
}

/// The memory behind a dma-buf, of this process or of another one.
pub fn import_dmabuf(process: &Process, arguments: &mut ImportDmabuf) -> Answer {
    gpu_index(process, arguments.gpu_id)?;
    let range = dmabuf(process, arguments.dmabuf_fd)?;
    let backing = Backing::Imported {
        offset: range.offset,
    };
    let place = (arguments.va_addr, range.size);
    let (handle, _) = process.memory.allocate(
        process.owner(),
        range.gpu as usize,
        place,
        backing,
        range.flags as u32,
    )?;
    arguments.handle = handle;
    Ok(())
}

/// What a dma-buf is of.
pub fn dmabuf_info(process: &Process, arguments: &mut GetDmabufInfo) -> Answer {
    let range = dmabuf(process, arguments.dmabuf_fd)?;
    arguments.size = range.size;
    arguments.metadata_size = 0;
    arguments.gpu_id = process.simulation.machine.gpus[range.gpu as usize].gpu_id;
    arguments.flags = range.flags as u32;
    Ok(())
}

fn dmabuf(process: &Process, fd: i32) -> Result<Range, i32> {
    let range = Range::of_descriptor(fd).ok_or(libc::EINVAL)?;
    let is_known = (range.gpu as usize) < process.simulation.machine.gpus.len();
    is_known.then_some(range).ok_or(libc::EINVAL)
}
