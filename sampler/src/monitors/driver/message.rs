//! What the compute driver says of one event: a line of text.
//!
//! The lines are those of the kernel's `kfd_ioctl.h` (`KFD_EVENT_FMT_…`, since Linux 6.13; older kernels write the same): a kind in hexadecimal, then
//! what belongs to the kind. Places and sizes are in pages.

/// What is asked for when events are opened: a bit for each kind.
pub const WANTED: u64 = bit(MEMORY_FAULT)
    | bit(THROTTLE)
    | bit(RESET_BEGINS)
    | bit(MIGRATION_ENDS)
    | bit(PAGE_FAULT_BEGINS)
    | bit(PAGE_FAULT_ENDS)
    | bit(EVICTION)
    | bit(RESTORE)
    | bit(ALL_PROCESSES);

const MEMORY_FAULT: u32 = 1;
const THROTTLE: u32 = 2;
const RESET_BEGINS: u32 = 3;
const MIGRATION_ENDS: u32 = 6;
const PAGE_FAULT_BEGINS: u32 = 7;
const PAGE_FAULT_ENDS: u32 = 8;
const EVICTION: u32 = 9;
const RESTORE: u32 = 10;
/// Not a kind: events of other processes too, for the superuser alone.
const ALL_PROCESSES: u32 = 64;

/// The kernel's page of the GPU's memory, in bytes.
const PAGE_BYTES: u64 = 4096;

const fn bit(kind: u32) -> u64 {
    1 << (kind - 1)
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The whole GPU: the driver does not say when.
    Gpu(GpuEvent),
    /// One process on the GPU.
    Process {
        /// CLOCK_BOOTTIME.
        time_ns: u64,
        /// The process, as the driver calls it.
        pid: u32,
        /// What happened.
        what: ProcessEvent,
    },
}

/// What happens to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuEvent {
    /// A kernel touched memory that is not there for it.
    MemoryFault,
    /// It is slowed down because it is hot.
    Throttle,
    /// It is about to be reset.
    Reset,
}

/// What happens to a process on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A kernel waits for a page, by its number.
    PageFaultBegins(u64),
    /// It has it.
    PageFaultEnds(u64),
    /// Memory moved.
    Migration {
        /// How much.
        bytes: u64,
        /// From which GPU, by the driver's identifier; 0: the host.
        from: u64,
        /// To which GPU, in the same way.
        to: u64,
    },
    /// Its queues do not run.
    Eviction,
    /// They run again.
    Restore,
}

/// Understands a line; nothing where it is of another kind, or a migration that failed.
#[must_use]
pub fn parse(line: &str) -> Option<Message> {
    let mut words = line.split_ascii_whitespace();
    let kind = u32::from_str_radix(words.next()?, 16).ok()?;
    match kind {
        MEMORY_FAULT => return Some(Message::Gpu(GpuEvent::MemoryFault)),
        THROTTLE => return Some(Message::Gpu(GpuEvent::Throttle)),
        RESET_BEGINS => return Some(Message::Gpu(GpuEvent::Reset)),
        _ => {}
    }
    let time_ns = words.next()?.parse().ok()?;
    let pid = words.next()?.strip_prefix('-')?.parse().ok()?;
    let mut place = || {
        // @PAGE(SIZE OR GPU)
        let (page, more) = words.next()?.strip_prefix('@')?.split_once('(')?;
        Some((hexadecimal(page)?, hexadecimal(more.strip_suffix(')')?)?))
    };
    let what = match kind {
        PAGE_FAULT_BEGINS => ProcessEvent::PageFaultBegins(place()?.0),
        PAGE_FAULT_ENDS => ProcessEvent::PageFaultEnds(place()?.0),
        MIGRATION_ENDS => {
            let pages = place()?.1;
            let (from, to) = words.next()?.split_once("->")?;
            // Why, and since 6.13 with which error.
            if words.nth(1).is_some_and(|error| error != "0") {
                return None;
            }
            ProcessEvent::Migration {
                bytes: pages.saturating_mul(PAGE_BYTES),
                from: hexadecimal(from)?,
                to: hexadecimal(to)?,
            }
        }
        EVICTION => ProcessEvent::Eviction,
        // With an R they do not yet: it is tried again later.
        RESTORE => match words.nth(1) {
            Some("R") => return None,
            _ => ProcessEvent::Restore,
        },
        _ => return None,
    };
    Some(Message::Process { time_ns, pid, what })
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let process = |time_ns, what| {
            Some(Message::Process {
                time_ns,
                pid: 4711,
                what,
            })
        };
        let moved = |bytes, from, to| ProcessEvent::Migration { bytes, from, to };
        for (line, expected) in [
            ("1 1267:train", Some(Message::Gpu(GpuEvent::MemoryFault))),
            ("2 100:3", Some(Message::Gpu(GpuEvent::Throttle))),
            ("3 7 hang", Some(Message::Gpu(GpuEvent::Reset))),
            ("4 7", None),
            ("5 100 -4711 @7f00(200) 0->a1b2 0:0 1", None),
            (
                "6 100 -4711 @7f00(200) 0->a1b2 1",
                process(100, moved(0x20_0000, 0, 0xa1b2)),
            ),
            (
                "6 100 -4711 @7f00(200) a1b2->0 2 0",
                process(100, moved(0x20_0000, 0xa1b2, 0)),
            ),
            ("6 100 -4711 @7f00(200) a1b2->0 2 -12", None),
            (
                "7 5 -4711 @7f00(a1b2) W",
                process(5, ProcessEvent::PageFaultBegins(0x7f00)),
            ),
            (
                "8 9 -4711 @7f00(a1b2) M",
                process(9, ProcessEvent::PageFaultEnds(0x7f00)),
            ),
            ("9 5 -4711 a1b2 2", process(5, ProcessEvent::Eviction)),
            ("a 6 -4711 a1b2  ", process(6, ProcessEvent::Restore)),
            ("a 6 -4711 a1b2 R", None),
            ("b 6 -4711 @7f00(1) a1b2 0", None),
            ("", None),
            ("7 5 4711 @7f00(a1b2) W", None),
            ("7 5 -4711 7f00", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
