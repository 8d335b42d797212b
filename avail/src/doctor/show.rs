//! The findings as a table, and as text for the eye.

use clap::builder::styling::{AnsiColor, Color, Style as Paint};

use super::finding::{Finding, Level};
use crate::style::{Style, wrap};
use crate::table::{Cell, Column, Table};

/// Characters in front of what was found.
const INDENT: usize = 27;
/// No text is made narrower than this to fit the terminal.
const NARROWEST: usize = 40;

/// A row for each finding.
pub fn table(title: &str, findings: &[Finding]) -> Table {
    let columns = ["level", "name", "finding", "meaning", "remedy", "asked_by"];
    let mut table = Table {
        name: "doctor",
        title: "What would be recorded here",
        columns: columns.map(|id| Column::new(id, true)).to_vec(),
        ..Table::default()
    };
    table.rows = findings.iter().map(row).collect();
    let counts: Vec<String> = Level::ALL
        .iter()
        .map(|level| {
            let count = findings.iter().filter(|one| one.level == *level).count();
            let plural = if count == 1 || *level == Level::Ok {
                ""
            } else {
                "s"
            };
            format!("{count} {}{plural}", level.name())
        })
        .collect();
    table.notes.push(format!("{title}: {}", counts.join(", ")));
    table
}

fn row(finding: &Finding) -> Vec<Cell> {
    vec![
        Cell::text(finding.level.name()),
        Cell::text(finding.name),
        Cell::text(finding.finding.clone()),
        Cell::text(finding.meaning.clone()),
        Cell::text(finding.remedy.clone()),
        Cell::list(finding.asked_by.iter().cloned()),
    ]
}

/// The table as text: a line for each finding, and below it what it means and what helps, where something is to be done or all is wanted.
pub fn text(table: &Table, style: &Style) -> String {
    let mut text = String::new();
    for row in &table.rows {
        let [level, name, finding, meaning, remedy, asked_by] = row.as_slice() else {
            continue;
        };
        let level = level.shown();
        let mut lines = vec![finding.shown()];
        if level != Level::Ok.name() || style.whole {
            let remedy = Some(remedy.shown()).filter(|text| !text.is_empty());
            let asked_by = Some(asked_by.shown()).filter(|text| !text.is_empty());
            lines.extend(Some(meaning.shown()).filter(|text| !text.is_empty()));
            lines.extend(asked_by.map(|text| format!("asked for by {text}")));
            lines.extend(remedy.map(|text| format!("→ {text}")));
        }
        let room = style.width.map_or(usize::MAX, |width| {
            width.saturating_sub(INDENT).max(NARROWEST)
        });
        let lines = lines.iter().flat_map(|line| wrap(line, room));
        for (number, line) in lines.enumerate() {
            if number == 0 {
                let mark = painted(&format!("{level:<8}"), &level, style);
                text.push_str(&format!("{mark} {:<17} {line}\n", name.shown()));
            } else {
                text.push_str(&format!("{:INDENT$}{line}\n", ""));
            }
        }
    }
    for note in &table.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text
}

fn painted(text: &str, level: &str, style: &Style) -> String {
    let colour = match level {
        "ok" => AnsiColor::Green,
        "note" => AnsiColor::Cyan,
        "warning" => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    if !style.colours {
        return text.to_owned();
    }
    let paint = Paint::new().fg_color(Some(Color::Ansi(colour)));
    format!("{paint}{text}{paint:#}")
}
