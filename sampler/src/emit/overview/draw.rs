//! The sums of a run become a trace.

use std::collections::HashMap;
use std::rc::Rc;

use rsys_proto::{Sample, TrackSequence};

use super::long::Long;
use super::paths::{Edge, Joined, heaviest};
use super::{Key, Of, Overview, Values};
use crate::counters::{Counter, Unit};
use crate::emit::learned::events::EventTables;
use crate::emit::learned::frames::{FrameId, Frames, FunctionId};
use crate::emit::output::Output;
use crate::emit::output::counter_value;
use crate::emit::output::metadata::{Data, Datum};

/// About so many slices of stacks are drawn.
const SLICES_MAX: usize = 1 << 15;

/// A thread is shown in a window of time of which at least so many samples can be taken,
const SAMPLES_MIN: u64 = 4;
/// and in which it did something for more than this part.
const IDLE_BELOW: u64 = 8;

/// What is drawn with.
#[derive(Debug)]
pub struct Pen<'a> {
    /// The trace.
    pub output: &'a mut Output,
    /// What stands behind the ids of functions.
    pub frames: &'a Frames,
    /// What stands behind those of names.
    pub known: &'a EventTables,
}

impl Overview {
    /// Writes it. Threads have the names that the trace knows.
    pub fn draw(mut self, pen: &mut Pen<'_>) {
        let devices: Vec<(u32, usize)> = self
            .devices
            .iter()
            .map(|(&number, device)| (number, device.waiting.len()))
            .collect();
        for (number, waiting) in devices {
            self.take_operations(number, waiting);
        }
        let sums = self.times.sorted();
        self.samples(&sums, pen);
        self.stacks_of_threads(&self.outlines.sorted(), pen);
        self.gpus(&sums, pen);
        self.readings(pen);
        self.long_calls(pen);
    }

    /// What the trace says of itself.
    #[must_use]
    pub fn data(&self) -> Data {
        let counts = [
            ("overview_span_ns", self.times.span_ns),
            ("overview_shortest_call_ns", self.longest.at_least_ns),
        ];
        let counts = counts.map(|(key, count)| (key.to_owned(), Datum::Count(count)));
        let about = "Sums over spans of time of the whole run; the other files hold all of it";
        let about = ("overview".to_owned(), Datum::from(about));
        std::iter::once(about).chain(counts).collect()
    }

    /// One sample for each stack of a thread in a span.
    fn samples(&self, sums: &[(Key, u32, u64)], pen: &mut Pen<'_>) {
        let mut of_kinds: [Vec<Sample>; 3] = Default::default();
        let no_name = pen.output.buffer().intern("");
        for &((of, tid, stack), span, weight) in sums {
            let frames = || self.stacks.frames(stack);
            let (kind, callstack) = match of {
                Of::Cpu => (0, pen.output.callstack(pen.frames, &frames())),
                Of::Waiting => (1, pen.output.wait_callstack(pen.frames, &frames())),
                Of::Launched => {
                    let key = (u64::from(stack), no_name);
                    (2, pen.output.gpu_callstack(pen.frames, key, frames))
                }
                Of::Kernel | Of::Busy => continue,
            };
            let time_ns = self.times.time_ns(span);
            of_kinds[kind].push(pen.output.sample(time_ns, tid, callstack, weight));
        }
        let [cpu, waits, gpu] = &mut of_kinds;
        for samples in [&mut *cpu, waits, gpu] {
            samples.sort_by_key(|sample| sample.time_ns);
        }
        pen.output.samples(cpu);
        pen.output.wait_samples(waits);
        pen.output.gpu_samples(gpu);
    }

    /// What threads did for most of the time, as slices.
    fn stacks_of_threads(&self, sums: &[(Key, u32, u64)], pen: &mut Pen<'_>) {
        let wide = (SAMPLES_MIN * self.period_ns).div_ceil(self.outlines.span_ns);
        let mut width = u32::try_from(wide).unwrap_or(1).max(1);
        let drawn = loop {
            let drawn = self.joined(sums, width);
            let edges: usize = drawn.iter().map(|(_, joined)| joined.edges.len()).sum();
            if edges <= 2 * SLICES_MAX || width >= 1 << 20 {
                break drawn;
            }
            width *= 2;
        };
        for ((of, tid), joined) in drawn {
            let mut track = match of {
                Of::Cpu => pen.output.thread(tid, ""),
                _ => pen.output.wait_track(tid, ""),
            };
            for edge in joined.edges {
                let out = pen.output.buffer();
                match edge {
                    Edge::Begin(time_ns, function) => {
                        let name = out.intern(&pen.frames.function(function).name);
                        track.slice_begin(out, time_ns, name);
                    }
                    Edge::End(time_ns) => track.slice_end(out, time_ns),
                }
            }
        }
    }

    /// The slices of each thread's samples and waits, over windows of `width` spans.
    fn joined(&self, sums: &[(Key, u32, u64)], width: u32) -> Vec<((Of, u32), Joined)> {
        let mut all: Vec<((Of, u32), Joined)> = Vec::new();
        let of_threads = sums
            .iter()
            .filter(|((of, ..), ..)| matches!(of, Of::Cpu | Of::Waiting));
        // By thread and window: sums are sorted by stack before time.
        let mut windows: HashMap<(Of, u32, u32), HashMap<u32, u64>> = HashMap::new();
        for &((of, tid, stack), span, sum) in of_threads {
            let window = windows.entry((of, tid, span / width)).or_default();
            *window.entry(stack).or_default() += sum;
        }
        let mut windows: Vec<_> = windows.into_iter().collect();
        windows.sort_by_key(|(key, _)| *key);
        for ((of, tid, window), stacks) in windows {
            if all.last().is_none_or(|(of_last, _)| *of_last != (of, tid)) {
                all.push(((of, tid), Joined::default()));
            }
            let stacks: Vec<(Rc<[FunctionId]>, u64)> = stacks
                .into_iter()
                .map(|(stack, sum)| (Rc::clone(self.stacks.functions(stack)), sum))
                .collect();
            let begin_ns = self.outlines.time_ns(window.saturating_mul(width));
            let length_ns = self.outlines.span_ns.saturating_mul(u64::from(width));
            let sum: u64 = stacks.iter().map(|(_, sum)| sum).sum();
            if sum.saturating_mul(IDLE_BELOW) < length_ns {
                continue;
            }
            if let Some((_, joined)) = all.last_mut() {
                let path = heaviest(&stacks, sum / 2);
                joined.add((begin_ns, begin_ns.saturating_add(length_ns)), &path);
            }
        }
        for (_, joined) in &mut all {
            joined.finish();
        }
        all
    }

    /// For each GPU how busy it was, and the kernel that took most of the time.
    fn gpus(&self, sums: &[(Key, u32, u64)], pen: &mut Pen<'_>) {
        for (&number, device) in &self.devices {
            let group = pen.output.group(
                number,
                &device.name,
                "What this GPU did for the process, in spans of the whole run",
            );
            let rank = 1;
            let mut kernels = pen.output.group_track(&group, rank, "most of the time");
            let mut most: HashMap<u32, (u64, u32)> = HashMap::new();
            for &((of, device, kernel), span, sum) in sums {
                if of == Of::Kernel && device == number {
                    let known = most.entry(span).or_default();
                    *known = (*known).max((sum, kernel));
                }
            }
            let busy = sums
                .iter()
                .filter(|((of, device, _), ..)| *of == Of::Busy && *device == number)
                .map(|(_, span, sum)| (*span, *sum));
            let counter = Counter::new(
                "busy",
                Unit::Named("%"),
                None,
                "Share of the time in which this GPU did something for the process",
            );
            let mut track = pen.output.counter_track_below(group.uuid(), &counter);
            let mut joined = Joined::default();
            let mut next = None;
            for (span, busy_ns) in busy {
                let (begin_ns, length_ns) = (self.times.time_ns(span), self.times.span_ns);
                if let Some(idle) = next.filter(|next| *next < span) {
                    let time_ns = self.times.time_ns(idle);
                    track.counter(pen.output.buffer(), time_ns, counter_value(0.0));
                }
                let percent = busy_ns as f64 * 100.0 / length_ns as f64;
                let value = counter_value((percent * 10.0).round() / 10.0);
                track.counter(pen.output.buffer(), begin_ns, value);
                next = Some(span + 1);
                let kernel = most.get(&span).filter(|_| busy_ns >= length_ns / 2);
                let name = kernel.map(|(_, kernel)| pen.frames.frame(FrameId(*kernel)).function);
                joined.add((begin_ns, begin_ns + length_ns), name.as_slice());
            }
            if let Some(end) = next {
                let time_ns = self.times.time_ns(end);
                track.counter(pen.output.buffer(), time_ns, counter_value(0.0));
            }
            joined.finish();
            for edge in joined.edges {
                let out = pen.output.buffer();
                match edge {
                    Edge::Begin(time_ns, function) => {
                        let name = out.intern(&pen.frames.function(function).name);
                        kernels.slice_begin(out, time_ns, name);
                    }
                    Edge::End(time_ns) => kernels.slice_end(out, time_ns),
                }
            }
        }
    }

    /// The mean of each counter's readings in each span.
    fn readings(&self, pen: &mut Pen<'_>) {
        let mut track: Option<(u32, TrackSequence)> = None;
        for (id, span, Values(sum, count)) in self.values.sorted() {
            let Some(counter) = self.counters.get(&id) else {
                continue;
            };
            let (_, track) = match &mut track {
                Some(known) if known.0 == id => known,
                other => other.insert((id, pen.output.counter_track(counter))),
            };
            let mean = sum / f64::from(count.max(1));
            let time_ns = self.values.time_ns(span);
            track.counter(pen.output.buffer(), time_ns, counter_value(mean));
        }
    }

    /// The longest calls and ranges.
    fn long_calls(self, pen: &mut Pen<'_>) {
        let own_names: HashMap<u64, String> = self
            .own_names
            .into_iter()
            .map(|(name, id)| (id, name))
            .collect();
        let mut open: Vec<u64> = Vec::new();
        let mut track: Option<((u32, &str), TrackSequence)> = None;
        for long in self.longest.sorted() {
            let Long {
                tid,
                track: (title, description),
                begin_ns,
                end_ns,
                name,
            } = long;
            let (_, sequence) = match &mut track {
                Some(known) if known.0 == (tid, title) => known,
                other => {
                    if let Some((_, before)) = other {
                        close_before(before, &mut open, u64::MAX, pen);
                    }
                    let thread = pen.output.thread_uuid(tid, "");
                    let new = pen.output.child_track(thread, title, Some(description));
                    other.insert(((tid, title), new))
                }
            };
            close_before(sequence, &mut open, begin_ns, pen);
            let text = own_names.get(&name).map(String::as_str);
            let text = text.or_else(|| pen.known.text(name)).unwrap_or("?");
            let out = pen.output.buffer();
            let name = out.intern(text);
            sequence.slice_begin(out, begin_ns, name);
            open.push(end_ns);
        }
        if let Some((_, last)) = &mut track {
            close_before(last, &mut open, u64::MAX, pen);
        }
    }
}

/// Ends the slices that end up to this time.
fn close_before(
    sequence: &mut TrackSequence,
    open: &mut Vec<u64>,
    time_ns: u64,
    pen: &mut Pen<'_>,
) {
    while let Some(end_ns) = open.pop_if(|end_ns| *end_ns <= time_ns) {
        sequence.slice_end(pen.output.buffer(), end_ns);
    }
}
