//! Rates of operators over their intensity, under the roof of their GPU: the picture that the page draws (`page/plots.js`), with squares for its circles.

use std::collections::BTreeSet;

use super::canvas::{SOFT, colour};
use super::lanes::{Block, Lane, Plot};
use super::records::{Record, records};
use crate::table::{Answer, Table};

const HEIGHT: f64 = 380.0;
/// How much wider than high the picture is.
const WIDE: f64 = 868.0 / HEIGHT;
/// The largest square, as a part of the width.
const SQUARE: f64 = 0.03;
/// A roof is drawn in so many steps, and so thin.
const STEPS: usize = 200;
const THIN: f64 = 0.004;

/// A roof: the name of its peaks, TFLOP/s, and 10¹² bytes of the memory for each second.
type Roof = (String, f64, f64);

/// The picture; none where no operator has both a rate and an intensity.
pub(super) fn plot(answer: &Answer) -> Option<Plot> {
    let of = |key: &str| answer.tables.iter().find(|table| table.key == key);
    let rows = of("efficiency")?;
    let points: Vec<(Record<'_>, [f64; 2])> = records(rows)
        .filter_map(|row| Some((row, point(&row)?)))
        .collect();
    let roofs = of("efficiency_devices").map(roofs).unwrap_or_default();
    let corners = roofs.iter().map(|(_, rate, memory)| [rate / memory, *rate]);
    let all: Vec<[f64; 2]> = points
        .iter()
        .map(|(_, place)| *place)
        .chain(corners)
        .collect();
    let (first, _) = points.first()?;
    let longest = points.iter().map(|(row, _)| row.number("busy_ns"));
    let longest = longest.fold(first.number("busy_ns").max(1.0), f64::max);
    let (across, up) = (Axis::of(&all, 0), Axis::of(&all, 1));
    let families: BTreeSet<&str> = records(rows).map(|row| row.text("category")).collect();
    let number = |row: &Record<'_>| families.iter().position(|one| *one == row.text("category"));
    let mut lane = Lane::new(
        "TFLOP/s (up) over operations for each byte (across)".to_owned(),
        HEIGHT,
    );
    lane.caption = format!("up to {} TFLOP/s", up.value(1.0));
    for (_, rate, memory) in &roofs {
        lane.blocks.extend(roof(*rate, *memory, &across, &up));
    }
    for (row, [intensity, rate]) in &points {
        let half = (SQUARE * (row.number("busy_ns") / longest).sqrt()).max(THIN) / 2.0;
        let (x, y) = (across.place(*intensity), up.place(*rate));
        lane.blocks.push(Block {
            left: x - half,
            right: x + half,
            low: y - half * WIDE,
            high: y + half * WIDE,
            colour: colour(number(row).unwrap_or(0)),
        });
    }
    lane.marks = across.powers();
    let is_shown = |name: &str| points.iter().any(|(row, _)| row.text("category") == name);
    let names = families
        .iter()
        .enumerate()
        .filter(|(_, name)| is_shown(name));
    let legend = names
        .map(|(at, name)| ((*name).to_owned(), colour(at)))
        .collect();
    let named: Vec<String> = roofs
        .iter()
        .map(|(name, rate, _)| format!("{name} {rate}"))
        .collect();
    Some(Plot {
        file: "roofline".to_owned(),
        title: "Roofline: what operators came to".to_owned(),
        about: match named.is_empty() {
            true => "Areas by time".to_owned(),
            false => format!("Areas by time; roofs in TFLOP/s: {}", named.join(", ")),
        },
        legend,
        lanes: vec![lane],
    })
}

/// Intensity and rate.
fn point(row: &Record<'_>) -> Option<[f64; 2]> {
    let place = [row.some("flop_per_byte")?, row.some("tflop_per_s")?];
    place.iter().all(|value| *value > 0.0).then_some(place)
}

/// The roofs of all models of GPUs, each once.
fn roofs(table: &Table) -> Vec<Roof> {
    let mut roofs: Vec<Roof> = Vec::new();
    for row in records(table) {
        let rates = [
            ("bf16_matrix_tflop_per_s", "bf16"),
            ("fp32_vector_tflop_per_s", "vector fp32"),
        ];
        for (key, what) in rates {
            let rate = row.some(key).zip(row.some("memory_bytes_per_s"));
            let Some((rate, memory)) = rate.filter(|(rate, memory)| *rate > 0.0 && *memory > 0.0)
            else {
                continue;
            };
            let name = format!("{} {what}", row.text("peaks"));
            if roofs.iter().all(|(known, ..)| *known != name) {
                roofs.push((name, rate, memory / 1e12));
            }
        }
    }
    roofs
}

fn roof(rate: f64, memory: f64, across: &Axis, up: &Axis) -> Vec<Block> {
    let width = 1.0 / STEPS as f64;
    let step = |at: usize| {
        let left = at as f64 * width;
        let height = up.place((across.value(left) * memory).min(rate));
        (height > 0.0).then_some(Block {
            left,
            right: left + width,
            low: height - THIN,
            high: height + THIN,
            colour: SOFT,
        })
    };
    (0..STEPS).filter_map(step).collect()
}

/// From one power of ten to another.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn of(points: &[[f64; 2]], at: usize) -> Self {
        let logs = points.iter().map(|point| point[at].log10());
        let (least, most) = logs.fold((f64::MAX, f64::MIN), |(least, most), log| {
            (least.min(log), most.max(log))
        });
        Self {
            from: least.floor(),
            to: (most + 0.01).ceil().max(least.floor() + 1.0),
        }
    }

    /// Where a value is, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (value.log10() - self.from) / (self.to - self.from)
    }

    fn value(&self, place: f64) -> f64 {
        10_f64.powf(self.from + place * (self.to - self.from))
    }

    fn powers(&self) -> Vec<String> {
        let count = (self.to - self.from).round() as i32;
        (0..=count)
            .map(|at| format!("10^{}", self.from as i32 + at))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column};

    #[test]
    fn squares_are_under_their_roof() {
        let keys = ["category", "busy_ns", "flop_per_byte", "tflop_per_s"];
        let mut rows = Table::new("efficiency", "", &keys.map(|key| Column::plain(key, "")));
        rows.push(vec![
            "GEMM".into(),
            Cell::Count(900),
            500.0.into(),
            650.0.into(),
        ]);
        rows.push(vec![
            "copy".into(),
            Cell::Count(100),
            Cell::Null,
            Cell::Null,
        ]);
        let keys = [
            "peaks",
            "bf16_matrix_tflop_per_s",
            "fp32_vector_tflop_per_s",
            "memory_bytes_per_s",
        ];
        let columns = keys.map(|key| Column::plain(key, ""));
        let mut devices = Table::new("efficiency_devices", "", &columns);
        devices.push(vec![
            "MI300X".into(),
            1300.0.into(),
            Cell::Null,
            5.3e12.into(),
        ]);
        let answer = Answer {
            tables: vec![rows, devices],
            ..Answer::default()
        };
        let plot = plot(&answer).unwrap();
        assert_eq!(plot.legend.len(), 1);
        let blocks = &plot.lanes[0].blocks;
        let (square, roof) = (blocks.last().unwrap(), &blocks[..blocks.len() - 1]);
        // Half of the rate is below the roof.
        let above = roof.iter().find(|one| one.right >= square.left).unwrap();
        assert!(square.high < above.high, "{square:?} {above:?}");
        let none = Answer {
            tables: vec![answer.tables[1].clone()],
            ..Answer::default()
        };
        assert!(super::plot(&none).is_none());
    }
}
