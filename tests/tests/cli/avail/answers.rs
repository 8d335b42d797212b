//! The forms of an answer, and the files that it writes.

use super::*;

#[test]
fn a_written_configuration_runs() -> TestResult {
    let scratch = Scratch::new("config")?;
    for (format, options) in [
        ("cfg", &["-d"][..]),
        ("toml", &["-d", "--all"]),
        ("json", &["-d"]),
        ("xml", &[]),
    ] {
        let file = scratch.path().join(format!("my.{format}"));
        let words = Invocation::new(avail()?)
            .args([OsStr::new("-G"), file.as_os_str()])
            .args(options)
            .env("RSYS_SAMPLING_FREQ", "123")
            .env("ROCPROFSYS_OUTPUT_PREFIX", "a # \"b\" $x %rank%-");
        let written = run_plain(words)?;
        written.expect_success();
        assert!(
            written.stdout.contains(&format!("my.{format}")),
            "{}",
            written.story()
        );
        let text = fs::read_to_string(&file)?;
        let described = text.contains("Samples per second of CPU time");
        assert_eq!(described, !options.is_empty(), "{text}");

        let outcome = Run::new()
            .options([OsStr::new("-v"), OsStr::new("-c"), file.as_os_str()])
            .command(workload("rate").args(["--seconds", "0.1"]))
            .run()?;
        outcome.expect_success();
        let origin = format!("SAMPLING_FREQ = 123 ({}", file.display());
        assert!(outcome.stderr.contains(&origin), "{}", outcome.story());
        let prefix = "OUTPUT_PREFIX = a # \"b\" $x %rank%- (";
        assert!(outcome.stderr.contains(prefix), "{}", outcome.story());
    }
    Ok(())
}

#[test]
fn an_existing_file_stays_unless_forced() -> TestResult {
    let scratch = Scratch::new("force")?;
    let name = |file: &str| scratch.path().join(file).display().to_string();
    fs::write(name("a.json"), "mine")?;
    let refused = run(["-G", &name("a.cfg"), "-F", "json", "txt"])?;
    refused.expect_code(2);
    assert!(refused.stderr.contains("a.json exists") && refused.stderr.contains("--force"));
    assert_eq!(fs::read_to_string(name("a.json"))?, "mine");
    assert!(
        !Path::new(&name("a.cfg")).exists(),
        "half of the work was done"
    );
    run(["-G", &name("a.cfg"), "-F", "json", "txt", "--force"])?.expect_success();
    assert!(fs::read_to_string(name("a.json"))?.contains("\"settings\""));
    assert!(Path::new(&name("a.cfg")).exists());

    let refused = run(["-G", &name("no/folder/a.cfg")])?;
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("folder does not exist"),
        "{}",
        refused.story()
    );
    Ok(())
}

#[test]
fn mistakes_are_told_and_end_with_2() -> TestResult {
    let scratch = Scratch::new("mistakes")?;
    let bad = scratch.path().join("bad.yaml");
    fs::write(&bad, "a: [")?;
    let bad = bad.display().to_string();
    let cases: [(&[&str], &str); 7] = [
        (&["-c", "samplng"], "settings::Sampling"),
        (&["-r", "("], "not a regular expression"),
        (&["--setings"], "--settings"),
        (&["-H", "--gpu-counters", "/no/such.yaml"], "/no/such.yaml"),
        (&["-H", "--gpu-counters", &bad], "bad.yaml"),
        (&["--csv", "--json"], "cannot be used with"),
        (&["-O", "/no/such/folder/x"], "cannot write"),
    ];
    for (words, expected) in cases {
        let outcome = run(words)?;
        outcome.expect_code(2);
        assert!(
            outcome.stderr.contains(expected),
            "{words:?}\n{}",
            outcome.story()
        );
        assert!(outcome.stdout.is_empty(), "{words:?}\n{}", outcome.story());
    }
    let config = scratch.path().join("x.cfg");
    fs::write(&config, "\nSAMPLNG_FREQ = 3\n")?;
    let outcome = run_plain(Invocation::new(avail()?).env("RSYS_CONFIG_FILE", &config))?;
    outcome.expect_code(2);
    assert!(outcome.stderr.contains("x.cfg:2:1") && outcome.stderr.contains("'SAMPLING_FREQ'"));
    Ok(())
}

#[test]
fn lists_for_people_and_for_programs() -> TestResult {
    let plain = run(["-S"])?;
    assert!(
        !plain.expect_success().stdout.contains('\u{1b}'),
        "colours in a pipe"
    );
    let lines: Vec<&str> = plain.stdout.lines().collect();
    let column = lines[0].find("DESCRIPTION").context("a heading")?;
    let of_setting: Vec<&&str> = lines
        .iter()
        .filter(|line| line.starts_with("RSYS_"))
        .collect();
    assert!(of_setting.len() > 15);
    assert!(
        of_setting
            .iter()
            .all(|line| line.as_bytes()[column - 1] == b' ')
    );

    let csv = run(["-S", "--csv", "-dv", "-r", "Samples per second"])?;
    assert_eq!(
        csv.expect_success().stdout.lines().count(),
        2,
        "{}",
        csv.story()
    );
    assert!(csv.stdout.starts_with(
        "name,value,type,default,origin,description\nRSYS_SAMPLING_FREQ,300,float (Hz),300,default,"
    ));
    let csv = run(["-Sb", "--csv-separator", ";", "freq"])?;
    assert!(
        csv.stdout.starts_with("name;description\n"),
        "{}",
        csv.story()
    );

    let rows = rows(
        &run(["-S", "--json", "-R", "output", "~file", "-r", "~time"])?,
        "settings",
    )?;
    assert!(!rows.is_empty() && rows.iter().all(|row| row["category"] == "Output"));
    assert!(!by_name(&rows).contains_key("RSYS_TIME_OUTPUT"));

    let markdown = run(["-CM"])?;
    assert!(
        markdown
            .stdout
            .contains("\n| name | available | reason | description |\n|---|---|---|---|\n")
    );
    // What the original knew is found, with the reason.
    let old = run(["--advanced", "USE_CAUSAL"])?;
    assert!(
        old.stdout.contains("ROCPROFSYS_USE_CAUSAL"),
        "{}",
        old.story()
    );
    assert!(
        run(["--list-categories"])?
            .stdout
            .contains("hw_counters::GPU")
    );
    let keys = run(["--list-keys", "--expand-keys", "-t", "mine"])?;
    let tag = keys
        .stdout
        .lines()
        .find(|line| line.starts_with("%tag%"))
        .context("%tag%")?;
    assert_eq!(tag.split_whitespace().nth(1), Some("mine"));
    Ok(())
}

#[test]
fn a_terminal_gets_colours_and_lines_that_fit() -> TestResult {
    let wide = 80;
    let screen = |words: &[&str], no_color: &str| -> Result<String> {
        let command = Invocation::new(avail()?).args(words);
        let run = Run::bare()
            .command(command)
            .env("TERM", "xterm")
            .env("NO_COLOR", no_color);
        let (status, screen) = Terminal::start(&run)?.wait()?;
        assert!(status.success(), "{screen}");
        Ok(screen)
    };
    let coloured = screen(&["-C"], "")?;
    assert!(coloured.contains("\u{1b}[32myes"), "{coloured}");
    let plain = screen(&["-C", "-W", "80"], "1")?;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    assert!(
        plain
            .lines()
            .all(|line| line.trim_end().chars().count() <= wide),
        "{plain}"
    );
    assert!(!screen(&["-C", "--monochrome"], "")?.contains('\u{1b}'));
    assert!(screen(&["-p", "freq"], "")?.contains("\u{1b}[1m\u{1b}[33mFREQ"));
    Ok(())
}

#[test]
fn a_configuration_of_defaults_asks_for_nothing() -> TestResult {
    // No GPU, and no counters: what is on by default is not missed.
    let machine = Machine::virtual_machine()?;
    let scratch = Scratch::new("defaults")?;
    for (format, options) in [("cfg", &["-d"][..]), ("json", &["-d", "--advanced"])] {
        let file = scratch.path().join(format!("my.{format}"));
        let words = Invocation::new(avail()?)
            .args([OsStr::new("-G"), file.as_os_str()])
            .args(options);
        run_plain(words)?.expect_success();
        let run = |options: &[&OsStr]| {
            Run::new()
                .env("RSYS_AVAIL_ROOT", machine.root())
                .options(options)
                .command("true")
                .run()
        };
        let outcome = run(&[OsStr::new("-c"), file.as_os_str()])?;
        outcome.expect_success();
        assert!(!outcome.stderr.contains("warning"), "{}", outcome.story());
        // Who asks for them by an option hears of it.
        let asked = [OsStr::new("-c"), file.as_os_str(), OsStr::new("-D")];
        let outcome = run(&asked)?;
        assert!(
            outcome.stderr.contains("no GPU sensors"),
            "{}",
            outcome.story()
        );
    }
    Ok(())
}
