//! Jobs by number: healthy ones, and ones with a fault.

use super::{Flows, MpiCause, MpiFault, MpiJob, Pattern, When};
use crate::HostClock;
use crate::random::random;

/// Numbers of ranks, in turn.
const RANKS: [u64; 10] = [8, 4, 16, 6, 12, 32, 9, 24, 2, 16];
/// How much later a clock may be than another one.
const CLOCK_ERROR_NS: u64 = 1_000_000;
const DRIFT_PPB: u64 = 4_000;

/// A job without a fault.
#[must_use]
pub fn healthy(number: u64) -> MpiJob {
    let any = |what| random([number, what, 3, 0, 61]);
    let pattern = Pattern::ALL[(number % 13) as usize];
    let least = match pattern {
        Pattern::Chain | Pattern::Pipeline => 3,
        Pattern::MasterWorker | Pattern::Wavefront | Pattern::Transpose => 4,
        _ => 2,
    };
    let ranks = match number % 25 {
        5 | 24 => 128,
        _ => RANKS[((number / 13 + number) % 10) as usize].max(least),
    };
    let iterations = if ranks > 100 { 12 } else { 20 + any(2) % 20 };
    let clock = |host: u64| HostClock {
        wall_error_ns: offset(any(100 + host), CLOCK_ERROR_NS),
        drift_ppb: offset(any(200 + host), DRIFT_PPB),
    };
    MpiJob {
        pattern,
        ranks,
        ranks_per_host: [4, 8, 2, 64][(any(4) % 4) as usize],
        iterations,
        compute_ns: computes_ns(pattern, ranks, any(5)),
        bytes: bytes(pattern, ranks, any(6)),
        jitter: 5 + any(7) % 20,
        seed: number + 1,
        clocks: (0..ranks.min(64)).map(clock).collect(),
        unnumbered: if number % 4 == 3 { 40 } else { 0 },
        own_communicator: any(8).is_multiple_of(3),
        is_python: pattern == Pattern::PythonAllreduce || any(9).is_multiple_of(5),
        progresses_alone: !any(10).is_multiple_of(2),
        blocks: any(11).is_multiple_of(4),
        flows: [Flows::Arrows, Flows::Arrows, Flows::Both, Flows::Numbers][(any(12) % 4) as usize],
        records_all: !any(13).is_multiple_of(4),
        missing: if number % 9 == 7 && ranks >= 8 {
            vec![ranks - 2]
        } else {
            Vec::new()
        },
        fault: None,
    }
}

/// A number between minus and plus the most.
fn offset(any: u64, most: u64) -> i64 {
    (any % (2 * most + 1)).cast_signed() - most.cast_signed()
}

/// Of a chain, one rank computes at a time. To a sum by messages, the first rank has to do some hundredth of a millisecond more than others.
fn computes_ns(pattern: Pattern, ranks: u64, any: u64) -> u64 {
    let base_ns = 2_000_000 + any % 3_000_000;
    match pattern {
        Pattern::Chain => base_ns * 4 / ranks.max(4),
        Pattern::PythonAllreduce => base_ns * 2,
        _ => base_ns,
    }
}

/// Of messages, eager and not. One rank that serves all others must not be what they wait for.
fn bytes(pattern: Pattern, ranks: u64, any: u64) -> u64 {
    let bytes = [1_024, 16_384, 65_536, 262_144][(any % 4) as usize];
    match pattern {
        Pattern::MasterWorker | Pattern::PythonAllreduce | Pattern::ScatterGather => {
            bytes.min(32_768 / ranks).next_multiple_of(8)
        }
        _ => bytes,
    }
}

/// A job with a fault.
#[must_use]
pub fn faulty(number: u64) -> MpiJob {
    let mut job = healthy(number + 1_000 * 13);
    let any = |what| random([number, what, 5, 0, 62]);
    if number == 39 {
        job = MpiJob {
            pattern: Pattern::HaloAllreduce,
            ranks: 1_024,
            ranks_per_host: 64,
            iterations: 6,
            compute_ns: 3_000_000,
            missing: Vec::new(),
            ..job
        };
    }
    let ranks = job.ranks;
    // Nobody waits for the last stage, and the one who gives work does not compute.
    let rank = match job.pattern {
        Pattern::Pipeline => any(1) % (ranks - 1),
        Pattern::MasterWorker => 1 + any(1) % (ranks - 1),
        _ => any(1) % ranks,
    };
    let cause = MpiCause::ALL[((number + number / 13) % 6) as usize];
    // Of a chain, the others compute meanwhile.
    let scale = match job.pattern {
        Pattern::Chain => (ranks / 4).max(1),
        _ => 1,
    };
    let share = 30 + any(2) % 70;
    let whole_ns = job.compute_ns * scale * share / 100;
    let (when, amount_ns) = match number % 5 {
        0..=2 => (When::Every(1), whole_ns),
        3 => {
            let every = 2 + any(3) % 3;
            (When::Every(every), whole_ns * every)
        }
        _ => {
            let at = job.iterations / 3 + any(4) % (job.iterations / 3).max(1);
            (When::Once(at), whole_ns * job.iterations / 3)
        }
    };
    job.missing = match job.missing.is_empty() {
        true => Vec::new(),
        false => vec![1 + (rank + ranks / 2) % (ranks - 1)],
    };
    job.fault = Some(MpiFault {
        rank,
        cause,
        amount_ns,
        when,
    });
    job.missing.retain(|missing| *missing != rank);
    job
}

#[cfg(test)]
mod tests {
    use super::super::simulate;
    use super::*;

    #[test]
    fn faults_matter() {
        for number in 0..40 {
            let job = faulty(number);
            let with_ns = simulate(&job).span_ns();
            let without_ns = simulate(&job.without_fault()).span_ns();
            let saved = with_ns as f64 / without_ns as f64 - 1.0;
            assert!(saved > 0.03, "{number}: {saved:.3} {job:?}");
        }
    }

    #[test]
    fn the_numbers_are_of_all_patterns_and_causes() {
        let jobs: Vec<MpiJob> = (0..40).map(faulty).collect();
        for pattern in Pattern::ALL {
            let some = jobs.iter().filter(|job| job.pattern == pattern);
            assert!(some.count() >= 3, "{pattern:?}");
        }
        for cause in MpiCause::ALL {
            let causes = jobs.iter().filter_map(|job| job.fault);
            assert!(causes.filter(|one| one.cause == cause).count() >= 4);
        }
    }
}
