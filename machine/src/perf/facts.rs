//! What is known of the machine without asking for an event.

use crate::roots::{Roots, names};

/// Capabilities that permit counting, as bits of `CapEff` (include/uapi/linux/capability.h): CAP_SYS_ADMIN and CAP_PERFMON.
const PERMITTING_CAPABILITIES: u64 = 1 << 21 | 1 << 38;

/// What refusals are explained with.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// `kernel.perf_event_paranoid`; none where the kernel has no perf events.
    pub paranoid_level: Option<i32>,
    /// Whether a seccomp filter is on this process.
    pub seccomp_filter: bool,
    /// Whether this process may count everything.
    pub capable: bool,
    /// Whether the processor's own counters are there.
    pub core_pmu: bool,
    /// Whether this is a virtual machine.
    pub virtual_machine: bool,
    /// The processor's name.
    pub processor: String,
}

impl Facts {
    /// Reads procfs and sysfs.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        let status = roots.text("proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        let processor = roots.text("proc/cpuinfo").unwrap_or_default();
        let first = |name: &str| {
            processor
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))
                .map(str::trim)
        };
        Self {
            paranoid_level: roots
                .text("proc/sys/kernel/perf_event_paranoid")
                .and_then(|text| text.parse().ok()),
            seccomp_filter: field("Seccomp") == Some("2"),
            capable: field("CapEff")
                .and_then(|text| u64::from_str_radix(text, 16).ok())
                .is_some_and(|set| set & PERMITTING_CAPABILITIES != 0),
            core_pmu: names(&roots.path("sys/bus/event_source/devices"))
                .iter()
                .any(|name| is_core_pmu(name)),
            virtual_machine: first("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            processor: first("model name").unwrap_or_default().to_owned(),
        }
    }
}

/// Whether a PMU is that of the processor's cores: `cpu`, `cpu_core` and `cpu_atom` of hybrid processors, `armv8_...`.
pub fn is_core_pmu(name: &str) -> bool {
    matches!(name, "cpu" | "cpu_core" | "cpu_atom") || name.starts_with("armv")
}
