//! Programs of other languages: what their bindings call for them is not counted again.

use rsys_tests::{
    TestResult, missing_python_module, missing_tool, python, skip_if_missing, workload,
};

use super::{Job, LIBRARIES, RANKS, assert_lines, assert_messages, calls};

/// Judges what a program says from its second call on; the first ones make it know its rank.
pub fn judge(job: &Job, whose: &str, is_python: bool) -> TestResult {
    job.assert_success();
    for rank in 0..RANKS {
        let mut told = job.said(rank)?;
        assert_eq!(told.pop().as_deref(), Some("errors 1 1"));
        told.push("MPI_Finalize".to_owned());
        let mut found = calls(&job.trace(rank)?)?;
        let is_rank = |place: &usize| found[*place].name == "MPI_Comm_rank";
        let first = (0..found.len()).find(is_rank).map_or(0, |place| place + 1);
        let before: Vec<&str> = found[..first]
            .iter()
            .map(|call| call.name.as_str())
            .collect();
        assert!(
            before.contains(&"MPI_Init") || before.contains(&"MPI_Init_thread"),
            "{before:?}"
        );
        let mut found = found.split_off(first);
        if is_python {
            // mpi4py is a part of the program, and asks who it is before it reads the arguments of a collective.
            found.retain(|call| told.iter().any(|line| line.starts_with(&call.name)));
        }
        assert_lines(&found, &told, &format!("{whose}, rank {rank}"));
    }
    Ok(())
}

#[test]
fn fortran_is_counted_once() -> TestResult {
    for library in LIBRARIES {
        let compiler = format!("mpif90.{}", library.name);
        skip_if_missing!(
            missing_tool("gfortran"),
            missing_tool(&compiler),
            missing_tool(library.launcher[0])
        );
        for module in ["", "-DF08"] {
            let flags = ["-O2", "-g", "-cpp", module]
                .into_iter()
                .filter(|flag| !flag.is_empty());
            let program = workload("mpi_fortran")
                .compiler(&compiler)
                .flags(flags)
                .build()?;
            let job = Job::run(library, &["-I", "mpip"], &[&program.display().to_string()])?;
            judge(&job, &format!("{compiler} {module}"), false)?;
        }
    }
    Ok(())
}

#[test]
fn python_is_counted_once() -> TestResult {
    skip_if_missing!(
        missing_python_module("mpi4py"),
        missing_tool("mpirun.openmpi")
    );
    let words: Vec<String> = python("mpi_python.py")
        .words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let job = Job::run(LIBRARIES[0], &["-I", "mpip"], &words)?;
    judge(&job, "mpi4py", true)?;
    assert_messages(&job)
}
