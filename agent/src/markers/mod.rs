//! What the program says about itself: ranges and marks by roctx, collectives by RCCL.
//!
//! Both are libraries of the program's own choice. Their functions are exported here in front of them, and `dlsym` hands the
//! wrappers to those who open the libraries themselves ([`crate::wrapped`]); each wrapper calls the real function, if there is one, and
//! returns what that returns. [`roctx`] and [`rccl`] turn calls into events; [`texts`] keeps messages that come again, [`communicators`]
//! what is known of each communicator, [`gate`] whether the program wants anything collected at present.

mod arguments;
mod communicators;
pub mod gate;
pub mod rccl;
pub mod roctx;
mod texts;
mod words;

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::handshake::EventChoice;

use crate::process;
use crate::wrapped::Wrapped;

static ROCTX: AtomicBool = AtomicBool::new(false);
static RCCL: AtomicBool = AtomicBool::new(false);

/// Begins to record what the settings ask for. Once, at the start of the process.
pub fn start(events: EventChoice) {
    ROCTX.store(events.roctx, Ordering::Relaxed);
    RCCL.store(events.rccl, Ordering::Relaxed);
}

/// The child tells everything anew, and does not end what its parent began.
pub fn after_fork_in_child() {
    texts::forget_told();
    words::words().forget_ranges();
}

/// Whether calls of roctx are recorded.
#[inline]
fn records_roctx() -> bool {
    ROCTX.load(Ordering::Relaxed) && process::is_active()
}

/// Whether calls of RCCL are recorded.
#[inline]
fn records_rccl() -> bool {
    RCCL.load(Ordering::Relaxed) && process::is_active()
}

/// The wrapped function of this name, if its calls are recorded.
pub fn find(name: &CStr) -> Option<&'static Wrapped> {
    let bytes = name.to_bytes();
    let all = if bytes.starts_with(b"roctx") && ROCTX.load(Ordering::Relaxed) {
        roctx::WRAPPED
    } else if bytes.starts_with(b"nccl") && RCCL.load(Ordering::Relaxed) {
        rccl::WRAPPED
    } else {
        return None;
    };
    all.iter().find(|wrapped| wrapped.name() == name).copied()
}

/// Whether a function does its part without any library: marks do no harm, communication cannot be made up.
pub fn is_always_there(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"roctx")
}
