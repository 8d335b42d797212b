//! Answers as workbooks: a sheet for each table, numbers as numbers, with the first row in view.
//!
//! Tables below rows of others become sheets of their own: in front of their cells stand those of the rows that they are below.

use std::collections::HashSet;

use anyhow::Result;
use rsys_analysis::table::{Answer, Cell, Table};
use rust_xlsxwriter::{Format, Workbook, Worksheet};

/// What a sheet holds at most, by the format.
const ROWS_MAX: usize = (1 << 20) - 1;
const TEXT_MAX: usize = 32_000;
const NAME_MAX: usize = 31;
/// Larger whole numbers are no longer exact as numbers of a workbook, so they are texts.
const EXACT_MAX: u64 = 1 << 53;

/// A sheet.
#[derive(Debug, Default)]
struct Sheet {
    name: &'static str,
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    left_out: usize,
}

/// The file of an answer, in the format of Excel (`.xlsx`).
///
/// # Errors
/// When there is no memory for it.
pub(crate) fn workbook(answer: &Answer) -> Result<Vec<u8>> {
    let mut sheets: Vec<Sheet> = Vec::new();
    gather(answer, &mut sheets);
    let mut workbook = Workbook::new();
    let bold = Format::new().set_bold();
    let mut names: HashSet<String> = HashSet::new();
    let mut notes = answer.notes.clone();
    for sheet in sheets.iter().filter(|sheet| !sheet.rows.is_empty()) {
        if sheet.left_out > 0 {
            notes.push(format!(
                "{}: {} more rows than a sheet holds",
                sheet.name, sheet.left_out
            ));
        }
        let page = workbook.add_worksheet();
        page.set_name(name_of(sheet.name, &mut names))?;
        fill(page, sheet, &bold)?;
    }
    let page = workbook.add_worksheet();
    page.set_name(name_of("notes", &mut names))?;
    for (row, note) in (0..).zip(&notes) {
        page.write_string(row, 0, cut(note))?;
    }
    Ok(workbook.save_to_buffer()?)
}

/// The sheets of an answer and of those that it is made of.
fn gather(answer: &Answer, sheets: &mut Vec<Sheet>) {
    for table in &answer.tables {
        add(table, &[], &[], sheets);
    }
    for (_, part) in &answer.parts {
        gather(part, sheets);
    }
}

fn add(table: &Table, headings: &[&'static str], cells: &[Cell], sheets: &mut Vec<Sheet>) {
    let own = table.columns.iter().map(|column| column.key);
    let headings: Vec<&'static str> = headings.iter().copied().chain(own).collect();
    // Tables of one key below several rows are one sheet.
    let known = sheets
        .iter()
        .position(|sheet| sheet.name == table.key && sheet.headings == headings);
    let at = known.unwrap_or_else(|| {
        sheets.push(Sheet {
            name: table.key,
            headings: headings.clone(),
            ..Sheet::default()
        });
        sheets.len() - 1
    });
    for row in &table.rows {
        let all: Vec<Cell> = cells.iter().chain(&row.cells).cloned().collect();
        for below in &row.below {
            add(below, &headings, &all, sheets);
        }
        match sheets[at].rows.len() < ROWS_MAX {
            true => sheets[at].rows.push(all),
            false => sheets[at].left_out += 1,
        }
    }
}

fn fill(page: &mut Worksheet, sheet: &Sheet, bold: &Format) -> Result<()> {
    for (column, heading) in (0..).zip(&sheet.headings) {
        page.write_string_with_format(0, column, *heading, bold)?;
        page.set_column_width(column, heading.len().clamp(8, 40) as f64 + 2.0)?;
    }
    for (row, cells) in (1..).zip(&sheet.rows) {
        for (column, cell) in (0..).zip(cells) {
            match cell {
                Cell::Null => {}
                Cell::Count(count) if *count > EXACT_MAX => {
                    page.write_string(row, column, count.to_string())?;
                }
                Cell::Count(count) => {
                    page.write_number(row, column, *count as f64)?;
                }
                Cell::Number(number) => {
                    page.write_number(row, column, *number)?;
                }
                Cell::Text(text) => {
                    page.write_string(row, column, cut(text))?;
                }
                Cell::Named(values) => {
                    page.write_string(row, column, cut(&named(values)))?;
                }
            }
        }
    }
    page.set_freeze_panes(1, 0)?;
    let last = u16::try_from(sheet.headings.len().saturating_sub(1))?;
    page.autofilter(0, 0, u32::try_from(sheet.rows.len())?, last)?;
    Ok(())
}

fn named(values: &[(&'static str, Cell)]) -> String {
    let value = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => number.to_string(),
        Cell::Null => String::new(),
        Cell::Named(values) => named(values),
    };
    let values = values
        .iter()
        .map(|(name, cell)| format!("{name} {}", value(cell)));
    values.collect::<Vec<_>>().join(", ")
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// A name that no sheet has so far, as short as the format wants it.
fn name_of(key: &str, names: &mut HashSet<String>) -> String {
    let short = |end: &str| -> String {
        let kept: String = key.chars().take(NAME_MAX - end.len()).collect();
        kept + end
    };
    let numbered = (2..).map(|number| short(&format!(" {number}")));
    let mut free = std::iter::once(short("")).chain(numbered);
    let name = free.find(|name| !names.contains(&name.to_lowercase()));
    let name = name.unwrap_or_default();
    names.insert(name.to_lowercase());
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_analysis::table::{Column, Row};

    #[test]
    fn tables_below_rows_are_sheets_with_the_cells_of_these() {
        let mut above = Table::new("runs", "", &[Column::plain("label", "run")]);
        for label in ["one", "other"] {
            let mut below = Table::new("devices", "", &[Column::ns("busy_ns", "busy")]);
            below.push(vec![Cell::Count(7)]);
            above.push(Row {
                cells: vec![label.into()],
                below: vec![below],
            });
        }
        let answer = Answer {
            tables: vec![above],
            notes: vec!["a note".to_owned()],
            ..Answer::default()
        };
        let mut sheets = Vec::new();
        gather(&answer, &mut sheets);
        let found: Vec<_> = sheets
            .iter()
            .map(|sheet| (sheet.name, &sheet.headings[..], sheet.rows.len()))
            .collect();
        assert_eq!(
            found,
            [
                ("runs", &["label"][..], 2),
                ("devices", &["label", "busy_ns"][..], 2)
            ]
        );
        assert_eq!(sheets[1].rows[1], [Cell::from("other"), Cell::Count(7)]);
        // A file of this kind is an archive.
        assert!(workbook(&answer).unwrap().starts_with(b"PK\x03\x04"));
    }

    #[test]
    fn names_of_sheets_are_short_and_differ() {
        let mut names = HashSet::new();
        let long = "a_name_that_is_longer_than_names_of_sheets";
        let found = [long, long, "Kernels", "kernels"].map(|key| name_of(key, &mut names));
        assert!(
            found.iter().all(|name| name.chars().count() <= NAME_MAX),
            "{found:?}"
        );
        assert_eq!(names.len(), 4);
    }
}
