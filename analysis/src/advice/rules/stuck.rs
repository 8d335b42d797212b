//! Ranks that waited for each other, or for a GPU, until the end.

use std::collections::BTreeSet;

use crate::advice::facts::Facts;
use crate::advice::owners::{Span, host_named};
use crate::advice::rule::{Finding, Rule, Verdict};
use crate::table::Cell;
use crate::table::view::View;

pub(super) const RULES: [Rule; 3] = [
    Rule {
        name: "stuck",
        title: "ranks waited for an operation that was never done",
        remedy: "see where each rank stood with `rsys-report stuck`: one that is missing has taken another branch, failed, or waits for something else; if none is, look at the network and the versions of RCCL or MPI",
        needs: &[],
        judge: stuck,
    },
    Rule {
        name: "hung_kernel",
        title: "the host waited until the end for a GPU that did not finish",
        remedy: "run the kernel alone with these arguments, attach rocgdb while it hangs, and look for faults and resets in `dmesg`: it may loop, or wait for a value that nobody writes; if it is only slow, let it run for longer",
        needs: &[],
        judge: hung_kernel,
    },
    Rule {
        name: "hung_communication",
        title: "ranks waited until the end for others, in kernels that did not finish",
        remedy: "record with `-I rocm rccl`: `rsys-report stuck` tells which rank did not come to a collective, and of messages where each rank was; if all have come, see whether a kernel in front of these hangs on one of them, then look at the network and the version of RCCL",
        needs: &[],
        judge: hung_communication,
    },
];

/// Whether a rule is about a hang. Its findings come first.
pub(in crate::advice) fn is_of_hang(rule: &Rule) -> bool {
    RULES.iter().any(|one| one.name == rule.name)
}

fn stuck(facts: &Facts<'_>) -> Verdict {
    Verdict::Found(
        facts
            .never_done
            .iter()
            .map(|row| finding(facts, row))
            .collect(),
    )
}

fn is_between_ranks(row: &View<'_>) -> bool {
    row.text("between_ranks") == "yes"
}

fn hung_kernel(facts: &Facts<'_>) -> Verdict {
    let waits = facts.never_ended.iter();
    let waits = waits.filter(|row| !is_between_ranks(row));
    Verdict::Found(waits.map(|row| hung(facts, row)).collect())
}

/// Ranks wait for each other: one finding for all.
fn hung_communication(facts: &Facts<'_>) -> Verdict {
    let waits = facts.never_ended.iter();
    let waits: Vec<_> = waits.filter(|row| is_between_ranks(row)).collect();
    let processes: BTreeSet<_> = waits.iter().map(|row| facts.owner(row)).collect();
    let longest = waits.iter().max_by_key(|row| row.count("waited_ns"));
    let found = longest.map(|row| {
        let mut finding = hung(facts, row);
        let count = processes.len() as u64;
        finding.evidence.push(("waiting_processes", count.into()));
        finding
    });
    Verdict::Found(found.into_iter().collect())
}

/// A text in front of what is known, or nothing.
fn behind(before: &str, known: &str) -> String {
    match known {
        "" => String::new(),
        known => format!("{before}{known}"),
    }
}

fn hung(facts: &Facts<'_>, row: &View<'_>) -> Finding {
    let waited_ns = row.count("waited_ns");
    let wait = format!("{}{}", row.text("call"), behind(" in ", row.text("place")));
    let place = match row.text("kernel") {
        "" => wait,
        kernel => {
            let launched = behind(", launched by ", row.text("launch_place"));
            let others = match row.count("unended").saturating_sub(1) {
                0 => String::new(),
                count => format!("; {count} others had not ended either"),
            };
            let is_new = row.known("longest_ended_ns").is_none() && !is_between_ranks(row);
            let unknown = match is_new {
                true => "; none of its name has ever ended: it may only be slow",
                false => "",
            };
            format!("{kernel}{launched}, had not ended; {wait} waited for it{others}{unknown}")
        }
    };
    let mut evidence: Vec<(&str, Cell)> = vec![("waited_ns", waited_ns.into())];
    for key in ["launched_before_end_ns", "longest_ended_ns"] {
        if let Some(ns) = row.known(key) {
            evidence.push((key, ns.into()));
        }
    }
    evidence.extend([
        ("unended_kernels", row.count("unended").into()),
        ("process", row.count("process").into()),
        ("thread", row.count("thread").into()),
    ]);
    waiting(facts, row, place, evidence)
}

fn finding(facts: &Facts<'_>, row: &View<'_>) -> Finding {
    let waited_ns = row.count("waited_ns");
    let number = row.known("sequence");
    let number = number.map_or_else(String::new, |number| format!(" number {number}"));
    let mut place = format!("{}{number}", row.text("operation"));
    match (row.text("missing"), row.text("missing_place")) {
        ("", _) => {}
        (missing, at) => {
            let are_several = missing.contains(',') || missing.contains(" to ");
            place.push_str(&match (are_several, at) {
                (true, "") => format!(", in which {missing} are missing"),
                (true, at) => format!(", in which {missing} are missing ({at})"),
                (false, "") => format!(", in which {missing} is missing"),
                (false, at) => format!(", in which {missing} is missing: it was at {at}"),
            });
        }
    }
    if row.text("differs") == "yes" {
        place.push_str(", which ranks call with different functions or sizes");
    }
    let mut evidence: Vec<(&str, Cell)> = vec![
        ("waited_ns", waited_ns.into()),
        ("waiting", row.text("waiting").into()),
        ("communicator", row.text("communicator").into()),
    ];
    if let Some(unknown) = row.known("without_call") {
        evidence.push(("ranks_unknown", unknown.into()));
    }
    waiting(facts, row, place, evidence)
}

/// A finding of a wait that lasted until the end of the trace.
fn waiting(
    facts: &Facts<'_>,
    row: &View<'_>,
    place: String,
    evidence: Vec<(&'static str, Cell)>,
) -> Finding {
    let waited_ns = row.count("waited_ns");
    Finding {
        saves_ns: Some(waited_ns),
        place,
        evidence,
        span: Some(Span {
            start_ns: row.count("since_ns"),
            duration_ns: waited_ns,
            host: host_named(row.text("host"), &facts.hosts),
        }),
        ..Finding::default()
    }
}
