//! Asking the kernel whether it would count something, and understanding its refusals.
//!
//! [`Machine::probe`] opens an event, disabled, and closes it again: nothing is ever counted. [`Facts`] are what the refusal is
//! explained with.

mod attributes;
mod facts;
mod kernel;
mod reason;

pub use attributes::Attributes;
pub use facts::Facts;
pub use kernel::{Event, Kernel, Scope, Simulated, System, kind, open_event, open_event_of};
pub use reason::{Availability, Reason};

use nix::errno::Errno;

use crate::roots::Roots;

/// The kernel that answers, with the facts that explain its answers.
#[derive(Debug)]
pub struct Machine {
    kernel: Box<dyn Kernel>,
    /// What is known of the machine.
    pub facts: Facts,
}

impl Machine {
    /// The machine that we run on, or the one that a test has put down.
    #[must_use]
    pub fn of(roots: &Roots) -> Self {
        let facts = Facts::read(roots);
        let kernel: Box<dyn Kernel> = if roots.is_simulated() {
            Box::new(Simulated::read(roots))
        } else {
            Box::new(System::new(&facts))
        };
        Self { kernel, facts }
    }

    /// Whether the kernel would count this event for us, else why not.
    #[must_use]
    pub fn probe(&self, event: &Event) -> Availability {
        let whole = self.kernel.open(&Event {
            user_only: false,
            ..*event
        });
        let Err(mut refusal) = whole else {
            return Availability::Yes;
        };
        let mut needs_kernel = event.in_kernel_only();
        let is_permission = matches!(refusal, Errno::EACCES | Errno::EPERM);
        if is_permission && event.scope == Scope::Thread && !needs_kernel {
            let user = Event {
                user_only: true,
                ..*event
            };
            match self.kernel.open(&user) {
                Ok(()) => return Availability::UserOnly,
                Err(Errno::EACCES | Errno::EPERM) => {}
                // Some units cannot tell user mode from kernel mode.
                Err(Errno::EINVAL) => needs_kernel = true,
                // The kernel looks at permissions first: only now does it tell that there is no such event.
                Err(other) => refusal = other,
            }
        }
        Availability::No(Reason::of(refusal, event, needs_kernel, &self.facts))
    }
}
