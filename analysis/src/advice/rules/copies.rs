//! Copies that hold the host, or that nothing is done beside.

use super::submission::{paused, paused_ns};
use crate::advice::facts::{Copying, Facts, Gpu};
use crate::advice::rule::{Finding, Need, Rule, Verdict, is_worth_of, of_each_gpu};
use crate::table::Cell;
use rsys_traces::model::waits_for;

pub(super) const RULES: [Rule; 4] = [
    Rule {
        name: "blocking_copies",
        title: "copies hold the host and leave the GPU without work",
        remedy: "hipMemcpyAsync with pinned memory on a stream of its own, and a wait only where the data is needed",
        needs: &[Need::Gpus, Need::Calls],
        judge: blocking_copies,
    },
    Rule {
        name: "pageable_copies",
        title: "asynchronous copies wait, as those of pageable memory do",
        remedy: "pin the memory of the host: hipHostMalloc, hipHostRegister, pin_memory=True",
        needs: &[Need::Gpus, Need::Calls],
        judge: pageable_copies,
    },
    Rule {
        name: "small_copies",
        title: "many small copies take longer than few large ones would",
        remedy: "gather the data and copy it at once, or pass small values as arguments of kernels",
        needs: &[Need::Gpus],
        judge: small_copies,
    },
    Rule {
        name: "exposed_copies",
        title: "a GPU copies and does nothing else",
        remedy: "copy on another stream while kernels of the last or next step run; copy less, or not every step",
        needs: &[Need::Gpus],
        judge: exposed_copies,
    },
];

/// So many small copies are no coincidence.
const MANY: u64 = 200;
/// Classes of sizes of `copies` that are small.
const SMALL: [&str; 2] = ["up to 4 KiB", "up to 64 KiB"];

fn of_process<'f>(copies: &'f [Copying], gpu: &'f Gpu) -> impl Iterator<Item = &'f Copying> {
    copies.iter().filter(|one| one.owner == gpu.owner)
}

/// Time of exposed copies that calls waited for, which the calls' rules have: no more than their own copies took.
fn waited_ns(copies: &[Copying], copied_ns: Option<u64>, gpu: &Gpu) -> u64 {
    let blocked_ns: u64 = of_process(copies, gpu).map(|one| one.blocked_ns).sum();
    blocked_ns
        .min(copied_ns.unwrap_or(u64::MAX))
        .min(gpu.exposed_copies_ns)
}

/// [`waited_ns`] of calls that wait by what they are.
fn blocking_ns(facts: &Facts<'_>, gpu: &Gpu) -> u64 {
    waited_ns(&facts.blocking_copies, gpu.blocking_copies_ns, gpu)
}

/// [`waited_ns`] of asynchronous copies, of what the others leave.
fn pageable_ns(facts: &Facts<'_>, gpu: &Gpu) -> u64 {
    let copies = &facts.blocked_async_copies;
    let waited_ns = waited_ns(copies, gpu.blocked_async_copies_ns, gpu);
    waited_ns.min(gpu.exposed_copies_ns - blocking_ns(facts, gpu))
}

/// Calls that waited for copies: the GPU's idle time behind them, and the copies themselves as far as nothing hid them.
fn waiting(
    facts: &Facts<'_>,
    gpu: &Gpu,
    cause: &str,
    copies: &[Copying],
    exposed_ns: u64,
) -> Vec<Finding> {
    let Some(most) =
        of_process(copies, gpu).max_by_key(|one| (!one.place.is_empty(), one.blocked_ns))
    else {
        return Vec::new();
    };
    let sum = |of: fn(&Copying) -> u64| of_process(copies, gpu).map(of).sum::<u64>();
    let pause = paused(facts, gpu, cause);
    let idle_ns = paused_ns(facts, gpu, cause);
    let place = match most.place.as_str() {
        "" => most.call.clone(),
        place => format!("{} in {place}", most.call),
    };
    // What ran beside a copy that no call waits for has to be there: no more than that is hidden.
    let hidden_ns = exposed_ns.min(gpu.computation_ns);
    let mut evidence: Vec<(&str, Cell)> = vec![("copies", sum(|one| one.count).into())];
    // Not all traces tell it of calls.
    let bytes = Some(sum(|one| one.bytes)).filter(|bytes| *bytes > 0);
    evidence.extend(bytes.map(|bytes| ("copied_bytes", bytes.into())));
    evidence.extend::<[(&str, Cell); 3]>([
        ("blocked_ns", sum(|one| one.blocked_ns).into()),
        ("idle_ns", idle_ns.into()),
        ("exposed_ns", exposed_ns.into()),
    ]);
    vec![Finding {
        saves_ns: Some(idle_ns + hidden_ns),
        place,
        evidence,
        span: pause.and_then(|pause| pause.span).or(Some(gpu.span)),
        times: sum(|one| one.count),
        ..Finding::default()
    }]
}

fn blocking_copies(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let exposed_ns = blocking_ns(facts, gpu);
        let copies = &facts.blocking_copies;
        waiting(facts, gpu, "blocking_copy", copies, exposed_ns)
    })
}

fn pageable_copies(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let exposed_ns = pageable_ns(facts, gpu);
        let copies = &facts.blocked_async_copies;
        waiting(facts, gpu, "blocked_async_copy", copies, exposed_ns)
    })
}

/// Count, bytes and time of the small copies of a GPU, and the best bandwidth of its larger ones.
fn small(facts: &Facts<'_>, gpu: &Gpu) -> (u64, u64, u64, Option<f64>) {
    let of_gpu = || {
        facts
            .copies
            .iter()
            .filter(|row| row.count("device") == gpu.number && facts.owner(row) == gpu.owner)
    };
    let is_small = |size: &str| SMALL.contains(&size);
    let mut sums = (0, 0, 0);
    for row in of_gpu().filter(|row| is_small(row.text("size"))) {
        sums.0 += row.count("count");
        sums.1 += row.count("bytes");
        sums.2 += row.count("time_ns");
    }
    let larger = of_gpu().filter(|row| !is_small(row.text("size")));
    let best = larger.filter_map(|row| row.number("bandwidth_bytes_per_s"));
    (sums.0, sums.1, sums.2, best.reduce(f64::max))
}

/// Without larger copies to compare with, copies are taken to be able to run at this many bytes for each second: what the slowest link in use has.
const SLOW_LINK: f64 = 10e9;

/// What small copies took beyond what their bytes need, as far as they were exposed and no call waited for them.
fn small_ns(facts: &Facts<'_>, gpu: &Gpu) -> (u64, u64, u64) {
    let (count, bytes, time_ns, best) = small(facts, gpu);
    if count < MANY {
        return (count, bytes, 0);
    }
    let needed_ns = bytes as f64 / best.unwrap_or(SLOW_LINK) * 1e9;
    let free_ns = gpu.exposed_copies_ns.saturating_sub(owned_ns(facts, gpu));
    (
        count,
        bytes,
        time_ns.saturating_sub(needed_ns as u64).min(free_ns),
    )
}

/// Time of exposed copies that the rules of calls have.
fn owned_ns(facts: &Facts<'_>, gpu: &Gpu) -> u64 {
    blocking_ns(facts, gpu) + pageable_ns(facts, gpu)
}

fn small_copies(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let (count, bytes, saves_ns) = small_ns(facts, gpu);
        vec![Finding {
            saves_ns: Some(saves_ns),
            place: copy_call(facts),
            evidence: vec![
                ("copies", count.into()),
                ("copied_bytes", bytes.into()),
                ("mean_bytes", (bytes / count.max(1)).into()),
                ("exposed_ns", gpu.exposed_copies_ns.into()),
            ],
            span: Some(gpu.span),
            times: count,
            ..Finding::default()
        }]
    })
}

/// The call that copies most often; a call that returns at once, if there is one.
fn copy_call(facts: &Facts<'_>) -> String {
    let copies = facts
        .calls
        .iter()
        .filter(|row| row.text("name").contains("Memcpy"));
    let most = copies.max_by_key(|row| {
        let name = row.text("name");
        (waits_for(name).is_none(), row.count("count"))
    });
    most.map_or_else(String::new, |row| row.text("name").to_owned())
}

/// Copies of which neither a call nor their number is to blame. At most as much can be hidden as the GPU computes.
fn exposed_copies(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let (count, _, mut small_ns) = small_ns(facts, gpu);
        // Where it is a finding that there are many, what their bytes need is part of that.
        if is_worth_of(small_ns, gpu.span.duration_ns, count) {
            small_ns = small(facts, gpu).2;
        }
        let left_ns = gpu
            .exposed_copies_ns
            .saturating_sub(owned_ns(facts, gpu) + small_ns);
        vec![Finding {
            saves_ns: Some(left_ns.min(gpu.computation_ns)),
            place: copy_call(facts),
            evidence: vec![
                ("exposed_ns", left_ns.into()),
                ("computation_ns", gpu.computation_ns.into()),
            ],
            span: Some(gpu.span),
            times: gpu.copies,
            ..Finding::default()
        }]
    })
}
