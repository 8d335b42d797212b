//! Threads that the agent did not see being born.
//!
//! A thread made by a raw `clone`, or inside the C library, has no clock. The sampler finds it in
//! `/proc` when it uses the CPU, and sends it [`SAMPLE_SIGNAL`] with this value (`rt_tgsigqueueinfo`, code
//! `SI_QUEUE`). The handler on that thread then takes a ring and makes a timer for itself.

/// The signal of the samples: SIGSTKFLT, which no kernel sends and no program uses. SIGPROF, the
/// usual choice, is used by programs themselves, and two users of one signal lose each other's: the
/// kernel merges equal signals that are pending.
pub const SAMPLE_SIGNAL: i32 = libc::SIGSTKFLT;

/// The value of the signal, in `si_value.sival_int`: "rsys" in ASCII.
pub const ADOPT_COOKIE: u32 = 0x7273_7973;
