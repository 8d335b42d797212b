//! What a rank did in some stretches of time: on its GPU, on its threads, and what its sensors said.
//!
//! The stretches are those before late arrivals, so of a long run little is kept. They are known only when all ranks were compared, and the files
//! of few ranks are read again for this.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::code_place::{file_name, own_place};
use super::super::sets::{IntervalSet, sweep};
use super::super::{Measure, entry};
use crate::model::{
    Activity, Basis, Batch, CounterId, HostKind, HostSlice, Kinds, Model, OpKind, ProcessId,
    StackId, TextId, ThreadId,
};
use crate::table::Answer;

/// Calls that are joined with the stacks from which they were made.
const CALLS: usize = 1 << 18;

/// A file that has to be read again, and what for.
#[derive(Debug)]
pub struct Look {
    /// The file.
    pub file: PathBuf,
    /// What it is read by.
    pub doings: Doings,
    /// Which of the ranks that were late it is read for.
    pub(super) straggler: usize,
}

/// What ranks did in some stretches of time, while a file is read. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Doings(Arc<Mutex<Vec<OfProcess>>>);

/// What is gathered of the processes of a file, in the order in which they are in it.
#[derive(Debug, Default)]
struct OfProcess {
    /// Its id in the model of all files, if it is asked about.
    whose: Option<ProcessId>,
    windows: Vec<(u64, u64)>,
    busy: [IntervalSet; 3],
    kernels: HashMap<TextId, (u64, u64)>,
    code: HashMap<(ThreadId, StackId), u64>,
    waits: HashMap<(ThreadId, StackId), u64>,
    calls: HashMap<(ThreadId, u64), (TextId, u64)>,
    sites: HashMap<(ThreadId, u64), StackId>,
    launches: HashMap<ThreadId, u64>,
    sensors: BTreeMap<CounterId, (f64, u64)>,
}

/// What a rank did, in words that files have in common; nanoseconds of all its stretches together.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    /// The stretches.
    pub(super) windows_ns: u64,
    /// Computation; communication in no computation; copies in neither; nothing.
    pub(super) gpu: [u64; 4],
    /// Number and time of kernels.
    pub(super) kernels: BTreeMap<String, (u64, u64)>,
    /// The thread that launches.
    pub(super) thread: String,
    /// What it did there, by place: code that ran, waits, calls.
    pub(super) code: BTreeMap<String, u64>,
    pub(super) waits: BTreeMap<String, u64>,
    pub(super) calls: BTreeMap<String, u64>,
    /// Means of sensors, by name and unit.
    pub(super) sensors: BTreeMap<(String, String), f64>,
}

/// Places of computation, communication and copies in [`Done::gpu`].
pub(super) const COMPUTE: usize = 0;
pub(super) const COMM: usize = 1;
pub(super) const COPY: usize = 2;
pub(super) const IDLE: usize = 3;

impl Doings {
    /// Asks about a process of the file: the how manieth it is in it, and when.
    pub(super) fn ask(&self, place: usize, whose: ProcessId, mut windows: Vec<(u64, u64)>) {
        windows.sort_unstable();
        let mut united: Vec<(u64, u64)> = Vec::new();
        for window in windows {
            match united.last_mut() {
                Some(last) if window.0 <= last.1 => last.1 = last.1.max(window.1),
                _ => united.push(window),
            }
        }
        let mut processes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = entry(&mut processes, place);
        process.whose = Some(whose);
        process.windows = united;
    }

    /// What was found, by the ids of the model of all files; `model` is that of the file.
    pub(super) fn found(&self, model: &Model) -> Vec<(ProcessId, Done)> {
        let mut processes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = processes.iter_mut().enumerate();
        let asked = asked.filter_map(|(place, process)| {
            Some((process.whose?, process.done(ProcessId::new(place), model)))
        });
        asked.collect()
    }
}

impl Measure for Doings {
    fn needs(&self) -> Kinds {
        Kinds {
            marks: false,
            ..Kinds::ALL
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut processes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in &batch.gpu {
            let class = match record.activity {
                Activity::Compute | Activity::Fill => COMPUTE,
                Activity::Comm => COMM,
                Activity::Copy => COPY,
                Activity::None => continue,
            };
            let Some(process) = asked(&mut processes, record.process) else {
                continue;
            };
            let OfProcess {
                windows,
                busy,
                kernels,
                ..
            } = process;
            let mut inside_ns = 0;
            within(
                windows,
                (record.start_ns, record.end_ns),
                |start_ns, end_ns| {
                    busy[class].add(start_ns, end_ns);
                    inside_ns += end_ns - start_ns;
                },
            );
            if inside_ns > 0 && record.kind == OpKind::Kernel && class == COMPUTE {
                let kernel = kernels.entry(record.name).or_default();
                *kernel = (kernel.0 + 1, kernel.1 + inside_ns);
            }
        }
        for slice in &batch.host {
            if let Some(process) = asked(&mut processes, slice.process) {
                process.slice(slice);
            }
        }
        for sample in &batch.samples {
            let Some(process) = asked(&mut processes, sample.process) else {
                continue;
            };
            let OfProcess {
                windows,
                code,
                waits,
                sites,
                ..
            } = process;
            let list = match sample.basis {
                Basis::CpuTime => code,
                Basis::WaitTime => waits,
                Basis::CallTime => {
                    let span = (sample.time_ns, sample.time_ns.saturating_add(sample.weight));
                    within(windows, span, |_, _| {
                        if sites.len() < CALLS {
                            sites.insert((sample.thread, sample.time_ns), sample.stack);
                        }
                    });
                    continue;
                }
                Basis::GpuTime | Basis::Event => continue,
            };
            // A sample stands for the time before it.
            let span = (sample.time_ns.saturating_sub(sample.weight), sample.time_ns);
            within(windows, span, |start_ns, end_ns| {
                *list.entry((sample.thread, sample.stack)).or_default() += end_ns - start_ns;
            });
        }
        // Whose sensor it is, is known at the end only: the stretches of all that is asked for decide.
        for value in batch.counters.iter().filter(|one| one.value.is_finite()) {
            for process in processes.iter_mut() {
                let (first, last) = (process.windows.first(), process.windows.last());
                let is_near = first.is_some_and(|first| first.0 <= value.time_ns)
                    && last.is_some_and(|last| value.time_ns <= last.1);
                if is_near {
                    let sum = process.sensors.entry(value.counter).or_default();
                    *sum = (sum.0 + value.value, sum.1 + 1);
                }
            }
        }
    }

    fn answer(&mut self, _model: &Model, _label: &str) -> Answer {
        Answer::default()
    }
}

fn asked(processes: &mut [OfProcess], id: ProcessId) -> Option<&mut OfProcess> {
    let process = processes.get_mut(id.index())?;
    process.whose.map(|_| process)
}

/// Shows the parts of a span that are in windows, which are in order.
fn within(windows: &[(u64, u64)], span: (u64, u64), mut take: impl FnMut(u64, u64)) {
    let first = windows.partition_point(|window| window.1 <= span.0);
    for window in windows[first..]
        .iter()
        .take_while(|window| window.0 < span.1)
    {
        take(window.0.max(span.0), window.1.min(span.1));
    }
}

impl OfProcess {
    fn slice(&mut self, slice: &HostSlice) {
        if slice.thread.index() == HostSlice::NO_THREAD {
            return;
        }
        if slice.kind == HostKind::Runtime && slice.link != 0 {
            *self.launches.entry(slice.thread).or_default() += 1;
        }
        if !matches!(slice.kind, HostKind::Runtime | HostKind::Collective) {
            return;
        }
        let mut inside_ns = 0;
        within(
            &self.windows,
            (slice.start_ns, slice.end_ns),
            |start_ns, end_ns| {
                inside_ns += end_ns - start_ns;
            },
        );
        if inside_ns > 0 && self.calls.len() < CALLS {
            self.calls
                .insert((slice.thread, slice.start_ns), (slice.name, inside_ns));
        }
    }

    fn done(&mut self, own: ProcessId, model: &Model) -> Done {
        let windows_ns = self.windows.iter().map(|window| window.1 - window.0).sum();
        let mut gpu = [0; 4];
        let sets = self.busy.iter_mut().map(IntervalSet::intervals).collect();
        sweep(sets, |segment| {
            if segment.sets != 0 {
                gpu[segment.sets.trailing_zeros() as usize] += segment.end_ns - segment.start_ns;
            }
        });
        gpu[IDLE] = windows_ns - gpu.iter().sum::<u64>();
        let mut kernels: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, (count, sum_ns)) in &self.kernels {
            kernels.insert(model.text(*name).to_owned(), (*count, *sum_ns));
        }
        let busiest = self.launches.iter();
        let busiest = busiest.max_by_key(|(thread, count)| (**count, std::cmp::Reverse(**thread)));
        let thread = busiest.map(|(thread, _)| *thread);
        let place = |stack: StackId| match own_place(stack, model) {
            Some(frame) => {
                let function = model.text(frame.function);
                let source = file_name(model.text(frame.source));
                // Names of Python functions end with their file as it is.
                let function = function
                    .strip_suffix(&format!(" ({source})"))
                    .unwrap_or(function);
                match (source, frame.line) {
                    ("", _) => function.to_owned(),
                    (source, 0) => format!("{function} ({source})"),
                    (source, line) => format!("{function} ({source}:{line})"),
                }
            }
            None => "[unknown]".to_owned(),
        };
        let by_place = |list: &HashMap<(ThreadId, StackId), u64>| {
            let mut found: BTreeMap<String, u64> = BTreeMap::new();
            for (&(of, stack), &sum_ns) in list {
                if Some(of) == thread {
                    *found.entry(place(stack)).or_default() += sum_ns;
                }
            }
            found
        };
        let mut calls: BTreeMap<String, u64> = BTreeMap::new();
        for (key, &(name, sum_ns)) in &self.calls {
            if Some(key.0) == thread {
                let name = model.text(name);
                let text = match self.sites.get(key) {
                    Some(&stack) => format!("{name} in {}", place(stack)),
                    None => name.to_owned(),
                };
                *calls.entry(text).or_default() += sum_ns;
            }
        }
        let sensors = self.sensors.iter().filter_map(|(id, (sum, count))| {
            let counter = model.counters.get(id.index())?;
            let group = model.text(counter.group);
            let mut gpus = model.devices.iter().filter(|device| device.process == own);
            let number = group.strip_prefix("Sensors of GPU ")?;
            let number = number.split(' ').next().unwrap_or_default();
            let is_sensor = gpus.any(|device| number.parse() == Ok(device.ordinal));
            let name = (model.text(counter.name), model.text(counter.unit));
            is_sensor.then(|| ((name.0.to_owned(), name.1.to_owned()), sum / *count as f64))
        });
        Done {
            windows_ns,
            gpu,
            kernels,
            thread: thread.map_or_else(String::new, |thread| {
                model.text(model.threads[thread.index()].name).to_owned()
            }),
            code: by_place(&self.code),
            waits: by_place(&self.waits),
            calls,
            sensors: sensors.collect(),
        }
    }
}
