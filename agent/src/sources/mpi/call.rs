//! One call, from the program's to the library's and back.

use std::ffi::c_int;

use rsys_wire::event::{ArgWords, Key, Value};
use rsys_wire::sources::Category;

use crate::events;
use crate::events::texts::StaticText;
use crate::interpose::table::parts;
use crate::interpose::trampoline::Call;
use crate::interpose::weak;
use crate::sources::mpi::arguments::Arguments;
use crate::sources::mpi::communicators::{self, Communicator, Origin};
use crate::sources::mpi::library::{self, Library};
use crate::sources::mpi::requests::{self, Request};
use crate::sources::mpi::{IS_CHILD, callers, completion, datatypes, filter, names, table};
use crate::state::pause;
use std::sync::atomic::Ordering;

/// What a function returns that no library has: MPI_ERR_OTHER, in OpenMPI 16, in MPICH 15.
const NO_LIBRARY: usize = 15;

/// Of [`weak::restore`].
static SEEN: weak::Seen = weak::Seen::new();

static ANY: StaticText = StaticText::new("any");

crate::thread_words! {
    /// Where on the stack the thread's outermost call is; 0 outside of calls.
    fn outermost() -> *mut usize = "rsys_mpi_outermost"
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
    let (place, number) = parts(stub);
    let real = table::TABLE.real(stub);
    let (function, is_large) = table::function(number);
    if matches!(
        names::special(function),
        names::Special::First | names::Special::Init
    ) {
        weak::restore(|symbol| table::is_known(symbol.to_bytes()), &SEEN);
    }
    if real.is_null() {
        missing(function, call);
        return std::ptr::null();
    }
    if !events::records(Category::Mpi) || IS_CHILD.load(Ordering::Relaxed) {
        return real;
    }
    let outer = depth();
    if outer != 0 && call.depth() < outer {
        return real;
    }
    if !callers::is_program(call.return_address(), function) {
        return real;
    }
    if outer != 0 {
        // An exception or a jump has left a call that was recorded.
        set_depth(0);
        events::end(Category::Mpi, &[]);
    }
    Observed {
        function,
        is_large,
        place,
        real,
    }
    .make(call);
    std::ptr::null()
}

/// Answers for a function that no library has: weak references to it are answered by us.
#[cold]
fn missing(function: usize, call: &mut Call) {
    call.set_result(NO_LIBRARY);
    if matches!(table::name(function), "Initialized" | "Finalized") {
        let flag = std::ptr::with_exposed_provenance_mut::<c_int>(call.argument(0));
        // SAFETY: null, or the caller's place for a flag.
        if let Some(flag) = unsafe { flag.as_mut() } {
            *flag = 0;
            call.set_result(0);
        }
    }
}

/// A call that is observed.
#[derive(Debug)]
struct Observed {
    function: usize,
    is_large: bool,
    place: usize,
    real: *const (),
}

impl Observed {
    /// Makes the call, and records it unless a filter or a pause is in the way. Communicators and numbers are kept in any case.
    fn make(&self, call: &mut Call) {
        let roles = table::roles(self.function);
        let (kind, letters) = roles
            .split_first()
            .map_or((b'.', &[][..]), |(kind, letters)| (*kind, letters));
        let name = names::special(self.function);
        let arguments = Arguments::read(call, letters, self.is_large);
        let library = library::askable(self.place);
        let communicator = library.and_then(|library| {
            let handle = library.handle(arguments.communicator?);
            communicators::find(handle)
        });
        if kind == b'w' {
            let wait = completion::Wait::begin(library, &arguments);
            let correlation = wait.correlation();
            let is_recorded = self.call(call, letters, &ArgWords::new(), correlation);
            let done = wait.end(call, &arguments, is_recorded);
            self.end(call, is_recorded, done);
            return;
        }
        let is_request = arguments.request != 0
            && matches!(
                kind,
                b's' | b'r' | b'x' | b'c' | b'i' | b'o' | b'p' | b'g' | b'n'
            );
        let is_persistent = is_request && names::is_persistent(self.function);
        let mut args = ArgWords::new();
        let mut request = Request {
            function: self.function,
            is_persistent,
            ..Request::default()
        };
        if is_request && !is_persistent {
            request.correlation = events::next_correlation();
        }
        if let Some(library) = library {
            self.describe(
                kind,
                &arguments,
                library,
                communicator,
                (&mut args, &mut request),
            );
        }
        if name == names::Special::Start {
            completion::start(library, &arguments, &mut request.correlation);
        }
        if name == names::Special::Finalize {
            library::end();
        }
        if let Some(library) = library {
            forget(&arguments, library, name);
        }
        let is_recorded = self.call(call, letters, &args, request.correlation);
        let is_success = call.result() as c_int == 0;
        if is_success {
            self.learn(kind, name, &arguments, communicator);
            if let (true, Some(library)) = (is_request, library) {
                requests::insert(library.handle_at(arguments.request), &request);
            }
        }
        self.end(call, is_recorded, 0);
    }

    /// Makes the call; returns whether its beginning was recorded.
    #[inline]
    fn call(&self, call: &mut Call, letters: &[u8], args: &ArgWords, correlation: u64) -> bool {
        let is_recorded = !pause::is_caller_paused()
            && filter::keeps(self.function)
            && events::begin_with(Category::Mpi, names::key(self.function), correlation, args);
        set_depth(call.depth());
        call.forward(self.real, letters.len());
        set_depth(0);
        is_recorded
    }

    #[inline]
    fn end(&self, call: &Call, is_recorded: bool, done: u64) {
        if !is_recorded {
            return;
        }
        let mut args = ArgWords::new();
        let result = call.result() as c_int;
        if result != 0 && !names::returns_time(self.function) {
            args.push(Key::Result, Value::Int(i64::from(result)));
        }
        if done != 0 {
            args.push(Key::Completed, Value::Uint(done));
        }
        events::end_with(Category::Mpi, &args);
    }

    /// Puts together what is known of a call before it is made.
    fn describe(
        &self,
        kind: u8,
        arguments: &Arguments,
        library: &Library,
        communicator: Option<&'static Communicator>,
        (args, request): (&mut ArgWords, &mut Request),
    ) {
        let mut is_numbered = request.correlation != 0 || !request.is_persistent;
        if let Some(communicator) = communicator {
            communicator.put_into(args);
            is_numbered &= !communicator.joins_two();
            if kind == b'c'
                && is_numbered
                && let Some(number) = communicator.next_operation()
            {
                args.push(Key::Sequence, Value::Uint(number));
            }
            if is_numbered {
                message(kind, arguments, library, communicator, (args, request));
            }
        }
        let mut rank = |key, rank: Option<c_int>| match rank {
            Some(rank) if rank >= 0 => args.push(key, Value::Uint(rank as u64)),
            Some(rank) if key == Key::Peer && library.may_be_any_source(rank) => {
                args.push(key, Value::Known(ANY.key()));
            }
            _ => {}
        };
        match arguments.destination {
            Some(destination) => rank(Key::Peer, Some(destination)),
            None => rank(Key::Peer, arguments.source),
        }
        if arguments.destination.is_some() {
            rank(Key::From, arguments.source);
        }
        rank(Key::Root, arguments.root);
        match arguments.tag {
            Some(tag) if tag >= 0 => args.push(Key::Tag, Value::Uint(tag as u64)),
            Some(_) => args.push(Key::Tag, Value::Known(ANY.key())),
            None => {}
        }
        let volume = arguments.volume(kind, library, communicator);
        // Nobody waits for anybody where there is nothing to move.
        if kind == b'c' && arguments.request == 0 && volume.count != Some(0) {
            args.push(Key::Blocking, Value::Uint(1));
        }
        if let Some(count) = volume.count {
            args.push(Key::Count, Value::Uint(count));
        }
        if let Some(datatype) = volume.datatype {
            args.push(Key::DataType, Value::Known(datatype.name));
            args.push(Key::TypeBytes, Value::Uint(datatype.bytes));
        }
        if let Some(bytes) = volume.bytes {
            args.push(Key::Bytes, Value::Uint(bytes));
        }
        if volume.sent != 0 {
            args.push(Key::Sent, Value::Uint(volume.sent));
        }
        if volume.received != 0 {
            args.push(Key::Received, Value::Uint(volume.received));
        }
        if let Some(color) = arguments.color.filter(|color| *color >= 0) {
            args.push(Key::Color, Value::Uint(color as u64));
        }
        if let Some(window) = arguments.window {
            args.push(Key::Window, Value::Pointer(library.handle(window) as u64));
        }
        if let Some(file) = arguments.file {
            // A file is an address in all libraries.
            args.push(Key::File, Value::Pointer(file as u64));
        }
    }

    /// Learns from a call that succeeded: communicators, and that MPI is initialised.
    fn learn(
        &self,
        kind: u8,
        name: names::Special,
        arguments: &Arguments,
        communicator: Option<&'static Communicator>,
    ) {
        let is_new = kind == b'n' && arguments.new_communicator != 0;
        let is_unknown = arguments.communicator.is_some() && communicator.is_none();
        if !is_new && !is_unknown && name != names::Special::Init {
            return;
        }
        if name == names::Special::Finalize {
            return;
        }
        // SAFETY: the calling thread's; what is asked below must not change it.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        let before = unsafe { *errno };
        self.ask(name, arguments, communicator.is_some());
        // SAFETY: as above.
        unsafe { *errno = before };
    }

    #[cold]
    fn ask(&self, name: names::Special, arguments: &Arguments, is_known: bool) {
        let Some(library) = library::begin(self.place, self.real) else {
            return;
        };
        for handle in [library.world, library.own] {
            if communicators::find(handle).is_none() {
                communicators::insert(library, handle, Origin::Predefined);
            }
        }
        let given = arguments.communicator.map(|word| library.handle(word));
        if let Some(given) = given
            && !is_known
            && communicators::find(given).is_none()
        {
            communicators::insert(library, given, Origin::Unknown);
        }
        if arguments.new_communicator != 0 {
            let new = library.handle_at(arguments.new_communicator);
            let origin = match (name, given) {
                (names::Special::Copy, Some(original)) => Origin::CopyOf(original),
                _ => Origin::Made,
            };
            communicators::insert(library, new, origin);
        }
    }
}

/// Forgets what a call is about to free.
fn forget(arguments: &Arguments, library: &Library, name: names::Special) {
    if arguments.old_communicator != 0 {
        communicators::remove(library.handle_at(arguments.old_communicator));
    }
    if arguments.old_datatype != 0 {
        datatypes::remove(library.handle_at(arguments.old_datatype));
    }
    if name == names::Special::FreeRequest && arguments.request != 0 {
        requests::remove(library.handle_at(arguments.request));
    }
}

/// Numbers a message, so that its sender and its receiver can be joined.
fn message(
    kind: u8,
    arguments: &Arguments,
    library: &Library,
    communicator: &'static Communicator,
    (args, request): (&mut ArgWords, &mut Request),
) {
    let is_exact = |rank: Option<c_int>, tag: Option<c_int>| match (rank, tag) {
        (Some(rank), Some(tag)) if rank >= 0 && tag >= 0 => Some((rank, tag)),
        _ => None,
    };
    if matches!(kind, b's' | b'x')
        && let Some((peer, tag)) = is_exact(arguments.destination, arguments.tag)
        && let Some(number) = communicator.next_message(peer, tag, true)
    {
        args.push(Key::Message, Value::Uint(number));
    }
    if !matches!(kind, b'r' | b'x') {
        return;
    }
    let tag = arguments.receive_tag.or(arguments.tag);
    match (arguments.source, tag) {
        (Some(source), Some(tag)) => {
            let Some((peer, tag)) = is_exact(Some(source), Some(tag)) else {
                if library.may_be_any_source(source) || source >= 0 {
                    communicator.doubt();
                }
                return;
            };
            if let Some(number) = communicator.next_message(peer, tag, false) {
                args.push(Key::ReceivedMessage, Value::Uint(number));
                if kind == b'x' {
                    args.push(Key::ReceivedTag, Value::Uint(tag as u64));
                }
                *request = Request {
                    communicator: communicator.text(),
                    message: number.wrapping_add(1),
                    peer,
                    tag,
                    rank: communicator.rank(),
                    ..*request
                };
            }
        }
        // A message that a probe took out of the order.
        _ => communicator.doubt(),
    }
}
