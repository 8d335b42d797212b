//! Rows of numbers that arrive nearly in order, kept small.
//!
//! Rows wait until so many are there that the older half of them can be sorted and packed: as differences to the row before, in a few bytes.
//! What comes later than that is a run of its own. [`PackedRows::sort`] makes one run of all, which is read like a sorted list. Such a list may be moved to a
//! file ([`RowFile`]).

mod row_file;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::sets::in_order;
pub(super) use row_file::RowFile;

/// So many numbers.
pub(super) type Row<const N: usize> = [u64; N];

/// Rows that wait for those that should stand in front of them.
const WAITING: usize = 1 << 13;
/// Rows that are unpacked at once.
const CHUNK_ROWS: usize = 64;
/// Packed rows are kept in pieces of this size, so that growing moves nothing.
const PIECE_BYTES: usize = 1 << 20;

/// Rows of `N` numbers.
#[derive(Debug, Default)]
pub(super) struct PackedRows<const N: usize> {
    waiting: Vec<Row<N>>,
    runs: Vec<Run<N>>,
    /// What was unpacked last.
    chunk: RefCell<Chunk<N>>,
}

/// Rows in order, packed.
#[derive(Debug)]
struct Run<const N: usize> {
    pieces: Vec<Vec<u8>>,
    /// Where the pieces are instead, one behind the other: from this place on, up to that.
    moved: Option<(Arc<RowFile>, u64, u64)>,
    /// Of each chunk its first row, and where the others are: the piece and the place in it. Once moved, the two halves of the place behind the first.
    chunks: Vec<(Row<N>, u32, u32)>,
    last: Row<N>,
    length: usize,
}

/// Some rows, unpacked.
#[derive(Debug)]
struct Chunk<const N: usize> {
    number: usize,
    rows: Vec<Row<N>>,
}

impl<const N: usize> Default for Chunk<N> {
    fn default() -> Self {
        Self {
            number: usize::MAX,
            rows: Vec::new(),
        }
    }
}

impl<const N: usize> PackedRows<N> {
    /// Adds a row.
    #[inline]
    pub(super) fn push(&mut self, row: Row<N>) {
        in_order::push(&mut self.waiting, row);
        if self.waiting.len() == WAITING {
            self.store(WAITING / 2);
        }
    }

    /// Takes back rows that came last, as far as they still wait.
    #[inline]
    pub(super) fn pop_while(&mut self, goes: impl Fn(&Row<N>) -> bool) {
        while self.waiting.last().is_some_and(&goes) {
            self.waiting.pop();
        }
    }

    /// Packs the first of what waits.
    fn store(&mut self, count: usize) {
        in_order::sort(&mut self.waiting);
        let Some(first) = self.waiting.first() else {
            return;
        };
        let fitting = self.runs.iter().position(|run| run.last <= *first);
        let place = fitting.unwrap_or_else(|| {
            self.runs.push(Run::default());
            self.runs.len() - 1
        });
        let run = &mut self.runs[place];
        self.waiting.drain(..count).for_each(|row| run.push(row));
    }

    /// Makes one list of all. Where more are added after this, they are read when the list is made again.
    pub(super) fn sort(&mut self) {
        self.store(self.waiting.len());
        if self.runs.len() > 1 {
            self.settle(|_| true);
        }
        self.waiting = Vec::new();
        self.chunk = RefCell::default();
    }

    /// [`PackedRows::sort`], with the rows that `keep` wants: it is shown them in order.
    pub(super) fn settle(&mut self, mut keep: impl FnMut(&Row<N>) -> bool) {
        self.store(self.waiting.len());
        let mut first_gone = None;
        if let [run] = self.runs.as_slice() {
            // Mostly all stay, and then nothing is to be packed again.
            let kept = run.kept(&mut keep);
            if kept == run.length {
                self.waiting = Vec::new();
                self.chunk = RefCell::default();
                return;
            }
            first_gone = Some(kept);
        }
        let mut settled = Run::default();
        let mut number = 0;
        self.drain(|row| {
            let stays = match first_gone {
                Some(gone) if number <= gone => number < gone,
                _ => keep(&row),
            };
            number += 1;
            if stays {
                settled.push(row);
            }
        });
        self.runs.push(settled);
    }

    /// [`PackedRows::sort`], where `join` may make one of a row and the one behind it: it changes the first and returns true.
    pub(super) fn unite(&mut self, mut join: impl FnMut(&mut Row<N>, &Row<N>) -> bool) {
        let mut settled = Run::default();
        let mut last: Option<Row<N>> = None;
        self.drain(|row| {
            if !last.as_mut().is_some_and(|last| join(last, &row))
                && let Some(before) = last.replace(row)
            {
                settled.push(before);
            }
        });
        if let Some(last) = last {
            settled.push(last);
        }
        self.runs.push(settled);
    }

    /// Takes all rows out, in order.
    fn drain(&mut self, mut take: impl FnMut(Row<N>)) {
        self.store(self.waiting.len());
        self.waiting = Vec::new();
        self.chunk = RefCell::default();
        let runs = std::mem::take(&mut self.runs);
        let mut readers: Vec<_> = runs.into_iter().map(RunReader::new).collect();
        if let [reader] = readers.as_mut_slice() {
            while let Some(row) = reader.next() {
                take(row);
            }
            return;
        }
        let mut heads: BinaryHeap<_> = (0..readers.len())
            .filter_map(|place| Some(Reverse((readers[place].next()?, place))))
            .collect();
        while let Some(Reverse((row, place))) = heads.pop() {
            take(row);
            if let Some(next) = readers[place].next() {
                heads.push(Reverse((next, place)));
            }
        }
    }

    /// Once settled: moves the rows to a file, from where they are read as they are needed. Where that has no room for them they stay.
    pub(super) fn move_to(&mut self, file: &Arc<RowFile>) {
        for run in &mut self.runs {
            run.move_to(file);
        }
        self.forget_chunk();
    }

    /// Gives back the memory of the rows that were read last.
    pub(super) fn forget_chunk(&self) {
        self.chunk.replace(Chunk::default());
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.runs.iter().map(|run| run.length).sum::<usize>()
    }

    /// Once settled: the number of the first row for which `is_before` does not hold; it holds for all in front of that, and for none behind.
    pub(super) fn partition_point(&self, is_before: impl Fn(&Row<N>) -> bool) -> usize {
        let Some(run) = self.runs.first() else {
            return 0;
        };
        let begins_before =
            |number: usize| run.chunks.get(number).is_some_and(|one| is_before(&one.0));
        // Who asks for rows in their order finds them where the last was found, or next to that.
        let last = self.chunk.borrow().number;
        let near = [last, last.wrapping_add(1)];
        let near = near
            .into_iter()
            .find(|&number| begins_before(number) && !begins_before(number.wrapping_add(1)));
        let number = match near {
            Some(number) => number,
            None => {
                let behind = run.chunks.partition_point(|(first, ..)| is_before(first));
                match behind.checked_sub(1) {
                    Some(number) => number,
                    None => return 0,
                }
            }
        };
        let place = self.with_chunk(run, number, |rows| rows.partition_point(is_before));
        number * CHUNK_ROWS + place
    }

    /// Once settled: a row by its number.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<Row<N>> {
        let run = self.runs.first().filter(|run| number < run.length)?;
        Some(self.with_chunk(run, number / CHUNK_ROWS, |rows| rows[number % CHUNK_ROWS]))
    }

    /// Once settled: all rows in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Row<N>> {
        (0..).map_while(|number| self.get(number))
    }

    #[inline]
    fn with_chunk<T>(&self, run: &Run<N>, number: usize, take: impl FnOnce(&[Row<N>]) -> T) -> T {
        let mut chunk = self.chunk.borrow_mut();
        if chunk.number != number {
            chunk.number = number;
            run.unpack(number, &mut chunk.rows);
        }
        take(&chunk.rows)
    }
}

impl<const N: usize> Default for Run<N> {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            moved: None,
            chunks: Vec::new(),
            last: [0; N],
            length: 0,
        }
    }
}

impl<const N: usize> Run<N> {
    #[inline]
    fn push(&mut self, row: Row<N>) {
        if self.length.is_multiple_of(CHUNK_ROWS) {
            self.begin_chunk(row);
        } else if let Some(piece) = self.pieces.last_mut() {
            for (value, before) in row.iter().zip(&self.last) {
                put(piece, value.wrapping_sub(*before).cast_signed());
            }
        }
        self.last = row;
        self.length += 1;
    }

    fn begin_chunk(&mut self, first: Row<N>) {
        // A number takes ten bytes at most.
        let has_room = |piece: &Vec<u8>| piece.len() + 10 * N * CHUNK_ROWS <= PIECE_BYTES;
        if !self.pieces.last().is_some_and(has_room) {
            let bytes = if self.pieces.is_empty() {
                0
            } else {
                PIECE_BYTES
            };
            self.pieces.push(Vec::with_capacity(bytes));
        }
        let number = self.pieces.len() - 1;
        let place = self.pieces[number].len();
        self.chunks.push((first, number as u32, place as u32));
    }

    fn move_to(&mut self, file: &Arc<RowFile>) {
        if self.moved.is_some() || self.chunks.is_empty() {
            return;
        }
        let pieces: Vec<&[u8]> = self.pieces.iter().map(Vec::as_slice).collect();
        let Some(first) = file.append(&pieces) else {
            return;
        };
        let mut before = Vec::with_capacity(self.pieces.len());
        let mut bytes = 0;
        for piece in &self.pieces {
            before.push(bytes);
            bytes += piece.len() as u64;
        }
        for (_, piece, place) in &mut self.chunks {
            let at = before[*piece as usize] + u64::from(*place);
            (*piece, *place) = ((at >> 32) as u32, at as u32);
        }
        self.chunks.shrink_to_fit();
        self.pieces = Vec::new();
        self.moved = Some((Arc::clone(file), first, first + bytes));
    }

    /// The packed rows of a chunk behind its first one, and perhaps more, if they were moved.
    fn moved_chunk(&self, number: usize) -> Option<Vec<u8>> {
        let (file, first, end) = self.moved.as_ref()?;
        let place = |number: usize| {
            let (_, high, low) = self.chunks.get(number)?;
            Some(first + (u64::from(*high) << 32 | u64::from(*low)))
        };
        let begin = place(number)?;
        Some(file.read(begin, place(number + 1).unwrap_or(*end)))
    }

    /// How many rows from the first one on `keep` wants: it is shown the one behind these as well.
    fn kept(&self, mut keep: impl FnMut(&Row<N>) -> bool) -> usize {
        let mut rows = Vec::new();
        for number in 0..self.chunks.len() {
            self.unpack(number, &mut rows);
            if let Some(place) = rows.iter().position(|row| !keep(row)) {
                return number * CHUNK_ROWS + place;
            }
        }
        self.length
    }

    /// Unpacks a chunk that is there.
    fn unpack(&self, number: usize, rows: &mut Vec<Row<N>>) {
        let (mut row, piece, place) = self.chunks[number];
        let count = (self.length - number * CHUNK_ROWS).min(CHUNK_ROWS);
        let moved = self.moved_chunk(number);
        let mut packed = match &moved {
            Some(bytes) => bytes.as_slice(),
            None => &self.pieces[piece as usize][place as usize..],
        };
        rows.clear();
        rows.push(row);
        for _ in 1..count {
            for value in &mut row {
                *value = value.wrapping_add(take(&mut packed).cast_unsigned());
            }
            rows.push(row);
        }
    }
}

/// Reads a run to its end and gives back its memory on the way.
struct RunReader<const N: usize> {
    run: Run<N>,
    number: usize,
    rows: Vec<Row<N>>,
    place: usize,
}

impl<const N: usize> RunReader<N> {
    fn new(run: Run<N>) -> Self {
        Self {
            run,
            number: 0,
            rows: Vec::new(),
            place: 0,
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Row<N>> {
        if self.place == self.rows.len() {
            let (_, piece, _) = *self.run.chunks.get(self.number)?;
            if let Some(before) = (piece as usize).checked_sub(1)
                && let Some(before) = self.run.pieces.get_mut(before)
            {
                *before = Vec::new();
            }
            self.run.unpack(self.number, &mut self.rows);
            self.number += 1;
            self.place = 0;
        }
        self.place += 1;
        Some(self.rows[self.place - 1])
    }
}

/// Appends a number: seven bits in each byte, the sign in the lowest.
#[inline]
fn put(bytes: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Takes a number that [`put`] wrote.
#[inline]
fn take(bytes: &mut &[u8]) -> i64 {
    let mut value = 0_u64;
    let mut shift = 0;
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests;
