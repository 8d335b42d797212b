//! The binary interface of the HSA runtime, as far as it is used: tables, packets, signals.
//!
//! Verified against ROCr 5.2.3, the one of HIP 5.4.2, 6.1.2 and 6.4.3. Tables begin with 16 bytes that hold their size; which
//! function stands where depends on it ([`Layout`]).

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What functions return; 0 is success.
pub type Status = u32;
/// Success.
pub const SUCCESS: Status = 0;
/// What iteration returns when all were visited: any other status stops it.
pub const GENERIC_ERROR: Status = 0x1000;

/// The head of every table.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TableHead {
    /// Changes when functions move.
    pub major: u32,
    /// Size of the table in bytes.
    pub bytes: u32,
    /// Changes when functions are added.
    pub step: u32,
    reserved: u32,
}

/// The table of tables.
#[derive(Debug)]
#[repr(C)]
pub struct RootTable {
    /// Its own head.
    pub head: TableHead,
    /// The functions of HSA itself.
    pub core: *mut TableHead,
    /// AMD's extensions.
    pub amd: *mut TableHead,
    finalizer: *mut TableHead,
    images: *mut TableHead,
    /// Scratch memory events for tools; there from 6.1 on: only if `head.bytes` says so.
    pub tools: *mut TableHead,
}

/// Size of a root table without [`RootTable::tools`].
pub const ROOT_BYTES_LEAST: u32 = 48;
/// Size of a root table with them.
pub const ROOT_BYTES_WITH_TOOLS: u32 = 56;

/// Where functions are in the extension table, which had some inserted in its midst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// ROCr 4.5 to 5.5.
    UpTo55,
    /// ROCr 5.6 and later.
    From56,
}

impl Layout {
    /// The layout of an extension table of this size, if it is one that we know. It only grows at its end since 5.6.
    #[must_use]
    pub const fn of_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            400 | 424 => Some(Layout::UpTo55),
            456.. => Some(Layout::From56),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<TableHead>() == 16);
const _: () = assert!(std::mem::offset_of!(RootTable, tools) == 48);

/// One packet of a queue.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Packet {
    /// Type, barrier bit, scopes.
    pub header: u16,
    /// Of kernels: dimensions. Of vendor packets: their format.
    pub setup: u16,
    /// Of kernels: work-items of a group.
    pub workgroup: [u16; 3],
    reserved0: u16,
    /// Of kernels: work-items.
    pub grid: [u32; 3],
    /// Of kernels: scratch memory of a work-item.
    pub private_bytes: u32,
    /// Of kernels: memory that a group shares.
    pub group_bytes: u32,
    /// Of kernels: which.
    pub kernel_object: u64,
    kernarg: u64,
    reserved2: u64,
    /// The signal that is decremented when it is done, or 0. At the same place in all packets.
    pub completion: u64,
}

const _: () = assert!(size_of::<Packet>() == 64);
const _: () = assert!(std::mem::offset_of!(Packet, kernel_object) == 32);
const _: () = assert!(std::mem::offset_of!(Packet, completion) == 56);

/// Type of a packet that is not written yet.
pub const INVALID: u8 = 1;
/// Type of a kernel's packet.
pub const KERNEL_DISPATCH: u8 = 2;
/// Type of a packet for an agent that is no GPU.
pub const AGENT_DISPATCH: u8 = 4;
const BARRIER_AND: u16 = 3;
const BARRIER_BIT: u16 = 1 << 8;
/// Acquire and release scopes.
const SCOPES: u16 = 0b1111 << 9;

impl Packet {
    /// The type.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.header as u8
    }

    /// A packet that waits for all before it and completes a signal, with the fences of `kernel`.
    pub fn barrier_after(kernel: &Packet) -> Packet {
        let bits = BARRIER_BIT | kernel.header & SCOPES;
        Packet::barrier(bits, kernel.completion)
    }

    /// A packet that waits for nothing and completes a signal when its turn comes.
    pub fn mark(completion: u64) -> Packet {
        Packet::barrier(0, completion)
    }

    /// A packet by which a GPU executes commands, as AMD's library of counters writes it.
    pub fn of_commands(words: [u64; 8]) -> Packet {
        // SAFETY: both are 64 bytes of plain numbers.
        unsafe { std::mem::transmute::<[u64; 8], Packet>(words) }
    }

    /// Has it wait for all packets before it.
    pub fn wait_for_all(&mut self) {
        self.header |= BARRIER_BIT;
    }

    fn barrier(header_bits: u16, completion: u64) -> Packet {
        Packet {
            header: BARRIER_AND | header_bits,
            setup: 0,
            workgroup: [0; 3],
            reserved0: 0,
            grid: [0; 3],
            private_bytes: 0,
            group_bytes: 0,
            kernel_object: 0,
            kernarg: 0,
            reserved2: 0,
            completion,
        }
    }
}

/// What the runtime reports to handlers of system events. Which fields are valid depends on `kind`.
#[derive(Debug)]
#[repr(C)]
pub struct SystemEvent {
    /// One of [`system_event`], or one that a later runtime has added.
    pub kind: u32,
    reserved: u32,
    /// The GPU; valid for the three kinds of faults.
    pub agent: u64,
    /// Where; valid for memory faults and errors.
    pub address: u64,
}

/// Kinds of [`SystemEvent`].
pub mod system_event {
    /// A GPU touched memory that is not there for it.
    pub const MEMORY_FAULT: u32 = 0;
    /// A GPU hung or is gone.
    pub const HARDWARE_EXCEPTION: u32 = 1;
    /// The memory of a GPU failed.
    pub const MEMORY_ERROR: u32 = 2;
    /// The runtime shuts down (since ROCr 7.2); no other field is valid.
    pub const SHUTDOWN: u32 = 3;
}

/// What is called with one.
pub type SystemEventHandler = unsafe extern "C" fn(*const SystemEvent, *mut c_void) -> Status;

/// The start of a queue, as programs see it.
#[derive(Debug)]
#[repr(C)]
pub struct Queue {
    kind: u32,
    features: u32,
    /// Its packets.
    pub base: *mut c_void,
    /// The signal that reports new packets.
    pub doorbell: u64,
    /// How many packets it has room for.
    pub size: u32,
    reserved1: u32,
    /// Unique in the process.
    pub id: u64,
}

const _: () = assert!(std::mem::offset_of!(Queue, id) == 32);

/// What a signal's handle points to. The GPU itself reads and writes it, so it has been the same for ever.
#[derive(Debug)]
#[repr(C, align(64))]
struct SignalMemory {
    kind: i64,
    value: AtomicI64,
    mailbox: u64,
    event: u32,
    reserved1: u32,
    start_tick: AtomicU64,
    end_tick: AtomicU64,
    queue: u64,
    reserved3: u64,
}

const _: () = assert!(std::mem::offset_of!(SignalMemory, start_tick) == 32);
const _: () = assert!(size_of::<SignalMemory>() == 64);

const KIND_USER: i64 = 1;

/// A signal that exists.
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    memory: *const SignalMemory,
}

impl Signal {
    /// The signal with this handle. `None` for 0 and for doorbells.
    ///
    /// # Safety
    /// It must exist as long as the result is used.
    #[inline]
    pub unsafe fn new(handle: u64) -> Option<Signal> {
        let memory = std::ptr::with_exposed_provenance::<SignalMemory>(handle as usize);
        // SAFETY: a signal that exists, as the caller says; its kind never changes.
        (handle != 0 && unsafe { (*memory).kind } == KIND_USER).then_some(Signal { memory })
    }

    #[inline]
    fn memory(&self) -> &SignalMemory {
        // SAFETY: see `new`.
        unsafe { &*self.memory }
    }

    /// Its value.
    #[inline]
    pub fn value(&self) -> i64 {
        self.memory().value.load(Ordering::Acquire)
    }

    /// When the last packet with it began and ended, in ticks of its GPU.
    #[inline]
    pub fn ticks(&self) -> (u64, u64) {
        let end = self.memory().end_tick.load(Ordering::Acquire);
        (self.memory().start_tick.load(Ordering::Acquire), end)
    }

    /// Forgets the ticks of the packet before.
    #[inline]
    pub fn clear_ticks(&self) {
        self.memory().start_tick.store(0, Ordering::Relaxed);
        self.memory().end_tick.store(0, Ordering::Release);
    }

    /// Makes a signal of ours ready for another packet.
    #[inline]
    pub fn arm(&self) {
        self.clear_ticks();
        self.memory().value.store(1, Ordering::Release);
    }
}

/// Start and end in nanoseconds of the system's clock.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Times {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// Three sizes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Size3 {
    /// Width in bytes.
    pub x: u32,
    /// Height.
    pub y: u32,
    /// Depth.
    pub z: u32,
}

/// Memory with rows.
#[derive(Debug)]
#[repr(C)]
pub struct Pitched {
    /// Where it begins.
    pub base: *mut c_void,
    pitch: usize,
    slice: usize,
}

/// Told when a queue fails.
pub type QueueCallback = Option<unsafe extern "C" fn(Status, *mut Queue, *mut c_void)>;
/// Takes the packets that are to be executed.
pub type Writer = unsafe extern "C" fn(*const Packet, u64);
/// Gets the packets that were submitted: packets, how many, index of the first, our data, where to write.
pub type PacketHandler = unsafe extern "C" fn(*const Packet, u64, u64, *mut c_void, Writer);
/// Told of each agent.
pub type AgentCallback = unsafe extern "C" fn(u64, *mut c_void) -> Status;
/// Told of each symbol of an executable: executable, agent, symbol, our data.
pub type SymbolCallback = unsafe extern "C" fn(u64, u64, u64, *mut c_void) -> Status;
/// A scratch memory event for tools.
#[derive(Debug)]
#[repr(C)]
pub struct ScratchEvent {
    /// 1 and 2: allocation begins and ends; 3 and 4: freeing; 5 and 6: taking it back.
    pub kind: u32,
    /// Whose.
    pub queue: *const Queue,
    flags: u32,
    dispatch: u64,
    /// How much, when an allocation has ended.
    pub bytes: usize,
}

/// Which information of an agent is asked for.
pub mod agent_info {
    /// Its name (64 bytes), as `gfx90a`.
    pub const NAME: u32 = 0;
    /// CPU 0, GPU 1.
    pub const DEVICE: u32 = 17;
    /// Its number in the machine.
    pub const DRIVER_NODE: u32 = 0xA004;
    /// PCI bus, device and function.
    pub const BDF: u32 = 0xA006;
    /// The name it is sold under (64 bytes).
    pub const PRODUCT: u32 = 0xA009;
    /// PCI domain.
    pub const DOMAIN: u32 = 0xA00F;
    /// Its unique id (24 bytes).
    pub const UUID: u32 = 0xA011;
}

/// Which information of a symbol is asked for.
pub mod symbol_info {
    /// Variable 0, kernel 1.
    pub const TYPE: u32 = 0;
    /// Bytes of its name.
    pub const NAME_LENGTH: u32 = 1;
    /// Its name, without NUL.
    pub const NAME: u32 = 2;
    /// What packets call it.
    pub const KERNEL_OBJECT: u32 = 22;
}
