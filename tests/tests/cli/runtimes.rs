//! What `rsys-avail` says of installed runtimes, and of the libraries that a program would load: against glibc's own loader, against what the
//! agent then does, and on made-up machines.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, code_object, hip_program, hsa_program};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, avail, run_plain, skip_if_missing,
};
use serde_json::Value;

/// A table of an answer in JSON, by the names of its rows.
fn rows(outcome: &Outcome, table: &str) -> Result<BTreeMap<String, Value>> {
    let document: Value =
        serde_json::from_str(&outcome.expect_success().stdout).with_context(|| outcome.story())?;
    let rows = document[table]["rows"]
        .as_array()
        .context("no such table")?;
    let named = rows.iter().map(|row| {
        let name = row["name"].as_str().context("a name")?;
        Ok((name.to_owned(), row.clone()))
    });
    named.collect()
}

fn text<'a>(rows: &'a BTreeMap<String, Value>, name: &str, column: &str) -> Result<&'a str> {
    let row = rows.get(name).with_context(|| format!("no row {name}"))?;
    row[column].as_str().context("a text")
}

/// Whether one of the rows of this name has this version. This machine may have other runtimes in its default folders, or in `/opt/rocm`.
fn has_version(outcome: &Outcome, table: &str, name: &str, version: &str) -> Result<bool> {
    let document: Value = serde_json::from_str(&outcome.expect_success().stdout)?;
    let rows = document[table]["rows"]
        .as_array()
        .context("no such table")?;
    Ok(rows
        .iter()
        .any(|row| row["name"] == name && row["version"] == version))
}

/// The paths of libraries that glibc's loader finds for a program, without links.
fn by_loader(run: impl Fn(Invocation) -> Invocation, program: &Path) -> Result<Vec<String>> {
    const LIST: &str = r#"LD_TRACE_LOADED_OBJECTS=1 "$1" | while read -r name arrow path rest; do case $path in /*) realpath "$path";; esac; done"#;
    let outcome = run_plain(run(Invocation::new("/bin/sh")
        .args(["-c", LIST, "sh"])
        .arg(program)))?;
    let lines = outcome.expect_success().stdout.lines();
    Ok(lines.map(str::to_owned).collect())
}

/// On each stack the runtimes are listed, a program's are those of its loader, and the source is the one that the agent then takes.
#[test]
fn a_program_is_recorded_as_was_said() -> TestResult {
    for (stack, version, source) in [
        (Stack::Debian12, "5.2.21153", "HSA"),
        (Stack::Wheel54, "5.3 or later", "HIP"),
        (Stack::Debian13, "5.7.31921", "HIP"),
        (Stack::Unstable, "6.4.43484", "HIP"),
        (Stack::Rocm7, "7.2.53211", "HIP"),
    ] {
        if let Some(why) = stack.missing() {
            skip_if_missing!(Some(why));
        }
        let name = stack.name();
        let say = |words: &[&OsStr]| {
            let avail = Invocation::new(avail()?).args(words).arg("--json");
            run_plain(stack.with_runtimes(avail))
        };
        let installed = say(&[OsStr::new("--runtimes")])?;
        ensure!(
            has_version(&installed, "runtimes", "HIP", version)?,
            "{name}: {}",
            installed.stdout
        );
        let with_hsa = hsa_program("hsa_check")?
            .arg(code_object("gfx90a")?)
            .arg("1");
        for (command, has_hip) in [(hip_program(stack, "hip_once")?, true), (with_hsa, false)] {
            let program = command.path();
            let said = say(&[OsStr::new("--for"), program.as_os_str()])?;
            let loaded = by_loader(|list| stack.with_runtimes(list), &program)?;
            let libraries = rows(&said, "libraries")?;
            ensure!(
                libraries.contains_key("HIP") == has_hip,
                "{name}: {libraries:#?}"
            );
            ensure!(libraries.contains_key("HSA"), "{name}: {libraries:#?}");
            for (kind, row) in &libraries {
                let path = row["path"].as_str().context("a path")?;
                ensure!(
                    loaded.iter().any(|other| other == path),
                    "{name}: {kind} is {path}, the loader has {loaded:#?}"
                );
            }
            let sources = rows(&said, "sources")?;
            let (by, why) = (
                text(&sources, "kernels and copies", "source")?,
                text(&sources, "kernels and copies", "reason")?,
            );
            ensure!(by == if has_hip { source } else { "HSA" }, "{name}: {by}");
            let machine = Machine::new(stack)?;
            let outcome = Run::new()
                .options(["-I", "rocm", "--min-samples", "1"])
                .command(machine.run(command))
                .run()?;
            let trace = outcome
                .expect_success()
                .trace_of(&program.file_name().unwrap_or_default().to_string_lossy())?;
            ensure!(
                trace.metadata()?.text("gpu source")? == why,
                "{name}: {why}"
            );
        }
    }
    Ok(())
}

/// A tree of files with libraries that are no more than headers.
struct Tree {
    folder: Scratch,
}

impl Tree {
    fn new() -> Result<Self> {
        Ok(Self {
            folder: Scratch::new("runtimes")?,
        })
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// A library or program that needs others, found by name in `-L`; `options` are gcc's.
    fn link(&self, output: &str, options: &[&str], needs: &[&str]) -> TestResult {
        let path = self.path(output);
        let folder = path.parent().context("a folder")?;
        fs::create_dir_all(folder)?;
        let name = path.file_name().context("a name")?.to_string_lossy();
        let is_program = !name.contains(".so");
        let text = if is_program {
            "int main(void) { return 0; }\n"
        } else if name.contains("amdhip64") {
            "void hipRegisterTracerCallback(void) {}\n"
        } else {
            "int nothing;\n"
        };
        let source = self.path("source.c");
        fs::write(&source, text)?;
        let mut gcc = Command::new("gcc");
        gcc.arg(&source)
            .arg("-o")
            .arg(&path)
            .arg("-Wl,--no-as-needed,--allow-shlib-undefined");
        if !is_program {
            // `libx.so.7.2.1` is needed as `libx.so.7`.
            let soname: Vec<&str> = name.split('.').take(3).collect();
            gcc.args(["-shared", "-fPIC"])
                .arg(format!("-Wl,-soname,{}", soname.join(".")));
        }
        gcc.args(options)
            .args(needs.iter().map(|need| self.path(need)));
        let output = gcc.output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let short = path.with_file_name(name.split('.').take(3).collect::<Vec<_>>().join("."));
        if !is_program && !short.exists() {
            symlink(&*name, short)?;
        }
        Ok(())
    }

    fn avail(&self, words: &[&str]) -> Result<Invocation> {
        let avail = Invocation::new(avail()?).args(words).arg("--json");
        Ok([
            "LD_LIBRARY_PATH",
            "ROCM_PATH",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "PYTHONPATH",
            "HOME",
        ]
        .iter()
        .fold(avail, |avail, name| avail.env_remove(name))
        .env("RSYS_AVAIL_ROOT", self.folder.path()))
    }
}

/// RPATH goes before the variable and counts for what is needed further down, RUNPATH behind it and for its own file only.
#[test]
fn libraries_are_found_as_the_loader_finds_them() -> TestResult {
    // Of versions that no machine has in its default folders.
    const HSA: &str = "libhsa-runtime64.so.99";
    const HIP: &str = "libamdhip64.so.99";
    const OLD: &[&str] = &["-Wl,--disable-new-dtags"];
    const NEW: &[&str] = &["-Wl,--enable-new-dtags"];
    for (tags, of_program, of_hip, variable, expected) in [
        (OLD, "$ORIGIN/a", "", "", Some("a")),
        (OLD, "$ORIGIN/a", "", "b", Some("a")),
        (NEW, "$ORIGIN/a", "", "b", Some("b")),
        // HSA is needed by HIP: the program's RUNPATH does not lead there, its RPATH does, unless HIP has a RUNPATH of its own.
        (NEW, "$ORIGIN/a", "", "", None),
        (NEW, "$ORIGIN/a", "$ORIGIN", "", Some("a")),
        (OLD, "$ORIGIN/a:$ORIGIN/b", "$ORIGIN/../b", "", Some("b")),
        (OLD, "${ORIGIN}/none:$ORIGIN/a", "", "", Some("a")),
    ] {
        let tree = Tree::new()?;
        for folder in ["a", "b"] {
            tree.link(&format!("{folder}/{HSA}.15.60403"), &[], &[])?;
            let path = format!("-Wl,-rpath,{of_hip}");
            let mut options = tags.to_vec();
            if !of_hip.is_empty() {
                options.push(&path);
            }
            tree.link(
                &format!("{folder}/{HIP}.4.43484"),
                &options,
                &[&format!("{folder}/{HSA}")],
            )?;
        }
        let path = format!("-Wl,-rpath,{of_program}");
        let options: Vec<&str> = tags.iter().copied().chain([path.as_str()]).collect();
        tree.link("app", &options, &[&format!("a/{HIP}")])?;
        let program = tree.path("app");
        let case = format!("{tags:?} {of_program} {of_hip} {variable}");
        let with_variable = |command: Invocation| {
            if variable.is_empty() {
                command.env_remove("LD_LIBRARY_PATH")
            } else {
                command.env("LD_LIBRARY_PATH", tree.path(variable))
            }
        };
        let command = Invocation::new(avail()?)
            .arg("--for")
            .arg(&program)
            .arg("--json");
        let said = run_plain(with_variable(command))?;
        let libraries = rows(&said, "libraries")?;
        let loaded = by_loader(with_variable, &program)?;
        for (kind, part) in [("HSA", "libhsa-runtime64"), ("HIP", "libamdhip64")] {
            let ours = libraries.get(kind).and_then(|row| row["path"].as_str());
            let theirs = loaded.iter().find(|path| path.contains(part));
            ensure!(
                ours == theirs.map(String::as_str),
                "{case}: {ours:?}, not {theirs:?}"
            );
        }
        let place = libraries.get("HSA").and_then(|row| row["path"].as_str());
        let folder = place.and_then(|place| Path::new(place).parent()?.file_name()?.to_str());
        ensure!(folder == expected, "{case}: {folder:?}");
        if expected.is_none() {
            ensure!(
                said.stdout
                    .contains("which libamdhip64.so.99.4.43484 needs"),
                "{}",
                said.stdout
            );
        }
    }
    Ok(())
}

/// Several at once: packages of AMD's, one of them behind the links of `update-alternatives`, and wheels.
#[test]
fn all_installed_ones_are_listed() -> TestResult {
    let tree = Tree::new()?;
    for (library, soname) in [
        ("opt/rocm-6.4.1/lib/libamdhip64.so.6.4.43483", &[][..]),
        ("opt/rocm-6.4.1/lib/libhsa-runtime64.so.1.15.60401", &[]),
        ("opt/rocm-7.1.1/lib/libhsa-runtime64.so.1.18.70101", &[]),
        ("opt/rocm/core-7.10/lib/libamdhip64.so.7.10.1", &[]),
        (
            "usr/local/lib/python3.12/dist-packages/torch/lib/libamdhip64.so",
            &[],
        ),
        (
            "opt/venv/lib/python3.12/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7",
            &[],
        ),
    ] {
        tree.link(library, soname, &[])?;
    }
    for folder in [
        "usr/local/lib/python3.12/dist-packages/torch-2.8.0+rocm6.4.dist-info",
        "opt/venv/lib/python3.12/site-packages/rocm_sdk_core-7.9.0rc1.dist-info",
        "etc/alternatives",
    ] {
        fs::create_dir_all(tree.path(folder))?;
    }
    symlink("/opt/rocm-7.1.1", tree.path("etc/alternatives/rocm-latest"))?;
    symlink(
        "/etc/alternatives/rocm-latest",
        tree.path("opt/rocm-latest"),
    )?;
    fs::write(
        tree.path("opt/rocm/core-7.10/lib/librccl.so.1"),
        "no library",
    )?;
    let said = run_plain(tree.avail(&["--runtimes"])?)?;
    let document: Value = serde_json::from_str(&said.expect_success().stdout)?;
    let rows = document["runtimes"]["rows"].as_array().context("rows")?;
    let mut found: Vec<String> = rows
        .iter()
        .map(|row| {
            let word = |name: &str| row[name].as_str().unwrap_or("?").to_owned();
            let by = row["found_by"].to_string();
            format!(
                "{} {} {} {} {by}",
                word("name"),
                word("version"),
                word("rocm"),
                row["available"]
            )
        })
        .collect();
    found.sort();
    let expected = [
        r#"HIP  6.4 true ["Python package torch"]"#,
        r#"HIP 6.4.43483 6.4.1 true ["/opt/rocm-6.4.1"]"#,
        r#"HIP 7 7.9.0rc1 true ["Python package rocm_sdk_core"]"#,
        r#"HIP 7.10.1 7.10 true ["/opt/rocm/core-7.10"]"#,
        r#"HSA 1.15.60401 6.4.1 true ["/opt/rocm-6.4.1"]"#,
        r#"HSA 1.18.70101 7.1.1 true ["/opt/rocm-7.1.1","/opt/rocm-latest"]"#,
        r#"RCCL  7.10 false ["/opt/rocm/core-7.10"]"#,
    ]
    .map(str::to_owned);
    ensure!(found == expected, "{found:#?}");
    Ok(())
}

/// A Python's libraries are those of the PyTorch that it would import; ROCm's wheels go before what the system has.
#[test]
fn a_python_loads_what_its_pytorch_brings() -> TestResult {
    let tree = Tree::new()?;
    let site = "opt/venv/lib/python3.12/site-packages";
    let hip = |folder: &str| format!("{folder}/libamdhip64.so.7");
    tree.link("usr/bin/python3.12", &[], &[])?;
    fs::create_dir_all(tree.path("opt/venv/bin"))?;
    symlink("/usr/bin/python3.12", tree.path("opt/venv/bin/python"))?;
    fs::write(
        tree.path("opt/venv/pyvenv.cfg"),
        "home = /usr/bin\ninclude-system-site-packages = false\n",
    )?;
    fs::write(
        tree.path("opt/venv/bin/torchrun"),
        "#!/opt/venv/bin/python\nimport torch\n",
    )?;
    tree.link(&hip("usr/lib"), &[], &[])?;
    let ask = |tree: &Tree, program: &str| -> Result<(Option<String>, String)> {
        let said = run_plain(tree.avail(&["--for", program])?)?;
        let libraries = rows(&said, "libraries")?;
        let path = libraries.get("HIP").and_then(|row| row["path"].as_str());
        Ok((path.map(str::to_owned), said.stdout.clone()))
    };
    let (path, said) = ask(&tree, "/opt/venv/bin/python")?;
    ensure!(
        path.is_none() && said.contains("finds no PyTorch"),
        "{said}"
    );

    // PyTorch's own copy, by its RPATH.
    tree.link(&hip(&format!("{site}/torch/lib")), &[], &[])?;
    let origin = ["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN"];
    tree.link(
        &format!("{site}/torch/lib/libtorch_hip.so"),
        &origin,
        &[&hip(&format!("{site}/torch/lib"))],
    )?;
    tree.link(
        &format!("{site}/torch/lib/libtorch_python.so"),
        &origin,
        &[&format!("{site}/torch/lib/libtorch_hip.so")],
    )?;
    for program in ["/opt/venv/bin/python", "/opt/venv/bin/torchrun"] {
        let (path, said) = ask(&tree, program)?;
        ensure!(
            path == Some(format!("/{}", hip(&format!("{site}/torch/lib")))),
            "{said}"
        );
    }
    // The system's Python has another site.
    let (path, said) = ask(&tree, "/usr/bin/python3.12")?;
    ensure!(path.is_none(), "{said}");

    // Without a copy: the system's, unless ROCm's wheels are opened first.
    fs::remove_file(tree.path(&hip(&format!("{site}/torch/lib"))))?;
    let (path, said) = ask(&tree, "/opt/venv/bin/python")?;
    ensure!(path == Some(format!("/{}", hip("usr/lib"))), "{said}");
    let wheel = hip(&format!("{site}/_rocm_sdk_core/lib"));
    tree.link(&wheel, &[], &[])?;
    fs::write(tree.path(&format!("{site}/torch/_rocm_init.py")), "")?;
    let (path, said) = ask(&tree, "/opt/venv/bin/python")?;
    ensure!(path == Some(format!("/{wheel}")), "{said}");
    Ok(())
}

/// The settings of the run count, and each HSA runtime has its own limits.
#[test]
fn settings_and_versions_decide_how_it_is_recorded() -> TestResult {
    const PACKETS: &str = "queues are made large and shown 128 packets at a time";
    const LARGE: &str = "queues are made large, and who fills one waits";
    for (hsa, setting, source, limit) in [
        (
            "1.18.70101",
            "auto",
            "HIP",
            "HIP reports operations in lumps, a moment after they are over",
        ),
        ("1.18.70101", "hsa", "HSA", PACKETS),
        ("1.18.0", "hsa", "HSA", PACKETS),
        ("1.18.70000", "hsa", "HSA", ""),
        ("1.15.60403", "hsa", "HSA", ""),
        ("1.8.50500", "hsa", "HSA", LARGE),
        ("1.18.70101", "off", "none", ""),
    ] {
        let tree = Tree::new()?;
        let hsa = format!("usr/lib/libhsa-runtime64.so.{hsa}");
        tree.link(&hsa, &[], &[])?;
        tree.link(
            "usr/lib/libamdhip64.so.6.4.1",
            &[],
            &["usr/lib/libhsa-runtime64.so.1"],
        )?;
        tree.link("app", &[], &["usr/lib/libamdhip64.so.6"])?;
        let said = run_plain(
            tree.avail(&["--for", "/app"])?
                .env("RSYS_GPU_SOURCE", setting),
        )?;
        let sources = rows(&said, "sources")?;
        let found = &sources.get("kernels and copies").context("a row")?;
        let limits: Vec<&str> = (!limit.is_empty()).then_some(limit).into_iter().collect();
        ensure!(
            found["source"] == source && found["limits"] == serde_json::json!(limits),
            "{hsa} {setting}: {found:#}"
        );
    }
    Ok(())
}

/// What is no program costs a line.
#[test]
fn what_is_no_program_is_said() -> TestResult {
    let tree = Tree::new()?;
    fs::write(tree.path("half"), b"\x7fELF\x02\x01\x01")?;
    let mut damaged = fs::read("/bin/sh")?;
    // The program headers lie far behind the end.
    damaged.get_mut(32..40).context("a header")?.fill(0x7f);
    fs::write(tree.path("damaged"), damaged)?;
    fs::write(tree.path("loop"), "#!/loop\n")?;
    for (program, why) in [
        ("/none", "no such file"),
        ("none", "no such program in PATH"),
        ("/half", "not for x86-64"),
        ("/damaged", "a damaged ELF file"),
        ("/loop", "neither a program nor a library"),
        ("/", "not a file"),
    ] {
        let outcome = run_plain(tree.avail(&["--for", program])?)?;
        outcome.expect_code(2);
        ensure!(
            outcome.stderr.contains(why) && outcome.stderr.lines().count() == 1,
            "{program}: {}",
            outcome.stderr
        );
    }
    Ok(())
}
