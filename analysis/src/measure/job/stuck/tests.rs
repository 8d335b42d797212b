//! Jobs that hang, and jobs that do not.

mod hung;

use super::never_done::named;
use super::*;
use crate::table::view::rows;
use rsys_traces::model::{
    CollectiveCall, Frame, GpuRecord, HostSlice, LockWait, Process, Sample, StackId, Thread,
    ThreadId,
};

const S: u64 = 1_000_000_000;

/// A job of ranks with a thread each, whose traces end at 20 s.
struct Ranks {
    model: Model,
    batch: Batch,
}

impl Ranks {
    fn new(count: usize) -> Self {
        let mut model = Model::default();
        for rank in 0..count {
            model.processes.push(Process {
                pid: 100 + rank as u32,
                rank: Some(rank as u64),
                boot_id: "b00t".to_owned(),
                end_ns: 20 * S,
                ..Process::default()
            });
            model.threads.push(Thread {
                process: ProcessId::new(rank),
                tid: 100 + rank as u32,
                ..Thread::default()
            });
        }
        let batch = Batch::default();
        Self { model, batch }
    }

    /// A rank calls the operation of a number of a communicator; it has a kernel or is a call that waits.
    fn call(&mut self, rank: usize, name: &str, number: u64, at_ns: u64) -> CollectiveCall {
        let call = CollectiveCall {
            start_ns: at_ns,
            end_ns: at_ns + 10,
            link: number + 1,
            process: ProcessId::new(rank),
            thread: ThreadId::new(rank),
            name: self.model.texts.intern(name),
            communicator: self.model.texts.intern("c0"),
            sequence: Some(number),
            bytes: 4_096,
            rank: Some(rank as u64),
            ranks: Some(self.model.processes.len() as u64),
            ..CollectiveCall::default()
        };
        self.batch.collectives.push(call);
        call
    }

    fn kernel(&mut self, rank: usize, link: u64, start_ns: u64) {
        self.batch.gpu.push(GpuRecord {
            start_ns,
            end_ns: start_ns + 10,
            link,
            process: ProcessId::new(rank),
            activity: Activity::Comm,
            ..GpuRecord::default()
        });
    }

    /// A call with the launch of a kernel in it, which has a link of its own.
    fn launch(&mut self, rank: usize, number: u64, at_ns: u64) -> u64 {
        let call = self.call(rank, "ncclAllReduce", number, at_ns);
        let launch = 1_000 + number;
        for (kind, link, start_ns) in [
            (HostKind::Runtime, launch, at_ns + 1),
            (HostKind::Collective, call.link, at_ns),
        ] {
            self.batch.host.push(HostSlice {
                start_ns,
                end_ns: at_ns + 10,
                link,
                process: call.process,
                thread: call.thread,
                kind,
                ..HostSlice::default()
            });
        }
        launch
    }

    fn done(&mut self, rank: usize, number: u64, at_ns: u64) {
        let launch = self.launch(rank, number, at_ns);
        self.kernel(rank, launch, at_ns + 20);
    }

    fn open(&mut self, call: CollectiveCall) {
        self.batch.host.push(HostSlice {
            start_ns: call.start_ns,
            end_ns: 20 * S,
            process: call.process,
            thread: call.thread,
            kind: HostKind::Collective,
            is_open: true,
            ..HostSlice::default()
        });
    }

    /// A message that a call waits for.
    fn message(&mut self, rank: usize, name: &str, peer: u64, at_ns: u64) {
        let mut call = self.call(rank, name, 0, at_ns);
        self.batch.collectives.pop();
        call.peer = Some(peer);
        self.batch.open_messages.push(call);
    }

    fn waits_in(&mut self, rank: usize, function: &str, at_ns: u64) {
        self.sample(rank, &[function], (at_ns, S), Basis::WaitTime);
    }

    /// A sample of functions, outermost first.
    fn sample(
        &mut self,
        rank: usize,
        functions: &[&str],
        (time_ns, weight): (u64, u64),
        basis: Basis,
    ) {
        let mut stack = StackId::ROOT;
        for function in functions {
            let frame = Frame {
                function: self.model.texts.intern(function),
                mapping: self.model.texts.intern("/app/solver"),
                ..Frame::default()
            };
            let frame = self.model.stacks.frame_id(frame);
            stack = self.model.stacks.child(stack, frame);
        }
        self.batch.samples.push(Sample {
            time_ns,
            weight,
            process: ProcessId::new(rank),
            thread: ThreadId::new(rank),
            stack,
            basis,
        });
    }

    fn answer(&self) -> Answer {
        let mut stuck = Stuck::default();
        stuck.take(&self.batch);
        stuck.answer(&self.model, "")
    }

    /// Rows of operations that were never done: operation, number, missing, where that is, waiting, whether they differ.
    fn never_done(&self) -> Vec<(String, Option<u64>, String, String, String, bool)> {
        let answer = self.answer();
        let rows = rows(Some(&answer), "never_done").into_iter();
        rows.map(|row| {
            let text = |key| row.text(key).to_owned();
            let differs = row.text("differs") == "yes";
            let number = row.known("sequence");
            (
                text("operation"),
                number,
                text("missing"),
                text("missing_place"),
                text("waiting"),
                differs,
            )
        })
        .collect()
    }
}

fn row(
    name: &str,
    number: Option<u64>,
    missing: (&str, &str),
    waiting: &str,
) -> (String, Option<u64>, String, String, String, bool) {
    let text = str::to_owned;
    (
        text(name),
        number,
        text(missing.0),
        text(missing.1),
        text(waiting),
        false,
    )
}

#[test]
fn the_rank_that_has_not_called_is_missing() {
    let mut job = Ranks::new(5);
    for rank in 0..5 {
        job.done(rank, 0, S);
    }
    // Two are submitted, of which the first waits; what came before belongs to no hang.
    for rank in [0, 2, 3, 4] {
        job.waits_in(rank, "before", S);
        job.launch(rank, 1, 10 * S);
        job.launch(rank, 2, 10 * S + 50);
        job.waits_in(rank, "hipDeviceSynchronize", 20 * S - 1);
    }
    job.waits_in(1, "load_batch", 19 * S);
    let at = ("rank 1", "load_batch");
    let expected = row("ncclAllReduce", Some(1), at, "rank 0, 2 to 4");
    assert_eq!(job.never_done(), [expected]);
}

#[test]
fn hosts_may_be_ahead_of_their_gpus() {
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        let launches: Vec<u64> = (0..8)
            .map(|number| job.launch(rank, number, S + number * 100))
            .collect();
        // Kernels begin when all is submitted, and the fourth never ends.
        for launch in &launches[..3] {
            job.kernel(rank, *launch, 2 * S + launch);
        }
        job.waits_in(rank, "hipDeviceSynchronize", 20 * S - 1);
    }
    assert_eq!(
        job.never_done(),
        [row("ncclAllReduce", Some(3), ("", ""), "rank 0, 1")]
    );
}

#[test]
fn records_of_a_part_of_the_run_say_nothing_of_its_end() {
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        job.done(rank, 0, S);
        job.launch(rank, 1, 2 * S);
    }
    assert_eq!(job.never_done(), []);
}

#[test]
fn who_has_done_its_part_does_not_wait() {
    let mut job = Ranks::new(3);
    for rank in 0..3 {
        job.done(rank, 0, S);
    }
    // Rank 0 broadcasts and goes on, rank 1 waits for it to come about, rank 2 never calls.
    job.done(0, 1, 10 * S);
    job.launch(1, 1, 10 * S);
    job.waits_in(1, "hipDeviceSynchronize", 20 * S - 1);
    job.waits_in(2, "load_batch", 20 * S - 1);
    job.done(0, 2, 20 * S - 100);
    let found = job.never_done();
    let expected: Vec<_> = found
        .iter()
        .map(|row| (row.2.as_str(), row.4.as_str()))
        .collect();
    assert_eq!(expected, [("rank 2", "rank 1")]);
}

#[test]
fn ranks_that_call_other_things_are_told() {
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        job.done(rank, 0, S);
    }
    job.call(0, "ncclAllReduce", 1, 10 * S);
    job.call(1, "ncclAllGather", 1, 10 * S);
    for rank in 0..2 {
        job.waits_in(rank, "hipDeviceSynchronize", 20 * S - 1);
    }
    let found = job.never_done();
    assert_eq!((found.len(), found[0].5), (1, true));
    assert_eq!(
        (found[0].2.as_str(), found[0].4.as_str()),
        ("", "rank 0, 1")
    );
}

#[test]
fn a_job_that_works_until_its_end_is_not_stuck() {
    // The last operations were not reported yet when the job was killed.
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        job.done(rank, 0, S);
        job.call(rank, "ncclAllReduce", 1, 20 * S - 500);
    }
    assert_eq!(job.never_done(), []);
    // It does something else for long when all is done.
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        job.done(rank, 0, S);
        job.waits_in(rank, "write_checkpoint", 19 * S);
    }
    assert_eq!(job.never_done(), []);
    // Calls that were captured for a graph, whose operations have the link of its launch.
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        job.done(rank, 0, S);
        job.call(rank, "ncclAllReduce", 1, 2 * S);
        job.kernel(rank, 77, 3 * S);
    }
    assert_eq!(job.never_done(), []);
    // Without operations of GPUs nothing says what was done.
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        job.call(rank, "ncclAllReduce", 0, S);
    }
    assert_eq!(job.never_done(), []);
}

#[test]
fn open_calls_of_mpi_wait() {
    let mut job = Ranks::new(3);
    for rank in [0, 2] {
        let mut call = job.call(rank, "MPI_Barrier", 0, 5 * S);
        job.batch.collectives.pop();
        call.is_blocking = true;
        call.link = call.start_ns | 1 << 63;
        job.batch.collectives.push(call);
        job.open(call);
    }
    // It has come to none of the communicator, so that it is not known to be one of its ranks.
    job.waits_in(1, "read_input", 19 * S);
    assert_eq!(
        job.never_done(),
        [row("MPI_Barrier", Some(0), ("", ""), "rank 0, 2")]
    );
}

#[test]
fn messages_wait_for_the_other_side() {
    let mut job = Ranks::new(2);
    for rank in 0..2 {
        let mut call = job.call(rank, "MPI_Barrier", 0, S);
        job.batch.collectives.pop();
        call.is_blocking = true;
        job.batch.collectives.push(call);
    }
    job.message(0, "MPI_Recv", 1, 5 * S);
    job.waits_in(1, "compute", 19 * S);
    let at = ("rank 1", "compute");
    assert_eq!(job.never_done(), [row("MPI_Recv", None, at, "rank 0")]);
    // It sends: the message is on its way.
    job.message(1, "MPI_Send", 0, 6 * S);
    let found = job.never_done();
    let missing: Vec<&str> = found.iter().map(|row| row.2.as_str()).collect();
    assert_eq!(missing, ["", ""]);
    // Both want to receive.
    let mut job = Ranks::new(2);
    job.message(0, "MPI_Recv", 1, 5 * S);
    job.message(1, "MPI_Recv", 0, 6 * S);
    let found = job.never_done();
    let missing: Vec<&str> = found.iter().map(|row| row.2.as_str()).collect();
    assert_eq!(missing, ["rank 1", "rank 0"]);
}

#[test]
fn the_place_is_that_of_a_rank_that_waits_for_nobody() {
    let mut job = Ranks::new(4);
    for rank in 0..4 {
        job.done(rank, 0, S);
    }
    job.launch(0, 1, 10 * S);
    job.waits_in(0, "hipDeviceSynchronize", 20 * S - 1);
    job.message(1, "MPI_Recv", 2, 9 * S);
    job.waits_in(1, "receive", 19 * S);
    job.waits_in(2, "load_batch", 19 * S);
    job.waits_in(3, "load_batch", 19 * S);
    let found = job.never_done();
    let expected: Vec<_> = found
        .iter()
        .map(|row| (row.2.as_str(), row.3.as_str()))
        .collect();
    assert_eq!(
        expected,
        [
            ("rank 2", "load_batch"),
            ("rank 1 to 3", "rank 2: load_batch")
        ]
    );
}

#[test]
fn ranks_are_named_in_runs() {
    let job = Ranks::new(70);
    let named = |ranks: &[usize]| named(ranks, &job.model);
    assert_eq!(named(&[0]), "rank 0");
    assert_eq!(named(&[3, 1, 2, 7, 8]), "rank 1 to 3, 7, 8");
    let odd: Vec<usize> = (0..70).filter(|rank| rank % 2 == 1).collect();
    assert!(named(&odd).ends_with("31, and 19 more"), "{}", named(&odd));
}

#[test]
fn threads_that_wait_for_each_other_are_all_named() {
    let mut job = Ranks::new(1);
    job.model.threads.push(Thread {
        process: ProcessId::new(0),
        tid: 101,
        ..Thread::default()
    });
    for second in 15..20 {
        job.sample(0, &["main", "join"], (second * S + 1, S), Basis::WaitTime);
        job.sample(
            0,
            &["work", "take_lock"],
            (second * S + 2, S),
            Basis::WaitTime,
        );
        job.batch.samples.last_mut().unwrap().thread = ThreadId::new(1);
    }
    // One that has ended before is in no deadlock.
    job.sample(0, &["early"], (3 * S, S), Basis::WaitTime);
    job.batch.samples.last_mut().unwrap().thread = ThreadId::new(2);
    job.model.threads.push(Thread::default());
    let holder = job.model.texts.intern("grow (pool.py:7)");
    job.batch.lock_waits.push(LockWait {
        start_ns: 15 * S,
        end_ns: 19 * S,
        thread: ThreadId::new(1),
        holder,
        ..LockWait::default()
    });
    let answer = job.answer();
    let found: Vec<_> = rows(Some(&answer), "last_threads")
        .iter()
        .map(|row| {
            let text = |key| row.text(key).to_owned();
            (
                row.count("thread"),
                text("place"),
                text("waited_for"),
                text("holder"),
            )
        })
        .collect();
    let expected = |thread, place: &str, holder: &str| {
        let [place, waited_for] = [place, place].map(str::to_owned);
        (thread, place, waited_for, holder.to_owned())
    };
    assert_eq!(
        found,
        [
            expected(100, "join", ""),
            expected(101, "take_lock", "grow (pool.py:7)")
        ]
    );
}
