//! Annotations, flows, counters and samples come back as they were written.

use crate::common::packets;
use rsys_proto::resolve::Resolver;
use rsys_proto::schema::event_type;
use rsys_proto::{
    Annotation, Compression, CpuMode, Event, EventKind, FrameDesc, MappingDesc, Name, Sample,
    SampleSequence, TraceWriter, TrackSequence, Value,
};

#[test]
fn annotations_flows_and_categories_are_read_back() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::Zlib);
    let out = trace.buffer();
    let mut sequence = TrackSequence::new(out, 9);
    let (key, text, category) = (out.intern("file"), out.intern("a.cc:3"), out.intern("cpu"));
    let long = "x".repeat(1_000);
    let annotations = [
        Annotation::new(key, Value::Interned(text)),
        Annotation::new(out.intern("text"), Value::Text(&long)),
        Annotation::new(out.intern("uint"), Value::Uint(u64::MAX)),
        Annotation::new(out.intern("int"), Value::Int(-1)),
        Annotation::new(out.intern("double"), Value::Double(0.5)),
        Annotation::new(out.intern("bool"), Value::Bool(true)),
        Annotation::new(out.intern("pointer"), Value::Pointer(0xFFFF)),
    ];
    let details = Event {
        name: Name::Once("once"),
        category: Some(category),
        flows: &[1, 2],
        terminating_flows: &[3],
        correlation_id: Some(77),
        annotations: &annotations,
        ..Event::default()
    };
    // Twice: the second time everything is defined already.
    sequence.event(out, 5, EventKind::Instant, &details);
    sequence.event(out, 6, EventKind::Instant, &details);
    let file = trace.finish().unwrap();
    let mut resolver = Resolver::new();
    let mut events = 0;
    for mut packet in packets(&file) {
        let definitions = packet.interned_data.is_some();
        let time = resolver.observe(&mut packet);
        let Some(event) = &packet.track_event else {
            continue;
        };
        let sequence = resolver.sequence(&packet).unwrap();
        events += 1;
        assert_eq!(definitions, events == 1);
        assert_eq!(
            (time, event.r#type),
            (Some(4 + events), Some(event_type::INSTANT))
        );
        assert_eq!(
            (sequence.event_name(event), sequence.event_track(event)),
            ("once", 9)
        );
        assert_eq!(sequence.categories[&event.category_iids[0]], "cpu");
        assert_eq!(
            (
                &event.flow_ids[..],
                &event.terminating_flow_ids[..],
                event.correlation_id
            ),
            (&[1, 2][..], &[3][..], Some(77))
        );
        let keys: Vec<_> = event
            .debug_annotations
            .iter()
            .map(|annotation| sequence.annotation_name(annotation))
            .collect();
        assert_eq!(
            keys,
            ["file", "text", "uint", "int", "double", "bool", "pointer"]
        );
        let [file, text, uint, int, double, truth, pointer] = &event.debug_annotations[..] else {
            panic!("seven annotations")
        };
        assert_eq!(sequence.annotation_text(file), Some("a.cc:3"));
        assert_eq!(sequence.annotation_text(text), Some(long.as_str()));
        assert_eq!(
            (uint.uint_value, int.int_value, double.double_value),
            (Some(u64::MAX), Some(-1), Some(0.5))
        );
        assert_eq!(
            (truth.bool_value, pointer.pointer_value),
            (Some(true), Some(0xFFFF))
        );
    }
    assert_eq!(events, 2);
}

#[test]
fn counters_are_read_back() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    let mut sequence = TrackSequence::new(out, 9);
    sequence.counter(out, 5, -3);
    sequence.counter_on(out, 6, 10, 2.5);
    let file = trace.finish().unwrap();
    let events: Vec<_> = packets(&file)
        .into_iter()
        .filter_map(|packet| packet.track_event)
        .collect();
    assert_eq!(
        (events[0].counter_value, events[0].track_uuid),
        (Some(-3), None)
    );
    assert_eq!(
        (events[1].double_counter_value, events[1].track_uuid),
        (Some(2.5), Some(10))
    );
}

#[test]
fn samples_have_their_stacks_times_and_weights() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    let mut sequence = SampleSequence::new(out, "cpu-time ns", Some(100));
    let mapping = sequence.intern_mapping(&MappingDesc {
        path: "/usr/bin/app".to_owned(),
        build_id: vec![1, 2],
        ..MappingDesc::default()
    });
    let unknown = sequence.unknown_mapping();
    let mut expected = Vec::new();
    let mut batch = Vec::new();
    for index in 0..100_u64 {
        let names: Vec<String> = (0..1 + index % 4)
            .map(|level| format!("f{}", (level * index) % 9))
            .collect();
        let frames: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(level, name)| {
                let function = Some(sequence.intern_function(name));
                let mapping = if level == 0 { mapping } else { unknown };
                sequence.intern_frame(FrameDesc {
                    function,
                    mapping,
                    rel_pc: level as u64,
                    source: None,
                    line: None,
                })
            })
            .collect();
        let callstack = Some(sequence.intern_callstack(&frames));
        let time_ns = 1_000_000 + (index * 7_919) % 1_009;
        batch.push(Sample {
            time_ns,
            pid: 1,
            tid: 2 + index as u32 % 3,
            callstack,
            weight: index,
            mode: CpuMode::User,
            cpu: None,
        });
        expected.push((time_ns, 2 + index as u32 % 3, index, names));
        if index == 50 {
            // Half of them unsorted, with late ones among them.
            batch
                .drain(..)
                .for_each(|sample| sequence.sample(out, &sample));
        }
    }
    sequence.samples(out, &mut batch);
    let file = trace.finish().unwrap();
    let mut resolver = Resolver::new();
    let mut read = Vec::new();
    for mut packet in packets(&file) {
        let time = resolver.observe(&mut packet);
        let Some(sample) = &packet.perf_sample else {
            continue;
        };
        let sequence = resolver.sequence(&packet).unwrap();
        let functions = sequence
            .callstack_functions(sample.callstack_iid.unwrap())
            .into_iter()
            .map(str::to_owned)
            .collect();
        assert_eq!(
            sequence.mapping_path(&sequence.mappings[&1]),
            "/usr/bin/app"
        );
        read.push((
            time.unwrap(),
            sample.tid.unwrap(),
            sample.timebase_count.unwrap(),
            functions,
        ));
    }
    read.sort();
    expected.sort();
    assert_eq!(read, expected);
}
