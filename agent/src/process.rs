//! The life of the agent in one process: start, fork, sleep.
//!
//! A process is *active* when it samples, *dormant* when the hooks only pass calls through: there is
//! no session, the session is over, or the process is not to be followed.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rsys_unwind::{CfiEngine, RuleCache, RuleSlot};
use rsys_wire::VERSION;
use rsys_wire::handshake::{
    AgentSettings, ENV_SESSION, ENV_SETTINGS, FollowChoice, Hello, HelloKind, MAGIC,
};
use rsys_wire::layout::{CPU_TIMER, Counter, Geometry, INFO_BYTES, InfoTag, push_info};

use crate::birth;
use crate::clock;
use crate::debugger;
use crate::elsewhere;
use crate::environment::Environment;
use crate::events;
use crate::exec;
use crate::framehop;
use crate::gpu;
use crate::jit;
use crate::markers;
use crate::modules;
use crate::perf;
use crate::python;
use crate::real;
use crate::restrictions;
use crate::runtime;
use crate::signals;
use crate::slots;
use crate::snapshot;
use crate::sys;
use crate::sys::calls;
use crate::threads;
use crate::tls;

/// What the agent does in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum State {
    NotStarted = 0,
    Active = 1,
    Dormant = 2,
    /// Active, but with nothing to record into yet; see [`crate::birth`].
    Unborn = 3,
}

static STATE: AtomicU32 = AtomicU32::new(State::NotStarted as u32);
/// Set when the process confined itself: from then on nothing is set up that would take system calls which its
/// filter may punish. See [`crate::seccomp`].
static CONFINED: AtomicBool = AtomicBool::new(false);
static INSTANCE: AtomicU64 = AtomicU64::new(0);
/// CPU time of the process when the agent began in it: an exec keeps that of the program before.
static CPU_BASE_NS: AtomicU64 = AtomicU64::new(0);
static PID: AtomicU32 = AtomicU32::new(0);
static RULES: AtomicPtr<RuleSlot> = AtomicPtr::new(std::ptr::null_mut());

/// Written once, before [`STATE`] says active.
#[derive(Debug)]
struct Fixed<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: written by the constructor before any reader can exist; see `start`.
unsafe impl<T: Sync> Sync for Fixed<T> {}

static SETTINGS: Fixed<AgentSettings> = Fixed(UnsafeCell::new(MaybeUninit::uninit()));
static SESSION: Fixed<SessionName> = Fixed(UnsafeCell::new(MaybeUninit::uninit()));

/// The name of the sampler's socket.
#[derive(Debug, Clone, Copy)]
struct SessionName {
    bytes: [u8; 100],
    length: usize,
}

/// Whether this process is sampled.
#[inline]
pub fn is_active() -> bool {
    let state = STATE.load(Ordering::Acquire);
    state == State::Active as u32 || state == State::Unborn as u32
}

/// Whether this process has nothing to record into yet; see [`crate::birth`].
#[inline]
pub fn is_unborn() -> bool {
    STATE.load(Ordering::Acquire) == State::Unborn as u32
}

/// Makes an unborn process known to the sampler: one that began at `own_boottime_ns` of its CLOCK_BOOTTIME, with so much CPU time used
/// before. Returns when it began by the sampler's. `None` when that fails; it is left alone then.
pub fn be_born(parent_instance: u64, own_boottime_ns: u64, cpu_base_ns: u64) -> Option<u64> {
    // A signal that comes from here on finds no slot.
    STATE.store(State::Active as u32, Ordering::Release);
    map_rules();
    let began_ns = begin(parent_instance, Some((own_boottime_ns, cpu_base_ns)));
    if began_ns.is_none() {
        STATE.store(State::Dormant as u32, Ordering::Release);
    }
    began_ns
}

/// Whether new system calls had better be avoided: in this process, or in the calling thread.
#[inline]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed) || calls::is_dispatched()
}

/// Ends sampling in this process for good: the time cannot be read.
pub fn fall_asleep() {
    slots::for_each_active(clock::pause);
    slots::set_counter(Counter::Dormant, 1);
    STATE.store(State::Dormant as u32, Ordering::Release);
}

/// Notes that the process confines itself, or that it failed to. Returns what was noted before.
pub fn confine(confined: bool) -> bool {
    slots::set_counter(Counter::Seccomp, u64::from(confined));
    CONFINED.swap(confined, Ordering::Relaxed)
}

/// Whether the caller runs in the process that the agent knows, not in a child that shares its
/// memory after `vfork`. A confined process is not asked: it is taken for our own.
pub fn is_own_process() -> bool {
    is_confined() || PID.load(Ordering::Relaxed) == sys::getpid()
}

/// CPU time that the process has used since the agent began, but for threads that are not to be sampled.
pub fn cpu_time_ns() -> u64 {
    sys::process_cpu_ns()
        .saturating_sub(CPU_BASE_NS.load(Ordering::Relaxed))
        .saturating_sub(gpu::helpers_cpu_ns())
}

/// The settings of the session. Only once a slot exists.
///
/// # Signal safety
/// Reads a constant.
#[inline]
pub fn settings() -> &'static AgentSettings {
    // SAFETY: slots and hooks exist only after `start` wrote it.
    unsafe { (*SETTINGS.0.get()).assume_init_ref() }
}

/// The process-wide cache of unwind rules.
///
/// # Signal safety
/// Reads a pointer.
#[inline]
fn rules() -> Option<RuleCache<'static>> {
    let base = RULES.load(Ordering::Relaxed);
    if base.is_null() {
        return None;
    }
    // SAFETY: mapped by `start` with this size, zeroed, and never unmapped.
    let slots: &'static [RuleSlot] =
        unsafe { std::slice::from_raw_parts(base, RuleCache::DEFAULT_SLOTS) };
    RuleCache::new(slots)
}

/// The engine that walks by call-frame information, with the cache if there is memory for one.
///
/// # Signal safety
/// As [`rules`].
#[inline]
pub fn cfi_engine() -> CfiEngine<'static> {
    rules().map_or_else(CfiEngine::without_cache, CfiEngine::new)
}

/// Identifies this program run; see [`Hello::instance`].
pub fn instance() -> u64 {
    INSTANCE.load(Ordering::Relaxed)
}

/// Sends a segment to the sampler.
///
/// # Errors
/// The kernel's error number.
pub fn announce(kind: HelloKind, segment: u32, geometry: Geometry, fd: c_int) -> Result<(), i32> {
    let hello = Hello {
        ring_count: geometry.ring_count(),
        ring_words: geometry.ring_words(),
        segment_bytes: geometry.bytes() as u64,
        ..hello(kind, segment)
    };
    sys::send(session_name(), &hello.to_bytes(), Some(fd))
}

/// Tells the sampler that this process cannot be sampled, and why. If that fails too, nobody is left to tell.
fn announce_failure(error: i32) {
    let hello = hello(HelloKind::Failed, error.unsigned_abs());
    if sys::send(session_name(), &hello.to_bytes(), None).is_err() {}
}

/// Tells the sampler of a process that was never born, and lived for so many periods.
pub fn announce_short(periods: u64) {
    let hello = hello(HelloKind::Short, u32::try_from(periods).unwrap_or(u32::MAX));
    // As above.
    if sys::send(session_name(), &hello.to_bytes(), None).is_err() {}
}

/// A datagram without memory of ours in it. `segment` as its kind says.
pub fn hello(kind: HelloKind, segment: u32) -> Hello {
    Hello {
        magic: MAGIC,
        version: VERSION,
        kind: kind as u32,
        instance: instance(),
        pid: sys::getpid(),
        segment,
        ring_count: 0,
        ring_words: 0,
        segment_bytes: 0,
    }
}

/// The name of the sampler's socket. Only once the agent has started.
pub fn session_name() -> &'static [u8] {
    // SAFETY: written by `start` before the first segment is made.
    let session = unsafe { (*SESSION.0.get()).assume_init_ref() };
    session.bytes.get(..session.length).unwrap_or(&[])
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

/// Runs when the library was loaded; glibc passes the program's arguments.
extern "C" fn constructor(_argc: c_int, argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: the loader passes the program's own vectors.
    start_once(|| unsafe { Environment::new(argv, envp) });
}

/// Starts from a hook that another library's constructor calls before ours had its turn.
pub fn start_early() {
    start_once(Environment::find);
}

fn start_once(environment: impl FnOnce() -> Environment<'static>) {
    // Constructors run one after another, on one thread.
    if STATE.load(Ordering::Acquire) != State::NotStarted as u32 {
        return;
    }
    // Other C libraries give constructors no arguments.
    if !elsewhere::is_glibc() || start(&environment()).is_none() {
        STATE.store(State::Dormant as u32, Ordering::Release);
    }
}

/// Starts sampling. `None` when there is nothing to do or it cannot be done: the program then runs
/// as without the agent.
fn start(environment: &Environment<'_>) -> Option<()> {
    let session = environment
        .get(ENV_SESSION)
        .filter(|session| !session.is_empty())?;
    if environment.is_launcher() {
        return None;
    }
    let line = environment
        .get(ENV_SETTINGS)
        .and_then(|line| line.to_str().ok())
        .unwrap_or("");
    let settings = AgentSettings::from_line(line);
    let mut name = SessionName {
        bytes: [0; 100],
        length: session.to_bytes().len(),
    };
    name.bytes
        .get_mut(..name.length)?
        .copy_from_slice(session.to_bytes());
    // SAFETY: the constructor runs once, and nobody reads before it is done.
    unsafe {
        (*SETTINGS.0.get()).write(settings);
        (*SESSION.0.get()).write(name);
    }
    if settings.follow == FollowChoice::None {
        environment.stop_following();
    }
    if debugger::is_debugged() || debugger::is_emulated(environment) {
        announce_failure(libc::EBUSY);
        return None;
    }
    if runtime::is_programs_own() {
        announce_failure(libc::ENOEXEC);
        return None;
    }
    real::resolve_all();
    exec::begin(environment);
    if clock::wants_perf() {
        perf::choose_delivery();
    }
    snapshot::start(environment.get(snapshot::ENV_FORCE).is_some());
    // SAFETY: there is one thread; see `Information`.
    let described = environment.describe(unsafe { &mut *INFORMATION.0.get() });
    DESCRIBED.store(described, Ordering::Relaxed);
    let waits = birth::may_wait();
    if waits {
        PID.store(sys::getpid(), Ordering::Relaxed);
    } else {
        map_rules();
        begin(0, None)?;
    }
    threads::register_hooks();
    if settings.events.any() {
        events::register_hook();
    }
    markers::start(settings.events);
    // SAFETY: the handler needs nothing that is not set up by now.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    signals::install();
    if waits {
        STATE.store(State::Unborn as u32, Ordering::Release);
        if !birth::wait(0, false) {
            // What the process lacks it says when it is born.
            birth::begin();
        }
    } else {
        STATE.store(State::Active as u32, Ordering::Release);
        threads::begin_current();
    }
    Some(())
}

/// Makes the cache of unwind rules, once.
fn map_rules() {
    let bytes = RuleCache::DEFAULT_SLOTS * size_of::<RuleSlot>();
    if RULES.load(Ordering::Relaxed).is_null()
        && let Ok(memory) = sys::mmap(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    {
        RULES.store(memory.cast(), Ordering::Relaxed);
    }
}

/// What the sampler is told of the process. Not on the stack: a fork may come from a tiny one.
#[derive(Debug)]
struct Information(UnsafeCell<[u8; INFO_BYTES]>);

// SAFETY: written at the start and in fork children only, where there is one thread.
unsafe impl Sync for Information {}

static INFORMATION: Information = Information(UnsafeCell::new([0; INFO_BYTES]));
/// How much of [`INFORMATION`] describes the program, which a fork does not change.
static DESCRIBED: AtomicUsize = AtomicUsize::new(0);

/// Makes the process known to the sampler. `began` is when it began, by its own CLOCK_BOOTTIME, and the CPU time that it had used then;
/// without it, that is now. Returns that time by the sampler's CLOCK_BOOTTIME.
fn begin(parent_instance: u64, began: Option<(u64, u64)>) -> Option<u64> {
    let pid = sys::getpid();
    sys::agree_on_boottime(settings().boot_offset_ns);
    let (own_ns, cpu_base_ns) =
        began.unwrap_or_else(|| (sys::own_boottime_ns(), sys::process_cpu_ns()));
    let now = sys::agreed_boottime_ns(own_ns);
    PID.store(pid, Ordering::Relaxed);
    CPU_BASE_NS.store(cpu_base_ns, Ordering::Relaxed);
    // Unique in time and space: no two program runs of a machine share pid and nanosecond.
    let instance = (now ^ u64::from(pid) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    INSTANCE.store(instance, Ordering::Relaxed);
    // SAFETY: there is one thread; see `Information`.
    let info = unsafe { &mut *INFORMATION.0.get() };
    let mut number = [0_u8; 20];
    let mut length = DESCRIBED.load(Ordering::Relaxed);
    for (tag, value) in [
        (InfoTag::StartTime, now),
        (InfoTag::ParentPid, u64::from(sys::getppid())),
        (InfoTag::ParentInstance, parent_instance),
        (InfoTag::TickNs, sys::tick_ns()),
    ] {
        length = push_info(info, length, tag, sys::decimal(value, &mut number));
    }
    let clock: &[u8] = if settings().overflow.is_some() {
        b"overflow of an event"
    } else if clock::wants_perf() {
        b"perf cpu-clock (user mode), CPU timer for the rest"
    } else {
        CPU_TIMER.as_bytes()
    };
    length = push_info(info, length, InfoTag::Clock, clock);
    slots::start(info.get(..length)?)
        .inspect_err(|error| announce_failure(*error))
        .ok()
        .map(|()| now)
}

/// Goes on, or goes to sleep, in the child of a fork.
///
/// Only the forking thread exists here, and locks may be held by threads that do not: nothing below
/// allocates or locks.
pub extern "C" fn after_fork_in_child() {
    restrictions::after_fork_in_child();
    // A confined process must not even ask who it is.
    if !is_active() || (!is_confined() && is_own_process()) {
        return;
    }
    let parent_instance = instance();
    // Forgetting the parent's slots comes first: this thread must not write into its ring, and
    // perf events would go on for the parent's thread.
    tls::set_slot(std::ptr::null_mut());
    framehop::forget_parents();
    if is_confined() {
        STATE.store(State::Dormant as u32, Ordering::Release);
        return;
    }
    slots::forget_parents();
    events::forget_parents();
    gpu::after_fork_in_child();
    jit::after_fork_in_child();
    if settings().follow != FollowChoice::All {
        STATE.store(State::Dormant as u32, Ordering::Release);
        return;
    }
    // The child's trace needs every module and code object anew.
    modules::new_generation();
    python::forget_told();
    markers::after_fork_in_child();
    if birth::may_wait() {
        PID.store(sys::getpid(), Ordering::Relaxed);
        STATE.store(State::Unborn as u32, Ordering::Release);
        if !birth::wait(parent_instance, true) {
            birth::begin();
        }
    } else if begin(parent_instance, None).is_some() {
        threads::begin_current();
    } else {
        STATE.store(State::Dormant as u32, Ordering::Release);
    }
}

/// A C string of the program's own vectors, for [`Environment`].
pub fn c_string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the vectors hold valid strings that live as long as the process.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}
