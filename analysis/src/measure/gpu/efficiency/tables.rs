//! The tables.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::figures::Figures;
use super::rows::{Row, Rows};
use super::{By, Options};
use crate::measure::{DEVICE_COLUMNS, device_cells, unseen};
use crate::table::{Cell, Column, Table};
use rsys_traces::model::{DeviceId, Model};
use rsys_traces::work::peaks::peaks_of;

const FIGURES: [Column; 16] = [
    Column::plain("count", "count"),
    Column::plain("operations", ""),
    Column::ns("busy_ns", "busy"),
    Column::share("busy_share", "share"),
    Column::ns("ran_ns", ""),
    Column::plain("flop", ""),
    Column::bytes("moved_bytes", ""),
    Column::plain("tflop_per_s", "TFLOP/s"),
    Column {
        key: "bytes_per_s",
        title: "memory",
        unit: crate::table::Unit::Bandwidth,
    },
    Column::plain("flop_per_byte", "FLOP/B"),
    Column::plain("computed_in", ""),
    Column::plain("bound", "bound by"),
    Column::share("roofline_share", "of roofline"),
    Column::ns("give_back_ns", "could give back"),
    Column::ns("give_back_at_peak_ns", "at the peak"),
    Column::line("why", "no figure"),
];

const OF_PEAKS: [Column; 10] = [
    Column::ns("busy_ns", "busy"),
    Column::share("figures_share", "with figures"),
    Column::plain("peaks", "peaks of"),
    Column::plain("fp32_vector_tflop_per_s", "TFLOP/s: vector fp32"),
    Column::plain("fp32_matrix_tflop_per_s", "matrix fp32"),
    Column::plain("tf32_matrix_tflop_per_s", "tf32"),
    Column::plain("bf16_matrix_tflop_per_s", "bf16"),
    Column::plain("fp8_matrix_tflop_per_s", "fp8"),
    Column {
        key: "memory_bytes_per_s",
        title: "memory",
        unit: crate::table::Unit::Bandwidth,
    },
    Column::line("source", "source"),
];

/// All tables of the answer.
pub(super) fn tables(rows: &Rows, model: &Model, options: &Options) -> Vec<Table> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![main(rows, model, options)];
    if options.by == By::Module {
        tables.push(modules(rows));
    }
    tables.extend([
        devices(rows, model, options),
        reasons(rows),
        chains(rows, model),
        repeats(rows, model),
    ]);
    tables
}

fn main(rows: &Rows, model: &Model, options: &Options) -> Table {
    let keys: &[Column] = match options.by {
        By::Shapes => &[
            Column::plain("operator", "operator"),
            Column::plain("category", "family"),
            Column::plain("types", "types"),
            Column::plain("rank", ""),
            Column::plain("host", ""),
            Column::plain("process", ""),
            Column::plain("device", "GPU"),
            Column::line("shapes", "shapes"),
        ],
        By::Operator => &[
            Column::plain("operator", "operator"),
            Column::plain("category", "family"),
        ],
        By::Category => &[Column::plain("category", "family")],
        By::Kernel => &[
            Column::plain("kernels", "kernels"),
            Column::plain("category", "family"),
        ],
        By::Rank => &[Column::plain("rank", "rank")],
        By::Module => &[Column::plain("module", "modules")],
        By::Line => &[Column::plain("function", "function")],
    };
    let columns: Vec<Column> = keys.iter().copied().chain(FIGURES).collect();
    let title = "Busy time of GPUs by what they worked on, and how well it was used";
    let mut table = Table::new("efficiency", title, &columns);
    table.rows_in_text = 30;
    let whole_ns: u64 = rows.rows.iter().map(|row| row.figures.busy_ns).sum();
    for row in &rows.rows {
        let mut cells = key_cells(row, model, options.by);
        cells.extend(figure_cells(&row.figures, whole_ns));
        table.push(cells);
    }
    table
}

fn key_cells(row: &Row, model: &Model, by: By) -> Vec<Cell> {
    let key = &row.key;
    let category = || key.category.map(|category| category.name()).into();
    let text = |text: &str| Cell::from((!text.is_empty()).then_some(text));
    // What no operator is known of is called by its kernel.
    let operator = || match key.operator.as_str() {
        "" => text(&key.ran),
        operator => operator.into(),
    };
    match by {
        By::Shapes => {
            let device = key.device.map(|device| model.device(device));
            let process = device.map(|device| model.process(device.process));
            vec![
                operator(),
                category(),
                text(&key.types),
                process.and_then(|process| process.rank).into(),
                process.map(|process| process.host.as_str()).into(),
                process.map(|process| process.pid).into(),
                device.map(|device| device.ordinal).into(),
                text(&key.shapes),
            ]
        }
        By::Operator => vec![operator(), category()],
        By::Category => vec![category()],
        By::Kernel => vec![text(&key.ran), category()],
        By::Rank => vec![key.rank.into()],
        By::Module | By::Line => vec![text(&key.context)],
    }
}

fn figure_cells(figures: &Figures, whole_ns: u64) -> [Cell; 16] {
    let is_known = figures.least_of_ns > 0;
    let back = |time_ns: f64| is_known.then(|| whole(time_ns)).into();
    [
        figures.calls.into(),
        figures.operations.into(),
        figures.busy_ns.into(),
        share(figures.busy_ns, whole_ns),
        figures.ran_ns.into(),
        large(figures.flop, figures.flop_ns),
        large(figures.bytes, figures.bytes_ns),
        figures.tflops().into(),
        figures.bytes_per_s().into(),
        figures.intensity().into(),
        figures.computed_in().into(),
        figures.bound().into(),
        figures.share().into(),
        back(figures.back_ns),
        back(figures.back_at_peak_ns),
        figures.why().into(),
    ]
}

/// A sum that is known of some time; what is larger than whole numbers of 64 bits is a measured one.
fn large(sum: u128, known_ns: u64) -> Cell {
    if sum == 0 && known_ns == 0 {
        return Cell::Null;
    }
    u64::try_from(sum).map_or_else(|_| (sum as f64).into(), Cell::from)
}

fn whole(time_ns: f64) -> u64 {
    time_ns.round().clamp(0.0, u64::MAX as f64) as u64
}

fn share(part: u64, whole: u64) -> Cell {
    (whole > 0).then(|| part as f64 / whole as f64).into()
}

fn devices(rows: &Rows, model: &Model, options: &Options) -> Table {
    let columns: Vec<Column> = DEVICE_COLUMNS.into_iter().chain(OF_PEAKS).collect();
    let mut table = Table::new(
        "efficiency_devices",
        "GPUs, and the peaks that were counted with",
        &columns,
    );
    let in_order: Vec<DeviceId> = model.devices_in_order();
    for id in in_order {
        let Some(figures) = rows.devices.get(&id) else {
            continue;
        };
        let peaks = peaks_of(&model.device(id).name, &options.peaks);
        let rate = |rate: Option<f64>| Cell::from(rate.filter(|rate| *rate > 0.0));
        let mut cells = device_cells(model, id);
        cells.extend::<[Cell; 10]>([
            figures.busy_ns.into(),
            share(
                figures
                    .busy_ns
                    .saturating_sub(figures.reasons.values().sum()),
                figures.busy_ns,
            ),
            peaks.map(|peaks| peaks.name.as_str()).into(),
            rate(peaks.map(|peaks| peaks.vector.fp32)),
            rate(peaks.map(|peaks| peaks.matrix.fp32)),
            rate(peaks.map(|peaks| peaks.matrix.tf32)),
            rate(peaks.map(|peaks| peaks.matrix.bf16)),
            rate(peaks.map(|peaks| peaks.matrix.fp8)),
            rate(peaks.and_then(|peaks| peaks.bytes_per_s())),
            peaks.map(|peaks| peaks.source.as_str()).into(),
        ]);
        table.push(cells);
    }
    table
}

fn reasons(rows: &Rows) -> Table {
    let columns = [
        Column::plain("why", "no figure, or no share of a roofline, because"),
        Column::plain("rows", "rows"),
        Column::ns("busy_ns", "busy"),
        Column::share("busy_share", "share"),
    ];
    let mut table = Table::new("efficiency_reasons", "Busy time without figures", &columns);
    table.rows_in_text = 10;
    let whole_ns: u64 = rows.rows.iter().map(|row| row.figures.busy_ns).sum();
    let mut reasons: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in &rows.rows {
        for (reason, time_ns) in &row.figures.reasons {
            let (count, sum_ns) = reasons.entry(reason).or_default();
            *count += 1;
            *sum_ns += time_ns;
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(reason, (_, time_ns))| (Reverse(*time_ns), *reason));
    for (reason, (count, time_ns)) in reasons {
        table.push(vec![
            reason.into(),
            count.into(),
            time_ns.into(),
            share(time_ns, whole_ns),
        ]);
    }
    table
}

/// Modules as a tree, each with all that it calls.
fn modules(rows: &Rows) -> Table {
    let columns = [
        Column::plain("module", "module"),
        Column::plain("path", ""),
        Column::plain("class", ""),
        Column::plain("depth", ""),
        Column::plain("instances", ""),
        Column::plain("count", "calls"),
        Column::ns("total_ns", "busy"),
        Column::share("total_share", "share"),
        Column::ns("own_ns", "itself"),
        Column::ns("mean_ns", "mean of them"),
        Column::plain("worst", "worst"),
        Column::ns("worst_ns", ""),
        Column::plain("tflop_per_s", "TFLOP/s"),
        Column {
            key: "bytes_per_s",
            title: "memory",
            unit: crate::table::Unit::Bandwidth,
        },
        Column::share("roofline_share", "of roofline"),
        Column::ns("give_back_ns", "could give back"),
    ];
    let title = "Modules with all that they call";
    let mut table = Table::new("efficiency_modules", title, &columns);
    table.rows_in_text = 60;
    let whole_ns: u64 = rows.rows.iter().map(|row| row.figures.busy_ns).sum();
    for module in &rows.modules {
        let all = &module.all;
        let inset = "  ".repeat(module.depth as usize);
        let several = module.instances > 1;
        let label = match several {
            true => format!("{inset}{} \u{d7} {}", module.instances, module.class),
            false => format!("{inset}{}", module.class),
        };
        let back = (all.least_of_ns > 0).then(|| whole(all.back_ns));
        table.push(vec![
            label.into(),
            module.path.as_str().into(),
            module.class.as_str().into(),
            module.depth.into(),
            module.instances.into(),
            module.calls.into(),
            all.busy_ns.into(),
            share(all.busy_ns, whole_ns),
            module.own_ns.into(),
            (all.busy_ns as f64 / module.instances.max(1) as f64).into(),
            several.then_some(module.worst.as_str()).into(),
            several.then_some(module.worst_ns).into(),
            all.tflops().into(),
            all.bytes_per_s().into(),
            all.share().into(),
            back.into(),
        ]);
    }
    table
}

const OF_STEPS: [Column; 3] = [
    Column::plain("operators", "operators"),
    Column::plain("types", "types"),
    Column::line("shapes", "shapes"),
];

/// Elementwise operators over one tensor, one after the other.
fn chains(rows: &Rows, model: &Model) -> Table {
    let mut columns = OF_STEPS.to_vec();
    columns.extend(unseen(&DEVICE_COLUMNS, &[]));
    columns.extend([
        Column::plain("count", "times"),
        Column::plain("length", ""),
        Column::ns("ran_ns", "ran"),
        Column::bytes("moved_bytes", "moved"),
        Column::bytes("fused_away_bytes", "not if fused"),
        Column::ns("fused_away_ns", "could give back"),
    ]);
    let title = "Elementwise operators over one tensor, each behind the other";
    let mut table = Table::new("efficiency_chains", title, &columns);
    table.rows_in_text = 10;
    for chain in &rows.chains {
        let mut cells: Vec<Cell> = vec![
            chain.operators.as_str().into(),
            chain.types.as_str().into(),
            chain.shapes.as_str().into(),
        ];
        cells.extend(device_cells(model, chain.device));
        cells.extend::<[Cell; 6]>([
            chain.count.into(),
            chain.length.into(),
            chain.ran_ns.into(),
            large(chain.bytes, chain.ran_ns),
            large(chain.saved_bytes, chain.ran_ns),
            whole(chain.saved_ns).into(),
        ]);
        table.push(cells);
    }
    table
}

/// Equal products, one after the other.
fn repeats(rows: &Rows, model: &Model) -> Table {
    let mut columns = OF_STEPS.to_vec();
    columns.extend(unseen(&DEVICE_COLUMNS, &[]));
    columns.extend([
        Column::plain("runs", "runs"),
        Column::plain("count", "calls"),
        Column::ns("ran_ns", "ran"),
        Column::ns("mean_ns", "each"),
        Column::share("roofline_share", "of roofline"),
        Column::ns("batched_away_ns", "could give back"),
    ]);
    let title = "Equal products of matrices, each behind the other";
    let mut table = Table::new("efficiency_repeats", title, &columns);
    table.rows_in_text = 10;
    for repeat in &rows.repeats {
        let mut cells: Vec<Cell> = vec![
            repeat.operator.as_str().into(),
            repeat.types.as_str().into(),
            repeat.shapes.as_str().into(),
        ];
        cells.extend(device_cells(model, repeat.device));
        cells.extend::<[Cell; 6]>([
            repeat.runs.into(),
            repeat.calls.into(),
            repeat.ran_ns.into(),
            (repeat.ran_ns as f64 / repeat.calls.max(1) as f64).into(),
            repeat.share.into(),
            repeat.saved_ns.map(whole).into(),
        ]);
        table.push(cells);
    }
    table
}

/// A share with two digits at least.
fn percent(share: f64) -> String {
    let digits = match share * 100.0 {
        percent if percent >= 10.0 => 0,
        percent if percent >= 1.0 => 1,
        _ => 2,
    };
    format!("{:.digits$} %", share * 100.0)
}

/// What has to be known to read the tables.
pub(super) fn notes(rows: &Rows, options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    if rows.is_empty() {
        return notes;
    }
    if rows.rows.iter().all(|row| row.figures.least_of_ns == 0) {
        return notes;
    }
    notes.push(match options.target {
        Some(target) => format!("could give back: at {:.0} % of the roofline", target * 100.0),
        None => {
            let best = rows.best.iter();
            let best: Vec<String> = best.map(|(category, share)| format!("{category} {}", percent(*share))).collect();
            format!("could give back: at the best share of the roofline that its family reached in this run ({})", best.join(", "))
        }
    });
    if rows.is_beyond {
        notes.push(
            "more than 100 % of the roofline: what was read came out of caches, singles were multiplied as TF32 without the kernel's name saying so, or the GPU is not what it is called"
                .to_owned(),
        );
    }
    notes
}
