//! What is to be known of an answer besides its tables.

use super::Options;
use super::lane::Lane;
use super::marker::MarkerKind;
use super::tables::are_too_many;
use rsys_traces::words::nanoseconds;

/// What was left out, and what makes numbers less sure.
pub(super) fn notes(lanes: &[Lane], options: &Options, count: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if lanes.is_empty() {
        return notes;
    }
    let sum = |of: fn(&Lane) -> u64| lanes.iter().map(of).sum::<u64>();
    if let (Some(marker), 0) = (&options.marker, count) {
        notes.push(format!(
            "no range, mark, operator, function, call or kernel is called {marker}; a star stands for any end (--marker '{marker}*')"
        ));
    }
    let whole = lanes
        .iter()
        .filter(|lane| lane.marker_kind == MarkerKind::Whole);
    if options.marker.is_none() && whole.clone().count() > 0 {
        notes.push(format!(
            "no iterations were found on {}: nothing is called step, iteration or the like, and neither ranges nor kernels recur; --marker names what does",
            counted(whole.count() as u64, "GPU")
        ));
    }
    let without = lanes
        .iter()
        .filter(|lane| lane.iterations.is_empty())
        .count() as u64;
    if without > 0 && count > 0 {
        notes.push(format!("{} without the marker", counted(without, "GPU")));
    }
    let mut markers: Vec<(&str, &str)> = lanes
        .iter()
        .filter(|lane| !lane.iterations.is_empty())
        .map(|lane| (lane.marker_kind.text(), lane.marker.as_str()))
        .collect();
    markers.sort_unstable();
    markers.dedup();
    if markers.len() > 1 {
        notes.push("not all ranks have the same marker: iterations of one number need not be the same; --marker names one".to_owned());
    }
    let ahead = lanes.iter().filter_map(|lane| lane.host_ahead_ns);
    if let Some(most_ns) = ahead.clone().max() {
        notes.push(format!(
            "the host runs ahead of the GPU by up to {} ({}): there an iteration lasts from the end of the work of the one before on the GPU to the end of its own, whatever the host did meanwhile (--assign window takes the host's times)",
            nanoseconds(most_ns),
            counted(ahead.count() as u64, "GPU")
        ));
    }
    let counts = lanes.iter().map(|lane| lane.iterations.len());
    let is_numbered = lanes.iter().all(|lane| lane.is_numbered);
    if let (Some(least), Some(most)) = (counts.clone().min(), counts.max())
        && least != most
        && !is_numbered
        && count > 0
    {
        notes.push(format!(
            "ranks have between {least} and {most} iterations, and no numbers in their names: the same number need not mean the same iteration"
        ));
    }
    for (number, text) in [
        (
            sum(|lane| lane.unlinked),
            "GPU operations without a recorded call are assigned to an iteration by start time",
        ),
        (
            sum(|lane| lane.leftover),
            "operations of GPUs that had been launched before the record begins: they are of no iteration",
        ),
        (
            sum(|lane| lane.untyped),
            "kernels of collectives of which the operation is not known (rsys-sample -I rccl records it): they are no part of overlap_ratio, which is of all-reduce and reduce-scatter",
        ),
        (
            sum(|lane| lane.nested),
            "markers within others of the same name, which count for nothing",
        ),
    ] {
        if number > 0 {
            notes.push(format!("{number} {text}"));
        }
    }
    if are_too_many(count) {
        notes.push(format!(
            "{count} iterations of ranks are too many for the table iterations, which is left out: --parts DIR writes them as Parquet files"
        ));
    }
    notes
}

fn counted(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
