//! What this process is at the moment: sampled or not, confined, and by which settings.
//!
//! A process is *active* when it samples, *dormant* when the hooks only pass calls through: there is no session, the session is
//! over, or the process is not to be followed. Any code of the agent may ask here; only [`crate::lifecycle`] changes it.

pub mod deferred;
pub mod departure;
mod handed_down;
pub mod pause;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rsys_wire::handshake::AgentSettings;

use crate::sys;
use crate::sys::calls;

/// What the agent does in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The library's constructor has not run.
    NotStarted = 0,
    /// Its threads are sampled.
    Active = 1,
    /// Hooks pass every call on.
    Dormant = 2,
    /// Active, but with nothing to record into yet; see [`crate::lifecycle::deferred_start`].
    Deferred = 3,
}

static STATE: AtomicU32 = AtomicU32::new(State::NotStarted as u32);
/// Set when the process confined itself: from then on nothing is set up that would take system calls which its filter may
/// punish. See [`crate::lifecycle::seccomp`].
static CONFINED: AtomicBool = AtomicBool::new(false);
static INSTANCE: AtomicU64 = AtomicU64::new(0);
static PID: AtomicU32 = AtomicU32::new(0);
// On pages that the loader has written already.
#[unsafe(link_section = ".data")]
static SETTINGS: WriteOnce<AgentSettings> = WriteOnce::new();

/// A value that is written once, before [`State`] says active, and only read from then on.
#[derive(Debug)]
pub struct WriteOnce<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: written by the constructor before any reader can exist; see `set`.
unsafe impl<T: Sync> Sync for WriteOnce<T> {}

impl<T> WriteOnce<T> {
    /// Not written yet.
    pub const fn new() -> Self {
        WriteOnce(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Writes the value.
    ///
    /// # Safety
    /// Once, by the constructor: no thread may read at the same time.
    pub unsafe fn set(&self, value: T) {
        // SAFETY: as the caller says.
        unsafe { (*self.0.get()).write(value) };
    }

    /// The value.
    ///
    /// # Safety
    /// Only after [`WriteOnce::set`].
    #[inline]
    pub unsafe fn get(&self) -> &T {
        // SAFETY: as the caller says.
        unsafe { (*self.0.get()).assume_init_ref() }
    }
}

/// Changes what the agent does here.
pub fn set(state: State) {
    STATE.store(state as u32, Ordering::Release);
}

/// An active process becomes a dormant one. False when it was not active, or another thread did it.
pub fn cease() -> bool {
    let (active, dormant) = (State::Active as u32, State::Dormant as u32);
    STATE
        .compare_exchange(active, dormant, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// Whether the agent has begun in this process, or has decided not to.
pub fn is_started() -> bool {
    STATE.load(Ordering::Acquire) != State::NotStarted as u32
}

/// Whether this process is sampled.
#[inline]
pub fn is_active() -> bool {
    let state = STATE.load(Ordering::Acquire);
    state == State::Active as u32 || state == State::Deferred as u32
}

/// Whether this process has nothing to record into yet; see [`crate::lifecycle::deferred_start`].
#[inline]
pub fn is_deferred() -> bool {
    STATE.load(Ordering::Acquire) == State::Deferred as u32
}

/// Whether new system calls had better be avoided: in this process, or in the calling thread.
#[inline]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed) || calls::is_dispatched()
}

/// Notes whether the process has confined itself. Returns what was noted before.
pub fn set_confined(confined: bool) -> bool {
    CONFINED.swap(confined, Ordering::Relaxed)
}

/// Whether the caller runs in the process that the agent knows, not in a child that shares its
/// memory after `vfork`. A confined process is not asked: it is taken for our own.
pub fn is_own_process() -> bool {
    is_confined() || PID.load(Ordering::Relaxed) == sys::getpid()
}

/// Notes the process id: [`is_own_process`] compares with it.
pub fn set_pid(pid: u32) {
    PID.store(pid, Ordering::Relaxed);
}

/// Whether the caller may set something up: an active process of ours, whose filters allow every call.
#[inline]
pub fn may_set_up() -> bool {
    is_active() && !is_confined() && is_own_process()
}

/// The settings of the session. Only once a slot exists.
///
/// # Signal safety
/// Reads a constant.
#[inline]
pub fn settings() -> &'static AgentSettings {
    // SAFETY: slots and hooks exist only after the start wrote it.
    unsafe { SETTINGS.get() }
}

/// Writes the settings.
///
/// # Safety
/// As [`WriteOnce::set`].
pub unsafe fn set_settings(settings: AgentSettings) {
    // SAFETY: as the caller says.
    unsafe { SETTINGS.set(settings) };
}

/// Identifies this program run; see [`rsys_wire::handshake::Hello::instance`].
pub fn instance() -> u64 {
    INSTANCE.load(Ordering::Relaxed)
}

/// Notes the number of this program run.
pub fn set_instance(instance: u64) {
    INSTANCE.store(instance, Ordering::Relaxed);
}
