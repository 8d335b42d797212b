//! Nothing: what depends on this crate is linked against glibc [`FLOOR`], however new the C library of the build machine is.
//!
//! The build script does it. It makes a stand-in for the linker's `libc.so`: shared libraries without code that export what the
//! build machine's C library exports, each function in its newest version that is not younger than the floor. A reference to such a
//! function asks for that version, which every later C library still has. `old.c` has functions that older libraries lack.

/// The oldest glibc that agent and programs run on. The build script has the same number.
pub const FLOOR: (u32, u32) = (2, 17);
