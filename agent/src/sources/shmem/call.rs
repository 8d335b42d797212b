//! One call, from the program's to the library's and back.

use rsys_wire::event::{ArgWords, Key, Value};
use rsys_wire::sources::Category;

use crate::events;
use crate::interpose::table::parts;
use crate::interpose::trampoline::Call;
use crate::interpose::weak;
use crate::sources::library_calls::{Callers, Names};
use crate::sources::shmem::sets::{self, Set};
use crate::sources::shmem::table::{self, Other, Row, other};
use crate::state::pause;

static NAMES: Names = Names::new();
static CALLERS: Callers = Callers::of(&[b"liboshmem", b"libsma", b"libshmem"]);
/// Of [`weak::restore`].
static SEEN: weak::Seen = weak::Seen::new();

crate::thread_words! {
    /// Where on the stack the thread's outermost call is; 0 outside of calls.
    fn outermost() -> *mut usize = "rsys_shmem_outermost"
}

fn depth() -> usize {
    // SAFETY: the thread's own word.
    unsafe { *outermost() }
}

fn set_depth(depth: usize) {
    // SAFETY: as above.
    unsafe { *outermost() = depth }
}

/// Answers for a stub: where to jump, or null when the call was made here.
pub extern "C" fn handle(stub: u32, call: &mut Call) -> *const () {
    let real = table::TABLE.real(stub);
    let (_, function) = parts(stub);
    let number = usize::from(function);
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
    // What stands in front of the library calls it by the other name: that is one call of the program.
    let outer = depth();
    if outer != 0 && call.depth() < outer {
        return real;
    }
    let Some(row) = table::row(number) else {
        return real;
    };
    if outer != 0 {
        // An exception or a jump has left a call that was recorded.
        set_depth(0);
        events::end(Category::Shmem, &[]);
    }
    let name = NAMES.key(function, table::symbol);
    let known = Known::read(call, &row);
    let is_recorded = events::begin_with(Category::Shmem, name, 0, &known.args);
    if is_recorded {
        set_depth(call.depth());
    }
    call.forward(real, known.words);
    if is_recorded {
        set_depth(0);
        events::end_with(Category::Shmem, &known.at_end(call, &row));
    }
    std::ptr::null()
}

/// What is known of a call before it is made.
struct Known {
    args: ArgWords,
    /// How many words its arguments are.
    words: usize,
    team: Option<usize>,
    bytes: Option<u64>,
    root: Option<u64>,
}

impl Known {
    fn read(call: &Call, row: &Row) -> Self {
        let mut known = Known {
            args: ArgWords::new(),
            words: usize::from(row.has_context),
            team: None,
            bytes: None,
            root: None,
        };
        let letters = row.letters();
        let (mut count, mut times) = (None, 1);
        for letter in letters {
            if *letter == b'v' && row.is_floating {
                // In a register of its own.
                continue;
            }
            let word = call.argument(known.words);
            known.words = known.words.wrapping_add(1);
            // Numbers of others have 32 bits: the upper half of the word means nothing.
            let number = u64::from(word as u32);
            match letter {
                b'n' | b's' => count = Some(word as u64),
                b'N' => count = Some(number),
                b'm' => times = word as u64,
                b'P' => known.args.push(Key::Peer, Value::Uint(number)),
                b'r' => {
                    known.root = Some(number);
                    known.args.push(Key::Root, Value::Uint(number));
                }
                b't' => {
                    known.team = Some(word);
                    known.args.push(Key::Team, Value::Pointer(word as u64));
                }
                _ => {}
            }
        }
        let count = count.map(|count| times.saturating_mul(count));
        known.describe(call, row, count);
        known
    }

    /// Adds how much the call moves.
    fn describe(&mut self, call: &Call, row: &Row, count: Option<u64>) {
        let kind = row.kind();
        let element_bytes = u64::from(row.element_bytes);
        if matches!(kind, b'c' | b'C') {
            self.args.push(Key::Blocking, Value::Uint(1));
        }
        // What is said in bytes has no other count.
        if let Some(count) = count
            && element_bytes > 1
        {
            self.args.push(Key::Count, Value::Uint(count));
            self.args.push(Key::TypeBytes, Value::Uint(element_bytes));
        }
        let is_single = matches!(kind, b'p' | b'g' | b'a');
        let Some(count) = count.or(is_single.then_some(1)) else {
            return;
        };
        let bytes = count.saturating_mul(element_bytes);
        self.bytes = Some(bytes);
        self.args.push(Key::Bytes, Value::Uint(bytes));
        let mut both = [0, 0];
        if matches!(kind, b'p' | b'a') {
            both[0] = bytes;
        }
        if matches!(kind, b'g' | b'a') {
            both[1] = bytes;
        }
        if kind == b'c' {
            let set = sets::active_set(call, row.letters(), self.words, self.root.is_some());
            both = sets::moved(row.name(), bytes, self.root, set);
        }
        put_moved(&mut self.args, both);
    }

    /// What is known when it is made: whether it could, and what a team's collective has moved.
    fn at_end(&self, call: &Call, row: &Row) -> ArgWords {
        let mut args = ArgWords::new();
        if !matches!(row.kind(), b'C' | b'e') {
            return args;
        }
        let result = call.result() as i32;
        if result != 0 {
            args.push(Key::Result, Value::Int(i64::from(result)));
            return args;
        }
        // Libraries that have no teams may complain when they are asked: this one has just used it.
        if let (Some(team), Some(bytes)) = (self.team, self.bytes) {
            let set = Set::of_team(team);
            if let Some(set) = set {
                args.push(Key::Ranks, Value::Uint(set.size));
            }
            if let Some(own) = set.and_then(|set| set.own) {
                args.push(Key::Rank, Value::Uint(own));
            }
            put_moved(&mut args, sets::moved(row.name(), bytes, self.root, set));
        }
        args
    }
}

fn put_moved(args: &mut ArgWords, moved: [u64; 2]) {
    for (key, bytes) in [Key::Sent, Key::Received].into_iter().zip(moved) {
        if bytes != 0 {
            args.push(key, Value::Uint(bytes));
        }
    }
}
