//! The processes of a session, from their first datagram to their end.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rsys_wire::handshake::HelloKind;
use rsys_wire::record::{Kind, Record, Records};

use super::adopt::{self, Adoption};
use super::sweep::Rings;
use crate::attach::Masks;
use crate::emit::account::End;
use crate::emit::batch::RingWords;
use crate::emit::writer::Writer;
use crate::identity::Identity;
use crate::launch::ending::Ending;
use crate::monitors::Monitors;
use crate::offcpu::{self, OffCpuInterval};
use crate::os;
use crate::procfs;
use crate::session::ProcessKey;
use crate::session::{Arrival, ExitWatch};
use crate::waits::Waits;
use crate::waits::exact::{ExactWaits, OffTime};
use crate::windows::Schedule;

/// A program in a process.
#[derive(Debug)]
struct Live {
    key: ProcessKey,
    /// As we see it; 0 when we do not.
    host_pid: u32,
    /// As it sees itself.
    pid: u32,
    instance: u64,
    exit_watch: ExitWatch,
    rings: Rings,
    adoption: Adoption,
    /// Which thread has which ring.
    ring_threads: HashMap<u32, u32>,
    waits: ExactWaits,
    /// It may have threads that have begun or ended since they were looked for, and when that was: CLOCK_BOOTTIME.
    threads_changed: bool,
    threads_known_ns: u64,
    /// The writer knows that records of its context switches are missing.
    lacks_switches: bool,
}

/// What a pass found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pass {
    /// How full the fullest ring was: 0 to 1.
    pub fullest: f64,
}

/// A process that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exited {
    key: ProcessKey,
    end: End,
}

/// How often threads that no agent tells of are looked for.
const THREADS_ARE_LOOKED_FOR_NS: u64 = 1_000_000_000;

/// The processes of a session.
#[derive(Debug)]
pub struct Collector {
    writer: Writer,
    processes: Vec<Live>,
    next_key: ProcessKey,
    /// Our child, and how it ended.
    child: Option<(u32, Option<Ending>)>,
    known: u64,
    waits: Option<Waits>,
    monitors: Option<Monitors>,
    off_cpu: Option<offcpu::Watch>,
    /// Waits that no look hit are shown one by one from this length on.
    shortest_wait_ns: u64,
    /// When samples are wanted.
    schedule: Schedule,
    /// The process that runs without us, if that is the target: its agent finds threads by itself.
    attached: Option<(u32, Masks, Instant)>,
}

impl Collector {
    /// A collector that hands everything to `writer`; with `waits`, also what is seen of blocked
    /// threads, with `monitors` what is read from outside.
    #[must_use]
    pub fn new(
        writer: Writer,
        waits: Option<Waits>,
        monitors: Option<Monitors>,
        off_cpu: Option<offcpu::Watch>,
    ) -> Self {
        Self {
            writer,
            waits,
            monitors,
            off_cpu,
            shortest_wait_ns: 0,
            processes: Vec::new(),
            next_key: 0,
            child: None,
            known: 0,
            schedule: Schedule::ALWAYS,
            attached: None,
        }
    }

    /// Waits that no look hit are shown one by one from this length on, in nanoseconds.
    pub fn set_shortest_wait(&mut self, shortest_wait_ns: u64) {
        self.shortest_wait_ns = shortest_wait_ns;
    }

    /// Outside of these windows the agents take no samples.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Time to the end of this or the next window that samples are taken in; `None` if there is
    /// none.
    #[must_use]
    pub fn window_ends_in(&self) -> Option<Duration> {
        if self.schedule.is_always() {
            return None;
        }
        let now_ns = os::boot_time_ns();
        let (_, end_ns) = self.schedule.next_window(now_ns)?;
        Some(Duration::from_nanos(end_ns.saturating_sub(now_ns)))
    }

    /// Whether blocked threads are looked at.
    #[must_use]
    pub fn watches_waits(&self) -> bool {
        self.waits.is_some()
    }

    /// The process `pid` is our child: its end is known once [`Collector::child_ended`] was called.
    pub fn set_child(&mut self, pid: u32) {
        self.child = Some((pid, None));
    }

    /// The process `pid` runs without us.
    pub fn set_attached(&mut self, pid: u32) {
        let mut masks = Masks::of(pid);
        masks.open();
        self.attached = Some((pid, masks, Instant::now()));
    }

    /// Tells all agents to stop recording. What they recorded before can still be taken.
    pub fn dismiss(&mut self) {
        if let Some((_, masks, _)) = &mut self.attached {
            masks.close();
        }
        for process in &self.processes {
            if let Some(first) = process.rings.first() {
                first.dismiss();
            }
        }
    }

    /// Our child ended.
    pub fn child_ended(&mut self, ending: Ending) {
        if let Some((_, known)) = &mut self.child {
            *known = Some(ending);
        }
    }

    /// Number of processes that live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.processes.len()
    }

    /// Number of programs that were seen so far.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Descriptors that become readable when processes end.
    pub fn exit_watches(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processes
            .iter()
            .filter_map(|process| match &process.exit_watch {
                ExitWatch::Watched(descriptor) => Some(descriptor.as_fd()),
                ExitWatch::LookedFor(..) | ExitWatch::Exited | ExitWatch::Unwatched => None,
            })
    }

    /// Takes in what was announced. Says what is wrong with it, if something is.
    ///
    /// # Errors
    /// A segment of an unknown process is refused.
    pub fn arrive(&mut self, arrival: Arrival) -> Result<(), String> {
        let Arrival {
            hello,
            kind,
            pid: host_pid,
            segment,
            exit_watch,
            root,
            folder,
        } = arrival;
        let same = |process: &Live| process.host_pid == host_pid && process.pid == hello.pid;
        match kind {
            // Reported by the receiver.
            HelloKind::Failed | HelloKind::Short | HelloKind::LeftOut => {}
            HelloKind::Segment | HelloKind::Events => {
                let known = self
                    .processes
                    .iter_mut()
                    .find(|process| same(process) && process.instance == hello.instance);
                match known {
                    Some(process) => process.rings.add(segment, kind),
                    None => {
                        return Err(format!(
                            "a segment of an unknown process (pid {})",
                            hello.pid
                        ));
                    }
                }
            }
            HelloKind::Process => {
                // The same process goes on with another program: it executed one, or its id was
                // used again.
                while let Some(at) = self.processes.iter().position(same) {
                    let process = self.processes.swap_remove(at);
                    self.end(process, End::Replaced);
                }
                let mut identity =
                    Identity::read(hello.pid, host_pid, hello.instance, &segment.info());
                identity.root = root;
                identity.folder = folder;
                identity.is_command = self.child.is_some_and(|(pid, _)| pid == host_pid)
                    || self
                        .attached
                        .as_ref()
                        .is_some_and(|(pid, ..)| *pid == host_pid);
                let key = self.next_key;
                self.next_key += 1;
                self.known += 1;
                self.writer.begin(key, identity);
                if let Some(waits) = self.waits.as_ref().filter(|_| host_pid != 0) {
                    waits.begin(key, (host_pid, hello.pid), segment.inode());
                }
                if let Some(monitors) = self.monitors.as_ref().filter(|_| host_pid != 0) {
                    monitors.begin(key, host_pid);
                }
                let mut rings = Rings::default();
                rings.add(segment, kind);
                if !self.schedule.is_always() {
                    rings.want_samples_from(self.schedule.wanted_from(os::boot_time_ns()));
                }
                self.processes.push(Live {
                    key,
                    host_pid,
                    pid: hello.pid,
                    instance: hello.instance,
                    exit_watch,
                    rings,
                    adoption: Adoption::default(),
                    ring_threads: HashMap::new(),
                    // Without looks nothing would ever take what is kept of switches.
                    waits: ExactWaits::new(
                        self.off_cpu.is_some() && self.waits.is_some(),
                        self.shortest_wait_ns,
                    ),
                    threads_changed: true,
                    threads_known_ns: 0,
                    lacks_switches: false,
                });
            }
        }
        Ok(())
    }

    /// Empties the rings of all processes, and ends those that `over` names: what
    /// [`Collector::over`] said before the last arrivals were taken in, so that those processes
    /// have written everything that they ever will, and all their segments are known.
    pub fn pass(&mut self, over: Vec<Exited>) -> Pass {
        let mut pass = Pass::default();
        if !self.schedule.is_always() {
            let from_ns = self.schedule.wanted_from(os::boot_time_ns());
            for process in &self.processes {
                process.rings.want_samples_from(from_ns);
            }
        }
        let heartbeat = self.writer.heartbeat();
        for process in &self.processes {
            process.rings.set_heartbeat(heartbeat);
        }
        let mut looked_at = 0;
        for process in &mut self.processes {
            if !self.writer.has_room() {
                pass.fullest = 1.0;
                break;
            }
            looked_at += 1;
            let swept = process.rings.sweep();
            pass.fullest = pass.fullest.max(swept.fullest);
            if let Some(batch) = swept.batch {
                process.follow_threads(batch.words.iter().chain(&batch.later));
                self.writer.batch(process.key, batch);
            }
            if let Some(waits) = &self.waits {
                let (looks, until_ns) = waits.take(process.key);
                let mut told = Vec::new();
                process.waits.look(looks, until_ns, &mut told);
                self.writer.waits(process.key, told);
            }
        }
        // Whoever found no room is the first the next time: their threads wait for as long as the
        // writer works.
        self.processes.rotate_left(looked_at);
        if let Some(monitors) = &self.monitors {
            self.writer.counters(monitors.take());
        }
        // The kernel's buffers count what finds no room in them. Of those that have ended nothing may be left there.
        if self.writer.has_room() || !over.is_empty() {
            self.collect_switches();
        }
        let of_switches = self.off_cpu.as_ref().map_or(0.0, offcpu::Watch::fullest);
        pass.fullest = pass.fullest.max(of_switches);
        for Exited { key, end } in over {
            if let Some(at) = self.processes.iter().position(|process| process.key == key) {
                let process = self.processes.swap_remove(at);
                self.end(process, end);
            }
        }
        pass
    }

    /// Takes the kernel's records of context switches, and hands on the waits whose lengths they give.
    fn collect_switches(&mut self) {
        let Some(off_cpu) = &mut self.off_cpu else {
            return;
        };
        let key_of = |pid| {
            let mut processes = self.processes.iter();
            let process = processes.find(|process| process.host_pid == pid);
            process.map(|process| process.key)
        };
        let mut seen = off_cpu.collect(key_of);
        if let Some(rings) = off_cpu.thread_rings() {
            let now_ns = os::boot_time_ns();
            for process in self.processes.iter_mut().filter(|one| one.host_pid != 0) {
                let is_due = now_ns - process.threads_known_ns >= THREADS_ARE_LOOKED_FOR_NS;
                if is_due || std::mem::take(&mut process.threads_changed) {
                    process.threads_known_ns = now_ns;
                    offcpu::rings::lock(rings).follow(process.host_pid);
                }
            }
        }
        for process in &mut self.processes {
            let switches = seen.remove(&process.key).unwrap_or_default();
            let mut told = Vec::new();
            process
                .waits
                .switch(off_times(&switches.ended), &switches.begun);
            process.waits.settle(off_cpu.settled_ns(), &mut told);
            if off_cpu.is_stopped() {
                process.waits.by_looks(&mut told);
            }
            if let Some(since_ns) = off_cpu.incomplete_ns()
                && !std::mem::replace(&mut process.lacks_switches, true)
            {
                self.writer.lacks_switches(process.key, since_ns);
            }
            self.writer.waits(process.key, told);
            self.writer.intervals(process.key, switches.ended);
        }
    }

    /// Asks threads that no agent saw to sample themselves.
    pub fn adopt(&mut self) {
        if let Some((_, masks, looked)) = &mut self.attached {
            if looked.elapsed() >= adopt::LOOK_EVERY {
                masks.open();
                *looked = Instant::now();
            }
            return;
        }
        for process in &mut self.processes {
            let visible = process.host_pid != 0 && process.host_pid == process.pid;
            let asks = visible && process.adoption.is_due() && !process.rings.is_dormant();
            if let Some(segment) = process.rings.first().filter(|_| asks) {
                let pid = process.host_pid;
                process
                    .adoption
                    .look(pid, |tid| adopt::ask(pid, tid, segment));
            }
        }
    }

    /// Ends the traces of all processes that still live.
    pub fn abandon(&mut self) {
        self.collect_switches();
        for process in std::mem::take(&mut self.processes) {
            self.end(process, End::StillRunning);
        }
    }

    /// Records of context switches that were lost, if there are any.
    #[must_use]
    pub fn lost_switches(&self) -> Option<u64> {
        let lost = self.off_cpu.as_ref().map_or(0, offcpu::Watch::lost);
        (lost > 0).then_some(lost)
    }

    /// The writer, once nothing more is collected.
    #[must_use]
    pub fn into_writer(self) -> Writer {
        self.writer
    }

    fn end(&mut self, mut process: Live, end: End) {
        while let Some(batch) = process.rings.sweep().batch {
            self.writer.batch(process.key, batch);
            if end == End::StillRunning {
                // It may write faster than we read.
                break;
            }
        }
        let of_process = self.off_cpu.as_mut();
        let ended = of_process.map_or_else(Vec::new, |off_cpu| off_cpu.end(process.host_pid));
        if let Some(waits) = &self.waits {
            let mut told = Vec::new();
            process
                .waits
                .look(waits.end(process.key), u64::MAX, &mut told);
            process.waits.switch(off_times(&ended), &[]);
            process.waits.finish(&mut told);
            self.writer.waits(process.key, told);
        }
        self.writer.intervals(process.key, ended);
        if let Some(monitors) = &self.monitors {
            self.writer.counters(monitors.take());
            monitors.end(process.key);
        }
        self.writer.end(process.key, end, process.rings.counts());
    }

    /// The processes that are over, as far as their end is known.
    #[must_use]
    pub fn over(&self) -> Vec<Exited> {
        let mut descriptors: Vec<PollFd<'_>> = self
            .exit_watches()
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
            .collect();
        let readable = descriptors.is_empty() || poll(&mut descriptors, PollTimeout::ZERO).is_ok();
        let mut polled = descriptors.iter();
        let mut over = Vec::new();
        for process in &self.processes {
            let is_over = match &process.exit_watch {
                ExitWatch::Watched(_) => polled
                    .next()
                    .is_some_and(|one| readable && one.any() == Some(true)),
                ExitWatch::LookedFor(pid, start) => procfs::has_ended(*pid, *start),
                ExitWatch::Exited => true,
                ExitWatch::Unwatched => false,
            };
            if !is_over {
                continue;
            }
            match self.child {
                Some((pid, None)) if pid == process.host_pid => {}
                Some((pid, Some(ending))) if pid == process.host_pid => over.push(Exited {
                    key: process.key,
                    end: End::Child(ending),
                }),
                _ => over.push(Exited {
                    key: process.key,
                    end: End::Process,
                }),
            }
        }
        over
    }
}

impl Live {
    /// Keeps track of which threads have rings.
    fn follow_threads<'a>(&mut self, rings: impl Iterator<Item = &'a RingWords>) {
        for ring in rings {
            // Of a flood of events there is none to look at.
            const KINDS: [Kind; 2] = [Kind::ThreadStart, Kind::ThreadEnd];
            for record in Records::of_kinds(&ring.words, &KINDS) {
                let before = match record {
                    Ok(Record::ThreadStart { tid, .. }) => {
                        self.adoption.started(tid);
                        self.threads_changed = true;
                        self.ring_threads
                            .insert(ring.ring, tid)
                            .filter(|before| *before != tid)
                    }
                    Ok(Record::ThreadEnd { .. }) => self.ring_threads.remove(&ring.ring),
                    _ => None,
                };
                if let Some(before) = before {
                    self.adoption.ended(before);
                }
            }
        }
    }
}

/// The times in which threads were off the processor.
fn off_times(intervals: &[OffCpuInterval]) -> impl Iterator<Item = OffTime> {
    intervals.iter().map(|one| OffTime {
        tid: one.tid,
        begin_ns: one.begin_ns,
        end_ns: one.end_ns,
        preempted: one.preempted,
    })
}
