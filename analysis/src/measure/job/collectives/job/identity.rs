//! What tells hosts and copies of a job apart.

use std::path::Path;

/// The folder of a file.
pub(crate) fn folder_of(file: &str) -> &str {
    let folder = Path::new(file).parent().and_then(Path::to_str);
    folder.unwrap_or("")
}

/// Whether nothing but its file says what host a process is of.
pub(crate) fn is_of_unknown_host(process: &rsys_traces::model::Process) -> bool {
    process.boot_id.is_empty() && process.host.is_empty()
}

/// What tells hosts apart: clocks of one boot are one clock.
pub(crate) fn host_key(process: &rsys_traces::model::Process) -> &str {
    let keys = [&process.boot_id, &process.host, &process.file];
    keys.into_iter()
        .find(|key| !key.is_empty())
        .map_or("", String::as_str)
}
