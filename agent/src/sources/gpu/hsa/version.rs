//! Which releases of the HSA runtime may be shown only few packets at once: see [`crate::sources::gpu::hsa::doorbell`].
//!
//! (This file knows nothing of the agent: `tests/tests/gpu_hsa.rs` includes it.)

/// A release of ROCm, as 7.1.
pub type Release = (u32, u32);

/// The first release that breaks, and the first that does not any more.
const BREAKING: (Release, Release) = ((7, 1), (7, 13));
/// The extension table of ROCr 7.0; smaller ones belong to older releases.
const TABLE_BYTES_7_0: u32 = 608;

/// Whether it may be one of those that break: by the size of the extension table and by the release, where that is known.
#[must_use]
pub fn may_break(table_bytes: u32, release: Option<Release>) -> bool {
    table_bytes >= TABLE_BYTES_7_0
        && release.is_none_or(|release| (BREAKING.0..BREAKING.1).contains(&release))
}

/// The release in the name of AMD's own library files, as `libhsa-runtime64.so.1.18.70101`, and of folders, as `/opt/rocm-7.1.1/lib`.
#[must_use]
pub fn release_of_path(path: &[u8]) -> Option<Release> {
    let last = path.rsplit(|byte| *byte == b'.').next()?;
    if let Some(number) = decimal(last).filter(|number| *number >= 10_000) {
        return Some((number / 10_000, number / 100 % 100));
    }
    let after = find(path, b"/rocm-")?;
    let mut parts = after
        .split(|byte| !byte.is_ascii_digit())
        .map_while(decimal);
    Some((parts.next()?, parts.next()?))
}

fn find<'a>(text: &'a [u8], part: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(part.len()).position(|window| window == part)?;
    text.get(at.checked_add(part.len())?..)
}

fn decimal(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
