//! What the loader reads of a program or library: which libraries it needs, and where it says they are.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Names in a table of strings are read up to this length.
const LONGEST_NAME: usize = 4096;
/// Tables of the loader are not read beyond this size, in bytes.
const LARGEST_TABLE: u64 = 64 << 20;

/// A program or library for x86-64.
#[derive(Debug, Default)]
pub struct Elf {
    /// Names of the libraries it needs, in order.
    pub needed: Vec<String>,
    /// The name by which others need it.
    pub soname: Option<String>,
    /// Folders of DT_RPATH, as they are written.
    pub rpath: Vec<String>,
    /// Folders of DT_RUNPATH, as they are written; `Some` switches DT_RPATH off.
    pub runpath: Option<Vec<String>>,
    /// Whether it has a table for the loader at all.
    pub is_dynamic: bool,
    /// Place and size of the table of strings in the file.
    strings: (u64, u64),
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

/// Bytes of a file from `at` on; fewer where it ends.
fn part(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let behind = file.metadata()?.len().checked_sub(at);
    let Some(behind) = behind.filter(|_| bytes <= LARGEST_TABLE) else {
        return Err(invalid("a damaged ELF file"));
    };
    let bytes = usize::try_from(bytes.min(behind)).map_err(|_| invalid("a damaged ELF file"))?;
    let mut part = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        match file.read_at(&mut part[filled..], at + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    part.truncate(filled);
    Ok(part)
}

impl Elf {
    /// Reads the headers of a file.
    ///
    /// # Errors
    /// When it cannot be read, is no ELF file, is damaged, or is for other processors than x86-64.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let head = part(&file, 0, 64)?;
        if !head.starts_with(b"\x7fELF") {
            return Err(invalid("neither a program nor a library"));
        }
        // Class 64 bit, little-endian, x86-64.
        if head.get(4..6) != Some(&[2, 1]) || u16_at(&head, 18) != Some(62) {
            return Err(invalid("not for x86-64"));
        }
        Self::read(&file, &head)?.ok_or_else(|| invalid("a damaged ELF file"))
    }

    fn read(file: &File, head: &[u8]) -> io::Result<Option<Self>> {
        let (Some(at), Some(size), Some(count)) =
            (u64_at(head, 32), u16_at(head, 54), u16_at(head, 56))
        else {
            return Ok(None);
        };
        let size = usize::from(size);
        let headers = part(file, at, size as u64 * u64::from(count))?;
        let mut elf = Self::default();
        let mut loads = Vec::new();
        let mut dynamic = None;
        if size == 0 {
            return Ok(None);
        }
        for header in headers.chunks_exact(size) {
            let place = || Some((u64_at(header, 8)?, u64_at(header, 16)?, u64_at(header, 32)?));
            let Some((offset, address, bytes)) = place() else {
                return Ok(None);
            };
            match u32_at(header, 0) {
                Some(PT_LOAD) => loads.push((address, bytes, offset)),
                Some(PT_DYNAMIC) => dynamic = Some((offset, bytes)),
                _ => {}
            }
        }
        let Some((offset, bytes)) = dynamic else {
            return Ok(Some(elf));
        };
        elf.is_dynamic = true;
        let table = part(file, offset, bytes)?;
        let entries: Vec<(u64, u64)> = table
            .chunks_exact(16)
            .filter_map(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?)))
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        let value = |wanted: u64| {
            let found = entries.iter().find(|(tag, _)| *tag == wanted);
            found.map(|(_, value)| *value)
        };
        let Some(address) = value(DT_STRTAB) else {
            return Ok(Some(elf));
        };
        let Some(place) = loads.iter().find_map(|(start, bytes, offset)| {
            let within = address
                .checked_sub(*start)
                .filter(|within| within < bytes)?;
            offset.checked_add(within)
        }) else {
            return Ok(None);
        };
        elf.strings = (place, value(DT_STRSZ).unwrap_or(0));
        for (tag, value) in &entries {
            let name = |file| string(file, place.saturating_add(*value));
            match *tag {
                DT_NEEDED => elf.needed.push(name(file)?),
                DT_SONAME => elf.soname = Some(name(file)?),
                DT_RPATH => elf.rpath = folders(&name(file)?),
                DT_RUNPATH => elf.runpath = Some(folders(&name(file)?)),
                _ => {}
            }
        }
        Ok(Some(elf))
    }

    /// The names of its symbols and of their versions that `wanted` accepts. `path` is the file that it was read from.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn names(&self, path: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let (at, bytes) = self.strings;
        let table = part(&File::open(path)?, at, bytes)?;
        let names = table.split(|byte| *byte == 0);
        let names = names.filter_map(|name| std::str::from_utf8(name).ok());
        Ok(names
            .filter(|name| wanted(name))
            .map(str::to_owned)
            .collect())
    }
}

/// The text at a place of the file, up to its NUL.
fn string(file: &File, at: u64) -> io::Result<String> {
    let bytes = part(file, at, LONGEST_NAME as u64)?;
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn folders(list: &str) -> Vec<String> {
    list.split(':')
        .filter(|folder| !folder.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The text from `start` to the end of the line or string, if it stands in the first `bytes` of a file.
pub fn text_after(path: &Path, start: &[u8], bytes: u64) -> Option<String> {
    const LONGEST: usize = 64;
    let mut whole = Vec::new();
    File::open(path)
        .ok()?
        .take(bytes)
        .read_to_end(&mut whole)
        .ok()?;
    let mut from = 0;
    // Format strings of messages are no versions: a digit must follow.
    while let Some(at) = position(whole.get(from..)?, start) {
        let after = whole.get(from + at + start.len()..)?;
        if after.first().is_some_and(u8::is_ascii_digit) {
            let end = after
                .iter()
                .take(LONGEST)
                .position(|byte| !byte.is_ascii_alphanumeric() && !b".+-_".contains(byte))
                .unwrap_or(LONGEST.min(after.len()));
            return Some(String::from_utf8_lossy(&after[..end]).into_owned());
        }
        from += at + start.len();
    }
    None
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let mut from = 0;
    loop {
        let at = text.get(from..)?.iter().position(|byte| *byte == first)? + from;
        if text[at..].starts_with(part) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roots::scratch;

    #[test]
    fn headers_of_a_program_are_read() {
        let path = Path::new("/proc/self/exe");
        let elf = Elf::open(path).expect("this program");
        assert!(elf.is_dynamic);
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"));
        let names = elf.names(path, |name| name == "malloc").expect("names");
        assert_eq!(names, ["malloc"]);
    }

    #[test]
    fn damaged_headers_are_no_panic() {
        const HEADERS: usize = 1024;
        let whole = std::fs::read("/bin/sh").expect("a program");
        let path = scratch("elf").join("damaged");
        std::fs::write(&path, &whole).expect("a file");
        let file = File::options().write(true).open(&path).expect("a file");
        for at in 0..HEADERS.min(whole.len()) {
            for value in [0, 0x7f, 0xff] {
                file.write_at(&[value], at as u64).expect("a byte");
                if let Ok(elf) = Elf::open(&path) {
                    elf.names(&path, |_| false).ok();
                }
            }
            file.write_at(&whole[at..=at], at as u64).expect("a byte");
        }
        for bytes in [0, 4, 63, 64, 100, 1000, whole.len() / 2] {
            std::fs::write(&path, &whole[..bytes]).expect("a file");
            Elf::open(&path).ok();
        }
    }
}
