//! Datagrams to the sampler: a process, a segment, a failure.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::VERSION;
use rsys_wire::handshake::{Hello, HelloKind, MAGIC, PATH_BYTES};
use rsys_wire::layout::Geometry;

use crate::channel::counters;
use crate::state::{self, WriteOnce};
use crate::sys;

// As the settings.
#[unsafe(link_section = ".data")]
static SESSION: WriteOnce<SessionName> = WriteOnce::new();

/// The name of the sampler's socket.
#[derive(Debug, Clone, Copy)]
pub struct SessionName {
    bytes: [u8; 100],
    length: usize,
}

impl SessionName {
    /// A copy of `name`; `None` when it is longer than the name of a socket can be.
    pub fn new(name: &[u8]) -> Option<SessionName> {
        let mut bytes = [0; 100];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(SessionName {
            bytes,
            length: name.len(),
        })
    }
}

/// Writes the name of the sampler's socket.
///
/// # Safety
/// As [`WriteOnce::set`].
pub unsafe fn set_session_name(name: SessionName) {
    // SAFETY: as the caller says.
    unsafe { SESSION.set(name) };
}

/// Sends a segment to the sampler.
///
/// # Errors
/// The kernel's error number.
pub fn announce(kind: HelloKind, segment: u32, geometry: Geometry, fd: c_int) -> Result<(), i32> {
    let hello = Hello {
        ring_count: geometry.ring_count(),
        ring_words: geometry.ring_words(),
        segment_bytes: geometry.bytes() as u64,
        ..hello(kind, segment)
    };
    sys::send(session_name(), &hello.to_bytes(), Some(fd))
}

/// Reports that this process cannot be sampled, with an error number that says why. If that fails too, the sampler is gone.
pub fn announce_failure(error: i32) {
    let hello = hello(HelloKind::Failed, error.unsigned_abs());
    if sys::send(session_name(), &hello.to_bytes(), None).is_err() {}
}

/// Reports a process that ended before its deferred start, after this many periods of CPU time.
pub fn announce_short(periods: u64) {
    let path = sys::execution_path().map_or(&[][..], CStr::to_bytes);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    announce_with(
        session_name(),
        &hello(HelloKind::Short, u32::try_from(periods).unwrap_or(u32::MAX)),
        name,
    );
}

/// Sends what is said of a program, with a path or name behind it.
pub fn announce_with(session: &[u8], hello: &Hello, text: &[u8]) {
    let mut datagram = [0; Hello::BYTES + PATH_BYTES];
    let parts = [&hello.to_bytes()[..], text];
    let mut length = 0;
    for (to, from) in datagram.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
        length += 1;
    }
    // A sampler that is gone is no concern of the program.
    if sys::send(session, datagram.get(..length).unwrap_or(&[]), None).is_err() {}
}

/// Whether the sampler ended before it took this process in, so that nothing reports its end. Checked once a second.
///
/// # Signal safety
/// Atomic loads; now and then system calls.
#[inline]
pub fn is_unheard(now_ns: u64) -> bool {
    !counters::has_sampler() && is_refused(now_ns)
}

#[cold]
#[inline(never)]
fn is_refused(now_ns: u64) -> bool {
    const INTERVAL_NS: u64 = 1_000_000_000;
    static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
    let looked_ns = LOOKED_NS.load(Ordering::Relaxed);
    let is_due = now_ns.wrapping_sub(looked_ns) > INTERVAL_NS;
    if is_due {
        LOOKED_NS.store(now_ns, Ordering::Relaxed);
    }
    // A sampler that has not come to it has a second.
    is_due && looked_ns != 0 && sys::is_closed(session_name())
}

/// A datagram without memory of ours in it. `segment` as its kind says.
pub fn hello(kind: HelloKind, segment: u32) -> Hello {
    Hello {
        magic: MAGIC,
        version: VERSION,
        kind: kind as u32,
        instance: state::instance(),
        pid: sys::getpid(),
        segment,
        ring_count: 0,
        ring_words: 0,
        segment_bytes: 0,
    }
}

/// The name of the sampler's socket. Only once the agent has started.
pub fn session_name() -> &'static [u8] {
    // SAFETY: the start of the process wrote it before the first datagram.
    let session = unsafe { SESSION.get() };
    session.bytes.get(..session.length).unwrap_or(&[])
}
