//! Jobs of a few calls, whose waits are known.

use super::*;
use crate::model::{Batch, Completion, MessageEnd, Model, MpiCall, Process, ThreadId};

/// Ranks of one host, and what they did. Times are in microseconds.
struct Told {
    model: Model,
    batch: Batch,
}

impl Told {
    fn new(ranks: u64) -> Self {
        let mut model = Model::default();
        for rank in 0..ranks {
            model.processes.push(Process {
                pid: 100 + rank as u32,
                rank: Some(rank),
                ..Process::default()
            });
        }
        Self {
            model,
            batch: Batch::default(),
        }
    }

    fn call(&mut self, rank: u64, name: &str, (start, end): (u64, u64)) -> &mut MpiCall {
        let ranks = self.model.processes.len() as u64;
        self.batch.mpi.push(MpiCall {
            start_ns: 1_000 * start,
            end_ns: 1_000 * end,
            process: ProcessId::new(rank as usize),
            thread: ThreadId::new(rank as usize),
            name: self.model.texts.intern(name),
            communicator: self.model.texts.intern("world"),
            rank: Some(rank),
            ranks: Some(ranks),
            ..MpiCall::default()
        });
        self.batch.mpi.last_mut().unwrap()
    }

    fn send(&mut self, rank: u64, to: u64, number: u64, span: (u64, u64)) -> &mut MpiCall {
        let call = self.call(rank, "MPI_Send", span);
        call.sends = Some(message(to, number));
        call
    }

    fn receive(&mut self, rank: u64, from: u64, number: u64, span: (u64, u64)) -> &mut MpiCall {
        let call = self.call(rank, "MPI_Recv", span);
        call.receives = Some(message(from, number));
        call
    }

    fn barrier(&mut self, number: u64, begins: &[u64], end: u64) {
        for (rank, begin) in (0..).zip(begins) {
            let call = self.call(rank, "MPI_Barrier", (*begin, end));
            call.sequence = Some(number);
        }
    }

    fn job(&self) -> Job {
        let mut recorder = Recorder::default();
        recorder.take(&self.batch);
        let calls = recorder.finish(&self.model).into_iter().enumerate();
        let processes = calls.map(|(place, calls)| OfProcess {
            process: ProcessId::new(place),
            host: 0,
            folder: 0,
            calls,
        });
        let common = |_, time_ns: u64| time_ns.cast_signed();
        let mut job = Job::new(processes.collect(), common);
        job.find_waits(common, |_, _| Some(0));
        job
    }
}

fn message(peer: u64, number: u64) -> MessageEnd {
    MessageEnd {
        peer,
        tag: 7,
        number,
    }
}

/// By rank: how long it waited in messages, and was waited for, in microseconds.
fn told(job: &Job) -> Vec<(u64, u64)> {
    let ranks = job.ranks().values();
    ranks
        .map(|rank| (rank.message_wait_ns / 1_000, rank.blame_ns / 1_000))
        .collect()
}

/// Rank 0 is late by 100; rank 1 waits for it, works for 20, and so rank 2 waits for both.
fn chain() -> Told {
    let mut told = Told::new(3);
    told.barrier(0, &[0, 0, 0], 10);
    told.send(0, 1, 0, (150, 151));
    told.receive(1, 0, 0, (50, 152));
    told.send(1, 2, 0, (172, 173));
    told.receive(2, 1, 0, (60, 175));
    told.barrier(1, &[190, 190, 190], 200);
    told
}

#[test]
fn a_wait_is_charged_to_the_work_at_the_end_of_the_chain() {
    let job = chain().job();
    // Of the 112 of rank 2, 90 are work of rank 0, 2 those in which data moved, 20 work of rank 1.
    assert_eq!(told(&job), [(0, 100), (100, 20), (112, 0)]);
}

#[test]
fn a_rank_that_is_faster_saves_what_others_waited_for_it() {
    let told = chain();
    let job = told.job();
    let replay = job.replay();
    assert_eq!(replay.run(None), Some(200_000));
    // Between the barriers rank 0 works for 140 and 39, the others for 77 and 65 in all: it works for 32.5 each time, and sends at 42.5. So rank 1, which receives
    // from 50 on, waits no more, and rank 2 ends its receive at 75. It works for 15.
    let changed = replay.run(Some(&|process| process.index() == 0));
    assert_eq!(changed, Some(75_000 + 15_000 + 10_000));
}

#[test]
fn requests_wait_for_the_other_side_of_their_message() {
    let mut told = Told::new(2);
    told.barrier(0, &[0, 0], 10);
    told.receive(0, 1, 0, (20, 21)).request = 5;
    told.call(0, "MPI_Waitall", (30, 99));
    told.batch.completions.push(Completion {
        time_ns: 98_000,
        request: 5,
        process: ProcessId::new(0),
        thread: ThreadId::new(0),
    });
    told.send(1, 0, 0, (90, 91));
    // A sender that is gone before the receiver comes has not waited.
    told.send(0, 1, 0, (110, 112));
    told.receive(1, 0, 0, (150, 151));
    // One that stays until then has.
    told.send(0, 1, 1, (160, 192));
    told.receive(1, 0, 1, (190, 193));
    let job = told.job();
    assert_eq!(self::told(&job), [(60 + 30, 0), (0, 60 + 30)]);
}

#[test]
fn a_root_waits_for_the_last_and_the_others_for_the_root() {
    let mut told = Told::new(3);
    told.barrier(0, &[0, 0, 0], 10);
    for (name, number, begins, end) in [
        ("MPI_Reduce", 1, [20, 100, 30], 105),
        ("MPI_Bcast", 2, [200, 120, 130], 210),
    ] {
        for (rank, begin) in (0..).zip(begins) {
            let call = told.call(rank, name, (begin, end));
            (call.sequence, call.root) = (Some(number), Some(0));
        }
    }
    let job = told.job();
    let waits: Vec<u64> = job
        .ranks()
        .values()
        .map(|rank| rank.wait_ns / 1_000)
        .collect();
    assert_eq!(waits, [80, 80, 70]);
    // Rank 1 works from 30 on where it was waited for, rank 0 from 120 on.
    let blame: Vec<u64> = job
        .ranks()
        .values()
        .map(|rank| rank.blame_ns / 1_000)
        .collect();
    assert_eq!(blame, [80, 80, 0]);
}

#[test]
fn messages_without_the_other_side_are_not_judged() {
    let mut told = Told::new(2);
    told.barrier(0, &[0, 0], 10);
    told.send(0, 1, 0, (20, 21));
    told.receive(1, 0, 1, (20, 90_000));
    let job = told.job();
    assert_eq!(self::told(&job), [(0, 0), (0, 0)]);
    let notes = notes(&job);
    assert!(
        notes.iter().any(|note| note.contains("MPI_Recv")),
        "{notes:?}"
    );
}
