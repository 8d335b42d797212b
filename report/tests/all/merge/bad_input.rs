//! What cannot be merged, traces that were cut off, and damaged ones.

use crate::common::{FIRST, SECOND, Scratch, Writer, contents, merge_all, whole_packets};
use rsys_proto::Compression;
use rsys_report::merge::{Packing, Request, merge};

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

/// The ordinary trace of the first process.
fn first(compression: Compression) -> Vec<u8> {
    Writer {
        compression,
        ..FIRST
    }
    .ordinary()
}

#[test]
fn a_trace_cut_anywhere_is_merged_up_to_there() {
    let scratch = Scratch::new();
    let whole = scratch.write("whole.proto", &SECOND.ordinary());
    for compression in [Compression::None, Compression::Zlib] {
        let bytes = first(compression);
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
        let bytes = first(compression);
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
