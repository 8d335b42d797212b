//! The libraries of MPI that come as packages of Python, with their own compilers and launchers: MPICH 5, also with the standard ABI, and OpenMPI 5.

use rsys_tests::{TestResult, judge_dir, python, skip_if_missing, workload};

use super::languages::judge as judge_language;
use super::{Job, Library, assert_communicators, judge};

/// Where `cargo xtask test` puts them.
fn program_of(library: &str, name: &str) -> String {
    let place = judge_dir().join("mpi").join(library).join("bin").join(name);
    place.display().to_string()
}

fn missing() -> Option<String> {
    let launchers = ["mpich", "openmpi"].map(|library| program_of(library, "mpirun"));
    let missing = launchers
        .iter()
        .find(|path| !std::path::Path::new(path).exists());
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
    }
    Ok(())
}
