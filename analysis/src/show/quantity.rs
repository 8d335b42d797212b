//! Numbers with units, for people.

use crate::table::{Cell, Unit};

/// A cell as it is shown in text.
pub(super) fn quantity(cell: &Cell, unit: Unit) -> String {
    let number = match cell {
        Cell::Null => return "-".to_owned(),
        Cell::Text(text) => return text.clone(),
        Cell::Count(count) if matches!(unit, Unit::Plain | Unit::Line) => return count.to_string(),
        Cell::Count(count) => *count as f64,
        Cell::Number(number) => *number,
        Cell::Named(values) => return named(values),
    };
    match unit {
        Unit::Plain | Unit::Line => format!("{number:.3}"),
        Unit::Share => format!("{:.1} %", 100.0 * number),
        Unit::Nanoseconds => scaled(number, &[(1e9, "s"), (1e6, "ms"), (1e3, "\u{b5}s")], "ns"),
        Unit::Bytes => scaled(number, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "B"),
        Unit::Bandwidth => scaled(
            number,
            &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")],
            "B/s",
        ),
    }
}

/// A number at an axis: as short as can be.
pub(super) fn brief(number: f64, unit: Unit) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let text = quantity(&Cell::Number(number), unit);
    let (digits, unit) = text.split_once(' ').unwrap_or((&text, ""));
    // Four digits that count, and no zeros behind the point.
    let point = digits.find('.').unwrap_or(digits.len());
    let value: f64 = digits.parse().unwrap_or(number);
    let kept = format!("{value:.*}", 4_usize.saturating_sub(point));
    let kept = match kept.contains('.') {
        true => kept.trim_end_matches('0').trim_end_matches('.'),
        false => &kept,
    };
    format!("{kept} {unit}").trim_end().to_owned()
}

/// `idle 1.500 ms, times 3`: names without their units, which the values have.
fn named(values: &[(&'static str, Cell)]) -> String {
    let words = |key: &str, unit: Unit| {
        let end = match unit {
            Unit::Nanoseconds => "_ns",
            Unit::Bytes => "_bytes",
            Unit::Share => "_share",
            Unit::Bandwidth => "_bytes_per_s",
            Unit::Plain | Unit::Line => "",
        };
        key.strip_suffix(end).unwrap_or(key).replace('_', " ")
    };
    let texts: Vec<String> = values
        .iter()
        .map(|(key, value)| {
            let unit = Unit::of_key(key);
            format!("{} {}", words(key, unit), quantity(value, unit))
        })
        .collect();
    texts.join(", ")
}

/// A number in the largest unit of which there is one at least.
fn scaled(number: f64, units: &[(f64, &str)], smallest: &str) -> String {
    match units.iter().find(|(size, _)| number.abs() >= *size) {
        Some((size, name)) => format!("{:.3} {name}", number / size),
        None if number.fract() == 0.0 => format!("{number} {smallest}"),
        None => format!("{number:.1} {smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_axes_are_short() {
        for (number, unit, text) in [
            (0.0, Unit::Nanoseconds, "0"),
            (1_500_000.0, Unit::Nanoseconds, "1.5 ms"),
            (2e9, Unit::Nanoseconds, "2 s"),
            (123_456_000.0, Unit::Bytes, "123.5 MB"),
            (0.25, Unit::Plain, "0.25"),
            (120_000.0, Unit::Plain, "120000"),
            (0.5, Unit::Share, "50 %"),
        ] {
            assert_eq!(brief(number, unit), text);
        }
    }

    #[test]
    fn numbers_take_the_unit_that_fits() {
        for (cell, unit, text) in [
            (Cell::Count(999), Unit::Nanoseconds, "999 ns"),
            (Cell::Count(1_500_000), Unit::Nanoseconds, "1.500 ms"),
            (Cell::Number(12.5), Unit::Nanoseconds, "12.5 ns"),
            (Cell::Count(4096), Unit::Bytes, "4.096 kB"),
            (Cell::Number(0.257), Unit::Share, "25.7 %"),
            (Cell::Null, Unit::Share, "-"),
            (Cell::Count(7), Unit::Plain, "7"),
            (
                Cell::Named(vec![
                    ("idle_ns", Cell::Count(1_500_000)),
                    ("idle_share", Cell::Number(0.25)),
                    ("call", "hipFree".into()),
                ]),
                Unit::Line,
                "idle 1.500 ms, idle 25.0 %, call hipFree",
            ),
        ] {
            assert_eq!(quantity(&cell, unit), text);
        }
    }
}
