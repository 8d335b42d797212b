//! The thread that waits for the driver's events.
//!
//! The driver keeps some twenty of them for a reader, and drops what comes then: whoever reads ten times a second would lose most.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::message::{self, Message};
use crate::os;

/// At most this many events wait to be taken; beyond it, none is added.
const WAITING_MAX: usize = 1 << 16;

/// An event that was heard.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    /// The place of its GPU in the list that was given.
    pub gpu: usize,
    /// When it was heard (CLOCK_BOOTTIME).
    pub time_ns: u64,
    /// What was said.
    pub message: Message,
}

impl Heard {
    /// When it happened (CLOCK_BOOTTIME), as far as that is known.
    pub fn happened_ns(&self) -> u64 {
        match self.message {
            Message::Gpu(_) => self.time_ns,
            Message::Process { time_ns, .. } => time_ns,
        }
    }
}

/// Hears events until it is dropped.
#[derive(Debug)]
pub struct Client {
    heard: Arc<Mutex<Vec<Heard>>>,
    /// Closed to end the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// What is heard of one GPU.
struct Source {
    file: std::fs::File,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Client {
    /// Hears the events of these GPUs, which are given by the driver's identifiers.
    ///
    /// # Errors
    /// Why there is nothing to be heard, in words.
    pub fn start(device: &Path, gpus: &[u64]) -> Result<Self, String> {
        let driver = OpenOptions::new()
            .read(true)
            .write(true)
            .open(device)
            .map_err(|error| format!("{}: {error}", device.display()))?;
        let mut sources = Vec::new();
        for gpu in gpus {
            let opened = u32::try_from(*gpu)
                .map_err(|_| Errno::EINVAL)
                .and_then(|gpu| os::kfd_events(driver.as_fd(), gpu));
            let fd = opened.map_err(|error| format!("the driver has none: {}", error.desc()))?;
            let mut file = std::fs::File::from(fd);
            file.write_all(&message::WANTED.to_ne_bytes())
                .map_err(|error| format!("the driver does not take what is wanted: {error}"))?;
            sources.push(Source {
                file,
                rest: Vec::new(),
            });
        }
        let (ours, theirs) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
            .map_err(|error| error.desc().to_owned())?;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let filled = Arc::clone(&heard);
        let thread = std::thread::Builder::new()
            .name("rsys-gpu-events".to_owned())
            .spawn(move || hear(&mut sources, &ours, &filled))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            heard,
            stop: Some(theirs),
            thread: Some(thread),
        })
    }

    /// What was heard since the last call.
    pub fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut lock(&self.heard))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened.
            thread.join().ok();
        }
    }
}

fn lock(heard: &Mutex<Vec<Heard>>) -> MutexGuard<'_, Vec<Heard>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hear(sources: &mut [Source], stop: &OwnedFd, heard: &Mutex<Vec<Heard>>) {
    loop {
        let ready: Vec<bool> = {
            let fds = sources.iter().map(|source| source.file.as_fd());
            let mut fds: Vec<PollFd<'_>> = std::iter::once(stop.as_fd())
                .chain(fds)
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(_) => return,
            }
            fds.iter()
                .map(|fd| fd.revents().is_some_and(|events| !events.is_empty()))
                .collect()
        };
        if ready.first() == Some(&true) {
            return;
        }
        let time_ns = os::boot_time_ns();
        for (gpu, source) in sources.iter_mut().enumerate() {
            if ready.get(gpu + 1) == Some(&true) && !source.read(gpu, time_ns, heard) {
                return;
            }
        }
    }
}

impl Source {
    /// Reads what there is. False when there will be nothing any more.
    fn read(&mut self, gpu: usize, time_ns: u64, heard: &Mutex<Vec<Heard>>) -> bool {
        let mut buffer = [0; 4096];
        let length = match self.file.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => {
                return matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                );
            }
        };
        self.rest.extend_from_slice(&buffer[..length]);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return true;
        };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        let lines = String::from_utf8_lossy(&lines);
        let messages = lines.lines().filter_map(message::parse);
        let mut heard = lock(heard);
        let room = WAITING_MAX.saturating_sub(heard.len());
        heard.extend(messages.take(room).map(|message| Heard {
            gpu,
            time_ns,
            message,
        }));
        true
    }
}
