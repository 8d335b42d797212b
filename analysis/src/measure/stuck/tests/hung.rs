//! Waits for GPUs that last until the end.

use super::{Ranks, S};
use crate::measure::Measure;
use crate::measure::stuck::Stuck;
use crate::model::{
    Activity, Basis, Device, DeviceId, GpuRecord, HostSlice, OpKind, ProcessId, StreamOrder,
    ThreadId,
};
use crate::table::view::rows;

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
            device: DeviceId::new(0),
            kind: OpKind::Kernel,
            activity: Activity::Compute,
            name,
            ..GpuRecord::default()
        });
    }

    /// A job whose first rank waits for its GPU from the tenth second on, after a kernel of each of some durations.
    fn waits_for_gpu(durations_ns: &[u64]) -> Self {
        let mut job = Self::new(2);
        job.model.devices.push(Device {
            ordinal: 3,
            ..Device::default()
        });
        for &duration_ns in durations_ns {
            job.compute(0, "gemm", S, Some(S + duration_ns));
        }
        job.runtime(0, "hipStreamSynchronize", 10 * S, None);
        job.sample(0, &["main", "finish"], (10 * S, 10 * S), Basis::CallTime);
        job
    }

    /// Rows of waits that lasted until the end: kernel, where it was launched, how many had not ended, the call, its place, its seconds.
    fn never_ended(&self) -> Vec<[String; 6]> {
        let mut stuck = Stuck::default();
        stuck.take(&self.batch);
        let answer = stuck.answer(&self.model, "");
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
    let told = ["spin", "step", "2", "hipStreamSynchronize", "finish", "10"];
    assert_eq!(job.never_ended(), [told.map(str::to_owned)]);
    // Something else ended meanwhile: what is waited for at the end is waited for since then.
    job.compute(0, "gemm", 14 * S, Some(15 * S));
    assert_eq!(job.never_ended()[0][5], "5");
    // It ended a moment ago: the GPU works.
    job.compute(0, "gemm", 19 * S, Some(20 * S - 1_000));
    assert_eq!(job.never_ended(), [[""; 6]; 0]);
}

#[test]
fn what_takes_as_long_as_ever_has_not_hung() {
    // HIP tells of kernels when the program has waited: all of a long queue seem to be unfinished.
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
fn kernels_that_were_captured_for_a_graph_were_not_launched() {
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    job.runtime(0, "hipStreamBeginCapture", 5 * S, Some(5 * S + 10));
    job.compute(0, "captured", 6 * S, None);
    job.runtime(0, "hipStreamEndCapture", 7 * S, Some(7 * S + 10));
    job.compute(0, "spin", 9 * S, None);
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
    // Without any kernel it takes longer until that is told.
    let mut job = Ranks::waits_for_gpu(&[1_000]);
    let told = ["", "", "0", "hipStreamSynchronize", "finish", "10"];
    assert_eq!(job.never_ended(), [told.map(str::to_owned)]);
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
