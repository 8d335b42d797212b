//! Stretches of the run, and what each rank and GPU did in them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{OfDevice, OfThread, Pop};
use crate::containers::sets::{IntervalSet, sweep};
use crate::program::iteration_names::with_numbers_out;
use rsys_traces::model::{DeviceId, Model, ProcessId, TextId, ThreadId};

/// So many regions are answered for beside the run, those of most time.
const REGIONS: usize = 20;
/// And those that have this part of the run's time at least.
const LEAST_PART: f64 = 0.01;

/// Why there is no efficiency of MPI.
pub(super) const NO_MPI: &str =
    "no call of MPI is in these traces: rsys-sample records them with -I mpip";
/// Why there is none of offloading.
pub(super) const NO_RUNTIME: &str =
    "no call of the GPU's runtime is in these traces: rsys-sample records them with -I rocm";

/// What a rank did in a region, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RankTimes {
    /// How long it was in the region.
    pub(super) elapsed_ns: u64,
    /// In MPI.
    pub(super) mpi_ns: u64,
    /// In calls of the GPU's runtime, and not in MPI.
    pub(super) runtime_ns: u64,
}

impl RankTimes {
    /// Neither in MPI nor in calls of the GPU's runtime.
    pub(super) fn useful_ns(&self) -> u64 {
        self.elapsed_ns - self.mpi_ns - self.runtime_ns
    }
}

/// What a GPU did in a region, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct GpuTimes {
    /// Kernels of the program ran.
    pub(super) compute_ns: u64,
    /// Kernels, collectives or copies ran.
    pub(super) active_ns: u64,
    /// How long any of the ranks that use it was in the region.
    pub(super) window_ns: u64,
}

/// A rank.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) process: ProcessId,
    /// The thread that calls MPI; else the first one.
    thread: Option<ThreadId>,
    /// From the end of `MPI_Init` to the start of `MPI_Finalize`; else as long as anything is known of it.
    window: (u64, u64),
}

/// A GPU, as one or several processes see it.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) devices: Vec<DeviceId>,
}

/// A stretch of the run.
#[derive(Debug)]
pub(super) struct Region {
    /// The name of a range with its numbers out; `None`: the run.
    pub(super) name: Option<String>,
    /// In the order of the ranks that are in it.
    pub(super) ranks: Vec<(ProcessId, RankTimes)>,
    /// In the order of [`Regions::gpus`], of those whose ranks are in it.
    pub(super) gpus: Vec<(usize, GpuTimes)>,
}

impl Region {
    /// How long the rank was in it that was in it longest.
    pub(super) fn elapsed_ns(&self) -> u64 {
        let times = self.ranks.iter().map(|(_, times)| times.elapsed_ns);
        times.max().unwrap_or(0)
    }

    /// What the times of GPUs are parts of: ranks that share a GPU may be in the region one after the other, so that it is in it for longer than each of them.
    pub(super) fn gpu_elapsed_ns(&self) -> u64 {
        let windows = self.gpus.iter().map(|(_, times)| times.window_ns);
        windows.max().unwrap_or(0).max(self.elapsed_ns())
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Regions {
    /// The run first, then ranges of the program, those of most time first. None without ranks.
    pub(super) list: Vec<Region>,
    pub(super) gpus: Vec<Gpu>,
    pub(super) has_mpi: bool,
    pub(super) has_runtime: bool,
    /// Ranks of which other threads call MPI as well.
    several: usize,
}

/// Windows of ranks, by process.
type Windows = BTreeMap<ProcessId, IntervalSet>;

impl Regions {
    /// What all records say.
    pub(super) fn of(mut pop: Pop, model: &Model) -> Self {
        let (ranks, several) = ranks(&mut pop, model);
        if ranks.is_empty() {
            return Self::default();
        }
        let mut threads = std::mem::take(&mut pop.threads);
        let mut of_rank = |rank: &Rank| rank.thread.and_then(|thread| threads.remove(&thread));
        let mut ranks: Vec<(Rank, OfThread)> = ranks
            .into_iter()
            .map(|rank| {
                let did = of_rank(&rank).unwrap_or_default();
                (rank, did)
            })
            .collect();
        let gpus = gpus(&pop, &ranks, model);
        let mut found = Self {
            has_mpi: ranks
                .iter()
                .any(|(_, did)| did.calls.keys().any(|&name| is_mpi(name, model))),
            has_runtime: ranks.iter().any(|(_, did)| !did.runtime.is_empty()),
            several,
            gpus,
            list: Vec::new(),
        };
        for (name, mut windows) in windows(&mut ranks, model) {
            let region = Region {
                name,
                ranks: rank_times(&mut ranks, &mut windows, model),
                gpus: gpu_times(&found.gpus, &mut pop.devices, &mut windows, model),
            };
            found.list.push(region);
        }
        found.list.retain(|region| region.elapsed_ns() > 0);
        found
    }

    /// What has to be known to read the answer.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.list.is_empty() {
            notes.push("no rank is in these traces: neither calls of MPI (-I mpip) nor operations of GPUs (-I rocm)".to_owned());
            return notes;
        }
        if !self.has_mpi {
            notes.push(NO_MPI.to_owned());
        }
        if !self.has_runtime && !self.gpus.is_empty() {
            notes.push(NO_RUNTIME.to_owned());
        }
        if self.several > 0 {
            notes.push(format!(
                "in {} ranks other threads call MPI too: only the thread that initialised it is judged",
                self.several
            ));
        }
        notes
    }
}

fn is_mpi(name: TextId, model: &Model) -> bool {
    let name = model.text(name);
    name.starts_with("MPI_") || name.starts_with("PMPI_")
}

/// RCCL gives work to GPUs, as their runtime does.
fn is_rccl(name: TextId, model: &Model) -> bool {
    model.text(name).starts_with("nccl")
}

/// The processes that are ranks: those that call MPI, or where none does, those that use GPUs. And of how many several threads call MPI.
fn ranks(pop: &mut Pop, model: &Model) -> (Vec<Rank>, usize) {
    // By process: the thread that called MPI first, and the others that did.
    let mut callers: BTreeMap<ProcessId, (u64, ThreadId, usize)> = BTreeMap::new();
    for (&thread, did) in &mut pop.threads {
        let mut sets: Vec<&mut IntervalSet> = did
            .calls
            .iter_mut()
            .filter(|(name, _)| is_mpi(**name, model))
            .map(|(_, set)| set)
            .collect();
        let first = IntervalSet::union_of(sets.drain(..)).next();
        let Some((start_ns, _)) = first else {
            continue;
        };
        let process = model.threads[thread.index()].process;
        let (first_ns, main, count) = callers.entry(process).or_insert((start_ns, thread, 0));
        *count += 1;
        if start_ns < *first_ns {
            (*first_ns, *main) = (start_ns, thread);
        }
    }
    let several = callers.values().filter(|(.., count)| *count > 1).count();
    let mut users: Vec<ProcessId> = callers.keys().copied().collect();
    if users.is_empty() {
        let devices = model.devices.iter().zip(&pop.devices);
        let used = devices.filter(|(_, did)| !did.compute.is_empty() || !did.moves.is_empty());
        users = used.map(|(device, _)| device.process).collect();
    }
    users.sort_by(|one, other| {
        model
            .process(*one)
            .order()
            .cmp(&model.process(*other).order())
    });
    users.dedup();
    let ranks = users.into_iter().filter_map(|process| {
        let seen = (*pop.seen.get(process.index())?)?;
        let thread = callers.get(&process).map(|(_, thread, _)| *thread);
        let thread = thread.or_else(|| first_thread(process, model));
        let did = thread.and_then(|thread| pop.threads.get_mut(&thread));
        let window = did.map_or(seen, |did| window(did, seen, model));
        Some(Rank {
            process,
            thread,
            window,
        })
    });
    (ranks.collect(), several)
}

/// The thread whose number is that of its process.
fn first_thread(process: ProcessId, model: &Model) -> Option<ThreadId> {
    let pid = model.process(process).pid;
    let mut threads = model.threads.iter();
    let place = threads.position(|thread| thread.process == process && thread.tid == pid)?;
    Some(ThreadId::new(place))
}

/// From the end of `MPI_Init` to the start of `MPI_Finalize`, as far as they were recorded.
fn window(did: &mut OfThread, seen: (u64, u64), model: &Model) -> (u64, u64) {
    let (mut start_ns, mut end_ns) = seen;
    for (&name, set) in &mut did.calls {
        match model.text(name) {
            "MPI_Init" | "MPI_Init_thread" => {
                start_ns = set
                    .intervals()
                    .last()
                    .map_or(start_ns, |(_, end_ns)| end_ns);
            }
            "MPI_Finalize" => {
                end_ns = set
                    .intervals()
                    .next()
                    .map_or(end_ns, |(start_ns, _)| start_ns);
            }
            _ => {}
        }
    }
    (start_ns, end_ns.max(start_ns))
}

/// The GPUs of ranks. One that several processes of a host use is one.
fn gpus(pop: &Pop, ranks: &[(Rank, OfThread)], model: &Model) -> Vec<Gpu> {
    let mut gpus: Vec<((&str, u32), Gpu)> = Vec::new();
    for id in model.devices_in_order() {
        let device = model.device(id);
        let is_used = pop
            .devices
            .get(id.index())
            .is_some_and(|did| !did.compute.is_empty() || !did.moves.is_empty());
        if !is_used || !ranks.iter().any(|(rank, _)| rank.process == device.process) {
            continue;
        }
        let key = (
            model.process(device.process).boot_id.as_str(),
            device.ordinal,
        );
        let same = gpus
            .iter_mut()
            .find(|(of, _)| device.is_physical && *of == key);
        match same {
            Some((_, gpu)) => gpu.devices.push(id),
            None => gpus.push((key, Gpu { devices: vec![id] })),
        }
    }
    gpus.into_iter().map(|(_, gpu)| gpu).collect()
}

/// The run, and the ranges of the program by their names without numbers.
fn windows(ranks: &mut [(Rank, OfThread)], model: &Model) -> Vec<(Option<String>, Windows)> {
    let mut run = Windows::new();
    let mut run_ns = 0;
    for (rank, did) in ranks.iter_mut() {
        did.ranges.sort();
        let (start_ns, end_ns) = rank.window;
        run.entry(rank.process).or_default().add(start_ns, end_ns);
        run_ns = run_ns.max(end_ns - start_ns);
    }
    let mut named: Vec<(String, u64, Windows)> = Vec::new();
    // Places in that list, by the text of a range and by its name without numbers.
    let mut places: BTreeMap<u64, usize> = BTreeMap::new();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for (rank, did) in ranks.iter() {
        let (from_ns, to_ns) = rank.window;
        for [start_ns, end_ns, text] in did.ranges.iter() {
            let (start_ns, end_ns) = (start_ns.max(from_ns), end_ns.min(to_ns));
            if start_ns >= end_ns {
                continue;
            }
            let place = *places.entry(text).or_insert_with(|| {
                let name = with_numbers_out(model.text(TextId::at(text as usize)));
                *names.entry(name).or_insert_with_key(|name| {
                    named.push((name.clone(), 0, Windows::new()));
                    named.len() - 1
                })
            });
            let (_, sum_ns, windows) = &mut named[place];
            *sum_ns += end_ns - start_ns;
            windows
                .entry(rank.process)
                .or_default()
                .add(start_ns, end_ns);
        }
    }
    let least_ns = (run_ns as f64 * LEAST_PART) as u64 * ranks.len() as u64;
    named.retain(|(_, sum_ns, _)| *sum_ns > least_ns);
    named.sort_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    named.truncate(REGIONS);
    let named = named
        .into_iter()
        .map(|(name, _, windows)| (Some(name), windows));
    std::iter::once((None, run)).chain(named).collect()
}

/// Bits of a sweep: the window, and what is looked for in it.
const WINDOW: u32 = 1;
const FIRST: u32 = 2;
const SECOND: u32 = 4;

/// What ranks did in windows.
fn rank_times(
    ranks: &mut [(Rank, OfThread)],
    windows: &mut Windows,
    model: &Model,
) -> Vec<(ProcessId, RankTimes)> {
    let times = ranks.iter_mut().filter_map(|(rank, did)| {
        let window = windows.get_mut(&rank.process)?;
        let mut times = RankTimes::default();
        let (mut mpi, mut runtime) = (Vec::new(), vec![&mut did.runtime]);
        for (&name, set) in &mut did.calls {
            if is_mpi(name, model) {
                mpi.push(set);
            } else if is_rccl(name, model) {
                runtime.push(set);
            }
        }
        let [mpi, runtime] = [mpi, runtime].map(IntervalSet::union_of);
        let sets = vec![window.intervals(), mpi, runtime];
        sweep(sets, |segment| {
            let duration_ns = segment.end_ns - segment.start_ns;
            if segment.sets & WINDOW == 0 {
                return;
            }
            times.elapsed_ns += duration_ns;
            if segment.sets & FIRST != 0 {
                times.mpi_ns += duration_ns;
            } else if segment.sets & SECOND != 0 {
                times.runtime_ns += duration_ns;
            }
        });
        Some((rank.process, times))
    });
    times.collect()
}

/// What GPUs did in windows of the ranks that use them.
fn gpu_times(
    gpus: &[Gpu],
    devices: &mut [OfDevice],
    windows: &mut Windows,
    model: &Model,
) -> Vec<(usize, GpuTimes)> {
    let mut found = Vec::new();
    for (number, gpu) in gpus.iter().enumerate() {
        let is_user = |process: &ProcessId| {
            gpu.devices
                .iter()
                .any(|&id| model.device(id).process == *process)
        };
        let of_users = windows.iter_mut().filter(|(process, _)| is_user(process));
        let mut of_users: Vec<&mut IntervalSet> = of_users.map(|(_, set)| set).collect();
        if of_users.is_empty() {
            continue;
        }
        let window = IntervalSet::union_of(of_users.drain(..));
        let (mut compute, mut moves) = (Vec::new(), Vec::new());
        for (index, did) in devices.iter_mut().enumerate() {
            if gpu.devices.iter().any(|id| id.index() == index) {
                compute.push(&mut did.compute);
                moves.push(&mut did.moves);
            }
        }
        let mut times = GpuTimes::default();
        let sets = vec![
            window,
            IntervalSet::union_of(compute),
            IntervalSet::union_of(moves),
        ];
        sweep(sets, |segment| {
            let duration_ns = segment.end_ns - segment.start_ns;
            if segment.sets & WINDOW == 0 {
                return;
            }
            times.window_ns += duration_ns;
            if segment.sets == WINDOW {
                return;
            }
            times.active_ns += duration_ns;
            if segment.sets & FIRST != 0 {
                times.compute_ns += duration_ns;
            }
        });
        found.push((number, times));
    }
    found
}
