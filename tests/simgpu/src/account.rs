//! The account of this process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::accounts;
use crate::board::ProcessBoard;
use crate::simulation::{self, Simulation};

/// Numbers of address spaces, as the driver gives them out, begin here.
const FIRST_PASID: usize = 0x8000;

/// What this process uses, told to everybody.
#[derive(Debug)]
pub struct Account {
    entry: &'static ProcessBoard,
    folder: PathBuf,
    gpu_ids: Vec<u32>,
}

impl Account {
    /// Opens one; none when all are taken.
    pub fn open(simulation: &'static Simulation) -> Option<Self> {
        let root = simulation_folder()?;
        let pid = std::process::id();
        let entries = &simulation.board.processes;
        // What ran in this process before it executed another program.
        let old = entries
            .iter()
            .find(|entry| entry.pid.load(Ordering::Acquire) == pid);
        if let Some(old) = old {
            accounts::close(simulation.board, root, old);
        }
        let (index, entry) = entries.iter().enumerate().find(|(_, entry)| {
            let taken = entry
                .pid
                .compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        })?;
        let beginning = accounts::state_and_beginning(pid).map_or(0, |(_, beginning)| beginning);
        entry.began.store(beginning, Ordering::Relaxed);
        let account = Self {
            entry,
            folder: accounts::folder(root, pid),
            gpu_ids: simulation
                .machine
                .gpus
                .iter()
                .map(|gpu| gpu.gpu_id)
                .collect(),
        };
        drop(fs::create_dir_all(account.folder.join("queues")));
        account.tell("pasid", &format!("{}\n", FIRST_PASID + index));
        for gpu in &account.gpu_ids {
            account.tell(&format!("vram_{gpu}"), "0\n");
            account.tell(&format!("sdma_{gpu}"), "0\n");
            drop(fs::create_dir_all(
                account.folder.join(format!("stats_{gpu}")),
            ));
            account.tell(&format!("stats_{gpu}/evicted_ms"), "0\n");
            account.tell(&format!("stats_{gpu}/cu_occupancy"), "0\n");
        }
        entry.ready.store(1, Ordering::Release);
        Some(account)
    }

    /// More device memory.
    pub fn take(&self, gpu: usize, bytes: u64) {
        self.change(gpu, |used| used.fetch_add(bytes, Ordering::Relaxed));
    }

    /// Less.
    pub fn give_back(&self, gpu: usize, bytes: u64) {
        self.change(gpu, |used| used.fetch_sub(bytes, Ordering::Relaxed));
    }

    /// Callers hold the lock of the process's memory: the last writer writes the last value.
    fn change(&self, gpu: usize, change: impl FnOnce(&AtomicU64) -> u64) {
        let used = &self.entry.vram_bytes[gpu];
        change(used);
        let bytes = used.load(Ordering::Relaxed);
        self.tell(
            &format!("vram_{}", self.gpu_ids[gpu]),
            &format!("{bytes}\n"),
        );
    }

    /// Time of a copy engine.
    pub fn copied(&self, gpu: usize, nanoseconds: u64) {
        self.entry.sdma_ns[gpu].fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// A new queue. The driver writes these files without a new line.
    pub fn queue(&self, id: u32, gpu: usize, bytes: u64, kind: u32) {
        drop(fs::create_dir_all(
            self.folder.join("queues").join(id.to_string()),
        ));
        self.tell(
            &format!("queues/{id}/gpuid"),
            &self.gpu_ids[gpu].to_string(),
        );
        self.tell(&format!("queues/{id}/size"), &bytes.to_string());
        self.tell(&format!("queues/{id}/type"), &kind.to_string());
    }

    /// The end of a queue.
    pub fn end_queue(&self, id: u32) {
        drop(fs::remove_dir_all(
            self.folder.join("queues").join(id.to_string()),
        ));
    }

    /// Gives everything back.
    pub fn close(&self, simulation: &Simulation) {
        if let Some(root) = simulation_folder() {
            accounts::close(simulation.board, root, self.entry);
        }
    }

    fn tell(&self, name: &str, text: &str) {
        accounts::write(&self.folder.join(name), text);
    }
}

fn simulation_folder() -> Option<&'static Path> {
    let root = simulation::root()?;
    Some(Path::new(OsStr::from_bytes(root.to_bytes())))
}
