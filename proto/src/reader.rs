//! Reading traces back, packet by packet.
//!
//! A [`PacketReader`] takes any byte stream, plain or with compressed packets, and never holds more than one packet and one compressed block. A
//! file that ends within a packet is not an error, since that is what a killed writer leaves: see [`PacketReader::truncation`].

use std::io::{self, Cursor, Read};
use std::ops::Range;

use flate2::bufread::ZlibDecoder;
use prost::Message;
use thiserror::Error;

use crate::fields::{packet, trace};
use crate::message::{Fields, Value};
use crate::schema::TracePacket;
use crate::wire;

/// Longest packet that a reader takes by default.
pub const PACKET_BYTES_MAX: u64 = 256 << 20;

/// Why a packet could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The stream failed.
    #[error("cannot read the trace")]
    Io(#[from] io::Error),
    /// The stream is not a sequence of packets; what follows cannot be found.
    #[error("byte {offset}: not the start of a packet, this is no Perfetto trace or it is damaged")]
    NotAPacket {
        /// Offset in the file.
        offset: u64,
    },
    /// A packet is longer than the limit; what follows is not read.
    #[error("byte {offset}: a packet of {length} bytes exceeds the limit")]
    TooLong {
        /// Offset in the file.
        offset: u64,
        /// Length that the packet claims.
        length: u64,
    },
    /// A packet's content is malformed; the next one can be read.
    #[error("byte {offset}: a malformed packet")]
    Malformed {
        /// Offset in the file; for a packet in a compressed block, that of the block.
        offset: u64,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// A compressed block is damaged; the packet after it can be read.
    #[error("byte {offset}: a damaged block of compressed packets")]
    DamagedBlock {
        /// Offset in the file.
        offset: u64,
    },
}

/// The end of a file that lacks the rest of its last packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Where the incomplete packet begins: the length of the valid trace before it.
    pub offset: u64,
    /// Bytes of it that are there.
    pub bytes: u64,
}

/// The packets of a compressed block.
pub(crate) type BlockStream = ZlibDecoder<Cursor<Vec<u8>>>;

/// The packets of a trace, those of compressed blocks among them, in file order.
#[derive(Debug)]
pub struct PacketReader<R> {
    file: Framer<R>,
    /// The compressed block that is being read, and its offset.
    block: Option<(Framer<BlockStream>, u64)>,
    /// The memory of the block before.
    spare: Vec<u8>,
    truncation: Option<Truncation>,
    finished: bool,
    packed_bytes: u64,
    unpacked_bytes: u64,
}

/// Where a packet lies.
enum Place {
    File(Range<usize>),
    Block(Range<usize>),
}

impl<R: Read> PacketReader<R> {
    /// A reader of `stream`, which needs no buffering of its own.
    pub fn new(stream: R) -> Self {
        Self::with_limit(stream, PACKET_BYTES_MAX)
    }

    /// A reader that refuses packets of more than `packet_bytes_max` bytes.
    pub fn with_limit(stream: R, packet_bytes_max: u64) -> Self {
        Self {
            file: Framer::new(stream, packet_bytes_max, Vec::new(), FILE_BUFFER_BYTES),
            block: None,
            spare: Vec::new(),
            truncation: None,
            finished: false,
            packed_bytes: 0,
            unpacked_bytes: 0,
        }
    }

    /// After the last packet: whether the file ends within another one.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// Bytes of the file that have been read as packets.
    pub fn offset(&self) -> u64 {
        self.file.offset()
    }

    /// Bytes of packets that have been read, counted as they are outside of compressed blocks.
    pub fn plain_bytes(&self) -> u64 {
        let block = self.block.as_ref().map_or(0, |(block, _)| block.offset());
        (self.offset() + self.unpacked_bytes + block).saturating_sub(self.packed_bytes)
    }

    /// Whether some packets came in compressed blocks.
    pub fn has_compressed_packets(&self) -> bool {
        self.packed_bytes > 0
    }

    /// The next packet, encoded. `None` at the end, also at that of a truncated file.
    pub fn next_encoded(&mut self) -> Result<Option<&[u8]>, ReadError> {
        match self.advance()? {
            None => Ok(None),
            Some(place) => Ok(Some(self.bytes(place))),
        }
    }

    /// The next packet, decoded.
    pub fn next_packet(&mut self) -> Result<Option<TracePacket>, ReadError> {
        let Some(place) = self.advance()? else {
            return Ok(None);
        };
        let offset = self.packet_offset();
        TracePacket::decode(self.bytes(place))
            .map(Some)
            .map_err(|source| ReadError::Malformed { offset, source })
    }

    /// Where the packet that was read last begins in the file; for one in a compressed block, where the block begins.
    pub fn packet_offset(&self) -> u64 {
        let block = self.block.as_ref().map(|(_, offset)| *offset);
        block.unwrap_or(self.file.packet_start)
    }

    fn bytes(&self, place: Place) -> &[u8] {
        match (place, &self.block) {
            (Place::File(range), _) => &self.file.buffer[range],
            (Place::Block(range), Some((block, _))) => &block.buffer[range],
            (Place::Block(_), None) => &[],
        }
    }

    /// Reads the next packet and returns its place.
    fn advance(&mut self) -> Result<Option<Place>, ReadError> {
        if self.finished {
            return Ok(None);
        }
        loop {
            if let Some((block, offset)) = &mut self.block {
                let offset = *offset;
                match block.read() {
                    Ok(Frame::Packet(range))
                        if compressed_packets(&block.buffer[range.clone()]).is_none() =>
                    {
                        return Ok(Some(Place::Block(range)));
                    }
                    Ok(Frame::End) => self.end_block(),
                    // Blocks do not nest, and the file cannot end within a block whose packet is complete.
                    Ok(Frame::Packet(_) | Frame::Truncated(_)) | Err(_) => {
                        self.end_block();
                        return Err(ReadError::DamagedBlock { offset });
                    }
                }
                continue;
            }
            match self.file.read() {
                Ok(Frame::Packet(range)) => {
                    match compressed_packets(&self.file.buffer[range.clone()]) {
                        None => return Ok(Some(Place::File(range))),
                        Some(block) => {
                            self.packed_bytes += self.file.offset() - self.file.packet_start;
                            let block = range.start + block.start..range.start + block.end;
                            let block = Cursor::new(self.file.buffer[block].to_vec());
                            let framer = Framer::new(
                                ZlibDecoder::new(block),
                                self.file.packet_bytes_max,
                                std::mem::take(&mut self.spare),
                                BLOCK_BUFFER_BYTES,
                            );
                            self.block = Some((framer, self.file.packet_start));
                        }
                    }
                }
                Ok(Frame::End) => {
                    self.finished = true;
                    return Ok(None);
                }
                Ok(Frame::Truncated(truncation)) => {
                    self.finished = true;
                    self.truncation = Some(truncation);
                    return Ok(None);
                }
                Err(error) => {
                    self.finished = true;
                    return Err(error);
                }
            }
        }
    }

    fn end_block(&mut self) {
        if let Some((block, _)) = self.block.take() {
            self.unpacked_bytes += block.offset();
            self.spare = block.buffer;
        }
    }
}

impl<R: Read> Iterator for PacketReader<R> {
    type Item = Result<TracePacket, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_packet().transpose()
    }
}

/// Where the compressed packets are in a packet that has them.
#[inline]
pub(crate) fn compressed_packets(encoded: &[u8]) -> Option<Range<usize>> {
    // Such a packet has no time of its own, which most others begin with.
    const TIMESTAMP: u8 = wire::short_varint_key(packet::TIMESTAMP);
    match encoded.first() {
        Some(&TIMESTAMP) => None,
        _ => find_compressed_packets(encoded),
    }
}

fn find_compressed_packets(encoded: &[u8]) -> Option<Range<usize>> {
    const KEY: u32 = wire::bytes_key(packet::COMPRESSED_PACKETS);
    // The key has two bytes, which few of the rest hold.
    const BYTES: [u8; 2] = [(KEY & 0x7F) as u8 | 0x80, (KEY >> 7) as u8];
    if !encoded.windows(2).any(|pair| pair == BYTES) {
        return None;
    }
    // A merger may have put other fields around them, so look at all keys.
    let mut fields = Fields::new(encoded);
    while let Some(Ok(field)) = fields.next() {
        if let (packet::COMPRESSED_PACKETS, Value::Bytes(bytes)) = (field.number, field.value) {
            let end = encoded.len() - fields.rest().len();
            return Some(end - bytes.len()..end);
        }
    }
    None
}

/// What is read of a file at once.
pub(crate) const FILE_BUFFER_BYTES: usize = 512 << 10;
/// What is unpacked of a compressed block at once.
pub(crate) const BLOCK_BUFFER_BYTES: usize = 128 << 10;
/// Key and length of a packet, at most.
const HEAD_BYTES_MAX: usize = 11;

/// The packet whose framing begins at a place, if it is there as a whole.
#[inline]
pub(crate) fn packet_at(bytes: &[u8], place: usize) -> Option<Range<usize>> {
    const KEY: u8 = wire::short_bytes_key(trace::PACKET);
    let head = bytes.get(place..)?;
    let (mut length, mut at) = match *head {
        [KEY, length, ..] if length < 0x80 => (u64::from(length), 2),
        [KEY, low, high, ..] if high < 0x80 => (u64::from(low & 0x7F) | u64::from(high) << 7, 3),
        [KEY, ..] => (0, 1),
        _ => return None,
    };
    if at == 1 {
        loop {
            let byte = *head.get(at).filter(|_| at <= 9)?;
            length |= u64::from(byte & 0x7F) << (7 * (at - 1));
            at += 1;
            if byte < 0x80 {
                break;
            }
        }
    }
    let start = place + at;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.len()).then_some(start..end)
}

/// Cuts a stream into the packets of a `Trace` message, which are then in its buffer.
#[derive(Debug)]
pub(crate) struct Framer<R> {
    stream: R,
    buffer: Vec<u8>,
    /// What was read and not handed out yet.
    unread: Range<usize>,
    /// Offset in the stream of the buffer's first byte.
    buffer_offset: u64,
    packet_start: u64,
    packet_bytes_max: u64,
    at_end: bool,
}

pub(crate) enum Frame {
    Packet(Range<usize>),
    End,
    Truncated(Truncation),
}

impl<R: Read> Framer<R> {
    pub(crate) fn new(stream: R, packet_bytes_max: u64, mut buffer: Vec<u8>, bytes: usize) -> Self {
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        Self {
            stream,
            buffer,
            unread: 0..0,
            buffer_offset: 0,
            packet_start: 0,
            packet_bytes_max,
            at_end: false,
        }
    }

    /// Where in the stream the next packet begins.
    fn offset(&self) -> u64 {
        self.buffer_offset + self.unread.start as u64
    }

    /// Where in the stream the packet begins that was read last.
    pub(crate) fn packet_start(&self) -> u64 {
        self.packet_start
    }

    /// What the ranges of packets are about.
    pub(crate) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// After a packet: where it and those behind it lie, framing included, as far as they are in the buffer and `fits` says.
    pub(crate) fn extend(
        &mut self,
        first: Range<usize>,
        fits: impl Fn(&[u8]) -> bool,
    ) -> Range<usize> {
        let whole = self.packet_range(first.clone());
        let read = &self.buffer[..self.unread.end];
        let mut end = first.end;
        while let Some(range) = packet_at(read, end)
            && fits(&read[range.clone()])
        {
            end = range.end;
        }
        self.unread.start = end;
        whole.start..end
    }

    /// Where the packet lies that was read last, framing included.
    pub(crate) fn packet_range(&self, packet: Range<usize>) -> Range<usize> {
        let head = (self.offset() - self.packet_start) as usize - packet.len();
        packet.start - head..packet.end
    }

    #[inline]
    pub(crate) fn read(&mut self) -> Result<Frame, ReadError> {
        const KEY: u8 = wire::short_bytes_key(trace::PACKET);
        self.packet_start = self.offset();
        if self.unread.len() < HEAD_BYTES_MAX {
            self.fill(HEAD_BYTES_MAX)?;
        }
        let head = &self.buffer[self.unread.clone()];
        match head.first() {
            None => return Ok(Frame::End),
            Some(&KEY) => {}
            Some(_) => {
                return Err(ReadError::NotAPacket {
                    offset: self.packet_start,
                });
            }
        }
        let mut length = 0_u64;
        let mut at = 1;
        loop {
            let Some(&byte) = head.get(at) else {
                return Ok(self.truncated());
            };
            if at > 9 {
                return Err(ReadError::NotAPacket {
                    offset: self.packet_start,
                });
            }
            length |= u64::from(byte & 0x7F) << (7 * (at - 1));
            at += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        if length > self.packet_bytes_max {
            return Err(ReadError::TooLong {
                offset: self.packet_start,
                length,
            });
        }
        let Ok(length) = usize::try_from(length) else {
            return Ok(self.truncated());
        };
        if self.unread.len() < at + length {
            self.fill(at + length)?;
            if self.unread.len() < at + length {
                return Ok(self.truncated());
            }
        }
        let start = self.unread.start + at;
        self.unread.start = start + length;
        Ok(Frame::Packet(start..start + length))
    }

    /// Reads until `wanted` bytes are there, or the stream ends.
    #[cold]
    fn fill(&mut self, wanted: usize) -> Result<(), ReadError> {
        while self.unread.len() < wanted && !self.at_end {
            if self.unread.end == self.buffer.len() {
                if self.unread.start > 0 {
                    self.buffer.copy_within(self.unread.clone(), 0);
                    self.buffer_offset += self.unread.start as u64;
                    self.unread = 0..self.unread.len();
                } else {
                    // Grows with the bytes that are there, not with the length that is claimed.
                    self.buffer.resize(2 * self.buffer.len(), 0);
                }
            }
            match self.stream.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.unread.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn truncated(&self) -> Frame {
        Frame::Truncated(Truncation {
            offset: self.packet_start,
            bytes: self.unread.len() as u64,
        })
    }
}
