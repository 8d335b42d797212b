//! Waiting for locks: who waited for which lock, how long, and who held it.
//!
//! In the library `librsys_agent_locks.so` the functions of the C library that wait are exported in front of the real ones
//! (`functions.rs`); `librsys_agent.so` is the same code without these exports, so that without a backend of locks programs call
//! the C library directly. A lock that is free is taken by the real "try" function, counted in a table of the thread
//! (`thread.rs`) and nothing more; only who finds it taken looks at the clock (`wait.rs`). Who took a lock that others have waited for
//! leaves its stack in the table of all locks (`table.rs`), for those who wait next.
//!
//! Nothing here allocates or holds a lock while the program's function runs.

#[cfg(feature = "locks")]
mod functions;
#[cfg(any(feature = "locks", test))]
mod kind;
#[cfg(any(feature = "locks", test))]
mod real;
#[cfg(any(feature = "locks", test))]
mod stacks;
#[cfg(any(feature = "locks", test))]
mod statistics;
#[cfg(any(feature = "locks", test))]
mod table;
#[cfg(any(feature = "locks", test))]
mod thread;
#[cfg(any(feature = "locks", test))]
mod wait;

#[cfg(feature = "locks")]
use rsys_wire::sources::Category;

use crate::sources::source::Source;

/// What the rest of the agent sees of it.
#[cfg(feature = "locks")]
pub static SOURCE: Source = Source {
    categories: &[Category::MutexLocks, Category::RwLocks, Category::SpinLocks],
    after_fork_in_child: thread::after_fork_in_child,
    at_end: |_| statistics::record(),
    ..Source::NONE
};

/// Without the exports there is nothing to record.
#[cfg(not(feature = "locks"))]
pub static SOURCE: Source = Source::NONE;
