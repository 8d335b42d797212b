//! What threads and processes did.
//!
//! | module | question |
//! |---|---|
//! | [`functions`] | which functions took the CPU time, and what threads waited for |
//! | [`calls`] | which calls of the GPU runtimes threads made, and how long those held them |
//! | [`pauses`] | which calls emptied a GPU before it was idle, and where launching took longer than the kernels |
//! | [`locks`] | how often locks were taken, how long threads waited for them and where, and who held them |
//! | [`interpreter`] | who held the interpreter's lock, and who waited for it |
//! | [`process_lifetimes`] | from when to when processes lived and used GPUs |
//! | `loaders` | who hands a waiting main thread what it works on, and what that one does meanwhile |
//! | [`cost`] | what profiling itself cost |

pub mod calls;
pub mod cost;
pub mod functions;
mod handovers;
pub mod interpreter;
mod loaders;
pub mod locks;
mod own_code;
pub mod pauses;
pub mod process_lifetimes;
