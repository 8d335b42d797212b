//! Reports to the sampler about programs that run without the agent.

use std::ffi::{CStr, c_char};

use rsys_wire::handshake::{Hello, HelloKind, PATH_BYTES};

use crate::channel::announce;
use crate::lifecycle::exec::judge::{Verdict, session_in};
use crate::sys;
use crate::target::environment::pointers;

/// Sends a verdict on the program of a process, to the session that its environment names, else to that of this process.
#[inline(never)]
pub fn send(verdict: &Verdict, environment: *const *const c_char, pid: u32) {
    let named = pointers(environment).find_map(|entry| session_in(entry?));
    let session = named.map_or_else(announce::session_name, CStr::to_bytes);
    let hello = Hello {
        pid,
        ..announce::hello(HelloKind::LeftOut, verdict.obstacle as u32)
    };
    let mut datagram = [0; Hello::BYTES + PATH_BYTES];
    let parts = [&hello.to_bytes()[..], verdict.path()];
    let mut length = 0;
    for (to, from) in datagram.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
        length += 1;
    }
    // A sampler that is gone is no concern of the program.
    if sys::send(session, datagram.get(..length).unwrap_or(&[]), None).is_err() {}
}
