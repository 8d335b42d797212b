//! Forty mistakes in configuration files: each is told with its line, its column, and what was probably meant.

use std::path::Path;

use crate::{Environment, Settings};

/// File, text, line:column, and a part of what is proposed.
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    // Names.
    ("a.cfg", "SAMPLNG_FREQ = 1", "1:1", "'SAMPLING_FREQ'"),
    (
        "a.cfg",
        "\n\n  SAMPLING_FREQUENCY = 1",
        "3:3",
        "'SAMPLING_FREQ'",
    ),
    (
        "a.cfg",
        "ROCPROFSYS_OUTPUT_PAHT = x",
        "1:1",
        "'OUTPUT_PATH'",
    ),
    ("a.cfg", "OMNITRACE_TIME_OUTPT = on", "1:1", "'TIME_OUTPUT'"),
    ("a.cfg", "# a comment\nFOLOW = all", "2:1", "'FOLLOW'"),
    ("a.cfg", "LINGR = 1\r\n", "1:1", "'LINGER'"),
    ("a.cfg", "VERBOS 1", "1:1", "'VERBOSE'"),
    ("a.cfg", "ä = 1\nUNWINDR = fp", "2:1", "'UNWINDER'"),
    (
        "a.cfg",
        "SAMPLING_DURATOIN = 1",
        "1:1",
        "'SAMPLING_DURATION'",
    ),
    ("a.cfg", "TRACE_PERIDOS = 1:1", "1:1", "'TRACE_PERIODS'"),
    // Values.
    (
        "a.cfg",
        "SAMPLING_FREQ = fast",
        "1:17",
        "a number from 1 to 20000 (Hz)",
    ),
    ("a.cfg", "SAMPLING_FREQ = 0", "1:17", "a number from 1"),
    ("a.cfg", "SAMPLING_FREQ = 20001", "1:17", "to 20000"),
    ("a.cfg", "SAMPLING_FREQ = NaN", "1:17", "a number"),
    ("a.cfg", "SAMPLING_FREQ=-5", "1:15", "a number from 1"),
    ("a.cfg", "VERBOSE = 1.5", "1:11", "a whole number"),
    ("a.cfg", "TIME_OUTPUT = maybe", "1:15", "true or false"),
    (
        "a.cfg",
        "UNWINDER = dwarf",
        "1:12",
        "one of cfi, framehop, fp",
    ),
    ("a.cfg", "UNWINDER = framhop", "1:12", "'framehop'"),
    ("a.cfg", "FOLLOW\t=\texce", "1:10", "'exec'"),
    (
        "a.cfg",
        "LINGER = soon",
        "1:10",
        "seconds, or a number with ms",
    ),
    ("a.cfg", "LINGER = -1", "1:10", "seconds"),
    ("a.cfg", "SAMPLING_DELAY = 1 hour", "1:18", "seconds"),
    (
        "a.cfg",
        "PROCESS_SAMPLING_DELAY = later",
        "1:26",
        "-1 for the same as SAMPLING_DELAY",
    ),
    ("a.cfg", "TRACE_PERIODS = 1:2:3:4:5", "1:17", "WAIT:RECORD"),
    ("a.cfg", "SAMPLING_PERIODS = 5", "1:20", "WAIT:RECORD"),
    ("a.cfg", "SAMPLING_TIDS = 3-1", "1:17", "numbers and ranges"),
    (
        "a.cfg",
        "SAMPLING_TIDS = main",
        "1:17",
        "numbers and ranges",
    ),
    (
        "a.cfg",
        "TRACE_PERIOD_CLOCK_ID = sundial",
        "1:25",
        "one of realtime, cputime",
    ),
    ("a.cfg", "PROFILE = tree", "1:11", "true or false"),
    (
        "a.cfg",
        "RING_SIZE_KB = 1",
        "1:16",
        "from 16 to 65536 (KiB)",
    ),
    ("a.cfg", "OUTPUT_PATH =", "1:14", "a path"),
    // Backends.
    (
        "a.cfg",
        "INCLUDE_BACKENDS = roctracr",
        "1:20",
        "'roctracer'",
    ),
    (
        "a.cfg",
        "INCLUDE_BACKENDS = roctx, kokos",
        "1:27",
        "'kokkos",
    ),
    (
        "a.cfg",
        "EXCLUDE_BACKENDS = cuda",
        "1:20",
        "known backends: all rocm",
    ),
    // Syntax.
    ("a.cfg", "OUTPUT_PATH = $HOM/x", "1:15", "$env:HOM"),
    ("a.cfg", "OUTPUT_PREFIX = \"a", "1:17", "close it"),
    ("a.cfg", "LINGER", "1:1", "KEY = value"),
    ("a.toml", "[x]\nFOLOW = \"all\"", "2:1", "'FOLLOW'"),
    ("a.toml", "VERBOSE = \"much\"", "1:11", "a whole number"),
    ("a.toml", "LINGER = 3\nLINGER = 4", "2:1", "not TOML"),
    (
        "a.json",
        "{\"rsys\": {\"settings\": {\"FOLOW\": {\"value\": \"all\"}}}}",
        "1:24",
        "'FOLLOW'",
    ),
    (
        "a.json",
        "{\n  \"VERBOSE\": \"much\"\n}",
        "2:14",
        "a whole number",
    ),
];

#[test]
fn forty_mistakes_are_told_with_place_and_proposal() {
    assert!(MISTAKES.len() >= 40);
    let environment = Environment::from_pairs([("HOME", "/h")]);
    let mut wrong = Vec::new();
    for (name, text, place, part) in MISTAKES {
        let told = match Settings::defaults().read_text(Path::new(name), text, &environment) {
            Ok(()) => "nothing".to_owned(),
            Err(error) => error.to_string(),
        };
        // Several mistakes may be told; this one is among them.
        let start = format!("{name}:{place}: ");
        let found = told
            .split_inclusive('\n')
            .any(|line| line.starts_with(&start));
        if !found || !told.contains(part) {
            wrong.push(format!("{text:?}: not {place} with {part}, but\n{told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
