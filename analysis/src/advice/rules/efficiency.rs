//! Busy time that could have been used better, by what operators had to do.
//!
//! A row of `efficiency` is of one rule at most: the first of those below that it fits. What a rule counts is what the GPU would be busy for less.

use std::collections::BTreeMap;

use crate::advice::facts::{Facts, Gpu};
use crate::advice::rule::{Finding, Need, Rule, Verdict, of_busy_gpus};
use crate::advice::used::{Kind, OfGpu, Operator, odd_dimension, place};
use crate::table::Cell;
use crate::table::view::View;

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
        title: "products of matrices whose rows are one off a multiple of 8 long",
        remedy: "pad the dimension (a vocabulary, a hidden size) to the next multiple",
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
        remedy: "torch.compile, which fuses them; one kernel of Triton or HIP; for optimisers fused=True (foreach=True saves launches, not bytes)",
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

/// What is found in the rows of each busy GPU.
fn of_used<'f, 'a>(
    facts: &'f Facts<'a>,
    find: impl Fn(&'f Gpu, &'f OfGpu<'a>) -> Vec<Finding>,
) -> Verdict {
    if facts.used.is_lacking {
        // rsys-sample records dimensions, but no types.
        return Verdict::Lacks("shapes and types of operators", "");
    }
    of_busy_gpus(facts, |gpu| {
        // The rows of a GPU that was recorded several times are of all its recordings.
        let of_gpu = facts.used.of_gpu(gpu.owner, gpu.number);
        let of_gpu = of_gpu.filter(|_| gpu.is_first);
        of_gpu.map_or_else(Vec::new, |of_gpu| find(gpu, of_gpu))
    })
}

/// The next multiple that libraries have fast kernels for.
fn padded(size: u64) -> u64 {
    size.next_multiple_of(if size < 1024 { 8 } else { 64 })
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
            ..Finding::default()
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
    of_used(facts, |gpu, of_gpu| {
        let rows = of_gpu.operators.iter().filter_map(|one| {
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
    of_used(facts, |gpu, of_gpu| {
        let rows = of_gpu.small_products.iter().filter_map(|row| {
            let saves_ns = row.number("batched_away_ns")?;
            let operator = row.text("operators").to_owned();
            Some((operator, *row, saves_ns, place(row, "operators")))
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
    of_used(facts, |gpu, of_gpu| {
        let rows = of_gpu.chains.iter().map(|row| {
            let saves_ns = row.number("fused_away_ns").unwrap_or(0.0);
            let place = place(row, "operators");
            (place.clone(), *row, saves_ns, place)
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
    use crate::advice::owners::{Owner, Span};
    use crate::advice::used::Used;
    use crate::table::view::cells_read;
    use crate::table::{Answer, Column, Table};

    #[test]
    fn dimensions_are_padded_to_what_libraries_have_kernels_for() {
        assert_eq!((padded(129), padded(50257)), (136, 50304));
    }

    /// A table with all columns that rules read: of each of so many GPUs as many rows as are asked for, each with these cells.
    fn table(key: &'static str, gpus: u64, rows: u64, cells: &[(&'static str, Cell)]) -> Table {
        let keys = [
            "host",
            "rank",
            "process",
            "device",
            "operator",
            "operators",
            "shapes",
            "types",
            "category",
            "count",
            "runs",
            "busy_ns",
            "ran_ns",
            "bound",
            "computed_in",
            "flop",
            "moved_bytes",
            "tflop_per_s",
            "bytes_per_s",
            "roofline_share",
            "fused_away_ns",
            "fused_away_bytes",
            "batched_away_ns",
            "fp32_matrix_tflop_per_s",
            "fp32_vector_tflop_per_s",
            "tf32_matrix_tflop_per_s",
            "bf16_matrix_tflop_per_s",
            "memory_bytes_per_s",
            "why",
        ];
        let columns = keys.map(|key| Column::plain(key, key));
        let mut table = Table::new(key, key, &columns);
        for (rank, row) in (0..gpus).flat_map(|rank| (0..rows).map(move |row| (rank, row))) {
            let cells = keys.map(|key| match key {
                "rank" => rank.into(),
                "shapes" => format!("[64, {row}]").into(),
                _ => {
                    let found = cells.iter().find(|(of, _)| *of == key);
                    found.map_or(Cell::Null, |(_, cell)| cell.clone())
                }
            });
            table.push(cells.to_vec());
        }
        table
    }

    /// How many cells all rules read of a job of so many GPUs, and what they find.
    fn judged(gpus: u64) -> (u64, usize) {
        let far: [(&str, Cell); 6] = [
            ("operator", "aten::mm".into()),
            ("category", "GEMM".into()),
            ("count", 1_u64.into()),
            ("busy_ns", 1_000_000_000_u64.into()),
            ("ran_ns", 1_000_000_000_u64.into()),
            ("roofline_share", 0.1.into()),
        ];
        let chain: [(&str, Cell); 3] = [
            ("operators", "aten::mul \u{2192} aten::add".into()),
            ("count", 1_u64.into()),
            ("fused_away_ns", 1_000_000_000_u64.into()),
        ];
        let answer = Answer {
            tables: vec![
                table("efficiency", gpus, 20, &far),
                table("efficiency_devices", gpus, 1, &[]),
                table("efficiency_chains", gpus, 5, &chain),
                table("efficiency_repeats", gpus, 5, &[("runs", 1_u64.into())]),
            ],
            ..Answer::default()
        };
        let before = cells_read();
        let facts = Facts {
            used: Used::of(Some(&answer), None, &[]),
            gpus: (0..gpus)
                .map(|rank| Gpu {
                    owner: Owner {
                        rank: Some(rank),
                        ..Owner::default()
                    },
                    is_first: true,
                    span: Span::between(0, 10_000_000_000, 0),
                    ..Gpu::default()
                })
                .collect(),
            ..Facts::default()
        };
        let found = RULES.iter().map(|rule| match (rule.judge)(&facts) {
            Verdict::Found(found) => found.len(),
            Verdict::Lacks(what, _) => panic!("{what}"),
        });
        let found = found.sum();
        (cells_read() - before, found)
    }

    #[test]
    fn ten_times_as_many_gpus_are_ten_times_as_much_to_read() {
        let (few, found) = judged(100);
        // One operator that is far below the roofline, and five chains.
        assert_eq!(found, 6);
        let (many, found) = judged(1_000);
        assert_eq!(found, 6);
        assert!(many <= 10 * few, "{many} for {few}");
    }
}
