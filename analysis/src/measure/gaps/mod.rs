//! Why each GPU was idle: every nanosecond has one cause.
//!
//! The idle times of a GPU are those of [`super::timeline`]: between the first begin and the last end of its operations, where none ran. Each
//! ends with an operation, which some call submitted. Until that call began, the operation had not been asked for, and the cause is what
//! the calling thread did meanwhile: a call, a wait, or code, which its samples name. From then on the operation was on its way: launch
//! latency, or it waited: for an event, a function of the host, another GPU, or for something that the trace does not tell.
//!
//! Many idle times are shorter than the period of the samples. So the times of a thread between calls are pooled, and what its samples
//! show in all of them together divides their sum; only idle times of many periods are divided alone.

mod call_places;
mod causes;
mod explain;
mod forget;
mod host;
mod orders;
mod parts;
mod places;
mod pools;
mod scopes;
mod stretches;

pub(in crate::measure) use self::parts::{Idle, PartCause};
pub(in crate::measure) use self::stretches::Stretch;

use self::causes::{Causes, Outside};
use self::explain::Gpu;
use self::forget::{Memory, forget};
use self::host::Host;
use self::stretches::{Barriers, Stretches};
use super::{DEVICE_COLUMNS, Measure, device_cells, entry, notes};
use crate::model::{Activity, Batch, DeviceId, Kinds, Model};
use crate::table::{Answer, Column, Row, Table};

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Gaps {
    devices: Vec<Stretches>,
    barriers: Barriers,
    host: Host,
    memory: Memory,
    /// Something is forgotten when there are this many rows.
    limit: usize,
}

impl Gaps {
    /// The question, which forgets what it does not need when it has kept `rows` rows, except of the last `recent_ns`.
    #[must_use]
    pub fn forgetful(rows: usize, recent_ns: u64) -> Self {
        Self {
            memory: Memory { rows, recent_ns },
            ..Self::default()
        }
    }
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
            match record.activity {
                Activity::None => self.barriers.add(record),
                _ => {
                    let device = entry(&mut self.devices, record.device.index());
                    if device.process().is_none() {
                        device.known_from_ns = self.host.forgotten_ns(record.process);
                    }
                    device.add(record);
                }
            }
            self.host.operation(record);
        }
        self.host.take(batch);
        if self.host.rows() >= self.limit.max(self.memory.rows) {
            forget(&mut self.host, &mut self.devices, self.memory.recent_ns);
            self.limit = 2 * self.host.rows();
        }
    }

    fn answer(&mut self, model: &Model, label: &str) -> Answer {
        self.host.sort(model);
        self.barriers.sort();
        self.devices.iter_mut().for_each(Stretches::sort);
        let stretches = &self.devices;
        let mut devices = Table::new("devices", "Why each GPU was idle", &columns());
        for id in model.devices_in_order() {
            let own = stretches.get(id.index());
            let Some((own, (first, last))) =
                own.and_then(|own| Some((own, own.first().zip(own.last())?)))
            else {
                continue;
            };
            let gpu = Gpu::new(model, &self.host, &self.barriers, id, stretches);
            let busy_ns: u64 = own.iter().map(|one| one.end_ns - one.start_ns).sum();
            let idle_ns = last.end_ns - first.start_ns - busy_ns;
            let outside = gpu.outside((first, last), own.known_from_ns);
            let causes = gpu.explain(own);
            devices.push(row(model, id, idle_ns, &causes, &outside));
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
