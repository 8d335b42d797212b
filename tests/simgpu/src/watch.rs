//! What the driver tells whoever watches a GPU: lines of text, as in the kernel's `kfd_ioctl.h` (`KFD_EVENT_FMT_…`).
//!
//! All processes append what happens to one file of the machine. Who watches reads from one end of a pair of sockets; a thread of his process
//! fills the other one with what was asked for since. He is taken for the superuser.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock;
use crate::settings::{DriverEvent, DriverEventKind};
use crate::simulation::{self, Simulation};

/// The file, in the machine's folder.
const FILE: &str = "driver-events";
/// How often it is looked at.
const PERIOD: Duration = Duration::from_millis(2);
/// Bytes of a page, in which the driver counts.
const PAGE_BYTES: u64 = 4096;

/// Kinds of events.
mod kind {
    pub const MEMORY_FAULT: u32 = 1;
    pub const THROTTLE: u32 = 2;
    pub const RESET_BEGINS: u32 = 3;
    pub const RESET_ENDS: u32 = 4;
    pub const MIGRATION_BEGINS: u32 = 5;
    pub const MIGRATION_ENDS: u32 = 6;
    pub const PAGE_FAULT_BEGINS: u32 = 7;
    pub const PAGE_FAULT_ENDS: u32 = 8;
    pub const EVICTION: u32 = 9;
    pub const RESTORE: u32 = 10;
}

fn path() -> Option<PathBuf> {
    let root = simulation::root()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(root.to_bytes())).join(FILE))
}

/// Tells that something happened on a GPU, by its identifier.
fn tell(gpu_id: u32, kind: u32, text: &str) {
    let Some(path) = path() else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        // One call: lines of several processes do not mix. Nobody could be told of a failure.
        drop(file.write_all(format!("{gpu_id} {kind} {text}\n").as_bytes()));
    }
}

/// A kernel of this process touched memory that is not there.
pub fn memory_fault(gpu_id: u32) {
    tell(
        gpu_id,
        kind::MEMORY_FAULT,
        &format!("{:x}:simulated", std::process::id()),
    );
}

/// The GPU is gone.
pub fn reset(gpu_id: u32) {
    tell(gpu_id, kind::RESET_BEGINS, "1 hang");
}

/// What is configured to happen when a GPU has executed so many dispatches happens now, to this process.
pub fn at_dispatch(simulation: &Simulation, gpu: usize, dispatches: u64) {
    let events = simulation.machine.events.iter();
    for event in events.filter(|event| event.gpu == gpu && event.after_dispatches == dispatches) {
        happen(simulation.machine.gpus[gpu].gpu_id, event);
    }
}

fn happen(gpu_id: u32, event: &DriverEvent) {
    let pid = std::process::id();
    let end_ns = clock::boottime_ns();
    let begin_ns = end_ns.saturating_sub(event.duration_ns);
    let pages = event.bytes / PAGE_BYTES;
    let both = |begins: (u32, String), ends: (u32, String)| {
        tell(gpu_id, begins.0, &format!("{begin_ns} -{pid} {}", begins.1));
        tell(gpu_id, ends.0, &format!("{end_ns} -{pid} {}", ends.1));
    };
    match event.kind {
        DriverEventKind::PageFault => both(
            (kind::PAGE_FAULT_BEGINS, format!("@7f00({gpu_id:x}) W")),
            (kind::PAGE_FAULT_ENDS, format!("@7f00({gpu_id:x}) M")),
        ),
        DriverEventKind::MigrationIn => both(
            (
                kind::MIGRATION_BEGINS,
                format!("@7f00({pages:x}) 0->{gpu_id:x} 0:0 1"),
            ),
            (
                kind::MIGRATION_ENDS,
                format!("@7f00({pages:x}) 0->{gpu_id:x} 1 0"),
            ),
        ),
        DriverEventKind::MigrationOut => both(
            (
                kind::MIGRATION_BEGINS,
                format!("@7f00({pages:x}) {gpu_id:x}->0 0:0 2"),
            ),
            (
                kind::MIGRATION_ENDS,
                format!("@7f00({pages:x}) {gpu_id:x}->0 2 0"),
            ),
        ),
        DriverEventKind::Eviction => both(
            (kind::EVICTION, format!("{gpu_id:x} 2")),
            (kind::RESTORE, format!("{gpu_id:x}  ")),
        ),
        DriverEventKind::Throttle => tell(gpu_id, kind::THROTTLE, "100:1"),
        DriverEventKind::Reset => {
            tell(gpu_id, kind::RESET_BEGINS, "1 hang");
            tell(gpu_id, kind::RESET_ENDS, "1");
        }
    }
}

/// A descriptor for whoever watches a GPU: a mask of kinds is written into it, and lines are read from it.
///
/// # Errors
/// What the system says.
pub fn open(gpu_id: u32) -> io::Result<i32> {
    let path = path().ok_or(io::ErrorKind::NotFound)?;
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    // What happened before is not told.
    file.seek(SeekFrom::End(0))?;
    let (ours, theirs) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    ours.set_nonblocking(true)?;
    std::thread::Builder::new()
        .name("simgpu-events".to_owned())
        .spawn(move || serve(&ours, &mut file, gpu_id))?;
    Ok(theirs.into_raw_fd())
}

/// Until the other end is closed.
fn serve(mut client: &UnixStream, file: &mut File, gpu_id: u32) {
    let mut wanted = 0_u64;
    let mut rest = String::new();
    loop {
        let mut mask = [0; 8];
        match client.read(&mut mask) {
            Ok(8) => wanted = u64::from_ne_bytes(mask),
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        if file.read_to_string(&mut rest).is_err() {
            return;
        }
        while let Some((line, more)) = rest.split_once('\n') {
            if let Some(told) = line_for(line, gpu_id, wanted) {
                // As with the driver, what finds no room is lost.
                drop(client.write_all(told.as_bytes()));
            }
            rest = more.to_owned();
        }
        std::thread::sleep(PERIOD);
    }
}

/// What is told of a line of the file.
fn line_for(line: &str, gpu_id: u32, wanted: u64) -> Option<String> {
    let (gpu, line) = line.split_once(' ')?;
    let (kind, text) = line.split_once(' ')?;
    let kind: u32 = kind.parse().ok()?;
    let is_asked_for = gpu.parse() == Ok(gpu_id) && wanted >> (kind - 1) & 1 != 0;
    is_asked_for.then(|| format!("{kind:x} {text}\n"))
}
