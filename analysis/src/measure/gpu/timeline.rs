//! Where the time of each GPU went: computation, communication and copies that nothing hid, and idleness.
//!
//! With `C`, `M` and `S` the unions of computation (fills count as such), communication and copies of a GPU:
//! `computation = |C|`, `exposed communication = |M \ C|`, `exposed copies = |S \ C \ M|`, `busy = |C ∪ M ∪ S|`, and `idle = total - busy`, the total
//! being from the first begin to the last end of any of these records, also of those without duration. These four parts add up to the total.

use std::collections::BTreeMap;

use crate::containers::sets::{IntervalSet, Segment, sweep};
use crate::measure::{DEVICE_COLUMNS, Measure, device_cells, no_operation, notes};
use crate::table::{Answer, Cell, Column, Row, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, Batch, DeviceId, Kinds, Model};

/// The kinds of activity that make a GPU busy, in the order of the bits of [`Segment::sets`].
const BUSY: [(Activity, &str); 4] = [
    (Activity::Compute, "computation"),
    (Activity::Comm, "communication"),
    (Activity::Copy, "copies"),
    (Activity::Fill, "fills"),
];

const COMPUTE: u32 = 1 << Activity::Compute as u32 | 1 << Activity::Fill as u32;
const COMM: u32 = 1 << Activity::Comm as u32;
const COPY: u32 = 1 << Activity::Copy as u32;

/// Idleness is split at these lengths.
const IDLE_LENGTHS: [(u64, &str); 5] = [
    (10_000, "up to 10 \u{b5}s"),
    (100_000, "up to 100 \u{b5}s"),
    (1_000_000, "up to 1 ms"),
    (10_000_000, "up to 10 ms"),
    (u64::MAX, "longer"),
];

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Timeline {
    devices: Vec<Records>,
}

/// What a GPU did for a process.
#[derive(Debug, Default)]
struct Records {
    counts: [u64; 5],
    /// First begin and last end.
    span: Option<(u64, u64)>,
    sets: [IntervalSet; 4],
}

/// How the time of a GPU divides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Division {
    /// Records of computation (with fills), communication, copies, and of what is no work.
    pub compute: u64,
    /// Records of communication.
    pub comm: u64,
    /// Records of copies.
    pub memcpy: u64,
    /// Barriers and the like, which count in no time.
    pub other: u64,
    /// First begin and last end; equal if there is no record.
    pub span: (u64, u64),
    /// Nanoseconds by the combination of [`Activity`] that went on, a bit for each.
    pub by_combination: [u64; 16],
    /// Number and nanoseconds of the idle stretches, by length.
    pub idle_by_length: [(u64, u64); 5],
}

impl Division {
    fn of(parts: &mut [&mut Records]) -> Self {
        let mut division = Self::default();
        for records in parts.iter() {
            let [compute, comm, copy, fill, other] = records.counts;
            division.compute += compute + fill;
            division.comm += comm;
            division.memcpy += copy;
            division.other += other;
        }
        let spans = parts.iter().filter_map(|records| records.span);
        let Some(span) = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) else {
            return division;
        };
        division.span = span;
        let mut of_kind: [Vec<&mut IntervalSet>; 4] = Default::default();
        for records in parts.iter_mut() {
            for (list, set) in of_kind.iter_mut().zip(&mut records.sets) {
                list.push(set);
            }
        }
        let unions = of_kind.map(IntervalSet::union_of).into();
        let mut now_ns = span.0;
        sweep(unions, |segment| {
            // Only records without duration begin before.
            division.idle(now_ns, segment.start_ns);
            now_ns = segment.end_ns;
            division.add(segment);
        });
        division.idle(now_ns, span.1);
        division
    }

    fn add(&mut self, segment: Segment) {
        if segment.sets == 0 {
            self.idle(segment.start_ns, segment.end_ns);
        } else {
            self.by_combination[segment.sets as usize] += segment.end_ns - segment.start_ns;
        }
    }

    /// Nothing went on in an interval, which may be empty.
    fn idle(&mut self, start_ns: u64, end_ns: u64) {
        let duration_ns = end_ns - start_ns;
        if duration_ns > 0 {
            self.by_combination[0] += duration_ns;
            let mut lengths = IDLE_LENGTHS.iter();
            let class = lengths.position(|(limit_ns, _)| duration_ns <= *limit_ns);
            let (count, sum_ns) = &mut self.idle_by_length[class.unwrap_or(IDLE_LENGTHS.len() - 1)];
            *count += 1;
            *sum_ns += duration_ns;
        }
    }

    /// Nanoseconds in which something of `any` and nothing of `none` went on.
    fn time_ns(&self, any: u32, none: u32) -> u64 {
        let combinations = self.by_combination.iter().zip(0_u32..);
        combinations
            .filter(|(_, sets)| sets & any != 0 && sets & none == 0)
            .map(|(time_ns, _)| time_ns)
            .sum()
    }

    /// From the first begin to the last end.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.span.1 - self.span.0
    }

    /// Nothing went on.
    #[must_use]
    pub fn idle_ns(&self) -> u64 {
        self.by_combination[0]
    }

    /// Something went on.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.total_ns() - self.idle_ns()
    }

    /// Kernels of the program ran, or fills.
    #[must_use]
    pub fn computation_ns(&self) -> u64 {
        self.time_ns(COMPUTE, 0)
    }

    /// Collectives ran.
    #[must_use]
    pub fn total_comm_ns(&self) -> u64 {
        self.time_ns(COMM, 0)
    }

    /// Collectives ran and no computation hid them.
    #[must_use]
    pub fn exposed_comm_ns(&self) -> u64 {
        self.time_ns(COMM, COMPUTE)
    }

    /// Copies ran.
    #[must_use]
    pub fn total_memcpy_ns(&self) -> u64 {
        self.time_ns(COPY, 0)
    }

    /// Copies ran, and neither computation nor communication hid them.
    #[must_use]
    pub fn exposed_memcpy_ns(&self) -> u64 {
        self.time_ns(COPY, COMPUTE | COMM)
    }

    /// Collectives and computation ran at the same time.
    #[must_use]
    pub fn comm_overlapped_by_compute_ns(&self) -> u64 {
        self.total_comm_ns() - self.exposed_comm_ns()
    }
}

impl Measure for Timeline {
    fn needs(&self) -> Kinds {
        Kinds::GPU
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            let records = entry(&mut self.devices, record.device.index());
            let class = record.activity as usize;
            records.counts[class] += 1;
            if let Some(set) = records.sets.get_mut(class) {
                set.add(record.start_ns, record.end_ns);
                let (start_ns, end_ns) = records.span.get_or_insert((u64::MAX, 0));
                *start_ns = record.start_ns.min(*start_ns);
                *end_ns = record.end_ns.max(*end_ns);
            }
        }
    }

    fn answer(&mut self, model: &Model, label: &str) -> Answer {
        let mut devices = Table::new("devices", "", &columns(&DEVICE_COLUMNS));
        for (id, division) in self.divisions(model) {
            devices.push(row(device_cells(model, id), &division));
        }
        let mut shared = Table::new("shared_devices", "", &columns(&SHARED_COLUMNS));
        for (ids, division) in self.shared(model) {
            let first = model.device(ids[0]);
            let cells = vec![
                model.process(first.process).host.as_str().into(),
                first.ordinal.into(),
                first.name.as_str().into(),
                (ids.len() as u64).into(),
            ];
            shared.push(row(cells, &division));
        }
        let mut notes = notes(model);
        let is_empty = devices.rows.is_empty();
        if is_empty {
            notes.push(no_operation(model));
        }
        devices.title = "Time of each GPU".to_owned();
        let mut below = vec![devices];
        if !shared.rows.is_empty() {
            shared.title = "GPUs that several processes used".to_owned();
            below.push(shared);
        }
        let mut runs = Table::new("runs", "", &[Column::plain("label", "run")]);
        runs.push(Row {
            cells: vec![label.into()],
            below,
        });
        Answer {
            tables: vec![runs],
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

impl Timeline {
    /// How the time of each GPU divides, for each process alone.
    pub fn divisions(&mut self, model: &Model) -> Vec<(DeviceId, Division)> {
        let mut found = Vec::new();
        for id in model.devices_in_order() {
            if let Some(records) = self.devices.get_mut(id.index()) {
                found.push((id, Division::of(&mut [records])));
            }
        }
        found
    }

    /// The same for each GPU that more than one process used: the GPU is idle when none of them used it.
    pub fn shared(&mut self, model: &Model) -> Vec<(Vec<DeviceId>, Division)> {
        let mut users: BTreeMap<(&str, u32), Vec<DeviceId>> = BTreeMap::new();
        for id in model.devices_in_order() {
            let device = model.device(id);
            if device.is_physical && self.devices.len() > id.index() {
                let boot_id = model.process(device.process).boot_id.as_str();
                users.entry((boot_id, device.ordinal)).or_default().push(id);
            }
        }
        users.retain(|_, ids| ids.len() > 1);
        users
            .into_values()
            .map(|ids| {
                let mut parts: Vec<&mut Records> = self
                    .devices
                    .iter_mut()
                    .enumerate()
                    .filter(|(index, _)| ids.iter().any(|id| id.index() == *index))
                    .map(|(_, records)| records)
                    .collect();
                let division = Division::of(&mut parts);
                (ids, division)
            })
            .collect()
    }
}

/// The columns by which a GPU that several processes used is named.
const SHARED_COLUMNS: [Column; 4] = [
    Column::plain("host", "host"),
    Column::plain("device", "GPU"),
    Column::plain("name", ""),
    Column::plain("processes", "processes"),
];

fn columns(of_device: &[Column]) -> Vec<Column> {
    let mut columns = of_device.to_vec();
    columns.extend([
        Column::plain("records.compute", ""),
        Column::plain("records.comm", ""),
        Column::plain("records.memcpy", ""),
        Column::plain("records.other", ""),
        Column::ns("start_ns", ""),
        Column::ns("total_ns", "total"),
        Column::ns("computation_ns", "computation"),
        Column::ns("exposed_comm_ns", "exposed comm"),
        Column::ns("exposed_memcpy_ns", "exposed copies"),
        Column::ns("idle_ns", "idle"),
        Column::share("idle_share", "idle"),
        Column::ns("busy_ns", ""),
        Column::ns("total_comm_ns", "all comm"),
        Column::ns("comm_overlapped_by_compute_ns", ""),
        Column::share("comm_hidden_share", "comm hidden"),
        Column::share("compute_overlapping_comm_share", ""),
        Column::ns("total_memcpy_ns", "all copies"),
    ]);
    columns
}

fn row(mut cells: Vec<Cell>, division: &Division) -> Row {
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let overlapped = division.comm_overlapped_by_compute_ns();
    cells.extend::<[Cell; 17]>([
        division.compute.into(),
        division.comm.into(),
        division.memcpy.into(),
        division.other.into(),
        division.span.0.into(),
        division.total_ns().into(),
        division.computation_ns().into(),
        division.exposed_comm_ns().into(),
        division.exposed_memcpy_ns().into(),
        division.idle_ns().into(),
        share(division.idle_ns(), division.total_ns()).into(),
        division.busy_ns().into(),
        division.total_comm_ns().into(),
        overlapped.into(),
        share(overlapped, division.total_comm_ns()).into(),
        share(overlapped, division.computation_ns()).into(),
        division.total_memcpy_ns().into(),
    ]);
    Row {
        cells,
        below: vec![combinations(division), idleness(division)],
    }
}

fn combinations(division: &Division) -> Table {
    let columns = [
        Column::plain("activities", "at the same time"),
        Column::ns("time_ns", "time"),
        Column::share("share", "share"),
    ];
    let mut table = Table::new("combinations", "", &columns);
    table.is_detail = true;
    for (sets, &time_ns) in (0_u32..).zip(&division.by_combination) {
        if time_ns > 0 {
            let names = (0..).zip(BUSY).filter(|(bit, _)| sets & 1 << bit != 0);
            let names: Vec<&str> = names.map(|(_, (_, name))| name).collect();
            let names = match names.as_slice() {
                [] => "nothing".to_owned(),
                names => names.join(" + "),
            };
            let share = time_ns as f64 / division.total_ns() as f64;
            table.push(vec![names.into(), time_ns.into(), share.into()]);
        }
    }
    table
}

fn idleness(division: &Division) -> Table {
    let columns = [
        Column::plain("length", "idle at once"),
        Column::plain("count", "times"),
        Column::ns("idle_ns", "time"),
    ];
    let mut table = Table::new("idle_by_length", "", &columns);
    table.is_detail = true;
    for ((_, length), &(count, idle_ns)) in IDLE_LENGTHS.iter().zip(&division.idle_by_length) {
        if count > 0 {
            table.push(vec![(*length).into(), count.into(), idle_ns.into()]);
        }
    }
    table
}
