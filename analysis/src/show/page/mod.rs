//! Answers as one page for a browser, with pictures, in one file that asks nobody for anything.
//!
//! The page is written by hand: its look in `page.css`, what it does in the `.js` files, which stand in it one behind the other. The answers
//! stand in it as JSON; nothing is computed there but where things are drawn.

mod mpi;

use serde_json::{Value, json};

use super::quantity::quantity;
use crate::table::{Answer, Cell, Column, Row, SCHEMA_VERSION, Table, Unit};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// In the order in which they use one another.
const SCRIPTS: [&str; 5] = [
    include_str!("words.js"),
    include_str!("tables.js"),
    include_str!("plots.js"),
    include_str!("flame.js"),
    include_str!("page.js"),
];

/// So many rows of a table are in the page, and of a table below a row.
const ROWS_MAX: usize = 1_000;
const ROWS_BELOW_MAX: usize = 600;

/// Longer texts are cut in the middle; JSON and CSV have them whole.
const TEXT_MAX: usize = 2_000;

/// The page of a run. `label` is its name, `version` that of the program which makes the page; `plots` are the answers that pictures are drawn
/// from, whole.
#[must_use]
pub fn page(answer: &Answer, plots: &Answer, label: &str, version: &str) -> String {
    let data = json!({
        "schema_version": SCHEMA_VERSION,
        "label": label,
        "version": version,
        "notes": answer.notes.iter().chain(&plots.notes).collect::<Vec<_>>(),
        "parts": parts(answer, ROWS_MAX),
        "plots": parts(plots, usize::MAX),
        "cost": answer.closing.as_ref().map(|cost| table(cost, 1)),
    });
    // Whatever a name holds, it ends no script: `<` is written in another way, which means the same.
    let data = data.to_string().replace('<', "\\u003c");
    let scripts = SCRIPTS.concat();
    let mut page = String::with_capacity(data.len() + scripts.len() + STYLE.len() + TEMPLATE.len());
    // What is put in is not looked through again.
    let mut rest = TEMPLATE;
    for (place, text) in [
        ("{{title}}", escaped(label).as_str()),
        ("{{style}}", STYLE),
        ("{{data}}", &data),
        ("{{script}}", &scripts),
    ] {
        if let Some((before, behind)) = rest.split_once(place) {
            page.push_str(before);
            page.push_str(text);
            rest = behind;
        }
    }
    page + rest
}

/// A text in HTML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

fn parts(answer: &Answer, rows_max: usize) -> Value {
    let own = (!answer.tables.is_empty()).then_some(("", answer));
    let parts = answer.parts.iter().map(|(name, part)| (*name, part));
    own.into_iter()
        .chain(parts)
        .map(|(name, part)| {
            let tables = part.tables.iter().map(|table| {
                let is_of_processes = table.key == "processes";
                let with_mpi = is_of_processes
                    .then(|| mpi::with_mpi(table, answer))
                    .flatten();
                self::table(with_mpi.as_ref().unwrap_or(table), rows_max)
            });
            json!({ "name": name, "tables": tables.collect::<Vec<_>>() })
        })
        .collect()
}

/// A table: columns, rows up to a number, and how many there are in all.
fn table(table: &Table, rows_max: usize) -> Value {
    let columns = table.columns.iter();
    let rows = table.rows.iter().take(rows_max);
    json!({
        "key": table.key,
        "title": table.title,
        "detail": table.is_detail,
        "columns": columns.map(column).collect::<Vec<_>>(),
        "rows": rows.map(|row| self::row(table, row)).collect::<Vec<_>>(),
        "count": table.rows.len(),
    })
}

fn column(column: &Column) -> Value {
    let unit = match column.unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
        Unit::Bandwidth => "bandwidth",
        _ => "",
    };
    json!([column.key, column.title, unit])
}

/// The cells of a row, and behind them the tables below it if there are any.
fn row(table: &Table, row: &Row) -> Value {
    let cells = row.cells.iter().zip(&table.columns);
    let mut values: Vec<Value> = cells
        .map(|(cell, column)| value(cell, column.unit))
        .collect();
    if !row.below.is_empty() {
        let below = row.below.iter();
        values.push(
            below
                .map(|table| self::table(table, ROWS_BELOW_MAX))
                .collect(),
        );
    }
    values.into()
}

fn value(cell: &Cell, unit: Unit) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Count(count) => json!(count),
        Cell::Number(number) => json!(number),
        other => json!(cut(quantity(other, unit))),
    }
}

/// Cuts out the middle of a text that is far too long: both ends of a name say something.
fn cut(text: String) -> String {
    if text.len() <= TEXT_MAX {
        return text;
    }
    let length = text.chars().count();
    let start: String = text.chars().take(TEXT_MAX / 2).collect();
    let end: String = text
        .chars()
        .skip(length.saturating_sub(TEXT_MAX / 2))
        .collect();
    format!("{start}\u{2026}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str) -> Answer {
        let columns = [
            Column::plain("name", "kernel"),
            Column::ns("total_ns", "total"),
        ];
        let mut table = Table::new("kernels", "Kernels", &columns);
        table.push(vec![name.into(), Cell::Count(7)]);
        Answer::joined([(
            "kernels",
            Answer {
                tables: vec![table],
                ..Answer::default()
            },
        )])
    }

    #[test]
    fn no_name_gets_out_of_the_data() {
        let evil = "</script><script>alert(1)</script><!-- {{script}} {{title}}";
        let page = page(&answer(evil), &Answer::default(), evil, "1");
        assert!(!page.contains("<script>alert"));
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["parts"][0]["tables"][0]["rows"], json!([[evil, 7]]));
        assert_eq!(page.matches("<script").count(), 2);
        assert!(!page.contains("{{style}}") && !page.contains("{{data}}"));
    }

    #[test]
    fn rows_beyond_the_bound_are_told() {
        let mut answer = answer("gemm");
        let rows = &mut answer.parts[0].1.tables[0].rows;
        *rows = vec![rows[0].clone(); ROWS_MAX + 5];
        let parts = parts(&answer, ROWS_MAX);
        let table = &parts[0]["tables"][0];
        assert_eq!(table["rows"].as_array().unwrap().len(), ROWS_MAX);
        assert_eq!(table["count"], ROWS_MAX + 5);
        assert!(cut("ä".repeat(5_000)).chars().count() <= TEXT_MAX + 1);
    }
}
