//! One look at one thread: whether it waits, for what, and whether that is still the wait of the
//! look before.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;

use super::image::{Image, Walked};
use super::python::{INTERPRETER_LOCK, Python, PythonLook, PythonThread};
use super::record::{Completeness, Missed, Wait, WaitRecord};
use super::syscalls;
use super::thread::{Blocked, State, ThreadFiles, Turns};
use crate::offcpu::ThreadRings;
use crate::os;

/// A wait that has lasted this many times longer than the time since the last look need not be
/// looked at yet: its end is then known to 1.6 %.
const LAZINESS: u64 = 64;
/// But not later than this after the last look.
const LOOK_AGAIN_NS: u64 = 100_000_000;
/// A wait that goes on is recorded again when an eighth of its length was not, but at least this
/// often.
const RECORD_SHARE: u64 = 8;
const RECORD_AGAIN_NS: u64 = 1_000_000_000;
/// Names of threads are read again after the thread's known age, but between these times.
const NAME_AGAIN_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// How looks are made.
#[derive(Debug, Clone)]
pub struct Rate {
    /// Time between two looks at a thread.
    pub period_ns: u64,
    /// Most frames of a stack.
    pub depth_max: usize,
    /// Whether nothing is said of processes that cannot be looked at.
    pub quiet: bool,
    /// Whether Python frames are read.
    pub python: bool,
    /// Where new threads get rings for records of their context switches, if they need some.
    pub thread_rings: Option<ThreadRings>,
}

/// A thread.
#[derive(Debug)]
pub struct Thread {
    /// Its id as the process sees it.
    pub tid: u32,
    /// What the kernel says of it.
    pub files: ThreadFiles,
    turns: Turns,
    /// The last look that found it blocked: when, and its turns then.
    blocked: Option<(u64, Turns)>,
    wait: Option<Current>,
    python: PythonThread,
    /// The generation of modules with which its stack is known to be broken.
    doubted: u32,
    /// Since when its stack is broken with modules that may be too old.
    doubts_since: Option<Instant>,
    /// It is not looked at before this time, BOOTTIME.
    pub rest_until_ns: u64,
    /// Its name, empty before its first wait.
    pub name: String,
    first_seen_ns: u64,
    name_due_ns: u64,
    /// We may not look at it.
    pub unreadable: bool,
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
#[derive(Debug)]
pub enum Leave {
    /// The thread is gone.
    Thread,
    /// The process is, or runs another program.
    Process,
}

impl Thread {
    /// A thread that was not looked at yet.
    #[must_use]
    pub fn new(tid: u32, files: ThreadFiles) -> Self {
        Self {
            tid,
            files,
            turns: Turns::default(),
            blocked: None,
            wait: None,
            python: PythonThread::default(),
            doubted: 0,
            doubts_since: None,
            rest_until_ns: 0,
            name: String::new(),
            first_seen_ns: os::boot_time_ns(),
            name_due_ns: 0,
            unreadable: false,
        }
    }

    /// Its wait is over, if there is one; nobody saw when.
    pub fn end_wait(&mut self, out: &mut Vec<WaitRecord>) {
        if let Some(wait) = &self.wait {
            self.end_wait_at(wait.last_seen_ns, out);
        }
    }

    fn end_wait_at(&mut self, time_ns: u64, out: &mut Vec<WaitRecord>) {
        if let Some(wait) = self.wait.take() {
            out.push(WaitRecord::End {
                tid: self.tid,
                time_ns: time_ns.max(wait.last_seen_ns),
            });
        }
    }

    /// How long it was blocked from the last look that found it so to one that does at `now_ns`, halved: the end of one wait, and the begin
    /// of another. What came between, if anything, is counted with these.
    fn half_blocked_ns(&self, now_ns: u64, turns: &Turns) -> Option<u64> {
        let (last_ns, before) = &self.blocked?;
        let used_ns = turns.cpu_ns.saturating_sub(before.cpu_ns);
        let delayed_ns = turns.delay_ns.saturating_sub(before.delay_ns);
        let busy_ns = used_ns.saturating_add(delayed_ns);
        Some(now_ns.saturating_sub(*last_ns).saturating_sub(busy_ns) / 2)
    }
}

/// One look at one thread, and where it puts what it sees.
#[derive(Debug)]
pub struct Eye<'a> {
    /// The folder of the process's threads.
    pub tasks: &'a File,
    /// Its program.
    pub image: &'a mut Image,
    /// Its Python, if that is looked at.
    pub python: Option<&'a mut Python>,
    /// Its id as we see it.
    pub host_pid: u32,
    /// The thread's id as we see it.
    pub host_tid: u32,
    /// How to look.
    pub rate: &'a Rate,
    /// Where to count what could not be seen.
    pub missed: &'a mut Missed,
    /// What was seen.
    pub out: &'a mut Vec<WaitRecord>,
}

impl Eye<'_> {
    /// Looks.
    ///
    /// # Errors
    /// When the thread or the process need not be looked at any more.
    pub fn look(&mut self, thread: &mut Thread) -> Result<(), Leave> {
        let now_ns = os::boot_time_ns();
        if now_ns < thread.rest_until_ns || thread.unreadable {
            return Ok(());
        }
        let tasks = self.tasks.as_fd();
        let turns = thread.files.turns(tasks).map_err(|_| Leave::Thread)?;
        if let (Some(wait), Some((_, before))) = (&mut thread.wait, thread.blocked)
            && turns.count != 0
            && turns.count == before.count
        {
            // Who was woken has had no turn yet, and waits for a processor.
            if thread.files.state(tasks) == Ok(State::Running) {
                return Ok(());
            }
            wait.last_seen_ns = now_ns;
            thread.blocked = Some((now_ns, turns));
            self.goes_on(thread, now_ns);
            return Ok(());
        }
        thread.turns = turns;
        thread.rest_until_ns = 0;
        match thread.files.state(tasks) {
            Ok(State::Blocked(blocked)) => self.blocked(thread, &blocked),
            // The counters of a thread that runs are as old as the kernel's last tick: the next look that finds it blocked says when the wait was over.
            Ok(State::Running | State::Elsewhere) => Ok(()),
            Err(Errno::EPERM | Errno::EACCES) => {
                thread.end_wait(self.out);
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
                used: thread.turns.used(),
            });
            self.name(thread, now_ns);
        }
    }

    fn blocked(&mut self, thread: &mut Thread, blocked: &Blocked) -> Result<(), Leave> {
        // Not before it was blocked.
        let now_ns = os::boot_time_ns();
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
            awaits_modules,
        } = self.image.walk(blocked, self.rate.depth_max);
        let generation = self.image.modules_generation();
        if completeness == Completeness::Broken {
            let since = *thread.doubts_since.get_or_insert_with(Instant::now);
            // Modules that are as they were mend nothing: there is no more waiting for them, whichever thread had them read.
            if awaits_modules && thread.doubted != generation && !self.image.is_newer_than(since) {
                return Ok(());
            }
            thread.doubted = generation;
        }
        thread.doubts_since = None;
        let Some(mut python) = self.python_of(thread, blocked, &words) else {
            return Ok(());
        };
        let label = match python.lock {
            Some(_) => INTERPRETER_LOCK.into(),
            None => self.label(blocked),
        };
        let tasks = self.tasks.as_fd();
        let count = thread.turns.count;
        let still = count != 0 && thread.files.turns(tasks).map(|turns| turns.count) == Ok(count);
        // One call may wait many times, as `fsync` does: all of them have this stack.
        if !still && thread.files.state(tasks) != Ok(State::Blocked(*blocked)) {
            // It woke up meanwhile: what was read may be of two moments.
            self.missed.raced += 1;
            return Ok(());
        }
        if !self.image.is_current(blocked.sp) {
            return Err(Leave::Process);
        }
        let half_ns = thread.half_blocked_ns(now_ns, &thread.turns);
        let begin_ns = match (half_ns, thread.blocked) {
            (Some(half_ns), Some((last_ns, _))) => {
                thread.end_wait_at(last_ns.saturating_add(half_ns), self.out);
                now_ns.saturating_sub(half_ns)
            }
            _ => {
                thread.end_wait(self.out);
                now_ns
            }
        };
        thread.blocked = Some((now_ns, thread.turns));
        self.name(thread, now_ns);
        let mut modules = Vec::new();
        self.image.new_modules(&words, now_ns, &mut modules);
        self.out.extend(modules.into_iter().map(WaitRecord::Module));
        if let Some(known) = &mut self.python {
            known.record(&mut python, now_ns, self.out);
        }
        // What is stopped within a handler of ours is not ours.
        let is_own =
            blocked.call.is_some() && words.first().is_some_and(|word| self.image.is_agent(*word));
        self.out.push(WaitRecord::Begin {
            tid: thread.tid,
            time_ns: begin_ns,
            seen_ns: now_ns,
            used: thread.turns.used(),
            wait: Arc::new(Wait {
                label,
                words,
                completeness,
                python: python.wait,
                lock: python.lock,
                is_own,
            }),
        });
        thread.wait = Some(Current {
            blocked: *blocked,
            begin_ns,
            last_seen_ns: now_ns,
            recorded_ns: now_ns,
        });
        Ok(())
    }

    /// What there is of Python in a thread with this native stack; `None` when another look has to
    /// find out.
    fn python_of(
        &mut self,
        thread: &mut Thread,
        blocked: &Blocked,
        words: &[u64],
    ) -> Option<PythonLook> {
        let Some(python) = &mut self.python else {
            return Some(PythonLook::default());
        };
        python.look(self.image, words, thread.tid, blocked, &mut thread.python)
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
