//! Blocks, full disks and damage.

use std::io::{self, Write};

use crate::common::{packets, slices};
use prost::Message;
use rsys_proto::reader::PacketReader;
use rsys_proto::schema::TracePacket;
use rsys_proto::{Compression, TraceWriter, TrackSequence};

#[test]
fn large_flushes_are_split_into_blocks_of_limited_size() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::Zlib);
    let out = trace.buffer();
    let mut sequence = TrackSequence::new(out, 9);
    let name = out.intern("f");
    for time in 0..60_000 {
        sequence.slice_begin(out, time * 10, name);
        sequence.slice_end(out, time * 10 + 5);
    }
    let plain = out.bytes().len();
    let huge = out.intern(&"long".repeat(200_000));
    sequence.instant(out, 600_000, huge);
    assert!(plain > 4 * rsys_proto::BLOCK_BYTES);
    trace.flush().unwrap();
    let written = trace.written();
    let file = trace.finish().unwrap();
    assert!(file.len() < plain / 2, "{} of {plain}", file.len());
    assert_eq!(
        (written.bytes, written.packets),
        (file.len() as u64, 120_002)
    );
    assert_eq!(packets(&file).len(), 120_002);
    assert_eq!(slices(&file).len(), 60_000);
}

/// A file on a disk that gets full.
struct Full {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room - self.bytes.len());
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_writing_can_go_on_after_it() {
    let mut trace = TraceWriter::new(
        Full {
            bytes: Vec::new(),
            room: 200,
        },
        Compression::None,
    );
    let mut sequence = TrackSequence::new(trace.buffer(), 9);
    let name = trace.buffer().intern("function");
    let mut time = 0;
    let error = loop {
        sequence.slice_begin(trace.buffer(), time, name);
        sequence.slice_end(trace.buffer(), time + 1);
        time += 10;
        if let Err(error) = trace.flush() {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(trace.is_broken() && trace.flush().is_err());
    let valid = trace.written().bytes as usize;
    assert!(
        valid < trace.get_ref().bytes.len(),
        "the failed block was written in part"
    );
    let file = trace.get_mut();
    file.bytes.truncate(valid);
    file.room = 10_000;
    trace.recover();
    let file = trace.finish().unwrap();
    assert_eq!(slices(&file.bytes).len() as u64, time / 10);
}

#[test]
fn a_damaged_block_is_reported_and_the_packets_after_it_are_read() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::Zlib);
    let mut sequence = TrackSequence::new(trace.buffer(), 9);
    let name = trace.buffer().intern("function");
    for time in 0..100 {
        sequence.slice_begin(trace.buffer(), 10 * time, name);
        sequence.slice_end(trace.buffer(), 10 * time + 5);
    }
    let block = trace.finish().unwrap();
    let block = CompressedTrace::decode(block.as_slice()).unwrap().packet[0]
        .compressed_packets
        .clone()
        .unwrap();
    // Every shorter stream lacks data or its checksum.
    for cut in [
        0,
        1,
        2,
        50,
        block.len() / 2,
        block.len() - 4,
        block.len() - 1,
    ] {
        let mut file = Vec::new();
        for stream in [&block[..cut], &block] {
            let packet = TracePacket {
                compressed_packets: Some(stream.to_vec()),
                ..TracePacket::default()
            };
            file.push(0x0A);
            packet.encode_length_delimited(&mut file).unwrap();
        }
        let (read, errors): (Vec<_>, Vec<_>) =
            PacketReader::new(file.as_slice()).partition(Result::is_ok);
        assert_eq!(errors.len(), 1, "cut at {cut}");
        assert!(read.len() >= 201, "cut at {cut}: {}", read.len());
    }
}

/// A file as one message.
#[derive(Clone, PartialEq, Message)]
struct CompressedTrace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}
