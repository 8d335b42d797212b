//! RCCL: each call of the program, with what it moves between whom.
//!
//! RCCL calls some of its own functions through the same names; only the program's calls are told. Inside of a group nothing is launched
//! before the outermost `ncclGroupEnd`, so the calls of a group and that `ncclGroupEnd` share one correlation. What RCCL launches is
//! launched by HIP calls within ours on the same thread: that ties kernels to collectives, for a kernel's name does not say which it is.
//! docs/markers.md tells readers of traces how to follow it.

#![allow(clippy::too_many_arguments, reason = "the signatures are RCCL's")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{Category, Key, Value};

use super::arguments::Arguments;
use super::communicators::{self, Communicator, Made, hexadecimal, identity_of};
use super::gate;
use super::texts::Told;
use super::words::{Group, words};
use crate::events;
use crate::process;
use crate::symbols;

type Address = *const c_void;
type Sizes = *const usize;
type Handles = *mut *mut c_void;

/// `ncclUniqueId`, which is passed by value.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

crate::wrap! {
    fn ncclAllReduce(send: Address, receive: Address, count: usize, datatype: c_int, reduction: c_int, communicator: Address, stream: Address) -> c_int = all_reduce;
    fn ncclReduce(send: Address, receive: Address, count: usize, datatype: c_int, reduction: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = reduce;
    fn ncclReduceScatter(send: Address, receive: Address, count: usize, datatype: c_int, reduction: c_int, communicator: Address, stream: Address) -> c_int = reduce_scatter;
    fn ncclBroadcast(send: Address, receive: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = broadcast;
    fn ncclBcast(buffer: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = bcast;
    fn ncclAllGather(send: Address, receive: Address, count: usize, datatype: c_int, communicator: Address, stream: Address) -> c_int = all_gather;
    fn ncclGather(send: Address, receive: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = gather;
    fn ncclScatter(send: Address, receive: Address, count: usize, datatype: c_int, root: c_int, communicator: Address, stream: Address) -> c_int = scatter;
    fn ncclAllToAll(send: Address, receive: Address, count: usize, datatype: c_int, communicator: Address, stream: Address) -> c_int = all_to_all;
    fn ncclAllToAllv(send: Address, send_counts: Sizes, send_places: Sizes, receive: Address, receive_counts: Sizes, receive_places: Sizes, datatype: c_int, communicator: Address, stream: Address) -> c_int = all_to_all_v;
    fn ncclSend(send: Address, count: usize, datatype: c_int, peer: c_int, communicator: Address, stream: Address) -> c_int = send_to;
    fn ncclRecv(receive: Address, count: usize, datatype: c_int, peer: c_int, communicator: Address, stream: Address) -> c_int = receive_from;
    fn ncclGroupStart() -> c_int = group_start;
    fn ncclGroupEnd() -> c_int = group_end;
    fn ncclGetUniqueId(id: *mut UniqueId) -> c_int = get_unique_id;
    fn ncclCommInitRank(communicator: Handles, ranks: c_int, id: UniqueId, rank: c_int) -> c_int = init_rank;
    fn ncclCommInitRankMulti(communicator: Handles, ranks: c_int, id: UniqueId, rank: c_int, number: c_int) -> c_int = init_rank_multi;
    fn ncclCommInitRankConfig(communicator: Handles, ranks: c_int, id: UniqueId, rank: c_int, config: Address) -> c_int = init_rank_config;
    fn ncclCommInitRankScalable(communicator: Handles, ranks: c_int, rank: c_int, ids: c_int, id: *const UniqueId, config: Address) -> c_int = init_rank_scalable;
    fn ncclCommInitAll(communicators: Handles, devices: c_int, list: Address) -> c_int = init_all;
    fn ncclCommSplit(communicator: Address, color: c_int, key: c_int, new: Handles, config: Address) -> c_int = split;
    fn ncclCommFinalize(communicator: Address) -> c_int = finalize;
    fn ncclCommDestroy(communicator: Address) -> c_int = destroy;
    fn ncclCommAbort(communicator: Address) -> c_int = abort;
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

macro_rules! told {
    ($($constant:ident = $text:literal;)*) => {
        $(static $constant: Told = Told::new($text);)*
    };
}

told! {
    ALL_REDUCE = "ncclAllReduce";
    REDUCE = "ncclReduce";
    REDUCE_SCATTER = "ncclReduceScatter";
    BROADCAST = "ncclBroadcast";
    BCAST = "ncclBcast";
    ALL_GATHER = "ncclAllGather";
    GATHER = "ncclGather";
    SCATTER = "ncclScatter";
    ALL_TO_ALL = "ncclAllToAll";
    ALL_TO_ALL_V = "ncclAllToAllv";
    SEND = "ncclSend";
    RECEIVE = "ncclRecv";
    GROUP_START = "ncclGroupStart";
    GROUP_END = "ncclGroupEnd";
    GET_UNIQUE_ID = "ncclGetUniqueId";
    INIT_RANK = "ncclCommInitRank";
    INIT_RANK_MULTI = "ncclCommInitRankMulti";
    INIT_RANK_CONFIG = "ncclCommInitRankConfig";
    INIT_RANK_SCALABLE = "ncclCommInitRankScalable";
    INIT_ALL = "ncclCommInitAll";
    SPLIT = "ncclCommSplit";
    FINALIZE = "ncclCommFinalize";
    DESTROY = "ncclCommDestroy";
    ABORT = "ncclCommAbort";
    MIXED = "mixed";
    OTHER = "other";
}

/// By their numbers in `ncclDataType_t`: names and sizes in bytes.
static DATA_TYPES: [(Told, u64); 12] = [
    (Told::new("int8"), 1),
    (Told::new("uint8"), 1),
    (Told::new("int32"), 4),
    (Told::new("uint32"), 4),
    (Told::new("int64"), 8),
    (Told::new("uint64"), 8),
    (Told::new("float16"), 2),
    (Told::new("float32"), 4),
    (Told::new("float64"), 8),
    (Told::new("bfloat16"), 2),
    (Told::new("fp8_e4m3"), 1),
    (Told::new("fp8_e5m2"), 1),
];

/// By their numbers in `ncclRedOp_t`; what the program makes itself has others.
static REDUCTIONS: [Told; 5] = [
    Told::new("sum"),
    Told::new("prod"),
    Told::new("max"),
    Told::new("min"),
    Told::new("avg"),
];

fn by_number<T>(table: &[T], number: c_int) -> Option<&T> {
    table.get(usize::try_from(number).ok()?)
}

/// With whom the caller communicates.
#[derive(Debug, Clone, Copy)]
enum With {
    Everyone,
    Root(c_int),
    SendTo(c_int),
    ReceiveFrom(c_int),
}

/// Something that moves data.
#[derive(Debug)]
struct Operation {
    name: &'static Told,
    count: usize,
    datatype: c_int,
    reduction: Option<c_int>,
    with: With,
    communicator: Address,
    stream: Address,
}

/// Whether this call is the program's own, and to be told.
#[inline]
fn is_told() -> bool {
    super::records_rccl() && words().in_rccl == 0
}

/// Tells of a call, during which RCCL's own calls and ranges are its own affair.
fn tell(name: u64, correlation: u64, args: &Arguments<'_>, call: impl FnOnce() -> c_int) -> c_int {
    tell_with_end(name, correlation, args, call, |_| {})
}

fn tell_with_end(
    name: u64,
    correlation: u64,
    args: &Arguments<'_>,
    call: impl FnOnce() -> c_int,
    more: impl FnOnce(&mut Arguments<'_>),
) -> c_int {
    let recorded = !gate::is_caller_paused();
    if recorded {
        events::begin(Category::Rccl, name, correlation, args.as_slice());
    }
    words().in_rccl = 1;
    let result = call();
    words().in_rccl = 0;
    if recorded {
        let mut args = Arguments::new();
        if result == SUCCESS {
            more(&mut args);
        } else {
            args.put(Key::Result, Value::Int(i64::from(result)));
        }
        events::end(Category::Rccl, correlation, args.as_slice());
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

/// Tells of an operation.
fn enqueue(operation: &Operation, library: *const (), call: impl FnOnce() -> c_int) -> c_int {
    if !is_told() {
        return call();
    }
    let name = operation.name.key();
    let data_type = by_number(&DATA_TYPES, operation.datatype);
    let bytes = data_type.map_or(0, |(_, size)| size.saturating_mul(operation.count as u64));
    let communicator = known(operation.communicator, library);
    let mut args = Arguments::new();
    if let Some(communicator) = communicator {
        args.put_communicator(communicator);
        let number = match operation.with {
            With::SendTo(peer) => communicator.next_message(peer, true),
            With::ReceiveFrom(peer) => communicator.next_message(peer, false),
            _ => Some(communicator.next_operation()),
        };
        if let Some(number) = number {
            args.put(Key::Sequence, Value::Uint(number));
        }
    }
    args.put(Key::Count, Value::Uint(operation.count as u64));
    args.put(
        Key::DataType,
        Value::Known(data_type.map_or_else(|| OTHER.key(), |(name, _)| name.key())),
    );
    args.put(Key::Bytes, Value::Uint(bytes));
    if let Some(reduction) = operation.reduction {
        let name = by_number(&REDUCTIONS, reduction).unwrap_or(&OTHER);
        args.put(Key::Operation, Value::Known(name.key()));
    }
    match operation.with {
        With::Everyone => {}
        With::Root(root) => args.put(Key::Root, Value::Int(i64::from(root))),
        With::SendTo(peer) | With::ReceiveFrom(peer) => {
            args.put(Key::Peer, Value::Int(i64::from(peer)));
        }
    }
    args.put(Key::Stream, Value::Pointer(operation.stream.addr() as u64));
    let group = &mut words().group;
    let correlation = if group.depth == 0 {
        events::next_correlation()
    } else {
        group.operations = group.operations.saturating_add(1);
        group.bytes = group.bytes.saturating_add(bytes);
        if group.kind == 0 {
            group.kind = name;
        } else if group.kind != name {
            group.kind = MIXED.key();
        }
        group.correlation
    };
    tell(name, correlation, &args, call)
}

fn all_reduce(
    real: Option<ncclAllReduce::Function>,
    _place: usize,
    send: Address,
    receive: Address,
    count: usize,
    datatype: c_int,
    reduction: c_int,
    communicator: Address,
    stream: Address,
) -> c_int {
    let operation = Operation {
        name: &ALL_REDUCE,
        count,
        datatype,
        reduction: Some(reduction),
        with: With::Everyone,
        communicator,
        stream,
    };
    let call = real!(real(
        send,
        receive,
        count,
        datatype,
        reduction,
        communicator,
        stream
    ));
    enqueue(&operation, library!(real), call)
}

fn reduce(
    real: Option<ncclReduce::Function>,
    _place: usize,
    send: Address,
    receive: Address,
    count: usize,
    datatype: c_int,
    reduction: c_int,
    root: c_int,
    communicator: Address,
    stream: Address,
) -> c_int {
    let operation = Operation {
        name: &REDUCE,
        count,
        datatype,
        reduction: Some(reduction),
        with: With::Root(root),
        communicator,
        stream,
    };
    let call = real!(real(
        send,
        receive,
        count,
        datatype,
        reduction,
        root,
        communicator,
        stream
    ));
    enqueue(&operation, library!(real), call)
}

fn reduce_scatter(
    real: Option<ncclReduceScatter::Function>,
    _place: usize,
    send: Address,
    receive: Address,
    count: usize,
    datatype: c_int,
    reduction: c_int,
    communicator: Address,
    stream: Address,
) -> c_int {
    let operation = Operation {
        name: &REDUCE_SCATTER,
        count,
        datatype,
        reduction: Some(reduction),
        with: With::Everyone,
        communicator,
        stream,
    };
    let call = real!(real(
        send,
        receive,
        count,
        datatype,
        reduction,
        communicator,
        stream
    ));
    enqueue(&operation, library!(real), call)
}

/// The operations that differ in nothing but name and root.
macro_rules! rooted {
    ($($body:ident = $real:ident, $name:ident($($argument:ident),*);)*) => {
        $(
            fn $body(
                real: Option<$real::Function>,
                _place: usize,
                $($argument: Address,)*
                count: usize,
                datatype: c_int,
                root: c_int,
                communicator: Address,
                stream: Address,
            ) -> c_int {
                let operation = Operation {
                    name: &$name,
                    count,
                    datatype,
                    reduction: None,
                    with: With::Root(root),
                    communicator,
                    stream,
                };
                let call = real!(real($($argument,)* count, datatype, root, communicator, stream));
                enqueue(&operation, library!(real), call)
            }
        )*
    };
}

rooted! {
    broadcast = ncclBroadcast, BROADCAST(send, receive);
    bcast = ncclBcast, BCAST(buffer);
    gather = ncclGather, GATHER(send, receive);
    scatter = ncclScatter, SCATTER(send, receive);
}

/// Those without a root.
macro_rules! rootless {
    ($($body:ident = $real:ident, $name:ident;)*) => {
        $(
            fn $body(
                real: Option<$real::Function>,
                _place: usize,
                send: Address,
                receive: Address,
                count: usize,
                datatype: c_int,
                communicator: Address,
                stream: Address,
            ) -> c_int {
                let operation = Operation {
                    name: &$name,
                    count,
                    datatype,
                    reduction: None,
                    with: With::Everyone,
                    communicator,
                    stream,
                };
                let call = real!(real(send, receive, count, datatype, communicator, stream));
                enqueue(&operation, library!(real), call)
            }
        )*
    };
}

rootless! {
    all_gather = ncclAllGather, ALL_GATHER;
    all_to_all = ncclAllToAll, ALL_TO_ALL;
}

fn all_to_all_v(
    real: Option<ncclAllToAllv::Function>,
    _place: usize,
    send: Address,
    send_counts: Sizes,
    send_places: Sizes,
    receive: Address,
    receive_counts: Sizes,
    receive_places: Sizes,
    datatype: c_int,
    communicator: Address,
    stream: Address,
) -> c_int {
    let call = real!(real(
        send,
        send_counts,
        send_places,
        receive,
        receive_counts,
        receive_places,
        datatype,
        communicator,
        stream
    ));
    if !is_told() {
        return call();
    }
    let ranks = known(communicator, library!(real)).and_then(Communicator::ranks);
    let count = match ranks {
        Some(ranks) if !send_counts.is_null() => {
            // SAFETY: RCCL reads as many numbers from there.
            let counts = unsafe { std::slice::from_raw_parts(send_counts, ranks as usize) };
            counts
                .iter()
                .fold(0, |sum: usize, count| sum.saturating_add(*count))
        }
        _ => 0,
    };
    let operation = Operation {
        name: &ALL_TO_ALL_V,
        count,
        datatype,
        reduction: None,
        with: With::Everyone,
        communicator,
        stream,
    };
    enqueue(&operation, library!(real), call)
}

/// Messages between two ranks.
macro_rules! messages {
    ($($body:ident = $real:ident, $name:ident, $with:ident;)*) => {
        $(
            fn $body(
                real: Option<$real::Function>,
                _place: usize,
                buffer: Address,
                count: usize,
                datatype: c_int,
                peer: c_int,
                communicator: Address,
                stream: Address,
            ) -> c_int {
                let operation = Operation {
                    name: &$name,
                    count,
                    datatype,
                    reduction: None,
                    with: With::$with(peer),
                    communicator,
                    stream,
                };
                let call = real!(real(buffer, count, datatype, peer, communicator, stream));
                enqueue(&operation, library!(real), call)
            }
        )*
    };
}

messages! {
    send_to = ncclSend, SEND, SendTo;
    receive_from = ncclRecv, RECEIVE, ReceiveFrom;
}

fn group_start(real: Option<ncclGroupStart::Function>, _place: usize) -> c_int {
    if !is_told() {
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
    let result = tell(
        GROUP_START.key(),
        correlation,
        &Arguments::new(),
        real!(real()),
    );
    if result == SUCCESS {
        let group = &mut words().group;
        group.depth = group.depth.saturating_add(1);
    }
    result
}

fn group_end(real: Option<ncclGroupEnd::Function>, _place: usize) -> c_int {
    if !is_told() {
        return real!(real())();
    }
    let group = words().group;
    let mut args = Arguments::new();
    if group.depth == 1 && group.operations != 0 {
        args.put(Key::Operations, Value::Uint(u64::from(group.operations)));
        args.put(Key::Bytes, Value::Uint(group.bytes));
        args.put(Key::Detail, Value::Known(group.kind));
    }
    let correlation = match group.depth {
        0 => events::next_correlation(),
        _ => group.correlation,
    };
    // The group is over whatever comes back.
    words().group.depth = group.depth.saturating_sub(1);
    let result = tell(GROUP_END.key(), correlation, &args, real!(real()));
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

fn get_unique_id(
    real: Option<ncclGetUniqueId::Function>,
    _place: usize,
    id: *mut UniqueId,
) -> c_int {
    if !is_told() {
        return real!(real(id))();
    }
    let correlation = events::next_correlation();
    let name = GET_UNIQUE_ID.key();
    tell_with_end(
        name,
        correlation,
        &Arguments::new(),
        real!(real(id)),
        |args| {
            // SAFETY: RCCL has filled it in.
            if let Some(id) = unsafe { id.as_ref() } {
                args.put_text(Key::Communicator, &hexadecimal(identity_of(&id.0)));
            }
        },
    )
}

/// Tells of a call that makes one communicator.
fn make(
    name: &Told,
    to: Handles,
    made: Made,
    more: impl FnOnce(&mut Arguments<'_>),
    call: impl FnOnce() -> c_int,
) -> c_int {
    let mut args = Arguments::new();
    if made.identity != 0 {
        args.put_text(Key::Communicator, &hexadecimal(made.identity));
    }
    if let (Some(rank), Some(ranks)) = (made.rank, made.ranks) {
        args.put(Key::Rank, Value::Int(i64::from(rank)));
        args.put(Key::Ranks, Value::Int(i64::from(ranks)));
    }
    more(&mut args);
    let group = words().group;
    let correlation = match group.depth {
        0 => events::next_correlation(),
        _ => group.correlation,
    };
    let result = tell(name.key(), correlation, &args, call);
    if result == SUCCESS || result == IN_PROGRESS {
        if group.depth > 0 {
            communicators::expect(thread(), to, made);
        } else if let Some(handle) = {
            // SAFETY: RCCL has just stored there itself.
            unsafe { to.as_ref() }
        } {
            communicators::insert(*handle, made);
        }
    }
    result
}

/// The functions that make a communicator from a unique id.
macro_rules! inits {
    ($($body:ident = $real:ident, $name:ident($($more:ident: $type:ty),*);)*) => {
        $(
            fn $body(
                real: Option<$real::Function>,
                _place: usize,
                to: Handles,
                ranks: c_int,
                id: UniqueId,
                rank: c_int,
                $($more: $type),*
            ) -> c_int {
                let call = real!(real(to, ranks, id, rank $(, $more)*));
                if !is_told() {
                    return call();
                }
                let made = Made {
                    identity: identity_of(&id.0),
                    rank: Some(rank),
                    ranks: Some(ranks),
                };
                make(&$name, to, made, |_| {}, call)
            }
        )*
    };
}

inits! {
    init_rank = ncclCommInitRank, INIT_RANK();
    init_rank_multi = ncclCommInitRankMulti, INIT_RANK_MULTI(number: c_int);
    init_rank_config = ncclCommInitRankConfig, INIT_RANK_CONFIG(config: Address);
}

fn init_rank_scalable(
    real: Option<ncclCommInitRankScalable::Function>,
    _place: usize,
    to: Handles,
    ranks: c_int,
    rank: c_int,
    ids: c_int,
    id: *const UniqueId,
    config: Address,
) -> c_int {
    let call = real!(real(to, ranks, rank, ids, id, config));
    if !is_told() {
        return call();
    }
    let bytes = usize::try_from(ids)
        .unwrap_or(0)
        .saturating_mul(size_of::<UniqueId>());
    let identity = if id.is_null() {
        0
    } else {
        // SAFETY: RCCL reads as many ids from there.
        identity_of(unsafe { std::slice::from_raw_parts(id.cast::<u8>(), bytes) })
    };
    let made = Made {
        identity,
        rank: Some(rank),
        ranks: Some(ranks),
    };
    make(&INIT_RANK_SCALABLE, to, made, |_| {}, call)
}

fn init_all(
    real: Option<ncclCommInitAll::Function>,
    _place: usize,
    to: Handles,
    devices: c_int,
    list: Address,
) -> c_int {
    static MADE: AtomicU64 = AtomicU64::new(1);
    let call = real!(real(to, devices, list));
    if !is_told() {
        return call();
    }
    // All ranks are of this process, so whatever no other process has will do.
    let number = process::instance().wrapping_add(MADE.fetch_add(1, Ordering::Relaxed));
    let identity = identity_of(&number.to_le_bytes());
    let mut args = Arguments::new();
    args.put_text(Key::Communicator, &hexadecimal(identity));
    args.put(Key::Ranks, Value::Int(i64::from(devices)));
    let result = tell(INIT_ALL.key(), events::next_correlation(), &args, call);
    if result == SUCCESS {
        for rank in 0..devices {
            // SAFETY: RCCL has just stored as many.
            let handle = unsafe { *to.wrapping_add(rank as usize) };
            let made = Made {
                identity,
                rank: Some(rank),
                ranks: Some(devices),
            };
            communicators::insert(handle, made);
        }
    }
    result
}

fn split(
    real: Option<ncclCommSplit::Function>,
    _place: usize,
    communicator: Address,
    color: c_int,
    key: c_int,
    new: Handles,
    config: Address,
) -> c_int {
    let call = real!(real(communicator, color, key, new, config));
    if !is_told() {
        return call();
    }
    let parent = known(communicator, library!(real));
    let made = Made {
        identity: parent.map_or(0, |parent| parent.next_split(color)),
        rank: None,
        ranks: None,
    };
    let more = |args: &mut Arguments<'_>| {
        if let Some(parent) = parent.map(Communicator::text).filter(|text| *text != 0) {
            args.put(Key::Parent, Value::Known(parent));
        }
        args.put(Key::Color, Value::Int(i64::from(color)));
    };
    make(&SPLIT, new, made, more, call)
}

/// The calls that end a communicator. Its address may be used again as soon as it is gone.
macro_rules! ends {
    ($($body:ident = $real:ident, $name:ident, $removes:literal;)*) => {
        $(
            fn $body(real: Option<$real::Function>, _place: usize, communicator: Address) -> c_int {
                let call = real!(real(communicator));
                if !is_told() {
                    return call();
                }
                let mut args = Arguments::new();
                if let Some(known) = communicators::find(communicator) {
                    args.put_communicator(known);
                }
                if $removes {
                    communicators::remove(communicator);
                }
                tell($name.key(), events::next_correlation(), &args, call)
            }
        )*
    };
}

ends! {
    finalize = ncclCommFinalize, FINALIZE, false;
    destroy = ncclCommDestroy, DESTROY, true;
    abort = ncclCommAbort, ABORT, true;
}
