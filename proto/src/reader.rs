//! Reading traces back, packet by packet.
//!
//! A [`PacketReader`] takes any byte stream, plain or with compressed packets, and never holds more than one packet and one compressed block. A
//! file that ends within a packet is not an error, since that is what a killed writer leaves: see [`PacketReader::truncation`].

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::ZlibDecoder;
use prost::Message;
use thiserror::Error;

use crate::fields::trace;
use crate::schema::TracePacket;
use crate::wire;

/// Longest packet that a reader takes unless told otherwise.
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
type BlockStream = BufReader<ZlibDecoder<Cursor<Vec<u8>>>>;

/// The packets of a trace, those of compressed blocks among them, in file order.
#[derive(Debug)]
pub struct PacketReader<R> {
    file: Framer<BufReader<R>>,
    /// The compressed block that is being read, and its offset.
    block: Option<(Framer<BlockStream>, u64)>,
    packet: Vec<u8>,
    truncation: Option<Truncation>,
    finished: bool,
}

impl<R: Read> PacketReader<R> {
    /// A reader of `stream`, which needs no buffering of its own.
    pub fn new(stream: R) -> Self {
        Self::with_limit(stream, PACKET_BYTES_MAX)
    }

    /// A reader that refuses packets of more than `packet_bytes_max` bytes.
    pub fn with_limit(stream: R, packet_bytes_max: u64) -> Self {
        Self {
            file: Framer::new(BufReader::with_capacity(64 << 10, stream), packet_bytes_max),
            block: None,
            packet: Vec::new(),
            truncation: None,
            finished: false,
        }
    }

    /// After the last packet: whether the file ends within another one.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// Bytes of the file that have been read.
    pub fn offset(&self) -> u64 {
        self.file.offset
    }

    /// The next packet, encoded. `None` at the end, also at that of a truncated file.
    pub fn next_encoded(&mut self) -> Result<Option<&[u8]>, ReadError> {
        if self.advance()? {
            Ok(Some(&self.packet))
        } else {
            Ok(None)
        }
    }

    /// The next packet, decoded.
    pub fn next_packet(&mut self) -> Result<Option<TracePacket>, ReadError> {
        if !self.advance()? {
            return Ok(None);
        }
        let offset = self
            .block
            .as_ref()
            .map_or(self.file.packet_start, |(_, offset)| *offset);
        TracePacket::decode(self.packet.as_slice())
            .map(Some)
            .map_err(|source| ReadError::Malformed { offset, source })
    }

    /// Reads the next packet into `self.packet`; whether there is one.
    fn advance(&mut self) -> Result<bool, ReadError> {
        if self.finished {
            return Ok(false);
        }
        loop {
            if let Some((block, offset)) = &mut self.block {
                let offset = *offset;
                match block.read(&mut self.packet) {
                    Ok(Frame::Packet) if compressed_packets(&self.packet).is_none() => {
                        return Ok(true);
                    }
                    Ok(Frame::End) => self.block = None,
                    // Blocks do not nest, and the file cannot end within a block whose packet is complete.
                    Ok(Frame::Packet | Frame::Truncated(_)) | Err(_) => {
                        self.block = None;
                        return Err(ReadError::DamagedBlock { offset });
                    }
                }
                continue;
            }
            match self.file.read(&mut self.packet) {
                Ok(Frame::Packet) => match compressed_packets(&self.packet) {
                    None => return Ok(true),
                    Some(range) => {
                        let block = Cursor::new(self.packet[range].to_vec());
                        let decoder = BufReader::new(ZlibDecoder::new(block));
                        self.block = Some((
                            Framer::new(decoder, self.file.packet_bytes_max),
                            self.file.packet_start,
                        ));
                    }
                },
                Ok(Frame::End) => {
                    self.finished = true;
                    return Ok(false);
                }
                Ok(Frame::Truncated(truncation)) => {
                    self.finished = true;
                    self.truncation = Some(truncation);
                    return Ok(false);
                }
                Err(error) => {
                    self.finished = true;
                    return Err(error);
                }
            }
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
fn compressed_packets(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    const KEY: u32 = wire::bytes_key(crate::fields::packet::COMPRESSED_PACKETS);
    let mut rest = packet;
    // A merger may have put other fields around them, so look at all keys.
    while !rest.is_empty() {
        let key = prost::encoding::decode_varint(&mut rest).ok()?;
        let skip = match key & 7 {
            0 => {
                prost::encoding::decode_varint(&mut rest).ok()?;
                0
            }
            1 => 8,
            2 => usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?,
            5 => 4,
            _ => return None,
        };
        let start = packet.len() - rest.len();
        rest = rest.get(skip..)?;
        if key == u64::from(KEY) {
            return Some(start..start + skip);
        }
    }
    None
}

/// Cuts a stream into the packets of a `Trace` message.
#[derive(Debug)]
struct Framer<R> {
    stream: R,
    offset: u64,
    packet_start: u64,
    packet_bytes_max: u64,
}

enum Frame {
    Packet,
    End,
    Truncated(Truncation),
}

impl<R: BufRead> Framer<R> {
    fn new(stream: R, packet_bytes_max: u64) -> Self {
        Self {
            stream,
            offset: 0,
            packet_start: 0,
            packet_bytes_max,
        }
    }

    fn read(&mut self, packet: &mut Vec<u8>) -> Result<Frame, ReadError> {
        const KEY: u8 = wire::short_bytes_key(trace::PACKET);
        self.packet_start = self.offset;
        match self.byte()? {
            None => return Ok(Frame::End),
            Some(KEY) => {}
            Some(_) => {
                return Err(ReadError::NotAPacket {
                    offset: self.packet_start,
                });
            }
        }
        let mut length = 0_u64;
        for shift in (0..).step_by(7) {
            let Some(byte) = self.byte()? else {
                return Ok(self.truncated());
            };
            if shift > 56 {
                return Err(ReadError::NotAPacket {
                    offset: self.packet_start,
                });
            }
            length |= u64::from(byte & 0x7F) << shift;
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
        packet.clear();
        // Grows with the bytes that are there, not with the length that is claimed.
        let read = self.stream.by_ref().take(length).read_to_end(packet)? as u64;
        self.offset += read;
        Ok(if read == length {
            Frame::Packet
        } else {
            self.truncated()
        })
    }

    fn truncated(&self) -> Frame {
        Frame::Truncated(Truncation {
            offset: self.packet_start,
            bytes: self.offset - self.packet_start,
        })
    }

    fn byte(&mut self) -> Result<Option<u8>, ReadError> {
        let byte = loop {
            match self.stream.fill_buf() {
                Ok(buffer) => break buffer.first().copied(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        };
        if byte.is_some() {
            self.stream.consume(1);
            self.offset += 1;
        }
        Ok(byte)
    }
}
