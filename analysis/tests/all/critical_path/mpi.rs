//! Paths through calls of MPI.

use super::{ask, ns, steps};
use crate::common::Scratch;
use rsys_proto::{
    Annotation, ClockReadings, Compression, Event, EventKind, Name, NamedTrack, ProcessNamespace,
    ProcessTrack, ThreadTrack, TraceWriter, TrackSequence, Value as Datum,
};

/// A rank of two whose iterations each end with a call of MPI: it begins `arrives_ns` after the iteration did, and ends after 750 µs on both. That is a collective, or a message
/// of rank 1 to rank 0.
fn with_mpi(rank: u64, arrives_ns: u64, is_message: bool) -> Vec<u8> {
    let call = match (is_message, rank) {
        (false, _) => "MPI_Allreduce",
        (true, 0) => "MPI_Recv",
        (true, _) => "MPI_Send",
    };
    let pid = 100 + rank as u32;
    let ids = ProcessNamespace::new("b00t", pid, 17, 0);
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    out.clock_snapshot(&ClockReadings {
        boottime_ns: 1_000,
        ..ClockReadings::default()
    });
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid,
        name: "solver",
        labels: &[format!("rank {rank}"), "host alpha".to_owned()],
        ..ProcessTrack::default()
    });
    out.thread(&ThreadTrack {
        uuid: ids.track(2),
        pid,
        tid: pid,
        name: "main",
        title: "stack",
    });
    out.track(&NamedTrack {
        uuid: ids.track(3),
        parent: Some(ids.track(2)),
        name: "calls",
        ..NamedTrack::default()
    });
    let mut calls = TrackSequence::new(out, ids.track(3));
    for (number, parent, name) in [
        (4, None, "GPU 0 \u{b7} Simulated"),
        (5, Some(4), "stream 1"),
    ] {
        out.track(&NamedTrack {
            uuid: ids.track(number),
            parent: parent.map(|parent| ids.track(parent)),
            name,
            ..NamedTrack::default()
        });
    }
    let mut stream = TrackSequence::new(out, ids.track(5));
    for step in 0..6_u64 {
        let at = 1_000_000 * (step + 1);
        let mut numbers = vec![("rank", rank), ("ranks", 2)];
        match (is_message, rank) {
            (false, _) => numbers.push(("sequence", step)),
            (true, 0) => numbers.extend([("peer", 1), ("tag", 3), ("received_message", step)]),
            (true, _) => numbers.extend([("peer", 0), ("tag", 3), ("message", step)]),
        }
        let numbers = numbers.into_iter();
        let numbers = numbers.map(|(key, number)| (key, Datum::Uint(number)));
        let texts = [("communicator", Datum::Text("world"))];
        let said = numbers.chain(texts);
        let said = said.chain([("blocking", Datum::Bool(true))]);
        let link = [Annotation::new(
            out.intern("correlation"),
            Datum::Uint(step + 1),
        )];
        let said: Vec<_> = said
            .map(|(key, value)| Annotation::new(out.intern(key), value))
            .collect();
        for (time_ns, name, category, annotations) in [
            (at, "step", "roctx", &[][..]),
            // Nobody waits for it.
            (at + 10_000, "hipLaunchKernel", "hip", &link),
            (at + 20_000, "kernel", "kernel", &link),
            (at + arrives_ns, call, "mpi", &said),
        ] {
            let event = Event {
                name: Name::Interned(out.intern(name)),
                category: Some(out.intern(category)),
                annotations,
                ..Event::default()
            };
            let track = match category {
                "kernel" => &mut stream,
                _ => &mut calls,
            };
            track.event(out, time_ns, EventKind::SliceBegin, &event);
            if matches!(category, "kernel" | "hip") {
                track.slice_end(out, time_ns + 10_000);
            }
        }
        calls.slice_end(out, at + 750_000);
        calls.slice_end(out, at + 760_000);
    }
    trace.finish().unwrap()
}

#[test]
fn a_path_goes_through_calls_of_mpi_to_the_rank_that_came_last() {
    let scratch = Scratch::new();
    let files = [(0, 200_000), (1, 700_000)].map(|(rank, arrives_ns)| {
        let name = format!("perfetto-trace-{rank}.proto");
        scratch.write(&name, &with_mpi(rank, arrives_ns, false))
    });
    let found = steps(&ask(&files, &[3], 1), 3);
    let told: Vec<_> = found
        .iter()
        .map(|step| (step["kind"].as_str().unwrap(), ns(step, "duration_ns")))
        .collect();
    let expected = [
        ("host_code", 10_000),
        ("call", 10_000),
        ("host_code", 680_000),
        ("collective", 50_000),
        ("host_code", 10_000),
    ];
    assert_eq!(told, expected, "{found:#?}");
    assert!(
        found[..3].iter().all(|step| step["rank"] == 1),
        "{found:#?}"
    );
    assert_eq!(found[3]["name"], "MPI_Allreduce");
}

#[test]
fn a_path_goes_from_the_receiver_of_a_message_to_the_sender() {
    let scratch = Scratch::new();
    let files = [(0, 200_000), (1, 700_000)].map(|(rank, arrives_ns)| {
        let name = format!("perfetto-trace-{rank}.proto");
        scratch.write(&name, &with_mpi(rank, arrives_ns, true))
    });
    let found = steps(&ask(&files, &[3], 1), 3);
    let received = found.iter().position(|step| step["name"] == "MPI_Recv");
    let received = received.expect("the path ends on the receiver");
    assert_eq!(ns(&found[received], "duration_ns"), 50_000, "{found:#?}");
    let before = &found[received - 1];
    assert_eq!(
        (before["rank"].as_u64(), ns(before, "duration_ns")),
        (Some(1), 680_000),
        "{found:#?}"
    );
}
