//! What a rule is, and what it says.

use std::collections::BTreeMap;

use super::compared::Lost;
use super::facts::{Facts, Gpu, GpuKey, keyed};
use super::owners::Span;
use crate::table::Cell;

/// A finding gives back at least this part of the time of its GPU or run: one in this many.
const WORTH_PART: u64 = 20;
/// And at least this time. Many profiles have a few steps only: in less than [`SHORT_NS`] it is enough to have happened [`OFTEN`] times.
const WORTH_NS: u64 = 100_000_000;
const SHORT_NS: u64 = 1_000_000_000;
pub(super) const OFTEN: u64 = 3;

/// A rule. `docs/advice.md` has a section for each, under its name.
#[derive(Debug)]
pub(super) struct Rule {
    /// Its name in JSON and in the documentation.
    pub(super) name: &'static str,
    /// What is wrong where it finds something.
    pub(super) title: &'static str,
    /// What to try.
    pub(super) remedy: &'static str,
    /// What has to be in the traces.
    pub(super) needs: &'static [Need],
    pub(super) judge: fn(&Facts<'_>) -> Verdict,
}

/// What has to be in the traces for a rule to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Operations of GPUs.
    Gpus,
    /// Calls of HIP or HSA.
    Calls,
    /// Samples of waiting threads.
    WaitSamples,
    /// Waits of threads however they are known: sampled, or recorded as those for locks are.
    Waits,
    /// Sensors of GPUs.
    Sensors,
}

impl Need {
    pub(super) fn is_there(self, facts: &Facts<'_>) -> bool {
        let has_samples = || facts.processes.iter().any(|one| one.has_waits);
        match self {
            Self::Gpus => !facts.gpus.is_empty(),
            Self::Calls => !facts.calls.is_empty(),
            Self::WaitSamples => has_samples(),
            Self::Waits => has_samples() || facts.knows_host_waits(),
            Self::Sensors => !facts.sensors.is_empty(),
        }
    }

    /// What is lacking where it is not there.
    pub(super) fn lack(self) -> Verdict {
        let (what, switch) = match self {
            Self::Gpus => ("operations of GPUs", "-I rocm"),
            Self::Calls => ("calls of the GPU runtimes", "-I rocm"),
            Self::WaitSamples | Self::Waits => ("samples of waiting threads", "--realtime"),
            Self::Sensors => ("sensors of GPUs", "-I rocm-smi"),
        };
        Verdict::Lacks(what, switch)
    }
}

/// What a rule says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Found; nothing if all is well.
    Found(Vec<Finding>),
    /// It cannot say: what the traces lack, and the option by which rsys-sample records that; empty if there is none.
    Lacks(&'static str, &'static str),
}

/// One thing that a rule found.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Finding {
    /// Time that the run would be shorter by at most; `None` if it is not about time.
    pub(super) saves_ns: Option<u64>,
    /// Function and line, or what else says where; empty if unknown.
    pub(super) place: String,
    /// Numbers, under keys that end with their units.
    pub(super) evidence: Vec<(&'static str, Cell)>,
    /// Where to look in the trace.
    pub(super) span: Option<Span>,
    /// How often it has happened, as far as that is known.
    pub(super) times: u64,
    /// The GPUs that it is about, and how much of the idle time of each it may be.
    pub(super) of_gpus: Vec<(GpuKey, u64)>,
}

impl Finding {
    /// How much of what it saves is idle time of its GPU, if it is about that: some findings say it beside what they save.
    fn idle_ns(&self) -> u64 {
        let saves_ns = self.saves_ns.unwrap_or(0);
        let told = self.evidence.iter().find(|(key, _)| *key == "idle_ns");
        match told {
            Some((_, Cell::Count(idle_ns))) => saves_ns.min(*idle_ns),
            _ => saves_ns,
        }
    }

    /// Whether the time is worth a finding.
    pub(super) fn is_worth(&self, whole_ns: u64) -> bool {
        is_worth_of(self.saves_ns.unwrap_or(0), whole_ns, self.times)
    }
}

impl Rule {
    /// The verdict, for which the rule is only asked if there is what it needs.
    pub(super) fn verdict(&self, facts: &Facts<'_>) -> Verdict {
        let mut needs = self.needs.iter();
        let lacking = needs.find(|need| !need.is_there(facts));
        lacking.map_or_else(|| (self.judge)(facts), |need| need.lack())
    }
}

/// Whether a time is worth a finding, beside the time that it is a part of.
pub(super) fn is_worth(saves_ns: u64, whole_ns: u64) -> bool {
    is_worth_of(saves_ns, whole_ns, 0)
}

/// Whether [`OFTEN`] times are enough in a profile of this length.
pub(super) fn is_often(whole_ns: u64, times: u64) -> bool {
    whole_ns < SHORT_NS && times >= OFTEN
}

/// [`is_worth`] of what has happened this many times.
pub(super) fn is_worth_of(saves_ns: u64, whole_ns: u64, times: u64) -> bool {
    let is_much = saves_ns >= WORTH_NS || saves_ns > 0 && is_often(whole_ns, times);
    is_much && saves_ns.saturating_mul(WORTH_PART) >= whole_ns
}

/// What is found of each GPU alone. GPUs that were idle for one reason at one place were so at the same time: the most that one of them loses counts, once. The time for
/// which a straggler's GPU is idle, or copies, longer than others has a finding of its own, and does not count again: not at its place, and elsewhere what it has not lost there.
/// No process is done before the GPU that computes longest for it.
pub(super) fn of_each_gpu<'f>(
    facts: &'f Facts<'_>,
    find: impl Fn(&'f Gpu) -> Vec<Finding>,
) -> Verdict {
    let place = |finding: &Finding| finding.place.clone();
    one_of_each(facts, place, |gpu| of_one_gpu(facts, gpu, &find))
}

/// The same where places are many and what is found is one thing: one finding.
pub(super) fn of_each_gpu_together<'f>(
    facts: &'f Facts<'_>,
    find: impl Fn(&'f Gpu) -> Vec<Finding>,
) -> Verdict {
    one_of_each(
        facts,
        |_| String::new(),
        |gpu| of_one_gpu(facts, gpu, &find),
    )
}

fn of_one_gpu<'f>(
    facts: &'f Facts<'_>,
    gpu: &'f Gpu,
    find: impl Fn(&'f Gpu) -> Vec<Finding>,
) -> Vec<Finding> {
    let compared = facts.compared.as_ref();
    let reported = facts.reported();
    let lost = compared.map_or_else(Lost::default, |one| reported.lost(gpu, one, &facts.gpus));
    let spare_ns = spare_ns(facts, gpu);
    let mut found = find(gpu);
    for finding in &mut found {
        let left_ns = |ns| lost.left_ns(ns, &finding.place).min(spare_ns);
        finding.saves_ns = finding.saves_ns.map(left_ns);
    }
    found
}

/// The time in which no GPU of the process of a GPU need compute.
fn spare_ns(facts: &Facts<'_>, gpu: &Gpu) -> u64 {
    let end_ns = |span: Span| span.start_ns + span.duration_ns;
    let beside = facts.gpus.iter().filter(|other| {
        let spans = (other.span, gpu.span);
        other.owner == gpu.owner
            // In containers, processes of one number run at once.
            && (std::ptr::eq(*other, gpu) || !other.is_beside(gpu))
            && spans.0.start_ns < end_ns(spans.1)
            && spans.1.start_ns < end_ns(spans.0)
    });
    let (mut from_ns, mut until_ns) = (gpu.span.start_ns, end_ns(gpu.span));
    let mut most_ns = 0;
    for other in beside {
        from_ns = from_ns.min(other.span.start_ns);
        until_ns = until_ns.max(end_ns(other.span));
        most_ns = most_ns.max(other.computation_ns);
    }
    (until_ns - from_ns).saturating_sub(most_ns)
}

/// The same of what GPUs are busy with, which no straggler has a part of.
pub(super) fn of_busy_gpus<'f>(
    facts: &'f Facts<'_>,
    find: impl Fn(&'f Gpu) -> Vec<Finding>,
) -> Verdict {
    one_of_each(facts, |finding| finding.place.clone(), find)
}

/// The same of GPUs that lose their time together, wherever that is: one finding.
pub(super) fn of_all_gpus<'f>(
    facts: &'f Facts<'_>,
    find: impl Fn(&'f Gpu) -> Vec<Finding>,
) -> Verdict {
    one_of_each(facts, |_| String::new(), find)
}

/// Of the findings with the same key the one that saves most, with the number of GPUs. What a GPU loses in several recordings, with pauses between them, is lost together.
fn one_of_each<'f>(
    facts: &'f Facts<'_>,
    key: impl Fn(&Finding) -> String,
    find: impl Fn(&'f Gpu) -> Vec<Finding>,
) -> Verdict {
    let mut places: BTreeMap<String, BTreeMap<GpuKey, Finding>> = BTreeMap::new();
    for (recorded, gpu) in keyed(&facts.gpus) {
        let worth = |finding: &Finding| finding.is_worth(gpu.span.duration_ns);
        for mut finding in find(gpu).into_iter().filter(worth) {
            let whole_ns = gpu.span.duration_ns;
            finding.evidence.push(("of_gpu_time_ns", whole_ns.into()));
            finding.evidence.push(("gpu", gpu.number.into()));
            finding.evidence.push(("process", gpu.owner.process.into()));
            let of_gpus = places.entry(key(&finding)).or_default();
            let known = of_gpus.entry(recorded).or_default();
            let together_ns = known.saves_ns.unwrap_or(0) + finding.saves_ns.unwrap_or(0);
            let idle_ns = finding.idle_ns() + known.of_gpus.iter().map(|one| one.1).sum::<u64>();
            if finding.saves_ns > known.saves_ns {
                *known = finding;
            }
            known.saves_ns = Some(together_ns);
            known.of_gpus = vec![(recorded, idle_ns)];
        }
    }
    let findings = places.into_values().filter_map(|of_gpus| {
        let count = of_gpus.len() as u64;
        let all = of_gpus.values().flat_map(|one| one.of_gpus.clone());
        let all: Vec<(GpuKey, u64)> = all.collect();
        // Of equal ones the first.
        let most = of_gpus.into_values().rev();
        let mut finding = most.max_by_key(|one| one.saves_ns)?;
        finding.evidence.push(("gpus", count.into()));
        finding.of_gpus = all;
        Some(finding)
    });
    Verdict::Found(findings.collect())
}

/// One finding, if the time is worth it.
pub(super) fn if_worth(whole_ns: u64, finding: Finding) -> Vec<Finding> {
    match finding.is_worth(whole_ns) {
        true => vec![finding],
        false => Vec::new(),
    }
}
