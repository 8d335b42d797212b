//! Nothing: what depends on this crate is linked against glibc 2.17, however new the C library of the build machine is.
//!
//! The build script does it. It makes a stand-in for the linker's `libc.so`: shared libraries without code that export what the
//! build machine's C library exports, each function in its newest version that is not younger than 2.17. A reference to such a
//! function asks for that version, which every later C library still has. Functions that are younger have no version there, and
//! `build/old.c` and `build/start.c` have those of them that are needed. `build/math.c` has the mathematical functions that are asked for in their oldest version.
