//! What the proxies of all ranks waited for: by class of operations, and by the rank that was waited for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::cause::duration_text;
use super::gathering::Gathering;
use super::identity::folder_of;
use crate::measure::job::collectives::read::proxies::Wait;
use crate::measure::job::ranks::rank_name;
use rsys_traces::model::{Model, ProcessId, TextId};

/// Shares of their proxies' time from which on the waits of others for a rank are reported.
const TELLING: f64 = 0.01;

/// What proxies of all ranks did for the operations of one class. Times are sums over the ranks, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClassProxies {
    pub(crate) communicator: String,
    pub(crate) shape: usize,
    /// How many ranks had any.
    pub(crate) ranks: u64,
    pub(crate) work_ns: u64,
    pub(crate) waits_ns: [u64; Wait::COUNT],
    /// By rank of the communicator, and the process where that is known.
    pub(crate) peers_ns: BTreeMap<(u64, Option<ProcessId>), u64>,
}

/// What proxies of a rank waited for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerWait {
    by: ProcessId,
    wait_ns: u64,
    /// In which they were at work at the same operations.
    work_ns: u64,
}

/// What proxies waited for.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProxyWaits {
    pub(crate) classes: Vec<ClassProxies>,
    /// By the rank that was waited for.
    ranks: BTreeMap<ProcessId, Vec<PeerWait>>,
}

impl ProxyWaits {
    /// Puts together what was found of each rank. Where a job was copied, folders tell the ranks apart.
    pub(crate) fn of(gathering: &Gathering, model: &Model) -> Self {
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
            let proxies = gathered.proxy_times.iter();
            let proxies = proxies.map(|(communicator, _, times)| (*communicator, times.rank));
            for (communicator, rank) in members.chain(proxies) {
                if let Some(rank) = rank {
                    ranks.insert((communicator, folder(communicator, id), rank), id);
                }
            }
        }
        let mut classes: BTreeMap<_, ClassProxies> = BTreeMap::new();
        let mut found = Self::default();
        for (id, gathered) in processes() {
            for (communicator, shape, times) in &gathered.proxy_times {
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
                        found.ranks.entry(process).or_default().push(PeerWait {
                            by: id,
                            wait_ns,
                            work_ns: times.work_ns,
                        });
                    }
                }
            }
        }
        found.classes = classes.into_values().collect();
        found
    }

    /// What proxies of other ranks waited for this one, in words, if that is worth it.
    pub(crate) fn words(&self, id: ProcessId, model: &Model) -> Option<String> {
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
            duration_text(wait_ns as f64),
            100.0 * wait_ns as f64 / work_ns as f64,
            rank_name(model, *most),
            duration_text(*most_ns as f64),
        ))
    }
}
