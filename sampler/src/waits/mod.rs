//! What threads wait for, by the wall clock.
//!
//! A CPU clock says nothing about a thread that sleeps, and a signal would wake it up. So blocked
//! threads are looked at from outside: a thread of ours reads what the kernel tells of each of
//! theirs ([`thread`]) and walks its stack through the process's memory ([`image`]). Nothing is
//! sent to the target, nothing stops it. Where the stack leads through a Python interpreter, its
//! Python frames are read as well ([`python`], [`states`], [`blocks`]). [`look`] makes waits of what is seen, [`syscalls`] says
//! what is waited for, [`process`] keeps the threads of a process together, [`poller`] says when to
//! look, and [`record`] is what comes out. [`exact`] gives waits the lengths that the kernel recorded.
//!
//! Most threads sleep most of the time. The kernel counts how often a thread was put on a
//! processor; as long as that number stands still, the same wait goes on, and one short read shows
//! so. The longer a wait lasts, the less often it is looked at.

mod blocks;
mod debug_frames;
pub mod exact;
pub mod image;
mod look;
pub mod maps;
mod poller;
mod process;
pub mod python;
pub mod record;
mod seen;
mod states;
pub mod syscalls;
pub mod thread;

pub use poller::Waits;
