//! What a rank did in some stretches of time, while its file is read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::earlier::Earlier;
use super::timeline::{
    HostCall, Kind, Launch, Names, Operation, Piece, RankTimeline, Track, side_by_side,
};
use crate::joined::copies::CopiesOfCalls;
use crate::joined::ids::CorrelationId;
use crate::joined::submissions::Submissions;
use crate::measure::Measure;
use crate::measure::idle_cause::IdleCause;
use crate::measure::job::collectives::Axis;
use crate::program::code_place::{lock_wait_text, place_text};
use crate::program::scopes::{Scope, Scopes};
use crate::table::Answer;
use rsys_traces::model::{
    Activity, Basis, Batch, Effect, GpuRecord, HostKind, HostSlice, Kinds, LockWait, Model,
    ProcessId, Sample, StackId, StreamOrder, TextId, ThreadId, WaitsFor, waits_for,
};

/// What is recorded of a process of a file. Clones are one.
#[derive(Debug, Clone)]
pub(super) struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Debug)]
struct Recorded {
    /// The index of the process in the file.
    process: ProcessId,
    /// BOOTTIME.
    times: Vec<(u64, u64)>,
    /// Begins of iterations, by which the thread is found on which they are marked.
    begins: Vec<u64>,
    gpu: Vec<GpuRecord>,
    /// Calls and waits.
    host: Vec<HostSlice>,
    earlier: Earlier,
    /// What threads without samples were in.
    scopes: BTreeMap<ThreadId, Scopes>,
    sampled: HashSet<ThreadId>,
    samples: Vec<Sample>,
    /// Recorded waits for locks.
    lock_waits: Vec<LockWait>,
    /// The shortest call of each name that launched something.
    least_ns: HashMap<TextId, u64>,
    /// By begin: kind of slice, longest first, and thread.
    marked: BTreeMap<u64, Vec<(usize, u64, usize)>>,
    /// Records are kept that end from here on: the path is walked from its end.
    since_ns: u64,
    /// More than so many are not kept.
    most: usize,
}

/// The most records that are kept of a rank, some 100 bytes each. An iteration of more is followed back as far as its last ones reach.
pub(super) const MOST: usize = 1 << 20;

/// What marks iterations, the likeliest first; marks count as the second.
const MARKERS: [HostKind; 5] = [
    HostKind::Range,
    HostKind::Operator,
    HostKind::Function,
    HostKind::Runtime,
    HostKind::Collective,
];
const MARK: usize = 1;

impl Recorder {
    pub(super) fn new(place: usize, times: Vec<(u64, u64)>, begins: Vec<u64>) -> Self {
        Self(Arc::new(Mutex::new(Recorded {
            process: ProcessId::new(place),
            earlier: Earlier::new(&times),
            times,
            begins,
            gpu: Vec::new(),
            host: Vec::new(),
            scopes: BTreeMap::new(),
            sampled: HashSet::new(),
            samples: Vec::new(),
            lock_waits: Vec::new(),
            least_ns: HashMap::new(),
            marked: BTreeMap::new(),
            since_ns: 0,
            most: MOST,
        })))
    }

    /// What was recorded, on the common axis; `model` is that of the file.
    pub(super) fn timeline(&self, model: &Model, axis: &Axis) -> RankTimeline {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.timeline(model, axis)
    }
}

impl Measure for Recorder {
    fn needs(&self) -> Kinds {
        Kinds {
            counters: false,
            ..Kinds::ALL
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Recorded {
            process,
            times,
            begins,
            gpu,
            host,
            earlier,
            scopes,
            sampled,
            samples,
            lock_waits,
            least_ns,
            marked,
            since_ns,
            most: _,
        } = &mut *recorded;
        let is_near = |start_ns: u64, end_ns: u64| {
            let mut times = times.iter();
            end_ns >= *since_ns && times.any(|time| start_ns <= time.1 && end_ns >= time.0)
        };
        for sample in &batch.samples {
            let is_seen = matches!(sample.basis, Basis::CpuTime | Basis::WaitTime);
            if is_seen && sampled.insert(sample.thread) {
                scopes.remove(&sample.thread);
            }
        }
        let records = batch.gpu.iter().filter(|one| one.process == *process);
        gpu.extend(records.filter(|one| is_near(one.start_ns, one.end_ns)));
        for slice in batch.host.iter().filter(|one| one.process == *process) {
            if slice.kind == HostKind::Runtime && slice.link != 0 {
                let duration_ns = slice.end_ns - slice.start_ns;
                let least = least_ns.entry(slice.name).or_insert(duration_ns);
                *least = duration_ns.min(*least);
            }
            let marker = MARKERS.iter().position(|kind| *kind == slice.kind);
            let is_thread = slice.thread.index() != HostSlice::NO_THREAD;
            if let Some(marker) = marker.filter(|_| is_thread && begins.contains(&slice.start_ns)) {
                let length = u64::MAX - (slice.end_ns - slice.start_ns);
                let list = marked.entry(slice.start_ns).or_default();
                list.push((marker, length, slice.thread.index()));
            }
            if !is_thread {
                continue;
            }
            if !is_near(slice.start_ns, slice.end_ns) {
                earlier.take(slice);
                continue;
            }
            if Scopes::is_one(slice) {
                if !sampled.contains(&slice.thread) {
                    scopes.entry(slice.thread).or_default().add(slice);
                }
            } else if is_kept(slice.kind) {
                host.push(*slice);
            }
        }
        // Those that were seen from outside are slices as well.
        let waits = batch.lock_waits.iter();
        lock_waits.extend(waits.filter(|one| {
            one.process == *process && !one.is_sampled && is_near(one.start_ns, one.end_ns)
        }));
        for mark in batch.marks.iter().filter(|one| one.process == *process) {
            if begins.contains(&mark.time_ns) {
                let list = marked.entry(mark.time_ns).or_default();
                list.push((MARK, u64::MAX, mark.thread.index()));
            }
        }
        let of_process = batch.samples.iter().filter(|one| one.process == *process);
        samples.extend(of_process.filter(|one| match one.basis {
            Basis::CpuTime | Basis::WaitTime => {
                is_near(one.time_ns.saturating_sub(one.weight), one.time_ns)
            }
            Basis::CallTime => is_near(one.time_ns, one.time_ns.saturating_add(one.weight)),
            Basis::GpuTime | Basis::Event => false,
        }));
        recorded.discard();
    }

    fn answer(&mut self, _model: &Model, _label: &str) -> Answer {
        Answer::default()
    }
}

/// Whether slices of a kind are kept as they are.
fn is_kept(kind: HostKind) -> bool {
    matches!(
        kind,
        HostKind::Runtime
            | HostKind::Hsa
            | HostKind::Collective
            | HostKind::Wait
            | HostKind::OffCpu
            | HostKind::Runnable
    )
}

/// Whether a function hands the backward pass to the threads of autograd, and waits for it.
fn is_backward(kind: HostKind, name: &str) -> bool {
    let is_of_torch = name.contains("torch/autograd/") || name.contains("torch/_tensor.py");
    let is_its = name.contains("run_backward") || name.ends_with("backward") && is_of_torch;
    is_its && kind != HostKind::Operator
}

/// Whether a call returns when a GPU has done something.
fn blocks(slice: &HostSlice, model: &Model) -> bool {
    match slice.effect {
        Effect::Synchronises | Effect::Copies => true,
        Effect::Memory => waits_for(model.text(slice.name)) == Some(WaitsFor::Release),
        _ => false,
    }
}

/// A launch is slow when it takes this many times as long as the shortest of its name, and at least this time.
const SLOW: u64 = 5;
const SLOW_NS: u64 = 20_000;

/// In what order times that overlap count for what a thread did.
const BY_LOCK: u8 = 0;
const BY_SLICE: u8 = 1;
const BY_WAIT: u8 = 2;
const BY_SAMPLE: u8 = 3;
const BY_SCOPE: u8 = 4;
const BY_RANGE: u8 = 5;

impl Recorded {
    /// How many records are kept.
    fn len(&self) -> usize {
        let scopes = self.scopes.values().map(Scopes::len);
        let others = self.gpu.len() + self.host.len() + self.samples.len() + self.lock_waits.len();
        others + scopes.sum::<usize>()
    }

    /// Where there is too much, what ended first goes, until half is left.
    fn discard(&mut self) {
        while self.len() > self.most {
            let ends = self.gpu.iter().map(|one| one.end_ns);
            let ends = ends.chain(self.host.iter().map(|one| one.end_ns));
            let ends = ends.chain(self.samples.iter().map(|one| one.time_ns));
            let mut ends: Vec<u64> = ends.collect();
            self.scopes
                .values()
                .for_each(|scopes| ends.extend(scopes.ends()));
            let middle = ends.len() / 2;
            // At least what ends first goes, whatever ends together.
            let first_ns = ends.iter().min().map_or(0, |first| first + 1);
            let (_, since_ns, _) = ends.select_nth_unstable(middle);
            let since_ns = (*since_ns).max(first_ns);
            self.since_ns = since_ns;
            self.gpu.retain(|one| one.end_ns >= since_ns);
            self.host.retain(|one| one.end_ns >= since_ns);
            self.samples.retain(|one| one.time_ns >= since_ns);
            self.lock_waits.retain(|one| one.end_ns >= since_ns);
            for scopes in self.scopes.values_mut() {
                scopes.retain(|_, end_ns| end_ns >= since_ns);
            }
        }
    }

    fn timeline(&mut self, model: &Model, axis: &Axis) -> RankTimeline {
        let mut names = Names::default();
        let mut threads: BTreeMap<usize, Track> = BTreeMap::new();
        let (submissions, held) = self.host(model, axis, &mut names, &mut threads);
        for (thread, pieces) in self.pieces(model, axis, &mut names) {
            threads.entry(thread).or_default().pieces = pieces;
        }
        // What is not needed any more makes room for what is made of it.
        (self.host, self.samples) = (Vec::new(), Vec::new());
        let gpu = std::mem::take(&mut self.gpu);
        // Ids may begin anew: the call is the last one before the operation.
        let launch = |one: &GpuRecord| {
            let call = submissions.find(CorrelationId::of_operation(one)?, one.start_ns)?;
            Some(Launch {
                thread: call.thread.index(),
                start: axis.common(call.start_ns),
                end: axis.common(call.end_ns),
                stream: call.stream,
                is_held: held.contains(&(call.thread, call.start_ns)),
            })
        };
        let operations = gpu.iter().map(|one| Operation {
            start: axis.common(one.start_ns),
            end: axis.common(one.end_ns),
            start_ns: one.start_ns,
            device: one.device.index(),
            queue: one.queue.index(),
            name: names.get(model.text(one.name)),
            kind: match one.activity {
                Activity::Comm => Kind::Collective,
                Activity::Copy => Kind::Copy,
                Activity::Fill => Kind::Fill,
                Activity::Compute | Activity::None => Kind::Kernel,
            },
            launch: launch(one),
        });
        let period_ns = model.process(self.process).sample_period_ns;
        let mut timeline = RankTimeline::new(operations.collect(), threads, period_ns);
        for (begin_ns, found) in std::mem::take(&mut self.marked) {
            if let Some((_, _, thread)) = found.into_iter().min() {
                timeline.marked.insert(begin_ns, thread);
            }
        }
        timeline.since = (self.since_ns > 0).then(|| axis.common(self.since_ns));
        timeline
    }

    /// Whether a call launches, and may have waited for room in the queue, by its length.
    fn is_slow_launch(&self, slice: &HostSlice) -> bool {
        let duration_ns = slice.end_ns - slice.start_ns;
        let least = self.least_ns.get(&slice.name).filter(|_| slice.link != 0);
        duration_ns >= SLOW_NS && least.is_some_and(|least_ns| duration_ns / SLOW >= *least_ns)
    }

    /// The stacks from which calls were made, by thread and begin.
    fn sites(&self) -> HashMap<(ThreadId, u64), StackId> {
        let calls = self.samples.iter();
        calls
            .filter(|one| one.basis == Basis::CallTime)
            .map(|sample| ((sample.thread, sample.time_ns), sample.stack))
            .collect()
    }

    /// Takes the calls in, those that are within no other. Those that may have submitted something, and which of these have waited for their copies.
    fn host(
        &mut self,
        model: &Model,
        axis: &Axis,
        names: &mut Names,
        threads: &mut BTreeMap<usize, Track>,
    ) -> (Submissions, HashSet<(ThreadId, u64)>) {
        let sites = self.sites();
        self.host
            .sort_by_key(|one| (one.thread, one.start_ns, u64::MAX - one.end_ns));
        let mut copies = CopiesOfCalls::default();
        self.gpu.iter().for_each(|record| copies.take(record));
        self.host.iter().for_each(|slice| copies.take_call(slice));
        copies.sort();
        let (mut submissions, mut held) = (Submissions::default(), HashSet::new());
        for slice in &self.host {
            let is_call = matches!(
                slice.kind,
                HostKind::Runtime | HostKind::Hsa | HostKind::Collective
            );
            if !is_call {
                continue;
            }
            let (start, end) = (axis.common(slice.start_ns), axis.common(slice.end_ns));
            let thread = slice.thread.index();
            let track = threads.entry(thread).or_default();
            let time_ns = (slice.start_ns, slice.end_ns);
            let copied = copies.of(slice.process, slice.link, time_ns);
            let is_held = copied.is_some_and(|copied| copied.held(slice.effect, time_ns));
            if slice.order == StreamOrder::WaitEvent {
                track.waits_for_event(slice.stream, start);
            }
            submissions.take(slice);
            if is_held {
                held.insert((slice.thread, slice.start_ns));
            }
            match track.calls.last_mut() {
                Some(outer) if start < outer.end => {
                    outer.blocks |= blocks(slice, model);
                    outer.is_held |= is_held;
                }
                _ => {
                    let name = model.text(slice.name);
                    let site = sites.get(&(slice.thread, slice.start_ns));
                    let place = site.and_then(|&stack| place_text(stack, model));
                    track.calls.push(HostCall {
                        start,
                        end,
                        name: match place {
                            Some(place) => names.get(&format!("{name} in {place}")),
                            None => names.get(name),
                        },
                        meets_ns: (slice.kind == HostKind::Collective).then_some(slice.start_ns),
                        blocks: blocks(slice, model),
                        is_held,
                        is_slow_launch: self.is_slow_launch(slice),
                        stream: slice.stream,
                    });
                }
            }
        }
        for slice in self.earlier.calls() {
            if slice.order == StreamOrder::WaitEvent {
                let track = threads.entry(slice.thread.index()).or_default();
                track.waits_for_event(slice.stream, axis.common(slice.start_ns));
            }
            submissions.take(&slice);
        }
        submissions.sort();
        (submissions, held)
    }

    /// What threads did, calls aside, by recorded waits for locks, by slices of waits, then by samples; of threads without samples, by what they were in.
    fn pieces(
        &mut self,
        model: &Model,
        axis: &Axis,
        names: &mut Names,
    ) -> BTreeMap<usize, Vec<Piece>> {
        let mut scopes = std::mem::take(&mut self.scopes);
        let mut spans: BTreeMap<usize, Vec<(u8, Piece)>> = BTreeMap::new();
        let mut add = |thread: usize, order: u8, kind, name: String, span: (u64, u64)| {
            let piece = Piece {
                start: axis.common(span.0),
                end: axis.common(span.1),
                kind,
                name: names.get(&name),
                is_range: false,
            };
            spans.entry(thread).or_default().push((order, piece));
        };
        let place = |sample: &Sample| {
            place_text(sample.stack, model).unwrap_or_else(|| "(no code of the program)".to_owned())
        };
        // A wait is sampled where it ends.
        let mut waits = BTreeMap::new();
        for sample in &self.samples {
            let span = (sample.time_ns.saturating_sub(sample.weight), sample.time_ns);
            let thread = sample.thread.index();
            match sample.basis {
                Basis::CpuTime => add(
                    thread,
                    BY_SAMPLE,
                    Kind::Host(IdleCause::Code),
                    place(sample),
                    span,
                ),
                Basis::WaitTime => {
                    add(
                        thread,
                        BY_WAIT,
                        Kind::Host(IdleCause::Wait),
                        place(sample),
                        span,
                    );
                    waits.insert((sample.thread, sample.time_ns), sample);
                }
                _ => {}
            }
        }
        for slice in &self.host {
            let kind = match slice.kind {
                HostKind::Wait => Kind::Host(IdleCause::Wait),
                HostKind::OffCpu => Kind::Host(IdleCause::OffProcessor),
                HostKind::Runnable => Kind::Host(IdleCause::Runnable),
                _ => continue,
            };
            let key = (slice.thread, slice.start_ns);
            let sampled = waits.range(key..).next();
            let sampled = sampled.filter(|(at, sample)| {
                at.0 == slice.thread && at.1.saturating_sub(sample.weight) < slice.end_ns
            });
            let place = sampled.and_then(|(_, sample)| place_text(sample.stack, model));
            let name = model.text(slice.name);
            let name = place.map_or_else(|| name.to_owned(), |place| format!("{name} in {place}"));
            let span = (slice.start_ns, slice.end_ns);
            add(slice.thread.index(), BY_SLICE, kind, name, span);
        }
        let sites = self.sites();
        for wait in &self.lock_waits {
            let site = sites.get(&(wait.thread, wait.start_ns)).copied();
            let name = lock_wait_text(wait, site, model);
            let span = (wait.start_ns, wait.end_ns);
            add(
                wait.thread.index(),
                BY_LOCK,
                Kind::Host(IdleCause::Wait),
                name,
                span,
            );
        }
        let mut found: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
        while let Some((thread, mut scopes)) = scopes.pop_first() {
            scopes.sort(&model.texts);
            let piece_of = |scope: &Scope, names: &mut Names| Piece {
                start: axis.common(scope.start_ns),
                end: axis.common(scope.end_ns),
                kind: Kind::Host(IdleCause::Code),
                name: names.get(&scope.place(model)),
                is_range: scope.kind == HostKind::Range
                    || is_backward(scope.kind, model.text(scope.name)),
            };
            let innermost = scopes.overlapping(0, u64::MAX);
            let pieces = match spans.remove(&thread.index()) {
                // They are side by side already; those of one name are one.
                None => innermost.fold(Vec::new(), |mut pieces: Vec<Piece>, scope| {
                    let piece = piece_of(scope, names);
                    match pieces.last_mut() {
                        Some(last) if last.end == piece.start && last.name == piece.name => {
                            last.end = piece.end;
                        }
                        _ => pieces.push(piece),
                    }
                    pieces
                }),
                Some(mut spans) => {
                    spans.extend(innermost.map(|scope| {
                        let order = match scope.kind {
                            HostKind::Range => BY_RANGE,
                            _ => BY_SCOPE,
                        };
                        (order, piece_of(scope, names))
                    }));
                    side_by_side(&spans)
                }
            };
            found.insert(thread.index(), pieces);
        }
        let spans = spans.into_iter();
        found.extend(spans.map(|(thread, spans)| (thread, side_by_side(&spans))));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_wait_for_a_lock_is_a_wait_whatever_samples_show() {
        let mut model = Model::default();
        let function = model.texts.intern("pthread_mutex_lock");
        let holder = model.texts.intern("grow (pool.cc:42)");
        let (process, thread) = (ProcessId::new(0), ThreadId::new(3));
        let mut recorder = Recorder::new(0, vec![(100, 1_000)], Vec::new());
        let mut batch = Batch::default();
        batch.samples.push(Sample {
            time_ns: 500,
            weight: 400,
            basis: Basis::CpuTime,
            process,
            thread,
            ..Sample::default()
        });
        batch.lock_waits.push(LockWait {
            start_ns: 200,
            end_ns: 300,
            process,
            thread,
            function,
            holder,
            ..LockWait::default()
        });
        recorder.take(&batch);
        let mut recorded = recorder.0.lock().unwrap();
        let pieces = &recorded.pieces(&model, &Axis::default(), &mut Names::default())[&3];
        let truth = pieces.iter().map(|one| (one.start, one.end, &*one.name));
        let code = "(no code of the program)";
        let lock = "waiting in pthread_mutex_lock, held in grow (pool.cc:42)";
        let expected = [(100, 200, code), (200, 300, lock), (300, 500, code)];
        assert_eq!(truth.collect::<Vec<_>>(), expected);
        assert!(matches!(pieces[1].kind, Kind::Host(IdleCause::Wait)));
    }
    #[test]
    fn of_too_many_records_the_last_ones_are_kept() {
        let (process, thread) = (ProcessId::new(0), ThreadId::new(3));
        let recorder = Recorder::new(0, vec![(0, 1_000_000)], Vec::new());
        recorder.0.lock().unwrap().most = 100;
        for begin in 0..40 {
            let mut batch = Batch::default();
            for number in 0..10 {
                // In no order of time.
                let start_ns = 10 * (number * 40 + begin);
                let (end_ns, kind) = (start_ns + 9, HostKind::Operator);
                batch.gpu.push(GpuRecord {
                    start_ns,
                    end_ns,
                    ..GpuRecord::default()
                });
                batch.host.push(HostSlice {
                    start_ns,
                    end_ns,
                    kind,
                    process,
                    thread,
                    ..HostSlice::default()
                });
            }
            recorder.clone().take(&batch);
        }
        let recorded = recorder.0.lock().unwrap();
        let kept = recorded.gpu.len();
        assert!(recorded.len() <= 100 && kept >= 20, "{kept}");
        let since_ns = recorded.since_ns;
        let all = (0..400).map(|number| 10 * number + 9);
        let expected = all.filter(|end_ns| *end_ns >= since_ns).count();
        assert_eq!((kept, recorded.len()), (expected, 2 * expected));
    }
}
