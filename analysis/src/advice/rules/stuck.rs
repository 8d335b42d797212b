//! Ranks that waited for each other, or for a GPU, until the end.

use crate::advice::facts::{Facts, Span, host_named};
use crate::advice::rule::{Finding, Rule, Verdict};
use crate::table::Cell;
use crate::table::view::View;

pub(super) const RULES: [Rule; 2] = [
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
        remedy: "run the kernel alone with these arguments, attach rocgdb while it hangs, and look for faults and resets in `dmesg`: it loops, or waits for a value that nobody writes; if it is only slow, let it run for longer",
        needs: &[],
        judge: hung_kernel,
    },
];

/// Whether a rule tells that a run hung: the user wants to know that before anything else.
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

fn hung_kernel(facts: &Facts<'_>) -> Verdict {
    let waits = facts.never_ended.iter();
    Verdict::Found(waits.map(|row| hung(facts, row)).collect())
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
            let device = row.known("device");
            let device = device.map_or_else(String::new, |number| format!(" on GPU {number}"));
            let launched = behind(", launched by ", row.text("launch_place"));
            format!("{kernel}{device}{launched}; {wait} waited for it")
        }
    };
    let mut evidence: Vec<(&str, Cell)> = vec![("waited_ns", waited_ns.into())];
    if let Some(launched_ns) = row.known("launched_ns") {
        evidence.push(("launched_before_end_ns", launched_ns.into()));
    }
    evidence.extend([
        ("unended_kernels", row.count("unended").into()),
        ("process", row.count("process").into()),
        ("thread", row.count("thread").into()),
    ]);
    Finding {
        saves_ns: Some(waited_ns),
        place,
        evidence,
        span: Some(Span {
            start_ns: row.count("since_ns"),
            duration_ns: waited_ns,
            host: host_named(row.text("host"), &facts.hosts),
        }),
    }
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
    Finding {
        saves_ns: Some(waited_ns),
        place,
        evidence,
        span: Some(Span {
            start_ns: row.count("since_ns"),
            duration_ns: waited_ns,
            host: host_named(row.text("host"), &facts.hosts),
        }),
    }
}
