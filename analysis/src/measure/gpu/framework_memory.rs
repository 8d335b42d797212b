//! What a framework says of the memory that it divides among tensors: PyTorch's caching allocator takes memory from the GPU now and then, and gives parts of it to
//! operators all the time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::measure::{PROCESS_COLUMNS, process_cells};
use crate::program::recorded::RecordedRows;
use crate::table::{Cell, Column, Row, Table};
use rsys_traces::model::{Batch, HostKind, MemoryEvent, Model, ProcessId, TextId, ThreadId};

/// Parts of the time, of equal length.
const PARTS: u64 = 100;

/// Events of one device and time whose order is looked for, at most.
const TOGETHER: usize = 256;

/// Events, and the operators that were open.
#[derive(Debug, Default)]
pub(in crate::measure) struct Framework {
    events: Vec<MemoryEvent>,
    operators: BTreeMap<ThreadId, RecordedRows>,
}

/// The memory of one device of a process: of the host without a number.
type Place = (ProcessId, Option<u32>);

/// What happened to it.
#[derive(Debug, Default)]
struct DeviceUsage {
    made: (u64, u64),
    freed: (u64, u64),
    /// Time, what tensors have afterwards, what the framework holds.
    steps: Vec<(u64, u64, Option<u64>)>,
    allocations: Vec<Allocation>,
    /// The allocation that is at an address.
    held: HashMap<u64, usize>,
    /// Most that tensors had, when, and after how many steps.
    peak: (u64, u64, usize),
    unknown_frees: u64,
}

/// Memory that was given to a tensor.
#[derive(Debug)]
struct Allocation {
    bytes: u64,
    operator: Option<TextId>,
    /// By how many steps it was given, and freed.
    given: usize,
    freed: Option<usize>,
}

/// What an operator asked for.
#[derive(Debug, Default)]
struct OfOperator {
    count: u64,
    bytes: u64,
    at_peak_bytes: u64,
    left_bytes: u64,
}

impl Framework {
    pub(in crate::measure) fn take(&mut self, batch: &Batch) {
        self.events.extend_from_slice(&batch.memory);
        for slice in &batch.host {
            if slice.kind == HostKind::Operator && RecordedRows::is_one(slice) {
                self.operators.entry(slice.thread).or_default().push(slice);
            }
        }
    }

    /// Memory by device, and by the operators that asked for it.
    pub(in crate::measure) fn tables(&mut self, model: &Model) -> [Table; 2] {
        let usages = self.usages();
        let mut order: Vec<(&Place, &DeviceUsage)> = usages.iter().collect();
        order.sort_by_key(|((process, device), _)| (model.process(*process).order(), *device));
        let columns = [&PROCESS_COLUMNS[..], &COLUMNS].concat();
        let title = "Memory that the framework gave to tensors";
        let mut memory = Table::new("framework_memory", title, &columns);
        let columns = [&PROCESS_COLUMNS[..], &OPERATOR_COLUMNS].concat();
        let title = "Memory of tensors by the operator that asked for it";
        let mut operators = Table::new("framework_memory_operators", title, &columns);
        operators.rows_in_text = 30;
        for ((process, device), usage) in order {
            let owner = || {
                let mut cells = process_cells(model, *process).to_vec();
                cells.push(device.map(u64::from).into());
                cells
            };
            let mut cells = owner();
            cells.extend(usage.cells());
            memory.push(Row {
                cells,
                below: vec![usage.over_time()],
            });
            for row in usage.by_operator(model) {
                let mut cells = owner();
                cells.extend(row);
                operators.push(cells);
            }
        }
        [memory, operators]
    }

    fn usages(&mut self) -> HashMap<Place, DeviceUsage> {
        self.events.sort_by_key(|one| {
            let is_made = one.bytes > 0;
            (one.thread, one.time_ns, is_made, one.address, one.bytes)
        });
        let mut events: Vec<(MemoryEvent, Option<TextId>)> = Vec::new();
        let mut rest = self.events.as_slice();
        while let Some(first) = rest.first() {
            let count = rest.partition_point(|one| one.thread == first.thread);
            let of_thread;
            (of_thread, rest) = rest.split_at(count);
            let names = match self.operators.get_mut(&first.thread) {
                Some(rows) => innermost(rows, of_thread),
                None => vec![None; count],
            };
            events.extend(of_thread.iter().copied().zip(names));
        }
        // Of one time, memory is freed before it is given again, where nothing else says what comes first.
        events.sort_by_key(|(one, _)| {
            let place = (one.process, one.device);
            let what = (one.bytes > 0, one.address, one.bytes);
            (one.time_ns, place, what, one.allocated, one.reserved)
        });
        let mut usages: HashMap<Place, DeviceUsage> = HashMap::new();
        let together = |(one, _): &(MemoryEvent, _), (other, _): &(MemoryEvent, _)| {
            let key = |one: &MemoryEvent| (one.time_ns, one.process, one.device);
            key(one) == key(other)
        };
        for group in events.chunk_by_mut(together) {
            let of = (group[0].0.process, group[0].0.device);
            let usage = usages.entry(of).or_default();
            for place in 0..group.len() {
                let rest = &mut group[place..];
                if (2..=TOGETHER).contains(&rest.len()) {
                    let next = usage.next_of(rest);
                    // The others keep their order.
                    rest[..=next].rotate_right(1);
                }
                let (event, operator) = group[place];
                usage.take(&event, operator);
            }
        }
        usages
    }
}

/// The innermost operator that was open at each event of a thread, which are in order.
fn innermost(rows: &mut RecordedRows, events: &[MemoryEvent]) -> Vec<Option<TextId>> {
    rows.sort();
    let mut slices = rows.iter().peekable();
    let mut open: Vec<(u64, TextId)> = Vec::new();
    let names = events.iter().map(|event| {
        while let Some(slice) = slices.next_if(|slice| slice.start_ns <= event.time_ns) {
            open.retain(|(end_ns, _)| *end_ns >= slice.start_ns);
            open.push((slice.end_ns, slice.scope.name));
        }
        open.retain(|(end_ns, _)| *end_ns >= event.time_ns);
        open.last().map(|(_, name)| *name)
    });
    names.collect()
}

impl DeviceUsage {
    /// Which of several events of one time comes next: the one whose sum begins at what tensors have now, and that frees what is held, or gives what is not.
    fn next_of(&self, events: &[(MemoryEvent, Option<TextId>)]) -> usize {
        let before = |one: &MemoryEvent| Some(i128::from(one.allocated?) - i128::from(one.bytes));
        let now = self.steps.last().map(|step| i128::from(step.1));
        let follows = |one: &MemoryEvent| match (before(one), now) {
            (Some(before), Some(now)) => before == now,
            // The first of all is the one that follows no other.
            (Some(before), None) => {
                let mut sums = events.iter().filter_map(|(other, _)| other.allocated);
                !sums.any(|sum| i128::from(sum) == before)
            }
            (None, _) => false,
        };
        let can_be = |one: &MemoryEvent| self.held.contains_key(&one.address) == (one.bytes <= 0);
        let places = 0..events.len();
        let best = places.min_by_key(|&place| {
            let one = &events[place].0;
            (!follows(one), !can_be(one))
        });
        best.unwrap_or(0)
    }

    fn take(&mut self, event: &MemoryEvent, operator: Option<TextId>) {
        let bytes = event.bytes.unsigned_abs();
        let last = self.steps.last().map_or(0, |step| step.1);
        let sum = match event.bytes > 0 {
            true => last.saturating_add(bytes),
            false => last.saturating_sub(bytes),
        };
        let sum = event.allocated.unwrap_or(sum);
        if event.bytes > 0 {
            self.made = (self.made.0 + 1, self.made.1.saturating_add(bytes));
            let before = self.held.insert(event.address, self.allocations.len());
            // Its end was not recorded.
            if let Some(before) = before {
                self.allocations[before].freed = Some(self.steps.len());
            }
            self.allocations.push(Allocation {
                bytes,
                operator,
                given: self.steps.len(),
                freed: None,
            });
        } else {
            self.freed = (self.freed.0 + 1, self.freed.1.saturating_add(bytes));
            match self.held.remove(&event.address) {
                Some(place) => self.allocations[place].freed = Some(self.steps.len()),
                None => self.unknown_frees += 1,
            }
        }
        if sum > self.peak.0 {
            self.peak = (sum, event.time_ns, self.steps.len());
        }
        self.steps.push((event.time_ns, sum, event.reserved));
    }

    fn cells(&self) -> [Cell; 13] {
        let reserved = self.steps.iter().filter_map(|step| Some((step.2?, step.1)));
        // Reserved and not allocated, when most is reserved.
        let most = reserved.max_by_key(|(reserved, allocated)| (*reserved, Reverse(*allocated)));
        let unused = most.map(|(reserved, allocated)| reserved.saturating_sub(allocated));
        let share = most.zip(unused).filter(|((reserved, _), _)| *reserved > 0);
        let held = self
            .held
            .values()
            .map(|place| self.allocations[*place].bytes);
        let held_bytes: u64 = held.sum();
        [
            self.made.0.into(),
            self.made.1.into(),
            self.freed.0.into(),
            self.freed.1.into(),
            self.peak.0.into(),
            self.peak.1.into(),
            self.steps.last().map(|step| step.1).into(),
            most.map(|(reserved, _)| reserved).into(),
            unused.into(),
            share
                .map(|((reserved, _), unused)| unused as f64 / reserved as f64)
                .into(),
            (self.held.len() as u64).into(),
            held_bytes.into(),
            self.unknown_frees.into(),
        ]
    }

    /// Parts of equal length from the first to the last event.
    fn over_time(&self) -> Table {
        let columns = [
            Column::ns("start_ns", ""),
            Column::ns("duration_ns", ""),
            Column::bytes("max_bytes", ""),
            Column::bytes("end_bytes", ""),
            Column::bytes("reserved_bytes", ""),
        ];
        let mut table = Table::new("over_time", "", &columns);
        table.is_detail = true;
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            return table;
        };
        let part_ns = (last.0 - first.0) / PARTS + 1;
        let mut steps = self.steps.iter().peekable();
        let (mut start_ns, mut sum, mut reserved) = (first.0, 0, None);
        while start_ns <= last.0 {
            let mut most = sum;
            while let Some(step) = steps.next_if(|step| step.0 < start_ns + part_ns) {
                most = most.max(step.1);
                (sum, reserved) = (step.1, step.2);
            }
            table.push(vec![
                start_ns.into(),
                part_ns.into(),
                most.into(),
                sum.into(),
                reserved.into(),
            ]);
            start_ns += part_ns;
        }
        table
    }

    fn by_operator(&self, model: &Model) -> Vec<Vec<Cell>> {
        let mut operators: HashMap<Option<TextId>, OfOperator> = HashMap::new();
        let peak = self.peak.2;
        let sum = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        for one in &self.allocations {
            let of_operator = operators.entry(one.operator).or_default();
            of_operator.count += 1;
            sum(&mut of_operator.bytes, one.bytes);
            if one.given <= peak && one.freed.is_none_or(|freed| freed > peak) {
                sum(&mut of_operator.at_peak_bytes, one.bytes);
            }
        }
        for place in self.held.values() {
            let one = &self.allocations[*place];
            let of_operator = operators.entry(one.operator).or_default();
            sum(&mut of_operator.left_bytes, one.bytes);
        }
        let name =
            |operator: &Option<TextId>| operator.map_or("(no operator)", |name| model.text(name));
        let mut order: Vec<(&str, OfOperator)> = operators
            .into_iter()
            .map(|(operator, of_operator)| (name(&operator), of_operator))
            .collect();
        order.sort_by_key(|(name, one)| (Reverse((one.at_peak_bytes, one.bytes)), *name));
        let rows = order.into_iter().map(|(name, one)| {
            vec![
                name.into(),
                one.count.into(),
                one.bytes.into(),
                one.at_peak_bytes.into(),
                one.left_bytes.into(),
            ]
        });
        rows.collect()
    }
}

const COLUMNS: [Column; 14] = [
    Column::plain("device", "GPU"),
    Column::plain("allocations", "given"),
    Column::bytes("allocated_bytes", "bytes"),
    Column::plain("frees", "taken back"),
    Column::bytes("freed_bytes", "bytes"),
    Column::bytes("peak_bytes", "peak"),
    Column::ns("peak_time_ns", ""),
    Column::bytes("end_bytes", "at the end"),
    Column::bytes("reserved_bytes", "held by the framework"),
    Column::bytes("unused_bytes", "of that unused"),
    Column::share("unused_share", "share"),
    Column::plain("not_given_back", "not given back"),
    Column::bytes("not_given_back_bytes", "bytes"),
    Column::plain("unknown_frees", ""),
];

const OPERATOR_COLUMNS: [Column; 6] = [
    Column::plain("device", "GPU"),
    Column::plain("operator", "operator"),
    Column::plain("count", "count"),
    Column::bytes("bytes", "bytes"),
    Column::bytes("at_peak_bytes", "at the peak"),
    Column::bytes("not_given_back_bytes", "not given back"),
];
