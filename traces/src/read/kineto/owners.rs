//! Whose the operations of queues are, in files with calls of several processes that say no ranks.
//!
//! An operation has the link of the call that it is of, but each process may count links from one. Then times tell: a call comes before what it launches, and
//! of several such calls the nearest. Where processes run in step, and operations wait for their GPU, the nearest call is not always the right one: a GPU is judged as
//! a whole, or else a queue, unless several processes use it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Clocks of the host and of GPUs may differ by so much, and delays that differ by less say nothing.
const NEAR_NS: i64 = 10_000;
/// Calls of one link that are looked at for an operation: the nearest.
const LOOKED: usize = 64;

/// A queue: the process id that its operations have, and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    pid: i64,
    stream: Vec<u8>,
}

impl Queue {
    pub(super) fn new(pid: i64, stream: &[u8]) -> Self {
        let stream = stream.to_vec();
        Self { pid, stream }
    }
}

/// A call with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) time_ns: i64,
    pub(super) pid: i64,
    /// It launches many operations.
    pub(super) is_graph: bool,
}

/// Calls by their links.
type Calls = HashMap<i64, Vec<Call>>;

/// The calls of a link that may have launched what began at a time.
fn earlier(calls: &Calls, link: i64, time_ns: i64) -> &[Call] {
    let calls = calls.get(&link).map_or(&[][..], Vec::as_slice);
    let limit_ns = time_ns.saturating_add(NEAR_NS);
    &calls[..calls.partition_point(|call| call.time_ns <= limit_ns)]
}

/// The processes that used queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    of_queues: HashMap<Queue, i64>,
    /// Queues of several processes, whose operations are told apart by their calls.
    shared: HashSet<Queue>,
    calls: Calls,
}

impl Owners {
    /// Whether operations of one queue are of several processes.
    pub(super) fn share(&self) -> bool {
        !self.shared.is_empty()
    }

    /// The process that used a queue.
    pub(super) fn of_queue(&self, queue: &Queue) -> Option<i64> {
        self.of_queues.get(queue).copied()
    }

    /// The process of an operation of a queue that several use.
    pub(super) fn of_operation(&self, queue: &Queue, link: i64, time_ns: i64) -> Option<i64> {
        let calls = self.shared.get(queue).map(|_| &self.calls)?;
        let nearest = earlier(calls, link, time_ns).last();
        let nearest = nearest.or_else(|| calls.get(&link)?.first());
        nearest.map(|call| call.pid)
    }
}

/// When operations began, by link.
type Operations = HashMap<i64, Vec<i64>>;

/// How operations fit the calls of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Fit {
    /// Operations that have the link of a call.
    linked: u64,
    /// Those that one of its calls may have launched.
    launched: u64,
    /// How long these came behind their calls.
    delay_ns: i128,
}

impl Fit {
    fn mean_ns(&self) -> i128 {
        self.delay_ns / i128::from(self.launched.max(1))
    }
}

/// How operations fit the calls of each process.
#[derive(Debug)]
struct Fits {
    of: BTreeMap<i64, Fit>,
    /// Operations with a call in front of them.
    known: u64,
}

impl Fits {
    fn most(&self) -> u64 {
        let launched = self.of.values().map(|fit| fit.launched);
        launched.max().unwrap_or(0)
    }

    /// Whether one process may have launched nearly all.
    fn are_of_one(&self) -> bool {
        self.most() >= self.known - self.known / 10
    }

    /// The process that launched them. Where several may have, it is the one by order.
    fn owner(&self, by_order: Option<i64>, rivals: &mut BTreeSet<i64>) -> Option<i64> {
        let mut may_be: Vec<(i64, Fit)> = self.of.iter().map(|(pid, fit)| (*pid, *fit)).collect();
        if self.known == 0 {
            // The clocks say nothing.
            let most = may_be.iter().map(|(_, fit)| fit.linked).max();
            may_be.retain(|(_, fit)| Some(fit.linked) == most);
        } else {
            let most = self.most();
            may_be.retain(|(_, fit)| fit.launched >= most - most / 1000);
            let least = may_be.iter().map(|(_, fit)| fit.mean_ns()).min();
            let near = least.unwrap_or(0) + i128::from(NEAR_NS);
            may_be.retain(|(_, fit)| fit.mean_ns() <= near);
        }
        if may_be.len() > 1 {
            rivals.extend(may_be.iter().map(|(pid, _)| *pid));
        }
        let mut pids = may_be.iter().map(|(pid, _)| *pid);
        let first = pids.clone().next();
        by_order.filter(|pid| pids.any(|one| one == *pid)).or(first)
    }
}

/// Calls and operations with links.
#[derive(Debug, Default)]
pub(super) struct Uses {
    calls: Calls,
    queues: HashMap<Queue, Operations>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) owners: Owners,
    /// How many operations processes have.
    pub(super) linked: BTreeMap<i64, u64>,
    /// How many processes may have used the same queue, where nothing tells which did.
    pub(super) rivals: usize,
}

impl Judged {
    fn are_of(&mut self, queues: impl IntoIterator<Item = Queue>, owner: Option<i64>, fits: &Fits) {
        if let Some(pid) = owner {
            *self.linked.entry(pid).or_default() += fits.of[&pid].linked;
            let queues = queues.into_iter().map(|queue| (queue, pid));
            self.owners.of_queues.extend(queues);
        }
    }

    fn is_shared(&mut self, queue: Queue, fits: &Fits) {
        for (pid, fit) in &fits.of {
            *self.linked.entry(*pid).or_default() += fit.launched;
        }
        self.owners.shared.insert(queue);
    }
}

impl Uses {
    pub(super) fn operation(&mut self, queue: Queue, link: i64, time_ns: i64) {
        let of_queue = self.queues.entry(queue).or_default();
        of_queue.entry(link).or_default().push(time_ns);
    }

    pub(super) fn call(&mut self, link: i64, call: Call) {
        self.calls.entry(link).or_default().push(call);
    }

    /// All was read.
    pub(super) fn judge(mut self) -> Judged {
        for calls in self.calls.values_mut() {
            calls.sort_unstable();
            calls.dedup();
        }
        let mut gpus: BTreeMap<i64, Vec<(Queue, Operations)>> = BTreeMap::new();
        for (queue, operations) in std::mem::take(&mut self.queues) {
            let of_gpu = gpus.entry(queue.pid).or_default();
            of_gpu.push((queue, operations));
        }
        let fits = gpus.iter().map(|(gpu, queues)| {
            let mut all = Operations::new();
            for (link, times) in queues.iter().flat_map(|(_, operations)| operations) {
                all.entry(*link).or_default().extend(times);
            }
            (*gpu, self.fits(&mut all))
        });
        let mut fits: BTreeMap<i64, Fits> = fits.collect();
        fits.retain(|_, fits| !fits.of.is_empty());
        let users = fits.values().flat_map(|fits| fits.of.keys().copied());
        let users: BTreeSet<i64> = users.collect();
        // The first process may be that of the first GPU, and so on.
        let is_paired = fits.len() == users.len();
        let mut by_order = is_paired.then_some(users).into_iter().flatten();
        let mut judged = Judged::default();
        let mut rivals = BTreeSet::new();
        for (gpu, fits) in fits {
            let by_order = by_order.next();
            let queues = gpus.remove(&gpu).unwrap_or_default();
            if fits.are_of_one() {
                let owner = fits.owner(by_order, &mut rivals);
                judged.are_of(queues.into_iter().map(|(queue, _)| queue), owner, &fits);
                continue;
            }
            for (queue, mut operations) in queues {
                let fits = self.fits(&mut operations);
                if fits.are_of_one() {
                    let owner = fits.owner(by_order, &mut rivals);
                    judged.are_of([queue], owner, &fits);
                } else {
                    judged.is_shared(queue, &fits);
                }
            }
        }
        judged.rivals = match judged.linked.is_empty() {
            true => {
                let pids = self.calls.values().flatten().map(|call| call.pid);
                pids.collect::<BTreeSet<i64>>().len()
            }
            false => rivals.len(),
        };
        if judged.owners.share() {
            judged.owners.calls = self.calls;
        }
        judged
    }

    /// How operations fit the calls of each process.
    fn fits(&self, operations: &mut Operations) -> Fits {
        let (mut fits, mut known): (BTreeMap<i64, Fit>, u64) = (BTreeMap::new(), 0);
        let mut seen: Vec<i64> = Vec::new();
        for (link, times) in operations {
            let Some(calls) = self.calls.get(link) else {
                continue;
            };
            seen.clear();
            for call in calls {
                if !seen.contains(&call.pid) {
                    seen.push(call.pid);
                    fits.entry(call.pid).or_default().linked += times.len() as u64;
                }
            }
            times.sort_unstable();
            let mut before_ns = i64::MIN;
            for &time_ns in times.iter() {
                let earlier = earlier(&self.calls, *link, time_ns);
                let Some(nearest) = earlier.last() else {
                    continue;
                };
                known += 1;
                seen.clear();
                for call in earlier.iter().rev().take(LOOKED) {
                    if seen.contains(&call.pid) {
                        continue;
                    }
                    seen.push(call.pid);
                    // A call launches one operation: the next is of the call of another that came since.
                    let is_spent = call.time_ns <= before_ns && nearest.time_ns > before_ns;
                    if !is_spent || call.is_graph {
                        let fit = fits.entry(call.pid).or_default();
                        fit.launched += 1;
                        fit.delay_ns += i128::from(time_ns) - i128::from(call.time_ns);
                    }
                }
                before_ns = time_ns;
            }
        }
        Fits { of: fits, known }
    }
}
