//! What the proxies of all ranks waited for: by class of operations, and by the rank that was waited for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::causes::told;
use super::gathering::Gathering;
use super::joining::Shape;
use super::proxies::Wait;
use super::study::folder_of;
use crate::table::{Cell, Column, Table};
use rsys_traces::model::{Model, ProcessId, TextId};

/// Shares of their proxies' time from which on the waits of others for a rank are reported.
const TELLING: f64 = 0.01;

/// What proxies of all ranks did for the operations of one class. Times are sums over the ranks, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassProxies {
    communicator: String,
    shape: usize,
    /// How many ranks had any.
    ranks: u64,
    work_ns: u64,
    waits_ns: [u64; Wait::COUNT],
    /// By rank of the communicator, and the process where that is known.
    peers_ns: BTreeMap<(u64, Option<ProcessId>), u64>,
}

/// What proxies of a rank waited for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitedFor {
    by: ProcessId,
    wait_ns: u64,
    /// In which they were at work at the same operations.
    work_ns: u64,
}

/// What proxies waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct Waited {
    classes: Vec<ClassProxies>,
    /// By the rank that was waited for.
    ranks: BTreeMap<ProcessId, Vec<WaitedFor>>,
}

impl Waited {
    /// Puts together what was found of each rank. Where a job was copied, folders tell the ranks apart.
    pub(super) fn of(gathering: &Gathering, model: &Model) -> Self {
        let copied = gathering.copied();
        let folder = |communicator: TextId, id: ProcessId| match copied.contains(&communicator) {
            true => folder_of(&model.process(id).file),
            false => "",
        };
        let processes = || (0..).map(ProcessId::new).zip(&gathering.processes);
        let mut ranks: HashMap<(TextId, &str, u64), ProcessId> = HashMap::new();
        for (id, gathered) in processes() {
            let members = gathered.members.iter();
            let members = members.map(|(member, _)| (member.communicator, member.rank));
            let proxies = gathered.of_proxies.iter();
            let proxies = proxies.map(|(communicator, _, times)| (*communicator, times.rank));
            for (communicator, rank) in members.chain(proxies) {
                if let Some(rank) = rank {
                    ranks.insert((communicator, folder(communicator, id), rank), id);
                }
            }
        }
        let mut classes: BTreeMap<_, ClassProxies> = BTreeMap::new();
        let mut waited = Self::default();
        for (id, gathered) in processes() {
            for (communicator, shape, times) in &gathered.of_proxies {
                let (name, shape) = (model.text(*communicator), *shape as usize);
                let (folder, about) = (folder(*communicator, id), &gathering.shapes[shape]);
                let texts = [about.name, about.data_type].map(|text| model.text(text));
                let class = classes
                    .entry((name, folder, texts, about.bytes, about.ranks))
                    .or_insert_with(|| ClassProxies {
                        communicator: name.to_owned(),
                        shape,
                        ..ClassProxies::default()
                    });
                class.ranks += 1;
                class.work_ns += times.work_ns;
                for (sum_ns, ns) in class.waits_ns.iter_mut().zip(times.waits_ns) {
                    *sum_ns += ns;
                }
                for (&peer, &wait_ns) in &times.peers_ns {
                    let process = ranks.get(&(*communicator, folder, peer)).copied();
                    *class.peers_ns.entry((peer, process)).or_default() += wait_ns;
                    if let Some(process) = process.filter(|process| *process != id) {
                        waited.ranks.entry(process).or_default().push(WaitedFor {
                            by: id,
                            wait_ns,
                            work_ns: times.work_ns,
                        });
                    }
                }
            }
        }
        waited.classes = classes.into_values().collect();
        waited
    }

    /// What proxies of other ranks waited for this one, in words, if that is worth it.
    pub(super) fn words(&self, id: ProcessId, model: &Model) -> Option<String> {
        let mut by_rank: BTreeMap<ProcessId, (u64, u64)> = BTreeMap::new();
        for one in self.ranks.get(&id)? {
            let sums = by_rank.entry(one.by).or_default();
            sums.0 += one.wait_ns;
            sums.1 += one.work_ns;
        }
        let [wait_ns, work_ns] = by_rank
            .values()
            .fold([0, 0], |sums, one| [sums[0] + one.0, sums[1] + one.1]);
        if wait_ns == 0 || (wait_ns as f64) < TELLING * work_ns as f64 {
            return None;
        }
        let order =
            |(id, (ns, _)): &(&ProcessId, &(u64, u64))| (*ns, Reverse(model.process(**id).order()));
        let (most, (most_ns, _)) = by_rank.iter().max_by_key(order)?;
        Some(format!(
            "RCCL's proxies of other ranks waited {} for transfers with it, {:.0} % of their time; most those of {}: {}",
            told(wait_ns as f64),
            100.0 * wait_ns as f64 / work_ns as f64,
            name(model, *most),
            told(*most_ns as f64),
        ))
    }

    /// Per class of operations: what part of their time proxies waited for what. `None` where none were recorded.
    pub(super) fn table(&self, shapes: &[Shape], model: &Model) -> Option<Table> {
        let columns = [
            Column::plain("operation", "operation"),
            Column::plain("data_type", "type"),
            Column::bytes("message_bytes", "bytes"),
            Column::plain("communicator", "communicator"),
            Column::plain("ranks", "ranks"),
            Column::ns("work_ns", "at work"),
            Column::ns("gpu_wait_ns", ""),
            Column::share("gpu_wait_share", "for GPU"),
            Column::ns("peer_wait_ns", ""),
            Column::share("peer_wait_share", "for peer"),
            Column::ns("network_ns", ""),
            Column::share("network_share", "in network"),
            Column::ns("data_wait_ns", ""),
            Column::share("data_wait_share", "for data"),
            Column::ns("flush_ns", ""),
            Column::share("flush_share", "flush"),
            Column::plain("slowest_peer", ""),
            Column::plain("slowest", "slowest peer"),
            Column::ns("slowest_wait_ns", "waited for it"),
        ];
        let title = "What RCCL's proxies waited for: parts of the time in which they were at work";
        let mut table = Table::new("proxies", title, &columns);
        table.rows_in_text = 30;
        for class in &self.classes {
            let shape = &shapes[class.shape];
            let data_type = model.text(shape.data_type);
            // Operations without a call have a name alone.
            let is_known = !data_type.is_empty();
            let mut cells: Vec<Cell> = vec![
                model.text(shape.name).into(),
                is_known.then_some(data_type).into(),
                is_known.then_some(shape.bytes).into(),
                class.communicator.as_str().into(),
                class.ranks.into(),
                class.work_ns.into(),
            ];
            for wait in Wait::ALL {
                let wait_ns = class.waits_ns[wait as usize];
                cells.push(wait_ns.into());
                cells.push((wait_ns as f64 / class.work_ns as f64).into());
            }
            let slowest = class.slowest();
            cells.extend::<[Cell; 3]>([
                slowest.map(|((peer, _), _)| peer).into(),
                slowest
                    .map(|((peer, process), _)| place(model, peer, process))
                    .into(),
                slowest.map(|(_, ns)| ns).into(),
            ]);
            table.push(cells);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

/// What a rank is called.
pub(super) fn name(model: &Model, id: ProcessId) -> String {
    let process = model.process(id);
    match process.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", process.pid),
    }
}

/// A rank of a communicator as the job calls it, and its host. A process without a rank may have several.
fn place(model: &Model, peer: u64, id: Option<ProcessId>) -> String {
    let own = match id.and_then(|id| model.process(id).rank) {
        Some(rank) => format!("rank {rank}"),
        None => format!("rank {peer} of the communicator"),
    };
    match id.map_or("", |id| model.process(id).host.as_str()) {
        "" => own,
        host => format!("{own} on {host}"),
    }
}

impl ClassProxies {
    /// The rank that was waited for longest, and how long.
    fn slowest(&self) -> Option<((u64, Option<ProcessId>), u64)> {
        let peers = self.peers_ns.iter().filter(|(_, ns)| **ns > 0);
        let (peer, ns) = peers.max_by_key(|((peer, _), ns)| (**ns, Reverse(*peer)))?;
        Some((*peer, *ns))
    }
}
