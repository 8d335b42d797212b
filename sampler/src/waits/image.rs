//! The memory and modules of a process as seen from ours, and the walk of a blocked thread's stack
//! in it.
//!
//! Memory is copied in large pieces. What lies in a module (code and unwind tables) is kept until
//! the modules change; everything else is fresh for each walk.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::uio::{RemoteIoVec, pread, process_vm_readv};
use nix::unistd::Pid;
use rsys_unwind::{
    CfiEngine, End, Engine, FrameBuffer, Memory, ModuleTables, Modules, Registers, RuleCache,
    RuleSlot,
};

use super::debug_frames::{self, DebugFrames};
use super::maps::{self, Module};
use super::record::{Completeness, WaitModule};
use super::thread::Blocked;

/// What is copied at once of a module.
const PAGE_BYTES: u64 = 4096;
/// What is copied of a stack at first, and when that does not suffice.
const STACK_BYTES: u64 = 16 << 10;
const MORE_STACK_BYTES: u64 = 64 << 10;
/// What is copied of the stack of a thread that is stopped for the time of the copy: a few hundred microseconds at most.
const WHOLE_STACK_BYTES: u64 = 256 << 10;
/// Pieces of memory outside of modules in one walk, beyond which a stack is not believed.
const PIECES_MAX: usize = 64;
/// Pages of modules that are kept: 32 MiB.
const PAGES_MAX: usize = 8192;

/// The modules are looked up again after this time, if there is anything new to walk: libraries
/// come and go.
const REFRESH: Duration = Duration::from_secs(3);
/// And after this time when a walk met an address that is in none of them, or broke.
const REFRESH_ON_DOUBT: Duration = Duration::from_millis(100);
/// At first, and where they had changed; it doubles where they had not.
const REFRESH_ON_DOUBT_FIRST: Duration = Duration::from_millis(5);

/// Words of a stack that are searched for a frame which is addressed by the frame pointer: 128 KiB.
const SCANNED_WORDS: u32 = 16 << 10;
/// How the files of our agents are called.
const AGENT: &str = "librsys_agent";
/// Rules that are kept of a process.
const RULES: usize = 4096;

/// A piece of memory outside of modules.
#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: Vec<u8>,
}

/// The program that runs in a process.
#[derive(Debug)]
pub struct Image {
    pid: Pid,
    /// `/proc/PID/mem` belongs to the memory that it was opened for, whatever the process executes
    /// later.
    memory: File,
    modules: Vec<Module>,
    /// Which modules were recorded already.
    recorded: Vec<bool>,
    generation: u32,
    refreshed: Option<Instant>,
    /// For how long they are trusted where a stack says that they may be too old.
    doubted_after: Duration,
    rules: Box<[RuleSlot]>,
    pages: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
    pieces: RefCell<Vec<Piece>>,
    /// A walk met an address in no module.
    stray: Cell<bool>,
    debug_frames: DebugFrames,
}

/// A walked stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// Frame words, innermost first.
    pub words: Box<[u64]>,
    /// How the walk ended.
    pub completeness: Completeness,
    /// It is broken, and the modules were read so lately that it is too early to read them again: a library may have been half loaded.
    pub awaits_modules: bool,
}

impl Image {
    /// The program that process `pid` runs now.
    ///
    /// # Errors
    /// When the process is gone, or its memory is not for us.
    pub fn new(pid: u32) -> io::Result<Self> {
        Ok(Self {
            pid: Pid::from_raw(pid.cast_signed()),
            memory: File::open(format!("/proc/{pid}/mem"))?,
            modules: Vec::new(),
            recorded: Vec::new(),
            generation: 1,
            refreshed: None,
            doubted_after: REFRESH_ON_DOUBT_FIRST,
            rules: (0..RULES).map(|_| RuleSlot::new()).collect(),
            pages: RefCell::default(),
            pieces: RefCell::default(),
            stray: Cell::new(false),
            debug_frames: DebugFrames::default(),
        })
    }

    /// Whether the process still runs this program; `address` is one that was readable.
    #[must_use]
    pub fn is_current(&self, address: u64) -> bool {
        let offset = i64::try_from(address).unwrap_or(0);
        pread(self.memory.as_fd(), &mut [0], offset).is_ok_and(|count| count == 1)
    }

    /// Walks the stack of a blocked thread, at most `depth_max` frames of it.
    pub fn walk(&mut self, blocked: &Blocked, depth_max: usize) -> Walked {
        if self.is_older_than(REFRESH) {
            self.refresh();
        }
        let walked = self.walk_once(blocked, depth_max);
        let is_broken = walked.completeness == Completeness::Broken;
        let doubtful = self.stray.get() || is_broken;
        let is_due = self.is_older_than(self.doubted_after);
        if doubtful && is_due {
            if self.refresh() {
                self.doubted_after = REFRESH_ON_DOUBT_FIRST;
                return self.walk_once(blocked, depth_max);
            }
            self.doubted_after = (2 * self.doubted_after).min(REFRESH_ON_DOUBT);
        }
        Walked {
            // A search meets addresses that are in no module again and again, where all code uses frame pointers, and ends well.
            awaits_modules: is_broken && !is_due,
            ..walked
        }
    }

    /// Walks the stack of a stopped thread from all its registers, at most `depth_max` frames of it.
    pub fn walk_from(&mut self, registers: &Registers, depth_max: usize) -> Walked {
        if self.is_older_than(REFRESH_ON_DOUBT) {
            self.refresh();
        }
        self.walk_registers(registers, depth_max)
    }

    /// Copies what is likely to be all of a stopped thread's stack, for [`Image::walk_copied`].
    pub fn copy_stack(&mut self, registers: &Registers) {
        self.pieces.borrow_mut().clear();
        self.stray.set(false);
        self.fetch(registers.sp() & !7, WHOLE_STACK_BYTES);
    }

    /// Walks the stack that was copied last, with the modules that are known. The thread may run again meanwhile.
    #[must_use]
    pub fn walk_copied(&self, registers: &Registers, depth_max: usize) -> Walked {
        self.walk_pieces(registers, depth_max)
    }

    /// The module with code at an address.
    #[must_use]
    pub fn module_at(&self, address: u64) -> Option<&Module> {
        Some(&self.modules[self.index_of(address)?])
    }

    /// All modules, as they are now.
    pub fn all_modules(&mut self) -> &[Module] {
        self.refresh();
        &self.modules
    }

    /// The eight bytes at an address.
    #[must_use]
    pub fn word_of(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        (self.read(address, &mut word) == word.len()).then(|| u64::from_le_bytes(word))
    }

    fn walk_once(&self, blocked: &Blocked, depth_max: usize) -> Walked {
        let arguments = blocked.call.as_ref().map(|call| call.arguments);
        let registers = Registers::of_blocked(blocked.pc, blocked.sp, arguments);
        self.walk_registers(&registers, depth_max)
    }

    fn walk_registers(&self, registers: &Registers, depth_max: usize) -> Walked {
        self.pieces.borrow_mut().clear();
        self.stray.set(false);
        self.fetch(registers.sp() & !7, STACK_BYTES);
        self.walk_pieces(registers, depth_max)
    }

    fn walk_pieces(&self, registers: &Registers, depth_max: usize) -> Walked {
        let mut words = vec![0; depth_max];
        let mut frames = FrameBuffer::new(&mut words);
        let engine = RuleCache::new(&self.rules).map_or(CfiEngine::without_cache(), CfiEngine::new);
        let end = engine
            .scanning(SCANNED_WORDS)
            .walk(registers, self, self, &mut frames);
        Walked {
            words: frames.into_words().into(),
            completeness: match end {
                End::Root => Completeness::Complete,
                End::Truncated => Completeness::Truncated,
                End::Broken(_) => Completeness::Broken,
            },
            awaits_modules: false,
        }
    }

    /// The modules that the words lead into and that were not handed out before.
    pub fn new_modules(&mut self, words: &[u64], time_ns: u64, out: &mut Vec<WaitModule>) {
        for word in words {
            let address = word & !rsys_unwind::FLAGS;
            let Some(index) = self.index_of(address.saturating_sub(1)) else {
                continue;
            };
            if std::mem::replace(&mut self.recorded[index], true) {
                continue;
            }
            let module = &self.modules[index];
            out.push(WaitModule {
                time_ns,
                start: module.range.start,
                end: module.range.end,
                bias: module.bias,
                build_id: module.build_id.clone(),
                path: module.path.clone(),
            });
        }
    }

    /// Start and bias of the module that a frame word leads into.
    #[must_use]
    pub fn module_of(&self, word: u64) -> Option<(u64, u64)> {
        let address = word & !rsys_unwind::FLAGS;
        let module = &self.modules[self.index_of(address.saturating_sub(1))?];
        Some((module.range.start, module.bias))
    }

    /// Whether a frame word leads into our agent.
    #[must_use]
    pub fn is_agent(&self, word: u64) -> bool {
        let address = word & !rsys_unwind::FLAGS;
        let index = self.index_of(address.saturating_sub(1));
        let path = index.and_then(|index| Path::new(&self.modules[index].path).file_name());
        path.and_then(OsStr::to_str)
            .is_some_and(|name| name.starts_with(AGENT))
    }

    /// Another number whenever the modules have changed.
    #[must_use]
    pub fn modules_generation(&self) -> u32 {
        self.generation
    }

    /// Copies memory of the process; says how many bytes there are.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let remote = [RemoteIoVec {
            base: address as usize,
            len: buffer.len(),
        }];
        process_vm_readv(self.pid, &mut [IoSliceMut::new(buffer)], &remote).unwrap_or(0)
    }

    fn is_older_than(&self, age: Duration) -> bool {
        self.refreshed
            .is_none_or(|refreshed| refreshed.elapsed() >= age)
    }

    /// Whether the modules were read since a time.
    pub fn is_newer_than(&self, time: Instant) -> bool {
        self.refreshed.is_some_and(|refreshed| refreshed > time)
    }

    /// Reads the modules anew; whether they changed.
    fn refresh(&mut self) -> bool {
        self.refreshed = Some(Instant::now());
        let Ok(maps) = std::fs::read(format!("/proc/{}/maps", self.pid)) else {
            return false;
        };
        let maps = String::from_utf8_lossy(&maps);
        let modules = maps::modules(&maps, |address, buffer| self.read(address, buffer));
        if modules == self.modules {
            return false;
        }
        let recorded = |module: &Module| {
            let before = self.modules.iter().position(|other| other == module);
            before.is_some_and(|index| self.recorded[index])
        };
        self.recorded = modules.iter().map(recorded).collect();
        self.modules = modules;
        self.generation = self.generation.wrapping_add(1);
        self.pages.borrow_mut().clear();
        self.debug_frames = DebugFrames::default();
        true
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        let end = self
            .modules
            .partition_point(|module| module.range.start <= address);
        let index = end.checked_sub(1)?;
        self.modules[index]
            .range
            .contains(&address)
            .then_some(index)
    }

    /// Copies a piece of memory, as far as there is any.
    fn fetch(&self, start: u64, bytes: u64) {
        let mut pieces = self.pieces.borrow_mut();
        if pieces.len() >= PIECES_MAX {
            return;
        }
        let mut copy = vec![0; bytes as usize];
        let length = self.read(start, &mut copy);
        copy.truncate(length & !7);
        pieces.push(Piece { start, bytes: copy });
    }

    /// The aligned word at an address.
    fn word(&self, address: u64) -> Option<u64> {
        if debug_frames::is_within(address) {
            return self.debug_frames.word(address);
        }
        if let Some(word) = self.word_in_pieces(address) {
            return word;
        }
        if self.index_of(address).is_some() {
            return self.word_in_module(address);
        }
        let follows = self
            .pieces
            .borrow()
            .iter()
            .any(|piece| piece.start + piece.bytes.len() as u64 == address);
        if follows {
            self.fetch(address, MORE_STACK_BYTES);
        } else {
            self.fetch(address & !(PAGE_BYTES - 1), PAGE_BYTES);
        }
        self.word_in_pieces(address)?
    }

    /// The word, or that it cannot be read, if one of the pieces holds it.
    fn word_in_pieces(&self, address: u64) -> Option<Option<u64>> {
        self.pieces.borrow().iter().find_map(|piece| {
            let offset = usize::try_from(address.checked_sub(piece.start)?).ok()?;
            if piece.bytes.is_empty() && offset < PAGE_BYTES as usize {
                return Some(None);
            }
            word_at(&piece.bytes, offset).map(Some)
        })
    }

    fn word_in_module(&self, address: u64) -> Option<u64> {
        let start = address & !(PAGE_BYTES - 1);
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= PAGES_MAX {
            pages.clear();
        }
        let page = pages.entry(start).or_insert_with(|| {
            let mut page = vec![0; PAGE_BYTES as usize];
            (self.read(start, &mut page) == page.len()).then(|| page.into())
        });
        word_at(page.as_deref()?, (address - start) as usize)
    }
}

fn word_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let word = bytes.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

impl Memory for Image {
    fn read_u64(&self, address: u64) -> Option<u64> {
        let first = self.word(address & !7)?;
        let shift = (address & 7) * 8;
        if shift == 0 {
            return Some(first);
        }
        let second = self.word((address & !7).checked_add(8)?)?;
        Some(first >> shift | second << (64 - shift))
    }

    fn read_u32(&self, address: u64) -> Option<u32> {
        if address & 7 > 4 {
            return Some(self.read_u64(address)? as u32);
        }
        Some((self.word(address & !7)? >> ((address & 7) * 8)) as u32)
    }
}

impl Modules for Image {
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        match self.index_of(pc) {
            Some(index) => Some(self.modules[index].tables()),
            None => {
                self.stray.set(true);
                None
            }
        }
    }

    fn generation(&self) -> u32 {
        self.generation
    }

    fn more_tables(&self, pc: u64) -> u64 {
        let module = self.index_of(pc).map(|index| &self.modules[index]);
        module.map_or(0, |module| self.debug_frames.table_of(self.pid, module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::thread::{State, ThreadFiles};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_reads_is_walked_to_its_start() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat runs");
        let tasks = File::open(format!("/proc/{}/task", child.id())).unwrap();
        let files = ThreadFiles::new(tasks.as_fd(), child.id(), true).unwrap();
        let blocked = loop {
            match files.state(tasks.as_fd()).unwrap() {
                State::Blocked(blocked)
                    if blocked
                        .call
                        .is_some_and(|call| call.number == libc::SYS_read) =>
                {
                    break blocked;
                }
                _ => std::thread::yield_now(),
            }
        };
        let mut image = Image::new(child.id()).unwrap();
        let walked = image.walk(&blocked, 64);
        assert_eq!(walked.completeness, Completeness::Complete, "{walked:x?}");
        assert!(walked.words.len() >= 4, "{walked:x?}");
        let mut modules = Vec::new();
        image.new_modules(&walked.words, 7, &mut modules);
        let is_libc = |module: &WaitModule| module.path.contains("libc.so");
        assert!(modules.iter().any(is_libc), "{modules:?}");
        let recorded = modules.len();
        image.new_modules(&walked.words, 8, &mut modules);
        assert_eq!(modules.len(), recorded, "each module is recorded once");
        assert_eq!(
            image.walk(&blocked, 2).completeness,
            Completeness::Truncated
        );

        assert!(image.is_current(blocked.sp));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!image.is_current(blocked.sp));
        let nothing = image.walk(&blocked, 64);
        assert_eq!(nothing.completeness, Completeness::Broken, "{nothing:x?}");
    }
}
