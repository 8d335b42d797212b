//! Lines and cells of a table with commas, without the whole of it in memory.

use std::borrow::Cow;
use std::io::{self, Read};

use crate::read::json::window::{More, Window};

/// A cell with line feeds may have this many bytes; what is longer lacks its quotation mark.
const QUOTED_BYTES_MAX: usize = 64 << 10;

/// A row may have this many bytes.
const ROW_BYTES_MAX: usize = 1 << 20;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A row that begins at this byte; [`Rows::cell`] has its cells.
    Row(u64),
    /// What begins at this byte is no row.
    Malformed(u64),
    End,
}

/// Why a row has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Short,
    Malformed,
}

/// Reads a table.
pub(super) struct Rows<R> {
    window: Window<R>,
    /// Begin and end of each cell of the row, within the `length` bytes that were passed last.
    cells: Vec<(u32, u32)>,
    length: usize,
    is_skipping: bool,
}

impl<R: Read> Rows<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            window: Window::new(input),
            cells: Vec::new(),
            length: 0,
            is_skipping: false,
        }
    }

    /// How many cells the row has.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// A cell of the row, without quotation marks; empty if the row is too short.
    #[inline]
    pub(super) fn cell(&self, column: usize) -> &[u8] {
        let row = self.window.passed(self.length);
        let cell = self.cells.get(column);
        cell.and_then(|&(start, end)| row.get(start as usize..end as usize))
            .unwrap_or_default()
    }

    /// Where reading goes on.
    pub(super) fn position(&self) -> u64 {
        self.window.position()
    }

    /// The next row that is not empty.
    ///
    /// # Errors
    /// When reading fails; the table ends there.
    pub(super) fn next(&mut self) -> io::Result<Found> {
        let mut is_at_end = false;
        loop {
            let rest = self.window.rest();
            if rest.is_empty() && is_at_end {
                return Ok(Found::End);
            }
            if self.is_skipping {
                match rest.iter().position(|&byte| byte == b'\n') {
                    Some(at) => {
                        self.window.advance(at + 1);
                        self.is_skipping = false;
                        continue;
                    }
                    None => self.window.advance(rest.len()),
                }
            } else {
                let position = self.window.position();
                match row(rest, is_at_end, &mut self.cells) {
                    Ok(length) => {
                        self.window.advance(length);
                        self.length = length;
                        let is_empty = self.cells.len() == 1 && self.cell(0).is_empty();
                        if is_empty {
                            continue;
                        }
                        return Ok(Found::Row(position));
                    }
                    Err(Fault::Malformed) => {
                        self.is_skipping = true;
                        return Ok(Found::Malformed(position));
                    }
                    Err(Fault::Short) => {}
                }
            }
            is_at_end |= self.window.more()? != More::Read;
        }
    }
}

/// The cells of the row that begins at the first byte, and its length with the line feed.
fn row(bytes: &[u8], is_at_end: bool, cells: &mut Vec<(u32, u32)>) -> Result<usize, Fault> {
    cells.clear();
    let mut at = 0;
    loop {
        let is_quoted = bytes.get(at) == Some(&b'"');
        let start = at + usize::from(is_quoted);
        let end = match is_quoted {
            true => quoted_end(bytes, start, is_at_end)?,
            false => {
                let ahead = bytes.get(at..).unwrap_or_default();
                let ahead = &ahead[..ahead.len().min(ROW_BYTES_MAX)];
                match ahead.iter().position(|byte| matches!(byte, b',' | b'\n')) {
                    Some(length) => at + length,
                    None if ahead.len() == ROW_BYTES_MAX => return Err(Fault::Malformed),
                    None if is_at_end => bytes.len(),
                    None => return Err(Fault::Short),
                }
            }
        };
        let without_return = match bytes.get(start..end) {
            Some([.., b'\r']) if !is_quoted => end - 1,
            _ => end,
        };
        // Rows are smaller than the largest window.
        cells.push((start as u32, without_return as u32));
        at = end + usize::from(is_quoted);
        if bytes.get(at) == Some(&b'\r') {
            at += 1;
        }
        match bytes.get(at) {
            Some(b',') => at += 1,
            Some(_) => return Ok(at + 1),
            None if is_at_end => return Ok(at),
            None => return Err(Fault::Short),
        }
        if at > ROW_BYTES_MAX {
            return Err(Fault::Malformed);
        }
    }
}

/// The place of the mark that ends a cell in quotation marks: what stands behind it ends the cell. Two of them are one within.
fn quoted_end(bytes: &[u8], start: usize, is_at_end: bool) -> Result<usize, Fault> {
    let mut at = start;
    let mut has_line_feed = false;
    loop {
        match bytes.get(at) {
            None if is_at_end => return Err(Fault::Malformed),
            None if at - start > QUOTED_BYTES_MAX && has_line_feed => return Err(Fault::Malformed),
            None if at - start > ROW_BYTES_MAX => return Err(Fault::Malformed),
            None => return Err(Fault::Short),
            Some(b'"') => match bytes.get(at + 1) {
                Some(b'"') => at += 2,
                Some(b',' | b'\n' | b'\r') => return Ok(at),
                None if is_at_end => return Ok(at),
                None => return Err(Fault::Short),
                // Names with marks that are not doubled.
                Some(_) => at += 1,
            },
            Some(b'\n') => {
                has_line_feed = true;
                at += 1;
            }
            Some(_) => at += 1,
        }
        if at - start > QUOTED_BYTES_MAX && has_line_feed || at - start > ROW_BYTES_MAX {
            return Err(Fault::Malformed);
        }
    }
}

/// The text of a cell.
pub(super) fn text(cell: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(cell);
    match text.contains("\"\"") {
        true => Cow::Owned(text.replace("\"\"", "\"")),
        false => text,
    }
}

/// The names of the columns that a table with a first line like this has, in small letters.
fn columns(first_line: &[u8]) -> Vec<String> {
    let line = first_line
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(first_line);
    let mut cells = Vec::new();
    match row(line, true, &mut cells) {
        Ok(_) => {
            let cell = |&(start, end): &(u32, u32)| {
                text(&line[start as usize..end as usize])
                    .trim()
                    .to_lowercase()
            };
            cells.iter().map(cell).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// Whether a file that begins like this is a table of rocprofv3.
pub(in crate::read) fn is_table(start: &[u8]) -> bool {
    let Some(end) = start.iter().position(|&byte| byte == b'\n') else {
        return false;
    };
    let columns = columns(&start[..end]);
    let has = |name: &str| columns.iter().any(|column| column == name);
    has("start_timestamp") && has("end_timestamp")
        || has("beginns") && has("endns")
        || has("node_id") && has("agent_type")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a table.
    fn found(table: &str) -> Vec<String> {
        let mut rows = Rows::new(table.as_bytes());
        let mut all = Vec::new();
        loop {
            match rows.next().unwrap() {
                Found::Row(at) => {
                    let cells = (0..rows.len()).map(|column| text(rows.cell(column)).into_owned());
                    all.push(format!("{at}:{}", cells.collect::<Vec<_>>().join("|")));
                }
                Found::Malformed(at) => all.push(format!("malformed at {at}")),
                Found::End => return all,
            }
        }
    }

    #[test]
    fn cells_may_be_quoted() {
        assert_eq!(
            found("a,\"b,c\",\n\"d \"\"e\"\"\",2\r\n\n\"f\"g\",\"h\"\n\"two\nlines\",3"),
            ["0:a|b,c|", "9:d \"e\"|2", "23:f\"g|h", "33:two\nlines|3"]
        );
        assert_eq!(found(""), [""; 0]);
        assert_eq!(found("\n\n"), [""; 0]);
    }

    #[test]
    fn a_mark_that_is_missing_costs_a_row() {
        let long = "x,y\n".repeat(30_000);
        let table = format!("a,b\n\"c,d\n{long}e,f\n");
        let found = found(&table);
        assert_eq!(found[..3], ["0:a|b", "malformed at 4", "9:x|y"]);
        assert_eq!(found.len(), 30_003);
        let lines = format!("a\n{}\nb\n", "y".repeat(3 << 20));
        assert_eq!(
            self::found(&lines),
            [
                "0:a".to_owned(),
                "malformed at 2".to_owned(),
                format!("{}:b", (3 << 20) + 3)
            ]
        );
    }

    #[test]
    fn tables_are_known_by_their_columns() {
        assert!(is_table(
            b"\"Kind\",\"Start_Timestamp\",\"End_Timestamp\"\n1"
        ));
        assert!(is_table(b"Index,KernelName,BeginNs,EndNs\n"));
        assert!(!is_table(b"Name,Calls\n"));
        assert!(!is_table(b"Start_Timestamp,End_Timestamp"));
    }
}
