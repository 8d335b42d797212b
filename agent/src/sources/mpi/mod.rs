//! MPI: each call of the program, with what it moves between whom.
//!
//! All functions are rows of one [`table`] and pass through one trampoline to [`call`], which reads their [`arguments`] by the letters of the
//! row. There is no `mpi.h` here: what differs between libraries is in [`library`]. Both `MPI_` and `PMPI_` are stood in front of, for libraries of Fortran
//! call either, and only the outermost call of a thread counts, if the program made it ([`callers`]).

mod arguments;
mod call;
mod callers;
mod communicators;
mod completion;
mod datatypes;
mod filter;
mod library;
mod names;
mod requests;
mod stubs;
mod table;

use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::sources::Category;

use crate::sources::source::Source;

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Mpi],
    table: Some(&table::TABLE),
    after_fork_in_child,
    ..Source::NONE
};

/// Set in the child of a process that had initialised MPI: there it must not be used, and is not asked.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

fn after_fork_in_child() {
    if library::is_known() {
        IS_CHILD.store(true, Ordering::Relaxed);
        library::end();
    }
}
