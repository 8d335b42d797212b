//! Numbers in sentences.

use std::time::Duration;

/// A number with its noun, which is given for one: `1 sample`, `2 samples`, `3 processes`, `4
/// copies`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) if noun.ends_with('s') => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// A time as people say it: `0.4 ms`, `35 ms`, `2.1 s`.
#[must_use]
pub fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        _ if ms >= 1000.0 => format!("{:.1} s", ms / 1e3),
        _ if ms >= 10.0 => format!("{ms:.0} ms"),
        _ => format!("{ms:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_nouns() {
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(counted(0, "sample"), "0 samples");
        assert_eq!(counted(2, "process"), "2 processes");
        assert_eq!(counted(4, "copy"), "4 copies");
        for (us, text) in [
            (350, "0.3 ms"),
            (3_333, "3.3 ms"),
            (35_400, "35 ms"),
            (2_100_000, "2.1 s"),
        ] {
            assert_eq!(time(Duration::from_micros(us)), text);
        }
    }
}
