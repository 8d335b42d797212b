use super::*;
use rsys_config::{Environment, Follow, Unwinder};
use std::os::unix::ffi::OsStringExt;

pub(super) fn parse_words(
    words: &[&str],
    variables: &[(&str, &str)],
) -> Result<Invocation, CliExit> {
    let environment = Environment::from_pairs(variables.iter().copied());
    parse(
        words.iter().map(OsString::from),
        &Sources::without_files(environment),
    )
}

fn parse_line(line: &str) -> Result<Invocation, CliExit> {
    parse_words(&line.split_whitespace().collect::<Vec<_>>(), &[])
}

pub(super) fn good(line: &str) -> Invocation {
    parse_line(line).unwrap_or_else(|exit| panic!("{line}: {exit}"))
}

pub(super) fn bad(line: &str) -> CliExit {
    parse_line(line).expect_err(line)
}

pub(super) fn changed(invocation: &Invocation) -> String {
    let changed: Vec<_> = invocation
        .settings
        .non_defaults()
        .map(|(setting, value, _)| format!("{}={value}", setting.name))
        .collect();
    changed.join(" ")
}

#[test]
fn the_command_begins_where_options_end() {
    // line, the command, the settings
    let cases = [
        ("./foo", "./foo", ""),
        ("./foo -x", "./foo -x", ""),
        ("-- ./foo -x", "./foo -x", ""),
        ("-f 100 ./foo -x", "./foo -x", "SAMPLING_FREQ=100"),
        ("-f100 ./foo -f 7", "./foo -f 7", "SAMPLING_FREQ=100"),
        ("--freq=100 -- ./foo", "./foo", "SAMPLING_FREQ=100"),
        ("--sampling-freq 100 ./foo", "./foo", "SAMPLING_FREQ=100"),
        ("./foo -- -x", "./foo -- -x", ""),
        ("-- ./foo -- -x", "./foo -- -x", ""),
        ("./foo --help", "./foo --help", ""),
        ("./foo -I roctracer", "./foo -I roctracer", ""),
        ("-- -weird", "-weird", ""),
        ("-f 1 -f 2 x", "x", "SAMPLING_FREQ=2"),
        ("-i=off x", "x", "SAMPLING_INCLUDE_INLINES=false"),
        ("--compress=0 true", "true", "COMPRESS_TRACE=false"),
        ("--debug true", "true", "DEBUG=true"),
        ("--realtime x", "x", "SAMPLING_REALTIME=true"),
        (
            "--realtime 50 -- x",
            "x",
            "SAMPLING_REALTIME=true SAMPLING_REALTIME_FREQ=50",
        ),
        (
            "--sample-realtime --realtime-freq 20 x",
            "x",
            "SAMPLING_REALTIME=true SAMPLING_REALTIME_FREQ=20",
        ),
        (
            "-w 1 -d 500ms x",
            "x",
            "SAMPLING_DELAY=1 SAMPLING_DURATION=0.5 TRACE_DELAY=1 TRACE_DURATION=0.5",
        ),
        (
            "-o out --output-prefix %rank%- x",
            "x",
            "OUTPUT_PATH=out OUTPUT_PREFIX=%rank%-",
        ),
        (
            "--follow none --linger 10 --unwinder fp --clock perf x",
            "x",
            "SAMPLING_CLOCK=perf UNWINDER=fp FOLLOW=none LINGER=10",
        ),
    ];
    for (line, command, settings) in cases {
        let invocation = good(line);
        let words: Vec<_> = command.split_whitespace().map(OsString::from).collect();
        assert_eq!(invocation.command, words, "{line}");
        assert_eq!(changed(&invocation), settings, "{line}");
    }
}

#[test]
fn lists_of_backends_end_where_the_command_begins() {
    // line, the command, included, excluded
    let cases = [
        ("-I roctracer roctx -- cmd", "cmd", "roctracer roctx", ""),
        ("-I roctracer,roctx cmd", "cmd", "roctracer roctx", ""),
        (
            "-I roctracer ./solver roctx",
            "./solver roctx",
            "roctracer",
            "",
        ),
        ("-I=hip -I hsa cmd", "cmd", "hip hsa", ""),
        (
            "--include ROCM_SMI amd-smi cmd",
            "cmd",
            "rocm-smi amd-smi",
            "",
        ),
        ("-Iroctx hip cmd", "cmd", "roctx hip", ""),
        ("-vI roctx hip cmd", "cmd", "roctx hip", ""),
        (
            "-I rocm, mpip -E kokkosp ompt -f 9 cmd -E x",
            "cmd -E x",
            "rocm mpip",
            "kokkosp ompt",
        ),
        ("-E all -- all", "all", "", "all"),
        ("-I roctracer make -j4", "make -j4", "roctracer", ""),
    ];
    for (line, command, included, excluded) in cases {
        let invocation = good(line);
        let words: Vec<_> = command.split_whitespace().map(OsString::from).collect();
        assert_eq!(invocation.command, words, "{line}");
        assert_eq!(
            invocation.resolved.include_backends.join(" "),
            included,
            "{line}"
        );
        assert_eq!(
            invocation.resolved.exclude_backends.join(" "),
            excluded,
            "{line}"
        );
    }
}

#[test]
fn a_backend_that_counts_nothing_is_one_warning() {
    assert_eq!(
        good("-I rocprofiler -- x").warnings,
        [
            "backend 'rocprofiler' counts nothing: no counter is named; for example: -G SQ_WAVES,GRBM_GUI_ACTIVE"
        ]
    );
    assert_eq!(good("-I rocprofiler ompt -- x").warnings.len(), 1);
    assert!(good("-q -I rocprofiler -- x").warnings.is_empty());
    for line in ["x", "-I all -- x", "-I rocprofiler -G SQ_WAVES -- x"] {
        assert!(good(line).warnings.is_empty(), "{line}");
    }
}

#[test]
fn verbosity_counts_and_sets() {
    let cases = [
        ("x", 0),
        ("-v x", 1),
        ("-vv x", 2),
        ("-v -v -v x", 3),
        ("-vvvvv x", 3),
        ("-v=2 x", 2),
        ("-v2 x", 2),
        ("-v 2 x", 2),
        ("--verbose 2 -- x", 2),
        ("--verbose=2 -v x", 3),
        ("--verbose=-1 x", -1),
        ("-q x", -1),
    ];
    for (line, verbose) in cases {
        assert_eq!(good(line).resolved.verbose, verbose, "{line}");
    }
}

#[test]
fn mistakes_end_with_two_and_a_proposal() {
    let cases = [
        (
            "",
            "no command to run; for example: rsys-sample -- python3 train.py",
        ),
        ("-f 100", "no command to run"),
        ("--", "no command to run"),
        ("-I roctracer", "put '--' in front of the command"),
        ("--frq 3 x", "a similar argument exists: '--freq'"),
        ("--folow=all x", "a similar argument exists: '--follow'"),
        ("-Z x", "unexpected argument '-Z' found"),
        ("--mpi x", "tip: '-I mpip' records calls of MPI"),
        ("--rate=100 x", "tip: '-f HERTZ' is the rate of samples"),
        (
            "-p server",
            "invalid value 'server' for '--pid <PID>': not the id of a process",
        ),
        ("-f", "a value is required for '--freq <HZ>'"),
        (
            "-f fast x",
            "error: option -f: bad value 'fast' for SAMPLING_FREQ: expected a number from 1 to 20000 (Hz)",
        ),
        (
            "--unwinder dwarf x",
            "error: option --unwinder: bad value 'dwarf' for UNWINDER: expected one of cfi, framehop, fp",
        ),
        (
            "--follow=exce x",
            "error: option --follow: bad value 'exce' for FOLLOW: expected one of all, exec, none; did you mean 'exec'?",
        ),
        (
            "-I roctracr -- x",
            "option -I: unknown backend 'roctracr'; did you mean 'roctracer'?",
        ),
        (
            "-I roctracer roctxx -- x",
            "option -I: unknown backend 'roctxx'; did you mean 'roctx'?",
        ),
        (
            "--verbose=much x",
            "option -v: bad value 'much' for VERBOSE",
        ),
        (
            "-o= x",
            "option -o: bad value '' for OUTPUT_PATH: expected a path",
        ),
        ("-q -v x", "cannot be used with"),
    ];
    for (line, part) in cases {
        let exit = bad(line);
        assert_eq!((exit.code, exit.to_stdout), (2, false), "{line}");
        assert!(exit.to_string().contains(part), "{line}: {exit}");
    }
    let unknown = bad("--frq 3 x").to_string();
    assert!(!unknown.contains("as a value"), "{unknown}");
}

#[test]
fn all_mistakes_come_together() {
    let exit = parse_words(
        &["-f", "0", "--linger", "soon", "-c", "/nowhere/a.cfg", "x"],
        &[("RSYS_VERBOSE", "much")],
    )
    .expect_err("mistakes");
    let text = exit.to_string();
    assert_eq!(text.matches("error: ").count(), 4, "{text}");
    assert!(
        text.contains("/nowhere/a.cfg: cannot read this configuration file"),
        "{text}"
    );
}

#[test]
fn options_over_environment_over_files() {
    let folder = std::env::temp_dir().join(format!("rsys-cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let path = |name: &str| folder.join(name).display().to_string();
    let files = [
        ("a.cfg", "SAMPLING_FREQ = 1\nUNWINDER = fp\nFOLLOW = exec\n"),
        ("b.toml", "[x]\nLINGER = 9\n"),
    ];
    for (name, text) in files {
        std::fs::write(path(name), text).expect("a file for the test");
    }
    let variables = [
        ("ROCPROFSYS_SAMPLING_FREQ", "2"),
        ("RSYS_UNWINDER", "framehop"),
    ];
    let (a, b) = (path("a.cfg"), path("b.toml"));
    let forms: [&[&str]; 3] = [
        &["-c", &a, &b, "-f", "3", "x"],
        &["-f", "3", "-c", &a, "--config", &b, "--", "x"],
        &[
            "-c",
            "/nowhere.cfg",
            "none",
            &a,
            "-c",
            &b,
            "-f",
            "3",
            "--",
            "x",
        ],
    ];
    let results: Vec<_> = forms
        .iter()
        .map(|words| parse_words(words, &variables))
        .collect();
    let bare = parse_words(&["-c", "none", "x"], &variables);
    std::fs::remove_dir_all(&folder).ok();
    for result in results {
        let invocation = result.unwrap_or_else(|exit| panic!("{exit}"));
        let resolved = &invocation.resolved;
        assert_eq!(resolved.sampling_freq_hz, 3.0);
        assert_eq!(resolved.unwinder, Unwinder::Framehop);
        assert_eq!(resolved.follow, Follow::Exec);
        assert_eq!(resolved.linger.as_secs(), 9);
        assert_eq!(invocation.command, ["x"]);
        let report = invocation.settings.report().join("\n");
        assert!(report.contains("SAMPLING_FREQ = 3 (option -f)"), "{report}");
        assert!(
            report.contains("UNWINDER = framehop (environment variable RSYS_UNWINDER)"),
            "{report}"
        );
        assert!(report.contains("a.cfg:3:1)"), "{report}");
    }
    assert_eq!(bare.expect("good").resolved.sampling_freq_hz, 2.0);
}

#[test]
fn help_and_version_end_well() {
    let short = bad("-h");
    let long = bad("--help");
    for exit in [
        &short,
        &long,
        &bad("--version"),
        &bad("-V"),
        &bad("-f 3 --help -- x"),
    ] {
        assert_eq!((exit.code, exit.to_stdout), (0, true));
    }
    let (short, long) = (short.to_string(), long.to_string());
    assert!(short.lines().count() * 2 < long.lines().count());
    assert!(bad("--version").to_string().starts_with("rsys-sample "));
    let examples = long.find("Examples:").expect("examples");
    assert!(examples < long.find("Usage:").expect("usage"));
    for part in [
        "Exit status:",
        "125",
        "126",
        "127",
        "Environment:",
        "Files:",
        "%env{NAME}%",
    ] {
        assert!(long.contains(part), "{part}");
    }
    for setting in table::all() {
        if let Some(option) = &setting.option {
            let word = format!("--{}", option.long);
            assert!(long.contains(&word), "{word}");
            assert!(
                long.contains(&format!("[setting: {}", setting.name)),
                "{word}"
            );
        }
    }
    // What is not wrapped fits a terminal of 80 columns.
    let examples = long
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for line in examples {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn words_that_are_no_text() {
    let odd = OsString::from_vec(vec![b'a', 0xff]);
    let sources = Sources::default();
    let none = || OsString::from("none");
    let invocation = parse(
        [OsString::from("-c"), none(), odd.clone(), odd.clone()],
        &sources,
    );
    assert_eq!(
        invocation.expect("good").command,
        [odd.clone(), odd.clone()]
    );
    let exit = parse(
        ["-c".into(), none(), "-o".into(), odd, "x".into()],
        &sources,
    );
    assert_eq!(exit.expect_err("no text").code, 2);
}

#[test]
fn colours_are_a_matter_of_taste() {
    let plain = bad("-f 0 x").to_string();
    assert!(!plain.contains('\u{1b}'));
    let variables = [("ROCPROFSYS_MONOCHROME", "on")];
    let invocation = parse_words(&["x"], &variables).expect("good");
    assert!(invocation.resolved.monochrome);
}

#[test]
fn answers_that_run_nothing() {
    let answer = |line: &str| {
        let exit = bad(line);
        assert_eq!((exit.code, exit.to_stdout), (0, true), "{line}");
        exit.to_string()
    };
    assert!(answer("--list-keys").contains("%rank%, %r"));
    let dry = answer("--dry-run -f 100 -I rocprofiler -- ./a -x");
    assert!(
        dry.starts_with("command: ./a -x\nprogram: ")
            && dry.contains("\nSAMPLING_FREQ = 100 (option -f)\n"),
        "{dry}"
    );
    assert!(dry.contains("warning: backend 'rocprofiler'"), "{dry}");
    // No command is needed to ask.
    let file = answer("--export-config -f 100 --ring-size 512");
    assert!(
        file.contains("\nSAMPLING_FREQ              = 100\n"),
        "{file}"
    );
    assert!(
        file.contains("\nRING_SIZE_KB               = 512\n"),
        "{file}"
    );
    assert_eq!(bad("--dry-run -f 0 -- ./a").code, 2);
}

#[test]
fn one_parser_reads_each_line_as_if_it_were_the_first() {
    let mut parser = Parser::new();
    let sources = Sources::without_files(Environment::default());
    for _ in 0..2 {
        for line in [
            "-f 7 -I roctx -- ./a",
            "--frq 7",
            "./a -f 9",
            "-P",
            "--help=windows",
            "-vv ./a",
        ] {
            let words = || line.split(' ').map(OsString::from);
            let outcome = |result: Result<Invocation, CliExit>| match result {
                Ok(run) => (run.settings.report(), run.command),
                Err(exit) => (vec![exit.to_string()], Vec::new()),
            };
            let first = outcome(parse(words(), &sources));
            assert_eq!(outcome(parser.parse(words(), &sources)), first, "{line}");
        }
    }
}

#[test]
fn options_that_are_no_text_are_named() {
    let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
    let run = |words: &[OsString]| {
        parse(
            words.to_vec(),
            &Sources::without_files(Environment::default()),
        )
    };
    for (option, word) in [
        ("-o", &b"a\xff"[..]),
        ("-c", b"\xff.cfg"),
        ("--trace-file", b"\xff"),
    ] {
        let error = run(&[option.into(), bytes(word), "--".into(), "x".into()]).expect_err(option);
        let text = error.to_string();
        assert!(
            text.contains(&format!("option {option}: '")) && text.contains("not UTF-8"),
            "{text}"
        );
        assert_eq!(error.code, 2);
    }
    let whole = run(&[bytes(b"--output=\xff"), "x".into()]);
    assert!(whole.is_err_and(|error| error.to_string().contains("is not UTF-8 text")));
    let command = run(&[
        "-f".into(),
        "9".into(),
        "--".into(),
        bytes(b"\xff"),
        bytes(b"\xfe"),
    ]);
    assert_eq!(command.map(|one| one.command.len()).ok(), Some(2));
}
