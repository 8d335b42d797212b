//! Calls about buffers: memory that came by dma-buf, and where GPUs have it mapped.

use std::ffi::c_int;

use crate::memory::Range;
use crate::process::Process;

/// Success, or an error number.
pub type Outcome = Result<(), c_int>;

/// `drm_gem_close`
#[repr(C)]
pub struct Close {
    handle: u32,
    pad: u32,
}

/// `drm_prime_handle`
#[repr(C)]
pub struct Prime {
    handle: u32,
    flags: u32,
    fd: i32,
}

/// `drm_amdgpu_gem_mmap`: a handle goes in, an offset comes out.
#[repr(C)]
pub union Map {
    handle: u32,
    offset: u64,
}

/// `drm_amdgpu_gem_va`
#[repr(C)]
pub struct Address {
    handle: u32,
    pad: u32,
    operation: u32,
    flags: u32,
    address: u64,
    offset: u64,
    size: u64,
}

/// The end of a buffer.
pub fn close(process: &Process, gpu: usize, close: &Close) -> Outcome {
    let closed = process
        .memory
        .close_buffer(process.owner(), gpu, close.handle);
    closed.then_some(()).ok_or(libc::EINVAL)
}

/// A buffer of what a dma-buf stands for.
pub fn import(process: &Process, gpu: usize, prime: &mut Prime) -> Outcome {
    let range = Range::of_descriptor(prime.fd).ok_or(libc::EINVAL)?;
    prime.handle = process.memory.open_buffer(gpu, range);
    Ok(())
}

/// A dma-buf of a buffer.
pub fn export(process: &Process, gpu: usize, prime: &mut Prime) -> Outcome {
    let range = known(process, gpu, prime.handle)?;
    prime.fd = range.export(prime.flags.cast_signed())?;
    Ok(())
}

/// Where in the render node's file a buffer is, for the host.
pub fn map(process: &Process, gpu: usize, map: &mut Map) -> Outcome {
    // SAFETY: the call takes a handle.
    let range = known(process, gpu, unsafe { map.handle })?;
    // A render node's file is the memory of its GPU.
    if range.gpu != gpu as u64 {
        return Err(libc::EPERM);
    }
    map.offset = range.offset;
    Ok(())
}

/// Maps a buffer for this GPU, or ends that.
pub fn address(process: &Process, gpu: usize, address: &Address) -> Outcome {
    const MAP: u32 = 1;
    const UNMAP: u32 = 2;
    match address.operation {
        MAP => {
            let range = known(process, gpu, address.handle)?;
            let place = (address.address, address.size);
            let owner = process.owner();
            process
                .memory
                .map_buffer(owner, range, address.offset, place)
        }
        UNMAP => {
            let owner = process.owner();
            let ended = process.memory.unmap_buffer(owner, address.address);
            ended.then_some(()).ok_or(libc::EINVAL)
        }
        _ => Err(libc::EINVAL),
    }
}

fn known(process: &Process, gpu: usize, handle: u32) -> Result<Range, c_int> {
    process.memory.buffer(gpu, handle).ok_or(libc::ENOENT)
}
