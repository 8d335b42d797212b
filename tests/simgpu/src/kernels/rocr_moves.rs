//! ROCr's own copy and fill kernels.
//!
//! They are no code objects, but bare code behind an `amd_kernel_code_t`, recognised by the registers that they ask
//! for. The same from 5.2 to 6.4, for GPUs of the gfx9 family.

use super::moves::{Move, Recipe, Rows, words};
use crate::memory::{Place, Unmapped, View};
use crate::packet::Dispatch;

/// `compute_pgm_rsrc1` in `amd_kernel_code_t`: granules of vector registers in bits 0-5, of scalar ones in 6-9.
const RESOURCES: u64 = 48;

/// Name and recipe of the kernel at this place.
pub fn recipe(place: &Place) -> Option<(&'static str, Recipe)> {
    if place.bytes < RESOURCES + 4 {
        return None;
    }
    // SAFETY: the place has that many bytes; no alignment is assumed.
    let resources = unsafe {
        place
            .start
            .add(RESOURCES as usize)
            .cast::<u32>()
            .read_unaligned()
    };
    match (resources >> 6 & 0xf, resources & 0x3f) {
        (3, 2) => Some(("rocr_copy_aligned", copy_aligned)),
        (2, 2) => Some(("rocr_copy_misaligned", copy_misaligned)),
        (2, 1) => Some(("rocr_fill", fill)),
        _ => None,
    }
}

fn copy_aligned(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    // Four phases, each with the begin of its source and its target; the last end follows.
    let [from, to, .., end] = words::<9>(view, arguments)?;
    Ok(copy(from, to, end))
}

fn copy_misaligned(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    let [from, to, .., end] = words::<5>(view, arguments)?;
    Ok(copy(from, to, end))
}

fn copy(from: u64, to: u64, end: u64) -> Move {
    Move::Copy {
        from,
        to,
        bytes: end.saturating_sub(from),
        rows: Rows::ONE,
    }
}

fn fill(view: &mut View, arguments: u64, _: &Dispatch) -> Result<Move, Unmapped> {
    let [to, _, end, value] = words(view, arguments)?;
    Ok(Move::Fill {
        to,
        pattern: (value as u32).to_le_bytes().to_vec(),
        bytes: end.saturating_sub(to),
        rows: Rows::ONE,
    })
}
