//! RCCL: each call of the program, with what it moves between whom.
//!
//! RCCL calls some of its own functions through the same names; only the program's calls are recorded. Inside of a group nothing is launched
//! before the outermost `ncclGroupEnd`, so the calls of a group and that `ncclGroupEnd` share one correlation. What RCCL launches is
//! launched by HIP calls within ours on the same thread: that ties kernels to collectives, for a kernel's name does not say which it is.
//! docs/markers.md says how to follow it in a trace.
//!
//! Here is what all wrappers share, and the groups; [`operations`] move data, [`comm_lifecycle`] is about communicators.

#![allow(clippy::too_many_arguments, reason = "the signatures are RCCL's")]

use std::ffi::{c_int, c_void};

use rsys_wire::event::{ArgWords, Category, Key, Value};

type Address = *const c_void;
type Sizes = *const usize;
type Handles = *mut *mut c_void;

/// `ncclUniqueId`, which is passed by value.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

crate::wrap! {
    fn ncclAllReduce(send: Address, receive: Address, count: usize, datatype: c_int, reduction: c_int, communicator: Address, stream: Address) -> c_int = operations::all_reduce;
    fn ncclReduce(send: Address, receive: Address, count: usize, datatype: c_int, reduction: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = operations::reduce;
    fn ncclReduceScatter(send: Address, receive: Address, count: usize, datatype: c_int, reduction: c_int, communicator: Address, stream: Address) -> c_int = operations::reduce_scatter;
    fn ncclBroadcast(send: Address, receive: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = operations::broadcast;
    fn ncclBcast(buffer: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = operations::bcast;
    fn ncclAllGather(send: Address, receive: Address, count: usize, datatype: c_int, communicator: Address, stream: Address) -> c_int = operations::all_gather;
    fn ncclGather(send: Address, receive: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = operations::gather;
    fn ncclScatter(send: Address, receive: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = operations::scatter;
    fn ncclAllToAll(send: Address, receive: Address, count: usize, datatype: c_int, communicator: Address, stream: Address) -> c_int = operations::all_to_all;
    fn ncclAllToAllv(send: Address, send_counts: Sizes, send_places: Sizes, receive: Address, receive_counts: Sizes, receive_places: Sizes, datatype: c_int, communicator: Address, stream: Address) -> c_int = operations::all_to_all_v;
    fn ncclSend(send: Address, count: usize, datatype: c_int, peer: c_int, communicator: Address, stream: Address) -> c_int = operations::send_to;
    fn ncclRecv(receive: Address, count: usize, datatype: c_int, peer: c_int, communicator: Address, stream: Address) -> c_int = operations::receive_from;
    fn ncclGroupStart() -> c_int = group_start;
    fn ncclGroupEnd() -> c_int = group_end;
    fn ncclGetUniqueId(id: *mut UniqueId) -> c_int = comm_lifecycle::get_unique_id;
    fn ncclCommInitRank(communicator: Handles, ranks: c_int, id: UniqueId, rank: c_int) -> c_int = comm_lifecycle::init_rank;
    fn ncclCommInitRankMulti(communicator: Handles, ranks: c_int, id: UniqueId, rank: c_int, number: c_int) -> c_int = comm_lifecycle::init_rank_multi;
    fn ncclCommInitRankConfig(communicator: Handles, ranks: c_int, id: UniqueId, rank: c_int, config: Address) -> c_int = comm_lifecycle::init_rank_config;
    fn ncclCommInitRankScalable(communicator: Handles, ranks: c_int, rank: c_int, ids: c_int, id: *const UniqueId, config: Address) -> c_int = comm_lifecycle::init_rank_scalable;
    fn ncclCommInitAll(communicators: Handles, devices: c_int, list: Address) -> c_int = comm_lifecycle::init_all;
    fn ncclCommSplit(communicator: Address, color: c_int, key: c_int, new: Handles, config: Address) -> c_int = comm_lifecycle::split;
    fn ncclCommFinalize(communicator: Address) -> c_int = comm_lifecycle::finalize;
    fn ncclCommDestroy(communicator: Address) -> c_int = comm_lifecycle::destroy;
    fn ncclCommAbort(communicator: Address) -> c_int = comm_lifecycle::abort;
}

const SUCCESS: c_int = 0;
/// What a wrapper returns when no library has the function: "internal error".
const NO_LIBRARY: c_int = 3;
/// What a communicator that does not block returns while it works.
const IN_PROGRESS: c_int = 7;

/// Calls the real function. All arguments are the program's own.
macro_rules! real {
    ($real:ident($($argument:expr),*)) => {
        || match $real {
            // SAFETY: the caller's own arguments.
            Some(real) => unsafe { real($($argument),*) },
            None => NO_LIBRARY,
        }
    };
}

/// The address of a real function, by which its library is found.
macro_rules! library {
    ($real:ident) => {
        $real.map_or(std::ptr::null(), |real| real as *const ())
    };
}

macro_rules! static_texts {
    ($($constant:ident = $text:literal;)*) => {
        $(static $constant: StaticText = StaticText::new($text);)*
    };
}

mod comm_lifecycle;
pub mod communicators;
mod operations;
mod profiler;

use crate::events;
use crate::events::texts::StaticText;
use crate::interpose::symbols;
use crate::sources::marker_words::{Group, words};
use crate::sources::rccl::communicators::{Communicator, Made};
use crate::sources::source::Source;
use crate::state::pause;

static_texts! {
    GROUP_START = "ncclGroupStart";
    GROUP_END = "ncclGroupEnd";
}

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Rccl],
    prefix: b"nccl",
    wrapped: WRAPPED,
    answers: profiler::ANSWERS,
    at_end: profiler::at_end,
    ..Source::NONE
};

/// Whether this call is the program's own, and is recorded.
#[inline]
fn is_recorded() -> bool {
    events::records(Category::Rccl) && words().in_rccl == 0
}

/// Records a call, during which RCCL's own calls and ranges are its own affair.
fn record(name: u64, correlation: u64, args: &ArgWords, call: impl FnOnce() -> c_int) -> c_int {
    record_with_end(name, correlation, args, call, |_| {})
}

fn record_with_end(
    name: u64,
    correlation: u64,
    args: &ArgWords,
    call: impl FnOnce() -> c_int,
    more: impl FnOnce(&mut ArgWords),
) -> c_int {
    let recorded = !pause::is_caller_paused();
    if recorded {
        events::begin_with(Category::Rccl, name, correlation, args);
    }
    words().in_rccl = 1;
    let result = call();
    words().in_rccl = 0;
    if recorded {
        let mut args = ArgWords::new();
        if result == SUCCESS {
            more(&mut args);
        } else {
            args.push(Key::Result, Value::Int(i64::from(result)));
        }
        events::end_with(Category::Rccl, &args);
    }
    result
}

/// What is known of a communicator. One whose making was not seen is asked who it is.
fn known(handle: Address, library: *const ()) -> Option<&'static Communicator> {
    let nothing = Made {
        identity: 0,
        rank: None,
        ranks: None,
    };
    let found = communicators::find(handle).or_else(|| communicators::insert(handle, nothing))?;
    if found.rank().is_none() && !library.is_null() {
        ask(found, handle, library);
    }
    Some(found)
}

#[cold]
fn ask(communicator: &Communicator, handle: Address, library: *const ()) {
    type Question = unsafe extern "C" fn(Address, *mut c_int) -> c_int;
    let ask = |name| {
        let address = symbols::beside(library, name);
        // SAFETY: RCCL declares both functions so; null is None.
        let question = unsafe { std::mem::transmute::<*mut (), Option<Question>>(address) }?;
        let mut answer: c_int = -1;
        // SAFETY: the communicator that the program is about to use.
        let result = unsafe { question(handle, &raw mut answer) };
        (result == SUCCESS).then_some(answer)
    };
    if let (Some(rank), Some(ranks)) = (ask(c"ncclCommUserRank"), ask(c"ncclCommCount")) {
        communicator.set_ranks(rank, ranks);
    }
}

fn group_start(real: Option<ncclGroupStart::Function>, _place: usize) -> c_int {
    if !is_recorded() {
        return real!(real())();
    }
    let group = &mut words().group;
    if group.depth == 0 {
        *group = Group {
            depth: 0,
            operations: 0,
            bytes: 0,
            correlation: events::next_correlation(),
            kind: 0,
        };
    }
    let correlation = group.correlation;
    let result = record(
        GROUP_START.key(),
        correlation,
        &ArgWords::new(),
        real!(real()),
    );
    if result == SUCCESS {
        let group = &mut words().group;
        group.depth = group.depth.saturating_add(1);
    }
    result
}

fn group_end(real: Option<ncclGroupEnd::Function>, _place: usize) -> c_int {
    if !is_recorded() {
        return real!(real())();
    }
    let group = words().group;
    let mut args = ArgWords::new();
    if group.depth == 1 && group.operations != 0 {
        args.push(Key::Operations, Value::Uint(u64::from(group.operations)));
        args.push(Key::Bytes, Value::Uint(group.bytes));
        args.push(Key::Detail, Value::Known(group.kind));
    }
    let correlation = match group.depth {
        0 => events::next_correlation(),
        _ => group.correlation,
    };
    // The group is over whatever comes back.
    words().group.depth = group.depth.saturating_sub(1);
    let result = record(GROUP_END.key(), correlation, &args, real!(real()));
    if group.depth == 1 {
        let failed = result != SUCCESS && result != IN_PROGRESS;
        communicators::settle(thread(), failed);
    }
    result
}

/// Tells threads apart.
fn thread() -> usize {
    std::ptr::from_mut(words()).addr()
}
