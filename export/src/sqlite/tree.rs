//! Trees that grow at their right end. A page that is full is written, and the page above learns of it.
//!
//! A page without cells, which SQLite takes for damage, never comes to be: what opens a page stays in it, and of a page of pages
//! that is full the last cell becomes its last page, so that the next one begins with a cell.

use std::io;

use super::node::{Kind, Node, PAGE_BYTES};
use super::pages::Pages;
use super::record::put_varint;

/// Bytes of a row that may stand in a page of a table, and that stand there at least if others have pages of their own (1.6).
const LOCAL_MAX: usize = PAGE_BYTES - 35;
const LOCAL_MIN: usize = (PAGE_BYTES - 12) * 32 / 255 - 23;
/// Bytes of a row in each page of its own, behind the number of the next one (1.7).
const OVERFLOW_BYTES: usize = PAGE_BYTES - 4;
/// SQLite reads no longer rows, unless it is built otherwise (`SQLITE_MAX_LENGTH`).
const ROW_MAX: usize = 1_000_000_000;

/// A tree of rows or entries in ascending order.
#[derive(Debug)]
pub(super) struct Tree {
    root: u32,
    leaf: Node,
    /// Pages of pages, from the ground up.
    above: Vec<Node>,
    head: Vec<u8>,
    last: i64,
}

impl Tree {
    /// A tree whose root is this page: `Kind::TableLeaf` or `Kind::IndexLeaf`.
    pub(super) fn new(root: u32, kind: Kind) -> Self {
        Self {
            root,
            leaf: Node::new(kind),
            above: Vec::new(),
            head: Vec::new(),
            last: i64::MIN,
        }
    }

    /// The largest row id so far, 0 if there is none.
    pub(super) fn last(&self) -> i64 {
        self.last.max(0)
    }

    /// Appends a row of a table.
    ///
    /// # Errors
    /// When a page cannot be written, or the row belongs in front of others or is too long.
    #[inline]
    pub(super) fn row(&mut self, id: i64, row: &[u8], pages: &mut Pages) -> io::Result<()> {
        if id <= self.last {
            return Err(io::Error::other(format!("row {id} behind {}", self.last)));
        }
        if row.len() > ROW_MAX {
            return Err(io::Error::other("a row is too long for SQLite"));
        }
        let (row_here, next) = match row.len() <= LOCAL_MAX {
            true => (row, None),
            false => overflow(row, pages)?,
        };
        self.head.clear();
        put_varint(row.len() as u64, &mut self.head);
        put_varint(id.cast_unsigned(), &mut self.head);
        let next = next.map(u32::to_be_bytes);
        let next = next.as_ref().map_or(&[][..], |number| number);
        if !self.leaf.add([&self.head, row_here, next]) {
            let child = pages.append(self.leaf.page())?;
            self.leaf.clear();
            self.leaf.add([&self.head, row_here, next]);
            self.head.clear();
            put_varint(self.last.cast_unsigned(), &mut self.head);
            let key = std::mem::take(&mut self.head);
            self.pass_up(0, child, &key, pages)?;
            self.head = key;
        }
        self.last = id;
        Ok(())
    }

    /// Appends an entry of an index, which is short.
    ///
    /// # Errors
    /// When a page cannot be written.
    #[inline]
    pub(super) fn entry(&mut self, entry: &[u8], pages: &mut Pages) -> io::Result<()> {
        self.head.clear();
        put_varint(entry.len() as u64, &mut self.head);
        if self.leaf.add([&self.head, entry, &[]]) {
            return Ok(());
        }
        // Entries between pages stand above them, and nowhere else.
        let between = self.leaf.take_last();
        let child = pages.append(self.leaf.page())?;
        self.leaf.clear();
        self.leaf.add([&self.head, entry, &[]]);
        self.pass_up(0, child, &between, pages)
    }

    /// Adds a page and the key behind it to the pages of a level.
    fn pass_up(
        &mut self,
        level: usize,
        child: u32,
        key: &[u8],
        pages: &mut Pages,
    ) -> io::Result<()> {
        if level == self.above.len() {
            self.above.push(Node::new(self.leaf.kind().above()));
        }
        let node = &mut self.above[level];
        let child = child.to_be_bytes();
        if node.add([&child, key, &[]]) {
            return Ok(());
        }
        let cell = node.take_last();
        let (last_page, last_key) = cell.split_at(4);
        node.set_last_page(last_page.try_into().map_or(0, u32::from_be_bytes));
        let full = pages.append(node.page())?;
        node.clear();
        node.add([&child, key, &[]]);
        self.pass_up(level + 1, full, last_key, pages)
    }

    /// Writes the pages that are not full.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn finish(mut self, pages: &mut Pages) -> io::Result<()> {
        let mut below = self.leaf;
        for mut node in self.above.drain(..) {
            node.set_last_page(pages.append(below.page())?);
            below = node;
        }
        pages.root(self.root, below.page());
        Ok(())
    }
}

/// Writes the end of a long row into pages of its own; returns what is left and the number of the first of those pages.
fn overflow<'r>(row: &'r [u8], pages: &mut Pages) -> io::Result<(&'r [u8], Option<u32>)> {
    let kept = LOCAL_MIN + (row.len() - LOCAL_MIN) % OVERFLOW_BYTES;
    let kept = if kept <= LOCAL_MAX { kept } else { LOCAL_MIN };
    let (here, rest) = row.split_at(kept);
    let mut numbers = pages.coming();
    let first = numbers.next();
    let mut parts = rest.chunks(OVERFLOW_BYTES).peekable();
    while let Some(part) = parts.next() {
        let next = numbers.next().filter(|_| parts.peek().is_some());
        let mut page = [0; PAGE_BYTES];
        page[..4].copy_from_slice(&next.unwrap_or(0).to_be_bytes());
        page[4..4 + part.len()].copy_from_slice(part);
        pages.append(&page)?;
    }
    Ok((here, first))
}
