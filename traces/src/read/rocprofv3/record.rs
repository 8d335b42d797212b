//! One record of the JSON: its numbers.

use crate::read::json::syntax::{Fault, Span, members, value};

/// The numbers of a record that count; absent ones are 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Record {
    pub(super) kind: u64,
    pub(super) operation: u64,
    pub(super) thread: u64,
    pub(super) start_ns: Option<u64>,
    pub(super) end_ns: Option<u64>,
    pub(super) correlation: u64,
    pub(super) external: u64,
    pub(super) agent: u64,
    pub(super) queue: u64,
    pub(super) stream: u64,
    pub(super) kernel: u64,
    pub(super) grid: [u64; 3],
    pub(super) target: u64,
    pub(super) source: u64,
    pub(super) bytes: u64,
    pub(super) address: u64,
}

impl Record {
    /// Reads the record that is all of `bytes`.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let mut record = Self::default();
        members(bytes, 0, |key, at| record.member(key, bytes, at))?;
        Ok(record)
    }

    fn member(&mut self, key: &[u8], bytes: &[u8], at: usize) -> Result<usize, Fault> {
        match key {
            b"dispatch_info" if bytes.get(at) == Some(&b'{') => {
                return members(bytes, at, |key, at| self.member(key, bytes, at));
            }
            b"correlation_id" if bytes.get(at) == Some(&b'{') => {
                return members(bytes, at, |key, at| {
                    let (span, behind) = value(bytes, at)?;
                    match key {
                        b"internal" => self.correlation = number(span, bytes),
                        b"external" => self.external = number(span, bytes),
                        _ => {}
                    }
                    Ok(behind)
                });
            }
            b"grid_size" if bytes.get(at) == Some(&b'{') => {
                return members(bytes, at, |key, at| {
                    let (span, behind) = value(bytes, at)?;
                    match key {
                        b"x" => self.grid[0] = number(span, bytes),
                        b"y" => self.grid[1] = number(span, bytes),
                        b"z" => self.grid[2] = number(span, bytes),
                        _ => {}
                    }
                    Ok(behind)
                });
            }
            _ => {}
        }
        let place = match key {
            b"kind" => &mut self.kind,
            b"operation" => &mut self.operation,
            b"thread_id" => &mut self.thread,
            b"correlation_id" => &mut self.correlation,
            b"kernel_id" => &mut self.kernel,
            b"bytes" | b"allocation_size" => &mut self.bytes,
            b"agent_id" => &mut self.agent,
            b"queue_id" => &mut self.queue,
            b"stream_id" => &mut self.stream,
            b"dst_agent_id" => &mut self.target,
            b"src_agent_id" => &mut self.source,
            b"address" => &mut self.address,
            b"start_timestamp" | b"end_timestamp" => {
                let (span, behind) = value(bytes, at)?;
                let time = natural(span.of(bytes));
                match key {
                    b"start_timestamp" => self.start_ns = time,
                    _ => self.end_ns = time,
                }
                return Ok(behind);
            }
            _ => return value(bytes, at).map(|(_, behind)| behind),
        };
        // Ids are numbers, or objects that hold one.
        if bytes.get(at) == Some(&b'{') {
            return members(bytes, at, |key, at| {
                let (span, behind) = value(bytes, at)?;
                if key == b"handle" {
                    *place = number(span, bytes);
                }
                Ok(behind)
            });
        }
        let (span, behind) = value(bytes, at)?;
        *place = number(span, bytes);
        Ok(behind)
    }
}

fn number(span: Span, bytes: &[u8]) -> u64 {
    natural(span.of(bytes)).unwrap_or(0)
}

/// A whole number that is not negative, in decimal or hexadecimal digits, also where it is written with a fraction or exponent.
pub(super) fn natural(bytes: &[u8]) -> Option<u64> {
    /// From here on doubles are not exact.
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    let text = std::str::from_utf8(bytes).ok()?.trim();
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    let number: f64 = text.parse().ok()?;
    (0.0..EXACT_MAX).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_written_in_many_ways() {
        for (text, expected) in [
            ("12", Some(12)),
            (" 12 ", Some(12)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0x7f", Some(127)),
            ("1.5e3", Some(1500)),
            ("-1", None),
            ("nan", None),
            ("", None),
        ] {
            assert_eq!(natural(text.as_bytes()), expected, "{text}");
        }
    }
}
