//! What sensors say of the GPUs: clocks and memory.

use std::collections::BTreeMap;

use crate::advice::facts::Facts;
use crate::advice::owners::Span;
use crate::advice::rule::{Finding, Need, Rule, Verdict, is_worth};
use crate::table::view::View;

pub(super) const RULES: [Rule; 2] = [
    Rule {
        name: "throttling",
        title: "a GPU works with a slower clock than usual",
        remedy: "see temperature and power at that time with `rsys-report sensors`; cooling, power limits, or neighbours are the usual reasons",
        needs: &[Need::Sensors],
        judge: throttling,
    },
    Rule {
        name: "memory_full",
        title: "the memory of a GPU is nearly full",
        remedy: "see what holds it with `rsys-report memory`; allocations that fail, or that make a framework give memory back and ask again, come next",
        needs: &[Need::Sensors],
        judge: memory_full,
    },
];

/// A GPU works if it does so for one part in this many of a stretch: else its clock is slow because there is nothing to do.
const WORKS_PART: u64 = 2;
/// The sensors of memory.
const SIZE: &str = "GPU Memory Size";
const USED: &str = "GPU Memory Usage";
/// Memory is nearly full from this part on.
const FULL: f64 = 0.95;

/// The host and number of a GPU.
fn gpu<'a>(row: &View<'a>) -> (&'a str, u64) {
    (row.text("host"), row.count("device"))
}

/// What slow clocks cost, by the clock of each GPU that costs most: work takes longer as its clock is slower, at most.
fn throttling(facts: &Facts<'_>) -> Verdict {
    if !facts.sensors.iter().any(|row| row.text("unit") == "MHz") {
        return Verdict::Lacks("clocks of GPUs", "-I rocm-smi --gpu-metrics clock");
    }
    let mut clocks: BTreeMap<((&str, u64), &str), Vec<&View<'_>>> = BTreeMap::new();
    for row in &facts.slow_clocks {
        if WORKS_PART * row.count("worked_ns") >= row.count("duration_ns") {
            let clock = (gpu(row), row.text("sensor"));
            clocks.entry(clock).or_default().push(row);
        }
    }
    let mut worst: BTreeMap<(&str, u64), Finding> = BTreeMap::new();
    for ((gpu, clock), rows) in clocks {
        let sum = |key: &str| rows.iter().map(|row| row.count(key)).sum::<u64>();
        let lost_ns = sum("lost_ns");
        let Some(longest) = rows.iter().max_by_key(|row| row.count("worked_ns")) else {
            continue;
        };
        let number = |key: &str| longest.number(key).unwrap_or(0.0);
        let finding = Finding {
            saves_ns: Some(lost_ns),
            place: format!("{clock} of GPU {}", gpu.1),
            evidence: vec![
                ("worked_ns", sum("worked_ns").into()),
                ("lost_ns", lost_ns.into()),
                ("down_to_mhz", number("min").into()),
                ("usually_mhz", number("usual").into()),
                ("stretches", (rows.len() as u64).into()),
            ],
            span: Some(Span {
                start_ns: longest.count("start_ns"),
                duration_ns: longest.count("duration_ns"),
                host: facts.host_of(longest),
            }),
            ..Finding::default()
        };
        let known = worst.entry(gpu).or_default();
        if finding.saves_ns > known.saves_ns {
            *known = finding;
        }
    }
    let whole_ns = facts.gpus.iter().map(|gpu| gpu.span.duration_ns).max();
    let whole_ns = whole_ns.unwrap_or(facts.run_ns);
    let found = worst.into_values();
    let found = found.filter(|one| is_worth(one.saves_ns.unwrap_or(0), whole_ns));
    Verdict::Found(found.collect())
}

/// Memory in use beside all there is, where sensors have both.
fn memory_full(facts: &Facts<'_>) -> Verdict {
    let named = |name: &'static str| {
        let rows = facts.sensors.iter();
        rows.filter(move |row| row.text("sensor") == name)
    };
    if named(SIZE).next().is_none() {
        let switch = "-I rocm-smi --gpu-metrics mem_usage,mem_total";
        return Verdict::Lacks("how much memory GPUs have", switch);
    }
    let mut found = Vec::new();
    for total in named(SIZE) {
        let size = total.number("max").unwrap_or(0.0);
        let used = named(USED).find(|row| gpu(row) == gpu(total));
        let most = used.and_then(|row| row.number("max")).unwrap_or(0.0);
        if size > 0.0 && most >= FULL * size {
            found.push(Finding {
                saves_ns: None,
                place: format!("GPU {}", gpu(total).1),
                evidence: vec![
                    ("used_share", (most / size).into()),
                    ("used_bytes", (most as u64).into()),
                    ("size_bytes", (size as u64).into()),
                ],
                span: None,
                ..Finding::default()
            });
        }
    }
    Verdict::Found(found)
}
