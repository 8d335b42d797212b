use super::*;
use crate::record::{Record, Records};
use crate::ring::{Consumer, Producer, RingHeader};
use crate::sync::AtomicU64;

/// What comes out of a ring after `write`.
fn through_a_ring(write: impl FnOnce(&Producer<'_>) -> bool, check: impl Fn(Event<'_>)) {
    let header = RingHeader::new();
    let words: Vec<AtomicU64> = (0..256).map(|_| AtomicU64::new(0)).collect();
    let ring = Producer::new(&header, &words).unwrap();
    assert!(write(&ring));
    let mut out = Vec::new();
    Consumer::new(&header, &words).unwrap().drain(&mut out);
    let mut records = Records::new(&out);
    match records.next() {
        Some(Ok(Record::Event(event))) => check(event),
        other => panic!("{other:?}"),
    }
    assert!(records.next().is_none());
}

#[test]
fn an_argument_is_found_by_its_key_alone() {
    // A value that looks like the head of another argument.
    let head = 1 << 40 | 1 << 16 | Key::Workgroup as u64;
    let args = [
        (Key::Stream, Value::Pointer(head)),
        (Key::Name, Value::Text(b"nine bytes")),
        (Key::Grid, Value::Size3([1, 2, u32::MAX])),
        (Key::Bytes, Value::Uint(7)),
    ];
    through_a_ring(
        |ring| put_begin(ring, 5, Category::Hip, 0, (0, false), args.as_slice()),
        |event| {
            let Event::Begin { args, .. } = event else {
                panic!("{event:?}");
            };
            for (key, value) in args {
                assert_eq!(args.get(key), Some(value));
                assert!(args.has_any(&[Key::Lock, key]));
            }
            assert_eq!(args.get(Key::Workgroup), None);
            assert!(!args.has_any(&[Key::Workgroup, Key::Lock]));
        },
    );
}

#[test]
fn arguments_of_all_forms_come_back() {
    let args = [
        (Key::Bytes, Value::Uint(7)),
        (Key::Result, Value::Int(-3)),
        (Key::Value, Value::Double(0.5)),
        (Key::Stream, Value::Pointer(0xdead)),
        (Key::Kernel, Value::Known(9)),
        (Key::Grid, Value::Size3([1, 2, u32::MAX])),
        (Key::Name, Value::Text(b"nine bytes")),
    ];
    through_a_ring(
        |ring| put_begin(ring, 5, Category::Rccl, 0, (77, false), args.as_slice()),
        |event| {
            let Event::Begin {
                time_ns: 5,
                category: Category::Rccl,
                name: 0,
                correlation: 77,
                awaited: false,
                args,
            } = event
            else {
                panic!("{event:?}");
            };
            let read: Vec<_> = args.into_iter().collect();
            assert_eq!(
                read,
                [
                    (Key::Bytes, Read::Uint(7)),
                    (Key::Result, Read::Int(-3)),
                    (Key::Value, Read::Double(0.5)),
                    (Key::Stream, Read::Pointer(0xdead)),
                    (Key::Kernel, Read::Known(9)),
                    (Key::Grid, Read::Size3([1, 2, u32::MAX])),
                    (Key::Name, Read::Text(b"nine bytes".to_vec())),
                ]
            );
            assert_eq!(args.number(Key::Stream), Some(0xdead));
        },
    );
}

#[test]
fn operations_labels_and_facts_come_back() {
    let op = GpuOp {
        kind: OpKind::Copy,
        start_ns: 1,
        end_ns: 2,
        correlation: 3,
        device: 4,
        queue: 5,
        stream: 6,
        name: 7,
    };
    through_a_ring(
        |ring| put_gpu(ring, &op, [(Key::Bytes, Value::Uint(8))].as_slice()),
        |event| match event {
            Event::Gpu { op: read, args } => {
                assert_eq!((read, args.number(Key::Bytes)), (op, Some(8)));
            }
            other => panic!("{other:?}"),
        },
    );
    through_a_ring(
        |ring| {
            put_label(
                ring,
                Labelled::Device,
                1,
                b"MI300X at hand",
                &[(Key::Node, Value::Uint(2))],
            )
        },
        |event| match event {
            Event::Label {
                what: Labelled::Device,
                id: 1,
                text,
                args,
            } => assert_eq!(
                (text.as_slice(), args.number(Key::Node)),
                (b"MI300X at hand".as_slice(), Some(2))
            ),
            other => panic!("{other:?}"),
        },
    );
    through_a_ring(
        |ring| put_fact(ring, b"a long enough key", b"v"),
        |event| {
            let (key, value) = (b"a long enough key".to_vec(), b"v".to_vec());
            assert_eq!(event, Event::Fact { key, value });
        },
    );
}

#[test]
fn places_come_back() {
    through_a_ring(
        |ring| put_place(ring, 7, 0x40_1234, b"parallel"),
        |event| {
            let (key, address, text) = (7, 0x40_1234, b"parallel".to_vec());
            assert_eq!(event, Event::Place { key, address, text });
        },
    );
}

#[test]
fn stacks_come_back() {
    for (frames, python) in [
        (&[][..], &[][..]),
        (&[1, 2, 3], &[]),
        (&[1], &[4, 5]),
        (&[], &[6]),
    ] {
        let stack = Stack {
            id: 42,
            flags: 2,
            frames,
            python_flags: 5,
            python,
        };
        through_a_ring(
            |ring| put_stack(ring, &stack),
            |event| assert_eq!(event, Event::Stack(stack)),
        );
    }
}

#[test]
fn long_texts_are_cut_and_hostile_lengths_refused() {
    let long = vec![b'x'; 20_000];
    let header = RingHeader::new();
    let words: Vec<AtomicU64> = (0..256).map(|_| AtomicU64::new(0)).collect();
    let ring = Producer::new(&header, &words).unwrap();
    assert!(!put_text(&ring, 1, &long), "does not fit this ring");
    let hostile = [u64::from(LABEL) | 1 << 8 | 4 << 32, 1, u64::MAX, 0];
    assert!(Records::new(&hostile).next().unwrap().is_err());
}

#[test]
fn a_span_has_both_its_times() {
    let args = [(Key::Channel, Value::Uint(3)), (Key::Peer, Value::Int(-1))];
    through_a_ring(
        |ring| put_span(ring, [5, 9], Category::RcclProxy, 4, args.as_slice()),
        |event| {
            let Event::Span {
                begin_ns: 5,
                end_ns: 9,
                category: Category::RcclProxy,
                name: 4,
                args,
            } = event
            else {
                panic!("{event:?}");
            };
            assert_eq!(args.get(Key::Channel), Some(Read::Uint(3)));
            assert_eq!(args.get(Key::Peer), Some(Read::Int(-1)));
        },
    );
}
