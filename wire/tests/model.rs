//! The ring under every interleaving and every allowed reordering that loom can find:
//! `cargo test -p rsys-wire --features model --test model --release`.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::thread;
use rsys_wire::ring::{Consumer, Drained, Producer, RingHeader};

struct Ring {
    header: RingHeader,
    words: Vec<AtomicU64>,
}

fn ring(words: usize) -> Arc<Ring> {
    Arc::new(Ring {
        header: RingHeader::new(),
        words: (0..words).map(|_| AtomicU64::new(0)).collect(),
    })
}

/// Records are two words `[n, !n]`; every one that was accepted arrives once, whole and in order,
/// also when the ring wraps around and when it was full in between.
#[test]
fn records_arrive_whole_and_in_order() {
    loom::model(|| {
        let shared = ring(4);
        let writer = Arc::clone(&shared);
        let producer = thread::spawn(move || {
            let ring = Producer::new(&writer.header, &writer.words).expect("a power of two");
            let mut accepted = Vec::new();
            for number in 1..=3_u64 {
                if let Some(mut record) = ring.begin(2) {
                    record.put(number);
                    record.put(!number);
                    record.commit();
                    accepted.push(number);
                }
            }
            accepted
        });
        let mut consumer = Consumer::new(&shared.header, &shared.words).expect("a power of two");
        let mut received = Vec::new();
        for _ in 0..2 {
            assert_ne!(consumer.drain(&mut received), Drained::Corrupt);
        }
        let accepted = producer.join().expect("the producer ends");
        assert_ne!(consumer.drain(&mut received), Drained::Corrupt);
        let numbers: Vec<u64> = received.chunks(2).map(|record| record[0]).collect();
        assert!(received.chunks(2).all(|record| record[1] == !record[0]));
        assert_eq!(numbers, accepted);
    });
}

/// A second thread that claims the ring after the first released it goes on where that one ended.
#[test]
fn a_recycled_ring_keeps_the_records_of_its_former_thread() {
    loom::model(|| {
        let shared = ring(8);
        let claim_and_write = |ring: &Ring, number: u64| {
            if !ring.header.claim(8) {
                return false;
            }
            let producer = Producer::new(&ring.header, &ring.words).expect("a power of two");
            if let Some(mut record) = producer.begin(1) {
                record.put(number);
                record.commit();
            }
            ring.header.release();
            true
        };
        let other = Arc::clone(&shared);
        let second = thread::spawn(move || claim_and_write(&other, 2));
        let first = claim_and_write(&shared, 1);
        let second = second.join().expect("the thread ends");
        let mut consumer = Consumer::new(&shared.header, &shared.words).expect("a power of two");
        let mut received = Vec::new();
        assert_ne!(consumer.drain(&mut received), Drained::Corrupt);
        received.sort_unstable();
        let expected: Vec<u64> = [(first, 1), (second, 2)]
            .iter()
            .filter(|(ok, _)| *ok)
            .map(|(_, n)| *n)
            .collect();
        assert_eq!(received, expected);
    });
}
