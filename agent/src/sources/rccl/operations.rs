//! What moves data: collectives and messages.

use std::ffi::c_int;

use rsys_wire::event::{ArgWords, Key, Value};

use crate::events;
use crate::events::texts::StaticText;
use crate::sources::marker_words::words;
use crate::sources::rccl::communicators::Communicator;
use crate::sources::rccl::profiler::{self, calls};
use crate::sources::rccl::{
    Address, IN_PROGRESS, NO_LIBRARY, Sizes, is_recorded, known, ncclAllGather, ncclAllReduce,
    ncclAllToAll, ncclAllToAllv, ncclBcast, ncclBroadcast, ncclGather, ncclRecv, ncclReduce,
    ncclReduceScatter, ncclScatter, ncclSend, record,
};

static_texts! {
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
    MIXED = "mixed";
    OTHER = "other";
}

/// By their numbers in `ncclDataType_t`: names and sizes in bytes.
static DATA_TYPES: [(StaticText, u64); 12] = [
    (StaticText::new("int8"), 1),
    (StaticText::new("uint8"), 1),
    (StaticText::new("int32"), 4),
    (StaticText::new("uint32"), 4),
    (StaticText::new("int64"), 8),
    (StaticText::new("uint64"), 8),
    (StaticText::new("float16"), 2),
    (StaticText::new("float32"), 4),
    (StaticText::new("float64"), 8),
    (StaticText::new("bfloat16"), 2),
    (StaticText::new("fp8_e4m3"), 1),
    (StaticText::new("fp8_e5m2"), 1),
];

/// By their numbers in `ncclRedOp_t`; what the program makes itself has others.
static REDUCTIONS: [StaticText; 5] = [
    StaticText::new("sum"),
    StaticText::new("prod"),
    StaticText::new("max"),
    StaticText::new("min"),
    StaticText::new("avg"),
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
    name: &'static StaticText,
    /// Where it reads and where it writes, as the library's events say it.
    buffers: [Address; 2],
    count: usize,
    datatype: c_int,
    reduction: Option<c_int>,
    with: With,
    communicator: Address,
    stream: Address,
}

/// Records an operation.
fn enqueue(operation: &Operation, library: *const (), call: impl FnOnce() -> c_int) -> c_int {
    if !is_recorded() {
        return call();
    }
    let name = operation.name.key();
    let data_type = by_number(&DATA_TYPES, operation.datatype);
    let bytes = data_type.map_or(0, |(_, size)| size.saturating_mul(operation.count as u64));
    let communicator = known(operation.communicator, library);
    let mut args = ArgWords::new();
    let mut sequence = None;
    if let Some(communicator) = communicator {
        communicator.put_into(&mut args);
        let number = match operation.with {
            With::SendTo(peer) => communicator.next_message(peer, true),
            With::ReceiveFrom(peer) => communicator.next_message(peer, false),
            _ => Some(communicator.next_operation()),
        };
        if let Some(number) = number {
            args.push(Key::Sequence, Value::Uint(number));
        }
        sequence = number;
    }
    args.push(Key::Count, Value::Uint(operation.count as u64));
    args.push(
        Key::DataType,
        Value::Known(data_type.map_or_else(|| OTHER.key(), |(name, _)| name.key())),
    );
    args.push(Key::Bytes, Value::Uint(bytes));
    if let Some(reduction) = operation.reduction {
        let name = by_number(&REDUCTIONS, reduction).unwrap_or(&OTHER);
        args.push(Key::Operation, Value::Known(name.key()));
    }
    match operation.with {
        With::Everyone => {}
        With::Root(root) => args.push(Key::Root, Value::Int(i64::from(root))),
        With::SendTo(peer) | With::ReceiveFrom(peer) => {
            args.push(Key::Peer, Value::Int(i64::from(peer)));
        }
    }
    args.push(Key::Stream, Value::Pointer(operation.stream.addr() as u64));
    let group = &mut words().group;
    let is_alone = group.depth == 0;
    let correlation = if is_alone {
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
    let announced = (profiler::is_on() && operation.count != 0).then(|| {
        let call = calls::Call {
            name,
            communicator: communicator.map_or(0, Communicator::text),
            rank: communicator.and_then(Communicator::rank),
            ranks: communicator.and_then(Communicator::ranks),
            sequence,
            correlation,
        };
        calls::announce(operation.name.text(), operation.buffers, &call)
    });
    let result = record(name, correlation, &args, call);
    // What a group holds begins when that ends.
    if let Some(announced) = announced
        && is_alone
        && result != IN_PROGRESS
    {
        calls::withdraw(announced);
    }
    result
}

/// The buffers of an operation that has one or two of them: a message has one, and a collective with one works in place.
fn buffers(given: &[Address], with: With) -> [Address; 2] {
    match (given, with) {
        (&[buffer], With::SendTo(_) | With::ReceiveFrom(_)) => [buffer, std::ptr::null()],
        (&[buffer], _) => [buffer; 2],
        (&[send, receive, ..], _) => [send, receive],
        _ => [std::ptr::null(); 2],
    }
}

/// Wrappers of functions that take buffers, a count, a type, numbers, the communicator and the stream, in this order.
macro_rules! operations {
    ($($body:ident = $real:ident($($buffer:ident),*; $($number:ident),*), $name:ident, $reduction:expr, $with:expr;)*) => {
        $(
            pub(super) fn $body(
                real: Option<$real::Function>,
                _place: usize,
                $($buffer: Address,)*
                count: usize,
                datatype: c_int,
                $($number: c_int,)*
                communicator: Address,
                stream: Address,
            ) -> c_int {
                let operation = Operation {
                    name: &$name,
                    buffers: buffers(&[$($buffer),*], $with),
                    count,
                    datatype,
                    reduction: $reduction,
                    with: $with,
                    communicator,
                    stream,
                };
                let call = real!(real($($buffer,)* count, datatype, $($number,)* communicator, stream));
                enqueue(&operation, library!(real), call)
            }
        )*
    };
}

operations! {
    all_reduce = ncclAllReduce(send, receive; reduction), ALL_REDUCE, Some(reduction), With::Everyone;
    reduce_scatter = ncclReduceScatter(send, receive; reduction), REDUCE_SCATTER, Some(reduction), With::Everyone;
    all_gather = ncclAllGather(send, receive;), ALL_GATHER, None, With::Everyone;
    all_to_all = ncclAllToAll(send, receive;), ALL_TO_ALL, None, With::Everyone;
    reduce = ncclReduce(send, receive; reduction, root), REDUCE, Some(reduction), With::Root(root);
    broadcast = ncclBroadcast(send, receive; root), BROADCAST, None, With::Root(root);
    bcast = ncclBcast(buffer; root), BCAST, None, With::Root(root);
    gather = ncclGather(send, receive; root), GATHER, None, With::Root(root);
    scatter = ncclScatter(send, receive; root), SCATTER, None, With::Root(root);
    send_to = ncclSend(buffer; peer), SEND, None, With::SendTo(peer);
    receive_from = ncclRecv(buffer; peer), RECEIVE, None, With::ReceiveFrom(peer);
}

pub(super) fn all_to_all_v(
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
    if !is_recorded() {
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
        buffers: [send, receive],
        count,
        datatype,
        reduction: None,
        with: With::Everyone,
        communicator,
        stream,
    };
    enqueue(&operation, library!(real), call)
}
