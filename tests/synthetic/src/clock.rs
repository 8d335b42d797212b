//! Clocks that are wrong in a known way.

use rsys_proto::ClockReadings;
use serde::Serialize;

/// True time 0 as the wall clock shows it.
const EPOCH_NS: i64 = 1_790_000_000_000_000_000;
/// True time 0 as BOOTTIME of the first host shows it; each host was booted at another time.
const BOOTED_NS: i64 = 5_000_000_000_000;

/// The clock of a host.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct HostClock {
    /// By how many nanoseconds its wall clock is ahead of the truth when the job starts.
    pub wall_error_ns: i64,
    /// By how many nanoseconds in a second both of its clocks gain.
    pub drift_ppb: i64,
}

impl HostClock {
    fn gained(self, true_ns: u64) -> i64 {
        let true_ns = true_ns.cast_signed();
        true_ns + (i128::from(true_ns) * i128::from(self.drift_ppb) / 1_000_000_000) as i64
    }

    /// BOOTTIME of a host.
    pub(crate) fn boottime_ns(self, host: u64, true_ns: u64) -> u64 {
        let booted = BOOTED_NS + 977_000_000_000 * host.cast_signed();
        (booted + self.gained(true_ns)).max(0).cast_unsigned()
    }

    /// All clocks at a moment, as a trace compares them.
    pub(crate) fn readings(self, host: u64, true_ns: u64) -> ClockReadings {
        let boottime_ns = self.boottime_ns(host, true_ns);
        let wall = EPOCH_NS + self.gained(true_ns) + self.wall_error_ns;
        ClockReadings {
            boottime_ns,
            monotonic_ns: boottime_ns - 500_000,
            realtime_ns: wall.max(0).cast_unsigned(),
            monotonic_raw_ns: boottime_ns - 499_000,
        }
    }
}
