//! The accounts of processes, from the launcher's side.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::accounts;
use crate::board::{Board, ProcessBoard};
use crate::settings::{MAX_GPUS, Machine};

/// Keeps the accounts of all processes.
#[derive(Debug)]
pub struct Accounts {
    root: PathBuf,
    board: &'static Board,
    gpu_ids: Vec<u32>,
    /// What was written last, by entry and GPU.
    written: Vec<[u64; MAX_GPUS]>,
}

impl Accounts {
    /// Of this machine.
    pub fn new(root: &Path, machine: &Machine, board: &'static Board) -> Self {
        Self {
            root: root.to_owned(),
            board,
            gpu_ids: machine.gpus.iter().map(|gpu| gpu.gpu_id).collect(),
            written: vec![[0; MAX_GPUS]; board.processes.len()],
        }
    }

    /// Closes the accounts of processes that are gone, and writes the others' times.
    pub fn update(&mut self) {
        for (entry, written) in self.board.processes.iter().zip(&mut self.written) {
            let pid = entry.pid.load(Ordering::Acquire);
            if pid == 0 || entry.ready.load(Ordering::Acquire) == 0 {
                *written = [0; MAX_GPUS];
            } else if is_gone(pid, entry) {
                accounts::close(self.board, &self.root, entry);
            } else {
                for ((gpu, time), written) in self.gpu_ids.iter().zip(&entry.sdma_ns).zip(written) {
                    let microseconds = time.load(Ordering::Relaxed) / 1000;
                    if std::mem::replace(written, microseconds) != microseconds {
                        let path = accounts::folder(&self.root, pid).join(format!("sdma_{gpu}"));
                        accounts::write(&path, &format!("{microseconds}\n"));
                    }
                }
            }
        }
    }
}

/// Whether the process has ended, be it that its parent did not look yet, or is another one by now.
fn is_gone(pid: u32, entry: &ProcessBoard) -> bool {
    match accounts::state_and_beginning(pid) {
        None | Some(('Z' | 'X', _)) => true,
        Some((_, beginning)) => beginning != entry.began.load(Ordering::Relaxed),
    }
}
