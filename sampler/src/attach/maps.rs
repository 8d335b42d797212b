//! The mappings of a process, as far as new ones need room beside them.

use std::ops::Range;

/// A mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// `rwxp`, as proc(5) has it.
    pub permissions: String,
    /// What is mapped, if that has a name.
    pub path: String,
}

impl Mapping {
    /// Whether code may be executed in it.
    #[must_use]
    pub fn is_code(&self) -> bool {
        self.permissions.as_bytes().get(2) == Some(&b'x')
    }
}

/// Those of a process.
///
/// # Errors
/// What the system says.
pub fn of(pid: u32) -> std::io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let permissions = fields.next()?.to_owned();
    let path = fields.nth(3).unwrap_or("").trim_start().to_owned();
    Some(Mapping {
        range: number(start)?..number(end)?,
        permissions,
        path,
    })
}

/// An address with nothing mapped for a long way on both sides: the middle of the largest gap.
#[must_use]
pub fn free_place(mappings: &[Mapping]) -> Option<u64> {
    const PAGE: u64 = 4096;
    let gaps = mappings
        .windows(2)
        .map(|two| two[0].range.end..two[1].range.start);
    // What is above belongs to the kernel (vsyscall).
    let gap = gaps
        .filter(|gap| gap.end < 1 << 47)
        .max_by_key(|gap| gap.end.saturating_sub(gap.start))?;
    let middle = gap.start + (gap.end - gap.start) / 2;
    Some(middle & !(PAGE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_found_far_from_everything() {
        let line = "7f00-8f00 r-xp 00000000 fe:00 77   /usr/lib/my lib.so";
        let mapping = parse(line).unwrap();
        assert!(mapping.is_code() && mapping.path == "/usr/lib/my lib.so");
        let own = of(std::process::id()).unwrap();
        let place = free_place(&own).unwrap();
        let around = place - (64 << 20)..place + (64 << 20);
        assert!(
            own.iter()
                .all(|one| one.range.end <= around.start || one.range.start >= around.end)
        );
    }
}
