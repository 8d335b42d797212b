//! Sums of a row: times, and what of them has figures.

use std::collections::{BTreeMap, BTreeSet};

/// Sums. Times are nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    /// Calls of operators; operations where no operator is known.
    pub(super) calls: u64,
    pub(super) operations: u64,
    /// What of the GPU's busy time is this row's.
    pub(super) busy_ns: u64,
    /// Durations of all operations, which may run at the same time.
    pub(super) ran_ns: u64,
    /// Floating-point operations, and the durations of what they are known of.
    pub(super) flop: u128,
    pub(super) flop_ns: u64,
    /// Bytes, and the durations of what they are known of.
    pub(super) bytes: u128,
    pub(super) bytes_ns: u64,
    /// The types that matrices are multiplied in.
    pub(super) computed_in: BTreeSet<&'static str>,
    /// The least time for the operations, for the bytes, and for whichever takes longer, as the GPU's peaks have it.
    pub(super) least_compute_ns: f64,
    pub(super) least_memory_ns: f64,
    pub(super) least_ns: f64,
    /// The durations of what these times are known of.
    pub(super) least_of_ns: u64,
    /// Whether the bytes went over a link, not over the GPU's memory.
    pub(super) is_of_link: bool,
    /// Whether they went over the GPU's memory.
    pub(super) is_of_memory: bool,
    /// What could be given back of the busy time: at the target, and at the peak.
    pub(super) back_ns: f64,
    pub(super) back_at_peak_ns: f64,
    /// Why there are no figures, with the busy time that lacks them.
    pub(super) reasons: BTreeMap<String, u64>,
}

impl Figures {
    /// The share of the roofline that was reached, 1 being all of it.
    pub(super) fn share(&self) -> Option<f64> {
        (self.least_of_ns > 0 && self.least_ns > 0.0)
            .then(|| self.least_ns / self.least_of_ns as f64)
    }

    /// 10¹² operations for each second.
    pub(super) fn tflops(&self) -> Option<f64> {
        (self.flop > 0 && self.flop_ns > 0).then(|| self.flop as f64 / self.flop_ns as f64 / 1e3)
    }

    /// Bytes for each second.
    pub(super) fn bytes_per_s(&self) -> Option<f64> {
        (self.bytes > 0 && self.bytes_ns > 0)
            .then(|| self.bytes as f64 / self.bytes_ns as f64 * 1e9)
    }

    /// Operations for each byte, where both are known of the same.
    pub(super) fn intensity(&self) -> Option<f64> {
        (self.flop > 0 && self.bytes > 0 && self.flop_ns == self.bytes_ns)
            .then(|| self.flop as f64 / self.bytes as f64)
    }

    /// The types that matrices are multiplied in, if they are.
    pub(super) fn computed_in(&self) -> Option<String> {
        let names: Vec<&str> = self.computed_in.iter().copied().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// What the least time goes to.
    pub(super) fn bound(&self) -> Option<&'static str> {
        self.share()?;
        Some(match self.least_compute_ns > self.least_memory_ns {
            true => "compute",
            false if self.is_of_link && self.is_of_memory => "memory and link",
            false if self.is_of_link => "link",
            false => "memory",
        })
    }

    /// The reason that most of the time without figures has, with its part of the busy time where the rest has figures.
    pub(super) fn why(&self) -> Option<String> {
        let without_ns: u64 = self.reasons.values().sum();
        let reason = self.reason()?;
        Some(match self.flop_ns.max(self.bytes_ns) {
            // Operations without a share of the roofline.
            known_ns if known_ns < self.ran_ns && known_ns > 0 => {
                let percent = 100.0 * without_ns as f64 / self.busy_ns.max(1) as f64;
                format!("for {percent:.1} % of the busy time: {reason}")
            }
            _ => reason.to_owned(),
        })
    }

    /// The reason that most of the time without figures has.
    pub(super) fn reason(&self) -> Option<&str> {
        let most = self.reasons.iter().max_by(|one, other| {
            // Of equal times the first by name.
            one.1.cmp(other.1).then_with(|| other.0.cmp(one.0))
        });
        most.map(|(reason, _)| reason.as_str())
    }

    /// Adds the sums of others.
    pub(super) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.operations += other.operations;
        self.busy_ns += other.busy_ns;
        self.ran_ns = self.ran_ns.saturating_add(other.ran_ns);
        self.flop = self.flop.saturating_add(other.flop);
        self.flop_ns = self.flop_ns.saturating_add(other.flop_ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.bytes_ns = self.bytes_ns.saturating_add(other.bytes_ns);
        self.computed_in.extend(&other.computed_in);
        self.least_compute_ns += other.least_compute_ns;
        self.least_memory_ns += other.least_memory_ns;
        self.least_ns += other.least_ns;
        self.least_of_ns = self.least_of_ns.saturating_add(other.least_of_ns);
        self.is_of_link |= other.is_of_link;
        self.is_of_memory |= other.is_of_memory;
        self.back_ns += other.back_ns;
        self.back_at_peak_ns += other.back_at_peak_ns;
        for (reason, time_ns) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += time_ns;
        }
    }

    /// What of the busy time could be given back at a share of the roofline. Only the part of the duration that is this row's own counts.
    pub(super) fn back_at(&self, share: f64) -> f64 {
        if self.ran_ns == 0 || self.least_ns <= 0.0 || share <= 0.0 {
            return 0.0;
        }
        let left_ns = (self.least_of_ns as f64 - self.least_ns / share).max(0.0);
        left_ns * (self.busy_ns as f64 / self.ran_ns as f64)
    }
}
