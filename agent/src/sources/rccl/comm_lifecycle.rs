//! Communicators: how they are made and how they end.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{ArgWords, Key, Value};

use crate::events;
use crate::events::texts::StaticText;
use crate::sources::marker_words::words;
use crate::sources::rccl::communicators::{self, Communicator, Made, hexadecimal, identity_of};
use crate::sources::rccl::{
    Address, Handles, IN_PROGRESS, NO_LIBRARY, SUCCESS, UniqueId, is_recorded, known,
    ncclCommAbort, ncclCommDestroy, ncclCommFinalize, ncclCommInitAll, ncclCommInitRank,
    ncclCommInitRankConfig, ncclCommInitRankMulti, ncclCommInitRankScalable, ncclCommSplit,
    ncclGetUniqueId, record, record_with_end, thread,
};
use crate::state;

static_texts! {
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
}

pub(super) fn get_unique_id(
    real: Option<ncclGetUniqueId::Function>,
    _place: usize,
    id: *mut UniqueId,
) -> c_int {
    if !is_recorded() {
        return real!(real(id))();
    }
    let correlation = events::next_correlation();
    let name = GET_UNIQUE_ID.key();
    record_with_end(
        name,
        correlation,
        &ArgWords::new(),
        real!(real(id)),
        |args| {
            // SAFETY: RCCL has filled it in.
            if let Some(id) = unsafe { id.as_ref() } {
                args.push(
                    Key::Communicator,
                    Value::Known(events::text(&hexadecimal(identity_of(&id.0)))),
                );
            }
        },
    )
}

/// Records a call that makes one communicator.
fn make(
    name: &StaticText,
    to: Handles,
    made: Made,
    more: impl FnOnce(&mut ArgWords),
    call: impl FnOnce() -> c_int,
) -> c_int {
    let mut args = ArgWords::new();
    if made.identity != 0 {
        args.push(
            Key::Communicator,
            Value::Known(events::text(&hexadecimal(made.identity))),
        );
    }
    if let (Some(rank), Some(ranks)) = (made.rank, made.ranks) {
        args.push(Key::Rank, Value::Int(i64::from(rank)));
        args.push(Key::Ranks, Value::Int(i64::from(ranks)));
    }
    more(&mut args);
    let group = words().group;
    let correlation = match group.depth {
        0 => events::next_correlation(),
        _ => group.correlation,
    };
    let result = record(name.key(), correlation, &args, call);
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
            pub(super) fn $body(
                real: Option<$real::Function>,
                _place: usize,
                to: Handles,
                ranks: c_int,
                id: UniqueId,
                rank: c_int,
                $($more: $type),*
            ) -> c_int {
                let call = real!(real(to, ranks, id, rank $(, $more)*));
                if !is_recorded() {
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

pub(super) fn init_rank_scalable(
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
    if !is_recorded() {
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

pub(super) fn init_all(
    real: Option<ncclCommInitAll::Function>,
    _place: usize,
    to: Handles,
    devices: c_int,
    list: Address,
) -> c_int {
    static MADE: AtomicU64 = AtomicU64::new(1);
    let call = real!(real(to, devices, list));
    if !is_recorded() {
        return call();
    }
    // All ranks are of this process, so whatever no other process has will do.
    let number = state::instance().wrapping_add(MADE.fetch_add(1, Ordering::Relaxed));
    let identity = identity_of(&number.to_le_bytes());
    let mut args = ArgWords::new();
    args.push(
        Key::Communicator,
        Value::Known(events::text(&hexadecimal(identity))),
    );
    args.push(Key::Ranks, Value::Int(i64::from(devices)));
    let result = record(INIT_ALL.key(), events::next_correlation(), &args, call);
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

pub(super) fn split(
    real: Option<ncclCommSplit::Function>,
    _place: usize,
    communicator: Address,
    color: c_int,
    key: c_int,
    new: Handles,
    config: Address,
) -> c_int {
    let call = real!(real(communicator, color, key, new, config));
    if !is_recorded() {
        return call();
    }
    let parent = known(communicator, library!(real));
    let made = Made {
        identity: parent.map_or(0, |parent| parent.next_split(color)),
        rank: None,
        ranks: None,
    };
    let more = |args: &mut ArgWords| {
        if let Some(parent) = parent.map(Communicator::text).filter(|text| *text != 0) {
            args.push(Key::Parent, Value::Known(parent));
        }
        args.push(Key::Color, Value::Int(i64::from(color)));
    };
    make(&SPLIT, new, made, more, call)
}

/// The calls that end a communicator. Its address may be used again as soon as it is gone.
macro_rules! ends {
    ($($body:ident = $real:ident, $name:ident, $removes:literal;)*) => {
        $(
            pub(super) fn $body(real: Option<$real::Function>, _place: usize, communicator: Address) -> c_int {
                let call = real!(real(communicator));
                if !is_recorded() {
                    return call();
                }
                let mut args = ArgWords::new();
                if let Some(known) = communicators::find(communicator) {
                    known.put_into(&mut args);
                }
                if $removes {
                    communicators::remove(communicator);
                }
                record($name.key(), events::next_correlation(), &args, call)
            }
        )*
    };
}

ends! {
    finalize = ncclCommFinalize, FINALIZE, false;
    destroy = ncclCommDestroy, DESTROY, true;
    abort = ncclCommAbort, ABORT, true;
}
