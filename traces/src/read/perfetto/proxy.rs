//! What the annotations of an operation or a step of RCCL's proxies say.

use super::collective::communicator;
use super::places::HostPlace;
use crate::model::{ProxyRecord, ProxyWork, Texts};
use crate::perfetto::EventHead;
use crate::perfetto::interned::EventNames;

/// Reads the begin of an operation or a step; `None` if it is a part of a step, which has the times of its parts itself.
pub(super) fn record(
    start_ns: u64,
    head: &EventHead<'_>,
    names: &EventNames,
    place: HostPlace,
    texts: &mut Texts,
) -> Option<ProxyRecord> {
    let mut record = ProxyRecord {
        start_ns,
        end_ns: start_ns,
        process: place.process,
        name: names.name(head, texts),
        ..ProxyRecord::default()
    };
    let mut work = None;
    for encoded in head.annotations() {
        let (key, value) = names.annotation(encoded, texts);
        let number = value.count();
        match texts.get(key) {
            "communicator" => record.communicator = communicator(value, texts),
            "rank" => record.rank = number,
            "sequence" => record.sequence = number,
            "channel" => record.channel = number.unwrap_or(0),
            "peer" => record.peer = number,
            "direction" => {
                let direction = value.text(texts).unwrap_or_default();
                record.is_send = texts.get(direction) == "send";
            }
            "steps" => work = Some(ProxyWork::Operation),
            "index" => work = Some(ProxyWork::Step),
            "gpu_wait_ns" => record.gpu_wait_ns = number.unwrap_or(0),
            "peer_wait_ns" => record.peer_wait_ns = number.unwrap_or(0),
            "network_ns" => record.network_ns = number.unwrap_or(0),
            "flush_ns" => record.flush_ns = number.unwrap_or(0),
            _ => {}
        }
    }
    record.work = work?;
    Some(record)
}
