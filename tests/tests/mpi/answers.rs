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
