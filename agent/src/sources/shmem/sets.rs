//! Who takes part in a collective, and what it moves.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::interpose::symbols;
use crate::interpose::trampoline::Call;

/// The PEs of a collective: how many, and which of them this one is, if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    /// How many.
    pub size: u64,
    /// The number of this one among them.
    pub own: Option<u64>,
}

impl Set {
    /// That of a team, by what the library says.
    pub fn of_team(team: usize) -> Option<Self> {
        static SIZE: Asked = Asked::new(c"shmem_team_n_pes");
        static OWN: Asked = Asked::new(c"shmem_team_my_pe");
        Some(Set {
            size: SIZE.ask(team)?.into(),
            own: OWN.ask(team).map(u64::from),
        })
    }
}

/// A function of the library that only answers: of a team, or of nothing.
#[derive(Debug)]
struct Asked {
    name: &'static CStr,
    /// Looked up once: that takes the loader's lock.
    function: AtomicPtr<()>,
}

impl Asked {
    const fn new(name: &'static CStr) -> Self {
        Asked {
            name,
            function: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// What it answers; nothing where the library lacks it, or it says that there is nothing to say.
    fn ask(&self, about: usize) -> Option<u32> {
        type Ask = unsafe extern "C" fn(usize) -> c_int;
        /// Stands for a function that the library lacks.
        const ABSENT: *mut () = std::ptr::without_provenance_mut(1);
        let mut found = self.function.load(Ordering::Relaxed);
        if found.is_null() {
            found = symbols::next(self.name);
            let known = if found.is_null() { ABSENT } else { found };
            self.function.store(known, Ordering::Relaxed);
        }
        if found == ABSENT {
            return None;
        }
        // SAFETY: the function of this name, in all versions, or null; one without arguments does not look at the register.
        let ask = unsafe { std::mem::transmute::<*mut (), Option<Ask>>(found) }?;
        // SAFETY: the program is about to call a collective, of this team, or has done so.
        u32::try_from(unsafe { ask(about) }).ok()
    }
}

/// The active set that a call of OpenSHMEM before 1.5 names: behind the count, or the root, stand the first PE, the logarithm of the step, the size, and the
/// arrays for the library's own use. The library is asked which PE this is only if `is_rooted`.
pub fn active_set(call: &Call, letters: &[u8], words: usize, is_rooted: bool) -> Option<Set> {
    static OWN: Asked = Asked::new(c"shmem_my_pe");
    let named = letters.iter().rposition(|letter| *letter != b'.')?;
    let behind = letters.len().checked_sub(named.checked_add(1)?)?;
    let first = words.checked_sub(behind)?;
    if behind < 4 {
        return None;
    }
    let number = |at: usize| call.argument(first.wrapping_add(at)) as u32;
    let own = is_rooted.then(|| OWN.ask(0)).flatten().and_then(|own| {
        let distance = own.checked_sub(number(0))?;
        Some(u64::from(distance.checked_shr(number(1))?))
    });
    Some(Set {
        size: u64::from(number(2)),
        own,
    })
}

/// Bytes that a collective reads from the source array of this PE and writes to its target array; `bytes` is the size of the call's count of elements. As for
/// collectives of MPI, a block for each PE counts once for each.
pub fn moved(name: &str, bytes: u64, root: Option<u64>, set: Option<Set>) -> [u64; 2] {
    let of_all = set.map_or(0, |set| bytes.saturating_mul(set.size));
    if name.ends_with("_to_all") || name.ends_with("_reduce") {
        [bytes, bytes]
    } else if name.starts_with("broadcast") {
        match set.and_then(|set| set.own) {
            Some(own) if Some(own) == root => [bytes, 0],
            Some(_) => [0, bytes],
            None => [0, 0],
        }
    } else if name.starts_with("fcollect") {
        [bytes, of_all]
    } else if name.starts_with("collect") {
        // What the others give is theirs to know.
        [bytes, 0]
    } else if name.starts_with("alltoall") {
        [of_all, of_all]
    } else {
        [0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_move_what_lies_in_their_arrays() {
        let of = |own| {
            Some(Set {
                size: 4,
                own: Some(own),
            })
        };
        for (name, root, set, expected) in [
            ("sum_to_all", None, of(1), [24, 24]),
            ("max_reduce", None, None, [24, 24]),
            ("broadcast64", Some(2), of(2), [24, 0]),
            ("broadcast64", Some(2), of(3), [0, 24]),
            ("broadcast", Some(2), None, [0, 0]),
            ("fcollect32", None, of(0), [24, 96]),
            ("collect32", None, of(0), [24, 0]),
            ("alltoalls64", None, of(0), [96, 96]),
            ("alltoall", None, None, [0, 0]),
            ("malloc", None, None, [0, 0]),
        ] {
            assert_eq!(moved(name, 24, root, set), expected, "{name}");
        }
    }
}
