//! Time in MPI beside the CPU time of processes: two answers have them, and a reader wants to see them in one row.

use crate::table::{Answer, Cell, Column, Row, Table};

/// What says whose a row is.
const OWNER: [&str; 3] = ["rank", "host", "process"];

/// The processes of `functions` with the time of their threads in MPI, which `calls` has; `None` where nothing called MPI.
pub(super) fn with_mpi(processes: &Table, answer: &Answer) -> Option<Table> {
    let (_, calls) = answer.parts.iter().find(|(name, _)| *name == "calls")?;
    let runtimes = calls.tables.iter().find(|table| table.key == "runtimes")?;
    let (name, time) = (place(runtimes, "runtime")?, place(runtimes, "time_ns")?);
    let cpu = place(processes, "cpu_ns")?;
    let of_mpi = |row: &&Row| row.cells[name] == Cell::from("MPI");
    let times: Vec<_> = runtimes
        .rows
        .iter()
        .filter(of_mpi)
        .map(|row| (owner(runtimes, row), &row.cells[time]))
        .collect();
    if times.is_empty() {
        return None;
    }
    let mut table = processes.clone();
    table
        .columns
        .insert(cpu + 1, Column::ns("mpi_ns", "in MPI"));
    for (row, process) in table.rows.iter_mut().zip(&processes.rows) {
        let own = owner(processes, process);
        let time = times.iter().find(|(other, _)| *other == own);
        let cell = time.map_or(Cell::Null, |(_, time)| (*time).clone());
        row.cells.insert(cpu + 1, cell);
    }
    Some(table)
}

fn place(table: &Table, key: &str) -> Option<usize> {
    table.columns.iter().position(|column| column.key == key)
}

/// Whose a row is.
fn owner<'t>(table: &Table, row: &'t Row) -> [Option<&'t Cell>; 3] {
    OWNER.map(|key| row.cells.get(place(table, key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_its_time_in_mpi() {
        let table = |key: &'static str, columns: &[Column], rows: &[Vec<Cell>]| {
            let all = [&OWNER.map(|key| Column::plain(key, ""))[..], columns].concat();
            let mut table = Table::new(key, "", &all);
            rows.iter().for_each(|row| table.push(row.clone()));
            table
        };
        let row = |rank: u64, cells: &[Cell]| {
            let owner = OWNER.iter().map(|_| Cell::from(rank));
            owner.chain(cells.iter().cloned()).collect::<Vec<_>>()
        };
        let processes = table(
            "processes",
            &[
                Column::plain("samples", ""),
                Column::ns("cpu_ns", "CPU"),
                Column::ns("wait_ns", "waits"),
            ],
            &[
                row(0, &[1_u64.into(), 7_u64.into(), 2_u64.into()]),
                row(1, &[1_u64.into(), 8_u64.into(), 3_u64.into()]),
            ],
        );
        let runtimes = |name: &str| {
            table(
                "runtimes",
                &[Column::plain("runtime", ""), Column::ns("time_ns", "")],
                &[
                    row(1, &["HIP".into(), 5_u64.into()]),
                    row(1, &[name.into(), 6_u64.into()]),
                ],
            )
        };
        let answer = |name: &str| Answer {
            parts: vec![(
                "calls",
                Answer {
                    tables: vec![runtimes(name)],
                    ..Answer::default()
                },
            )],
            ..Answer::default()
        };
        assert!(with_mpi(&processes, &answer("RCCL")).is_none());
        let found = with_mpi(&processes, &answer("MPI")).expect("MPI was called");
        let at = OWNER.len() + 2;
        assert_eq!(found.columns[at].key, "mpi_ns");
        let times: Vec<&Cell> = found.rows.iter().map(|row| &row.cells[at]).collect();
        assert_eq!(times, [&Cell::Null, &Cell::from(6_u64)]);
        assert_eq!(found.rows[1].cells[at + 1], Cell::from(3_u64));
    }
}
