//! What runs inside the target: `librsys_agent.so`, loaded with `LD_PRELOAD`.
//!
//! The target comes first: the agent changes nothing that the program computes, prints or returns.
//! It has no threads, keeps no descriptors (except perf's, when asked for a rate above the kernel's
//! tick), and allocates nothing from the program's heap.
//!
//! One sample: [`clock`] interrupts a thread, [`handler`] walks its stack with `rsys-unwind` (reading
//! through [`guard`], finding code through [`modules`]) and writes a record into the ring of the
//! thread's slot ([`slots`]). The sampler on the other side does everything else.
//!
//! The rest keeps that going: [`process`] starts it and survives `fork`, [`threads`] gives every
//! thread its clock, [`signals`] shares three signals with the program, and [`hooks`] are the
//! functions of the C library that have to be seen.

mod clock;
mod environment;
mod framehop;
mod guard;
mod handler;
mod hooks;
mod modules;
mod perf;
mod process;
mod real;
mod signals;
mod slots;
mod snapshot;
mod sys;
mod threads;
mod tls;
