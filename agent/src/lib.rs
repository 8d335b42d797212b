//! What runs inside the target: `librsys_agent.so`, loaded with `LD_PRELOAD`.
//!
//! The target comes first: the agent changes nothing that the program computes, prints or returns.
//! It has no threads, keeps no descriptors (except perf's, when asked for a rate above the kernel's
//! tick), and allocates nothing from the program's heap.
//!
//! One sample: [`clock`] interrupts a thread, [`handler`] walks its stack with `rsys-unwind` (reading
//! through [`guard`], finding code through [`modules`]) and writes a record into the ring of the
//! thread's slot ([`slots`]); of a thread that runs Python, its Python frames beside ([`python`]). The sampler on the other side does everything else.
//!
//! What interceptions tell goes through rings of its own ([`events`]): what the program says about itself by roctx and RCCL ([`markers`]), whose
//! functions it may be linked with or ask [`dlsym`] for.
//!
//! The rest keeps that going: [`process`] starts it and survives `fork`, [`threads`] gives every
//! thread its clock, [`exit`] accounts for the last of them, [`signals`] shares three signals with the program, and [`hooks`] are the
//! functions of the C library that have to be seen.

mod birth;
mod clock;
mod counters;
mod debugger;
mod dlsym;
mod elsewhere;
mod environment;
mod events;
mod exec;
mod exit;
mod faults;
mod framehop;
mod gpu;
mod guard;
mod handler;
mod hooks;
mod jit;
mod markers;
mod masks;
mod modules;
mod panics;
mod perf;
mod process;
mod python;
mod real;
mod restrictions;
mod runtime;
mod sanitizer;
mod seccomp;
mod segments;
mod signals;
mod slots;
mod snapshot;
mod symbols;
mod sys;
mod threads;
mod tls;
mod wander;
mod wrapped;
