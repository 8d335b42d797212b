//! Parts of JSON that is written piece by piece.

use std::fmt::{Display, Formatter, Result, Write};

/// Microseconds with all digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Micros(pub u64);

impl Display for Micros {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A text as JSON has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter.write_char('"')?;
        let mut rest = self.0;
        let is_special = |letter: char| letter < ' ' || letter == '"' || letter == '\\';
        while let Some(at) = rest.find(is_special) {
            formatter.write_str(&rest[..at])?;
            let mut behind = rest[at..].chars();
            match behind.next() {
                Some('"') => formatter.write_str("\\\"")?,
                Some('\\') => formatter.write_str("\\\\")?,
                Some('\n') => formatter.write_str("\\n")?,
                Some(letter) => write!(formatter, "\\u{:04x}", u32::from(letter))?,
                None => {}
            }
            rest = behind.as_str();
        }
        formatter.write_str(rest)?;
        formatter.write_char('"')
    }
}

/// A measured number; JSON has no infinite ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured(pub f64);

impl Display for Measured {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        match self.0.is_finite() {
            true => Display::fmt(&self.0, formatter),
            false => formatter.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        for text in ["", "plain", "a \"b\" \\ c\n\t\u{1}é∂", "\\", "\"\""] {
            let written = Quoted(text).to_string();
            let read: String = serde_json::from_str(&written).expect("JSON");
            assert_eq!(read, text, "{written}");
        }
    }

    #[test]
    fn no_nanosecond_is_lost() {
        assert_eq!(
            Micros(1_234_567_890_123_456_789).to_string(),
            "1234567890123456.789"
        );
        assert_eq!(Micros(7).to_string(), "0.007");
    }
}
