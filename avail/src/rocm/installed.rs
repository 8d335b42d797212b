//! The table of ROCm's libraries on this machine.

use rsys_machine::rocm::{Environment, Library, installed};
use rsys_machine::roots::Roots;

use crate::request::Request;
use crate::table::{Cell, Column, Table};

/// One row per library, each file once.
pub fn table(roots: &Roots, request: &Request) -> Table {
    let columns = request.columns;
    let mut table = Table {
        name: "runtimes",
        title: "Runtimes of ROCm",
        columns: vec![
            Column::new("name", true),
            Column::new("version", true),
            Column::new("rocm", !columns.brief),
            Column::new("available", !columns.brief),
            Column::new("path", true),
            Column::new("found_by", true),
            Column::new("reason", columns.description),
        ],
        ..Table::default()
    };
    let found = installed(roots, &Environment::of_this_process());
    for (library, places) in &found {
        let mut row = cells(library);
        row.insert(3, Cell::Flag(library.unusable.is_none()));
        row.push(Cell::list(places.iter().cloned()));
        row.push(Cell::text(library.unusable.clone().unwrap_or_default()));
        table.rows.push(row);
    }
    if found.is_empty() {
        table.notes.push(
            "No runtime of ROCm: not in /opt/rocm*, $ROCM_PATH, $LD_LIBRARY_PATH, the loader's cache, its folders, or packages of Python."
                .to_owned(),
        );
    } else {
        table
            .notes
            .push("'rsys-avail --for PROGRAM' says which of them a program would load.".to_owned());
    }
    table
}

/// Name, version, ROCm and path of a library.
pub fn cells(library: &Library) -> Vec<Cell> {
    vec![
        Cell::text(library.kind.name()),
        Cell::text(library.version.clone()),
        Cell::text(library.rocm.clone().unwrap_or_default()),
        Cell::text(library.path.display().to_string()),
    ]
}
