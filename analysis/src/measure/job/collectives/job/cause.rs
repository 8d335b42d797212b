//! Why a rank was late: what it did more of than others, in the time before the same collectives.

use std::collections::BTreeMap;

use crate::measure::idle_cause::IdleCause;
use crate::measure::job::collectives::read::activity::{
    COMM, COMPUTE, COPY, Copied, IDLE, RankActivity,
};

/// A clock below this part of the others' is the cause of longer kernels.
const SLOW_CLOCK: f64 = 0.95;
/// So much of what is to be explained has to be explained by a cause.
const ENOUGH: f64 = 0.3;
/// What is told beside a larger cause is at least this part of all.
const TOLD: f64 = 0.1;

/// Its kernels took longer, and nothing says why.
pub(crate) const LONGER_KERNELS: &str = "longer_kernels";
/// A copy below this part of the bandwidth of the others' is slow.
const SLOW_COPY: f64 = 0.8;

/// Why a rank was late.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cause {
    /// One word for programs: `longer_kernels`, `more_kernels`, `slow_clock`, `copies`, `other_collectives`, `host_code`, `host_wait`, `runtime_call`,
    /// `host_runnable`, `queued`, `off_processor`, `unknown`.
    pub(crate) key: &'static str,
    /// The kernel, or the place in the program; of copies the line that ordered them, or their direction.
    pub(crate) place: Option<String>,
    /// How much of the lateness that is, in nanoseconds of all late arrivals that were examined.
    pub(crate) explained_ns: u64,
    /// In words.
    pub(crate) words: String,
}

/// What a rank had more of than the others, on average: the largest entry, and how much more.
fn largest(
    own: &BTreeMap<String, u64>,
    others: &[&BTreeMap<String, u64>],
) -> Option<(String, f64)> {
    let count = others.len().max(1) as f64;
    let more = own.iter().map(|(name, &sum_ns)| {
        let theirs: u64 = others.iter().filter_map(|other| other.get(name)).sum();
        (name, sum_ns as f64 - theirs as f64 / count)
    });
    let more = more.filter(|(_, more)| *more > 0.0);
    // Of equal ones the first by name.
    let found = more.reduce(|best, one| if one.1 > best.1 { one } else { best })?;
    Some((found.0.clone(), found.1))
}

fn sum(list: &BTreeMap<String, u64>) -> f64 {
    list.values().sum::<u64>() as f64
}

/// The rank's excess of a number over the mean of the others.
fn excess(own: &RankActivity, others: &[RankActivity], of: impl Fn(&RankActivity) -> f64) -> f64 {
    of(own) - mean(others, of)
}

fn mean(others: &[RankActivity], of: impl Fn(&RankActivity) -> f64) -> f64 {
    others.iter().map(of).sum::<f64>() / others.len().max(1) as f64
}

/// A duration in words.
pub(crate) fn duration_text(ns: f64) -> String {
    match ns {
        1e9.. => format!("{:.2} s", ns / 1e9),
        1e6.. => format!("{:.2} ms", ns / 1e6),
        1e3.. => format!("{:.1} \u{b5}s", ns / 1e3),
        _ => format!("{:.0} ns", ns.max(0.0)),
    }
}

/// How many late arrivals are examined; 0: all of the time at once.
#[derive(Debug, Clone, Copy)]
struct Each(u64);

impl Each {
    /// A sum over them, for one of them.
    fn text(self, sum_ns: f64) -> String {
        duration_text(sum_ns / self.0.max(1) as f64)
    }
}

impl std::fmt::Display for Each {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0 == 0 { "" } else { " each time" })
    }
}

/// Finds the cause. `arrivals` late arrivals were examined, `others` are ranks that were not late.
pub(crate) fn find_cause(own: &RankActivity, others: &[RankActivity], arrivals: u64) -> Cause {
    let late_ns = excess(own, others, |one| one.windows_ns as f64);
    let each = Each(arrivals);
    let unknown = || Cause {
        key: "unknown",
        words: "nothing in the traces tells why".to_owned(),
        ..Cause::default()
    };
    if others.is_empty() || late_ns <= 0.0 {
        return unknown();
    }
    let of_gpu = |class: usize| excess(own, others, |one| one.gpu[class] as f64);
    let classes = [COMPUTE, COMM, COPY, IDLE].map(|class| (class, of_gpu(class)));
    let Some(&(class, more_ns)) = classes
        .iter()
        .max_by(|one, other| one.1.total_cmp(&other.1))
    else {
        return unknown();
    };
    let mut found = match class {
        COMPUTE => kernels(own, others, more_ns, each),
        COPY => copies(own, others, more_ns, each),
        COMM => Cause {
            key: "other_collectives",
            words: format!(
                "its GPU was in other collectives {} longer{each}",
                each.text(more_ns)
            ),
            ..Cause::default()
        },
        _ => host(own, others, more_ns, each),
    };
    if more_ns < ENOUGH * late_ns {
        return unknown();
    }
    found.explained_ns = more_ns.min(late_ns) as u64;
    found
}

/// Its GPU computed longer.
fn kernels(own: &RankActivity, others: &[RankActivity], more_ns: f64, each: Each) -> Cause {
    let times = |one: &RankActivity| -> BTreeMap<String, u64> {
        let kernels = one.kernels.iter();
        kernels
            .map(|(name, kernel)| (name.clone(), kernel.1))
            .collect()
    };
    let theirs: Vec<_> = others.iter().map(times).collect();
    let name = largest(&times(own), &theirs.iter().collect::<Vec<_>>()).map(|found| found.0);
    let count =
        |one: &RankActivity| -> f64 { one.kernels.values().map(|kernel| kernel.0 as f64).sum() };
    let length = |one: &RankActivity| -> f64 {
        let sum_ns: u64 = one.kernels.values().map(|kernel| kernel.1).sum();
        sum_ns as f64 / count(one).max(1.0)
    };
    let (counts, lengths) = (
        count(own) / mean(others, count),
        length(own) / mean(others, length),
    );
    let longer = each.text(more_ns);
    let most = name
        .as_ref()
        .map_or_else(String::new, |name| format!(", most of all {name}"));
    let clock = slow_clock(own, others);
    let (cause, words) = if let (Some((sensor, own_mhz, their_mhz)), true) =
        (&clock, lengths > 1.01)
    {
        let words = format!(
            "its kernels ran {longer} longer{each}{most}, while its {sensor} was {own_mhz:.0} MHz, and {their_mhz:.0} MHz on the others"
        );
        ("slow_clock", words)
    } else if counts > lengths && counts > 1.02 {
        let words = format!(
            "it ran {:.0} % more kernels, which took {longer} longer{each}{most}",
            (counts - 1.0) * 100.0
        );
        ("more_kernels", words)
    } else {
        let words = format!(
            "its kernels ran {longer} longer{each}{most}, and were no more than on the others"
        );
        (LONGER_KERNELS, words)
    };
    Cause {
        key: cause,
        place: name,
        words,
        ..Cause::default()
    }
}

/// A clock that was slower than the others': the sensor, its mean, and theirs.
fn slow_clock(own: &RankActivity, others: &[RankActivity]) -> Option<(String, f64, f64)> {
    own.clocks().find_map(|(name, value)| {
        let theirs = others.iter().filter_map(|one| {
            let mut same = one.clocks().filter(|(other, _)| *other == name);
            same.next().map(|(_, mean)| mean)
        });
        let theirs: Vec<f64> = theirs.collect();
        let mean = theirs.iter().sum::<f64>() / theirs.len().max(1) as f64;
        let is_slow = !theirs.is_empty() && value < SLOW_CLOCK * mean;
        is_slow.then(|| (name.to_owned(), value, mean))
    })
}

/// Its GPU copied longer.
fn copies(own: &RankActivity, others: &[RankActivity], more_ns: f64, each: Each) -> Cause {
    let times = |one: &RankActivity| -> BTreeMap<String, u64> {
        let copies = one.copies.iter();
        copies
            .map(|(direction, copied)| (direction.clone(), copied.inside_ns))
            .collect()
    };
    let theirs: Vec<_> = others.iter().map(times).collect();
    let direction = largest(&times(own), &theirs.iter().collect::<Vec<_>>()).map(|found| found.0);
    let lines: Vec<_> = others.iter().map(|one| &one.copy_lines).collect();
    let line = largest(&own.copy_lines, &lines).map(|found| found.0);
    let mut words = format!(
        "its GPU copied {} longer{each}, with nothing else under way",
        each.text(more_ns)
    );
    if let Some(direction) = &direction {
        words.push_str(&format!(", most of all {direction}"));
        let of = |one: &RankActivity| one.copies.get(direction).copied().unwrap_or_default();
        let rate = |copied: Copied| copied.bytes as f64 / copied.ns as f64;
        let mut theirs = Copied::default();
        others.iter().for_each(|one| theirs.add(&of(one)));
        let (own_rate, their_rate) = (rate(of(own)), rate(theirs));
        // Not where nothing of that kind was copied, or sizes are not known.
        if own_rate > 0.0 && own_rate < SLOW_COPY * their_rate {
            words.push_str(&format!(
                " at {own_rate:.3} GB/s ({their_rate:.3} GB/s on the others)"
            ));
        }
    }
    if let Some(line) = &line {
        words.push_str(&format!(", ordered in {line}"));
    }
    Cause {
        key: "copies",
        place: line.or(direction),
        words,
        ..Cause::default()
    }
}

/// Its GPU had nothing to do: what the thread that launches did meanwhile.
fn host(own: &RankActivity, others: &[RankActivity], more_ns: f64, each: Each) -> Cause {
    let of = [
        |one: &RankActivity| &one.code,
        |one: &RankActivity| &one.waits,
        |one: &RankActivity| &one.calls,
    ] as [fn(&RankActivity) -> &BTreeMap<String, u64>; 3];
    let more = of.map(|list| excess(own, others, |one| sum(list(one))));
    let [code_ns, wait_ns, call_ns] = more;
    let runnable_ns = excess(own, others, |one| one.runnable_ns as f64);
    // A thread that waits within a call is in both.
    let queued_ns = excess(own, others, |one| one.queued_ns as f64);
    let host_ns = code_ns.max(0.0) + wait_ns.max(call_ns).max(0.0) + runnable_ns.max(0.0);
    let rest_ns = more_ns - host_ns - queued_ns.max(0.0);
    let place = |which: usize| {
        let theirs: Vec<_> = others.iter().map(|one| of[which](one)).collect();
        largest(of[which](own), &theirs).map(|found| found.0)
    };
    let idle = each.text(more_ns);
    let thread = match own.thread.as_str() {
        "" => "its thread".to_owned(),
        name => format!("its thread {name}"),
    };
    let has_gpu = |one: &RankActivity| {
        [COMPUTE, COMM, COPY]
            .iter()
            .any(|&class| one.gpu[class] > 0)
    };
    let intro = match has_gpu(own) || others.iter().any(has_gpu) {
        true => format!("its GPU was idle {idle} longer{each}, while {thread}"),
        false if each.0 == 0 => format!("it took {idle} longer, while {thread}"),
        false => format!("it came {idle} later each time, while {thread}"),
    };
    let causes = [
        (IdleCause::Code, code_ns, 0),
        (IdleCause::Wait, wait_ns, 1),
        (IdleCause::RuntimeCall, call_ns, 2),
        // Where it ran most, it would have gone on.
        (IdleCause::Runnable, runnable_ns, 0),
        (IdleCause::Queued, queued_ns, 0),
    ];
    let best = causes
        .into_iter()
        .reduce(|best, one| if one.1 > best.1 { one } else { best });
    let (cause, best_ns, which) = best.unwrap_or(causes[0]);
    let unseen = || {
        let rest = each.text(rest_ns);
        format!(
            "was {rest} longer neither on a processor nor in a call, nor seen waiting: others had its processor, or it waited (--realtime says more)"
        )
    };
    if best_ns <= rest_ns {
        // What was seen of it says where that was.
        let is_told = cause != IdleCause::Queued && best_ns >= TOLD * more_ns;
        let place = place(which).filter(|_| is_told);
        let seen = place
            .as_deref()
            .map(|place| did(cause, Some(place), &each.text(best_ns)));
        let seen = seen.map_or_else(String::new, |seen| format!("; besides, it {seen}"));
        return Cause {
            key: "off_processor",
            place,
            words: format!("{intro} {}{seen}", unseen()),
            ..Cause::default()
        };
    }
    let longer = each.text(best_ns);
    if cause == IdleCause::Queued {
        let words = format!(
            "its GPU was idle {idle} longer{each}, of which {longer} after the collective had been launched: there it waited for something else (another stream, an event, the queue)"
        );
        return Cause {
            key: cause.key(),
            words,
            ..Cause::default()
        };
    }
    let place = place(which);
    let mut words = format!("{intro} {}", did(cause, place.as_deref(), &longer));
    if rest_ns >= ENOUGH * more_ns {
        words.push_str(&format!("; besides, it {}", unseen()));
    }
    Cause {
        key: cause.key(),
        place,
        words,
        ..Cause::default()
    }
}

/// What a thread did so much longer, in words.
fn did(cause: IdleCause, place: Option<&str>, longer: &str) -> String {
    let inside = place.map_or_else(String::new, |place| format!(" in {place}"));
    match cause {
        IdleCause::Code => format!("ran code{inside} {longer} longer"),
        IdleCause::Wait => format!("waited{inside} {longer} longer"),
        IdleCause::Runnable => {
            format!("was ready to run{inside} {longer} longer, without a processor: others had it")
        }
        _ => format!(
            "was {longer} longer in {}",
            place.unwrap_or("calls of the runtime")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_beside_a_longer_time_off_the_processor_and_the_other_way_round() {
        let rank = |code_ns: u64, idle_ns: u64| {
            let mut one = RankActivity {
                windows_ns: idle_ns + 1_000_000,
                ..RankActivity::default()
            };
            one.gpu[COMPUTE] = 1_000_000;
            one.gpu[IDLE] = idle_ns;
            one.code.insert("load (train.py:42)".to_owned(), code_ns);
            one
        };
        let code = "ran code in load (train.py:42)";
        let unseen = "neither on a processor";
        for (code_ns, key, is_code_told, is_rest_told) in [
            (3_000_000, "off_processor", true, true),
            (6_000_000, "host_code", true, true),
            (9_000_000, "host_code", true, false),
            (100_000, "off_processor", false, true),
        ] {
            let found = find_cause(&rank(code_ns, 10_000_000), &[rank(0, 0)], 1);
            assert_eq!(found.key, key, "{found:?}");
            assert_eq!(found.place.is_some(), is_code_told, "{found:?}");
            assert_eq!(found.words.contains(code), is_code_told, "{found:?}");
            assert_eq!(found.words.contains(unseen), is_rest_told, "{found:?}");
        }
    }
}
