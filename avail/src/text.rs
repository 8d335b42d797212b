//! Tables for the eye: aligned columns that fit the terminal.

use clap::builder::styling::{AnsiColor, Color, Style as Paint};

use crate::doctor;
use crate::filter::Filter;
use crate::style::{Style, wrap};
use crate::table::Table;

/// Blanks between two columns.
const GAP: usize = 2;
/// No column is made narrower than this to fit the terminal.
const NARROWEST: usize = 12;

/// Prints all tables.
pub fn render(tables: &[Table], filter: &Filter, style: &Style) -> String {
    let mut text = String::new();
    for table in tables {
        if !text.is_empty() {
            text.push('\n');
        }
        if tables.len() > 1 {
            text.push_str(&painted(table.title, heading(), style));
            text.push_str("\n\n");
        }
        if table.name == doctor::TABLE {
            text.push_str(&doctor::text(table, style));
        } else {
            push_table(&mut text, table, filter, style);
        }
    }
    text
}

fn heading() -> Paint {
    Paint::new().bold()
}

fn coloured(colour: AnsiColor) -> Paint {
    Paint::new().fg_color(Some(Color::Ansi(colour)))
}

fn push_table(text: &mut String, table: &Table, filter: &Filter, style: &Style) {
    let shown: Vec<usize> = table.shown_columns().collect();
    if !table.rows.is_empty() {
        let heads: Vec<String> = shown
            .iter()
            .map(|place| table.columns[*place].id.to_uppercase().replace('_', " "))
            .collect();
        let rows: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| shown.iter().map(|place| row[*place].shown()).collect())
            .collect();
        let widths = widths(&heads, &rows, style);
        push_row(text, &heads, &widths, |_, cell| {
            painted(cell, heading(), style)
        });
        for row in &rows {
            push_row(text, row, &widths, |column, cell| {
                if table.columns[shown[column]].id == "available" {
                    let colour = match cell {
                        "yes" => AnsiColor::Green,
                        _ => AnsiColor::Red,
                    };
                    painted(cell, coloured(colour), style)
                } else if style.highlight {
                    highlighted(cell, filter, style)
                } else {
                    cell.to_owned()
                }
            });
        }
    }
    for (number, note) in table.notes.iter().enumerate() {
        if number == 0 && !table.rows.is_empty() {
            text.push('\n');
        }
        for line in wrap(note, style.width.unwrap_or(usize::MAX)) {
            text.push_str(&line);
            text.push('\n');
        }
    }
}

/// Natural widths, the widest columns made narrower until a line fits.
fn widths(heads: &[String], rows: &[Vec<String>], style: &Style) -> Vec<usize> {
    let count = |text: &String| text.chars().count();
    let limit = style.column_width.unwrap_or(usize::MAX).max(1);
    let mut widths: Vec<usize> = heads.iter().map(count).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(count(cell));
        }
    }
    for width in &mut widths {
        *width = (*width).min(limit);
    }
    let Some(total) = style.width else {
        return widths;
    };
    let room = total.saturating_sub(GAP * widths.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > NARROWEST) else {
            break;
        };
        *widest -= 1;
    }
    widths
}

fn push_row(
    text: &mut String,
    cells: &[String],
    widths: &[usize],
    paint: impl Fn(usize, &str) -> String,
) {
    let wrapped: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| wrap(cell, *width))
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let mut blanks = 0;
        for (column, lines) in wrapped.iter().enumerate() {
            let piece = lines.get(line).map_or("", String::as_str);
            if !piece.is_empty() {
                text.push_str(&" ".repeat(blanks));
                text.push_str(&paint(column, piece));
                blanks = 0;
            }
            blanks += widths[column] - piece.chars().count() + GAP;
        }
        text.push('\n');
    }
}

fn painted(text: &str, paint: Paint, style: &Style) -> String {
    if style.colours {
        format!("{paint}{text}{paint:#}")
    } else {
        text.to_owned()
    }
}

fn highlighted(text: &str, filter: &Filter, style: &Style) -> String {
    let mut result = String::new();
    let mut done = 0;
    for hit in filter.hits(text) {
        result.push_str(&text[done..hit.start]);
        let paint = coloured(AnsiColor::Yellow).bold();
        result.push_str(&painted(&text[hit.clone()], paint, style));
        done = hit.end;
    }
    result.push_str(&text[done..]);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column};

    fn table() -> Table {
        Table {
            name: "things",
            title: "Things",
            columns: vec![Column::new("name", true), Column::new("description", true)],
            rows: vec![
                vec![Cell::text("A"), Cell::text("short")],
                vec![
                    Cell::text("LONGER"),
                    Cell::text("a sentence that is too long for its column"),
                ],
            ],
            notes: vec!["A note.".to_owned()],
        }
    }

    fn style(width: Option<usize>) -> Style {
        Style {
            width,
            column_width: None,
            colours: false,
            highlight: false,
            whole: false,
        }
    }

    #[test]
    fn columns_are_aligned_and_broken_where_they_must() {
        let text = render(&[table()], &Filter::default(), &style(Some(30)));
        assert_eq!(
            text,
            "NAME    DESCRIPTION\n\
             A       short\n\
             LONGER  a sentence that is too\n        long for its column\n\
             \nA note.\n"
        );
        let wide = render(&[table()], &Filter::default(), &style(None));
        assert_eq!(wide.lines().count(), 5);
    }

    #[test]
    fn no_line_is_longer_than_asked() {
        for width in 26..80 {
            let text = render(&[table()], &Filter::default(), &style(Some(width)));
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{text}"
            );
        }
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(
            wrap("\u{e4}\u{e4}\u{e4}\u{e4}", 3),
            ["\u{e4}\u{e4}\u{e4}", "\u{e4}"]
        );
        assert_eq!(wrap("", 3), [""]);
    }
}
