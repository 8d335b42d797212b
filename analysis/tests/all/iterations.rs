//! Iterations of ranks: the cases in which AORTA's sweep goes wrong, and a bitmap of every nanosecond.

use crate::common::{model, rows, thread};
use proptest::collection::vec;
use proptest::prelude::*;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::timeline::Timeline;
use rsys_analysis::measure::job::iterations::{
    Assign, Field, Iterations, Lane, MarkerKind, Options, Sums, Verdict, answer,
};
use rsys_traces::model::{
    Activity, Batch, CollectiveCall, DeviceId, GpuRecord, HostKind, HostSlice, Mark, Model, OpKind,
};
use serde_json::Value;

/// What is put into a trace, in any unit of time.
struct Told {
    model: Model,
    batch: Batch,
    links: u64,
}

impl Told {
    fn new() -> Self {
        let mut told = Self {
            model: model(),
            batch: Batch::default(),
            links: 0,
        };
        told.model.threads[0].process = rsys_traces::model::ProcessId::new(0);
        told
    }

    fn slice(
        &mut self,
        kind: HostKind,
        name: &str,
        (start_ns, end_ns): (u64, u64),
    ) -> &mut HostSlice {
        self.links += 1;
        self.batch.host.push(HostSlice {
            start_ns,
            end_ns,
            link: if kind == HostKind::Range {
                0
            } else {
                self.links
            },
            thread: thread(0),
            name: self.model.texts.intern(name),
            kind,
            ..HostSlice::default()
        });
        self.batch.host.last_mut().unwrap()
    }

    /// An operation that is launched at a time; of collectives, within a call of their function.
    fn operation(&mut self, name: &str, launched_ns: u64, (start_ns, end_ns): (u64, u64)) {
        let activity = match name {
            "copy" => Activity::Copy,
            "fill" => Activity::Fill,
            "barrier" => Activity::None,
            _ if name.starts_with("nccl") => Activity::Comm,
            _ => Activity::Compute,
        };
        let link = self
            .slice(
                HostKind::Runtime,
                "hipLaunchKernel",
                (launched_ns, launched_ns + 1),
            )
            .link;
        if activity == Activity::Comm {
            let call = *self.slice(HostKind::Collective, name, (launched_ns, launched_ns + 2));
            self.batch.collectives.push(CollectiveCall {
                start_ns: call.start_ns,
                end_ns: call.end_ns,
                link: call.link,
                thread: call.thread,
                name: call.name,
                ..CollectiveCall::default()
            });
        }
        let kernel = match activity {
            Activity::Comm => "ncclDevKernel_Generic",
            _ => name,
        };
        self.batch.gpu.push(GpuRecord {
            start_ns,
            end_ns,
            link,
            name: self.model.texts.intern(kernel),
            kind: match activity {
                Activity::Copy => OpKind::Copy,
                Activity::Fill => OpKind::Fill,
                Activity::None => OpKind::Other,
                _ => OpKind::Kernel,
            },
            activity,
            ..GpuRecord::default()
        });
    }

    fn lanes(&self, marker: Option<&str>, assign: Assign) -> Vec<Lane> {
        let mut iterations = Iterations::default();
        iterations.take(&self.batch);
        iterations.find(&self.model, &options(marker, assign))
    }

    fn lane(&self, marker: Option<&str>, assign: Assign) -> Lane {
        self.lanes(marker, assign).remove(0)
    }
}

fn options(marker: Option<&str>, assign: Assign) -> Options {
    Options {
        marker: marker.map(str::to_owned),
        assign,
    }
}

const ASSIGNS: [Assign; 3] = [Assign::Launch, Assign::Window, Assign::Partition];

#[test]
fn ranges_within_others_end_nothing() {
    // AORTA's sweep keeps a set of streams: the inner range ends the outer one, and 4 of computation and no overlap are left.
    let mut told = Told::new();
    told.slice(HostKind::Range, "step", (0, 10));
    told.operation("outer", 0, (0, 10));
    told.operation("inner", 1, (2, 4));
    told.operation("ncclAllReduce", 2, (5, 9));
    for assign in ASSIGNS {
        let sums = told.lane(None, assign).details[0].sums;
        assert_eq!(sums.get(Field::Computation), 10, "{assign:?}");
        assert_eq!(sums.get(Field::ComputeComm), 4, "{assign:?}");
        assert_eq!(sums.get(Field::ComputeAllReduce), 4, "{assign:?}");
        assert_eq!(sums.get(Field::ComputeReduceScatter), 0, "{assign:?}");
        assert_eq!(sums.get(Field::Idle), 0, "{assign:?}");
        assert_eq!(sums.overlap_ratio(), Some(0.4), "{assign:?}");
        assert_eq!(sums.hidden_share(), Some(1.0), "{assign:?}");
    }
}

#[test]
fn idleness_at_both_ends_of_an_iteration_counts() {
    // AORTA counts only the 2 in the middle, once there are any.
    let mut told = Told::new();
    told.slice(HostKind::Range, "step", (0, 20));
    told.operation("one", 1, (5, 9));
    told.operation("two", 2, (11, 15));
    let sums = told.lane(None, Assign::Window).details[0].sums;
    assert_eq!(sums.get(Field::Idle), 12);
    // By launch, idle time is of the iteration whose operation ends it; on both ends of a run there is none.
    let sums = told.lane(None, Assign::Launch).details[0].sums;
    assert_eq!(sums.get(Field::Idle), 2);
}

#[test]
fn what_began_before_an_iteration_is_clipped_to_it() {
    // AORTA takes the negative begin as it is: a stream is used for 120 % of the time.
    let mut told = Told::new();
    told.slice(HostKind::Range, "step", (100, 110));
    told.operation("early", 90, (98, 110));
    let sums = told.lane(None, Assign::Window).details[0].sums;
    assert_eq!(sums.get(Field::Computation), 10);
    let by_launch = told.lane(None, Assign::Launch);
    assert_eq!(by_launch.details[0].sums, Sums::default());
    assert_eq!(by_launch.outside.get(Field::Computation), 12);
}

#[test]
fn a_collective_that_the_next_iteration_hides_is_hidden() {
    let mut told = Told::new();
    for start in [0, 100] {
        told.slice(HostKind::Range, "step", (start, start + 10));
        told.operation("forward", start + 1, (start + 20, start + 60));
        told.operation("ncclReduceScatter", start + 2, (start + 100, start + 140));
    }
    let lane = told.lane(None, Assign::Launch);
    let [first, second] = [0, 1].map(|place| lane.details[place].sums);
    assert_eq!(first.get(Field::ComputeReduceScatter), 20);
    assert_eq!(first.get(Field::ExposedComm), 20);
    assert_eq!(second.get(Field::ExposedComm), 40);
    assert_eq!(second.hidden_share(), Some(0.0));
    // The host is far ahead: in its own time an iteration has none of its collectives.
    let window = told.lane(None, Assign::Window);
    assert_eq!(window.details[0].sums.get(Field::Comm), 0);
    assert_eq!(window.details[1].sums.get(Field::Comm), 10);
}

#[test]
fn an_iteration_without_kernels_has_no_ratios() {
    let mut told = Told::new();
    for start in [0, 100, 200] {
        told.slice(HostKind::Range, "step", (start, start + 50));
    }
    told.operation("gemm", 1, (5, 9));
    told.operation("gemm", 201, (205, 205));
    for assign in ASSIGNS {
        let lane = told.lane(None, assign);
        assert_eq!(lane.iterations.len(), 3);
        assert_eq!(lane.details[1].sums.overlap_ratio(), None);
        assert_eq!(lane.details[1].sums.hidden_share(), None);
        assert_eq!(lane.details[2].sums.get(Field::Operations), 1);
    }
    let answer = answer(
        &told.lanes(None, Assign::Launch),
        &options(None, Assign::Launch),
    );
    let iterations = rows(&answer, "iterations");
    assert_eq!(iterations[1]["overlap_ratio"], Value::Null);
    assert_eq!(iterations.len(), 4);
}

/// Steps of 500 ns with a load of 5 µs between two of them, which no step has in it.
#[test]
fn an_iteration_gains_no_more_than_it_was_idle_itself() {
    let mut told = Told::new();
    for step in 0..5 {
        let at = 10_000 + 6_000 * step;
        told.slice(HostKind::Operator, "load", (at - 5_400, at));
        told.slice(HostKind::Range, &format!("step {step}"), (at, at + 500));
        told.operation("gemm", at + 2, (at + 20, at + 470));
    }
    let options = options(None, Assign::Launch);
    let answer = answer(&told.lanes(None, Assign::Launch), &options);
    let gaps = rows(&answer, "without_gaps");
    assert_eq!(gaps[0]["iteration_ns"], 500.0);
    // All that is idle within a step is 50 ns, and nothing of the load.
    let is_load = |gap: &Value| gap["gap"] == "code on the host: load";
    assert!(!gaps.iter().any(is_load), "{gaps:#?}");
    let saved = gaps.iter().map(|gap| gap["saved_ns"].as_f64().unwrap());
    assert!(saved.sum::<f64>() < 50.01, "{gaps:#?}");
}

/// A host that launches ten steps of a millisecond in a millisecond: a step is as long as the GPU takes for it.
#[test]
fn where_the_host_runs_ahead_a_step_is_the_gpus() {
    let of = |period: u64| {
        let mut told = Told::new();
        for step in 0..10 {
            let at = 1_000 + period * step;
            told.slice(HostKind::Range, &format!("step {step}"), (at, at + 90));
            let begin = 1_050 + 1_000 * step;
            told.operation("gemm", at + 10, (begin, begin + 980));
        }
        told.lane(None, Assign::Launch)
    };
    let lane = of(100);
    let durations: Vec<u64> = lane.iterations.iter().map(|one| one.duration_ns).collect();
    assert_eq!((durations[0], &durations[1..]), (1_030, &[1_000; 9][..]));
    assert_eq!(lane.iterations[3].start_ns, 4_030);
    assert_eq!(lane.iterations[3].host_ns, (1_300, 1_390));
    assert!(lane.host_ahead_ns > Some(4_000), "{:?}", lane.host_ahead_ns);
    // One that waits: its steps are those of the host.
    let mut told = Told::new();
    for step in 0..10 {
        let at = 1_000 + 1_000 * step;
        told.slice(HostKind::Range, &format!("step {step}"), (at, at + 990));
        told.operation("gemm", at + 10, (at + 20, at + 950));
    }
    let lane = told.lane(None, Assign::Launch);
    assert_eq!(
        (lane.host_ahead_ns, lane.iterations[3].duration_ns),
        (None, 990)
    );
    let answer = answer(&[of(100)], &options(None, Assign::Launch));
    assert!(
        answer.notes.iter().any(|note| note.contains("runs ahead")),
        "{:?}",
        answer.notes
    );
}

/// Hosts that wait for the GPU before the next step, though outside of what the marker is around.
#[test]
fn a_host_that_waits_for_its_gpu_behind_the_marker_is_not_ahead() {
    let mut told = Told::new();
    for step in 0..10 {
        let at = 1_000 + 1_000 * step;
        let name = format!("step {step}");
        told.slice(HostKind::Range, &name, (at, at + 100));
        // Launched in the range, and by what follows it: the loss is fetched at 950.
        told.operation("gemm", at + 10, (at + 20, at + 600));
        told.operation("grad", at + 110, (at + 600, at + 950));
    }
    let lane = told.lane(None, Assign::Launch);
    assert_eq!(
        (lane.host_ahead_ns, lane.iterations[3].duration_ns),
        (None, 100)
    );
}

/// A GPU that waits at the begin of one step, of a host that is ahead otherwise.
#[test]
fn a_stall_is_part_of_the_step_that_it_delays() {
    let mut told = Told::new();
    for step in 0..10 {
        let at = 1_000 + 100 * step;
        told.slice(HostKind::Range, &format!("step {step}"), (at, at + 90));
        let begin = 1_050 + 1_000 * step + if step < 5 { 0 } else { 3_000 };
        told.operation("gemm", at + 10, (begin, begin + 980));
    }
    let lane = told.lane(None, Assign::Launch);
    let durations: Vec<u64> = lane.iterations.iter().map(|one| one.duration_ns).collect();
    assert_eq!(durations[4..7], [1_000, 4_000, 1_000]);
}

/// What the GPU does between two steps, launched outside of both, is in neither.
#[test]
fn work_between_steps_is_in_none() {
    let mut told = Told::new();
    for step in 0..10 {
        let late = if step < 5 { 0 } else { 35_000 };
        let at = 1_000 + 100 * step + late;
        told.slice(HostKind::Range, &format!("step {step}"), (at, at + 90));
        let begin = 1_050 + 1_000 * step + late.saturating_sub(4_400);
        told.operation("gemm", at + 10, (begin, begin + 980));
    }
    told.operation("evaluate", 2_000, (6_030, 36_030));
    let lane = told.lane(None, Assign::Launch);
    assert!(lane.host_ahead_ns > Some(500), "{:?}", lane.host_ahead_ns);
    let durations: Vec<u64> = lane.iterations.iter().map(|one| one.duration_ns).collect();
    assert!(durations[5] < 1_200, "{durations:?}");
}

/// The only step of each epoch has number 0: six epochs are six iterations.
#[test]
fn parts_whose_numbers_begin_again_are_several_iterations() {
    let mut told = Told::new();
    for epoch in 0..6_u64 {
        let at = 1_000 * epoch;
        told.slice(HostKind::Range, "step 0: forward", (at, at + 400));
        told.slice(HostKind::Range, "step 0: backward", (at + 400, at + 900));
        told.operation("gemm", at + 10, (at + 20, at + 800));
    }
    let lane = told.lane(None, Assign::Launch);
    let found: Vec<(u64, u64)> = lane
        .iterations
        .iter()
        .map(|one| (one.start_ns, one.duration_ns))
        .collect();
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(found[1], (1_000, 900));
}

#[test]
fn markers_are_found_by_what_they_are() {
    let mut told = Told::new();
    for number in 0..6_u64 {
        let start = 1_000 * number;
        told.slice(
            HostKind::Range,
            &format!("phase {number}"),
            (start, start + 900),
        );
        told.slice(HostKind::Range, "part", (start + 10, start + 400));
        told.slice(HostKind::Range, "part", (start + 20, start + 30));
        told.slice(HostKind::Function, "train (train.py)", (start, start + 850));
        told.operation("first", start + 100, (start + 100, start + 200));
        told.operation("second", start + 110, (start + 200, start + 300));
        told.operation("second", start + 120, (start + 300, start + 320));
        told.operation("ncclAllReduce", start + 130, (start + 320, start + 350));
        told.batch.marks.push(Mark {
            time_ns: start + 5,
            thread: thread(0),
            name: told.model.texts.intern("tick"),
            ..Mark::default()
        });
    }
    // What covers most is taken where nothing is named.
    for (marker, name, kind, iterations, duration) in [
        (None, "phase", MarkerKind::Range, 6, 900),
        (Some("part"), "part", MarkerKind::Range, 6, 390),
        (Some("pha*"), "pha*", MarkerKind::Range, 6, 900),
        (Some("train"), "train", MarkerKind::Function, 6, 850),
        (Some("tick"), "tick", MarkerKind::Mark, 6, 1_000),
        (
            Some("ncclAllReduce"),
            "ncclAllReduce",
            MarkerKind::Call,
            6,
            1_000,
        ),
        (Some("first"), "first", MarkerKind::Kernel, 6, 1_000),
        (Some("nothing"), "nothing", MarkerKind::Whole, 0, 0),
    ] {
        let lane = told.lane(marker, Assign::Launch);
        let found = (
            lane.marker.as_str(),
            lane.marker_kind,
            lane.iterations.len(),
        );
        assert_eq!(found, (name, kind, iterations), "{marker:?}");
        assert_eq!(
            lane.is_numbered,
            marker.is_none_or(|one| one == "pha*") && iterations > 0
        );
        let nested = if marker == Some("part") { 6 } else { 0 };
        assert_eq!(lane.nested, nested, "{marker:?}");
        for one in lane.iterations.iter().take(5) {
            assert_eq!(one.duration_ns, duration, "{marker:?}");
        }
    }
    let answer = answer(
        &told.lanes(Some("nothing"), Assign::Launch),
        &options(Some("nothing"), Assign::Launch),
    );
    assert!(
        answer.is_empty
            && answer
                .notes
                .iter()
                .any(|note| note.contains("is called nothing"))
    );
    // Without ranges, by the kernels: the longest wait is in front of the first.
    told.batch
        .host
        .retain(|slice| slice.kind == HostKind::Runtime);
    let lane = told.lane(None, Assign::Launch);
    assert_eq!(
        (lane.marker.as_str(), lane.marker_kind),
        ("first", MarkerKind::Kernel)
    );
    assert_eq!(lane.iterations[5].verdict, Verdict::Open);
    assert_eq!(lane.details[2].sums.get(Field::Computation), 220);
}

/// An operation: what it is, when it was launched, how long later it began, and how long it took.
type Drawn = (usize, u64, u64, u64);

const NAMES: [&str; 7] = [
    "gemm",
    "ncclAllReduce",
    "ncclReduceScatter",
    "ncclAllGather",
    "copy",
    "fill",
    "barrier",
];
/// What the bits of the map mean.
const COMPUTE: u32 = 0b10_0001;
const COMM: u32 = 0b00_1110;
const REDUCES: u32 = 0b00_0110;
const COPY: u32 = 0b01_0000;
const BUSY: u32 = 0b11_1111;
const LENGTH: usize = 900;

fn map<'d>(operations: impl Iterator<Item = &'d Drawn>) -> Vec<u32> {
    let mut map = vec![0; LENGTH];
    for &(what, launched, after, duration) in operations {
        let start = launched + after;
        for at in start..start + duration {
            map[at as usize] |= (1 << what) & BUSY;
        }
    }
    map
}

/// The numbers that can be counted in maps: of own operations, and of all.
fn counted(own: &[u32], all: &[u32], within: impl Fn(usize) -> bool) -> [u64; 7] {
    let count = |holds: &dyn Fn(u32, u32) -> bool| {
        let both = own.iter().zip(all).enumerate();
        both.filter(|(at, (own, all))| within(*at) && holds(**own, **all))
            .count() as u64
    };
    [
        count(&|own, _| own & COMPUTE != 0),
        count(&|own, _| own & COMM != 0),
        count(&|own, all| own & COMM != 0 && all & COMPUTE == 0),
        count(&|own, _| own & COPY != 0),
        count(&|own, all| own & COPY != 0 && all & (COMPUTE | COMM) == 0),
        count(&|own, all| own & REDUCES != 0 && all & COMPUTE != 0),
        count(&|own, all| own & 0b10 != 0 && all & COMPUTE != 0),
    ]
}

fn numbers(sums: &Sums) -> [u64; 7] {
    [
        Field::Computation,
        Field::Comm,
        Field::ExposedComm,
        Field::Memcpy,
        Field::ExposedMemcpy,
        Field::ComputeComm,
        Field::ComputeAllReduce,
    ]
    .map(|field| sums.get(field))
}

const IDLE: [Field; 7] = [
    Field::IdleHost,
    Field::IdleSynchronisation,
    Field::IdleCopy,
    Field::IdleCall,
    Field::IdleLaunch,
    Field::IdleQueued,
    Field::IdleUnknown,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_nanosecond_is_counted_where_it_belongs(
        mut operations in vec((0..NAMES.len(), 0..500_u64, 0..200_u64, 0..100_u64), 1..40),
        steps in vec((0..40_u64, 1..80_u64), 1..8),
    ) {
        // Two launches of one thread do not begin together.
        operations.sort_by_key(|one| one.1);
        operations.dedup_by_key(|one| one.1);
        let mut told = Told::new();
        let (mut at, mut spans) = (0, Vec::new());
        for (pause, duration) in steps {
            spans.push((at + pause, at + pause + duration));
            at += pause + duration;
        }
        for span in &spans {
            told.slice(HostKind::Range, "step", *span);
        }
        for &(what, launched, after, duration) in &operations {
            told.operation(NAMES[what], launched, (launched + after, launched + after + duration));
        }
        let all = map(operations.iter());
        let mut timeline = Timeline::default();
        timeline.take(&told.batch);
        let divisions = timeline.divisions(&told.model);
        let Some((_, division)) = divisions.iter().find(|(id, _)| *id == DeviceId::new(0)) else {
            return Ok(());
        };
        let whole = [
            division.computation_ns(),
            division.total_comm_ns(),
            division.exposed_comm_ns(),
            division.total_memcpy_ns(),
            division.exposed_memcpy_ns(),
            division.idle_ns(),
        ];
        for assign in ASSIGNS {
            // Without anything that counts there is no time of the GPU.
            let Some(lane) = told.lanes(Some("step"), assign).pop() else { continue };
            assert_eq!(lane.iterations.len(), spans.len());
            let of_iterations = lane.details.iter().map(|one| &one.sums);
            let mut sum = lane.outside;
            of_iterations.clone().for_each(|sums| sum.add_all(sums));
            for sums in of_iterations.chain([&lane.outside]) {
                let by_cause: u64 = IDLE.iter().map(|field| sums.get(*field)).sum();
                assert_eq!(by_cause, sums.get(Field::Idle));
            }
            assert_eq!(sum.get(Field::Operations), operations.len() as u64);
            let found = [Field::Computation, Field::Comm, Field::ExposedComm, Field::Memcpy, Field::ExposedMemcpy, Field::Idle];
            assert_eq!(found.map(|field| lane.whole.get(field)), whole);
            match assign {
                Assign::Launch => {
                    for (place, span) in spans.iter().enumerate() {
                        let own = operations.iter().filter(|one| (span.0..span.1).contains(&one.1));
                        let expected = counted(&map(own), &all, |_| true);
                        assert_eq!(numbers(&lane.details[place].sums), expected);
                    }
                    // What ends an idle time is launched once.
                    assert_eq!(sum.get(Field::Idle), division.idle_ns());
                }
                Assign::Window => {
                    for (place, &(start, end)) in spans.iter().enumerate() {
                        let within = |at: usize| (start as usize..end as usize).contains(&at);
                        let sums = &lane.details[place].sums;
                        assert_eq!(numbers(sums), counted(&all, &all, within));
                        let idle = (start..end).filter(|at| all[*at as usize] == 0).count();
                        assert_eq!(sums.get(Field::Idle), idle as u64);
                    }
                    let sums = [0, 1, 2, 3, 4].map(|place| numbers(&sum)[place]);
                    assert_eq!(sums[..], whole[..5]);
                }
                Assign::Partition => {
                    assert_eq!(found.map(|field| sum.get(field)), whole);
                }
            }
        }
    }
}
