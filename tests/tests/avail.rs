//! `rsys-avail`, as a user meets it: here, as an unprivileged user, behind a filter, and on machines that are not here.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rsys_tests::{
    Invocation, Machine, Outcome, Run, Scratch, Terminal, TestResult, avail, is_root, run_plain,
    script, skip_if_missing, workload,
};
use serde_json::Value;

/// Runs it with these words.
fn run<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<Outcome> {
    run_plain(Invocation::new(avail()?).args(words))
}

/// Runs it on another machine.
fn run_on(machine: &Machine, line: &str) -> Result<Outcome> {
    let words = line.split_whitespace();
    let outcome = run_plain(
        Invocation::new(avail()?)
            .args(words)
            .env("RSYS_AVAIL_ROOT", machine.root())
            .env_remove("ROCPROFILER_METRICS_PATH"),
    )?;
    outcome.expect_success();
    Ok(outcome)
}

/// The rows of a table in JSON, by name; the later of two with the same name and another device counts.
fn rows(outcome: &Outcome, table: &str) -> Result<Vec<Value>> {
    let document: Value = serde_json::from_str(&outcome.stdout)
        .with_context(|| format!("not JSON:\n{}", outcome.story()))?;
    let rows = document[table]["rows"].as_array();
    Ok(rows.context("no such table")?.clone())
}

fn by_name(rows: &[Value]) -> BTreeMap<&str, &Value> {
    rows.iter()
        .filter_map(|row| Some((row["name"].as_str()?, row)))
        .collect()
}

fn notes(outcome: &Outcome, table: &str) -> Result<String> {
    let document: Value = serde_json::from_str(&outcome.stdout)?;
    Ok(document[table]["notes"].to_string())
}

/// Compares the list with what the kernel itself says to the same process.
fn assert_agrees(listed: &Outcome, probed: &Outcome) -> TestResult {
    let rows = rows(listed.expect_success(), "counters")?;
    let rows = by_name(&rows);
    let mut compared = 0;
    for line in probed.expect_success().stdout.lines() {
        let (name, errors) = line.split_once('=').context("NAME=WHOLE,USER")?;
        let (whole, user) = errors.split_once(',').context("two errors")?;
        let in_kernel = matches!(name, "context-switches" | "bpf-output");
        let expected = whole == "0" || (user == "0" && !in_kernel);
        let row = rows
            .get(name)
            .with_context(|| format!("{name} is not listed"))?;
        assert_eq!(row["available"], expected, "{line}\n{row:#}");
        assert_eq!(row["reason"] == "", whole == "0", "{line}\n{row:#}");
        assert_eq!(row["remedy"] == "", expected, "{line}\n{row:#}");
        compared += 1;
    }
    assert_eq!(compared, 10);
    Ok(())
}

#[test]
fn it_says_what_the_kernel_says() -> TestResult {
    let listed = run(["-H", "--json"])?;
    assert_agrees(&listed, &run_plain(workload("perf_probe"))?)
}

#[test]
fn an_unprivileged_user_is_told_the_same_as_by_the_kernel() -> TestResult {
    skip_if_missing!(
        (!is_root()).then(|| "only root can become another user".to_owned()),
        rsys_tests::missing_tool("setpriv"),
    );
    // Where the build is may be closed to others.
    let folder = std::env::temp_dir().join(format!("rsys-avail-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let as_nobody = |program: &Path, words: &[&str]| -> Result<Outcome> {
        let copy = folder.join(program.file_name().context("a name")?);
        fs::copy(program, &copy)?;
        run_plain(
            Invocation::new("setpriv")
                .args([
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "--inh-caps=-all",
                ])
                .arg(&copy)
                .args(words),
        )
    };
    let listed = as_nobody(&avail()?, &["-H", "--json"])?;
    let probed = as_nobody(&workload("perf_probe").build()?, &[])?;
    fs::remove_dir_all(&folder)?;
    assert_agrees(&listed, &probed)?;
    let level: i32 = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")?
        .trim()
        .parse()?;
    let rows = rows(&listed, "counters")?;
    let row = by_name(&rows)["context-switches"].clone();
    if level >= 2 && row["reason"] != "a seccomp filter forbids perf_event_open" {
        assert_eq!(row["reason"], format!("perf_event_paranoid is {level}"));
        let remedy = row["remedy"].as_str().context("a text")?;
        assert!(
            remedy.contains("sysctl kernel.perf_event_paranoid=1"),
            "{remedy}"
        );
    }
    Ok(())
}

#[test]
fn a_filter_is_recognised_also_when_it_kills() -> TestResult {
    for answer in ["errno", "kill"] {
        let filtered = |program: &Path, words: &[&str]| {
            run_plain(
                workload("deny_perf")
                    .args([answer])
                    .args([program])
                    .args(words),
            )
        };
        let listed = filtered(&avail()?, &["-H", "--json"])?;
        let rows = rows(listed.expect_success(), "counters")?;
        for (name, row) in by_name(&rows) {
            let of_kernel = matches!(
                row["category"][1].as_str(),
                Some("Software" | "Hardware" | "Cache" | "PAPI")
            );
            if of_kernel {
                assert_eq!(row["available"], false, "{answer} {name}");
                assert_eq!(
                    row["reason"], "a seccomp filter forbids perf_event_open",
                    "{name}"
                );
            }
        }
        assert!(notes(&listed, "counters")?.contains("--cap-add PERFMON"));
        // The components know it too.
        let listed = filtered(&avail()?, &["-C", "--json"])?;
        let rows = self::rows(listed.expect_success(), "components")?;
        assert_eq!(by_name(&rows)["perf-clock"]["available"], false);
        assert_eq!(by_name(&rows)["cpu-timer"]["available"], true);
    }
    Ok(())
}

#[test]
fn an_epyc_with_two_mi300x() -> TestResult {
    let machine = Machine::epyc()?;
    for index in 0..2 {
        machine.gpu(
            index,
            90402,
            "power1_input",
            &[("junction", 54000), ("mem", 41000)],
        )?;
    }
    machine.file(
        "opt/rocm/share/rocprofiler-sdk/counter_defs.yaml",
        "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n\
         \u{20}   - name: SQ_WAVES\n      description: Waves sent. All of them.\n      properties: []\n      definitions:\n\
         \u{20}       - architectures: [gfx90a, gfx942]\n          block: SQ\n          event: 4\n\
         \u{20}   - name: OnlyElsewhere\n      description: none\n      properties: []\n      definitions:\n\
         \u{20}       - architectures: [gfx1100]\n          expression: reduce(X,sum)\n",
    )?;
    let listed = run_on(&machine, "-H --json")?;
    let all = rows(&listed, "counters")?;
    let rows = by_name(&all);

    // name, available, beginning of the reason
    let expected = [
        ("cycles", true, "user mode only"),
        ("context-switches", false, "perf_event_paranoid is 2"),
        ("ref-cycles", false, "not counted by this processor"),
        ("node-loads", false, "not counted by this processor"),
        ("PAPI_TOT_INS", true, "user mode only"),
        ("PAPI_REF_CYC", false, "not counted by this processor"),
        ("cpu/cache-misses/", true, "user mode only"),
        ("power/energy-pkg/", false, "perf_event_paranoid is 2"),
        ("amd_df/FIELD=VALUE,.../", false, "perf_event_paranoid is 2"),
        ("ibs_op/FIELD=VALUE,.../", true, ""),
        ("gpu0:power", true, ""),
        ("gpu1:temp_junction", true, ""),
        ("gpu1:temp_edge", false, "this GPU does not have it"),
        ("gpu1:fan", false, "this GPU does not have it"),
        ("SQ_WAVES", false, "GPU counters are not part of this build"),
    ];
    for (name, available, reason) in expected {
        let row = rows
            .get(name)
            .with_context(|| format!("{name} is not listed"))?;
        assert_eq!(row["available"], available, "{row:#}");
        assert_eq!(row["reason"], reason, "{row:#}");
    }
    assert_eq!(
        rows["power/energy-pkg/"]["summary"],
        "energy pkg, in Joules"
    );
    assert_eq!(
        rows["cpu/cache-misses/"]["description"],
        "cpu/event=0x64,umask=0x09/"
    );
    let power = rows["gpu0:power"]["description"]
        .as_str()
        .context("a text")?;
    assert!(power.starts_with("142 W"), "{power}");
    let clock = rows["gpu0:clock_gfx"]["description"]
        .as_str()
        .context("a text")?;
    assert!(clock.starts_with("2100Mhz"), "{clock}");
    // Each GPU has its counters, and no others.
    let waves: Vec<&Value> = all.iter().filter(|row| row["name"] == "SQ_WAVES").collect();
    assert_eq!(waves.len(), 2);
    assert_eq!(waves[1]["device"], "GPU 1 (gfx942)");
    assert_eq!(waves[1]["summary"], "Waves sent");
    assert!(!rows.contains_key("OnlyElsewhere"));
    assert!(!rows.contains_key("power/energy-pkg.unit/"));
    assert!(notes(&listed, "counters")?.contains("sysctl kernel.perf_event_paranoid=0"));
    Ok(())
}

#[test]
fn an_intel_server_with_an_mi250x_and_an_old_rocm() -> TestResult {
    let machine = Machine::intel()?;
    let temperatures = [("edge", 40000), ("junction", 45000), ("mem", 50000)];
    machine.gpu(0, 90010, "power1_average", &temperatures)?;
    machine.file(
        "opt/rocm-5.7.1/lib/rocprofiler/gfx_metrics.xml",
        "<gfx9>\n<metric name=\"GRBM_COUNT\" block=GRBM event=0 descr=\"Free-running clock.\"></metric>\n</gfx9>\n\
         <gfx90a base=\"gfx9\">\n<metric name=\"TCC_HIT\" block=TCC event=17 descr=\"Hits.\"></metric>\n</gfx90a>\n\
         <gfx11>\n<metric name=\"NOT_HERE\" block=X event=1 descr=\"x\"></metric>\n</gfx11>",
    )?;
    let listed = run_on(&machine, "-H --json")?;
    let rows = rows(&listed, "counters")?;
    let rows = by_name(&rows);
    let expected = [
        ("cycles", true, ""),
        ("context-switches", true, ""),
        // Three fields, one of them in the second word.
        ("cpu/mem-loads/", true, ""),
        ("cpu/slots/", false, "in use by somebody else"),
        ("cpu/offcore/", false, "needs a value for 'core'"),
        ("uncore_imc/cas_count_read/", true, ""),
        ("gpu0:temp_edge", true, ""),
        ("gpu0:power", true, ""),
        (
            "GRBM_COUNT",
            false,
            "GPU counters are not part of this build",
        ),
        ("TCC_HIT", false, "GPU counters are not part of this build"),
    ];
    for (name, available, reason) in expected {
        let row = rows
            .get(name)
            .with_context(|| format!("{name} is not listed"))?;
        assert_eq!(
            (&row["available"], &row["reason"]),
            (&available.into(), &reason.into()),
            "{row:#}"
        );
    }
    assert_eq!(
        rows["uncore_imc/cas_count_read/"]["summary"],
        "cas count read, in MiB (on 8 units)"
    );
    assert!(!rows.contains_key("NOT_HERE"));

    // The same from a file that is named, and nothing from the installed ones.
    let file = machine.root().join("mine.yaml");
    fs::write(
        &file,
        "MINE:\n  architectures:\n    gfx90a/gfx942:\n      block: SQ\n      event: 1\n  description: My own.\n",
    )?;
    let listed = run_on(
        &machine,
        &format!("-H --json --gpu-counters {}", file.display()),
    )?;
    let rows = self::rows(&listed, "counters")?;
    let rows = by_name(&rows);
    assert_eq!(rows["MINE"]["device"], "GPU 0 (gfx90a)");
    assert!(!rows.contains_key("TCC_HIT"));
    Ok(())
}

#[test]
fn a_virtual_machine_without_counters_and_gpus() -> TestResult {
    let machine = Machine::virtual_machine()?;
    machine.file("sys/kernel/tracing/events/sched/sched_switch/id", "314")?;
    let listed = run_on(&machine, "-H --json")?;
    let all = rows(&listed, "counters")?;
    let available: Vec<&str> = all
        .iter()
        .filter(|row| row["available"] == true)
        .filter_map(|row| row["category"][1].as_str())
        .collect();
    assert!(available.len() == 11 && available.iter().all(|kind| *kind == "Software"));
    assert_eq!(
        by_name(&all)["cycles"]["reason"],
        "no PMU in this virtual machine"
    );
    assert!(!by_name(&all).contains_key("sched:sched_switch"));
    let notes = notes(&listed, "counters")?;
    assert!(
        notes.contains("no AMD GPU") && notes.contains("/dev/kfd"),
        "{notes}"
    );
    assert!(notes.contains("pmu=on"), "{notes}");

    for line in ["-H --json --advanced", "-H --json sched_sw"] {
        let rows = rows(&run_on(&machine, line)?, "counters")?;
        assert_eq!(
            by_name(&rows)["sched:sched_switch"]["available"],
            true,
            "{line}"
        );
    }
    // -A leaves what works; the categories choose devices.
    assert_eq!(
        rows(&run_on(&machine, "-H -A --json")?, "counters")?.len(),
        11
    );
    assert_eq!(
        rows(&run_on(&machine, "-H -c GPU --json")?, "counters")?.len(),
        0
    );
    assert_eq!(
        rows(&run_on(&machine, "-c Hardware --json")?, "counters")?.len(),
        10
    );
    Ok(())
}

#[test]
fn all_is_told_within_a_tenth_of_a_second_of_cpu_time() -> TestResult {
    let machine = Machine::intel()?;
    for number in 0..4_u32 {
        machine.gpu(number, 90402, "power1_input", &[("junction", 1)])?;
    }
    // As large as the one that ROCm installs.
    let mut definitions =
        String::from("rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n");
    for number in 0..1200 {
        definitions.push_str(&format!(
            "    - name: C{number}\n      description: A counter.\n      properties: []\n      definitions:\n\
             \u{20}       - architectures:\n            - gfx942\n            - gfx90a\n          block: SQ\n          event: {number}\n"
        ));
    }
    machine.file(
        "opt/rocm/share/rocprofiler-sdk/counter_defs.yaml",
        &definitions,
    )?;
    let seconds = |root: Option<&Path>| -> Result<f64> {
        let program = avail()?;
        let mut best = f64::MAX;
        for _ in 0..5 {
            let set = root.map_or_else(String::new, |root| {
                format!("RSYS_AVAIL_ROOT='{}' ", root.display())
            });
            // The second line of `times` is the CPU time of children.
            let line = format!(
                "{set}'{}' -a --advanced >/dev/null && times",
                program.display()
            );
            let outcome = run_plain(script(&line))?;
            let times = outcome
                .expect_success()
                .stdout
                .lines()
                .nth(1)
                .context("two lines")?
                .to_owned();
            let sum: f64 = times
                .split_whitespace()
                .filter_map(|time| {
                    time.trim_end_matches('s')
                        .split_once('m')?
                        .1
                        .parse::<f64>()
                        .ok()
                })
                .sum();
            best = best.min(sum);
        }
        Ok(best)
    };
    for root in [None, Some(machine.root())] {
        let best = seconds(root)?;
        println!("CPU seconds: {best}");
        assert!(best < 0.1, "{best}");
    }
    Ok(())
}

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
    let old = run(["--advanced", "USE_ROCTRACER"])?;
    assert!(
        old.stdout.contains("ROCPROFSYS_USE_ROCTRACER"),
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
