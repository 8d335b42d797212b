//! `rsys-report`: answers into files, and commands that have another name elsewhere.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rsys_tests::{Outcome, Run, Scratch, TestResult, report, script};
use serde_json::Value;

fn recorded() -> Result<Outcome> {
    let program = script("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    let outcome = Run::new().command(program).run()?;
    outcome.expect_success();
    Ok(outcome)
}

fn asked(words: &[&str]) -> Result<(Output, String)> {
    let output = Command::new(report()?).args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output, said))
}

#[test]
fn an_answer_goes_into_a_file_in_the_form_of_its_name() -> TestResult {
    let outcome = recorded()?;
    let trace = outcome
        .files()
        .first()
        .context("a trace")?
        .display()
        .to_string();
    let folder = Scratch::new("answers")?;
    let file = |name: &str| folder.path().join("made").join(name).display().to_string();
    for name in ["a.json", "a.csv", "a.txt"] {
        let (output, said) = asked(&["functions", &trace, "-o", &file(name)])?;
        ensure!(output.status.success(), "{said}");
        let told = String::from_utf8(output.stdout)?;
        ensure!(told == format!("{}: written\n", file(name)), "{told}");
    }
    let json: Value = serde_json::from_str(&std::fs::read_to_string(file("a.json"))?)?;
    ensure!(json["functions"].is_array(), "{json:#}");
    let csv = std::fs::read_to_string(file("a.csv"))?;
    ensure!(csv.starts_with("function,"), "{csv}");
    let text = std::fs::read_to_string(file("a.txt"))?;
    ensure!(text.starts_with("CPU time by function\n"), "{text}");

    // Nothing that is there is replaced unasked, and no trace at all.
    let (output, said) = asked(&["functions", &trace, "-o", &file("a.json")])?;
    ensure!(
        !output.status.success() && said.contains("replace it with --force"),
        "{said}"
    );
    let (output, said) = asked(&["functions", &trace, "-f", "-o", &file("a.json")])?;
    ensure!(output.status.success(), "{said}");
    let (output, said) = asked(&["functions", &trace, "-f", "-o", &trace])?;
    ensure!(
        !output.status.success() && said.contains("is one of the traces"),
        "{said}"
    );

    // A link leads to what is replaced; what is no file is written as it is.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(file("a.csv"), &link)?;
    let link_name = link.display().to_string();
    let (output, said) = asked(&["functions", &trace, "-f", "--json", "-o", &link_name])?;
    ensure!(output.status.success() && link.is_symlink(), "{said}");
    ensure!(std::fs::read_to_string(file("a.csv"))?.starts_with('{'));
    let (output, said) = asked(&["functions", &trace, "--json", "-o", "/dev/stdout"])?;
    let told = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success() && told.contains("\"functions\": ["),
        "{told} {said}"
    );
    let (_, said) = asked(&[
        "functions",
        &trace,
        "-f",
        "-o",
        &folder.path().display().to_string(),
    ])?;
    ensure!(said.contains("is a folder"), "{said}");
    Ok(())
}

#[test]
fn commands_of_other_tools_are_known() -> TestResult {
    for (word, meant) in [
        ("open", "view"),
        ("top", "functions"),
        ("compare", "diff"),
        ("kernel", "kernels"),
    ] {
        let (output, said) = asked(&[word])?;
        ensure!(output.status.code() == Some(2), "{said}");
        ensure!(said.contains(&format!("did you mean '{meant}'?")), "{said}");
    }
    Ok(())
}
