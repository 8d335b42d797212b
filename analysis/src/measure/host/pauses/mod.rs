//! What emptied a GPU before it was idle: a call that waited for it, or a launch path that is slower than its kernels.
//!
//! A call that waits for a GPU and returns when that runs dry keeps the host from working ahead. Without it the next work could have been submitted
//! while the last was under way, so of the idle time behind it as much is the call's as the GPU had worked since it was emptied before
//! (`gaps`), unless that is less than half of it: then the host has other things to do. Allocations and releases own the time that they take while the GPU is idle. Idle times that no call
//! caused, short and one behind the other, are phases in which launching takes longer than the kernels (`phases`).

mod calls;
mod gaps;
mod phases;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use self::calls::{Calls, Wait};
use self::gaps::{Gaps, Owned, Owner};
use crate::containers::sets::IntervalSet;
use crate::measure::{
    DEVICE_COLUMNS, Measure, PROCESS_COLUMNS, device_cells, process_cells, unseen,
};
use crate::model::entry;
use crate::model::{Activity, Batch, DeviceId, Effect, Kinds, Model, ProcessId, TextId};
use crate::program::code_place::cells as place_cells;
use crate::table::{Answer, Cell, Column, Row, Table};

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Pauses {
    busy: Vec<IntervalSet>,
    calls: Calls,
}

impl Measure for Pauses {
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
                entry(&mut self.busy, record.device.index()).add(record.start_ns, record.end_ns);
            }
        }
        self.calls.take(batch);
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        self.calls.sort();
        let mut waits: HashMap<ProcessId, Vec<Wait>> = HashMap::new();
        for wait in self.calls.waits() {
            waits.entry(wait.process).or_default().push(wait);
        }
        let columns = unseen(&DEVICE_COLUMNS, &DEVICE_NUMBERS);
        let mut devices = Table::new("pauses", "", &columns);
        for id in model.devices_in_order() {
            let Some(busy) = self
                .busy
                .get_mut(id.index())
                .filter(|busy| !busy.is_empty())
            else {
                continue;
            };
            let of_process = waits.get(&model.device(id).process);
            let gaps = Gaps::of(busy.intervals(), of_process.map_or(&[], Vec::as_slice));
            devices.push(self.row(id, &gaps, model));
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
    fn row(&self, id: DeviceId, gaps: &Gaps<'_>, model: &Model) -> Row {
        let mut rows: BTreeMap<(Owner, String), (Owned, Vec<Cell>)> = BTreeMap::new();
        for (wait, owner, owned) in gaps.owned() {
            let place = self.calls.place(wait, model);
            let mut cells = vec![owner.key().into(), model.text(wait.name).into()];
            cells.extend(place_cells(place, model, ""));
            let row = rows.entry((owner, format!("{cells:?}")));
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
        cells.extend::<[Cell; 3]>([
            gaps.idle_ns.into(),
            gaps.phases_idle_ns().into(),
            gaps.other_ns.into(),
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
            let cells = place_cells(self.calls.place(wait, model), model, "").to_vec();
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

const DEVICE_NUMBERS: [Column; 3] = [
    Column::ns("idle_ns", ""),
    Column::ns("launch_phases_idle_ns", ""),
    Column::ns("other_idle_ns", ""),
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
