//! The libraries of MPI that come as packages of Python, with their own launchers: MPICH 5, also with the standard ABI, OpenMPI 5, and Intel MPI.

use std::path::Path;

use rsys_tests::{TestResult, judge_dir, python, skip_if_missing, workload};

use super::languages::judge as judge_language;
use super::{Job, Library, assert_communicators, assert_messages, judge};

/// Where `cargo xtask test` puts them.
fn program_of(library: &str, name: &str) -> String {
    let place = judge_dir().join("mpi").join(library).join("bin").join(name);
    place.display().to_string()
}

fn missing() -> Option<String> {
    let launchers = ["mpich", "openmpi"].map(|library| program_of(library, "mpirun"));
    missing_files(&launchers)
}

fn missing_files(paths: &[String]) -> Option<String> {
    let missing = paths.iter().find(|path| !Path::new(path).exists());
    missing.map(|path| format!("no {path}"))
}

/// A library with its launcher, for the life of the test.
fn library(name: &'static str) -> Library {
    let launcher: &'static str = Box::leak(program_of(name, "mpirun").into_boxed_str());
    Library {
        name,
        launcher: Box::leak(Box::new([launcher, "-n", "4"])),
    }
}

#[test]
fn packages_of_python_count_exactly() -> TestResult {
    skip_if_missing!(missing());
    for (name, compiler) in [
        ("mpich", "mpicc"),
        ("mpich", "mpicc_abi"),
        ("openmpi", "mpicc"),
    ] {
        let program = workload("mpi_calls")
            .compiler(&program_of(name, compiler))
            .build()?;
        let job = Job::run(
            library(name),
            &["-I", "mpip"],
            &[&program.display().to_string()],
        )?;
        job.assert_success();
        assert_communicators(&judge(&job, &["MPI_Finalize"])?);
    }
    for name in ["mpich", "openmpi"] {
        let script = python("mpi_python.py").words.pop().unwrap_or_default();
        let interpreter = program_of(name, "python");
        let words = [interpreter.as_str(), &script.to_string_lossy()];
        let job = Job::run(library(name), &["-I", "mpip"], &words)?;
        judge_language(&job, name, true)?;
        assert_messages(&job)?;
    }
    Ok(())
}

/// Intel's package has no compiler: its library is one for the headers of MPICH.
#[test]
fn intel_mpi_counts_exactly() -> TestResult {
    const HEADERS: &str = "/usr/include/x86_64-linux-gnu/mpich";
    let launcher = program_of("intel", "mpiexec.hydra");
    skip_if_missing!(
        missing_files(std::slice::from_ref(&launcher)),
        missing_files(&[format!("{HEADERS}/mpi.h")])
    );
    let folder = judge_dir().join("mpi/intel/lib");
    let library = folder.join("libmpi.so.12").display().to_string();
    let flags = [
        "-O2".to_owned(),
        "-g".to_owned(),
        // It stands in front of the program's source.
        "-Wl,--no-as-needed".to_owned(),
        format!("-I{HEADERS}"),
        library,
        format!("-Wl,-rpath,{}", folder.display()),
    ];
    let program = workload("mpi_calls").compiler("gcc").flags(flags).build()?;
    let intel = Library {
        name: "intel",
        launcher: Box::leak(Box::new([&*launcher.leak(), "-n", "4"])),
    };
    let job = Job::run(intel, &["-I", "mpip"], &[&program.display().to_string()])?;
    job.assert_success();
    assert_communicators(&judge(&job, &["MPI_Finalize"])?);
    assert_messages(&job)
}
