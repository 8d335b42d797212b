//! Writing blocks of packets to a file, plain or compressed.

use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use libdeflater::CompressionLvl;

use crate::buffer::PacketBuffer;
use crate::fields::{packet, trace};
use crate::ids::ProcessNamespace;
use crate::wire;

/// Pending bytes from which [`TraceWriter::flush_if_full`] writes, and the most that one compressed packet holds (a longer packet has one of its own).
pub const BLOCK_BYTES: usize = 256 << 10;

/// How hard to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As little as makes it worth it: 2 ns for each byte of calls and kernels.
    Light,
    /// As fast as zlib's first level with files a quarter smaller: an eighth smaller than [`Light`](Self::Light) for calls and kernels, for 2.5 times the time.
    Quick,
    /// A fifth smaller for samples, for more than twice the time: 4 ns for each byte. Calls and kernels get 3 % smaller, for up to ten times the time.
    Thorough,
}

/// The share of a processor that compressing one file may take with each effort; beyond, the next lower one is taken.
const THOROUGH_SHARE: f64 = 0.02;
const QUICK_SHARE: f64 = 0.05;

/// A few packets: of so many the clock says little.
const FEW_BYTES: usize = 1 << 14;

/// What compressing takes, in nanoseconds for each byte: it depends on what the bytes are, on the machine, and on what else it does.
#[derive(Debug, Clone, Copy)]
struct Costs {
    quick_ns: f64,
    thorough_ns: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            quick_ns: 4.0,
            thorough_ns: 5.0,
        }
    }
}

impl Costs {
    /// For a file that has grown by `bytes` in `time`.
    fn effort_for(self, bytes: usize, time: Duration) -> Effort {
        let share = |ns: f64| ns * bytes as f64 / 1e9 / time.as_secs_f64().max(1e-6);
        if share(self.thorough_ns) <= THOROUGH_SHARE {
            Effort::Thorough
        } else if share(self.quick_ns) <= QUICK_SHARE {
            Effort::Quick
        } else {
            Effort::Light
        }
    }

    /// Compressing `bytes` took `time`.
    fn took(&mut self, effort: Effort, bytes: usize, time: Duration) {
        if bytes < FEW_BYTES {
            return;
        }
        let ns = time.as_nanos() as f64 / bytes as f64;
        match effort {
            Effort::Light => {}
            Effort::Quick => self.quick_ns += (ns - self.quick_ns) / 4.0,
            Effort::Thorough => self.thorough_ns += (ns - self.thorough_ns) / 4.0,
        }
    }
}

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
    /// When this was last flushed, or made.
    flushed: Instant,
    costs: Costs,
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
            flushed: Instant::now(),
            costs: Costs::default(),
            broken: false,
        }
    }

    /// A writer of the trace of one process, whose sequence ids other processes hardly have: a merger can leave packets as they are.
    pub fn for_process(file: W, compression: Compression, ids: ProcessNamespace) -> Self {
        Self {
            pending: PacketBuffer::with_sequences(ids.sequence_base()),
            ..Self::new(file, compression)
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
            Compression::Zlib => {
                let begun = Instant::now();
                // Most processes of a build write no more than this, in one block or two: for 3 % less it would take three times as long.
                let so_far = self.written.uncompressed_bytes as usize + bytes.len();
                let effort = if so_far < FEW_BYTES {
                    Effort::Light
                } else {
                    let time = begun.duration_since(self.flushed);
                    self.costs.effort_for(bytes.len(), time)
                };
                COMPRESSOR.with_borrow_mut(|one| {
                    let block = one.block(bytes, effort);
                    self.costs.took(effort, bytes.len(), begun.elapsed());
                    write(block)
                })
            }
        };
        self.flushed = Instant::now();
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

    /// Ends the file and goes on in `next`, which opens alone: nothing in it refers to the file before. Returns the latter.
    ///
    /// `time_ns` (BOOTTIME) is the time from which `next` tells; what is open then ends here and goes on there. Call stacks that were interned in a
    /// [`SampleSequence`](crate::SampleSequence) count no more: begin another. The buffer has to have
    /// [kept](PacketBuffer::keep_for_parts) what `next` needs.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); this writer stays with its file then.
    pub fn next_part(&mut self, next: W, time_ns: u64) -> io::Result<W> {
        self.pending.end_part(time_ns);
        self.flush()?;
        self.written = Written::default();
        self.pending.begin_part(time_ns);
        Ok(std::mem::replace(&mut self.file, next))
    }

    /// What has been written to the file so far.
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
#[derive(Default)]
pub struct Compressor {
    light: Option<libdeflater::Compressor>,
    quick: Option<libdeflater::Compressor>,
    thorough: Option<libdeflater::Compressor>,
    stream: Vec<u8>,
    block: Vec<u8>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// The packets in `bytes`, which are whole ones in file format, as packets of compressed packets.
    pub fn block(&mut self, bytes: &[u8], effort: Effort) -> &[u8] {
        let (zlib, level) = match effort {
            Effort::Light => (&mut self.light, 1),
            Effort::Quick => (&mut self.quick, 6),
            Effort::Thorough => (&mut self.thorough, 9),
        };
        let zlib = zlib.get_or_insert_with(|| {
            let level = CompressionLvl::new(level).expect("libdeflate has levels 0 to 12");
            libdeflater::Compressor::new(level)
        });
        self.block.clear();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (chunk, remaining) = rest.split_at(whole_packets(rest, BLOCK_BYTES));
            let bound = zlib.zlib_compress_bound(chunk.len());
            self.stream.resize(bound.max(self.stream.len()), 0);
            let length = zlib
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn haste_is_for_those_who_write_much() {
        let second = Duration::from_secs(1);
        let mut costs = Costs::default();
        assert_eq!(costs.effort_for(1_000_000, second), Effort::Thorough);
        assert_eq!(costs.effort_for(1_000_000, second / 10), Effort::Quick);
        assert_eq!(costs.effort_for(1_000_000, second / 50), Effort::Light);
        assert_eq!(costs.effort_for(100_000, Duration::ZERO), Effort::Light);
        // What turns out to be dear is done with less effort.
        for _ in 0..20 {
            costs.took(Effort::Thorough, 1 << 20, second / 16);
        }
        assert_eq!(costs.effort_for(1_000_000, second), Effort::Quick);
        assert_eq!(costs.effort_for(100_000, second), Effort::Thorough);
    }

    #[test]
    fn all_efforts_hold_the_same() {
        let mut packets = Vec::new();
        for number in 0_u32..5000 {
            wire::put_message(&mut packets, trace::PACKET, |body| {
                wire::put_bytes(body, packet::TRACK_EVENT, &(number / 7).to_le_bytes());
            });
        }
        let mut compressor = Compressor::default();
        let lengths = [Effort::Light, Effort::Quick, Effort::Thorough].map(|effort| {
            let block = compressor.block(&packets, effort).to_vec();
            let (_, stream) =
                block.split_at(block.windows(2).position(|two| two[0] == 0x78).unwrap_or(0));
            let mut found = vec![0; packets.len()];
            let length = libdeflater::Decompressor::new().zlib_decompress(stream, &mut found);
            assert_eq!(length, Ok(packets.len()));
            assert!(found == packets);
            block.len()
        });
        assert!(lengths.is_sorted_by(|one, next| one >= next), "{lengths:?}");
    }
}
