//! The memory of a process in small blocks, each read once in a look and forgotten before the next.
//!
//! What Python's frames are made of lies far apart: thread states, frames, code objects. A thread that waits again has most of
//! it where it had it before, so the blocks of its look before are read at once, with one system call.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rsys_unwind::Memory;

/// Bytes of a block: some frames, or a code object's head, and no page's end within.
const BLOCK_BYTES: u64 = 512;
/// Blocks of one look, beyond which nothing more is read: 8 MiB.
const BLOCKS_MAX: usize = 1 << 14;
/// Blocks that are read at once: no system call takes more pieces.
const AT_ONCE: usize = 1024;

/// The memory of a process, for the time of one look.
#[derive(Debug)]
pub struct Blocks {
    pid: Pid,
    /// Where in `bytes` a block is, and whether it was asked for; no place where it cannot be read.
    places: RefCell<HashMap<u64, Place>>,
    bytes: RefCell<Vec<u8>>,
    /// The block that was asked for last: the next question is most likely about it as well.
    last: Cell<Option<(u64, usize)>>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    start: Option<usize>,
    asked: bool,
}

impl Blocks {
    /// That of process `pid`.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        Self {
            pid: Pid::from_raw(pid.cast_signed()),
            places: RefCell::default(),
            bytes: RefCell::default(),
            last: Cell::new(None),
        }
    }

    /// Begins a look, with the blocks of the one before.
    pub fn begin(&self, kept: &[u64]) {
        let mut places = self.places.borrow_mut();
        let mut bytes = self.bytes.borrow_mut();
        places.clear();
        self.last.set(None);
        bytes.clear();
        bytes.resize(kept.len() * BLOCK_BYTES as usize, 0);
        let bytes_at_once = AT_ONCE * BLOCK_BYTES as usize;
        let parts = kept.chunks(AT_ONCE).zip(bytes.chunks_mut(bytes_at_once));
        for (part, (blocks, piece)) in parts.enumerate() {
            let read = self.read(blocks, piece);
            // What follows a block that is gone is read when it is asked for.
            for (number, block) in blocks.iter().enumerate().take(read) {
                let place = Place {
                    start: Some(part * bytes_at_once + number * BLOCK_BYTES as usize),
                    asked: false,
                };
                places.insert(*block, place);
            }
        }
    }

    /// The blocks that were asked for since then, `most` of them at most.
    pub fn keep(&self, kept: &mut Vec<u64>, most: usize) {
        kept.clear();
        let places = self.places.borrow();
        let asked = places
            .iter()
            .filter(|(_, place)| place.asked && place.start.is_some());
        kept.extend(asked.map(|(block, _)| *block).take(most));
        kept.sort_unstable();
    }

    /// Reads blocks one behind the other, and says how many there are. Neighbours are one piece: the kernel looks each page of a
    /// piece up, which is most of the cost.
    fn read(&self, blocks: &[u64], bytes: &mut [u8]) -> usize {
        let neighbours = blocks.chunk_by(|one, next| one + 1 == *next);
        let piece = |blocks: &[u64]| RemoteIoVec {
            base: (blocks[0] * BLOCK_BYTES) as usize,
            len: blocks.len() * BLOCK_BYTES as usize,
        };
        let pieces: Vec<RemoteIoVec> = neighbours.map(piece).collect();
        let read = process_vm_readv(self.pid, &mut [IoSliceMut::new(bytes)], &pieces);
        read.unwrap_or(0) / BLOCK_BYTES as usize
    }

    /// Where the block is in `bytes`.
    fn place(&self, block: u64) -> Option<usize> {
        if let Some((last, start)) = self.last.get()
            && last == block
        {
            return Some(start);
        }
        let mut places = self.places.borrow_mut();
        let is_full = places.len() >= BLOCKS_MAX;
        let start = match places.get_mut(&block) {
            Some(place) => {
                place.asked = true;
                place.start
            }
            None if is_full => None,
            None => {
                let mut bytes = self.bytes.borrow_mut();
                let start = bytes.len();
                bytes.resize(start + BLOCK_BYTES as usize, 0);
                let piece = bytes.get_mut(start..).unwrap_or_default();
                let start = (self.read(&[block], piece) == 1).then_some(start);
                places.insert(block, Place { start, asked: true });
                start
            }
        }?;
        self.last.set(Some((block, start)));
        Some(start)
    }

    fn word(&self, address: u64) -> Option<u64> {
        let start = self.place(address / BLOCK_BYTES)? + (address % BLOCK_BYTES) as usize;
        let bytes = self.bytes.borrow();
        let word = bytes.get(start..start + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

impl Memory for Blocks {
    fn read_u64(&self, address: u64) -> Option<u64> {
        let first = self.word(address & !7)?;
        let shift = (address & 7) * 8;
        if shift == 0 {
            return Some(first);
        }
        let second = self.word((address & !7).checked_add(8)?)?;
        Some(first >> shift | second << (64 - shift))
    }

    fn read_u32(&self, address: u64) -> Option<u32> {
        if address & 7 > 4 {
            return Some(self.read_u64(address)? as u32);
        }
        Some((self.word(address & !7)? >> ((address & 7) * 8)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_anew_in_each_look_and_kept_blocks_at_once() {
        let blocks = Blocks::new(std::process::id());
        let words: Vec<Cell<u64>> = (0..1000_u64).map(|n| Cell::new(n << 32 | n)).collect();
        let at = |number: usize| words[number].as_ptr() as u64;
        blocks.begin(&[]);
        for number in [0, 999, 500] {
            let number_32 = number as u64;
            assert_eq!(
                blocks.read_u64(at(number)),
                Some(number_32 << 32 | number_32)
            );
            assert_eq!(blocks.read_u32(at(number) + 4), Some(number as u32));
            // Across two words, and across two blocks wherever they lie.
            if let Some(after) = words.get(number + 1) {
                let expected = words[number].get() >> 32 | after.get() << 32;
                assert_eq!(blocks.read_u64(at(number) + 4), Some(expected));
            }
        }
        words[0].set(7);
        assert_eq!(blocks.read_u64(at(0)), Some(0), "a look is one moment");
        let mut kept = Vec::new();
        blocks.keep(&mut kept, 100);
        assert!(kept.len() >= 3, "{kept:?}");
        // A block that is gone hides none of the others.
        kept.insert(1, 1);
        blocks.begin(&kept);
        assert_eq!(blocks.read_u64(at(0)), Some(7));
        assert_eq!(blocks.read_u64(at(999)), Some(999 << 32 | 999));
        blocks.keep(&mut kept, 100);
        assert!(kept.len() <= 3, "only what was asked for: {kept:?}");
        for nothing in [0, 8, u64::MAX - 7, u64::MAX, 1 << 63] {
            assert_eq!(blocks.read_u64(nothing), None, "{nothing:#x}");
        }
    }

    #[test]
    fn a_look_is_bounded() {
        let memory = vec![1_u8; (BLOCKS_MAX + 20) * BLOCK_BYTES as usize];
        let blocks = Blocks::new(std::process::id());
        blocks.begin(&[]);
        let start = memory.as_ptr() as u64;
        let read = (0..BLOCKS_MAX as u64 + 10)
            .filter(|number| blocks.read_u64(start + number * BLOCK_BYTES).is_some());
        assert_eq!(read.count(), BLOCKS_MAX);
        let mut kept = Vec::new();
        blocks.keep(&mut kept, 100);
        assert_eq!(kept.len(), 100);
    }
}
