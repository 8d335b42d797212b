//! What `rsys-report` says of the collectives of a job of MPI.

use std::fs;
use std::path::PathBuf;

use rsys_tests::{TestResult, answer, skip_if_missing};

use rsys_tests::slurm::told;

use super::{Job, LIBRARIES, RANKS, missing};

/// The guilty rank sleeps so long in each step that what a busy machine takes from the others is less: with processors for two of four ranks that
/// wait by spinning, some 60 ms a step.
const STEPS: u64 = 6;

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
        let told = told(&job.output);
        assert!(told.contains("rsys: rank 1 mpi_late on "), "{told}");
        assert!(told.contains(" was least in MPI: "), "{told}");
        let answer = answer("collectives", &traces(&job)?)?;
        let world = &answer["communicators"][0];
        // The barrier in front is one more.
        assert_eq!(world["matched"].as_u64(), Some(STEPS + 1), "{answer:#}");
        let late = &answer["stragglers"][0];
        let (stragglers, ranks) = (&answer["stragglers"], &answer["ranks"]);
        let what = format!("{}: {stragglers} {ranks}", library.name);
        let cause = (&late["rank"], &late["cause"]);
        let true_cause = (&1.into(), &"host_wait".into());
        assert_eq!(cause, true_cause, "{what}");
        let place = late["place"].as_str().unwrap_or_default();
        assert!(place.starts_with("late_part (mpi_late.c:"), "{what}");
    }
    Ok(())
}

/// The traces of a job.
fn traces(job: &Job) -> anyhow::Result<Vec<PathBuf>> {
    let files = fs::read_dir(job.folder()?)?.flatten();
    let files = files.map(|entry| entry.path());
    let files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "proto"))
        .collect();
    assert_eq!(files.len(), RANKS);
    Ok(files)
}

/// Where ranks wait in messages and for a root, the rank that is behind it is named, also by those that waited for others that waited.
#[test]
fn waits_in_messages_lead_to_the_rank_behind_them() -> TestResult {
    skip_if_missing!(missing());
    for library in LIBRARIES {
        for (program, rank, place, waits) in [
            ("mpi_halo", 2, "relax_slowly (mpi_halo.c:", "MPI_Sendrecv"),
            (
                "mpi_rooted",
                3,
                "wait_for_input (mpi_rooted.c:",
                "MPI_Bcast",
            ),
        ] {
            let path = library.build(program)?.display().to_string();
            let options = ["-I", "mpip", "--realtime"];
            let job = Job::run(library, &options, &[&path, &STEPS.to_string()])?;
            job.assert_success();
            let answer = answer("collectives", &traces(&job)?)?;
            let late = &answer["stragglers"][0];
            let (stragglers, ranks) = (&answer["stragglers"], &answer["ranks"]);
            let what = format!("{}, {program}: {stragglers} {ranks}", library.name);
            assert_eq!(
                (&late["rank"], &late["cause"]),
                (&rank.into(), &"host_wait".into()),
                "{what}"
            );
            let found = late["place"].as_str().unwrap_or_default();
            assert!(found.starts_with(place), "{what}");
            // The rank sleeps for 1.8 s longer than the others; on a busy machine these are late as well.
            let saved_ns = answer["what_if"][0]["saved_ns"].as_u64();
            assert!(saved_ns > Some(100_000_000), "{what}");
            let cause = &answer["mpi_causes"][0];
            assert_eq!(cause["rank"], rank, "{what}");
            assert!(cause["through_ns"].as_u64() > Some(0), "{what}");
            let list = answer["mpi_waits"].as_array().cloned().unwrap_or_default();
            assert!(list.iter().any(|row| row["function"] == waits), "{what}");
        }
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
