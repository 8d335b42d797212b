//! Answers as CSV.

use crate::table::{Answer, Cell, Row, Table};

/// The first table of an answer or of its first part, with its columns' keys as the first line. Rows that have a table below them stand once for each row of that,
/// their own cells in front; of several such tables only the first is taken, and details are left out.
#[must_use]
pub fn csv(answer: &Answer) -> String {
    let Some(table) = answer.tables.first() else {
        let part = answer.parts.first();
        return part.map_or_else(String::new, |(_, part)| csv(part));
    };
    let mut text = String::new();
    line(&mut text, heading(table).into_iter().map(str::to_owned));
    rows(&mut text, table, &[]);
    text
}

fn heading(table: &Table) -> Vec<&'static str> {
    let mut keys: Vec<_> = table.columns.iter().map(|column| column.key).collect();
    let mut rows = table.rows.iter();
    if let Some(below) = rows.find_map(below) {
        keys.extend(heading(below));
    }
    keys
}

/// The table that takes the place of a row.
fn below(row: &Row) -> Option<&Table> {
    row.below.iter().find(|table| !table.is_detail)
}

fn rows(text: &mut String, table: &Table, outer: &[String]) {
    for row in &table.rows {
        let mut cells = outer.to_vec();
        cells.extend(row.cells.iter().map(plain));
        match below(row) {
            Some(below) => rows(text, below, &cells),
            None => line(text, cells.into_iter()),
        }
    }
}

fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => number.to_string(),
        Cell::Named(values) => {
            let values = values.iter();
            let texts: Vec<String> = values
                .map(|(key, value)| format!("{key}={}", plain(value)))
                .collect();
            texts.join(" ")
        }
    }
}

/// Appends a line; cells are quoted where they have to be (RFC 4180).
fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            text.push(',');
        }
        if cell.contains(['"', ',', '\n', '\r']) {
            text.push_str(&format!("\"{}\"", cell.replace('"', "\"\"")));
        } else {
            text.push_str(&cell);
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn nested_tables_are_flat_and_texts_are_quoted() {
        let mut inner = Table::new("k", "", &[Column::plain("name", "")]);
        inner.push(vec![Cell::from("f<int, \"x\">")]);
        inner.push(vec![Cell::Number(1.5)]);
        let mut outer = Table::new("d", "", &[Column::plain("device", "")]);
        outer.push(Row {
            cells: vec![Cell::Count(0)],
            below: vec![inner],
        });
        let answer = Answer {
            tables: vec![outer],
            ..Answer::default()
        };
        let expected = "device,name\n0,\"f<int, \"\"x\"\">\"\n0,1.5\n";
        assert_eq!(csv(&answer), expected);
    }
}
