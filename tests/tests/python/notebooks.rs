//! The module `rsys` beside the programs: tables as frames, parts of a program that are recorded, cells of notebooks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Interpreter, Machine, Outcome, Run, Scratch, TestResult, judge_dir, missing_tool, python,
    pythons, report, run_plain, sampler, skip_if_missing, target_dir, workspace_dir,
};
use serde_json::Value;

const PROFILED: &str = "python_profile.py";

/// The search path, with the programs under test in front.
fn search_path() -> Result<OsString> {
    let programs = [sampler()?, report()?];
    let folders = programs.iter().filter_map(|program| program.parent());
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = folders
        .map(PathBuf::from)
        .chain(std::env::split_paths(&others));
    Ok(std::env::join_paths(all)?)
}

/// Runs a judge with packages of these folders of judges, on a machine.
fn judge(
    script: &str,
    packages: &[&str],
    words: &[&Path],
    machine: Option<&Machine>,
) -> Result<Output> {
    let folders = packages.iter().map(|name| judge_dir().join(name));
    let own = workspace_dir().join("user/python");
    let module_path = std::env::join_paths(folders.chain([own]))?;
    let mut command = Command::new("python3");
    if let Some(machine) = machine {
        command.env("RSYS_AVAIL_ROOT", machine.root());
    }
    let output = command
        .arg(workspace_dir().join("tests/judge").join(script))
        .args(words)
        .env("PYTHONPATH", module_path)
        .env("PATH", search_path()?)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{script}: {said}");
    Ok(output)
}

fn missing_packages(name: &str) -> Option<String> {
    (!judge_dir().join(name).is_dir()).then(|| {
        format!("packages of Python ({name}) are not there: `cargo xtask test` fetches them")
    })
}

/// CPU time by function of the program, in traces.
fn seconds_of(traces: &Path, function: &str) -> Result<f64> {
    let sql = format!(
        "select coalesce(sum(weight), 0) / 1e9 as s from samples join stacks using (stack_id)
         where basis = 'cpu' and ';' || frames || ';' glob '*;{function} ({PROFILED});*'"
    );
    let output = Command::new(report()?)
        .args(["query", "--json"])
        .arg(traces)
        .arg(sql)
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    answer["rows"][0]["s"].as_f64().context("seconds")
}

/// Whether a part that used 0.4 s of CPU time can have these seconds. Where processors are short a sample stands for up to 150 ms, and a thread ends
/// with some of its time told by none.
fn is_of_part(seconds: f64) -> bool {
    (0.1..0.5).contains(&seconds)
}

/// The text behind `NAME=` in what a program printed.
fn printed(outcome: &Outcome, name: &str) -> Result<String> {
    let start = format!("{name}=");
    let mut lines = outcome.stdout.lines();
    let line = lines.find_map(|line| line.strip_prefix(&start));
    Ok(line.with_context(|| outcome.story())?.to_owned())
}

/// One interpreter of each version.
fn versions() -> Vec<Interpreter> {
    let mut found: Vec<Interpreter> = pythons();
    found.sort_by_key(Interpreter::minor);
    found.dedup_by_key(|interpreter| interpreter.minor());
    found
}

#[test]
fn a_part_of_a_program_is_recorded_by_attaching() -> TestResult {
    for interpreter in versions() {
        let what = interpreter.to_string();
        let folder = Scratch::new("profile")?;
        let program = interpreter
            .workload(PROFILED)
            .arg("attach")
            .arg(folder.path());
        let outcome = run_plain(program.env("PATH", search_path()?))?;
        outcome.expect_success();
        for name in ["with", "decorated", "forked"] {
            let traces = PathBuf::from(printed(&outcome, name)?);
            ensure!(traces.starts_with(folder.path()), "{what}: {traces:?}");
            let part = seconds_of(&traces, "part")?;
            ensure!(is_of_part(part), "{what}: {name}: {part} s");
            for function in ["before", "after"] {
                let others = seconds_of(&traces, function)?;
                ensure!(others == 0.0, "{what}: {name}: {function}: {others} s");
            }
        }
    }
    Ok(())
}

#[test]
fn a_part_of_a_program_is_recorded_by_the_profiler_that_runs_it() -> TestResult {
    for interpreter in versions() {
        let what = interpreter.to_string();
        let program = interpreter.workload(PROFILED).arg("inside");
        let outcome = Run::new().freq(500).command(program).run()?;
        outcome.expect_success();
        let refused = printed(&outcome, "refused")?;
        ensure!(refused.contains("when it ends"), "{what}: {refused}");
        let traces = outcome.files();
        let traces = traces.first().with_context(|| outcome.story())?;
        let part = seconds_of(traces, "part")?;
        ensure!(is_of_part(part), "{what}: {part} s");
        for function in ["before", "after"] {
            ensure!(seconds_of(traces, function)? == 0.0, "{what}: {function}");
        }
    }
    Ok(())
}

#[test]
fn what_cannot_be_attached_to_is_told_in_the_profilers_words() -> TestResult {
    let script = "import rsys\ntry:\n    rsys.profile('--nonsense').__enter__()\nexcept rsys.Error as error:\n    print('told=%s' % error)\n\
                  try:\n    rsys.profile('-q')\nexcept rsys.Error as error:\n    print('quiet=%s' % error)";
    let run = |path: OsString| {
        let program = rsys_tests::Invocation::new("/usr/bin/python3").args(["-c", script]);
        let program = program.env("PYTHONPATH", workspace_dir().join("user/python"));
        run_plain(program.env("PATH", path))
    };
    let outcome = run(search_path()?)?;
    outcome.expect_success();
    let told = printed(&outcome, "told")?;
    ensure!(
        told.contains("cannot attach") && told.contains("--nonsense"),
        "{told}"
    );
    ensure!(
        printed(&outcome, "quiet")?.contains("-q"),
        "{}",
        outcome.story()
    );
    let folder = Scratch::new("refused")?;
    let program = python(PROFILED).arg("refused").arg(folder.path());
    let outcome = run_plain(program.env("PATH", search_path()?))?;
    let told = printed(outcome.expect_success(), "refused")?;
    ensure!(told.contains("another rsys-sample records it"), "{told}");
    let part = seconds_of(Path::new(&printed(&outcome, "with")?), "part")?;
    ensure!(is_of_part(part), "{part} s");
    // Without the programs there is a way to get them.
    let outcome = run("/nonsense".into())?;
    let told = printed(&outcome, "told")?;
    ensure!(
        told.contains("pip install rsys") && told.contains("PATH"),
        "{told}"
    );
    Ok(())
}

#[test]
fn tables_are_frames_with_every_bit() -> TestResult {
    let outcome = Run::new()
        .freq(500)
        .command(python(PROFILED).arg("inside"))
        .run()?;
    let traces = outcome.expect_success().files();
    let trace = traces.first().context("a trace")?;
    for packages in [&["readers"][..], &["tables"], &[]] {
        if let Some(why) = packages.iter().find_map(|name| missing_packages(name)) {
            ensure!(!rsys_tests::must_not_skip(), "{why}");
            println!("skipped: {why}");
            continue;
        }
        let output = judge("frames.py", packages, &[trace], None)?;
        let found: Value = serde_json::from_slice(&output.stdout)?;
        let expected = match packages {
            ["readers"] => "pandas",
            ["tables"] => "polars",
            _ => continue,
        };
        let mut names = found["with"].as_array().context("a list")?.iter();
        ensure!(names.any(|name| name == expected), "{found}");
    }
    Ok(())
}

#[test]
fn a_cell_of_a_notebook_is_profiled() -> TestResult {
    skip_if_missing!(missing_packages("jupyter"));
    let scratch = Scratch::new("notebook")?;
    let machine = Machine::epyc()?;
    machine.gpu(0, 90402, "power1_average", &[("edge", 45_000)])?;
    let output = judge(
        "profiled_cells.py",
        &["jupyter"],
        &[scratch.path()],
        Some(&machine),
    )?;
    let cells: Vec<Vec<Value>> = serde_json::from_slice(&output.stdout)?;
    let text = |cell: usize, kind: &str| -> String {
        let parts = cells[cell]
            .iter()
            .filter_map(|output| output[kind].as_str());
        parts.collect::<Vec<_>>().join("\n")
    };
    ensure!(cells[1].is_empty(), "{:?}", cells[1]);
    // The cell's own output, what it returned, then the table and the flame graph.
    ensure!(
        text(2, "text").starts_with("computing\n"),
        "{}",
        text(2, "text")
    );
    ensure!(text(2, "text").contains("True"), "{}", text(2, "text"));
    let page = text(2, "html");
    ensure!(
        page.contains("total (") || page.contains("distances ("),
        "{page}"
    );
    let pictures = ["alt=\"Flame graph", "alt=\"Sensors of GPUs"];
    ensure!(
        pictures.iter().all(|alt| page.contains(alt)) && page.contains("data:image/png;base64,"),
        "{page}"
    );
    let folder = text(3, "text");
    ensure!(folder.contains("rsys-python-output"), "{folder}");
    let report = std::fs::read_to_string(Path::new(folder.trim()).join("report.html"))?;
    let (_, plots) = report.split_once("\"plots\":").context("plots")?;
    // Flame graphs begin with the cell.
    ensure!(plots.contains("distances ("), "{plots}");
    ensure!(
        text(4, "html").contains("<td>distances"),
        "{}",
        text(4, "html")
    );
    ensure!(text(5, "html").contains("data:image/png"), "{:?}", cells[5]);
    ensure!(
        text(6, "text").contains("--nonsense") && !text(6, "text").contains("never"),
        "{:?}",
        cells[6]
    );
    // A cell that fails shows its error once, and then where its time went; the notebook stops there.
    let failed = text(7, "text");
    ensure!(
        failed.matches("ValueError").count() >= 1 && failed.contains("as it is"),
        "{failed}"
    );
    ensure!(
        !text(7, "error").is_empty() && text(7, "html").contains("data:image/png"),
        "{:?}",
        cells[7]
    );
    ensure!(text(8, "text") == "goes on\n", "{:?}", cells[8]);
    looks(&scratch.path().join("notebook.html"))
}

/// Keeps a picture of the page.
fn looks(page: &Path) -> TestResult {
    skip_if_missing!(missing_tool("chromium-headless-shell"));
    let pictures = target_dir().join("screenshots");
    std::fs::create_dir_all(&pictures)?;
    let picture = pictures.join("notebook.png");
    let done = Command::new("chromium-headless-shell")
        .args(["--no-sandbox", "--disable-gpu", "--window-size=1200,2400"])
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .output()?;
    ensure!(done.status.success() && picture.is_file(), "{done:?}");
    Ok(())
}
