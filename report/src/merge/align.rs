//! One time axis for several hosts.
//!
//! First by the wall clocks that each trace has compared with BOOTTIME. What remains between the hosts is then bounded by the collective
//! operations that they took part in together, where there are any.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;

use super::alignment::Alignment;
use super::collectives::{self, Collectives, Key, Span};
use crate::trace_info::TraceInfo;
use rsys_traces::perfetto::clocks::WallClock;
use rsys_traces::perfetto::host_clocks;

/// No clock drifts by more than one part in this against another: time synchronisation slews by one in 2000 at most.
const DRIFT_MAX: u64 = 500;

/// The clock of a host in the merged trace.
#[derive(Debug, Clone)]
pub struct HostClock {
    /// Its name.
    pub name: String,
    /// What is added to its times.
    pub alignment: Alignment,
    /// How that was found.
    pub source: Source,
}

/// How the clock of a host was related to that of reference.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// It is the host of reference.
    Reference,
    /// By collectives.
    Collectives {
        /// How many.
        count: usize,
        /// By how much a time may be wrong, either way.
        uncertainty_ns: u64,
        /// How far the wall clocks alone were off, if they are known.
        wall_clock_off_ns: Option<i64>,
    },
    /// By its wall clock: as good as the hosts' time synchronisation is.
    WallClock,
    /// As above, although there are collectives: they contradict each other.
    Contradicted,
    /// It could not be related.
    Unknown,
}

impl fmt::Display for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BY_WALL_CLOCK: &str = "by the wall clocks, uncertainty unknown: as exact as the hosts keep time (NTP: often 1 ms, PTP: 1 \u{b5}s)";
        match &self.source {
            Source::Reference => f.write_str("the reference"),
            Source::Collectives {
                count,
                uncertainty_ns,
                wall_clock_off_ns,
            } => {
                write!(
                    f,
                    "by {count} collectives, \u{b1}{}",
                    Nanoseconds(*uncertainty_ns)
                )?;
                match wall_clock_off_ns {
                    Some(off) => {
                        let off = Nanoseconds(off.unsigned_abs());
                        write!(f, " (the wall clocks alone are {off} off)")
                    }
                    None => Ok(()),
                }
            }
            Source::WallClock => f.write_str(BY_WALL_CLOCK),
            Source::Contradicted => write!(
                f,
                "{BY_WALL_CLOCK}; its collectives contradict each other and were not used"
            ),
            Source::Unknown => f.write_str(
                "not aligned: its traces hold no snapshot of the wall clock and no collectives",
            ),
        }
    }
}

struct Nanoseconds(u64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns @ 0..1_000 => write!(f, "{ns} ns"),
            ns @ 1_000..1_000_000 => write!(f, "{:.1} \u{b5}s", ns as f64 / 1e3),
            ns @ 1_000_000..1_000_000_000 => write!(f, "{:.2} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.2} s", ns as f64 / 1e9),
        }
    }
}

/// Relates the clocks of all hosts to that of the first.
///
/// # Errors
/// When an input cannot be read.
pub fn align(infos: &[TraceInfo], of_inputs: &[usize], hosts: &[String]) -> Result<Vec<HostClock>> {
    let reference = HostClock {
        name: hosts.first().cloned().unwrap_or_default(),
        alignment: Alignment::default(),
        source: Source::Reference,
    };
    if hosts.len() == 1 {
        return Ok(vec![reference]);
    }
    let mut wall_clocks = vec![WallClock::default(); hosts.len()];
    let mut collectives = Collectives::default();
    for (info, &host) in infos.iter().zip(of_inputs) {
        let (found, wall_clock) = collectives::read(&info.path)?;
        wall_clocks[host].add(&wall_clock);
        collectives.add(host, found);
    }
    wall_clocks.iter_mut().for_each(WallClock::settle);
    let mut clocks = vec![reference];
    for (name, wall_clock) in hosts.iter().zip(&wall_clocks).skip(1) {
        let found = Alignment::by_wall_clocks(wall_clock, &wall_clocks[0]);
        clocks.push(HostClock {
            name: name.clone(),
            source: match found {
                Some(_) => Source::WallClock,
                None => Source::Unknown,
            },
            alignment: found.unwrap_or_default(),
        });
    }
    refine(&mut clocks, collectives.shared());
    Ok(clocks)
}

/// A collective on the time axis that the wall clocks make.
type Shared = (Key, BTreeMap<usize, Span>);

/// Corrects what the wall clocks say by what the collectives allow.
fn refine(clocks: &mut [HostClock], mut shared: Vec<Shared>) {
    for (_, hosts) in &mut shared {
        for (&host, span) in hosts.iter_mut() {
            let alignment = &clocks[host].alignment;
            let apply = |time: i64| time.saturating_add(alignment.difference_at(time));
            *span = (apply(span.0), apply(span.1));
        }
    }
    shared.sort_by_key(|(key, hosts)| (hosts.values().map(|span| span.0).min(), *key));
    if shared.is_empty() {
        return;
    }
    let spans: Vec<host_clocks::Shared> = shared.into_iter().map(|one| one.1).collect();
    let bounds = host_clocks::bounds(&spans, clocks.len());
    for (host, clock) in clocks.iter_mut().enumerate().skip(1) {
        let count = spans.iter().filter(|hosts| hosts.contains_key(&host));
        let count = count.count();
        let Some(bounds) = bounds.as_ref().map(|bounds| &bounds[host]) else {
            if count > 0 && clock.source == Source::WallClock {
                clock.source = Source::Contradicted;
            }
            continue;
        };
        let known = bounds.likely_width_ns().zip(bounds.uncertainty_ns());
        let Some((widest, uncertainty_ns)) = known else {
            continue;
        };
        let local = |moment: i64| moment - clock.alignment.difference_at(moment);
        let corrections = bounds.corrections().into_iter();
        let corrections: Vec<(i64, i64)> = corrections
            .map(|(moment, correction)| (local(moment), correction))
            .collect();
        let too_fast = corrections.windows(2).any(|pair| {
            let (time, moved) = (pair[1].0.abs_diff(pair[0].0), pair[1].1.abs_diff(pair[0].1));
            moved > widest + time / DRIFT_MAX
        });
        if too_fast {
            if clock.source == Source::WallClock {
                clock.source = Source::Contradicted;
            }
            continue;
        }
        let largest = corrections
            .iter()
            .map(|point| point.1)
            .max_by_key(|off| off.abs());
        clock.source = Source::Collectives {
            count,
            uncertainty_ns,
            wall_clock_off_ns: largest.filter(|_| clock.source == Source::WallClock),
        };
        clock.alignment = clock.alignment.corrected(&corrections);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, alignment: Alignment, source: Source) -> HostClock {
        HostClock {
            name: name.to_owned(),
            alignment,
            source,
        }
    }

    fn three_hosts() -> Vec<HostClock> {
        vec![
            host("a", Alignment::default(), Source::Reference),
            host("b", Alignment::constant(5_000), Source::WallClock),
            host("c", Alignment::default(), Source::Unknown),
        ]
    }

    /// A collective that truly runs from `time` on, by clocks that are behind by `behind`, each rank late by something.
    fn collective(number: u64, time: i64, behind: &[(usize, i64)]) -> Shared {
        let last_start = time + 10;
        let spans = behind.iter().map(|&(host, behind)| {
            let start = time + (number as i64 * 7 + host as i64 * 3) % 10;
            (host, (start - behind, last_start + 20 - behind))
        });
        ((1, number), spans.collect())
    }

    #[test]
    fn collectives_correct_the_wall_clocks() {
        let mut clocks = three_hosts();
        let shared = (0..40_u64).map(|number| {
            // The wall clock of b is 400 off; c was started long after and shares collectives with b only.
            let hosts = if number % 2 == 0 {
                [(0, 0), (1, 5_400)]
            } else {
                [(1, 5_400), (2, 900_000)]
            };
            collective(number, 1_000_000 + 1_000 * number as i64, &hosts)
        });
        refine(&mut clocks, shared.collect());
        for (host, truth) in [(1, 5_400), (2, 900_000)] {
            let Source::Collectives { uncertainty_ns, .. } = clocks[host].source else {
                panic!("{:?}", clocks[host]);
            };
            let found = clocks[host].alignment.difference_at(1_000_000 - truth);
            assert!(
                found.abs_diff(truth) <= uncertainty_ns,
                "{found} {uncertainty_ns}"
            );
            assert!(uncertainty_ns < 80, "{uncertainty_ns}");
        }
        assert_eq!(
            clocks[1].to_string(),
            "by 40 collectives, \u{b1}22 ns (the wall clocks alone are 399 ns off)"
        );
    }

    #[test]
    fn a_host_that_always_comes_first_is_told_by_its_ends() {
        let mut clocks = three_hosts();
        clocks.truncate(2);
        let shared = (0..40_u64).map(|number| {
            let time = 10_000_000 * number as i64;
            let end = time + 3_050_000;
            let spans = [(0, (time, end)), (1, (time + 2_995_000, end - 5_000))];
            ((1, number), BTreeMap::from(spans))
        });
        refine(&mut clocks, shared.collect());
        // That is likely, not certain: the other host's collectives might end later.
        assert_eq!(
            clocks[1].to_string(),
            "by 40 collectives, \u{b1}3.05 ms (the wall clocks alone are 0 ns off)"
        );
    }

    #[test]
    fn drift_is_followed_stretch_by_stretch() {
        let mut clocks = three_hosts();
        clocks.truncate(2);
        // 1 in 1000: far more than what one collective leaves open.
        let behind = |time: i64| 5_000 + time / 1_000;
        let shared = (0..1_000_u64).map(|number| {
            let time = 1_000 * number as i64;
            collective(number, time, &[(0, 0), (1, behind(time))])
        });
        refine(&mut clocks, shared.collect());
        let Source::Collectives { uncertainty_ns, .. } = clocks[1].source else {
            panic!("{:?}", clocks[1]);
        };
        for time in [100_000, 500_000, 900_000] {
            let found = clocks[1].alignment.difference_at(time - behind(time));
            assert!(
                found.abs_diff(behind(time)) <= uncertainty_ns + 2,
                "{time}: {found}"
            );
        }
    }

    #[test]
    fn contradictions_leave_the_wall_clocks() {
        let apart = |number, behind| {
            let start = 1_000_000 * number as i64;
            let spans = [
                (0, (start, start + 10)),
                (1, (start + behind, start + behind + 10)),
            ];
            ((1, number), BTreeMap::from(spans))
        };
        // One clock cannot lose 8000 within a million and be right again.
        let mut clocks = three_hosts();
        refine(
            &mut clocks,
            vec![apart(1, 1_000), apart(2, 9_000), apart(3, 1_000)],
        );
        assert_eq!(clocks[1].source, Source::Contradicted);
        let mut clocks = three_hosts();
        let torn = ((1, 1), BTreeMap::from([(0, (100, 90)), (1, (200, 20))]));
        refine(&mut clocks, vec![torn]);
        assert_eq!(clocks[1].source, Source::Contradicted);
        assert_eq!(clocks[1].alignment.difference_at(0), 5_000);
    }
}
