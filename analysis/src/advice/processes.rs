//! Processes, with what `lives` says of each.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::owners::{Host, Owner, Span};
use crate::containers::sets::IntervalSet;
use crate::table::view::View;

/// A process.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Process {
    pub(super) owner: Owner,
    pub(super) life: Span,
    /// The parts of its life that its traces are of.
    pub(super) recorded_ns: u64,
    /// From the first to the last operation of its GPUs.
    pub(super) used: Option<Span>,
    pub(super) samples: u64,
    /// Whether its threads were sampled by time.
    pub(super) is_sampled: bool,
    /// Whether waiting threads were sampled (`--realtime`).
    pub(super) has_waits: bool,
    /// Where its main thread was most before and after that, and for how long.
    pub(super) before: (String, u64),
    pub(super) after: (String, u64),
    pub(super) name: String,
    pub(super) cpu_ns: u64,
    /// How long its main thread ran and waited, and where and for what it waited most.
    pub(super) main_cpu_ns: u64,
    pub(super) main_wait_ns: u64,
    pub(super) wait: (String, String, u64),
    /// Whether that may be for a time to come as well as for data.
    pub(super) is_any_wait: bool,
    /// How many of its threads ran, and how long the busiest.
    pub(super) threads: u64,
    pub(super) most_cpu_ns: u64,
    /// How long it imported modules of Python, and collected its garbage.
    pub(super) imports_ns: u64,
    pub(super) collector_ns: u64,
    /// How long its threads could run and had no processor.
    pub(super) runnable_ns: u64,
    /// How long its main thread was within MPI, if none of its calls were recorded.
    pub(super) unrecorded_mpi_ns: u64,
}

impl Process {
    /// Whether a GPU of this owner is one of its own.
    pub(super) fn uses(&self, owner: Owner) -> bool {
        self.owner == owner
    }
}

pub(super) fn process(view: &View<'_>, hosts: &[Host]) -> Process {
    let owner = Owner::of(view, hosts);
    let host = owner.host;
    let used = view
        .known("first_operation_ns")
        .zip(view.known("last_operation_ns"));
    Process {
        owner,
        recorded_ns: 0,
        life: Span::between(view.count("start_ns"), view.count("end_ns"), host),
        used: used.map(|(first_ns, last_ns)| Span::between(first_ns, last_ns, host)),
        samples: view.count("samples"),
        is_sampled: view.count("sample_period_ns") > 0,
        has_waits: view.count("wait_frequency_hz") > 0,
        before: (view.place("before_"), view.count("before_ns")),
        after: (view.place("after_"), view.count("after_ns")),
        name: view.text("process_name").to_owned(),
        cpu_ns: view.count("cpu_ns"),
        main_cpu_ns: view.count("main_cpu_ns"),
        main_wait_ns: view.count("main_wait_ns"),
        wait: (
            view.place("wait_"),
            view.text("wait_for").to_owned(),
            view.count("wait_ns"),
        ),
        is_any_wait: view.count("wait_is_any") > 0,
        threads: view.count("threads"),
        most_cpu_ns: view.count("most_cpu_ns"),
        imports_ns: view.count("imports_ns"),
        collector_ns: view.count("collector_ns"),
        runnable_ns: view.count("runnable_ns"),
        unrecorded_mpi_ns: view.count("unrecorded_mpi_ns"),
    }
}

/// Programs that one process executed after each other are one process: what they did is known by their owner only.
pub(super) fn one_for_each_owner(mut programs: Vec<Process>) -> Vec<Process> {
    // A profiler that pauses writes several traces of a process.
    let mut recorded: BTreeMap<Owner, IntervalSet> = BTreeMap::new();
    for one in &programs {
        let (start_ns, duration_ns) = (one.life.start_ns, one.life.duration_ns);
        let of_owner = recorded.entry(one.owner).or_default();
        of_owner.add(start_ns, start_ns + duration_ns);
    }
    let most = |one: &Process| Reverse((one.used.is_some(), one.samples, one.life.duration_ns));
    programs.sort_by_key(|one| (one.owner, most(one)));
    programs.dedup_by(|other, one| {
        let is_same = other.owner == one.owner;
        if is_same {
            let end_ns = |span: Span| span.start_ns + span.duration_ns;
            let last_ns = end_ns(one.life).max(end_ns(other.life));
            let first_ns = one.life.start_ns.min(other.life.start_ns);
            one.life = Span::between(first_ns, last_ns, one.owner.host);
            one.samples += other.samples;
            one.cpu_ns += other.cpu_ns;
            one.is_sampled |= other.is_sampled;
            one.has_waits |= other.has_waits;
        }
        is_same
    });
    for one in &mut programs {
        one.recorded_ns = recorded.get_mut(&one.owner).map_or(0, |times| {
            times
                .intervals()
                .map(|(start_ns, end_ns)| end_ns - start_ns)
                .sum()
        });
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_executed_another_program_is_one() {
        let of_host = |host, process| Owner {
            host,
            rank: None,
            process,
        };
        let program = |process, start_ns, end_ns, samples| Process {
            owner: of_host(0, process),
            life: Span::between(start_ns, end_ns, 0),
            samples,
            before: (format!("of {samples}"), 0),
            ..Process::default()
        };
        let programs = vec![
            program(7, 0, 10, 0),
            program(8, 5, 90, 3),
            program(7, 10, 80, 40),
            // Recorded twice, with a pause.
            program(9, 0, 10, 5),
            program(9, 70, 80, 4),
            // Of another host.
            Process {
                owner: of_host(1, 7),
                life: Span::between(5_000, 5_070, 1),
                ..program(7, 0, 0, 9)
            },
        ];
        let found = one_for_each_owner(programs);
        let found: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.owner.process,
                    (one.life, one.recorded_ns),
                    one.samples,
                    one.before.0.as_str(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (7, (Span::between(0, 80, 0), 80), 40, "of 40"),
                (8, (Span::between(5, 90, 0), 85), 3, "of 3"),
                (9, (Span::between(0, 80, 0), 20), 9, "of 5"),
                (7, (Span::between(5_000, 5_070, 1), 70), 9, "of 9"),
            ]
        );
    }
}
