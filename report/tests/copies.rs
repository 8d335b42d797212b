//! Traces that are there twice: what a process did counts once.

mod common;

use std::path::PathBuf;

use common::{FIRST, SECOND, Scratch};
use rsys_report::files::without_copies;

/// The names of the files that stay, and the notes on the others.
fn left(files: &[PathBuf]) -> (Vec<String>, Vec<String>) {
    let (files, notes) = without_copies(files.to_vec());
    let names = files
        .iter()
        .map(|file| rsys_report::files::short_name(file));
    (names.collect(), notes)
}

#[test]
fn equal_files_and_packed_ones_count_once() {
    let scratch = Scratch::new();
    let trace = FIRST.ordinary();
    let mut other = trace.clone();
    // Of equal size and equal but for its last byte.
    *other.last_mut().unwrap() ^= 1;
    let files = [
        scratch.write("a.proto", &trace),
        scratch.write("b.proto", &SECOND.ordinary()),
        scratch.write("b.proto.zst", b"the same, packed"),
        scratch.write("c.proto", &trace),
        scratch.write("d.proto", &other),
        scratch.write("e.proto.gz", b"packed alone"),
        scratch.write("f.proto", b""),
        scratch.write("g.proto", b""),
        // Its unpacked form was begun only.
        scratch.write("g.proto.gz", b"packed and whole"),
    ];
    let (names, notes) = left(&files);
    let expected = [
        "a.proto",
        "b.proto",
        "d.proto",
        "e.proto.gz",
        "f.proto",
        "g.proto",
        "g.proto.gz",
    ];
    assert_eq!(names, expected);
    let kept = [&files[1], &files[0]];
    assert_eq!(notes.len(), kept.len(), "{notes:?}");
    for (note, kept) in notes.iter().zip(kept) {
        let end = format!("the same as {}, left out", kept.display());
        assert!(note.ends_with(&end), "{notes:?}");
    }
}
