//! What the ranks of a job did together.
//!
//! | module | question |
//! |---|---|
//! | [`collectives`] | which rank made the others wait in collectives, and why |
//! | [`iterations`] | where the time of each iteration went |
//! | [`critical`] | what the end of an iteration had waited for, from rank to rank |
//! | [`mpi`] | which rank waited for which in calls of MPI, and whose work was behind it; a part of the answer of [`collectives`] |
//! | [`pop`] | how well ranks and GPUs were kept at work |
//! | [`stuck`] | where processes stood when their traces ended, and who was waited for |

pub mod collectives;
pub mod critical;
pub mod iterations;
mod mpi;
mod operation;
pub mod pop;
mod ranks;
pub mod stuck;
