//! What a rank did, counted once.

use super::*;
use rsys_traces::model::{
    Activity, Basis, GpuRecord, HostSlice, LockWait, OpKind, Sample, ThreadId,
};

#[test]
fn a_recorded_wait_for_a_lock_counts_once_with_what_was_seen_of_it() {
    let mut model = Model::default();
    let function = model.texts.intern("pthread_mutex_lock");
    let holder = model.texts.intern("grow (pool.cc:42)");
    let (process, thread) = (ProcessId::new(0), ThreadId::new(0));
    let mut activity = IntervalActivity::default();
    activity.select(0, process, vec![(100, 200), (300, 400)]);
    let mut batch = Batch::default();
    batch
        .lock_waits
        .extend([(150, 350), (160, 170)].map(|time| LockWait {
            start_ns: time.0,
            end_ns: time.1,
            process,
            thread,
            function,
            holder,
            holder_tid: 7,
            ..LockWait::default()
        }));
    batch.samples.push(Sample {
        time_ns: 390,
        weight: 260,
        basis: Basis::WaitTime,
        process,
        thread,
        ..Sample::default()
    });
    activity.take(&batch);
    let mut file = activity.0.lock().unwrap();
    let (waits, _) = file.processes[0].waited(
        thread,
        &[(100, 200), (300, 400)].into_iter().collect(),
        &model,
    );
    let lock = "waiting in pthread_mutex_lock, held in grow (pool.cc:42)";
    let expected = [("[unknown]", 20 + 40), (lock, 50 + 50)];
    let expected = expected.map(|(place, ns)| (place.to_owned(), ns));
    assert_eq!(waits, BTreeMap::from(expected));
}

#[test]
fn what_spins_in_a_call_or_a_recorded_wait_is_not_code_as_well() {
    let model = Model::default();
    let (process, thread) = (ProcessId::new(0), ThreadId::new(0));
    let mut activity = IntervalActivity::default();
    activity.select(0, process, vec![(0, 1_000)]);
    let mut batch = Batch::default();
    batch.lock_waits.push(LockWait {
        start_ns: 100,
        end_ns: 300,
        process,
        thread,
        ..LockWait::default()
    });
    batch.host.push(HostSlice {
        start_ns: 250,
        end_ns: 500,
        process,
        thread,
        kind: HostKind::Collective,
        link: 1,
        ..HostSlice::default()
    });
    batch.samples.push(Sample {
        time_ns: 900,
        weight: 900,
        basis: Basis::CpuTime,
        process,
        thread,
        ..Sample::default()
    });
    activity.take(&batch);
    let mut file = activity.0.lock().unwrap();
    let own = &mut file.processes[0];
    let all = [(0, 1_000)].into_iter().collect();
    let (_, locked) = own.waited(thread, &all, &model);
    let ran: u64 = own.ran(thread, &all, &locked, &model).0.values().sum();
    assert_eq!(ran, 100 + 400);
}

#[test]
fn what_the_gpu_hides_and_what_is_done_after_the_launch_is_no_cause() {
    let mut model = Model::default();
    let [hides, lates, after] = ["hides", "lates", "after"].map(|name| model.texts.intern(name));
    model.threads.push(Default::default());
    let (process, thread) = (ProcessId::new(0), ThreadId::new(0));
    let mut activity = IntervalActivity::default();
    activity.select(0, process, vec![(100, 1_000)]);
    let mut batch = Batch::default();
    for (start_ns, end_ns, activity, link) in [
        (100, 400, Activity::Compute, 0),
        (1_000, 1_200, Activity::Comm, 9),
    ] {
        batch.gpu.push(GpuRecord {
            start_ns,
            end_ns,
            activity,
            link,
            process,
            kind: OpKind::Kernel,
            ..GpuRecord::default()
        });
    }
    for (start_ns, end_ns, name, link) in [
        (150, 420, hides, 0),
        (420, 600, lates, 0),
        (600, 610, after, 9),
        (610, 990, after, 0),
    ] {
        batch.host.push(HostSlice {
            start_ns,
            end_ns,
            process,
            thread,
            name,
            link,
            kind: HostKind::Runtime,
            ..HostSlice::default()
        });
    }
    activity.take(&batch);
    let found = activity.found(&model);
    let (_, activity) = &found[0];
    let calls = [("hides", 20), ("lates", 180), ("after", 10)];
    let calls = calls.map(|(name, ns)| (name.to_owned(), ns));
    assert_eq!(activity.calls, BTreeMap::from(calls));
    assert_eq!((activity.gpu[IDLE], activity.queued_ns), (600, 390));
}
