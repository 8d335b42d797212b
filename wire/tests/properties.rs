//! What holds for any input: records survive the ring, and no memory content upsets the reader.
#![cfg(not(feature = "model"))]

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rsys_wire::counting::{EventCode, EventList, MOST_EVENTS, Overflow};
use rsys_wire::handshake::{
    AgentSettings, ClockChoice, FollowChoice, GpuLevel, GpuSource, Hello, HelloError, HelloKind,
    PythonChoice, UnwinderChoice,
};
use rsys_wire::layout::{Geometry, InfoTag, Segment, info_entries, push_info};
use rsys_wire::name_list::NameList;
use rsys_wire::pattern::Pattern;
use rsys_wire::record::{self, ForeignText, Record, Records};
use rsys_wire::ring::{Consumer, Drained, DropCause, Producer, RingHeader};
use rsys_wire::sources::{Category, EventChoice};
use rsys_wire::{VERSION, handshake, layout};

fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// One thing to write, and the record that must come out.
#[derive(Debug, Clone)]
enum Item {
    Start {
        tid: u32,
        name: [u8; 16],
    },
    Sample {
        time: u64,
        weight: u32,
        flags: u8,
        shared: u16,
        frames: Vec<u64>,
    },
    Module {
        range: (u64, u64),
        build_id: Vec<u8>,
        path: Vec<u8>,
    },
    Note {
        code: u64,
        text: Vec<u8>,
    },
    End {
        cpu: u64,
    },
    PythonStack {
        flags: u8,
        shared: u16,
        frames: Vec<u64>,
    },
    PythonCode {
        key: u64,
        first_line: u32,
        form: u8,
        name: String,
        file: String,
        lines: Vec<u8>,
    },
    PythonThread {
        name: String,
    },
    Counters {
        values: Vec<u64>,
    },
    PythonInterpreter {
        flags: u8,
        version: u32,
        address: u64,
    },
}

/// How an interpreter keeps a text: all characters as wide as the widest, in bytes.
fn as_python_keeps_it(text: &str) -> (u8, Vec<u8>) {
    let widest = text.chars().map(u32::from).max().unwrap_or(0);
    let width = match widest {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    };
    let bytes = text
        .chars()
        .flat_map(|character| u32::from(character).to_le_bytes()[..width].to_vec())
        .collect();
    (width as u8, bytes)
}

fn foreign(width: u8, bytes: &[u8]) -> ForeignText<impl Fn(u64) -> u64> {
    ForeignText {
        bytes: bytes.len() as u32,
        width,
        word: move |offset| {
            let rest = &bytes[offset as usize..];
            let mut word = [0; 8];
            let length = rest.len().min(8);
            word[..length].copy_from_slice(&rest[..length]);
            u64::from_le_bytes(word)
        },
    }
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        (any::<u32>(), any::<[u8; 16]>()).prop_map(|(tid, name)| Item::Start { tid, name }),
        (
            any::<u64>(),
            any::<u32>(),
            any::<u8>(),
            any::<u16>(),
            prop::collection::vec(any::<u64>(), 0..40)
        )
            .prop_map(|(time, weight, flags, shared, frames)| Item::Sample {
                time,
                weight,
                flags,
                shared,
                frames
            }),
        (
            any::<(u64, u64)>(),
            prop::collection::vec(any::<u8>(), 0..33),
            prop::collection::vec(any::<u8>(), 0..80)
        )
            .prop_map(|(range, build_id, path)| Item::Module {
                range,
                build_id,
                path
            }),
        (any::<u64>(), prop::collection::vec(any::<u8>(), 0..50))
            .prop_map(|(code, text)| Item::Note { code, text }),
        any::<u64>().prop_map(|cpu| Item::End { cpu }),
        (
            any::<u8>(),
            any::<u16>(),
            prop::collection::vec(any::<u64>(), 0..40)
        )
            .prop_map(|(flags, shared, frames)| Item::PythonStack {
                flags,
                shared,
                frames
            }),
        (
            any::<(u64, u32, u8)>(),
            any::<String>(),
            "[a-zé中🐍]{0,20}",
            prop::collection::vec(any::<u8>(), 0..50)
        )
            .prop_map(|((key, first_line, form), name, file, lines)| {
                Item::PythonCode {
                    key,
                    first_line,
                    form,
                    name,
                    file,
                    lines,
                }
            }),
        "[a-zA-Zäß€]{0,20}".prop_map(|name| Item::PythonThread { name }),
        proptest::collection::vec(any::<u64>(), 0..=MOST_EVENTS)
            .prop_map(|values| Item::Counters { values }),
        any::<(u8, u32, u64)>().prop_map(|(flags, version, address)| Item::PythonInterpreter {
            flags,
            version,
            address
        }),
    ]
}

fn put(ring: &Producer<'_>, item: &Item) -> bool {
    match item {
        Item::Start { tid, name } => record::put_thread_start(ring, 1, *tid, 2, name, 3),
        Item::Sample {
            time,
            weight,
            flags,
            shared,
            frames,
        } => record::put_sample(ring, *time, *weight, *flags, *shared, frames),
        Item::Module {
            range,
            build_id,
            path,
        } => record::put_module(
            ring,
            &record::Module {
                time_ns: 4,
                start: range.0,
                end: range.1,
                bias: 5,
                build_id,
                path,
            },
        ),
        Item::Note { code, text } => record::put_note(ring, 6, *code, text),
        Item::End { cpu } => record::put_thread_end(ring, 7, *cpu, &[b'x'; 16]),
        Item::PythonStack {
            flags,
            shared,
            frames,
        } => record::put_python_stack(ring, *flags, *shared, frames),
        Item::PythonCode {
            key,
            first_line,
            form,
            name,
            file,
            lines,
        } => {
            let ((name_width, name), (file_width, file)) =
                (as_python_keeps_it(name), as_python_keeps_it(file));
            record::put_python_code(
                ring,
                *key,
                *first_line,
                *form,
                &foreign(name_width, &name),
                &foreign(file_width, &file),
                &foreign(1, lines),
            )
        }
        Item::PythonThread { name } => {
            let (width, name) = as_python_keeps_it(name);
            record::put_python_thread(ring, &foreign(width, &name))
        }
        Item::PythonInterpreter {
            flags,
            version,
            address,
        } => record::put_python_interpreter(ring, 8, *flags, *version, *address),
        Item::Counters { values } => record::put_counters(ring, 9, 10, 11, values),
    }
}

fn matches(item: &Item, record: &Record<'_>) -> bool {
    match (item, record) {
        (
            Item::Start { tid, name },
            Record::ThreadStart {
                time_ns,
                tid: t,
                clock,
                name: n,
                routine,
            },
        ) => (*time_ns, *clock, *routine) == (1, 2, 3) && tid == t && name == n,
        (
            Item::Sample {
                time,
                weight,
                flags,
                shared,
                frames,
            },
            Record::Sample {
                time_ns,
                weight: w,
                flags: f,
                shared: s,
                frames: got,
            },
        ) => time == time_ns && weight == w && flags == f && shared == s && frames == got,
        (
            Item::Module {
                range,
                build_id,
                path,
            },
            Record::Module {
                time_ns,
                start,
                end,
                bias,
                build_id: id,
                path: p,
            },
        ) => (*time_ns, *bias) == (4, 5) && *range == (*start, *end) && build_id == id && path == p,
        (
            Item::Note { code, text },
            Record::Note {
                time_ns,
                code: c,
                text: t,
            },
        ) => *time_ns == 6 && code == c && text == t,
        (
            Item::End { cpu },
            Record::ThreadEnd {
                time_ns,
                cpu_time_ns,
                name,
            },
        ) => *time_ns == 7 && cpu == cpu_time_ns && *name == [b'x'; 16],
        (
            Item::PythonStack {
                flags,
                shared,
                frames,
            },
            Record::PythonStack {
                flags: f,
                shared: s,
                frames: got,
            },
        ) => flags == f && shared == s && frames == got,
        (
            Item::PythonCode {
                key,
                first_line,
                form,
                name,
                file,
                lines,
            },
            Record::PythonCode {
                key: k,
                first_line: l,
                form: f,
                name: n,
                file: p,
                lines: t,
            },
        ) => (key, first_line, form, name, file, lines) == (k, l, f, n, p, t),
        (Item::PythonThread { name }, Record::PythonThread { name: got }) => name == got,
        (
            Item::Counters { values },
            Record::Counters {
                time_ns,
                enabled_ns,
                running_ns,
                values: got,
            },
        ) => (*time_ns, *enabled_ns, *running_ns) == (9, 10, 11) && values == got,
        (
            Item::PythonInterpreter {
                flags,
                version,
                address,
            },
            Record::PythonInterpreter {
                time_ns,
                flags: f,
                version: v,
                address: a,
            },
        ) => *time_ns == 8 && (flags, version, address) == (f, v, a),
        _ => false,
    }
}

proptest! {
    /// Whatever is written and whenever it is drained: accepted records come out equal and in
    /// order, refused ones are those that did not fit.
    #[test]
    fn accepted_records_come_out_equal(
        items in prop::collection::vec((item(), any::<bool>()), 1..60),
        size in 6_u32..9,
    ) {
        let header = RingHeader::new();
        let words = words(1 << size);
        let producer = Producer::new(&header, &words).expect("a power of two");
        let mut consumer = Consumer::new(&header, &words).expect("a power of two");
        let (mut accepted, mut received) = (Vec::new(), Vec::new());
        for (item, drain) in &items {
            if put(&producer, item) {
                accepted.push(item.clone());
            } else {
                header.count_drop(DropCause::RingFull, 1);
            }
            if *drain {
                prop_assert_ne!(consumer.drain(&mut received), Drained::Corrupt);
            }
        }
        prop_assert_ne!(consumer.drain(&mut received), Drained::Corrupt);
        let records: Vec<_> = Records::new(&received).collect();
        prop_assert_eq!(records.len(), accepted.len());
        for (item, record) in accepted.iter().zip(&records) {
            let record = record.as_ref().expect("well formed");
            prop_assert!(matches(item, record), "{:?} became {:?}", item, record);
        }
        let dropped = header.dropped[0].load(Ordering::Relaxed) as usize;
        prop_assert_eq!(dropped + accepted.len(), items.len());
    }

    /// Any words at all: the reader ends, and consumes no more than there is.
    #[test]
    fn random_words_never_upset_the_reader(raw in prop::collection::vec(any::<u64>(), 0..200)) {
        prop_assert!(Records::new(&raw).count() <= raw.len());
    }

    /// Nearly sensible words: small lengths and known kinds.
    #[test]
    fn plausible_words_never_upset_the_reader(
        raw in prop::collection::vec((0_u64..21, 0_u64..4, 0_u64..12), 0..200)
    ) {
        let raw: Vec<u64> =
            raw.iter().map(|(kind, flags, words)| kind | flags << 8 | words << 32).collect();
        prop_assert!(Records::new(&raw).count() <= raw.len());
    }

    /// A header with any counters: the consumer returns at most one ring's worth, then recovers.
    #[test]
    fn hostile_counters_never_upset_the_consumer(heads in prop::collection::vec(any::<u64>(), 1..20)) {
        let header = RingHeader::new();
        let words = words(64);
        let mut consumer = Consumer::new(&header, &words).expect("a power of two");
        for head in heads {
            header.head.store(head, Ordering::Relaxed);
            let mut received = Vec::new();
            consumer.drain(&mut received);
            prop_assert!(received.len() <= 64);
            prop_assert!(Records::new(&received).count() <= 64);
            prop_assert!(!consumer.has_data());
        }
    }

    /// A datagram is read back as it was written, and any other bytes are refused or harmless.
    #[test]
    fn datagrams(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 1_u32..5000) {
        if let Ok(hello) = Hello::from_bytes(&bytes) {
            prop_assert_eq!(&hello.to_bytes()[..], &bytes[..]);
        }
        if let Ok((hello, path)) = Hello::with_path(&bytes) {
            prop_assert_eq!([&hello.to_bytes()[..], path].concat(), bytes);
        }
        let hello = Hello {
            magic: handshake::MAGIC,
            version: VERSION,
            kind: HelloKind::Segment as u32,
            instance: 42,
            pid: 7,
            segment: 3,
            ring_count: count,
            ring_words: 1024,
            segment_bytes: 0,
        };
        prop_assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
        let left_out = Hello { kind: HelloKind::LeftOut as u32, ..hello };
        for (hello, path_bytes, is_valid) in [
            (hello, 0, true),
            (hello, 1, false),
            (left_out, 0, true),
            (left_out, handshake::PATH_BYTES, true),
            (left_out, handshake::PATH_BYTES + 1, false),
        ] {
            let path = vec![b'p'; path_bytes];
            let datagram = [&hello.to_bytes()[..], &path].concat();
            let read = Hello::with_path(&datagram);
            prop_assert_eq!(read, if is_valid { Ok((hello, &path[..])) } else { Err(HelloError::Size) });
        }
        prop_assert_eq!(Geometry::of_hello(&hello), None);
        if let Some(geometry) = Geometry::new(count, 1024) {
            let right = Hello { segment_bytes: geometry.bytes() as u64, ..hello };
            prop_assert_eq!(Geometry::of_hello(&right), Some(geometry));
        } else {
            prop_assert!(count > layout::MAX_RINGS);
        }
    }

    /// Process information: what was pushed comes back; any bytes can be read.
    #[test]
    fn process_information(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..8),
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut buffer = [0_u8; layout::INFO_BYTES];
        let mut length = 0;
        for value in &values {
            length = push_info(&mut buffer, length, InfoTag::Environment, value);
        }
        let back: Vec<_> = info_entries(&buffer[..length]).collect();
        prop_assert!(back.len() <= values.len());
        for ((tag, got), value) in back.iter().zip(&values) {
            prop_assert_eq!(*tag, InfoTag::Environment as u32);
            prop_assert!(value.starts_with(got));
        }
        prop_assert!(info_entries(&noise).count() <= noise.len());
    }

    /// The agent's settings survive their line; any line is accepted.
    #[test]
    fn agent_settings(
        line in ".{0,80}",
        hz in 0.1_f64..20000.0,
        depth in 1_u32..2048,
        events in proptest::collection::vec(
            any::<(u32, [u64; 3], bool)>()
                .prop_map(|(kind, config, user_only)| EventCode { kind, config, user_only }),
            0..=MOST_EVENTS,
        ),
    ) {
        let read = AgentSettings::from_line(&line);
        prop_assert!(read.frequency_hz > 0.0 && read.ring_words.is_power_of_two());
        let settings = AgentSettings {
            frequency_hz: hz,
            max_depth: depth,
            clock: ClockChoice::Perf,
            unwinder: UnwinderChoice::FramePointer,
            follow: FollowChoice::Exec,
            ring_words: 1 << 14,
            python: PythonChoice::Only,
            events: EventChoice::default().with(Category::Rccl).with_gpu(),
            gpu_source: GpuSource::Hsa,
            gpu_level: GpuLevel::Lite,
            launch_stacks: false,
            shortest_wait_ns: 250,
            kokkos_name_bytes: 64,
            kokkos_deep_copy: false,
            torch_shapes: true,
            rccl_default_plugin: false,
            mpi_functions: NameList::parse("MPI_Send -Wtime I*"),
            kernel_counters: NameList::parse("SQ:4+GRBM:2@0000:08:00.0 TCC:17@0000:0c:00.0"),
            counted_kernels: Pattern::new("^void f<a b>=1$").expect("it is understood"),
            counted_every: 7,
            counters: EventList::new(events.iter().copied()),
            overflow: events.first().map(|event| Overflow { event: *event, period: 7 }),
            boot_offset_ns: -7,
            late_unless_child_of: 77,
            verbose: true,
        };
        prop_assert_eq!(AgentSettings::from_line(&settings.to_line()), settings);
    }
}

#[test]
fn a_mapped_segment_gives_its_rings() {
    let geometry = Geometry::new(3, 64).expect("sane");
    let memory = vec![0_u64; geometry.bytes() / 8 + 512];
    let base = memory
        .as_ptr()
        .cast::<u8>()
        .wrapping_add(memory.as_ptr().cast::<u8>().align_offset(4096));
    // SAFETY: the vector is long enough, the base is aligned to a page, and it outlives `segment`.
    let segment = unsafe { Segment::new(base, geometry) };
    // SAFETY: nobody else looks at the vector.
    unsafe { segment.initialise(0, 99, b"hello") };
    assert_eq!(segment.info(), b"hello");
    assert_eq!(segment.header().instance, 99);
    assert!(segment.ring_header(3).is_none() && segment.ring_words(3).is_none());
    for index in 0..3 {
        let header = segment.ring_header(index).expect("there are three");
        let words = segment.ring_words(index).expect("there are three");
        assert!(header.claim(64) && !header.claim(64));
        let producer = Producer::new(header, words).expect("a power of two");
        assert!(record::put_note(&producer, 1, u64::from(index), b"x"));
    }
    for index in 0..3 {
        let (header, words) = (segment.ring_header(index), segment.ring_words(index));
        let mut consumer =
            Consumer::new(header.expect("three"), words.expect("three")).expect("a power of two");
        let mut received = Vec::new();
        assert_eq!(consumer.drain(&mut received), Drained::Words(5));
        let record = Records::new(&received)
            .next()
            .expect("one")
            .expect("well formed");
        assert!(matches!(record, Record::Note { code, .. } if code == u64::from(index)));
    }
}
