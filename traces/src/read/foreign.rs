//! What a file of another profiler is, in words, for commands that work on traces of Perfetto's form alone.

use std::path::Path;

use super::{has_ending, is_of_rocprofv3, kineto, named, rocprofv3, unpacked, xplane};

/// What a file is, if it is of a profiler and no trace in Perfetto's protobuf form; `None` for all else.
#[must_use]
pub fn foreign_kind(path: &Path) -> Option<&'static str> {
    let file = std::fs::File::open(path).ok()?;
    let (start, _, _) = unpacked(Box::new(file)).ok()?;
    let has = |part: &[u8]| memchr::memmem::find(&start, part).is_some();
    if named::what_it_is(path, &start).is_some() {
        return Some("a file of another profiler that no command reads");
    }
    if start.starts_with(b"SQLite format 3\0") {
        return Some(
            "a database of another profiler (rocmProfileData, rocprofiler-sdk, Nsight Systems)",
        );
    }
    if kineto::is_json(&start[..start.len().min(super::JSON_START_BYTES)]) {
        return Some(match () {
            () if is_of_rocprofv3(&start) => "JSON of rocprofv3",
            () if has(b"schemaVersion") || has(b"deviceProperties") || has(b"baseTime") => {
                "a file of PyTorch's profiler"
            }
            () if has(b"/host:CPU") || has(b"/device:GPU") => {
                "a file of JAX's or TensorFlow's profiler"
            }
            () => "JSON of another profiler",
        });
    }
    if xplane::is_one(&start) || has_ending(path, xplane::ENDING) {
        return Some("a file of JAX's or TensorFlow's profiler");
    }
    match rocprofv3::is_table(&start) || !rocprofv3::csv_companions(path).is_empty() {
        true => Some("a table of rocprofv3"),
        false => None,
    }
}
