//! What the tests need from the system: compilers, Python with its libraries, a browser.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::steps::{has_program, say, step, succeeds};

/// How to see whether something is there.
enum Probe {
    Program(&'static str),
    /// A program of the administrator.
    Daemon(&'static str),
    /// A module of the system's Python.
    SystemPython(&'static str),
    /// A module of whatever `python3` is.
    AnyPython(&'static str),
    /// The shared library of the system's Python.
    PythonLibrary,
    /// A file.
    File(&'static str),
    /// A library by the name that programs load it by.
    Library(&'static str),
    /// What gcc must be able to make a program with.
    Compiles(&'static str),
}

/// Probes, and the Debian packages that make them succeed. `MINOR` is that of the system's Python: 11 for 3.11.
const NEEDS: &[(Probe, &str)] = &[
    (Probe::Program("gcc"), "gcc"),
    (Probe::Program("g++"), "g++"),
    (Probe::Program("gfortran"), "gfortran"),
    (Probe::Program("gdb"), "gdb"),
    (Probe::Program("valgrind"), "valgrind"),
    (Probe::Program("clang"), "clang"),
    (Probe::Library("libomp.so.5"), "libomp-dev"),
    (
        Probe::Library("libtrilinos_kokkoscore.so"),
        "libtrilinos-kokkos-dev",
    ),
    (Probe::Program("musl-gcc"), "musl-tools"),
    (Probe::Compiles("-m32"), "gcc-multilib"),
    (Probe::Program("perl"), "perl"),
    (Probe::Program("objdump"), "binutils"),
    (Probe::Program("xz"), "xz-utils"),
    (Probe::Program("fish"), "fish"),
    (Probe::Program("zsh"), "zsh"),
    (Probe::Program("stress-ng"), "stress-ng"),
    (Probe::Program("node"), "nodejs"),
    (Probe::Program("npm"), "npm"),
    (
        Probe::Program("chromium-headless-shell"),
        "chromium-headless-shell",
    ),
    (Probe::SystemPython("sys"), "python3"),
    (Probe::AnyPython("pip"), "python3-pip"),
    (Probe::SystemPython("ensurepip"), "python3-venv"),
    (Probe::PythonLibrary, "libpython3-dev"),
    (
        Probe::SystemPython("test.test_signal"),
        "libpython3.MINOR-testsuite",
    ),
    (Probe::SystemPython("numpy"), "python3-numpy"),
    (Probe::SystemPython("torch"), "python3-torch"),
    (Probe::Program("mpirun.openmpi"), "openmpi-bin"),
    (Probe::Program("mpirun.mpich"), "mpich"),
    (Probe::Program("mpicc.openmpi"), "libopenmpi-dev"),
    (Probe::Program("mpicc.mpich"), "libmpich-dev"),
    (Probe::File("/usr/include/ucp/api/ucp.h"), "libucx-dev"),
    (Probe::SystemPython("mpi4py"), "python3-mpi4py"),
    (Probe::Program("srun"), "slurm-client"),
    (Probe::Daemon("slurmctld"), "slurmctld"),
    (Probe::Daemon("slurmd"), "slurmd"),
    (Probe::Daemon("munged"), "munge"),
    (Probe::Library("libpfm.so.4"), "libpfm4"),
    (
        Probe::File("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
        "libjemalloc2",
    ),
    (Probe::Program("javac"), "default-jdk-headless"),
    (Probe::Program("pg_ctlcluster"), "postgresql"),
    (Probe::Program("go"), "golang-go"),
    (Probe::Program("sbcl"), "sbcl"),
    (Probe::Program("erlc"), "erlang-base"),
];

impl Probe {
    fn succeeds(&self) -> bool {
        let has_module = |python: &str, module: &str| {
            let question = format!(
                "import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
            );
            succeeds(python, &["-c", &question])
        };
        match self {
            Self::Program(name) => has_program(name),
            Self::Daemon(name) => Path::new("/usr/sbin").join(name).is_file(),
            Self::File(path) => Path::new(path).is_file(),
            Self::SystemPython(module) => has_module("/usr/bin/python3", module),
            Self::AnyPython(module) => has_module("python3", module),
            Self::Library(name) => succeeds(
                "/usr/bin/python3",
                &["-c", &format!("import ctypes; ctypes.CDLL('{name}')")],
            ),
            Self::Compiles(option) => {
                let line = format!(
                    "echo 'int main(void) {{ return 0; }}' | gcc {option} -x c -o /dev/null -"
                );
                succeeds("sh", &["-c", &line])
            }
            Self::PythonLibrary => succeeds(
                "/usr/bin/python3",
                &[
                    "-c",
                    "import ctypes, sysconfig as s; ctypes.CDLL(s.get_config_var('INSTSONAME'))",
                ],
            ),
        }
    }
}

/// What the quick set of tests needs of [`NEEDS`], by package. The others are several times as much to download.
const FEW: [&str; 10] = [
    "gcc",
    "g++",
    "binutils",
    "xz-utils",
    "nodejs",
    "npm",
    "chromium-headless-shell",
    "python3",
    "python3-pip",
    "libpfm4",
];

/// Installs what is missing, or of it what the quick set of tests needs, where we may; else says what is missing. Tests that need it skip themselves
/// then.
pub fn install_missing(is_small: bool) -> Result<()> {
    let missing: Vec<String> = NEEDS
        .iter()
        .filter(|(_, package)| !is_small || FEW.contains(package))
        .filter(|(probe, _)| !probe.succeeds())
        .map(|(_, package)| package.replace("MINOR", &python_minor()))
        .collect();
    if missing.is_empty() {
        say("everything that the tests need is installed");
        return Ok(());
    }
    let by_hand = format!(
        "apt-get install --no-install-recommends {}",
        missing.join(" ")
    );
    if !has_program("apt-get") || !is_root() {
        say(&format!(
            "missing: {}. Some tests will be skipped; to run them all, as root: {by_hand}",
            missing.join(", ")
        ));
        return Ok(());
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command
    };
    let installed = step(apt().arg("update")).and_then(|()| {
        step(
            apt()
                .args(["install", "-y", "--no-install-recommends"])
                .args(&missing),
        )
    });
    if let Err(error) = installed {
        say(&format!(
            "{error:#}: some tests will be skipped. By hand: {by_hand}"
        ));
    }
    Ok(())
}

/// The second number of the version of the system's Python.
fn python_minor() -> String {
    let output = Command::new("/usr/bin/python3")
        .args(["-c", "import sys; print(sys.version_info[1])"])
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
