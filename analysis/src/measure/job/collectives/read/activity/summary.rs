//! What a rank did in all its windows together, in words that files have in common.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::process::{ProcessActivity, is_call};
use crate::containers::sets::{IntervalSet, Union, sweep};
use crate::measure::gpu::copies::direction;
use crate::measure::gpu::sensors::{Gpu, machine};
use crate::program::code_place::{lock_wait_text, place_text};
use rsys_traces::model::{Model, ProcessId, StackId, ThreadId};

/// Some copies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// How long they took, also outside of the stretches.
    pub(crate) ns: u64,
    /// How much of that is in the stretches.
    pub(crate) inside_ns: u64,
}

impl Copied {
    /// Adds other copies.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.ns += other.ns;
        self.inside_ns += other.inside_ns;
    }
}

/// Nanoseconds by place.
type Places = BTreeMap<String, u64>;

/// What a rank did, in words that files have in common; nanoseconds of all its stretches together.
#[derive(Debug, Clone, Default)]
pub(crate) struct RankActivity {
    /// The stretches.
    pub(crate) windows_ns: u64,
    /// Computation; communication in no computation; copies in neither; nothing.
    pub(crate) gpu: [u64; 4],
    /// Number and time of kernels.
    pub(crate) kernels: BTreeMap<String, (u64, u64)>,
    /// Copies, by direction, and the time of those of which the line is known, by line.
    pub(crate) copies: BTreeMap<String, Copied>,
    pub(crate) copy_lines: Places,
    /// The GPU that worked most of it.
    pub(crate) gpu_number: Option<Gpu>,
    /// How long its GPU did nothing although the collective had been launched.
    pub(crate) queued_ns: u64,
    /// The thread that launches.
    pub(crate) thread: String,
    /// What it did while its GPU did nothing and the collective had not been launched, by place: code that ran, waits, calls.
    pub(crate) code: Places,
    pub(crate) waits: Places,
    /// How long it could run, in no call, and had no processor.
    pub(crate) runnable_ns: u64,
    pub(crate) calls: Places,
    /// Means of sensors, by GPU, name and unit.
    pub(crate) sensors: BTreeMap<(Gpu, String, String), f64>,
}

impl RankActivity {
    /// Whether a clock of its GPU is known.
    pub(crate) fn has_clock(&self) -> bool {
        self.clocks().next().is_some()
    }

    /// Means of the clocks of its GPU, in MHz, by the names of the sensors.
    pub(crate) fn clocks(&self) -> impl Iterator<Item = (&str, f64)> {
        let sensors = self.sensors.iter();
        sensors.filter_map(|((gpu, name, unit), mean)| {
            let is_own = self.gpu_number.as_ref() == Some(gpu) && unit == "MHz";
            is_own.then_some((name.as_str(), *mean))
        })
    }
}

/// Places of computation, communication and copies in [`RankActivity::gpu`].
pub(crate) const COMPUTE: usize = 0;
pub(crate) const COMM: usize = 1;
pub(crate) const COPY: usize = 2;
pub(crate) const IDLE: usize = 3;

/// The place in the program that stands for a stack.
fn place(stack: StackId, model: &Model) -> String {
    place_text(stack, model).unwrap_or_else(|| "[unknown]".to_owned())
}

/// Adds how long some times are, without what of them is in others.
fn add_outside(found: &mut Places, place: String, times: &Union, others: &Union) {
    let sum_ns = times.length_ns() - times.common_ns(others);
    if sum_ns > 0 {
        *found.entry(place).or_default() += sum_ns;
    }
}

/// What of some times is in others.
fn inside(times: &mut IntervalSet, others: &Union) -> Union {
    times
        .intervals()
        .flat_map(|one| others.parts(one))
        .collect()
}

/// The key with the largest number; of equal ones the first.
fn most<K: Copy + Ord + Hash>(counts: &HashMap<K, u64>) -> Option<K> {
    let most = counts
        .iter()
        .max_by_key(|(key, count)| (**count, Reverse(**key)));
    most.map(|(key, _)| *key)
}

impl ProcessActivity {
    /// All of it; `own` is the process in `model`, that of its file.
    pub(super) fn summary(&mut self, own: ProcessId, model: &Model) -> RankActivity {
        self.submissions.sort();
        let (idle, queued_ns) = self.idle();
        let kernels = self.kernels.iter();
        let kernels = kernels.map(|(name, sums)| (model.text(*name).to_owned(), *sums));
        let gpu_number = most(&self.devices).and_then(|id| {
            let device = model.devices.get(id.index())?;
            Some((machine(own, model).to_owned(), u64::from(device.ordinal)))
        });
        let mut activity = RankActivity {
            windows_ns: self.windows.length_ns(),
            kernels: kernels.collect(),
            copies: self.copies_by_direction(model),
            copy_lines: self.copies_by_line(model),
            gpu_number,
            queued_ns,
            ..RankActivity::default()
        };
        activity.gpu = self.gpu_ns(activity.windows_ns);
        // Without a GPU, the thread that calls.
        let thread = most(match self.launches.is_empty() {
            true => &self.of_ranks,
            false => &self.launches,
        });
        if let Some(thread) = thread {
            let locked;
            (activity.waits, locked) = self.waited(thread, &idle, model);
            (activity.code, activity.runnable_ns) = self.ran(thread, &idle, &locked, model);
            self.add_scopes(thread, (&idle, &locked), model, &mut activity.code);
            activity.calls = self.in_calls_by_place(thread, &idle, model);
            let name = model.threads[thread.index()].name;
            activity.thread = model.text(name).to_owned();
        }
        activity
    }

    /// Computation; communication in no computation; copies in neither; nothing.
    fn gpu_ns(&mut self, windows_ns: u64) -> [u64; 4] {
        let mut gpu = [0; 4];
        let sets = self.busy.iter_mut().map(IntervalSet::intervals).collect();
        sweep(sets, |segment| {
            if segment.sets != 0 {
                gpu[segment.sets.trailing_zeros() as usize] += segment.end_ns - segment.start_ns;
            }
        });
        gpu[IDLE] = windows_ns - gpu.iter().sum::<u64>();
        gpu
    }

    fn copies_by_direction(&self, model: &Model) -> BTreeMap<String, Copied> {
        let mut copies: BTreeMap<String, Copied> = BTreeMap::new();
        for (&(written, name), one) in &self.copies {
            let direction = direction(written, name, model);
            copies.entry(direction).or_default().add(one);
        }
        copies
    }

    /// The time of those copies of which the line is known that ordered them.
    fn copies_by_line(&self, model: &Model) -> Places {
        let mut lines = Places::new();
        for (id, &sum_ns) in &self.copied {
            let call = self.submissions.find(*id, u64::MAX);
            let site = call.and_then(|call| self.sites.get(&(call.thread, call.start_ns)));
            if let Some(&stack) = site {
                *lines.entry(place(stack, model)).or_default() += sum_ns;
            }
        }
        lines
    }

    /// When its GPUs did nothing, in order: as long as the collective was not launched. And how long they did nothing after that.
    fn idle(&mut self) -> (Union, u64) {
        let (mut idle, mut queued_ns) = (Vec::new(), 0);
        let busy: Union = IntervalSet::union_of(&mut self.busy).collect();
        for &(start_ns, end_ns) in self.windows.intervals() {
            let id = self.arrivals.get(&end_ns);
            let launch = id.and_then(|id| self.submissions.find(*id, end_ns));
            let launched_ns = launch.map_or(end_ns, |call| call.end_ns.clamp(start_ns, end_ns));
            let mut add = |from_ns: u64, to_ns: u64| {
                let until_ns = launched_ns.clamp(from_ns, to_ns);
                queued_ns += to_ns - until_ns;
                if from_ns < until_ns {
                    idle.push((from_ns, until_ns));
                }
            };
            let mut now_ns = start_ns;
            for (from_ns, to_ns) in busy.parts((start_ns, end_ns)) {
                add(now_ns, from_ns);
                now_ns = to_ns;
            }
            add(now_ns, end_ns);
        }
        (idle.into_iter().collect(), queued_ns)
    }

    /// How long a thread waited at some times, by place, and when for locks as recorded, in order. Where a recorded wait for a lock says so exactly, samples of waits count for nothing.
    pub(super) fn waited(
        &mut self,
        thread: ThreadId,
        windows: &Union,
        model: &Model,
    ) -> (Places, Union) {
        let mut found = Places::new();
        let mut locked = Vec::new();
        let mut now_ns = 0;
        self.lock_waits
            .sort_unstable_by_key(|wait| (wait.start_ns, Reverse(wait.end_ns)));
        for wait in self.lock_waits.iter().filter(|one| one.thread == thread) {
            let site = self.sites.get(&(thread, wait.start_ns)).copied();
            let span = (wait.start_ns.max(now_ns), wait.end_ns);
            for (start_ns, end_ns) in windows.parts(span).filter(|one| one.0 < one.1) {
                let text = lock_wait_text(wait, site, model);
                *found.entry(text).or_default() += end_ns - start_ns;
                locked.push((start_ns, end_ns));
            }
            now_ns = now_ns.max(wait.end_ns);
        }
        let locked: Union = locked.into_iter().collect();
        let of_thread = self.waits.iter_mut().filter(|(key, _)| key.0 == thread);
        for ((_, stack), times) in of_thread {
            let times = inside(times, windows);
            add_outside(&mut found, place(*stack, model), &times, &locked);
        }
        (found, locked)
    }

    /// How long a thread ran code at some times, by place, and how long it could have run. What it spins in a call, or in a recorded wait for a lock, is that call's or
    /// wait's.
    pub(super) fn ran(
        &mut self,
        thread: ThreadId,
        windows: &Union,
        locked: &Union,
        model: &Model,
    ) -> (Places, u64) {
        let in_calls = self.in_calls.entry(thread).or_default();
        let locked = locked.intervals().iter().copied();
        let others: Union = in_calls.intervals().chain(locked).collect();
        let mut found = Places::new();
        let of_thread = self.code.iter_mut().filter(|(key, _)| key.0 == thread);
        for ((_, stack), times) in of_thread {
            let times = inside(times, windows);
            add_outside(&mut found, place(*stack, model), &times, &others);
        }
        let runnable = self.runnable.entry(thread).or_default();
        let runnable = inside(runnable, windows);
        (found, runnable.length_ns() - runnable.common_ns(&others))
    }

    /// What is known of a thread without samples: the innermost of its operators, functions and ranges. Where it waits for a lock it runs none of its code.
    fn add_scopes(
        &mut self,
        thread: ThreadId,
        (idle, locked): (&Union, &Union),
        model: &Model,
        code: &mut Places,
    ) {
        let mut seen = self.code.keys().chain(self.waits.keys());
        let Some(scopes) = self.scopes.get_mut(&thread) else {
            return;
        };
        if seen.any(|key| key.0 == thread) {
            return;
        }
        scopes.sort(&model.texts);
        let mut of_places: BTreeMap<String, IntervalSet> = BTreeMap::new();
        for &(start_ns, end_ns) in idle.intervals() {
            let inside = scopes.overlapping(start_ns, end_ns);
            for scope in inside.filter(|scope| !is_call(scope.kind)) {
                let times = of_places.entry(scope.place(model)).or_default();
                times.add(scope.start_ns.max(start_ns), scope.end_ns.min(end_ns));
            }
        }
        for (place, mut times) in of_places {
            add_outside(code, place, &times.intervals().collect(), locked);
        }
    }

    /// How long a thread was in calls at some times.
    fn in_calls_by_place(&self, thread: ThreadId, idle: &Union, model: &Model) -> Places {
        let mut calls = Places::new();
        for (key, &(name, end_ns)) in self.calls.iter().filter(|(key, _)| key.0 == thread) {
            let sum_ns = idle.within((key.1, end_ns));
            if sum_ns > 0 {
                let name = model.text(name);
                let text = match self.sites.get(key) {
                    Some(&stack) => format!("{name} in {}", place(stack, model)),
                    None => name.to_owned(),
                };
                *calls.entry(text).or_default() += sum_ns;
            }
        }
        calls
    }
}
