//! The packets of a trace, unpacked by a thread of their own or by the one that reads them.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rsys_proto::blocks::{Block, BlockReader};
use rsys_proto::reader::{ReadError, Truncation};

use crate::read::Input;

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
enum Source {
    /// A thread that unpacks them ahead of their use, and takes back those that were used.
    Thread(Receiver<Piece>, SyncSender<Block>),
    Reader(Box<BlockReader<Input>>),
}

/// The packets of a file.
#[derive(Debug)]
pub(super) struct Packets {
    source: Source,
    block: Block,
    /// Where in the block the next packet is.
    place: usize,
    /// Where the one before it began.
    last: usize,
    truncation: Option<Truncation>,
}

impl Packets {
    /// The packets of a file, unpacked by a thread of its own if they are to be there ahead of their use.
    pub(super) fn new(input: Input, is_ahead: bool) -> Self {
        let source = if is_ahead {
            let (filled, pieces) = sync_channel(BLOCKS);
            let (emptied, to_fill) = sync_channel(BLOCKS + 2);
            thread::spawn(move || unpack(input, &filled, &to_fill));
            Source::Thread(pieces, emptied)
        } else {
            Source::Reader(Box::new(BlockReader::new(input)))
        };
        Self {
            source,
            block: Block::default(),
            place: 0,
            last: 0,
            truncation: None,
        }
    }

    /// The next packet, encoded. `None` at the end, also at that of a truncated file.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
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
    pub(super) fn packet_offset(&self) -> u64 {
        self.block.offset_of(self.last)
    }

    /// After the last packet: whether the file ends within another one.
    pub(super) fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// Takes the next block that holds packets. `false` at the end.
    #[cold]
    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            self.place = 0;
            match &mut self.source {
                Source::Thread(pieces, emptied) => {
                    let used = std::mem::take(&mut self.block);
                    // Enough of them are under way when there is no room, or the end is reached.
                    emptied.try_send(used).ok();
                    match pieces.recv() {
                        Ok(Piece::Block(block)) => self.block = block,
                        Ok(Piece::Error(error)) => return Err(error),
                        Ok(Piece::Truncated(truncation)) => self.truncation = Some(truncation),
                        Err(_) => return Ok(false),
                    }
                }
                Source::Reader(reader) => {
                    if !reader.read(&mut self.block)? {
                        self.truncation = reader.truncation();
                        return Ok(false);
                    }
                }
            }
            if !self.block.is_empty() {
                return Ok(true);
            }
        }
    }
}

/// Unpacks a whole file, or as much of it as is wanted.
fn unpack(input: Input, filled: &SyncSender<Piece>, to_fill: &Receiver<Block>) {
    let mut reader = BlockReader::new(input);
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
