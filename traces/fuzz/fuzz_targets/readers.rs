//! Any bytes behind the start of a file of each kind, which the first byte chooses: a reader must come to the end, and no record may end before
//! it begins. Run with `cargo fuzz run -s none readers` in `traces/`.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rsys_traces::model::{Batch, Kinds, Model};
use rsys_traces::read;

/// Starts of files, which are cut off where the bytes begin.
const STARTS: [&str; 8] = [
    "",
    "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2,\"pid\":0,\"tid\":0,\"args\":{}},",
    "[{\"ph\":\"B\",",
    "{\"rocprofiler-sdk-tool\":[",
    "{\"rocprofiler-sdk-tool\":[{\"buffer_records\":{\"kernel_dispatch\":[{\"kind\":1,\"start_timestamp\":1,\"end_timestamp\":2},",
    "{\"rocprofiler-sdk-tool\":[{\"strings\":{\"buffer_records\":[{\"kind\":\"A\",\"operations\":[\"b\"]}],\"marker_api\":[",
    "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n",
    "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n",
];

static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = PathBuf::from("/dev/shm");
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    folder.join(format!("rsys-fuzz-readers-{}", std::process::id()))
});

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let start = STARTS[usize::from(*first) % STARTS.len()];
    let bytes = [start.as_bytes(), rest].concat();
    if std::fs::write(&*FILE, bytes).is_err() {
        return;
    }
    let Ok(mut reader) = read::open(&FILE, Kinds::ALL) else { return };
    let (mut model, mut batch) = (Model::default(), Batch::default());
    while reader.read(&mut model, &mut batch) {}
    assert!(batch.gpu.iter().all(|record| record.start_ns <= record.end_ns));
    assert!(batch.host.iter().all(|slice| slice.start_ns <= slice.end_ns));
});
