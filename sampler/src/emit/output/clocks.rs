//! What a trace says of the machine's clocks, and of the machine.

use std::sync::OnceLock;

use nix::time::ClockId;
use rsys_proto::ClockReadings;
use rsys_proto::schema::{SystemInfo, Utsname};

use crate::os;

/// What the machine's clocks show now.
pub(super) fn clock_readings() -> ClockReadings {
    ClockReadings {
        boottime_ns: os::boot_time_ns(),
        monotonic_ns: os::clock_ns(ClockId::CLOCK_MONOTONIC),
        realtime_ns: os::clock_ns(ClockId::CLOCK_REALTIME),
        monotonic_raw_ns: os::clock_ns(ClockId::CLOCK_MONOTONIC_RAW),
    }
}

/// The machine, whose name is `host`. The kernel is asked once: for the number of processors alone it reads five files.
pub(super) fn system_info(host: &str) -> SystemInfo {
    static MACHINE: OnceLock<SystemInfo> = OnceLock::new();
    SystemInfo {
        machine_name: (!host.is_empty()).then(|| host.to_owned()),
        ..MACHINE.get_or_init(nameless_machine).clone()
    }
}

fn nameless_machine() -> SystemInfo {
    let text = |value: &std::ffi::OsStr| Some(value.to_string_lossy().into_owned());
    let utsname = nix::sys::utsname::uname().ok().map(|name| Utsname {
        sysname: text(name.sysname()),
        version: text(name.version()),
        release: text(name.release()),
        machine: text(name.machine()),
    });
    SystemInfo {
        utsname,
        num_cpus: std::thread::available_parallelism()
            .ok()
            .map(|count| count.get() as u32),
        ..SystemInfo::default()
    }
}
