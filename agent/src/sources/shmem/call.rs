//! One call, from the program's to the library's and back.

use rsys_wire::event::{ArgWords, Key, Value};
use rsys_wire::sources::Category;

use crate::events;
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
    let (mut count, mut times) = (None, 1);
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
            b'r' => args.push(Key::Root, Value::Uint(u64::from(number))),
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
    }
    (args, words)
}
