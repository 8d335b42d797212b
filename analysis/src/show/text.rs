//! Answers as text.

use super::quantity::quantity;
use crate::table::{Answer, Cell, Row, Table, Unit};

/// Texts longer than this are cut in the middle of a table; JSON and CSV have them whole.
const TEXT_WIDTH_MAX: usize = 72;

/// All tables with headings, one below the other, and the notes behind them.
#[must_use]
pub fn text(answer: &Answer) -> String {
    let mut text = String::new();
    write_tables(&mut text, answer);
    for note in &answer.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    if let Some(closing) = &answer.closing {
        for row in &closing.rows {
            write_lines(&mut text, closing, row, "");
        }
    }
    text
}

fn write_tables(text: &mut String, answer: &Answer) {
    for table in answer.tables.iter().filter(|table| says_something(table)) {
        write_table(text, table, 0);
    }
    for (_, part) in &answer.parts {
        write_tables(text, part);
    }
}

/// Whether there is more than headings: the name of a run alone is one, too.
fn says_something(table: &Table) -> bool {
    if table.rows_in_text == 0 {
        return false;
    }
    let is_shown = table.columns.iter().any(|column| !column.title.is_empty());
    table
        .rows
        .iter()
        .any(|row| is_shown && row.cells.len() > 1 || row.below.iter().any(says_something))
}

/// The values of a row that have lines of their own.
fn write_lines(text: &mut String, table: &Table, row: &Row, margin: &str) {
    for (column, cell) in table.columns.iter().zip(&row.cells) {
        if column.unit == Unit::Line && !column.title.is_empty() && *cell != Cell::Null {
            let value = quantity(cell, column.unit);
            text.push_str(&format!("{margin}{}: {value}\n", column.title));
        }
    }
}

/// Whether a table below a row has a place in text: not one without rows, nor one whose columns have no headings.
fn is_shown(table: &Table) -> bool {
    !table.rows.is_empty() && table.columns.iter().any(|column| !column.title.is_empty())
}

fn write_table(text: &mut String, table: &Table, indent: usize) {
    let margin = "  ".repeat(indent);
    if !table.title.is_empty() {
        text.push_str(&format!("{margin}{}\n", table.title));
    }
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|&at| !table.columns[at].title.is_empty())
        .filter(|&at| table.columns[at].unit != Unit::Line)
        .collect();
    let count = table.rows.len().min(table.rows_in_text);
    let rows = &table.rows[..count];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let cell = |&at: &usize| shorten(quantity(&row.cells[at], table.columns[at].unit));
            shown.iter().map(cell).collect()
        })
        .collect();
    let widths: Vec<usize> = shown
        .iter()
        .enumerate()
        .map(|(place, &at)| {
            let title = table.columns[at].title.chars().count();
            let widths = cells.iter().map(|row| row[place].chars().count());
            widths.fold(title, usize::max)
        })
        .collect();
    let is_text = |at: &usize| {
        rows.iter()
            .any(|row| matches!(row.cells[*at], Cell::Text(_)))
    };
    let are_left: Vec<bool> = shown.iter().map(is_text).collect();
    let put = |text: &mut String, values: &[&str]| {
        let mut line = margin.clone();
        for ((value, &width), is_left) in values.iter().zip(&widths).zip(&are_left) {
            let padding = " ".repeat(width.saturating_sub(value.chars().count()));
            match is_left {
                true => line.push_str(&format!("{value}{padding}  ")),
                false => line.push_str(&format!("{padding}{value}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    if !shown.is_empty() && !rows.is_empty() {
        let titles: Vec<&str> = shown.iter().map(|&at| table.columns[at].title).collect();
        put(text, &titles);
    }
    for (row, cells) in rows.iter().zip(&cells) {
        if !shown.is_empty() {
            let values: Vec<&str> = cells.iter().map(String::as_str).collect();
            put(text, &values);
        }
        write_lines(text, table, row, &format!("{margin}    "));
        for below in row.below.iter().filter(|below| is_shown(below)) {
            write_table(text, below, indent + 1);
        }
    }
    if table.rows.len() > count {
        text.push_str(&format!(
            "{margin}\u{2026} {} more\n",
            table.rows.len() - count
        ));
    }
    text.push('\n');
}

/// Cuts out the middle of a long text: both ends of a name say something.
fn shorten(text: String) -> String {
    let length = text.chars().count();
    if length <= TEXT_WIDTH_MAX {
        return text;
    }
    let end = TEXT_WIDTH_MAX / 3;
    let start: String = text.chars().take(TEXT_WIDTH_MAX - end - 1).collect();
    let end: String = text.chars().skip(length - end).collect();
    format!("{start}\u{2026}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn tables_without_rows_have_no_headings() {
        let devices = Table::new("devices", "Devices", &[Column::plain("device", "GPU")]);
        let mut runs = Table::new("runs", "", &[Column::plain("label", "run")]);
        runs.push(Row {
            cells: vec!["train".into()],
            below: vec![devices.clone()],
        });
        let answer = Answer {
            tables: vec![runs, devices],
            notes: vec!["nothing".to_owned()],
            ..Answer::default()
        };
        assert_eq!(text(&answer), "note: nothing\n");
    }

    #[test]
    fn numbers_stand_right_and_texts_left() {
        let columns = [
            Column::plain("name", "name"),
            Column::ns("total_ns", "total"),
            Column::plain("hidden", ""),
        ];
        let mut table = Table::new("kernels", "Kernels", &columns);
        for (name, total) in [("gemm", 2_000_u64), ("a", 5), ("b", 1)] {
            table.push(vec![name.into(), total.into(), Cell::Null]);
        }
        table.rows_in_text = 2;
        let answer = Answer {
            tables: vec![table],
            notes: vec!["n".to_owned()],
            ..Answer::default()
        };
        let expected = "Kernels\nname     total\ngemm  2.000 \u{b5}s\na         5 ns\n\u{2026} 1 more\n\nnote: n\n";
        assert_eq!(text(&answer), expected);
        assert_eq!(shorten("x".repeat(100)).chars().count(), TEXT_WIDTH_MAX);
    }
}
