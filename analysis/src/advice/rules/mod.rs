//! The rules, in groups by what they look at.
//!
//! Each cause has one rule. Idle time of a GPU that calls or phases of launches have by `pauses` is theirs; what the host did while a GPU was idle counts
//! only as far as it is more than that.

mod copies;
mod counters;
mod efficiency;
mod host;
mod interpreter;
mod lives;
mod machine;
mod processors;
mod records;
mod several;
mod stuck;
mod submission;

pub(super) use stuck::is_of_hang;

use super::rule::Rule;

/// Rules about what GPUs are busy with: what they find explains no idle time.
const OF_BUSY_GPUS: [&str; 5] = [
    "small_copies",
    "exposed_copies",
    "exposed_comm",
    "message_wait",
    "throttling",
];

/// Whether a rule is about the time in which a GPU is busy.
pub(super) fn is_of_busy_gpu(rule: &Rule) -> bool {
    let mut groups = efficiency::RULES.iter().chain(&counters::RULES);
    OF_BUSY_GPUS.contains(&rule.name) || groups.any(|one| one.name == rule.name)
}

/// All rules.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    let groups: [&'static [Rule]; 12] = [
        &stuck::RULES,
        &host::RULES,
        &submission::RULES,
        &copies::RULES,
        &efficiency::RULES,
        &several::RULES,
        &interpreter::RULES,
        &lives::RULES,
        &processors::RULES,
        &machine::RULES,
        &counters::RULES,
        &records::RULES,
    ];
    groups.into_iter().flatten()
}
