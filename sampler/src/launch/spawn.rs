//! Starting the target exactly as our parent would have started it.
//!
//! The child gets our descriptors, terminal, directory, mask, limits and process group as we got
//! them; what we changed for ourselves is put back between fork and exec. Our environment is passed
//! on in its order, which `std::process::Command` would sort.

use std::ffi::{CString, OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
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
}

impl Image {
    fn new(
        file: &Path,
        command: &[OsString],
        environment: &[(OsString, OsString)],
    ) -> Result<Self, SpawnError> {
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
            environment: CArray::new(environment.iter().map(|(name, value)| {
                c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
            }))?,
        })
    }

    /// Undoes what we changed in this process and executes the file; returns only why that failed.
    ///
    /// # Signal safety
    /// System calls on prepared data only: in the child of a fork, other threads may have held locks.
    fn execute(&self, mask: &SigSet, inherited: &Inherited) -> i32 {
        // SAFETY: plain system calls; the strings end in NUL and the arrays in a null pointer, as `CArray` makes them.
        unsafe {
            if let Some((soft, hard)) = inherited.open_files {
                let limit = libc::rlimit {
                    rlim_cur: soft,
                    rlim_max: hard,
                };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
            if !inherited.sigpipe_ignored {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            }
            for (fd, closed) in (0..).zip(inherited.closed) {
                if closed {
                    libc::close(fd);
                }
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ref(), std::ptr::null_mut());
            let environment = self.environment.pointers.as_ptr();
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

/// Starts `file` with the words of `command` as its arguments. `beside` is called when there is a
/// process, before that executes the file.
///
/// # Errors
/// When it did not start; the file's errors come from the child before its exec.
pub fn spawn(
    file: &Path,
    command: &[OsString],
    environment: &[(OsString, OsString)],
    mask: &SigSet,
    inherited: &Inherited,
    beside: impl FnOnce(),
) -> Result<Pid, SpawnError> {
    let image = Image::new(file, command, environment)?;
    let (report, reporting) = pipe2(OFlag::O_CLOEXEC).map_err(SpawnError::Fork)?;
    let (waiting, going) = pipe2(OFlag::O_CLOEXEC).map_err(SpawnError::Fork)?;
    // SAFETY: the child makes system calls on prepared data only, until it execs or exits.
    match unsafe { fork() }.map_err(SpawnError::Fork)? {
        ForkResult::Child => {
            wait_for_start(waiting.as_raw_fd(), going.as_raw_fd());
            let errno = image.execute(mask, inherited).to_ne_bytes();
            // SAFETY: writes four valid bytes and ends, without running anything of ours that fork copied.
            unsafe {
                libc::write(reporting.as_raw_fd(), errno.as_ptr().cast(), errno.len());
                libc::_exit(127)
            }
        }
        ForkResult::Parent { child } => {
            drop(reporting);
            beside();
            // If that fails, the child goes on when the pipe is closed.
            nix::unistd::write(&going, b"!").ok();
            drop(going);
            match read_errno(report) {
                None => Ok(child),
                Some(errno) => {
                    // It exits at once; leave no zombie.
                    nix::sys::wait::waitpid(child, None).ok();
                    Err(SpawnError::Exec {
                        path: file.display().to_string(),
                        errno,
                    })
                }
            }
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
    let image = match Image::new(file, command, environment) {
        Ok(image) => image,
        Err(error) => return error,
    };
    let mask = SigSet::thread_get_mask().unwrap_or_else(|_| SigSet::empty());
    let errno = Errno::from_raw(image.execute(&mask, inherited));
    SpawnError::Exec {
        path: file.display().to_string(),
        errno,
    }
}

/// What the child says before it gives up, or nothing when its exec closed the pipe.
fn read_errno(report: OwnedFd) -> Option<Errno> {
    let mut bytes = [0; 4];
    std::fs::File::from(report).read_exact(&mut bytes).ok()?;
    Some(Errno::from_raw(i32::from_ne_bytes(bytes)))
}
