//! Busy time that could have been used better, by what operators had to do.
//!
//! A row of `efficiency` is of one rule at most: the first of those below that it fits. What a rule counts is what the GPU would be busy for less.

use std::collections::{BTreeMap, BTreeSet};

use crate::advice::facts::{Facts, Gpu};
use crate::advice::rule::{Finding, Need, Rule, Verdict, of_busy_gpus};
use crate::table::Cell;
use crate::table::view::View;
use rsys_traces::work::{Category, Why};

pub(super) const RULES: [Rule; 5] = [
    Rule {
        name: "single_precision",
        title: "matrices are multiplied in FP32 where the GPU has a faster type",
        remedy: "torch.set_float32_matmul_precision('high') for TF32 (with ROCm also HIPBLASLT_ALLOW_TF32=1), or torch.autocast with bfloat16, if the results allow it",
        needs: &[Need::Gpus],
        judge: single_precision,
    },
    Rule {
        name: "odd_dimensions",
        title: "products of matrices with a dimension one off a multiple of 8",
        remedy: "pad the dimension (a vocabulary, hidden size or length) to the next multiple",
        needs: &[Need::Gpus],
        judge: odd_dimensions,
    },
    Rule {
        name: "small_products",
        title: "many small products of matrices, one after the other",
        remedy: "one call for all of them: torch.bmm or baddbmm over stacked tensors, a grouped GEMM, torch.vmap; or one product of the matrices put together",
        needs: &[Need::Gpus],
        judge: small_products,
    },
    Rule {
        name: "unfused_operators",
        title: "elementwise operators read and write one tensor again and again",
        remedy: "torch.compile, which fuses them; one kernel of Triton or HIP; for optimisers fused=True or foreach=True",
        needs: &[Need::Gpus],
        judge: unfused_operators,
    },
    Rule {
        name: "far_below_roofline",
        title: "an operator takes several times as long as the GPU would need",
        remedy: "another library or back end for it (hipBLASLt and TunableOp for products, channels_last and MIOpen's search for convolutions, flash attention); larger batches; docs/efficiency.md explains the figures",
        needs: &[Need::Gpus],
        judge: far_below_roofline,
    },
];

/// What well-tuned kernels reach of the roofline.
const REACHABLE: f64 = 0.7;
/// Below it an operator is far from the roofline.
const FAR: f64 = 0.3;
/// What takes less time on average cannot fill a GPU, and is not judged by its rate.
const SHORT_NS: f64 = 20_000.0;
/// Small products have less than this share of the roofline.
const SMALL: f64 = 0.1;
/// A type is faster if its peak is so many times as high.
const FASTER: f64 = 1.5;
/// Stands between the operators of a chain.
const ARROW: &str = " \u{2192} ";
/// Rows with less than this part of the time of all products say nothing of what products can reach.
const LEAST_PART: f64 = 0.01;

/// Which rule a row is of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// What a faster type would save, in nanoseconds.
    Single(f64),
    /// The dimension that is one off, and what padding would save.
    Odd(u64, f64),
    Small,
    Unfused,
    /// What would be saved at [`REACHABLE`].
    Far(f64),
    Fine,
}

/// An operator with its shapes on a GPU.
struct Operator<'a> {
    row: View<'a>,
    busy_ns: f64,
    /// Its share of the roofline.
    share: f64,
    kind: Kind,
}

impl Operator<'_> {
    fn place(&self) -> String {
        place(&self.row, "operator")
    }
}

/// Whether rules can judge at all: where nothing has a figure for want of shapes or types, that is lacking.
fn lacking(facts: &Facts<'_>) -> Option<Verdict> {
    let has_figures = |row: &View<'_>| row.number("roofline_share").is_some();
    let wanted = [Why::NoArguments.to_string(), Why::NoTypes.to_string()];
    let mut reasons = facts.used.reasons.iter();
    let lacks = reasons.any(|row| wanted.iter().any(|why| why == row.text("why")));
    let is_lacking = lacks && !facts.used.operators.iter().any(has_figures);
    // rsys-sample records dimensions, but no types.
    is_lacking.then_some(Verdict::Lacks("shapes and types of operators", ""))
}

/// The rows of a table that are of a GPU. One that was recorded several times has its rows once.
fn of_gpu<'f, 'a>(
    facts: &'f Facts<'_>,
    rows: &'f [View<'a>],
    gpu: &'f Gpu,
) -> impl Iterator<Item = View<'a>> {
    let is_same = |other: &&Gpu| (other.owner, other.number) == (gpu.owner, gpu.number);
    let is_first = facts.gpus.iter().find(is_same) == Some(gpu);
    let is_of_it = move |row: &&View<'_>| {
        is_first && row.count("device") == gpu.number && facts.owner(row) == gpu.owner
    };
    rows.iter().filter(is_of_it).copied()
}

/// An operator with its shapes and types.
fn place(row: &View<'_>, name: &str) -> String {
    let parts = [row.text(name), row.text("shapes"), row.text("types")];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The operators of a GPU, each with the rule that it is of.
fn operators<'a>(facts: &'a Facts<'_>, gpu: &'a Gpu) -> Vec<Operator<'a>> {
    let peaks = of_gpu(facts, &facts.used.devices, gpu).next();
    let repeats: BTreeSet<String> = of_gpu(facts, &facts.used.repeats, gpu)
        .filter(is_small)
        .map(|row| place(&row, "operators"))
        .collect();
    let chained: BTreeSet<&str> = of_gpu(facts, &facts.used.chains, gpu)
        .flat_map(|row| row.text("operators").split(ARROW))
        .collect();
    let mut found: Vec<Operator<'_>> = of_gpu(facts, &facts.used.operators, gpu)
        .filter_map(|row| {
            // What is faster than the GPU is of another type or shape than the trace says.
            let share = row.number("roofline_share").filter(|share| *share <= 1.0)?;
            Some(Operator {
                row,
                busy_ns: row.count("busy_ns") as f64,
                share,
                kind: Kind::Fine,
            })
        })
        .collect();
    let best = best_of_even(&found);
    for one in &mut found {
        one.kind = if let Some(saves_ns) = single(one, peaks.as_ref()) {
            Kind::Single(saves_ns)
        } else if let Some((size, saves_ns)) = odd(one, &best) {
            Kind::Odd(size, saves_ns)
        } else if repeats.contains(&one.place()) {
            Kind::Small
        } else if chained.contains(one.row.text("operator")) {
            Kind::Unfused
        } else {
            far(one).map_or(Kind::Fine, Kind::Far)
        };
    }
    found
}

/// What TF32, or else BF16, would save of a product in FP32 that is bound by compute, at the share of the roofline that it has.
fn single(one: &Operator<'_>, peaks: Option<&View<'_>>) -> Option<f64> {
    let (row, peaks) = (&one.row, peaks?);
    let is_single = row.text("computed_in") == "fp32" && row.text("bound") == "compute";
    let peak = |key: &str| peaks.number(key).filter(|rate| *rate > 0.0);
    let slow = peak("fp32_matrix_tflop_per_s").or_else(|| peak("fp32_vector_tflop_per_s"))?;
    let fast = peak("tf32_matrix_tflop_per_s").or_else(|| peak("bf16_matrix_tflop_per_s"))?;
    if !is_single || fast < slow * FASTER {
        return None;
    }
    let seconds = |rate: f64| Some(row.number("flop")? / (rate * 1e12));
    let memory_s = row.number("moved_bytes")? / peaks.number("memory_bytes_per_s")?;
    let (now_s, then_s) = (seconds(slow)?.max(memory_s), seconds(fast)?.max(memory_s));
    Some(one.busy_ns * (1.0 - then_s / now_s)).filter(|saves_ns| *saves_ns > 0.0)
}

/// The best share of the roofline of products without an odd dimension, by the type that is computed in. Those that fill no GPU, or have little time, do not count.
fn best_of_even<'a>(operators: &[Operator<'a>]) -> BTreeMap<&'a str, f64> {
    let products = || operators.iter().filter(|one| is_product(&one.row));
    let whole_ns: f64 = products().map(|one| one.busy_ns).sum();
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for one in products() {
        let counts = one.busy_ns >= whole_ns * LEAST_PART && !is_short(&one.row);
        if counts && odd_dimension(one.row.text("shapes")).is_none() {
            let kept = best.entry(one.row.text("computed_in")).or_default();
            *kept = kept.max(one.share);
        }
    }
    best
}

/// The odd dimension of a product, and what it takes longer than products without one in this run.
fn odd(one: &Operator<'_>, best: &BTreeMap<&str, f64>) -> Option<(u64, f64)> {
    let size = odd_dimension(one.row.text("shapes")).filter(|_| is_product(&one.row))?;
    let best = best.get(one.row.text("computed_in"))?;
    let saves_ns = one.busy_ns * (1.0 - one.share / best);
    (saves_ns > 0.0 && !is_short(&one.row)).then_some((size, saves_ns))
}

fn is_product(row: &View<'_>) -> bool {
    row.text("category") == Category::Gemm.name()
}

/// Whether a call takes too little time to fill a GPU.
fn is_short(row: &View<'_>) -> bool {
    let calls = row.count("count").max(1) as f64;
    (row.count("ran_ns") as f64) < SHORT_NS * calls
}

/// Whether products in a row are each too small for the GPU.
fn is_small(row: &View<'_>) -> bool {
    let share = row.number("roofline_share");
    is_short(row) && share.is_some_and(|share| share < SMALL)
}

/// The first dimension of matrices that is one off a multiple of 8 and has no small multiple. Those in front of the last two count products.
fn odd_dimension(shapes: &str) -> Option<u64> {
    const LEAST: u64 = 64;
    let matrices = shapes.split(']').filter_map(|shape| {
        let sizes = shape.rsplit('[').next()?.split(',');
        let sizes: Option<Vec<u64>> = sizes.map(|size| size.trim().parse().ok()).collect();
        sizes.filter(|sizes| sizes.len() >= 2)
    });
    let mut sizes = matrices.flat_map(|sizes| sizes[sizes.len() - 2..].to_vec());
    sizes.find(|size| *size > LEAST && matches!(size % 8, 1 | 7))
}

/// The next multiple that libraries have fast kernels for.
fn padded(size: u64) -> u64 {
    size.next_multiple_of(if size < 1024 { 8 } else { 64 })
}

/// What would be saved of an operator that is far below the roofline. What goes over a link has the rules of copies.
fn far(one: &Operator<'_>) -> Option<f64> {
    let is_far = one.share < FAR && !is_short(&one.row) && !one.row.text("bound").contains("link");
    is_far.then_some(one.busy_ns * (1.0 - one.share / REACHABLE))
}

/// One finding for all rows that have the same key: where most is saved, and the sum.
fn together<'a>(
    gpu: &Gpu,
    rows: impl Iterator<Item = (String, View<'a>, f64, String)>,
    evidence: impl Fn(&View<'a>) -> Vec<(&'static str, Cell)>,
) -> Vec<Finding> {
    /// What is saved in all, calls and rows; and the row of most with its place.
    struct Sum<'a> {
        saves_ns: f64,
        times: u64,
        rows: u64,
        most: (f64, View<'a>, String),
    }
    let mut sums: BTreeMap<String, Sum<'a>> = BTreeMap::new();
    for (key, row, saves_ns, place) in rows {
        let times = row.count("count");
        match sums.get_mut(&key) {
            Some(sum) => {
                sum.saves_ns += saves_ns;
                sum.times += times;
                sum.rows += 1;
                if saves_ns > sum.most.0 {
                    sum.most = (saves_ns, row, place);
                }
            }
            None => {
                let sum = Sum {
                    saves_ns,
                    times,
                    rows: 1,
                    most: (saves_ns, row, place),
                };
                sums.insert(key, sum);
            }
        }
    }
    let findings = sums.into_values().map(|sum| {
        let (_, row, place) = sum.most;
        let mut seen = evidence(&row);
        seen.push(("calls", sum.times.into()));
        if sum.rows > 1 {
            seen.push(("rows", sum.rows.into()));
        }
        Finding {
            saves_ns: Some(sum.saves_ns as u64),
            place,
            evidence: seen,
            span: Some(gpu.span),
            times: sum.times,
        }
    });
    findings.collect()
}

/// What the row of an operator shows.
fn seen(row: &View<'_>) -> Vec<(&'static str, Cell)> {
    let mut seen: Vec<(&'static str, Cell)> = vec![
        ("roofline_share", row.number("roofline_share").into()),
        ("bound_by", row.text("bound").into()),
        ("busy_ns", row.count("busy_ns").into()),
    ];
    let rate = row
        .number("tflop_per_s")
        .map(|rate| (rate * 10.0).round() / 10.0);
    if row.text("bound") == "compute" {
        seen.push(("tflop_per_second", rate.into()));
    } else {
        seen.push(("memory_bytes_per_s", row.number("bytes_per_s").into()));
    }
    seen
}

/// Findings of operators that are of one rule, put together by a key of their rows.
fn of_kind(
    facts: &Facts<'_>,
    saves_ns: impl Fn(Kind) -> Option<f64>,
    key: impl Fn(&Operator<'_>) -> String,
    more: impl Fn(&View<'_>) -> Vec<(&'static str, Cell)>,
) -> Verdict {
    if let Some(lacking) = lacking(facts) {
        return lacking;
    }
    of_busy_gpus(facts, |gpu| {
        let operators = operators(facts, gpu);
        let rows = operators.iter().filter_map(|one| {
            let saves_ns = saves_ns(one.kind)?;
            Some((key(one), one.row, saves_ns, one.place()))
        });
        together(gpu, rows, |row| [seen(row), more(row)].concat())
    })
}

fn single_precision(facts: &Facts<'_>) -> Verdict {
    let saves_ns = |kind| match kind {
        Kind::Single(saves_ns) => Some(saves_ns),
        _ => None,
    };
    // One switch is for all of them.
    of_kind(facts, saves_ns, |_| String::new(), |_| Vec::new())
}

fn odd_dimensions(facts: &Facts<'_>) -> Verdict {
    let saves_ns = |kind| match kind {
        Kind::Odd(_, saves_ns) => Some(saves_ns),
        _ => None,
    };
    let key = |one: &Operator<'_>| match one.kind {
        Kind::Odd(size, _) => size.to_string(),
        _ => String::new(),
    };
    of_kind(facts, saves_ns, key, |row| {
        let size = odd_dimension(row.text("shapes")).unwrap_or(0);
        vec![("dimension", size.into()), ("padded", padded(size).into())]
    })
}

fn far_below_roofline(facts: &Facts<'_>) -> Verdict {
    let saves_ns = |kind| match kind {
        Kind::Far(saves_ns) => Some(saves_ns),
        _ => None,
    };
    let key = |one: &Operator<'_>| one.row.text("operator").to_owned();
    of_kind(facts, saves_ns, key, |_| Vec::new())
}

fn small_products(facts: &Facts<'_>) -> Verdict {
    if let Some(lacking) = lacking(facts) {
        return lacking;
    }
    of_busy_gpus(facts, |gpu| {
        let rows = of_gpu(facts, &facts.used.repeats, gpu).filter(is_small);
        let rows = rows.filter_map(|row| {
            let saves_ns = row.number("batched_away_ns")?;
            let operator = row.text("operators").to_owned();
            Some((operator, row, saves_ns, place(&row, "operators")))
        });
        together(gpu, rows, |row| {
            let in_a_row = row.count("count") / row.count("runs").max(1);
            vec![
                ("in_a_row", in_a_row.into()),
                (
                    "mean_ns",
                    (row.count("ran_ns") / row.count("count").max(1)).into(),
                ),
                ("roofline_share", row.number("roofline_share").into()),
            ]
        })
    })
}

fn unfused_operators(facts: &Facts<'_>) -> Verdict {
    if let Some(lacking) = lacking(facts) {
        return lacking;
    }
    of_busy_gpus(facts, |gpu| {
        let rows = of_gpu(facts, &facts.used.chains, gpu).map(|row| {
            let saves_ns = row.number("fused_away_ns").unwrap_or(0.0);
            let place = place(&row, "operators");
            (place.clone(), row, saves_ns, place)
        });
        together(gpu, rows, |row| {
            vec![
                ("saved_bytes", cell(row.number("fused_away_bytes"))),
                ("moved_bytes", cell(row.number("moved_bytes"))),
                ("ran_ns", row.count("ran_ns").into()),
            ]
        })
    })
}

/// A count that may have been too large for a whole number.
fn cell(number: Option<f64>) -> Cell {
    number.map(|number| number as u64).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_one_off_a_multiple_are_found() {
        for (shapes, size) in [
            ("[64, 768], [768, 50257]", Some(50257)),
            ("[16, 63, 64], [16, 64, 65]", Some(65)),
            ("[4097, 128], [128, 128]", Some(4097)),
            // Neither a bias nor how many products there are.
            ("[50257], [64, 768], [768, 768]", None),
            ("[129, 64, 64], [129, 64, 64]", None),
            ("[64, 100], [100, 64]", None),
            ("", None),
            ("[64, 3], and 4 more", None),
        ] {
            assert_eq!(odd_dimension(shapes), size, "{shapes}");
        }
        assert_eq!((padded(129), padded(50257)), (136, 50304));
    }
}
