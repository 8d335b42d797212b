//! The plug-in of NCCL's and RCCL's profiler interface: what the proxies do that move data through the network, which no wrapped call shows.
//!
//! For each collective or message, each channel and each peer behind the network, a thread of the library runs an *operation* of several *steps*. A step
//! says what it waits for: the GPU, the peer's room, the network. Operations hang on the library's event of the collective, which is joined to the
//! program's call by its buffers ([`calls`]).
//!
//! The user's own plug-in stays what it is ([`chain`]): it gets each event that it asked for, with its own handles, and nothing else.
//!
//! Kernels' channels (`KernelCh`, the GPU's own clock from version 4 on) are not asked for. For these the library gives each collective an operation per channel
//! more, for which a proxy polls until the kernel has written its counters; where one never does, RCCL 7.2.4 waits for it when the communicator is destroyed.

pub mod abi;
pub mod calls;
mod chain;
mod contexts;
mod handles;
mod owner;
mod record;

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use rsys_wire::event::Category;

use self::abi::{Description, Init1, Init4, Init5, Phase, Plugin, SUCCESS, asked_by, kind};
pub use self::chain::ANSWERS;
use self::contexts::Context;
use self::handles::{OPERATION, STEP, TASK};
use self::owner::Owner;
use self::record::Then;
use crate::channel::counters;
use crate::events;
use crate::sources::source::Ending;
use crate::sys;
use rsys_wire::layout::Counter;

/// The kinds of events that we ask for.
const OURS: c_int = (kind::COLLECTIVE | kind::MESSAGE | kind::PROXY_OP | kind::PROXY_STEP) as c_int;

/// Whether proxies are recorded.
#[inline]
pub fn is_on() -> bool {
    events::records(Category::RcclProxy)
}

macro_rules! plugins {
    ($($version:literal: $init:expr;)*) => {
        /// The plug-in of a version.
        fn plugin(version: usize) -> Option<&'static Plugin> {
            match version {
                $($version => {
                    static PLUGIN: Plugin = Plugin {
                        name: c"rsys".as_ptr(),
                        init: $init,
                        start: start::<$version>,
                        stop: stop::<$version>,
                        record: record_state::<$version>,
                        finalize: finalize::<$version>,
                    };
                    Some(&PLUGIN)
                })*
                _ => None,
            }
        }
    };
}

plugins! {
    1: init_1::<1> as *const ();
    2: init_1::<2> as *const ();
    3: init_1::<3> as *const ();
    4: init_4 as *const ();
    5: init_5::<5> as *const ();
    6: init_5::<6> as *const ();
}

/// What the user's plug-in last asked for in the library's word, which all communicators share.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Sets up a communicator: `theirs` is the user's plug-in, if there is one, to which `init` hands what the library said.
///
/// # Safety
/// `to` and `mask` are the library's.
unsafe fn set_up(
    version: usize,
    (to, mask): (*mut *mut c_void, *mut c_int),
    (hash, rank, ranks): (u64, c_int, c_int),
    init: impl FnOnce(&Plugin, *mut *mut c_void) -> c_int,
) -> c_int {
    // SAFETY: the library's word, which all its communicators share.
    let word = unsafe { AtomicI32::from_ptr(mask) };
    let theirs = chain::theirs(version);
    if theirs.is_some() {
        // The user's plug-in is to find there what it left.
        word.store(ASKED.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let Some(context) = contexts::claim() else {
        counters::count(Counter::EventsWithoutRing, 1);
        let mut result = SUCCESS;
        if let Some(theirs) = theirs {
            result = init(theirs, to);
            if result == SUCCESS {
                ASKED.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        // The others are recorded as before.
        word.fetch_or(OURS, Ordering::Relaxed);
        return result;
    };
    let mut their_context = std::ptr::null_mut();
    if let Some(theirs) = theirs {
        let result = init(theirs, &raw mut their_context);
        context
            .has_theirs
            .store(result == SUCCESS, Ordering::Relaxed);
        if result == SUCCESS {
            chain::count(version, true);
        } else {
            events::note(b"the profiler plug-in that the program has for NCCL failed to start: rsys records proxies without it");
        }
    }
    context.theirs.store(their_context, Ordering::Relaxed);
    context.hash.store(hash, Ordering::Relaxed);
    context.rank.store(rank, Ordering::Relaxed);
    context.ranks.store(ranks, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { context.ask(mask, OURS) };
    ASKED.store(context.asked(OURS) as c_int, Ordering::Relaxed);
    // SAFETY: the library's.
    unsafe { *to = context.pointer() };
    SUCCESS
}

/// A communicator is set up, by the versions 1 to 3.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn init_1<const VERSION: usize>(to: *mut *mut c_void, mask: *mut c_int) -> c_int {
    let init = |theirs: &Plugin, to| {
        // SAFETY: what these versions have; the library's arguments.
        unsafe { std::mem::transmute::<*const (), Init1>(theirs.init)(to, mask) }
    };
    // SAFETY: as the library calls it.
    unsafe { set_up(VERSION, (to, mask), (0, -1, -1), init) }
}

/// The same by version 4.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn init_4(
    to: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    hash: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    log: *const c_void,
) -> c_int {
    let init = |theirs: &Plugin, to| {
        // SAFETY: as above.
        let init = unsafe { std::mem::transmute::<*const (), Init4>(theirs.init) };
        // SAFETY: as above.
        unsafe { init(to, mask, name, hash, nodes, ranks, rank, log) }
    };
    // SAFETY: as above.
    unsafe { set_up(4, (to, mask), (hash, rank, ranks), init) }
}

/// The same by the versions 5 and 6.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn init_5<const VERSION: usize>(
    to: *mut *mut c_void,
    hash: u64,
    mask: *mut c_int,
    name: *const c_char,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    log: *const c_void,
) -> c_int {
    let init = |theirs: &Plugin, to| {
        // SAFETY: as above.
        let init = unsafe { std::mem::transmute::<*const (), Init5>(theirs.init) };
        // SAFETY: as above.
        unsafe { init(to, hash, mask, name, nodes, ranks, rank, log) }
    };
    // SAFETY: as above.
    unsafe { set_up(VERSION, (to, mask), (hash, rank, ranks), init) }
}

/// A communicator is gone.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn finalize<const VERSION: usize>(context: *mut c_void) -> c_int {
    let Some(known) = contexts::find(context) else {
        return match chain::theirs(VERSION) {
            // SAFETY: its own context.
            Some(theirs) if !context.is_null() => unsafe { (theirs.finalize)(context) },
            _ => SUCCESS,
        };
    };
    record::unfinished(Some(known), sys::boottime_ns(), Then::Gone);
    let mut result = SUCCESS;
    if known.has_theirs.load(Ordering::Relaxed) {
        let theirs = known.theirs.load(Ordering::Relaxed);
        if let Some(plugin) = chain::theirs(VERSION).filter(|_| !theirs.is_null()) {
            // SAFETY: its own context.
            result = unsafe { (plugin.finalize)(theirs) };
        }
        chain::count(VERSION, false);
    }
    known.release();
    result
}

/// Hands the beginning of an event to the user's plug-in, which never sees a handle of ours. Returns its own handle, or null.
///
/// # Safety
/// `event` is the library's description of the event.
unsafe fn pass_on(
    plugin: &Plugin,
    context: *mut c_void,
    description: Description,
    event: *mut u8,
) -> *mut c_void {
    let mut handle = std::ptr::null_mut();
    let places = description.handles();
    let mut hidden = [std::ptr::null_mut(); 2];
    for (place, hidden) in places.iter().zip(&mut hidden) {
        if let Some(place) = place {
            // SAFETY: within the description, which is the library's own for this call.
            let found = unsafe { place.read_unaligned() };
            if handles::is_ours(found) {
                *hidden = found;
                // SAFETY: as above.
                unsafe { place.write_unaligned(std::ptr::null_mut()) };
            }
        }
    }
    // SAFETY: its own context, and the library's description.
    unsafe { (plugin.start)(context, &raw mut handle, event) };
    for (place, hidden) in places.iter().zip(hidden) {
        if let Some(place) = place
            && !hidden.is_null()
        {
            // SAFETY: as above.
            unsafe { place.write_unaligned(hidden) };
        }
    }
    handle
}

/// An event begins.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn start<const VERSION: usize>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    event: *mut u8,
) -> c_int {
    // SAFETY: as the library of this version hands it over.
    let description = unsafe { Description::new(event, VERSION) };
    let owner = Owner::of(context, &description);
    let mut given = std::ptr::null_mut();
    if let Some(theirs) = chain::theirs(VERSION) {
        let (their_context, asked) = match owner {
            Owner::Known(known) if known.has_theirs.load(Ordering::Relaxed) => {
                (known.theirs.load(Ordering::Relaxed), known.asked(OURS))
            }
            Owner::Known(_) => (std::ptr::null_mut(), 0),
            // Without one it has failed to start.
            Owner::Crowded if context.is_null() => (context, 0),
            Owner::Crowded | Owner::Neighbour => {
                let asked = ASKED.load(Ordering::Relaxed).cast_unsigned();
                (context, u64::from(asked))
            }
        };
        if asked & asked_by(description.kind()) != 0 {
            // SAFETY: as above.
            given = unsafe { pass_on(theirs, their_context, description, event) };
        }
    }
    let known = match owner {
        Owner::Known(known) => Some(known),
        Owner::Neighbour => None,
        Owner::Crowded => {
            // SAFETY: the library's place for it.
            unsafe { *handle = given };
            return SUCCESS;
        }
    };
    if given.is_null() {
        given = handles::next();
    }
    if is_on() {
        begin(given, known, description);
    }
    // SAFETY: the library's place for it.
    unsafe { *handle = given };
    SUCCESS
}

/// Notes an event that begins. Without a communicator it is a neighbour's.
fn begin(handle: *mut c_void, context: Option<&'static Context>, description: Description) {
    let now_ns = sys::boottime_ns();
    let place = context.map_or(contexts::ELSEWHERE, Context::place);
    let store = |entry: &handles::Entry| entry.context.store(place, Ordering::Relaxed);
    let mut kept = true;
    match description.kind() {
        kind::COLLECTIVE | kind::MESSAGE => {
            let (Some(task), Some(context)) = (description.task(), context) else {
                return;
            };
            let call = calls::take(&task, context);
            if let Some(call) = call
                && call.communicator != 0
            {
                context
                    .communicator
                    .store(call.communicator, Ordering::Relaxed);
                for (to, number) in [(&context.rank, call.rank), (&context.ranks, call.ranks)] {
                    if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
                        to.store(number, Ordering::Relaxed);
                    }
                }
            }
            kept = handles::insert(handle, TASK, now_ns, |entry| {
                store(entry);
                let name = call.map_or_else(|| record::function(task.function), |call| call.name);
                entry.name.store(name, Ordering::Relaxed);
                if let Some(call) = call {
                    let sequence = call.sequence.map_or(0, |number| number.wrapping_add(1));
                    entry.sequence.store(sequence, Ordering::Relaxed);
                    entry.correlation.store(call.correlation, Ordering::Relaxed);
                }
            });
        }
        kind::PROXY_OP => {
            let operation = description.proxy_op();
            // A neighbour's parent means nothing in this process.
            let task = context.and_then(|_| handles::find(description.parent()));
            kept = handles::insert(handle, OPERATION, now_ns, |entry| {
                store(entry);
                entry.channel.store(operation.channel, Ordering::Relaxed);
                entry
                    .is_send
                    .store(u8::from(operation.is_send), Ordering::Relaxed);
                let number = |number: i32| u32::try_from(number).unwrap_or(0);
                entry
                    .peer
                    .store(operation.peer.cast_unsigned(), Ordering::Relaxed);
                entry
                    .steps
                    .store(number(operation.steps), Ordering::Relaxed);
                if let Some(task) = task {
                    copy_task(task, entry);
                }
            });
        }
        kind::PROXY_STEP => {
            let parent = description.parent();
            let Some(operation) = handles::find(parent) else {
                counters::count(Counter::EventsWithoutRing, 1);
                return;
            };
            kept = handles::insert(handle, STEP, now_ns, |entry| {
                store(entry);
                for (to, from) in [
                    (&entry.channel, &operation.channel),
                    (&entry.is_send, &operation.is_send),
                ] {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                let peer = operation.peer.load(Ordering::Relaxed);
                entry.peer.store(peer, Ordering::Relaxed);
                let step = u32::try_from(description.step()).unwrap_or(0);
                entry.steps.store(step, Ordering::Relaxed);
                entry.parent.store(parent.addr(), Ordering::Relaxed);
                copy_task(operation, entry);
            });
        }
        _ => {}
    }
    if !kept {
        counters::count(Counter::EventsWithoutRing, 1);
    }
}

/// What belongs to the same collective or message has its name and number.
fn copy_task(from: &handles::Entry, to: &handles::Entry) {
    for (to, from) in [
        (&to.name, &from.name),
        (&to.sequence, &from.sequence),
        (&to.correlation, &from.correlation),
    ] {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// An event ends.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn stop<const VERSION: usize>(handle: *mut c_void) -> c_int {
    if let Some(entry) = handles::find(handle) {
        end(entry, handle);
    }
    match chain::theirs(VERSION) {
        Some(theirs) if !handle.is_null() && !handles::is_ours(handle) => {
            // SAFETY: its own handle.
            unsafe { (theirs.stop)(handle) }
        }
        _ => SUCCESS,
    }
}

/// Records an operation or step that ends. What a collective began goes on.
fn end(entry: &handles::Entry, handle: *mut c_void) {
    let what = entry.kind.load(Ordering::Relaxed);
    if what == TASK || !entry.take(handle) {
        return;
    }
    let now_ns = sys::boottime_ns();
    entry.enter(None, now_ns);
    if what == STEP {
        entry.add_to_operation();
    }
    if is_on() {
        record::entry(entry, now_ns, true);
    }
    entry.free();
}

/// An event comes to another state.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn record_state<const VERSION: usize>(
    handle: *mut c_void,
    state: c_int,
    values: *const u8,
) -> c_int {
    if let Some(entry) = handles::find(handle) {
        let what = entry.kind.load(Ordering::Relaxed);
        // Bytes so far: of the operation up to version 3, of the step afterwards. Other states of a step leave the word as it is.
        let has_bytes = match VERSION {
            ..4 => what == OPERATION && (0..8).contains(&state),
            _ => what == STEP && matches!(state, 9 | 11),
        };
        if has_bytes && !values.is_null() {
            // SAFETY: the first word of the values, in all versions.
            let bytes = unsafe { values.cast::<u64>().read_unaligned() };
            entry.bytes.fetch_max(bytes, Ordering::Relaxed);
        }
        if what == STEP
            && let Some(phase) = Phase::of_state(state)
        {
            entry.enter(Some(phase), sys::boottime_ns());
        }
    }
    match chain::theirs(VERSION) {
        Some(theirs) if !handle.is_null() && !handles::is_ours(handle) => {
            // SAFETY: its own handle, the library's values.
            unsafe { (theirs.record)(handle, state, values) }
        }
        _ => SUCCESS,
    }
}

/// The process ends: what is still under way is recorded as it is. Where another program was to be executed and that fails, the rest of it is recorded when it
/// ends.
pub fn at_end(ending: Ending) {
    if is_on() {
        let then = match ending {
            Ending::Exec => Then::Stay,
            Ending::Exit | Ending::Abort => Then::Gone,
        };
        record::unfinished(None, sys::boottime_ns(), then);
    }
}
