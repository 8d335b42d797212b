//! `rsys-report merge` on traces made by hand.

mod bad_input;
mod blocks;
mod time_axis;

use std::collections::BTreeSet;

use crate::common::{
    Contents, FIRST, GPU, METADATA, PROCESS, SECOND, Scratch, THREAD, Writer, contents, merge_all,
};
use rsys_proto::reader::PacketReader;
use rsys_proto::{Compression, NamedTrack, ProcessNamespace};

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
