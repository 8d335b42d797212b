//! What a rank did in some stretches of time: on its GPU, on its threads, and what its sensors said.
//!
//! The stretches are those before late arrivals, so of a long run little is kept. They are known only when all ranks were compared, and the files
//! of few ranks are read again for this. Sensors may be in the trace of another process of the machine, such as the shell that started the ranks: then only
//! these are read from there.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::readings::Readings;
use crate::containers::sets::{IntervalSet, sweep};
use crate::measure::Measure;
use crate::measure::gpu::copies::direction;
use crate::measure::gpu::sensors::{Gpu, machine, sensor};
use crate::program::code_place::{lock_wait_text, place_text};
use crate::program::scopes::Scopes;
use crate::table::Answer;
use rsys_traces::model::entry;
use rsys_traces::model::{
    Activity, Basis, Batch, DeviceId, GpuRecord, HostKind, HostSlice, Kinds, LockWait, Model,
    OpKind, ProcessId, StackId, TextId, ThreadId,
};

/// Calls that are joined with the stacks from which they were made.
const CALLS: usize = 1 << 18;
/// Work is given to a GPU at most this long before a stretch in which it runs, or its line is not known.
const AHEAD_NS: u64 = 1_000_000_000;

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
pub struct Doings(Arc<Mutex<OfFile>>);

/// What is gathered of a file.
#[derive(Debug, Default)]
struct OfFile {
    processes: Vec<OfProcess>,
    /// What sensors said, for processes that may be of other files.
    readings: Vec<(ProcessId, Readings)>,
}

/// What is gathered of the processes of a file, in the order in which they are in it.
#[derive(Debug, Default)]
struct OfProcess {
    /// Its id in the model of all files, if it is asked about.
    whose: Option<ProcessId>,
    windows: Vec<(u64, u64)>,
    busy: [IntervalSet; 3],
    kernels: HashMap<TextId, (u64, u64)>,
    devices: HashMap<DeviceId, u64>,
    copies: HashMap<(TextId, TextId), Copied>,
    /// Time of copies by the link to their calls, and where these are.
    linked: HashMap<u64, u64>,
    links: HashMap<u64, Call>,
    /// The links of collectives that begin where a stretch ends, by that time.
    arrivals: HashMap<u64, u64>,
    code: HashMap<(ThreadId, StackId), IntervalSet>,
    waits: HashMap<(ThreadId, StackId), IntervalSet>,
    /// When threads could run, and had no processor.
    runnable: HashMap<ThreadId, IntervalSet>,
    /// Recorded waits for locks.
    lock_waits: Vec<LockWait>,
    /// By thread and begin: the name, and the end.
    calls: HashMap<(ThreadId, u64), (TextId, u64)>,
    /// When threads were in calls.
    in_calls: HashMap<ThreadId, IntervalSet>,
    sites: HashMap<(ThreadId, u64), StackId>,
    launches: HashMap<ThreadId, u64>,
    /// How many calls of RCCL and MPI threads made.
    of_ranks: HashMap<ThreadId, u64>,
    /// Operators, functions and ranges, and the calls in them: what is known of threads without samples.
    scopes: HashMap<ThreadId, Scopes>,
}

/// A call that gave work to a GPU.
#[derive(Debug, Clone, Copy)]
struct Call {
    thread: ThreadId,
    start_ns: u64,
    end_ns: u64,
}

/// Some copies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Copied {
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// How long they took, also outside of the stretches.
    pub(super) ns: u64,
    /// How much of that is in the stretches.
    pub(super) inside_ns: u64,
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
    /// Copies, by direction, and the time of those of which the line is known, by line.
    pub(super) copies: BTreeMap<String, Copied>,
    pub(super) copy_lines: BTreeMap<String, u64>,
    /// The GPU that worked most of it.
    pub(super) gpu_number: Option<Gpu>,
    /// How long its GPU did nothing although the collective had been launched.
    pub(super) queued_ns: u64,
    /// The thread that launches.
    pub(super) thread: String,
    /// What it did while its GPU did nothing and the collective had not been launched, by place: code that ran, waits, calls.
    pub(super) code: BTreeMap<String, u64>,
    pub(super) waits: BTreeMap<String, u64>,
    /// How long it could run, in no call, and had no processor.
    pub(super) runnable_ns: u64,
    pub(super) calls: BTreeMap<String, u64>,
    /// Means of sensors, by GPU, name and unit.
    pub(super) sensors: BTreeMap<(Gpu, String, String), f64>,
}

impl Done {
    /// Whether a clock of its GPU is known.
    pub(super) fn has_clock(&self) -> bool {
        self.clocks().next().is_some()
    }

    /// Means of the clocks of its GPU, in MHz, by the names of the sensors.
    pub(super) fn clocks(&self) -> impl Iterator<Item = (&str, f64)> {
        let sensors = self.sensors.iter();
        sensors.filter_map(|((gpu, name, unit), mean)| {
            let is_own = self.gpu_number.as_ref() == Some(gpu) && unit == "MHz";
            is_own.then_some((name.as_str(), *mean))
        })
    }
}

/// Places of computation, communication and copies in [`Done::gpu`].
pub(super) const COMPUTE: usize = 0;
pub(super) const COMM: usize = 1;
pub(super) const COPY: usize = 2;
pub(super) const IDLE: usize = 3;

impl Doings {
    /// Asks about a process of the file: its index in the file, and when.
    pub(super) fn ask(&self, place: usize, whose: ProcessId, mut windows: Vec<(u64, u64)>) {
        windows.sort_unstable();
        let mut united: Vec<(u64, u64)> = Vec::new();
        for window in windows {
            match united.last_mut() {
                Some(last) if window.0 <= last.1 => last.1 = last.1.max(window.1),
                _ => united.push(window),
            }
        }
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.readings
            .push((whose, Readings::within(united.clone())));
        let process = entry(&mut file.processes, place);
        process.whose = Some(whose);
        process.windows = united;
    }

    /// Asks what the sensors in the file said at some times in which a process of another file worked.
    pub(super) fn ask_sensors(&self, whose: ProcessId, mut windows: Vec<(u64, u64)>) {
        windows.sort_unstable();
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.readings.push((whose, Readings::within(windows)));
    }

    /// What was found, by the ids of the model of all files; `model` is that of the file.
    pub(super) fn found(&self, model: &Model) -> Vec<(ProcessId, Done)> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let OfFile {
            processes,
            readings,
        } = &mut *file;
        let mut found: BTreeMap<ProcessId, Done> = BTreeMap::new();
        for (place, process) in processes.iter_mut().enumerate() {
            if let Some(whose) = process.whose {
                found.insert(whose, process.done(ProcessId::new(place), model));
            }
        }
        for (whose, readings) in readings {
            let done = found.entry(*whose).or_default();
            for (counter, mean) in readings.means() {
                if let Some((gpu, None, name, unit)) = sensor(counter, model) {
                    done.sensors.insert((gpu, name, unit), mean);
                }
            }
        }
        found.into_iter().collect()
    }
}

impl Measure for Doings {
    fn needs(&self) -> Kinds {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match file.processes.is_empty() {
            true => Kinds {
                counters: true,
                ..Kinds::default()
            },
            false => Kinds {
                marks: false,
                ..Kinds::ALL
            },
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let OfFile {
            processes,
            readings,
        } = &mut *file;
        for record in &batch.gpu {
            if let Some(process) = asked(processes, record.process) {
                process.operation(record);
            }
        }
        for slice in &batch.host {
            if let Some(process) = asked(processes, slice.process) {
                match slice.kind {
                    HostKind::Runnable => process.could_run(slice),
                    _ => process.slice(slice),
                }
            }
        }
        for sample in &batch.samples {
            let Some(process) = asked(processes, sample.process) else {
                continue;
            };
            let OfProcess {
                windows,
                code,
                waits,
                sites,
                ..
            } = process;
            // A sample stands for the time before it.
            let span = (sample.time_ns.saturating_sub(sample.weight), sample.time_ns);
            let key = (sample.thread, sample.stack);
            match sample.basis {
                Basis::CpuTime => within(windows, span, |start_ns, end_ns| {
                    code.entry(key).or_default().add(start_ns, end_ns);
                }),
                Basis::WaitTime => within(windows, span, |start_ns, end_ns| {
                    waits.entry(key).or_default().add(start_ns, end_ns);
                }),
                Basis::CallTime => {
                    let end_ns = sample.time_ns.saturating_add(sample.weight);
                    if sites.len() < CALLS && is_near(windows, (sample.time_ns, end_ns)) {
                        sites.insert((sample.thread, sample.time_ns), sample.stack);
                    }
                }
                Basis::GpuTime | Basis::Event => {}
            }
        }
        // Those that were seen from outside are samples as well.
        for wait in batch.lock_waits.iter().filter(|one| !one.is_sampled) {
            if let Some(process) = asked(processes, wait.process) {
                process.lock_wait(wait);
            }
        }
        for (_, readings) in readings {
            readings.take(&batch.counters);
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

fn is_call(kind: HostKind) -> bool {
    matches!(kind, HostKind::Runtime | HostKind::Collective)
}

/// Whether a call was made in one of these windows, or shortly before.
fn is_near(windows: &[(u64, u64)], (start_ns, end_ns): (u64, u64)) -> bool {
    let first = windows.partition_point(|window| window.1 <= start_ns);
    let next = windows.get(first);
    next.is_some_and(|window| window.0 < end_ns.saturating_add(AHEAD_NS))
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

/// How much of some times lies outside of others, which are in order and do not overlap.
fn outside(times: &mut IntervalSet, others: &[(u64, u64)]) -> u64 {
    let mut sum_ns = 0;
    for (start_ns, end_ns) in times.intervals() {
        let first = others.partition_point(|other| other.1 <= start_ns);
        let inside = others[first..].iter().take_while(|other| other.0 < end_ns);
        let inside = inside.map(|other| other.1.min(end_ns) - other.0.max(start_ns));
        sum_ns += end_ns - start_ns - inside.sum::<u64>();
    }
    sum_ns
}

/// The parts of some times that are in windows, which are in order.
fn inside(times: &mut IntervalSet, windows: &[(u64, u64)]) -> IntervalSet {
    let mut parts = IntervalSet::default();
    for span in times.intervals() {
        within(windows, span, |start_ns, end_ns| {
            parts.add(start_ns, end_ns)
        });
    }
    parts
}

/// The place in the program that stands for a stack.
fn place(stack: StackId, model: &Model) -> String {
    place_text(stack, model).unwrap_or_else(|| "[unknown]".to_owned())
}

impl OfProcess {
    fn operation(&mut self, record: &GpuRecord) {
        let class = match record.activity {
            Activity::Compute | Activity::Fill => COMPUTE,
            Activity::Comm => COMM,
            Activity::Copy => COPY,
            Activity::None => return,
        };
        let (busy, mut inside_ns) = (&mut self.busy[class], 0);
        let span = (record.start_ns, record.end_ns);
        within(&self.windows, span, |start_ns, end_ns| {
            busy.add(start_ns, end_ns);
            inside_ns += end_ns - start_ns;
        });
        if class == COMM && record.link != 0 {
            let before = self.windows.partition_point(|window| window.1 < span.0);
            if self
                .windows
                .get(before)
                .is_some_and(|window| window.1 == span.0)
            {
                self.arrivals.insert(span.0, record.link);
            }
        }
        if inside_ns == 0 {
            return;
        }
        *self.devices.entry(record.device).or_default() += inside_ns;
        if record.kind == OpKind::Kernel && class == COMPUTE {
            let kernel = self.kernels.entry(record.name).or_default();
            *kernel = (kernel.0 + 1, kernel.1 + inside_ns);
        }
        if class == COPY {
            let copied = self
                .copies
                .entry((record.direction, record.name))
                .or_default();
            copied.count += 1;
            copied.bytes += record.bytes;
            copied.ns += record.duration_ns();
            copied.inside_ns += inside_ns;
            if record.link != 0 && self.linked.len() < CALLS {
                *self.linked.entry(record.link).or_default() += inside_ns;
            }
        }
    }

    fn slice(&mut self, slice: &HostSlice) {
        if slice.thread.index() == HostSlice::NO_THREAD {
            return;
        }
        if slice.kind == HostKind::Runtime && slice.link != 0 {
            *self.launches.entry(slice.thread).or_default() += 1;
            let span = (slice.start_ns, slice.end_ns);
            if self.links.len() < CALLS && is_near(&self.windows, span) {
                let call = Call {
                    thread: slice.thread,
                    start_ns: slice.start_ns,
                    end_ns: slice.end_ns,
                };
                self.links.insert(slice.link, call);
            }
        }
        if slice.kind == HostKind::Collective {
            *self.of_ranks.entry(slice.thread).or_default() += 1;
        }
        let is_call = is_call(slice.kind);
        if !is_call && !Scopes::is_one(slice) {
            return;
        }
        let mut inside_ns = 0;
        let span = (slice.start_ns, slice.end_ns);
        // What a call took is no time of code, if that call is kept.
        let in_calls = &mut self.in_calls;
        let is_kept = is_call && self.calls.len() < CALLS;
        within(&self.windows, span, |start_ns, end_ns| {
            inside_ns += end_ns - start_ns;
            if is_kept {
                let times = in_calls.entry(slice.thread).or_default();
                times.add(start_ns, end_ns);
            }
        });
        if inside_ns == 0 {
            return;
        }
        let scopes = self.scopes.entry(slice.thread).or_default();
        if scopes.len() < CALLS {
            scopes.add(slice);
        }
        if is_kept {
            self.calls
                .insert((slice.thread, slice.start_ns), (slice.name, slice.end_ns));
        }
    }

    fn could_run(&mut self, slice: &HostSlice) {
        let span = (slice.start_ns, slice.end_ns);
        let times = self.runnable.entry(slice.thread).or_default();
        within(&self.windows, span, |start_ns, end_ns| {
            times.add(start_ns, end_ns);
        });
    }

    fn lock_wait(&mut self, wait: &LockWait) {
        let span = (wait.start_ns, wait.end_ns);
        let mut is_inside = false;
        within(&self.windows, span, |_, _| is_inside = true);
        if is_inside && self.lock_waits.len() < CALLS {
            self.lock_waits.push(*wait);
        }
    }

    /// When its GPUs did nothing, in order: as long as the collective was not launched. And how long they did nothing after that.
    fn idle(&mut self) -> (Vec<(u64, u64)>, u64) {
        let (mut idle, mut queued_ns) = (Vec::new(), 0);
        let mut busy = IntervalSet::default();
        for set in &mut self.busy {
            for (start_ns, end_ns) in set.intervals() {
                busy.add(start_ns, end_ns);
            }
        }
        let busy: Vec<_> = busy.intervals().collect();
        for &(start_ns, end_ns) in &self.windows {
            let link = self.arrivals.get(&end_ns);
            let launch = link.and_then(|link| self.links.get(link));
            let launched_ns = launch.map_or(end_ns, |call| call.end_ns.clamp(start_ns, end_ns));
            let mut add = |from_ns: u64, to_ns: u64| {
                let until_ns = launched_ns.clamp(from_ns, to_ns);
                queued_ns += to_ns - until_ns;
                if from_ns < until_ns {
                    idle.push((from_ns, until_ns));
                }
            };
            let mut now_ns = start_ns;
            within(&busy, (start_ns, end_ns), |from_ns, to_ns| {
                add(now_ns, from_ns);
                now_ns = to_ns;
            });
            add(now_ns, end_ns);
        }
        (idle, queued_ns)
    }

    /// How long a thread waited at some times, by place, and when for locks as recorded, in order. Where a recorded wait for a lock says so exactly, samples of waits count for nothing.
    fn waited(
        &mut self,
        thread: ThreadId,
        windows: &[(u64, u64)],
        model: &Model,
    ) -> (BTreeMap<String, u64>, Vec<(u64, u64)>) {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        let mut locked = Vec::new();
        let mut now_ns = 0;
        self.lock_waits
            .sort_unstable_by_key(|wait| (wait.start_ns, std::cmp::Reverse(wait.end_ns)));
        for wait in self.lock_waits.iter().filter(|one| one.thread == thread) {
            let site = self.sites.get(&(thread, wait.start_ns)).copied();
            let span = (wait.start_ns.max(now_ns), wait.end_ns);
            within(windows, span, |start_ns, end_ns| {
                if start_ns < end_ns {
                    let text = lock_wait_text(wait, site, model);
                    *found.entry(text).or_default() += end_ns - start_ns;
                    locked.push((start_ns, end_ns));
                }
            });
            now_ns = now_ns.max(wait.end_ns);
        }
        let of_thread = self.waits.iter_mut().filter(|(key, _)| key.0 == thread);
        for ((_, stack), times) in of_thread {
            let sum_ns = outside(&mut inside(times, windows), &locked);
            if sum_ns > 0 {
                *found.entry(place(*stack, model)).or_default() += sum_ns;
            }
        }
        (found, locked)
    }

    /// How long a thread ran code at some times, by place, and how long it could have run. What it spins in a call, or in a recorded wait for a lock, is that call's or
    /// wait's.
    fn ran(
        &mut self,
        thread: ThreadId,
        windows: &[(u64, u64)],
        locked: &[(u64, u64)],
        model: &Model,
    ) -> (BTreeMap<String, u64>, u64) {
        let mut others = IntervalSet::default();
        if let Some(in_calls) = self.in_calls.get_mut(&thread) {
            for (start_ns, end_ns) in in_calls.intervals() {
                others.add(start_ns, end_ns);
            }
        }
        for &(start_ns, end_ns) in locked {
            others.add(start_ns, end_ns);
        }
        let others: Vec<_> = others.intervals().collect();
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        let of_thread = self.code.iter_mut().filter(|(key, _)| key.0 == thread);
        for ((_, stack), times) in of_thread {
            let sum_ns = outside(&mut inside(times, windows), &others);
            if sum_ns > 0 {
                *found.entry(place(*stack, model)).or_default() += sum_ns;
            }
        }
        let runnable = self.runnable.get_mut(&thread);
        let runnable_ns = runnable.map_or(0, |times| outside(&mut inside(times, windows), &others));
        (found, runnable_ns)
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
        // Without a GPU, that which calls.
        let calling = match self.launches.is_empty() {
            true => &self.of_ranks,
            false => &self.launches,
        };
        let busiest = calling.iter();
        let busiest = busiest.max_by_key(|(thread, count)| (**count, std::cmp::Reverse(**thread)));
        let thread = busiest.map(|(thread, _)| *thread);
        let place = |stack: StackId| place(stack, model);
        let (idle, queued_ns) = self.idle();
        let waited = thread.map(|thread| self.waited(thread, &idle, model));
        let (waits, locked) = waited.unwrap_or_default();
        let code = thread.map(|thread| self.ran(thread, &idle, &locked, model));
        let (mut code, runnable_ns) = code.unwrap_or_default();
        let is_its = |key: &(ThreadId, StackId)| Some(key.0) == thread;
        let was_seen = self.code.keys().chain(self.waits.keys()).any(is_its);
        let scopes = thread.and_then(|thread| self.scopes.get_mut(&thread));
        if let Some(scopes) = scopes.filter(|_| !was_seen) {
            scopes.sort(&model.texts);
            let mut of_places: BTreeMap<String, IntervalSet> = BTreeMap::new();
            for &(start_ns, end_ns) in &idle {
                let inside = scopes.overlapping(start_ns, end_ns);
                for scope in inside.filter(|scope| !is_call(scope.kind)) {
                    let times = of_places.entry(scope.place(model)).or_default();
                    times.add(scope.start_ns.max(start_ns), scope.end_ns.min(end_ns));
                }
            }
            for (place, times) in &mut of_places {
                // Where it waits for a lock it runs none of its code.
                let sum_ns = outside(times, &locked);
                if sum_ns > 0 {
                    *code.entry(place.clone()).or_default() += sum_ns;
                }
            }
        }
        let mut calls: BTreeMap<String, u64> = BTreeMap::new();
        for (key, &(name, end_ns)) in self.calls.iter().filter(|(key, _)| Some(key.0) == thread) {
            let mut sum_ns = 0;
            within(&idle, (key.1, end_ns), |start_ns, end_ns| {
                sum_ns += end_ns - start_ns
            });
            if sum_ns > 0 {
                let name = model.text(name);
                let text = match self.sites.get(key) {
                    Some(&stack) => format!("{name} in {}", place(stack)),
                    None => name.to_owned(),
                };
                *calls.entry(text).or_default() += sum_ns;
            }
        }
        let mut copies: BTreeMap<String, Copied> = BTreeMap::new();
        for (&(written, name), one) in &self.copies {
            let sum = copies.entry(direction(written, name, model)).or_default();
            sum.count += one.count;
            sum.bytes += one.bytes;
            sum.ns += one.ns;
            sum.inside_ns += one.inside_ns;
        }
        let mut copy_lines: BTreeMap<String, u64> = BTreeMap::new();
        for (link, &sum_ns) in &self.linked {
            let call = self.links.get(link);
            let site = call.and_then(|call| self.sites.get(&(call.thread, call.start_ns)));
            if let Some(&stack) = site {
                *copy_lines.entry(place(stack)).or_default() += sum_ns;
            }
        }
        let busiest = self.devices.iter();
        let busiest = busiest.max_by_key(|(id, sum_ns)| (**sum_ns, std::cmp::Reverse(**id)));
        let gpu_number = busiest.and_then(|(id, _)| {
            let device = model.devices.get(id.index())?;
            Some((machine(own, model).to_owned(), u64::from(device.ordinal)))
        });
        Done {
            windows_ns,
            gpu,
            kernels,
            copies,
            copy_lines,
            gpu_number,
            queued_ns,
            thread: thread.map_or_else(String::new, |thread| {
                model.text(model.threads[thread.index()].name).to_owned()
            }),
            code,
            waits,
            runnable_ns,
            calls,
            sensors: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests;
