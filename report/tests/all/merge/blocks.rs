//! What is copied as it is: compressed blocks, and ids of sequences.

use crate::common::{FIRST, Scratch, contents, merge_all};
use rsys_proto::{
    Compression, Event, EventKind, Name, NamedTrack, ProcessNamespace, ProcessTrack, TraceWriter,
    TrackSequence,
};

/// An ordinary trace of a long run: compressed, with ids that no other process has, in some blocks.
fn long_and_compressed(pid: u32) -> Vec<u8> {
    let ids = ProcessNamespace::new("b00t", pid, 17, 0);
    let mut trace = TraceWriter::for_process(Vec::new(), Compression::Zlib, ids);
    let out = trace.buffer();
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid,
        name: "app",
        ..ProcessTrack::default()
    });
    for (number, name) in [(2, "calls"), (3, "kernels")] {
        out.track(&NamedTrack {
            uuid: ids.track(number),
            parent: Some(ids.track(1)),
            name,
            ..NamedTrack::default()
        });
    }
    let mut tracks = [2, 3].map(|number| TrackSequence::new(trace.buffer(), ids.track(number)));
    for number in 0..20_000 {
        let out = trace.buffer();
        let name = Name::Interned(out.intern("operation"));
        let flow = [ids.flow(number)];
        let [flows, terminating_flows] = [&flow[..], &[]];
        for (place, track) in tracks.iter_mut().enumerate() {
            let (flows, terminating_flows) = match place {
                0 => (flows, terminating_flows),
                _ => (terminating_flows, flows),
            };
            let event = Event {
                name,
                flows,
                terminating_flows,
                ..Event::default()
            };
            let start = 1_000_000 + number * 1000 + place as u64 * 100;
            track.event(out, start, EventKind::SliceBegin, &event);
            track.slice_end(out, start + 50 + number % 7);
        }
        trace.flush_if_full().unwrap();
    }
    trace.finish().unwrap()
}

#[test]
fn compressed_blocks_without_changes_are_copied_as_they_are() {
    let scratch = Scratch::new();
    let pids = [100, 101, 102];
    let alone = pids.map(long_and_compressed);
    let inputs: Vec<_> = pids
        .iter()
        .zip(&alone)
        .map(|(pid, bytes)| scratch.write(&format!("{pid}.proto"), bytes))
        .collect();
    let (merged, bytes) = merge_all(&scratch.0, &inputs).unwrap();
    // The first block of each describes the process and begins sequences.
    assert!(
        merged.kept_bytes > merged.plain_bytes / 2,
        "{} of {} bytes kept",
        merged.kept_bytes,
        merged.plain_bytes
    );
    assert!(
        merged.written_bytes <= merged.read_bytes + 1000,
        "{} bytes of {}",
        merged.written_bytes,
        merged.read_bytes
    );
    let all = contents(&bytes);
    let mut expected: Vec<_> = alone
        .iter()
        .flat_map(|bytes| contents(bytes).slices)
        .map(|slice| (slice.name, slice.start_ns, slice.end_ns, slice.flows))
        .collect();
    let mut found: Vec<_> = all
        .slices
        .into_iter()
        .map(|slice| (slice.name, slice.start_ns, slice.end_ns, slice.flows))
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found.len(), 120_000);
    assert!(found == expected);
    assert_eq!(all.sequences.len(), 1 + 3 * 3);
}

#[test]
fn sequence_ids_that_two_inputs_have_are_given_out_anew() {
    let scratch = Scratch::new();
    // Two processes of the same program whose ids are in the same place: the second is changed throughout.
    let trace = long_and_compressed(100);
    let inputs = [
        scratch.write("a.proto", &trace),
        scratch.write("b.proto", &[trace.clone(), FIRST.trace(|_| {})].concat()),
    ];
    let (merged, bytes) = merge_all(&scratch.0, &inputs).unwrap();
    let all = contents(&bytes);
    assert_eq!((all.slices.len(), all.open), (80_000, 0));
    assert!(merged.kept_bytes > 0 && merged.kept_bytes < merged.plain_bytes / 2);
}
