//! Text that is written in large numbers, without the detours of formatting.

use crate::json::Quoted;

/// What is appended to a line of JSON.
pub(crate) trait Put {
    /// A text as it is.
    fn text(&mut self, text: &str) -> &mut Self;
    /// A whole number.
    fn number(&mut self, number: u64) -> &mut Self;
    /// Nanoseconds as microseconds with all digits.
    fn micros(&mut self, time_ns: u64) -> &mut Self;
    /// Nanoseconds as milliseconds with all digits.
    fn millis(&mut self, time_ns: u64) -> &mut Self;
    /// A text as JSON has it.
    fn quoted(&mut self, text: &str) -> &mut Self;
}

/// All numbers of two digits, one behind the other.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// Digits that a number has at most.
const DIGITS: usize = 20;

/// Writes the digits of a number at the end of `digits`; returns where they begin.
#[inline]
fn write_digits(mut number: u64, digits: &mut [u8; DIGITS]) -> usize {
    let mut at = DIGITS;
    while number >= 10 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number > 0 || at == DIGITS {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    at
}

/// A number with a point in front of its last `decimals` digits.
#[inline]
fn with_point(line: &mut Vec<u8>, number: u64, decimals: usize) {
    let mut digits = [b'0'; DIGITS];
    let at = write_digits(number, &mut digits);
    let point = DIGITS - decimals;
    line.extend_from_slice(&digits[at.min(point - 1)..point]);
    line.push(b'.');
    line.extend_from_slice(&digits[point..]);
}

impl Put for Vec<u8> {
    #[inline]
    fn text(&mut self, text: &str) -> &mut Self {
        self.extend_from_slice(text.as_bytes());
        self
    }

    #[inline]
    fn number(&mut self, number: u64) -> &mut Self {
        let mut digits = [b'0'; DIGITS];
        let at = write_digits(number, &mut digits);
        self.extend_from_slice(&digits[at..]);
        self
    }

    #[inline]
    fn micros(&mut self, time_ns: u64) -> &mut Self {
        with_point(self, time_ns, 3);
        self
    }

    #[inline]
    fn millis(&mut self, time_ns: u64) -> &mut Self {
        with_point(self, time_ns, 6);
        self
    }

    #[inline]
    fn quoted(&mut self, text: &str) -> &mut Self {
        let is_plain = |&byte: &u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if text.as_bytes().iter().all(is_plain) {
            self.push(b'"');
            self.text(text);
            self.push(b'"');
            return self;
        }
        self.text(&Quoted(text).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Micros;

    fn put(to: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut line = Vec::new();
        to(&mut line);
        String::from_utf8(line).unwrap_or_default()
    }

    #[test]
    fn numbers_have_all_digits() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let around = powers.flat_map(|power| [power - 1, power, power + 1, power.wrapping_mul(7)]);
        for number in around.chain([0, 5, 99, 100, 101, u64::MAX]) {
            assert_eq!(
                put(|line| {
                    line.number(number);
                }),
                number.to_string()
            );
            let micros = put(|line| {
                line.micros(number);
            });
            assert_eq!(micros, Micros(number).to_string());
            let millis = format!("{}.{:06}", number / 1_000_000, number % 1_000_000);
            assert_eq!(
                put(|line| {
                    line.millis(number);
                }),
                millis
            );
        }
    }

    #[test]
    fn texts_are_as_they_were() {
        for text in ["", "plain é", "a \"b\"", "\\", "line\nend", "\u{1}"] {
            assert_eq!(
                put(|line| {
                    line.quoted(text);
                }),
                Quoted(text).to_string()
            );
        }
    }
}
