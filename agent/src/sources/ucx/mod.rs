//! UCX: the calls of its protocol layer (`ucp_*`), by which MPI, OpenSHMEM and other libraries move data, with their bytes.
//!
//! All functions are rows of one [`table`] and pass through one trampoline to [`call`]. There is no `ucp.h` here. Calls that libraries make are the
//! program's as well: only those of UCX itself are not recorded. What is called all the time to make progress is counted.

mod call;
mod stubs;
mod table;

use rsys_wire::sources::Category;

use crate::sources::source::Source;

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Ucx],
    table: Some(&table::TABLE),
    after_fork_in_child: call::forget,
    at_end: |_| call::report(),
    ..Source::NONE
};
