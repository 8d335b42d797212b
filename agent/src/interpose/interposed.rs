//! A function that the agent stands in front of, however that is done.

use crate::interpose::symbols;
use crate::interpose::table::FunctionTable;
use crate::interpose::wrapped::Wrapped;

/// One function.
#[derive(Debug, Clone, Copy)]
pub enum Interposed {
    /// It has a wrapper of its own.
    Wrapped(&'static Wrapped),
    /// It passes through the trampoline of its library, under this number.
    OfTable(&'static FunctionTable, u16),
}

impl Interposed {
    /// Whether a library behind us has it.
    pub fn is_in_a_library(self) -> bool {
        match self {
            Self::Wrapped(wrapped) => !wrapped.real::<0>().is_null(),
            Self::OfTable(table, function) => !table.real(u32::from(function)).is_null(),
        }
    }

    /// What stands in front of this real function, or null when there is no more room.
    pub fn in_front_of(self, real: *const ()) -> *const () {
        match self {
            Self::Wrapped(wrapped) => wrapped.wrapper_of(real),
            Self::OfTable(table, function) => table.stub_of(function, real),
        }
    }

    /// Whether an address is ours.
    pub fn is_ours(address: *const ()) -> bool {
        !address.is_null() && symbols::is_ours(address)
    }
}
