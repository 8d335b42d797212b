//! Operators and functions whose begin and end were recorded, as PyTorch's profiler does it: what a thread was in, and for how long.
//!
//! | file | holds |
//! |---|---|
//! | `rows` | the slices of a thread, kept small |
//! | `names` | what their names say: function, source file, line |
//! | `times` | the time of each, and the table |

mod names;
mod rows;
mod times;

pub(crate) use names::CodeName;
pub(crate) use rows::{Open, RecordedRows, Scope};
pub(crate) use times::{Apart, Recorded};
