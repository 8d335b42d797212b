//! What profiling itself cost the run, by what traces of rsys say of themselves.
//!
//! The sampler's CPU time is measured. What samples and recorded calls take within the program is estimated: by their number, and by what one of them took in
//! the measurements of `docs/benchmarks.md`.

use std::collections::BTreeMap;

use crate::table::{Cell, Column, Table};
use rsys_traces::model::{Account, Model};

/// CPU time that a sample takes from the program, with the signal.
const SAMPLE_NS: u64 = 20_000;
/// CPU time that recording a call, a kernel or a copy takes from the program.
const EVENT_NS: u64 = 700;

/// The cost of all traces together: a table of one row, whose value `text` says it in words.
#[must_use]
pub fn profiling_cost(model: &Model) -> Table {
    let columns = [
        Column::ns("sampler_cpu_ns", ""),
        Column::ns("program_estimated_ns", ""),
        Column::plain("samples", ""),
        Column::plain("events", ""),
        Column::plain("lost", ""),
        Column::ns("program_cpu_ns", ""),
        Column::share("share", ""),
        Column::plain("processes_unknown", ""),
        Column::line("text", "profiling itself cost"),
    ];
    let mut table = Table::new("profiling_cost", "", &columns);
    let accounts: Vec<Account> = model
        .processes
        .iter()
        .filter_map(|one| one.account)
        .collect();
    let unknown = (model.processes.len() - accounts.len()) as u64;
    if accounts.is_empty() {
        let mut cells = vec![Cell::Null; 7];
        let text = "unknown: no trace here says so of itself";
        cells.extend::<[Cell; 2]>([unknown.into(), text.into()]);
        table.push(cells);
        return table;
    }
    let sum = |of: fn(&Account) -> u64| accounts.iter().map(of).sum::<u64>();
    let (samples, events) = (sum(|one| one.samples), sum(|one| one.events));
    let sampler_ns = sampler_cpu_ns(model);
    let within_ns = samples * SAMPLE_NS + events * EVENT_NS;
    let cpu_ns = sum(|one| one.cpu_ns);
    let is_known = accounts.iter().all(|one| one.cpu_ns > 0);
    let share = is_known.then(|| (sampler_ns + within_ns) as f64 / cpu_ns as f64);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut text = format!(
        "{:.3} s of CPU in the sampler (measured), some {:.3} s in the program (estimated, for {samples} samples and {events} recorded calls and operations)",
        seconds(sampler_ns),
        seconds(within_ns),
    );
    if let Some(share) = share {
        let (percent, cpu_s) = (100.0 * share, seconds(cpu_ns));
        text.push_str(&format!(
            ": {percent:.1} % of the program's {cpu_s:.3} s of CPU"
        ));
    }
    if unknown > 0 {
        text.push_str(&format!("; {unknown} processes do not say"));
    }
    table.push(vec![
        sampler_ns.into(),
        within_ns.into(),
        samples.into(),
        events.into(),
        sum(|one| one.lost).into(),
        is_known.then_some(cpu_ns).into(),
        share.into(),
        unknown.into(),
        text.into(),
    ]);
    table
}

/// The CPU time of all samplers. A sampler says in each trace what it had used by then.
fn sampler_cpu_ns(model: &Model) -> u64 {
    let mut samplers: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for process in &model.processes {
        if let Some(account) = process.account {
            let key = (process.boot_id.as_str(), account.sampler_pid);
            let used_ns = samplers.entry(key).or_default();
            *used_ns = account.sampler_cpu_ns.max(*used_ns);
        }
    }
    samplers.into_values().sum()
}

/// Whether a table of [`profiling_cost`] is of traces without any process: nothing was recorded in what could be read.
#[must_use]
pub fn is_of_nothing(cost: &Table) -> bool {
    let column = |key| cost.columns.iter().position(|column| column.key == key);
    let is = |key, cell: &Cell| {
        let place = column(key);
        place.is_some_and(|place| {
            cost.rows
                .iter()
                .all(|row| row.cells.get(place) == Some(cell))
        })
    };
    is("samples", &Cell::Null) && is("processes_unknown", &Cell::Count(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::Process;

    #[test]
    fn a_sampler_counts_once() {
        let mut model = Model::default();
        for (sampler_pid, sampler_cpu_ns) in [(3, 5), (3, 7), (4, 100)] {
            model.processes.push(Process {
                account: Some(Account {
                    samples: 10,
                    events: 100,
                    cpu_ns: 1_000_000,
                    sampler_pid,
                    sampler_cpu_ns,
                    ..Account::default()
                }),
                ..Process::default()
            });
        }
        let table = profiling_cost(&model);
        let cells = &table.rows[0].cells;
        assert_eq!(cells[0], Cell::Count(107));
        assert_eq!(cells[1], Cell::Count(30 * SAMPLE_NS + 300 * EVENT_NS));
        model.processes[2].account = None;
        let text = format!("{:?}", profiling_cost(&model).rows[0].cells[8]);
        assert!(text.contains("1 processes do not say"), "{text}");
        let none = profiling_cost(&Model::default());
        assert_eq!(none.rows[0].cells[0], Cell::Null);
        assert!(is_of_nothing(&none) && !is_of_nothing(&table));
        // Of other profilers.
        model.processes.truncate(1);
        model.processes[0].account = None;
        assert!(!is_of_nothing(&profiling_cost(&model)));
    }
}
