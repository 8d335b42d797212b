//! Which kernels took the time of the GPUs, by name.

use std::collections::HashMap;

use crate::containers::quantiles::Quantiles;
use crate::measure::gpu::kernel_counters::{self, Counters};
use crate::measure::{Measure, notes};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{Batch, DeviceId, GpuRecord, Kinds, Model, OpKind, QueueId, TextId};

/// What tells rows apart beside the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct By {
    /// The grid.
    pub grid: bool,
    /// The stream or queue.
    pub stream: bool,
    /// The GPU.
    pub device: bool,
}

/// What a row is about. Parts that do not tell rows apart are left at their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Key {
    name: TextId,
    grid: TextId,
    queue: Option<QueueId>,
    device: Option<DeviceId>,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Kernels {
    by: By,
    /// By name alone, which is found without a hash.
    of_names: Vec<Option<Box<Durations>>>,
    of_keys: HashMap<Key, Durations>,
    counters: Counters<Key>,
}

/// Durations of the kernels of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    sources: Sources,
    squares: u128,
    pub(in crate::measure) quantiles: Quantiles,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            count: 0,
            total_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sources: Sources::default(),
            squares: 0,
            quantiles: Quantiles::default(),
        }
    }
}

impl Durations {
    #[inline]
    pub(in crate::measure) fn add(&mut self, duration_ns: u64) {
        self.count += 1;
        self.total_ns += duration_ns;
        self.min_ns = self.min_ns.min(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
        self.squares += u128::from(duration_ns) * u128::from(duration_ns);
        self.quantiles.add(duration_ns);
    }

    /// The mean.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.total_ns as f64 / self.count as f64
    }

    /// The standard deviation of a sample (divided by the count less one); 0 of a single value.
    #[must_use]
    pub fn std_ns(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        // n·Σx² - (Σx)², without rounding.
        let total = u128::from(self.total_ns);
        let spread = (u128::from(self.count) * self.squares).saturating_sub(total * total);
        (spread as f64 / self.count as f64 / (self.count - 1) as f64).sqrt()
    }
}

/// Where the kernels of a name came from; several texts where that changed, or where kernels of one name came from different places.
#[derive(Debug, Clone, PartialEq, Default)]
struct Sources {
    texts: Vec<TextId>,
    last: TextId,
    has_others: bool,
}

impl Sources {
    /// How many are kept and shown.
    const MAX: usize = 16;
    /// How `rsys-sample` joins the places of a name, and what it calls those for which it has no room.
    const OR: &str = " or ";
    const OTHERS: &str = "others";

    #[inline]
    fn add(&mut self, source: TextId) {
        if source == self.last || source.is_empty() {
            return;
        }
        self.last = source;
        if self.texts.contains(&source) {
            return;
        }
        match self.texts.len() < Self::MAX {
            true => self.texts.push(source),
            false => self.has_others = true,
        }
    }

    /// Each place once, in order: a text grows as code objects are loaded, so places are in several texts.
    fn shown(&self, model: &Model) -> Cell {
        let texts = self.texts.iter();
        let places = texts.flat_map(|id| model.text(*id).split(Self::OR));
        let (others, mut places): (Vec<&str>, Vec<&str>) =
            places.partition(|place| *place == Self::OTHERS);
        places.sort_unstable();
        places.dedup();
        let has_others = self.has_others || !others.is_empty() || places.len() > Self::MAX;
        places.truncate(Self::MAX);
        if has_others {
            places.push(Self::OTHERS);
        }
        (!places.is_empty()).then(|| places.join(Self::OR)).into()
    }
}

impl Measure for Kernels {
    fn needs(&self) -> Kinds {
        Kinds::GPU
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            if record.kind == OpKind::Kernel {
                let durations = self.durations(record);
                durations.add(record.duration_ns());
                durations.sources.add(record.source);
            }
        }
        for counter in &batch.kernel_counters {
            let key = Key {
                name: counter.kernel,
                ..self.key_of(counter.grid, counter.queue, counter.device)
            };
            self.counters.add(key, counter);
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let mut columns = self.columns();
        columns.extend(NUMBERS);
        columns.push(Column::line("source", "source"));
        let mut rows: Vec<(Vec<Cell>, &Durations)> = self
            .of_names
            .iter()
            .enumerate()
            .filter_map(|(index, durations)| {
                let name = model.texts.at(index);
                Some((vec![name.into()], durations.as_deref()?))
            })
            .chain(
                self.of_keys
                    .iter()
                    .map(|(key, durations)| (self.cells(key, model), durations)),
            )
            .collect();
        // The cells decide between equal times, so that no order of reading counts.
        rows.sort_by_cached_key(|(cells, durations)| {
            (std::cmp::Reverse(durations.total_ns), format!("{cells:?}"))
        });
        let sum_ns: u64 = rows.iter().map(|(_, durations)| durations.total_ns).sum();
        let mut table = Table::new("kernels", "Kernels by time", &columns);
        table.rows_in_text = 30;
        let mut cumulative_ns = 0;
        let mut is_exact = true;
        for (mut cells, durations) in rows {
            cumulative_ns += durations.total_ns;
            is_exact &= durations.quantiles.is_exact();
            let [median, p95] = durations.quantiles.at([0.5, 0.95]).unwrap_or_default();
            cells.extend::<[Cell; 11]>([
                durations.count.into(),
                durations.total_ns.into(),
                share(durations.total_ns, sum_ns),
                share(cumulative_ns, sum_ns),
                durations.mean_ns().into(),
                median.into(),
                p95.into(),
                durations.min_ns.into(),
                durations.max_ns.into(),
                durations.std_ns().into(),
                durations.sources.shown(model),
            ]);
            table.push(cells);
        }
        let mut notes = notes(model);
        let is_empty = table.rows.is_empty();
        if is_empty {
            notes.push("no kernel is in these traces".to_owned());
        }
        if !is_exact {
            notes.push(
                "medians and 95th percentiles of kernels that ran more than 65536 times are within 1 %".to_owned(),
            );
        }
        let counters = self.counters(model);
        Answer {
            tables: std::iter::once(table).chain(counters).collect(),
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

impl Kernels {
    /// Kernels by name and whatever `by` says.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    #[inline]
    fn durations(&mut self, record: &GpuRecord) -> &mut Durations {
        if self.by == By::default() {
            let durations = entry(&mut self.of_names, record.name.index());
            return durations.get_or_insert_with(Box::default);
        }
        let key = Key {
            name: record.name,
            ..self.key_of(record.grid, record.queue, record.device)
        };
        self.of_keys.entry(key).or_default()
    }

    /// What tells rows apart beside the name.
    #[inline]
    fn key_of(&self, grid: TextId, queue: QueueId, device: DeviceId) -> Key {
        Key {
            name: TextId::EMPTY,
            grid: if self.by.grid { grid } else { TextId::EMPTY },
            queue: self.by.stream.then_some(queue),
            device: (self.by.device || self.by.stream).then_some(device),
        }
    }

    /// The columns of what tells rows apart.
    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::plain("name", "kernel")];
        if self.by.grid {
            columns.push(Column::plain("grid", "grid"));
        }
        if self.by.device || self.by.stream {
            columns.extend([
                Column::plain("rank", "rank"),
                Column::plain("process", "process"),
                Column::plain("device", "GPU"),
            ]);
        }
        if self.by.stream {
            columns.push(Column::plain("stream", "stream"));
        }
        columns
    }

    /// What hardware counters counted, in the order of the kernels; none where nothing was counted.
    fn counters(&self, model: &Model) -> Option<Table> {
        let mut columns = self.columns();
        columns.extend(kernel_counters::COLUMNS);
        let rows = self.counters.rows(model).into_iter();
        let mut rows: Vec<_> = rows
            .map(|(key, cells)| {
                let of_name = || self.of_names.get(key.name.index())?.as_deref();
                let durations = self.of_keys.get(&key).or_else(of_name);
                let total_ns = durations.map_or(0, |durations| durations.total_ns);
                let all = self.cells(&key, model).into_iter().chain(cells);
                (total_ns, all.collect::<Vec<Cell>>())
            })
            .collect();
        rows.sort_by_cached_key(|(total_ns, cells)| {
            (std::cmp::Reverse(*total_ns), format!("{cells:?}"))
        });
        let title = "Hardware counters of kernels";
        let mut table = Table::new("kernel_counters", title, &columns);
        table.rows_in_text = 60;
        rows.into_iter().for_each(|(_, cells)| table.push(cells));
        (!table.rows.is_empty()).then_some(table)
    }

    fn cells(&self, key: &Key, model: &Model) -> Vec<Cell> {
        let mut cells: Vec<Cell> = vec![model.text(key.name).into()];
        if self.by.grid {
            cells.push(model.text(key.grid).into());
        }
        if let Some(id) = key.device {
            let device = model.device(id);
            let process = model.process(device.process);
            cells.extend::<[Cell; 3]>([
                process.rank.into(),
                process.pid.into(),
                device.ordinal.into(),
            ]);
        }
        if let Some(queue) = key.queue {
            cells.push(model.text(model.queues[queue.index()].name).into());
        }
        cells
    }
}

const NUMBERS: [Column; 10] = [
    Column::plain("count", "count"),
    Column::ns("total_ns", "total"),
    Column::share("share", "share"),
    Column::share("cumulative_share", "so far"),
    Column::ns("mean_ns", "mean"),
    Column::ns("median_ns", "median"),
    Column::ns("p95_ns", "p95"),
    Column::ns("min_ns", "min"),
    Column::ns("max_ns", "max"),
    Column::ns("std_ns", "std"),
];

fn share(part: u64, whole: u64) -> Cell {
    (whole > 0).then(|| part as f64 / whole as f64).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(texts: &[&str]) -> Cell {
        let (mut model, mut sources) = (Model::default(), Sources::default());
        for text in texts {
            sources.add(model.texts.intern(text));
        }
        sources.shown(&model)
    }

    #[test]
    fn each_place_is_told_once() {
        assert_eq!(shown(&["", ""]), Cell::from(None::<String>));
        let grown = ["b.py:24", "a.py:11", "a.py:11 or b.py:24", "a.py:11"];
        assert_eq!(shown(&grown), "a.py:11 or b.py:24".into());
        let others = ["b.py:1 or others", "z.py:1", "b.py:1 or z.py:1 or others"];
        assert_eq!(shown(&others), "b.py:1 or z.py:1 or others".into());
    }

    #[test]
    fn many_places_are_others() {
        let texts: Vec<String> = (10..40).map(|line| format!("a.py:{line}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(
            shown(&texts[..16]),
            texts[..16].join(" or ").as_str().into()
        );
        let expected = format!("{} or others", texts[..16].join(" or "));
        assert_eq!(shown(&texts), expected.as_str().into());
        assert_eq!(shown(&[&texts.join(" or ")]), expected.as_str().into());
    }
}
