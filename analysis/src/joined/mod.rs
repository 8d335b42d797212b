//! What belongs to what, worked out once for all questions: calls, and the operations of GPUs that they caused.
//!
//! | module | holds |
//! |---|---|
//! | [`ids`] | the two kinds of numbers by which records name each other |
//! | [`submissions`] | which call submitted an operation |
//! | [`copies`] | the copies of a call, and whether it has waited for them |
//! | [`group_launches`] | what was launched within a call between ranks |

pub(crate) mod copies;
pub(crate) mod group_launches;
pub(crate) mod ids;
pub(crate) mod submissions;
