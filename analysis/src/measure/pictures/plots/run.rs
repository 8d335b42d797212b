//! What was run, where and when: the title of the page.

use crate::measure::Measure;
use crate::table::{Answer, Column, Table};
use rsys_traces::model::{Batch, Kinds, Model, Process};
use rsys_traces::perfetto::clocks::WallClock;

/// The question. It needs no records.
#[derive(Debug, Default)]
pub struct RunHead;

impl Measure for RunHead {
    fn needs(&self) -> Kinds {
        Kinds::default()
    }

    fn take(&mut self, _batch: &Batch) {}

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let columns = [
            Column::plain("command", ""),
            Column::plain("host", ""),
            Column::plain("hosts", ""),
            Column::plain("ranks", ""),
            Column::plain("start_unix_ns", ""),
            Column::plain("wall_ns", ""),
        ];
        let mut table = Table::new("run", "", &columns);
        let with_command = || {
            model
                .processes
                .iter()
                .filter(|one| !one.command_line.is_empty())
        };
        // The first rank, or the process that started the others; of the programs that it executed the last.
        let first = with_command().min_by_key(|one| one.order());
        let of_first = |one: &&Process| {
            first.is_some_and(|first| (&one.host, one.pid) == (&first.host, first.pid))
        };
        if let Some(first) = with_command()
            .filter(of_first)
            .max_by_key(|one| one.start_ns)
        {
            let mut hosts: Vec<&str> = with_command().map(|one| one.host.as_str()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            let start_ns = with_command()
                .filter_map(|one| unix(one, one.start_ns))
                .min();
            let end_ns = with_command().filter_map(|one| unix(one, one.end_ns)).max();
            let wall_ns = end_ns
                .zip(start_ns)
                .and_then(|(end, start)| end.checked_sub(start));
            table.push(vec![
                first.command_line.as_str().into(),
                first.host.as_str().into(),
                (hosts.len() as u64).into(),
                first.rank_count.into(),
                start_ns.into(),
                wall_ns.into(),
            ]);
        }
        Answer {
            // It is no reason for a page.
            is_empty: true,
            tables: vec![table],
            ..Answer::default()
        }
    }
}

/// A moment of a process as nanoseconds since 1970, where both are known.
fn unix(process: &Process, boottime_ns: u64) -> Option<u64> {
    let clock = WallClock {
        points: process.wall_clock.clone(),
    };
    let at = i64::try_from(boottime_ns).ok().filter(|at| *at > 0)?;
    u64::try_from(at.checked_add(clock.ahead_at(at)?)?).ok()
}
