//! How work is submitted: calls that keep the host from working ahead, and launches that take longer than the kernels.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::host::{behind_calls, taken};
use crate::advice::facts::{Facts, Gpu, Idle};
use crate::advice::owners::Owner;
use crate::advice::rule::{
    Finding, Need, Rule, Verdict, is_often, is_worth, is_worth_of, of_each_gpu,
    of_each_gpu_together,
};
use crate::table::view::View;

pub(super) const RULES: [Rule; 9] = [
    Rule {
        name: "blocking_launches",
        title: "each launch waits until its kernel has ended",
        remedy: "switch off what makes launches wait: HIP_LAUNCH_BLOCKING=1 or AMD_SERIALIZE_KERNEL in the environment of the program; it is for debugging, and no work can be submitted ahead with it",
        needs: &[Need::Gpus, Need::Calls],
        judge: blocking_launches,
    },
    Rule {
        name: "sync_in_loop",
        title: "the host waits for the GPU before it submits the next work",
        remedy: "wait less often: once for many steps, or for an event of an earlier step, so that work is always submitted ahead; values that the host wants can be fetched later",
        needs: &[Need::Gpus, Need::Calls],
        judge: sync_in_loop,
    },
    Rule {
        name: "launch_bound",
        title: "launching takes longer than the kernels",
        remedy: "fewer and larger kernels: fuse them (torch.compile), make batches larger, or record the sequence once as a graph (hipGraph, torch.cuda.graphs), a longer one where it is one already",
        needs: &[Need::Gpus, Need::Calls],
        judge: launch_bound,
    },
    Rule {
        name: "graph_of_small_kernels",
        title: "a GPU is idle between the kernels of a graph",
        remedy: "launches cost nothing here, the pauses between small kernels do: fuse the operators that were recorded (torch.compile), make batches larger, or let branches of the graph run beside each other",
        needs: &[Need::Gpus, Need::Calls],
        judge: graph_of_small_kernels,
    },
    Rule {
        name: "memory_in_loop",
        title: "memory of the GPU is made and given back while it is idle",
        remedy: "allocate once and use it again; or hipMallocAsync and hipFreeAsync, or the framework's caching allocator, which wait for nothing",
        needs: &[Need::Gpus, Need::Calls],
        judge: memory_in_loop,
    },
    Rule {
        name: "runtime_calls",
        title: "a GPU waits for calls of its runtime",
        remedy: "make these calls once before the loop, or on another thread",
        needs: &[Need::Gpus, Need::Calls],
        judge: runtime_calls,
    },
    Rule {
        name: "start_up",
        title: "a GPU waits while contexts are created or code is loaded",
        remedy: "warm up before measuring: run a few steps before the profiler is active (schedule(wait=1, warmup=3, …)); in production create contexts and load modules before the first request (HIP_ENABLE_DEFERRED_LOADING=0)",
        needs: &[Need::Gpus, Need::Calls],
        judge: start_up,
    },
    Rule {
        name: "other_gpu",
        title: "a GPU waits for another one",
        remedy: "divide the work so that no GPU needs what another has just begun: smaller pieces one behind the other (pipelining), or independent work meanwhile",
        needs: &[Need::Gpus, Need::Calls],
        judge: other_gpu,
    },
    Rule {
        name: "dependency_wait",
        title: "work that was submitted waits for something else",
        remedy: "see what it waits for on the other streams at that time; independent work may go before it",
        needs: &[Need::Gpus, Need::Calls],
        judge: dependency_wait,
    },
];

/// So much of a phase of launches a GPU is idle at least, as in `pauses`: one part in this many.
const PHASE_IDLE_PART: u64 = 4;

/// A call of at least this length, and this multiple of the mean at its place, is initialisation.
const ONE_OFF_NS: u64 = 100_000_000;
const ONE_OFF_TIMES: u64 = 10;

/// Calls that come less often than this are no loop.
pub(super) const LOOP: u64 = 10;

/// Causes of `gaps` that other rules have, or that are no dependency.
const NOT_DEPENDENCIES: [&str; 19] = [
    "host_code",
    "host_wait",
    "host_off_processor",
    "host_runnable",
    "synchronisation",
    "blocking_copy",
    "runtime_call",
    "collective_call",
    "mpi",
    "shmem",
    "ucx",
    "openmp",
    "kokkos",
    "launch",
    "graph",
    "other_gpu",
    "unknown_no_samples",
    "unknown_no_call",
    // Submitted, and the trace does not show what it waited for.
    "queued",
];

/// The owners of `pauses` that wait for the GPU, behind which the host does something else.
pub(super) const WAITING: [&str; 3] = ["synchronisation", "blocking_copy", "blocked_async_copy"];

/// What calls of one kind have of the idle time of a GPU. What the host waits for data behind them is not theirs, nor what the GPU waits with the next work at hand.
pub(super) fn paused_ns(facts: &Facts<'_>, gpu: &Gpu, cause: &str) -> u64 {
    let own_ns = gpu.paused_ns(cause);
    if !WAITING.contains(&cause) {
        return own_ns;
    }
    let all_ns: u64 = WAITING.map(|cause| gpu.paused_ns(cause)).iter().sum();
    let unsubmitted_ns = gpu.idle_ns().saturating_sub(gpu.submitted_idle_ns());
    let left_ns = unsubmitted_ns.min(all_ns - taken(facts, gpu).of_pauses_ns);
    (u128::from(own_ns) * u128::from(left_ns) / u128::from(all_ns.max(1))) as u64
}

/// How often calls of one kind have emptied a GPU, if that is a loop: in a short profile, if it has come back to one place.
fn turns(gpu: &Gpu, cause: &str) -> Option<u64> {
    let of_cause = || gpu.pauses.iter().filter(|pause| pause.cause == cause);
    let count: u64 = of_cause().map(|pause| pause.count).sum();
    if count >= LOOP {
        return Some(count);
    }
    let most = of_cause().map(Idle::times).max()?;
    is_often(gpu.span.duration_ns, most).then_some(most)
}

/// Idle time behind calls that their rules say nothing of, for it is too little or no loop: it is that of what the host did there. Behind those that wait
/// for the GPU, and those that handle memory; without what `gaps` has within the calls.
pub(super) fn untold_ns(gpu: &Gpu) -> [u64; 2] {
    let untold_ns = |cause: &str, is_within: fn(&Idle) -> bool| {
        let idle_ns = gpu.paused_ns(cause);
        let is_told = |times| is_worth_of(idle_ns, gpu.span.duration_ns, times);
        let within = gpu.causes.iter().filter(|idle| is_within(idle));
        let within_ns: u64 = within.map(|idle| idle.idle_ns).sum();
        match turns(gpu, cause).is_some_and(is_told) {
            true => 0,
            false => idle_ns.saturating_sub(within_ns),
        }
    };
    [
        untold_ns("synchronisation", |idle| idle.cause == "synchronisation"),
        untold_ns("memory_call", |idle| {
            idle.cause == "runtime_call" && is_of_copies_or_memory(idle) || is_of_memory(idle)
        }),
    ]
}

/// What calls of one kind have of the idle time of a GPU, at the place with most of it, and what the host does behind them.
pub(super) fn paused(facts: &Facts<'_>, gpu: &Gpu, cause: &str) -> Option<Finding> {
    let of_cause = || gpu.pauses.iter().filter(|pause| pause.cause == cause);
    let idle_ns = paused_ns(facts, gpu, cause);
    let count: u64 = of_cause().map(|pause| pause.count).sum();
    let most = of_cause().min_by_key(|pause| (pause.place.is_empty(), Reverse(pause.idle_ns)))?;
    let longest = of_cause().max_by_key(|pause| pause.longest.duration_ns)?;
    let place = match most.place.as_str() {
        "" => most.call.clone(),
        place => format!("{} in {place}", most.call),
    };
    let times = turns(gpu, cause)?;
    let mut evidence = vec![
        ("idle_ns", idle_ns.into()),
        ("pauses", count.into()),
        ("busy_ns", gpu.busy_ns.into()),
    ];
    let behind = behind_calls(facts, gpu).filter(|(_, ns)| 2 * ns >= idle_ns);
    evidence.extend(behind.map(|(place, _)| ("host_then_in", place.into())));
    Some(Finding {
        saves_ns: Some(idle_ns),
        place,
        evidence,
        span: Some(longest.longest),
        times,
        ..Finding::default()
    })
}

/// Minimum number of launches of long kernels that are judged, and the percentage of them that has to wait.
const LAUNCHES: u64 = 20;
const HELD: u64 = 95;

/// The row of a GPU on which launches wait for their kernels.
fn held<'f>(facts: &'f Facts<'_>, gpu: &Gpu) -> Option<&'f View<'f>> {
    let row = facts.launches.get(&(gpu.owner, gpu.number))?;
    let (launches, held) = (row.count("long_launches"), row.count("held_launches"));
    (launches >= LAUNCHES && 100 * held >= HELD * launches).then_some(row)
}

/// Idle time of a GPU that would not be there if launches did not wait for their kernels: the host could have worked as long as it waited.
pub(super) fn held_ns(facts: &Facts<'_>, gpu: &Gpu) -> u64 {
    let could_run_ns = held(facts, gpu).map_or(0, |row| row.count("held_ns"));
    could_run_ns.min(gpu.idle_ns())
}

fn blocking_launches(facts: &Facts<'_>) -> Verdict {
    of_each_gpu_together(facts, |gpu| {
        let Some(row) = held(facts, gpu) else {
            return Vec::new();
        };
        vec![Finding {
            saves_ns: Some(held_ns(facts, gpu)),
            evidence: vec![
                ("launches", row.count("long_launches").into()),
                ("of_which_waited", row.count("held_launches").into()),
                ("waited_ns", row.count("held_ns").into()),
                ("idle_ns", gpu.idle_ns().into()),
            ],
            span: Some(gpu.span),
            times: row.count("held_launches"),
            ..Finding::default()
        }]
    })
}

fn sync_in_loop(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        paused(facts, gpu, "synchronisation").into_iter().collect()
    })
}

fn memory_in_loop(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let finding = paused(facts, gpu, "memory_call").map(|mut finding| {
            let once_ns: u64 = memory_once(gpu).iter().map(|(_, once_ns)| once_ns).sum();
            let left_ns = |ns: u64| ns.saturating_sub(once_ns);
            finding.saves_ns = finding.saves_ns.map(left_ns);
            if once_ns > 0 {
                finding.evidence.push(("of_start_up_ns", once_ns.into()));
            }
            finding
        });
        finding.into_iter().collect()
    })
}

/// Calls that handle memory and were long once, with the idle time within them: one of each name, for several would be a loop.
fn memory_once(gpu: &Gpu) -> Vec<(&Idle, u64)> {
    let mut once: Vec<(&Idle, u64)> = Vec::new();
    let memory = gpu.pauses.iter().filter(|one| one.cause == "memory_call");
    for one in memory.filter(|one| is_one_off(one)) {
        // Behind the call is what the host did then.
        let within = gpu.causes.iter().filter(|idle| {
            is_of_memory(idle) && idle.place.split(" in ").next() == Some(one.call.as_str())
        });
        let within_ns: u64 = within.map(|idle| idle.idle_ns).sum();
        let once_ns = one.longest.duration_ns.min(within_ns);
        match once.iter_mut().find(|(other, _)| other.call == one.call) {
            _ if once_ns < ONE_OFF_NS => {}
            Some(longest) if longest.1 < once_ns => *longest = (one, once_ns),
            Some(_) => {}
            None => once.push((one, once_ns)),
        }
    }
    once
}

/// Whether a call is the only one at its place, or took many times what the others took.
fn is_one_off(idle: &Idle) -> bool {
    let longest_ns = idle.longest.duration_ns;
    let others_ns = idle.idle_ns.saturating_sub(longest_ns);
    let others = idle.count.saturating_sub(1);
    longest_ns >= ONE_OFF_NS && longest_ns / ONE_OFF_TIMES * others >= others_ns
}

/// Where copies are as many as kernels, they are what is short, and have rules of their own.
fn launch_bound(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        if gpu.copies >= gpu.kernels || held_ns(facts, gpu) > 0 {
            return Vec::new();
        }
        let idle_ns: u64 = gpu.phases.iter().map(|phase| phase.idle_ns).sum();
        let busy_ns: u64 = gpu.phases.iter().map(|phase| phase.busy_ns).sum();
        let bursts: u64 = gpu.phases.iter().map(|phase| phase.bursts).sum();
        let longest = gpu.phases.iter().max_by_key(|phase| phase.span.duration_ns);
        let launches = |cause: &str| gpu.causes.iter().find(|idle| idle.cause == cause);
        let place = launches("launch").or(launches("host_code"));
        // Functions that compute between two launches are slow by themselves.
        let idle_ns = idle_ns - taken(facts, gpu).of_phases_ns;
        if PHASE_IDLE_PART * idle_ns < idle_ns + busy_ns {
            return Vec::new();
        }
        let finding = longest.map(|longest| Finding {
            saves_ns: Some(idle_ns),
            place: place.map_or_else(String::new, |idle| idle.place.clone()),
            evidence: vec![
                ("idle_ns", idle_ns.into()),
                ("busy_ns", busy_ns.into()),
                ("bursts_of_kernels", bursts.into()),
                ("phases", (gpu.phases.len() as u64).into()),
                ("mean_burst_ns", (busy_ns / bursts.max(1)).into()),
                ("mean_pause_ns", (idle_ns / bursts.max(1)).into()),
            ],
            span: Some(longest.span),
            times: bursts,
            ..Finding::default()
        });
        finding.into_iter().collect()
    })
}

fn graph_of_small_kernels(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let of_graphs = gpu.causes.iter().filter(|idle| idle.cause == "graph");
        let found = of_graphs.map(|idle| Finding {
            saves_ns: Some(idle.idle_ns),
            place: idle.place.clone(),
            evidence: vec![
                ("idle_ns", idle.idle_ns.into()),
                ("busy_ns", gpu.busy_ns.into()),
                ("times", idle.count.into()),
                ("longest_ns", idle.longest.duration_ns.into()),
            ],
            span: Some(idle.longest),
            times: idle.times(),
            ..Finding::default()
        });
        found.collect()
    })
}

/// Idle times with one of the causes of `gaps`, each place alone.
fn of_causes(gpu: &Gpu, is_meant: impl Fn(&str) -> bool, owned_ns: u64) -> Vec<Finding> {
    let mut left_ns = gpu.other_idle_ns.saturating_sub(owned_ns);
    let meant = gpu.causes.iter().filter(|idle| is_meant(&idle.cause));
    let found = meant.map(|idle| {
        let saves_ns = idle.idle_ns.min(left_ns);
        left_ns -= saves_ns;
        Finding {
            saves_ns: Some(saves_ns),
            place: idle.place.clone(),
            evidence: vec![
                ("idle_ns", idle.idle_ns.into()),
                ("times", idle.count.into()),
                ("longest_ns", idle.longest.duration_ns.into()),
            ],
            span: Some(idle.longest),
            times: idle.times(),
            ..Finding::default()
        }
    });
    found.collect()
}

/// Idle time that the host's own code and waits have.
fn host_ns(gpu: &Gpu) -> u64 {
    let host = gpu.causes.iter();
    let host = host.filter(|idle| idle.cause.starts_with("host_"));
    host.map(|idle| idle.idle_ns).sum()
}

/// Whether a call copies, or makes memory or gives it back.
fn is_of_copies_or_memory(idle: &Idle) -> bool {
    let words = ["Malloc", "Free", "HostAlloc", "Memcpy", "Memset"];
    words.iter().any(|word| idle.place.contains(word))
}

/// Whether idle time lies within a call that makes memory or gives it back, which may wait for the GPU.
fn is_of_memory(idle: &Idle) -> bool {
    let words = ["Malloc", "Free", "HostAlloc"];
    ["runtime_call", "synchronisation"].contains(&idle.cause.as_str())
        && words.iter().any(|word| idle.place.contains(word))
}

/// What calls that were long once have for that.
fn once_ns(idle: &Idle) -> u64 {
    match is_one_off(idle) && !is_of_copies_or_memory(idle) {
        true => idle.longest.duration_ns,
        false => 0,
    }
}

/// Calls that copy, and those that make memory or give it back, have their own rules.
fn runtime_calls(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let left_ns = |idle: &Idle| match is_start_up(idle) || is_of_copies_or_memory(idle) {
            true => 0,
            false => idle.idle_ns.saturating_sub(once_ns(idle)),
        };
        calls(gpu, left_ns).into_iter().collect()
    })
}

/// Idle time within calls of the runtime, as far as it is meant. Calls that come in turns in one loop are one finding, at the place with most of the time.
fn calls(gpu: &Gpu, meant_ns: impl Fn(&Idle) -> u64) -> Option<Finding> {
    let calls = gpu.causes.iter();
    let calls = calls.filter(|idle| idle.cause == "runtime_call" && meant_ns(idle) > 0);
    let calls: Vec<&Idle> = calls.collect();
    let most = calls
        .iter()
        .max_by_key(|idle| (idle.place.contains(" in "), meant_ns(idle)))?;
    let idle_ns: u64 = calls.iter().map(|idle| meant_ns(idle)).sum();
    let count: u64 = calls.iter().map(|idle| idle.count).sum();
    Some(Finding {
        saves_ns: Some(idle_ns.min(gpu.other_idle_ns)),
        place: most.place.clone(),
        evidence: vec![
            ("idle_ns", idle_ns.into()),
            ("times", count.into()),
            ("idle_there_ns", meant_ns(most).into()),
            ("longest_ns", most.longest.duration_ns.into()),
        ],
        span: Some(most.longest),
        times: calls.iter().map(|idle| idle.times()).sum(),
        ..Finding::default()
    })
}

/// Whether a call makes what is made once: a context, a stream, code on the GPU. In a loop it is a call like others.
fn is_start_up(idle: &Idle) -> bool {
    let call = idle.place.split(" in ").next().unwrap_or_default();
    let words = [
        "ModuleLoad",
        "LibraryLoad",
        "ModuleGetFunction",
        "GetProcAddress",
        "CtxCreate",
        "PrimaryCtx",
        "StreamCreate",
        "SetDevice",
        "__hipRegister",
        "DeviceSetLimit",
    ];
    let is_one = words.iter().any(|word| call.contains(word)) || call.ends_with("Init");
    is_one && idle.count < LOOP
}

/// Each program takes some time before its first operation, and one that computes little has nothing to gain by that.
const START_UP_LEAST_NS: u64 = 1_000_000_000;

/// Before the first operation of a GPU: what a call has that makes what is made once, or is long once.
fn before_ns(idle: &Idle) -> u64 {
    let is_call = ["runtime_call", "synchronisation"].contains(&idle.cause.as_str());
    match () {
        () if !is_call => 0,
        () if is_start_up(idle) => idle.idle_ns,
        () if is_one_off(idle) => idle.longest.duration_ns,
        () => 0,
    }
}

/// Such calls of a process, before anything ran on any of its GPUs: all of their time, and the longest of them.
pub(super) fn start_up_before<'f>(facts: &'f Facts<'_>, owner: Owner) -> Option<(u64, &'f Idle)> {
    let gpus = facts.gpus.iter();
    // What goes before the first operation of another one may be a wait for work.
    let first = gpus
        .filter(|gpu| gpu.owner == owner && gpu.is_first)
        .min_by_key(|gpu| gpu.span.start_ns)?;
    let longest = first.before.iter().max_by_key(|idle| before_ns(idle))?;
    let ns: u64 = first.before.iter().map(before_ns).sum();
    (ns >= START_UP_LEAST_NS).then_some((ns, longest))
}

/// The names of these calls say what they are: even one of them is no accident of a short trace.
fn start_up(facts: &Facts<'_>) -> Verdict {
    let Verdict::Found(mut found) = start_up_within(facts) else {
        return Verdict::Found(Vec::new());
    };
    let owners: BTreeSet<Owner> = facts.gpus.iter().map(|gpu| gpu.owner).collect();
    let before = owners.into_iter().filter_map(|owner| {
        let (ns, longest) = start_up_before(facts, owner)?;
        is_worth(ns, facts.run_ns).then(|| Finding {
            saves_ns: Some(ns),
            place: longest.place.clone(),
            evidence: vec![
                ("before_first_operation_ns", ns.into()),
                ("longest_ns", longest.longest.duration_ns.into()),
                ("process", owner.process.into()),
            ],
            span: Some(longest.longest),
            ..Finding::default()
        })
    });
    // Ranks begin alike: the slowest stands for all.
    found.extend(before.max_by_key(|one| one.saves_ns));
    Verdict::Found(found)
}

fn start_up_within(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let made_ns = |idle: &Idle| match is_start_up(idle) {
            true => idle.idle_ns,
            false => once_ns(idle),
        };
        let mut finding = calls(gpu, made_ns);
        for (one, once_ns) in memory_once(gpu) {
            let of_calls_ns = finding.as_ref().and_then(|finding| finding.saves_ns);
            let together_ns = of_calls_ns.unwrap_or(0) + once_ns;
            if of_calls_ns < Some(once_ns) {
                finding = Some(Finding {
                    place: match one.place.as_str() {
                        "" => one.call.clone(),
                        place => format!("{} in {place}", one.call),
                    },
                    evidence: vec![("longest_ns", once_ns.into())],
                    span: Some(one.longest),
                    ..Finding::default()
                });
            }
            if let Some(finding) = &mut finding {
                finding.saves_ns = Some(together_ns);
                finding.evidence.retain(|(name, _)| *name != "idle_ns");
                finding.evidence.insert(0, ("idle_ns", together_ns.into()));
            }
        }
        let finding = finding.map(|finding| Finding {
            times: LOOP,
            ..finding
        });
        finding.into_iter().collect()
    })
}

fn other_gpu(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| of_causes(gpu, |cause| cause == "other_gpu", 0))
}

/// Waits whose reason is in the trace. Of what was queued for no known reason nothing is said: the GPU may have been another process's.
fn dependency_wait(facts: &Facts<'_>) -> Verdict {
    let is_meant = |cause: &str| !NOT_DEPENDENCIES.contains(&cause);
    let is_known = |gpu: &Gpu| gpu.causes.iter().any(|idle| is_meant(&idle.cause));
    let queued_ns = |gpu: &Gpu| -> u64 {
        let queued = gpu.causes.iter().filter(|idle| idle.cause == "queued");
        queued.map(|idle| idle.idle_ns).sum()
    };
    let is_unknown = |gpu: &Gpu| is_worth(queued_ns(gpu), gpu.span.duration_ns);
    if !facts.gpus.iter().any(is_known) && facts.gpus.iter().any(is_unknown) {
        return Verdict::Lacks("what submitted work waited for", "-I rocm,hsa");
    }
    of_each_gpu(facts, |gpu| of_causes(gpu, is_meant, host_ns(gpu)))
}
