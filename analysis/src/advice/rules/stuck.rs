//! Ranks that waited for each other until the end.

use crate::advice::facts::{Facts, Span, host_named};
use crate::advice::rule::{Finding, Rule, Verdict};
use crate::table::Cell;
use crate::table::view::View;

/// The name of the rule.
pub(in crate::advice) const STUCK: &str = "stuck";

pub(super) const RULES: [Rule; 1] = [Rule {
    name: STUCK,
    title: "ranks waited for an operation that was never done",
    remedy: "see where each rank stood with `rsys-report stuck`: one that is missing has taken another branch, failed, or waits for something else; if none is, look at the network and the versions of RCCL or MPI",
    needs: &[],
    judge: stuck,
}];

fn stuck(facts: &Facts<'_>) -> Verdict {
    Verdict::Found(
        facts
            .never_done
            .iter()
            .map(|row| finding(facts, row))
            .collect(),
    )
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
