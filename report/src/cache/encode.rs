//! Answers as bytes, and back.
//!
//! Numbers are written in sevens of bits, texts with their length in front. Behind the first line, which says what kind of file it is, stands the
//! checksum of what follows.

use std::collections::BTreeSet;
use std::sync::Mutex;

use flate2::Crc;
use rsys_analysis::table::{Answer, Cell, Column, Row, Table, Unit};

use super::answers::Kept;

const MAGIC: &[u8] = b"rsys answers 1\n";
/// Tables stand below rows, and named cells in cells, at most so deep.
const DEPTH_MAX: usize = 16;

const UNITS: [Unit; 6] = [
    Unit::Plain,
    Unit::Nanoseconds,
    Unit::Bytes,
    Unit::Share,
    Unit::Bandwidth,
    Unit::Line,
];

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

/// Answers about what `identity` names.
pub(super) fn encode(kept: &Kept, identity: &str) -> Vec<u8> {
    let mut out = Encoder(Vec::new());
    out.text(identity);
    out.list(&kept.answers, |out, (name, answer)| {
        out.text(name);
        out.answer(answer);
    });
    out.list(kept.cost.as_slice(), Encoder::table);
    [MAGIC, &checksum(&out.0), &out.0].concat()
}

/// The answers in a file, if it is whole and about what `identity` names.
pub(super) fn decode(bytes: &[u8], identity: &str) -> Option<Kept> {
    let (sum, bytes) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    if *sum != checksum(bytes) {
        return None;
    }
    let mut from = Decoder { bytes, depth: 0 };
    if from.text()? != identity {
        return None;
    }
    let answers = from.list(|from| Some((from.name()?, from.answer()?)))?;
    let cost = from.list(Decoder::table)?.pop();
    from.bytes.is_empty().then_some(Kept { answers, cost })
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut put: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| put(self, item));
    }

    fn answer(&mut self, answer: &Answer) {
        self.list(&answer.tables, Self::table);
        self.list(&answer.parts, |out, (name, part)| {
            out.text(name);
            out.answer(part);
        });
        self.list(&answer.notes, |out, note| out.text(note));
        self.number(answer.is_empty.into());
        self.list(answer.closing.as_slice(), Self::table);
    }

    fn table(&mut self, table: &Table) {
        self.text(table.key);
        self.text(&table.title);
        self.list(&table.columns, |out, column| {
            out.text(column.key);
            out.text(column.title);
            let unit = UNITS.iter().position(|unit| *unit == column.unit);
            out.number(unit.unwrap_or_default() as u64);
        });
        self.list(&table.rows, |out, row| {
            out.list(&row.cells, Self::cell);
            out.list(&row.below, Self::table);
        });
        self.number(table.rows_in_text as u64);
        self.number(table.is_detail.into());
    }

    fn cell(&mut self, cell: &Cell) {
        match cell {
            Cell::Null => self.number(0),
            Cell::Text(text) => {
                self.number(1);
                self.text(text);
            }
            Cell::Count(count) => {
                self.number(2);
                self.number(*count);
            }
            Cell::Number(number) => {
                self.number(3);
                self.0.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Cell::Named(values) => {
                self.number(4);
                self.list(values, |out, (name, value)| {
                    out.text(name);
                    out.cell(value);
                });
            }
        }
    }
}

struct Decoder<'b> {
    bytes: &'b [u8],
    depth: usize,
}

impl<'b> Decoder<'b> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.number()? != 0)
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        str::from_utf8(text).ok()
    }

    /// A key or title, of which there are few different ones.
    fn name(&mut self) -> Option<&'static str> {
        static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let text = self.text()?;
        let mut names = NAMES.lock().ok()?;
        if let Some(name) = names.get(text) {
            return Some(name);
        }
        let name: &'static str = text.to_owned().leak();
        names.insert(name);
        Some(name)
    }

    fn list<T>(&mut self, mut take: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Each item takes a byte at least, so no length is believed that the file cannot hold.
        let count = usize::try_from(self.number()?).ok()?;
        if count > self.bytes.len() || self.depth > 4 * DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let items = (0..count).map(|_| take(self)).collect();
        self.depth -= 1;
        items
    }

    fn answer(&mut self) -> Option<Answer> {
        Some(Answer {
            tables: self.list(Self::table)?,
            parts: self.list(|from| Some((from.name()?, from.answer()?)))?,
            notes: self.list(|from| from.text().map(str::to_owned))?,
            is_empty: self.flag()?,
            closing: self.list(Self::table)?.pop(),
        })
    }

    fn table(&mut self) -> Option<Table> {
        let (key, title) = (self.name()?, self.text()?.to_owned());
        let columns = self.list(|from| {
            Some(Column {
                key: from.name()?,
                title: from.name()?,
                unit: *UNITS.get(usize::try_from(from.number()?).ok()?)?,
            })
        })?;
        let width = columns.len();
        let rows = self.list(|from| {
            let cells = from.list(Self::cell)?;
            let below = from.list(Self::table)?;
            (cells.len() == width).then_some(Row { cells, below })
        })?;
        Some(Table {
            key,
            title,
            columns,
            rows,
            rows_in_text: usize::try_from(self.number()?).ok()?,
            is_detail: self.flag()?,
        })
    }

    fn cell(&mut self) -> Option<Cell> {
        Some(match self.number()? {
            0 => Cell::Null,
            1 => Cell::Text(self.text()?.to_owned()),
            2 => Cell::Count(self.number()?),
            3 => {
                let (bits, rest) = self.bytes.split_first_chunk()?;
                self.bytes = rest;
                Cell::Number(f64::from_bits(u64::from_le_bytes(*bits)))
            }
            4 => Cell::Named(self.list(|from| Some((from.name()?, from.cell()?)))?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let columns = [Column::ns("idle_ns", "idle"), Column::line("why", "why")];
        let mut below = Table::new("causes", "", &[Column::share("idle_share", "")]);
        below.push(vec![Cell::Number(0.1 + 0.2)]);
        below.is_detail = true;
        let mut table = Table::new("devices", "Devices", &columns);
        table.rows_in_text = 7;
        let named = vec![("at_ns", Cell::Count(u64::MAX)), ("none", Cell::Null)];
        table.push(Row {
            cells: vec![Cell::Named(named), "hipMemcpy \u{b5}".into()],
            below: vec![below.clone()],
        });
        let part = Answer {
            tables: vec![table],
            notes: vec!["a note".to_owned()],
            closing: Some(below.clone()),
            is_empty: true,
            ..Answer::default()
        };
        let joined = Answer::joined([("timeline", part.clone()), ("gaps", part.clone())]);
        Kept {
            answers: vec![("timeline", part), ("all", joined)],
            cost: Some(below),
        }
    }

    #[test]
    fn what_is_kept_comes_back_the_same() {
        let bytes = encode(&kept(), "these");
        assert_eq!(decode(&bytes, "these"), Some(kept()));
        assert_eq!(decode(&bytes, "others"), None);
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let bytes = encode(&kept(), "these");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert_eq!(decode(&damaged, "these"), None, "byte {at}");
            assert_eq!(decode(&bytes[..at], "these"), None, "cut at {at}");
        }
    }

    #[test]
    fn what_the_checksum_does_not_notice_is_no_harm() {
        let bytes = encode(&kept(), "these");
        let start = MAGIC.len() + 4;
        for at in start..bytes.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut damaged = bytes[start..].to_vec();
                damaged[at - start] = value;
                let sum = checksum(&damaged);
                // It may be another answer, but nothing panics or fills the memory.
                decode(&[MAGIC, &sum, &damaged].concat(), "these");
            }
        }
    }
}
