//! Notes on the tables: what was left out of them, and why.

use crate::measure;
use crate::measure::job::collectives::job::records::{GroupTotals, Matching};
use crate::measure::job::collectives::job::stragglers::{Straggler, all_late, none_stands_out};
use crate::measure::job::mpi;
use rsys_traces::model::Model;

/// What is wrong with the files, who is left out of the causes, and which operations of the judgement.
pub(super) fn notes(matching: &Matching, stragglers: &[Straggler], model: &Model) -> Vec<String> {
    let mut notes = measure::notes(model);
    let late = all_late(matching, model).len();
    if late > stragglers.len() {
        let named = stragglers.len();
        notes.push(format!(
            "{late} ranks stand out; causes are given for the {named} that are latest"
        ));
    }
    notes.extend(mpi::notes(&matching.mpi));
    if matching.without_mpi > 0 {
        notes.push(format!(
            "{} messages and collectives with a root, without a number, or that return before they are done are not judged: parts do not hold them (ask without --parts)",
            matching.without_mpi
        ));
    }
    for file in &matching.put_together {
        notes.push(format!(
            "{file}: its ranks have clocks of their own, for collectives end on some of them before they begin on others; what they have in common is by these collectives"
        ));
    }
    for (communicator, counts) in &matching.uneven {
        let counts = counts.iter().map(|(count, ranks)| {
            let ranks = format!("{ranks} {}", if *ranks == 1 { "rank" } else { "ranks" });
            format!("{ranks} with {count}")
        });
        let counts: Vec<String> = counts.collect();
        notes.push(format!(
            "{communicator}: not matched, for its collectives have no numbers in these traces and the ranks have different numbers of them ({})",
            counts.join(", ")
        ));
    }
    if matching.is_by_host {
        notes.push("where collectives have no numbers, ranks of different hosts are matched only if their times show that they belong together: some of the communicators may be one".to_owned());
    }
    if matching.groups.is_empty() && matching.mpi.is_empty() {
        // Kernels without calls have a note of their own.
        if matching.unmatched_kernels + matching.alone == 0 && matching.uneven.is_empty() {
            notes.push("no call of RCCL or MPI that moves data is in these traces (rsys-sample records them with -I rccl or -I mpip)".to_owned());
        }
    } else if stragglers.is_empty() {
        notes.push(none_stands_out(matching, model));
    }
    let sum = |of: fn(&GroupTotals) -> u64| -> u64 {
        matching.groups.iter().map(|group| of(&group.totals)).sum()
    };
    let operations = ["operation is", "operations are"];
    for (count, subject, what) in [
        (
            matching.unidentified,
            operations,
            "not matched: the making of the communicator was not recorded",
        ),
        (
            matching.unmatched_kernels,
            ["kernel of a collective is", "kernels of collectives are"],
            "left out: nothing tells which operation they are of",
        ),
        (
            matching.alone,
            operations,
            "not matched: they have no numbers, and nothing in these traces shows which other rank has run the same ones",
        ),
        (
            sum(|one| one.incomplete - one.uneven),
            operations,
            "judged by those of the ranks that are here: not all ranks are in these traces",
        ),
        (
            sum(|one| one.uneven),
            operations,
            "judged by those of the ranks that have them: all ranks are in these traces, and have different numbers of operations",
        ),
        (
            sum(|one| one.contradictory),
            operations,
            "not matched: under the same communicator and number ranks have different operations, or several",
        ),
        (
            sum(|one| one.fused),
            operations,
            "not judged: others of the same group share the kernel",
        ),
        (
            sum(|one| one.by_call),
            operations,
            "not judged: the times of the kernels are not known",
        ),
    ] {
        if count > 0 {
            let subject = subject[usize::from(count != 1)];
            notes.push(format!("{count} {subject} {what}"));
        }
    }
    if matching.clocks.grain_ns > 0 {
        notes.push(format!(
            "times of parts with many operations are rounded to {} ns: who came last by less is inconclusive",
            matching.clocks.grain_ns
        ));
    }
    for host in &matching.clocks.hosts {
        if host.is_contradicted {
            notes.push(format!(
                "clock of {}: its collectives contradict each other; who came last is inconclusive between hosts",
                host.name
            ));
        }
    }
    notes
}
