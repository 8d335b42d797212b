//! Starting the target exactly as our parent would have started it.
//!
//! The child gets our descriptors, terminal, directory, mask, limits and process group as we got
//! them; what we changed for ourselves is put back between fork and exec. Our environment is passed
//! on in its order, which `std::process::Command` would sort.

use std::ffi::{CString, OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, Pid, fork, pipe2};

use super::inherited::Inherited;

/// Why the target did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// A word or variable holds a NUL byte.
    #[error("an argument or environment variable holds a NUL byte")]
    Nul,
    /// We could not make a process.
    #[error("no new process can be made: {0}")]
    Fork(Errno),
    /// The new process could not execute the file.
    #[error("{path}: cannot be executed: {errno}")]
    Exec {
        /// The file.
        path: String,
        /// Why.
        errno: Errno,
    },
}

impl SpawnError {
    /// The exit code that shells give for it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            SpawnError::Exec {
                errno: Errno::ENOENT,
                ..
            } => super::ending::NOT_FOUND,
            SpawnError::Exec { .. } => super::ending::NOT_EXECUTABLE,
            _ => super::ending::FAILED,
        }
    }
}

/// A list of C strings and the array of pointers that exec wants.
struct CArray {
    // The pointers point into these.
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl CArray {
    fn new(
        strings: impl IntoIterator<Item = Result<CString, SpawnError>>,
    ) -> Result<Self, SpawnError> {
        let strings: Vec<CString> = strings.into_iter().collect::<Result<_, _>>()?;
        let pointers = strings
            .iter()
            .map(|string| string.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        Ok(Self {
            _strings: strings,
            pointers,
        })
    }
}

fn c_string(bytes: &[u8]) -> Result<CString, SpawnError> {
    CString::new(bytes).map_err(|_| SpawnError::Nul)
}

/// All that exec needs, made before the fork.
struct Image {
    file: CString,
    arguments: CArray,
    shell_arguments: CArray,
    environment: CArray,
    plain_environment: CArray,
}

impl Image {
    fn new(
        file: &Path,
        command: &[OsString],
        environment: &[(OsString, OsString)],
        plain_environment: &[(OsString, OsString)],
    ) -> Result<Self, SpawnError> {
        let variables =
            |all: &[(OsString, OsString)]| {
                CArray::new(all.iter().map(|(name, value)| {
                    c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
                }))
            };
        Ok(Self {
            file: c_string(file.as_os_str().as_bytes())?,
            arguments: CArray::new(command.iter().map(|word| c_string(word.as_bytes())))?,
            // A file that the kernel does not know is given to the shell, as execvp does.
            shell_arguments: CArray::new(
                [OsStr::new("/bin/sh"), file.as_os_str()]
                    .into_iter()
                    .chain(command.iter().skip(1).map(OsString::as_os_str))
                    .map(|word| c_string(word.as_bytes())),
            )?,
            environment: variables(environment)?,
            plain_environment: variables(plain_environment)?,
        })
    }

    /// Undoes what we changed in this process and executes the file; returns only why that failed. Where the kernel has no room for all
    /// arguments and variables, it is done without ours, and `without_agent` is called before.
    ///
    /// # Signal safety
    /// System calls on prepared data only: in the child of a fork, other threads may have held locks.
    fn execute(&self, mask: &SigSet, inherited: &Inherited, without_agent: impl FnOnce()) -> i32 {
        inherited.give_back();
        // SAFETY: a valid set, and no place for the one before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ref(), std::ptr::null_mut()) };
        inherited.go_on();
        match self.execute_with(&self.environment) {
            libc::E2BIG => {
                without_agent();
                self.execute_with(&self.plain_environment)
            }
            errno => errno,
        }
    }

    /// # Signal safety
    /// As [`Image::execute`].
    fn execute_with(&self, environment: &CArray) -> i32 {
        let environment = environment.pointers.as_ptr();
        // SAFETY: plain system calls; the strings end in NUL and the arrays in a null pointer, as `CArray` makes them.
        unsafe {
            libc::execve(
                self.file.as_ptr(),
                self.arguments.pointers.as_ptr(),
                environment,
            );
            if *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(
                    c"/bin/sh".as_ptr(),
                    self.shell_arguments.pointers.as_ptr(),
                    environment,
                );
            }
            *libc::__errno_location()
        }
    }
}

/// A target that runs.
#[derive(Debug, Clone, Copy)]
pub struct Started {
    /// Its id.
    pub pid: Pid,
    /// Whether there was room for the variables that load the agent.
    pub with_agent: bool,
}

/// What the child writes before it tries without the agent.
const WITHOUT_AGENT: i32 = -1;

/// Starts `file` with the words of `command` as its arguments. `beside` is called when there is a
/// process, before that executes the file.
///
/// # Errors
/// When it did not start; the file's errors come from the child before its exec.
pub fn spawn(
    file: &Path,
    command: &[OsString],
    environment: &[(OsString, OsString)],
    plain_environment: &[(OsString, OsString)],
    mask: &SigSet,
    inherited: &Inherited,
    beside: impl FnOnce(),
) -> Result<Started, SpawnError> {
    let image = Image::new(file, command, environment, plain_environment)?;
    let (report, reporting) = pipe2(OFlag::O_CLOEXEC).map_err(SpawnError::Fork)?;
    let (waiting, going) = pipe2(OFlag::O_CLOEXEC).map_err(SpawnError::Fork)?;
    // SAFETY: the child makes system calls on prepared data only, until it execs or exits.
    match unsafe { fork() }.map_err(SpawnError::Fork)? {
        ForkResult::Child => {
            wait_for_start(waiting.as_raw_fd(), going.as_raw_fd());
            let report = |number: i32| {
                let bytes = number.to_ne_bytes();
                // SAFETY: writes four valid bytes.
                unsafe { libc::write(reporting.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
            };
            report(image.execute(mask, inherited, || report(WITHOUT_AGENT)));
            // SAFETY: ends, without running anything of ours that fork copied.
            unsafe { libc::_exit(127) }
        }
        ForkResult::Parent { child } => {
            drop(reporting);
            beside();
            // If that fails, the child goes on when the pipe is closed.
            nix::unistd::write(&going, b"!").ok();
            drop(going);
            let mut report = std::fs::File::from(report);
            let first = read_number(&mut report);
            let with_agent = first != Some(WITHOUT_AGENT);
            let failure = if with_agent {
                first
            } else {
                read_number(&mut report)
            };
            let Some(errno) = failure else {
                return Ok(Started {
                    pid: child,
                    with_agent,
                });
            };
            // It exits at once; leave no zombie.
            nix::sys::wait::waitpid(child, None).ok();
            Err(SpawnError::Exec {
                path: file.display().to_string(),
                errno: Errno::from_raw(errno),
            })
        }
    }
}

/// Waits in the child for a byte from the parent, or for its end, by a pipe of which both ends were
/// inherited.
///
/// # Signal safety
/// System calls with numbers and a byte on this stack.
fn wait_for_start(waiting: RawFd, going: RawFd) {
    let mut byte = 0_u8;
    // SAFETY: as above.
    unsafe {
        libc::close(going);
        while libc::read(waiting, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
    }
}

/// Becomes the command, without profiling it. Returns only why that failed.
#[must_use]
pub fn replace(
    file: &Path,
    command: &[OsString],
    environment: &[(OsString, OsString)],
    inherited: &Inherited,
) -> SpawnError {
    let image = match Image::new(file, command, environment, environment) {
        Ok(image) => image,
        Err(error) => return error,
    };
    let mask = SigSet::thread_get_mask().unwrap_or_else(|_| SigSet::empty());
    let errno = Errno::from_raw(image.execute(&mask, inherited, || {}));
    SpawnError::Exec {
        path: file.display().to_string(),
        errno,
    }
}

/// What the child says before it gives up, or nothing when its exec closed the pipe.
fn read_number(report: &mut std::fs::File) -> Option<i32> {
    let mut bytes = [0; 4];
    report.read_exact(&mut bytes).ok()?;
    Some(i32::from_ne_bytes(bytes))
}
