//! Times that cannot be right, in files of any profiler: operations at time 0, records that last for years, operations far outside of all others, and operations
//! that seem to last beyond later work of their stream. The first two are left out, the others are reported with numbers. The order of records does not matter.

use std::collections::BTreeMap;

use super::Reader;
use crate::model::{Activity, Batch, GpuRecord, HostSlice, Model, Notice, QueueId, TextId, entry};
use crate::words::{counted, nanoseconds};

/// Nothing lasts longer, and no record is later.
pub(super) const LONGEST_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;
const LATEST_NS: u64 = i64::MAX as u64;
/// Maximum of records at time 0 that are kept until it is known whether that time can be right; more cannot be.
const HELD: usize = 1 << 12;
/// Outermost operations that are compared at each end of the trace.
const OUTSIDE: usize = 16;
/// An operation is far outside at this distance from all others, as a multiple of the time that they span, and in nanoseconds.
const FAR: u64 = 10;
const FAR_NS: u64 = 10_000_000_000;
/// Operations that are kept for sorting: a file may have those of a stream out of order.
const WAITING: usize = 1 << 16;
/// An end is probably wrong where an operation takes this many times as long as others of its name, and contains at least this many later ones of
/// its stream.
const LONGER: u64 = 10;
const BEHIND: u64 = 2;
/// Less than this, and than one part in a hundred of all, changes no answer.
const WORTH_NS: u64 = 100_000;

/// Looks at the records of a reader.
pub(super) struct Checked {
    reader: Box<dyn Reader>,
    file: String,
    held: (Vec<GpuRecord>, Vec<HostSlice>),
    /// What began at 0 beyond those.
    more_at_zero: u64,
    /// What lasted for years.
    endless: u64,
    /// Begins and ends of everything else.
    span_ns: Option<(u64, u64)>,
    /// The same of what the host did.
    host_span_ns: Option<(u64, u64)>,
    first: Outermost,
    last: Outermost,
    streams: Streams,
}

/// The operations that begin first or end last, the outermost first, by the distance from a time that is beyond all.
#[derive(Debug, Default)]
struct Outermost(Vec<(u64, TextId)>);

impl Outermost {
    #[inline]
    fn add(&mut self, distance: u64, name: TextId) {
        if self.0.len() > OUTSIDE && self.0.last().is_some_and(|last| distance >= last.0) {
            return;
        }
        let place = self.0.partition_point(|one| *one <= (distance, name));
        self.0.insert(place, (distance, name));
        self.0.truncate(OUTSIDE + 1);
    }

    /// How many lie far outside of what takes `rest_ns` behind them, and how far.
    fn far(&self, rest_ns: impl Fn(u64) -> u64) -> Option<(usize, u64)> {
        let pairs = self.0.windows(2).zip(1..);
        let far = pairs.filter_map(|(two, count)| {
            let gap_ns = two[1].0 - two[0].0;
            let is_far = gap_ns >= FAR_NS && gap_ns / FAR >= rest_ns(two[1].0);
            is_far.then_some((count, gap_ns))
        });
        far.last()
    }
}

impl Checked {
    pub(super) fn new(reader: Box<dyn Reader>, file: String) -> Self {
        Self {
            reader,
            file,
            held: (Vec::new(), Vec::new()),
            more_at_zero: 0,
            endless: 0,
            span_ns: None,
            host_span_ns: None,
            first: Outermost::default(),
            last: Outermost::default(),
            streams: Streams::default(),
        }
    }

    fn look(&mut self, batch: &mut Batch, (gpu, host): (usize, usize)) {
        let zero_ns = self.reader.zero_ns();
        let all = batch.gpu.len() + batch.host.len();
        leave_out(&mut batch.gpu, gpu, |one| (one.start_ns, one.end_ns));
        leave_out(&mut batch.host, host, |one| (one.start_ns, one.end_ns));
        // Of the same operations, and in no table by themselves.
        leave_out(&mut batch.collectives, 0, |one| (one.start_ns, one.end_ns));
        leave_out(&mut batch.gpu_ranges, 0, |one| (one.start_ns, one.end_ns));
        self.endless += (all - batch.gpu.len() - batch.host.len()) as u64;
        for one in &batch.gpu[gpu..] {
            if one.start_ns > zero_ns {
                extend(&mut self.span_ns, (one.start_ns, one.end_ns));
            }
        }
        for one in &batch.host[host..] {
            if one.start_ns > zero_ns {
                extend(&mut self.host_span_ns, (one.start_ns, one.end_ns));
            }
        }
        if !self.can_be_zero() {
            let Self {
                held, more_at_zero, ..
            } = self;
            hold(&mut batch.gpu, gpu, &mut held.0, more_at_zero, |one| {
                one.start_ns <= zero_ns
            });
            hold(&mut batch.host, host, &mut held.1, more_at_zero, |one| {
                one.start_ns <= zero_ns
            });
        }
        for one in &batch.gpu[gpu..] {
            if one.activity != Activity::None {
                self.first.add(one.start_ns, one.name);
                self.last.add(u64::MAX - one.end_ns, one.name);
                self.streams.add(one);
            }
        }
    }

    /// The times of everything that is not at 0.
    fn whole_span_ns(&self) -> Option<(u64, u64)> {
        let mut span_ns = self.span_ns;
        if let Some(host_ns) = self.host_span_ns {
            extend(&mut span_ns, host_ns);
        }
        span_ns
    }

    /// Whether something may have been at time 0: a trace whose times count from its own begin is not far from there. What is known later makes that likelier only.
    fn can_be_zero(&self) -> bool {
        let zero_ns = self.reader.zero_ns();
        let near_ns = if zero_ns == 0 { 0 } else { FAR_NS };
        let span_ns = self.whole_span_ns();
        span_ns.is_some_and(|(first_ns, last_ns)| {
            first_ns - zero_ns <= near_ns.max(last_ns - first_ns)
        })
    }

    /// The file ends: what was kept goes back if it can be right.
    fn finish(&mut self, model: &mut Model, batch: &mut Batch) {
        let is_empty = self.span_ns.is_none() && self.host_span_ns.is_none();
        let (mut gpu, mut host) = std::mem::take(&mut self.held);
        let mut left_out = self.more_at_zero;
        if is_empty || self.can_be_zero() {
            batch.gpu.append(&mut gpu);
            batch.host.append(&mut host);
        }
        left_out += (gpu.len() + host.len()) as u64;
        if left_out > 0 {
            let what = counted(left_out, "record");
            let text = format!(
                "{what} left out: their time is 0, which profilers write for a time that they do not know"
            );
            self.say(text, model);
        }
        if self.endless > 0 {
            let what = counted(self.endless, "record");
            let text = format!(
                "{what} left out: by their times they last for more than ten years, or end after the year 2262"
            );
            self.say(text, model);
        }
        self.report_far(model);
        let span_ns = self
            .whole_span_ns()
            .map_or(0, |(first_ns, last_ns)| last_ns - first_ns);
        for text in self.streams.finish(model, (span_ns / 100).max(WORTH_NS)) {
            self.say(text, model);
        }
    }

    fn say(&self, text: String, model: &mut Model) {
        model.notices.push(Notice {
            file: self.file.clone(),
            offset: None,
            text,
        });
    }

    /// Reports operations that lie far outside of all others.
    fn report_far(&self, model: &mut Model) {
        let Some((first_ns, last_ns)) = self.whole_span_ns() else {
            return;
        };
        // Without them, the time begins or ends with the host's.
        let last_start_ns = self.first.0.last().map_or(last_ns, |one| one.0);
        let first_end_ns = self.last.0.last().map_or(first_ns, |one| u64::MAX - one.0);
        let (host_first_ns, host_last_ns) =
            self.host_span_ns.unwrap_or((last_start_ns, first_end_ns));
        let before = self
            .first
            .far(|start_ns| last_ns.saturating_sub(start_ns.min(host_first_ns.max(first_ns))));
        let after = self.last.far(|distance| {
            let end_ns = (u64::MAX - distance).max(host_last_ns);
            end_ns.saturating_sub(first_ns)
        });
        let sides = [
            (
                before,
                &self.first,
                ["begins", "begin"],
                "first",
                "before all others",
            ),
            (
                after,
                &self.last,
                ["ends", "end"],
                "last",
                "after all others have ended",
            ),
        ];
        for (far, outermost, [one, several], which, when) in sides {
            let Some((count, gap_ns)) = far else { continue };
            let name = model.text(outermost.0[0].1);
            let what = match count {
                1 => format!("a GPU operation ({name}) {one}"),
                _ => format!("{count} GPU operations ({name} {which}) {several}"),
            };
            let gap = nanoseconds(gap_ns);
            let text = format!(
                "{what} {gap} {when}: that time counts as idle, and may be a mistake of the profiler's"
            );
            self.say(text, model);
        }
    }
}

/// Takes out of a list, from a place on, what lasts for years.
fn leave_out<T>(list: &mut Vec<T>, from: usize, times: impl Fn(&T) -> (u64, u64)) {
    let can_be = |one: &T| {
        let (start_ns, end_ns) = times(one);
        end_ns <= LATEST_NS && end_ns.saturating_sub(start_ns) <= LONGEST_NS
    };
    if list[from..].iter().all(can_be) {
        return;
    }
    let mut place = 0;
    list.retain(|one| {
        place += 1;
        place <= from || can_be(one)
    });
}

/// Takes out of a list, from a place on, what is not to be believed yet.
fn hold<T: Copy>(
    list: &mut Vec<T>,
    from: usize,
    held: &mut Vec<T>,
    more: &mut u64,
    is_doubtful: impl Fn(&T) -> bool,
) {
    if !list[from..].iter().any(&is_doubtful) {
        return;
    }
    let mut kept = from;
    for place in from..list.len() {
        let one = list[place];
        if !is_doubtful(&one) {
            list[kept] = one;
            kept += 1;
        } else if held.len() < HELD {
            held.push(one);
        } else {
            *more += 1;
        }
    }
    list.truncate(kept);
}

fn extend(span_ns: &mut Option<(u64, u64)>, (start_ns, end_ns): (u64, u64)) {
    let (first_ns, last_ns) = span_ns.unwrap_or((start_ns, end_ns));
    *span_ns = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
}

impl Reader for Checked {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let before = (batch.gpu.len(), batch.host.len());
        let goes_on = self.reader.read(model, batch);
        self.look(batch, before);
        if !goes_on {
            self.finish(model, batch);
        }
        goes_on
    }
}

/// An operation of a stream: begin, end, link and name.
type Operation = (u64, u64, u64, TextId);

/// Operations by stream, in order of their begin.
#[derive(Debug, Default)]
struct Streams {
    waiting: Vec<(QueueId, Operation)>,
    /// By queue: the operation that ends last so far, how many later ones have begun and ended within it, and how long those took.
    open: Vec<Option<(Operation, u64, u64)>>,
    /// By name: how many operations, and how long they took.
    names: Vec<(u64, u64)>,
    /// Those that may have ended before, by what they seem to take.
    found: BTreeMap<(u64, QueueId, Operation), (u64, u64)>,
}

/// Maximum of suspects that are kept, the longest.
const FOUND: usize = 64;

impl Streams {
    #[inline]
    fn add(&mut self, record: &GpuRecord) {
        let name = entry(&mut self.names, record.name.index());
        *name = (name.0 + 1, name.1.saturating_add(record.duration_ns()));
        let operation = (record.start_ns, record.end_ns, record.link, record.name);
        self.waiting.push((record.queue, operation));
        if self.waiting.len() >= 2 * WAITING {
            self.pass(WAITING);
        }
    }

    fn pass(&mut self, count: usize) {
        self.waiting.sort_by_key(|one| (one.1, one.0));
        let mut waiting = std::mem::take(&mut self.waiting);
        for (queue, operation) in waiting.drain(..count) {
            self.next(queue, operation);
        }
        self.waiting = waiting;
    }

    #[inline]
    fn next(&mut self, queue: QueueId, operation: Operation) {
        let open = entry(&mut self.open, queue.index());
        let (start_ns, end_ns, link, _) = operation;
        match open {
            Some((outer, count, behind_ns)) if start_ns < outer.1 && end_ns <= outer.1 => {
                // The nodes of a graph run beside each other, all of one call.
                if link == 0 || link != outer.2 {
                    *count += 1;
                    *behind_ns += end_ns - start_ns;
                }
            }
            _ => {
                let before = open.replace((operation, 0, 0));
                self.close(queue, before);
            }
        }
    }

    fn close(&mut self, queue: QueueId, open: Option<(Operation, u64, u64)>) {
        let Some((operation, count, behind_ns)) = open.filter(|one| one.1 >= BEHIND) else {
            return;
        };
        let duration_ns = operation.1 - operation.0;
        self.found
            .insert((duration_ns, queue, operation), (count, behind_ns));
        if self.found.len() > FOUND {
            self.found.pop_first();
        }
    }

    /// The notices about such operations, of those that change times by `worth_ns` or more.
    fn finish(&mut self, model: &Model, worth_ns: u64) -> Vec<String> {
        self.pass(self.waiting.len());
        for (queue, open) in std::mem::take(&mut self.open).into_iter().enumerate() {
            self.close(QueueId::new(queue), open);
        }
        let mut texts = Vec::new();
        for ((duration_ns, queue, operation), (count, behind_ns)) in self.found.iter().rev() {
            let (of_name, of_name_ns) = self.names[operation.3.index()];
            let others = of_name - 1;
            let usual_ns = match others {
                // The only one of its name is compared with what is behind it.
                0 => behind_ns / count,
                _ => (of_name_ns - duration_ns) / others,
            };
            if duration_ns / LONGER < usual_ns || duration_ns - usual_ns < worth_ns {
                continue;
            }
            let stream = model.queues.get(queue.index());
            let stream = stream.map_or("", |queue| model.text(queue.name));
            let name = model.text(operation.3);
            let usual = match others {
                0 => String::new(),
                _ => format!(" (others of its name {})", nanoseconds(usual_ns)),
            };
            texts.push(format!(
                "an operation of {stream}, {name}, seems to take {}{usual}, and overlaps {count} later operations of the same stream, which take {} in all: its end is probably wrong, and so are times that count it",
                nanoseconds(*duration_ns),
                nanoseconds(*behind_ns)
            ));
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out records in three batches.
    struct Fixed(Vec<GpuRecord>);

    impl Reader for Fixed {
        fn read(&mut self, _: &mut Model, batch: &mut Batch) -> bool {
            let count = self.0.len().div_ceil(3).min(self.0.len());
            batch
                .gpu
                .extend(self.0.drain(..count.max(self.0.len().min(1))));
            !self.0.is_empty()
        }
    }

    /// How many operations are left of those with these times, and what is said.
    fn checked(times: &[(u64, u64)]) -> (usize, Vec<String>) {
        let mut model = Model::default();
        let name = model.texts.intern("gemm");
        let records = times.iter().map(|&(start_ns, end_ns)| GpuRecord {
            start_ns,
            end_ns,
            name,
            ..GpuRecord::default()
        });
        let mut reader = Checked::new(Box::new(Fixed(records.collect())), String::new());
        let mut batch = Batch::default();
        while reader.read(&mut model, &mut batch) {}
        let texts = model.notices.into_iter().map(|notice| notice.text);
        (batch.gpu.len(), texts.collect())
    }

    fn healthy(from_ns: u64) -> Vec<(u64, u64)> {
        (0..40)
            .map(|step| (from_ns + 100 * step, from_ns + 100 * step + 90))
            .collect()
    }

    #[test]
    fn times_that_can_be_right_are_left_alone() {
        for from_ns in [0, 1, 1_000, 1_700_000_000_000_000_000] {
            assert_eq!(checked(&healthy(from_ns)), (40, vec![]), "{from_ns}");
        }
        let in_two_parts = [healthy(1_000), healthy(900_000_000)].concat();
        assert_eq!(checked(&in_two_parts), (80, vec![]));
    }

    #[test]
    fn what_begins_at_zero_is_left_out_wherever_it_stands() {
        for place in [0, 20, 40] {
            let mut times = healthy(1_700_000_000_000_000_000);
            times.insert(place, (0, 60));
            let (count, texts) = checked(&times);
            assert_eq!(count, 40);
            assert!(texts[0].starts_with("1 record left out"), "{texts:?}");
        }
        assert_eq!(checked(&[(0, 0), (100, 120), (130, 140)]).0, 2);
    }

    #[test]
    fn what_lasts_for_years_is_left_out() {
        for end_ns in [u64::MAX, i64::MAX.cast_unsigned()] {
            let mut times = healthy(1_000);
            (0..3).for_each(|place| times[7 * place].1 = end_ns);
            let (count, texts) = checked(&times);
            assert_eq!((count, texts.len()), (37, 1), "{texts:?}");
            assert!(texts[0].starts_with("3 records left out"), "{texts:?}");
        }
    }

    #[test]
    fn what_is_far_outside_is_told() {
        let hour_ns = 3_600_000_000_000;
        let mut before = healthy(2 * hour_ns);
        before.insert(7, (hour_ns, hour_ns + 5));
        let (count, texts) = checked(&before);
        assert_eq!((count, texts.len()), (41, 1), "{texts:?}");
        assert!(
            texts[0].contains("begins 3600.000 s before all others"),
            "{texts:?}"
        );
        let mut after = healthy(hour_ns);
        after.insert(3, (2 * hour_ns, 2 * hour_ns + 5));
        after.insert(9, (2 * hour_ns + 7, 2 * hour_ns + 9));
        let texts = checked(&after).1;
        assert!(
            texts[0].contains("2 GPU operations (gemm last) end"),
            "{texts:?}"
        );
    }

    #[test]
    fn a_late_end_is_told_in_any_order() {
        let mut times = healthy(1_000);
        times[3].1 += 2_000_000;
        let texts = checked(&times).1;
        assert!(
            texts[0].contains("overlaps 36 later operations of the same stream"),
            "{texts:?}"
        );
        times.reverse();
        assert_eq!(checked(&times).1, texts);
    }
}
