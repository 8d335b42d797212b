//! What is decided before the first packet is copied: order, identifiers, process ids, names, clocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use anyhow::{Result, bail};

use rsys_proto::{KnownNamespace, ProcessNamespace, is_shared_flow};

use super::alignment::Alignment;
use crate::files::short_name;
use crate::trace_info::TraceInfo;
use rsys_traces::perfetto::clocks::TraceClocks;

/// Process ids of Linux are below.
const PID_BITS: u32 = 22;
/// The largest process id that a trace can hold is that of an `int32`.
const PID_MAX: u32 = i32::MAX as u32;

/// Identifiers of one input as they are in the merged trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    salt: u64,
}

impl Ids {
    /// For the process instance (or the foreign trace) that `instance` names.
    #[must_use]
    pub fn new(instance: &str) -> Self {
        let mut salt = 0xCBF2_9CE4_8422_2325_u64;
        for &byte in instance.as_bytes() {
            salt = (salt ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        Self { salt: mix(salt) }
    }

    /// For what the merge itself adds to these inputs.
    #[must_use]
    pub fn of_merge(infos: &[TraceInfo]) -> Self {
        let instances: Vec<String> = infos.iter().map(TraceInfo::instance).collect();
        Self::new(&instances.join("\n"))
    }

    /// The uuid of a track. The global track, 0, stays what it is.
    #[inline]
    #[must_use]
    pub fn track(self, uuid: u64) -> u64 {
        match uuid {
            0 => 0,
            // Bit 63 stays clear, which saves a byte.
            _ => (mix(uuid ^ self.salt) & (u64::MAX >> 1)).max(1),
        }
    }

    /// The id of a flow.
    #[inline]
    #[must_use]
    pub fn flow(self, id: u64) -> u64 {
        mix(id ^ self.salt.rotate_left(32))
    }
}

/// Every bit of the result depends on every bit of `value`, and no two values have the same.
#[inline]
fn mix(value: u64) -> u64 {
    let mut hash = value;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 33)
}

/// Tracks of the merged trace that hold what the inputs show above their processes.
#[derive(Debug, Clone, Copy)]
pub struct Roots {
    /// What belongs to processes: their GPUs, in the order of ranks.
    pub gpus: u64,
    /// What belongs to machines.
    pub machines: u64,
}

impl Roots {
    /// Of a merge with these identifiers.
    #[must_use]
    pub fn new(ids: Ids) -> Self {
        Self {
            gpus: ids.track(2),
            machines: ids.track(3),
        }
    }
}

/// What happens to one input.
#[derive(Debug)]
pub struct InputPlan {
    /// The file.
    pub path: PathBuf,
    /// Its identifiers.
    pub ids: Ids,
    /// The namespace of its tracks and flows if no other input has the same: they stay what they are.
    pub own: Option<KnownNamespace>,
    /// Its process ids that are others in the merged trace.
    pub pids: HashMap<u32, u32>,
    /// Its place among the inputs.
    pub order: u32,
    /// In front of the names of its processes.
    pub prefix: String,
    /// What holds the tracks that it has above its processes; none: they stay where they are.
    pub roots: Option<Roots>,
    /// In front of the names of such tracks.
    pub top_prefix: String,
    /// In front of the names of such tracks that belong to its machine.
    pub machine_prefix: String,
    /// The ids of the tracks of its machine, which are the same in all inputs.
    pub machine: Option<ProcessNamespace>,
    /// How its times become those of the host of reference.
    pub alignment: Alignment,
    /// Its clocks.
    pub clocks: TraceClocks,
}

impl InputPlan {
    /// The uuid of a track in the merged trace.
    #[inline]
    #[must_use]
    pub fn track(&self, uuid: u64) -> u64 {
        let is_own = self.own.is_some_and(|own| own.has_track(uuid));
        if is_own || self.is_of_machine(uuid) {
            uuid
        } else {
            self.ids.track(uuid)
        }
    }

    /// The id of a flow in the merged trace.
    #[inline]
    #[must_use]
    pub fn flow(&self, id: u64) -> u64 {
        match self.own {
            _ if is_shared_flow(id) => id,
            Some(own) if own.has_flow(id) => id,
            _ => self.ids.flow(id),
        }
    }

    /// Whether a track belongs to the machine.
    #[inline]
    #[must_use]
    pub fn is_of_machine(&self, uuid: u64) -> bool {
        self.machine.is_some_and(|machine| machine.has_track(uuid))
    }

    /// A process id in the merged trace.
    #[inline]
    #[must_use]
    pub fn pid(&self, pid: u32) -> u32 {
        self.pids.get(&pid).copied().unwrap_or(pid)
    }

    /// The name of a process in the merged trace.
    #[must_use]
    pub fn process_name(&self, name: &str, pid: u32) -> String {
        let mut full = self.prefix.clone();
        full.push_str(name);
        if self.pids.contains_key(&pid) {
            let space = if full.is_empty() { "" } else { " " };
            full.push_str(&format!("{space}(real pid {pid})"));
        }
        full
    }
}

/// Puts inputs in the order of the merged trace: by rank, then by host, then by when they started. The order in which they were named does
/// not matter.
///
/// # Errors
/// When two inputs are of the same process instance.
pub fn sort(infos: &mut [TraceInfo]) -> Result<()> {
    infos.sort_by_cached_key(|info| {
        let of_rank = info.rank().unwrap_or(u64::MAX);
        let start_ns = info.count("start_time_ns").unwrap_or(u64::MAX);
        let host = info.host().to_owned();
        (
            of_rank,
            host,
            start_ns,
            info.pids.first().copied(),
            info.instance(),
        )
    });
    let mut seen: HashMap<String, &TraceInfo> = HashMap::new();
    for info in infos.iter() {
        if let Some(first) = seen.insert(info.instance(), info) {
            bail!(
                "{} and {} are traces of the same process instance; name one of them only",
                first.path.display(),
                info.path.display()
            );
        }
    }
    Ok(())
}

/// Process ids that two inputs have: the first in order keeps it, the others get ones that no Linux process has.
#[must_use]
pub fn pids(infos: &[TraceInfo]) -> Vec<HashMap<u32, u32>> {
    let mut taken: BTreeSet<u32> = infos.iter().flat_map(|info| &info.pids).copied().collect();
    let mut owned = BTreeSet::new();
    let mut next = 1 << PID_BITS;
    let give = |pid: u32, taken: &mut BTreeSet<u32>, next: &mut u32| {
        // Recognisable where possible: the real id in the lower bits.
        let marked = (1..PID_MAX >> PID_BITS)
            .map(|number| number << PID_BITS | pid)
            .find(|candidate| pid >> PID_BITS == 0 && !taken.contains(candidate));
        let new = marked.unwrap_or_else(|| {
            while taken.contains(next) {
                *next += 1;
            }
            *next
        });
        taken.insert(new);
        new
    };
    infos
        .iter()
        .map(|info| {
            let mut changed = HashMap::new();
            for &pid in &info.pids {
                // Process 0 is no process.
                if pid != 0 && !owned.insert(pid) {
                    changed.insert(pid, give(pid, &mut taken, &mut next));
                }
            }
            changed
        })
        .collect()
}

/// The namespaces of inputs; where two have the same, the first in order keeps it.
#[must_use]
pub fn namespaces(infos: &[TraceInfo]) -> Vec<Option<KnownNamespace>> {
    let mut taken = BTreeSet::new();
    infos
        .iter()
        .map(|info| {
            let own = KnownNamespace::of_track(info.process_track)?;
            taken.insert(own.key()).then_some(own)
        })
        .collect()
}

/// What stands in front of the names of an input's processes: its rank, and its host if there are several.
#[must_use]
pub fn prefix(info: &TraceInfo, rank_digits: usize, show_host: bool) -> String {
    let mut prefix = String::new();
    if let Some(rank) = info.rank() {
        prefix.push_str(&format!("rank {rank:0rank_digits$} \u{b7} "));
    }
    if show_host {
        let host = match info.host() {
            "" => short_name(&info.path),
            host => host.to_owned(),
        };
        prefix.push_str(&format!("{host} \u{b7} "));
    }
    prefix
}

/// What stands in front of the names of tracks that an input has above its processes, whose own names have `prefix`: of a process without
/// a rank, its id.
#[must_use]
pub fn top_prefix(info: &TraceInfo, prefix: &str) -> String {
    let pid = info.count("pid").filter(|_| info.short.is_none());
    match (info.rank(), pid) {
        (None, Some(pid)) => format!("{prefix}pid {pid} \u{b7} "),
        _ => prefix.to_owned(),
    }
}

/// The hosts of the inputs, numbered in the order of the inputs, and a name for each.
#[must_use]
pub fn hosts(infos: &[TraceInfo]) -> (Vec<usize>, Vec<String>) {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut names = Vec::new();
    let of_inputs = infos
        .iter()
        .map(|info| {
            let key = host_key(info, infos);
            *numbers.entry(key).or_insert_with(|| {
                names.push(match info.host() {
                    "" => format!("host of {}", short_name(&info.path)),
                    host => host.to_owned(),
                });
                names.len() - 1
            })
        })
        .collect();
    (of_inputs, names)
}

/// When two hosts booted at moments nearer than this, a foreign trace that does not name its host is taken for one of the same.
const SAME_BOOT_NS: u64 = 1_000_000_000;

/// The identity of a host: the boot id, or the name, or else when it booted.
fn host_key(info: &TraceInfo, all: &[TraceInfo]) -> String {
    let named = |info: &TraceInfo| match (info.text("boot_id"), info.host()) {
        ("", "") => None,
        ("", host) => {
            // A foreign trace: the boot of the host of that name, if one of ours is of it.
            let same = all
                .iter()
                .find(|other| !other.text("boot_id").is_empty() && other.host() == host);
            Some(same.map_or(host, |other| other.text("boot_id")).to_owned())
        }
        (boot, _) => Some(boot.to_owned()),
    };
    let booted = |info: &TraceInfo| info.wall_clock.points.first().map(|point| point.1);
    named(info).unwrap_or_else(|| {
        let near = booted(info).and_then(|mine| {
            let others = all.iter().filter_map(|other| {
                let distance = booted(other)?.abs_diff(mine);
                Some((distance, named(other)?))
            });
            others
                .filter(|(distance, _)| *distance < SAME_BOOT_NS)
                .min()
        });
        match (near, booted(info)) {
            (Some((_, key)), _) => key,
            (None, Some(boot)) => format!("booted {}", boot / SAME_BOOT_NS.cast_signed()),
            (None, None) if all.iter().all(|other| booted(other).is_none()) => String::new(),
            (None, None) => info.instance(),
        }
    })
}
