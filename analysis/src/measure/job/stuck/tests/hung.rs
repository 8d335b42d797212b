//! Waits for GPUs that last until the end.

use super::{Ranks, S};
use crate::table::view::rows;
use rsys_traces::model::{
    Activity, Basis, GpuRecord, HostSlice, OpKind, ProcessId, StreamOrder, ThreadId,
};

impl Ranks {
    /// A call of the runtime, which is open where it has no end.
    fn runtime(&mut self, rank: usize, name: &str, start_ns: u64, end_ns: Option<u64>) {
        self.batch.host.push(HostSlice {
            start_ns,
            end_ns: end_ns.unwrap_or(20 * S),
            process: ProcessId::new(rank),
            thread: ThreadId::new(rank),
            name: self.model.texts.intern(name),
            order: StreamOrder::of(name),
            is_open: end_ns.is_none(),
            ..HostSlice::default()
        });
    }

    /// A kernel that was launched by a function, and ended or not.
    fn compute(&mut self, rank: usize, name: &str, start_ns: u64, end_ns: Option<u64>) {
        let Some(end_ns) = end_ns else {
            return self.sample(rank, &["main", "step", name], (start_ns, 0), Basis::GpuTime);
        };
        let name = self.model.texts.intern(name);
        self.batch.gpu.push(GpuRecord {
            start_ns,
            end_ns,
            process: ProcessId::new(rank),
            kind: OpKind::Kernel,
            activity: Activity::Compute,
            name,
            ..GpuRecord::default()
        });
    }

    /// A job whose first rank waits for its GPU from the tenth second on, after a kernel of each of some durations.
    fn waits_for_gpu(durations_ns: &[u64]) -> Self {
        let mut job = Self::new(2);
        for &duration_ns in durations_ns {
            job.compute(0, "gemm", S, Some(S + duration_ns));
        }
        job.runtime(0, "hipStreamSynchronize", 10 * S, None);
        job.sample(0, &["main", "finish"], (10 * S, 10 * S), Basis::CallTime);
        job
    }

    /// Rows of waits that lasted until the end: kernel, where it was launched, how many had not ended, the call, its place, its seconds.
    fn never_ended(&self) -> Vec<[String; 6]> {
        let answer = self.answer();
        let rows = rows(Some(&answer), "never_ended").into_iter();
        let keys = ["kernel", "launch_place"];
        rows.map(|row| {
            let [kernel, launched] = keys.map(|key| row.text(key).to_owned());
            let [call, place] = ["call", "place"].map(|key| row.text(key).to_owned());
            let waited = (row.count("waited_ns") / S).to_string();
            let unended = row.count("unended").to_string();
            [kernel, launched, unended, call, place, waited]
        })
        .collect()
    }
}

#[test]
fn the_first_kernel_that_never_ended_is_waited_for() {
    let mut job = Ranks::waits_for_gpu(&[1_000, 2_000]);
    job.compute(0, "spin", 9 * S, None);
    job.compute(0, "gemm", 9 * S + 100, None);
    let expected = ["spin", "step", "2", "hipStreamSynchronize", "finish", "10"];
    assert_eq!(job.never_ended(), [expected.map(str::to_owned)]);
    // Something else ended meanwhile: what is waited for at the end is waited for since then.
    job.compute(0, "gemm", 14 * S, Some(15 * S));
    assert_eq!(job.never_ended()[0][5], "5");
    // It ended a moment ago: the GPU works.
    job.compute(0, "gemm", 19 * S, Some(20 * S - 1_000));
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
}

#[test]
fn what_takes_as_long_as_ever_has_not_hung() {
    // HIP reports completions when the program synchronizes: until then a whole queue looks unfinished.
    let mut job = Ranks::waits_for_gpu(&[S / 100]);
    for number in 0..400 {
        job.compute(0, "gemm", 9 * S + 100 * number, None);
    }
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
    // One of them does not take ten seconds.
    let mut job = Ranks::waits_for_gpu(&[S / 100]);
    job.compute(0, "gemm", 9 * S, None);
    assert_eq!(job.never_ended().len(), 1);
    // But one that always takes four may.
    let mut job = Ranks::waits_for_gpu(&[4 * S]);
    job.compute(0, "gemm", 9 * S, None);
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
}

#[test]
fn kernels_take_as_long_as_the_longest_of_their_name() {
    // 1 ms as a rule, but 200 ms with another shape: twenty of those take more than ten seconds with the margin.
    let mut durations_ns = vec![S / 1_000; 1_000];
    durations_ns.push(S / 5);
    let mut job = Ranks::waits_for_gpu(&durations_ns);
    for number in 0..20 {
        job.compute(0, "gemm", 9 * S + 100 * number, None);
    }
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
    let mut job = Ranks::waits_for_gpu(&durations_ns[..1_000]);
    for number in 0..20 {
        job.compute(0, "gemm", 9 * S + 100 * number, None);
    }
    assert_eq!(job.never_ended().len(), 1);
}

#[test]
fn the_longest_kernel_of_the_name_is_told_if_one_has_ended() {
    let longest = |name: &str| {
        let mut job = Ranks::waits_for_gpu(&[1_000, 3_000, 2_000]);
        job.compute(0, name, 9 * S, None);
        let answer = job.answer();
        rows(Some(&answer), "never_ended")[0].known("longest_ended_ns")
    };
    assert_eq!(longest("gemm"), Some(3_000));
    assert_eq!(longest("spin"), None);
}

#[test]
fn odd_times_do_no_harm() {
    let mut job = Ranks::waits_for_gpu(&[]);
    for _ in 0..2 {
        job.compute(0, "gemm", 0, Some(u64::MAX));
        job.compute(0, "gemm", u64::MAX - 1, None);
    }
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
}

#[test]
fn kernels_that_were_captured_for_a_graph_were_not_launched() {
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    job.runtime(0, "hipStreamBeginCapture", 5 * S, Some(5 * S + 10));
    job.compute(0, "captured", 6 * S, None);
    job.runtime(0, "hipStreamEndCapture", 7 * S, Some(7 * S + 10));
    job.compute(0, "spin", 9 * S, None);
    assert_eq!(job.never_ended()[0][..3], ["spin", "step", "1"]);
}

#[test]
fn captures_are_of_their_thread_and_stream() {
    // A capture of another thread, and two streams of one thread that take turns.
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    let calls = [
        ("hipStreamBeginCapture", 3, 0, 1),
        ("hipStreamBeginCapture", 4, 1, 2),
        ("hipStreamBeginCapture", 5, 1, 3),
        ("hipStreamEndCapture", 6, 1, 2),
        ("hipStreamEndCapture", 8, 1, 3),
        ("hipStreamEndCapture", 9, 0, 1),
    ];
    for (name, at_s, thread, stream) in calls {
        job.runtime(0, name, at_s * S, Some(at_s * S + 10));
        if let Some(slice) = job.batch.host.last_mut() {
            (slice.thread, slice.stream) = (ThreadId::new(thread), stream);
        }
    }
    for (at_s, thread) in [(7, 1), (8, 0), (9, 1)] {
        job.compute(
            0,
            ["of_1", "of_0", "spin"][at_s as usize - 7],
            at_s * S,
            None,
        );
        if let Some(sample) = job.batch.samples.last_mut() {
            sample.thread = ThreadId::new(thread);
        }
    }
    assert_eq!(job.never_ended()[0][..3], ["spin", "step", "1"]);
}

#[test]
fn a_capture_that_was_never_over_has_failed() {
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    job.runtime(0, "hipStreamBeginCapture", 5 * S, Some(5 * S + 10));
    job.compute(0, "spin", 9 * S, None);
    assert_eq!(job.never_ended()[0][..3], ["spin", "step", "1"]);
    // The next one begins without an end of the first.
    job.runtime(0, "hipStreamBeginCapture", 7 * S, Some(7 * S + 10));
    job.runtime(0, "hipStreamEndCapture", 8 * S, Some(8 * S + 10));
    assert_eq!(job.never_ended()[0][..3], ["spin", "step", "1"]);
}

#[test]
fn only_calls_that_wait_for_gpus_until_the_end_tell_of_a_hang() {
    // The program does not wait for what it launched, or no more.
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    job.compute(0, "spin", 9 * S, None);
    job.batch.host.clear();
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
    job.runtime(0, "hipModuleLoad", 10 * S, None);
    job.runtime(0, "hipDeviceSynchronize", 9 * S, Some(10 * S));
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
    // The threshold is higher where no kernel is known.
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    let expected = ["", "", "0", "hipStreamSynchronize", "finish", "10"];
    assert_eq!(job.never_ended(), [expected.map(str::to_owned)]);
    job.batch.host[0].start_ns = 12 * S;
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
}

#[test]
fn a_rank_that_waits_for_others_does_not_wait_for_its_gpu() {
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    job.done(0, 0, S);
    job.launch(0, 1, 9 * S);
    job.compute(0, "ncclDevKernel", 9 * S, None);
    assert_eq!(job.never_done().len(), 1);
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
}

#[test]
fn a_kernel_between_ranks_waits_for_them_whatever_stands_in_front_of_it() {
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    job.compute(0, "gemm", 9 * S, None);
    for number in 0..100 {
        job.compute(0, "ncclDevKernel_Generic", 9 * S + 100 + number, None);
    }
    // Their ranks were apart for two seconds once; they wait for the same ones now.
    job.compute(0, "ncclDevKernel_Generic", S, Some(3 * S));
    let answer = job.answer();
    let found = rows(Some(&answer), "never_ended");
    let expected = found.iter().map(|row| {
        (
            row.text("kernel"),
            row.text("between_ranks"),
            row.count("unended"),
        )
    });
    assert_eq!(
        expected.collect::<Vec<_>>(),
        [("ncclDevKernel_Generic", "yes", 101)]
    );
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.contains("-I rocm rccl"))
    );
}

#[test]
fn a_program_that_did_not_hang_is_told_so() {
    let expected = |job: &Ranks| {
        let notes = job.answer().notes;
        notes.iter().any(|note| note.contains("waited for a GPU"))
    };
    let mut job = Ranks::new(1);
    job.waits_in(0, "read", 20 * S - 1);
    assert!(!expected(&job), "nothing was recorded of its GPU");
    job.runtime(0, "hipDeviceSynchronize", 10 * S, Some(11 * S));
    assert!(expected(&job));
    job.batch.samples.clear();
    assert!(!expected(&job), "nothing was recorded of its end");
    job.runtime(0, "hipDeviceSynchronize", 12 * S, Some(20 * S));
    assert!(expected(&job));
}
