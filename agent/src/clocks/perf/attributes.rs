//! `struct perf_event_attr`: the one place of the agent that makes it.

use rsys_wire::counting::EventCode;

/// `struct perf_event_attr` up to PERF_ATTR_SIZE_VER7 (Linux 5.13), from include/uapi/linux/perf_event.h.
///
/// Not that of `perf-event-open-sys`, which `machine` uses: its bit fields are set in a loop over bytes whose index is checked, and the
/// handler, which sets up the clocks of adopted threads, must not reach a panic (`tests/tests/agent/purity.rs`).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    /// From branch_sample_type to aux_sample_size: not used here.
    unused: [u64; 6],
    /// Comes back in the signal.
    signal_data: u64,
}

const _: () = assert!(size_of::<Attributes>() == 128);
/// PERF_ATTR_SIZE_VER1, which every kernel takes that we run on.
const SMALL: u32 = 72;

const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// remove_on_exec, sigtrap.
const TRAP_FLAGS: u64 = 1 << 36 | 1 << 37;
/// PERF_FORMAT_TOTAL_TIME_ENABLED and _TOTAL_TIME_RUNNING.
const READ_TIMES: u64 = 1 | 1 << 1;
/// PERF_FORMAT_GROUP. The kernel allocates memory for each such read: one event alone is read a quarter faster without.
const READ_GROUP: u64 = 1 << 3;

/// An event and how often it happens between two samples.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The event.
    pub event: EventCode,
    /// So often.
    pub period: u64,
}

impl Clock {
    /// CPU time in user mode, by `cpu-clock`.
    pub fn of_time(period_ns: u64) -> Self {
        const TYPE_SOFTWARE: u32 = 1;
        Clock {
            event: EventCode {
                kind: TYPE_SOFTWARE,
                ..EventCode::default()
            },
            period: period_ns,
        }
    }
}

impl Attributes {
    /// A clock, stopped. It counts user mode only: a signal raised in kernel mode could make a system call return `EINTR`. With
    /// `trap`, samples come as SIGTRAP with that value.
    pub fn clock(clock: &Clock, trap: Option<u64>) -> Self {
        let mut attributes = Self {
            sample_period: clock.period,
            flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            wakeup_events: 1,
            ..Self::of(&clock.event)
        };
        if let Some(value) = trap {
            attributes.size = size_of::<Self>() as u32;
            attributes.flags |= TRAP_FLAGS;
            attributes.signal_data = value;
        }
        attributes
    }

    /// An event that is counted. The first of a group is made stopped, and starts and stops the others.
    pub fn counter(event: &EventCode, is_first: bool, of_several: bool) -> Self {
        let mode = if event.user_only {
            EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
        } else {
            0
        };
        Self {
            read_format: READ_TIMES | if of_several { READ_GROUP } else { 0 },
            flags: mode | if is_first { DISABLED } else { 0 },
            ..Self::of(event)
        }
    }

    fn of(event: &EventCode) -> Self {
        let [config, config1, config2] = event.config;
        Self {
            kind: event.kind,
            size: SMALL,
            config,
            config1,
            config2,
            ..Self::default()
        }
    }
}
