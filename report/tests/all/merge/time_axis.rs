//! One time axis: traces of other profilers, and clocks of hosts that collectives bring together.

use crate::common::{FIRST, GPU, SECOND, Scratch, THREAD, Writer, contents, merge_all};
use prost::Message;
use rsys_proto::message::put_message;
use rsys_proto::schema::{
    Clock, ClockSnapshot, PerfSample, ProcessDescriptor, ThreadDescriptor, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent, TrackEventDefaults, clock, event_type,
};
use rsys_proto::{Event, EventKind, Name, TrackSequence, Value};

/// A trace as the Perfetto SDK writes it for other profilers: MONOTONIC by default, and microseconds since the packet before on one sequence.
fn foreign(pid: i32) -> Vec<u8> {
    let at = |id, timestamp| Clock {
        clock_id: Some(id),
        timestamp: Some(timestamp),
        ..Clock::default()
    };
    let event = |kind, name: Option<&str>| TrackEvent {
        r#type: Some(kind),
        name: name.map(str::to_owned),
        track_uuid: Some(5),
        ..TrackEvent::default()
    };
    let packets = [
        TracePacket {
            clock_snapshot: Some(Box::new(ClockSnapshot {
                clocks: vec![
                    at(clock::BOOTTIME, 3_000_000),
                    at(clock::MONOTONIC, 2_000_000),
                    at(clock::REALTIME, 3_000_000 + FIRST.ahead_ns),
                ],
                primary_trace_clock: None,
            })),
            ..TracePacket::default()
        },
        TracePacket {
            trusted_packet_sequence_id: Some(0xFFFF_0001),
            sequence_flags: Some(1),
            trace_packet_defaults: Some(Box::new(TracePacketDefaults {
                timestamp_clock_id: Some(clock::MONOTONIC),
                ..TracePacketDefaults::default()
            })),
            track_descriptor: Some(Box::new(TrackDescriptor {
                uuid: Some(4),
                process: Some(ProcessDescriptor {
                    pid: Some(pid),
                    process_name: Some("theirs".to_owned()),
                    ..ProcessDescriptor::default()
                }),
                ..TrackDescriptor::default()
            })),
            ..TracePacket::default()
        },
        TracePacket {
            trusted_packet_sequence_id: Some(0xFFFF_0001),
            track_descriptor: Some(Box::new(TrackDescriptor {
                uuid: Some(5),
                thread: Some(ThreadDescriptor {
                    pid: Some(pid),
                    tid: Some(i64::from(pid) + 1),
                    thread_name: Some("worker".to_owned()),
                }),
                ..TrackDescriptor::default()
            })),
            ..TracePacket::default()
        },
        TracePacket {
            timestamp: Some(2_000_500),
            trusted_packet_sequence_id: Some(0xFFFF_0001),
            track_event: Some(event(event_type::SLICE_BEGIN, Some("hipLaunchKernel"))),
            ..TracePacket::default()
        },
        TracePacket {
            timestamp: Some(2_000_900),
            trusted_packet_sequence_id: Some(0xFFFF_0001),
            track_event: Some(event(event_type::SLICE_END, None)),
            ..TracePacket::default()
        },
        TracePacket {
            trusted_packet_sequence_id: Some(0xFFFF_0002),
            sequence_flags: Some(1),
            clock_snapshot: Some(Box::new(ClockSnapshot {
                clocks: vec![
                    at(clock::BOOTTIME, 3_100_000),
                    Clock {
                        is_incremental: Some(true),
                        unit_multiplier_ns: Some(1_000),
                        ..at(64, 3_100)
                    },
                ],
                primary_trace_clock: None,
            })),
            trace_packet_defaults: Some(Box::new(TracePacketDefaults {
                timestamp_clock_id: Some(64),
                track_event_defaults: Some(TrackEventDefaults {
                    track_uuid: Some(5),
                }),
                ..TracePacketDefaults::default()
            })),
            ..TracePacket::default()
        },
        TracePacket {
            timestamp: Some(10),
            trusted_packet_sequence_id: Some(0xFFFF_0002),
            track_event: Some(event(event_type::SLICE_BEGIN, Some("hipMemcpy"))),
            ..TracePacket::default()
        },
        TracePacket {
            timestamp: Some(20),
            trusted_packet_sequence_id: Some(0xFFFF_0002),
            track_event: Some(event(event_type::SLICE_END, None)),
            ..TracePacket::default()
        },
        TracePacket {
            timestamp: Some(2_001_000),
            timestamp_clock_id: Some(clock::MONOTONIC),
            trusted_packet_sequence_id: Some(0xFFFF_0003),
            perf_sample: Some(PerfSample {
                pid: Some(pid.cast_unsigned()),
                tid: Some(pid.cast_unsigned() + 1),
                ..PerfSample::default()
            }),
            ..TracePacket::default()
        },
        TracePacket {
            timestamp: Some(1),
            timestamp_clock_id: Some(130),
            trusted_packet_sequence_id: Some(0xFFFF_0003),
            perf_sample: Some(PerfSample::default()),
            ..TracePacket::default()
        },
    ];
    let mut bytes = Vec::new();
    for packet in packets {
        put_message(&mut bytes, 1, |body| packet.encode(body).unwrap());
    }
    bytes
}

#[test]
fn foreign_traces_are_put_on_the_same_time_axis() {
    let scratch = Scratch::new();
    let ours = scratch.write("a.proto", &FIRST.ordinary());
    let theirs = scratch.write("perfetto-trace-1.proto", &foreign(100));
    let (merged, bytes) = merge_all(&scratch.0, &[theirs, ours]).unwrap();
    // Booted at the same moment: the same host.
    assert_eq!(merged.hosts.len(), 1, "{:?}", merged.hosts);
    let found = contents(&bytes);
    let name = "theirs (real pid 100)";
    assert_eq!(found.processes[&(1 << 22 | 100)], name);
    let times: Vec<_> = found
        .slices
        .iter()
        .filter(|slice| slice.process == name)
        .map(|slice| (slice.name.as_str(), slice.start_ns, slice.end_ns))
        .collect();
    assert_eq!(
        times,
        [
            ("hipLaunchKernel", 3_000_500, 3_000_900),
            ("hipMemcpy", 3_110_000, 3_130_000),
        ]
    );
    let sample = found
        .samples
        .iter()
        .find(|sample| sample.0 == 1 << 22 | 100)
        .unwrap();
    assert_eq!((sample.1, sample.2), (101, 3_001_000));
    let left_out = |remark: &String| remark.contains("1 packets are left out");
    assert!(merged.remarks.iter().any(left_out), "{:?}", merged.remarks);
    assert!(found.instants.iter().any(|name| name == "rsys merged"));
}

/// A rank whose collectives run from the given true times on, by a clock that is `behind_ns` behind the truth.
fn rank_with_collectives(writer: Writer<'_>, behind_ns: u64, late_ns: u64) -> Vec<u8> {
    let clock = |time_ns: u64| time_ns - behind_ns;
    writer.trace(|out| {
        let mut thread = TrackSequence::new(out, THREAD);
        let mut gpu = TrackSequence::new(out, GPU);
        for number in 0..20_u64 {
            let call = 1_000_000_000 + number * 1_000_000;
            let annotations = [
                ("communicator", Value::Text("0xabc")),
                ("sequence", Value::Uint(number)),
            ]
            .map(|(key, value)| rsys_proto::Annotation {
                key: out.intern(key),
                value,
            });
            let all_reduce = Event {
                name: Name::Once("ncclAllReduce"),
                annotations: &annotations,
                ..Event::default()
            };
            thread.event(out, clock(call), EventKind::SliceBegin, &all_reduce);
            let launch = Event {
                name: Name::Once("hipLaunchKernel"),
                flows: &[number + 1],
                ..Event::default()
            };
            thread.event(out, clock(call + 1_000), EventKind::SliceBegin, &launch);
            thread.slice_end(out, clock(call + 2_000));
            thread.slice_end(out, clock(call + 3_000));
            // Begins when its rank comes to it, ends for all together once the last, 5 microseconds late, has come.
            let kernel = Event {
                name: Name::Once("ncclDevKernel"),
                terminating_flows: &[number + 1],
                ..Event::default()
            };
            gpu.event(
                out,
                clock(call + 4_000 + late_ns),
                EventKind::SliceBegin,
                &kernel,
            );
            gpu.slice_end(out, clock(call + 4_000 + 5_000 + 10_000));
        }
    })
}

#[test]
fn collectives_align_hosts_better_than_their_wall_clocks() {
    let scratch = Scratch::new();
    // By the wall clocks, host b is 2 ms off; in truth its clock is 300 ms behind that of host a.
    let (behind_ns, off_ns) = (300_000_000, 2_000_000);
    let beta = Writer {
        start_ns: FIRST.start_ns + 1_000,
        ahead_ns: FIRST.ahead_ns + behind_ns - off_ns,
        ..SECOND
    };
    let inputs = [
        scratch.write("a.proto", &rank_with_collectives(FIRST, 0, 5_000)),
        scratch.write("b.proto", &rank_with_collectives(beta, behind_ns, 0)),
    ];
    let (merged, bytes) = merge_all(&scratch.0, &inputs).unwrap();
    // The kernels of alpha take 10 microseconds, those of beta 15, and they end together: between -10 and +15 all is possible.
    assert_eq!(
        merged.hosts[1].to_string(),
        "by 20 collectives, \u{b1}12.5 \u{b5}s (the wall clocks alone are 2.00 ms off)"
    );
    let found = contents(&bytes);
    let kernels = |host: &str| -> Vec<u64> {
        let slices = found.slices.iter();
        let kernels =
            slices.filter(|slice| slice.name == "ncclDevKernel" && slice.process.contains(host));
        kernels.map(|slice| slice.end_ns).collect()
    };
    let (alpha, beta) = (kernels("alpha"), kernels("beta"));
    assert_eq!((alpha.len(), beta.len()), (20, 20));
    for (one, other) in alpha.iter().zip(&beta) {
        assert!(one.abs_diff(*other) <= 12_500, "{one} {other}");
    }
}
