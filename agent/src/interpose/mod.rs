//! Finding functions of the program's libraries, and wrapping them.

pub mod interposed;
pub mod late;
pub mod libraries;
pub mod real_dlsym;
pub mod symbols;
pub mod table;
pub mod trampoline;
pub mod weak;
pub mod wrapped;
