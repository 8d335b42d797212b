//! The steps by which the agent comes into a process.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use rsys_wire::attach::{Request, Status};

use super::borrow::BegunAnew;
use super::code::{self, Memory, Places};
use super::functions::{self, AllFunctions};
use super::judge::Recorded;
use super::since::Since;
use super::stop::Stopped;
use super::{RECORDED, Refusal, maps, place};
use crate::procfs;
use crate::waits::image::Image;
use crate::waits::maps::Module;

/// How long the process's loader may take.
const LOAD_WITHIN: Duration = Duration::from_secs(30);
/// How long the borrowed thread may take to leave our code, where handlers of its own may keep it.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Time between two looks at the process's memory and threads. The kernel has no event for what another process writes into its memory, maps, or does
/// with its registers, and we leave nothing there that could tell us.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Code takes less than a page, the stack is for handlers of the program's as well.
const CODE_BYTES: u64 = 4096;
const STACK_BYTES: u64 = 1 << 20;
const DATA_BYTES: u64 = STACK_BYTES + (64 << 10);
const PAGE: u64 = 4096;
/// Room in the data for the vectors, in front of the words and the request.
const VECTORS_BYTES: u64 = 8192;

/// A process with our agent in it.
#[derive(Debug)]
pub struct Attached {
    /// The agent's thread that serves us.
    pub server: u32,
    /// For how long a thread of the process was stopped at most.
    pub stopped: Duration,
    /// For how long all of it took.
    pub took: Duration,
    /// No other sampler attaches as long as it is there.
    _claim: Option<UnixListener>,
}

/// What is done, and with what.
#[derive(Debug)]
pub(super) struct Injection {
    pub(super) pid: u32,
    pub(super) image: Image,
    pub(super) functions: AllFunctions,
    /// For how long a thread stood at most.
    pub(super) stopped: Duration,
    /// Why the last thread could not be borrowed.
    pub(super) last_reason: String,
    /// Since when threads wait that wait with a time limit.
    pub(super) since: Since,
    /// Such threads, as the last look found them, the shortest limit first.
    pub(super) limited: Vec<(Duration, u32)>,
    /// The thread that was borrowed in such a wait, if it can be known in it: by the time limit that it went on with, which is that of no other wait.
    pub(super) begun_anew: Option<BegunAnew>,
}

/// Brings the agent at `agent` into a process and has it announce itself at `session`.
///
/// # Errors
/// Why that cannot be. The process is then as before, but perhaps for a library that does nothing.
pub fn attach(pid: u32, agent: &Path, session: &str, settings: &str) -> Result<Attached, Refusal> {
    let begin = Instant::now();
    let claim = claim(pid)?;
    // An agent whose sampler was killed needs a moment to leave.
    let deadline = Instant::now() + LEAVE_WITHIN;
    loop {
        let recorded = super::judge::recorded(pid);
        let is_late = Instant::now() > deadline;
        match recorded {
            Recorded::No => break,
            Recorded::Announced if is_late => break,
            _ if claim.is_none() || is_late => return Err(Refusal::new(RECORDED)),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let image = Image::new(pid).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::new("it has ended"),
        _ => Refusal::new(format!("its memory: {error}")),
    })?;
    let mut injection = Injection {
        pid,
        image,
        functions: AllFunctions::new(pid, place::is_of_allocator),
        stopped: Duration::ZERO,
        last_reason: String::new(),
        since: Since::default(),
        limited: Vec::new(),
        begun_anew: None,
    };
    let modules = injection.image.all_modules().to_vec();
    let library = functions::library(&mut injection.functions, &modules)?;
    // Files are read before anything is stopped.
    for module in &modules {
        injection.functions.of(module);
    }
    let memory = injection.map(&modules)?;
    let agent_bytes = agent.as_os_str().as_encoded_bytes();
    let whole = [memory.code, memory.data + memory.data_bytes - memory.code];
    let request = Request::new(whole, session, agent_bytes, settings)
        .map_err(|_| Refusal::new("the path of the agent is too long"))?;
    let vectors = memory.data + STACK_BYTES;
    let places = Places {
        stack: vectors - 64,
        vectors,
        words: vectors + VECTORS_BYTES,
        request: vectors + VECTORS_BYTES + PAGE,
    };
    injection.write(places.request, request.bytes())?;
    injection.write(places.words, &code::BLOCKED.to_le_bytes())?;
    let borrowed = injection.borrow(|injection, back, ends_ns| {
        let code = code::begin(back, memory.code, &library, &places, ends_ns);
        injection.write(memory.code, &code)?;
        let mut registers = *back;
        registers.rip = memory.code;
        registers.rsp = places.stack;
        Ok(registers)
    })?;
    let status = injection.wait_for(&places)?;
    injection.wait_until_left(borrowed, &memory);
    let server = injection.number(places.request, std::mem::offset_of!(Request, tid));
    let error = injection.number(places.request, std::mem::offset_of!(Request, error));
    let is_free = places.request + std::mem::offset_of!(Request, is_free) as u64;
    let freed = injection.write(is_free, &1_u32.to_le_bytes());
    match status {
        Status::Recording => Ok(Attached {
            server,
            stopped: injection.stopped,
            took: begin.elapsed(),
            _claim: claim,
        }),
        status => {
            freed?;
            Err(why_not(status, error, agent))
        }
    }
}

/// One sampler attaches to a process at a time.
fn claim(pid: u32) -> Result<Option<UnixListener>, Refusal> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::SocketAddr;
    // Such names are those of a network: containers that share one have other processes of the same id.
    let namespace = std::fs::metadata(format!("/proc/{pid}/ns/pid"));
    let namespace = namespace.map_or(0, |namespace| namespace.ino());
    let start = procfs::start_ticks(pid).unwrap_or_default();
    let name = format!("rsys-attached-{namespace}-{pid}-{start}");
    let Ok(address) = SocketAddr::from_abstract_name(name) else {
        return Ok(None);
    };
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(Refusal::new(RECORDED)),
        // The agent itself knows, too.
        Err(_) => Ok(None),
    }
}

fn why_not(status: Status, error: u32, agent: &Path) -> Refusal {
    let agent = agent.display();
    let errno = || nix::errno::Errno::from_raw(error.cast_signed()).desc();
    Refusal::new(match status {
        Status::Busy => RECORDED.to_owned(),
        Status::NotLoaded => format!(
            "its loader cannot load {agent}; in a container or another root folder, install rsys there under the same path"
        ),
        Status::NoFunction | Status::Version => {
            format!("{agent} is of another version; start rsys-sample from the same installation")
        }
        Status::Refused if error == libc::ENOEXEC as u32 => {
            "its own runtime makes its system calls (Go without cgo); build it with CGO_ENABLED=1 and an import of \"C\"".to_owned()
        }
        Status::Refused => format!("the agent cannot record there: {}", errno()),
        Status::NoThread => format!(
            "it cannot make one more thread: {}; raise its limits (ulimit -u, -v)",
            errno()
        ),
        Status::Pending | Status::Loading | Status::Recording => {
            "its loader is busy; try again".to_owned()
        }
    })
}

impl Injection {
    /// Makes the process map memory for us.
    fn map(&mut self, modules: &[Module]) -> Result<Memory, Refusal> {
        let mappings = maps::of(self.pid).map_err(Refusal::new)?;
        let code = maps::free_place(&mappings)
            .ok_or_else(|| Refusal::new("its address space has no room"))?;
        let memory = Memory {
            code,
            code_bytes: CODE_BYTES,
            // A page in between is not mapped: the stack ends there.
            data: code + CODE_BYTES + PAGE,
            data_bytes: DATA_BYTES,
        };
        let cave = self.cave(modules)?;
        // The few instructions that follow take no time that a limit of milliseconds would tell.
        let borrowed = self.borrow(|injection, back, _| {
            let code = code::map(back, &memory);
            debug_assert!(code.len() <= CAVE_BYTES);
            injection.write(cave, &code)?;
            Ok(code::registers_to_map(back, cave, &memory))
        })?;
        let deadline = Instant::now() + LEAVE_WITHIN;
        let wanted = [
            (memory.code, memory.code_bytes),
            (memory.data, memory.data_bytes),
        ];
        loop {
            let now = maps::of(self.pid).map_err(Refusal::new)?;
            let is_there = |(start, bytes): &(u64, u64)| {
                now.iter()
                    .any(|one| one.range.contains(start) && one.range.end - start >= *bytes)
            };
            if wanted.iter().all(is_there) {
                break;
            }
            if Instant::now() > deadline {
                return Err(Refusal::new(
                    "it may map no more memory (see ulimit -v, and policies like SELinux's execmem)",
                ));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let of_cave = Memory {
            code: cave,
            code_bytes: CAVE_BYTES as u64,
            ..memory
        };
        if self.wait_until_left(borrowed, &of_cave) {
            self.write(cave, &[0; CAVE_BYTES])?;
        }
        Ok(memory)
    }

    /// Room for the first few instructions: in the last page of a module's code, behind all of it, where nothing is. Only of modules that
    /// no program can unload.
    fn cave(&mut self, modules: &[Module]) -> Result<u64, Refusal> {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.pid)).unwrap_or_default();
        let stays = |module: &&Module| {
            let path = &module.path;
            functions::is_c_library(path)
                || functions::is_loader(path)
                || Path::new(path) == program
        };
        for module in modules.iter().filter(stays) {
            let ends = self.functions.of(module).code_ends().to_vec();
            for end in ends {
                let end = module.bias.wrapping_add(end);
                let page_end = end.next_multiple_of(PAGE);
                // What a sampler has left that was killed is not used again: a thread may still be there.
                let mut start = end.next_multiple_of(16);
                while start + CAVE_BYTES as u64 <= page_end && module.range.contains(&start) {
                    let mut bytes = [1; CAVE_BYTES];
                    let length = self.image.read(start, &mut bytes);
                    if length == CAVE_BYTES && bytes.iter().all(|byte| *byte == 0) {
                        return Ok(start);
                    }
                    start += CAVE_BYTES as u64;
                }
            }
        }
        Err(Refusal::new(
            "neither it nor its C library has room for a few instructions; start it under rsys-sample instead",
        ))
    }

    /// Waits until the agent has said what became of the request.
    fn wait_for(&mut self, places: &Places) -> Result<Status, Refusal> {
        let deadline = Instant::now() + LOAD_WITHIN;
        loop {
            let number = self.number(places.request, std::mem::offset_of!(Request, status));
            match Status::from_number(number) {
                Some(Status::Pending | Status::Loading) | None => {}
                Some(status) => return Ok(status),
            }
            // The result of pthread_create, which is written before anybody could be told.
            let error = self.number(places.words + 24, 0);
            if error != 0 {
                return Ok(Status::NoThread);
            }
            if !procfs::has_memory(self.pid) {
                return Err(Refusal::new("it has ended"));
            }
            if Instant::now() > deadline {
                return Ok(Status::Loading);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until a thread is seen outside of our memory. False if it is not for too long.
    fn wait_until_left(&mut self, tid: u32, memory: &Memory) -> bool {
        let deadline = Instant::now() + LEAVE_WITHIN;
        let is_ours = |address: u64| {
            address.wrapping_sub(memory.code) < memory.code_bytes
                || address.wrapping_sub(memory.data) < memory.data_bytes
        };
        let path = format!("/proc/{}/task/{tid}/syscall", self.pid);
        while Instant::now() < deadline {
            let Ok(line) = std::fs::read_to_string(&path) else {
                return true;
            };
            if !line.starts_with("running") {
                // The last two words: stack pointer and program counter (proc(5)).
                let mut words = line.split_whitespace().rev().take(2);
                let outside = words.all(|word| {
                    let digits = word.trim_start_matches("0x");
                    u64::from_str_radix(digits, 16).is_ok_and(|address| !is_ours(address))
                });
                if outside {
                    return true;
                }
            } else if let Ok(stopped) = Stopped::stop(self.pid, tid) {
                let now = *stopped.registers();
                self.stopped = self.stopped.max(stopped.let_go());
                if !is_ours(now.rip) && !is_ours(now.rsp) {
                    return true;
                }
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        false
    }

    /// Writes into the process's memory, also where it may not itself.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let path = format!("/proc/{}/mem", self.pid);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|memory| memory.write_all_at(bytes, address))
            .map_err(|error| {
                Refusal::new(format!(
                    "{path} cannot be written: {error}; the kernel or a policy forbids it (proc_mem.force_override, SELinux)"
                ))
            })
    }

    fn number(&self, address: u64, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        self.image.read(address + offset as u64, &mut bytes);
        u32::from_le_bytes(bytes)
    }
}

/// Room for what [`code::map`] makes.
const CAVE_BYTES: usize = 176;
