//! Any bytes as a ring: counters, words, process information, datagram. The reader must end without a
//! crash and return no more than the ring holds. Run with `cargo fuzz run reader` in `wire/`.
#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use rsys_wire::handshake::{AgentSettings, Hello};
use rsys_wire::layout::{Geometry, info_entries};
use rsys_wire::record::Records;
use rsys_wire::ring::{Consumer, RingHeader};

const WORDS: usize = 256;

fuzz_target!(|data: &[u8]| {
    let _ = Hello::from_bytes(data).map(|hello| Geometry::of_hello(&hello));
    assert!(info_entries(data).count() <= data.len());
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(AgentSettings::from_line(text).ring_words.is_power_of_two());
    }
    let mut input = data.chunks_exact(8).map(|word| {
        u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]])
    });
    let header = RingHeader::new();
    let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    let Some(mut consumer) = Consumer::new(&header, &words) else { return };
    // Rounds of: some words anywhere in the ring, then a new head, then a drain.
    while let Some(head) = input.next() {
        for (place, word) in input.by_ref().take(32).enumerate() {
            words[(head as usize).wrapping_add(place) % WORDS].store(word, Ordering::Relaxed);
        }
        header.head.store(head, Ordering::Relaxed);
        let mut drained = Vec::new();
        consumer.drain(&mut drained);
        assert!(drained.len() <= WORDS);
        assert!(Records::new(&drained).count() <= WORDS);
    }
});
