//! The table of counters: whatever processor, kernel and GPU can count, each tried out ([`rsys_machine::events`], [`crate::gpu`]).

use anyhow::Result;
use rsys_machine::events::{self, Access};
use rsys_machine::perf::Machine;
use rsys_machine::roots::Roots;

use crate::gpu;
use crate::request::Request;
use crate::table::{Cell, Column, Table};

/// The categories of the table: devices, then kinds.
pub const CATEGORIES: [&str; 11] = [
    "CPU",
    "GPU",
    "Software",
    "Hardware",
    "Cache",
    "PMU",
    "Tracepoint",
    "Libpfm",
    "PAPI",
    "Sensor",
    "Counter",
];

/// One row per counter.
pub fn table(roots: &Roots, request: &Request) -> Result<Table> {
    let machine = Machine::of(roots);
    let columns = request.columns;
    let whole = request.advanced || request.filter.is_search();
    let mut notes = Vec::new();
    let mut counters = Vec::new();
    if !request.filter.chooses_only("counters", "GPU") {
        counters = events::counters(roots, &machine, whole, &mut notes);
    }
    counters.extend(gpu::counters(roots, &request.gpu_counters, &mut notes)?);

    let mut table = Table {
        name: "counters",
        title: "Counters",
        columns: vec![
            Column::new("name", true),
            Column::new("device", true),
            Column::new("available", !columns.brief),
            Column::new("reason", !columns.brief),
            Column::new("remedy", false),
            Column::new("also", columns.string),
            Column::new("category", columns.category),
            Column::new("summary", true),
            Column::new("description", columns.description),
        ],
        ..Table::default()
    };
    for counter in counters {
        let (available, reason, remedy) = match counter.access {
            Access::Yes => (true, String::new(), String::new()),
            Access::Partly(restriction) => (true, restriction, String::new()),
            Access::No(reason, remedy) => (false, reason, remedy),
        };
        let device = if counter.device.starts_with("GPU") {
            "GPU"
        } else {
            "CPU"
        };
        table.rows.push(vec![
            Cell::text(counter.name),
            Cell::text(counter.device),
            Cell::Flag(available),
            Cell::text(reason),
            Cell::text(remedy),
            Cell::list(counter.also),
            Cell::list([device, counter.kind]),
            Cell::text(counter.summary),
            Cell::text(counter.details),
        ]);
    }
    table.notes.extend(notes);
    if !whole {
        table.notes.push(
            "Tracepoints and unit masks are listed with --advanced, or with a filter.".to_owned(),
        );
    }
    table.notes.push(
        "Events of the CPU are counted with rsys-sample -C NAME, those of GPUs with -G NAME; sensors of GPUs with --gpu-metrics."
            .to_owned(),
    );
    Ok(table)
}
