//! Forms of documents, and what is said of those that are damaged, cut off, or without GPUs.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use rsys_traces::model::{HostKind, Kinds};

use super::{document, event, kernel, notices, read_bytes, read_text, times};

#[test]
fn builds_without_kineto_have_no_categories() {
    // This is what such builds write, marks that are not escaped included.
    let text = r#"[{"name": "aten::mm", "ph": "X", "ts": 378, "dur": 652, "tid": 1, "pid": "CPU functions", "args": {}}, {"name": "step "one"", "ph": "X", "ts": 1091, "dur": 2374, "tid": 1, "pid": "CPU functions", "args": {}}, {"name": "aten::add", "ph": "X", "ts": 1108, "dur": 1, "tid": 1, "pid": "CPU functions", "args": {}}]"#;
    let (model, batch) = read_text(text);
    let names: Vec<_> = batch
        .host
        .iter()
        .map(|slice| model.text(slice.name))
        .collect();
    assert_eq!(names, ["aten::mm", "aten::add"]);
    assert!(
        batch
            .host
            .iter()
            .all(|slice| slice.kind == HostKind::Operator)
    );
    let at = text.find("{\"name\": \"step").unwrap() as u64;
    assert_eq!(
        notices(&model),
        [
            (Some(at), "an event is left out here: no JSON"),
            (None, "no operations of GPUs, but 2 operators"),
        ]
    );
}

#[test]
fn a_bad_event_costs_that_event() {
    let good = kernel(
        "good",
        "5",
        "1",
        0,
        7,
        r#", "occupancy %": NaN, "bandwidth": -inf, "none": null"#,
    );
    for (bad, why) in [
        (
            kernel("a", "NaN", "1", 0, 7, ""),
            "their times are no numbers from 0 on",
        ),
        (
            kernel("a", "-1", "1", 0, 7, ""),
            "their times are no numbers from 0 on",
        ),
        (
            kernel("a", "1", "inf", 0, 7, ""),
            "their times are no numbers from 0 on",
        ),
        (
            kernel("a", "1e99", "1", 0, 7, ""),
            "their times are no numbers from 0 on",
        ),
        (
            kernel("a", "1", "-0.001", 0, 7, ""),
            "they end before they begin",
        ),
        (kernel("a \"b\" c", "1", "1", 0, 7, ""), "no JSON"),
        (
            kernel("a", "1", "1", 0, 7, r#", "dims": [[1, 2}"#),
            "no JSON",
        ),
        (
            kernel("a", "1", "1", 0, 7, r#", "dims": [[1, 2"#),
            "no JSON",
        ),
        (
            r#"{"ph": "X", "cat": "kernel", "name": "a"#.to_owned(),
            "no JSON",
        ),
        ("#!\u{0}\u{1}".to_owned(), "no JSON"),
    ] {
        let text = document(&[good.clone(), bad.clone(), good.clone()]);
        let (model, batch) = read_text(&text);
        let at = text.find(&bad).unwrap() as u64;
        let text = format!("an event is left out here: {why}");
        assert_eq!(notices(&model), [(Some(at), text.as_str())], "{bad}");
        assert_eq!(times(&batch), [(5_000, 6_000); 2], "{bad}");
    }
}

#[test]
fn all_forms_of_documents_are_read() {
    let events = [
        kernel("a", "1", "1", 0, 7, ""),
        kernel("b", "2", "1", 0, 7, ""),
    ];
    let list = events.join(",");
    let packed = |text: &str| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    };
    let whole = document(&events);
    for bytes in [
        whole.clone().into_bytes(),
        packed(&whole),
        format!("[{list}]").into_bytes(),
        format!("\n\n {whole}\n").into_bytes(),
        format!("\u{feff}{whole}").into_bytes(),
        format!(
            r#"{{"a": [{{"traceEvents": [1]}}, "]"], "traceEvents": [{list}], "b": {{"ph": "X"}}}}"#
        )
        .into_bytes(),
    ] {
        let (model, batch) = read_bytes(&bytes, Kinds::ALL);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(times(&batch), [(1_000, 2_000), (2_000, 3_000)], "{text}");
        assert_eq!(model.notices, [], "{text}");
    }
}

#[test]
fn a_file_without_operations_of_gpus_says_what_it_has() {
    let events = [
        event("cpu_op", "a", "1", "1", ""),
        event("user_annotation", "b", "1", "1", ""),
    ];
    let text = "no operations of GPUs, but 1 operator, 1 range";
    for kinds in [Kinds::ALL, Kinds::GPU] {
        let (model, _) = read_bytes(document(&events).as_bytes(), kinds);
        assert_eq!(notices(&model), [(None, text)]);
    }
    let (model, _) = read_text("{\"ranks\": [1, 2]}");
    assert_eq!(
        notices(&model),
        [(None, "JSON without a list of events (traceEvents)")]
    );
}

#[test]
fn a_file_that_is_cut_off_anywhere_loses_what_was_cut() {
    let events: Vec<String> = (1..6)
        .map(|number| {
            kernel(
                "a",
                &number.to_string(),
                "1",
                0,
                7,
                r#", "x": [{"b": "}]"}]"#,
            )
        })
        .collect();
    let whole = document(&events);
    let ends: Vec<usize> = events
        .iter()
        .scan(0, |from, event| {
            let at = whole[*from..].find(event.as_str())? + *from + event.len();
            *from = at;
            Some(at)
        })
        .collect();
    for length in 1..whole.len() {
        let (model, batch) = read_text(&whole[..length]);
        let complete = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(batch.gpu.len(), complete, "{length} bytes");
        let cut = "the file ends before its JSON does; what begins here is left out";
        let notice = model.notices.iter().find(|notice| notice.text == cut);
        let offset = notice.and_then(|notice| notice.offset).unwrap();
        assert!(
            offset <= length as u64 && length as u64 - offset < 250,
            "{offset} of {length}"
        );
    }
}

#[test]
fn long_files_and_long_events_have_right_places() {
    let long = "\\\\\\\"".repeat(100_000);
    let mut events: Vec<String> = (0..5_000)
        .map(|number| kernel("a", &number.to_string(), "1", 0, 7, ""))
        .collect();
    events.push(kernel(&long, "5000", "1", 0, 7, ""));
    events.push("{\"ph\"}".to_owned());
    events.push(kernel("last", "5001", "1", 0, 7, ""));
    let list = events.join(",\n");
    let text = format!("{{\"x\": [\"{long}\", {{\"y\": \"{long}\"}}], \"traceEvents\": [{list}]}}");
    let (model, batch) = read_text(&text);
    let expected: Vec<_> = (0..5_002)
        .map(|number| (1_000 * number, 1_000 * (number + 1)))
        .collect();
    assert_eq!(times(&batch), expected);
    let at = text.find("{\"ph\"}").unwrap() as u64;
    assert_eq!(
        notices(&model),
        [(Some(at), "an event is left out here: no JSON")]
    );
}

#[test]
fn a_packed_file_that_is_cut_off_is_read_as_far_as_it_goes() {
    let events: Vec<String> = (0..20_000)
        .map(|number| {
            kernel(
                &format!("k{}", number * 7919 % 10_007),
                &number.to_string(),
                "1",
                0,
                7,
                "",
            )
        })
        .collect();
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(document(&events).as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let (model, batch) = read_bytes(&packed[..packed.len() / 2], Kinds::ALL);
    assert!(batch.gpu.len() > 1_000, "{}", batch.gpu.len());
    let [notice] = model.notices.as_slice() else {
        panic!("{:?}", model.notices);
    };
    assert!(
        notice.text.starts_with("cannot be read further"),
        "{notice}"
    );
    assert!(notice.offset.is_some());
}
