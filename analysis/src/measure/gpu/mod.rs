//! What GPUs did.
//!
//! | module | question |
//! |---|---|
//! | [`timeline`] | where the time of each GPU went |
//! | [`kernels`] | which kernels took it |
//! | [`gaps`] | why each GPU was idle |
//! | [`launch`] | who launched them: operators, functions, ranges, calls; and how long launches waited |
//! | [`efficiency`] | how well the busy time was used: work of operators against what the GPUs could do |
//! | [`copies`] | how many bytes went which way, how fast, and which calls waited for that |
//! | [`memory`] | how much memory programs had when, and what held it at the peak |
//! | [`sensors`] | what the sensors of GPUs said, and when clocks were slow |

pub mod copies;
pub mod efficiency;
pub mod gaps;
pub mod kernels;
pub mod launch;
pub mod memory;
pub mod sensors;
pub mod streams;
pub mod timeline;

mod framework_memory;
mod kernel_counters;
