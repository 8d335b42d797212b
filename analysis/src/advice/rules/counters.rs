//! What hardware counters of kernels say. Without them, these rules say nothing: few runs record any.

use std::collections::BTreeMap;

use crate::advice::facts::Facts;
use crate::advice::rule::{Finding, Rule, Verdict};
use crate::table::view::View;

pub(super) const RULES: [Rule; 2] = [
    Rule {
        name: "lds_bank_conflicts",
        title: "a kernel waits for the banks of its shared memory (LDS)",
        remedy: "have neighbouring work-items use neighbouring words: pad rows of arrays in shared memory by one element, or change the order of indices",
        needs: &[],
        judge: lds_bank_conflicts,
    },
    Rule {
        name: "low_l2_hit_rate",
        title: "a kernel of much time finds little of its data in the L2 cache",
        remedy: "work on blocks that fit into the cache, have groups that use the same data run one after the other, and let neighbouring work-items read neighbouring addresses",
        needs: &[],
        judge: low_l2_hit_rate,
    },
];

/// A kernel is worth a look if it has at least one part in this many of the GPUs' time.
const WORTH_PART: u64 = 10;
/// Kernels that read each byte once find about half of it: the rest of a line. Less is rare.
const LOW_HIT_SHARE: f64 = 0.3;

/// The counters of a kernel.
#[derive(Default)]
struct Kernel<'a> {
    /// The time of all kernels of its name.
    total_ns: u64,
    /// Means, by names without the `_sum` that some definitions have at their ends.
    means: BTreeMap<&'a str, f64>,
    /// How many kernels have values.
    counted: u64,
}

fn kernels<'a>(facts: &Facts<'a>) -> BTreeMap<&'a str, Kernel<'a>> {
    let mut kernels: BTreeMap<&str, Kernel<'_>> = BTreeMap::new();
    let counters: &[View<'a>] = &facts.kernel_counters;
    for row in counters {
        let Some(mean) = row.number("mean") else {
            continue;
        };
        let kernel = kernels.entry(row.text("name")).or_default();
        let counter = row.text("counter");
        let name = counter.strip_suffix("_sum").unwrap_or(counter);
        kernel.means.insert(name, mean);
        kernel.counted = kernel.counted.max(row.count("counted"));
    }
    for row in &facts.kernels {
        if let Some(kernel) = kernels.get_mut(row.text("name")) {
            kernel.total_ns = row.count("total_ns");
        }
    }
    kernels
}

impl Kernel<'_> {
    fn mean(&self, counter: &str) -> Option<f64> {
        self.means.get(counter).copied()
    }

    /// The part of one counter in another; `None` where either is not there, or nothing was counted.
    fn share(&self, part: &str, whole: &str) -> Option<f64> {
        let (part, whole) = (self.mean(part)?, self.mean(whole)?);
        (whole > 0.0).then(|| (part / whole).clamp(0.0, 1.0))
    }

    /// A derived counter in percent.
    fn percent(&self, counter: &str) -> Option<f64> {
        Some((self.mean(counter)? / 100.0).clamp(0.0, 1.0))
    }

    /// The part of the kernel's time that conflicts take at most: by ROCm's definition, or by cycles of the LDS.
    fn conflict_share(&self) -> Option<f64> {
        let of_cycles = || self.share("SQ_LDS_BANK_CONFLICT", "SQ_LDS_IDX_ACTIVE");
        self.percent("LDSBankConflict").or_else(of_cycles)
    }

    fn l2_hit_share(&self) -> Option<f64> {
        let of_requests = || {
            let (hits, misses) = (self.mean("TCC_HIT")?, self.mean("TCC_MISS")?);
            (hits + misses > 0.0).then(|| hits / (hits + misses))
        };
        self.percent("L2CacheHit").or_else(of_requests)
    }
}

/// The time of the GPU that was recorded longest.
fn whole_ns(facts: &Facts<'_>) -> u64 {
    let spans = facts.gpus.iter().map(|gpu| gpu.span.duration_ns);
    spans.max().unwrap_or(facts.run_ns)
}

fn lds_bank_conflicts(facts: &Facts<'_>) -> Verdict {
    let found = kernels(facts).into_iter().filter_map(|(name, kernel)| {
        let share = kernel.conflict_share()?;
        Some(Finding {
            saves_ns: Some((kernel.total_ns as f64 * share) as u64),
            place: name.to_owned(),
            evidence: vec![
                ("conflicts_share", share.into()),
                ("kernels_ns", kernel.total_ns.into()),
                ("counted", kernel.counted.into()),
            ],
            times: kernel.counted,
            ..Finding::default()
        })
    });
    let whole_ns = whole_ns(facts);
    let worth = found.filter(|finding| finding.is_worth(whole_ns));
    let most = worth.max_by_key(|finding| finding.saves_ns);
    Verdict::Found(most.into_iter().collect())
}

fn low_l2_hit_rate(facts: &Facts<'_>) -> Verdict {
    let whole_ns = whole_ns(facts);
    let found = kernels(facts).into_iter().filter_map(|(name, kernel)| {
        let share = kernel.l2_hit_share()?;
        let is_worth = kernel.total_ns.saturating_mul(WORTH_PART) >= whole_ns;
        (is_worth && share < LOW_HIT_SHARE).then(|| {
            let finding = Finding {
                saves_ns: None,
                place: name.to_owned(),
                evidence: vec![
                    ("hits_share", share.into()),
                    ("kernels_ns", kernel.total_ns.into()),
                    ("counted", kernel.counted.into()),
                ],
                ..Finding::default()
            };
            (kernel.total_ns, finding)
        })
    });
    let most = found.max_by_key(|(total_ns, _)| *total_ns);
    Verdict::Found(most.into_iter().map(|(_, finding)| finding).collect())
}
