//! A terminal, to see what a user would see who types Ctrl-C.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::paths::Scratch;
use crate::procs::{descendants, signal, wait_until};
use crate::run::Run;

const PATIENCE: Duration = Duration::from_secs(60);

/// A run in a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    _scratch: Scratch,
}

impl Terminal {
    /// Starts a run as the foreground job of a new terminal.
    ///
    /// # Errors
    /// When there is no terminal to be had or the run cannot be started.
    pub fn start(run: &Run) -> Result<Self> {
        let scratch = Scratch::new("terminal")?;
        let (mut command, _) = run.build(&scratch)?;
        let (master, slave) = open_pair()?;
        command
            .stdin(slave.try_clone()?)
            .stdout(slave.try_clone()?)
            .stderr(slave);
        // SAFETY: between fork and exec only setsid and ioctl are called, which are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().context("cannot start in a terminal")?;
        // The command holds copies of the terminal's far side; as long as they are open, reading does not end.
        drop(command);
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(String::new()));
        let reader = thread::spawn({
            let mut source = keyboard.try_clone()?;
            let screen = Arc::clone(&screen);
            move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = source.read(&mut buffer) {
                    if let Ok(mut screen) = screen.lock() {
                        screen.push_str(&String::from_utf8_lossy(&buffer[..length]));
                    }
                }
            }
        });
        Ok(Self {
            child,
            keyboard,
            screen,
            reader: Some(reader),
            _scratch: scratch,
        })
    }

    /// Everything printed so far.
    #[must_use]
    pub fn screen(&self) -> String {
        self.screen
            .lock()
            .map(|screen| screen.clone())
            .unwrap_or_default()
    }

    /// Waits for a text to appear.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_for(&self, text: &str) -> Result<()> {
        if wait_until(PATIENCE, || self.screen().contains(text)) {
            return Ok(());
        }
        bail!("`{text}` did not appear on the screen:\n{}", self.screen())
    }

    /// Types.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn press(&mut self, keys: &[u8]) -> Result<()> {
        self.keyboard
            .write_all(keys)
            .context("cannot type into the terminal")
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// When it does not end.
    pub fn wait(mut self) -> Result<(ExitStatus, String)> {
        let mut status = None;
        wait_until(PATIENCE, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        let Some(status) = status else {
            bail!("no end in the terminal:\n{}", self.screen())
        };
        if let Some(reader) = self.reader.take() {
            wait_until(PATIENCE, || reader.is_finished());
        }
        Ok((status, self.screen()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            for pid in descendants(self.child.id()) {
                signal(pid, libc::SIGKILL);
            }
            if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
                eprintln!("cannot end the run in the terminal: {error}");
            }
        }
    }
}

fn open_pair() -> Result<(OwnedFd, OwnedFd)> {
    let (mut master, mut slave) = (-1, -1);
    let (name, mode, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: both descriptors are written to live locals; the other arguments may be null.
    if unsafe { libc::openpty(&raw mut master, &raw mut slave, name, mode, size) } != 0 {
        return Err(io::Error::last_os_error()).context("cannot open a terminal");
    }
    for descriptor in [master, slave] {
        // SAFETY: the descriptor was just opened; the flag only keeps it out of other tests' children.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: openpty has just opened both, and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) })
}
