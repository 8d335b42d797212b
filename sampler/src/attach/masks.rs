//! Threads that block the signal of the samples: those that the program has told to block all signals.
//!
//! Where the agent was there from the start, it keeps that signal out of the masks of threads. In one that runs already the kernel alone can do
//! so, for a thread that is stopped. That is done when the thread runs by itself, so that no system call is interrupted; and nothing but our
//! clocks sends that signal.

use std::collections::HashSet;
use std::fs;

use rsys_wire::adopt::SAMPLE_SIGNAL;

use super::stop::Stopped;
use crate::procfs;

/// The threads of a process whose masks were changed.
#[derive(Debug)]
pub struct Masks {
    pid: u32,
    changed: HashSet<u32>,
}

impl Masks {
    /// None was changed yet.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self {
            pid,
            changed: HashSet::new(),
        }
    }

    /// Lets the samples through in all threads that run now and block them.
    pub fn open(&mut self) {
        for tid in self.running(|tid| self.blocks_samples(tid) == Some(true)) {
            if self.change(tid, false) {
                self.changed.insert(tid);
            }
        }
    }

    /// Blocks the signal again where it was blocked, in threads that run now. In those that wait nothing would come of it.
    pub fn close(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        for tid in self.running(|tid| changed.contains(&tid)) {
            self.change(tid, true);
        }
    }

    fn running(&self, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        let names = tasks.into_iter().flatten().flatten();
        names
            .filter_map(|task| task.file_name().to_str()?.parse().ok())
            .filter(|&tid| wanted(tid) && self.runs(tid))
            .collect()
    }

    fn runs(&self, tid: u32) -> bool {
        procfs::state_and_ticks(&format!("{}/task/{tid}", self.pid))
            .is_some_and(|(state, _)| state == 'R')
    }

    /// Whether a thread blocks the signal (proc(5), `SigBlk`); `None` when it is gone.
    fn blocks_samples(&self, tid: u32) -> Option<bool> {
        let status = procfs::text(format!("/proc/{}/task/{tid}/status", self.pid)).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:"))?;
        let blocked = u64::from_str_radix(line.trim(), 16).ok()?;
        Some(blocked & bit() != 0)
    }

    fn change(&self, tid: u32, blocks: bool) -> bool {
        let Ok(stopped) = Stopped::stop(self.pid, tid) else {
            return false;
        };
        // In a call the mask may be one for the time of the call alone.
        let is_changed = stopped.is_in_user_mode()
            && stopped.change_mask(|mask| match blocks {
                true => mask | bit(),
                false => mask & !bit(),
            });
        stopped.let_go();
        is_changed
    }
}

fn bit() -> u64 {
    1 << (SAMPLE_SIGNAL - 1)
}
