//! Traces that are there twice, packed and unpacked: what a process did counts once.

use crate::common::Scratch;
use rsys_report::files::{short_name, without_packed};

#[test]
fn packed_files_beside_unpacked_ones_count_once() {
    let scratch = Scratch::new();
    let files = [
        scratch.write("a.proto", b"a trace"),
        scratch.write("a.proto.zst", b"the same, packed"),
        scratch.write("b.proto.gz", b"packed alone"),
        // Unpacking it was begun only.
        scratch.write("c.proto", b""),
        scratch.write("c.proto.gz", b"packed and whole"),
        // A copy under another name is another trace: who asks of a job several times over wants that.
        scratch.write("d.proto", b"a trace"),
    ];
    let (left, notes) = without_packed(files.to_vec());
    let names: Vec<String> = left.iter().map(|file| short_name(file)).collect();
    let expected = ["a.proto", "b.proto.gz", "c.proto", "c.proto.gz", "d.proto"];
    assert_eq!(names, expected);
    let [note] = &notes[..] else {
        panic!("{notes:?}");
    };
    assert!(
        note.contains("a.proto.zst: a.proto beside it is read"),
        "{note}"
    );
}
