//! What the driver keeps for this process, from its first use of a device on.
//!
//! A forked child starts with nothing, like on a real machine: the runtimes notice the fork themselves.

pub mod doorbells;
pub mod events;
pub mod queues;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

use self::doorbells::Doorbells;
use self::events::Events;
use self::queues::Queues;
use crate::account::Account;
use crate::memory::{Memory, Owner};
use crate::simulation::{self, Simulation};

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// The driver's state of one process.
#[derive(Debug)]
pub struct Process {
    /// The machine.
    pub simulation: &'static Simulation,
    /// The file behind `/dev/kfd`: doorbells.
    pub doorbells: Doorbells,
    /// What others are told of it; none: there are too many processes.
    account: OnceLock<Option<Account>>,
    closed: AtomicBool,
    /// What is allocated, and where.
    pub memory: Memory,
    /// What the runtimes wait for.
    pub events: Events,
    /// What the engine executes.
    pub queues: Queues,
    /// Driver calls so far, for faults.
    pub calls: AtomicU64,
    /// Allocations of device memory so far, for faults.
    pub allocations: AtomicU64,
}

impl Process {
    /// Who allocates: the machine, and the account as long as there is one to keep. What exit handlers and other threads do after everything
    /// was given back is not counted any more.
    pub fn owner(&self) -> Owner<'_> {
        let is_open = !self.closed.load(Ordering::Acquire);
        Owner {
            simulation: self.simulation,
            counts: is_open,
            account: self.account().filter(|_| is_open),
        }
    }

    /// The account of this process; none: there are too many.
    pub fn account(&self) -> Option<&Account> {
        self.account
            .get_or_init(|| Account::open(self.simulation))
            .as_ref()
    }
}

/// The state of this process, if it used a device.
pub fn existing() -> Option<&'static Process> {
    // SAFETY: set once per process to a leaked box.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The state of this process, made if need be; none when nothing is simulated or descriptors ran out.
pub fn current() -> Option<&'static Process> {
    if let Some(process) = existing() {
        return Some(process);
    }
    let simulation = simulation::get()?;
    static AT_FORK: Once = Once::new();
    // SAFETY: the handler is a function of this library, which is never unloaded.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forget));
    });
    let process = Box::into_raw(Box::new(Process {
        simulation,
        doorbells: Doorbells::new(simulation.machine.gpus.len()).ok()?,
        account: OnceLock::new(),
        closed: AtomicBool::new(false),
        memory: Memory::default(),
        events: Events::default(),
        queues: Queues::default(),
        calls: AtomicU64::new(0),
        allocations: AtomicU64::new(0),
    }));
    // Two threads may be here at once.
    match CURRENT.compare_exchange(
        ptr::null_mut(),
        process,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        // SAFETY: leaked: lives as long as the process.
        Ok(_) => {
            // SAFETY: as above.
            let process = unsafe { &*process };
            process.account();
            Some(process)
        }
        Err(_) => {
            // SAFETY: nobody else saw it.
            drop(unsafe { Box::from_raw(process) });
            existing()
        }
    }
}

/// In the child after a fork: the engine's thread is not there, so nothing of the parent's state is of use. It is
/// leaked, because its locks may be held by threads that do not exist here.
extern "C" fn forget() {
    CURRENT.store(ptr::null_mut(), Ordering::Release);
}

/// When the process ends in good order: devices are released, so that others see the memory as free.
extern "C" fn at_exit() {
    if let Some(process) = existing() {
        process.closed.store(true, Ordering::Release);
        match process.account() {
            Some(account) => account.close(process.simulation),
            None => process.memory.release_all(process.simulation),
        }
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
