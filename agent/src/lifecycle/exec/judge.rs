//! Whether the agent can live in a program that is about to be executed.
//!
//! Costs an open, a read and a close of the program, and a look whether the agent's file is there.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::handshake::{ENV_SESSION, FollowChoice, PATH_BYTES};
use rsys_wire::program::{
    AGENT_DATA_BYTES, AGENT_MEMORY_BYTES, INTERPRETERS_MAX, Kind, Obstacle, kind_of,
};

use crate::lifecycle::exec::call::File;
use crate::lifecycle::exec::file::{Opened, Path, open, open_at};
use crate::state;
use crate::sys;
use crate::target::environment::{Environment, agent_in, c_string, pointers, rest_of};

/// What keeps the agent out of a program.
#[derive(Debug)]
pub struct Verdict {
    pub obstacle: Obstacle,
    path: [u8; PATH_BYTES],
    length: usize,
}

impl Verdict {
    /// On the program at this path, or at the beginning of it.
    pub fn new(obstacle: Obstacle, path: &[u8]) -> Self {
        let mut verdict = Verdict {
            obstacle,
            path: [0; PATH_BYTES],
            length: path.len().min(PATH_BYTES),
        };
        for (to, from) in verdict.path.iter_mut().zip(path) {
            *to = *from;
        }
        verdict
    }

    /// The program's path, as far as it is known.
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.length).unwrap_or(&[])
    }
}

/// Whether this process was started with the agent under its own name. Under another it is not found in other programs' variables.
static IS_NAMED: AtomicBool = AtomicBool::new(false);

/// Notes by which variables this process was started.
pub fn begin(environment: &Environment<'_>) {
    let preload = environment.get("LD_PRELOAD");
    let is_named = preload.is_some_and(|list| agent_in(list.to_bytes()).is_some());
    IS_NAMED.store(is_named, Ordering::Relaxed);
}

/// Whether the agent is in these variables. That it could live in the program was judged before.
pub fn has_agent(environment: *const *const c_char) -> bool {
    let ours = Ours::find(environment);
    ours.is_some_and(|ours| {
        ours.agent.is_some() && ours.session.is_some_and(|name| !name.is_empty())
    })
}

/// The path of the program that would be executed, as far as it is known.
pub fn path_of(file: &File, obstacle: Obstacle) -> Verdict {
    let mut place = Path::new();
    let opened = open(file, &mut place);
    Verdict::new(
        obstacle,
        if opened.is_some() {
            place.bytes()
        } else {
            b"a program"
        },
    )
}

/// What a program's variables say of us.
#[derive(Debug, Default)]
struct Ours<'a> {
    session: Option<&'a CStr>,
    agent: Option<&'a [u8]>,
}

impl Ours<'_> {
    /// `None` if the variables cannot be read.
    fn find(environment: *const *const c_char) -> Option<Self> {
        let mut ours = Self::default();
        for entry in pointers(environment) {
            let entry = entry?;
            if let Some(list) = rest_of(entry, b"LD_PRELOAD=") {
                ours.agent = agent_in(list.to_bytes());
            } else if let Some(session) = session_in(entry) {
                ours.session = Some(session);
            }
        }
        Some(ours)
    }
}

/// The session that a variable names, if it is the one that does.
pub fn session_in<'a>(entry: *const c_char) -> Option<&'a CStr> {
    let rest = rest_of(entry, ENV_SESSION.as_bytes())?;
    (rest.to_bytes().first() == Some(&b'=')).then(|| c_string(rest.as_ptr().wrapping_add(1)))?
}

/// Says what keeps the agent out; `None` where nothing does, or nothing can be known, or the program is none of ours.
///
/// What the program hands over may be invalid: the kernel is the one to say so.
#[inline(never)]
pub fn judge(file: &File, environment: *const *const c_char) -> Option<Verdict> {
    // A filter may punish the system calls below.
    if state::is_confined() {
        return None;
    }
    let Ours { session, agent } = Ours::find(environment)?;
    let follows = IS_NAMED.load(Ordering::Relaxed)
        && state::is_active()
        && state::settings().follow != FollowChoice::None;
    let changed = match session {
        Some(session) if session.is_empty() => return None,
        Some(_) if agent.is_some() => None,
        _ if !follows => return None,
        Some(_) => Some(Obstacle::Preload),
        None => Some(Obstacle::Environment),
    };
    let mut place = Path::new();
    let opened = open(file, &mut place)?;
    let obstacle = of_program(&place, opened)?
        .or(changed)
        .or_else(|| of_agent(agent?))?;
    // Programs that search by themselves try what is not executable, too.
    let may_run = match *file {
        File::Path(path) => sys::access(path, libc::X_OK).is_ok(),
        _ => true,
    };
    may_run.then(|| Verdict::new(obstacle, place.bytes()))
}

/// Why the loader would not find the agent where LD_PRELOAD says, or have no room for it.
fn of_agent(agent: &[u8]) -> Option<Obstacle> {
    let mut path = Path::new();
    path.set(&[agent]);
    let [data, all] = sys::memory_limits();
    if data < AGENT_DATA_BYTES || all < AGENT_MEMORY_BYTES {
        return Some(Obstacle::NoMemory);
    }
    // Not by opening it: a process that changed its user may have rights that end with the exec.
    match sys::access(path.c_string().as_ptr(), libc::R_OK) {
        Err(libc::ENOENT | libc::ENOTDIR) => Some(Obstacle::Root),
        Err(libc::EACCES) => Some(Obstacle::Access),
        // Landlock answers no question before.
        Ok(()) if open_at(libc::AT_FDCWD, &path).is_err_and(|error| error == libc::EACCES) => {
            Some(Obstacle::Access)
        }
        _ => None,
    }
}

/// What keeps the agent out of an open program. `None` if that cannot be known.
fn of_program(place: &Path, mut opened: Opened) -> Option<Option<Obstacle>> {
    let mut interpreter = Path::new();
    for number in 0..INTERPRETERS_MAX {
        let path = if number == 0 { place } else { &interpreter };
        let kind = kind_of(path.bytes(), |offset, buffer| {
            sys::pread(opened.fd, buffer, offset)
        });
        match kind? {
            Kind::Fits => return Some(None),
            Kind::Unfit(obstacle) => return Some(Some(obstacle)),
            Kind::Script(named) => interpreter.set(&[named.path()]),
            Kind::Other => interpreter.set(&[b"/bin/sh"]),
        };
        opened = open_at(libc::AT_FDCWD, &interpreter).ok()?;
    }
    Some(None)
}
