//! Blocks hold the packets, and end in the errors, that the reader of single packets has: of whole traces and of damaged ones.

use proptest::prelude::*;
use rsys_proto::blocks::{Block, BlockReader};
use rsys_proto::fields::{packet, trace};
use rsys_proto::message::{put_bytes, put_u64};
use rsys_proto::reader::PacketReader;
use rsys_proto::{Compressor, Effort};

/// Everything that a reader said of a file: packets and errors in order, and what was cut off.
type Said = (Vec<Result<Vec<u8>, String>>, Option<(u64, u64)>);

fn in_blocks(file: &[u8]) -> Said {
    let mut reader = BlockReader::new(file);
    let (mut said, mut block) = (Vec::new(), Block::default());
    loop {
        match reader.read(&mut block) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                said.push(Err(error.to_string()));
                continue;
            }
        }
        let mut place = 0;
        loop {
            match block.packet(&mut place) {
                Ok(Some(packet)) => said.push(Ok(packet.to_vec())),
                Ok(None) => break,
                Err(error) => {
                    said.push(Err(error.to_string()));
                    break;
                }
            }
        }
    }
    let cut = reader.truncation().map(|cut| (cut.offset, cut.bytes));
    (said, cut)
}

fn one_by_one(file: &[u8]) -> Said {
    let mut reader = PacketReader::new(file);
    let mut said = Vec::new();
    loop {
        match reader.next_encoded() {
            Ok(Some(packet)) => said.push(Ok(packet.to_vec())),
            Ok(None) => break,
            Err(error) => said.push(Err(error.to_string())),
        }
    }
    let cut = reader.truncation().map(|cut| (cut.offset, cut.bytes));
    (said, cut)
}

/// Packets in file format, some of them longer than what fits into one byte or two of length.
fn packets(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let mut packet = Vec::new();
        if number % 5 > 0 {
            put_u64(&mut packet, packet::TIMESTAMP, 1_000 * number);
        }
        let length = match number % 40 {
            7 => 300,
            39 => 20_000,
            short => short as usize,
        };
        put_bytes(
            &mut packet,
            packet::TRACK_EVENT,
            &vec![number as u8; length],
        );
        put_bytes(&mut bytes, trace::PACKET, &packet);
    }
    bytes
}

/// Plain packets, compressed ones, and plain ones.
fn file(plain: u64, packed: u64) -> Vec<u8> {
    let mut file = packets(plain);
    let mut compressor = Compressor::default();
    file.extend_from_slice(compressor.block(&packets(packed), Effort::Quick));
    file.extend(packets(plain / 2));
    file
}

/// A packet that holds compressed packets.
fn compressed(packets: &[u8]) -> Vec<u8> {
    let mut stream = vec![0; packets.len() + 1_000];
    let level = libdeflater::CompressionLvl::default();
    let mut zlib = libdeflater::Compressor::new(level);
    let length = zlib.zlib_compress(packets, &mut stream).unwrap();
    let (mut packet, mut file) = (Vec::new(), Vec::new());
    put_bytes(&mut packet, packet::COMPRESSED_PACKETS, &stream[..length]);
    put_bytes(&mut file, trace::PACKET, &packet);
    file
}

#[test]
fn whole_files_are_read_alike() {
    for (plain, packed) in [(0, 0), (3, 0), (0, 3), (2_000, 0), (300, 5_000)] {
        let file = file(plain, packed);
        let said = one_by_one(&file);
        assert!(in_blocks(&file) == said, "{plain} plain, {packed} packed");
        let (packets, cut) = said;
        assert!(packets.iter().all(Result::is_ok) && cut.is_none());
        assert_eq!(packets.len() as u64, plain + packed + plain / 2);
    }
}

#[test]
fn what_is_larger_than_usual_is_read_by_and_by() {
    // More than is unpacked at once, more than is expected, and a single packet that fills the block.
    for count in [40_000, 1_000] {
        let inner = packets(count);
        let file = [compressed(&inner), packets(3)].concat();
        assert!(
            in_blocks(&file) == one_by_one(&file),
            "{} bytes",
            inner.len()
        );
    }
    let mut long = Vec::new();
    put_bytes(&mut long, trace::PACKET, &vec![0x22; 5 << 20]);
    let file = [compressed(&long), long].concat();
    assert!(in_blocks(&file) == one_by_one(&file));
}

#[test]
fn compressed_packets_do_not_nest() {
    let nested = compressed(&[packets(3), compressed(&packets(2)), packets(1)].concat());
    let file = [nested, packets(4)].concat();
    let said = one_by_one(&file);
    assert!(said.0[3].is_err() && said.0.len() == 8, "{said:?}");
    assert!(in_blocks(&file) == said);
}

proptest! {
    #[test]
    fn files_that_are_cut_off_are_read_alike(share in 0.0..1.0_f64) {
        let file = file(50, 500);
        let file = &file[..(share * file.len() as f64) as usize];
        prop_assert!(in_blocks(file) == one_by_one(file));
    }

    #[test]
    fn damaged_files_are_read_alike(share in 0.0..1.0_f64, value in any::<u8>()) {
        let mut file = file(50, 500);
        let place = (share * (file.len() - 1) as f64) as usize;
        file[place] = value;
        prop_assert!(in_blocks(&file) == one_by_one(&file));
    }
}
