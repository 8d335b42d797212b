//! Copies: how many bytes went which way, in which sizes, at which bandwidth, and which calls waited for them.
//!
//! The time of a row is the union of its copies on one GPU. Copies of two rows may go on at the same time, so these times do not add up; counts,
//! bytes and the sums of durations do.

use std::collections::{BTreeMap, HashMap};

use crate::containers::sets::IntervalSet;
use crate::measure::{
    DEVICE_COLUMNS, Measure, PROCESS_COLUMNS, device_cells, notes, process_cells,
};
use crate::program::call_sites::{CallSites, NOT_SEEN, Site};
use crate::table::{Answer, Cell, Column, Table, Unit};
use rsys_traces::model::entry;
use rsys_traces::model::{
    Activity, Batch, DeviceId, Effect, HostKind, HostSlice, Kinds, Model, ProcessId, TextId,
    ThreadId,
};

/// Sizes are divided at these numbers of bytes.
const SIZES: [(u64, &str); 7] = [
    (0, "unknown"),
    (4 << 10, "up to 4 KiB"),
    (64 << 10, "up to 64 KiB"),
    (1 << 20, "up to 1 MiB"),
    (16 << 20, "up to 16 MiB"),
    (256 << 20, "up to 256 MiB"),
    (u64::MAX, "more"),
];

/// The number of the class of a size.
pub(in crate::measure) fn size_class(bytes: u64) -> usize {
    let found = SIZES.iter().position(|(limit, _)| bytes <= *limit);
    found.unwrap_or(SIZES.len() - 1)
}

/// What a class of sizes is called.
pub(in crate::measure) fn size_name(class: usize) -> &'static str {
    SIZES.get(class).map_or("", |(_, name)| name)
}

/// The direction in which a host gets values.
pub(in crate::measure) const TO_HOST: &str = "device to host";
/// How traces write directions, in small letters.
const DIRECTIONS: [(&[&str], &str); 4] = [
    (
        &["host to device", "host_to_device", "htod"],
        "host to device",
    ),
    (&["device to host", "device_to_host", "dtoh"], TO_HOST),
    (
        &[
            "device to device",
            "device_to_device",
            "dtod",
            "ptop",
            "copybuffer",
        ],
        "device to device",
    ),
    (&["host to host", "host_to_host", "htoh"], "host to host"),
];

/// What a row is about while records are read: GPU, direction and name as the trace has them, and the place in [`SIZES`].
type Key = (DeviceId, TextId, TextId, usize);

/// Some copies.
#[derive(Debug, Default)]
struct Sums {
    count: u64,
    bytes: u64,
    /// How many do not say how many bytes they copied.
    sizeless: u64,
    duration_ns: u64,
    times: IntervalSet,
}

/// A call that waits for its own copy.
#[derive(Debug, Clone, Copy)]
struct WaitingCopy {
    process: ProcessId,
    thread: ThreadId,
    name: TextId,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Copies {
    copies: HashMap<Key, Sums>,
    devices: Vec<Sums>,
    calls: Vec<WaitingCopy>,
    sites: CallSites,
}

impl Measure for Copies {
    fn needs(&self) -> Kinds {
        Kinds::GPU_HOST_AND_SAMPLES
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            if record.activity != Activity::Copy {
                continue;
            }
            let size = size_class(record.bytes);
            let key = (record.device, record.direction, record.name, size);
            let of_device = entry(&mut self.devices, record.device.index());
            for copies in [self.copies.entry(key).or_default(), of_device] {
                copies.count += 1;
                copies.bytes += record.bytes;
                copies.sizeless += u64::from(record.bytes == 0);
                copies.duration_ns += record.duration_ns();
                copies.times.add(record.start_ns, record.end_ns);
            }
        }
        for slice in &batch.host {
            if waits_for_its_copy(slice) {
                self.calls.push(WaitingCopy {
                    process: slice.process,
                    thread: slice.thread,
                    name: slice.name,
                    start_ns: slice.start_ns,
                    end_ns: slice.end_ns,
                    bytes: slice.bytes,
                });
            }
        }
        self.sites.take(batch, waits_for_its_copy);
        self.sites.take_functions(batch);
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        self.sites.sort_functions(&model.texts);
        self.sites.sort();
        let copies = self.by_size(model);
        let mut notes = notes(model);
        let is_empty = copies.rows.is_empty();
        if is_empty {
            notes.push("no copy of a GPU is in these traces".to_owned());
        }
        Answer {
            tables: vec![copies, self.by_device(model), self.blocking(model)],
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

#[inline]
fn waits_for_its_copy(slice: &HostSlice) -> bool {
    slice.kind == HostKind::Runtime && slice.effect == Effect::Copies
}

/// A direction as all traces could write it.
pub(in crate::measure) fn direction(direction: TextId, name: TextId, model: &Model) -> String {
    let written = model.text(direction);
    for text in [written, model.text(name)] {
        let text = text.to_ascii_lowercase();
        let found = DIRECTIONS
            .iter()
            .find(|(parts, _)| parts.iter().any(|part| text.contains(part)));
        if let Some((_, direction)) = found {
            return (*direction).to_owned();
        }
    }
    match written {
        "" => "unknown".to_owned(),
        other => other.to_owned(),
    }
}

/// What the host's memory is, if the name of a copy says so, as those of PyTorch's profiler do.
pub(in crate::measure) fn host_memory(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    ["pageable", "pinned"]
        .into_iter()
        .find(|word| name.contains(word))
}

impl Copies {
    fn by_size(&mut self, model: &Model) -> Table {
        type Row = (DeviceId, String, Option<&'static str>, usize);
        let mut rows: BTreeMap<(usize, Row), Vec<&mut Sums>> = BTreeMap::new();
        let order = model.devices_in_order();
        for (&(device, written, name, size), copies) in &mut self.copies {
            let place = order.iter().position(|id| *id == device).unwrap_or(0);
            let memory = host_memory(model.text(name));
            let row = (device, direction(written, name, model), memory, size);
            rows.entry((place, row)).or_default().push(copies);
        }
        let columns = [
            &DEVICE_COLUMNS[..],
            &[
                Column::plain("direction", "direction"),
                Column::plain("host_memory", ""),
                Column::plain("size", "size"),
            ],
            &COPY_COLUMNS,
        ];
        let title = "Copies by direction and size";
        let mut table = Table::new("copies", title, &columns.concat());
        for ((_, (device, direction, memory, size)), mut copies) in rows {
            let mut cells = device_cells(model, device);
            cells.extend::<[Cell; 3]>([direction.into(), memory.into(), size_name(size).into()]);
            cells.extend(copy_cells(&mut copies));
            table.push(cells);
        }
        table
    }

    fn by_device(&mut self, model: &Model) -> Table {
        let columns = [&DEVICE_COLUMNS[..], &COPY_COLUMNS].concat();
        let mut table = Table::new("device_copies", "Copies of each GPU", &columns);
        for id in model.devices_in_order() {
            if let Some(copies) = self.devices.get_mut(id.index()).filter(|one| one.count > 0) {
                let mut cells = device_cells(model, id);
                cells.extend(copy_cells(&mut [copies]));
                table.push(cells);
            }
        }
        table
    }

    /// Calls that waited for the copies that they made, by place in the program.
    fn blocking(&self, model: &Model) -> Table {
        #[derive(Default)]
        struct Sum {
            count: u64,
            bytes: u64,
            blocked_ns: u64,
        }
        let mut sums: HashMap<(ProcessId, TextId, Option<_>), Sum> = HashMap::new();
        for call in &self.calls {
            let time = (call.start_ns, call.end_ns);
            let site = self.sites.site(call.thread, time, model);
            let key = (call.process, call.name, site);
            let sum = sums.entry(key).or_default();
            sum.count += 1;
            sum.bytes += call.bytes;
            sum.blocked_ns += call.end_ns - call.start_ns;
        }
        let mut rows: Vec<(Sum, Vec<Cell>)> = sums
            .into_iter()
            .map(|((process, name, site), sum)| {
                let mut cells = vec![model.text(name).into()];
                cells.extend(Site::cells(site, model, NOT_SEEN));
                cells.extend(process_cells(model, process));
                (sum, cells)
            })
            .collect();
        rows.sort_by_cached_key(|(sum, cells)| {
            (std::cmp::Reverse(sum.blocked_ns), format!("{cells:?}"))
        });
        let numbers = [
            Column::plain("count", "count"),
            Column::bytes("bytes", "bytes"),
            Column::ns("blocked_ns", "blocked"),
        ];
        let columns = [&BLOCKING_COLUMNS[..], &PROCESS_COLUMNS, &numbers].concat();
        let mut table = Table::new(
            "blocking_copies",
            "Calls that waited for their copies",
            &columns,
        );
        table.rows_in_text = 30;
        for (sum, mut cells) in rows {
            // Calls of PyTorch's profiler do not tell how much they copy.
            let bytes = (sum.bytes > 0).then_some(sum.bytes);
            cells.extend::<[Cell; 3]>([sum.count.into(), bytes.into(), sum.blocked_ns.into()]);
            table.push(cells);
        }
        table
    }
}

/// The cells of [`COPY_COLUMNS`].
fn copy_cells(copies: &mut [&mut Sums]) -> [Cell; 5] {
    let sum = |of: fn(&Sums) -> u64| copies.iter().map(|one| of(one)).sum::<u64>();
    let (count, bytes) = (sum(|one| one.count), sum(|one| one.bytes));
    let (sizeless, duration_ns) = (sum(|one| one.sizeless), sum(|one| one.duration_ns));
    let sets = copies.iter_mut().map(|one| &mut one.times);
    let time_ns: u64 = IntervalSet::union_of(sets)
        .map(|(start_ns, end_ns)| end_ns - start_ns)
        .sum();
    let is_known = sizeless == 0 && time_ns > 0;
    let bandwidth = is_known.then(|| bytes as f64 * 1e9 / time_ns as f64);
    [
        count.into(),
        (sizeless < count).then_some(bytes).into(),
        duration_ns.into(),
        time_ns.into(),
        bandwidth.into(),
    ]
}

const COPY_COLUMNS: [Column; 5] = [
    Column::plain("count", "count"),
    Column::bytes("bytes", "bytes"),
    Column::ns("total_ns", ""),
    Column::ns("time_ns", "time"),
    Column {
        key: "bandwidth_bytes_per_s",
        title: "bandwidth",
        unit: Unit::Bandwidth,
    },
];

const BLOCKING_COLUMNS: [Column; 4] = [
    Column::plain("call", "call"),
    Column::plain("function", "in"),
    Column::plain("source", "source"),
    Column::plain("line", "line"),
];
