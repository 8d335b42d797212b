//! What is built here runs on older C libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::elf::{DT_NEEDED, FileHeader64, SHT_DYNSYM, STB_WEAK};
use object::endian::Endianness;
use object::read::elf::{Dyn, FileHeader, Sym};
use rsys_tests::{
    Invocation, OldSystem, Run, Scratch, TestResult, avail, report, sampler, skip_if_missing,
    target_dir,
};

/// README says so, and docs/install.md.
const FLOOR: [u32; 3] = [2, 17, 0];

/// What the C library of the floor consists of, and the compiler's own library.
const LIBRARIES: [&str; 7] = [
    "libc.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libutil.so.1",
    "libm.so.6",
    "libgcc_s.so.1",
];

/// What a built file demands of the system.
struct Needs {
    libraries: BTreeSet<String>,
    /// Of the C library.
    versions: BTreeSet<String>,
    /// Functions that must be there, in whatever version.
    unversioned: BTreeSet<String>,
}

fn needs(path: &Path) -> anyhow::Result<Needs> {
    let file = fs::read(path)?;
    let file = file.as_slice();
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let symbols = sections.symbols(endian, file, SHT_DYNSYM)?;
    let versions = sections.versions(endian, file)?.unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut needs = Needs {
        libraries: BTreeSet::new(),
        versions: BTreeSet::new(),
        unversioned: BTreeSet::new(),
    };
    if let Some((entries, strings)) = sections.dynamic(endian, file)? {
        let strings = sections.strings(endian, file, strings)?;
        for entry in entries {
            if entry.tag(endian) == DT_NEEDED {
                let name = strings.get(entry.val32(endian).unwrap_or(0));
                needs.libraries.insert(text(name.unwrap_or_default()));
            }
        }
    }
    for (index, symbol) in symbols.enumerate() {
        if !symbol.is_undefined(endian) || index.0 == 0 {
            continue;
        }
        match versions.version(versions.version_index(endian, index).index())? {
            Some(version) => drop(needs.versions.insert(text(version.name()))),
            None if symbol.st_bind() == STB_WEAK => {}
            None => {
                let name = symbol.name(endian, symbols.strings())?;
                needs.unversioned.insert(text(name));
            }
        }
    }
    Ok(needs)
}

/// The numbers in `GLIBC_2.2.5`.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let words = version.strip_prefix("GLIBC_")?.split('.');
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = word.parse().ok()?;
    }
    Some(numbers)
}

#[test]
fn what_is_built_needs_an_old_c_library_only() -> TestResult {
    let agent = target_dir().join("release/librsys_agent.so");
    let [parallel, locks] = ["librsys_agent_parallel.so", "librsys_agent_locks.so"]
        .map(|name| agent.with_file_name(name));
    let agents = [agent, parallel, locks];
    // The last two are the demo's.
    let [simulator, driver] =
        ["rsys-simgpu", "librsys_simgpu.so"].map(|name| target_dir().join("release").join(name));
    let programs = [sampler()?, avail()?, report()?, simulator, driver];
    for path in agents.iter().chain(&programs) {
        let needs = needs(path)?;
        let shown = path.display();
        assert!(!needs.versions.is_empty(), "{shown}: nothing was read");
        let young: Vec<_> = needs
            .versions
            .iter()
            .filter(|version| version.starts_with("GLIBC_"))
            .filter(|version| numbers(version).is_none_or(|version| version > FLOOR))
            .collect();
        assert!(young.is_empty(), "{shown} needs {young:?}");
        assert!(
            needs.unversioned.is_empty(),
            "{shown} needs {:?}",
            needs.unversioned
        );
        let foreign: Vec<_> = needs
            .libraries
            .iter()
            .filter(|library| !LIBRARIES.contains(&library.as_str()))
            .collect();
        assert!(foreign.is_empty(), "{shown} needs {foreign:?}");
        if agents.contains(path) {
            // Whatever it needs, each program of a run would load.
            assert_eq!(needs.libraries, BTreeSet::from(["libc.so.6".to_owned()]));
        }
    }
    Ok(())
}

/// Burns CPU time in a function of this name.
const SCRIPT: &str =
    "def burn(n):\n    return sum(i * i for i in range(n))\nprint(burn(10000000))\n";

#[test]
fn debian_11_runs_everything() -> TestResult {
    let system = OldSystem::Debian11;
    skip_if_missing!(system.missing());
    let run = Run::new().under(system.entered().words).freq(500).command(
        Invocation::new("/bin/bash").args(["-c", "/usr/bin/python3.9 -c \"$0\"; exit 3", SCRIPT]),
    );
    let outcome = run.run()?;
    assert_eq!(outcome.expect_code(3).stdout, "333333283333335000000\n");
    let trace = outcome.trace_of("python3.9")?;
    trace.assert_clean();
    let share = trace.shares()?.total_share("<module> (<string>)");
    assert!(share > 0.5, "{share}\n{}", outcome.story());
    // A program that has neither libpthread nor libdl, where glibc 2.31 has threads and `dlsym`.
    let outcome = Run::new()
        .under(system.entered().words)
        .freq(500)
        .command(Invocation::new("/usr/bin/seq").arg("20000000"))
        .run()?;
    assert!(outcome.expect_success().stdout.ends_with("\n20000000\n"));
    outcome.trace_of("seq")?.assert_clean();
    for (program, words) in [
        (avail()?, vec!["--brief".into()]),
        (
            report()?,
            vec!["check".into(), outcome.output.clone().into_os_string()],
        ),
        (sampler()?, vec!["--version".into()]),
    ] {
        let said = Run::bare()
            .command(system.entered().arg(program).args(words))
            .run()?;
        assert!(!said.expect_success().stdout.is_empty(), "{}", said.story());
    }
    Ok(())
}

/// The agent's file is there, and the C library is older than the one that the profiler runs on.
#[test]
fn a_child_on_an_older_c_library_is_sampled() -> TestResult {
    let system = OldSystem::Debian11;
    skip_if_missing!(system.missing());
    let outcome = Run::new()
        .freq(500)
        .command(system.entered().args(["/usr/bin/python3.9", "-c", SCRIPT]))
        .run()?;
    assert_eq!(outcome.expect_success().stdout, "333333283333335000000\n");
    let trace = outcome.trace_of("python3.9")?;
    assert!(
        trace.shares()?.total_share("<module> (<string>)") > 0.5,
        "{}",
        outcome.story()
    );
    Ok(())
}

/// A container's file tree, in which nothing of ours is.
#[test]
fn a_child_in_an_older_root_behaves_as_bare() -> TestResult {
    let system = OldSystem::Debian11;
    skip_if_missing!(system.missing());
    let scratch = Scratch::new("old-root")?;
    let line = "cat /etc/debian_version && python3.9 -c 'import sys; print(sys.version_info[:2])' && exit 4";
    let command = Invocation::new("chroot")
        .arg(system.folder())
        .args(["/bin/bash", "-c", line]);
    let bare = Run::bare()
        .folder(scratch.path())
        .command(command.clone())
        .run()?;
    let profiled = Run::new().command(command).run()?;
    assert_eq!(profiled.stdout, bare.expect_code(4).stdout);
    assert_eq!(profiled.status, bare.status);
    let theirs: Vec<&str> = profiled
        .stderr
        .lines()
        .filter(|line| !line.starts_with("rsys: "))
        .collect();
    assert_eq!(
        theirs,
        bare.stderr.lines().collect::<Vec<_>>(),
        "{}",
        profiled.story()
    );
    let cause = "/bin/bash runs in a root folder of its own";
    assert!(profiled.stderr.contains(cause), "{}", profiled.story());
    Ok(())
}
