//! Whether the traces hold enough to be believed.

use crate::advice::facts::{Facts, Gpu};
use crate::advice::processes::Process;
use crate::advice::rule::{Finding, Need, Rule, Verdict, is_worth};

pub(super) const RULES: [Rule; 3] = [
    Rule {
        name: "few_samples",
        title: "too few samples to say what the host did while a GPU was idle",
        remedy: "sample more often (-f 1000), record waiting threads (--realtime), and do not leave out the threads that launch",
        needs: &[Need::Gpus],
        judge: few_samples,
    },
    Rule {
        name: "records_lost",
        title: "records were lost, so all numbers are too small",
        remedy: "sample less often, record less (-I), or give the sampler a processor; `rsys-report check` says what was lost why",
        needs: &[],
        judge: records_lost,
    },
    Rule {
        name: "profiling_cost",
        title: "profiling takes so much time that it changes what it shows",
        remedy: "sample less often (-f), and record fewer calls (--gpu-level lite, no --launch-stacks)",
        needs: &[],
        judge: profiling_cost,
    },
];

/// With fewer samples of its process, idleness of a GPU is nobody's.
const FEW: u64 = 20;
/// From this share on, what was lost shows in the answers.
const LOST: f64 = 0.01;
/// Within the program, as a part of its CPU time; in the sampler, as a part of the run's time.
const COST_WITHIN: f64 = 0.1;
const COST_BESIDE: f64 = 0.5;
/// A sampler takes some of that to start and to finish, whatever the run.
const START_NS: u64 = 1_000_000_000;

/// Idle time whose cause is not known because there are no samples, or hardly any.
fn few_samples(facts: &Facts<'_>) -> Verdict {
    let mut found = Vec::new();
    if !facts.processes.iter().any(|one| one.is_sampled) {
        return Verdict::Lacks("samples of threads", "-f 300");
    }
    let users = facts.processes.iter();
    let users = users.filter(|one| one.used.is_some() && one.is_sampled);
    for process in users {
        let is_few = process.samples < FEW;
        let unknown_ns = |gpu: &Gpu| -> u64 {
            let causes = gpu.causes.iter().filter(|idle| match idle.cause.as_str() {
                "unknown_no_samples" => true,
                "host_code" | "host_off_processor" => is_few,
                _ => false,
            });
            causes.map(|idle| idle.idle_ns).sum()
        };
        let gpus = facts.gpus.iter().filter(|gpu| process.uses(gpu.owner));
        let Some(gpu) = gpus.max_by_key(|gpu| unknown_ns(gpu)) else {
            continue;
        };
        if is_worth(unknown_ns(gpu), gpu.span.duration_ns) {
            found.push(few(process, gpu, unknown_ns(gpu)));
        }
    }
    Verdict::Found(found)
}

fn few(process: &Process, gpu: &Gpu, unknown_ns: u64) -> Finding {
    Finding {
        saves_ns: None,
        place: format!("process {}", process.owner.process),
        evidence: vec![
            ("samples", process.samples.into()),
            ("unexplained_idle_ns", unknown_ns.into()),
            ("gpu", gpu.number.into()),
        ],
        span: Some(gpu.span),
        ..Finding::default()
    }
}

fn records_lost(facts: &Facts<'_>) -> Verdict {
    let Some(cost) = facts.cost.filter(|cost| cost.known("samples").is_some()) else {
        return Verdict::Lacks("what finished traces of rsys say of themselves", "");
    };
    let (lost, kept) = (
        cost.count("lost"),
        cost.count("samples") + cost.count("events"),
    );
    let share = lost as f64 / (lost + kept).max(1) as f64;
    let finding = Finding {
        evidence: vec![
            ("lost", lost.into()),
            ("recorded", kept.into()),
            ("lost_share", share.into()),
        ],
        ..Finding::default()
    };
    Verdict::Found(if share >= LOST {
        vec![finding]
    } else {
        Vec::new()
    })
}

fn profiling_cost(facts: &Facts<'_>) -> Verdict {
    let known = facts
        .cost
        .and_then(|cost| Some((cost, cost.known("program_cpu_ns")?)));
    let Some((cost, cpu_ns)) = known else {
        return Verdict::Lacks("what finished traces of rsys say of themselves", "");
    };
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let (beside_ns, within_ns) = (
        cost.count("sampler_cpu_ns"),
        cost.count("program_estimated_ns"),
    );
    let (beside, within) = (share(beside_ns, facts.run_ns), share(within_ns, cpu_ns));
    let is_much = within >= COST_WITHIN || beside >= COST_BESIDE && beside_ns >= START_NS;
    if !is_much || !is_worth(beside_ns + within_ns, facts.run_ns) {
        return Verdict::Found(Vec::new());
    }
    Verdict::Found(vec![Finding {
        evidence: vec![
            ("sampler_cpu_ns", beside_ns.into()),
            ("program_estimated_ns", within_ns.into()),
            // The one figure that each answer ends with.
            (
                "of_program_cpu_share",
                share(beside_ns + within_ns, cpu_ns).into(),
            ),
        ],
        ..Finding::default()
    }])
}
