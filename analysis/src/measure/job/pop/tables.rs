//! The tables.

use super::factors::factors;
use super::regions::Regions;
use crate::measure::job::ranks::{RANK, rank_cells};
use crate::measure::{DEVICE_COLUMNS, device_cells};
use crate::table::{Cell, Column, Table};
use rsys_traces::model::Model;

/// All tables of the answer.
pub(super) fn tables(regions: &Regions, model: &Model) -> Vec<Table> {
    if regions.list.is_empty() {
        return Vec::new();
    }
    vec![
        tree(regions, model),
        ranks(regions, model),
        gpus(regions, model),
    ]
}

/// The efficiencies of each region, below each other.
fn tree(regions: &Regions, model: &Model) -> Table {
    let columns = [
        Column::plain("region", "of"),
        Column::plain("metric", "efficiency"),
        Column::plain("key", ""),
        Column::plain("depth", ""),
        Column::share("share", "is"),
        Column::plain("ranks", "ranks"),
        Column::plain("gpus", "GPUs"),
        Column::ns("elapsed_ns", "time"),
        Column::plain("why", ""),
    ];
    let title = "Efficiencies of the job (POP, TALP): each is the product of those below it";
    let mut table = Table::new("pop", title, &columns);
    table.rows_in_text = 60;
    for region in &regions.list {
        let is_run = region.name.is_none();
        let factors = factors(region, regions, model).into_iter();
        // What is not known of the run is not known of its ranges.
        for factor in factors.filter(|one| is_run || one.value.is_some()) {
            let inset = "  ".repeat(factor.depth as usize);
            table.push(vec![
                region.name.as_deref().unwrap_or("the run").into(),
                format!("{inset}{}", factor.name).into(),
                factor.key.into(),
                factor.depth.into(),
                factor.value.into(),
                (region.ranks.len() as u64).into(),
                (region.gpus.len() as u64).into(),
                region.elapsed_ns().into(),
                factor.why.into(),
            ]);
        }
    }
    table
}

/// What each rank did in the run.
fn ranks(regions: &Regions, model: &Model) -> Table {
    let mut columns = RANK.to_vec();
    columns.extend([
        Column::ns("elapsed_ns", "time"),
        Column::ns("useful_ns", "useful"),
        Column::ns("mpi_ns", "in MPI"),
        Column::ns("runtime_ns", "in calls of the GPU's runtime"),
        Column::share("useful_share", "useful"),
    ]);
    let mut table = Table::new("pop_ranks", "Ranks in the run", &columns);
    table.rows_in_text = 32;
    for (process, times) in regions.list.first().map_or(&[][..], |run| &run.ranks) {
        let mut cells = rank_cells(model, *process).to_vec();
        let known = |time_ns: u64, is_known: bool| Cell::from(is_known.then_some(time_ns));
        let share = times.useful_ns() as f64 / times.elapsed_ns.max(1) as f64;
        cells.extend::<[Cell; 5]>([
            times.elapsed_ns.into(),
            times.useful_ns().into(),
            known(times.mpi_ns, regions.has_mpi),
            known(times.runtime_ns, regions.has_runtime),
            share.into(),
        ]);
        table.push(cells);
    }
    table
}

/// What each GPU did in the run.
fn gpus(regions: &Regions, model: &Model) -> Table {
    let mut columns = DEVICE_COLUMNS.to_vec();
    columns.extend([
        Column::plain("processes", ""),
        Column::ns("compute_ns", "computation"),
        Column::ns("moves_ns", "only collectives and copies"),
        Column::ns("active_ns", "busy"),
    ]);
    let mut table = Table::new("pop_gpus", "GPUs in the run", &columns);
    table.rows_in_text = 32;
    for (number, times) in regions.list.first().map_or(&[][..], |run| &run.gpus) {
        let gpu = &regions.gpus[*number];
        let mut cells = device_cells(model, gpu.devices[0]);
        cells.extend::<[Cell; 4]>([
            (gpu.devices.len() as u64).into(),
            times.compute_ns.into(),
            (times.active_ns - times.compute_ns).into(),
            times.active_ns.into(),
        ]);
        table.push(cells);
    }
    table
}
