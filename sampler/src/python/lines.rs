//! The lines of a code object, from its table.
//!
//! Sources: `Objects/lnotab_notes.txt` of 3.8 and 3.10, `Objects/locations.md` of 3.11 (PEP 626,
//! PEP 657).

use rsys_python::layout::LineTable;

/// At which instruction which line starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lines {
    first: u32,
    /// Instruction (in units of two bytes) and line, in order.
    starts: Vec<(u32, u32)>,
}

impl Lines {
    /// Reads a table of this form; of a table that is cut off, what is there. An unknown form has
    /// the first line only.
    #[must_use]
    pub fn read(form: u8, table: &[u8], first: u32) -> Self {
        let mut lines = Lines {
            first,
            starts: Vec::new(),
        };
        if form == LineTable::Lnotab as u8 {
            lines.read_lnotab(table);
        } else if form == LineTable::Ranges as u8 {
            lines.read_ranges(table);
        } else if form == LineTable::Locations as u8 {
            lines.read_locations(table);
        }
        lines
    }

    /// The line of an instruction.
    #[must_use]
    pub fn line(&self, instruction: Option<u32>) -> u32 {
        let Some(instruction) = instruction else {
            return self.first;
        };
        let after = self
            .starts
            .partition_point(|(start, _)| *start <= instruction);
        after
            .checked_sub(1)
            .map_or(self.first, |index| self.starts[index].1)
    }

    fn start(&mut self, instruction: u32, line: i64) {
        let line = u32::try_from(line).unwrap_or(self.first);
        match self.starts.last_mut() {
            // Several entries for one place: the last one counts.
            Some(last) if last.0 == instruction => last.1 = line,
            Some(last) if last.1 == line => {}
            _ => self.starts.push((instruction, line)),
        }
    }

    /// Pairs of steps: bytes of code, and lines.
    fn read_lnotab(&mut self, table: &[u8]) {
        let (mut byte, mut line) = (0_u32, i64::from(self.first));
        self.start(0, line);
        for pair in table.chunks_exact(2) {
            byte = byte.saturating_add(u32::from(pair[0]));
            line += i64::from(pair[1].cast_signed());
            self.start(byte / 2, line);
        }
    }

    /// Pairs of steps: bytes of code, and lines by which they are further; -128 means no line.
    fn read_ranges(&mut self, table: &[u8]) {
        const NO_LINE: i8 = -128;
        let (mut byte, mut line) = (0_u32, i64::from(self.first));
        for pair in table.chunks_exact(2) {
            let delta = pair[1].cast_signed();
            if delta != NO_LINE {
                line += i64::from(delta);
                if pair[0] > 0 {
                    self.start(byte / 2, line);
                }
            }
            byte = byte.saturating_add(u32::from(pair[0]));
        }
    }

    /// Entries of several bytes, the first of each with its top bit set.
    fn read_locations(&mut self, table: &[u8]) {
        const NO_COLUMNS: u8 = 13;
        const LONG: u8 = 14;
        const NO_LOCATION: u8 = 15;
        let (mut instruction, mut line) = (0_u32, i64::from(self.first));
        let mut rest = table;
        while let [head, tail @ ..] = rest {
            let length = u32::from(head & 7) + 1;
            let code = head >> 3 & 15;
            let delta = match code {
                0..10 => 0,
                10..NO_COLUMNS => i64::from(code - 10),
                NO_COLUMNS | LONG => signed(tail),
                _ => 0,
            };
            if code != NO_LOCATION {
                line += delta;
                self.start(instruction, line);
            }
            instruction = instruction.saturating_add(length);
            let next = tail.iter().position(|byte| byte & 0x80 != 0);
            rest = next.map_or(&[], |next| &tail[next..]);
        }
    }
}

/// A number in groups of six bits, the lowest first, whose lowest bit is the sign.
fn signed(bytes: &[u8]) -> i64 {
    let mut value = 0_u64;
    for (byte, shift) in bytes.iter().zip((0..60).step_by(6)) {
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            break;
        }
    }
    let magnitude = (value >> 1).cast_signed();
    if value & 1 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(form: LineTable, table: &[u8], at: &[u32]) -> Vec<u32> {
        let lines = Lines::read(form as u8, table, 10);
        at.iter().map(|&at| lines.line(Some(at))).collect()
    }

    #[test]
    fn each_form_is_read() {
        // Four instructions on line 11, two on 13, then back to 12.
        assert_eq!(
            lines(
                LineTable::Lnotab,
                &[0, 1, 8, 2, 4, 0xff],
                &[0, 3, 4, 5, 6, 100]
            ),
            [11, 11, 13, 13, 12, 12]
        );
        assert_eq!(
            lines(
                LineTable::Ranges,
                &[8, 1, 2, 0x80, 4, 2, 2, 0xff],
                &[0, 3, 4, 5, 6, 7]
            ),
            [11, 11, 11, 13, 13, 12]
        );
        // One instruction without a location, then the short, the one-line, the long and the
        // column-less form.
        let table = [
            0xf8, // none, 1 instruction
            0x80 | 11 << 3 | 3,
            0,
            0, // line + 1, 4 instructions
            0x80 | 2 << 3 | 1,
            0x11, // same line, 2 instructions
            0x80 | 14 << 3,
            4,
            0,
            1,
            2, // line + 2
            0x80 | 13 << 3,
            0x43,
            1, // 0x43, 0x01: 3 + 64 = 67, odd: line - 33
        ];
        let read = Lines::read(LineTable::Locations as u8, &table, 100);
        let at: Vec<u32> = [0, 1, 4, 5, 6, 7, 8]
            .iter()
            .map(|&at| read.line(Some(at)))
            .collect();
        assert_eq!(at, [100, 101, 101, 101, 101, 103, 70]);
        assert_eq!(read.line(None), 100);
    }

    proptest! {
        #[test]
        fn any_table_is_read(form in 0_u8..5, table in proptest::collection::vec(any::<u8>(), 0..60), first: u32, at: u32) {
            let lines = Lines::read(form, &table, first);
            prop_assert_eq!(lines.line(None), first);
            prop_assert_eq!(lines.line(Some(at)), lines.line(Some(at)));
        }
    }
}
