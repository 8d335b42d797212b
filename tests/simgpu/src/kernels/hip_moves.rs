//! HIP's own copy and fill kernels (`__amd_rocclr_*`), compiled by the runtime when a device is first used.
//!
//! Their arguments changed between HIP 5 and 6; the two layouts are told apart by what the arguments can be. Copies to
//! and from images have no effect.

use super::moves::{Move, Recipe, Rows, words};
use crate::memory::{Unmapped, View};
use crate::packet::Dispatch;

/// The recipe for a kernel of this name.
pub fn recipe(name: &str) -> Option<Recipe> {
    Some(match name.strip_prefix("__amd_rocclr_")? {
        "copyBuffer" => copy_buffer,
        "copyBufferAligned" => copy_buffer_aligned,
        "copyBufferRect" => copy_rect,
        "copyBufferRectAligned" => copy_rect_aligned,
        "fillBufferAligned" => fill_buffer,
        "fillBufferAligned2D" => fill_buffer_2d,
        _ => return None,
    })
}

fn copy(from: u64, to: u64, bytes: u64) -> Move {
    Move::Copy {
        from,
        to,
        bytes,
        rows: Rows::ONE,
    }
}

/// HIP 6: source, target, size, remainder and unit (32 bits each), end of the whole units in the target, stride.
/// HIP 5: source, target, offsets in both, number of units, bytes of the last one.
fn copy_buffer(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    let [from, to, third, fourth, fifth, sixth] = words(view, arguments)?;
    let (size, remainder) = (third, fourth & 0xffff_ffff);
    if size >= remainder && fifth == to.wrapping_add(size - remainder) {
        return Ok(copy(from, to, size));
    }
    let (from, to, units) = (from + third, to + fourth, fifth);
    let bytes = match sixth as u32 {
        // Units of one byte.
        8 => units,
        last => 4 * units.saturating_sub(1) + u64::from(last),
    };
    Ok(copy(from, to, bytes))
}

/// Source, target, offsets in both and number of units, unit (16 bytes, else 4).
fn copy_buffer_aligned(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    let [from, to, from_offset, to_offset, units, unit] = words(view, arguments)?;
    let unit = if unit as u32 == 16 { 16 } else { 4 };
    Ok(copy(
        from + unit * from_offset,
        to + unit * to_offset,
        unit * units,
    ))
}

fn copy_rect(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    Ok(rect(&words(view, arguments)?, 1))
}

fn copy_rect_aligned(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    let words = words(view, arguments)?;
    // The fourth word of the size is the unit.
    let unit = if words[15] == 16 { 16 } else { 4 };
    Ok(rect(&words, unit))
}

/// Source and target; for each pitch of rows, of slices, and offset (at 32 and 64: vectors of four); size (at 96).
fn rect(words: &[u64; 16], unit: u64) -> Move {
    let [
        from,
        to,
        _,
        _,
        from_pitch,
        from_slice,
        from_offset,
        _,
        to_pitch,
        to_slice,
        to_offset,
        _,
        width,
        height,
        depth,
        _,
    ] = words;
    Move::Copy {
        from: from + unit * from_offset,
        to: to + unit * to_offset,
        bytes: unit * width,
        rows: Rows {
            count: *height,
            pitch: (unit * from_pitch, unit * to_pitch),
            slices: *depth,
            slice_pitch: (unit * from_slice, unit * to_slice),
        },
    }
}

/// HIP 6: target, pattern, units of the pattern and bytes of a unit (32 bits each), end.
/// HIP 5: the target as bytes, or 2, 4 or 8 byte units (the others are null), pattern, its units, offset, repetitions.
fn fill_buffer(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    let [first, second, third, fourth, fifth, sixth, seventh, eighth] = words(view, arguments)?;
    if first != 0 && second != 0 {
        let (units, unit) = (third & 0xffff_ffff, third >> 32);
        return fill(
            view,
            first,
            second,
            (units * unit, fourth.saturating_sub(first)),
            Rows::ONE,
        );
    }
    let (to, unit) = target([first, second, third, fourth]);
    let pattern_bytes = unit * (sixth & 0xffff_ffff);
    fill(
        view,
        to + unit * seventh,
        fifth,
        (pattern_bytes, pattern_bytes * eighth),
        Rows::ONE,
    )
}

/// As HIP 5's one above, then width and height in repetitions, pitch in units.
fn fill_buffer_2d(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    let [
        first,
        second,
        third,
        fourth,
        pattern,
        units,
        offset,
        width,
        height,
        pitch,
    ] = words(view, arguments)?;
    let (to, unit) = target([first, second, third, fourth]);
    let pattern_bytes = unit * (units & 0xffff_ffff);
    let rows = Rows {
        count: height,
        pitch: (0, unit * pitch),
        ..Rows::ONE
    };
    fill(
        view,
        to + unit * offset,
        pattern,
        (pattern_bytes, unit * (width + (units & 0xffff_ffff) - 1)),
        rows,
    )
}

/// The pointer that is not null, and the bytes of its units.
fn target(pointers: [u64; 4]) -> (u64, u64) {
    let units = [1, 2, 4, 8];
    let used = pointers
        .into_iter()
        .zip(units)
        .rfind(|(pointer, _)| *pointer != 0);
    used.unwrap_or((0, 1))
}

fn fill(
    view: &mut View,
    to: u64,
    pattern: u64,
    (pattern_bytes, bytes): (u64, u64),
    rows: Rows,
) -> Result<Move, Unmapped> {
    let mut bytes_of_pattern = Vec::new();
    for index in 0..pattern_bytes {
        let place = view.pointer(pattern + index, 1)?;
        // SAFETY: accessible.
        bytes_of_pattern.push(unsafe { place.read() });
    }
    Ok(Move::Fill {
        to,
        pattern: bytes_of_pattern,
        bytes,
        rows,
    })
}
