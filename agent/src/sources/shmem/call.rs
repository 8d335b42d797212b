//! One call, from the program's to the library's and back.

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};

use rsys_wire::event::{ArgWords, Key, Value};
use rsys_wire::sources::Category;

use crate::events;
use crate::interpose::symbols;
use crate::interpose::trampoline::Call;
use crate::interpose::weak;
use crate::sources::library_calls::{Callers, Names, record};
use crate::sources::shmem::table::{self, Other, Row, other};
use crate::state::pause;

static NAMES: Names = Names::new();
static CALLERS: Callers = Callers::of(&[b"liboshmem", b"libsma", b"libshmem"]);
/// Of [`weak::restore`].
static SEEN: weak::Seen = weak::Seen::new();

/// Answers for a stub: where to jump, or null when the call was made here.
pub extern "C" fn handle(function: u32, call: &mut Call) -> *const () {
    let real = table::TABLE.real(function);
    let number = function as usize;
    if number == other(Other::init) || number == other(Other::init_thread) {
        weak::restore(|symbol| table::find(symbol.to_bytes()).is_some(), &SEEN);
    }
    if real.is_null() {
        // Only weak references to what no library has lead here.
        call.set_result(0);
        return std::ptr::null();
    }
    if !events::records(Category::Shmem)
        || pause::is_caller_paused()
        || CALLERS.is_library(call.return_address())
    {
        return real;
    }
    let Some(row) = table::row(number) else {
        return real;
    };
    let name = NAMES.key(function as u16, table::symbol);
    let (args, words) = describe(call, &row);
    record(Category::Shmem, name, &args, (call, real, words), |_| None);
    std::ptr::null()
}

/// What is known of a call before it is made, and how many words its arguments are.
fn describe(call: &Call, row: &Row) -> (ArgWords, usize) {
    let (kind, letters) = row
        .roles
        .as_bytes()
        .split_first()
        .map_or((b'.', &[][..]), |(kind, letters)| (*kind, letters));
    let mut args = ArgWords::new();
    let mut words = usize::from(row.has_context);
    let (mut count, mut times, mut root) = (None, 1, None);
    for letter in letters {
        if *letter == b'v' && row.is_floating {
            // In a register of its own.
            continue;
        }
        let word = call.argument(words);
        words = words.wrapping_add(1);
        // Numbers of others have 32 bits: the upper half of the word means nothing.
        let number = word as u32;
        match letter {
            b'n' | b's' => count = Some(word as u64),
            b'N' => count = Some(u64::from(number)),
            b'm' => times = word as u64,
            b'P' => args.push(Key::Peer, Value::Uint(u64::from(number))),
            b'r' => {
                root = Some(u64::from(number));
                args.push(Key::Root, Value::Uint(u64::from(number)));
            }
            _ => {}
        }
    }
    let count = count.map(|count| times.saturating_mul(count));
    let element_bytes = u64::from(row.element_bytes);
    if kind == b'c' {
        args.push(Key::Blocking, Value::Uint(1));
    }
    // What is said in bytes has no other count.
    if let Some(count) = count
        && element_bytes > 1
    {
        args.push(Key::Count, Value::Uint(count));
        args.push(Key::TypeBytes, Value::Uint(element_bytes));
    }
    let is_single = matches!(kind, b'p' | b'g' | b'a');
    if let Some(count) = count.or(is_single.then_some(1)) {
        let bytes = Value::Uint(count.saturating_mul(element_bytes));
        args.push(Key::Bytes, bytes);
        if matches!(kind, b'p' | b'a') {
            args.push(Key::Sent, bytes);
        }
        if matches!(kind, b'g' | b'a') {
            args.push(Key::Received, bytes);
        }
        if let (b'c', Value::Uint(bytes)) = (kind, bytes) {
            let set = active_set(call, letters, words, root.is_some());
            let [sent, received] = moved(row.name(), bytes, root, set);
            for (key, bytes) in [(Key::Sent, sent), (Key::Received, received)] {
                if bytes != 0 {
                    args.push(key, Value::Uint(bytes));
                }
            }
        }
    }
    (args, words)
}

/// The PEs of a collective: how many, and which of them this one is, if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ActiveSet {
    size: u64,
    own: Option<u64>,
}

/// The active set that a call of OpenSHMEM before 1.5 names: behind the count, or the root, stand the first PE, the logarithm of the step, the size, and the
/// arrays for the library's own use. The library is asked which PE this is only if `is_rooted`.
fn active_set(call: &Call, letters: &[u8], words: usize, is_rooted: bool) -> Option<ActiveSet> {
    let named = letters.iter().rposition(|letter| *letter != b'.')?;
    let behind = letters.len().checked_sub(named.checked_add(1)?)?;
    let first = words.checked_sub(behind)?;
    if behind < 4 {
        return None;
    }
    let number = |at: usize| call.argument(first.wrapping_add(at)) as u32;
    let own = is_rooted.then(own_number).flatten().and_then(|own| {
        let distance = own.checked_sub(number(0))?;
        Some(u64::from(distance.checked_shr(number(1))?))
    });
    Some(ActiveSet {
        size: u64::from(number(2)),
        own,
    })
}

/// The number of this PE, which is set up.
fn own_number() -> Option<u32> {
    type MyPe = unsafe extern "C" fn() -> c_int;
    /// Looked up once: that takes the loader's lock.
    static MY_PE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
    let mut found = MY_PE.load(Ordering::Relaxed);
    if found.is_null() {
        found = symbols::next(c"shmem_my_pe");
        MY_PE.store(found, Ordering::Relaxed);
    }
    // SAFETY: the function of this name, in all versions, or null.
    let ask = unsafe { std::mem::transmute::<*mut (), Option<MyPe>>(found) }?;
    // SAFETY: the program is about to call a collective.
    u32::try_from(unsafe { ask() }).ok()
}

/// Bytes that a collective reads from the source array of this PE and writes to its target array; `bytes` is the size of the call's count of elements. As for
/// collectives of MPI, a block for each PE counts once for each.
fn moved(name: &str, bytes: u64, root: Option<u64>, set: Option<ActiveSet>) -> [u64; 2] {
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
            Some(ActiveSet {
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
