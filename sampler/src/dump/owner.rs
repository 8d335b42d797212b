//! Who holds what a thread waits for by futex(2), as far as the words of the C library's locks say so.
//!
//! Whether a word is one of such a lock is known by the function that waits, whose name is found later ([`Owner::fits`]).

use std::collections::HashMap;

use crate::waits::image::Image;
use crate::waits::syscalls::awaited_word;
use crate::waits::thread::Blocked;

/// What a word is, if the function that waits is of the right kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A mutex that the kernel knows the holder of (priority inheritance).
    Inheriting,
    /// `pthread_mutex_t` of glibc.
    Mutex,
    /// The word of a thread's own that becomes zero when it has ended.
    End,
}

/// A thread that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub kind: Kind,
    /// Its id, as we see it.
    pub tid: u32,
}

impl Owner {
    /// Whether the functions in which the thread waits, the innermost first, are of the right kind.
    pub fn fits<'a>(&self, mut functions: impl Iterator<Item = &'a str>) -> bool {
        match self.kind {
            Kind::Inheriting => true,
            Kind::Mutex => functions.any(|name| name.contains("mutex")),
            Kind::End => functions.any(|name| name.contains("join")),
        }
    }
}

/// The thread that a blocked one of id `own_tid` waits for, if the word that it waits on names one. Ids are those that the process knows;
/// `own_tids` has those that we see.
pub(super) fn of(
    blocked: &Blocked,
    own_tid: u32,
    image: &Image,
    own_tids: &HashMap<u32, u32>,
) -> Option<Owner> {
    /// FUTEX_TID_MASK of linux/futex.h.
    const TID: u32 = 0x3fff_ffff;
    /// FUTEX_LOCK_PI and FUTEX_LOCK_PI2, without what is or-ed to them.
    const INHERITING: [u64; 2] = [6, 13];
    /// What `__lock` of a mutex is that others wait for (glibc's lowlevellock.h).
    const CONTENDED: u32 = 2;
    let call = blocked.call.as_ref()?;
    let address = awaited_word(call)?;
    let mut words = [0; 12];
    let length = image.read(address, &mut words);
    let word = |number: usize| {
        let bytes = words.get(..length)?.get(4 * number..4 * number + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let seen = |own: u32| {
        let mut both = own_tids.iter();
        let found = both.find(|(_, known)| **known == own && own != own_tid);
        found.map(|(tid, _)| *tid)
    };
    let value = word(0)?;
    let operation = call.arguments[1] & 0x7f;
    if INHERITING.contains(&operation) {
        let tid = seen(value & TID)?;
        return Some(Owner {
            kind: Kind::Inheriting,
            tid,
        });
    }
    if let Some(tid) = seen(value) {
        return Some(Owner {
            kind: Kind::End,
            tid,
        });
    }
    // `__lock`, `__count`, `__owner` (bits/struct_mutex.h).
    let tid = seen(word(2)?).filter(|_| value == CONTENDED)?;
    Some(Owner {
        kind: Kind::Mutex,
        tid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::thread::Call;

    fn owner(words: [u32; 3], operation: u64) -> Option<Owner> {
        let image = Image::new(std::process::id()).unwrap();
        let address = words.as_ptr().expose_provenance() as u64;
        let blocked = Blocked {
            call: Some(Call {
                number: libc::SYS_futex,
                arguments: [address, operation, 0, 0, 0, 0],
            }),
            sp: 8,
            pc: 8,
        };
        // Two threads in a pid namespace of their own.
        let own_tids = HashMap::from([(4711, 7), (4712, 8)]);
        of(&blocked, 8, &image, &own_tids)
    }

    #[test]
    fn words_of_locks_name_their_holders() {
        let of = |kind| Some(Owner { kind, tid: 4711 });
        assert_eq!(owner([2, 0, 7], 128), of(Kind::Mutex));
        assert_eq!(owner([2, 0, 8], 128), None, "it is itself");
        assert_eq!(owner([2, 0, 9], 128), None, "there is none");
        assert_eq!(owner([1, 0, 7], 128), None, "nobody waits");
        assert_eq!(owner([7, 0, 0], 9 | 128 | 256), of(Kind::End));
        assert_eq!(owner([1 << 31 | 7, 0, 0], 6 | 128), of(Kind::Inheriting));
        assert_eq!(owner([2, 0, 7], 1 | 128), None, "it wakes others");
    }

    #[test]
    fn the_function_that_waits_decides() {
        let owner = |kind| Owner { kind, tid: 7 };
        let lock = ["__lll_lock_wait", "pthread_mutex_lock"];
        assert!(owner(Kind::Mutex).fits(lock.into_iter()));
        assert!(!owner(Kind::End).fits(lock.into_iter()));
        let join = ["__pthread_clockjoin_ex"];
        assert!(owner(Kind::End).fits(join.into_iter()));
        assert!(!owner(Kind::Mutex).fits(["sem_wait"].into_iter()));
    }
}
