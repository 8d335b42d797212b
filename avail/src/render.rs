//! Forms for programs: CSV, JSON, Markdown.

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::table::{Cell, Table};

/// All tables with their shown columns; an empty line between two.
pub fn csv(tables: &[Table], separator: &str) -> String {
    let mut parts = Vec::new();
    for table in tables {
        let mut part = String::new();
        let head: Vec<String> = table
            .shown_columns()
            .map(|place| table.columns[place].id.to_owned())
            .collect();
        push_csv_row(&mut part, &head, separator);
        for row in &table.rows {
            let cells: Vec<String> = table
                .shown_columns()
                .map(|place| match &row[place] {
                    Cell::List(texts) => texts.join(";"),
                    other => other.shown(),
                })
                .collect();
            push_csv_row(&mut part, &cells, separator);
        }
        parts.push(part);
    }
    parts.join("\n")
}

/// One row in the manner of RFC 4180.
fn push_csv_row(text: &mut String, cells: &[String], separator: &str) {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| {
            let needs_quotes = cell.contains(['"', '\n', '\r'])
                || (!separator.is_empty() && cell.contains(separator));
            if needs_quotes {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.clone()
            }
        })
        .collect();
    text.push_str(&cells.join(separator));
    text.push('\n');
}

/// All tables with all columns: `{"settings": {"rows": [{"name": ...}], "notes": [...]}}`.
pub fn json(tables: &[Table]) -> Result<String> {
    let mut document = Map::new();
    for table in tables {
        let rows: Vec<Value> = table
            .rows
            .iter()
            .map(|row| {
                let members = table.columns.iter().zip(row).map(|(column, cell)| {
                    let value = match cell {
                        Cell::Text(text) => json!(text),
                        Cell::List(texts) => json!(texts),
                        Cell::Flag(flag) => json!(flag),
                    };
                    (column.id.to_owned(), value)
                });
                Value::Object(members.collect())
            })
            .collect();
        document.insert(
            table.name.to_owned(),
            json!({"rows": rows, "notes": table.notes}),
        );
    }
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// All tables with their shown columns.
pub fn markdown(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        if !text.is_empty() {
            text.push('\n');
        }
        let shown: Vec<usize> = table.shown_columns().collect();
        let heads: Vec<String> = shown
            .iter()
            .map(|place| table.columns[*place].id.replace('_', " "))
            .collect();
        text.push_str(&format!(
            "## {}\n\n| {} |\n|",
            table.title,
            heads.join(" | ")
        ));
        text.push_str(&"---|".repeat(shown.len()));
        text.push('\n');
        for row in &table.rows {
            let cells: Vec<String> = shown
                .iter()
                .map(|place| row[*place].shown().replace('|', "\\|").replace('\n', " "))
                .collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        for note in &table.notes {
            text.push_str(&format!("\n{note}\n"));
        }
    }
    text
}
