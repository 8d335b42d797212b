//! The GPUs' memory and the board: memory files that the launcher holds open, and processes open through `/proc`.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result};

use crate::board::Board;

/// Length of a GPU's memory file. Offsets in it are never used twice, so it is far longer than the memory.
const FILE_BYTES: u64 = 1 << 46;

/// All memory files of a machine.
#[derive(Debug)]
pub struct Memory {
    gpus: Vec<File>,
    board_file: File,
    board: &'static Board,
}

impl Memory {
    /// For so many GPUs.
    ///
    /// # Errors
    /// When the system has no room for them.
    pub fn new(gpus: usize) -> Result<Self> {
        let board_file = memory_file(c"simgpu-board", size_of::<Board>() as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice.
        let board = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Board>(),
                protection,
                libc::MAP_SHARED,
                board_file.as_raw_fd(),
                0,
            )
        };
        if board == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("cannot map the board");
        }
        let gpus: Result<Vec<File>> = (0..gpus)
            .map(|_| memory_file(c"simgpu-memory", FILE_BYTES))
            .collect();
        Ok(Self {
            gpus: gpus?,
            board_file,
            // SAFETY: as large as a board; zeros are valid, all fields are atomics; never unmapped.
            board: unsafe { &*board.cast::<Board>() },
        })
    }

    /// The board.
    pub fn board(&self) -> &'static Board {
        self.board
    }

    /// The board's file, for processes.
    pub fn board_path(&self) -> PathBuf {
        path_of(&self.board_file)
    }

    /// A GPU's file, for processes.
    pub fn path(&self, gpu: usize) -> PathBuf {
        path_of(&self.gpus[gpu])
    }

    /// Device number and inode of a GPU's file.
    pub fn identity(&self, gpu: usize) -> (u64, u64) {
        self.gpus[gpu]
            .metadata()
            .map_or((0, 0), |status| (status.dev(), status.ino()))
    }
}

fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd()))
}

fn memory_file(name: &CStr, bytes: u64) -> Result<File> {
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot make a memory file");
    }
    // SAFETY: just made, and nobody else's.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes).context("cannot size a memory file")?;
    Ok(file)
}
