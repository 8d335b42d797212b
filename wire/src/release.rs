//! Releases of ROCm by the names of library files, and which releases of the HSA runtime need care with their queues.

/// A release of ROCm, as 7.1.
pub type Release = (u32, u32);

/// The first release that breaks, and the first that does not any more.
const BREAKING: (Release, Release) = ((7, 1), (7, 13));
/// The runtime's own numbers of ROCm 5.6 and 7.0.
const INTERFACE_5_6: u32 = 9;
const INTERFACE_7_0: u32 = 18;
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

/// Whether queues of a runtime break when they are full: by its own number, as 18 in `libhsa-runtime64.so.1.18.0`.
#[must_use]
pub fn breaks_when_full(interface: u32) -> bool {
    interface < INTERFACE_5_6
}

/// The same as [`may_break`], of a runtime that is not loaded: by its own number, and the release where that is known.
#[must_use]
pub fn interface_may_break(interface: u32, release: Option<Release>) -> bool {
    interface >= INTERFACE_7_0 && may_break(TABLE_BYTES_7_0, release)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_break_are_known() {
        // Sizes of the extension table: 5.2, 6.4, 7.0 and later.
        for (bytes, path, expected) in [
            (400, "", false),
            (592, "/opt/rocm-6.4.3/lib/libhsa-runtime64.so.1", false),
            (608, "libhsa-runtime64.so.1.18.70000", false),
            (608, "libhsa-runtime64.so.1.18.70101", true),
            (616, "/opt/rocm-7.2.1/lib/libhsa-runtime64.so.1", true),
            (616, "/opt/rocm-7.12.0/lib/libhsa-runtime64.so.1", true),
            (616, "/opt/rocm-7.13.0/lib/libhsa-runtime64.so.1", false),
            (616, "libhsa-runtime64.so.1.21.71400", false),
            // Which release this is cannot be told.
            (616, "/usr/lib/libhsa-runtime64.so.1", true),
        ] {
            let release = release_of_path(path.as_bytes());
            assert_eq!(may_break(bytes, release), expected, "{bytes} {path}");
        }
    }

    #[test]
    fn interfaces_that_break_are_known() {
        assert!(breaks_when_full(8) && !breaks_when_full(9));
        for (interface, release, expected) in [
            (15, None, false),
            (18, None, true),
            (18, Some((7, 0)), false),
            (18, Some((7, 2)), true),
            (21, Some((7, 14)), false),
        ] {
            assert_eq!(
                interface_may_break(interface, release),
                expected,
                "{interface}"
            );
        }
    }
}
