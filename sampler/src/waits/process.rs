//! The threads of one process, and what they are seen to wait for.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::image::Image;
use super::look::{Eye, Leave, Rate, Thread};
use super::python::Python;
use super::record::{Missed, WaitRecord};
use super::thread::ThreadFiles;
use crate::offcpu;
use crate::procfs;
use crate::terminal::say;

/// How many descriptors may still be kept open.
#[derive(Debug)]
pub struct Budget {
    descriptors: usize,
}

impl Budget {
    /// Half of what the system allows us: the sessions of processes need the rest.
    #[must_use]
    pub fn of_this_process() -> Self {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        Self {
            descriptors: usize::try_from(limit / 2).unwrap_or(usize::MAX),
        }
    }

    fn take(&mut self) -> bool {
        let fits = self.descriptors >= ThreadFiles::DESCRIPTORS;
        if fits {
            self.descriptors -= ThreadFiles::DESCRIPTORS;
        }
        fits
    }

    fn give_back(&mut self, files: &ThreadFiles) {
        if files.are_kept() {
            self.descriptors += ThreadFiles::DESCRIPTORS;
        }
    }
}

/// A process.
#[derive(Debug)]
pub struct Watched {
    host_pid: u32,
    /// As it sees itself.
    pid: u32,
    /// The inode of memory that its agent has mapped.
    agent_inode: u64,
    stage: Stage,
    missed: Missed,
}

#[derive(Debug)]
enum Stage {
    /// Not looked at yet.
    New,
    /// Looked at.
    Open(Box<Open>),
    /// Cannot be looked at, or runs another program by now.
    Over,
}

#[derive(Debug)]
struct Open {
    tasks: File,
    /// Links of the folder when it was listed: two and one for each thread. 0 has it listed again.
    links: u64,
    image: Image,
    python: Option<Python>,
    threads: HashMap<u32, Thread>,
}

impl Watched {
    /// A process that was not looked at yet; `pid` is its id as it sees itself, and `agent_inode` that of memory that it maps until it executes another program.
    #[must_use]
    pub fn new(host_pid: u32, pid: u32, agent_inode: u64) -> Self {
        Self {
            host_pid,
            pid,
            agent_inode,
            stage: Stage::New,
            missed: Missed::default(),
        }
    }

    /// Looks at all threads that are due, and says from when on one is due again: BOOTTIME, or
    /// `None` when none ever is.
    pub fn look(
        &mut self,
        rate: &Rate,
        budget: &mut Budget,
        out: &mut Vec<WaitRecord>,
    ) -> Option<u64> {
        if matches!(self.stage, Stage::New) {
            self.stage = match self.open(rate) {
                Ok(open) if procfs::maps_memory(self.host_pid, self.agent_inode) => {
                    Stage::Open(Box::new(open))
                }
                // Its waits are those of the program that it runs by now.
                Ok(_) => Stage::Over,
                Err(error) => {
                    self.refused(&error, rate.quiet);
                    Stage::Over
                }
            };
        }
        let Stage::Open(open) = &mut self.stage else {
            return None;
        };
        let mut over = open
            .list((self.host_pid, self.pid), rate, budget, out)
            .is_err();
        if let Some(python) = &mut open.python {
            python.begin_round();
        }
        let mut gone = Vec::new();
        for (&tid, thread) in &mut open.threads {
            let mut eye = Eye {
                tasks: &open.tasks,
                image: &mut open.image,
                python: open.python.as_mut(),
                host_pid: self.host_pid,
                host_tid: tid,
                rate,
                missed: &mut self.missed,
                out,
            };
            match eye.look(thread) {
                Ok(()) => {}
                Err(Leave::Thread) => gone.push(tid),
                Err(Leave::Process) => {
                    over = true;
                    break;
                }
            }
        }
        if !gone.is_empty() {
            // Others may have begun instead: their number need not have changed.
            open.links = 0;
        }
        for tid in gone {
            open.forget(tid, budget, out);
        }
        let all_unreadable =
            !open.threads.is_empty() && open.threads.values().all(|thread| thread.unreadable);
        if over || all_unreadable {
            open.close(budget, out);
            self.stage = Stage::Over;
        }
        if all_unreadable {
            self.refused(&Errno::EPERM.into(), rate.quiet);
        }
        match &self.stage {
            Stage::Open(open) => Some(open.due_ns()),
            _ => None,
        }
    }

    /// Ends all waits and says what was missed.
    pub fn finish(mut self, budget: &mut Budget, out: &mut Vec<WaitRecord>) {
        if let Stage::Open(open) = &mut self.stage {
            open.close(budget, out);
        }
        out.push(WaitRecord::Missed(self.missed));
    }

    fn open(&self, rate: &Rate) -> std::io::Result<Open> {
        Ok(Open {
            tasks: File::open(format!("/proc/{}/task", self.host_pid))?,
            links: 0,
            image: Image::new(self.host_pid)?,
            python: rate
                .python
                .then(|| Python::new(self.host_pid, rate.depth_max)),
            threads: HashMap::new(),
        })
    }

    fn refused(&mut self, error: &std::io::Error, quiet: bool) {
        let permission = error.kind() == std::io::ErrorKind::PermissionDenied;
        // The files of a process that ends belong to root once its memory is gone.
        if !permission || !procfs::has_memory(self.host_pid) {
            return;
        }
        self.missed.unreadable_threads = self.missed.unreadable_threads.max(1);
        if !quiet {
            say(&format!(
                "warning: what pid {} waits for cannot be seen: {error} (it runs setuid or made itself undumpable, or Yama's \
                 ptrace_scope forbids to look at processes that left our tree)",
                self.pid
            ));
        }
    }
}

impl Open {
    /// Finds new threads, if their number changed. Fails when the process is gone.
    fn list(
        &mut self,
        (host_pid, pid): (u32, u32),
        rate: &Rate,
        budget: &mut Budget,
        out: &mut Vec<WaitRecord>,
    ) -> std::io::Result<()> {
        let links = self.tasks.metadata()?.nlink();
        if links == self.links {
            return Ok(());
        }
        let path = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&self.tasks)
        );
        let tids: Vec<u32> = std::fs::read_dir(path)?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        self.links = links;
        let gone: Vec<u32> = self
            .threads
            .keys()
            .copied()
            .filter(|tid| !tids.contains(tid))
            .collect();
        for tid in gone {
            self.forget(tid, budget, out);
        }
        for tid in tids {
            if self.threads.contains_key(&tid) {
                continue;
            }
            let kept = budget.take();
            let files = match ThreadFiles::new(self.tasks.as_fd(), tid, kept) {
                Ok(files) => files,
                Err(_) => {
                    if kept {
                        budget.descriptors += ThreadFiles::DESCRIPTORS;
                    }
                    continue;
                }
            };
            let own_tid = if host_pid == pid {
                tid
            } else {
                self.inner_tid(tid).unwrap_or(tid)
            };
            self.threads.insert(tid, Thread::new(own_tid, files));
            if let Some(rings) = &rate.thread_rings {
                offcpu::rings::lock(rings).follow_thread(host_pid, tid);
            }
        }
        if let Some(python) = &mut self.python {
            python.set_threads(self.threads.values().map(|thread| thread.tid));
        }
        Ok(())
    }

    /// The earliest time at which a thread is due.
    fn due_ns(&self) -> u64 {
        let threads = self.threads.values().filter(|thread| !thread.unreadable);
        threads
            .map(|thread| thread.rest_until_ns)
            .min()
            .unwrap_or(0)
    }

    /// The id of a thread in its own pid namespace.
    fn inner_tid(&self, tid: u32) -> Option<u32> {
        let status = procfs::text(format!("/proc/{tid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_ascii_whitespace().last()?.parse().ok()
    }

    fn forget(&mut self, tid: u32, budget: &mut Budget, out: &mut Vec<WaitRecord>) {
        if let Some(mut thread) = self.threads.remove(&tid) {
            budget.give_back(&thread.files);
            let known = !thread.name.is_empty();
            thread.end_wait(out);
            if known {
                out.push(WaitRecord::Gone { tid: thread.tid });
            }
        }
    }

    fn close(&mut self, budget: &mut Budget, out: &mut Vec<WaitRecord>) {
        let tids: Vec<u32> = self.threads.keys().copied().collect();
        for tid in tids {
            self.forget(tid, budget, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use memmap2::MmapOptions;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    fn looked_at(agent_inode: u64) -> bool {
        let rate = Rate {
            period_ns: 1_000_000,
            depth_max: 8,
            quiet: true,
            python: false,
            thread_rings: None,
        };
        let own = std::process::id();
        let mut watched = Watched::new(own, own, agent_inode);
        let mut budget = Budget::of_this_process();
        let next = watched.look(&rate, &mut budget, &mut Vec::new());
        watched.finish(&mut budget, &mut Vec::new());
        next.is_some()
    }

    #[test]
    fn what_a_process_executes_before_the_first_look_is_not_looked_at() {
        let file = File::from(memfd_create(c"agent", MFdFlags::MFD_CLOEXEC).unwrap());
        file.set_len(4096).unwrap();
        let inode = file.metadata().unwrap().ino();
        assert!(!looked_at(inode));
        let mapped = MmapOptions::new().map_raw(&file).unwrap();
        assert!(looked_at(inode));
        drop(mapped);
        assert!(!looked_at(inode));
    }
}
