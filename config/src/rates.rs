//! The rates of several clocks in one value: `-f cpu=500,real=50`.

use crate::origin::Origin;
use crate::problem::{Problem, ProblemKind};
use crate::text::words;

/// Reads `cpu=300,real=100` as rates of single clocks; `None` when it is no such list. A word that names no clock is an error.
#[must_use]
pub fn rates(text: &str) -> Option<Result<Vec<(&'static str, &str)>, Problem>> {
    const CLOCKS: [(&str, &str); 9] = [
        ("cpu", "SAMPLING_CPUTIME_FREQ"),
        ("cputime", "SAMPLING_CPUTIME_FREQ"),
        ("real", "SAMPLING_REALTIME_FREQ"),
        ("realtime", "SAMPLING_REALTIME_FREQ"),
        ("wall", "SAMPLING_REALTIME_FREQ"),
        ("overflow", "SAMPLING_OVERFLOW_FREQ"),
        ("process", "PROCESS_SAMPLING_FREQ"),
        ("host", "PROCESS_SAMPLING_FREQ"),
        ("all", "SAMPLING_FREQ"),
    ];
    if !text.contains('=') {
        return None;
    }
    let read = |word| -> Result<(&'static str, &str), Problem> {
        let (name, rate): (&str, &str) = match str::split_once(word, '=') {
            Some(pair) => pair,
            None => ("all", word),
        };
        let clock = CLOCKS
            .iter()
            .find(|(clock, _)| clock.eq_ignore_ascii_case(name.trim()));
        clock
            .map(|(_, setting)| (*setting, rate))
            .ok_or_else(|| Problem {
                kind: Box::new(ProblemKind::BadValue {
                    setting: "freq",
                    value: word.to_owned(),
                    allowed: "a number of times per second, or cpu=HZ, real=HZ, process=HZ"
                        .to_owned(),
                    nearest: crate::nearest::nearest(name, CLOCKS.iter().map(|(clock, _)| *clock)),
                }),
                origin: Origin::CommandLine("-f".to_owned()),
                line_text: None,
                width: 0,
            })
    };
    Some(words(text).map(read).collect())
}
