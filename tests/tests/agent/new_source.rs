//! A source of events is one row in `wire` and one file in the agent: this test adds one to a copy of the code, and what the new source
//! records is in the trace, on its track and in its category, and is asked for by its name.

use std::path::Path;
use std::process::Command;

use rsys_tests::{Run, TestResult, target_dir, workload, workspace_dir};

/// The row.
const ROW: &str = r#"
    /// A call of the probe's library.
    Probe = 31 {
        name: "probe", track: Calls, backend: Some("probe"), with_gpu: false, owns_operations: true,
        when_full: Drop
    }
"#;

/// The source, in ten lines.
const SOURCE: &str = r#"
static TICK: StaticText = StaticText::new("probe_tick");
crate::wrap! { fn probe_tick(number: c_int) -> c_int = tick; }
pub static SOURCE: Source = Source { categories: &[Category::Probe], prefix: b"probe_", wrapped: WRAPPED, ..Source::NONE };
fn tick(real: Option<probe_tick::Function>, _place: usize, number: c_int) -> c_int {
    events::begin(Category::Probe, TICK.key(), 0, &[(Key::Count, Value::Uint(number as u64))]);
    // SAFETY: the caller's own argument.
    let result = real.map_or(-1, |real| unsafe { real(number) });
    events::end(Category::Probe, &[]);
    result
}
"#;

const IMPORTS: &str = "//! A probe.\n\nuse std::ffi::c_int;\n\nuse rsys_wire::event::{Key, Value};\nuse rsys_wire::sources::Category;\n\n\
    use crate::events;\nuse crate::events::texts::StaticText;\nuse crate::sources::source::Source;\n";

/// Replaces what occurs exactly once.
fn edit(file: &Path, from: &str, to: &str) -> TestResult {
    let text = std::fs::read_to_string(file)?;
    assert_eq!(
        text.matches(from).count(),
        1,
        "{from:?} in {}",
        file.display()
    );
    std::fs::write(file, text.replace(from, to))?;
    Ok(())
}

/// Copies a folder, without what was built (the folder of this build, and folders with cargo's mark) and what git keeps. What an earlier copy had beyond it is removed.
fn copy(from: &Path, to: &Path) -> TestResult {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(to)? {
        let old = entry?.path();
        let is_there = old.file_name().is_some_and(|name| from.join(name).exists());
        if !is_there && old.is_dir() && !old.join("CACHEDIR.TAG").exists() {
            std::fs::remove_dir_all(&old)?;
        } else if !is_there && old.is_file() {
            std::fs::remove_file(&old)?;
        }
    }
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if entry.file_type()?.is_dir() {
            if name != ".git" && path != target_dir() && !path.join("CACHEDIR.TAG").exists() {
                copy(&path, &to.join(name))?;
            }
        } else if entry.file_type()?.is_file() {
            let target = to.join(name);
            let text = std::fs::read(&path)?;
            // What is the same keeps its time, and is not built again.
            if std::fs::read(&target).ok() != Some(text.clone()) {
                std::fs::write(target, text)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_source_is_one_row_and_one_file() -> TestResult {
    let place = target_dir().join("new-source");
    let code = place.join("code");
    copy(&workspace_dir(), &code)?;
    let rows_end = "}\n\nimpl Category {\n";
    edit(
        &code.join("wire/src/sources.rs"),
        rows_end,
        &format!("{}{rows_end}", ROW.trim_start_matches('\n')),
    )?;
    let all = "    backend(ALL, &[], \"every backend of this build\"),\n";
    edit(
        &code.join("config/src/backends.rs"),
        all,
        &format!("{all}    backend(\"probe\", &[], \"a probe\"),\n"),
    )?;
    assert_eq!(SOURCE.trim().lines().count(), 10);
    std::fs::write(
        code.join("agent/src/sources/probe.rs"),
        format!("{IMPORTS}{SOURCE}"),
    )?;
    let list = code.join("agent/src/sources/mod.rs");
    edit(&list, "mod roctx;\n", "mod probe;\nmod roctx;\n")?;
    let sources = "static SOURCES: &[&Source] = &[";
    edit(&list, sources, &format!("{sources}&probe::SOURCE, "))?;

    let build = Command::new(env!("CARGO"))
        .args(["build", "-q", "-p", "rsys-agent", "-p", "rsys-sampler"])
        .args([
            "--config",
            "profile.dev.opt-level=0",
            "--config",
            "profile.dev.debug=false",
        ])
        .arg("--target-dir")
        .arg(place.join("target"))
        .current_dir(&code)
        .output()?;
    assert!(
        build.status.success(),
        "{}",
        String::from_utf8_lossy(&build.stderr)
    );

    let run = Run::new()
        .profiler(place.join("target/debug/rsys-sample"))
        .options(["-I", "probe"])
        .command(workload("probe").args(["7"]));
    let outcome = run.run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let calls = trace.number(
        "select count(*) from slice join thread_track on track_id = thread_track.id \
         where slice.name = 'probe_tick' and category = 'probe' and thread_track.name = 'calls'",
    )?;
    assert_eq!(calls, 7);
    Ok(())
}
