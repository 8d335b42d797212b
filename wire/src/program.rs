//! Which programs the agent can be loaded into, judged by the heads of their files.
//!
//! The sampler judges the command, the agent every program that is executed from there. Nothing here allocates: the agent
//! judges in children after vfork.

use std::fmt;

use crate::launchers::base_name;

/// File name of the agent.
pub const AGENT_FILE: &str = "librsys_agent.so";

/// File name of the agent that stands in front of MPI, OpenSHMEM, UCX, OpenMP, Kokkos and PyTorch as well.
pub const PARALLEL_AGENT_FILE: &str = "librsys_agent_parallel.so";

/// File name of the agent that stands in front of the C library's locks as well.
pub const LOCKS_AGENT_FILE: &str = "librsys_agent_locks.so";

/// Its files: each exports what the one in front of it does, and more.
pub const AGENT_FILES: [&str; 3] = [AGENT_FILE, PARALLEL_AGENT_FILE, LOCKS_AGENT_FILE];

/// Where the agent's files are, seen from the folder of the programs: beside them; where cargo puts them for tests and benchmarks; as they
/// are installed.
pub const AGENT_FOLDERS: [&str; 4] = ["", "..", "../lib", "../lib64"];

/// Whether a file of this name is the agent, in any form.
#[must_use]
#[inline]
pub fn is_agent_file(name: &[u8]) -> bool {
    AGENT_FILES.iter().any(|file| name == file.as_bytes())
}

/// Where a program is looked for when PATH is not set, as in the C library.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Interpreters of interpreters are followed so far; the kernel gives up sooner.
pub const INTERPRETERS_MAX: u32 = 4;

/// Memory that a process has room for where the agent is loaded: of data (`RLIMIT_DATA`), and in all (`RLIMIT_AS`). Below it the
/// loader would complain, or find no room for the program's own libraries.
pub const AGENT_DATA_BYTES: u64 = 20 << 20;
/// See [`AGENT_DATA_BYTES`].
pub const AGENT_MEMORY_BYTES: u64 = 28 << 20;

/// Bytes of a file that are read at once: the headers, and nearly always the interpreter's name.
const HEAD_BYTES: usize = 1024;
/// The kernel looks no further for an interpreter (`BINPRM_BUF_SIZE`).
const NAME_BYTES: usize = 256;

/// Why the agent is not in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Obstacle {
    /// Its C library is musl.
    Musl = 1,
    /// Its C library is uClibc or Android's.
    OtherLibrary = 2,
    /// It is linked statically.
    Static = 3,
    /// It is a 32-bit program.
    Bits32 = 4,
    /// It is for a processor of the other byte order.
    ByteOrder = 5,
    /// It is for another kind of processor.
    Machine = 6,
    /// It begins like a program, and does not go on like one.
    Damaged = 7,
    /// Its root folder does not hold the agent.
    Root = 8,
    /// It got an environment without the profiler's variables.
    Environment = 9,
    /// It got the profiler's variables, but another LD_PRELOAD.
    Preload = 10,
    /// It may not read the agent's file.
    Access = 11,
    /// Its arguments and variables leave no room for the profiler's variables.
    NoRoom = 12,
    /// It is a process that was made past the C library's `fork`.
    PastLibrary = 13,
    /// It may not have the memory that the agent needs.
    NoMemory = 14,
}

impl Obstacle {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Musl,
        Self::OtherLibrary,
        Self::Static,
        Self::Bits32,
        Self::ByteOrder,
        Self::Machine,
        Self::Damaged,
        Self::Root,
        Self::Environment,
        Self::Preload,
        Self::Access,
        Self::NoRoom,
        Self::PastLibrary,
        Self::NoMemory,
    ];

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|obstacle| *obstacle as u32 == number)
    }

    /// Whether a loader that is asked to load the agent would complain or fail. A program without a loader does not care, and
    /// those that it starts may load it.
    #[must_use]
    pub fn forbids_agent(self) -> bool {
        !matches!(self, Self::Static | Self::Environment | Self::Preload)
    }
}

/// Goes on after the program's name.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Musl => "uses the musl C library",
            Self::OtherLibrary => "uses a C library other than glibc",
            Self::Static => "is statically linked",
            Self::Bits32 => "is a 32-bit program",
            Self::ByteOrder => "is a program of another byte order",
            Self::Machine => "is a program for another machine",
            Self::Damaged => "is a damaged ELF file",
            Self::Root => "runs in a root folder of its own, without librsys_agent.so in it",
            Self::Environment => "was started with an emptied environment",
            Self::Preload => "was started with another LD_PRELOAD",
            Self::Access => "runs as a user or in a sandbox that may not read librsys_agent.so",
            Self::NoRoom => {
                "was started with so many arguments and variables that the profiler's found no room beside them (ulimit -s makes more)"
            }
            Self::NoMemory => {
                "may have too little memory for librsys_agent.so beside it (ulimit -d or -v)"
            }
            Self::PastLibrary => {
                "made a process past the C library's fork (by vfork or clone with the same memory, or by a raw fork), which worked by itself"
            }
        })
    }
}

/// What the head of a file says.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for a moment, and a box would allocate"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program that loads the agent.
    Fits,
    /// One that does not.
    Unfit(Obstacle),
    /// A script that this program interprets.
    Script(Interpreter),
    /// Something else: a shell takes it for a script.
    Other,
}

/// The path of an interpreter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interpreter {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Interpreter {
    fn new(path: &[u8]) -> Self {
        let mut bytes = [0; NAME_BYTES];
        let length = path.len().min(NAME_BYTES - 1);
        for (to, from) in bytes.iter_mut().zip(&path[..length]) {
            *to = *from;
        }
        Interpreter { bytes, length }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interpreter({})", String::from_utf8_lossy(self.path()))
    }
}

const OUR_MACHINE: u16 = 62;

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const PT_INTERP: u32 = 3;

/// Parts of the names of other C libraries' loaders.
const OTHER_LOADERS: [(&[u8], Obstacle); 3] = [
    (b"ld-musl", Obstacle::Musl),
    (b"uClibc", Obstacle::OtherLibrary),
    (b"/system/bin/linker", Obstacle::OtherLibrary),
];

/// Starts of the names of loaders. One that is run as a program looks as if it were linked statically.
const LOADERS: [(&[u8], Kind); 4] = [
    (b"ld-musl", Kind::Unfit(Obstacle::Musl)),
    (b"ld-linux", Kind::Fits),
    (b"ld-2.", Kind::Fits),
    (b"ld.so", Kind::Fits),
];

/// What the file at `path` is. `read(offset, buffer)` reads it and returns how many bytes there were; `None` if it is empty or cannot be read.
///
/// # Signal safety
/// Nothing but what `read` does.
pub fn kind_of(path: &[u8], mut read: impl FnMut(u64, &mut [u8]) -> usize) -> Option<Kind> {
    let mut head = [0; HEAD_BYTES];
    let length = read(0, &mut head);
    let head = head.get(..length).filter(|head| !head.is_empty())?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return Some(script_kind(line));
    }
    if !head.starts_with(b"\x7fELF") {
        return Some(Kind::Other);
    }
    let obstacle = if head.get(4) != Some(&CLASS_64) {
        Some(Obstacle::Bits32)
    } else if head.get(5) != Some(&LITTLE_ENDIAN) {
        Some(Obstacle::ByteOrder)
    } else {
        elf_obstacle(&mut File { head, read }).unwrap_or(Some(Obstacle::Damaged))
    };
    if obstacle == Some(Obstacle::Static) {
        let loader = LOADERS
            .into_iter()
            .find(|(start, _)| base_name(path).starts_with(start));
        if let Some((_, kind)) = loader {
            return Some(kind);
        }
    }
    Some(obstacle.map_or(Kind::Fits, Kind::Unfit))
}

fn script_kind(line: &[u8]) -> Kind {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.get(..line.len().min(NAME_BYTES)).unwrap_or_default();
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    words
        .find(|word| !word.is_empty())
        .map_or(Kind::Other, |path| Kind::Script(Interpreter::new(path)))
}

/// A file of which the head is known.
struct File<'a, R> {
    head: &'a [u8],
    read: R,
}

impl<R: FnMut(u64, &mut [u8]) -> usize> File<'_, R> {
    /// The bytes at `offset`, if there are as many.
    fn bytes<const N: usize>(&mut self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.fill(offset, &mut bytes) == N).then_some(bytes)
    }

    /// Fills `buffer` with what there is at `offset`; how much that is.
    fn fill(&mut self, offset: u64, buffer: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let known = start
            .checked_add(buffer.len())
            .and_then(|end| self.head.get(start..end));
        match known {
            Some(known) => {
                buffer.copy_from_slice(known);
                buffer.len()
            }
            None => (self.read)(offset, buffer).min(buffer.len()),
        }
    }

    fn u16(&mut self, offset: u64) -> Option<u16> {
        self.bytes(offset).map(u16::from_le_bytes)
    }

    fn u32(&mut self, offset: u64) -> Option<u32> {
        self.bytes(offset).map(u32::from_le_bytes)
    }

    fn u64(&mut self, offset: u64) -> Option<u64> {
        self.bytes(offset).map(u64::from_le_bytes)
    }
}

/// Of a 64-bit ELF file; `None` if it is damaged.
fn elf_obstacle<R>(file: &mut File<'_, R>) -> Option<Option<Obstacle>>
where
    R: FnMut(u64, &mut [u8]) -> usize,
{
    if file.u16(18)? != OUR_MACHINE {
        return Some(Some(Obstacle::Machine));
    }
    let table = file.u64(32)?;
    let entry_bytes = u64::from(file.u16(54)?);
    for entry in 0..u64::from(file.u16(56)?) {
        let at = table.checked_add(entry * entry_bytes)?;
        if file.u32(at)? != PT_INTERP {
            continue;
        }
        let mut name = [0; NAME_BYTES];
        let bytes = usize::try_from(file.u64(at + 32)?).unwrap_or(NAME_BYTES);
        let start = file.u64(at + 8)?;
        let room = name.get_mut(..bytes.min(NAME_BYTES))?;
        let length = file.fill(start, room);
        let name = name.get(..length).unwrap_or_default();
        let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
        let other = OTHER_LOADERS.into_iter().find(|(part, _)| has(part));
        return Some(other.map(|(_, obstacle)| obstacle));
    }
    Some(Some(Obstacle::Static))
}

#[cfg(test)]
mod tests;
