//! OpenSHMEM: each call of the program, with what it moves to and from whom.
//!
//! Most functions exist for each of two dozen types: [`table`] puts the names together. All pass through one trampoline to [`call`]. There is no `shmem.h`
//! here, and handles are not looked into: the library is asked who belongs to a team ([`sets`]).

mod call;
mod sets;
mod stubs;
mod table;

use rsys_wire::sources::Category;

use crate::sources::source::Source;

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Shmem],
    table: Some(&table::TABLE),
    ..Source::NONE
};
