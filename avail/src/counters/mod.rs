//! The table of counters: whatever processor, kernel and GPU can count, each tried out.
//!
//! `generic` has the events that every kernel names, `papi` their names in PAPI; `pmus` reads the units in sysfs, `tracepoints`
//! the tracing file system, `pfm` asks libpfm4 for the processor's own names. The GPU's come from [`crate::gpu`].

mod generic;
mod papi;
mod pfm;
mod pmus;
mod tracepoints;

use anyhow::Result;
use rsys_config::backends;

use crate::cli::Request;
use crate::gpu;
use crate::perf::{Availability, Machine};
use crate::roots::Roots;
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

/// One counter.
#[derive(Debug, Clone)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Other names.
    pub also: Vec<String>,
    /// `CPU`, or `GPU 0 (gfx942)`.
    pub device: String,
    /// One of [`CATEGORIES`], behind the devices.
    pub kind: &'static str,
    /// What it counts, in one line.
    pub summary: String,
    /// What else there is to say.
    pub details: String,
    /// Whether it can be had.
    pub access: Access,
}

/// Whether a counter can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Yes,
    /// Yes, with a restriction.
    Partly(String),
    /// No: why, and what to do about it.
    No(String, String),
}

impl From<Availability> for Access {
    fn from(availability: Availability) -> Self {
        match availability {
            Availability::Yes => Self::Yes,
            Availability::UserOnly => Self::Partly("user mode only".to_owned()),
            Availability::No(reason) => Self::No(reason.text(), reason.remedy()),
        }
    }
}

/// One row per counter.
pub fn table(roots: &Roots, request: &Request) -> Result<Table> {
    let machine = Machine::of(roots);
    let columns = request.columns;
    let whole = request.advanced || request.filter.is_search();
    let mut notes = Vec::new();
    let mut counters = Vec::new();
    if !request.filter.chooses_only("counters", "GPU") {
        counters.extend(generic::counters(&machine));
        counters.extend(papi::counters(&machine));
        counters.extend(pmus::counters(roots, &machine));
        counters.extend(pfm::counters(roots, &machine, whole));
        if whole {
            counters.extend(tracepoints::counters(roots, &machine, &mut notes));
        }
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
    if backends::find("rocprofiler").is_none_or(|backend| !backend.built) {
        table.notes.push(
            "This build of rsys-sample records call stacks; the list tells what the machine could count.".to_owned(),
        );
    }
    Ok(table)
}
