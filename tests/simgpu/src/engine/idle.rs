//! How the engine's thread rests when there is nothing to do.
//!
//! Doorbells are plain memory: they must be looked at. Right after some work it looks without pause, later ever more
//! seldom, so that an idle GPU costs next to nothing.

use std::time::Duration;

/// For so long after work the thread only yields.
const EAGER_NS: u64 = 30_000;
/// A completion that is nearer than this is waited for without sleeping.
const NEAR_NS: u64 = 70_000;

/// How the engine's thread rests.
#[derive(Debug, Default)]
pub struct Idle {
    last_work_ns: u64,
}

impl Idle {
    /// Notes work.
    pub fn worked(&mut self, now_ns: u64) {
        self.last_work_ns = now_ns;
    }

    /// Rests, at most until `deadline_ns` (the next completion).
    pub fn rest(&self, now_ns: u64, deadline_ns: u64) {
        let left = deadline_ns.saturating_sub(now_ns);
        let nap_ns = match now_ns.saturating_sub(self.last_work_ns) {
            0..EAGER_NS => 0,
            EAGER_NS..2_000_000 => 20_000,
            2_000_000..50_000_000 => 100_000,
            50_000_000..300_000_000 => 1_000_000,
            _ => 2_500_000,
        };
        if nap_ns == 0 || left < NEAR_NS {
            if left > 3_000 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        } else {
            std::thread::park_timeout(Duration::from_nanos(nap_ns.min(left - NEAR_NS / 2)));
        }
    }
}
