//! What the sampler puts into the memory of a process that runs already, for the agent that it brings in.
//!
//! A thread of the process's own loads the agent and calls [`FUNCTION`] with the address of a [`Request`]. That function does not return before
//! the sampler has left.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::VERSION;
use crate::handshake::MAGIC;

/// The function of the agent that is called, as `void *(void *request)`.
pub const FUNCTION: &str = "rsys_agent_attach";

/// The name of the thread that serves an attached sampler.
pub const THREAD_NAME: &str = "rsys-attach";

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Nothing yet.
    Pending = 0,
    /// The thread was made; the library is being loaded.
    Loading = 1,
    /// The process records.
    Recording = 2,
    /// Another sampler has this process, or is about to leave it.
    Busy = 3,
    /// No thread could be made; [`Request::error`] says why, as an error number.
    NoThread = 4,
    /// The library could not be loaded.
    NotLoaded = 5,
    /// The library has no such function.
    NoFunction = 6,
    /// The agent cannot record here; [`Request::error`] says why, as an error number.
    Refused = 7,
    /// The agent is of another version.
    Version = 8,
}

impl Status {
    /// The status with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        const ALL: [Status; 9] = [
            Status::Pending,
            Status::Loading,
            Status::Recording,
            Status::Busy,
            Status::NoThread,
            Status::NotLoaded,
            Status::NoFunction,
            Status::Refused,
            Status::Version,
        ];
        ALL.get(number as usize).copied()
    }
}

/// The request. Texts end in NUL.
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    magic: u64,
    version: u32,
    /// [`Status`] as a number. Written by the process.
    pub status: AtomicU32,
    /// An error number, where the status has one.
    pub error: AtomicU32,
    /// The kernel's id of the thread that serves us, as the process sees it.
    pub tid: AtomicU32,
    /// Not 0 once no thread executes in the memory any more that was mapped for the request: the agent unmaps it.
    pub is_free: AtomicU32,
    padding: u32,
    /// That memory: start and bytes.
    pub memory: [u64; 2],
    /// The name of the sampler's socket.
    pub session: [u8; 104],
    /// Path of the agent as the process sees it.
    pub library: [u8; 4096],
    /// [`FUNCTION`].
    pub function: [u8; 32],
    /// [`crate::handshake::AgentSettings`] as text.
    pub settings: [u8; 4096],
}

/// A text that is too long for its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Request {
    /// A request that is in `memory`.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn new(
        memory: [u64; 2],
        session: &str,
        library: &[u8],
        settings: &str,
    ) -> Result<Box<Self>, TooLong> {
        Ok(Box::new(Self {
            magic: MAGIC,
            version: VERSION,
            status: AtomicU32::new(Status::Pending as u32),
            error: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            is_free: AtomicU32::new(0),
            padding: 0,
            memory,
            session: text(session.as_bytes())?,
            library: text(library)?,
            function: text(FUNCTION.as_bytes())?,
            settings: text(settings.as_bytes())?,
        }))
    }

    /// The request's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a `repr(C)` structure without gaps, whose atomics do not change here.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// Whether an agent of this version may read it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.magic == MAGIC && self.version == VERSION
    }

    /// Says what became of it.
    pub fn answer(&self, status: Status, error: u32) {
        self.error.store(error, Ordering::Relaxed);
        self.status.store(status as u32, Ordering::Release);
    }
}

fn text<const N: usize>(text: &[u8]) -> Result<[u8; N], TooLong> {
    let mut place = [0; N];
    if text.len() >= N {
        return Err(TooLong);
    }
    place[..text.len()].copy_from_slice(text);
    Ok(place)
}

const _: () = assert!(std::mem::offset_of!(Request, memory) == 32);
const _: () = assert!(size_of::<Request>() == 32 + 16 + 104 + 4096 + 32 + 4096);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_its_texts_and_their_ends() {
        let request = Request::new([4096, 8192], "rsys-1", b"/a.so", "freq=100").unwrap();
        assert!(request.is_ours() && request.session.starts_with(b"rsys-1\0"));
        assert_eq!(request.bytes().len(), size_of::<Request>());
        let long = "x".repeat(104);
        assert!(Request::new([0, 0], &long, b"", "").is_err());
    }

    #[test]
    fn each_status_has_its_number() {
        for number in 0..9 {
            assert_eq!(Status::from_number(number).unwrap() as u32, number);
        }
        assert_eq!(Status::from_number(9), None);
    }
}
