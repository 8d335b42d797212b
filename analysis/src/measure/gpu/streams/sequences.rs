//! Kernels that follow each other again and again on a stream: candidates for one kernel instead of several, or for a graph.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Operation, Place, columns};
use crate::table::{Column, Table};
use rsys_traces::model::{Model, TextId};

/// How many kernels a sequence has, at least and at most.
const LENGTHS: std::ops::RangeInclusive<usize> = 2..=8;
/// It counts from so many times on.
const TIMES: u64 = 3;
/// Kernels of a stream that are examined: seven sequences begin with each.
const KERNELS: usize = 1 << 16;
/// Rows for each stream.
const ROWS: usize = 20;

/// What is known of a sequence.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// Where it begins first, and behind where it ended last.
    first: usize,
    behind: usize,
    count: u64,
    kernels_ns: u64,
    span_ns: u64,
}

/// Whether it is a shorter sequence again and again, at least in part: what comes once around a shorter one says nothing new.
fn repeats(names: &[TextId]) -> bool {
    (1..names.len()).any(|period| {
        names
            .iter()
            .zip(&names[period..])
            .all(|(one, other)| one == other)
    })
}

/// The same sequence, whichever of its kernels is called the first.
fn turned(names: &[TextId]) -> Vec<TextId> {
    let turns = (0..names.len()).map(|by| [&names[by..], &names[..by]].concat());
    turns.min().unwrap_or_default()
}

/// Sequences of a stream, the most time first.
fn of_stream(kernels: &[&Operation]) -> Vec<(Vec<TextId>, Found)> {
    let names: Vec<TextId> = kernels.iter().map(|one| one.name).collect();
    let mut all: Vec<(Vec<TextId>, Found)> = Vec::new();
    for length in LENGTHS {
        let mut found: HashMap<&[TextId], Found> = HashMap::new();
        for (first, window) in names.windows(length).enumerate() {
            let one = found.entry(window).or_insert(Found {
                first,
                ..Found::default()
            });
            // Those that overlap are one.
            if first < one.behind {
                continue;
            }
            let run = &kernels[first..first + length];
            one.behind = first + length;
            one.count += 1;
            one.kernels_ns += run.iter().map(|one| one.end_ns - one.start_ns).sum::<u64>();
            one.span_ns += run[length - 1].end_ns.saturating_sub(run[0].start_ns);
        }
        let often = found.into_iter();
        let often = often.filter(|(names, one)| one.count >= TIMES && !repeats(names));
        all.extend(often.map(|(names, one)| (names.to_vec(), one)));
    }
    all.sort_by_key(|(names, one)| (Reverse(one.kernels_ns), Reverse(names.len()), one.first));
    let mut seen = HashSet::new();
    let mut kept: Vec<(Vec<TextId>, Found)> = Vec::new();
    for (names, one) in all {
        let is_part = kept.iter().any(|(longer, of_longer)| {
            // It goes on at its begin.
            let around = [longer.as_slice(), longer].concat();
            let is_within = around.windows(names.len()).any(|part| part == names);
            is_within && 10 * of_longer.count >= 9 * one.count
        });
        if !is_part && seen.insert(turned(&names)) {
            kept.push((names, one));
        }
        if kept.len() == ROWS {
            break;
        }
    }
    kept
}

/// The table.
pub(super) fn table(streams: &BTreeMap<Place, Vec<Operation>>, model: &Model) -> Table {
    let columns = columns(&[
        Column::plain("kernels", "kernels"),
        Column::plain("count", "times"),
        Column::ns("kernels_ns", "kernels took"),
        Column::share("share", "of the stream's"),
        Column::ns("span_ns", "from begin to end"),
        Column::line("sequence", "sequence"),
    ]);
    let title = "Kernels that follow each other again and again on a stream";
    let mut table = Table::new("kernel_sequences", title, &columns);
    table.rows_in_text = 10;
    for (place, list) in streams {
        let kernels: Vec<&Operation> = list.iter().filter(|one| one.is_kernel).collect();
        let total_ns: u64 = kernels.iter().map(|one| one.end_ns - one.start_ns).sum();
        let looked_at = &kernels[..kernels.len().min(KERNELS)];
        for (names, one) in of_stream(looked_at) {
            let names: Vec<&str> = names.iter().map(|name| model.text(*name)).collect();
            let mut cells = place.cells(model);
            cells.extend([
                (names.len() as u64).into(),
                one.count.into(),
                one.kernels_ns.into(),
                (total_ns > 0)
                    .then(|| one.kernels_ns as f64 / total_ns as f64)
                    .into(),
                one.span_ns.into(),
                names.join(" \u{2192} ").into(),
            ]);
            table.push(cells);
        }
    }
    table
}
