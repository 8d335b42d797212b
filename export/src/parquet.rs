//! Each table of records as a Parquet file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use rsys_analysis::parquet::{Cells, Kind, Writer};
use rsys_tables::catalog::{self, TABLES};
use rsys_tables::store::StoreError;
use rsys_tables::view::Values;

use crate::chooser::Chooser;
use crate::rows::Row;
use crate::run::Run;
use crate::{BUFFER_BYTES, Failure};

/// Writes `<table>.parquet` into a new folder for each table that has rows. A part of a table is a group of rows.
///
/// # Errors
/// When the store is damaged, or a file cannot be written.
pub(crate) fn write(run: &Run<'_>, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    for table in TABLES {
        let chooser = Chooser::new(table);
        let mut out: Option<Writer<BufWriter<File>>> = None;
        for (part, &rows) in run.view.parts(table).iter().enumerate() {
            let columns = table.columns.iter();
            let columns = columns.map(|column| run.view.column(table, column, part));
            let columns = columns.collect::<Result<Vec<Values>, StoreError>>()?;
            let chosen = (0..rows as usize).filter(|&row| chooser.has(run, Row::of(&columns, row)));
            let chosen: Vec<usize> = chosen.collect();
            if chosen.is_empty() {
                continue;
            }
            let out = match &mut out {
                Some(out) => out,
                None => {
                    let path = folder.join(format!("{}.parquet", table.name));
                    let file = BufWriter::with_capacity(BUFFER_BYTES, File::create_new(path)?);
                    let columns = table.columns.iter();
                    let columns = columns.map(|column| (column.name.to_owned(), kind(column.kind)));
                    out.insert(Writer::new(file, columns.collect())?)
                }
            };
            let cells: Vec<Cells<'_>> = columns.iter().map(|one| cells(one, &chosen)).collect();
            out.group(&cells)?;
        }
        if let Some(out) = out {
            out.finish()?;
        }
    }
    Ok(())
}

fn kind(kind: catalog::Kind) -> Kind {
    match kind {
        catalog::Kind::Integer | catalog::Kind::Unsigned => Kind::Count,
        catalog::Kind::Number => Kind::Number,
        catalog::Kind::Text => Kind::Text,
    }
}

/// The values of some rows.
fn cells<'v>(values: &'v Values, rows: &[usize]) -> Cells<'v> {
    let rows = rows.iter().copied();
    match values {
        Values::Integers(values, valid) => Cells::Counts(
            rows.map(|row| valid.is_valid(row).then(|| values[row]))
                .collect(),
        ),
        // As SQL has them.
        Values::Unsigned(values, valid) => {
            let value = |row| valid.is_valid(row).then(|| values[row].cast_signed());
            Cells::Counts(rows.map(value).collect())
        }
        Values::Numbers(values, valid) => Cells::Numbers(
            rows.map(|row| valid.is_valid(row).then(|| values[row]))
                .collect(),
        ),
        Values::Texts(ids, words) => {
            // Texts that these rows have, in the order in which they are met.
            let mut numbers = vec![u32::MAX; words.len() as usize];
            let mut texts = Vec::new();
            let ids = rows.map(|row| {
                let text = words.get(ids[row])?;
                let number = numbers.get_mut(ids[row] as usize)?;
                if *number == u32::MAX {
                    *number = texts.len() as u32;
                    texts.push(text);
                }
                Some(*number)
            });
            let ids = ids.collect();
            Cells::Texts(ids, texts)
        }
    }
}
