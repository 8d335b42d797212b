//! What is counted of a process: by us ([`tally`], [`stops`]), by its agent ([`agent`]), and both
//! compared ([`coverage`]); and how it ended ([`end`]).

pub mod agent;
pub mod coverage;
pub mod end;
pub mod stops;
pub mod tally;

pub use agent::{AgentCounts, COUNTER_NAMES};
pub use coverage::Coverage;
pub use end::End;
pub use stops::Stops;
pub use tally::{EventTally, OffCpuTally, PythonTally, Tally, WaitTally};

#[cfg(test)]
mod tests {
    use rsys_wire::layout::Counter;

    use super::*;

    #[test]
    fn coverage_is_of_what_is_known() {
        let (mut tally, mut counts) = (Tally::default(), AgentCounts::default());
        let coverage = |tally: &Tally, counts: &AgentCounts| Coverage::new(tally, counts, 100);
        assert_eq!(coverage(&tally, &counts), Coverage::Unknown);
        tally.ended_cpu_ns = 1000;
        tally.ended_weight = 9;
        tally.weight = 15;
        assert_eq!(coverage(&tally, &counts), Coverage::OfEndedThreads(90.0));
        let is_cpu_time = |(counter, _): &(Counter, &str)| *counter == Counter::CpuTime;
        let place = COUNTER_NAMES.iter().position(is_cpu_time).unwrap();
        counts.counters[place] = 2000;
        assert_eq!(coverage(&tally, &counts), Coverage::OfProcess(75.0));
        tally.outside_window = 1;
        assert_eq!(coverage(&tally, &counts), Coverage::Unknown);
    }

    #[test]
    fn a_stack_is_complete_when_it_is_neither_cut_nor_broken() {
        let mut tally = Tally::default();
        assert_eq!(tally.complete_percent(), None);
        tally.samples = 200;
        tally.truncated_stacks = 3;
        tally.broken_stacks = 1;
        tally.scanned_stacks = 50;
        assert_eq!(tally.complete_percent(), Some(98.0));
    }

    #[test]
    fn the_files_with_most_stops_are_named() {
        let mut stops = Stops::default();
        assert_eq!(stops.most(), "");
        for path in ["/l/b.so", "/l/a.so", "[unknown]", "/l/b.so", "/l/c.so"] {
            stops.add(path);
        }
        assert_eq!(stops.most(), "2 in b.so, 1 in [unknown], 1 in a.so");
    }

    #[test]
    fn causes_have_names() {
        let mut counts = AgentCounts::default();
        counts.dropped_by_cause[0] = 2;
        counts.dropped_by_cause[7] = 1;
        assert_eq!(
            counts.causes().collect::<Vec<_>>(),
            [("ring full", 2), ("other", 1)]
        );
        assert_eq!(counts.dropped(), 3);
    }
}
