//! What the annotations of a call of RCCL or MPI say of the operation.

use crate::model::{CollectiveCall, TextId, Texts};
use crate::perfetto::EventHead;
use crate::perfetto::interned::{Datum, EventNames};

/// A number of a communicator, if nothing names it: in hexadecimal, as ours are.
pub(super) fn communicator(value: Datum<'_>, texts: &mut Texts) -> TextId {
    match value.text(texts) {
        Some(text) => text,
        None => match value.count() {
            Some(number) => texts.intern(&format!("{number:016x}")),
            None => TextId::EMPTY,
        },
    }
}

/// A call that moves data between ranks, and whether it is a message without a number in its communicator, as those of MPI are.
pub(super) type Told = (CollectiveCall, bool);

/// Reads the annotations of a call; `None` if it is none that moves data. Times, thread and link are left to the caller.
pub(super) fn collective(
    head: &EventHead<'_>,
    names: &EventNames,
    texts: &mut Texts,
) -> Option<Told> {
    let mut call = CollectiveCall::default();
    let (mut has_data, mut is_message) = (false, false);
    for encoded in head.annotations() {
        let (key, value) = names.annotation(encoded, texts);
        match texts.get(key) {
            "communicator" => call.communicator = communicator(value, texts),
            "sequence" => call.sequence = value.count(),
            "datatype" => {
                call.data_type = value.text(texts).unwrap_or_default();
                has_data = true;
            }
            "tag" | "received_tag" | "type_bytes" => is_message = true,
            "bytes" => call.bytes = value.count().unwrap_or(0),
            "rank" => call.rank = value.count(),
            "ranks" => call.ranks = value.count(),
            "peer" => call.peer = value.count(),
            "blocking" => call.is_blocking = value == Datum::Bool(true),
            _ => {}
        }
    }
    let is_numbered = has_data && !is_message || call.sequence.is_some();
    let is_known = is_numbered || is_message && call.peer.is_some();
    is_known.then_some((call, !is_numbered))
}
