//! Several GPUs: collectives and balance.

use std::collections::BTreeMap;

use crate::advice::compared::Straggler;
use crate::advice::facts::{Facts, Gpu, Owner};
use crate::advice::rule::{
    Finding, Needs, Rule, Verdict, if_worth, is_worth, of_all_gpus, of_each_gpu,
};

pub(super) const RULES: [Rule; 5] = [
    Rule {
        name: "straggler",
        title: "the other ranks wait for this one in collectives",
        remedy: "mend what this rank does longer than the others; `rsys-report collectives` has its latest arrivals, and what all ranks would gain",
        needs: Needs::Nothing,
        judge: straggler,
    },
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

/// Ranks that come late to collectives by themselves, by what the job would gain if they were like the others.
fn straggler(facts: &Facts<'_>) -> Verdict {
    let Some(compared) = &facts.compared else {
        return Verdict::Found(Vec::new());
    };
    if compared.judged == 0 {
        return Verdict::Lacks("collectives with records of all their ranks", "-I rccl");
    }
    let late = compared.stragglers.iter().filter(|one| is_late(one, facts));
    let findings = late.map(|one| {
        let who = match one.owner.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", one.owner.process),
        };
        let who = match one.host.as_str() {
            "" => who,
            host => format!("{who} on {host}"),
        };
        let place = match one.place.as_str() {
            "" => who,
            place => format!("{who}: {place}"),
        };
        let cause = match one.cause.as_str() {
            "" => "unknown",
            cause => cause,
        };
        Finding {
            saves_ns: Some(one.saved_ns),
            place,
            evidence: vec![
                ("cause", cause.into()),
                ("late_ns", one.late_ns.into()),
                ("others_waited_ns", one.blame_ns.into()),
                ("ranks", compared.ranks().into()),
            ],
            span: one.span,
        }
    });
    Verdict::Found(findings.collect())
}

/// Whether a straggler costs the job enough to be a finding.
fn is_late(straggler: &Straggler, facts: &Facts<'_>) -> bool {
    is_worth(straggler.saved_ns, facts.run_ns)
}

/// A collective that is begun earlier can be hidden by no more than what is computed. Who waits in collectives for ranks that are late has not begun too late: that is
/// the straggler's, and who has computed less than others waits for the imbalance. GPUs run their collectives together: the one that loses most stands for all.
fn exposed_comm(facts: &Facts<'_>) -> Verdict {
    let with_comm = facts.gpus.iter().filter(|gpu| gpu.comm_ns > 0);
    let most_ns = with_comm.map(|gpu| gpu.computation_ns).max().unwrap_or(0);
    of_all_gpus(facts, |gpu| {
        let compared = facts.compared.as_ref();
        let for_ranks_ns = compared.map_or(0, |one| one.exposed_wait_ns(gpu, &facts.gpus));
        let waited_ns = most_ns
            .saturating_sub(gpu.computation_ns)
            .max(for_ranks_ns)
            .min(gpu.exposed_comm_ns);
        let own_ns = gpu.exposed_comm_ns.saturating_sub(waited_ns);
        let of_rank = gpu.owner.rank.map(|rank| format!(" of rank {rank}"));
        vec![Finding {
            saves_ns: Some(own_ns.min(gpu.computation_ns)),
            place: format!(
                "collectives on GPU {}{}",
                gpu.number,
                of_rank.unwrap_or_default()
            ),
            evidence: vec![
                ("exposed_ns", gpu.exposed_comm_ns.into()),
                ("waited_ns", waited_ns.into()),
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
    // Where collectives say that it computes longer, and what the others lose by that, they know better.
    let busiest = gpus.iter().max_by_key(|gpu| gpu.computation_ns);
    let busiest = busiest.and_then(|gpu| gpu.owner.rank);
    let computes = ["longer_kernels", "more_kernels", "slow_clock"];
    let mut known = facts.compared.iter().flat_map(|one| &one.stragglers);
    if known.any(|one| {
        one.owner.rank == busiest && computes.contains(&one.cause.as_str()) && is_late(one, facts)
    }) {
        return Verdict::Found(Vec::new());
    }
    let place = |gpu: &Gpu| {
        let rank = gpu.owner.rank.unwrap_or(0);
        format!("rank {rank}, GPU {}", gpu.number)
    };
    Verdict::Found(imbalance(&gpus, place))
}
