//! The division of a GPU's time, against a bitmap of every nanosecond.

use proptest::collection::vec;
use proptest::prelude::*;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::timeline::{Division, Timeline};
use rsys_traces::model::{Activity, Batch, Device, DeviceId, GpuRecord, Model, Process, ProcessId};

const LENGTH_NS: u64 = 400;

const ACTIVITIES: [Activity; 5] = [
    Activity::Compute,
    Activity::Comm,
    Activity::Copy,
    Activity::Fill,
    Activity::None,
];

/// Start, duration and activity of a record, and the process that it is of.
type Drawn = (u64, u64, usize, usize);

fn record(&(start_ns, duration_ns, activity, process): &Drawn) -> GpuRecord {
    GpuRecord {
        start_ns,
        end_ns: start_ns + duration_ns,
        process: ProcessId::new(process),
        device: DeviceId::new(process),
        activity: ACTIVITIES[activity],
        ..GpuRecord::default()
    }
}

/// Two processes that use one GPU.
fn model() -> Model {
    let mut model = Model::default();
    for pid in [10, 20] {
        model.processes.push(Process {
            pid,
            boot_id: "b00t".to_owned(),
            ..Process::default()
        });
        model.devices.push(Device {
            process: ProcessId::new(model.processes.len() - 1),
            is_physical: true,
            ..Device::default()
        });
    }
    model
}

/// What goes on in each nanosecond: a bit for each activity that makes a GPU busy.
fn bitmap(records: &[Drawn]) -> Vec<u32> {
    let mut map = vec![0; 2 * LENGTH_NS as usize];
    for &(start_ns, duration_ns, activity, _) in records {
        if ACTIVITIES[activity] != Activity::None {
            for at in start_ns..start_ns + duration_ns {
                map[at as usize] |= 1 << activity;
            }
        }
    }
    map
}

fn count(map: &[u32], holds: impl Fn(u32) -> bool) -> u64 {
    map.iter().filter(|sets| holds(**sets)).count() as u64
}

fn judge(division: &Division, records: &[Drawn]) {
    let map = bitmap(records);
    let busy = records
        .iter()
        .filter(|drawn| ACTIVITIES[drawn.2] != Activity::None);
    let first = busy.clone().map(|drawn| drawn.0).min().unwrap_or(0);
    let last = busy.map(|drawn| drawn.0 + drawn.1).max().unwrap_or(0);
    let map = &map[first as usize..last as usize];
    let (compute, comm, copy) = (0b1001, 0b0010, 0b0100);
    let expected = [
        map.len() as u64,
        count(map, |sets| sets == 0),
        count(map, |sets| sets & compute != 0),
        count(map, |sets| sets & comm != 0),
        count(map, |sets| sets & comm != 0 && sets & compute == 0),
        count(map, |sets| sets & copy != 0),
        count(map, |sets| sets & copy != 0 && sets & (compute | comm) == 0),
        count(map, |sets| sets & comm != 0 && sets & compute != 0),
    ];
    let found = [
        division.total_ns(),
        division.idle_ns(),
        division.computation_ns(),
        division.total_comm_ns(),
        division.exposed_comm_ns(),
        division.total_memcpy_ns(),
        division.exposed_memcpy_ns(),
        division.comm_overlapped_by_compute_ns(),
    ];
    assert_eq!(found, expected);
    let parts = division.computation_ns() + division.exposed_comm_ns();
    let parts = parts + division.exposed_memcpy_ns() + division.idle_ns();
    assert_eq!(parts, division.total_ns());
    let by_length: u64 = division
        .idle_by_length
        .iter()
        .map(|(_, time_ns)| time_ns)
        .sum();
    assert_eq!(by_length, division.idle_ns());
    let records_counted = division.compute + division.comm + division.memcpy + division.other;
    assert_eq!(records_counted, records.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_nanosecond_is_in_one_part(
        records in vec((0..LENGTH_NS, 0..LENGTH_NS / 4, 0..ACTIVITIES.len(), 0..2_usize), 0..40),
        batch_records in 1..20_usize,
    ) {
        let model = model();
        let mut timeline = Timeline::default();
        for part in records.chunks(batch_records) {
            let gpu = part.iter().map(record).collect();
            timeline.take(&Batch { gpu, ..Batch::default() });
        }
        for (id, division) in timeline.divisions(&model) {
            let own = |drawn: &&Drawn| drawn.3 == id.index();
            let own: Vec<Drawn> = records.iter().filter(own).copied().collect();
            judge(&division, &own);
        }
        for (ids, division) in timeline.shared(&model) {
            assert_eq!(ids.len(), 2);
            judge(&division, &records);
        }
    }
}

#[test]
fn what_touches_does_not_overlap() {
    let mut timeline = Timeline::default();
    let records = [(0, 10, 0, 0), (10, 10, 1, 0), (30, 0, 2, 0), (20, 5, 2, 0)];
    let gpu = records.iter().map(record).collect();
    timeline.take(&Batch {
        gpu,
        ..Batch::default()
    });
    let (_, division) = &timeline.divisions(&model())[0];
    assert_eq!(division.exposed_comm_ns(), 10);
    assert_eq!(division.comm_overlapped_by_compute_ns(), 0);
    assert_eq!((division.total_ns(), division.idle_ns()), (30, 5));
    assert_eq!(division.memcpy, 2);
}

#[test]
fn who_has_recorded_gpus_is_not_told_how() {
    let note = |backends: &str| {
        let mut model = crate::common::model();
        backends.clone_into(&mut model.processes[0].backends);
        Timeline::default().answer(&model, "run").notes.join("\n")
    };
    assert!(note("").contains("-I rocm"), "{}", note(""));
    let told = note("roctracer roctx");
    assert!(
        told.contains("no operation of a GPU") && !told.contains("-I rocm"),
        "{told}"
    );
}
