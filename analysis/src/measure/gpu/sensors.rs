//! What the sensors of GPUs said, and when a clock was slower than usual while its GPU worked.
//!
//! A value holds until the next one, the last one until the end of what was recorded on its machine; means are weighted by these times. The usual
//! value of a clock is its median over the time in which the GPU worked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::containers::id_map::IdMap;
use crate::containers::sets::{IntervalSet, Union};
use crate::measure::{Measure, PROCESS_COLUMNS, notes, process_cells};
use crate::table::{Answer, Cell, Column, Row, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{
    Activity, Batch, CounterId, DeviceId, Kinds, Model, OpKind, ProcessId, TextId,
};

/// A clock below this part of its usual value is slow.
const SLOW: f64 = 0.9;

/// The unit of clocks.
const CLOCK_UNIT: &str = "MHz";

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Sensors {
    values: Vec<Vec<(u64, f64)>>,
    devices: Vec<Work>,
    /// Kernels whose times are kept by name.
    kernels: u64,
    /// No sensor had said anything when they became too many, and those up to there are not known.
    is_without_first: bool,
}

/// So many kernels are kept by name before the first value of a sensor: some 40 MB.
const KERNELS_MAX: u64 = 1 << 23;

/// What a GPU did for a process.
#[derive(Debug, Default)]
struct Work {
    busy: IntervalSet,
    kernels: IdMap<TextId, IntervalSet>,
    end_ns: u64,
}

/// A GPU of a machine: the boot of the machine, or where that is unknown the file of the trace, and the number.
pub(in crate::measure) type Gpu = (String, u64);

/// A sensor: its GPU, the process that it is about if it is about one, name and unit.
pub(in crate::measure) type Sensor = (Gpu, Option<u32>, String, String);

impl Measure for Sensors {
    fn needs(&self) -> Kinds {
        Kinds {
            gpu: true,
            counters: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for value in batch.counters.iter().filter(|one| one.value.is_finite()) {
            entry(&mut self.values, value.counter.index()).push((value.time_ns, value.value));
        }
        for record in batch.gpu.iter() {
            let work = entry(&mut self.devices, record.device.index());
            work.end_ns = work.end_ns.max(record.end_ns);
            if record.activity != Activity::None {
                work.busy.add(record.start_ns, record.end_ns);
            }
            if record.kind == OpKind::Kernel && !(self.is_without_first && self.values.is_empty()) {
                self.kernels += 1;
                let times = work.kernels.entry(record.name).or_default();
                times.add(record.start_ns, record.end_ns);
            }
        }
        if self.kernels >= KERNELS_MAX && self.values.is_empty() {
            // Without sensors nobody asks.
            self.devices
                .iter_mut()
                .for_each(|work| work.kernels = IdMap::default());
            (self.kernels, self.is_without_first) = (0, true);
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let all_series = self.all_series(model);
        let mut sensors = Table::new("sensors", "Sensors of GPUs", &SENSOR_COLUMNS);
        for (sensor, series) in &all_series {
            let (_, pid, name, unit) = sensor;
            let [min, mean, max] = series.summary();
            let mut cells = gpu_cells(&sensor.0, model);
            cells.extend::<[Cell; 7]>([
                (*pid).into(),
                name.as_str().into(),
                unit.as_str().into(),
                (series.steps.len() as u64).into(),
                min.into(),
                mean.into(),
                max.into(),
            ]);
            sensors.push(cells);
        }
        let title = "Clocks below 90 % of their usual value while the GPU worked";
        let mut slow = Table::new("slow_clocks", title, &SLOW_COLUMNS);
        slow.rows_in_text = 30;
        for (sensor, series) in &all_series {
            if sensor.3 == CLOCK_UNIT {
                self.slow(sensor, series, &mut slow, model);
            }
        }
        let counters = self.counters(model);
        let mut notes = notes(model);
        let is_empty = sensors.rows.is_empty() && counters.rows.is_empty();
        if is_empty {
            notes.push(
                "no sensor of a GPU is in these traces: rsys-sample reads them with -I rocm-smi"
                    .to_owned(),
            );
        } else if counters.rows.is_empty()
            && !all_series.keys().any(|sensor| sensor.3 == CLOCK_UNIT)
        {
            notes.push(
                "no clock is among the sensors: rsys-sample reads it with --gpu-metrics clock"
                    .to_owned(),
            );
        }
        if self.is_without_first && !slow.rows.is_empty() {
            notes.push(format!(
                "the kernels that ran while clocks were slow are not all named: sensors came after more than {KERNELS_MAX} kernels"
            ));
        }
        let mut tables = vec![sensors];
        if !slow.rows.is_empty() {
            tables.push(slow);
        }
        if !counters.rows.is_empty() {
            tables.push(counters);
        }
        tables.retain(|table| !table.rows.is_empty() || is_empty);
        Answer {
            tables,
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

impl Sensors {
    /// Counters of files of other profilers that are no sensors of GPUs: performance counters, and what a program counts itself. Our own traces have those of
    /// the host, which other questions use.
    fn counters(&self, model: &Model) -> Table {
        let columns = [
            &PROCESS_COLUMNS[..],
            &[
                Column::plain("of", "of"),
                Column::plain("counter", "counter"),
                Column::plain("values", "values"),
                Column::plain("min", "min"),
                Column::plain("mean", "mean"),
                Column::plain("max", "max"),
                Column::plain("sum", "sum"),
            ],
        ]
        .concat();
        let mut table = Table::new("counters", "Counters", &columns);
        table.rows_in_text = 30;
        let of_counters = self.values.iter().enumerate();
        let mut rows: Vec<_> = of_counters
            .filter(|(_, values)| !values.is_empty())
            .map(|(place, values)| (CounterId::new(place), values))
            .filter(|&(id, _)| {
                let process = model.process(model.counters[id.index()].process);
                let is_of_others = process.account.is_none() && process.boot_id.is_empty();
                is_of_others && sensor(id, model).is_none()
            })
            .map(|(id, values)| {
                let counter = &model.counters[id.index()];
                let names = [counter.group, counter.name, counter.unit];
                let [group, name, unit] = names.map(|text| model.text(text));
                let of = format!("{group} {name}").trim().to_owned();
                (
                    model.process(counter.process).order(),
                    of,
                    unit,
                    counter.process,
                    values,
                )
            })
            .collect();
        rows.sort_by(|one, other| (&one.0, &one.1, one.2).cmp(&(&other.0, &other.1, other.2)));
        for (_, of, counter, process, values) in rows {
            let mut numbers: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            // A sum is the same in whatever order the file has them.
            numbers.sort_by(f64::total_cmp);
            let sum: f64 = numbers.iter().sum();
            let mut cells = process_cells(model, process).to_vec();
            cells.extend::<[Cell; 7]>([
                of.into(),
                counter.into(),
                (numbers.len() as u64).into(),
                numbers.first().copied().into(),
                (sum / numbers.len() as f64).into(),
                numbers.last().copied().into(),
                sum.into(),
            ]);
            table.push(cells);
        }
        table
    }
}

/// The machine that a process ran on.
pub(in crate::measure) fn machine(process: ProcessId, model: &Model) -> &str {
    let process = model.process(process);
    match process.boot_id.as_str() {
        "" => &process.file,
        boot_id => boot_id,
    }
}

/// The number behind a word in a text.
fn number_behind(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let end = rest.find(|one: char| !one.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// The sensor that a counter is of; `None` if it is of no GPU.
pub(in crate::measure) fn sensor(id: CounterId, model: &Model) -> Option<Sensor> {
    let counter = &model.counters[id.index()];
    let (group, name) = (model.text(counter.group), model.text(counter.name));
    let of_group = number_behind(group, "GPU ");
    let number = of_group.or_else(|| {
        let is_of_gpu = name.starts_with("GPU ");
        is_of_gpu.then(|| number_behind(name, "[")).flatten()
    })?;
    let of_process = of_group.is_none() && name.contains("of Process");
    let pid = of_process.then(|| model.process(counter.process).pid);
    // `GPU Power [0] (S)`: the number is in a column of its own.
    let name = name.split(" [").next().unwrap_or(name);
    let gpu = (machine(counter.process, model).to_owned(), number);
    let unit = match model.text(counter.unit) {
        "" if is_clock(name) => CLOCK_UNIT,
        unit => unit,
    };
    Some((gpu, pid, name.to_owned(), unit.to_owned()))
}

/// Whether a sensor without a unit is a clock: tools of ROCm write these in MHz (`sclk`, `mclk`, `gfxclk`).
fn is_clock(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("clk") || name.contains("clock") || name.contains("frequency")
}

/// The values of a sensor, each with the time in which it held.
#[derive(Debug, Default)]
struct SensorSeries {
    steps: Vec<(u64, u64, f64)>,
}

impl SensorSeries {
    /// From values at times, and the end of what was recorded.
    fn new(mut values: Vec<(u64, f64)>, end_ns: u64) -> Self {
        values.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let ends = values.iter().skip(1).map(|(time_ns, _)| *time_ns);
        let ends: Vec<u64> = ends.chain([end_ns]).collect();
        let steps = values.into_iter().zip(ends);
        Self {
            steps: steps
                .map(|((start_ns, value), end_ns)| (start_ns, end_ns.max(start_ns), value))
                .collect(),
        }
    }

    /// Least, mean and greatest value.
    fn summary(&self) -> [f64; 3] {
        let values = || self.steps.iter().map(|step| step.2);
        let held_ns = |step: &(u64, u64, f64)| (step.1 - step.0) as f64;
        let time_ns: f64 = self.steps.iter().map(held_ns).sum();
        let weighted: f64 = self.steps.iter().map(|step| step.2 * held_ns(step)).sum();
        let mean = match time_ns > 0.0 {
            true => weighted / time_ns,
            false => values().sum::<f64>() / self.steps.len() as f64,
        };
        [
            values().fold(f64::INFINITY, f64::min),
            mean,
            values().fold(f64::NEG_INFINITY, f64::max),
        ]
    }

    /// The median over the time in which the GPU worked.
    fn usual(&self, busy: &Union) -> Option<f64> {
        let mut held: Vec<(f64, u64)> = self
            .steps
            .iter()
            .map(|&(start_ns, end_ns, value)| (value, busy.within((start_ns, end_ns))))
            .filter(|(_, time_ns)| *time_ns > 0)
            .collect();
        held.sort_by(|one, other| one.0.total_cmp(&other.0));
        let whole_ns: u64 = held.iter().map(|(_, time_ns)| time_ns).sum();
        let mut so_far_ns = 0;
        let median = held.iter().find(|(_, time_ns)| {
            so_far_ns += time_ns;
            2 * so_far_ns >= whole_ns
        });
        median.map(|(value, _)| *value)
    }

    /// How much longer work took in a stretch than it would have taken with the usual value, if it takes as much longer as the clock is slower.
    fn lost_ns(&self, (start_ns, end_ns): (u64, u64), usual: f64, busy: &Union) -> u64 {
        let within = self.steps.iter();
        let within = within.filter(|step| step.0 >= start_ns && step.1 <= end_ns);
        let lost = within.map(|&(from_ns, to_ns, value)| {
            busy.within((from_ns, to_ns)) as f64 * (1.0 - value / usual).clamp(0.0, 1.0)
        });
        lost.sum::<f64>() as u64
    }

    /// The stretches in which the value was below a limit.
    fn below(&self, limit: f64) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        let low = self.steps.iter().filter(|step| step.2 < limit);
        for &(start_ns, end_ns, _) in low {
            match found.last_mut() {
                Some(last) if last.1 == start_ns => last.1 = end_ns,
                _ => found.push((start_ns, end_ns)),
            }
        }
        found
    }
}

impl Sensors {
    /// The values of all sensors. What several traces hold of one is one.
    fn all_series(&self, model: &Model) -> BTreeMap<Sensor, SensorSeries> {
        let mut ends_ns: HashMap<&str, u64> = HashMap::new();
        let mut end = |process: ProcessId, time_ns: u64| {
            let end_ns = ends_ns.entry(machine(process, model)).or_default();
            *end_ns = time_ns.max(*end_ns);
        };
        let mut values: BTreeMap<Sensor, Vec<(u64, f64)>> = BTreeMap::new();
        for (index, found) in self.values.iter().enumerate() {
            let counter = CounterId::new(index);
            let Some(&(last_ns, _)) = found.iter().max_by_key(|(time_ns, _)| *time_ns) else {
                continue;
            };
            end(model.counters[index].process, last_ns);
            if let Some(sensor) = sensor(counter, model) {
                values.entry(sensor).or_default().extend(found);
            }
        }
        for (index, process) in model.processes.iter().enumerate() {
            end(ProcessId::new(index), process.end_ns);
        }
        for (index, work) in self.devices.iter().enumerate() {
            end(model.devices[index].process, work.end_ns);
        }
        values
            .into_iter()
            .map(|(sensor, values)| {
                let end_ns = ends_ns.get(sensor.0.0.as_str()).copied().unwrap_or(0);
                (sensor, SensorSeries::new(values, end_ns))
            })
            .collect()
    }

    /// The processes' views of a GPU.
    fn devices_of(&self, (on, number): &Gpu, model: &Model) -> Vec<DeviceId> {
        let devices = (0..self.devices.len()).map(DeviceId::new);
        devices
            .filter(|&id| {
                let device = model.device(id);
                u64::from(device.ordinal) == *number && machine(device.process, model) == on
            })
            .collect()
    }

    fn slow(&mut self, sensor: &Sensor, series: &SensorSeries, table: &mut Table, model: &Model) {
        let ids = self.devices_of(&sensor.0, model);
        let is_of = |index: usize| ids.contains(&DeviceId::new(index));
        let devices = self.devices.iter_mut().enumerate();
        let mut works: Vec<&mut Work> = devices
            .filter(|(index, _)| is_of(*index))
            .map(|(_, work)| work)
            .collect();
        let busy = IntervalSet::union_of(works.iter_mut().map(|work| &mut work.busy));
        let busy: Union = busy.collect();
        let Some(usual) = series.usual(&busy) else {
            return;
        };
        for (start_ns, end_ns) in series.below(SLOW * usual) {
            let worked_ns = busy.within((start_ns, end_ns));
            if worked_ns == 0 {
                continue;
            }
            let lowest = series
                .steps
                .iter()
                .filter(|step| step.0 >= start_ns && step.1 <= end_ns);
            let lowest = lowest.fold(f64::INFINITY, |least, step| least.min(step.2));
            let mut cells = gpu_cells(&sensor.0, model);
            cells.extend::<[Cell; 8]>([
                sensor.2.as_str().into(),
                sensor.3.as_str().into(),
                start_ns.into(),
                (end_ns - start_ns).into(),
                worked_ns.into(),
                series.lost_ns((start_ns, end_ns), usual, &busy).into(),
                lowest.into(),
                usual.into(),
            ]);
            table.push(Row {
                cells,
                below: vec![kernels((start_ns, end_ns), &mut works, model)],
            });
        }
    }
}

/// The kernels that ran in a stretch of time.
fn kernels((start_ns, end_ns): (u64, u64), works: &mut [&mut Work], model: &Model) -> Table {
    let mut times: BTreeMap<&str, Vec<&mut IntervalSet>> = BTreeMap::new();
    for work in works.iter_mut() {
        for (name, set) in &mut work.kernels {
            times.entry(model.text(*name)).or_default().push(set);
        }
    }
    let mut rows: Vec<(u64, &str)> = times
        .into_iter()
        .map(|(name, sets)| {
            let parts = IntervalSet::union_of(sets);
            let parts = parts.map(|(from_ns, to_ns)| (from_ns.max(start_ns), to_ns.min(end_ns)));
            let time_ns = parts.map(|(from_ns, to_ns)| to_ns.saturating_sub(from_ns));
            (time_ns.sum(), name)
        })
        .filter(|(time_ns, _)| *time_ns > 0)
        .collect();
    rows.sort_unstable_by_key(|(time_ns, name)| (Reverse(*time_ns), *name));
    let columns = [
        Column::plain("name", "kernel"),
        Column::ns("time_ns", "time in it"),
    ];
    let mut table = Table::new("kernels", "", &columns);
    table.is_detail = true;
    table.rows_in_text = 5;
    for (time_ns, name) in rows {
        table.push(vec![name.into(), time_ns.into()]);
    }
    table
}

/// Host and number of a GPU.
fn gpu_cells((on, number): &Gpu, model: &Model) -> Vec<Cell> {
    let processes = (0..model.processes.len()).map(ProcessId::new);
    let mut here = processes.filter(|&id| machine(id, model) == on);
    let host = here.find_map(|id| {
        let host = &model.process(id).host;
        (!host.is_empty()).then_some(host.as_str())
    });
    vec![host.into(), (*number).into()]
}

const SENSOR_COLUMNS: [Column; 9] = [
    Column::plain("host", "host"),
    Column::plain("device", "GPU"),
    Column::plain("process", "process"),
    Column::plain("sensor", "sensor"),
    Column::plain("unit", "unit"),
    Column::plain("values", "values"),
    Column::plain("min", "min"),
    Column::plain("mean", "mean"),
    Column::plain("max", "max"),
];

const SLOW_COLUMNS: [Column; 10] = [
    Column::plain("host", "host"),
    Column::plain("device", "GPU"),
    Column::plain("sensor", "clock"),
    Column::plain("unit", "unit"),
    Column::ns("start_ns", ""),
    Column::ns("duration_ns", "for"),
    Column::ns("worked_ns", "worked"),
    Column::ns("lost_ns", "lost"),
    Column::plain("min", "down to"),
    Column::plain("usual", "usually"),
];
