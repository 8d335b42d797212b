//! Programs that spent time in MPI while none of its calls were recorded.

use super::table::percent;
use crate::emit::outcome::ProcessSummary;

/// From this part of a process's CPU time on MPI is worth a line.
const LEAST_PERCENT: f64 = 5.0;

/// The line that says how to see who waits for whom, for programs that were seen within MPI and have no recorded call.
#[must_use]
pub fn mpi_hint(processes: &[ProcessSummary]) -> Option<String> {
    let users = processes.iter().filter(|process| {
        let digest = &process.digest;
        digest.mpi_ns == 0 && percent(digest.in_mpi_ns, digest.cpu_ns) >= LEAST_PERCENT
    });
    let users: Vec<&ProcessSummary> = users.collect();
    let first = users.first()?;
    let sum = |of: fn(&ProcessSummary) -> u64| users.iter().map(|one| of(one)).sum::<u64>();
    let share = percent(
        sum(|one| one.digest.in_mpi_ns),
        sum(|one| one.digest.cpu_ns),
    );
    let who = match users.len() - 1 {
        0 => format!("pid {} ({})", first.pid, first.name),
        more => format!("pid {} ({}) and {more} more", first.pid, first.name),
    };
    Some(format!(
        "{who}: {share:.0} % of the CPU time is within MPI; -I mpip records its calls, and shows who waited for whom"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::process;
    use super::*;

    #[test]
    fn calls_of_mpi_that_were_not_recorded_are_proposed() {
        let of = |in_mpi_ns, mpi_ns| {
            let mut one = process();
            one.digest.cpu_ns = 1_000;
            (one.digest.in_mpi_ns, one.digest.mpi_ns) = (in_mpi_ns, mpi_ns);
            one
        };
        for healthy in [of(0, 0), of(40, 0), of(430, 430)] {
            assert_eq!(mpi_hint(&[healthy]), None);
        }
        let hint = mpi_hint(&[of(430, 0), of(470, 0), of(0, 0)]).unwrap_or_default();
        assert!(hint.starts_with("pid 7 (app) and 1 more: 45 %"), "{hint}");
        assert!(hint.contains("-I mpip"));
    }
}
