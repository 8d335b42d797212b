//! Which code lies where, and where its unwind tables are.

use core::ops::Range;

/// One loaded object (executable, shared library, vDSO) as far as a walk needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleTables {
    /// The addresses that the object's mappings span.
    pub range: Range<u64>,
    /// Address of `.eh_frame_hdr` (what `PT_GNU_EH_FRAME` and `_dl_find_object` name), 0 when there is none.
    pub eh_frame_hdr: u64,
    /// Address of `.eh_frame`, 0 when only the header knows it. It is used when the object has no header, and searched entry by
    /// entry then.
    pub eh_frame: u64,
}

/// The loaded objects of the process whose stack is walked.
///
/// # Signal safety
///
/// Implementations that are used in a handler must not lock: `_dl_find_object`, or an immutable snapshot.
pub trait Modules {
    /// The object whose mappings contain `pc`.
    fn find(&self, pc: u64) -> Option<ModuleTables>;

    /// A number that changes whenever an object was unloaded or replaced; rules cached under another number are not used.
    fn generation(&self) -> u32;

    /// The address of a table like `.eh_frame_hdr` of code of this module that its `.eh_frame` does not describe, or 0. It is asked for an address in a
    /// module that is not described there; see [`crate::debug_frame`].
    fn more_tables(&self, _pc: u64) -> u64 {
        0
    }
}

impl<S: Modules + ?Sized> Modules for &S {
    #[inline]
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        (**self).find(pc)
    }

    #[inline]
    fn generation(&self) -> u32 {
        (**self).generation()
    }

    #[inline]
    fn more_tables(&self, pc: u64) -> u64 {
        (**self).more_tables(pc)
    }
}
