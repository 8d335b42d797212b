//! How well the time of GPUs was used: the rows of `efficiency` by GPU, each operator with the rule that it is of.
//!
//! Jobs have thousands of GPUs, so each row is looked at once, before any rule asks.

use std::collections::{BTreeMap, BTreeSet};

use super::owners::{Host, Owner};
use crate::table::Answer;
use crate::table::view::{View, rows};
use rsys_traces::work::{Category, Why};

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
pub(super) enum Kind {
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
#[derive(Debug)]
pub(super) struct Operator<'a> {
    pub(super) row: View<'a>,
    busy_ns: f64,
    /// Its share of the roofline.
    share: f64,
    pub(super) kind: Kind,
}

impl Operator<'_> {
    pub(super) fn place(&self) -> String {
        place(&self.row, "operator")
    }
}

/// The rows of a GPU.
#[derive(Debug, Default)]
pub(super) struct OfGpu<'a> {
    /// Its operators that have a share of the roofline.
    pub(super) operators: Vec<Operator<'a>>,
    pub(super) chains: Vec<View<'a>>,
    /// Rows of equal products, each too small for the GPU.
    pub(super) small_products: Vec<View<'a>>,
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Used<'a> {
    /// By whose the GPU is and its number.
    gpus: BTreeMap<(Owner, u64), OfGpu<'a>>,
    /// Nothing has a figure for want of shapes or types.
    pub(super) is_lacking: bool,
}

impl<'a> Used<'a> {
    /// From the answer to `efficiency`. One without tables is of traces that have no types: there `launch` knows whether operators launched anything.
    pub(super) fn of(answer: Option<&'a Answer>, launch: Option<&Answer>, hosts: &[Host]) -> Self {
        if answer.is_some_and(|answer| answer.tables.is_empty()) {
            let operators = rows(launch, "gpu_operators");
            return Self {
                is_lacking: operators
                    .iter()
                    .any(|row| !row.text("framework").is_empty()),
                ..Self::default()
            };
        }
        let by_gpu = |key: &str| {
            let mut gpus: BTreeMap<(Owner, u64), Vec<View<'a>>> = BTreeMap::new();
            for row in rows(answer, key) {
                let gpu = (Owner::of(&row, hosts), row.count("device"));
                gpus.entry(gpu).or_default().push(row);
            }
            gpus
        };
        let mut chains = by_gpu("efficiency_chains");
        let mut repeats = by_gpu("efficiency_repeats");
        let mut devices = by_gpu("efficiency_devices");
        let mut has_figures = false;
        let gpus = by_gpu("efficiency").into_iter().map(|(gpu, rows)| {
            // Copies say their bytes, whatever is known of operators.
            let has_figure = |row: &View<'_>| {
                row.text("category") != Category::Copy.name()
                    && row.number("roofline_share").is_some()
            };
            has_figures |= rows.iter().any(has_figure);
            let chains = chains.remove(&gpu).unwrap_or_default();
            let mut small_products = repeats.remove(&gpu).unwrap_or_default();
            small_products.retain(is_small);
            let peaks = devices.remove(&gpu).and_then(|rows| rows.first().copied());
            let operators = operators(&rows, peaks.as_ref(), &chains, &small_products);
            let of_gpu = OfGpu {
                operators,
                chains,
                small_products,
            };
            (gpu, of_gpu)
        });
        let gpus = gpus.collect();
        let wanted = [Why::NoArguments.to_string(), Why::NoTypes.to_string()];
        let reasons = rows(answer, "efficiency_reasons");
        let mut reasons = reasons.iter().map(|row| row.text("why"));
        let is_lacking = !has_figures && reasons.any(|why| wanted.iter().any(|one| one == why));
        Self { gpus, is_lacking }
    }

    /// The rows of a GPU, if it has any.
    pub(super) fn of_gpu(&self, owner: Owner, number: u64) -> Option<&OfGpu<'a>> {
        self.gpus.get(&(owner, number))
    }
}

/// An operator with its shapes and types.
pub(super) fn place(row: &View<'_>, name: &str) -> String {
    let parts = [row.text(name), row.text("shapes"), row.text("types")];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The operators of a GPU, each with the rule that it is of.
fn operators<'a>(
    rows: &[View<'a>],
    peaks: Option<&View<'a>>,
    chains: &[View<'a>],
    small_products: &[View<'a>],
) -> Vec<Operator<'a>> {
    let repeats = small_products.iter().map(|row| place(row, "operators"));
    let repeats: BTreeSet<String> = repeats.collect();
    let chained = chains
        .iter()
        .flat_map(|row| row.text("operators").split(ARROW));
    let chained: BTreeSet<&str> = chained.collect();
    let found = rows.iter().filter_map(|row| {
        // What is faster than the GPU is of another type or shape than the trace says.
        let share = row.number("roofline_share").filter(|share| *share <= 1.0)?;
        Some(Operator {
            row: *row,
            busy_ns: row.count("busy_ns") as f64,
            share,
            kind: Kind::Fine,
        })
    });
    let mut found: Vec<Operator<'_>> = found.collect();
    let best = best_of_even(&found);
    for one in &mut found {
        one.kind = if let Some(saves_ns) = single(one, peaks) {
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

/// The first of the last dimensions of matrices that is one off a multiple of 8 and has no small multiple: from row to row addresses then lose their alignment, while the
/// number of rows is no matter.
pub(super) fn odd_dimension(shapes: &str) -> Option<u64> {
    const LEAST: u64 = 64;
    let mut lasts = shapes.split(']').filter_map(|shape| {
        let sizes = shape.rsplit('[').next()?.split(',');
        let sizes: Option<Vec<u64>> = sizes.map(|size| size.trim().parse().ok()).collect();
        sizes.filter(|sizes| sizes.len() >= 2)?.pop()
    });
    lasts.find(|size| *size > LEAST && matches!(size % 8, 1 | 7))
}

/// What would be saved of an operator that is far below the roofline. What goes over a link has the rules of copies.
fn far(one: &Operator<'_>) -> Option<f64> {
    let is_far = one.share < FAR && !is_short(&one.row) && !one.row.text("bound").contains("link");
    is_far.then_some(one.busy_ns * (1.0 - one.share / REACHABLE))
}

#[cfg(test)]
mod tests {
    use super::odd_dimension;

    #[test]
    fn dimensions_one_off_a_multiple_are_found() {
        for (shapes, size) in [
            ("[64, 768], [768, 50257]", Some(50257)),
            ("[16, 63, 64], [16, 64, 65]", Some(65)),
            ("[64, 4097], [4097, 128]", Some(4097)),
            // Neither the number of rows, nor a bias, nor how many products there are.
            ("[4097, 128], [128, 128]", None),
            ("[16, 4097, 64], [16, 64, 128]", None),
            ("[50257], [64, 768], [768, 768]", None),
            ("[129, 64, 64], [129, 64, 64]", None),
            ("[64, 100], [100, 64]", None),
            ("", None),
            ("[64, 3], and 4 more", None),
        ] {
            assert_eq!(odd_dimension(shapes), size, "{shapes}");
        }
    }
}
