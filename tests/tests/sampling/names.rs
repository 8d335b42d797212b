//! Names of functions and libraries in what a report says.

use std::os::unix::fs::symlink;

use anyhow::{Context, Result, ensure};
use rsys_tests::{Run, Scratch, TestResult, answer, script, workload};
use serde_json::Value;

/// A library that processes open by links, from the root and from their folder, is one; stubs are not the function in front of them; and functions
/// of the C library have the names that programs call.
#[test]
fn a_library_has_one_name_and_functions_those_that_are_called() -> TestResult {
    let folder = Scratch::new("names")?;
    let library = workload("linked");
    let library = library.flags(["-O1", "-g", "-DLIBRARY", "-shared", "-fPIC", "-Wl,-z,lazy"]);
    let file = folder.path().join("liblinked.so.1.2");
    std::fs::copy(library.build()?, &file)?;
    symlink(&file, folder.path().join("liblinked.so.1"))?;
    symlink("liblinked.so.1", folder.path().join("liblinked.so"))?;
    let program = workload("linked").flags(["-O1", "-g", "-ldl"]).build()?;
    let (program, there) = (program.display(), folder.path().display());
    let names = [
        "./liblinked.so".to_owned(),
        "./liblinked.so.1.2".to_owned(),
        format!("{there}/liblinked.so.1"),
    ];
    let runs = names.map(|name| format!("{program} {name}"));
    let command = script(&format!("cd {there}; {}", runs.join("; ")));
    let outcome = Run::new().freq(1000).command(command).run()?;
    outcome.expect_success();

    let functions = answer("functions", &outcome.files())?;
    let functions = functions["functions"].as_array().context("functions")?;
    let modules = |name: &str| -> Result<Vec<&str>> {
        let rows = functions.iter().filter(|row| row["function"] == name);
        rows.map(|row| row["module"].as_str().context("module"))
            .collect()
    };
    let real = file.canonicalize()?.display().to_string();
    for name in ["computes", "tiny", "tiny@plt"] {
        ensure!(modules(name)? == [real.as_str()], "{name}: {functions:#?}");
    }
    ensure!(modules("read")?.len() == 1, "{functions:#?}");
    let is_internal = |row: &&Value| {
        let name = row["function"].as_str().unwrap_or_default();
        name.contains("libc_read") || name == "__read"
    };
    let internal = functions.iter().find(is_internal);
    ensure!(internal.is_none(), "{internal:?}");
    Ok(())
}
