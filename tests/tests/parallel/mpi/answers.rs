//! What `rsys-report` says of the collectives of a job of MPI.

use std::fs;

use rsys_tests::{TestResult, answer, skip_if_missing};

use super::{Job, LIBRARIES, RANKS, missing};

const STEPS: u64 = 20;

#[test]
fn the_rank_that_makes_the_others_wait_is_named() -> TestResult {
    skip_if_missing!(missing());
    for library in LIBRARIES {
        let program = library.build("mpi_late")?.display().to_string();
        let job = Job::run(
            library,
            &["-I", "mpip", "--realtime"],
            &[&program, &STEPS.to_string()],
        )?;
        job.assert_success();
        let files: Vec<_> = fs::read_dir(job.folder()?)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "proto"))
            .collect();
        assert_eq!(files.len(), RANKS);
        let answer = answer("collectives", &files)?;
        let world = &answer["communicators"][0];
        // The barrier in front is one more.
        assert_eq!(world["matched"].as_u64(), Some(STEPS + 1), "{answer:#}");
        let late = &answer["stragglers"][0];
        assert_eq!(late["rank"], 1, "{}: {answer:#}", library.name);
    }
    Ok(())
}

#[test]
fn who_is_missing_in_a_job_that_hangs_is_named() -> TestResult {
    skip_if_missing!(missing());
    for library in LIBRARIES {
        let program = library.build("mpi_stuck")?.display().to_string();
        let job = Job::run(library, &["-I", "mpip", "--realtime"], &[&program])?;
        let files: Vec<_> = fs::read_dir(job.folder()?)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "proto"))
            .collect();
        let answer = answer("stuck", &files)?;
        let never_done = answer["never_done"].as_array().cloned().unwrap_or_default();
        for (operation, missing, place, waiting) in [
            (
                "MPI_Allreduce",
                "rank 1, 3",
                "rank 1: wait_for_input (mpi_stuck.c:",
                "rank 0, 2",
            ),
            (
                "MPI_Recv",
                "rank 1",
                "wait_for_input (mpi_stuck.c:",
                "rank 3",
            ),
        ] {
            let row = never_done.iter().find(|row| row["operation"] == operation);
            let is_told = row.is_some_and(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default();
                text("missing") == missing
                    && text("missing_place").starts_with(place)
                    && text("waiting") == waiting
            });
            assert!(is_told, "{}, {operation}: {answer:#}", library.name);
        }
    }
    Ok(())
}
