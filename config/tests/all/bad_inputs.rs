//! Mistakes in configuration files of all four syntaxes: each is told with its line, its column, and what was probably meant.

use std::path::Path;

use rsys_config::{Environment, FileChoice, Origin, Settings, Sources};

/// File, text, line, column, a part of the message, a part of the remedy (or nothing).
type Case = (
    &'static str,
    &'static str,
    usize,
    usize,
    &'static str,
    &'static str,
);

const CASES: &[Case] = &[
    // Path keys.
    (
        "a.cfg",
        "OUTPUT_PATH = out-%rnak%-x",
        1,
        19,
        "unknown key '%rnak%'",
        "'%rank%'",
    ),
    (
        "a.toml",
        "OUTPUT_PREFIX = \"%hots%-\"",
        1,
        18,
        "unknown key '%hots%'",
        "'%host%'",
    ),
    (
        "a.json",
        "{\"PERFETTO_FILE\": \"%zzz%\"}",
        1,
        20,
        "unknown key '%zzz%'",
        "percent sign",
    ),
    // Sensors.
    (
        "a.cfg",
        "GPU_METRICS = busy, pwoer, temp",
        1,
        21,
        "unknown sensor 'pwoer'",
        "'power'",
    ),
    (
        "a.cfg",
        "ROCM_SMI_METRICS power,po",
        1,
        24,
        "unknown sensor 'po'",
        "'power'",
    ),
    (
        "a.toml",
        "gpu_metrics = [\"busy\", \"mem_usge\"]",
        1,
        25,
        "unknown sensor 'mem_usge'",
        "'mem_usage'",
    ),
    // Names.
    (
        "a.cfg",
        "SAMPLING_FRQ = 3",
        1,
        1,
        "unknown setting",
        "'SAMPLING_FREQ'",
    ),
    (
        "a.cfg",
        "\n\n  sampling_frq 3",
        3,
        3,
        "unknown setting",
        "'SAMPLING_FREQ'",
    ),
    (
        "a.cfg",
        "ROCPROFSYS_OUTPT_PATH = x",
        1,
        1,
        "unknown setting",
        "'OUTPUT_PATH'",
    ),
    (
        "a.cfg",
        "OMNITRACE_VERBOS = 1",
        1,
        1,
        "unknown setting",
        "'VERBOSE'",
    ),
    ("a.cfg", "FOOBAR = ON", 1, 1, "unknown setting 'FOOBAR'", ""),
    (
        "a.cfg",
        "# x\nVERBOSE = 1\nUNWINDR = fp",
        3,
        1,
        "unknown setting",
        "'UNWINDER'",
    ),
    (
        "a.cfg",
        "sampling.freq = 1",
        1,
        1,
        "unknown setting",
        "'SAMPLING_FREQ'",
    ),
    // Values.
    (
        "a.cfg",
        "SAMPLING_FREQ = fast",
        1,
        17,
        "expected a number from 1 to 20000 (Hz)",
        "",
    ),
    ("a.cfg", "SAMPLING_FREQ = 0", 1, 17, "bad value '0'", ""),
    ("a.cfg", "SAMPLING_FREQ=1e9", 1, 15, "bad value '1e9'", ""),
    ("a.cfg", "SAMPLING_FREQ = nan", 1, 17, "bad value 'nan'", ""),
    ("a.cfg", "SAMPLING_FREQ =", 1, 16, "bad value ''", ""),
    (
        "a.cfg",
        "SAMPLING_FREQ = 3 # Hz\nDEBUG = maybe",
        2,
        9,
        "true or false",
        "",
    ),
    ("a.cfg", "VERBOSE 1.5", 1, 9, "a whole number", ""),
    (
        "a.cfg",
        "VERBOSE = 99999999999999999999",
        1,
        11,
        "a whole number",
        "",
    ),
    (
        "a.cfg",
        "UNWINDER = framepointer",
        1,
        12,
        "one of cfi, framehop, fp",
        "'framehop'",
    ),
    (
        "a.cfg",
        "FOLLOW = non",
        1,
        10,
        "one of all, exec, none",
        "'none'",
    ),
    ("a.cfg", "LINGER = soon", 1, 10, "seconds", ""),
    ("a.cfg", "LINGER = 3 weeks", 1, 10, "seconds", ""),
    ("a.cfg", "OUTPUT_PATH =", 1, 14, "a path", ""),
    (
        "a.cfg",
        "INCLUDE_BACKENDS = roctracer, rocx",
        1,
        31,
        "unknown backend 'rocx'",
        "'roctx'",
    ),
    (
        "a.cfg",
        "EXCLUDE_BACKENDS = cudaprof",
        1,
        20,
        "unknown backend",
        "known backends",
    ),
    // Variables, quotes, forms of lines.
    (
        "a.cfg",
        "OUTPUT_PATH = $OUT",
        1,
        15,
        "undefined variable '$OUT'",
        "$env:OUT",
    ),
    (
        "a.cfg",
        "OUTPUT_PATH = a/${OUT}/b",
        1,
        17,
        "undefined variable '$OUT'",
        "$env:OUT",
    ),
    (
        "a.cfg",
        "OUTPUT_PREFIX = \"abc",
        1,
        17,
        "not closed",
        "close it",
    ),
    (
        "a.cfg",
        "OUTPUT_PREFIX = a 'b c",
        1,
        17,
        "not closed",
        "close it",
    ),
    ("a.cfg", "= 3", 1, 1, "no setting before '='", "KEY = value"),
    ("a.cfg", "VERBOSE", 1, 1, "has no value", "KEY = value"),
    (
        "a.cfg",
        "CONFIG_FILE = a.cfg",
        1,
        15,
        "includes itself",
        "remove",
    ),
    // TOML.
    ("a.toml", "UNWINDER = fp", 1, 12, "not TOML", "quotes"),
    (
        "a.toml",
        "VERBOSE = 1\nUNWINDER = \"framhop\"",
        2,
        12,
        "one of",
        "'framehop'",
    ),
    (
        "a.toml",
        "[sampling]\nfreq = \"x\"",
        2,
        8,
        "bad value 'x' for SAMPLING_FREQ",
        "",
    ),
    (
        "a.toml",
        "[sampling]\nfrequency = 3",
        2,
        1,
        "unknown setting",
        "",
    ),
    ("a.toml", "VERBOSE = 1\nVERBOSE = 2", 2, 1, "not TOML", ""),
    (
        "a.toml",
        "VERBOSE = 2026-11-21",
        1,
        11,
        "no setting takes",
        "write a text",
    ),
    (
        "a.toml",
        "INCLUDE_BACKENDS = [\"roctx\", \"hipp\"]",
        1,
        31,
        "unknown backend 'hipp'",
        "'hip'",
    ),
    // JSON.
    (
        "a.json",
        "{\"settings\": {\"VERBOSE\": {\"value\": 1,}}}",
        1,
        38,
        "double quotes",
        "separated by commas",
    ),
    ("a.json", "{\"VERBOSE\" 1}", 1, 12, "expected ':'", ""),
    (
        "a.json",
        "{\n  \"VERBOS\": 1\n}",
        2,
        3,
        "unknown setting",
        "'VERBOSE'",
    ),
    (
        "a.json",
        "{\"rsys\": {\"settings\": {\n \"UNWINDER\": {\"value\": \"framhop\"}}}}",
        2,
        24,
        "one of",
        "'framehop'",
    ),
    (
        "a.json",
        "{\"UNWINDER\": {\"name\": \"x\"}}",
        1,
        2,
        "has no \"value\"",
        "\"value\"",
    ),
    (
        "a.json",
        "{\"VERBOSE\": null}",
        1,
        13,
        "no setting takes",
        "a number",
    ),
    (
        "a.json",
        "{\"VERBOSE\": 1",
        1,
        14,
        "expected ',' or '}'",
        "",
    ),
    (
        "a.json",
        "{\"OUTPUT_PREFIX\": \"a\n\"}",
        1,
        19,
        "not closed",
        "",
    ),
    (
        "a.json",
        "{\"OUTPUT_PREFIX\": \"\\q\"}",
        1,
        20,
        "unknown escape",
        "",
    ),
    (
        "a.json",
        "{\"OUTPUT_PREFIX\": fp}",
        1,
        19,
        "'fp' is not a value",
        "",
    ),
    ("a.json", "[1]", 1, 1, "is an object", "settings"),
    ("a.json", "{} {}", 1, 4, "more after its end", ""),
    ("a.json", "", 1, 1, "value is missing", ""),
    ("a.json", "{\"settings\": 3}", 1, 14, "is not an object", ""),
    // XML.
    (
        "a.xml",
        "<rsys><settings>\n<VERBOS><value>1</value></VERBOS></settings></rsys>",
        2,
        2,
        "unknown setting",
        "'VERBOSE'",
    ),
    (
        "a.xml",
        "<rsys><settings>\n <VERBOSE><value> many </value></VERBOSE>\n</settings></rsys>",
        2,
        19,
        "bad value 'many'",
        "",
    ),
    (
        "a.xml",
        "<settings><FOLLOW><name>x</name></FOLLOW></settings>",
        1,
        12,
        "has no <value>",
        "<value>",
    ),
    (
        "a.xml",
        "<settings>\n<FOLLOW>exc</FOLLOW></settings>",
        2,
        9,
        "bad value 'exc'",
        "'exec'",
    ),
    (
        "a.xml",
        "<settings>\n<FOLLOW></settings>",
        2,
        9,
        "not XML",
        "<settings>",
    ),
    (
        "a.cfg",
        "<settings><FOLLOW>nne</FOLLOW></settings>",
        1,
        19,
        "bad value 'nne'",
        "'none'",
    ),
    (
        "a.cfg",
        "{\"FOLLOW\": \"al\"}",
        1,
        12,
        "bad value 'al'",
        "'all'",
    ),
];

#[test]
fn every_mistake_is_told_with_its_place_and_remedy() {
    assert!(CASES.len() >= 40);
    let folder = std::env::temp_dir().join(format!("rsys-bad-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|case| check(&folder, case).err())
        .collect();
    std::fs::remove_dir_all(&folder).ok();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Reads the text as a file; the error tells how the answer differs from the expected one.
fn check(folder: &Path, case: &Case) -> Result<(), String> {
    let (name, text, line, column, message, remedy) = case;
    let file = folder.join(name);
    std::fs::write(&file, text).expect("a file for the test");
    let error = Settings::load(&Sources {
        environment: Environment::default(),
        home: None,
        files: FileChoice::Named(vec![file.display().to_string()]),
    });
    let Err(error) = error else {
        return Err(format!("accepted: {text}"));
    };
    let [problem] = error.problems.as_slice() else {
        return Err(format!("{text}: {error}"));
    };
    let Origin::File {
        path,
        line: found_line,
        column: found_column,
    } = &problem.origin
    else {
        return Err(format!("not in a file: {problem}"));
    };
    let found = problem.kind.remedy().unwrap_or_default();
    let right_remedy = if remedy.is_empty() {
        !found.contains("did you mean")
    } else {
        found.contains(remedy)
    };
    let right = **path == file
        && (found_line, found_column) == (line, column)
        && problem.kind.to_string().contains(message)
        && right_remedy;
    if right {
        Ok(())
    } else {
        Err(format!(
            "expected {line}:{column} {message} {remedy}; found {problem}"
        ))
    }
}
