//! Rows of numbers that arrive nearly in order, kept small.
//!
//! Rows wait until so many are there that the older half of them can be sorted and packed: as differences to the row before, in a few bytes.
//! What comes later than that is a run of its own. [`PackedRows::sort`] makes one run of all, which is read like a sorted list. Such a list may be moved to a
//! file ([`RowFile`]), or be in one from the first row on ([`PackedRows::in_file`]).

mod finder;
mod merging;
mod row_file;

use std::cell::RefCell;
use std::sync::Arc;

use crate::containers::sets::in_order;
pub use finder::Finder;
pub use row_file::RowFile;

/// So many numbers.
pub type Row<const N: usize> = [u64; N];

/// Rows that wait for those that should stand in front of them.
const WAITING: usize = 1 << 13;
/// Rows that are unpacked at once.
const CHUNK_ROWS: usize = 64;
/// The same of rows in a file, which are read one after the other: of each chunk the first row stays in memory.
const CHUNK_ROWS_IN_FILE: usize = 256;
/// Packed rows are kept in pieces of this size, so that growing moves nothing.
const PIECE_BYTES: usize = 1 << 20;
/// The same of rows in a file: of each list the last piece stays in memory, and each thread may have a list.
const PIECE_BYTES_IN_FILE: usize = 1 << 17;
/// Runs at most: many owners whose rows take turns begin one after the other.
const RUNS_MAX: usize = 64;
/// Bytes of all runs that stay in memory where rows go to a file.
const KEPT_BYTES: usize = 1 << 18;

/// Rows of `N` numbers.
#[derive(Debug, Default)]
pub struct PackedRows<const N: usize> {
    waiting: Vec<Row<N>>,
    runs: Vec<Run<N>>,
    /// Where packed rows go as they come.
    file: Option<Arc<RowFile>>,
    /// What was unpacked last.
    chunk: RefCell<Chunk<N>>,
}

/// Rows in order, packed.
#[derive(Debug)]
struct Run<const N: usize> {
    pieces: Vec<Piece>,
    /// Of each chunk its first row, and where the others are: the piece and the place in it.
    chunks: Vec<(Row<N>, u32, u32)>,
    /// Rows of each chunk but the last.
    chunk_rows: usize,
    last: Row<N>,
    length: usize,
    /// How often its rows were packed again because there were too many runs.
    level: usize,
}

/// Some chunks behind each other.
#[derive(Debug)]
enum Piece {
    Kept(Vec<u8>),
    /// The first byte in the file, and how many there are.
    Moved(Arc<RowFile>, u64, u32),
}

impl Piece {
    /// Moves it to a file, if that has room.
    fn move_to(&mut self, file: &Arc<RowFile>) {
        if let Self::Kept(bytes) = self
            && let Some(first) = file.append(bytes)
        {
            *self = Self::Moved(Arc::clone(file), first, bytes.len() as u32);
        }
    }

    /// The bytes that are in memory.
    fn kept_bytes(&self) -> usize {
        match self {
            Self::Kept(bytes) => bytes.len(),
            Self::Moved(..) => 0,
        }
    }
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
    /// None so far. What is packed goes to a file, so that memory hardly grows with the number of rows. Where the file has no room they stay in memory.
    #[must_use]
    pub fn in_file(file: &Arc<RowFile>) -> Self {
        Self {
            file: Some(Arc::clone(file)),
            ..Self::default()
        }
    }

    /// Adds a row.
    #[inline]
    pub fn push(&mut self, row: Row<N>) {
        in_order::push(&mut self.waiting, row);
        if self.waiting.len() == WAITING {
            self.store(WAITING / 2);
        }
    }

    /// Takes back rows that came last, as far as they still wait.
    #[inline]
    pub(crate) fn pop_while(&mut self, goes: impl Fn(&Row<N>) -> bool) {
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
            if self.runs.len() == RUNS_MAX {
                merging::merge_level(&mut self.runs, self.file.as_ref());
            }
            self.runs.push(Run::new(self.file.is_some()));
            self.runs.len() - 1
        });
        let (run, file) = (&mut self.runs[place], self.file.as_ref());
        self.waiting
            .drain(..count)
            .for_each(|row| run.push(row, file));
        if let Some(file) = file {
            let kept: usize = self.runs.iter().map(Run::kept_bytes).sum();
            if kept > KEPT_BYTES {
                let runs = self.runs.iter_mut();
                runs.for_each(|run| run.move_whole_chunks(file));
            }
        }
    }

    /// Makes one list of all. Where more are added after this, they are read when the list is made again.
    pub fn sort(&mut self) {
        self.store(self.waiting.len());
        if self.runs.len() > 1 {
            self.settle(|_| true);
        }
        self.waiting = Vec::new();
        self.chunk = RefCell::default();
    }

    /// [`PackedRows::sort`], with the rows that `keep` wants: it is shown them in order.
    pub(crate) fn settle(&mut self, mut keep: impl FnMut(&Row<N>) -> bool) {
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
        let (mut settled, file) = (Run::new(self.file.is_some()), self.file.clone());
        let mut number = 0;
        self.drain(|row| {
            let stays = match first_gone {
                Some(gone) if number <= gone => number < gone,
                _ => keep(&row),
            };
            number += 1;
            if stays {
                settled.push(row, file.as_ref());
            }
        });
        self.runs.push(settled);
    }

    /// [`PackedRows::sort`], where `join` may make one of a row and the one behind it: it changes the first and returns true.
    pub fn unite(&mut self, mut join: impl FnMut(&mut Row<N>, &Row<N>) -> bool) {
        let (mut settled, file) = (Run::new(self.file.is_some()), self.file.clone());
        let mut last: Option<Row<N>> = None;
        self.drain(|row| {
            if !last.as_mut().is_some_and(|last| join(last, &row))
                && let Some(before) = last.replace(row)
            {
                settled.push(before, file.as_ref());
            }
        });
        if let Some(last) = last {
            settled.push(last, file.as_ref());
        }
        self.runs.push(settled);
    }

    /// Takes all rows out, in order.
    fn drain(&mut self, take: impl FnMut(Row<N>)) {
        self.store(self.waiting.len());
        self.waiting = Vec::new();
        self.chunk = RefCell::default();
        let runs = std::mem::take(&mut self.runs);
        merging::merge(runs, take);
    }

    /// Once settled: moves the rows to a file, from where they are read as they are needed. Where that has no room for them they stay.
    pub(crate) fn move_to(&mut self, file: &Arc<RowFile>) {
        for run in &mut self.runs {
            run.move_to(file);
            run.chunks.shrink_to_fit();
        }
        self.forget_chunk();
    }

    /// Gives back the memory of the rows that were read last.
    pub(crate) fn forget_chunk(&self) {
        self.chunk.replace(Chunk::default());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.runs.iter().map(|run| run.length).sum::<usize>()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Once settled: the number of the first row for which `is_before` does not hold; it holds for all in front of that, and for none behind.
    pub(crate) fn partition_point(&self, is_before: impl Fn(&Row<N>) -> bool) -> usize {
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
        number * run.chunk_rows + place
    }

    /// Once settled: a row by its number.
    #[inline]
    pub fn get(&self, number: usize) -> Option<Row<N>> {
        let run = self.runs.first().filter(|run| number < run.length)?;
        let chunk = number / run.chunk_rows;
        Some(self.with_chunk(run, chunk, |rows| rows[number % run.chunk_rows]))
    }

    /// Once settled: all rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<N>> {
        let runs = self.runs.iter().take(1);
        runs.flat_map(|run| {
            (0..run.chunks.len()).flat_map(|number| {
                let mut rows = Vec::with_capacity(run.chunk_rows);
                run.unpack(number, &mut rows);
                rows
            })
        })
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

impl<const N: usize> Run<N> {
    fn new(is_in_file: bool) -> Self {
        Self {
            pieces: Vec::new(),
            chunks: Vec::new(),
            chunk_rows: match is_in_file {
                true => CHUNK_ROWS_IN_FILE,
                false => CHUNK_ROWS,
            },
            last: [0; N],
            length: 0,
            level: 0,
        }
    }

    #[inline]
    fn push(&mut self, row: Row<N>, file: Option<&Arc<RowFile>>) {
        match self.pieces.last_mut() {
            Some(Piece::Kept(piece)) if !self.length.is_multiple_of(self.chunk_rows) => {
                for (value, before) in row.iter().zip(&self.last) {
                    put(piece, value.wrapping_sub(*before).cast_signed());
                }
            }
            _ => self.begin_chunk(row, file),
        }
        self.last = row;
        self.length += 1;
    }

    fn begin_chunk(&mut self, first: Row<N>, file: Option<&Arc<RowFile>>) {
        // A number takes ten bytes at most.
        let chunk_bytes = 10 * N * self.chunk_rows;
        let piece_bytes = match file {
            Some(_) => PIECE_BYTES_IN_FILE,
            None => PIECE_BYTES,
        };
        let has_room = |piece: &Piece| matches!(piece, Piece::Kept(bytes) if bytes.len() + chunk_bytes <= piece_bytes);
        if !self.pieces.last().is_some_and(has_room) {
            if let (Some(last), Some(file)) = (self.pieces.last_mut(), file) {
                last.move_to(file);
            }
            // Of many runs in a file most have few rows in memory.
            let bytes = match self.pieces.last() {
                Some(Piece::Kept(_)) => piece_bytes,
                _ => 0,
            };
            self.pieces.push(Piece::Kept(Vec::with_capacity(bytes)));
        }
        let number = self.pieces.len() - 1;
        let place = self.pieces[number].kept_bytes();
        self.chunks.push((first, number as u32, place as u32));
    }

    fn move_to(&mut self, file: &Arc<RowFile>) {
        self.pieces.iter_mut().for_each(|piece| piece.move_to(file));
    }

    /// [`Run::move_to`] for a run that grows: its last chunk stays, for there may be room in it.
    fn move_whole_chunks(&mut self, file: &Arc<RowFile>) {
        let (Some((_, piece, place)), Some(last)) =
            (self.chunks.last_mut(), self.pieces.last_mut())
        else {
            return;
        };
        let Piece::Kept(bytes) = last else { return };
        if *place == 0 {
            return;
        }
        let mut rest = bytes.split_off(*place as usize);
        last.move_to(file);
        match last {
            Piece::Kept(bytes) => bytes.append(&mut rest),
            Piece::Moved(..) => {
                self.pieces.push(Piece::Kept(rest));
                (*piece, *place) = (*piece + 1, 0);
            }
        }
    }

    /// The bytes in memory where all pieces but the last are in a file.
    fn kept_bytes(&self) -> usize {
        self.pieces.last().map_or(0, Piece::kept_bytes)
    }

    /// How many rows from the first one on `keep` wants: it is shown the one behind these as well.
    fn kept(&self, mut keep: impl FnMut(&Row<N>) -> bool) -> usize {
        let mut rows = Vec::new();
        for number in 0..self.chunks.len() {
            self.unpack(number, &mut rows);
            if let Some(place) = rows.iter().position(|row| !keep(row)) {
                return number * self.chunk_rows + place;
            }
        }
        self.length
    }

    /// Unpacks a chunk that is there.
    fn unpack(&self, number: usize, rows: &mut Vec<Row<N>>) {
        let (mut row, piece, place) = self.chunks[number];
        let count = (self.length - number * self.chunk_rows).min(self.chunk_rows);
        let moved;
        let mut packed = match &self.pieces[piece as usize] {
            Piece::Kept(bytes) => &bytes[place as usize..],
            Piece::Moved(file, first, bytes) => {
                let next = self.chunks.get(number + 1);
                let end = next.filter(|next| next.1 == piece);
                let end = end.map_or(*bytes, |next| next.2);
                moved = file.read(first + u64::from(place), first + u64::from(end));
                moved.as_slice()
            }
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
