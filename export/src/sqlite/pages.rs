//! The file of a database: pages that are appended, and roots of trees, which are written at the end.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::node::PAGE_BYTES;
use crate::background::Background;

/// The page that holds the byte which SQLite locks; nothing stands in it (1.3.1, "lock-byte page").
const LOCK_PAGE: u32 = (1 << 30) / PAGE_BYTES as u32 + 1;
/// The largest number of a page (1.3).
const LAST_PAGE: u32 = 0xffff_fffe;
/// Where the header has the number of pages (1.3).
const COUNT_AT: u64 = 28;

/// Pages that are appended to a database.
pub(super) struct Pages {
    file: File,
    out: Background,
    count: u32,
    roots: Vec<(u32, Box<[u8; PAGE_BYTES]>)>,
}

impl Pages {
    /// Appends to the file of a database that nobody has open.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let mut appended = file.try_clone()?;
        let bytes = appended.seek(SeekFrom::End(0))?;
        Ok(Self {
            file,
            out: Background::new(appended, false)?,
            count: u32::try_from(bytes / PAGE_BYTES as u64).map_err(io::Error::other)?,
            roots: Vec::new(),
        })
    }

    /// The number that the next page will have, or, if that is [`LOCK_PAGE`], the one behind it.
    fn next(count: u32) -> u32 {
        match count.saturating_add(1) {
            LOCK_PAGE => LOCK_PAGE + 1,
            number => number,
        }
    }

    /// Appends a page; returns its number.
    pub(super) fn append(&mut self, page: &[u8; PAGE_BYTES]) -> io::Result<u32> {
        let number = Self::next(self.count);
        if number > LAST_PAGE {
            return Err(io::Error::other("no database of SQLite has more pages"));
        }
        if number > self.count + 1 {
            self.out.write_all(&[0; PAGE_BYTES])?;
        }
        self.out.write_all(page)?;
        self.count = number;
        Ok(number)
    }

    /// The numbers that the next pages will have.
    pub(super) fn coming(&self) -> impl Iterator<Item = u32> + use<> {
        std::iter::successors(Some(Self::next(self.count)), |&last| Some(Self::next(last)))
    }

    /// The root of a tree stands where SQLite made the empty one.
    pub(super) fn root(&mut self, number: u32, page: &[u8; PAGE_BYTES]) {
        self.roots.push((number, Box::new(*page)));
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// When anything could not be written.
    pub(super) fn finish(self) -> io::Result<()> {
        self.out.finish()?;
        for (number, page) in self.roots {
            let at = u64::from(number - 1) * PAGE_BYTES as u64;
            self.file.write_all_at(&page[..], at)?;
        }
        self.file.write_all_at(&self.count.to_be_bytes(), COUNT_AT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_is_locked_is_left_out() {
        assert_eq!(Pages::next(7), 8);
        assert_eq!(u64::from(LOCK_PAGE - 1) * PAGE_BYTES as u64, 0x4000_0000);
        assert_eq!(Pages::next(LOCK_PAGE - 2), LOCK_PAGE - 1);
        assert_eq!(Pages::next(LOCK_PAGE - 1), LOCK_PAGE + 1);
        assert_eq!(Pages::next(LOCK_PAGE + 1), LOCK_PAGE + 2);
    }
}
