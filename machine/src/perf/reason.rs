//! Why the kernel would not count, and what to do about it.

use nix::errno::Errno;

use super::facts::Facts;
use super::kernel::{Event, Scope, kind};

/// Whether something can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// Without limits.
    Yes,
    /// What happens in user mode.
    UserOnly,
    /// Not.
    No(Reason),
}

/// Why something cannot be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The machine shows no counters of the processor.
    NoPmu {
        /// Whether it is a virtual machine.
        virtual_machine: bool,
    },
    /// The processor counts, but not this.
    UnknownToProcessor,
    /// The kernel has no such event.
    UnknownToKernel,
    /// `perf_event_paranoid` is above what it may be.
    Paranoid {
        /// Its value.
        level: i32,
        /// The highest value that permits this event.
        needed: i32,
    },
    /// A seccomp filter stands before the call.
    Seccomp,
    /// Something else forbids it: a security module, lockdown.
    Forbidden,
    /// The kernel was built without perf events.
    NoPerf,
    /// Somebody else has the counters.
    Busy,
    /// Another error.
    Other(Errno),
}

impl Reason {
    /// What a refusal means. `needs_kernel` says that counting user mode alone is impossible or senseless.
    #[must_use]
    pub fn of(refusal: Errno, event: &Event, needs_kernel: bool, facts: &Facts) -> Self {
        match refusal {
            Errno::EACCES => Self::of_permission(event, needs_kernel, facts),
            Errno::EPERM | Errno::ENOSYS if facts.seccomp_filter => Self::Seccomp,
            Errno::EPERM => Self::of_permission(event, needs_kernel, facts),
            Errno::ENOSYS => Self::NoPerf,
            Errno::EBUSY => Self::Busy,
            Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENODEV => match event.kind {
                kind::SOFTWARE | kind::TRACEPOINT => Self::UnknownToKernel,
                _ if facts.core_pmu => Self::UnknownToProcessor,
                _ => Self::NoPmu {
                    virtual_machine: facts.virtual_machine,
                },
            },
            other => Self::Other(other),
        }
    }

    fn of_permission(event: &Event, needs_kernel: bool, facts: &Facts) -> Self {
        // See Documentation/admin-guide/perf-security.rst; 3 and 4 are Debian's and Ubuntu's.
        let needed = match event.scope {
            Scope::Processor(_) => 0,
            Scope::Thread if needs_kernel => 1,
            Scope::Thread => 2,
        };
        match facts.paranoid_level {
            None => Self::NoPerf,
            Some(level) if level > needed && !facts.capable => Self::Paranoid { level, needed },
            Some(_) => Self::Forbidden,
        }
    }

    /// In a few words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::NoPmu {
                virtual_machine: true,
            } => "no PMU in this virtual machine".to_owned(),
            Self::NoPmu { .. } => "no PMU".to_owned(),
            Self::UnknownToProcessor => "not counted by this processor".to_owned(),
            Self::UnknownToKernel => "not counted by this kernel".to_owned(),
            Self::Paranoid { level, .. } => format!("perf_event_paranoid is {level}"),
            Self::Seccomp => "a seccomp filter forbids perf_event_open".to_owned(),
            Self::Forbidden => "a security policy forbids it".to_owned(),
            Self::NoPerf => "this kernel has no perf events".to_owned(),
            Self::Busy => "in use by somebody else".to_owned(),
            Self::Other(errno) => format!("the kernel refuses it ({errno:?})"),
        }
    }

    /// The command that fixes it, where one does.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        match self {
            Self::Paranoid { needed, .. } => {
                Some(format!("sudo sysctl kernel.perf_event_paranoid={needed}"))
            }
            Self::Seccomp => Some("docker run --cap-add PERFMON …".to_owned()),
            Self::Busy => Some("sudo sysctl kernel.nmi_watchdog=0".to_owned()),
            _ => None,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::NoPmu {
                virtual_machine: true,
            } => "Let the host pass its counters on (KVM: '-cpu host,pmu=on'), or run on the bare machine; software events work here."
                .to_owned(),
            Self::NoPmu { .. } => {
                "The kernel found no counters: see 'dmesg | grep -i pmu'. Software events work without them.".to_owned()
            }
            Self::UnknownToProcessor => {
                "Look for a similar one among the events of this processor: rsys-avail -H -A.".to_owned()
            }
            Self::UnknownToKernel => "A newer kernel may have it.".to_owned(),
            Self::Paranoid { needed, .. } => format!(
                "As root: sysctl kernel.perf_event_paranoid={needed}, or give the program the capability CAP_PERFMON."
            ),
            Self::Seccomp => {
                "In a container: add the capability PERFMON (docker run --cap-add PERFMON), or choose a seccomp profile that \
                 permits perf_event_open."
                    .to_owned()
            }
            Self::Forbidden => {
                "Ask who administers this machine: SELinux, AppArmor or kernel lockdown can do that.".to_owned()
            }
            Self::NoPerf => "A kernel with CONFIG_PERF_EVENTS is needed.".to_owned(),
            Self::Busy => "Another profiler runs, or the NMI watchdog: as root, sysctl kernel.nmi_watchdog=0.".to_owned(),
            Self::Other(_) => "Please report this with the name of the event and 'uname -r'.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(level: i32) -> Facts {
        Facts {
            paranoid_level: Some(level),
            ..Facts::default()
        }
    }

    #[test]
    fn refusals_are_understood() {
        let hardware = Event::new(kind::HARDWARE, 0);
        let switches = Event::software(3);
        let uncore = Event {
            scope: Scope::Processor(0),
            ..Event::new(20, 1)
        };
        let filtered = Facts {
            seccomp_filter: true,
            ..facts(2)
        };
        let capable = Facts {
            capable: true,
            ..facts(4)
        };
        let with_pmu = Facts {
            core_pmu: true,
            ..facts(2)
        };
        let virtual_machine = Facts {
            virtual_machine: true,
            ..facts(2)
        };
        let paranoid = |level, needed| Reason::Paranoid { level, needed };
        let cases = [
            (
                Errno::ENOENT,
                hardware,
                &virtual_machine,
                Reason::NoPmu {
                    virtual_machine: true,
                },
            ),
            (
                Errno::ENOENT,
                hardware,
                &facts(2),
                Reason::NoPmu {
                    virtual_machine: false,
                },
            ),
            (
                Errno::ENOENT,
                hardware,
                &with_pmu,
                Reason::UnknownToProcessor,
            ),
            (Errno::ENOENT, switches, &with_pmu, Reason::UnknownToKernel),
            (Errno::EACCES, hardware, &facts(3), paranoid(3, 2)),
            (Errno::EACCES, switches, &facts(2), paranoid(2, 1)),
            (Errno::EACCES, uncore, &facts(2), paranoid(2, 0)),
            (Errno::EACCES, hardware, &facts(1), Reason::Forbidden),
            (Errno::EACCES, hardware, &capable, Reason::Forbidden),
            (Errno::EPERM, hardware, &filtered, Reason::Seccomp),
            (Errno::ENOSYS, hardware, &filtered, Reason::Seccomp),
            (Errno::EPERM, hardware, &facts(4), paranoid(4, 2)),
            (Errno::ENOSYS, hardware, &Facts::default(), Reason::NoPerf),
            (Errno::EBUSY, hardware, &facts(2), Reason::Busy),
            (
                Errno::EINVAL,
                hardware,
                &facts(2),
                Reason::Other(Errno::EINVAL),
            ),
        ];
        for (refusal, event, facts, reason) in cases {
            let found = Reason::of(refusal, &event, event.in_kernel_only(), facts);
            assert_eq!(found, reason, "{refusal} {event:?} {facts:?}");
            assert!(
                !found.text().is_empty() && found.remedy().ends_with(['.', ')']),
                "{found:?}"
            );
        }
    }
}
