//! Our goals, judged by the figures of this run.

use super::numbers::ratio;
use super::table::{Cell, Figures, Table};

/// Judges all goals. A figure that was not measured leaves its goal open.
pub fn judge(figures: &Figures) -> Table {
    let mut table = Table::new(
        "Goals: ours beside a peer, all of this run",
        &[
            "goal",
            "what",
            "ours",
            "bound",
            "peer",
            "its figure",
            "x ours",
            "met",
        ],
    );
    let by_median = goals(figures, "_median");
    for (goal, again) in goals(figures, "").iter().zip(&by_median) {
        let met = match goal.verdict().unless_contradicted(&again.verdict()) {
            Verdict::Open => "not measured",
            Verdict::Noise => "noise",
            Verdict::Met => "yes",
            Verdict::Missed => "NO",
        };
        table.row(vec![
            goal.name.into(),
            goal.what.into(),
            Cell::number(goal.ours, 2),
            goal.bound_text().into(),
            goal.peer_name.into(),
            Cell::number(goal.peer, 2),
            Cell::number(
                goal.peer
                    .zip(goal.ours)
                    .and_then(|(theirs, ours)| ratio(theirs, ours)),
                2,
            ),
            met.into(),
        ]);
    }
    table.note("noise: an overhead below zero, or one that the smallest runs and the medians judge differently");
    table.note("G4 (completeness), G5 (handler purity), G6 (kill -9): see the tests, they are not a matter of speed");
    table
}

/// Within what a figure must lie.
#[derive(Debug, Clone, Copy)]
enum Bound {
    AtMost(f64),
    /// Around 1, by this much.
    Within(f64),
    /// Not above the peer.
    Peer,
}

/// Nothing makes a program faster: an overhead below this, in percent or in microseconds per sample, says only that the machine was
/// busier during the bare runs.
const LEAST_OVERHEAD: f64 = -1.0;

#[derive(Debug, PartialEq)]
enum Verdict {
    Met,
    Missed,
    /// The machine was too busy to tell.
    Noise,
    /// A figure is missing.
    Open,
}

impl Verdict {
    /// Where the smallest runs and the medians disagree, neither is to be believed.
    fn unless_contradicted(self, other: &Self) -> Self {
        match (&self, other) {
            (Self::Met, Self::Missed | Self::Noise) | (Self::Missed, Self::Met | Self::Noise) => {
                Self::Noise
            }
            _ => self,
        }
    }
}

#[derive(Debug)]
struct Goal {
    name: &'static str,
    what: &'static str,
    ours: Option<f64>,
    bound: Bound,
    peer_name: &'static str,
    peer: Option<f64>,
}

impl Goal {
    fn verdict(&self) -> Verdict {
        let Some(ours) = self.ours else {
            return Verdict::Open;
        };
        let met = match (self.bound, self.peer) {
            _ if self.name == "G2" && ours < LEAST_OVERHEAD => return Verdict::Noise,
            (Bound::AtMost(bound), _) => ours <= bound,
            (Bound::Within(bound), _) => (ours - 1.0).abs() <= bound,
            (Bound::Peer, Some(peer)) => ours <= peer,
            (Bound::Peer, None) => return Verdict::Open,
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }

    fn bound_text(&self) -> String {
        match self.bound {
            Bound::AtMost(bound) => format!("<= {bound:.2}"),
            Bound::Within(bound) => format!("1 +- {bound:.2}"),
            Bound::Peer => "<= peer".to_owned(),
        }
    }
}

/// All goals. Overheads are taken from the smallest runs, or with the suffix `_median` from the medians.
fn goals(figures: &Figures, suffix: &str) -> Vec<Goal> {
    let get = |key: &str| figures.get(key).copied();
    let walk = |least: f64, most: f64, cache: &str, figure: &str| {
        figures.iter().find_map(|(key, frames)| {
            let start = key.strip_suffix("/frames")?;
            let fits = start.ends_with(cache) && (least..=most).contains(frames);
            get(&format!("{start}/{figure}")).filter(|_| fits)
        })
    };
    let walk_goal = |what, least, most, cache: &str, bound, scale: f64| Goal {
        name: "G1",
        what,
        ours: walk(least, most, cache, "ours_ns").map(|ns| ns / scale),
        bound: Bound::AtMost(bound),
        peer_name: "framehop",
        peer: walk(least, most, cache, "framehop_ns").map(|ns| ns / scale),
    };
    let overhead = |program: &str, rate: u32, tool: &str, figure: &str| {
        get(&format!(
            "overhead/{program}/{rate}/{tool}/{figure}{suffix}"
        ))
    };
    let floor_bound = |program: &str| {
        let floor = overhead(program, 1000, "perf, no stacks", "cpu_percent");
        Bound::AtMost(floor.unwrap_or(0.0) + 1.5)
    };
    let cpu = |what, program: &str, rate, bound| Goal {
        name: "G2",
        what,
        ours: overhead(program, rate, "rsys", "cpu_percent"),
        bound,
        peer_name: "perf -g (fp)",
        peer: overhead(program, rate, "perf -g (fp)", "cpu_percent"),
    };
    let sample = |what, program: &str, peer_name: &'static str| Goal {
        name: "G2",
        what,
        ours: overhead(program, 1000, "rsys", "us_per_sample"),
        bound: Bound::Peer,
        peer_name,
        peer: overhead(program, 1000, peer_name, "us_per_sample"),
    };
    let worst_rate = |tool: &str| {
        figures
            .iter()
            .filter(|(key, _)| key.starts_with("rate/") && key.ends_with(&format!("/{tool}")))
            .map(|(_, ratio)| *ratio)
            .max_by(|one, other| (one - 1.0).abs().total_cmp(&(other - 1.0).abs()))
    };
    let size = |what, program: &str, peer_name: &'static str| Goal {
        name: "G8",
        what,
        ours: get(&format!("size/{program}/rsys/bytes_per_sample")),
        bound: Bound::AtMost(40.0),
        peer_name,
        peer: get(&format!("size/{program}/{peer_name}/bytes_per_sample")),
    };
    let memory = |what, program: &str, bound| Goal {
        name: "G8",
        what,
        ours: get(&format!("memory/{program}/rsys/above_bare_mb")),
        bound: Bound::AtMost(bound),
        peer_name: "samply",
        peer: get(&format!("memory/{program}/samply/above_bare_mb")),
    };
    let finish = |what, ours: &str, bound| Goal {
        name: "G7",
        what,
        ours: get(&format!("finish/PyTorch/{ours}")),
        bound: Bound::AtMost(bound),
        peer_name: "perf -g + perf script",
        peer: get("finish/PyTorch/perf -g + perf script"),
    };
    // With the slowest of the runtimes, by either source.
    let gpu_start = |what, figure: &str| Goal {
        name: "G9",
        what,
        ours: figures
            .iter()
            .filter(|(key, _)| {
                key.starts_with("gpu-start/") && key.ends_with(&format!(" source/{figure}{suffix}"))
            })
            .map(|(_, added)| *added)
            .max_by(f64::total_cmp),
        bound: Bound::AtMost(30.0),
        peer_name: "",
        peer: None,
    };
    vec![
        walk_goal(
            "walk of about 30 frames, warm, us",
            25.0,
            40.0,
            "warm",
            1.0,
            1e3,
        ),
        walk_goal(
            "walk of about 100 frames, warm, us",
            90.0,
            120.0,
            "warm",
            2.0,
            1e3,
        ),
        walk_goal(
            "walk of about 100 frames, cold, us",
            90.0,
            120.0,
            "cold",
            25.0,
            1e3,
        ),
        cpu(
            "CPU +%, C depth 30, 100 Hz",
            "C, depth 30",
            100,
            Bound::AtMost(1.0),
        ),
        cpu("CPU +%, Python, 100 Hz", "Python", 100, Bound::AtMost(1.0)),
        cpu(
            "CPU +%, C depth 30, 1000 Hz, floor + 1.5",
            "C, depth 30",
            1000,
            floor_bound("C, depth 30"),
        ),
        cpu(
            "CPU +%, C depth 100, 1000 Hz, floor + 1.5",
            "C, depth 100",
            1000,
            floor_bound("C, depth 100"),
        ),
        cpu(
            "CPU +%, C 4 threads, 1000 Hz, floor + 1.5",
            "C, depth 30, 4 threads",
            1000,
            floor_bound("C, depth 30, 4 threads"),
        ),
        cpu(
            "CPU +%, Python, 1000 Hz, floor + 1.5",
            "Python",
            1000,
            floor_bound("Python"),
        ),
        sample("us/sample, C depth 10", "C, depth 10", "perf -g (fp)"),
        sample("us/sample, C depth 30", "C, depth 30", "perf -g (fp)"),
        sample("us/sample, C depth 100", "C, depth 100", "perf -g (fp)"),
        sample("us/sample, C depth 30", "C, depth 30", "perf dwarf"),
        sample("us/sample, C depth 30", "C, depth 30", "samply"),
        sample("us/sample, Python", "Python", "perf -g (fp)"),
        Goal {
            name: "G2",
            what: "wall +%, Python, 1000 Hz",
            ours: overhead("Python", 1000, "rsys", "wall_percent"),
            bound: Bound::Peer,
            peer_name: "py-spy --native",
            peer: overhead("Python", 1000, "py-spy --native", "wall_percent"),
        },
        Goal {
            name: "G3",
            what: "weighted samples / (rate x CPU s), the worst case",
            ours: worst_rate("rsys"),
            bound: Bound::Within(0.02),
            peer_name: "perf, no stacks",
            peer: worst_rate("perf, no stacks"),
        },
        Goal {
            name: "G7",
            what: "10 000 addresses of libtorch, first run, s",
            ours: get("names/first run/seconds"),
            bound: Bound::AtMost(0.15),
            peer_name: "addr2line",
            peer: get("names/addr2line/seconds"),
        },
        Goal {
            name: "G7",
            what: "10 000 addresses of libtorch, peak RSS MB",
            ours: get("names/first run/peak_mb"),
            bound: Bound::AtMost(150.0),
            peer_name: "addr2line",
            peer: get("names/addr2line/peak_mb"),
        },
        finish(
            "PyTorch: s from exit to trace, first run",
            "rsys, first",
            2.0,
        ),
        finish(
            "PyTorch: s from exit to trace, second run",
            "rsys, again",
            1.0,
        ),
        size(
            "bytes per sample, C depth 30",
            "C, depth 30",
            "perf -g (fp)",
        ),
        size("bytes per sample, C depth 30", "C, depth 30", "samply"),
        size("bytes per sample, Python", "Python", "samply"),
        size("bytes per sample, Python", "Python", "py-spy --native"),
        memory("MB added to the program, 1 thread", "C, depth 30", 4.6),
        memory(
            "MB added to the program, 64 threads",
            "C, depth 30, 64 threads",
            4.0 + 64.0 * 0.6,
        ),
        Goal {
            name: "G8",
            what: "MB of the profiler, PyTorch",
            ours: get("memory/PyTorch/rsys/profiler_mb"),
            bound: Bound::Peer,
            peer_name: "samply",
            peer: get("memory/PyTorch/samply/profiler_mb"),
        },
        Goal {
            name: "G9",
            what: "ms added to /bin/true, profiler included",
            ours: get("startup/true/rsys/added_ms"),
            bound: Bound::AtMost(5.0),
            peer_name: "perf -g (fp)",
            peer: get("startup/true/perf -g (fp)/added_ms"),
        },
        gpu_start(
            "ms added until the first kernel of a GPU is done",
            "kernel_wall_ms",
        ),
        gpu_start("CPU ms added to the program until then", "kernel_cpu_ms"),
        Goal {
            name: "G10",
            what: "counters of processes and host, % of a core",
            ours: get("monitors/default/core_percent"),
            bound: Bound::AtMost(0.5),
            peer_name: "",
            peer: None,
        },
        Goal {
            name: "G10",
            what: "events of threads, four: us per sample and event",
            ours: get("counters/four/us_per_sample_and_event"),
            bound: Bound::AtMost(0.5),
            peer_name: "",
            peer: None,
        },
        Goal {
            name: "G10",
            what: "events of threads, one: us per sample and event",
            ours: get("counters/one/us_per_sample_and_event"),
            bound: Bound::AtMost(0.5),
            peer_name: "",
            peer: None,
        },
        Goal {
            name: "G9",
            what: "CPU us added to thread create + join",
            ours: get("births/thread/rsys/added_cpu_us"),
            bound: Bound::AtMost(3.0),
            peer_name: "perf -g (fp)",
            peer: get("births/thread/perf -g (fp)/added_cpu_us"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_missed_or_open() {
        let mut figures = Figures::new();
        figures.insert("finish/PyTorch/rsys, first".into(), 1.0);
        figures.insert("finish/PyTorch/rsys, again".into(), 1.5);
        let text = judge(&figures).print();
        let line = |what: &str| text.lines().find(|line| line.contains(what)).unwrap();
        assert!(line("trace, first run").ends_with("yes"));
        assert!(line("trace, second run").ends_with("NO"));
        assert!(line("bytes per sample, Python").ends_with("not measured"));
    }

    #[test]
    fn an_overhead_below_zero_is_not_praised() {
        let mut figures = Figures::new();
        figures.insert("overhead/Python/100/rsys/cpu_percent".into(), -18.0);
        let text = judge(&figures).print();
        assert!(
            text.lines()
                .any(|line| line.contains("Python, 100 Hz") && line.ends_with("noise"))
        );
    }

    #[test]
    fn minimum_and_median_have_to_agree() {
        let mut figures = Figures::new();
        let key = "overhead/Python/100/rsys/cpu_percent";
        figures.insert(key.into(), 0.5);
        let verdict = |figures: &Figures| {
            let text = judge(figures).print();
            let line = text.lines().find(|line| line.contains("Python, 100 Hz"));
            line.unwrap()
                .split_whitespace()
                .next_back()
                .unwrap()
                .to_owned()
        };
        assert_eq!(verdict(&figures), "yes");
        figures.insert(format!("{key}_median"), 3.0);
        assert_eq!(verdict(&figures), "noise");
    }

    #[test]
    fn the_slowest_runtimes_are_judged() {
        let mut figures = Figures::new();
        for suffix in ["", "_median"] {
            for (way, added) in [
                ("one/HIP source", 12.0),
                ("one/samples", 90.0),
                ("two/HSA source", 31.0),
            ] {
                figures.insert(format!("gpu-start/{way}/kernel_wall_ms{suffix}"), added);
            }
        }
        let text = judge(&figures).print();
        let line = text.lines().find(|line| line.contains("first kernel"));
        let line = line.unwrap();
        assert!(line.contains("31.00") && line.ends_with("NO"), "{line}");
    }

    #[test]
    fn walks_are_found_by_their_depth() {
        let mut figures = Figures::new();
        for (key, value) in [
            ("frames", 32.0),
            ("ours_ns", 500.0),
            ("framehop_ns", 2000.0),
        ] {
            figures.insert(format!("walks/32/warm/{key}"), value);
        }
        let walk = &goals(&figures, "")[0];
        assert_eq!((walk.ours, walk.peer), (Some(0.5), Some(2.0)));
    }
}
