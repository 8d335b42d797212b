//! The packets of a trace, unpacked by a thread of their own or by the one that reads them.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::blocks::{Block, BlockReader};
use crate::reader::{ReadError, Truncation};

/// Blocks under way between the thread that unpacks and the one that decodes.
const BLOCKS: usize = 4;

/// What the thread that unpacks hands over.
enum Piece {
    Block(Block),
    Error(ReadError),
    Truncated(Truncation),
}

/// Where blocks come from.
#[derive(Debug)]
enum Source<R> {
    /// A thread that unpacks them ahead of their use, and takes back those that were used.
    Thread(Receiver<Piece>, SyncSender<Block>),
    Reader(Box<BlockReader<R>>),
}

/// The blocks of a trace in file order, ahead of their use if that is wanted.
#[derive(Debug)]
pub struct Blocks<R> {
    source: Source<R>,
    truncation: Option<Truncation>,
}

impl<R: Read + Send + 'static> Blocks<R> {
    /// What `reader` reads, in the thread that asks.
    #[must_use]
    pub fn in_turn(reader: BlockReader<R>) -> Self {
        Self {
            source: Source::Reader(Box::new(reader)),
            truncation: None,
        }
    }

    /// What `reader` reads, in a thread of its own.
    #[must_use]
    pub fn ahead(reader: BlockReader<R>) -> Self {
        let (filled, pieces) = sync_channel(BLOCKS);
        let (emptied, to_fill) = sync_channel(BLOCKS + 2);
        thread::spawn(move || unpack(reader, &filled, &to_fill));
        Self {
            source: Source::Thread(pieces, emptied),
            truncation: None,
        }
    }

    /// After the last block: whether the file ends within another packet.
    #[must_use]
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// Puts the next block that holds packets in the place of `block`. `false` at the end, also at that of a truncated file.
    ///
    /// # Errors
    /// Those of [`BlockReader::read`].
    pub fn read(&mut self, block: &mut Block) -> Result<bool, ReadError> {
        loop {
            match &mut self.source {
                Source::Thread(pieces, emptied) => {
                    let used = std::mem::take(block);
                    // Enough of them are under way when there is no room, or the end is reached.
                    emptied.try_send(used).ok();
                    match pieces.recv() {
                        Ok(Piece::Block(next)) => *block = next,
                        Ok(Piece::Error(error)) => return Err(error),
                        Ok(Piece::Truncated(truncation)) => self.truncation = Some(truncation),
                        Err(_) => return Ok(false),
                    }
                }
                Source::Reader(reader) => {
                    if !reader.read(block)? {
                        self.truncation = reader.truncation();
                        return Ok(false);
                    }
                }
            }
            if !block.is_empty() {
                return Ok(true);
            }
        }
    }
}

/// The packets of a file.
#[derive(Debug)]
pub struct Packets<R> {
    blocks: Blocks<R>,
    block: Block,
    /// Where in the block the next packet is.
    place: usize,
    /// Where the one before it began.
    last: usize,
    has_compressed: bool,
}

impl<R: Read + Send + 'static> Packets<R> {
    /// The packets of a file, unpacked by a thread of its own if they are to be there ahead of their use.
    pub fn new(input: R, is_ahead: bool) -> Self {
        let reader = BlockReader::new(input);
        Self {
            blocks: if is_ahead {
                Blocks::ahead(reader)
            } else {
                Blocks::in_turn(reader)
            },
            block: Block::default(),
            place: 0,
            last: 0,
            has_compressed: false,
        }
    }

    /// The next packet, encoded. `None` at the end, also at that of a truncated file.
    ///
    /// # Errors
    /// Those of [`BlockReader::read`] and [`Block::packet`].
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "packets borrow the reader")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        if self.place >= self.block.len() && !self.advance()? {
            return Ok(None);
        }
        self.last = self.place;
        let packet = self.block.packet(&mut self.place);
        if packet.is_err() {
            self.place = usize::MAX;
        }
        packet
    }

    /// Where the packet that was read last begins in the file; for one in a compressed block, where the block begins.
    pub fn packet_offset(&self) -> u64 {
        self.block.offset_of(self.last)
    }

    /// After the last packet: whether the file ends within another one.
    pub fn truncation(&self) -> Option<Truncation> {
        self.blocks.truncation()
    }

    /// Whether some packets came in compressed blocks.
    pub fn has_compressed_packets(&self) -> bool {
        self.has_compressed
    }

    /// Takes the next block that holds packets. `false` at the end.
    #[cold]
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.place = 0;
        let is_there = self.blocks.read(&mut self.block)?;
        self.has_compressed |= is_there && self.block.is_compressed();
        Ok(is_there)
    }
}

/// Unpacks a whole file, or as much of it as is wanted.
fn unpack<R: Read>(
    mut reader: BlockReader<R>,
    filled: &SyncSender<Piece>,
    to_fill: &Receiver<Block>,
) {
    loop {
        let mut block = to_fill.try_recv().unwrap_or_default();
        let piece = match reader.read(&mut block) {
            Ok(true) => Piece::Block(block),
            Ok(false) => break,
            Err(error) => Piece::Error(error),
        };
        if filled.send(piece).is_err() {
            return;
        }
    }
    if let Some(truncation) = reader.truncation() {
        // Nobody needs it who does not wait for it.
        filled.send(Piece::Truncated(truncation)).ok();
    }
}
