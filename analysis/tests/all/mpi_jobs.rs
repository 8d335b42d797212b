//! Jobs of MPI that never ran: whether the slow rank is named, why it is slow, and what the job would take without that.

use std::path::PathBuf;

use crate::common::{Scratch, rows};
use rsys_analysis::ranks;
use rsys_analysis::table::Answer;
use rsys_synthetic::mpi::{Flows, MpiJob, Outcome, faulty, healthy, simulate, write};
use rsys_traces::read::BytesRead;
use serde_json::Value;

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
        (job.flows != Flows::Numbers, "arrows"),
        (job.records_all, "MPI_Init"),
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

/// What the answer tells of stragglers, in words.
fn told(stragglers: &[Value]) -> Vec<String> {
    let words = |row: &Value| {
        let (rank, late) = (&row["rank"], &row["late_ns"]);
        let (cause, place) = (&row["cause"], &row["place"]);
        format!("rank {rank} late {late} {cause} {place} {}", row["words"])
    };
    stragglers.iter().map(words).collect()
}

/// How long a job takes as it is, and without its fault: from the first message or collective, or from `MPI_Init`, whichever the answer means.
fn truth(job: &MpiJob, outcome: &Outcome, told_ns: f64) -> (f64, f64) {
    let without = simulate(&job.without_fault());
    let calls = (outcome.span_ns() as f64, without.span_ns() as f64);
    let all = (outcome.with_init_ns() as f64, without.with_init_ns() as f64);
    let is_with_init = job.records_all && told_ns > (calls.0 + all.0) / 2.0;
    if is_with_init { all } else { calls }
}

/// Compares the first row of `what_if` with the truth: whether it is right, and both in words.
fn judge_what_if(job: &MpiJob, outcome: &Outcome, answer: &Answer) -> (bool, String) {
    let what_if = rows(answer, "what_if");
    let first = what_if.first().cloned().unwrap_or_default();
    let number = |key: &str| first[key].as_f64().unwrap_or(f64::NAN);
    let (told_ns, predicted_ns) = (number("collectives_ns"), number("predicted_ns"));
    let (took_ns, without_ns) = truth(job, outcome, told_ns);
    let saved = number("saved_ns") / told_ns;
    let true_saved = 1.0 - without_ns / took_ns;
    let is_near = (predicted_ns / without_ns - 1.0).abs() < 0.05;
    let is_right = is_near || (saved - true_saved).abs() < 0.05;
    let is_of_rank = job.fault.is_some_and(|fault| first["rank"] == fault.rank);
    let words = format!(
        "took {:.2} ms (told {:.2}), without fault {:.2} ms (told {:.2}), saved {:.1} % (told {:.1} %)",
        took_ns / 1e6,
        told_ns / 1e6,
        without_ns / 1e6,
        predicted_ns / 1e6,
        100.0 * true_saved,
        100.0 * saved
    );
    (is_of_rank && is_right, words)
}

fn judge(job: &MpiJob, outcome: &Outcome, answer: &Answer) -> Judged {
    let Some(fault) = job.fault else {
        return Judged::default();
    };
    let stragglers = rows(answer, "stragglers");
    let first = stragglers.first().cloned().unwrap_or_default();
    let rank = first["rank"] == fault.rank;
    let place = job.place_of_fault().unwrap_or_default();
    let is_there = |told: &str| told.contains(&place);
    let is_place = first["place"].as_str().is_some_and(is_there);
    let (predicted, what_if) = judge_what_if(job, outcome, answer);
    Judged {
        rank,
        alone: rank && stragglers.len() == 1,
        cause: rank && is_place && first["cause"] == fault.cause.word(),
        predicted,
        words: format!("place {place}; told: {:?}; {what_if}", told(&stragglers)),
    }
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
    assert!(ranks * 100 >= FAULTY * 98, "{ranks} ranks");
    assert!(causes * 100 >= FAULTY * 90, "{causes} causes");
    // Where only messages relate hosts, and some have no number or a rank has no trace, it is not known what could have been saved.
    assert!(predicted * 100 >= FAULTY * 90, "{predicted} predictions");
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
    assert!(blamed.is_empty());
}
