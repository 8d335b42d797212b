//! What every run has before its target is there: the folder of the traces, the socket of the agents, and the threads that take in and write.

use std::time::Instant;

use super::target::Target;
use super::watch::Watch;
use super::{Refusal, observers};
use crate::collect::Collector;
use crate::emit::writer::Writer;
use crate::launch::directory::OutputDirectory;
use crate::launch::signals::Signals;
use crate::offcpu;
use crate::plan::Plan;
use crate::session::presence;
use crate::session::{Receiver, SessionSocket};
use crate::terminal::say;

/// A run that waits for its target.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) directory: OutputDirectory,
    /// The name of the socket.
    pub(super) session: String,
    pub(super) signals: Signals,
    receiver: Receiver,
    writer: Writer,
}

impl Opened {
    /// Opens a run; `attached_at` is the local time where the target runs already.
    ///
    /// # Errors
    /// When the folder cannot be made, or a socket or thread.
    pub(super) fn open(plan: &Plan, attached_at: Option<String>) -> Result<Self, Refusal> {
        let directory = match plan.has_own_folder {
            true => OutputDirectory::create_own(&plan.run.layout.directory),
            false => OutputDirectory::create(&plan.run.layout.directory),
        };
        let directory = directory.map_err(Refusal::new)?;
        let mut run = plan.run.clone();
        run.layout.directory = directory.path().to_path_buf();
        run.attached_at = attached_at;
        let socket = SessionSocket::bind()
            .map_err(|error| Refusal::new(format!("no socket for the agents: {error}")))?;
        let session = socket.name().to_owned();
        // Before any thread is made: all of ours block what the target is to get.
        let signals = Signals::watch()
            .map_err(|error| Refusal::new(format!("signals cannot be watched: {error}")))?;
        let no_thread = |error| Refusal::new(format!("no thread can be made: {error}"));
        presence::begin();
        let receiver = Receiver::start(socket).map_err(no_thread)?;
        let writer = Writer::start(run, plan.resolver.clone()).map_err(no_thread)?;
        if plan.run.verbosity >= 1 {
            say(&format!("traces go to {}", directory.path().display()));
        }
        Ok(Self {
            directory,
            session,
            signals,
            receiver,
            writer,
        })
    }

    /// Watches the target, which is there now; `tell` says to the collector which process it is. Returns the folder of the traces beside it.
    pub(super) fn watch(
        self,
        plan: &Plan,
        target: Box<dyn Target>,
        off_cpu: Option<offcpu::Watch>,
        unsampled: Option<String>,
        tell: impl FnOnce(&mut Collector, u32),
    ) -> (Watch, OutputDirectory) {
        let thread_rings = off_cpu.as_ref().and_then(offcpu::Watch::thread_rings);
        let waits = observers::waits(plan, thread_rings.cloned());
        let monitors = observers::monitors(plan);
        let mut collector = Collector::new(self.writer, waits, monitors, off_cpu);
        collector.set_shortest_wait(plan.run.shortest_off_cpu_ns);
        tell(&mut collector, target.pid().as_raw().unsigned_abs());
        if !plan.run.windows.by_cpu_time {
            collector.set_schedule(plan.run.windows.samples.clone());
        }
        let watch = Watch {
            signals: self.signals,
            receiver: self.receiver,
            collector,
            target,
            ending: None,
            refusal: None,
            unsampled,
            session: self.session,
            last_pass: Instant::now(),
        };
        (watch, self.directory)
    }
}
