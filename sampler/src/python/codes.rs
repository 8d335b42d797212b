//! The code objects of a process, by their keys.

use std::collections::HashMap;
use std::sync::Arc;

use super::lines::Lines;

/// At most this many are kept; a process that makes more makes code without end.
const CODES_MAX: usize = 1 << 20;

/// A Python function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// As a stack shows it: the name, then the file's last part in parentheses, which distinguishes
    /// it from native functions.
    pub name: Arc<str>,
    /// The file.
    pub file: Arc<str>,
    /// The line at which it starts.
    pub first_line: u32,
    /// Its lines.
    pub lines: Lines,
}

impl Code {
    /// From what is recorded of it.
    #[must_use]
    pub fn new(name: &str, file: &str, first_line: u32, form: u8, table: &[u8]) -> Self {
        let name = if name.is_empty() { "?" } else { name };
        let last = match file.rsplit('/').next() {
            Some(last) if !last.is_empty() => last,
            _ => "?",
        };
        Self {
            name: format!("{name} ({last})").into(),
            file: file.into(),
            first_line,
            lines: Lines::read(form, table, first_line),
        }
    }
}

/// The code objects of a process.
#[derive(Debug, Default)]
pub struct Codes {
    codes: HashMap<u64, Code>,
}

impl Codes {
    /// Takes one over.
    pub fn add(&mut self, key: u64, code: Code) {
        if self.codes.len() < CODES_MAX || self.codes.contains_key(&key) {
            self.codes.insert(key, code);
        }
    }

    /// The one with this key.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<&Code> {
        self.codes.get(&key)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_the_file() {
        for (name, file, expected) in [
            ("Net.forward", "/home/me/net.py", "Net.forward (net.py)"),
            (
                "_find",
                "<frozen importlib._bootstrap>",
                "_find (<frozen importlib._bootstrap>)",
            ),
            ("<module>", "<string>", "<module> (<string>)"),
            ("", "", "? (?)"),
        ] {
            assert_eq!(&*Code::new(name, file, 1, 3, &[]).name, expected);
        }
    }
}
