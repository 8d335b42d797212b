//! What runs inside the target: `librsys_agent.so`, loaded with `LD_PRELOAD`.
//!
//! The target comes first: the agent changes nothing that the program computes, prints or returns. It has no threads of its own (except
//! where GPU operations are collected), keeps no descriptors (except perf's, when asked for a rate above the kernel's tick), and
//! allocates nothing from the program's heap.
//!
//! The folders are floors; code uses its own floor and those below (`floors.toml`). From the ground up:
//!
//! * [`sys`]: system calls, guarded loads, time, memory, a lock;
//! * [`state`]: what this process is at the moment, and [`target`]: what the program brings;
//! * [`channel`]: memory shared with the sampler, and [`code`]: which code lies where;
//! * [`clocks`]: what interrupts a thread;
//! * [`signals`]: shared with the program;
//! * [`sampling`]: a sample, from the signal to the record;
//! * [`events`]: rings for what sources record, and [`interpose`]: wrapping functions of libraries;
//! * [`sources`]: what records events, one folder each;
//! * [`lifecycle`]: start, threads, fork, exec, exit;
//! * [`hooks`]: the functions of the C library that have to be seen.

// In the tests nothing is exported, and so much is not called.
#![cfg_attr(
    test,
    allow(
        dead_code,
        non_snake_case,
        unused_imports,
        reason = "the exports are not there"
    )
)]
// Much serves only what the other builds stand in front of, where it is checked.
#![cfg_attr(
    not(any(feature = "locks", test)),
    allow(dead_code, unused_imports, reason = "for other builds")
)]

mod channel;
mod clocks;
mod code;
mod events;
mod hooks;
mod interpose;
mod lifecycle;
mod sampling;
mod signals;
mod sources;
mod state;
mod sys;
mod target;
