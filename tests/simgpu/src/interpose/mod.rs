//! The functions of the C library that the driver stands in front of.
//!
//! Each hook looks whether it is about something simulated, and calls the next library's function otherwise. They run
//! before `main`, in children of `vfork` and in signal handlers: what is not simulated takes no lock and allocates
//! nothing.
//!
//! `open`, `fcntl` and `ioctl` are variadic in C. On x86-64 a caller passes a third argument in the same register
//! either way, so hooks with a fixed third argument are call-compatible.

mod files;
mod paths;
mod real;
mod status;
