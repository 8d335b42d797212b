//! What operations and steps of proxies are recorded as.

use std::sync::atomic::Ordering;

use rsys_wire::event::{ArgWords, Category, Key, Value};

use crate::events;
use crate::events::texts::{self, StaticText};
use crate::sources::rccl::communicators::hexadecimal;
use crate::sources::rccl::profiler::abi::Phase;
use crate::sources::rccl::profiler::contexts::{self, Context};
use crate::sources::rccl::profiler::handles::{self, Entry, OPERATION, STEP};
use crate::state::pause;

static_texts! {
    SEND = "send";
    RECEIVE = "receive";
    STEP_NAME = "step";
    UNKNOWN = "operation of a proxy";
    UNFINISHED = "unfinished";
}

const WAITED: [Key; Phase::COUNT] = [
    Key::GpuWaitNs,
    Key::PeerWaitNs,
    Key::NetworkNs,
    Key::FlushNs,
];

impl Context {
    /// The name of the communicator: ours, or the library's number of it.
    fn text(&self) -> u64 {
        match (
            self.communicator.load(Ordering::Relaxed),
            self.hash.load(Ordering::Relaxed),
        ) {
            (0, 0) => 0,
            (0, hash) => texts::key_of(&hexadecimal(hash)),
            (known, _) => known,
        }
    }
}

/// Records an operation or step that ends now, or that has not ended.
pub fn entry(entry: &Entry, now_ns: u64, is_over: bool) {
    if pause::is_caller_paused() {
        return;
    }
    let word = |word: &std::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
    let is_operation = entry.kind.load(Ordering::Relaxed) == OPERATION;
    let mut args = ArgWords::new();
    if let Some(context) = contexts::at(entry.context.load(Ordering::Relaxed)) {
        let communicator = context.text();
        if communicator != 0 {
            args.push(Key::Communicator, Value::Known(communicator));
        }
        for (key, number) in [(Key::Rank, &context.rank), (Key::Ranks, &context.ranks)] {
            if let Ok(number) = u64::try_from(number.load(Ordering::Relaxed)) {
                args.push(key, Value::Uint(number));
            }
        }
    }
    if let Some(sequence) = word(&entry.sequence).checked_sub(1) {
        args.push(Key::Sequence, Value::Uint(sequence));
    }
    let channel = entry.channel.load(Ordering::Relaxed);
    args.push(Key::Channel, Value::Uint(u64::from(channel)));
    let direction = match entry.is_send.load(Ordering::Relaxed) {
        0 => &RECEIVE,
        _ => &SEND,
    };
    args.push(Key::Direction, Value::Known(direction.key()));
    let peer = entry.peer.load(Ordering::Relaxed).cast_signed();
    args.push(Key::Peer, Value::Int(i64::from(peer)));
    let steps = u64::from(entry.steps.load(Ordering::Relaxed));
    let what = if is_operation { Key::Steps } else { Key::Index };
    args.push(what, Value::Uint(steps));
    let bytes = entry.bytes_to_tell();
    if bytes != 0 {
        args.push(Key::Bytes, Value::Uint(bytes));
    }
    for (key, waited) in WAITED.into_iter().zip(&entry.waited_ns) {
        let waited = word(waited);
        if waited != 0 {
            args.push(key, Value::Uint(waited));
        }
    }
    if !is_over {
        args.push(Key::Detail, Value::Known(UNFINISHED.key()));
    }
    let name = match (is_operation, word(&entry.name)) {
        (false, _) => STEP_NAME.key(),
        (true, 0) => UNKNOWN.key(),
        (true, name) => name,
    };
    let when_ns = [word(&entry.begin_ns), now_ns];
    events::span(when_ns, Category::RcclProxy, name, &args);
}

/// The key of the name of a function of the library's, which it calls `AllReduce` and the program `ncclAllReduce`.
pub fn function(function: *const std::ffi::c_char) -> u64 {
    if function.is_null() {
        return 0;
    }
    let mut text = [0_u8; 64];
    let (prefix, rest) = text.split_at_mut(4);
    prefix.copy_from_slice(b"nccl");
    let name = texts::bytes_of(function);
    let bytes = name.len().min(rest.len());
    for (to, from) in rest.iter_mut().zip(name) {
        *to = *from;
    }
    texts::key_of(text.get(..bytes.wrapping_add(4)).unwrap_or(&[]))
}

/// What becomes of operations and steps that have not ended, when they are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// They are forgotten: nothing can end them any more.
    Gone,
    /// They go on, if the process does: what is recorded of them later begins now.
    Stay,
}

/// Records what has not ended, of one communicator or of all. Steps come first, whose times are their operations' too.
pub fn unfinished(of: Option<&'static Context>, now_ns: u64, then: Then) {
    let place = of.map(Context::place);
    for kind in [STEP, OPERATION] {
        for (open, handle) in handles::open(kind) {
            let is_of = place.is_none_or(|place| open.context.load(Ordering::Relaxed) == place);
            if !is_of || (then == Then::Gone && !open.take(handle)) {
                continue;
            }
            open.account(now_ns);
            if kind == STEP {
                open.add_to_operation();
            }
            entry(open, now_ns, false);
            match then {
                Then::Gone => open.free(),
                Then::Stay => open.begin_again(now_ns),
            }
        }
    }
}
