//! Jobs of MPI that never ran: whether the slow rank is named, why it is slow, and what the job would take without that.

use std::path::PathBuf;

use crate::common::{Scratch, rows};
use rsys_analysis::ranks;
use rsys_analysis::read::BytesRead;
use rsys_analysis::table::Answer;
use rsys_synthetic::mpi::{MpiJob, Outcome, faulty, healthy, simulate, write};

const FAULTY: u64 = 40;
const HEALTHY: u64 = 50;

fn ask(job: &MpiJob, outcome: &Outcome) -> Answer {
    let scratch = Scratch::new();
    let folder = scratch.write("root", b"").with_file_name("job");
    write(job, outcome, &folder).unwrap();
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let files = files.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "proto"))
        .collect();
    files.sort();
    ranks::collectives(&files, &BytesRead::default(), 2).0
}

/// What a job is, in a line.
fn line(number: u64, job: &MpiJob) -> String {
    let fault = job.fault.map_or(String::new(), |fault| {
        let millis = fault.amount_ns as f64 / 1e6;
        format!(
            ", rank {} {:?} {millis:.2} ms {:?}",
            fault.rank, fault.cause, fault.when
        )
    });
    let mut more = String::new();
    for (is, what) in [
        (job.own_communicator, "own communicator"),
        (!job.progresses_alone, "weak progress"),
        (job.blocks, "blocks"),
        (job.has_numbers, "numbers"),
        (job.unnumbered > 0, "some messages without number"),
        (!job.missing.is_empty(), "a rank without trace"),
    ] {
        if is {
            more += ", ";
            more += what;
        }
    }
    format!(
        "{number}: {:?}, {} ranks, {} a host, {} × {:.2} ms, {} bytes{fault}{more}",
        job.pattern,
        job.ranks,
        job.ranks_per_host,
        job.iterations,
        job.compute_ns as f64 / 1e6,
        job.bytes
    )
}

/// What of an answer is right, and what is wrong in words.
#[derive(Default)]
struct Judged {
    rank: bool,
    alone: bool,
    cause: bool,
    predicted: bool,
    words: String,
}

fn judge(job: &MpiJob, outcome: &Outcome, answer: &Answer) -> Judged {
    let mut judged = Judged::default();
    let Some(fault) = job.fault else {
        return judged;
    };
    let stragglers = rows(answer, "stragglers");
    let first = stragglers.first();
    judged.rank = first.is_some_and(|row| row["rank"] == fault.rank);
    judged.alone = judged.rank && stragglers.len() == 1;
    let place = job.place_of_fault().unwrap_or_default();
    judged.cause = judged.rank
        && first.is_some_and(|row| {
            let told = row["place"].as_str().unwrap_or_default();
            row["cause"] == fault.cause.word() && told.contains(&place)
        });
    let without_ns = simulate(&job.without_fault()).span_ns() as f64;
    let span_ns = outcome.span_ns() as f64;
    let what_if = rows(answer, "what_if");
    let number = |key: &str| {
        what_if
            .first()
            .and_then(|row| row[key].as_f64())
            .unwrap_or(f64::NAN)
    };
    let saved = number("saved_ns") / number("collectives_ns");
    let truth = 1.0 - without_ns / span_ns;
    let is_of_rank = what_if.first().is_some_and(|row| row["rank"] == fault.rank);
    judged.predicted = is_of_rank
        && ((number("predicted_ns") / without_ns - 1.0).abs() < 0.05
            || (saved - truth).abs() < 0.05);
    let told: Vec<String> = stragglers
        .iter()
        .map(|row| {
            let (rank, late) = (&row["rank"], &row["late_ns"]);
            let (cause, place) = (&row["cause"], &row["place"]);
            format!("rank {rank} late {late} {cause} {place}")
        })
        .collect();
    judged.words = format!(
        "place {place}; told: {told:?}; took {:.2} ms (told {:.2}), without fault {:.2} ms (told \
         {:.2}), saved {:.1} % (told {:.1} %)",
        span_ns / 1e6,
        number("collectives_ns") / 1e6,
        without_ns / 1e6,
        number("predicted_ns") / 1e6,
        100.0 * truth,
        100.0 * saved
    );
    judged
}

#[test]
fn slow_ranks_of_mpi_are_found_with_cause_place_and_what_they_cost() {
    let [mut ranks, mut alone, mut causes, mut predicted] = [0; 4];
    let mut wrong = Vec::new();
    for number in 0..FAULTY {
        let job = faulty(number);
        let outcome = simulate(&job);
        let judged = judge(&job, &outcome, &ask(&job, &outcome));
        ranks += u64::from(judged.rank);
        alone += u64::from(judged.alone);
        causes += u64::from(judged.cause);
        predicted += u64::from(judged.predicted);
        let parts = [
            (judged.rank, "rank"),
            (judged.alone, "others too"),
            (judged.cause, "cause"),
            (judged.predicted, "what if"),
        ];
        let bad = parts.iter().filter(|(is_right, _)| !is_right);
        let bad: Vec<&str> = bad.map(|(_, what)| *what).collect();
        if !bad.is_empty() {
            let job = line(number, &job);
            wrong.push(format!("{bad:?} {job}; {}", judged.words));
        }
    }
    println!(
        "{FAULTY} faults: {ranks} ranks right ({alone} of them alone), {causes} causes and places, \
         {predicted} predictions\n{}",
        wrong.join("\n")
    );
    assert!(ranks * 100 >= FAULTY * 98, "ranks: {wrong:#?}");
    assert!(causes * 100 >= FAULTY * 90, "causes: {wrong:#?}");
    assert_eq!(predicted, FAULTY, "predictions: {wrong:#?}");
}

#[test]
fn healthy_jobs_of_mpi_have_no_straggler() {
    let mut blamed = Vec::new();
    for number in 0..HEALTHY {
        let job = healthy(number);
        let stragglers = rows(&ask(&job, &simulate(&job)), "stragglers");
        if let Some(first) = stragglers.first() {
            blamed.push(format!("{}: {first}", line(number, &job)));
        }
    }
    println!(
        "{HEALTHY} healthy jobs of MPI: {} with a straggler\n{}",
        blamed.len(),
        blamed.join("\n")
    );
    assert!(blamed.is_empty(), "{blamed:#?}");
}
