//! Calls that complete requests, and what was completed.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use rsys_wire::event::{Key, Value};
use rsys_wire::sources::Category;

use crate::events;
use crate::events::texts::StaticText;
use crate::interpose::trampoline::Call;
use crate::sources::mpi::arguments::Arguments;
use crate::sources::mpi::library::Library;
use crate::sources::mpi::names;
use crate::sources::mpi::requests::{self, Request};

/// Of how many requests of one call it is recorded when they are done.
const MOST: usize = 256;

static COMPLETED: StaticText = StaticText::new("completed");

/// The handles with which a call was made: where a request is done, the library puts another there.
#[derive(Debug)]
pub struct Wait {
    library: Option<&'static Library>,
    handles: [MaybeUninit<usize>; MOST],
    count: usize,
    /// Whether the call waits for one request, which alone then is known to be done when it returns.
    is_single: bool,
}

impl Wait {
    /// Before the call.
    #[inline]
    pub fn begin(library: Option<&'static Library>, arguments: &Arguments) -> Wait {
        let mut wait = Wait {
            library,
            handles: [MaybeUninit::uninit(); MOST],
            count: 0,
            is_single: false,
        };
        let Some(library) = library else {
            return wait;
        };
        if arguments.request != 0 {
            wait.is_single = arguments.flag == 0;
            wait.push(library.handle_at(arguments.request));
        } else if arguments.requests.0 != 0 {
            for index in 0..arguments.requests.1.min(MOST) {
                wait.push(library.handle_in(arguments.requests.0, index));
            }
        }
        wait
    }

    fn push(&mut self, handle: usize) {
        if let Some(to) = self.handles.get_mut(self.count) {
            to.write(handle);
            self.count = self.count.wrapping_add(1);
        }
    }

    fn handle(&self, index: usize) -> Option<usize> {
        let handle = self.handles.get(..self.count)?.get(index)?;
        // SAFETY: the first `count` were written.
        Some(unsafe { handle.assume_init() })
    }

    /// The call that made the request, where the call waits for just that one.
    pub fn correlation(&self) -> u64 {
        if !self.is_single {
            return 0;
        }
        self.handle(0)
            .and_then(requests::find)
            .map_or(0, |request| request.correlation)
    }

    /// After the call: says which requests are done. Returns how many.
    pub fn end(&self, call: &Call, arguments: &Arguments, is_recorded: bool) -> u64 {
        if self.library.is_none() || self.count == 0 || call.result() as c_int != 0 {
            return 0;
        }
        // SAFETY: null, or a place where the library has just put a number.
        let number = |address: usize| unsafe {
            std::ptr::with_exposed_provenance::<c_int>(address)
                .as_ref()
                .copied()
        };
        if number(arguments.flag) == Some(0) {
            return 0;
        }
        let mut count = 0;
        let mut done = |index: usize| {
            if let Some(request) = self.handle(index).and_then(requests::done) {
                count += 1;
                if is_recorded {
                    self.mark(&request);
                }
            }
        };
        if let Some(index) = number(arguments.index) {
            // MPI_UNDEFINED, which is negative, where no request was active.
            if let Ok(index) = usize::try_from(index) {
                done(index);
            }
        } else if let Some(many) = number(arguments.indices.1) {
            let array = std::ptr::with_exposed_provenance::<c_int>(arguments.indices.0);
            for place in 0..usize::try_from(many).unwrap_or(0) {
                // SAFETY: the library has just put as many numbers there.
                if let Ok(index) = usize::try_from(unsafe { *array.wrapping_add(place) }) {
                    done(index);
                }
            }
        } else {
            (0..self.count).for_each(done);
        }
        count
    }

    /// Says that a request is done, where the call does not say so itself.
    fn mark(&self, request: &Request) {
        let message = request.message.checked_sub(1);
        if self.is_single && message.is_none() {
            return;
        }
        let all = [
            (Key::Operation, Value::Known(names::key(request.function))),
            (Key::Rank, Value::Uint(u64::from(request.rank as u32))),
            (Key::Peer, Value::Uint(u64::from(request.peer as u32))),
            (Key::ReceivedTag, Value::Uint(u64::from(request.tag as u32))),
            (Key::ReceivedMessage, Value::Uint(message.unwrap_or(0))),
            (Key::Communicator, Value::Known(request.communicator)),
        ];
        let args = match message {
            Some(_) => all.get(..),
            None => all.get(..1),
        };
        let correlation = if self.is_single {
            0
        } else {
            request.correlation
        };
        events::mark(
            Category::Mpi,
            COMPLETED.key(),
            correlation,
            args.unwrap_or(&[]),
        );
    }
}

/// Persistent requests start: each has a correlation of its own; `correlation` is that of a single one.
pub fn start(library: Option<&'static Library>, arguments: &Arguments, correlation: &mut u64) {
    let Some(library) = library else {
        return;
    };
    let start = |handle: usize| {
        let known = requests::find(handle)?;
        let begun = Request {
            correlation: events::next_correlation(),
            ..known
        };
        requests::start(handle, &begun);
        Some(begun.correlation)
    };
    if arguments.request != 0 {
        *correlation = start(library.handle_at(arguments.request)).unwrap_or(0);
    }
    for index in 0..arguments.requests.1 {
        if arguments.requests.0 != 0 {
            start(library.handle_in(arguments.requests.0, index));
        }
    }
}
