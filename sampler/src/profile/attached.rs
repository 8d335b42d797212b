//! A run with a process that we did not start.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use rsys_wire::handshake::{AgentSettings, ClockChoice};
use rsys_wire::sources::{EventChoice, SOURCES};

use super::opened::Opened;
use super::start::own_executable;
use super::target::{Change, Target};
use super::watch::Watch;
use super::{Refusal, closing};
use crate::attach::{self, Attached};
use crate::collect::Collector;
use crate::launch::agent::{ENV_AGENT, find_agent};
use crate::launch::ending::Ending;
use crate::os;
use crate::plan::Plan;
use crate::run::SwitchRecords;
use crate::terminal::say;

/// How long the agent may take to give everything back.
const LEAVE_WITHIN: Duration = Duration::from_secs(20);

/// A target that runs without us.
#[derive(Debug)]
pub(super) struct Found {
    pid: u32,
    /// Readable when it has ended.
    end: OwnedFd,
    /// The agent's thread in it that serves us.
    server: u32,
}

impl Target for Found {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.pid.cast_signed())
    }

    fn change(&mut self) -> Change {
        let mut descriptors = [PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::ZERO) {
            // Only its parent is told how it ended.
            Ok(1..) => Change::Ended(Ending::Code(0)),
            _ => Change::Nothing,
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.end.as_fd())
    }

    fn is_sent_our_signals(&self) -> bool {
        false
    }

    fn is_left_alone(&self) -> bool {
        !std::path::Path::new(&format!("/proc/{}/task/{}", self.pid, self.server)).exists()
    }
}

/// Records process `pid` until it ends, the time is over, or somebody asks us to end.
pub(super) fn run(plan: &Plan, pid: u32) -> Result<Ending, Refusal> {
    let refuse = |refusal: attach::Refusal| Refusal::new(format!("pid {pid}: {refusal}"));
    attach::judge(pid).map_err(refuse)?;
    let end = os::pidfd_open(pid)
        .map_err(|error| Refusal::new(format!("pid {pid}: its end cannot be watched: {error}")))?;
    if plan.run.verbosity >= 0 {
        for complaint in plan.complaints.iter().cloned().chain(left_out(plan)) {
            say(&format!("warning: {complaint}"));
        }
    }
    let plan = &from_the_attach_on(plan);
    let agent = find_agent(&own_executable(), std::env::var_os(ENV_AGENT).as_deref())
        .map_err(Refusal::new)?;
    let now = os::local_time("%F %T").unwrap_or_default();
    let opened = Opened::open(plan, Some(now))?;
    let settings = settings(plan).to_line();
    let attached = attach::attach(pid, &agent, &opened.session, &settings).map_err(|refusal| {
        opened.directory.remove_if_empty();
        refuse(refusal)
    })?;
    say_attached(plan, pid, &attached);
    let target = Box::new(Found {
        pid,
        end,
        server: attached.server,
    });
    let (watch, directory) = opened.watch(plan, target, None, None, Collector::set_attached);
    let ending = closing::serve(watch, plan, &directory, None);
    // No other sampler attaches as long as it is there.
    drop(attached);
    Ok(ending)
}

/// The time that was asked for is that of the process with an agent in it: we leave when it is over, however long the attach took.
fn from_the_attach_on(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if plan.leave_after.is_some() && !plan.run.windows.by_cpu_time {
        let windows = &mut plan.run.windows;
        windows.samples.remove_end();
        windows.waits.remove_end();
        windows.events.remove_end();
        windows.monitors.remove_end();
    }
    plan
}

fn say_attached(plan: &Plan, pid: u32, attached: &Attached) {
    if plan.run.verbosity >= 0 {
        say(&format!("attached to pid {pid} (inside); Ctrl-C detaches"));
    }
    if plan.run.verbosity >= 1 {
        say(&format!(
            "it took {:.1} ms; a thread of the process stood for {:.2} ms at most",
            attached.took.as_secs_f64() * 1e3,
            attached.stopped.as_secs_f64() * 1e3,
        ));
    }
}

/// What the agent is to do: as in a program that we start, but for what must begin with the program.
fn settings(plan: &Plan) -> AgentSettings {
    AgentSettings {
        // perf's signals outlive an exec that we do not see.
        clock: ClockChoice::Timer,
        counters: Default::default(),
        overflow: None,
        late_unless_child_of: 0,
        events: EventChoice::default(),
        ..plan.agent
    }
}

/// What was asked for and cannot be recorded of a process that runs, a line each.
fn left_out(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    let sources = SOURCES
        .iter()
        .filter(|source| plan.agent.events.has(source.category) && source.backend.is_some());
    let mut names: Vec<&str> = sources.filter_map(|source| source.backend).collect();
    names.dedup();
    names.retain(|name| *name != "regions");
    if plan.agent.events.gpu || !names.is_empty() {
        lines.push(format!(
            "not recorded of a process that runs already: {}: their interfaces are taken when the program starts (start it under rsys-sample for these)",
            if names.is_empty() { "GPU operations".to_owned() } else { names.join(", ") }
        ));
    }
    if plan.agent.overflow.is_some() || !plan.run.counted.is_empty() {
        lines.push(
            "events of the processor are not counted in a process that runs already; samples are by CPU time".to_owned(),
        );
    }
    if plan.agent.clock == ClockChoice::Perf {
        lines.push(
            "a process that runs already is sampled by timers, not by perf's clock (--clock perf)"
                .to_owned(),
        );
    }
    if plan.run.switches == SwitchRecords::Wanted {
        lines.push(
            "context switches are not recorded of a process that runs already (--off-cpu): --realtime has its waits".to_owned(),
        );
    }
    lines
}

impl Watch {
    /// Has the agents give everything back, and takes what they recorded last.
    pub(super) fn leave_target(&mut self) {
        let deadline = Instant::now() + LEAVE_WITHIN;
        while !self.target.is_left_alone() && Instant::now() < deadline {
            // Asked to end at once, we may not have taken in yet whom to tell. The end of a single thread of another process is no event before Linux 6.9.
            self.receiver.settle();
            self.collect(Duration::ZERO);
            self.collector.dismiss();
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.target.is_left_alone() {
            say(&format!(
                "warning: pid {} has not given back yet what it had for us; it does as soon as it can",
                self.target.pid()
            ));
        }
        self.collect(Duration::ZERO);
        self.collector.abandon();
    }
}
