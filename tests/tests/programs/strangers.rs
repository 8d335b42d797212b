//! Programs below the profiled command into which the agent cannot be loaded: they behave as bare, and the closing lines say why
//! they were not sampled.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, missing_tool, script, skip_if_missing,
    target_dir, workload,
};

/// Ways to start a program that the agent sees.
const SEEN: &[&str] = &[
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execl8",
    "execlp",
    "execle",
    "execle8",
    "fexecve",
    "execveat",
    "execveat-empty",
    "vfork",
    "number",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
];

/// A kind of program, and what the closing lines say of it.
struct Stranger {
    program: PathBuf,
    cause: &'static str,
}

fn musl() -> anyhow::Result<Stranger> {
    Ok(Stranger {
        program: workload("stranger").compiler("musl-gcc").build()?,
        cause: "uses the musl C library",
    })
}

fn bits32() -> anyhow::Result<Stranger> {
    Ok(Stranger {
        program: workload("stranger").flags(["-O2", "-m32"]).build()?,
        cause: "is a 32-bit program",
    })
}

fn linked_statically() -> anyhow::Result<Stranger> {
    let flags = ["-O2", "-static", "-DNO_LOADER"];
    Ok(Stranger {
        program: workload("stranger").flags(flags).build()?,
        cause: "is statically linked",
    })
}

/// Says so when there is no compiler for 32-bit programs.
fn missing_bits32() -> Option<String> {
    let made = workload("stranger").flags(["-O2", "-m32"]).build();
    made.err()
        .map(|error| format!("no 32-bit program can be made: {error:#}"))
}

/// Runs a command bare and profiled. Output and exit code are the same; the profiler's own lines are returned.
fn compare(command: impl Fn() -> Invocation) -> anyhow::Result<(Outcome, Vec<String>)> {
    let bare = Run::bare().command(command()).run()?;
    let profiled = Run::new().command(command()).run()?;
    let (ours, others): (Vec<&str>, Vec<&str>) = profiled
        .stderr
        .lines()
        .partition(|line| line.starts_with("rsys: "));
    let theirs: Vec<&str> = bare.stderr.lines().collect();
    assert_eq!(profiled.stdout, bare.stdout, "{}", profiled.story());
    assert_eq!(others, theirs, "{}", profiled.story());
    assert_eq!(profiled.status, bare.status, "{}", profiled.story());
    let ours = ours.into_iter().map(str::to_owned).collect();
    Ok((profiled, ours))
}

/// Whether one line names the program and the cause.
fn names(lines: &[String], program: &Path, cause: &str) -> bool {
    let sentence = format!("{} {cause}", program.display());
    lines.iter().any(|line| line.contains(&sentence))
}

/// The program is started in each way; `environment` has it print the profiler's variables.
fn started_in_every_way(stranger: &Stranger, word: &str) -> TestResult {
    for way in SEEN {
        let command = || -> Invocation {
            workload("launches")
                .args([
                    OsStr::new(way),
                    stranger.program.as_os_str(),
                    OsStr::new(word),
                ])
                .into()
        };
        let (profiled, lines) = compare(command)?;
        assert!(
            profiled.stdout.contains("ended=3\n"),
            "{way}: {}",
            profiled.story()
        );
        let is_named = names(&lines, &stranger.program, stranger.cause);
        assert!(is_named, "{way}: {}", profiled.story());
    }
    Ok(())
}

#[test]
fn a_musl_child_behaves_as_bare() -> TestResult {
    skip_if_missing!(missing_tool("musl-gcc"));
    started_in_every_way(&musl()?, "environment")
}

#[test]
fn a_32_bit_child_behaves_as_bare() -> TestResult {
    skip_if_missing!(missing_bits32());
    started_in_every_way(&bits32()?, "environment")
}

#[test]
fn a_static_child_behaves_as_bare() -> TestResult {
    started_in_every_way(&linked_statically()?, "nothing")
}

/// No hook sees the instruction: musl's loader loads the agent, which passes everything on.
#[test]
fn the_agent_is_harmless_in_a_musl_program() -> TestResult {
    skip_if_missing!(missing_tool("musl-gcc"));
    let program = musl()?.program;
    for launcher in [
        workload("launches"),
        // No agent is in this one: its children have the whole environment.
        workload("launches").flags(["-O2", "-static"]),
    ] {
        let (profiled, _) = compare(|| {
            let words = [
                OsStr::new("raw"),
                program.as_os_str(),
                OsStr::new("nothing"),
            ];
            launcher.clone().args(words).into()
        })?;
        assert!(
            profiled.stdout.contains("ended=3\n"),
            "{}",
            profiled.story()
        );
    }
    Ok(())
}

#[test]
fn shells_and_interpreters_start_a_musl_program() -> TestResult {
    skip_if_missing!(
        missing_tool("musl-gcc"),
        missing_tool("perl"),
        missing_tool("bash")
    );
    let musl = musl()?;
    let path = musl.program.display();
    let python = |body: &str| {
        let body = format!("import os, subprocess\n{body}");
        Invocation::new("/usr/bin/python3").args(["-c", &body])
    };
    let commands = [
        script(&format!("{path} environment; exit $?")),
        script(&format!("{path} a | cat; {path} b & wait $!")),
        Invocation::new("bash")
            .args(["-c", &format!("{path} environment; echo $?; exec {path} c")]),
        Invocation::new("env").args([&path.to_string(), "environment"]),
        Invocation::new("perl").args([
            "-e",
            &format!("system('{path}', 'environment'); exec '{path}'"),
        ]),
        python(&format!(
            "os._exit(subprocess.run(['{path}', 'environment']).returncode)"
        )),
        python(&format!(
            "os._exit(subprocess.run('{path}', shell=True).returncode)"
        )),
        python(&format!(
            "pid = os.posix_spawn('{path}', ['m', 'environment'], os.environ); os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
        )),
        python(&format!(
            "os.execve(os.open('{path}', os.O_RDONLY), ['m', 'environment'], os.environ)"
        )),
    ];
    for command in commands {
        let (profiled, lines) = compare(|| command.clone())?;
        let is_named = lines.iter().any(|line| line.contains(musl.cause));
        assert!(is_named, "{}", profiled.story());
    }
    Ok(())
}

#[test]
fn scripts_are_judged_by_their_interpreters() -> TestResult {
    skip_if_missing!(missing_tool("musl-gcc"));
    let scratch = Scratch::new("scripts")?;
    let musl = musl()?;
    let direct = scratch.path().join("direct");
    let nested = scratch.path().join("nested");
    write_script(
        &direct,
        &format!("#!{} environment\n", musl.program.display()),
    )?;
    write_script(&nested, &format!("#! {}\n", direct.display()))?;
    for path in [direct, nested] {
        let (profiled, lines) = compare(|| script(&format!("{}; exit $?", path.display())))?;
        assert!(names(&lines, &path, musl.cause), "{}", profiled.story());
        assert_eq!(profiled.status.code(), Some(3), "{}", profiled.story());
    }
    Ok(())
}

fn write_script(path: &Path, text: &str) -> TestResult {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// What the user preloads stays, and nothing limits the size of the environment.
#[test]
fn the_rest_of_the_environment_is_passed_on() -> TestResult {
    skip_if_missing!(missing_tool("musl-gcc"));
    let musl = musl()?;
    // Thousands of variables, and long ones.
    let fill = "for i in $(seq 3000); do export variable_$i=$i; done; \
                export long=$(head -c 100000 /dev/zero | tr '\\0' x)";
    for preload in [
        "",
        "LD_PRELOAD=$LD_PRELOAD:/nowhere/a.so",
        "LD_PRELOAD=/nowhere/a.so:$LD_PRELOAD",
    ] {
        // A shell that sets the variable itself would complain of what is not there.
        let line = format!(
            "{fill}; {preload} exec {} environment",
            musl.program.display()
        );
        let profiled = Run::new()
            .command(Invocation::new("bash").args(["-c", &line]))
            .run()?;
        let expected = if preload.is_empty() {
            ""
        } else {
            "LD_PRELOAD=/nowhere/a.so\n"
        };
        let shown = format!("arguments=1 environment\n{expected}threads=");
        assert!(profiled.stdout.starts_with(&shown), "{}", profiled.story());
        assert_eq!(profiled.status.code(), Some(3), "{}", profiled.story());
    }
    let way = |way: &str| {
        let launcher = workload("launches").build()?;
        let line = format!(
            "{fill}; exec {} {way} {} environment",
            launcher.display(),
            musl.program.display()
        );
        let (profiled, _) = compare(|| Invocation::new("bash").args(["-c", &line]))?;
        assert!(
            profiled.stdout.contains("ended=3\n"),
            "{}",
            profiled.story()
        );
        anyhow::Ok(())
    };
    ["vfork", "execle8", "posix_spawn", "number"]
        .into_iter()
        .try_for_each(way)
}

#[test]
fn an_emptied_environment_is_named() -> TestResult {
    let rate = workload("rate").args(["--seconds", "0.2"]);
    let program = rate.build()?;
    let (profiled, lines) = {
        let profiled = Run::new()
            .command(Invocation::new("env").arg("-i").program(rate.into()))
            .run()?;
        let lines: Vec<String> = profiled.stderr.lines().map(str::to_owned).collect();
        (profiled, lines)
    };
    assert!(profiled.expect_success().number("cpu")? > 0.1);
    let cause = "was started with an emptied environment";
    assert!(names(&lines, &program, cause), "{}", profiled.story());
    let last = lines.last().map_or("", String::as_str);
    let is_explained = last.starts_with("rsys: no samples: ")
        && last.ends_with(" in programs that cannot be sampled: see the warnings above");
    assert!(is_explained, "{}", profiled.story());
    Ok(())
}

#[test]
fn a_preload_that_was_replaced_is_named() -> TestResult {
    let rate = workload("rate").args(["--seconds", "0.2"]);
    let program = rate.build()?;
    let profiled = Run::new()
        .command(
            Invocation::new("env")
                .args(["-u", "LD_PRELOAD"])
                .program(rate.into()),
        )
        .run()?;
    assert!(profiled.expect_success().number("cpu")? > 0.1);
    let sentence = format!("{} was started with another LD_PRELOAD", program.display());
    assert!(profiled.stderr.contains(&sentence), "{}", profiled.story());
    Ok(())
}

const UNREADABLE: &str = "runs as a user or in a sandbox that may not read librsys_agent.so";

/// The loader would complain of a library that it may not read.
#[test]
fn a_user_who_cannot_read_the_agent_behaves_as_bare() -> TestResult {
    use std::os::unix::fs::PermissionsExt;
    skip_if_missing!(
        missing_tool("setpriv"),
        (!rsys_tests::is_root()).then(|| "only root can become another user".to_owned()),
    );
    let scratch = Scratch::new("private")?;
    let agent = scratch.path().join("librsys_agent.so");
    std::fs::copy(target_dir().join("release/librsys_agent.so"), &agent)?;
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o700))?;
    let program = Path::new("/bin/sh");
    let command = || {
        let words = [
            "--reuid=65534",
            "--clear-groups",
            "/bin/sh",
            "-c",
            "env | grep -c LD_PRELOAD",
        ];
        Invocation::new("setpriv")
            .args(words)
            .env("RSYS_AGENT_LIBRARY", &agent)
    };
    let (profiled, lines) = compare(command)?;
    assert_eq!(profiled.stdout, "0\n", "{}", profiled.story());
    assert!(names(&lines, program, UNREADABLE), "{}", profiled.story());
    Ok(())
}

/// Landlock says of no file in advance that it cannot be opened.
#[test]
fn a_sandbox_that_hides_the_agent_behaves_as_bare() -> TestResult {
    let sandbox = || workload("landlock");
    let bare = Run::bare().command(sandbox().args(["true"])).run()?;
    skip_if_missing!((!bare.status.success()).then(|| "no Landlock here".to_owned()));
    let scratch = Scratch::new("hidden")?;
    let agent = scratch.path().join("librsys_agent.so");
    std::fs::copy(target_dir().join("release/librsys_agent.so"), &agent)?;
    let command = || {
        Invocation::from(sandbox().args(["/bin/sh", "-c", "env | grep -c LD_PRELOAD"]))
            .env("RSYS_AGENT_LIBRARY", &agent)
    };
    let (profiled, lines) = compare(command)?;
    assert_eq!(profiled.stdout, "0\n", "{}", profiled.story());
    assert!(
        names(&lines, Path::new("/bin/sh"), UNREADABLE),
        "{}",
        profiled.story()
    );
    Ok(())
}

/// The kernel says what is wrong with a call, not a fault of ours.
#[test]
fn invalid_calls_fail_as_bare() -> TestResult {
    skip_if_missing!(missing_tool("musl-gcc"));
    let workload = || workload("invalid_exec");
    for program in [musl()?.program, "/bin/true".into()] {
        let (profiled, _) = compare(|| workload().args([&program]).into())?;
        assert!(
            profiled.stdout.contains("variable=-1,Bad address"),
            "{}",
            profiled.story()
        );
    }
    Ok(())
}

#[test]
fn what_is_not_executed_is_not_named() -> TestResult {
    skip_if_missing!(missing_tool("musl-gcc"));
    use std::os::unix::fs::PermissionsExt;
    let musl = musl()?;
    let scratch = Scratch::new("not-executable")?;
    let copy = scratch.path().join("stranger");
    std::fs::copy(&musl.program, &copy)?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644))?;
    for way in ["execve", "execvp", "execl"] {
        let command = || {
            workload("launches")
                .args([OsStr::new(way), copy.as_os_str()])
                .into()
        };
        let (profiled, lines) = compare(command)?;
        assert!(
            profiled.stdout.contains("ended=126\n"),
            "{}",
            profiled.story()
        );
        assert!(!names(&lines, &copy, musl.cause), "{}", profiled.story());
    }
    Ok(())
}

/// What keeps one program out does not keep out those beside it, nor those that a static one starts.
#[test]
fn programs_beside_and_below_are_sampled() -> TestResult {
    let launcher = workload("launches").flags(["-O2", "-static"]).build()?;
    let rate = workload("rate").build()?;
    let line = format!(
        "{0} execv {1} --seconds 0.3; {1} --seconds 0.3",
        launcher.display(),
        rate.display()
    );
    let profiled = Run::new().command(script(&line)).run()?;
    let summaries = profiled.expect_success().summaries.iter();
    let sampled = summaries.filter(|summary| summary.name == "rate");
    assert_eq!(sampled.count(), 2, "{}", profiled.story());
    assert!(
        profiled.stderr.contains("is statically linked"),
        "{}",
        profiled.story()
    );
    Ok(())
}

#[test]
fn a_program_that_its_loader_runs_is_sampled() -> TestResult {
    let rate = workload("rate").build()?;
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    skip_if_missing!((!loader.exists()).then(|| format!("there is no {}", loader.display())));
    let line = format!("{} {} --seconds 0.3", loader.display(), rate.display());
    let profiled = Run::new().command(script(&format!("{line}; true"))).run()?;
    let sampled = profiled.expect_success().summaries.iter();
    assert!(
        sampled.map(|summary| summary.samples).sum::<u64>() > 20,
        "{}",
        profiled.story()
    );
    assert!(!profiled.stderr.contains("warning"), "{}", profiled.story());
    Ok(())
}

/// A program below a process that has another root folder.
#[test]
fn a_program_in_another_root_behaves_as_bare() -> TestResult {
    skip_if_missing!(missing_tool("chroot").or_else(cannot_chroot));
    let scratch = Scratch::new("root")?;
    let root = scratch.path();
    // The C library of this machine; the agent's file is not there.
    let program = workload("stranger").build()?;
    copy_with_libraries(&program, root)?;
    let (profiled, lines) = compare(|| {
        Invocation::new("chroot")
            .arg(root)
            .args(["/stranger", "environment"])
    })?;
    assert_eq!(profiled.status.code(), Some(3), "{}", profiled.story());
    let cause = "runs in a root folder of its own";
    assert!(
        names(&lines, Path::new("/stranger"), cause),
        "{}",
        profiled.story()
    );
    Ok(())
}

fn cannot_chroot() -> Option<String> {
    let tried = Command::new("chroot").args(["/", "true"]).output();
    let works = tried.is_ok_and(|tried| tried.status.success());
    (!works).then(|| "only root can give a program another root folder".to_owned())
}

/// Copies a program to the top of a folder, and the libraries that it needs, and a shell.
fn copy_with_libraries(program: &Path, root: &Path) -> TestResult {
    for file in [program, Path::new("/bin/sh")] {
        let listed = Command::new("ldd").arg(file).output()?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let libraries = listed
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        for library in libraries {
            let copy = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(copy.parent().unwrap_or(root))?;
            std::fs::copy(library, copy)?;
        }
    }
    std::fs::create_dir_all(root.join("bin"))?;
    std::fs::copy("/bin/sh", root.join("bin/sh"))?;
    std::fs::copy(program, root.join("stranger"))?;
    Ok(())
}
