//! Which thread of a process is borrowed, and when.
//!
//! Threads are looked at from outside until one is at a place ([`place`]) where it can be: first those that wait in a call that the kernel begins anew
//! by itself, then those that compute, last those whose call we must begin anew, with the time that it has left where it has a limit (`since`).

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::inject::Injection;
use super::stop::{NotStopped, Registers, Stopped};
use super::{Refusal, judge, place};
use crate::os;
use crate::procfs;
use crate::waits::syscalls;
use crate::waits::thread::{State, ThreadFiles};

/// How long a thread is looked for that may be borrowed.
const LOOK_FOR: Duration = Duration::from_secs(10);
/// And if all threads wait with a time limit: as long as the shortest of them, but no longer than this.
const LOOK_FOR_LIMITED: Duration = Duration::from_secs(75);
/// Threads that wait with a time limit are watched so long before the others are looked at again.
const WATCH_FOR: Duration = Duration::from_millis(20);
/// A wait that is over so soon is left alone.
const NEARLY_OVER: Duration = Duration::from_millis(3);

/// A wait that was begun anew with the time that it had left.
#[derive(Debug, Clone, Copy)]
pub(super) struct BegunAnew {
    tid: u32,
    limit: Duration,
    /// CLOCK_MONOTONIC.
    ends_ns: u64,
}

/// A thread that may be worth stopping.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    tid: u32,
    is_blocked: bool,
    /// How often it had been put on a processor, and when its wait is over (CLOCK_MONOTONIC): where it waits with a limit.
    limited: Option<(u64, u64)>,
}

impl Injection {
    /// Finds a thread that may be borrowed, and lets it go on with what `how` makes of where it was. Returns the thread's id.
    pub(super) fn borrow(
        &mut self,
        mut how: impl FnMut(&mut Self, &Registers, Option<u64>) -> Result<Registers, Refusal>,
    ) -> Result<u32, Refusal> {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(500);
        loop {
            for candidate in self.candidates()? {
                let tid = candidate.tid;
                // Whoever is stopped stands until we are on a processor again.
                let _urgent = os::Urgent::begin();
                let Some(stopped) = self.stop(candidate)? else {
                    continue;
                };
                let verdict = place::judge(&stopped, &mut self.image, &mut self.functions);
                if let Err(why) = verdict {
                    self.last_reason = format!("thread {tid} {}", why.0);
                    self.stopped = self.stopped.max(stopped.let_go());
                    continue;
                }
                let back = stopped.continuation();
                match how(self, &back, stopped.call_ends_ns()) {
                    Ok(registers) => {
                        let (asked, left) = (stopped.registers().r10, back.r10);
                        let anew = stopped.call_ends_ns().filter(|_| asked != left);
                        self.begun_anew = anew.map(|ends_ns| BegunAnew {
                            tid,
                            limit: Duration::from_millis(left),
                            ends_ns,
                        });
                        if let Some(stood) = stopped.go_on_with(&registers) {
                            self.stopped = self.stopped.max(stood);
                            return Ok(tid);
                        }
                    }
                    Err(refusal) => {
                        stopped.let_go();
                        return Err(refusal);
                    }
                }
            }
            let shortest = self.limited.first().map(|(limit, _)| *limit + LOOK_FOR);
            let look_for = shortest.map_or(LOOK_FOR, |time| time.min(LOOK_FOR_LIMITED));
            if os::is_asked_to_end() {
                return Err(Refusal::new(
                    "rsys-sample was asked to end before it was attached",
                ));
            }
            if begin.elapsed() > look_for {
                return Err(Refusal::new(format!(
                    "no thread came to a place where it can be borrowed safely: {}; try again while it computes, or start it under rsys-sample",
                    self.last_reason
                )));
            }
            if self.limited.is_empty() {
                // What another process does with its memory and its threads is no event that could be awaited.
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(7));
            } else {
                let tids: Vec<u32> = self.limited.iter().map(|(_, tid)| *tid).collect();
                let tasks = File::open(format!("/proc/{}/task", self.pid));
                let tasks = tasks.map_err(|_| Refusal::new("it has ended"))?;
                self.since.watch(&tasks, &tids, WATCH_FOR);
            }
        }
    }

    /// Threads that may be worth stopping, those first that wait, and those last whose call we must begin anew.
    fn candidates(&mut self) -> Result<Vec<Candidate>, Refusal> {
        /// More are not looked at in one round.
        const MOST: usize = 64;
        let gone = || Refusal::new("it has ended");
        let folder = format!("/proc/{}/task", self.pid);
        let tasks = File::open(&folder).map_err(|_| gone())?;
        let entries = std::fs::read_dir(&folder).map_err(|_| gone())?;
        let tids: Vec<u32> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .take(MOST)
            .collect();
        let (mut waiting, mut running, mut last) = (Vec::new(), Vec::new(), Vec::new());
        self.limited.clear();
        for tid in tids {
            let files = ThreadFiles::new(tasks.as_fd(), tid, false);
            let turns = files
                .as_ref()
                .ok()
                .and_then(|files| files.turns(tasks.as_fd()).ok());
            let state = files.and_then(|files| files.state(tasks.as_fd()));
            match state {
                Ok(State::Blocked(blocked)) => {
                    let limit = blocked.call.as_ref().and_then(place::time_limit);
                    let turns = turns.map_or(0, |turns| turns.count);
                    let limited = limit.and_then(|limit| {
                        let ends_ns = self.ends_ns(tid, turns, limit)?;
                        let left_ns = ends_ns.saturating_sub(os::monotonic_ns());
                        (left_ns > NEARLY_OVER.as_nanos() as u64).then_some((turns, ends_ns))
                    });
                    self.limited.extend(limit.map(|limit| (limit, tid)));
                    let resumable = blocked
                        .call
                        .as_ref()
                        .is_some_and(|call| place::is_resumable(call, |fd| self.descriptor(fd)));
                    if !resumable && limited.is_none() {
                        let call = blocked.call.as_ref();
                        let call = call.map_or_else(
                            || "the kernel".to_owned(),
                            |call| syscalls::label(call, self.pid, &self.image),
                        );
                        self.last_reason = format!(
                            "thread {tid} waits in {call}, which cannot be interrupted without the program seeing it"
                        );
                        continue;
                    }
                    match place::guess(&blocked, &mut self.image, &mut self.functions) {
                        Ok(()) => {
                            let kind = match blocked.call.as_ref().is_some_and(place::is_of_epoll) {
                                true => &mut last,
                                false => &mut waiting,
                            };
                            kind.push(Candidate {
                                tid,
                                is_blocked: true,
                                limited,
                            });
                        }
                        Err(why) => self.last_reason = format!("thread {tid} {}", why.0),
                    }
                }
                Ok(State::Running) => running.push(Candidate {
                    tid,
                    is_blocked: false,
                    limited: None,
                }),
                Ok(State::Elsewhere) | Err(_) => {}
            }
        }
        self.limited.sort_unstable();
        waiting.extend(running);
        waiting.extend(last);
        Ok(waiting)
    }

    /// When the wait of a thread is over that has been put on a processor `turns` times, if that is known.
    fn ends_ns(&self, tid: u32, turns: u64, limit: Duration) -> Option<u64> {
        let anew = self
            .begun_anew
            .filter(|wait| wait.tid == tid && wait.limit == limit && turns > 0);
        match anew {
            Some(wait) => Some(wait.ends_ns),
            None => {
                let begun_ns = self.since.begun_ns(tid, turns)?;
                Some(begun_ns.saturating_add(limit.as_nanos() as u64))
            }
        }
    }

    /// Stops a thread; `None` when that did not come about.
    fn stop(&mut self, candidate: Candidate) -> Result<Option<Stopped>, Refusal> {
        let Candidate {
            tid,
            is_blocked,
            limited,
        } = candidate;
        let task = format!("{}/task/{tid}", self.pid);
        let blocked_before = match limited {
            Some(_) => procfs::times_blocked(&task),
            None => None,
        };
        // It is still the wait that was seen to begin.
        if limited.is_some_and(|(turns, _)| procfs::turns(&task) != Some(turns)) {
            return Ok(None);
        }
        let state = procfs::state_and_ticks(&format!("{}/task/{tid}", self.pid));
        let expected = if is_blocked { ['S', 'S'] } else { ['R', 'S'] };
        if !state.is_some_and(|(state, _)| expected.contains(&state)) {
            return Ok(None);
        }
        if is_blocked || self.is_still_running(tid) {
            return match Stopped::stop(self.pid, tid) {
                Ok(mut stopped) => {
                    let Some((_, ends_ns)) = limited else {
                        return Ok(Some(stopped));
                    };
                    // It left the processor once more, when it stopped. If more often, it has begun another wait, which has all its time.
                    let blocked = procfs::times_blocked(&task);
                    if blocked.is_some() && blocked == blocked_before.map(|times| times + 1) {
                        stopped.call_ends(ends_ns);
                        return Ok(Some(stopped));
                    }
                    self.stopped = self.stopped.max(stopped.let_go());
                    Ok(None)
                }
                Err(NotStopped::Gone | NotStopped::Again | NotStopped::Busy) => Ok(None),
                Err(NotStopped::ByOthers) => Err(Refusal::new(format!(
                    "it is stopped by a signal; let it go on with kill -CONT {}",
                    self.pid
                ))),
                Err(NotStopped::Forbidden(error)) => Err(judge::forbidden(self.pid, error)),
            };
        }
        Ok(None)
    }

    fn is_still_running(&self, tid: u32) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/task/{tid}/syscall", self.pid));
        text.is_ok_and(|text| text.starts_with("running"))
    }

    fn descriptor(&self, number: u64) -> String {
        let link = std::fs::read_link(format!("/proc/{}/fd/{}", self.pid, number as u32));
        link.map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_default()
    }
}
