//! What the ranks of a job did together.
//!
//! | module | question |
//! |---|---|
//! | [`collectives`] | which rank made the others wait in collectives, and why |
//! | [`iterations`] | where the time of each iteration went |
//! | [`critical`] | what the end of an iteration had waited for, from rank to rank |
//! | [`stuck`] | where processes stood when their traces ended, and who was waited for |

pub mod collectives;
pub mod critical;
pub mod iterations;
pub mod stuck;
