//! A page of a tree (1.6): a header, the places of its cells in their order, and the cells, the first at the page's end.

/// Bytes of a page: SQLite's default.
pub(super) const PAGE_BYTES: usize = 4096;

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows of a table.
    TableLeaf = 0x0d,
    /// Pages of a table.
    TableInner = 0x05,
    /// Entries of an index.
    IndexLeaf = 0x0a,
    /// Pages of an index, and the entries between them.
    IndexInner = 0x02,
}

impl Kind {
    fn header_bytes(self) -> usize {
        match self {
            Self::TableLeaf | Self::IndexLeaf => 8,
            Self::TableInner | Self::IndexInner => 12,
        }
    }

    /// What the pages hold above those of this kind.
    pub(super) fn above(self) -> Self {
        match self {
            Self::TableLeaf | Self::TableInner => Self::TableInner,
            Self::IndexLeaf | Self::IndexInner => Self::IndexInner,
        }
    }
}

/// A page that is being filled.
#[derive(Debug)]
pub(super) struct Node {
    kind: Kind,
    page: Box<[u8; PAGE_BYTES]>,
    cells: usize,
    /// Where the last cell begins, and the one before.
    content: usize,
    before: usize,
}

impl Node {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            page: Box::new([0; PAGE_BYTES]),
            cells: 0,
            content: PAGE_BYTES,
            before: PAGE_BYTES,
        }
    }

    /// Appends a cell that is made of parts, if there is room.
    #[inline]
    pub(super) fn add(&mut self, parts: [&[u8]; 3]) -> bool {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let place = self.kind.header_bytes() + 2 * self.cells;
        if place + 2 + bytes > self.content {
            return false;
        }
        self.before = self.content;
        self.content -= bytes;
        let mut at = self.content;
        for part in parts {
            self.page[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.page[place..place + 2].copy_from_slice(&(self.content as u16).to_be_bytes());
        self.cells += 1;
        true
    }

    /// Takes out the cell that was added last, once.
    pub(super) fn take_last(&mut self) -> Vec<u8> {
        let cell = self.page[self.content..self.before].to_vec();
        self.content = self.before;
        self.cells -= 1;
        cell
    }

    /// The page behind all others, of a page of pages.
    pub(super) fn set_last_page(&mut self, number: u32) {
        self.page[8..12].copy_from_slice(&number.to_be_bytes());
    }

    /// The page, when nothing more is added.
    pub(super) fn page(&mut self) -> &[u8; PAGE_BYTES] {
        self.page[0] = self.kind as u8;
        self.page[3..5].copy_from_slice(&(self.cells as u16).to_be_bytes());
        self.page[5..7].copy_from_slice(&(self.content as u16).to_be_bytes());
        // Nothing between places and cells is left of other pages.
        self.page[self.kind.header_bytes() + 2 * self.cells..self.content].fill(0);
        &self.page
    }

    /// Begins another page.
    pub(super) fn clear(&mut self) {
        self.cells = 0;
        self.content = PAGE_BYTES;
        self.before = PAGE_BYTES;
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }
}
