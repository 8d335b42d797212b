//! Why each GPU was idle: every nanosecond has one cause.
//!
//! The idle times of a GPU are those of [`super::timeline`]: between the first begin and the last end of its operations, where none ran. Each
//! ends with an operation, which some call submitted. Until that call began, the operation had not been asked for, and the cause is what
//! the calling thread did meanwhile: a call, a wait, or code, which its samples name. From then on the operation was on its way: launch
//! latency, or it waited for another GPU, or longer than that for something that the trace does not tell.
//!
//! Many idle times are shorter than the period of the samples. So the times of a thread between calls are pooled, and what its samples
//! show in all of them together divides their sum; only idle times of many periods are divided alone.

mod host;
mod places;
mod stretches;

use std::collections::BTreeMap;

use self::host::{Host, Look, Submission, Thread};
use self::places::place;
use self::stretches::{Stretch, Stretches};
use super::waiting_calls::{WaitsFor, waits_for};
use super::{DEVICE_COLUMNS, Measure, device_cells, entry, notes};
use crate::model::{Activity, Batch, DeviceId, HostKind, Kinds, Model, StackId, ThreadId};
use crate::table::{Answer, Cell, Column, Row, Table};

/// An operation that begins within this time after its call, and after the work in front of it, waited for nothing but the runtime and the
/// GPU's own latency.
const LAUNCH_NS: u64 = 100_000;
/// An operation that begins within this time after another GPU has ended its work has waited for that.
const HANDOVER_NS: u64 = 50_000;
/// Times between calls of at least this length are divided by their own samples.
const LONG_NS: u64 = 20_000_000;

/// Why a GPU was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Code,
    Wait,
    OffProcessor,
    Synchronisation,
    BlockingCopy,
    RuntimeCall,
    CollectiveCall,
    Launch,
    OtherGpu,
    Queued,
    NoSamples,
    NoCall,
}

impl Cause {
    /// Its name in JSON, and in words.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Code => ("host_code", "code on the host"),
            Self::Wait => ("host_wait", "the host waits"),
            Self::OffProcessor => ("host_off_processor", "the host is not on a processor"),
            Self::Synchronisation => ("synchronisation", "return from a synchronisation"),
            Self::BlockingCopy => ("blocking_copy", "a copy that blocks"),
            Self::RuntimeCall => ("runtime_call", "other calls of the runtime"),
            Self::CollectiveCall => ("collective_call", "calls of RCCL"),
            Self::Launch => ("launch", "launch latency"),
            Self::OtherGpu => ("other_gpu", "waits for another GPU"),
            Self::Queued => ("queued", "submitted, waits for something else"),
            Self::NoSamples => ("unknown_no_samples", "unknown: no samples of the thread"),
            Self::NoCall => ("unknown_no_call", "unknown: the call is not in the trace"),
        }
    }
}

/// The time of one cause at one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Time {
    idle_ns: u64,
    count: u64,
    longest_ns: u64,
    longest_at_ns: u64,
}

/// The times of a GPU, by cause and place.
#[derive(Debug, Default)]
struct Causes {
    of: BTreeMap<(Cause, String), Time>,
}

impl Causes {
    fn add(&mut self, cause: Cause, place: String, start_ns: u64, idle_ns: u64) {
        if idle_ns > 0 {
            let time = self.of.entry((cause, place)).or_default();
            time.idle_ns += idle_ns;
            time.count += 1;
            if idle_ns > time.longest_ns {
                (time.longest_ns, time.longest_at_ns) = (idle_ns, start_ns);
            }
        }
    }
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Gaps {
    devices: Vec<Stretches>,
    host: Host,
}

impl Measure for Gaps {
    fn needs(&self) -> Kinds {
        Kinds {
            gpu: true,
            host: true,
            samples: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            if record.activity != Activity::None {
                entry(&mut self.devices, record.device.index()).add(record);
            }
        }
        self.host.take(batch);
    }

    fn answer(&mut self, model: &Model, label: &str) -> Answer {
        self.host.sort();
        let stretches: Vec<&[Stretch]> = self.devices.iter_mut().map(Stretches::sorted).collect();
        let mut devices = Table::new("devices", "Why each GPU was idle", &columns());
        for id in model.devices_in_order() {
            let Some(own) = stretches.get(id.index()).filter(|own| !own.is_empty()) else {
                continue;
            };
            let mut gpu = Gpu {
                model,
                host: &self.host,
                id,
                others: &stretches,
                causes: Causes::default(),
                pools: BTreeMap::new(),
            };
            let idle_ns = gpu.explain(own);
            devices.push(row(model, id, idle_ns, &gpu.causes));
        }
        let mut notes = notes(model);
        let is_empty = devices.rows.is_empty();
        if is_empty {
            notes.push("no operation of a GPU is in these traces".to_owned());
        }
        let mut runs = Table::new("runs", "", &[Column::plain("label", "run")]);
        runs.push(Row {
            cells: vec![label.into()],
            below: vec![devices],
        });
        Answer {
            tables: vec![runs],
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

/// Short times of a thread between its calls.
#[derive(Debug, Default)]
struct Pool {
    time_ns: u64,
    start_ns: u64,
    count: u64,
    longest: (u64, u64),
    looks: Vec<Look>,
}

/// One GPU while its idle times are explained.
struct Gpu<'a> {
    model: &'a Model,
    host: &'a Host,
    id: DeviceId,
    others: &'a [&'a [Stretch]],
    causes: Causes,
    pools: BTreeMap<ThreadId, Pool>,
}

impl Gpu<'_> {
    /// Explains all idle times; returns their sum.
    fn explain(&mut self, stretches: &[Stretch]) -> u64 {
        let mut idle_ns = 0;
        for pair in stretches.windows(2) {
            let [before, next] = pair else { continue };
            idle_ns += next.start_ns - before.end_ns;
            self.idle(before.end_ns, next);
        }
        for (thread, pool) in std::mem::take(&mut self.pools) {
            self.divide(thread, &pool);
        }
        idle_ns
    }

    /// Explains the idle time from `start_ns` to the operation that ends it.
    fn idle(&mut self, start_ns: u64, next: &Stretch) {
        let end_ns = next.start_ns;
        let process = self.model.device(self.id).process;
        let Some(call) = self.host.submission(process, next.link) else {
            let place = self.model.text(next.name).to_owned();
            return self
                .causes
                .add(Cause::NoCall, place, start_ns, end_ns - start_ns);
        };
        let submitted_ns = call.start_ns.clamp(start_ns, end_ns);
        self.before_submission(start_ns, submitted_ns, call.thread);
        self.after_submission(submitted_ns, end_ns, next, &call);
    }

    /// What the thread did before it submitted the operation.
    fn before_submission(&mut self, start_ns: u64, end_ns: u64, thread: ThreadId) {
        let Some(of_thread) = self.host.thread(thread) else {
            return self
                .causes
                .add(Cause::NoSamples, String::new(), start_ns, end_ns - start_ns);
        };
        let mut now_ns = start_ns;
        for busy in of_thread.busy_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (busy.start_ns.max(now_ns), busy.end_ns().min(end_ns));
            if from_ns >= to_ns {
                continue;
            }
            self.between_calls(now_ns, from_ns, thread, of_thread);
            let name = self.model.text(busy.name);
            let cause = match busy.kind {
                HostKind::Collective => Cause::CollectiveCall,
                HostKind::Wait => Cause::Wait,
                _ => match waits_for(name) {
                    Some(WaitsFor::Copy) => Cause::BlockingCopy,
                    Some(_) => Cause::Synchronisation,
                    None => Cause::RuntimeCall,
                },
            };
            let stack = of_thread.call_stack(busy.start_ns).or_else(|| {
                let looks = of_thread.looks_in(from_ns, to_ns).iter();
                let look = looks.max_by_key(|look| (look.weight_ns, look.stack));
                look.map(|look| look.stack)
            });
            let place = self.place_of(cause, name, stack);
            self.causes.add(cause, place, from_ns, to_ns - from_ns);
            now_ns = to_ns;
        }
        self.between_calls(now_ns, end_ns, thread, of_thread);
    }

    /// The place of a call or wait: its name, and where in the program it was made if a stack shows that.
    fn place_of(&self, cause: Cause, name: &str, stack: Option<StackId>) -> String {
        let place = stack.map_or_else(String::new, |stack| place(self.model, stack));
        match (cause, place.as_str()) {
            (_, "") => name.to_owned(),
            (Cause::Wait, _) => place,
            _ => format!("{name} in {place}"),
        }
    }

    /// The thread was in no call: its samples say what it did.
    fn between_calls(&mut self, start_ns: u64, end_ns: u64, thread: ThreadId, of_thread: &Thread) {
        if start_ns >= end_ns {
            return;
        }
        let time_ns = end_ns - start_ns;
        let looks = of_thread.looks_in(start_ns, end_ns);
        let mut alone = Pool::default();
        let pool = if time_ns >= LONG_NS {
            &mut alone
        } else {
            self.pools.entry(thread).or_default()
        };
        if pool.count == 0 {
            pool.start_ns = start_ns;
        }
        pool.time_ns += time_ns;
        pool.count += 1;
        pool.longest = pool.longest.max((time_ns, start_ns));
        pool.looks.extend_from_slice(looks);
        if time_ns >= LONG_NS {
            self.divide(thread, &alone);
        }
    }

    /// Divides the time of a pool by its samples, exactly.
    fn divide(&mut self, thread: ThreadId, pool: &Pool) {
        let is_sampled = self.host.thread(thread).is_some_and(Thread::is_sampled);
        if !is_sampled {
            let place = self.thread_name(thread);
            return self
                .causes
                .add(Cause::NoSamples, place, pool.longest.1, pool.time_ns);
        }
        let mut weights: BTreeMap<(Cause, String), u64> = BTreeMap::new();
        for look in &pool.looks {
            let cause = if look.waits { Cause::Wait } else { Cause::Code };
            let place = place(self.model, look.stack);
            *weights.entry((cause, place)).or_default() += look.weight_ns;
        }
        let sum: u128 = weights.values().map(|weight| u128::from(*weight)).sum();
        // Samples of the processor stand for what the thread has used: the rest it was not there.
        let total = sum.max(u128::from(pool.time_ns));
        let mut left_ns = pool.time_ns;
        for ((cause, place), weight) in weights {
            let share = u128::from(weight) * u128::from(pool.time_ns) / total;
            let share = u64::try_from(share).unwrap_or(left_ns).min(left_ns);
            left_ns -= share;
            self.causes.add(cause, place, pool.longest.1, share);
        }
        // What rounding leaves is a few nanoseconds.
        let rest = if sum >= u128::from(pool.time_ns) {
            Cause::Code
        } else {
            Cause::OffProcessor
        };
        let place = if pool.looks.is_empty() {
            self.thread_name(thread)
        } else {
            self.most_seen(pool)
        };
        self.causes.add(rest, place, pool.longest.1, left_ns);
    }

    /// The place of most samples of a pool.
    fn most_seen(&self, pool: &Pool) -> String {
        let mut weights: BTreeMap<String, u64> = BTreeMap::new();
        for look in &pool.looks {
            *weights.entry(place(self.model, look.stack)).or_default() += look.weight_ns;
        }
        let most = weights
            .into_iter()
            .max_by(|one, other| one.1.cmp(&other.1).then(other.0.cmp(&one.0)));
        most.map_or_else(String::new, |(place, _)| place)
    }

    fn thread_name(&self, thread: ThreadId) -> String {
        let known = self.model.threads.get(thread.index());
        known.map_or_else(String::new, |known| {
            format!("thread {} {}", known.tid, self.model.text(known.name))
                .trim_end()
                .to_owned()
        })
    }

    /// The operation was submitted, and had not begun.
    fn after_submission(&mut self, start_ns: u64, end_ns: u64, next: &Stretch, call: &Submission) {
        // What was submitted long before could not begin until the work in front of it was done.
        let waited_ns = end_ns - start_ns;
        let process = self.model.device(self.id).process;
        let name = self.model.text(call.name);
        let of_call = || self.host.thread(call.thread)?.call_stack(call.start_ns);
        let stack = self
            .host
            .launch_stack(process, [next.start_ns, next.end_ns])
            .or_else(of_call);
        let cause = match waited_ns {
            0..=LAUNCH_NS => Cause::Launch,
            _ if self.another_ended_before(end_ns) => Cause::OtherGpu,
            _ => Cause::Queued,
        };
        let place = self.place_of(cause, name, stack);
        self.causes.add(cause, place, start_ns, end_ns - start_ns);
    }

    /// Whether another GPU ended a stretch of work just before a time.
    fn another_ended_before(&self, time_ns: u64) -> bool {
        self.others.iter().enumerate().any(|(index, stretches)| {
            if index == self.id.index() {
                return false;
            }
            let behind = stretches.partition_point(|stretch| stretch.end_ns <= time_ns);
            let last = behind.checked_sub(1).and_then(|last| stretches.get(last));
            last.is_some_and(|last| time_ns - last.end_ns <= HANDOVER_NS)
        })
    }
}

fn columns() -> Vec<Column> {
    let mut columns = DEVICE_COLUMNS.to_vec();
    columns.push(Column::ns("idle_ns", "idle"));
    columns
}

fn row(model: &Model, id: DeviceId, idle_ns: u64, causes: &Causes) -> Row {
    let columns = [
        Column::plain("cause", ""),
        Column::plain("text", "cause"),
        Column::plain("where", "where"),
        Column::ns("idle_ns", "idle"),
        Column::share("share", "share"),
        Column::plain("count", "times"),
        Column::ns("longest_ns", "longest"),
        Column::ns("longest_at_ns", ""),
    ];
    let mut table = Table::new("causes", "", &columns);
    table.rows_in_text = 20;
    let mut list: Vec<_> = causes.of.iter().collect();
    list.sort_by(|one, other| other.1.idle_ns.cmp(&one.1.idle_ns).then(one.0.cmp(other.0)));
    for ((cause, place), time) in list {
        let (key, text) = cause.names();
        table.push(vec![
            Cell::from(key),
            text.into(),
            place.as_str().into(),
            time.idle_ns.into(),
            (time.idle_ns as f64 / idle_ns.max(1) as f64).into(),
            time.count.into(),
            time.longest_ns.into(),
            time.longest_at_ns.into(),
        ]);
    }
    let mut cells = device_cells(model, id);
    cells.push(idle_ns.into());
    Row {
        cells,
        below: vec![table],
    }
}
