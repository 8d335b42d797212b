//! The ground truth: what the engine executed, one line of JSON for each packet.
//!
//! The lines are written into a mapped file, before the completion is told to the program. So whatever a program or a
//! profiler can have seen is in the file, however the process ends. The launcher puts the files together.

use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use crate::simulation::Simulation;
use crate::{clock::Clock, simulation, sys};

/// The file grows by this, and so much of it is mapped.
const WINDOW_BYTES: usize = 4 << 20;
/// More than the longest line: a kernel's name is cut at [`LONGEST_NAME`].
const LONGEST_LINE: usize = 16 << 10;
const LONGEST_NAME: usize = 12 << 10;

/// A kernel that ended.
#[derive(Debug)]
pub struct DispatchRecord<'a> {
    /// The GPU's index.
    pub gpu: usize,
    /// The queue's number.
    pub queue: u32,
    /// The packet's index in the queue.
    pub index: u64,
    /// The kernel's mangled name.
    pub kernel: &'a str,
    /// Work-items.
    pub grid: [u32; 3],
    /// Work-items of a group.
    pub workgroup: [u16; 3],
    /// Start and end.
    pub ticks: (u64, u64),
    /// Whether it had a completion signal.
    pub signal: bool,
    /// Whether that was stamped.
    pub profiled: bool,
}

/// A waiting packet that ended.
#[derive(Debug)]
pub struct BarrierRecord {
    /// The GPU's index.
    pub gpu: usize,
    /// The queue's number.
    pub queue: u32,
    /// The packet's index in the queue.
    pub index: u64,
    /// What it waited for.
    pub kind: &'static str,
    /// When it could start waiting, and when it was done.
    pub ticks: (u64, u64),
    /// Whether it had a completion signal.
    pub signal: bool,
}

/// A copy by a copy engine.
#[derive(Debug)]
pub struct CopyRecord {
    /// The GPU's index.
    pub gpu: usize,
    /// The queue's number.
    pub queue: u32,
    /// How many copies the queue made before.
    pub index: u64,
    /// Where it began to read.
    pub from: u64,
    /// Where it began to write.
    pub to: u64,
    /// How many.
    pub bytes: u64,
    /// Start and end.
    pub ticks: (u64, u64),
}

/// A performance counter that was read.
#[derive(Debug)]
pub struct CounterRecord {
    /// The GPU's index.
    pub gpu: usize,
    /// The block, and the event that was selected.
    pub block: &'static str,
    /// See `block`.
    pub event: u32,
    /// Of which die.
    pub die: u32,
    /// Of which engine and instance, as GRBM_GFX_INDEX has it.
    pub place: u32,
    /// Since it was started.
    pub value: u64,
    /// When.
    pub tick: u64,
}

/// Where the truth is written.
#[derive(Debug)]
pub struct Truth {
    clock: &'static Clock,
    pid: u32,
    file: Option<File>,
}

#[derive(Debug)]
struct File {
    fd: i32,
    window: *mut u8,
    window_offset: u64,
    used: usize,
}

impl Truth {
    /// Opens this process's file, if the truth is wanted.
    pub fn new(simulation: &'static Simulation) -> Self {
        let pid = std::process::id();
        let file = simulation.machine.truth.as_ref().and_then(|folder| {
            let path = folder.join(format!("{pid}.{}", crate::clock::boottime_ns()));
            let file = File::create(&CString::new(path.as_os_str().as_bytes()).ok()?);
            if file.is_none() {
                simulation::log(&format!("cannot write {}", path.display()));
            }
            file
        });
        Self {
            clock: &simulation.clock,
            pid,
            file,
        }
    }

    /// A kernel that ended.
    pub fn dispatch(&mut self, record: &DispatchRecord<'_>) {
        let DispatchRecord {
            gpu,
            queue,
            index,
            grid,
            workgroup,
            signal,
            profiled,
            ..
        } = record;
        let kernel = Escaped(record.kernel);
        let [x, y, z] = grid;
        let [wx, wy, wz] = workgroup;
        self.line(record.ticks, format_args!(
            r#""type":"dispatch","gpu":{gpu},"queue":{queue},"index":{index},"kernel":"{kernel}","grid":[{x},{y},{z}],"workgroup":[{wx},{wy},{wz}],"signal":{signal},"profiled":{profiled}"#
        ));
    }

    /// A waiting packet that ended.
    pub fn barrier(&mut self, record: &BarrierRecord) {
        let BarrierRecord {
            gpu,
            queue,
            index,
            kind,
            signal,
            ..
        } = record;
        self.line(record.ticks, format_args!(
            r#""type":"barrier","gpu":{gpu},"queue":{queue},"index":{index},"kind":"{kind}","signal":{signal}"#
        ));
    }

    /// A copy that ended.
    pub fn copy(&mut self, record: &CopyRecord) {
        let CopyRecord {
            gpu,
            queue,
            index,
            from,
            to,
            bytes,
            ..
        } = record;
        self.line(record.ticks, format_args!(
            r#""type":"copy","gpu":{gpu},"queue":{queue},"index":{index},"from":{from},"to":{to},"bytes":{bytes}"#
        ));
    }

    /// What a performance counter was read as.
    pub fn counter(&mut self, record: &CounterRecord) {
        let CounterRecord {
            gpu,
            block,
            event,
            die,
            place,
            value,
            tick,
        } = record;
        self.line((*tick, *tick), format_args!(
            r#""type":"counter","gpu":{gpu},"block":"{block}","event":{event},"die":{die},"place":{place},"value":{value}"#
        ));
    }

    fn line(&mut self, (start, end): (u64, u64), what: std::fmt::Arguments<'_>) {
        let Some(file) = &mut self.file else {
            return;
        };
        let (start_ns, end_ns) = (self.clock.nanoseconds(start), self.clock.nanoseconds(end));
        let pid = self.pid;
        file.append(format_args!(
            "{{{what},\"pid\":{pid},\"start_ns\":{start_ns},\"end_ns\":{end_ns},\"start_tick\":{start},\"end_tick\":{end}}}\n"
        ));
    }
}

impl File {
    fn create(path: &CString) -> Option<Self> {
        // SAFETY: the path is NUL-terminated.
        let fd = unsafe {
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
            libc::syscall(
                libc::SYS_openat,
                libc::AT_FDCWD,
                path.as_ptr(),
                flags,
                0o644,
            )
        };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        let mut file = Self {
            fd,
            window: std::ptr::null_mut(),
            window_offset: 0,
            used: 0,
        };
        file.map_window().then_some(file)
    }

    fn map_window(&mut self) -> bool {
        let end = self.window_offset + WINDOW_BYTES as u64;
        // SAFETY: a file of our own.
        if unsafe { libc::ftruncate(self.fd, end.cast_signed()) } != 0 {
            return false;
        }
        self.window =
            sys::map(self.fd, self.window_offset, WINDOW_BYTES).unwrap_or(std::ptr::null_mut());
        !self.window.is_null()
    }

    fn append(&mut self, line: std::fmt::Arguments<'_>) {
        if self.window.is_null() {
            return;
        }
        if self.used + LONGEST_LINE > WINDOW_BYTES {
            // The next window begins at the last page that has been begun.
            const PAGE: usize = 4096;
            let whole = self.used / PAGE * PAGE;
            // SAFETY: only this thread knew the window.
            unsafe { sys::unmap(self.window, WINDOW_BYTES) };
            self.window_offset += whole as u64;
            self.used -= whole;
            if !self.map_window() {
                simulation::log("the ground truth ends here: no more space");
                return;
            }
        }
        // SAFETY: the window is mapped, and this thread's alone.
        let space = unsafe {
            std::slice::from_raw_parts_mut(self.window.add(self.used), WINDOW_BYTES - self.used)
        };
        let mut cursor = std::io::Cursor::new(space);
        if cursor.write_fmt(line).is_ok() {
            self.used += cursor.position() as usize;
        }
    }
}

/// A name as a JSON string holds it. Names of symbols are bytes that need no escape, but for broken ones.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let special = |c: char| c.is_control() || c == '"' || c == '\\';
        let short = &self.0[..self.0.floor_char_boundary(LONGEST_NAME)];
        if !short.contains(special) {
            return f.write_str(short);
        }
        for c in short.chars() {
            std::fmt::Write::write_char(f, if special(c) { '?' } else { c })?;
        }
        Ok(())
    }
}
