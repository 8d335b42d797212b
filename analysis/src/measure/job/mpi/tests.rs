//! Jobs of a few calls, whose waits are known.

use super::*;
use rsys_traces::model::{Batch, Completion, Joint, MessageEnd, Model, MpiCall, Process, ThreadId};

/// Ranks of one host, and what they did. Times are in microseconds.
struct Records {
    model: Model,
    batch: Batch,
}

impl Records {
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

    /// A collective without a number, which all ranks end at once unless `ends` say otherwise.
    fn joint(&mut self, name: &str, begins: &[u64], ends: &[u64]) {
        for ((rank, begin), end) in (0..).zip(begins).zip(ends) {
            let call = self.call(rank, name, (*begin, *end));
            call.joint = Joint::of(name);
            if matches!(call.joint, Some(Joint::Window | Joint::File)) {
                call.communicator = rsys_traces::model::TextId::EMPTY;
                (call.rank, call.ranks) = (None, None);
            }
        }
    }

    /// A collective that is begun at one time and waited for from another one on.
    fn begun(&mut self, number: u64, calls: &[(u64, u64, u64)]) {
        for (rank, &(begins, waits, end)) in (0..).zip(calls) {
            let call = self.call(rank, "MPI_Iallreduce", (begins, begins + 1));
            (call.sequence, call.request) = (Some(number), 1_000 + number);
            self.call(rank, "MPI_Wait", (waits, end)).request = 1_000 + number;
        }
    }

    fn job(&self) -> Job {
        let mut recorder = Recorder::default();
        recorder.take(&self.batch);
        let calls = recorder.finish(&self.model).into_iter().enumerate();
        let processes = calls.map(|(place, calls)| PlacedCalls {
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
fn records(job: &Job) -> Vec<(u64, u64)> {
    let ranks = job.ranks().values();
    ranks
        .map(|rank| (rank.message_wait_ns / 1_000, rank.blame_ns / 1_000))
        .collect()
}

/// Rank 0 is late by 100; rank 1 waits for it, works for 20, and so rank 2 waits for both.
fn chain() -> Records {
    let mut records = Records::new(3);
    records.barrier(0, &[0, 0, 0], 10);
    records.send(0, 1, 0, (150, 151));
    records.receive(1, 0, 0, (50, 152));
    records.send(1, 2, 0, (172, 173));
    records.receive(2, 1, 0, (60, 175));
    records.barrier(1, &[190, 190, 190], 200);
    records
}

#[test]
fn a_wait_is_charged_to_the_work_at_the_end_of_the_chain() {
    let job = chain().job();
    // Of the 112 of rank 2, 90 are work of rank 0, 2 those in which data moved, 20 work of rank 1.
    assert_eq!(records(&job), [(0, 100), (100, 20), (112, 0)]);
}

#[test]
fn a_rank_that_is_faster_saves_what_others_waited_for_it() {
    let records = chain();
    let job = records.job();
    let replay = job.replay();
    assert_eq!(replay.run(None), Some(200_000));
    // Between the barriers rank 0 works for 140 and 39, the others for 77 and 65 in all: it works for 32.5 each time, and sends at 42.5. So rank 1, which receives
    // from 50 on, waits no more, and rank 2 ends its receive at 75. It works for 15.
    let changed = replay.run(Some(&|process| process.index() == 0));
    assert_eq!(changed, Some(75_000 + 15_000 + 10_000));
}

#[test]
fn requests_wait_for_the_other_side_of_their_message() {
    let mut records = Records::new(2);
    records.barrier(0, &[0, 0], 10);
    records.receive(0, 1, 0, (20, 21)).request = 5;
    records.call(0, "MPI_Waitall", (30, 99));
    records.batch.completions.push(Completion {
        time_ns: 98_000,
        request: 5,
        process: ProcessId::new(0),
        thread: ThreadId::new(0),
    });
    records.send(1, 0, 0, (90, 91));
    // A sender that is gone before the receiver comes has not waited.
    records.send(0, 1, 0, (110, 112));
    records.receive(1, 0, 0, (150, 151));
    // One that stays until then has.
    records.send(0, 1, 1, (160, 192));
    records.receive(1, 0, 1, (190, 193));
    let job = records.job();
    assert_eq!(self::records(&job), [(60 + 30, 0), (0, 60 + 30)]);
}

#[test]
fn a_root_waits_for_the_last_and_the_others_for_the_root() {
    let mut records = Records::new(3);
    records.barrier(0, &[0, 0, 0], 10);
    for (name, number, begins, end) in [
        ("MPI_Reduce", 1, [20, 100, 30], 105),
        ("MPI_Bcast", 2, [200, 120, 130], 210),
    ] {
        for (rank, begin) in (0..).zip(begins) {
            let call = records.call(rank, name, (begin, end));
            (call.sequence, call.root) = (Some(number), Some(0));
        }
    }
    let job = records.job();
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
    let mut records = Records::new(2);
    records.barrier(0, &[0, 0], 10);
    records.send(0, 1, 0, (20, 21));
    records.receive(1, 0, 1, (20, 90_000));
    let job = records.job();
    assert_eq!(self::records(&job), [(0, 0), (0, 0)]);
    let notes = notes(&job);
    assert!(
        notes.iter().any(|note| note.contains("MPI_Recv")),
        "{notes:?}"
    );
}

/// By rank: how long it waited, was waited for, was late by itself, and how often it was the last.
fn all_waits(job: &Job) -> Vec<[u64; 4]> {
    let ranks = job.ranks().values();
    ranks
        .map(|rank| {
            let [wait, blame, late] =
                [rank.wait_ns, rank.blame_ns, rank.late_ns].map(|ns| ns / 1_000);
            [wait, blame, late, rank.last]
        })
        .collect()
}

#[test]
fn collectives_without_a_number_are_waits_for_the_last() {
    for (makes, name) in [
        ("MPI_Barrier", "MPI_Comm_dup"),
        ("MPI_Win_create", "MPI_Win_fence"),
        ("MPI_File_open", "MPI_File_write_at_all"),
    ] {
        let mut records = Records::new(3);
        records.joint(makes, &[0, 0, 0], &[10, 10, 10]);
        for step in 0..5 {
            let at = 100 * step;
            let begins = [at + 30, at + 90, at + 31];
            records.joint(name, &begins, &[at + 110; 3]);
        }
        let job = records.job();
        // From 110 to 130 and 190 they work, in the first step from 10 on.
        let expected = [[300, 0, 0, 0], [0, 295, 295, 5], [295, 0, 5, 0]];
        let mut found = all_waits(&job);
        found[0][2] = 0;
        assert_eq!(found[0][0], expected[0][0], "{name} {found:?}");
        assert!(found[1][1] >= 295 && found[1][2] >= 290, "{name} {found:?}");
        assert_eq!(found[1][3], 5, "{name} {found:?}");
        // What the rank did longer is saved.
        let replay = job.replay();
        let (was_ns, changed) = (replay.run(None), replay.run(Some(&|id| id.index() == 1)));
        let saved_us = (was_ns.unwrap() - changed.unwrap()) / 1_000;
        assert!((280..=300).contains(&saved_us), "{name} {saved_us}");
        assert_eq!(notes(&job), Vec::<String>::new());
    }
}

#[test]
fn collectives_that_do_not_wait_are_not_judged() {
    let mut records = Records::new(2);
    records.joint("MPI_Comm_dup", &[0, 0], &[10, 10]);
    for step in 0..5 {
        let at = 30_000 * step;
        // The first one ends before the other has begun it.
        let begins = [at + 20, at + 29_000];
        records.joint("MPI_Comm_split", &begins, &[at + 20_000, at + 29_010]);
    }
    let job = records.job();
    assert_eq!(all_waits(&job).iter().map(|one| one[0]).sum::<u64>(), 0);
    let notes = notes(&job);
    assert!(
        notes.iter().any(|note| note.contains("MPI_Comm_split")),
        "{notes:?}"
    );
    assert!(job.ranks().values().all(|rank| rank.unjudged_ns > 0));
}

#[test]
fn collectives_that_return_at_once_are_waits_where_they_are_waited_for() {
    let mut records = Records::new(3);
    records.barrier(0, &[0, 0, 0], 10);
    for step in 0..5 {
        let at = 1_000 * step;
        // All begin at once; the library goes on when the last waits.
        let calls = [at + 400, at + 900, at + 400].map(|waits| (at + 20, waits, at + 905));
        records.begun(step + 1, &calls);
    }
    let found = all_waits(&records.job());
    let waited: Vec<u64> = found.iter().map(|one| one[0]).collect();
    assert_eq!(waited, [2_500, 0, 2_500]);
    assert!(found[1][1] >= 2_490 && found[1][2] >= 2_490, "{found:?}");
}

#[test]
fn what_is_not_known_is_told() {
    let mut records = Records::new(2);
    records.barrier(0, &[0, 0], 10);
    // A request that was made before is started; which message it is, is not known.
    records.call(0, "MPI_Start", (20, 21)).request = 9;
    records.call(0, "MPI_Wait", (22, 30_022)).request = 9;
    // A receive from any rank.
    records.call(0, "MPI_Recv", (40_000, 80_000));
    // One that is asked for again and again.
    for step in 1..=500 {
        records
            .call(1, "MPI_Test", (100 * step, 100 * step + 1))
            .is_test = true;
    }
    records.barrier(1, &[90_000, 90_000], 90_010);
    records.send(0, 1, 0, (90_020, 90_021));
    records.receive(1, 0, 0, (90_020, 90_021));
    let job = records.job();
    let notes = notes(&job);
    for (time, call) in [
        ("30.000 ms", "MPI_Wait"),
        ("40.000 ms", "MPI_Recv"),
        ("49.901 ms", "MPI_Test"),
    ] {
        let is_told = |note: &String| note.starts_with(time) && note.contains(call);
        assert!(notes.iter().any(is_told), "{call} {notes:?}");
    }
    let unjudged: Vec<u64> = job.ranks().values().map(|rank| rank.unjudged_ns).collect();
    assert_eq!(unjudged, [70_000_000, 49_901_000]);
}
