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
/// announces it. If that fails, `discard` gets what `furnish` made, and nothing of it all is left. It is mapped at `place` if that is not null:
/// private memory of ours of this size, which is there again when it fails.
///
/// # Errors
/// The kernel's error number, or that of `furnish`.
#[allow(
    clippy::too_many_arguments,
    reason = "what the kernel is told of one segment"
)]
pub fn make<T>(
    kind: HelloKind,
    number: u32,
    rings: u32,
    words: u32,
    info: &[u8],
    place: *mut u8,
    furnish: impl FnOnce(Made) -> Result<T, i32>,
    discard: impl FnOnce(T),
) -> Result<T, i32> {
    let (geometry, fd) = make_memory(rings, words)?;
    // A limit that is there by now leaves less room than there was.
    let fits = geometry.ring_count() == rings && geometry.ring_words() == words;
    let place = if fits { place } else { std::ptr::null_mut() };
    let announced = map(number, geometry, fd, info, place, |made| {
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
    place: *mut u8,
    then: impl FnOnce(Made) -> Result<T, i32>,
) -> Result<T, i32> {
    let base = if place.is_null() {
        sys::mmap(geometry.bytes(), libc::MAP_SHARED, fd)?
    } else {
        // SAFETY: memory of ours of this size, as the caller says.
        unsafe { sys::share_in_place(place, geometry.bytes(), fd)? }
    };
    sys::leave_out_of_core(base, geometry.bytes());
    // SAFETY: mapped with this size, page-aligned, sealed, and only unmapped by a fork child that has forgotten it.
    let segment = unsafe { Segment::new(base, geometry) };
    // SAFETY: no other thread knows the mapping yet.
    unsafe { segment.initialise(number, state::instance(), info) };
    then(Made { segment, base }).inspect_err(|_| {
        // SAFETY: nothing refers to the mapping, or it is what was there.
        unsafe {
            match place.is_null() {
                true => sys::munmap(base.cast(), geometry.bytes()),
                false => sys::replace(base, geometry.bytes()),
            }
        }
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
