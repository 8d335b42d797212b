//! Answers as text.

use super::quantity::quantity;
use crate::program::runs;
use crate::table::{Answer, Cell, Row, Table, Unit};

/// Texts longer than this are cut in the middle of a table on a terminal; JSON and CSV have them whole.
const TEXT_WIDTH_MAX: usize = 72;
/// The same where no terminal is: there are names of thousands of characters.
const WIDE_MAX: usize = 240;

/// Names are cut to no less than this, however narrow a terminal is.
const TEXT_WIDTH_MIN: usize = 24;

/// All tables with headings, one below the other, and the notes behind them.
#[must_use]
pub fn text(answer: &Answer) -> String {
    text_within(answer, usize::MAX)
}

/// The same for lines of this many characters: texts in tables are cut as far as they have to be. Numbers are not, nor is what stands below a table.
#[must_use]
pub fn text_within(answer: &Answer, width: usize) -> String {
    let mut text = String::new();
    // Whoever reads of several runs has to know that first.
    let (first, last): (Vec<&String>, Vec<&String>) =
        answer.notes.iter().partition(|note| runs::is_note(note));
    for note in first {
        text.push_str(&format!("{note}\n"));
    }
    write_tables(&mut text, answer, width);
    for note in last {
        text.push_str(&format!("note: {note}\n"));
    }
    if let Some(closing) = &answer.closing {
        for row in &closing.rows {
            write_lines(&mut text, closing, row, "");
        }
    }
    text
}

fn write_tables(text: &mut String, answer: &Answer, width: usize) {
    for table in answer.tables.iter().filter(|table| says_something(table)) {
        write_table(text, table, 0, width);
    }
    for (_, part) in &answer.parts {
        write_tables(text, part, width);
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
            if !value.is_empty() {
                text.push_str(&format!("{margin}{}: {value}\n", column.title));
            }
        }
    }
}

/// Whether a table below a row has a place in text: not one without rows, nor one whose columns have no headings.
fn is_shown(table: &Table) -> bool {
    !table.rows.is_empty() && table.columns.iter().any(|column| !column.title.is_empty())
}

fn write_table(text: &mut String, table: &Table, indent: usize, width: usize) {
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
    let widest = match width {
        usize::MAX => WIDE_MAX,
        _ => TEXT_WIDTH_MAX,
    };
    let mut cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let cell = |&at: &usize| {
                let value = quantity(&row.cells[at], table.columns[at].unit);
                // A line break would tear the row.
                value.replace(['\n', '\r', '\t'], " ")
            };
            shown.iter().map(cell).collect()
        })
        .collect();
    let mut widths: Vec<usize> = shown
        .iter()
        .enumerate()
        .map(|(place, &at)| {
            let title = table.columns[at].title.chars().count();
            let widths = cells.iter().map(|row| {
                let length = row[place].chars().count();
                match length > widest {
                    true => shorten(row[place].clone(), widest).chars().count(),
                    false => length,
                }
            });
            widths.fold(title, usize::max)
        })
        .collect();
    let is_text = |at: &usize| {
        rows.iter()
            .any(|row| matches!(row.cells[*at], Cell::Text(_)))
    };
    let are_left: Vec<bool> = shown.iter().map(is_text).collect();
    let room = width.saturating_sub(margin.len());
    narrow(&mut widths, &are_left, room);
    for row in &mut cells {
        for ((value, &width), is_left) in row.iter_mut().zip(&widths).zip(&are_left) {
            if *is_left {
                *value = shorten(std::mem::take(value), width);
            }
        }
    }
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
            write_table(text, below, indent + 1, width);
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

/// Makes the widest columns of texts narrower until a line has room, as far as that goes.
fn narrow(widths: &mut [usize], are_left: &[bool], room: usize) {
    const BETWEEN: usize = 2;
    let line: usize = widths.iter().map(|width| width + BETWEEN).sum();
    let mut surplus = line.saturating_sub(BETWEEN).saturating_sub(room);
    while surplus > 0 {
        let texts = widths.iter_mut().zip(are_left);
        let texts = texts.filter(|(width, is_left)| **is_left && **width > TEXT_WIDTH_MIN);
        let Some((widest, _)) = texts.max_by_key(|(width, _)| **width) else {
            break;
        };
        *widest -= 1;
        surplus -= 1;
    }
}

/// Leaves out the arguments of templates and functions of a long text, and then its middle: both ends of a name say something.
fn shorten(text: String, width: usize) -> String {
    let text = rsys_proto::without_arguments(&text, width);
    let length = text.chars().count();
    if length <= width {
        return text;
    }
    let end = width / 3;
    let start: String = text.chars().take(width - end - 1).collect();
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
        let long = shorten("x".repeat(100), TEXT_WIDTH_MAX);
        assert_eq!(long.chars().count(), TEXT_WIDTH_MAX);
    }

    #[test]
    fn a_line_without_a_value_is_left_out() {
        let columns = [
            Column::plain("number", "#"),
            Column::line("place", "where"),
            Column::line("more", "more of"),
        ];
        let mut table = Table::new("findings", "", &columns);
        table.push(vec![1_u64.into(), "main".into(), "".into()]);
        let answer = Answer {
            tables: vec![table],
            ..Answer::default()
        };
        assert_eq!(text(&answer), "#\n1\n    where: main\n\n");
    }

    #[test]
    fn names_give_way_to_numbers_in_narrow_terminals() {
        let columns = [
            Column::plain("name", "name"),
            Column::ns("total_ns", "total"),
        ];
        let mut table = Table::new("kernels", "Kernels", &columns);
        let name = "void gemm<float, 128, 128>(float const*, float*, int)";
        table.push(vec![name.into(), 2_000_u64.into()]);
        let answer = Answer {
            tables: vec![table],
            ..Answer::default()
        };
        let lines = |width| {
            text_within(&answer, width)
                .lines()
                .map(|line| line.chars().count())
                .max()
        };
        assert_eq!(lines(usize::MAX), Some(name.len() + 2 + "2.000 us".len()));
        assert_eq!(lines(60), Some(60));
        assert!(text_within(&answer, 50).contains("void gemm<\u{2026}>(float const*"));
        // Numbers stay whole.
        assert_eq!(lines(10), Some(TEXT_WIDTH_MIN + 2 + "2.000 us".len()));
    }
}
