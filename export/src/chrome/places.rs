//! Process and thread ids of a file: those of the run, where they tell processes, GPUs and streams apart.

use std::collections::{BTreeMap, HashMap};

use crate::Failure;
use crate::rows::each;
use crate::run::Run;
use crate::streams::Streams;

/// Linux has no process or thread ids of so much or more. Further processes of one id are told apart by it, and rows of a thread.
pub(super) const IDS_MAX: u64 = 5_000_000;
/// GPUs of files with several processes that use GPUs are above it.
const GPUS: u64 = 1_000_000_000;
/// And a process has no more GPUs than this.
const GPUS_OF_PROCESS: u64 = 1000;
/// Ids below it are kept as they are, beside what is added.
const NEAR: u64 = 1 << 48;
/// Larger ones count from something large (a hash, a bit): of them only this part is kept, and what is above it tells blocks apart.
const BLOCK_BITS: u32 = 32;

/// The ids of a process.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub pid: u64,
    gpu_base: u64,
    correlations: Correlations,
    pub streams: Streams,
    /// Members that say whose an event is, in files of several processes.
    pub owner: String,
}

/// What correlation ids of a process become, so that each is there once in a file: one block of them follows another, however large they were.
#[derive(Debug, Default)]
struct Correlations {
    blocks: BTreeMap<u64, Block>,
}

/// Correlation ids that are near one another.
#[derive(Debug, Default)]
struct Block {
    largest: u64,
    /// What its id 0 becomes.
    first: u64,
}

/// The block of an id, and the id within it.
fn place_of(id: u64) -> (u64, u64) {
    match id < NEAR {
        true => (0, id),
        false => (id >> BLOCK_BITS, id & ((1 << BLOCK_BITS) - 1)),
    }
}

impl Correlations {
    fn see(&mut self, id: u64) {
        let (block, id) = place_of(id);
        let block = self.blocks.entry(block).or_default();
        block.largest = block.largest.max(id);
    }

    /// Sets the first id, and returns the first of the next process.
    fn start(&mut self, base: u64) -> u64 {
        let mut next = base;
        for block in self.blocks.values_mut() {
            block.first = next;
            next = next.saturating_add(block.largest + 1);
        }
        next
    }

    fn shown(&self, id: u64) -> u64 {
        let (block, id) = place_of(id);
        let first = self.blocks.get(&block).map_or(0, |block| block.first);
        first.saturating_add(id)
    }
}

impl Place {
    /// The process id of a GPU's events.
    pub(super) fn gpu(&self, device: u64) -> u64 {
        self.gpu_base + device
    }

    /// A correlation id.
    pub(super) fn correlation(&self, id: u64) -> u64 {
        self.correlations.shown(id)
    }
}

/// The ids of all processes of a file, by their numbers.
///
/// # Errors
/// When the store is damaged.
pub(super) fn places(run: &Run<'_>) -> Result<HashMap<u64, Place>, Failure> {
    let mut places: BTreeMap<u64, Place> = BTreeMap::new();
    let mut same: HashMap<u64, u64> = HashMap::new();
    let is_alone = run.processes().count() == 1;
    for (id, process) in run.processes() {
        // Programs that a process executed follow each other in it.
        let before = same.entry(process.pid).or_default();
        let mut owner = String::new();
        if !is_alone {
            owner = format!(",\"pid_raw\":{}", process.pid);
            if let Some(rank) = process.rank {
                owner += &format!(",\"rank\":{rank}");
            }
        }
        let place = Place {
            pid: process.pid + *before * IDS_MAX,
            owner,
            ..Place::default()
        };
        *before += 1;
        places.insert(id as u64, place);
    }
    let mut users: BTreeMap<u64, ()> = BTreeMap::new();
    each(
        run.view,
        "operations",
        &["process_id", "correlation"],
        |row| {
            let id = row.number(0);
            if let Some(place) = places.get_mut(&id) {
                users.insert(id, ());
                row.known(1)
                    .iter()
                    .for_each(|id| place.correlations.see(*id));
            }
            Ok(())
        },
    )?;
    each(run.view, "calls", &["process_id", "correlation"], |row| {
        if let Some(place) = places.get_mut(&row.number(0)) {
            row.known(1)
                .iter()
                .for_each(|id| place.correlations.see(*id));
        }
        Ok(())
    })?;
    let mut base = 0;
    for place in places.values_mut() {
        base = place.correlations.start(base);
    }
    // The one process that uses GPUs has their own numbers, as a file of PyTorch's profiler has.
    if users.len() > 1 {
        for ((id, ()), number) in users.iter().zip(0..) {
            if let Some(place) = places.get_mut(id) {
                place.gpu_base = GPUS + number * GPUS_OF_PROCESS;
            }
        }
    }
    Ok(places.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set in ids that count differently from the others of their process.
    const APART: u64 = 1 << 63;

    #[test]
    fn correlations_of_processes_do_not_meet() {
        let (mut first, mut second) = (Correlations::default(), Correlations::default());
        for id in [5, 9, APART | 2] {
            first.see(id);
        }
        second.see(1);
        let next = second.start(first.start(0));
        let shown = [5, 9, APART | 2].map(|id| first.shown(id));
        assert_eq!((shown, second.shown(1), next), ([5, 9, 12], 14, 15));
    }

    #[test]
    fn large_correlations_become_small_ones() {
        let ids = [
            3,
            NEAR - 1,
            NEAR | 3,
            1 << 62 | 1_700_000_000_000_000_000,
            APART | NEAR | 1,
            u64::MAX - 1,
            u64::MAX,
        ];
        let mut processes: Vec<Correlations> = (0..8).map(|_| Correlations::default()).collect();
        for process in &mut processes {
            ids.iter().for_each(|id| process.see(*id));
        }
        let mut next = 0;
        for process in &mut processes {
            next = process.start(next);
        }
        let shown = processes.iter().flat_map(|one| ids.map(|id| one.shown(id)));
        let shown: Vec<u64> = shown.collect();
        // Each is larger than those before it, and a double has room for all.
        assert!(shown.is_sorted_by(|one, other| one < other), "{shown:?}");
        assert!(next <= 1 << 53, "{next}");
    }
}
