//! Reading traces back in blocks of whole packets, so that one thread can unpack while another decodes.
//!
//! The packets, their order and the errors are those of [`PacketReader`](crate::reader::PacketReader). Compressed packets are unpacked at once,
//! which is three times as fast as by and by; those that are damaged or very large still are unpacked by and by.

use std::io::{Cursor, Read};
use std::ops::Range;

use flate2::bufread::ZlibDecoder;
use libdeflater::{DecompressionError, Decompressor};

use crate::reader::{
    BLOCK_BUFFER_BYTES, BlockStream, FILE_BUFFER_BYTES, Frame, Framer, PACKET_BYTES_MAX, ReadError,
    Truncation, compressed_packets, packet_at,
};

/// A compressed packet that holds more than this is unpacked by and by.
const UNPACKED_BYTES_MAX: usize = 16 << 20;
/// What a compressed packet is expected to hold at most: ours do.
const UNPACKED_BYTES: usize = crate::writer::BLOCK_BYTES;

/// Packets that follow one another.
#[derive(Debug, Default)]
pub struct Block {
    /// The packets, and behind them what blocks before have left.
    bytes: Vec<u8>,
    /// How much of it counts.
    length: usize,
    /// Where the block begins in the file; if it was compressed, where the packet that holds it does.
    offset: u64,
    is_compressed: bool,
    /// The packet that held these, framing included, if it is to be kept; else empty.
    packed: Vec<u8>,
}

impl Block {
    /// Reads the packet at `place` in the block and moves `place` behind it. `None` at the end of the block.
    ///
    /// # Errors
    /// When a compressed block holds something else than packets. What follows in it cannot be read.
    #[inline]
    pub fn packet(&self, place: &mut usize) -> Result<Option<&[u8]>, ReadError> {
        let bytes = &self.bytes[..self.length];
        if *place >= bytes.len() {
            return Ok(None);
        }
        match packet_at(bytes, *place) {
            Some(range) => {
                let packet = &bytes[range.clone()];
                if self.is_compressed && compressed_packets(packet).is_some() {
                    return Err(self.damaged());
                }
                *place = range.end;
                Ok(Some(packet))
            }
            None => Err(self.damaged()),
        }
    }

    /// Where the packet that begins at `place` begins in the file; if the block was compressed, where that does.
    #[must_use]
    pub fn offset_of(&self, place: usize) -> u64 {
        match self.is_compressed {
            true => self.offset,
            false => self.offset + place as u64,
        }
    }

    /// Bytes in the block.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether the packets came in a compressed one.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// The packets, in file format.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The compressed packet with exactly these packets, in file format; empty if there is none, or the reader does not keep it.
    #[must_use]
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    fn fill(&mut self, packets: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(packets);
        self.length = packets.len();
    }

    #[cold]
    fn damaged(&self) -> ReadError {
        ReadError::DamagedBlock {
            offset: self.offset,
        }
    }
}

/// The blocks of a trace, in file order.
pub struct BlockReader<R> {
    file: Framer<R>,
    inflate: Decompressor,
    /// A compressed packet that is unpacked by and by, and its offset.
    slow: Option<(Framer<BlockStream>, u64)>,
    truncation: Option<Truncation>,
    is_finished: bool,
    keeps_packed: bool,
}

impl<R> std::fmt::Debug for BlockReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("BlockReader")
            .field("truncation", &self.truncation)
            .finish_non_exhaustive()
    }
}

impl<R: Read> BlockReader<R> {
    /// A reader of `stream`, which needs no buffering of its own.
    pub fn new(stream: R) -> Self {
        Self {
            file: Framer::new(stream, PACKET_BYTES_MAX, Vec::new(), FILE_BUFFER_BYTES),
            inflate: Decompressor::new(),
            slow: None,
            truncation: None,
            is_finished: false,
            keeps_packed: false,
        }
    }

    /// Keeps with each compressed block the packet that it came in ([`Block::packed`]).
    #[must_use]
    pub fn keeping_packed(mut self) -> Self {
        self.keeps_packed = true;
        self
    }

    /// After the last block: whether the file ends within another packet.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// Reads the next block into `block`, whose memory is used again. `false` at the end, also at that of a truncated file.
    ///
    /// # Errors
    /// When the stream fails or is no trace any more, after which there are no more blocks, or when a compressed packet is damaged. Packets in
    /// front of the damage are in the block before.
    pub fn read(&mut self, block: &mut Block) -> Result<bool, ReadError> {
        block.length = 0;
        block.is_compressed = false;
        block.packed.clear();
        if self.slow.is_some() {
            return self.read_slowly(block);
        }
        if self.is_finished {
            return Ok(false);
        }
        let first = match self.file.read() {
            Ok(Frame::Packet(range)) => range,
            Ok(Frame::End) => {
                self.is_finished = true;
                return Ok(false);
            }
            Ok(Frame::Truncated(truncation)) => {
                self.is_finished = true;
                self.truncation = Some(truncation);
                return Ok(false);
            }
            Err(error) => {
                self.is_finished = true;
                return Err(error);
            }
        };
        block.offset = self.file.packet_start();
        match compressed_packets(&self.file.buffer()[first.clone()]) {
            Some(inner) => {
                block.is_compressed = true;
                let packed = first.start + inner.start..first.start + inner.end;
                self.unpack(first, packed, block)
            }
            None => {
                let run = self
                    .file
                    .extend(first, |packet| compressed_packets(packet).is_none());
                block.fill(&self.file.buffer()[run]);
                Ok(true)
            }
        }
    }

    /// Unpacks what is compressed in `packet` at once, or begins to unpack it by and by.
    fn unpack(
        &mut self,
        packet: Range<usize>,
        packed: Range<usize>,
        block: &mut Block,
    ) -> Result<bool, ReadError> {
        let packed = &self.file.buffer()[packed];
        let mut room = block.bytes.len().max(UNPACKED_BYTES);
        while room <= UNPACKED_BYTES_MAX {
            block.bytes.resize(room, 0);
            match self.inflate.zlib_decompress(packed, &mut block.bytes) {
                Ok(length) => {
                    block.length = length;
                    if self.keeps_packed {
                        let whole = self.file.packet_range(packet);
                        block.packed.extend_from_slice(&self.file.buffer()[whole]);
                    }
                    return Ok(true);
                }
                Err(DecompressionError::InsufficientSpace) => room *= 2,
                Err(DecompressionError::BadData) => break,
            }
        }
        let stream = ZlibDecoder::new(Cursor::new(packed.to_vec()));
        // Of what is damaged so much is lost as is unpacked at once.
        let framer = Framer::new(stream, PACKET_BYTES_MAX, Vec::new(), BLOCK_BUFFER_BYTES);
        self.slow = Some((framer, block.offset));
        self.read_slowly(block)
    }

    #[cold]
    fn read_slowly(&mut self, block: &mut Block) -> Result<bool, ReadError> {
        block.length = 0;
        block.is_compressed = true;
        let Some((framer, offset)) = &mut self.slow else {
            return Ok(true);
        };
        block.offset = *offset;
        match framer.read() {
            Ok(Frame::Packet(first)) => {
                let run = framer.extend(first, |_| true);
                block.fill(&framer.buffer()[run]);
                Ok(true)
            }
            Ok(Frame::End) => {
                self.slow = None;
                Ok(true)
            }
            // The file cannot end within a block whose packet is complete.
            Ok(Frame::Truncated(_)) | Err(_) => {
                self.slow = None;
                Err(block.damaged())
            }
        }
    }
}
