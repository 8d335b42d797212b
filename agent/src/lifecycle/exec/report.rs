//! Reports to the sampler about programs that run without the agent.

use std::ffi::{CStr, c_char};

use rsys_wire::handshake::{Hello, HelloKind};
use rsys_wire::program::Obstacle;

use crate::channel::announce;
use crate::lifecycle::exec::judge::{Verdict, session_in};
use crate::target::environment::{executable, pointers};

/// Sends a verdict on the program of a process, to the session that its environment names, else to that of this process.
#[inline(never)]
pub fn send(verdict: &Verdict, environment: *const *const c_char, pid: u32) {
    let named = pointers(environment).find_map(|entry| session_in(entry?));
    let session = named.map_or_else(announce::session_name, CStr::to_bytes);
    send_to(session, verdict, pid);
}

/// Says that a process runs this very program without the agent.
#[inline(never)]
pub fn running(obstacle: Obstacle, pid: u32) {
    let verdict = Verdict::new(obstacle, executable(&mut [0; 1024]));
    send_to(announce::session_name(), &verdict, pid);
}

fn send_to(session: &[u8], verdict: &Verdict, pid: u32) {
    let hello = Hello {
        pid,
        ..announce::hello(HelloKind::LeftOut, verdict.obstacle as u32)
    };
    announce::announce_with(session, &hello, verdict.path());
}
