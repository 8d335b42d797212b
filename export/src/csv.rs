//! Each table of records as a CSV file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use rsys_tables::catalog::TABLES;

use crate::chooser::Chooser;
use crate::rows::{Cell, each};
use crate::run::Run;
use crate::{BUFFER_BYTES, Failure};

/// Writes `<table>.csv` into a new folder for each table that has rows.
///
/// # Errors
/// When the store is damaged, or a file cannot be written.
pub(crate) fn write(run: &Run<'_>, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    for table in TABLES {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let chooser = Chooser::new(table);
        let mut out: Option<BufWriter<File>> = None;
        let mut line = Vec::new();
        each(run.view, table.name, &names, |row| {
            if !chooser.has(run, row) {
                return Ok(());
            }
            let out = match &mut out {
                Some(out) => out,
                None => {
                    let file = File::create_new(folder.join(format!("{}.csv", table.name)))?;
                    let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
                    writeln!(file, "{}", names.join(","))?;
                    out.insert(file)
                }
            };
            line.clear();
            for column in 0..names.len() {
                if column > 0 {
                    line.push(b',');
                }
                match row.cell(column) {
                    None => {}
                    Some(Cell::Integer(number)) => write!(line, "{number}")?,
                    Some(Cell::Number(number)) => write!(line, "{number}")?,
                    Some(Cell::Text(text)) => quoted(&mut line, text),
                }
            }
            line.push(b'\n');
            Ok(out.write_all(&line)?)
        })?;
        if let Some(mut out) = out {
            out.flush()?;
        }
    }
    Ok(())
}

/// A text as CSV has it (RFC 4180).
fn quoted(line: &mut Vec<u8>, text: &str) {
    if !text.contains(['"', ',', '\r', '\n']) {
        return line.extend_from_slice(text.as_bytes());
    }
    line.push(b'"');
    line.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    line.push(b'"');
}
