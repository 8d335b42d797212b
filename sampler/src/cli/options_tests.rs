//! What the help lists, settings as options, and what is said of what does not come.

use rsys_config::shorthands;

use super::help;
use super::tests::{bad, changed, good, parse_words};

#[test]
fn the_short_help_is_what_people_use_first() {
    let short = bad("-h").to_string();
    // A screen.
    assert!(short.lines().count() <= 60, "{short}");
    let place = |part: &str| {
        short
            .find(part)
            .unwrap_or_else(|| panic!("{part}\n{short}"))
    };
    assert!(place("Examples:") < place("Usage:") && place("Usage:") < place("--freq"));
    assert!(place("--freq") < place("--include") && place("--include") < place("--output"));
    for part in [
        "-I, --include",
        "-o, --output",
        "--realtime",
        "--dry-run",
        "--help=TOPIC",
        "--help=original",
    ] {
        place(part);
    }
    for part in ["--trace-legacy", "--gpu-level", "--smi-library"] {
        assert!(!short.contains(part), "{part}\n{short}");
    }
    // Every option is in the long help but those for old command lines, which have a page of their
    // own.
    let (long, all) = (bad("--help").to_string(), bad("--help=all").to_string());
    let original = bad("--help=original").to_string();
    for row in shorthands::all() {
        let word = format!("--{}", row.long);
        let has = |text: &str| {
            let mut words =
                text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'));
            words.any(|one| one == word)
        };
        assert_eq!((has(&long), has(&original)), (!row.old, row.old), "{word}");
        assert!(has(&all), "{word}");
    }
    assert!(!original.contains("--unwinder"), "{original}");
    let (unknown, code) = (bad("--help=foo").to_string(), bad("--help=foo").code);
    for topic in help::TOPICS {
        assert!(unknown.contains(topic), "{unknown}");
        let about = bad(&format!("--help={topic}"));
        assert_eq!((about.code, code), (0, 2), "{topic}");
    }
    // A topic has its usual options too.
    let about = bad("--help=output").to_string();
    assert!(
        about.contains("--output ") && about.contains("--trace-file"),
        "{about}"
    );
}

#[test]
fn a_trace_can_be_named_as_a_file() {
    let file = |line: &str| {
        let resolved = good(line).resolved;
        let path = (resolved.output_path, resolved.perfetto_file);
        (
            path.0,
            path.1,
            resolved.output_is_file,
            resolved.time_output,
        )
    };
    let own = |folder: &str, name: &str| (folder.to_owned(), name.to_owned(), true, false);
    for (line, folder, name) in [
        ("-o run.proto x", ".", "run.proto"),
        ("-o a/b/run-%rank%.pftrace x", "a/b", "run-%rank%.pftrace"),
        ("--output=/run.perfetto-trace x", "/", "run.perfetto-trace"),
    ] {
        assert_eq!(file(line), own(folder, name), "{line}");
    }
    for line in [
        "-o run x",
        "-o run.proto/ x",
        "-o .proto x",
        "-o run.proto --trace-file t.proto x",
    ] {
        assert!(!file(line).2, "{line}");
    }
    assert!(file("-o run.proto --time-output x").3);
    let variables = [("ROCPROFSYS_OUTPUT_PATH", "run.proto")];
    let resolved = parse_words(&["x"], &variables).expect("good").resolved;
    assert_eq!(resolved.output_path, "run.proto");
}

#[test]
fn every_setting_is_an_option_of_its_own_name() {
    // line, the command, the settings
    let cases = [
        ("--use-pid=off x", "x", "USE_PID=false"),
        ("--use-pid off -- x", "x", "USE_PID=false"),
        ("--use-rocm x", "x", "USE_ROCM=true"),
        ("--use-rocm true -- x", "x", "USE_ROCM=true"),
        ("--time-format %j x", "x", "TIME_FORMAT=%j"),
        (
            "--max-depth 9 --json-output=no x",
            "x",
            "SAMPLING_MAX_DEPTH=9 JSON_OUTPUT=false",
        ),
        (
            "--set TIME_FORMAT=%j --set use_pid=0 x",
            "x",
            "TIME_FORMAT=%j USE_PID=false",
        ),
        (
            "--dl-verbose=3 --tmpdir /x --thread-pool-size 0 -f 7 -- x",
            "x",
            "SAMPLING_FREQ=7",
        ),
        (
            "-S realtime cputime -f 7 -- x",
            "x",
            "SAMPLING_FREQ=7 SAMPLING_REALTIME=true",
        ),
        ("--sample --trace -- x", "x", ""),
        ("--sample=overflow x", "x", "SAMPLING_OVERFLOW=true"),
        ("--perfetto-backend inprocess -- x", "x", ""),
        ("--fork --launcher x.y -- x", "x", ""),
    ];
    for (line, command, settings) in cases {
        let invocation = good(line);
        assert_eq!(invocation.command, [command], "{line}");
        assert_eq!(changed(&invocation), settings, "{line}");
        assert!(
            invocation.warnings.is_empty(),
            "{line}: {:?}",
            invocation.warnings
        );
    }
    let error = bad("--use-pid=perhaps x").to_string();
    assert!(
        error.contains("option --use-pid: bad value 'perhaps' for USE_PID"),
        "{error}"
    );
    assert!(bad("--set NO_SUCH=1 x").to_string().contains("NO_SUCH"));
    assert_eq!(bad("--use-pidd=1 x").code, 2);
}

#[test]
fn what_does_not_come_is_said() {
    let warnings = |line: &str| good(line).warnings.join("\n");
    for line in ["--perfetto-backend=system x", "--perfetto-backend all -- x"] {
        assert!(
            warnings(line).contains("traces go to files"),
            "{line}: {}",
            warnings(line)
        );
    }
    let variables = [("OMNITRACE_PERFETTO_BACKEND", "system")];
    let warned = parse_words(&["x"], &variables).expect("good").warnings;
    assert!(
        warned.len() == 1 && warned[0].contains("traced"),
        "{warned:?}"
    );
}

#[test]
fn the_clocks_of_windows_are_all_named() {
    let error = bad("--trace-clock-id soon x").to_string();
    for word in [
        "realtime",
        "cputime",
        "monotonic_raw",
        "boottime",
        "CLOCK_",
        "0, 1, 2 and 4 to 7",
    ] {
        assert!(error.contains(word), "{word}: {error}");
        let about = bad("--help=windows")
            .to_string()
            .replace("\n          ", " ");
        assert!(about.contains(word), "{word}: {about}");
    }
}
