//! The SMI libraries, asked for the GPU sensors that the kernel's files lack: they tell what the files tell, and none of them can hurt.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, Trace, run_plain, script, skip_if_missing,
    wait_until, workload,
};

/// Only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(60);

/// On Debian 12, librocm_smi64 lies one folder higher than the runtimes.
const FIND: &str = "export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:${LD_LIBRARY_PATH%/*};";

/// Sensor, file, factor.
const FILES: [(&str, &str, f64); 12] = [
    ("busy", "gpu_busy_percent", 1.0),
    ("mem_busy", "mem_busy_percent", 1.0),
    ("vram_used", "mem_info_vram_used", 1.0 / 1_048_576.0),
    ("gtt_used", "mem_info_gtt_used", 1.0 / 1_048_576.0),
    ("power", "hwmon/*/power1_average", 1e-6),
    ("temp_edge", "hwmon/*/temp1_input", 1e-3),
    ("temp_junction", "hwmon/*/temp2_input", 1e-3),
    ("temp_memory", "hwmon/*/temp3_input", 1e-3),
    ("voltage", "hwmon/*/in0_input", 1e-3),
    ("fan", "hwmon/*/fan1_input", 1.0),
    ("clock_gfx", "hwmon/*/freq1_input", 1e-6),
    ("clock_memory", "hwmon/*/freq2_input", 1e-6),
];

/// A reader whose answers cannot be written says so by its status.
#[test]
fn a_reader_that_nobody_hears_fails() -> TestResult {
    let reader = |to: &str| {
        let sampler = rsys_tests::sampler()?;
        let line = format!(
            "exec -a rsys-smi-reader {} /nowhere.so </dev/null >{to}",
            sampler.display()
        );
        run_plain(Invocation::new("bash").args(["-c", &line]))
    };
    reader("/dev/null")?.expect_code(0);
    reader("/dev/full")?.expect_code(1);
    Ok(())
}

/// The libraries tell of a GPU what its files tell.
#[test]
fn libraries_agree_with_the_files() -> TestResult {
    let all = [
        (Stack::Debian12, "librocm_smi64.so.1"),
        (Stack::Debian13, "librocm_smi64.so.1"),
        (Stack::Debian13, "libamd_smi.so.0"),
        (Stack::Unstable, "librocm_smi64.so.1"),
        (Stack::Unstable, "libamd_smi.so.27"),
        (Stack::Unstable, "auto"),
        (Stack::Rocm7, "librocm_smi64.so.7"),
        (Stack::Rocm7, "libamd_smi.so.27"),
        (Stack::Rocm7, "auto"),
    ];
    for (stack, library) in all {
        skip_if_missing!(stack.missing());
        let sampler = rsys_tests::sampler()?;
        let address = "0000:18:00.0";
        let mut lines = Vec::new();
        let mut wanted = Vec::new();
        for (sensor, file, _) in FILES {
            lines.push(format!(
                "echo file {sensor} $(cat $(echo /sys/class/drm/card1/device/{file}))"
            ));
            wanted.push(format!("{address}={sensor}"));
        }
        // What no file has; what no library has, and then what it has; what is not there.
        wanted.push(format!("{address}=mm_busy"));
        wanted.push(format!("{address}=energy"));
        wanted.push(format!("{address}=nonsense+temp_edge"));
        wanted.push("0000:99:00.0=busy".to_owned());
        let line = format!(
            "{FIND} {}; printf ? | (exec -a rsys-smi-reader {} {library} {})",
            lines.join("; "),
            sampler.display(),
            wanted.join(" ")
        );
        let machine = Machine::new(stack)?.gpus(2);
        let outcome = run_plain(machine.run(Invocation::new("bash").args(["-c", &line])))?;
        let text = &outcome.expect_success().stdout;
        let context = || format!("{} {library}\n{text}", stack.name());
        let told: BTreeMap<usize, f64> = text.lines().filter_map(value).collect();
        for (number, (sensor, _, factor)) in FILES.iter().enumerate() {
            let file = text.lines().find_map(|line| {
                line.strip_prefix("file ")?
                    .strip_prefix(sensor)?
                    .trim()
                    .parse::<f64>()
                    .ok()
            });
            let Some(file) = file else { continue };
            let told = told
                .get(&number)
                .with_context(|| format!("no {sensor}: {}", context()))?;
            ensure!(
                (told - file * factor).abs() < 1e-3,
                "{sensor}: {told}, not {file}: {}",
                context()
            );
        }
        ensure!(told.len() == FILES.len() + 3, "{}", context());
        ensure!(
            told.get(&12) == Some(&0.0) && told.get(&14) == told.get(&5),
            "{}",
            context()
        );
        ensure!(
            told.get(&13)
                .is_some_and(|joules| (0.0..10_000.0).contains(joules)),
            "{}",
            context()
        );
        ensure!(
            text.contains("E 15 it does not know this GPU"),
            "{}",
            context()
        );
    }
    Ok(())
}

/// The number and the value of `V number time value`.
fn value(line: &str) -> Option<(usize, f64)> {
    let mut words = line.strip_prefix("V ")?.split(' ');
    Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?))
}

/// Counters of GPUs: name and last value.
fn counters(trace: &Trace) -> Result<BTreeMap<String, f64>> {
    let rows = trace.query(
        "select t.name as name, c.value as value from counter c join track t on c.track_id = t.id
         where t.name like 'GPU %' order by c.ts",
    )?;
    rows.iter()
        .map(|row| Ok((row.text("name")?.to_owned(), row.float("value")?)))
        .collect()
}

/// A run of the profiler inside of a machine. The program ends a while after the profiler has said `until`, or where that is `None`, after
/// the library has come to where it does its worst: that takes a busy machine as long as it takes.
fn profiled(
    machine: &Machine,
    options: &[&str],
    before: &str,
    until: Option<&str>,
) -> Result<(Outcome, Scratch)> {
    let scratch = Scratch::new("smi")?;
    let mark = scratch.path().join("mark");
    let program = workload("bad_smi")
        .args(["--seconds", "0.3"])
        .args(["--until".as_ref(), mark.as_os_str()]);
    let inside = Invocation::new(rsys_tests::sampler()?)
        .args(["-D", "--process-freq", "50", "-o", "traces"])
        .args(options)
        .arg("--")
        .program(program.into());
    let line = Invocation::new("bash")
        .args(["-c", &format!("{before} exec \"$@\""), "bash"])
        .program(inside)
        .env("BAD_SMI_MARK", &mark);
    let run = Run::bare()
        .folder(scratch.path())
        .command(machine.run(line))
        .start()?;
    if let Some(said) = until {
        wait_until(LIMIT, || run.complained().contains(said));
        fs::write(&mark, "")?;
    }
    Ok((run.wait()?, scratch))
}

fn trace_in(scratch: &Scratch) -> Result<Trace> {
    let find = script(&format!(
        "find {} -name '*.proto'",
        scratch.path().display()
    ));
    let found = run_plain(find)?;
    Trace::load(
        found.stdout.lines().next().context("no trace")?.as_ref(),
        None,
    )
}

/// Metrics fail alone, and each is told of once.
#[test]
fn what_files_lack_comes_from_a_library() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let machine = Machine::new(Stack::Debian12)?.gpus(2);
    // The second GPU has no voltage, which the library cannot know either.
    let before =
        format!("{FIND} rm $RSYS_SIMGPU_ROOT/sys/class/drm/card1/device/hwmon/*/in0_input;");
    let metrics = ["--gpu-metrics", "busy,mm_busy,voltage"];
    // A counter is given up, and that is said, when several readings have failed: by then the others have their values.
    let (outcome, scratch) = profiled(&machine, &metrics, &before, Some("no voltage"))?;
    outcome.expect_success();
    let names: Vec<String> = counters(&trace_in(&scratch)?)?.into_keys().collect();
    assert_eq!(
        names,
        [
            "GPU Busy [0] (S)",
            "GPU Busy [1] (S)",
            "GPU MM Busy [0] (S)",
            "GPU MM Busy [1] (S)",
            "GPU Voltage [0] (S)",
        ],
        "{}",
        outcome.story()
    );
    let warnings: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    assert_eq!(
        warnings,
        [
            "rsys: warning: GPU 1 (gfx90a): no voltage (this GPU does not have it); librocm_smi64.so.1: status 2"
        ]
    );

    // Without libraries it is as it was; nobody complains of what was not named.
    let (outcome, scratch) = profiled(
        &machine,
        &["--gpu-metrics", "all", "--smi-library", "none"],
        &before,
        Some(""),
    )?;
    assert!(
        !outcome.expect_success().stderr.contains("warning"),
        "{}",
        outcome.story()
    );
    assert!(!counters(&trace_in(&scratch)?)?.contains_key("GPU MM Busy [0] (S)"));
    Ok(())
}

#[test]
fn no_library_can_hurt() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let library = workload("bad_smi").build()?.with_file_name("plugin.so");
    let library = library.to_str().context("a path")?;
    let named = "GPU 0 (gfx90a): no mm_busy (its files do not say); ";
    let cases = [
        ("load", format!("{named}the SMI library ended its process: signal: 6 (SIGABRT)")),
        ("init", format!("{named}the SMI library ended its process: signal: 11 (SIGSEGV)")),
        ("hang", String::new()),
        ("later", "GPU 0 (gfx90a): not recorded any more mm_busy; plugin.so ended its process: signal: 6 (SIGABRT)".to_owned()),
    ];
    for (mode, warning) in cases {
        let machine = Machine::new(Stack::Debian12)?;
        let options = ["--gpu-metrics", "busy,mm_busy", "--smi-library", library];
        // No core files.
        let before = format!("ulimit -c 0; export BAD_SMI={mode};");
        let (outcome, scratch) = profiled(&machine, &options, &before, None)?;
        let told: Vec<&str> = outcome
            .expect_success()
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix("rsys: warning: "))
            .map(|line| line.trim_end_matches(" (core dumped)"))
            .collect();
        let expected: Vec<&str> = Some(warning.as_str())
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect();
        assert_eq!(told, expected, "{mode}\n{}", outcome.story());
        assert_eq!(outcome.stdout, "done\n", "{mode}");
        assert!(
            !outcome.stderr.contains("bad_smi on"),
            "{mode}\n{}",
            outcome.story()
        );
        let found = counters(&trace_in(&scratch)?)?;
        assert!(found.contains_key("GPU Busy [0] (S)"), "{mode}");
        assert_eq!(
            found.get("GPU MM Busy [0] (S)"),
            (mode == "later").then_some(&34.0),
            "{mode}"
        );
        // None of ours is left.
        wait_until(LIMIT, || readers_of(library) == 0);
        assert_eq!(readers_of(library), 0, "{mode}");
    }
    Ok(())
}

/// How many processes read from a library.
fn readers_of(library: &str) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            let line = String::from_utf8_lossy(line);
            line.starts_with("rsys-smi-reader") && line.contains(library)
        })
        .count()
}
