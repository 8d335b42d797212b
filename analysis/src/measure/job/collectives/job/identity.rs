//! What tells hosts and copies of a job apart.

use std::path::Path;

use crate::measure::job::collectives::read::operations::Member;
use rsys_traces::model::{CollectiveCall, Model, Process};

/// The folder of a file.
pub(crate) fn folder_of(file: &str) -> &str {
    let folder = Path::new(file).parent().and_then(Path::to_str);
    folder.unwrap_or("")
}

/// The folder that tells the copies of a member apart. Where neither communicator nor rank has a name, others are no copies.
pub(crate) fn folder_of_member<'p>(
    member: &Member,
    process: &'p Process,
    model: &Model,
) -> &'p str {
    let is_by_order = || CollectiveCall::is_by_order(model.text(member.communicator));
    match member.rank.is_none() && is_by_order() {
        true => "",
        false => folder_of(&process.file),
    }
}

/// Whether nothing but its file says what host a process is of.
pub(crate) fn is_of_unknown_host(process: &Process) -> bool {
    process.boot_id.is_empty() && process.host.is_empty()
}

/// What tells hosts apart: clocks of one boot are one clock.
pub(crate) fn host_key(process: &Process) -> &str {
    let keys = [&process.boot_id, &process.host, &process.file];
    keys.into_iter()
        .find(|key| !key.is_empty())
        .map_or("", String::as_str)
}
