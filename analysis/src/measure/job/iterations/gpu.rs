//! A GPU of a process: its operations are divided among iterations.

use std::collections::BTreeMap;

use super::Options;
use super::alone::alone;
use super::assign::{
    Assign, Operation, Span, ahead, idle_within, iteration_at, partition, windows,
};
use super::differences::{Compared, differences};
use super::job::are_usual;
use super::lane::{Detail, Iteration, Lane, Layers, SENSORS};
use super::marker::{MarkerKind, is_meant};
use super::occurrences::{Marked, Occurrence, marked};
use super::period::beginning;
use super::records::Records;
use super::sums::{ALL_REDUCE, COMM, COMPUTE, COPY, Field, REDUCE_SCATTER, Sums, Whole};
use super::verdicts::{Change, Verdict, changes, verdicts};
use crate::measure::gpu::gaps::{Idle, PartCause, Stretch};
use crate::measure::gpu::sensors::{machine, sensor};
use crate::measure::job::operation::Operation as Rccl;
use rsys_traces::model::{Activity, CounterId, DeviceId, Model, ProcessId, TextId};

/// The lanes of all GPUs, in the order of output.
pub(super) fn lanes(mut records: Records, model: &Model, options: &Options) -> Vec<Lane> {
    records.sort();
    records.gaps.sort(model);
    let mut markers: BTreeMap<ProcessId, Option<Marked>> = BTreeMap::new();
    let mut found = Vec::new();
    for id in model.devices_in_order() {
        let process = model.device(id).process;
        let marked = markers
            .entry(process)
            .or_insert_with(|| marked(&records, model, process, options.marker.as_deref()));
        let gpu = Gpu::new(&records, model, id);
        if let Some(gpu) = gpu {
            found.push(gpu.lane(marked.as_ref(), options));
        }
    }
    found
}

/// A GPU of a process.
struct Gpu<'a> {
    records: &'a Records,
    model: &'a Model,
    id: DeviceId,
    /// In order of their begins.
    operations: Vec<Operation>,
    stretches: Vec<Stretch>,
    /// From its first begin to its last end.
    span: (u64, u64),
    untyped: u64,
}

/// Iterations, and what marks them.
struct Marking {
    name: String,
    kind: MarkerKind,
    spans: Vec<Span>,
    nested: u64,
}

impl<'a> Gpu<'a> {
    /// `None` if it did nothing.
    fn new(records: &'a Records, model: &'a Model, id: DeviceId) -> Option<Self> {
        let process = model.device(id).process;
        let stretches = records.gaps.stretches(id);
        let span = (stretches.first()?.start_ns, stretches.last()?.end_ns);
        let mut gpu = Self {
            records,
            model,
            id,
            operations: Vec::new(),
            stretches,
            span,
            untyped: 0,
        };
        let mut untyped = 0;
        let rows = records.operations.get(id.index())?.iter();
        gpu.operations = rows
            .map(|[start_ns, duration_ns, what, link, name]| {
                let submission = records.gaps.submission(process, link, start_ns);
                let mut bits = match what >> 1 {
                    one if one == Activity::Compute as u64 => COMPUTE,
                    one if one == Activity::Fill as u64 => COMPUTE,
                    one if one == Activity::Comm as u64 => COMM,
                    one if one == Activity::Copy as u64 => COPY,
                    _ => 0,
                };
                if bits == COMM {
                    let of_call =
                        submission.map_or(0, |(thread, at_ns)| gpu.reduces(thread.index(), at_ns));
                    let typed = [
                        of_call,
                        gpu.of_link(link),
                        by_name(model.text(TextId::at(name as usize))),
                    ];
                    let typed = typed.into_iter().find(|typed| *typed != 0).unwrap_or(0);
                    untyped += u64::from(typed == 0);
                    // Other collectives than these two have a type as well.
                    bits |= typed & (ALL_REDUCE | REDUCE_SCATTER);
                }
                Operation {
                    start_ns,
                    end_ns: start_ns + duration_ns,
                    bits,
                    is_kernel: what & 1 != 0,
                    name,
                    link,
                    thread: submission.map_or(0, |(thread, _)| thread.index() as u64 + 1),
                    launched_ns: submission.map_or(start_ns, |(_, at_ns)| at_ns),
                }
            })
            .collect();
        gpu.untyped = untyped;
        Some(gpu)
    }

    /// What the collectives do whose call, or end of group, was under way when a thread launched something; 0 if that is not known.
    fn reduces(&self, thread: usize, at_ns: u64) -> u8 {
        let Some(calls) = self.records.collectives.get(thread) else {
            return 0;
        };
        let behind = calls.partition_point(|row| row[0] <= at_ns);
        let call = behind.checked_sub(1).and_then(|last| calls.get(last));
        let Some([start_ns, duration_ns, link, name]) = call else {
            return 0;
        };
        if at_ns >= start_ns + duration_ns {
            return 0;
        }
        by_name(self.model.text(TextId::at(name as usize))) | self.of_link(link)
    }

    /// What the collectives with a link do: those of a group, or the one that Kineto's kernel names itself.
    fn of_link(&self, link: u64) -> u8 {
        let process = self.model.device(self.id).process;
        let grouped = self.records.grouped.get(process.index());
        let grouped = grouped.filter(|_| link != 0);
        let of_link = grouped.into_iter().flat_map(|rows| {
            let first = rows.partition_point(|row| row[0] < link);
            (first..).map_while(move |place| rows.get(place).filter(|row| row[0] == link))
        });
        let of_link = of_link.map(|row| by_name(self.model.text(TextId::at(row[1] as usize))));
        of_link.fold(0, |bits, one| bits | one)
    }

    fn lane(&self, marked: Option<&Marked>, options: &Options) -> Lane {
        let mut marking = self.marking(marked, options);
        let spans = &marking.spans;
        let none = spans.len();
        let recorded_ns = self.recorded_from_ns();
        // What was launched before anything was recorded is of iterations that are not there.
        let is_whole = marking.kind == MarkerKind::Whole;
        let is_leftover =
            |one: &Operation| !is_whole && one.thread == 0 && one.start_ns < recorded_ns;
        let iteration_of = |one: &Operation| match is_leftover(one) {
            true => none,
            false => iteration_at(spans, one.launched_ns).unwrap_or(none),
        };
        let assigned: Vec<(usize, Operation)> = self
            .operations
            .iter()
            .map(|one| (iteration_of(one), *one))
            .collect();
        let is_of_host = !matches!(marking.kind, MarkerKind::Kernel | MarkerKind::Whole);
        let ahead = (is_of_host && options.assign == Assign::Launch)
            .then(|| ahead(&marking.spans, &assigned))
            .flatten();
        if let Some(ahead) = &ahead {
            for (span, shown) in marking.spans.iter_mut().zip(&ahead.shown) {
                span.shown = *shown;
            }
        }
        let spans = &marking.spans;
        let whole = Whole::new(
            self.operations
                .iter()
                .map(|one| (one.start_ns, one.end_ns, one.bits)),
        );
        let (mut sums, idle) = match options.assign {
            Assign::Launch => self.by_launch(&assigned, none, &whole),
            assign => self.by_time(&assigned, spans, &whole, assign),
        };
        let causes = |times: &[Idle]| self.records.gaps.causes(self.model, self.id, times);
        for (sums, times) in sums.iter_mut().zip(&idle) {
            causes(times)
                .iter()
                .for_each(|part| sums.add_idle(part.cause, part.ns));
        }
        let within = spans
            .iter()
            .map(|span| causes(&idle_within(&self.stretches, span.shown)));
        let within: Vec<Vec<PartCause>> = within.collect();
        for (place, _) in &assigned {
            sums[*place].add(Field::Operations, 1);
        }
        let mut lane = self.finish(marking, (&sums, &within), &assigned, &whole);
        lane.leftover = self
            .operations
            .iter()
            .filter(|one| is_leftover(one))
            .count() as u64;
        lane.unlinked -= lane.leftover;
        lane.host_ahead_ns = ahead.map(|ahead| ahead.by_ns);
        lane
    }

    /// When the first operation began whose call is known; 0 if none is, as in records of operations alone.
    fn recorded_from_ns(&self) -> u64 {
        let linked = self.operations.iter().filter(|one| one.thread != 0);
        linked.map(|one| one.start_ns).min().unwrap_or(0)
    }

    /// What recurs within the iteration of middle length.
    fn layers(&self, iterations: &[Iteration], assigned: &[(usize, Operation)]) -> Option<Layers> {
        let mut order: Vec<usize> = (0..iterations.len())
            .filter(|&place| iterations[place].verdict != Verdict::Open)
            .collect();
        order.sort_by_key(|&place| (iterations[place].duration_ns, place));
        let middle = *order.get(order.len().checked_sub(1)? / 2)?;
        let kernels = assigned
            .iter()
            .filter(|(place, one)| *place == middle && one.is_kernel);
        let named = kernels.map(|(_, one)| (one.name, one.start_ns, one.end_ns));
        let named: Vec<(u64, u64, u64)> = named.collect();
        let first = beginning(&named)?;
        let begins = first.starts_ns;
        let [first_ns, .., last_ns] = begins[..] else {
            return None;
        };
        let count = begins.len() as u64;
        Some(Layers {
            count,
            mean_ns: (last_ns - first_ns) / (count - 1),
            kernel: self.model.text(TextId::at(first.name as usize)).to_owned(),
        })
    }

    fn finish(
        &self,
        marking: Marking,
        (sums, idle_within): (&[Sums], &[Vec<PartCause>]),
        assigned: &[(usize, Operation)],
        whole: &Whole,
    ) -> Lane {
        let spans = &marking.spans;
        let lengths: Vec<(u64, bool)> = spans
            .iter()
            .map(|span| (span.shown.1 - span.shown.0, span.is_open))
            .collect();
        let verdicts = verdicts(&lengths);
        let sensors = self.sensors();
        let mut work_ends = vec![0; spans.len()];
        for (place, one) in assigned.iter().filter(|(_, one)| one.thread != 0) {
            if let Some(end_ns) = work_ends.get_mut(*place) {
                *end_ns = one.end_ns.max(*end_ns);
            }
        }
        let iterations = spans.iter().zip(sums).zip(&verdicts).enumerate();
        let iterations: Vec<Iteration> = iterations
            .map(|(place, ((span, sums), verdict))| Iteration {
                number: span.number.unwrap_or(place as u64),
                start_ns: span.shown.0,
                duration_ns: span.shown.1 - span.shown.0,
                host_ns: match marking.kind {
                    MarkerKind::Kernel | MarkerKind::Whole => span.shown,
                    _ => span.launches,
                },
                exposed_comm_ns: sums.get(Field::ExposedComm),
                work_end_ns: work_ends[place],
                verdict: *verdict,
            })
            .collect();
        let details = spans.iter().zip(sums).map(|(span, sums)| Detail {
            sums: *sums,
            sensors: sensors.each_ref().map(|values| mean(values, span.shown)),
        });
        let compared: Vec<Compared<'_>> = iterations
            .iter()
            .zip(sums)
            .zip(idle_within)
            .map(|((one, sums), idle)| Compared {
                duration_ns: one.duration_ns,
                sums,
                verdict: one.verdict,
                idle,
            })
            .collect();
        let usual = are_usual(&iterations);
        let mut together = Sums::default();
        sums[..spans.len()]
            .iter()
            .for_each(|sums| together.add_all(sums));
        let device = self.model.device(self.id);
        let process = self.model.process(device.process);
        let mut of_whole = whole.within((0, u64::MAX));
        let busy_ns: u64 = self
            .stretches
            .iter()
            .map(|one| one.end_ns - one.start_ns)
            .sum();
        of_whole.add(Field::Idle, self.span.1 - self.span.0 - busy_ns);
        of_whole.add(Field::Operations, self.operations.len() as u64);
        let closed: Vec<usize> = (0..iterations.len())
            .filter(|&place| iterations[place].verdict != Verdict::Open)
            .collect();
        let durations: Vec<u64> = closed
            .iter()
            .map(|&place| iterations[place].duration_ns)
            .collect();
        let changes = changes(&durations).into_iter().map(|one| Change {
            from: closed[one.from],
            ..one
        });
        Lane {
            rank: process.rank,
            host: process.host.clone(),
            pid: process.pid,
            process_start_ns: process.start_ns,
            device: (device.ordinal, device.name.clone()),
            is_numbered: spans.iter().all(|span| span.number.is_some()) && !spans.is_empty(),
            changes: changes.collect(),
            differences: differences(&compared, assigned, self.model),
            kernels: alone(assigned, &usual, self.model),
            layers: match marking.kind {
                MarkerKind::Kernel | MarkerKind::Whole => None,
                _ => self.layers(&iterations, assigned),
            },
            leftover: 0,
            host_ahead_ns: None,
            gaps: longest_gaps(idle_within, &usual),
            iterations,
            details: details.collect(),
            sums: together,
            outside: sums.last().copied().unwrap_or_default(),
            whole: of_whole,
            unlinked: self.operations.iter().filter(|one| one.thread == 0).count() as u64,
            untyped: self.untyped,
            nested: marking.nested,
            marker: marking.name,
            marker_kind: marking.kind,
        }
    }

    /// The iterations on this GPU.
    fn marking(&self, marked: Option<&Marked>, options: &Options) -> Marking {
        if let Some(marked) = marked {
            let mut launches: BTreeMap<u64, u64> = BTreeMap::new();
            for one in &self.operations {
                *launches.entry(one.thread).or_default() += 1;
            }
            let thread = marked.thread_of(&launches);
            let list = thread.and_then(|thread| marked.by_thread.get(&thread));
            let span = |one: &Occurrence| Span {
                number: one.number,
                launches: (one.start_ns, one.end_ns),
                shown: (one.start_ns, one.end_ns),
                is_open: one.is_open,
            };
            return Marking {
                name: marked.name.clone(),
                kind: marked.kind,
                spans: list.into_iter().flatten().map(span).collect(),
                nested: marked.nested,
            };
        }
        let text = |name: u64| self.model.text(TextId::at(name as usize));
        let kernel = match &options.marker {
            Some(wanted) => self.by_kernel(|one| is_meant(wanted, text(one.name))),
            None => {
                let kernels = self.operations.iter().filter(|one| one.is_kernel);
                let named = kernels.map(|one| (one.name, one.start_ns, one.end_ns));
                let named: Vec<(u64, u64, u64)> = named.collect();
                let found = beginning(&named);
                found.map_or_else(Vec::new, |found| {
                    self.by_kernel(|one| {
                        let starts_ns = &found.starts_ns;
                        one.name == found.name && starts_ns.binary_search(&one.start_ns).is_ok()
                    })
                })
            }
        };
        if kernel.is_empty() {
            let spans = match options.marker {
                Some(_) => Vec::new(),
                None => vec![Span {
                    number: None,
                    launches: (0, u64::MAX),
                    shown: self.span,
                    is_open: false,
                }],
            };
            return Marking {
                name: options.marker.clone().unwrap_or_default(),
                kind: MarkerKind::Whole,
                spans,
                nested: 0,
            };
        }
        let first = self.operations.iter().find(|one| {
            one.start_ns == kernel[0].shown.0 && one.launched_ns == kernel[0].launches.0
        });
        Marking {
            name: first.map_or_else(String::new, |one| text(one.name).to_owned()),
            kind: MarkerKind::Kernel,
            spans: kernel,
            nested: 0,
        }
    }

    /// Iterations that begin with these operations, and last until the next one.
    fn by_kernel(&self, is_meant: impl Fn(&Operation) -> bool) -> Vec<Span> {
        let named = self.operations.iter().filter(|one| is_meant(one));
        let mut list: Vec<(u64, u64)> = named.map(|one| (one.launched_ns, one.start_ns)).collect();
        list.sort_unstable();
        list.dedup_by_key(|one| one.0);
        // What streams have changed places stands side by side all the same.
        let mut starts: Vec<u64> = list.iter().map(|one| one.1).collect();
        starts.sort_unstable();
        let spans = list.iter().zip(&starts).enumerate();
        spans
            .map(|(place, (&(launched_ns, _), &start_ns))| {
                let next = list.get(place + 1).zip(starts.get(place + 1));
                let until_ns = next.map_or(u64::MAX, |(next, _)| next.0);
                Span {
                    number: None,
                    launches: (launched_ns, until_ns),
                    shown: (start_ns, next.map_or(self.span.1, |(_, next_ns)| *next_ns)),
                    is_open: next.is_none(),
                }
            })
            .collect()
    }

    /// What each iteration has launched, and the idle times that end with that; the last one is what is of none.
    fn by_launch(
        &self,
        assigned: &[(usize, Operation)],
        none: usize,
        whole: &Whole,
    ) -> (Vec<Sums>, Vec<Vec<Idle>>) {
        let mut own: Vec<Vec<(u64, u64, u8)>> = vec![Vec::new(); none + 1];
        for (place, one) in assigned {
            own[*place].push((one.start_ns, one.end_ns, one.bits));
        }
        let sums = own.iter().map(|own| whole.own(own.iter().copied()));
        let sums: Vec<Sums> = sums.collect();
        // The operation that a stretch begins with has ended the idle time in front of it.
        let begins: BTreeMap<(u64, u64), usize> = assigned
            .iter()
            .rev()
            .map(|(place, one)| ((one.start_ns, one.link), *place))
            .collect();
        let mut idle: Vec<Vec<Idle>> = vec![Vec::new(); none + 1];
        for pair in self.stretches.windows(2) {
            let next = pair[1];
            let place = begins
                .get(&(next.start_ns, next.link))
                .copied()
                .unwrap_or(none);
            if pair[0].end_ns < next.start_ns {
                idle[place].push(Idle {
                    start_ns: pair[0].end_ns,
                    end_ns: next.start_ns,
                    next: Some(next),
                });
            }
        }
        (sums, idle)
    }

    /// What the GPU did in the time of each iteration; the last one is what is of none.
    fn by_time(
        &self,
        assigned: &[(usize, Operation)],
        spans: &[Span],
        whole: &Whole,
        assign: Assign,
    ) -> (Vec<Sums>, Vec<Vec<Idle>>) {
        let pieces = match assign {
            Assign::Window => windows(spans, self.span),
            _ => {
                let mut firsts = vec![None; spans.len()];
                let compute = assigned.iter().filter(|(_, one)| one.bits & COMPUTE != 0);
                for (place, one) in compute {
                    if let Some(first_ns) = firsts.get_mut(*place) {
                        *first_ns = Some(
                            first_ns.map_or(one.start_ns, |first: u64| first.min(one.start_ns)),
                        );
                    }
                }
                partition(&firsts, self.span)
            }
        };
        let mut sums = vec![Sums::default(); spans.len() + 1];
        let mut idle: Vec<Vec<Idle>> = vec![Vec::new(); spans.len() + 1];
        for (time, place) in pieces {
            sums[place].add_all(&whole.within(time));
            idle[place].extend(idle_within(&self.stretches, time));
        }
        (sums, idle)
    }

    /// The values of each of [`SENSORS`] of this GPU, in order.
    fn sensors(&self) -> [&'a [(u64, f64)]; 3] {
        let device = self.model.device(self.id);
        let on = machine(device.process, self.model);
        SENSORS.map(|(unit, preferred, _)| {
            let counters = (0..self.records.values.len()).map(CounterId::new);
            let fitting = counters.filter_map(|id| {
                let ((of_machine, number), _, name, of_unit) = sensor(id, self.model)?;
                let is_own =
                    of_machine == on && number == u64::from(device.ordinal) && of_unit == unit;
                let has_values = !self.records.values[id.index()].is_empty();
                let rank = preferred.iter().position(|word| name.contains(word));
                (is_own && has_values).then_some((rank.unwrap_or(usize::MAX), name, id))
            });
            let best = fitting.min();
            best.map_or(&[][..], |(_, _, id)| &self.records.values[id.index()])
        })
    }
}

/// Which of the two operations that AORTA counts a name is of; a bit of neither if it is of another, 0 if it says nothing.
fn by_name(name: &str) -> u8 {
    const OTHER: u8 = 1 << 7;
    match Rccl::of(name) {
        Rccl::AllReduce => ALL_REDUCE,
        Rccl::ReduceScatter => REDUCE_SCATTER,
        Rccl::Unknown => {
            // Kernels of older versions: ncclDevKernel_AllReduce_Sum_f32_RING_LL.
            let plain = name.replace('_', "").to_ascii_lowercase();
            match () {
                () if plain.contains("allreduce") => ALL_REDUCE,
                () if plain.contains("reducescatter") => REDUCE_SCATTER,
                () if plain.contains("allgather") || plain.contains("broadcast") => OTHER,
                () => 0,
            }
        }
        _ => OTHER,
    }
}

/// So many causes of idleness are kept of a GPU.
const GAPS_KEPT: usize = 12;

/// The idle times in a usual iteration by cause and place, the longest first.
fn longest_gaps(idle: &[Vec<PartCause>], usual: &[bool]) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let of_usual = idle.iter().zip(usual).filter(|(_, is_usual)| **is_usual);
    let count = of_usual.clone().count() as u64;
    for part in of_usual.flat_map(|(parts, _)| parts) {
        *sums.entry((part.cause.text(), &part.place)).or_default() += part.ns;
    }
    let words = |(text, place): (&str, &str)| match place {
        "" => text.to_owned(),
        place => format!("{text}: {place}"),
    };
    let mut found: Vec<(String, u64)> = sums
        .into_iter()
        .map(|(key, ns)| (words(key), ns / count))
        .collect();
    found.retain(|(_, ns)| *ns > 0);
    found.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    found.truncate(GAPS_KEPT);
    found
}

/// The mean of values that each hold until the next one, within a time; `None` if nothing is known of it.
fn mean(values: &[(u64, f64)], (from_ns, to_ns): (u64, u64)) -> Option<f64> {
    let first = values
        .partition_point(|one| one.0 <= from_ns)
        .saturating_sub(1);
    let (mut sum, mut time_ns) = (0.0, 0.0);
    for (place, &(at_ns, value)) in values.iter().enumerate().skip(first) {
        if at_ns >= to_ns {
            break;
        }
        let until_ns = values
            .get(place + 1)
            .map_or(to_ns, |next| next.0.min(to_ns));
        let held_ns = until_ns.saturating_sub(at_ns.max(from_ns)) as f64;
        sum += value * held_ns;
        time_ns += held_ns;
    }
    (time_ns > 0.0).then(|| sum / time_ns)
}
