//! `rsys-report merge` on traces made by hand.

mod common;

use std::collections::BTreeSet;

use common::{
    Contents, FIRST, GPU, METADATA, PROCESS, SECOND, Scratch, THREAD, Writer, contents, merge_all,
    whole_packets,
};
use prost::Message;
use rsys_proto::message::put_message;
use rsys_proto::reader::PacketReader;
use rsys_proto::schema::{
    Clock, ClockSnapshot, PerfSample, ProcessDescriptor, ThreadDescriptor, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent, TrackEventDefaults, clock, event_type,
};
use rsys_proto::{
    Compression, Event, EventKind, Name, NamedTrack, ProcessNamespace, ProcessTrack, TraceWriter,
    TrackSequence, Value,
};
use rsys_report::merge::{Packing, Request, merge};

#[test]
fn equal_ids_of_two_processes_are_kept_apart() {
    let scratch = Scratch::new();
    let inputs = [
        scratch.write("a.proto", &FIRST.ordinary()),
        scratch.write("b.proto", &SECOND.ordinary()),
    ];
    let (merged, bytes) = merge_all(&scratch.0, &inputs).unwrap();
    let (both, alone) = (contents(&bytes), contents(&FIRST.ordinary()));
    assert_eq!((merged.traces, merged.ranks, merged.hosts.len()), (2, 2, 2));
    let names: Vec<_> = both.processes.iter().collect();
    assert_eq!(
        names,
        [
            (&100, &"rank 0 \u{b7} alpha \u{b7} app".to_owned()),
            (
                &(1 << 22 | 100),
                &"rank 1 \u{b7} beta \u{b7} app (real pid 100)".to_owned()
            ),
        ]
    );
    // Both of everything, but for the track of the merge, that which orders the processes, and the groups of GPUs and machines.
    assert_eq!(both.tracks.len(), 2 * alone.tracks.len() + 4);
    assert_eq!(both.sequences.len(), 2 * alone.sequences.len() + 1);
    for name in both.processes.values() {
        assert_eq!(slices_of(&both, name), slices_of(&alone, "app"), "{name}");
    }
    let flows: Vec<u64> = both
        .slices
        .iter()
        .flat_map(|slice| slice.flows.clone())
        .collect();
    assert_eq!((flows.len(), BTreeSet::from_iter(&flows).len()), (4, 2));
    assert_eq!(both.samples.len(), 20);
    for (pid, tid, _, stack) in &both.samples {
        assert_eq!((pid, stack.as_str()), (tid, "outer"));
        assert!(both.processes.contains_key(&pid.cast_signed()));
    }
    // Of the clocks, those of the host of reference only.
    assert_eq!((both.snapshots, alone.snapshots), (1, 2));
}

/// Name, uuid, parent and rank of the tracks of a trace whose names contain one of these words.
fn groups(bytes: &[u8], words: &[&str]) -> BTreeSet<(String, u64, u64, Option<i32>)> {
    let mut reader = PacketReader::new(bytes);
    let mut found = BTreeSet::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        let Some(track) = packet.track_descriptor else {
            continue;
        };
        let name = track.name.clone().unwrap_or_default();
        if words.iter().any(|word| name.contains(word)) {
            let (uuid, parent) = (track.uuid, track.parent_uuid);
            found.insert((
                name,
                uuid.unwrap_or(0),
                parent.unwrap_or(0),
                track.sibling_order_rank,
            ));
        }
    }
    found
}

#[test]
fn what_stands_above_processes_is_grouped_in_the_order_of_ranks() {
    let scratch = Scratch::new();
    let trace = |writer: Writer<'_>| {
        writer.trace(|out| {
            let machine = ProcessNamespace::machine(writer.boot_id);
            let tracks = [
                (801, None, Some(1), "GPU 1"),
                (800, None, Some(0), "GPU 0"),
                (802, Some(800), Some(7), "stream"),
                (machine.named_track("Host"), None, None, "Host"),
                (
                    machine.named_track("Load"),
                    Some(machine.named_track("Host")),
                    Some(3),
                    "Load",
                ),
            ];
            for (uuid, parent, rank, name) in tracks {
                out.track(&NamedTrack {
                    uuid,
                    parent,
                    rank,
                    name,
                    ..NamedTrack::default()
                });
            }
        })
    };
    // Two ranks on one machine, and a process without a rank on another.
    let inputs = [
        scratch.write("a.proto", &trace(FIRST)),
        scratch.write(
            "b.proto",
            &trace(Writer {
                boot_id: "boot-a",
                host: "alpha",
                pid: 101,
                ..SECOND
            }),
        ),
        scratch.write(
            "c.proto",
            &trace(Writer {
                rank: None,
                pid: 102,
                ..SECOND
            }),
        ),
    ];
    let (_, bytes) = merge_all(&scratch.0, &inputs).unwrap();
    let found = groups(&bytes, &["GPU", "Machines", "Host", "Load", "stream"]);
    let uuid = |name: &str| {
        let mut named = found.iter().filter(|(one, ..)| one == name);
        let uuid = named.next().expect(name).1;
        assert_eq!(named.next(), None, "{name}");
        uuid
    };
    let (gpus, machines) = (uuid("GPUs"), uuid("Machines"));
    let below = |parent: u64| {
        let mut children: Vec<_> = found
            .iter()
            .filter(|(_, _, above, _)| *above == parent)
            .map(|(name, .., rank)| (*rank, name.as_str()))
            .collect();
        children.sort();
        children
    };
    assert_eq!(
        below(gpus),
        [
            (Some(0), "rank 0 \u{b7} alpha \u{b7} GPU 0"),
            (Some(1), "rank 0 \u{b7} alpha \u{b7} GPU 1"),
            (Some(256), "rank 1 \u{b7} alpha \u{b7} GPU 0"),
            (Some(257), "rank 1 \u{b7} alpha \u{b7} GPU 1"),
            (Some(512), "beta \u{b7} pid 102 \u{b7} GPU 0"),
            (Some(513), "beta \u{b7} pid 102 \u{b7} GPU 1"),
        ]
    );
    let stream = below(uuid("rank 1 \u{b7} alpha \u{b7} GPU 0"));
    assert_eq!(stream, [(Some(7), "stream")]);
    // One track for each thing of a machine, whoever told of it.
    let hosts = [(None, "alpha \u{b7} Host"), (None, "beta \u{b7} Host")];
    assert_eq!(below(machines), hosts);
    for name in ["alpha \u{b7} Host", "beta \u{b7} Host"] {
        assert_eq!(below(uuid(name)), [(Some(3), "Load")], "{name}");
    }
}

/// Tracks, names and lengths of the slices of a process.
fn slices_of(contents: &Contents, process: &str) -> Vec<(String, String, u64, u64)> {
    let slices = contents
        .slices
        .iter()
        .filter(|slice| slice.process == process);
    slices
        .map(|slice| {
            let duration = slice.end_ns - slice.start_ns;
            (
                slice.track.clone(),
                slice.name.clone(),
                slice.start_ns,
                duration,
            )
        })
        .collect()
}

#[test]
fn the_order_of_inputs_does_not_matter() {
    let scratch = Scratch::new();
    let plain = Writer {
        host: "alpha",
        boot_id: "boot-a",
        pid: 7,
        ..SECOND
    };
    let packed = Writer {
        rank: None,
        pid: 9,
        compression: Compression::Zlib,
        ..FIRST
    };
    let inputs = [
        scratch.write("c.proto", &FIRST.ordinary()),
        scratch.write("b.proto", &plain.ordinary()),
        scratch.write("a.proto", &packed.ordinary()),
    ];
    let (merged, bytes) = merge_all(&scratch.0, &inputs).unwrap();
    assert_eq!(merged.hosts.len(), 1);
    for order in [[0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        let inputs = order.map(|place: usize| inputs[place].clone());
        assert!(
            merge_all(&scratch.0, &inputs).unwrap().1 == bytes,
            "{order:?}"
        );
    }
    let folder = merge_all(&scratch.0, std::slice::from_ref(&scratch.0)).unwrap();
    assert!(folder.1 == bytes, "the output itself is no input");
    // One host: no host in front of the names. Ranks first, then the one without.
    let found = contents(&bytes);
    let names: BTreeSet<&str> = found.processes.values().map(String::as_str).collect();
    assert_eq!(
        names,
        ["app", "rank 0 \u{b7} app", "rank 1 \u{b7} app"].into()
    );
}

#[test]
fn what_cannot_be_merged_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    let one = scratch.write("one.proto", &FIRST.ordinary());
    let same = scratch.write("same.proto", &FIRST.ordinary());
    let (_, merged) = merge_all(&scratch.0, std::slice::from_ref(&one)).unwrap();
    let merged = scratch.write("again.proto", &merged);
    let text = scratch.write("text.proto", b"not a trace");
    let empty = scratch.write("empty.proto", b"");
    std::fs::remove_file(scratch.0.join("merged.pftrace")).unwrap();
    let before = scratch.names();
    for (inputs, why) in [
        (vec![one.clone(), same], "same process instance"),
        (vec![merged], "merged trace already"),
        (
            vec![one.clone(), text],
            "text.proto: byte 0: not the start of a packet",
        ),
        (
            vec![one.clone(), scratch.0.join("missing.proto")],
            "missing.proto",
        ),
        (vec![empty], "no input has a packet"),
    ] {
        let error = format!("{:#}", merge_all(&scratch.0, &inputs).unwrap_err());
        assert!(error.contains(why), "{error}");
        assert_eq!(scratch.names(), before);
    }
    let taken = Request {
        inputs: vec![one.clone()],
        output: scratch.write("taken.proto", b""),
        force: false,
        packing: Packing::Plain,
    };
    assert!(format!("{:#}", merge(&taken).unwrap_err()).contains("--force"));
}

#[test]
fn a_trace_cut_anywhere_is_merged_up_to_there() {
    let scratch = Scratch::new();
    let whole = scratch.write("whole.proto", &SECOND.ordinary());
    for compression in [Compression::None, Compression::Zlib] {
        let bytes = Writer {
            compression,
            ..FIRST
        }
        .ordinary();
        let (all, mut most) = (contents(&bytes), 0);
        for length in 1..bytes.len() {
            let cut = scratch.write("cut.proto", &bytes[..length]);
            let (merged, merged_bytes) = merge_all(&scratch.0, &[whole.clone(), cut]).unwrap();
            let found = contents(&merged_bytes);
            let told = merged
                .remarks
                .iter()
                .any(|remark| remark.contains("cut.proto"));
            let at_border = whole_packets(&bytes[..length]) == length;
            assert!(told || at_border, "{length}: {:?}", merged.remarks);
            assert!(found.samples.len() >= most, "{length}");
            most = found.samples.len();
        }
        assert!(compression == Compression::Zlib || most == 10 + all.samples.len());
    }
}

#[test]
fn damage_is_an_error_or_counted_but_never_worse() {
    let scratch = Scratch::new();
    let whole = scratch.write("whole.proto", &SECOND.ordinary());
    for compression in [Compression::None, Compression::Zlib] {
        let bytes = Writer {
            compression,
            ..FIRST
        }
        .ordinary();
        for place in (0..bytes.len()).step_by(7) {
            for change in [0x01, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[place] ^= change;
                let damaged = scratch.write("damaged.proto", &damaged);
                if let Err(error) = merge_all(&scratch.0, &[whole.clone(), damaged]) {
                    let error = format!("{error:#}");
                    assert!(
                        error.contains("damaged.proto") || error.contains("same process"),
                        "{error}"
                    );
                }
                assert!(!scratch.names().iter().any(|name| name.starts_with('.')));
            }
        }
    }
}

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

#[test]
fn the_global_track_and_ids_of_nothing_stay() {
    let scratch = Scratch::new();
    let input = scratch.write("a.proto", &FIRST.ordinary());
    let (_, bytes) = merge_all(&scratch.0, &[input]).unwrap();
    let found = contents(&bytes);
    for uuid in [PROCESS, METADATA, THREAD, GPU] {
        assert!(!found.tracks.contains_key(&uuid), "ids are the input's own");
    }
    assert!(
        found.tracks.contains_key(&0),
        "the track that orders the processes"
    );
    // Nothing is lost of a single input.
    let alone = contents(&FIRST.ordinary());
    assert_eq!(found.samples, alone.samples);
    assert_eq!(
        slices_of(&found, "rank 0 \u{b7} app"),
        slices_of(&alone, "app")
    );
}

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
