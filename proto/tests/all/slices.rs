//! Slices of several threads come back as they were written, from whole files, cut ones and damaged ones.

use std::collections::BTreeMap;

use crate::common::{Slice, packets, slices};
use proptest::prelude::*;
use rsys_proto::reader::PacketReader;
use rsys_proto::resolve::Resolver;
use rsys_proto::{
    ClockReadings, Compression, DEPTH_MAX, ProcessNamespace, ProcessTrack, ThreadTrack,
    TraceWriter, TrackSequence,
};

/// One step of a generated thread: the time since the last one, and the name of a slice to open or `None` to close one.
type Step = (u64, Option<u8>);

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let delta = prop_oneof![Just(0_u64), 1..100_u64, 1..20_000_000_u64, 1..(1_u64 << 40)];
    let step = (delta, proptest::option::of(0..40_u8));
    proptest::collection::vec(proptest::collection::vec(step, 0..60), 1..5)
}

/// Writes the threads' steps, interleaved, and returns the file with the slices that should be in it.
fn write_steps(
    threads: &[Vec<Step>],
    compression: Compression,
    flush_every: usize,
) -> (Vec<u8>, Vec<Slice>) {
    let (mut files, expected) = write_parts(threads, compression, flush_every, usize::MAX);
    (files.remove(0), expected)
}

/// The same in several files: another after each `split_every` steps of the threads.
fn write_parts(
    threads: &[Vec<Step>],
    compression: Compression,
    flush_every: usize,
    split_every: usize,
) -> (Vec<Vec<u8>>, Vec<Slice>) {
    let ids = ProcessNamespace::new("boot", 1, 2, 3);
    let mut trace = TraceWriter::new(Vec::new(), compression);
    if split_every < usize::MAX {
        trace.buffer().keep_for_parts();
    }
    let mut files = Vec::new();
    trace.buffer().clock_snapshot(&ClockReadings {
        boottime_ns: 1_000,
        ..ClockReadings::default()
    });
    trace.buffer().process(&ProcessTrack {
        uuid: ids.track(0),
        pid: 7,
        name: "p",
        ..ProcessTrack::default()
    });
    let mut expected: Vec<Slice> = Vec::new();
    let mut states: Vec<_> = (0..threads.len())
        .map(|thread| {
            let uuid = ids.track(1 + thread as u32);
            trace.buffer().thread(&ThreadTrack {
                uuid,
                pid: 7,
                tid: 7 + thread as u32,
                name: "t",
                ..ThreadTrack::default()
            });
            (
                TrackSequence::new(trace.buffer(), uuid),
                1_000_000_u64,
                Vec::<usize>::new(),
            )
        })
        .collect();
    let mut written = 0;
    for index in 0..threads.iter().map(Vec::len).max().unwrap_or(0) {
        for (steps, (sequence, time, open)) in threads.iter().zip(&mut states) {
            let Some(&(delta, name)) = steps.get(index) else {
                continue;
            };
            *time += delta;
            match name {
                Some(name) => {
                    let name = format!("function {name}");
                    let id = trace.buffer().intern(&name);
                    sequence.slice_begin(trace.buffer(), *time, id);
                    expected.push((sequence.track(), *time, None, open.len(), name));
                    open.push(expected.len() - 1);
                }
                None => {
                    sequence.slice_end(trace.buffer(), *time);
                    if let Some(slice) = open.pop() {
                        expected[slice].2 = Some(*time);
                    }
                }
            }
            written += 1;
            if written % flush_every == 0 {
                trace.flush().unwrap();
            }
        }
        if (index + 1) % split_every == 0 {
            // Nothing that is still to come is older.
            let time_ns = states.iter().map(|(_, time, _)| *time).min().unwrap_or(0);
            files.push(trace.next_part(Vec::new(), time_ns).unwrap());
        }
    }
    expected.sort();
    files.push(trace.finish().unwrap());
    (files, expected)
}

/// The time of ended slices by track and name.
fn times(slices: &[Slice]) -> BTreeMap<(u64, &str), u64> {
    let mut times = BTreeMap::new();
    for (track, begin, end, _, name) in slices {
        if let Some(end) = end {
            *times.entry((*track, name.as_str())).or_insert(0) += end - begin;
        }
    }
    times.retain(|_, time| *time > 0);
    times
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nested_slices_survive(threads in steps(), zlib in any::<bool>(), flush_every in 1..50_usize) {
        let compression = if zlib { Compression::Zlib } else { Compression::None };
        let (file, expected) = write_steps(&threads, compression, flush_every);
        prop_assert_eq!(slices(&file), expected);
    }

    #[test]
    fn parts_open_alone_and_add_up(mut threads in steps(), zlib in any::<bool>(), split_every in 1..50_usize) {
        // What stays open would be open in the last file only.
        for steps in &mut threads {
            steps.extend(std::iter::repeat_n((1, None), steps.len()));
        }
        let compression = if zlib { Compression::Zlib } else { Compression::None };
        let (files, expected) = write_parts(&threads, compression, 20, split_every);
        let parts: Vec<Slice> = files.iter().flat_map(|file| slices(file)).collect();
        prop_assert!(parts.iter().all(|slice| slice.2.is_some()));
        prop_assert_eq!(times(&parts), times(&expected));
        // Behind each other they are one trace.
        let whole = slices(&files.concat());
        prop_assert_eq!(times(&whole), times(&expected));
        for file in &files[1..] {
            let has_process = packets(file).iter().any(|packet| {
                let descriptor = packet.track_descriptor.as_ref();
                descriptor.is_some_and(|descriptor| descriptor.process.is_some())
            });
            prop_assert!(has_process);
        }
    }

    #[test]
    fn hostile_bytes_are_errors_and_nothing_worse(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut resolver = Resolver::new();
        for mut packet in PacketReader::with_limit(bytes.as_slice(), 1 << 20).flatten() {
            resolver.observe(&mut packet);
        }
    }

    #[test]
    fn damaged_files_are_errors_and_nothing_worse(
        threads in steps(), zlib in any::<bool>(), flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8)
    ) {
        let compression = if zlib { Compression::Zlib } else { Compression::None };
        let (mut file, _) = write_steps(&threads, compression, 20);
        for (at, value) in flips {
            let at = at.index(file.len());
            file[at] = value;
        }
        let mut resolver = Resolver::new();
        for mut packet in PacketReader::with_limit(file.as_slice(), 1 << 20).flatten() {
            resolver.observe(&mut packet);
        }
    }
}

#[test]
fn a_file_cut_anywhere_loses_only_its_last_packet_or_block() {
    let steps: Vec<Step> = (0..40)
        .map(|step| (1_000 * step, (step % 3 != 2).then_some(step as u8 % 7)))
        .collect();
    for compression in [Compression::None, Compression::Zlib] {
        let (file, _) = write_steps(&[steps.clone(), steps.clone()], compression, 16);
        let whole = packets(&file);
        // Where packets or blocks end, and how many packets there are up to there.
        let mut ends = vec![(0, 0)];
        let mut reader = PacketReader::new(file.as_slice());
        while reader.next_encoded().unwrap().is_some() {
            let (offset, count) = (reader.offset(), ends.last().unwrap().1 + 1);
            match ends.last_mut() {
                Some(last) if last.0 == offset => last.1 = count,
                _ => ends.push((offset, count)),
            }
        }
        assert_eq!(ends.last().unwrap(), &(file.len() as u64, whole.len()));
        for cut in 0..file.len() {
            let mut reader = PacketReader::new(&file[..cut]);
            let read: Vec<_> = reader.by_ref().collect::<Result<_, _>>().unwrap();
            let &(end, count) = ends
                .iter()
                .rev()
                .find(|(end, _)| *end <= cut as u64)
                .unwrap();
            assert_eq!(read, whole[..count], "cut at {cut}");
            assert_eq!(
                reader.truncation().map(|truncation| truncation.offset),
                (end != cut as u64).then_some(end),
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn late_events_keep_their_times_and_do_not_move_the_others() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    let mut sequence = TrackSequence::new(out, 9);
    let name = out.intern("kernel");
    for (begin, end) in [
        (5_000, 6_000),
        (1_000, 2_000),
        (3_000, 4_000),
        (7_000, 7_000),
        (8_000, 9_000),
    ] {
        sequence.slice_begin(out, begin, name);
        sequence.slice_end(out, end);
    }
    let read: Vec<_> = slices(&trace.finish().unwrap())
        .into_iter()
        .map(|slice| (slice.1, slice.2.unwrap()))
        .collect();
    assert_eq!(
        read,
        [
            (1_000, 2_000),
            (3_000, 4_000),
            (5_000, 6_000),
            (7_000, 7_000),
            (8_000, 9_000)
        ]
    );
}

#[test]
fn too_deep_slices_and_ends_without_begin_are_left_out_and_counted() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    let mut sequence = TrackSequence::new(out, 9);
    let name = out.intern("recursive");
    sequence.slice_end(out, 1);
    for time in 0..u64::from(DEPTH_MAX) + 100 {
        sequence.slice_begin(out, 10 + time, name);
    }
    assert_eq!(sequence.open_slices(), DEPTH_MAX + 100);
    for time in 0..u64::from(DEPTH_MAX) + 100 {
        sequence.slice_end(out, 10_000 + time);
    }
    assert_eq!(
        (
            sequence.left_out().too_deep,
            sequence.left_out().unmatched_ends
        ),
        (100, 1)
    );
    let read = slices(&trace.finish().unwrap());
    assert_eq!(read.len(), DEPTH_MAX as usize);
    assert_eq!(
        read[0].2,
        Some(10_000 + u64::from(DEPTH_MAX) + 99),
        "the outermost slice ends last"
    );
}
