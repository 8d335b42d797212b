//! The kinds of what threads wait for.

use rsys_wire::sources::Category;

use crate::events::texts::StaticText;
use crate::signals::faults;

/// How many kinds there are, with none.
pub const KINDS: usize = 9;

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `pthread_mutex_t`, `mtx_t`.
    Mutex = 1,
    /// `pthread_rwlock_t`.
    RwLock = 2,
    /// `pthread_spinlock_t`.
    Spin = 3,
    /// `pthread_cond_t`, `cnd_t`.
    Condition = 4,
    /// `sem_t`.
    Semaphore = 5,
    /// `pthread_barrier_t`.
    Barrier = 6,
    /// The end of a thread.
    Thread = 7,
    /// The lock of a Python interpreter (GIL).
    Gil = 8,
}

static NAMES: [StaticText; 8] = [
    StaticText::new("mutex"),
    StaticText::new("rwlock"),
    StaticText::new("spinlock"),
    StaticText::new("condition"),
    StaticText::new("semaphore"),
    StaticText::new("barrier"),
    StaticText::new("thread end"),
    StaticText::new("Python GIL"),
];

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Kind::Mutex,
            2 => Kind::RwLock,
            3 => Kind::Spin,
            4 => Kind::Condition,
            5 => Kind::Semaphore,
            6 => Kind::Barrier,
            7 => Kind::Thread,
            8 => Kind::Gil,
            _ => return None,
        })
    }

    /// The source that records waits for it.
    #[inline(always)]
    pub const fn category(self) -> Category {
        match self {
            Kind::RwLock => Category::RwLocks,
            Kind::Spin => Category::SpinLocks,
            _ => Category::MutexLocks,
        }
    }

    /// The key of its name.
    pub fn name(self) -> u64 {
        NAMES
            .get((self as usize).wrapping_sub(1))
            .map_or(0, StaticText::key)
    }

    /// The kernel's id of the thread that holds a lock, as the lock itself says; 0 when it is free, or does not say.
    ///
    /// glibc has that at these places in all versions from 2.17 to 2.42, on machines of 64 bits: `__owner` of
    /// `struct __pthread_mutex_s`, and `__cur_writer` (before 2.25 `__writer`) of `pthread_rwlock_t` (nptl, bits/pthreadtypes-arch.h and
    /// bits/struct_rwlock.h).
    pub fn owner(self, address: u64) -> u32 {
        const MUTEX_OWNER: u64 = 8;
        const RWLOCK_WRITER: u64 = 24;
        let at = match self {
            Kind::Mutex => MUTEX_OWNER,
            Kind::RwLock => RWLOCK_WRITER,
            _ => return 0,
        };
        faults::read_u32(address.wrapping_add(at)).unwrap_or(0)
    }
}
