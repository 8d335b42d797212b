//! Calls about buffers: memory that came by dma-buf, and where GPUs have it mapped.

use std::ffi::{OsStr, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::memory::Range;
use crate::process::Process;
use crate::simulation;

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

/// `drm_amdgpu_gem_metadata`
#[repr(C)]
pub struct Metadata {
    handle: u32,
    operation: u32,
    /// Flags, tiling, length and 256 bytes, which mean something to programs only.
    data: [u8; 280],
}

/// `drm_amdgpu_gem_op`
#[repr(C)]
pub struct Question {
    handle: u32,
    operation: u32,
    answer: u64,
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

/// What a program notes with a buffer, for all processes that have it.
pub fn metadata(process: &Process, gpu: usize, metadata: &mut Metadata) -> Outcome {
    const SET: u32 = 1;
    const GET: u32 = 2;
    let range = known(process, gpu, metadata.handle)?;
    let place = notes(range).ok_or(libc::ENODEV)?;
    match metadata.operation {
        SET => {
            let noted = place.parent().map_or(Ok(()), fs::create_dir_all);
            noted
                .and_then(|()| fs::write(place, metadata.data))
                .map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
        }
        GET => {
            let noted = fs::read(place).unwrap_or_default();
            metadata.data.fill(0);
            if let Some(data) = metadata.data.get_mut(..noted.len()) {
                data.copy_from_slice(&noted);
            }
            Ok(())
        }
        _ => Err(libc::EINVAL),
    }
}

/// A buffer's size, and where it is.
///
/// # Safety
/// The structure must name a place for four words.
pub unsafe fn describe(process: &Process, gpu: usize, question: &Question) -> Outcome {
    const CREATION: u32 = 0;
    const ALIGNMENT: u64 = 4096;
    const IN_DEVICE_MEMORY: u64 = 4;
    if question.operation != CREATION {
        return Err(libc::EINVAL);
    }
    let range = known(process, gpu, question.handle)?;
    let answer: *mut [u64; 4] = std::ptr::with_exposed_provenance_mut(question.answer as usize);
    // SAFETY: the caller says so.
    unsafe { answer.write_unaligned([range.size, ALIGNMENT, IN_DEVICE_MEMORY, 0]) };
    Ok(())
}

/// The file of what is noted with a range of memory.
fn notes(range: Range) -> Option<PathBuf> {
    let root = Path::new(OsStr::from_bytes(simulation::root()?.to_bytes()));
    let name = format!("{}-{:x}", range.gpu, range.offset);
    Some(root.join("buffers").join(name))
}

fn known(process: &Process, gpu: usize, handle: u32) -> Result<Range, c_int> {
    process.memory.buffer(gpu, handle).ok_or(libc::ENOENT)
}
