//! Damage in a file of PyTorch's profiler costs what it is in, and nothing else.

use proptest::collection::vec;
use proptest::prelude::*;
use rsys_traces::model::Kinds;

use super::read_bytes;

const EVENTS: usize = 7;

fn event(number: usize) -> String {
    format!(
        r#"
  {{
    "ph": "X", "cat": "kernel", "name": "kernel {number}\"", "pid": 0, "tid": 7,
    "ts": {number}.000, "dur": 0.500,
    "args": {{
      "Input Dims": [[4096], [], [8192, {{"a": 1}}]], "text": "}}], {{", "device": 0, "grid": [1, 1, 1], "stream": 7
    }}
  }}"#
    )
}

/// The document, and where its events begin and end.
fn document() -> (String, Vec<(usize, usize)>) {
    let mut text = "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [".to_owned();
    let mut places = Vec::new();
    for number in 0..EVENTS {
        if number > 0 {
            text.push(',');
        }
        let start = text.len();
        text += &event(number);
        places.push((start, text.len()));
    }
    text += "\n  ],\n  \"distributedInfo\": {\"rank\": 5}\n}";
    (text, places)
}

/// The times of the records in nanoseconds.
fn starts(bytes: &[u8]) -> Vec<u64> {
    let (_, batch) = read_bytes(bytes, Kinds::ALL);
    batch.gpu.iter().map(|record| record.start_ns).collect()
}

fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        prop::sample::select(b"\"{}[]\\,: \n\0x5".as_slice()),
        any::<u8>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn other_events_are_read(
        damaged in 0..EVENTS,
        changes in vec((any::<prop::sample::Index>(), byte()), 1..6),
        removed in 0..40_usize,
    ) {
        let (text, places) = document();
        let (start, end) = places[damaged];
        let mut bytes = text.into_bytes();
        for (at, byte) in changes {
            // The bracket that begins an event and what is in front of it are how the next one is
            // known.
            bytes[start + 4 + at.index(end - start - 4)] = byte;
        }
        bytes.drain(end - removed..end);
        let found = starts(&bytes);
        for number in (0..EVENTS).filter(|number| *number != damaged) {
            let start_ns = 1_000 * number as u64;
            prop_assert!(found.contains(&start_ns), "{number} in {found:?}\n{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn any_bytes_are_read_to_their_end(
        start in prop::sample::select(["{", "[", "{\"traceEvents\":[", "[{\"ph\":\"X\",\"args\":{"].as_slice()),
        bytes in vec(byte(), 0..200),
    ) {
        starts(&[start.as_bytes(), &bytes].concat());
    }
}
