//! When a file is full.

use crate::text::parse_seconds;

/// When a trace goes on in another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileLimits {
    /// Bytes that a file has at most, or a little more; `None` for any number.
    pub bytes: Option<u64>,
    /// Nanoseconds that a file tells of, or a little more; `None` for any time.
    pub time_ns: Option<u64>,
}

/// Units of sizes.
const SIZES: [(&str, u64); 7] = [
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("kB", 1_000),
];

/// Smaller files would be many, and hold little but what each says again.
const BYTES_MIN: f64 = 100e3;
/// So would shorter ones.
const SECONDS_MIN: f64 = 0.1;

impl FileLimits {
    /// Reads a size, a time, or both: `500MB`, `10min`, `1GB 10min`. Nothing, or `off`, means no limit.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut limits = Self::default();
        if text.trim() == "off" {
            return Some(limits);
        }
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            let size = SIZES
                .iter()
                .find_map(|(unit, bytes)| Some((word.strip_suffix(unit)?, *bytes)));
            let limit = if let Some((number, unit)) = size {
                let bytes = number.parse::<f64>().ok()? * unit as f64;
                let is_some = (BYTES_MIN..1e18).contains(&bytes);
                is_some.then(|| limits.bytes.replace(bytes as u64))
            } else {
                // A plain number could be either.
                word.parse::<f64>().is_err().then_some(())?;
                let seconds = parse_seconds(word)?;
                let is_some = (SECONDS_MIN..1e9).contains(&seconds);
                is_some.then(|| limits.time_ns.replace((seconds * 1e9) as u64))
            };
            // Twice the same is a mistake.
            if limit?.is_some() {
                return None;
            }
        }
        Some(limits)
    }

    /// Whether a file is never full.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_told_apart() {
        let limits = |bytes, time_ns| Some(FileLimits { bytes, time_ns });
        for (text, expected) in [
            ("", limits(None, None)),
            ("off", limits(None, None)),
            ("500MB", limits(Some(500_000_000), None)),
            ("1.5GiB", limits(Some(3 << 29), None)),
            ("10min", limits(None, Some(600_000_000_000))),
            ("200kB,90s", limits(Some(200_000), Some(90_000_000_000))),
            ("250ms", limits(None, Some(250_000_000))),
            ("500", None),
            ("1kB", None),
            ("1ms", None),
            ("-1GB", None),
            ("1GB 2GB", None),
            ("large", None),
            ("1GB off", None),
        ] {
            assert_eq!(FileLimits::parse(text), expected, "{text:?}");
        }
    }
}
