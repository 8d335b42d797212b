//! `struct perf_event_attr`, made in one place for all who ask the kernel for an event from outside of the target.

use super::kernel::{Event, kind};

/// `struct perf_event_attr` up to PERF_ATTR_SIZE_VER5 (Linux 4.1), from include/uapi/linux/perf_event.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_interrupt: u64,
    aux_watermark: u32,
    sample_max_stack: u32,
}

const _: () = assert!(size_of::<Attributes>() == 112);

/// Bits of `flags`.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCK: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;

/// PERF_COUNT_SW_DUMMY.
const DUMMY: u64 = 9;
/// PERF_SAMPLE_TID and PERF_SAMPLE_TIME.
const SAMPLE_TID_TIME: u64 = 1 << 1 | 1 << 2;

impl Attributes {
    /// An event that counts, once it is enabled.
    #[must_use]
    pub fn counting(event: &Event) -> Self {
        let mut flags = DISABLED;
        if event.user_only {
            flags |= EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        }
        Self {
            kind: event.kind,
            // What every kernel with these fields takes (PERF_ATTR_SIZE_VER1, Linux 2.6.33).
            size: 72,
            config: event.config[0],
            config1: event.config[1],
            config2: event.config[2],
            flags,
            ..Self::default()
        }
    }

    /// No event, but a record of each context switch of the thread and of its descendants, from their next exec on: with its thread
    /// and time (CLOCK_BOOTTIME), and a wake-up after so many bytes of them.
    #[must_use]
    pub fn context_switches(wakeup_bytes: u32) -> Self {
        Self {
            kind: kind::SOFTWARE,
            size: 112,
            config: DUMMY,
            sample_type: SAMPLE_TID_TIME,
            flags: DISABLED
                | INHERIT
                | EXCLUDE_KERNEL
                | EXCLUDE_HYPERVISOR
                | ENABLE_ON_EXEC
                | WATERMARK
                | SAMPLE_ID_ALL
                | USE_CLOCK
                | CONTEXT_SWITCH,
            wakeup: wakeup_bytes,
            clock: libc::CLOCK_BOOTTIME,
            ..Self::default()
        }
    }
}
