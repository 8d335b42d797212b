//! Several GPUs: collectives and balance.

use std::collections::BTreeMap;

use crate::advice::compared::{Compared, OF_COMPUTING_GPUS, Straggler};
use crate::advice::facts::{Facts, Gpu, GpuKey, keyed};
use crate::advice::owners::Owner;
use crate::advice::rule::{Finding, Need, Rule, Verdict, if_worth, of_all_gpus, of_each_gpu};

pub(super) const RULES: [Rule; 7] = [
    Rule {
        name: "straggler",
        title: "the other ranks wait for this one",
        remedy: "fix what this rank does longer than the others; `rsys-report collectives` has its latest arrivals, and what all ranks would gain",
        needs: &[],
        judge: straggler,
    },
    Rule {
        name: "ranks_in_turn",
        title: "the ranks wait in collectives, now for one, now for another",
        remedy: "find what comes to all ranks at different times: work of uneven size, garbage collection, other programs on the machines; `rsys-report collectives` has the largest skews, with the rank that came last",
        needs: &[],
        judge: ranks_in_turn,
    },
    Rule {
        name: "exposed_comm",
        title: "collectives run while nothing is computed",
        remedy: "begin collectives earlier, beside computation (smaller buckets, a stream of their own), or send less; `rsys-report timeline` has the overlap",
        needs: &[Need::Gpus],
        judge: exposed_comm,
    },
    Rule {
        name: "message_wait",
        title: "GPUs wait in sends and receives for other ranks",
        remedy: "more and smaller micro-batches, stages that take equally long, a schedule that gives each GPU other work meanwhile; `rsys-report overlap --critical-path` has the chain of waits",
        needs: &[Need::Gpus],
        judge: message_wait,
    },
    Rule {
        name: "collective_calls",
        title: "a GPU waits for the host's calls of RCCL, MPI or their like",
        remedy: "fewer and larger collectives, grouped with ncclGroupStart and ncclGroupEnd",
        needs: &[Need::Gpus, Need::Calls],
        judge: collective_calls,
    },
    Rule {
        name: "gpu_imbalance",
        title: "the GPUs of a process compute for different times",
        remedy: "divide the work by what each GPU can do; see what the busiest one has more of with `rsys-report kernels --by device`",
        needs: &[Need::Gpus],
        judge: gpu_imbalance,
    },
    Rule {
        name: "rank_imbalance",
        title: "the GPUs of ranks compute for different times",
        remedy: "divide the work evenly among ranks (lengths of sequences, sizes of domains, experts); the slowest rank holds all others up",
        needs: &[Need::Gpus],
        judge: rank_imbalance,
    },
];

/// Ranks that come late to collectives by themselves, by what the job would gain if they were like the others.
fn straggler(facts: &Facts<'_>) -> Verdict {
    let Some(compared) = &facts.compared else {
        return Verdict::Found(Vec::new());
    };
    if compared.judged == 0 {
        return Verdict::Lacks(
            "collectives of which the traces of several ranks are there",
            "-I rccl",
        );
    }
    let reported = compared.reported(facts.run_ns);
    let alone = reported.alone.iter();
    let mut findings: Vec<Finding> = alone
        .map(|one| late(&[one], 0, one.saved_ns, compared))
        .collect();
    if !reported.together.is_empty() {
        let (together, more) = (&reported.together, reported.more);
        findings.push(late(together, more, reported.together_ns, compared));
    }
    Verdict::Found(findings)
}

/// Stragglers as one finding, and how many more there are.
fn late(stragglers: &[&Straggler], more: u64, saved_ns: u64, compared: &Compared) -> Finding {
    let longest = stragglers.iter().max_by_key(|one| one.late_ns);
    let cause = longest.map_or("", |one| one.cause.as_str());
    let is_common = stragglers.iter().all(|one| one.cause == cause);
    let cause = match cause {
        _ if !is_common => "several",
        "" => "unknown",
        cause => cause,
    };
    let blame_ns: u64 = stragglers.iter().map(|one| one.blame_ns).sum();
    let mut place = placed(stragglers);
    match more {
        0 => {}
        1 => place.push_str("; and one more rank"),
        more => place.push_str(&format!("; and {more} more ranks")),
    }
    Finding {
        saves_ns: Some(saved_ns),
        place,
        evidence: vec![
            ("cause", cause.into()),
            ("late_ns", longest.map_or(0, |one| one.late_ns).into()),
            ("others_waited_ns", blame_ns.into()),
            ("ranks", compared.ranks().into()),
        ],
        span: longest.map(|one| one.span),
        ..Finding::default()
    }
}

/// `rank 3 on node0: load (train.py:12)`, `ranks 3, 4, 5: gemm`: host and place as far as they are the same.
fn placed(stragglers: &[&Straggler]) -> String {
    let (mut ranks, mut processes) = (Vec::new(), Vec::new());
    for one in stragglers {
        match one.owner.rank {
            Some(rank) => ranks.push(rank),
            None => processes.push(one.owner.process),
        }
    }
    let mut parts = Vec::new();
    for (one, several, mut numbers) in [
        ("rank", "ranks", ranks),
        ("process", "processes", processes),
    ] {
        numbers.sort_unstable();
        let list: Vec<String> = numbers.iter().map(u64::to_string).collect();
        match list.len() {
            0 => {}
            1 => parts.push(format!("{one} {}", list[0])),
            _ => parts.push(format!("{several} {}", list.join(", "))),
        }
    }
    let mut text = parts.join(", ");
    let common = |of: fn(&Straggler) -> &str| {
        let first = stragglers.first().map_or("", |one| of(one));
        stragglers
            .iter()
            .all(|one| of(one) == first)
            .then_some(first)
    };
    if let Some(host) = common(|one| &one.host).filter(|host| !host.is_empty()) {
        text.push_str(&format!(" on {host}"));
    }
    if let Some(place) = common(|one| &one.place).filter(|place| !place.is_empty()) {
        text.push_str(&format!(": {place}"));
    }
    text
}

/// What the job would gain if all ranks were alike, beyond what it gains if the stragglers are, as far as a GPU waits for others, or they for it, and nothing else is done.
fn ranks_in_turn(facts: &Facts<'_>) -> Verdict {
    // Whoever is late in what is not judged may be always the same.
    let is_known = |one: &&Compared| one.judged > 0 && one.unjudged.is_none();
    let Some(compared) = facts.compared.as_ref().filter(is_known) else {
        return Verdict::Found(Vec::new());
    };
    let stragglers = compared.stragglers.iter();
    let of_stragglers_ns: u64 = stragglers.map(|one| one.replayed_ns).sum();
    let of_stragglers_ns = of_stragglers_ns.max(compared.together_saved_ns);
    let lost = facts.gpus.iter();
    let lost_ns = lost.map(|gpu| compared.lost_in_turn_ns(gpu)).max();
    let lost_ns = lost_ns.unwrap_or_else(|| compared.lost_in_turn_of_hosts_ns());
    let beyond_ns = compared.alike_saved_ns.saturating_sub(of_stragglers_ns);
    let latest = compared.latest.as_ref();
    let finding = Finding {
        saves_ns: Some(beyond_ns.min(lost_ns)),
        place: latest.map_or_else(String::new, |one| one.place.clone()),
        evidence: vec![
            ("all_alike_ns", compared.alike_saved_ns.into()),
            ("stragglers_ns", of_stragglers_ns.into()),
            ("ranks", compared.ranks().into()),
        ],
        span: latest.map(|one| one.span),
        times: compared.judged,
        ..Finding::default()
    };
    Verdict::Found(if_worth(facts.run_ns, finding))
}

/// A collective that is begun earlier can be hidden by no more than what is computed. Who waits in collectives for ranks that are late has not begun too late: that is
/// the straggler's, and who has computed less than others waits for the imbalance. GPUs run their collectives together: the one that loses most stands for all.
fn exposed_comm(facts: &Facts<'_>) -> Verdict {
    let most_ns = most_computation_ns(facts);
    let reported = facts.reported();
    // How long a rank waited for others is unknown where it is the only one.
    let with_comm = facts.gpus.iter().filter(|gpu| gpu.comm_ns > 0);
    let is_wait_known = facts.compared.is_some() || with_comm.count() > 1;
    of_all_gpus(facts, |gpu| {
        let compared = facts.compared.as_ref();
        let for_ranks_ns = compared.map_or([0; 2], |one| one.exposed_wait_ns(gpu));
        let waited_ns = most_ns
            .saturating_sub(gpu.computation_ns)
            .max(for_ranks_ns.iter().sum())
            .max(reported.of_others_ns(gpu))
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
                match is_wait_known {
                    true => ("waited_ns", waited_ns.into()),
                    false => ("waited_for_ranks", "unknown: profile all ranks".into()),
                },
                ("communication_ns", gpu.comm_ns.into()),
                ("computation_ns", gpu.computation_ns.into()),
            ],
            span: Some(gpu.span),
            times: gpu.kernels,
            ..Finding::default()
        }]
    })
}

/// What the GPU computes that computes most, of those that take part in collectives or messages.
fn most_computation_ns(facts: &Facts<'_>) -> u64 {
    let with_comm = facts.gpus.iter().filter(|gpu| gpu.comm_ns > 0);
    with_comm.map(|gpu| gpu.computation_ns).max().unwrap_or(0)
}

/// What GPUs wait for messages while they have nothing to compute, as in pipelines whose stages wait for each other; not for a rank that computes longer.
fn message_wait(facts: &Facts<'_>) -> Verdict {
    let Some(compared) = &facts.compared else {
        return Verdict::Found(Vec::new());
    };
    let most_ns = most_computation_ns(facts);
    of_all_gpus(facts, |gpu| {
        let [_, waited_ns] = compared.exposed_wait_ns(gpu);
        let imbalance_ns = most_ns.saturating_sub(gpu.computation_ns);
        let of_rank = gpu.owner.rank.map(|rank| format!(" of rank {rank}"));
        vec![Finding {
            saves_ns: Some(waited_ns.saturating_sub(imbalance_ns)),
            place: format!(
                "messages on GPU {}{}",
                gpu.number,
                of_rank.unwrap_or_default()
            ),
            evidence: vec![
                ("waited_ns", waited_ns.into()),
                ("computes_less_ns", imbalance_ns.into()),
                ("computation_ns", gpu.computation_ns.into()),
            ],
            span: Some(gpu.span),
            times: gpu.kernels,
            ..Finding::default()
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
            times: idle.times(),
            ..Finding::default()
        });
        found.collect()
    })
}

/// What a GPU computed in all of its recordings.
#[derive(Clone, Copy)]
struct Computed<'f> {
    /// The recording in which it computed most.
    gpu: &'f Gpu,
    computation_ns: u64,
    recorded_ns: u64,
    kernels: u64,
}

/// What each GPU computed.
fn computed<'f>(facts: &'f Facts<'_>) -> BTreeMap<GpuKey, Computed<'f>> {
    let mut found: BTreeMap<GpuKey, Computed<'f>> = BTreeMap::new();
    for (key, gpu) in keyed(&facts.gpus) {
        let one = found.entry(key).or_insert(Computed {
            gpu,
            computation_ns: 0,
            recorded_ns: 0,
            kernels: 0,
        });
        if gpu.computation_ns > one.gpu.computation_ns {
            one.gpu = gpu;
        }
        one.computation_ns += gpu.computation_ns;
        one.recorded_ns += gpu.span.duration_ns;
        one.kernels += gpu.kernels;
    }
    found
}

/// What the busiest computes more than the mean of all.
fn imbalance(gpus: &[(GpuKey, Computed<'_>)], place: impl Fn(&Gpu) -> String) -> Vec<Finding> {
    let (Some((_, most)), Some((_, least))) = (
        gpus.iter().max_by_key(|(_, gpu)| gpu.computation_ns),
        gpus.iter().min_by_key(|(_, gpu)| gpu.computation_ns),
    ) else {
        return Vec::new();
    };
    let sum_ns: u64 = gpus.iter().map(|(_, gpu)| gpu.computation_ns).sum();
    let mean_ns = sum_ns / gpus.len() as u64;
    let recorded_ns = gpus.iter().map(|(_, gpu)| gpu.recorded_ns).max();
    // Who works in a short part of the time only is not idle for the busiest one's sake.
    let others = gpus.iter();
    let others = others.filter(|(_, gpu)| 2 * gpu.recorded_ns >= most.recorded_ns);
    let others = others.map(|(key, gpu)| (*key, most.computation_ns - gpu.computation_ns));
    let finding = Finding {
        saves_ns: Some(most.computation_ns - mean_ns),
        place: place(most.gpu),
        evidence: vec![
            ("most_ns", most.computation_ns.into()),
            ("mean_ns", mean_ns.into()),
            ("least_ns", least.computation_ns.into()),
            ("least_at", place(least.gpu).into()),
            ("gpus", (gpus.len() as u64).into()),
        ],
        span: Some(most.gpu.span),
        times: most.kernels,
        of_gpus: others.collect(),
    };
    if_worth(recorded_ns.unwrap_or(0), finding)
}

fn gpu_imbalance(facts: &Facts<'_>) -> Verdict {
    let mut processes: BTreeMap<Owner, Vec<(GpuKey, Computed<'_>)>> = BTreeMap::new();
    for (key, gpu) in computed(facts) {
        processes.entry(key.0).or_default().push((key, gpu));
    }
    let place = |gpu: &Gpu| format!("GPU {} of process {}", gpu.number, gpu.owner.process);
    let found = processes.values().flat_map(|gpus| imbalance(gpus, place));
    Verdict::Found(found.collect())
}

/// Ranks are compared by their busiest GPU.
fn rank_imbalance(facts: &Facts<'_>) -> Verdict {
    let mut ranks: BTreeMap<u64, (GpuKey, Computed<'_>)> = BTreeMap::new();
    for (key, gpu) in computed(facts) {
        if let Some(rank) = gpu.gpu.owner.rank {
            let busiest = ranks.entry(rank).or_insert((key, gpu));
            if gpu.computation_ns > busiest.1.computation_ns {
                *busiest = (key, gpu);
            }
        }
    }
    if ranks.len() < 2 {
        return Verdict::Found(Vec::new());
    }
    let gpus: Vec<(GpuKey, Computed<'_>)> = ranks.into_values().collect();
    // Where collectives say that it computes longer, and what the others lose by that, they know better.
    let busiest = gpus.iter().max_by_key(|(_, gpu)| gpu.computation_ns);
    let is_busiest = |one: &Straggler| {
        let computes = OF_COMPUTING_GPUS.contains(&one.cause.as_str());
        computes && busiest.is_some_and(|(_, gpu)| one.is_of(gpu.gpu))
    };
    if facts.reported().of_ns(is_busiest).is_some() {
        return Verdict::Found(Vec::new());
    }
    let place = |gpu: &Gpu| {
        let rank = gpu.owner.rank.unwrap_or(0);
        format!("rank {rank}, GPU {}", gpu.number)
    };
    Verdict::Found(imbalance(&gpus, place))
}
