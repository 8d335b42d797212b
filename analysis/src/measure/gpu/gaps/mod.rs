//! Why each GPU was idle: every nanosecond has one cause.
//!
//! The idle times of a GPU are those of [`crate::measure::gpu::timeline`]: between the first begin and the last end of its operations, where none ran. Each
//! ends with an operation, which some call submitted. Until that call began, the operation had not been asked for, and the cause is what
//! the calling thread did meanwhile: a call, a wait, or code, which its samples name. From then on the operation was on its way: launch
//! latency, or it waited: for an event, a function of the host, another GPU, or for something that the trace does not tell.
//!
//! Many idle times are shorter than the period of the samples. So the times of a thread between calls are pooled, and what its samples
//! show in all of them together divides their sum; only idle times of many periods are divided alone.

mod call_places;
mod causes;
mod explain;
mod explained;
mod holders;
mod host;
mod lock_waits;
mod parts;
mod places;
mod pooled_time;
mod retention;
mod stream_waits;
mod stretches;

pub(crate) use self::explain::LAUNCH_NS;
pub(crate) use self::parts::{Idle, PartCause};
pub(crate) use self::stretches::{Stretch, Stretches};

use self::causes::{Causes, Outside};
use self::explain::{Gpu, Known};
use self::explained::Explained;
use self::host::Host;
use self::retention::{Memory, Retention};
use self::stretches::Barriers;
use crate::measure::idle_cause::IdleCause;
use crate::measure::{DEVICE_COLUMNS, Measure, device_cells, no_operation, notes};
use crate::table::{Answer, Column, Row, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, Batch, DeviceId, Kinds, Model, ProcessId};

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Gaps {
    devices: Vec<Stretches>,
    barriers: Barriers,
    host: Host,
    memory: Memory,
    /// How much is discarded, by process.
    retentions: Vec<Retention>,
    /// What was found out on the way, by GPU.
    explained: Vec<Explained>,
}

impl Gaps {
    /// The question, which discards what it does not need when it has kept `rows` rows of a process, except of the last `recent_ns`.
    #[must_use]
    pub fn bounded(rows: usize, recent_ns: u64) -> Self {
        let memory = Memory {
            rows,
            rows_without_gpu: rows,
            recent_ns,
        };
        Self {
            memory,
            ..Self::default()
        }
    }
}

impl Measure for Gaps {
    fn needs(&self) -> Kinds {
        Kinds {
            locks: true,
            ..Kinds::GPU_HOST_AND_SAMPLES
        }
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            match record.activity {
                Activity::None => self.barriers.add(record),
                _ => {
                    let device = entry(&mut self.devices, record.device.index());
                    if device.process().is_none() {
                        device.known_from_ns = self.host.discarded_ns(record.process);
                    }
                    device.add(record);
                }
            }
            self.host.operation(record);
        }
        self.host.take(batch);
    }

    fn is_full(&self) -> bool {
        self.full().next().is_some()
    }

    fn settle(&mut self, model: &Model) {
        let full: Vec<ProcessId> = self.full().collect();
        for process in full {
            self.discard(process, model);
        }
    }

    fn answer(&mut self, model: &Model, label: &str) -> Answer {
        self.sort(model);
        let mut explained = std::mem::take(&mut self.explained);
        let mut late = 0;
        let mut devices = Table::new("devices", "Why each GPU was idle", &columns());
        for id in model.devices_in_order() {
            let own = self.devices.get(id.index());
            let Some((own, ends)) = own.and_then(|own| Some((own, own.first().zip(own.last())?)))
            else {
                continue;
            };
            let busy_ns: u64 = own.iter().map(|one| one.end_ns - one.start_ns).sum();
            let idle_ns = ends.1.end_ns - ends.0.start_ns - busy_ns + own.settled_idle_ns();
            let known = self.known(model, id);
            let outside = self.outside(known, ends, own.known_from_ns);
            let mut causes = std::mem::take(entry(&mut explained, id.index()));
            Gpu::new(known, &mut causes).explain(own);
            let causes = causes.finish(model, &self.host, &self.devices, id);
            devices.push(row(model, id, idle_ns, &causes, &outside));
            late += own.late();
        }
        let mut notes = notes(model);
        if late > 0 {
            notes.push(format!(
                "gaps: {late} operations were reported after their idle interval had been attributed; that interval stays idle in full"
            ));
        }
        let is_empty = devices.rows.is_empty();
        if is_empty {
            notes.push(no_operation(model));
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

impl Gaps {
    /// Brings everything into the order of time.
    pub(crate) fn sort(&mut self, model: &Model) {
        for process in (0..self.host.processes()).map(ProcessId::new) {
            self.host.sort(process, model);
        }
        self.barriers.sort();
        self.devices.iter_mut().for_each(Stretches::sort);
    }

    /// What the idle times of a GPU are explained by, when all was read.
    fn known<'a>(&'a self, model: &'a Model, id: DeviceId) -> Known<'a> {
        Known {
            model,
            host: &self.host,
            barriers: &self.barriers,
            id,
            process: model.device(id).process,
        }
    }

    /// Explains the times of the process before the first stretch and after the last.
    /// What was there before `known_from_ns` was discarded in part.
    fn outside(
        &self,
        known: Known<'_>,
        (first, last): (Stretch, Stretch),
        known_from_ns: u64,
    ) -> Outside {
        let (mut before, mut after) = (Explained::default(), Explained::default());
        let process = known.model.process(known.process);
        // What the file says of its process, else the first and last that it has of it.
        let span = self.host.span(known.process);
        let (first_ns, last_ns) = span.unwrap_or((first.start_ns, last.end_ns));
        let start_ns = if process.start_ns == 0 {
            first_ns
        } else {
            process.start_ns
        };
        let start_ns = start_ns.min(first.start_ns);
        let from_ns = known_from_ns.clamp(start_ns, first.start_ns);
        let (unknown, unknown_ns) = (&mut before.causes, from_ns - start_ns);
        unknown.add(IdleCause::NoSamples, String::new(), start_ns, unknown_ns);
        Gpu::new(known, &mut before).idle(from_ns, &first);
        let end_ns = if process.end_ns == 0 {
            last_ns
        } else {
            process.end_ns
        };
        let end_ns = end_ns.max(last.end_ns);
        Gpu::new(known, &mut after).after_last(last.end_ns, end_ns, &last);
        let finish = |explained: Explained| {
            explained.finish(known.model, known.host, &self.devices, known.id)
        };
        Outside {
            before: finish(before),
            after: finish(after),
        }
    }
}

fn columns() -> Vec<Column> {
    let mut columns = DEVICE_COLUMNS.to_vec();
    columns.push(Column::ns("idle_ns", "idle"));
    columns
}

fn row(model: &Model, id: DeviceId, idle_ns: u64, causes: &Causes, outside: &Outside) -> Row {
    let mut cells = device_cells(model, id);
    cells.push(idle_ns.into());
    Row {
        cells,
        below: vec![causes.table(idle_ns), outside.table()],
    }
}
