//! Advice on runs that hung on GPUs, from records made by hand.

use crate::common::{self, rows, stack};
use rsys_analysis::advice::advise;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::measure::job::stuck::Stuck;
use rsys_analysis::show::json;
use rsys_traces::model::{
    Basis, Batch, HostKind, HostSlice, Model, Process, ProcessId, Sample, Thread, ThreadId,
};
use serde_json::Value;

const S: u64 = 1_000_000_000;

/// Ranks that wait for their GPUs from the tenth second to the twentieth, with a kernel each that never ended.
fn hung(kernels: &[&str]) -> (Model, Batch) {
    let (mut model, mut records) = (Model::default(), Batch::default());
    for (rank, kernel) in kernels.iter().enumerate() {
        let (process, thread) = (ProcessId::new(rank), ThreadId::new(rank));
        model.processes.push(Process {
            pid: 100 + rank as u32,
            rank: Some(rank as u64),
            boot_id: "b00t".to_owned(),
            end_ns: 20 * S,
            ..Process::default()
        });
        model.threads.push(Thread {
            process,
            tid: 100 + rank as u32,
            ..Thread::default()
        });
        records.host.push(HostSlice {
            start_ns: 10 * S,
            end_ns: 20 * S,
            process,
            thread,
            kind: HostKind::Runtime,
            name: model.texts.intern("hipDeviceSynchronize"),
            is_open: true,
            ..HostSlice::default()
        });
        records.samples.push(Sample {
            time_ns: 9 * S,
            process,
            thread,
            stack: stack(&mut model, &["main", "step", kernel]),
            basis: Basis::GpuTime,
            ..Sample::default()
        });
    }
    (model, records)
}

/// Rules and places of what is found in a hang.
fn found(kernels: &[&str]) -> Vec<(String, String, Value)> {
    let (model, records) = hung(kernels);
    let mut stuck = Stuck::default();
    stuck.take(&records);
    assert_eq!(
        rows(&stuck.answer(&model, ""), "never_ended").len(),
        kernels.len()
    );
    let mut measures = common::advice_measures();
    let answers: Vec<_> = measures
        .iter_mut()
        .map(|(name, measure)| {
            measure.take(&records);
            (*name, measure.answer(&model, "run"))
        })
        .collect();
    let advised = json(&advise(&answers, &profiling_cost(&model)));
    common::judge(&advised);
    let findings = advised["findings"].as_array().cloned().unwrap_or_default();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("").to_owned();
    let of_hang = findings
        .iter()
        .map(|one| (text(one, "rule"), text(one, "place"), one.clone()));
    of_hang.filter(|one| one.0.starts_with("hung")).collect()
}

#[test]
fn a_kernel_that_is_new_may_only_be_slow() {
    let found = found(&["spin"]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].0, "hung_kernel");
    let told = "spin, launched by step, had not ended; hipDeviceSynchronize waited for it; none of its name has ever ended: it may only be slow";
    assert_eq!(found[0].1, told);
}

#[test]
fn ranks_that_wait_in_kernels_between_them_are_one_finding() {
    let found = found(&["ncclDevKernel_Generic"; 3]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].0, "hung_communication");
    assert_eq!(found[0].2["evidence"]["waiting_processes"], 3);
}
