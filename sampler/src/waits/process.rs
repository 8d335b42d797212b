//! The threads of one process, and what they are seen to wait for.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::image::{Image, Walked};
use super::record::{Missed, Wait, WaitRecord};
use super::syscalls;
use super::thread::{Blocked, State, ThreadFiles, Turns};
use crate::os;
use crate::profile::say;

/// A wait that has lasted this many times longer than the time since the last look need not be looked at yet: its end is then known
/// to 1.6 %.
const LAZINESS: u64 = 64;
/// But not later than this after the last look.
const LOOK_AGAIN_NS: u64 = 100_000_000;
/// A wait that goes on is recorded again when an eighth of its length was not, but at least so often.
const RECORD_SHARE: u64 = 8;
const RECORD_AGAIN_NS: u64 = 1_000_000_000;
/// Names of threads are read again after the thread's known age, but between these times.
const NAME_AGAIN_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// How looks are made.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Time between two looks at a thread.
    pub period_ns: u64,
    /// Most frames of a stack.
    pub depth_max: usize,
    /// Whether nothing is said of processes that cannot be looked at.
    pub quiet: bool,
}

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
    /// Links of the folder: two and one for each thread.
    links: u64,
    image: Image,
    threads: HashMap<u32, Thread>,
}

#[derive(Debug)]
struct Thread {
    /// As the process sees it.
    tid: u32,
    files: ThreadFiles,
    turns: Turns,
    wait: Option<Current>,
    /// Not looked at before this time.
    rest_until_ns: u64,
    name: String,
    first_seen_ns: u64,
    name_due_ns: u64,
    unreadable: bool,
}

/// A wait that goes on.
#[derive(Debug)]
struct Current {
    blocked: Blocked,
    begin_ns: u64,
    last_seen_ns: u64,
    recorded_ns: u64,
}

/// Why a thread or a process is left.
enum Leave {
    Thread,
    Process,
}

impl Watched {
    /// A process that was not looked at yet; `pid` is its id as it sees itself.
    #[must_use]
    pub fn new(host_pid: u32, pid: u32) -> Self {
        Self {
            host_pid,
            pid,
            stage: Stage::New,
            missed: Missed::default(),
        }
    }

    /// Looks at all threads that are due, and says from when on one is due again: BOOTTIME, or `None` when none ever is.
    pub fn look(
        &mut self,
        rate: &Rate,
        budget: &mut Budget,
        out: &mut Vec<WaitRecord>,
    ) -> Option<u64> {
        if matches!(self.stage, Stage::New) {
            self.stage = match self.open() {
                Ok(open) => Stage::Open(Box::new(open)),
                Err(error) => {
                    self.refused(&error, rate.quiet);
                    Stage::Over
                }
            };
        }
        let Stage::Open(open) = &mut self.stage else {
            return None;
        };
        let mut over = open.list(self.host_pid == self.pid, budget, out).is_err();
        let mut gone = Vec::new();
        for (&tid, thread) in &mut open.threads {
            let mut eye = Eye {
                tasks: &open.tasks,
                image: &mut open.image,
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

    fn open(&self) -> std::io::Result<Open> {
        Ok(Open {
            tasks: File::open(format!("/proc/{}/task", self.host_pid))?,
            links: 0,
            image: Image::new(self.host_pid)?,
            threads: HashMap::new(),
        })
    }

    fn refused(&mut self, error: &std::io::Error, quiet: bool) {
        let permission = error.kind() == std::io::ErrorKind::PermissionDenied;
        if !permission {
            // It is gone.
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
        same_ids: bool,
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
        let now_ns = os::boot_time_ns();
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
            let own_tid = if same_ids {
                tid
            } else {
                self.inner_tid(tid).unwrap_or(tid)
            };
            self.threads.insert(
                tid,
                Thread {
                    tid: own_tid,
                    files,
                    turns: Turns::default(),
                    wait: None,
                    rest_until_ns: 0,
                    name: String::new(),
                    first_seen_ns: now_ns,
                    name_due_ns: 0,
                    unreadable: false,
                },
            );
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
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_ascii_whitespace().last()?.parse().ok()
    }

    fn forget(&mut self, tid: u32, budget: &mut Budget, out: &mut Vec<WaitRecord>) {
        if let Some(mut thread) = self.threads.remove(&tid) {
            budget.give_back(&thread.files);
            let known = !thread.name.is_empty();
            thread.end_wait(os::boot_time_ns(), out);
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

impl Thread {
    fn end_wait(&mut self, time_ns: u64, out: &mut Vec<WaitRecord>) {
        if let Some(wait) = self.wait.take() {
            out.push(WaitRecord::End {
                tid: self.tid,
                time_ns: time_ns.max(wait.last_seen_ns),
            });
        }
    }
}

/// One look at one thread, and where it puts what it sees.
struct Eye<'a> {
    tasks: &'a File,
    image: &'a mut Image,
    host_pid: u32,
    host_tid: u32,
    rate: &'a Rate,
    missed: &'a mut Missed,
    out: &'a mut Vec<WaitRecord>,
}

impl Eye<'_> {
    fn look(&mut self, thread: &mut Thread) -> Result<(), Leave> {
        let now_ns = os::boot_time_ns();
        if now_ns < thread.rest_until_ns || thread.unreadable {
            return Ok(());
        }
        let tasks = self.tasks.as_fd();
        let turns = thread.files.turns(tasks).map_err(|_| Leave::Thread)?;
        if let Some(wait) = &mut thread.wait
            && turns.count != 0
            && turns.count == thread.turns.count
        {
            wait.last_seen_ns = now_ns;
            self.goes_on(thread, now_ns);
            return Ok(());
        }
        // How much of the time since the last look it ran, or wanted to.
        let busy_ns = (turns.cpu_ns.saturating_sub(thread.turns.cpu_ns))
            .saturating_add(turns.delay_ns.saturating_sub(thread.turns.delay_ns));
        thread.turns = turns;
        thread.rest_until_ns = 0;
        match thread.files.state(tasks) {
            Ok(State::Blocked(blocked)) => self.blocked(thread, &blocked, now_ns, busy_ns),
            Ok(State::Running | State::Elsewhere) => {
                thread.end_wait(now_ns.saturating_sub(busy_ns), self.out);
                Ok(())
            }
            Err(Errno::EPERM | Errno::EACCES) => {
                thread.end_wait(now_ns, self.out);
                thread.unreadable = true;
                self.missed.unreadable_threads += 1;
                Ok(())
            }
            Err(_) => Err(Leave::Thread),
        }
    }

    fn goes_on(&mut self, thread: &mut Thread, now_ns: u64) {
        let Some(wait) = &mut thread.wait else { return };
        let age_ns = now_ns.saturating_sub(wait.begin_ns);
        let due_ns = (age_ns / RECORD_SHARE).clamp(self.rate.period_ns, RECORD_AGAIN_NS);
        thread.rest_until_ns = now_ns + (age_ns / LAZINESS).min(LOOK_AGAIN_NS);
        if now_ns.saturating_sub(wait.recorded_ns) >= due_ns {
            wait.recorded_ns = now_ns;
            self.out.push(WaitRecord::Continue {
                tid: thread.tid,
                time_ns: now_ns,
            });
            self.name(thread, now_ns);
        }
    }

    fn blocked(
        &mut self,
        thread: &mut Thread,
        blocked: &Blocked,
        now_ns: u64,
        busy_ns: u64,
    ) -> Result<(), Leave> {
        if thread.turns.count == 0
            && let Some(wait) = &mut thread.wait
            && wait.blocked == *blocked
        {
            // A kernel that does not count turns: what looks the same is the same.
            wait.last_seen_ns = now_ns;
            self.goes_on(thread, now_ns);
            return Ok(());
        }
        let Walked {
            words,
            completeness,
        } = self.image.walk(blocked, self.rate.depth_max);
        let label = self.label(blocked);
        let tasks = self.tasks.as_fd();
        let still = match thread.turns.count {
            0 => thread.files.state(tasks) == Ok(State::Blocked(*blocked)),
            count => thread.files.turns(tasks).map(|turns| turns.count) == Ok(count),
        };
        if !still {
            // It woke up meanwhile: what was read may be of two moments.
            self.missed.raced += 1;
            thread.end_wait(now_ns, self.out);
            return Ok(());
        }
        if !self.image.is_current(blocked.sp) {
            return Err(Leave::Process);
        }
        let adjoins = match &thread.wait {
            Some(wait) => busy_ns < now_ns.saturating_sub(wait.last_seen_ns) / 2,
            None => false,
        };
        let over_ns = if adjoins {
            now_ns
        } else {
            now_ns.saturating_sub(busy_ns)
        };
        thread.end_wait(over_ns, self.out);
        self.name(thread, now_ns);
        let mut modules = Vec::new();
        self.image.new_modules(&words, now_ns, &mut modules);
        self.out.extend(modules.into_iter().map(WaitRecord::Module));
        self.out.push(WaitRecord::Begin {
            tid: thread.tid,
            time_ns: now_ns,
            wait: Wait {
                label,
                words,
                completeness,
            },
            adjoins,
        });
        thread.wait = Some(Current {
            blocked: *blocked,
            begin_ns: now_ns,
            last_seen_ns: now_ns,
            recorded_ns: now_ns,
        });
        Ok(())
    }

    /// What the thread waits for.
    fn label(&self, blocked: &Blocked) -> Arc<str> {
        if let Some(call) = &blocked.call {
            return syscalls::label(call, self.host_pid, self.image).into();
        }
        let path = format!("/proc/{}/task/{}/stat", self.host_pid, self.host_tid);
        let stat = std::fs::read(path).unwrap_or_default();
        syscalls::label_outside_calls(&String::from_utf8_lossy(&stat)).into()
    }

    /// Reads the thread's name, if it is time to.
    fn name(&mut self, thread: &mut Thread, now_ns: u64) {
        if now_ns < thread.name_due_ns {
            return;
        }
        let age_ns = now_ns.saturating_sub(thread.first_seen_ns);
        thread.name_due_ns = now_ns + age_ns.clamp(NAME_AGAIN_NS.0, NAME_AGAIN_NS.1);
        let path = format!("/proc/{}/task/{}/comm", self.host_pid, self.host_tid);
        let Ok(name) = std::fs::read(path) else {
            return;
        };
        let name = String::from_utf8_lossy(&name);
        let name = name.trim_end_matches('\n');
        if !name.is_empty() && name != thread.name {
            name.clone_into(&mut thread.name);
            self.out.push(WaitRecord::Thread {
                tid: thread.tid,
                name: name.to_owned(),
            });
        }
    }
}
