//! What emptied a GPU before it was idle: a call that waited for it, or a launch path that is slower than its kernels.
//!
//! A call that waits for a GPU and returns when that runs dry keeps the host from working ahead. Without it the next work could have been submitted
//! while the last was under way. So the idle time until it returns is the call's, and of what follows as much as the GPU had worked and the host had been
//! blocked since it was emptied before (`gaps`), unless that is less than half of it: then the host has other things to do. Allocations and releases own the time that they take while the GPU is idle. Pauses
//! within a graph have nothing to do with calls. Idle times that no call caused, short and one behind the other, are phases in which launching takes longer than the kernels (`phases`).

mod calls;
mod gaps;
mod phases;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use self::calls::{Calls, Wait};
use self::gaps::{Busy, GpuPauses, Owned};
use crate::measure::gpu::gaps::{LAUNCH_NS, Stretch, Stretches};
use crate::measure::idle_cause::IdleCause;
use crate::measure::{
    DEVICE_COLUMNS, Measure, PROCESS_COLUMNS, device_cells, process_cells, unseen,
};
use crate::table::{Answer, Cell, Column, Row, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, Batch, DeviceId, Effect, Kinds, Model, ProcessId, TextId};

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Pauses {
    devices: Vec<Stretches>,
    calls: Calls,
}

impl Measure for Pauses {
    fn needs(&self) -> Kinds {
        Kinds::GPU_HOST_AND_SAMPLES
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            if record.activity != Activity::None {
                entry(&mut self.devices, record.device.index()).add(record);
            }
        }
        self.calls.take(batch);
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        self.calls.sort(&model.texts);
        let mut waits: HashMap<ProcessId, Vec<Wait>> = HashMap::new();
        for wait in self.calls.waits(model) {
            waits.entry(wait.process).or_default().push(wait);
        }
        let columns = unseen(&DEVICE_COLUMNS, &DEVICE_NUMBERS);
        let mut devices = Table::new("pauses", "", &columns);
        for id in model.devices_in_order() {
            let Some(stretches) = self.devices.get_mut(id.index()) else {
                continue;
            };
            stretches.sort();
            if stretches.first().is_none() {
                continue;
            }
            let process = model.device(id).process;
            let waits = waits.get(&process).map_or(&[][..], Vec::as_slice);
            let gaps = GpuPauses::of(self.busy(id, process), waits);
            devices.push(self.row(id, &gaps, waits, model));
        }
        let is_empty = devices.rows.is_empty();
        Answer {
            tables: vec![devices, self.blocked_async(&waits, model)],
            is_empty,
            ..Answer::default()
        }
    }
}

impl Pauses {
    /// The times in which a GPU was busy.
    fn busy(&self, id: DeviceId, process: ProcessId) -> impl Iterator<Item = Busy> {
        let stretches = self.devices.get(id.index());
        let mut before: Option<Stretch> = None;
        stretches
            .into_iter()
            .flat_map(Stretches::iter)
            .map(move |next| {
                let goes_on_with_graph = before.is_some_and(|before| {
                    before.link == next.link
                        && next.start_ns - before.end_ns <= LAUNCH_NS
                        && self.calls.is_of_graph(
                            (process, next.link),
                            next.start_ns,
                            before.end_ns,
                        )
                });
                before = Some(next);
                Busy {
                    time_ns: (next.start_ns, next.end_ns),
                    goes_on_with_graph,
                }
            })
    }

    fn row(&self, id: DeviceId, gaps: &GpuPauses<'_>, waits: &[Wait], model: &Model) -> Row {
        let mut rows: BTreeMap<(IdleCause, String), (Owned, Vec<Cell>)> = BTreeMap::new();
        for (wait, cause, owned) in gaps.owned() {
            let mut cells = vec![cause.key().into(), model.text(wait.name).into()];
            cells.extend(self.calls.place(wait, model));
            let row = rows.entry((cause, format!("{cells:?}")));
            row.or_insert((Owned::default(), cells)).0.add(owned);
        }
        let mut rows: Vec<(Owned, Vec<Cell>)> = rows.into_values().collect();
        rows.sort_by_key(|(owned, _)| Reverse(owned.idle_ns));
        let mut causes = Table::new("pause_causes", "", &CAUSE_COLUMNS);
        for (owned, mut cells) in rows {
            cells.extend::<[Cell; 4]>([
                owned.idle_ns.into(),
                owned.count.into(),
                owned.longest.0.into(),
                owned.longest.1.into(),
            ]);
            causes.push(cells);
        }
        let mut phases = Table::new("launch_phases", "", &PHASE_COLUMNS);
        for phase in &gaps.phases {
            phases.push(vec![
                phase.start_ns.into(),
                phase.duration_ns().into(),
                phase.stretches.into(),
                phase.busy_ns.into(),
                phase.idle_ns.into(),
            ]);
        }
        let mut cells = device_cells(model, id);
        cells.extend::<[Cell; 5]>([
            gaps.idle_ns.into(),
            gaps.phases_idle_ns().into(),
            gaps.other_ns.into(),
            copied_ns(waits, Effect::Copies, id).into(),
            copied_ns(waits, Effect::CopiesAside, id).into(),
        ]);
        Row {
            cells,
            below: vec![causes, phases],
        }
    }

    /// Asynchronous copies whose calls returned when the copy had ended, by place.
    fn blocked_async(&self, waits: &HashMap<ProcessId, Vec<Wait>>, model: &Model) -> Table {
        type Key = (ProcessId, TextId, String);
        let mut sums: HashMap<Key, (Owned, u64, Vec<Cell>)> = HashMap::new();
        let blocked = waits.values().flatten();
        for wait in blocked.filter(|wait| wait.does == Effect::CopiesAside) {
            let cells = self.calls.place(wait, model).to_vec();
            let key = (wait.process, wait.name, format!("{cells:?}"));
            let (owned, bytes, _) = sums.entry(key).or_insert((Owned::default(), 0, cells));
            owned.add_one(wait.start_ns, wait.end_ns - wait.start_ns);
            *bytes += wait.bytes;
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by(|((_, _, one), a), ((_, _, other), b)| {
            (Reverse(a.0.idle_ns), one).cmp(&(Reverse(b.0.idle_ns), other))
        });
        let columns = unseen(&PROCESS_COLUMNS, &BLOCKED_COLUMNS);
        let mut table = Table::new("blocked_async_copies", "", &columns);
        for ((process, name, _), (owned, bytes, place)) in rows {
            let mut cells = process_cells(model, process).to_vec();
            cells.push(model.text(name).into());
            cells.extend(place);
            cells.extend::<[Cell; 5]>([
                owned.count.into(),
                bytes.into(),
                owned.idle_ns.into(),
                owned.longest.0.into(),
                owned.longest.1.into(),
            ]);
            table.push(cells);
        }
        table
    }
}

/// How long the copies of a GPU took that their calls waited for; `None` where no call is linked with its copies.
fn copied_ns(waits: &[Wait], does: Effect, id: DeviceId) -> Option<u64> {
    let waits = || waits.iter().filter(|wait| wait.does == does);
    let copied = waits().filter_map(|wait| wait.copied);
    let own = copied.filter(|(device, _)| *device == id);
    let is_known = waits().any(|wait| wait.copied.is_some());
    is_known.then(|| own.map(|(_, duration_ns)| duration_ns).sum())
}

const DEVICE_NUMBERS: [Column; 5] = [
    Column::ns("idle_ns", ""),
    Column::ns("launch_phases_idle_ns", ""),
    Column::ns("other_idle_ns", ""),
    Column::ns("blocking_copies_ns", ""),
    Column::ns("blocked_async_copies_ns", ""),
];

const CAUSE_COLUMNS: [Column; 9] = [
    Column::plain("cause", ""),
    Column::plain("call", ""),
    Column::plain("function", ""),
    Column::plain("source", ""),
    Column::plain("line", ""),
    Column::ns("idle_ns", ""),
    Column::plain("count", ""),
    Column::ns("longest_ns", ""),
    Column::ns("longest_at_ns", ""),
];

const PHASE_COLUMNS: [Column; 5] = [
    Column::ns("start_ns", ""),
    Column::ns("duration_ns", ""),
    Column::plain("bursts", ""),
    Column::ns("busy_ns", ""),
    Column::ns("idle_ns", ""),
];

const BLOCKED_COLUMNS: [Column; 9] = [
    Column::plain("call", ""),
    Column::plain("function", ""),
    Column::plain("source", ""),
    Column::plain("line", ""),
    Column::plain("count", ""),
    Column::bytes("bytes", ""),
    Column::ns("blocked_ns", ""),
    Column::ns("longest_ns", ""),
    Column::ns("longest_at_ns", ""),
];
