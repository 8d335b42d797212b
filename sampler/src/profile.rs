//! One run of `rsys-sample`, from the command to its end.
//!
//! The main thread starts the target and then serves everything that can happen: signals, new processes, their ends, and the time to
//! empty the rings. Two threads help: one takes datagrams, one writes traces.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use rsys_machine::perf::{Availability, Event, Machine, Reason};
use rsys_machine::roots::Roots;

use crate::collect::{Collector, Pass};
use crate::emit::outcome::ProcessSummary;
use crate::emit::writer::{Outcome, Writer};
use crate::jobs::record::{JOB_FILE, Task, TaskRecord};
use crate::launch::agent::{ENV_AGENT, find_agent, target_environment};
use crate::launch::command::{self, Verdict};
use crate::launch::directory::OutputDirectory;
use crate::launch::ending::{self, Ending};
use crate::launch::inherited::Inherited;
use crate::launch::signals::Signals;
use crate::launch::spawn;
use crate::monitors::{self, Monitors};
use crate::offcpu;
use crate::os::{self, ChildState};
use crate::plan::Plan;
use crate::session::members::{self, Members};
use crate::session::{Receiver, SessionSocket};
use crate::summary::{self, Circumstances, no_trace};
use crate::terminal::say;
use crate::waits::Waits;

/// Rings are emptied after this time at first.
const FIRST: Duration = Duration::from_millis(25);
/// Then at least this often: what the rings hold is lost if we are killed.
const LONGEST: Duration = Duration::from_millis(100);
/// And at most this often.
const SHORTEST: Duration = Duration::from_millis(5);
/// The fullest ring is to be found this full: every wake takes a processor from the target, and a ring that overflows loses records.
const FILL: f64 = 0.125;

/// A process that was just forked, or is loading its libraries, is given this time to announce itself.
const ANNOUNCE: Duration = Duration::from_millis(500);

/// Why a run did not begin.
#[derive(Debug)]
struct Refusal {
    text: String,
    code: u8,
}

impl Refusal {
    fn new(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: ending::FAILED,
        }
    }
}

/// Runs the plan and returns how to end.
#[must_use]
pub fn profile(plan: Plan) -> Ending {
    match run(plan) {
        Ok(ending) => ending,
        Err(refusal) => {
            say(&format!("error: {}", refusal.text));
            Ending::Code(refusal.code)
        }
    }
}

/// Runs the command in place of us, without profiling it. Returns only when that failed.
#[must_use]
pub fn run_without_profiling(
    command: &[std::ffi::OsString],
    exports: &[(std::ffi::OsString, std::ffi::OsString)],
) -> Ending {
    let inherited = Inherited::take();
    let environment: Vec<_> = std::env::vars_os().chain(exports.iter().cloned()).collect();
    let path = std::env::var_os("PATH");
    let name = command
        .first()
        .map(std::ffi::OsString::as_os_str)
        .unwrap_or_default();
    match command::find(name, path.as_deref()) {
        Err(error) => {
            say(&format!("error: {error}"));
            Ending::Code(error.exit_code())
        }
        Ok(file) => {
            let error = spawn::replace(&file, command, &environment, &inherited);
            say(&format!("error: {error}"));
            Ending::Code(error.exit_code())
        }
    }
}

fn run(plan: Plan) -> Result<Ending, Refusal> {
    let path = std::env::var_os("PATH");
    let name = plan
        .command
        .first()
        .map(std::ffi::OsString::as_os_str)
        .unwrap_or_default();
    let file = command::find(name, path.as_deref()).map_err(|error| Refusal {
        code: error.exit_code(),
        text: error.to_string(),
    })?;
    let verdict = command::judge(&file);
    if let Verdict::Ignored(reason) | Verdict::Refused(reason) = &verdict
        && plan.run.verbosity >= 0
    {
        say(&format!(
            "warning: {reason}: it runs, but cannot be sampled"
        ));
    }
    let unsampled = match verdict {
        Verdict::Refused(_) => {
            return Ok(run_without_profiling(&plan.command, &plan.exports));
        }
        Verdict::Ignored(reason) => Some(reason),
        Verdict::Sampled => None,
    };
    if plan.run.verbosity >= 0 {
        for complaint in &plan.complaints {
            say(&format!("warning: {complaint}"));
        }
    }
    let inherited = Inherited::take();
    let executable = own_executable();
    let agent =
        find_agent(&executable, std::env::var_os(ENV_AGENT).as_deref()).map_err(Refusal::new)?;
    let directory = OutputDirectory::create(&plan.run.layout.directory).map_err(Refusal::new)?;
    let socket = SessionSocket::bind()
        .map_err(|error| Refusal::new(format!("no socket for the agents: {error}")))?;
    let inherited_environment =
        std::env::vars_os().filter(|(name, _)| plan.exports.iter().all(|(key, _)| key != name));
    let environment = target_environment(
        inherited_environment.chain(plan.exports.iter().cloned()),
        &agent,
        socket.name(),
        &plan.agent,
    );
    let session = socket.name().to_owned();
    // Before any thread is made: all of ours block what the target is to get.
    let mut signals = Signals::watch()
        .map_err(|error| Refusal::new(format!("signals cannot be watched: {error}")))?;
    let no_thread = |error| Refusal::new(format!("no thread can be made: {error}"));
    let receiver = Receiver::start(socket).map_err(no_thread)?;
    let writer = Writer::start(plan.run.clone(), plan.resolver.clone()).map_err(no_thread)?;
    if plan.run.verbosity >= 1 {
        say(&format!("traces go to {}", directory.path().display()));
    }
    if plan.run.verbosity >= 2 {
        say(&format!(
            "agent {}: {}",
            agent.display(),
            plan.agent.to_line()
        ));
    }
    let record = begin_record(&plan, &directory);
    let off_cpu = off_cpu(&plan);
    let mask = *signals.original_mask();
    // Behind the target: whoever looks for it takes our first child. Its program begins when the witness is there.
    let call_witness = || signals.call_witness();
    let target = spawn::spawn(
        &file,
        &plan.command,
        &environment,
        &mask,
        &inherited,
        call_witness,
    )
    .map_err(|error| Refusal {
        code: error.exit_code(),
        text: error.to_string(),
    });
    let target = match target {
        Ok(target) => target,
        Err(refusal) => {
            let circumstances = Circumstances::of(&plan.run, unsampled);
            end_record(record, &circumstances, Ending::Code(refusal.code), &[], 0);
            directory.remove_if_empty();
            return Err(refusal);
        }
    };
    let waits = match plan.run.realtime_hz {
        Some(hertz) => Waits::start(hertz, plan.agent.max_depth as usize, plan.run.verbosity < 0)
            .map_err(|error| {
                say(&format!(
                    "warning: waits are not seen: no thread can be made: {error}"
                ))
            })
            .ok(),
        None => None,
    };
    let monitors = monitors(&plan);
    let mut collector = Collector::new(writer, waits, monitors, off_cpu);
    collector.set_child(target.as_raw().unsigned_abs());
    if !plan.run.windows.by_cpu_time {
        collector.set_schedule(plan.run.windows.samples.clone());
    }
    let watch = Watch {
        signals,
        receiver,
        collector,
        target,
        ending: None,
        refusal: None,
        unsampled,
        session,
        last_pass: Instant::now(),
    };
    Ok(watch.serve(&plan, &directory, record))
}

/// Our own file. Without `/proc` it is what we were called by.
fn own_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| {
        let name = std::env::args_os().next().unwrap_or_default();
        let path = command::find(&name, std::env::var_os("PATH").as_deref()).unwrap_or_default();
        path.canonicalize().unwrap_or(path)
    })
}

/// The record of this task, if it is a task of a parallel job.
fn begin_record(plan: &Plan, directory: &OutputDirectory) -> Option<TaskRecord> {
    let place = &plan.place;
    if place.rank.is_none() && place.step.is_none() {
        return None;
    }
    let task = Task {
        place,
        host: &plan.run.host,
        boot_id: &plan.run.boot_id,
        command: &plan.run.keys.command,
    };
    TaskRecord::begin(directory.path(), &task)
        .map_err(|error| warn_of_record(&error))
        .ok()
}

fn end_record(
    record: Option<TaskRecord>,
    circumstances: &Circumstances,
    ending: Ending,
    processes: &[ProcessSummary],
    unborn: u64,
) {
    let no_trace = || no_trace(processes, unborn, circumstances);
    let end = |record: TaskRecord| record.end(ending, processes, unborn, no_trace());
    if let Some(Err(error)) = record.map(end) {
        warn_of_record(&error);
    }
}

fn warn_of_record(error: &std::io::Error) {
    say(&format!(
        "warning: {JOB_FILE} beside the traces is not complete: {error}"
    ));
}

/// Opens the records of context switches, which the target is to inherit.
fn off_cpu(plan: &Plan) -> Option<offcpu::Watch> {
    if !plan.run.off_cpu {
        return None;
    }
    let event = Event {
        user_only: true,
        ..Event::software(DUMMY_EVENT)
    };
    // A filter may end whoever asks: this asks with care.
    let machine = Machine::of(&Roots::of_this_process());
    let reason = match machine.probe(&event) {
        Availability::No(reason) => reason,
        _ => match offcpu::Watch::open(plan.off_cpu_shortest) {
            Ok(watch) => return Some(watch),
            Err(error) => {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
                Reason::of(errno, &event, false, &machine.facts)
            }
        },
    };
    if plan.run.verbosity >= 0 {
        say(&format!(
            "warning: times off the processor are not recorded, only what threads are seen to wait for: {}. {}",
            reason.text(),
            reason.remedy()
        ));
    }
    None
}

/// PERF_COUNT_SW_DUMMY: the event that carries records of context switches.
const DUMMY_EVENT: u64 = 9;

/// Starts the watch over processes, host and GPUs, as far as there is something to watch.
fn monitors(plan: &Plan) -> Option<Monitors> {
    let choice = plan.monitors.as_ref()?;
    let (gpus, complaints) = match &plan.gpus {
        Some(gpus) => monitors::prepare_gpus(&Roots::of_this_process(), gpus),
        None => (None, Vec::new()),
    };
    if plan.run.verbosity >= 0 {
        for complaint in complaints {
            say(&format!("warning: {complaint}"));
        }
    }
    Monitors::start(choice.clone(), gpus, &plan.run)
        .map_err(|error| {
            say(&format!(
                "warning: no counters of processes and host: no thread can be made: {error}"
            ))
        })
        .ok()
}

/// The main loop and what it serves.
struct Watch {
    signals: Signals,
    receiver: Receiver,
    collector: Collector,
    target: Pid,
    ending: Option<Ending>,
    /// Why the first of the refused datagrams was.
    refusal: Option<String>,
    /// Why the command itself cannot be sampled, if that was seen beforehand.
    unsampled: Option<String>,
    /// Name of the session, as the agents know it.
    session: String,
    /// When the rings were emptied last.
    last_pass: Instant,
}

impl Watch {
    fn serve(
        mut self,
        plan: &Plan,
        directory: &OutputDirectory,
        record: Option<TaskRecord>,
    ) -> Ending {
        let ending = self.until_target_ends();
        self.linger(plan.linger);
        if plan.run.verbosity >= 1 {
            say(&format!("the command ended: {ending}"));
        }
        let known = self.collector.known();
        let (refused, unborn) = (self.receiver.refused(), self.receiver.short());
        let refusal = self.refusal.take();
        let failures = self.receiver.failures();
        let left_out = self.receiver.left_out();
        if let Some(lost) = self.collector.lost_switches()
            && plan.run.verbosity >= 0
        {
            say(&format!(
                "warning: the kernel had no room for {lost} records of context switches"
            ));
        }
        let circumstances = Circumstances {
            warned: !left_out.is_empty(),
            ..Circumstances::of(&plan.run, self.unsampled.take())
        };
        let outcome = self.close();
        end_record(record, &circumstances, ending, &outcome.processes, unborn);
        if plan.run.verbosity >= 0 {
            if let Some(reason) = refusal {
                say(&format!(
                    "warning: refused {reason}; more of the kind are only counted"
                ));
            }
            for failure in &failures {
                say(&format!("warning: {failure}"));
            }
            for line in left_out.lines() {
                say(&format!("warning: {line}"));
            }
            let has_output = outcome.processes.iter().any(ProcessSummary::has_output);
            let is_explained = !failures.is_empty() || !left_out.is_empty();
            if is_explained && !has_output {
                say("no trace: see the warnings above");
            } else {
                let verbose = plan.run.verbosity >= 1;
                for line in summary::lines(&outcome.processes, unborn, &circumstances, verbose) {
                    say(&line);
                }
            }
            let hint = summary::gpu_hint(&outcome.processes).filter(|_| plan.hints_at_gpus);
            if let Some(hint) = hint {
                say(&hint);
            }
        }
        if plan.run.verbosity >= 2 {
            let stats = &outcome.resolver;
            say(&format!(
                "{known} programs announced themselves, {refused} datagrams were refused"
            ));
            say(&format!(
                "names: {} addresses found, {} not; {} from earlier runs; {} files opened of {} modules, {} unusable; {:.3} s",
                stats.resolved,
                stats.unresolved,
                stats.disk_hits,
                stats.modules_opened,
                stats.modules,
                stats.modules_unusable,
                stats.busy.as_secs_f64(),
            ));
        }
        directory.remove_if_empty();
        ending
    }

    fn until_target_ends(&mut self) -> Ending {
        let mut interval = FIRST;
        loop {
            self.wait(interval);
            self.signals.read(Some(self.target));
            self.reap();
            interval = self.collect(interval);
            self.collector.adopt();
            if let Some(ending) = self.ending {
                return ending;
            }
        }
    }

    /// Waits for processes that outlive the target. Whoever asks us to end now ends the waiting.
    fn linger(&mut self, linger: Duration) {
        let begin = Instant::now();
        let deadline = begin + linger;
        let mut interval = FIRST;
        loop {
            // Looked for before the arrivals are taken: whoever is not found any more has arrived, or never will.
            let unannounced = self.collector.live() == 0 && {
                let which = if begin.elapsed() < ANNOUNCE {
                    Members::All
                } else {
                    Members::Unborn
                };
                members::any(&self.session, self.target.as_raw().unsigned_abs(), which)
            };
            self.receiver.settle();
            self.take_arrivals();
            if self.collector.live() == 0 && !unannounced {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(interval.min(left));
            if self.signals.read(None).ask_to_end {
                break;
            }
            interval = self.collect(interval);
            self.collector.adopt();
        }
        self.collector.abandon();
    }

    /// Waits until the traces are written. Asked to end, it hurries; asked twice, it leaves: what is written is valid.
    fn close(mut self) -> Outcome {
        let writer = self.collector.into_writer();
        writer.to_foreground();
        let writer = writer.close();
        let mut asked = 0;
        loop {
            let mut descriptors = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(writer.done(), PollFlags::POLLIN),
            ];
            // A failure is an interruption: everything is looked at anyway.
            poll(&mut descriptors, PollTimeout::NONE).ok();
            if descriptors[1].any() == Some(true) {
                break;
            }
            if self.signals.read(None).ask_to_end {
                asked += 1;
                writer.hurry();
            }
            if asked >= 2 {
                return Outcome::default();
            }
        }
        writer.finish()
    }

    /// Sleeps until something happens, or for the given time.
    fn wait(&self, interval: Duration) {
        let mut descriptors = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.receiver.bell(), PollFlags::POLLIN),
        ];
        let lives = self.collector.lives();
        descriptors.extend(
            lives
                .chain(self.signals.witness())
                .map(|life| PollFd::new(life, PollFlags::POLLIN)),
        );
        // The agents are told the end of a window when it is there.
        let interval = match self.collector.window_ends_in() {
            Some(left) => interval.min(left.max(SHORTEST)),
            None => interval,
        };
        let interval = self
            .signals
            .due_in()
            .map_or(interval, |due| interval.min(due));
        // A failure is an interruption: everything is looked at anyway.
        poll(&mut descriptors, timeout(interval)).ok();
    }

    fn collect(&mut self, interval: Duration) -> Duration {
        let over = self.collector.over();
        if !over.is_empty() {
            self.receiver.settle();
        }
        self.take_arrivals();
        let pass = self.collector.pass(over);
        let since_last = self.last_pass.elapsed();
        self.last_pass = Instant::now();
        next_interval(interval, since_last, pass)
    }

    fn take_arrivals(&mut self) {
        for arrival in self.receiver.take() {
            if let Err(reason) = self.collector.arrive(arrival) {
                self.note_refusal(reason);
            }
        }
        if let Some(reason) = self.receiver.first_refusal() {
            self.note_refusal(reason);
        }
    }

    /// Keeps the first reason for the end: the terminal is the target's.
    fn note_refusal(&mut self, reason: String) {
        self.refusal.get_or_insert(reason);
    }

    /// Learns how the target is.
    fn reap(&mut self) {
        while self.ending.is_none() {
            let ending = match os::child_state(self.target.as_raw()) {
                Ok(ChildState::Running) => return,
                Ok(ChildState::Exited(code)) => Ending::Code(code as u8),
                Ok(ChildState::Killed(signal)) => Ending::Signal(signal),
                Ok(ChildState::Stopped) => {
                    self.signals.target_stopped();
                    continue;
                }
                Err(Errno::EINTR) => continue,
                // It cannot be: nobody else waits for our child.
                Err(_) => Ending::Code(ending::FAILED),
            };
            self.ending = Some(ending);
            self.collector.child_ended(ending);
        }
    }
}

/// The time to the next pass, by what this one found after `since_last`.
fn next_interval(interval: Duration, since_last: Duration, pass: Pass) -> Duration {
    // Not much longer at once: rates change.
    let longer = interval * 3 / 2;
    let by_rate = if pass.fullest > 0.0 {
        since_last.as_secs_f64() * FILL / pass.fullest
    } else {
        f64::INFINITY
    };
    Duration::try_from_secs_f64(by_rate)
        .map_or(longer, |by_rate| by_rate.min(longer))
        .clamp(SHORTEST, LONGEST)
}

fn timeout(time: Duration) -> PollTimeout {
    // Rounded up: a poll of 0 ms would spin.
    let milliseconds = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
    PollTimeout::from(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_emptied_as_often_as_they_fill() {
        let ms = Duration::from_millis;
        let next = |interval, since_last, fullest| {
            next_interval(ms(interval), ms(since_last), Pass { fullest })
        };
        assert_eq!(next(40, 40, 0.0), ms(60), "nothing came");
        assert_eq!(next(90, 90, 0.0), LONGEST);
        assert_eq!(next(40, 40, 0.01), ms(60), "little came");
        assert_eq!(next(40, 40, 0.25), ms(20), "twice what it should be");
        assert_eq!(next(40, 10, 0.25), ms(5), "woken before its time");
        assert_eq!(next(100, 100, 1.0), Duration::from_micros(12_500));
        assert_eq!(next(5, 5, 1.0), SHORTEST);
    }
}
