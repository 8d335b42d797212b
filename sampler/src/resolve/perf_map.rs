//! Names of code made at run time, from `/tmp/perf-PID.map`.
//!
//! JIT compilers and CPython's `-X perf` write one line per piece of code: start and size in
//! hexadecimal, then the name, which may hold blanks. The file grows while the process runs, its
//! last line may be cut, and memory is used again: a later line replaces what earlier lines said
//! about the same bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names::shorten;
use super::types::Symbolized;

/// Names in a perf map are cut to this many characters.
const NAME_CHARACTERS_MAX: usize = 256;

/// More entries than this are not kept; a map that large comes from a program that compiles without
/// end.
const ENTRIES_MAX: usize = 4 << 20;

/// A read takes at most this much; the rest comes with the next refresh.
const READ_BYTES_MAX: u64 = 256 << 20;

/// One piece of code of a [`PerfMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfMapEntry {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Its name.
    pub name: Arc<str>,
}

/// The code that a process made at run time, by address.
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    /// Disjoint ranges by start: (end, name, start of the whole piece).
    ranges: BTreeMap<u64, Range>,
    /// Where the next refresh goes on reading.
    bytes_read: u64,
    /// Lines that could not be understood.
    bad_lines: u64,
}

#[derive(Clone, Debug)]
struct Range {
    end: u64,
    name: Arc<str>,
    piece_start: u64,
}

impl PerfMap {
    /// The path at which a process with this id (in its own PID namespace) puts its map.
    #[must_use]
    pub fn path(root: Option<&Path>, pid: u32) -> PathBuf {
        root.unwrap_or_else(|| Path::new("/"))
            .join(format!("tmp/perf-{pid}.map"))
    }

    /// The map made of the text of a whole file.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut map = Self::default();
        map.add_lines(text);
        map
    }

    /// Reads what was added to the file since the last time, and says whether that is anything. A missing file is an empty one.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn refresh(&mut self, path: &Path) -> io::Result<bool> {
        // Anybody may put a pipe under that name in /tmp; opening it must not block.
        let opened = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let is_another = metadata.len() < self.bytes_read;
        if is_another {
            // Truncated: another program with the same process id started over.
            *self = Self::default();
        }
        file.seek(SeekFrom::Start(self.bytes_read))?;
        let mut text = Vec::new();
        file.take(READ_BYTES_MAX).read_to_end(&mut text)?;
        // The writer may be in the middle of a line.
        let whole_lines = text
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        self.add_lines(&text[..whole_lines]);
        self.bytes_read += whole_lines as u64;
        Ok(is_another || whole_lines > 0)
    }

    fn add_lines(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match parse_line(line) {
                Some(entry) if self.ranges.len() < ENTRIES_MAX => self.insert(entry),
                _ => self.bad_lines += 1,
            }
        }
    }

    /// Adds a piece of code, over whatever was there.
    pub fn insert(&mut self, entry: PerfMapEntry) {
        let PerfMapEntry { start, end, name } = entry;
        if start >= end {
            return;
        }
        // An older range that begins before: keep what sticks out on either side.
        let before = self
            .ranges
            .range(..start)
            .next_back()
            .map(|(&at, range)| (at, range.clone()));
        if let Some((at, older)) = before
            && older.end > start
        {
            if older.end > end {
                self.ranges.insert(end, older.clone());
            }
            self.ranges.insert(
                at,
                Range {
                    end: start,
                    ..older
                },
            );
        }
        // Older ranges that begin inside.
        let inside: Vec<u64> = self.ranges.range(start..end).map(|(&at, _)| at).collect();
        for at in inside {
            if let Some(older) = self.ranges.remove(&at)
                && older.end > end
            {
                self.ranges.insert(end, older);
            }
        }
        self.ranges.insert(
            start,
            Range {
                end,
                name,
                piece_start: start,
            },
        );
    }

    /// The name of the code at an address of the process.
    #[must_use]
    pub fn lookup(&self, address: u64) -> Option<&Arc<str>> {
        self.range_of(address).map(|range| &range.name)
    }

    /// The frame of an address of the process.
    #[must_use]
    pub fn resolve(&self, address: u64) -> Option<Symbolized> {
        let range = self.range_of(address)?;
        Some(Symbolized {
            function_start: range.piece_start,
            ..Symbolized::from_name(Arc::clone(&range.name))
        })
    }

    fn range_of(&self, address: u64) -> Option<&Range> {
        let (_, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then_some(range)
    }

    /// The number of disjoint ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the map knows nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Lines that could not be understood.
    #[must_use]
    pub const fn bad_lines(&self) -> u64 {
        self.bad_lines
    }
}

fn parse_line(line: &str) -> Option<PerfMapEntry> {
    let (start, rest) = line.split_once(char::is_whitespace)?;
    let (size, name) = rest.trim_start().split_once(char::is_whitespace)?;
    let start = parse_hex(start)?;
    let size = parse_hex(size)?;
    let name = name.trim();
    if size == 0 || name.is_empty() {
        return None;
    }
    Some(PerfMapEntry {
        start,
        end: start.checked_add(size)?,
        name: shorten(name, NAME_CHARACTERS_MAX).into(),
    })
}

fn parse_hex(text: &str) -> Option<u64> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    // `from_str_radix` accepts a sign.
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_known_writers() {
        let map = PerfMap::parse(
            b"7f0010 20 py::outer:/home/u/a file.py\n0x7f0040 0x10 LazyCompile:~main\n\
              # comment\n\nnonsense\n7f 0 empty\n-1 10 sign\nffffffffffffffff 2 wraps\n7f0060 8 cut",
        );
        assert_eq!(
            map.lookup(0x7f0010).unwrap().as_ref(),
            "py::outer:/home/u/a file.py"
        );
        assert_eq!(
            map.lookup(0x7f002f).unwrap().as_ref(),
            "py::outer:/home/u/a file.py"
        );
        assert!(map.lookup(0x7f0030).is_none());
        assert_eq!(map.lookup(0x7f004f).unwrap().as_ref(), "LazyCompile:~main");
        assert_eq!(map.lookup(0x7f0060).unwrap().as_ref(), "cut");
        assert_eq!(map.bad_lines(), 4);
        assert_eq!(map.resolve(0x7f0018).unwrap().function_start, 0x7f0010);
    }

    #[test]
    fn later_lines_win() {
        // Compared with a plain array that each line paints over.
        let mut painted = vec![None; 4_096];
        let mut map = PerfMap::default();
        let mut state = 0x1234_5678_u64;
        for index in 0..600_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let start = (state >> 33) % 4_000;
            let size = 1 + (state >> 50) % 90;
            let name: Arc<str> = format!("f{index}").into();
            for slot in painted.iter_mut().skip(start as usize).take(size as usize) {
                *slot = Some(Arc::clone(&name));
            }
            map.insert(PerfMapEntry {
                start,
                end: start + size,
                name,
            });
        }
        for (address, expected) in painted.iter().enumerate() {
            assert_eq!(map.lookup(address as u64), expected.as_ref(), "{address}");
        }
    }

    #[test]
    fn refresh_reads_what_was_added() {
        let path = std::env::temp_dir().join(format!("rsys-perf-map-{}", std::process::id()));
        let mut map = PerfMap::default();
        map.refresh(&path).unwrap();
        assert!(map.is_empty());
        std::fs::write(&path, "10 10 a\n20 10 b").unwrap();
        map.refresh(&path).unwrap();
        assert_eq!(
            (map.lookup(0x10).is_some(), map.lookup(0x20).is_some()),
            (true, false)
        );
        std::fs::write(&path, "10 10 a\n20 10 bcd\n").unwrap();
        map.refresh(&path).unwrap();
        assert_eq!(map.lookup(0x20).unwrap().as_ref(), "bcd");
        std::fs::write(&path, "30 1 c\n").unwrap();
        map.refresh(&path).unwrap();
        assert_eq!(
            (map.lookup(0x10).is_some(), map.lookup(0x30).is_some()),
            (false, true)
        );
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_directory_is_no_map() {
        assert!(PerfMap::default().refresh(&std::env::temp_dir()).is_err());
    }
}
