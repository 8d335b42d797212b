//! Several GPUs: collectives and balance.

use std::collections::BTreeMap;

use crate::advice::facts::{Facts, Gpu, Owner};
use crate::advice::rule::{Finding, Needs, Rule, Verdict, if_worth, of_each_gpu};

pub(super) const RULES: [Rule; 4] = [
    Rule {
        name: "exposed_comm",
        title: "collectives run while nothing is computed",
        remedy: "begin collectives earlier, beside computation (smaller buckets, a stream of their own), or send less; `rsys-report timeline` has the overlap",
        needs: Needs::Gpus,
        judge: exposed_comm,
    },
    Rule {
        name: "collective_calls",
        title: "a GPU waits for the host's calls of RCCL",
        remedy: "fewer and larger collectives, grouped with ncclGroupStart and ncclGroupEnd",
        needs: Needs::Calls,
        judge: collective_calls,
    },
    Rule {
        name: "gpu_imbalance",
        title: "the GPUs of a process compute for different times",
        remedy: "divide the work by what each GPU can do; see what the busiest one has more of with `rsys-report kernels --by device`",
        needs: Needs::Gpus,
        judge: gpu_imbalance,
    },
    Rule {
        name: "rank_imbalance",
        title: "the GPUs of ranks compute for different times",
        remedy: "divide the work evenly among ranks (lengths of sequences, sizes of domains, experts); the slowest rank holds all others up",
        needs: Needs::Gpus,
        judge: rank_imbalance,
    },
];

/// A collective that is begun earlier can be hidden by no more than what is computed. Who has computed less than others waits for them in collectives, which
/// is the imbalance's.
fn exposed_comm(facts: &Facts<'_>) -> Verdict {
    let with_comm = facts.gpus.iter().filter(|gpu| gpu.comm_ns > 0);
    let most_ns = with_comm.map(|gpu| gpu.computation_ns).max().unwrap_or(0);
    of_each_gpu(facts, |gpu| {
        let waited_ns = most_ns.saturating_sub(gpu.computation_ns);
        let own_ns = gpu.exposed_comm_ns.saturating_sub(waited_ns);
        vec![Finding {
            saves_ns: Some(own_ns.min(gpu.computation_ns)),
            place: format!("collectives on GPU {}", gpu.number),
            evidence: vec![
                ("exposed_ns", gpu.exposed_comm_ns.into()),
                ("communication_ns", gpu.comm_ns.into()),
                ("computation_ns", gpu.computation_ns.into()),
            ],
            span: Some(gpu.span),
        }]
    })
}

fn collective_calls(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let calls = gpu.causes.iter();
        let causes = ["collective_call", "mpi", "shmem", "ucx"];
        let calls = calls.filter(|idle| causes.contains(&idle.cause.as_str()));
        let found = calls.map(|idle| Finding {
            saves_ns: Some(idle.idle_ns.min(gpu.other_idle_ns)),
            place: idle.place.clone(),
            evidence: vec![
                ("idle_ns", idle.idle_ns.into()),
                ("times", idle.count.into()),
            ],
            span: Some(idle.longest),
        });
        found.collect()
    })
}

/// What the busiest computes more than the mean of all.
fn imbalance(gpus: &[&Gpu], place: impl Fn(&Gpu) -> String) -> Vec<Finding> {
    let (Some(most), Some(least)) = (
        gpus.iter().max_by_key(|gpu| gpu.computation_ns),
        gpus.iter().min_by_key(|gpu| gpu.computation_ns),
    ) else {
        return Vec::new();
    };
    let sum_ns: u64 = gpus.iter().map(|gpu| gpu.computation_ns).sum();
    let mean_ns = sum_ns / gpus.len() as u64;
    let span_ns = gpus.iter().map(|gpu| gpu.span.duration_ns).max();
    let finding = Finding {
        saves_ns: Some(most.computation_ns - mean_ns),
        place: place(most),
        evidence: vec![
            ("most_ns", most.computation_ns.into()),
            ("mean_ns", mean_ns.into()),
            ("least_ns", least.computation_ns.into()),
            ("least_at", place(least).into()),
            ("gpus", (gpus.len() as u64).into()),
        ],
        span: Some(most.span),
    };
    if_worth(span_ns.unwrap_or(0), finding)
}

fn gpu_imbalance(facts: &Facts<'_>) -> Verdict {
    let mut processes: BTreeMap<&Owner, Vec<&Gpu>> = BTreeMap::new();
    for gpu in &facts.gpus {
        processes.entry(&gpu.owner).or_default().push(gpu);
    }
    let place = |gpu: &Gpu| format!("GPU {} of process {}", gpu.number, gpu.owner.process);
    let found = processes.values().flat_map(|gpus| imbalance(gpus, place));
    Verdict::Found(found.collect())
}

/// Ranks are compared by their busiest GPU.
fn rank_imbalance(facts: &Facts<'_>) -> Verdict {
    let mut ranks: BTreeMap<u64, &Gpu> = BTreeMap::new();
    for gpu in &facts.gpus {
        if let Some(rank) = gpu.owner.rank {
            let busiest = ranks.entry(rank).or_insert(gpu);
            if gpu.computation_ns > busiest.computation_ns {
                *busiest = gpu;
            }
        }
    }
    if ranks.len() < 2 {
        return Verdict::Found(Vec::new());
    }
    let gpus: Vec<&Gpu> = ranks.into_values().collect();
    let place = |gpu: &Gpu| {
        let rank = gpu.owner.rank.unwrap_or(0);
        format!("rank {rank}, GPU {}", gpu.number)
    };
    Verdict::Found(imbalance(&gpus, place))
}
