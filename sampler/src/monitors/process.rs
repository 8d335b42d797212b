//! The counters of one process, from its files in /proc.

use std::io;
use std::path::PathBuf;

use super::file::KeptFile;
use super::numbers::{field, numbers};
use super::switches::Switches;
use crate::counters::{Gauge, Reading, Unit};

/// A process that is watched.
#[derive(Debug)]
pub struct Process {
    folder: PathBuf,
    stat: KeptFile,
    status: KeptFile,
    /// Not for everyone to read.
    io: Option<KeptFile>,
    switches: Switches,
    gauges: Gauges,
    scale: Scale,
}

/// What the kernel's units are.
#[derive(Debug, Clone, Copy)]
struct Scale {
    ticks_per_second: f64,
}

impl Scale {
    fn of_this_machine() -> Self {
        let value = |name| nix::unistd::sysconf(name).ok().flatten();
        Self {
            ticks_per_second: value(nix::unistd::SysconfVar::CLK_TCK).unwrap_or(100) as f64,
        }
    }
}

#[derive(Debug)]
struct Gauges {
    resident: Gauge,
    peak: Gauge,
    virtual_memory: Gauge,
    faults: Gauge,
    switches: Gauge,
    user: Gauge,
    system: Gauge,
    read: Gauge,
    written: Gauge,
    threads: Gauge,
}

impl Gauges {
    fn new() -> Self {
        let new = |name, unit, text| Gauge::new(name, unit, None, text);
        let seconds = Unit::Named("sec");
        Self {
            resident: new(
                "CPU Memory Usage (S)",
                Unit::Bytes,
                "Resident memory of the process",
            ),
            peak: new(
                "CPU Peak Memory (S)",
                Unit::Bytes,
                "The most memory that the process had resident",
            ),
            virtual_memory: new(
                "CPU Virtual Memory Usage (S)",
                Unit::Bytes,
                "Address space of the process",
            ),
            faults: new(
                "CPU Page Faults (S)",
                Unit::Count,
                "Page faults of the process since its start, minor and major",
            ),
            switches: new(
                "CPU Context Switches (S)",
                Unit::Count,
                "Context switches of all threads that were seen, voluntary and not",
            ),
            user: new(
                "CPU User Time (S)",
                seconds,
                "CPU time of the process in user mode",
            ),
            system: new(
                "CPU Kernel Time (S)",
                seconds,
                "CPU time of the process in the kernel",
            ),
            read: new(
                "I/O Read (S)",
                Unit::Bytes,
                "Bytes that the process read, from wherever",
            ),
            written: new(
                "I/O Written (S)",
                Unit::Bytes,
                "Bytes that the process wrote, to wherever",
            ),
            threads: new("Threads (S)", Unit::Count, "Threads of the process"),
        }
    }
}

/// The fields of /proc/PID/stat that are used (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stat {
    faults: u64,
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
    virtual_bytes: u64,
}

impl Stat {
    fn parse(text: &[u8]) -> Option<Self> {
        // The name may hold anything, also brackets.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        // A minus would hide in `numbers`; none of the fields that are used is ever negative, and
        // none is split by one.
        let mut words = text.get(end + 2..)?.split(|byte| *byte == b' ');
        let mut next = |skipped: usize| numbers(words.nth(skipped)?).next();
        // From the third field on: state ppid pgrp session tty tpgid flags minflt cminflt majflt
        // ...
        let minor = next(7)?;
        let major = next(1)?;
        let user_ticks = next(1)?;
        let system_ticks = next(0)?;
        let threads = next(4)?;
        let virtual_bytes = next(2)?;
        Some(Self {
            faults: minor + major,
            user_ticks,
            system_ticks,
            threads,
            virtual_bytes,
        })
    }
}

impl Process {
    /// The process with this id, as we see it.
    ///
    /// # Errors
    /// When it is gone or not for us to see.
    pub fn open(pid: u32) -> io::Result<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        Ok(Self {
            stat: KeptFile::open(&folder.join("stat"))?,
            status: KeptFile::open(&folder.join("status"))?,
            io: KeptFile::open(&folder.join("io")).ok(),
            folder,
            switches: Switches::default(),
            gauges: Gauges::new(),
            scale: Scale::of_this_machine(),
        })
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// When it is gone.
    pub fn read(
        &mut self,
        time_ns: u64,
        scratch: &mut [u8],
        out: &mut Vec<Reading>,
    ) -> io::Result<()> {
        let Self { gauges, scale, .. } = self;
        let stat = Stat::parse(self.stat.read(scratch)?).ok_or(io::ErrorKind::InvalidData)?;
        let status = self.status.read(scratch)?;
        let memory = |key| field(status, key).map(|kilobytes| kilobytes as f64 * 1024.0);
        // What has ended and waits for its parent has no memory any more.
        if let (Some(resident), Some(peak)) = (memory("VmRSS:"), memory("VmHWM:")) {
            gauges.resident.set(time_ns, resident, out);
            gauges.peak.set(time_ns, peak, out);
            let bytes = stat.virtual_bytes as f64;
            gauges.virtual_memory.set(time_ns, bytes, out);
        }
        gauges.faults.set(time_ns, stat.faults as f64, out);
        let seconds = |ticks: u64| ticks as f64 / scale.ticks_per_second;
        gauges.user.set(time_ns, seconds(stat.user_ticks), out);
        gauges.system.set(time_ns, seconds(stat.system_ticks), out);
        gauges.threads.set(time_ns, stat.threads as f64, out);
        if let Some(Ok(io)) = self.io.as_ref().map(|file| file.read(scratch)) {
            if let Some(read) = field(io, "rchar:") {
                gauges.read.set(time_ns, read as f64, out);
            }
            if let Some(written) = field(io, "wchar:") {
                gauges.written.set(time_ns, written as f64, out);
            }
        }
        if let Some(switches) = self.switches.read(&self.folder, time_ns, scratch) {
            gauges.switches.set(time_ns, switches as f64, out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitors::file::SCRATCH_BYTES;

    #[test]
    fn a_name_may_hold_anything() {
        let text =
            b"7 (a) (b 9) S 1 7 7 0 -1 4194560 100 5 3 0 11 22 0 0 20 0 4 0 5000 8192 6 1844\n";
        let expected = Stat {
            faults: 103,
            user_ticks: 11,
            system_ticks: 22,
            threads: 4,
            virtual_bytes: 8192,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse(b"7 (a) S 1"), None);
    }

    #[test]
    fn our_own_counters() {
        let mut process = Process::open(std::process::id()).unwrap();
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut out = Vec::new();
        process.read(1, &mut scratch, &mut out).unwrap();
        let value = |name: &str| {
            let mut found = out.iter().filter(|one| one.counter.name == name);
            found.next().unwrap_or_else(|| panic!("no {name}")).value
        };
        assert!(value("CPU Peak Memory (S)") >= value("CPU Memory Usage (S)"));
        assert!(value("CPU Virtual Memory Usage (S)") > value("CPU Memory Usage (S)"));
        assert!(value("Threads (S)") >= 1.0 && value("CPU Page Faults (S)") > 100.0);
        assert!(value("CPU Context Switches (S)") >= 1.0 && value("I/O Read (S)") > 0.0);
    }
}
