//! `rsys-report cut` on traces made by hand.

use std::collections::BTreeMap;

use crate::common::{self, Contents, FIRST, SECOND, Scratch, contents, merge_all, whole_packets};
use prost::Message;
use rsys_proto::message::put_message;
use rsys_proto::reader::PacketReader;
use rsys_proto::resolve::Resolver;
use rsys_proto::schema::{
    self, InternedData, InternedName, TracePacket, TrackEvent, clock, event_type,
};
use rsys_proto::{
    Compression, CounterTrack, CpuMode, NamedTrack, PacketBuffer, Sample, SampleSequence,
    ThreadTrack, TrackSequence,
};
use rsys_report::cut::{Kind, Pick, Request, Selection, cut};

const WORKER: u64 = 21;
const COUNTER: u64 = 22;
/// When the slices below begin, since the start of the trace.
const BEGIN_NS: u64 = 10_000;

/// A thread with nested slices of 70 ns each 100, one slice around them all, and a counter that grows.
fn busy(out: &mut PacketBuffer) {
    out.thread(&ThreadTrack {
        uuid: WORKER,
        pid: FIRST.pid,
        tid: 101,
        name: "worker",
        title: "stack",
    });
    out.counter_track(&CounterTrack {
        uuid: COUNTER,
        name: "memory",
        ..CounterTrack::default()
    });
    let mut slices = TrackSequence::new(out, WORKER);
    let mut counter = TrackSequence::new(out, COUNTER);
    let [all, outer, inner] = ["all", "outer", "inner"].map(|name| out.intern(name));
    let start = FIRST.start_ns + BEGIN_NS;
    slices.slice_begin(out, start, all);
    for number in 0..100 {
        let at = start + number * 100;
        counter.counter(out, at, 1000 + number.cast_signed());
        slices.slice_begin(out, at + 10, outer);
        slices.slice_begin(out, at + 20, inner);
        slices.slice_end(out, at + 50);
        slices.slice_end(out, at + 80);
    }
    slices.slice_end(out, start + 10_000);
}

fn request(scratch: &Scratch, trace: &[u8]) -> Request {
    Request {
        input: scratch.write("whole.proto", trace),
        output: scratch.0.join("part.pftrace"),
        force: true,
        from_ns: 0,
        to_ns: None,
        selection: Selection::default(),
    }
}

/// The part, which opens alone.
fn part(request: &Request) -> Contents {
    cut(request).unwrap();
    let found = contents(&std::fs::read(&request.output).unwrap());
    assert_eq!(found.open, 0);
    assert!(
        found.instants.contains(&"rsys start".to_owned()),
        "{:?}",
        found.instants
    );
    found
}

fn times(found: &Contents) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for slice in &found.slices {
        *times.entry(slice.name.clone()).or_default() += slice.end_ns - slice.start_ns;
    }
    times
}

#[test]
fn parts_side_by_side_add_up_to_the_whole() {
    for compression in [Compression::None, Compression::Zlib] {
        let writer = common::Writer {
            compression,
            ..FIRST
        };
        let scratch = Scratch::new();
        for (trace, ends) in [
            (
                writer.trace(busy),
                [BEGIN_NS + 35, BEGIN_NS + 5_020, BEGIN_NS + 5_050],
            ),
            (writer.ordinary(), [1_550, 2_500, 4_500]),
        ] {
            let whole = contents(&trace);
            let (mut sums, mut samples) = (BTreeMap::new(), Vec::new());
            let mut from_ns = 0;
            for to_ns in ends.iter().map(|&end| Some(end)).chain([None]) {
                let found = part(&Request {
                    from_ns,
                    to_ns,
                    ..request(&scratch, &trace)
                });
                let bounds =
                    FIRST.start_ns + from_ns..=FIRST.start_ns + to_ns.unwrap_or(u64::MAX / 2);
                for slice in &found.slices {
                    assert!(
                        bounds.contains(&slice.start_ns) && bounds.contains(&slice.end_ns),
                        "{slice:?}"
                    );
                    assert!(slice.end_ns > slice.start_ns, "{slice:?}");
                }
                for (name, time) in times(&found) {
                    *sums.entry(name).or_default() += time;
                }
                samples.extend(found.samples);
                from_ns = to_ns.unwrap_or(0);
            }
            assert_eq!(sums, times(&whole));
            assert_eq!(samples, whole.samples);
        }
    }
}

#[test]
fn a_part_begins_with_the_slices_and_values_that_hold_there() {
    let scratch = Scratch::new();
    let from_ns = BEGIN_NS + 230;
    part(&Request {
        from_ns,
        to_ns: Some(from_ns + 40),
        ..request(&scratch, &FIRST.trace(busy))
    });
    let bytes = std::fs::read(scratch.0.join("part.pftrace")).unwrap();
    let found = contents(&bytes);
    let at = FIRST.start_ns + from_ns;
    let slices: Vec<_> = found
        .slices
        .iter()
        .map(|slice| (slice.name.as_str(), slice.start_ns - at, slice.end_ns - at))
        .collect();
    assert_eq!(slices, [("all", 0, 40), ("inner", 0, 20), ("outer", 0, 40)]);
    let (mut reader, mut resolver) = (PacketReader::new(bytes.as_slice()), Resolver::new());
    let mut values = Vec::new();
    while let Some(mut packet) = reader.next_packet().unwrap() {
        let time = resolver.observe(&mut packet);
        let value = packet.track_event.and_then(|event| event.counter_value);
        values.extend(value.map(|value| (time, value)));
    }
    assert_eq!(values, [(Some(at), 1002)]);
}

#[test]
fn what_is_chosen_is_all_that_is_left() {
    let scratch = Scratch::new();
    let inputs = [
        scratch.write("a.proto", &FIRST.ordinary()),
        scratch.write("b.proto", &SECOND.ordinary()),
    ];
    let (_, merged) = merge_all(&scratch.0, &inputs).unwrap();
    let chosen = |selection| {
        part(&Request {
            selection,
            ..request(&scratch, &merged)
        })
    };
    let alone = contents(&FIRST.ordinary());
    let of_one = chosen(Selection {
        processes: vec![Pick::Id(FIRST.pid)],
        ..Selection::default()
    });
    assert_eq!(of_one.processes.len(), 1);
    assert_eq!(
        (of_one.samples.len(), of_one.slices.len()),
        (10, alone.slices.len())
    );
    let by_name = chosen(Selection {
        processes: vec![Pick::from("beta".to_owned())],
        ..Selection::default()
    });
    assert!(by_name.processes.values().all(|name| name.contains("beta")));
    let of_threads = chosen(Selection {
        threads: vec![Pick::from("main".to_owned())],
        ..Selection::default()
    });
    assert!(of_threads.slices.iter().all(|slice| slice.name != "kernel"));
    assert_eq!((of_threads.slices.len(), of_threads.samples.len()), (4, 20));
    let of_tracks = chosen(Selection {
        tracks: vec!["GPU 0".to_owned()],
        ..Selection::default()
    });
    assert!(of_tracks.slices.iter().all(|slice| slice.name == "kernel"));
    assert_eq!((of_tracks.slices.len(), of_tracks.samples.len()), (2, 0));
    let without = chosen(Selection {
        dropped: vec![Kind::Samples, Kind::Flows],
        ..Selection::default()
    });
    assert_eq!((without.slices.len(), without.samples.len()), (6, 0));
    assert!(without.slices.iter().all(|slice| slice.flows.is_empty()));
}

#[test]
fn kinds_of_content_are_left_out() {
    let scratch = Scratch::new();
    let trace = FIRST.trace(busy);
    let slices_without = |kind| {
        let request = Request {
            selection: Selection {
                dropped: vec![kind],
                ..Selection::default()
            },
            ..request(&scratch, &trace)
        };
        let done = cut(&request).unwrap();
        let bytes = std::fs::read(&request.output).unwrap();
        (contents(&bytes).slices.len(), done.kept)
    };
    assert_eq!(slices_without(Kind::Stacks), (0, 100));
    assert_eq!(slices_without(Kind::Counters), (201, 201));
}

#[test]
fn tracks_of_a_process_that_stand_beside_it_are_its_own() {
    use rsys_proto::{ProcessNamespace, ProcessTrack};
    let scratch = Scratch::new();
    let trace = FIRST.trace(|out| {
        for pid in [7, 8] {
            let ids = ProcessNamespace::new("b00t", pid, 1, 0);
            out.process(&ProcessTrack {
                uuid: ids.track(1),
                pid,
                name: "app",
                ..ProcessTrack::default()
            });
            out.track(&NamedTrack {
                uuid: ids.track(2),
                name: "GPU 0",
                ..NamedTrack::default()
            });
            let mut kernels = TrackSequence::new(out, ids.track(2));
            let name = out.intern(&format!("kernel of {pid}"));
            kernels.slice_begin(out, FIRST.start_ns + 10, name);
            kernels.slice_end(out, FIRST.start_ns + 20);
        }
    });
    let found = part(&Request {
        selection: Selection {
            processes: vec![Pick::Id(8)],
            ..Selection::default()
        },
        ..request(&scratch, &trace)
    });
    let names: Vec<_> = found.slices.iter().map(|slice| &slice.name).collect();
    assert_eq!(names, ["kernel of 8"]);
}

#[test]
fn what_leaves_nothing_is_refused_in_a_line_and_leaves_no_file() {
    let scratch = Scratch::new();
    let whole = FIRST.trace(busy);
    let good = Request {
        output: scratch.0.join("none.pftrace"),
        ..request(&scratch, &whole)
    };
    let folder = scratch.0.clone();
    for (request, words) in [
        (
            Request {
                from_ns: 5,
                to_ns: Some(5),
                ..good.clone()
            },
            "--to must be later than --from",
        ),
        (
            Request {
                from_ns: 1 << 40,
                ..good.clone()
            },
            "the trace lasts 0.009 s",
        ),
        (
            Request {
                selection: Selection {
                    threads: vec![Pick::Id(9)],
                    ..Selection::default()
                },
                ..good.clone()
            },
            "--thread",
        ),
        (
            Request {
                input: folder,
                ..good.clone()
            },
            "rsys-report merge",
        ),
        (
            Request {
                input: "missing".into(),
                ..good.clone()
            },
            "cannot read missing",
        ),
        (
            Request {
                input: scratch.write("empty.proto", b""),
                ..good.clone()
            },
            "no packets",
        ),
        (
            Request {
                input: scratch.write("text.proto", b"text"),
                ..good
            },
            "byte 0",
        ),
    ] {
        let error = format!("{:#}", cut(&request).unwrap_err());
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    assert_eq!(
        scratch.names(),
        ["empty.proto", "text.proto", "whole.proto"]
    );
}

#[test]
fn a_trace_cut_off_anywhere_is_cut_up_to_there() {
    let scratch = Scratch::new();
    let trace = FIRST.ordinary();
    for length in (0..trace.len()).step_by(37) {
        let torn = &trace[..length];
        let request = Request {
            from_ns: 1_200,
            to_ns: Some(3_500),
            ..request(&scratch, torn)
        };
        // One in whose part nothing lies is refused.
        if let Ok(done) = cut(&request) {
            let bytes = std::fs::read(&request.output).unwrap();
            assert!(done.kept > 0 && whole_packets(&bytes) == bytes.len());
            let is_torn = whole_packets(torn) != torn.len();
            assert_eq!(done.remarks.len(), usize::from(is_torn));
            contents(&bytes);
        }
    }
}

/// Other profilers let a sequence begin anew now and then; names of slices that are open then are those from before.
#[test]
fn a_slice_keeps_its_name_when_its_sequence_begins_anew() {
    let scratch = Scratch::new();
    let event = |time, kind, track, name: Option<&str>| TracePacket {
        timestamp: Some(time),
        timestamp_clock_id: Some(clock::BOOTTIME),
        trusted_packet_sequence_id: Some(9),
        sequence_flags: name.map(|_| schema::SEQ_INCREMENTAL_STATE_CLEARED),
        interned_data: name.map(|name| {
            Box::new(InternedData {
                event_names: vec![InternedName {
                    iid: Some(1),
                    name: Some(name.to_owned()),
                }],
                ..InternedData::default()
            })
        }),
        track_event: Some(TrackEvent {
            r#type: Some(kind),
            track_uuid: Some(track),
            name_iid: name.map(|_| 1),
            ..TrackEvent::default()
        }),
        ..TracePacket::default()
    };
    let packets = [
        event(100, event_type::SLICE_BEGIN, 5, Some("first")),
        event(300, event_type::SLICE_BEGIN, 6, Some("second")),
        event(350, event_type::SLICE_END, 6, None),
        event(400, event_type::SLICE_END, 5, None),
    ];
    let mut bytes = Vec::new();
    for packet in packets {
        put_message(&mut bytes, 1, |body| packet.encode(body).unwrap());
    }
    let request = Request {
        from_ns: 100,
        ..request(&scratch, &bytes)
    };
    cut(&request).unwrap();
    let found = contents(&std::fs::read(&request.output).unwrap());
    let slices: Vec<_> = found
        .slices
        .iter()
        .map(|slice| (slice.name.as_str(), slice.start_ns, slice.end_ns))
        .collect();
    assert_eq!(slices, [("first", 200, 400), ("second", 300, 350)]);
}

/// Other profilers write track by track: the trace starts with its earliest event, wherever that stands, and all parts together are the whole.
#[test]
fn a_trace_starts_with_its_earliest_event() {
    let scratch = Scratch::new();
    let mut trace = Vec::new();
    let start_ns = FIRST.start_ns;
    for (track, begin_ns) in [(WORKER, 5_000), (WORKER + 1, 40)] {
        for (at_ns, kind) in [
            (begin_ns, event_type::SLICE_BEGIN),
            (begin_ns + 1_000, event_type::SLICE_END),
        ] {
            let packet = TracePacket {
                timestamp: Some(start_ns + at_ns),
                timestamp_clock_id: Some(clock::BOOTTIME),
                trusted_packet_sequence_id: Some(7),
                track_event: Some(TrackEvent {
                    r#type: Some(kind),
                    track_uuid: Some(track),
                    name: (kind == event_type::SLICE_BEGIN).then(|| format!("of {track}")),
                    ..TrackEvent::default()
                }),
                ..TracePacket::default()
            };
            put_message(&mut trace, 1, |body| packet.encode(body).unwrap());
        }
    }
    let cut_out = |from_ns, to_ns| {
        let request = Request {
            from_ns,
            to_ns,
            ..request(&scratch, &trace)
        };
        cut(&request).unwrap();
        let found = contents(&std::fs::read(&request.output).unwrap());
        let slices = found.slices.iter();
        let mut slices: Vec<_> = slices
            .map(|slice| (slice.start_ns - start_ns, slice.end_ns - start_ns))
            .collect();
        slices.sort_unstable();
        slices
    };
    assert_eq!(cut_out(0, None), [(40, 1_040), (5_000, 6_000)]);
    assert_eq!(cut_out(0, Some(500)), [(40, 540)]);
    assert_eq!(cut_out(500, None), [(540, 1_040), (5_000, 6_000)]);
}

/// Threads of several processes may have the same id: samples go with the name of their own.
#[test]
fn samples_are_chosen_by_the_name_of_their_own_thread() {
    let scratch = Scratch::new();
    let sampled = |out: &mut PacketBuffer, of: common::Writer<'_>, name, uuid| {
        out.thread(&ThreadTrack {
            uuid,
            pid: of.pid,
            tid: 5_000,
            name,
            title: "stack",
        });
        let mut samples = SampleSequence::new(out, "cpu-time ns", None);
        let sample = Sample {
            time_ns: of.start_ns + 2_000,
            pid: of.pid,
            tid: 5_000,
            callstack: None,
            weight: 7,
            mode: CpuMode::Unknown,
            cpu: None,
        };
        samples.sample(out, &sample);
    };
    let inputs = [
        scratch.write(
            "a.proto",
            &FIRST.trace(|out| sampled(out, FIRST, "loader", 31)),
        ),
        scratch.write(
            "b.proto",
            &SECOND.trace(|out| sampled(out, SECOND, "worker", 32)),
        ),
    ];
    let (_, merged) = merge_all(&scratch.0, &inputs).unwrap();
    // Both processes have the same id on their hosts.
    for (name, pid) in [("loader", FIRST.pid), ("worker", 4_194_304 + SECOND.pid)] {
        let found = part(&Request {
            selection: Selection {
                threads: vec![Pick::from(name.to_owned())],
                ..Selection::default()
            },
            ..request(&scratch, &merged)
        });
        let of: Vec<_> = found.samples.iter().map(|one| (one.0, one.1)).collect();
        assert_eq!(of, [(pid, 5_000)], "{name}");
    }
}

#[test]
fn a_range_that_ends_before_it_begins_is_a_wrong_command_line() {
    let scratch = Scratch::new();
    let whole = scratch.0.join("whole.pftrace");
    let part = scratch.0.join("part.pftrace");
    let (input, output) = (whole.to_str().unwrap(), part.to_str().unwrap());
    let words = [
        "rsys-report",
        "cut",
        input,
        "-o",
        output,
        "--from",
        "5s",
        "--to",
        "3s",
    ];
    assert_eq!(rsys_report::run(words.map(Into::into)), 2);
    assert!(!part.exists());
}
