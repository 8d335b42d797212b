//! What the annotations of a call of MPI say of the calls on other ranks that it depends on.

use rsys_proto::KnownNamespace;

use super::collective::communicator;
use crate::model::{MessageEnd, MpiCall, Texts};
use crate::perfetto::EventHead;
use crate::perfetto::interned::EventNames;

/// The request that a call or mark on a track is about; 0 if it says none. Arrows to the other side of a message are none.
pub(super) fn request(
    head: &EventHead<'_>,
    track: u64,
    names: &EventNames,
    texts: &mut Texts,
) -> u64 {
    let mut found = None;
    if let Some(own) = KnownNamespace::of_track(track) {
        head.flows(|flow| found = found.or(own.local_flow(flow)));
    }
    // It stands beside the arrow, or instead of it, with `--flows`.
    let mut annotations = head.annotations();
    let number = annotations.find_map(|encoded| {
        let (key, value) = names.annotation(encoded, texts);
        let is_request = texts.get(key) == "correlation";
        is_request.then(|| value.count()).flatten()
    });
    found.or(number).unwrap_or(0)
}

/// Reads the annotations of a call. Times, thread and name are left to the caller.
pub(super) fn call(
    head: &EventHead<'_>,
    track: u64,
    names: &EventNames,
    texts: &mut Texts,
) -> MpiCall {
    let mut call = MpiCall {
        request: request(head, track, names, texts),
        ..MpiCall::default()
    };
    let [mut peer, mut source, mut tag, mut received_tag] = [None; 4];
    let [mut sent, mut received] = [None; 2];
    for encoded in head.annotations() {
        let (key, value) = names.annotation(encoded, texts);
        match texts.get(key) {
            "communicator" => call.communicator = communicator(value, texts),
            "sequence" => call.sequence = value.count(),
            "rank" => call.rank = value.count(),
            "ranks" => call.ranks = value.count(),
            "root" => call.root = value.count(),
            "peer" => peer = value.count(),
            "source" => source = value.count(),
            "tag" => tag = value.count(),
            "received_tag" => received_tag = value.count(),
            "message" => sent = value.count(),
            "received_message" => received = value.count(),
            _ => {}
        }
    }
    let end = |peer: Option<u64>, tag: Option<u64>, number: Option<u64>| {
        Some(MessageEnd {
            peer: peer?,
            tag: tag?,
            number: number?,
        })
    };
    call.sends = end(peer, tag, sent);
    call.receives = end(source.or(peer), received_tag.or(tag), received);
    call
}
