//! Which processes and records are written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use rsys_analysis::containers::packed_rows::{PackedRows, RowFile};
use rsys_tables::view::View;

use crate::rows::each;
use crate::{Failure, Only, Selection};

/// A process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    /// Its process id.
    pub pid: u64,
    pub name: String,
    pub command: String,
    pub rank: Option<u64>,
    pub host: String,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Which of the nodes with the host's name it is on; see [`tell_nodes_apart`].
    nth: usize,
    is_chosen: bool,
}

impl Process {
    /// What people know it by: its rank and name.
    pub(crate) fn title(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank} {}", self.name),
            None => self.name.clone(),
        }
    }

    /// Its node. On one node, process ids and GPUs mean the same in all processes.
    pub(crate) fn node(&self) -> Node<'_> {
        (self.nth, &self.host)
    }
}

/// Which of those with this name, and the name.
pub(crate) type Node<'a> = (usize, &'a str);

/// Where a process id stands for several ranks on one host (containers of one machine, files that were merged), each further one is on a node
/// of its own.
fn tell_nodes_apart(processes: &mut [Process]) {
    let mut known: HashMap<(String, u64), Vec<u64>> = HashMap::new();
    for process in processes {
        let Some(rank) = process.rank else {
            continue;
        };
        let ranks = known
            .entry((process.host.clone(), process.pid))
            .or_default();
        let place = ranks.iter().position(|known| *known == rank);
        process.nth = place.unwrap_or(ranks.len());
        if place.is_none() {
            ranks.push(rank);
        }
    }
}

/// The records of a run, and which of them count.
#[derive(Debug)]
pub(crate) struct Run<'v> {
    pub view: &'v View,
    /// By the numbers that records have.
    processes: Vec<Process>,
    /// Times that count.
    window: Range<u64>,
    pub only: Only,
    /// For rows that have to be in order and come otherwise.
    file: Arc<RowFile>,
}

impl<'v> Run<'v> {
    /// Reads the processes.
    ///
    /// # Errors
    /// When the store is damaged.
    pub(crate) fn read(
        view: &'v View,
        selection: &Selection,
        file: &Arc<RowFile>,
    ) -> Result<Self, Failure> {
        const COLUMNS: [&str; 7] = [
            "process", "name", "command", "rank", "host", "start_ns", "end_ns",
        ];
        let mut processes = Vec::new();
        each(view, "processes", &COLUMNS, |row| {
            let rank = row.known(3);
            let ranks = selection.ranks.iter();
            let is_of_rank = |rank| {
                ranks
                    .clone()
                    .any(|(first, last)| (*first..=*last).contains(&rank))
            };
            processes.push(Process {
                pid: row.number(0),
                name: row.text(1).to_owned(),
                command: row.text(2).to_owned(),
                rank,
                host: row.text(4).to_owned(),
                start_ns: row.number(5),
                end_ns: row.number(6),
                nth: 0,
                is_chosen: selection.ranks.is_empty() || rank.is_some_and(is_of_rank),
            });
            Ok(())
        })?;
        tell_nodes_apart(&mut processes);
        let mut run = Self {
            view,
            processes,
            window: 0..u64::MAX,
            only: selection.only,
            file: Arc::clone(file),
        };
        if let Some(window) = &selection.window {
            let first_ns = run.first_ns()?;
            run.window = first_ns.saturating_add(window.start)..first_ns.saturating_add(window.end);
        }
        Ok(run)
    }

    /// The time of the first record, whatever is chosen.
    fn first_ns(&self) -> Result<u64, Failure> {
        let mut first_ns = u64::MAX;
        for (table, column) in [
            ("operations", "start_ns"),
            ("calls", "start_ns"),
            ("ranges", "start_ns"),
            ("waits", "start_ns"),
            ("samples", "time_ns"),
            ("markers", "time_ns"),
        ] {
            each(self.view, table, &[column], |row| {
                first_ns = first_ns.min(row.number(0));
                Ok(())
            })?;
        }
        Ok(if first_ns == u64::MAX { 0 } else { first_ns })
    }

    /// The same records, of some of the chosen processes.
    pub(crate) fn part(&self, ids: &[usize]) -> Self {
        let mut processes = self.processes.clone();
        for (id, process) in processes.iter_mut().enumerate() {
            process.is_chosen &= ids.contains(&id);
        }
        Self {
            view: self.view,
            processes,
            window: self.window.clone(),
            only: self.only,
            file: Arc::clone(&self.file),
        }
    }

    /// A list of rows that takes hardly any memory.
    pub(crate) fn rows<const N: usize>(&self) -> PackedRows<N> {
        PackedRows::in_file(&self.file)
    }

    /// The processes that are chosen, with their numbers.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (usize, &Process)> + Clone {
        let all = self.processes.iter().enumerate();
        all.filter(|(_, process)| process.is_chosen)
    }

    /// The nodes of the chosen processes, in the order in which they are numbered.
    pub(crate) fn nodes(&self) -> BTreeSet<Node<'_>> {
        self.processes()
            .map(|(_, process)| process.node())
            .collect()
    }

    /// The process of a record; `None` if it is not chosen.
    #[inline]
    pub(crate) fn process(&self, id: u64) -> Option<&Process> {
        let process = self.processes.get(usize::try_from(id).ok()?)?;
        process.is_chosen.then_some(process)
    }

    /// The process of a record with a begin and an end, if it is chosen and lies at least partly in the window.
    #[inline]
    pub(crate) fn during(&self, id: u64, start_ns: u64, end_ns: u64) -> Option<&Process> {
        let is_inside = start_ns < self.window.end && end_ns.max(start_ns + 1) > self.window.start;
        self.process(id).filter(|_| is_inside)
    }

    /// The process of a record with one time, if both are chosen.
    #[inline]
    pub(crate) fn at(&self, id: u64, time_ns: u64) -> Option<&Process> {
        self.process(id).filter(|_| self.window.contains(&time_ns))
    }

    /// All ranks, for people.
    pub(crate) fn all_ranks(&self) -> String {
        let ranks = self.processes.iter().filter_map(|process| process.rank);
        let ranks: BTreeSet<u64> = ranks.collect();
        match ranks.is_empty() {
            true => "none has a rank".to_owned(),
            false => ranks
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// How many ranks the job has, as far as there are traces of them.
    pub(crate) fn rank_count(&self) -> u64 {
        let ranks = self.processes.iter().filter_map(|process| process.rank);
        ranks.max().map_or(0, |last| last.saturating_add(1))
    }

    /// The processes of each file, if each rank has one: those of a rank together, others alone.
    pub(crate) fn by_rank(&self) -> BTreeMap<String, Vec<usize>> {
        let mut files: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (id, process) in self.processes() {
            let name = match process.rank {
                Some(rank) => format!("rank{rank}"),
                None => format!("process{}", process.pid),
            };
            files.entry(name).or_default().push(id);
        }
        files
    }
}
