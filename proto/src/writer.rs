//! Writing blocks of packets to a file, plain or compressed.

use std::cell::RefCell;
use std::io::{self, Write};

use libdeflater::CompressionLvl;

use crate::buffer::PacketBuffer;
use crate::fields::{packet, trace};
use crate::wire;

/// Pending bytes from which [`TraceWriter::flush_if_full`] writes, and the most that one compressed packet holds (a longer packet has one of its own).
pub const BLOCK_BYTES: usize = 256 << 10;

/// Level of libdeflate: as fast as zlib's first with files a quarter smaller. The next are twice as slow for 6 % less.
const LEVEL: i32 = 6;

thread_local! {
    /// Traces are many, and a compressor has half a megabyte: those that a thread writes share one.
    static COMPRESSOR: RefCell<Compressor> = RefCell::default();
}

/// Whether blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Plain packets.
    #[default]
    None,
    /// Blocks become `compressed_packets`, which every version of the Perfetto UI reads.
    Zlib,
}

/// What a [`TraceWriter`] has handed to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Bytes in the file.
    pub bytes: u64,
    /// Packets, those within compressed blocks counted one by one.
    pub packets: u64,
    /// Bytes before compression.
    pub uncompressed_bytes: u64,
}

/// A trace file that is a valid trace after every flush.
///
/// Sequences append to [`buffer`](Self::buffer); nothing reaches the file before [`flush`](Self::flush) or [`flush_if_full`](Self::flush_if_full),
/// and each of them is one `write_all` of whole packets. Dropping the writer does not flush.
#[derive(Debug)]
pub struct TraceWriter<W> {
    file: W,
    pending: PacketBuffer,
    compression: Compression,
    written: Written,
    broken: bool,
}

impl<W: Write> TraceWriter<W> {
    /// A writer to `file`, which should be empty: `file` needs no buffering of its own.
    pub fn new(file: W, compression: Compression) -> Self {
        Self {
            file,
            pending: PacketBuffer::new(),
            compression,
            written: Written::default(),
            broken: false,
        }
    }

    /// Where packets are appended.
    #[inline]
    pub fn buffer(&mut self) -> &mut PacketBuffer {
        &mut self.pending
    }

    /// Writes what is pending once it is [`BLOCK_BYTES`] or more.
    pub fn flush_if_full(&mut self) -> io::Result<()> {
        if self.pending.bytes().len() >= BLOCK_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes all that is pending.
    ///
    /// After an error the file may end within a block, so every further flush fails too, and what is pending stays, until
    /// [`recover`](Self::recover) is called.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other(
                "an earlier write to the trace file failed",
            ));
        }
        if self.pending.bytes().is_empty() {
            return Ok(());
        }
        let bytes = self.pending.bytes();
        let mut write = |block: &[u8]| {
            self.file
                .write_all(block)
                .and_then(|()| self.file.flush())?;
            Ok(block.len())
        };
        let written = match self.compression {
            Compression::None => write(bytes),
            Compression::Zlib => COMPRESSOR.with_borrow_mut(|one| write(one.block(bytes))),
        };
        match written {
            Ok(length) => self.written.bytes += length as u64,
            Err(error) => {
                self.broken = true;
                return Err(error);
            }
        }
        self.written.packets += self.pending.packets;
        self.written.uncompressed_bytes += self.pending.bytes().len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// What has been written so far.
    pub fn written(&self) -> Written {
        self.written
    }

    /// Packets that wait for a flush.
    pub fn pending_packets(&self) -> u64 {
        self.pending.packets
    }

    /// Whether a write failed. The file is a valid trace up to [`Written::bytes`].
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Goes on after a failed write. The caller has cut the file back to [`Written::bytes`] and its position is there.
    pub fn recover(&mut self) {
        self.broken = false;
    }

    /// The file.
    pub fn get_ref(&self) -> &W {
        &self.file
    }

    /// The file, for instance to cut it back after an error.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.file
    }

    /// Flushes and returns the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.file)
    }
}

/// Turns packets into `compressed_packets`, reusing its memory.
pub struct Compressor {
    zlib: libdeflater::Compressor,
    stream: Vec<u8>,
    block: Vec<u8>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Compressor {
    /// A compressor at the level that the traces of rsys have.
    pub fn new() -> Self {
        let level = CompressionLvl::new(LEVEL).expect("libdeflate has levels 0 to 12");
        Self {
            zlib: libdeflater::Compressor::new(level),
            stream: Vec::new(),
            block: Vec::new(),
        }
    }

    /// The packets in `bytes`, which are whole ones in file format, as packets of compressed packets.
    pub fn block(&mut self, bytes: &[u8]) -> &[u8] {
        self.block.clear();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (chunk, remaining) = rest.split_at(whole_packets(rest, BLOCK_BYTES));
            let bound = self.zlib.zlib_compress_bound(chunk.len());
            self.stream.resize(bound.max(self.stream.len()), 0);
            let length = self
                .zlib
                .zlib_compress(chunk, &mut self.stream)
                .expect("there is room for the worst case");
            let stream = &self.stream[..length];
            let start = self.block.len();
            wire::put_message(&mut self.block, trace::PACKET, |body| {
                wire::put_bytes(body, packet::COMPRESSED_PACKETS, stream)
            });
            // A handful of packets can grow by compression; plain packets may stand between compressed ones.
            if self.block.len() - start >= chunk.len() {
                self.block.truncate(start);
                self.block.extend_from_slice(chunk);
            }
            rest = remaining;
        }
        &self.block
    }
}

/// Length of the longest run of whole packets at the start of `bytes` that has at most `limit` bytes, or of the first packet.
fn whole_packets(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let mut end = 0;
    while end < bytes.len() {
        let mut length = &bytes[end + 1..];
        let before = length.len();
        let body =
            prost::encoding::decode_varint(&mut length).expect("the buffer holds whole packets");
        let next = end + 1 + (before - length.len()) + body as usize;
        if end > 0 && next > limit {
            break;
        }
        end = next;
    }
    end
}
