//! The lock of the Python interpreter.

use std::cmp::Reverse;

use crate::advice::facts::{Facts, Gpu};
use crate::advice::owners::{Owner, Span};
use crate::advice::rule::{Finding, Need, Rule, Verdict, is_worth};

pub(super) const RULES: [Rule; 1] = [Rule {
    name: "interpreter_lock",
    title: "threads wait for the interpreter's lock, which another holds",
    remedy: "move the busy thread's work to another process (multiprocessing, a DataLoader with workers) or to code that gives the lock back (numpy, C)",
    needs: &[Need::WaitSamples],
    judge: interpreter_lock,
}];

/// How long threads of a process waited for the lock at a place.
pub(super) fn lock_wait_ns(facts: &Facts<'_>, of: Owner, place: &str) -> u64 {
    let rows = facts.interpreter.iter();
    let at_place = rows.filter(|row| facts.owner(row) == of && row.place("waits_") == place);
    at_place.map(|row| row.count("lock_wait_ns")).sum()
}

/// The thread of each process that waited longest, if another one ran Python meanwhile: the one that its waits name, else the one that ran most. Where the process uses a GPU, no more counts than that one was idle
/// for what its host did.
fn interpreter_lock(facts: &Facts<'_>) -> Verdict {
    let mut found = Vec::new();
    for process in &facts.processes {
        let rows = || {
            let rows = facts.interpreter.iter();
            rows.filter(|row| facts.owner(row) == process.owner)
        };
        let Some(waiter) = rows().max_by_key(|row| row.count("lock_wait_ns")) else {
            continue;
        };
        let others = || rows().filter(|row| row.count("thread") != waiter.count("thread"));
        let named = waiter.known("held_by_thread");
        let named = others().find(|row| named.is_some() && row.known("thread") == named);
        let ran_most = || others().min_by_key(|row| Reverse(row.count("python_ns")));
        let Some(holder) = named.or_else(ran_most) else {
            continue;
        };
        let waited_ns = waiter.count("lock_wait_ns");
        let held_ns = holder.count("python_ns");
        let idle_ns = |gpu: &Gpu| {
            let of_host = gpu.causes.iter();
            let of_host = of_host.filter(|idle| idle.cause.starts_with("host_"));
            of_host.map(|idle| idle.idle_ns).sum::<u64>()
        };
        let gpus = facts.gpus.iter().filter(|gpu| process.uses(gpu.owner));
        let limit_ns = gpus.map(idle_ns).max().unwrap_or(u64::MAX);
        let saves_ns = waited_ns.min(held_ns).min(limit_ns);
        if is_worth(saves_ns, process.recorded_ns) {
            found.push(Finding {
                saves_ns: Some(saves_ns),
                place: holder.place("holds_"),
                evidence: vec![
                    ("lock_wait_ns", waited_ns.into()),
                    ("waiting_thread", waiter.count("thread").into()),
                    ("waits_at", waiter.place("waits_").into()),
                    ("held_by_thread", holder.count("thread").into()),
                    ("ran_python_ns", held_ns.into()),
                    ("process", process.owner.process.into()),
                ],
                span: Some(Span {
                    start_ns: waiter.count("longest_at_ns"),
                    duration_ns: waiter.count("longest_ns"),
                    host: process.life.host,
                }),
                ..Finding::default()
            });
        }
    }
    Verdict::Found(found)
}
