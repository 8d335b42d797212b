//! Runs on simulated GPUs, under the real ROCm runtimes.
//!
//! ```no_run
//! use rsys_tests::simgpu::{Machine, Stack, hip_program};
//! use rsys_tests::{Run, TestResult};
//!
//! fn kernels_take_their_time() -> TestResult {
//!     let machine = Machine::new(Stack::Debian12)?.gpus(2).config("[[kernel]]\nmicroseconds = 50")?;
//!     let program = hip_program(Stack::Debian12, "hip_check")?;
//!     Run::bare().command(machine.run(program)).run()?.expect_success();
//!     assert!(machine.truth()?.dispatches().all(|dispatch| dispatch.end_ns > dispatch.start_ns));
//!     Ok(())
//! }
//! ```
//!
//! To profile such a program, run `rsys-sample` around the machine (`Run::new()` instead of `Run::bare()`), or inside
//! it.

mod machine;
mod programs;
mod ranks;
pub(crate) mod stack;
mod told;
mod truth;

pub use machine::Machine;
pub use programs::{
    below_hsa_tool, code_object, code_object_of, hip_program, hsa_program, hsa_tool,
    library_program, opencl_program, openmp_program, standin, standin_hip,
};
pub use ranks::RanksOnGpus;
pub use stack::{Stack, entering, runtimes_dir};
pub use told::{EXACT_NS, Op, accounts, ops};
pub use truth::{Barrier, Copy, CounterRead, Dispatch, Record, Truth};
