//! `rsys-report` on files of PyTorch's profiler.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use rsys_tests::{
    Run, Scratch, TestResult, missing_python_module, python, report, skip_if_missing,
};

/// What `rsys-report summary` says of a file, and its exit code.
fn summary(file: &Path) -> Result<(Option<i32>, String)> {
    let output = Command::new(report()?).arg("summary").arg(file).output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

#[test]
fn a_profile_without_a_gpu_says_what_it_has() -> TestResult {
    skip_if_missing!(missing_python_module("torch"));
    let scratch = Scratch::new("kineto")?;
    let file = scratch.path().join("trace.json.gz");
    let profiled = python("profile_torch.py").arg(&file);
    let outcome = Run::bare().command(profiled).run()?;
    outcome.expect_success();
    let operators = outcome.number("operators")?;
    assert!(operators >= 60.0, "{}", outcome.story());
    let mut expected = format!("no operations of GPUs, but {operators} operators");
    if outcome.number("ranges")? > 0.0 {
        expected += &format!(", {} ranges", outcome.number("ranges")?);
    }
    let (code, said) = summary(&file)?;
    assert!(said.contains(&expected), "{expected}\n{said}");
    assert!(
        said.contains("no operation of a GPU is in these traces"),
        "{said}"
    );
    assert!(!said.contains("left out"), "{said}");
    // Its operators are an answer.
    assert_eq!(code, Some(0), "{said}");
    Ok(())
}

#[test]
fn a_folder_is_read_whatever_its_files_are_called() -> TestResult {
    let scratch = Scratch::new("kineto")?;
    for rank in 0..2 {
        let event = format!(
            r#"{{"traceEvents": [{{"ph": "X", "cat": "kernel", "name": "of_rank_{rank}", "pid": {rank}, "tid": 7, "ts": 1716543210123456, "dur": 250, "args": {{"device": {rank}, "stream": 7}}}}]}}"#
        );
        let name = format!("trace_rank{rank}.json");
        fs::write(scratch.path().join(name), event)?;
    }
    fs::write(scratch.path().join("settings.json"), "{\"steps\": 3}")?;
    let (code, said) = summary(scratch.path())?;
    let is_read = said.contains("of_rank_0") && said.contains("of_rank_1");
    assert!(is_read && !said.contains("settings"), "{said}");
    assert_eq!(code, Some(0), "{said}");
    Ok(())
}

#[test]
fn a_profile_with_a_gpu_is_answered_even_if_it_is_cut_off() -> TestResult {
    let scratch = Scratch::new("kineto")?;
    let event = |name: &str, ts: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 2, "tid": 7, "ts": {ts}, "dur": 250.5, "args": {{"device": 2, "stream": 7}}}}"#
        )
    };
    let whole = format!(
        "{{\"schemaVersion\": 1, \"traceEvents\": [\n{},\n{}\n]}}",
        event("first_kernel", "1716543210123456.789"),
        event("last_kernel", "1716543210123956.789"),
    );
    let file = scratch.path().join("whole.json");
    fs::write(&file, &whole)?;
    let (code, said) = summary(&file)?;
    assert_eq!(code, Some(0), "{said}");
    for expected in [
        "first_kernel",
        "last_kernel",
        "750.500 \u{b5}s",
        "249.500 \u{b5}s",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let file = scratch.path().join("cut.json");
    fs::write(&file, &whole[..whole.len() - 20])?;
    let (code, said) = summary(&file)?;
    assert_eq!(code, Some(0), "{said}");
    let at = whole
        .find("{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"last")
        .unwrap_or(0);
    let cut = format!("cut.json: byte {at}: the file ends before its JSON does");
    assert!(said.contains(&cut), "{cut}\n{said}");
    assert!(
        said.contains("first_kernel") && !said.contains("last_kernel"),
        "{said}"
    );
    Ok(())
}
