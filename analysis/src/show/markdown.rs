//! Answers as Markdown of the size of a comment.

use super::quantity::quantity;
use crate::table::{Answer, Cell, Column, Table, Unit};

/// Rows of a table; the others are counted.
const ROWS: usize = 10;
/// Letters of a text; names of kernels have hundreds.
const LETTERS: usize = 80;

/// All tables, and the notes behind them.
#[must_use]
pub fn markdown(answer: &Answer) -> String {
    let mut text = String::new();
    for table in &answer.tables {
        write_table(&mut text, table);
    }
    for note in &answer.notes {
        text.push_str(&format!("> {note}\n"));
    }
    text
}

fn write_table(text: &mut String, table: &Table) {
    let shown =
        |(_, column): &(usize, &Column)| !column.title.is_empty() && column.unit != Unit::Line;
    let columns: Vec<(usize, &Column)> = table.columns.iter().enumerate().filter(shown).collect();
    if !table.title.is_empty() {
        text.push_str(&format!("**{}**\n\n", table.title));
    }
    if table.rows.is_empty() {
        text.push_str("nothing\n\n");
        return;
    }
    let mut line = |cells: Vec<String>| {
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    };
    line(
        columns
            .iter()
            .map(|(_, column)| column.title.to_owned())
            .collect(),
    );
    let is_text = |place: usize| {
        table
            .rows
            .iter()
            .any(|row| matches!(row.cells[place], Cell::Text(_)))
    };
    let rule = |(place, _): &(usize, &Column)| if is_text(*place) { "---" } else { "---:" };
    line(
        columns
            .iter()
            .map(|column| rule(column).to_owned())
            .collect(),
    );
    for row in table.rows.iter().take(ROWS) {
        let cell =
            |(place, column): &(usize, &Column)| escape(&quantity(&row.cells[*place], column.unit));
        line(columns.iter().map(cell).collect());
    }
    text.push('\n');
    if table.rows.len() > ROWS {
        text.push_str(&format!("… {} more\n\n", table.rows.len() - ROWS));
    }
}

/// A text that stays in its cell, shortened in its middle.
fn escape(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let short: String = match letters.len() > LETTERS {
        true => {
            let (head, tail) = (LETTERS / 2, LETTERS - LETTERS / 2 - 1);
            let head = letters[..head].iter();
            head.chain(['…'].iter())
                .chain(&letters[letters.len() - tail..])
                .collect()
        }
        false => text.to_owned(),
    };
    let mut escaped = String::new();
    for letter in short.chars() {
        match letter {
            '|' | '*' | '_' | '`' | '[' | ']' | '<' | '>' | '\\' | '#' => {
                escaped.extend(['\\', letter])
            }
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_stay_in_their_cells() {
        let columns = [
            Column::plain("name", "kernel"),
            Column::ns("time_ns", "time"),
            Column::ns("other_ns", ""),
        ];
        let mut table = Table::new("kernels", "Kernels", &columns);
        for time_ns in 0..12_u64 {
            table.push(vec![
                "void f<int*>(a|b)\nx".into(),
                time_ns.into(),
                1_u64.into(),
            ]);
        }
        let answer = Answer {
            tables: vec![table],
            notes: vec!["one".to_owned()],
            ..Answer::default()
        };
        let text = markdown(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            ["**Kernels**", "", "| kernel | time |", "| --- | ---: |"]
        );
        assert_eq!(lines[4], "| void f\\<int\\*\\>(a\\|b) x | 0 ns |");
        assert_eq!(lines[14..], ["", "… 2 more", "", "> one"]);
        assert!(escape(&"x".repeat(500)).chars().count() == LETTERS);
    }
}
