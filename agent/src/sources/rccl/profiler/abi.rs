//! The profiler interface of NCCL and RCCL: what a plug-in exports, and where the fields of an event are, in each version.
//!
//! Source: `ext-profiler/example/nccl/profiler_v1.h` to `profiler_v5.h` and `ext-profiler/README.md` of NVIDIA/nccl, `profiler_v6.h` of ROCm/rccl;
//! RCCL 2.27 (ROCm 7.2) asks a plug-in for the versions 4, 3, 2 and 1, in this order, RCCL 2.30 for 6 and 5 before these.

use std::ffi::{c_char, c_int, c_void};

/// The versions that are known.
pub const VERSIONS: std::ops::RangeInclusive<usize> = 1..=6;

/// `ncclSuccess`.
pub const SUCCESS: c_int = 0;

/// Kinds of events: a bit each, of a plug-in's mask too.
pub mod kind {
    pub const GROUP: u64 = 1;
    pub const COLLECTIVE: u64 = 1 << 1;
    pub const MESSAGE: u64 = 1 << 2;
    pub const PROXY_OP: u64 = 1 << 3;
    pub const PROXY_STEP: u64 = 1 << 4;
    pub const KERNEL_CHANNEL: u64 = 1 << 6;
    pub const NET_PLUGIN: u64 = 1 << 7;
    pub const GROUP_CALL: u64 = 1 << 8;
    pub const COLLECTIVE_CALL: u64 = 1 << 9;
    pub const MESSAGE_CALL: u64 = 1 << 10;
    pub const KERNEL_LAUNCH: u64 = 1 << 11;
    pub const COPY_ENGINE: u64 = 1 << 12;
    pub const COPY_ENGINE_PARTS: u64 = 3 << 13;
}

/// Which bits of a mask bring events of a kind: its own, and those of all kinds that hang beneath it, for the library makes an event's parents too.
#[must_use]
pub const fn asked_by(kind: u64) -> u64 {
    use kind::{
        COLLECTIVE, COLLECTIVE_CALL, COPY_ENGINE, COPY_ENGINE_PARTS, GROUP, GROUP_CALL,
        KERNEL_CHANNEL, KERNEL_LAUNCH, MESSAGE, MESSAGE_CALL, NET_PLUGIN, PROXY_OP, PROXY_STEP,
    };
    const STEPS: u64 = PROXY_STEP | NET_PLUGIN;
    const OPERATIONS: u64 = PROXY_OP | STEPS;
    const TASKS: u64 = OPERATIONS | KERNEL_CHANNEL;
    const COPIES: u64 = COPY_ENGINE | COPY_ENGINE_PARTS;
    const ALL: u64 = GROUP | COLLECTIVE | MESSAGE | TASKS;
    match kind {
        PROXY_STEP => STEPS,
        PROXY_OP => OPERATIONS,
        COLLECTIVE => COLLECTIVE | TASKS,
        MESSAGE => MESSAGE | TASKS,
        GROUP => ALL,
        MESSAGE_CALL => MESSAGE_CALL | MESSAGE | TASKS,
        COLLECTIVE_CALL => COLLECTIVE_CALL | COLLECTIVE | TASKS | COPIES,
        GROUP_CALL => GROUP_CALL | COLLECTIVE_CALL | MESSAGE_CALL | KERNEL_LAUNCH | ALL | COPIES,
        COPY_ENGINE => COPIES,
        other => other,
    }
}

/// What a step of a proxy waits for, by the state that the library says it has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The GPU: it has not filled the buffer that is to be sent, or not emptied the one that was received.
    Gpu,
    /// The peer: it has not said that it has room (from version 4 on; before, that is part of the network's).
    Peer,
    /// The network, of what is sent; of what is received, the peer too, which may not have sent it yet.
    Network,
    /// What was received is made visible to the GPU.
    Flush,
}

impl Phase {
    /// All of them.
    pub const COUNT: usize = 4;

    /// The phase that a state begins (`ncclProfilerEventState_t`, whose numbers all versions share).
    #[must_use]
    pub const fn of_state(state: c_int) -> Option<Self> {
        Some(match state {
            8 | 12 => Phase::Gpu,
            20 => Phase::Peer,
            9 | 10 => Phase::Network,
            11 => Phase::Flush,
            _ => return None,
        })
    }
}

/// What a plug-in exports as `ncclProfiler_vN`; the types of `init` differ, and those of the descriptions that `start` gets.
#[derive(Debug)]
#[repr(C)]
pub struct Plugin {
    pub name: *const c_char,
    pub init: *const (),
    pub start: Start,
    pub stop: unsafe extern "C" fn(handle: *mut c_void) -> c_int,
    pub record: Record,
    pub finalize: unsafe extern "C" fn(context: *mut c_void) -> c_int,
}

// SAFETY: names and code, which never change.
unsafe impl Sync for Plugin {}

pub type Start =
    unsafe extern "C" fn(context: *mut c_void, handle: *mut *mut c_void, event: *mut u8) -> c_int;
pub type Record =
    unsafe extern "C" fn(handle: *mut c_void, state: c_int, values: *const u8) -> c_int;
/// `init` of the versions 1 to 3.
pub type Init1 = unsafe extern "C" fn(context: *mut *mut c_void, mask: *mut c_int) -> c_int;
/// `init` of version 4.
pub type Init4 = unsafe extern "C" fn(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    hash: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    log: *const c_void,
) -> c_int;
/// `init` of the versions 5 and 6.
pub type Init5 = unsafe extern "C" fn(
    context: *mut *mut c_void,
    hash: u64,
    mask: *mut c_int,
    name: *const c_char,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    log: *const c_void,
) -> c_int;

/// What a collective or a message moves.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// Its name, as `AllReduce`; null in version 1, which has numbers.
    pub function: *const c_char,
    /// Where a collective reads, or the buffer of a message.
    pub send: *const c_void,
    /// Where a collective writes, or null.
    pub receive: *const c_void,
}

/// What a proxy does for a collective or message on one channel.
#[derive(Debug, Clone, Copy)]
pub struct ProxyOp {
    /// The process whose operation it is: another one's where a proxy works for its neighbours.
    pub pid: i32,
    pub channel: u8,
    pub peer: i32,
    /// How many transfers.
    pub steps: i32,
    pub is_send: bool,
}

/// The description of an event that begins, as the library of a version hands it over.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    at: *mut u8,
    version: usize,
}

/// Where the parent's handle is, and where what differs between kinds begins.
const PARENT: usize = 8;
const BODY: usize = 24;

impl Description {
    /// # Safety
    /// `at` must be the description of an event of this version, for as long as this is used.
    #[must_use]
    pub const unsafe fn new(at: *mut u8, version: usize) -> Self {
        Description { at, version }
    }

    fn read<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: within the description, as the caller of `new` says; the fields that are asked for are those of its kind and version.
        unsafe { self.at.add(offset).cast::<T>().read_unaligned() }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> u64 {
        match self.version {
            ..5 => u64::from(self.read::<u8>(0)),
            _ => self.read(0),
        }
    }

    /// Its parent's handle.
    #[must_use]
    pub fn parent(&self) -> *mut c_void {
        self.read(PARENT)
    }

    /// Where handles of other events are in it: the parent, and from version 5 on the group of a collective or a message.
    #[must_use]
    pub fn handles(&self) -> [Option<*mut *mut c_void>; 2] {
        let group = match (self.version, self.kind()) {
            (5.., kind::COLLECTIVE) => Some(80),
            (5.., kind::MESSAGE) => Some(40),
            _ => None,
        };
        [Some(PARENT), group.map(|offset| BODY + offset)]
            .map(|offset| Some(self.at.wrapping_add(offset?).cast()))
    }

    /// What a collective or message moves; `None` for other kinds.
    #[must_use]
    pub fn task(&self) -> Option<Task> {
        let is_message = match self.kind() {
            kind::COLLECTIVE => false,
            kind::MESSAGE => true,
            _ => return None,
        };
        let [function, send] = match (self.version, is_message) {
            (..4, false) => [24, 32],
            (..4, true) => [16, 24],
            (_, false) => [8, 16],
            (_, true) => [0, 8],
        };
        Some(Task {
            function: match self.version {
                1 => std::ptr::null(),
                _ => self.read(BODY + function),
            },
            send: self.read(BODY + send),
            receive: match is_message {
                false => self.read(BODY + send + 8),
                true => std::ptr::null(),
            },
        })
    }

    /// What a proxy does.
    #[must_use]
    pub fn proxy_op(&self) -> ProxyOp {
        ProxyOp {
            pid: self.read(BODY),
            channel: self.read(BODY + 4),
            peer: self.read(BODY + 8),
            steps: self.read(BODY + 12),
            is_send: self.read::<i32>(BODY + 20) != 0,
        }
    }

    /// The number of a step.
    #[must_use]
    pub fn step(&self) -> i32 {
        self.read(BODY)
    }
}
