//! Traces of other profilers beside ours: what the Perfetto SDK writes for rocprof-sys and rocprofv3.
//!
//! All their ranks use the same ids: tracks are numbered by hashes of their names, flows by counters, sequences from 1.

use std::collections::BTreeSet;

use crate::common::{FIRST, Scratch, Slice, contents, merge_all};
use prost::Message;
use rsys_proto::message::{put_bytes, put_message, put_u64};
use rsys_proto::schema::{
    Clock, ClockSnapshot, DebugAnnotation, InternedData, InternedName, ProcessDescriptor,
    ThreadDescriptor, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent,
    TrackEventDefaults, clock, event_type,
};

/// Fields of packets that say nothing to us, by their numbers in `TracePacket`.
const TRUSTED_UID: u32 = 3;
const TRACE_CONFIG: u32 = 33;
const TRACE_STATS: u32 = 35;
const SYNCHRONIZATION_MARKER: u32 = 36;

const PROCESS: u64 = 0x1111;
const THREAD: u64 = 0x2222;
const QUEUE: u64 = 0x3333;

const INCREMENTAL: u32 = 64;
const CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

struct Sdk {
    pid: i32,
    start_ns: u64,
    /// REALTIME minus BOOTTIME.
    ahead_ns: u64,
}

impl Sdk {
    fn trace(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let start = self.start_ns;
        let at = |id, timestamp| Clock {
            clock_id: Some(id),
            timestamp: Some(timestamp),
            ..Clock::default()
        };
        // The service: clocks, what was asked for, a marker between parts of the file.
        let clocks = [
            at(clock::BOOTTIME, start),
            at(clock::REALTIME, start + self.ahead_ns),
            at(2, start + self.ahead_ns - 1_000),
            at(clock::MONOTONIC, start - 400_000),
            at(4, start - 401_000),
            at(clock::MONOTONIC_RAW, start - 390_000),
        ];
        put(
            &mut out,
            &TracePacket {
                trusted_packet_sequence_id: Some(1),
                clock_snapshot: Some(Box::new(ClockSnapshot {
                    clocks: clocks.to_vec(),
                    primary_trace_clock: Some(clock::BOOTTIME),
                })),
                ..TracePacket::default()
            },
        );
        for (number, bytes) in [
            (TRACE_CONFIG, &[0x0A, 2, 8, 64][..]),
            (SYNCHRONIZATION_MARKER, &[0x82; 16]),
        ] {
            put_message(&mut out, 1, |body| {
                put_u64(body, TRUSTED_UID, 0);
                put_u64(body, 10, 1);
                put_bytes(body, number, bytes);
            });
        }
        // A thread: times since the packet before, unless it says another clock.
        let of_thread = |flags| TracePacket {
            trusted_packet_sequence_id: Some(2),
            sequence_flags: Some(flags),
            ..TracePacket::default()
        };
        put(
            &mut out,
            &TracePacket {
                timestamp: Some(start),
                timestamp_clock_id: Some(clock::BOOTTIME),
                clock_snapshot: Some(Box::new(ClockSnapshot {
                    clocks: vec![
                        at(clock::BOOTTIME, start),
                        Clock {
                            is_incremental: Some(true),
                            ..at(INCREMENTAL, start)
                        },
                    ],
                    primary_trace_clock: None,
                })),
                trace_packet_defaults: Some(Box::new(TracePacketDefaults {
                    timestamp_clock_id: Some(INCREMENTAL),
                    track_event_defaults: Some(TrackEventDefaults {
                        track_uuid: Some(THREAD),
                    }),
                    ..TracePacketDefaults::default()
                })),
                ..of_thread(CLEARED)
            },
        );
        for track in [
            TrackDescriptor {
                uuid: Some(PROCESS),
                process: Some(ProcessDescriptor {
                    pid: Some(self.pid),
                    process_name: Some("solver".to_owned()),
                    ..ProcessDescriptor::default()
                }),
                ..TrackDescriptor::default()
            },
            TrackDescriptor {
                uuid: Some(THREAD),
                parent_uuid: Some(PROCESS),
                thread: Some(ThreadDescriptor {
                    pid: Some(self.pid),
                    tid: Some(i64::from(self.pid)),
                    thread_name: Some("solver".to_owned()),
                }),
                ..TrackDescriptor::default()
            },
            TrackDescriptor {
                uuid: Some(QUEUE),
                parent_uuid: Some(PROCESS),
                name: Some("GPU Kernel Dispatch [0] Queue [1]".to_owned()),
                ..TrackDescriptor::default()
            },
        ] {
            put(
                &mut out,
                &TracePacket {
                    timestamp: Some(0),
                    track_descriptor: Some(Box::new(track)),
                    ..of_thread(NEEDS_STATE)
                },
            );
        }
        for call in 0..3_u64 {
            let names = InternedData {
                event_names: vec![InternedName {
                    iid: Some(1),
                    name: Some("hipLaunchKernel".to_owned()),
                }],
                ..InternedData::default()
            };
            put(
                &mut out,
                &TracePacket {
                    timestamp: Some(1_000),
                    interned_data: (call == 0).then(|| Box::new(names)),
                    track_event: Some(TrackEvent {
                        r#type: Some(event_type::SLICE_BEGIN),
                        name_iid: Some(1),
                        flow_ids: vec![call + 1],
                        debug_annotations: vec![DebugAnnotation {
                            name: Some("corr_id".to_owned()),
                            uint_value: Some(call + 1),
                            ..DebugAnnotation::default()
                        }],
                        ..TrackEvent::default()
                    }),
                    ..of_thread(NEEDS_STATE)
                },
            );
            put(
                &mut out,
                &TracePacket {
                    timestamp: Some(200),
                    track_event: Some(TrackEvent {
                        r#type: Some(event_type::SLICE_END),
                        ..TrackEvent::default()
                    }),
                    ..of_thread(NEEDS_STATE)
                },
            );
            // Its kernel: a track and a time of its own.
            for (kind, later) in [(event_type::SLICE_BEGIN, 700), (event_type::SLICE_END, 900)] {
                let begins = kind == event_type::SLICE_BEGIN;
                put(
                    &mut out,
                    &TracePacket {
                        timestamp: Some(start + call * 1_200 + later),
                        timestamp_clock_id: Some(clock::BOOTTIME),
                        track_event: Some(TrackEvent {
                            r#type: Some(kind),
                            track_uuid: Some(QUEUE),
                            name: begins.then(|| "axpy".to_owned()),
                            terminating_flow_ids: if begins { vec![call + 1] } else { Vec::new() },
                            ..TrackEvent::default()
                        }),
                        ..of_thread(NEEDS_STATE)
                    },
                );
            }
        }
        put_message(&mut out, 1, |body| {
            put_u64(body, 10, 1);
            put_bytes(body, TRACE_STATS, &[8, 1]);
        });
        out
    }
}

fn put(out: &mut Vec<u8>, packet: &TracePacket) {
    put_message(out, 1, |body| {
        put_u64(body, TRUSTED_UID, 0);
        packet.encode(body).unwrap();
    });
}

/// Slices but for what merging changes: whose they are, and the numbers of flows.
fn shapes(
    slices: &[Slice],
    process: &str,
    later_ns: u64,
) -> Vec<(String, String, u64, u64, usize)> {
    let slices = slices.iter().filter(|slice| slice.process == process);
    slices
        .map(|slice| {
            (
                slice.track.clone(),
                slice.name.clone(),
                slice.start_ns - later_ns,
                slice.end_ns - slice.start_ns,
                slice.flows.len(),
            )
        })
        .collect()
}

#[test]
fn ranks_of_another_profiler_keep_their_own_tracks_and_flows() {
    let scratch = Scratch::new();
    // Both have the same process id; the second host booted 5 ms of its own time later.
    let later = 5_000_000;
    let one = Sdk {
        pid: 77,
        start_ns: 2_000_000,
        ahead_ns: FIRST.ahead_ns,
    };
    let other = Sdk {
        pid: 77,
        start_ns: 2_100_000,
        ahead_ns: FIRST.ahead_ns + later * 1_000,
    };
    let inputs = [
        scratch.write("perfetto-trace-0.proto", &one.trace()),
        scratch.write("perfetto-trace-1.proto", &other.trace()),
        scratch.write("ours.proto", &FIRST.ordinary()),
    ];
    let (merged, bytes) = merge_all(&scratch.0, &inputs).unwrap();
    assert_eq!(
        (merged.traces, merged.hosts.len()),
        (3, 2),
        "{:?}",
        merged.hosts
    );
    let found = contents(&bytes);
    let alone = contents(&one.trace());
    let expected = shapes(&alone.slices, "solver", one.start_ns);
    assert_eq!(expected.len(), 6);
    let processes: Vec<&String> = found
        .processes
        .values()
        .filter(|name| name.contains("solver"))
        .collect();
    assert_eq!(processes.len(), 2, "{:?}", found.processes);
    for name in processes {
        let mut slices = found.slices.iter().filter(|slice| slice.process == *name);
        let first = slices.next().expect("slices").start_ns;
        let moved = first - expected[0].2;
        assert_eq!(shapes(&found.slices, name, moved), expected, "{name}");
        // One on our host's clock, the other five seconds later.
        let true_starts = [one.start_ns, other.start_ns + later * 1_000];
        assert!(true_starts.contains(&moved), "{name}: {moved}");
    }
    let flows = found
        .slices
        .iter()
        .filter(|slice| slice.process.contains("solver"))
        .flat_map(|slice| slice.flows.clone());
    let flows: Vec<u64> = flows.collect();
    assert_eq!((flows.len(), BTreeSet::from_iter(&flows).len()), (12, 6));
    assert_eq!(found.open, 0);
}

#[test]
fn a_trace_of_another_profiler_can_be_cut_anywhere() {
    let scratch = Scratch::new();
    let ours = scratch.write("ours.proto", &FIRST.ordinary());
    let whole = Sdk {
        pid: 77,
        start_ns: 2_000_000,
        ahead_ns: FIRST.ahead_ns,
    }
    .trace();
    let mut most = 0;
    for length in 1..=whole.len() {
        let cut = scratch.write("cut.proto", &whole[..length]);
        let (_, bytes) = merge_all(&scratch.0, &[ours.clone(), cut]).unwrap();
        let slices = contents(&bytes).slices.len();
        assert!(slices >= most, "{length}");
        most = slices;
    }
    let of_ours = contents(&FIRST.ordinary()).slices.len();
    assert_eq!(most, of_ours + 6);
}
