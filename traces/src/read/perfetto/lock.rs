//! What the annotations of a wait for a lock, and of the mark that counts a lock's uses, say.

use super::places::HostPlace;
use crate::model::{INTERPRETER_LOCK, LockCounts, LockWait, Texts};
use crate::perfetto::EventHead;
use crate::perfetto::interned::EventNames;

/// What recorded waits for the lock of a Python interpreter are called.
const PYTHON_GIL: &str = "Python GIL";

/// Reads what a wait for the lock of a Python interpreter that was seen from outside says of it; `None` if it is another wait.
pub(super) fn seen_wait(
    start_ns: u64,
    head: &EventHead<'_>,
    names: &EventNames,
    place: HostPlace,
    texts: &mut Texts,
) -> Option<LockWait> {
    let wait = wait(start_ns, head, names, place, texts);
    (texts.get(wait.function) == INTERPRETER_LOCK).then_some(LockWait {
        is_interpreter: true,
        is_sampled: true,
        ..wait
    })
}

/// Reads a mark that counts the uses of a lock; `None` if it is none.
pub(super) fn counts(
    head: &EventHead<'_>,
    names: &EventNames,
    place: HostPlace,
    texts: &mut Texts,
) -> Option<LockCounts> {
    let mut counts = LockCounts {
        process: place.process,
        ..LockCounts::default()
    };
    let mut is_counted = false;
    for encoded in head.annotations() {
        let (key, value) = names.annotation(encoded, texts);
        let number = value.count().unwrap_or(0);
        match texts.get(key) {
            "lock" => counts.address = number,
            "kind" => counts.kind = value.text(texts).unwrap_or_default(),
            "acquisitions" => {
                counts.acquisitions = number;
                is_counted = true;
            }
            "contended" => counts.contended = number,
            "wait_ns" => counts.wait_ns = number,
            "longest_wait_ns" => counts.longest_ns = number,
            "waiter" => counts.waiter = value.text(texts).unwrap_or_default(),
            "holder" => counts.holder = value.text(texts).unwrap_or_default(),
            _ => {}
        }
    }
    is_counted.then_some(counts)
}

/// Reads the begin of a wait.
pub(super) fn wait(
    start_ns: u64,
    head: &EventHead<'_>,
    names: &EventNames,
    place: HostPlace,
    texts: &mut Texts,
) -> LockWait {
    let mut wait = LockWait {
        start_ns,
        end_ns: start_ns,
        process: place.process,
        thread: place.thread,
        function: names.name(head, texts),
        ..LockWait::default()
    };
    wait.is_interpreter = texts.get(wait.function) == PYTHON_GIL;
    for encoded in head.annotations() {
        let (key, value) = names.annotation(encoded, texts);
        match texts.get(key) {
            "lock" => wait.address = value.count().unwrap_or(0),
            "holder_tid" => {
                let tid = value.count().and_then(|tid| u32::try_from(tid).ok());
                wait.holder_tid = tid.unwrap_or(0);
            }
            "holder" => wait.holder = value.text(texts).unwrap_or_default(),
            _ => {}
        }
    }
    wait
}
