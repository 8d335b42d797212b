//! Memory that is shared with the sampler: made, mapped, announced.

use std::ffi::c_int;

use rsys_wire::handshake::{HelloKind, LEAST_RING_WORDS};
use rsys_wire::layout::{Geometry, Segment};

use crate::channel::announce;
use crate::state;
use crate::sys;

/// A segment that is mapped.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    /// The view of it.
    pub segment: Segment,
    /// Where it is mapped; only a fork child that has forgotten it may unmap it.
    pub base: *mut u8,
}

/// Makes a segment with the rings asked for, or as many as a limit on the size of files leaves, lets `furnish` make what belongs to it, and
/// announces it. If that fails, `discard` gets what `furnish` made, and nothing of it all is left.
///
/// # Errors
/// The kernel's error number, or that of `furnish`.
pub fn make<T>(
    kind: HelloKind,
    number: u32,
    rings: u32,
    words: u32,
    info: &[u8],
    furnish: impl FnOnce(Made) -> Result<T, i32>,
    discard: impl FnOnce(T),
) -> Result<T, i32> {
    let (geometry, fd) = make_memory(rings, words)?;
    let announced = map(number, geometry, fd, info, |made| {
        let furnished = furnish(made)?;
        match announce::announce(kind, number, geometry, fd) {
            Ok(()) => Ok(furnished),
            Err(error) => {
                discard(furnished);
                Err(error)
            }
        }
    });
    sys::close(fd);
    announced
}

fn map<T>(
    number: u32,
    geometry: Geometry,
    fd: c_int,
    info: &[u8],
    then: impl FnOnce(Made) -> Result<T, i32>,
) -> Result<T, i32> {
    let base = sys::mmap(geometry.bytes(), libc::MAP_SHARED, fd)?;
    // SAFETY: mapped with this size, page-aligned, sealed, and only unmapped by a fork child that has forgotten it.
    let segment = unsafe { Segment::new(base, geometry) };
    // SAFETY: no other thread knows the mapping yet.
    unsafe { segment.initialise(number, state::instance(), info) };
    then(Made { segment, base }).inspect_err(|_| {
        // SAFETY: nothing refers to the mapping.
        unsafe { sys::munmap(base.cast(), geometry.bytes()) };
    })
}

/// Makes the shared memory: as wished or, under a limit on the size of files, as large as may be.
fn make_memory(mut rings: u32, mut words: u32) -> Result<(Geometry, c_int), i32> {
    loop {
        let geometry = Geometry::new(rings, words).ok_or(libc::EINVAL)?;
        match sys::sealed_memfd(geometry.bytes()) {
            Ok(fd) => return Ok((geometry, fd)),
            Err(libc::EFBIG) if words > LEAST_RING_WORDS => words /= 2,
            Err(libc::EFBIG) if rings > 1 => rings /= 2,
            Err(error) => return Err(error),
        }
    }
}
