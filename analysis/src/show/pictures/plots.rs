//! The lanes of each plot, from the tables that the page draws it from (`page/plots.js`).

use std::collections::HashMap;

use super::canvas::{Colour, IDLE, between, colour};
use super::lanes::{Block, Lane, Plot, beside};
use super::records::{Record, counted, joined, records};
use crate::show::quantity::{brief, quantity};
use crate::table::{Cell, Table, Unit};

/// What a GPU does: keys, names, and their colours by number; idle is what is left.
const BUSY: [(&str, &str); 3] = [
    ("computation_ns", "computation"),
    ("exposed_comm_ns", "exposed communication"),
    ("exposed_memcpy_ns", "exposed copies"),
];

fn busy_legend() -> Vec<(String, Colour)> {
    let named = |(at, (_, name)): (usize, &(&str, &str))| ((*name).to_owned(), colour(at));
    let busy = BUSY.iter().enumerate().map(named);
    busy.chain([("idle".to_owned(), IDLE)]).collect()
}

/// Labels at equal distances, from 0 to a time.
fn time_marks(length_ns: f64) -> Vec<String> {
    let places = [0.0, 0.25, 0.5, 0.75, 1.0];
    let mark = |place: f64| brief(length_ns * place, Unit::Nanoseconds);
    places.map(mark).to_vec()
}

/// What GPUs did over time.
pub(super) fn busy(table: &Table) -> Plot {
    let lane = |row: Record<'_>| {
        let axis_ns = row.number("axis_ns").max(1.0);
        let width = row.number("bucket_ns") / axis_ns;
        let mut lane = Lane::new(joined(&[row.owner(), row.text("name").to_owned()]), 44.0);
        lane.back = IDLE;
        lane.marks = time_marks(axis_ns);
        for (at, part) in row.below("buckets").iter().enumerate() {
            let mut low = 0.0;
            for (what, (key, _)) in BUSY.iter().enumerate() {
                let high = low + part.number(key) / row.number("bucket_ns").max(1.0);
                if high > low {
                    lane.blocks.push(Block {
                        left: at as f64 * width,
                        right: (at + 1) as f64 * width,
                        low,
                        high,
                        colour: colour(what),
                    });
                }
                low = high;
            }
        }
        lane
    };
    Plot {
        file: "gpus-over-time".to_owned(),
        title: "GPUs over time".to_owned(),
        about: "From the first record to the last on the same machine".to_owned(),
        legend: busy_legend(),
        lanes: records(table).map(lane).collect(),
    }
}

/// How many processors programs had over time.
pub(super) fn processors(table: &Table) -> Plot {
    let share = |row: &Record<'_>, part: &Record<'_>| {
        part.number("cpu_ns") / row.number("bucket_ns").max(1.0)
    };
    let most = records(table)
        .flat_map(|row| {
            let parts = row.below("buckets").into_iter();
            parts
                .map(move |part| share(&row, &part))
                .collect::<Vec<_>>()
        })
        .fold(1.0, f64::max);
    let lane = |row: Record<'_>| {
        let axis_ns = row.number("axis_ns").max(row.number("bucket_ns")).max(1.0);
        let mut lane = Lane::new(row.owner(), 44.0);
        lane.caption = format!(
            "{} of CPU time",
            quantity(&Cell::Number(row.number("cpu_ns")), Unit::Nanoseconds)
        );
        lane.marks = time_marks(axis_ns);
        let block = |part: &Record<'_>| {
            let start_ns = part.number("start_ns");
            Block {
                left: start_ns / axis_ns,
                right: (start_ns + row.number("bucket_ns")) / axis_ns,
                low: 0.0,
                high: share(&row, part) / most,
                colour: colour(0),
            }
        };
        lane.blocks = row.below("buckets").iter().map(block).collect();
        lane
    };
    let processors = if most == 1.0 {
        "processor"
    } else {
        "processors"
    };
    Plot {
        file: "processors".to_owned(),
        title: "Processors that programs had".to_owned(),
        about: format!("Full height: {} {processors}", brief(most, Unit::Plain)),
        legend: Vec::new(),
        lanes: records(table).map(lane).collect(),
    }
}

/// Parts of a whole in words, the largest first.
fn shares(parts: &[(&str, f64)], whole: f64) -> String {
    let mut parts: Vec<_> = parts.iter().filter(|(_, value)| *value > 0.0).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let words = parts.iter().map(|(name, value)| {
        let share = quantity(&Cell::Number(value / whole), Unit::Share);
        format!("{name} {share}")
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Where the time of each GPU went.
pub(super) fn timeline(tables: &[&Table]) -> Plot {
    let rows = tables.iter().flat_map(|table| records(table));
    let lane = |row: Record<'_>| {
        let total_ns = row.number("total_ns");
        let owner = match row.some("processes") {
            Some(count) => format!(
                "GPU {} \u{b7} {}",
                row.number("device"),
                counted(count, "process")
            ),
            None => row.owner(),
        };
        let keys = BUSY.iter().copied().chain([("idle_ns", "idle")]);
        let parts: Vec<(&str, f64)> = keys.map(|(key, name)| (name, row.number(key))).collect();
        let inks = [colour(0), colour(1), colour(2), IDLE];
        let inked: Vec<(f64, Colour)> = parts
            .iter()
            .zip(inks)
            .map(|(part, ink)| (part.1, ink))
            .collect();
        let mut lane = Lane::new(owner, 22.0);
        lane.caption = shares(&parts, total_ns);
        lane.blocks = beside(&inked, total_ns);
        lane
    };
    Plot {
        file: "gpu-time".to_owned(),
        title: "Time of GPUs".to_owned(),
        about: String::new(),
        legend: busy_legend(),
        lanes: rows
            .filter(|row| row.number("total_ns") > 0.0)
            .map(lane)
            .collect(),
    }
}

/// The idle time of each cause of a GPU's idleness.
fn causes<'t>(row: &Record<'t>) -> HashMap<&'t str, f64> {
    let mut sums = HashMap::new();
    for cause in row.first_below() {
        *sums.entry(cause.text("text")).or_insert(0.0) += cause.number("idle_ns");
    }
    sums
}

/// Why each GPU was idle.
pub(super) fn gaps(tables: &[&Table]) -> Plot {
    let rows = tables.iter().flat_map(|table| records(table));
    let rows: Vec<Record<'_>> = rows.filter(|row| row.number("idle_ns") > 0.0).collect();
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for (name, ns) in rows.iter().flat_map(causes) {
        *sums.entry(name).or_default() += ns;
    }
    let mut names: Vec<(&str, f64)> = sums.into_iter().collect();
    names.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
    let lane = |row: &Record<'_>| {
        let causes = causes(row);
        let time = |name: &str| causes.get(name).copied().unwrap_or(0.0);
        let idle_ns = row.number("idle_ns");
        let parts: Vec<(&str, f64)> = names.iter().map(|(name, _)| (*name, time(name))).collect();
        let inked: Vec<(f64, Colour)> = parts
            .iter()
            .enumerate()
            .map(|(at, part)| (part.1, colour(at)))
            .collect();
        let mut lane = Lane::new(row.owner(), 22.0);
        lane.caption = format!(
            "idle {}: {}",
            quantity(&Cell::Number(idle_ns), Unit::Nanoseconds),
            shares(&parts, idle_ns)
        );
        lane.blocks = beside(&inked, idle_ns);
        lane
    };
    Plot {
        file: "gpu-idleness".to_owned(),
        title: "Why GPUs were idle".to_owned(),
        about: String::new(),
        legend: names
            .iter()
            .enumerate()
            .map(|(at, (name, _))| ((*name).to_owned(), colour(at)))
            .collect(),
        lanes: rows
            .iter()
            .filter(|row| !row.first_below().is_empty())
            .map(lane)
            .collect(),
    }
}

/// Fewer classes than this would be bars too wide to be read as such.
const CLASSES_MIN: u32 = 16;

/// The number of the class of durations that begins so: four lie between a power of two and the next.
fn class(from_ns: f64) -> u32 {
    let from = (from_ns as u64).max(1);
    let power = from.ilog2();
    4 * power + ((4 * (u128::from(from) - (1 << power))) >> power) as u32
}

/// Where a class begins.
fn class_begin_ns(class: u32) -> f64 {
    (1_u128 << (class / 4)) as f64 * (1.0 + f64::from(class % 4) / 4.0)
}

/// How the durations of each kernel spread.
pub(super) fn durations(table: &Table) -> Plot {
    let lane = |row: Record<'_>| {
        let classes = row.below("durations");
        let number = |one: &Record<'_>| class(one.number("from_ns"));
        let least = classes.iter().map(number).min().unwrap_or(0);
        let greatest = classes.iter().map(number).max().unwrap_or(0);
        let width = CLASSES_MIN.max(greatest - least + 3);
        let first = ((least + greatest + 1).saturating_sub(width)) / 2;
        let most = classes
            .iter()
            .map(|one| one.number("count"))
            .fold(1.0, f64::max);
        let total: f64 = classes.iter().map(|one| one.number("count")).sum();
        let mut lane = Lane::new(row.text("name").to_owned(), 60.0);
        lane.caption = format!(
            "{}, at most {} in a bar",
            counted(total, "kernel"),
            brief(most, Unit::Plain)
        );
        let width_f = f64::from(width);
        let block = |one: &Record<'_>| {
            let at = f64::from(number(one).saturating_sub(first));
            Block {
                left: (at + 0.04) / width_f,
                right: (at + 0.96) / width_f,
                low: 0.0,
                high: 0.96 * one.number("count") / most,
                colour: colour(0),
            }
        };
        lane.blocks = classes.iter().map(block).collect();
        let mark = |quarter: u32| {
            brief(
                class_begin_ns(first + (quarter * width + 2) / 4),
                Unit::Nanoseconds,
            )
        };
        lane.marks = (0..=4).map(mark).collect();
        lane
    };
    Plot {
        file: "kernel-durations".to_owned(),
        title: "How durations of kernels spread".to_owned(),
        about: "From short to long, on a logarithmic scale".to_owned(),
        legend: Vec::new(),
        lanes: records(table).map(lane).collect(),
    }
}

/// Memory that calls made, over time.
pub(super) fn memory(table: &Table) -> Plot {
    let lane = |row: Record<'_>| {
        let parts = row.below("over_time");
        if parts.len() < 2 {
            return None;
        }
        let most = parts
            .iter()
            .map(|part| part.number("max_bytes"))
            .fold(1.0, f64::max);
        let width = 1.0 / parts.len() as f64;
        let mut lane = Lane::new(joined(&[row.owner(), row.text("memory").to_owned()]), 60.0);
        lane.caption = format!(
            "up to {}",
            quantity(&Cell::Number(row.number("peak_bytes")), Unit::Bytes)
        );
        let block = |(at, part): (usize, &Record<'_>)| Block {
            left: at as f64 * width,
            right: (at + 1) as f64 * width,
            low: 0.0,
            high: part.number("max_bytes") / most,
            colour: colour(2),
        };
        lane.blocks = parts.iter().enumerate().map(block).collect();
        lane.marks = time_marks(parts.len() as f64 * parts[0].number("duration_ns"));
        Some(lane)
    };
    Plot {
        file: "memory".to_owned(),
        title: "Memory of GPUs that calls made".to_owned(),
        about: String::new(),
        legend: Vec::new(),
        lanes: records(table).filter_map(lane).collect(),
    }
}

/// Whether a counter is one of a GPU.
fn is_of_gpu(row: &Record<'_>) -> bool {
    row.text("group").contains("GPU") || row.text("name").starts_with("GPU ")
}

/// What counters said over time: those of GPUs, or all others.
pub(super) fn curves(table: &Table, of_gpus: bool) -> Plot {
    let rows = records(table).filter(|row| is_of_gpu(row) == of_gpus);
    let (file, title) = match of_gpus {
        true => ("sensors", "Sensors of GPUs over time"),
        false => ("counters", "Counters over time"),
    };
    Plot {
        file: file.to_owned(),
        title: title.to_owned(),
        about:
            "The line is the mean; the band behind it reaches from the least to the greatest value"
                .to_owned(),
        legend: Vec::new(),
        lanes: rows.map(curve).collect(),
    }
}

/// So high is a line of the height of a lane.
const STROKE: f64 = 0.024;

fn curve(row: Record<'_>) -> Lane {
    let values = row.below("values");
    let axis_ns = row.number("axis_ns").max(row.number("bucket_ns")).max(1.0);
    let least = values
        .iter()
        .map(|one| one.number("min"))
        .fold(f64::INFINITY, f64::min);
    let most = values
        .iter()
        .map(|one| one.number("max"))
        .fold(f64::NEG_INFINITY, f64::max);
    let (floor, height) = if least >= 0.0 && least < 0.5 * most {
        (0.0, most)
    } else {
        (least, most - least)
    };
    let place = |value: f64| match height > 0.0 {
        true => 0.05 + 0.9 * (value - floor) / height,
        false if value == 0.0 => 0.05,
        false => 0.5,
    };
    let (group, name) = (row.text("group"), row.text("name"));
    // Sensors and counters of a machine have it in their names.
    let owner = match is_of_gpu(&row) || name.starts_with("Host ") {
        true => String::new(),
        false => row.owner(),
    };
    let mut lane = Lane::new(joined(&[group.to_owned(), name.to_owned(), owner]), 60.0);
    let words = |value: f64| match row.text("unit") {
        "B" | "bytes" => brief(value, Unit::Bytes),
        "B/s" => brief(value, Unit::Bandwidth),
        "ns" => brief(value, Unit::Nanoseconds),
        unit => format!("{} {unit}", brief(value, Unit::Plain))
            .trim_end()
            .to_owned(),
    };
    lane.caption = match least == most {
        true => words(most),
        false => format!("{} to {}", words(least), words(most)),
    };
    lane.marks = time_marks(axis_ns);
    let band = between(lane.back, colour(0), 0.3);
    let mut line = Vec::new();
    let mut before: Option<f64> = None;
    for (at, value) in values.iter().enumerate() {
        let left = value.number("start_ns").min(axis_ns) / axis_ns;
        // A value holds until the next one, the last one to the end.
        let right = values
            .get(at + 1)
            .map_or(1.0, |next| next.number("start_ns").min(axis_ns) / axis_ns);
        let mean = place(value.number("mean"));
        lane.blocks.push(Block {
            left,
            right,
            low: place(value.number("min")),
            high: place(value.number("max")),
            colour: band,
        });
        let stroke = |left: f64, right: f64, low: f64, high: f64| Block {
            left,
            right,
            low: low - STROKE / 2.0,
            high: high + STROKE / 2.0,
            colour: colour(0),
        };
        if let Some(before) = before {
            line.push(stroke(
                left,
                left + 0.0016,
                before.min(mean),
                before.max(mean),
            ));
        }
        line.push(stroke(left, right, mean, mean));
        before = Some(mean);
    }
    lane.blocks.extend(line);
    lane
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_durations() {
        // Two nanoseconds and up: below, classes of the table are single durations.
        for (from, number) in [
            (1.0, 0),
            (2.0, 4),
            (3.0, 6),
            (4.0, 8),
            (5.0, 9),
            (7.0, 11),
            (1024.0, 40),
            (1280.0, 41),
        ] {
            assert_eq!(class(from), number, "{from}");
            assert_eq!(class_begin_ns(number), from);
        }
        assert_eq!(class((1_u64 << 63) as f64), 252);
    }

    #[test]
    fn shares_say_the_largest_first_and_nothing_of_nothing() {
        let caption = shares(&[("one", 25.0), ("none", 0.0), ("most", 75.0)], 100.0);
        assert_eq!(caption, "most 75.0 %, one 25.0 %");
    }
}
