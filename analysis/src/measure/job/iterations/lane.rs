//! All iterations of a rank on one GPU, as they were found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::differences::Difference;
use super::marker::MarkerKind;
use super::sums::Sums;
use super::verdicts::{Change, Verdict};

/// The sensors that are joined to iterations: unit, words of which the first that a name contains is preferred, and key.
pub(super) const SENSORS: [(&str, &[&str], &str); 3] = [
    ("MHz", &["sclk", "gfx", "GPU Clock", "freq1"], "clock_mhz"),
    ("W", &["power", "Power"], "power_w"),
    ("\u{b0}C", &["junction", "hotspot", "edge"], "temperature_c"),
];

/// An iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iteration {
    /// The number in its name, else its place among those of the rank, from 0 on.
    pub number: u64,
    /// BOOTTIME of its begin; where the host runs ahead, on the GPU.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// From when to when it was on the host; as it is where it is of the GPU alone.
    pub host_ns: (u64, u64),
    /// How long collectives ran, and no computation.
    pub exposed_comm_ns: u64,
    /// When the last operation ended that was launched in it; 0 if nothing was.
    pub work_end_ns: u64,
    /// How it compares with the others of the rank.
    pub verdict: Verdict,
}

/// What an iteration consists of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detail {
    /// What of it was what.
    pub sums: Sums,
    /// Means of clock in MHz, power in W and temperature in °C of the GPU while it lasted.
    pub sensors: [Option<f64>; 3],
}

/// Kernels that recur within each iteration, as those of the layers of a network do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layers {
    /// How many there are in the iteration of middle length.
    pub count: u64,
    /// From the begin of one to the begin of the next, in the mean.
    pub mean_ns: u64,
    /// The kernel that each begins with.
    pub kernel: String,
}

/// All iterations of a rank on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// The rank, if the process has one.
    pub rank: Option<u64>,
    /// Name of the host.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// BOOTTIME at which the process began.
    pub process_start_ns: u64,
    /// Number and name of the GPU.
    pub device: (u32, String),
    /// The marker.
    pub marker: String,
    /// What the marker is.
    pub marker_kind: MarkerKind,
    /// Whether numbers are those in the names of the iterations.
    pub is_numbered: bool,
    /// The iterations in order.
    #[serde(skip)]
    pub iterations: Vec<Iteration>,
    /// What each consists of; empty where there are too many to be kept.
    #[serde(skip)]
    pub details: Vec<Detail>,
    /// All of them together.
    pub sums: Sums,
    /// What belongs to no iteration.
    pub outside: Sums,
    /// The whole GPU, as `timeline` has it.
    pub whole: Sums,
    /// Where the length of the iterations changes: places among the iterations.
    pub changes: Vec<Change>,
    /// What was different in the slowest iterations, by their places.
    pub differences: BTreeMap<usize, Vec<Difference>>,
    /// Kernels, and how long each was all that the GPU did in a usual iteration; those that were so for longest.
    pub kernels: Vec<(String, u64)>,
    /// Causes of idleness with their places, and how long the GPU was idle by each from begin to end of a usual iteration; the longest.
    pub gaps: Vec<(String, u64)>,
    /// Operations whose call is not known: the time at which they began counts in place of it.
    pub unlinked: u64,
    /// Those of them that were launched before anything was recorded, and belong to no iteration.
    #[serde(default)]
    pub leftover: u64,
    /// Where the host runs ahead of the GPU: how much later than on the host iterations are done there, in the median.
    #[serde(default)]
    pub host_ahead_ns: Option<u64>,
    /// What recurs within an iteration, if it does.
    #[serde(default)]
    pub layers: Option<Layers>,
    /// Collectives of which the operation is not known.
    pub untyped: u64,
    /// Markers within others of the same name, which count for nothing.
    pub nested: u64,
}

/// How many GPUs of ranks these are. One that was recorded several times, with pauses, has a lane for each recording; in containers, processes of one number run at once.
pub(super) fn ranks_of(lanes: &[Lane]) -> usize {
    let mut ends: BTreeMap<_, u64> = BTreeMap::new();
    let mut recorded: Vec<_> = lanes
        .iter()
        .map(|lane| {
            let ends = lane
                .iterations
                .iter()
                .map(|one| one.start_ns + one.duration_ns);
            let start_ns = lane.iterations.first().map_or(0, |one| one.start_ns);
            (start_ns, ends.max().unwrap_or(0), lane)
        })
        .collect();
    recorded.sort_by_key(|(start_ns, end_ns, _)| (*start_ns, *end_ns));
    let mut is_another = |(start_ns, end_ns, lane): &(u64, u64, &Lane)| {
        let owner = (lane.rank, lane.host.clone(), lane.pid, lane.device.0);
        let before_ns = ends.insert(owner, *end_ns);
        before_ns.is_none_or(|before_ns| before_ns > *start_ns)
    };
    recorded.iter().filter(|one| is_another(one)).count()
}

impl Lane {
    /// Where it stands in output: by rank, host, start of the process, and GPU.
    #[must_use]
    pub fn order(&self) -> (u64, &str, u64, u32, u32) {
        let rank = self.rank.unwrap_or(u64::MAX);
        (
            rank,
            &self.host,
            self.process_start_ns,
            self.pid,
            self.device.0,
        )
    }
}
