//! Walks compared with the longest path through small jobs that are drawn: graphs of what waits for what, relaxed edge by edge until nothing changes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::timeline::{HostCall, Kind, Launch, Operation, Piece, RankTimeline, Track};
use super::walk::{At, Crossing, LastArrival, Ranks, walk};
use crate::measure::idle_cause::IdleCause;

/// What a thread does next.
#[derive(Debug, Clone)]
enum Step {
    Code(i64),
    /// A kernel on one of two streams; `after_other`: the stream waits for what the other one has.
    Kernel {
        stream: usize,
        call: i64,
        long: i64,
        after_other: bool,
    },
    /// A wait for the GPU, which returns so much later.
    Wait(i64),
}

/// What each rank does in front of a collective, and how long that is.
type Phase = (Vec<Vec<Step>>, i64);

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..5_000_i64).prop_map(Step::Code),
        (0..2_usize, 1..500_i64, 0..9_000_i64, any::<bool>()).prop_map(
            |(stream, call, long, after_other)| Step::Kernel {
                stream,
                call,
                long,
                after_other,
            }
        ),
        (1..700_i64).prop_map(Step::Wait),
    ]
}

fn phases() -> impl Strategy<Value = Vec<Phase>> {
    (1..5_usize).prop_flat_map(|ranks| {
        let of_ranks = vec(vec(step(), 0..5), ranks..=ranks);
        vec((of_ranks, 1..3_000_i64), 1..5)
    })
}

/// Something that takes a time once all that it waits for has ended.
struct Node {
    long: i64,
    waits_for: Vec<usize>,
    label: (usize, Kind, String),
}

#[derive(Default)]
struct Graph(Vec<Node>);

impl Graph {
    fn add(&mut self, rank: usize, kind: Kind, long: i64, waits_for: Vec<usize>) -> usize {
        let label = (rank, kind, format!("node {}", self.0.len()));
        self.0.push(Node {
            long,
            waits_for,
            label,
        });
        self.0.len() - 1
    }

    /// When each node ends.
    fn ends(&self) -> Vec<i64> {
        let mut ends: Vec<i64> = self.0.iter().map(|node| node.long).collect();
        loop {
            let mut is_changed = false;
            for (number, node) in self.0.iter().enumerate() {
                for &before in &node.waits_for {
                    let end = ends[before] + node.long;
                    is_changed |= end > ends[number];
                    ends[number] = ends[number].max(end);
                }
            }
            if !is_changed {
                return ends;
            }
        }
    }

    /// The longest path to a node, without nodes that take no time; `None` if several are as long.
    fn longest(&self, to: usize) -> Option<Vec<usize>> {
        let ends = self.ends();
        let (mut path, mut at) = (Vec::new(), to);
        loop {
            if self.0[at].long > 0 {
                path.push(at);
            }
            let start = ends[at] - self.0[at].long;
            let mut tight = self.0[at].waits_for.clone();
            tight.retain(|&before| ends[before] == start);
            tight.sort_unstable();
            tight.dedup();
            match tight[..] {
                [] => break,
                [only] => at = only,
                // What has not begun yet is no longer.
                _ if start == 0 => break,
                _ => return None,
            }
        }
        path.reverse();
        Some(path)
    }
}

/// A job as a graph, and where each record of a trace of it begins and ends.
#[derive(Default)]
struct Truth {
    graph: Graph,
    /// By rank: calls and code of its thread, each a node and what it waits for before it begins.
    threads: Vec<Vec<(usize, Option<usize>, What)>>,
    /// By rank: node at whose end it begins, or its own begin; node; stream; call; collective.
    operations: Vec<Vec<Ran>>,
    collectives: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Code,
    Call,
    Wait,
}

struct Ran {
    node: usize,
    /// Of a collective: the arrival.
    arrival: Option<usize>,
    stream: usize,
    call: usize,
    collective: Option<usize>,
    waits_for_other: bool,
}

fn truth(phases: &[Phase]) -> (Truth, Vec<usize>) {
    let ranks = phases[0].0.len();
    let mut truth = Truth::default();
    let mut host: Vec<Option<usize>> = vec![None; ranks];
    let mut last: Vec<[Option<usize>; 2]> = vec![[None; 2]; ranks];
    truth.threads.resize_with(ranks, Vec::new);
    truth.operations.resize_with(ranks, Vec::new);
    let mut step = |truth: &mut Truth, rank: usize, step: &Step| match *step {
        Step::Code(long) => {
            let waits_for = host[rank].into_iter().collect();
            let node = truth
                .graph
                .add(rank, Kind::Host(IdleCause::Code), long, waits_for);
            truth.threads[rank].push((node, host[rank], What::Code));
            host[rank] = Some(node);
            node
        }
        Step::Kernel {
            stream,
            call,
            long,
            after_other,
        } => {
            let waits_for = host[rank].into_iter().collect();
            let call = truth.graph.add(rank, Kind::Call, call, waits_for);
            truth.threads[rank].push((call, host[rank], What::Call));
            host[rank] = Some(call);
            let mut waits_for = vec![call];
            waits_for.extend(last[rank][stream]);
            waits_for.extend(last[rank][1 - stream].filter(|_| after_other));
            // A negative length marks the arrival at a collective, which comes before its end.
            let (kind, own) = if long < 0 {
                (Kind::Unknown, 0)
            } else {
                (Kind::Kernel, long)
            };
            let node = truth.graph.add(rank, kind, own, waits_for);
            last[rank][stream] = Some(node);
            truth.operations[rank].push(Ran {
                node,
                arrival: None,
                stream,
                call,
                collective: None,
                waits_for_other: after_other,
            });
            node
        }
        Step::Wait(long) => {
            let mut waits_for: Vec<usize> = host[rank].into_iter().collect();
            waits_for.extend(last[rank].into_iter().flatten());
            let node = truth.graph.add(rank, Kind::Call, long, waits_for);
            truth.threads[rank].push((node, host[rank], What::Wait));
            host[rank] = Some(node);
            node
        }
    };
    let mut ends = Vec::new();
    // What follows a collective on its stream waits for its end, which all ranks have in common.
    let mut commons: Vec<(usize, usize)> = Vec::new();
    for (of_ranks, long) in phases {
        let mut arrivals = Vec::new();
        for (rank, steps) in of_ranks.iter().enumerate() {
            for one in steps {
                step(&mut truth, rank, one);
            }
            let arrives = Step::Kernel {
                stream: 1,
                call: 3,
                long: -1,
                after_other: true,
            };
            arrivals.push(step(&mut truth, rank, &arrives));
        }
        let collective = truth.collectives.len();
        // The body belongs to whichever rank the walk comes from.
        let body = truth
            .graph
            .add(usize::MAX, Kind::Collective, *long, arrivals.clone());
        for (rank, arrival) in arrivals.iter().enumerate() {
            let ran = truth.operations[rank].last_mut().unwrap();
            (ran.node, ran.arrival, ran.collective) = (body, Some(*arrival), Some(collective));
            commons.push((*arrival, body));
        }
        truth.collectives.push(arrivals);
    }
    for rank in 0..phases[0].0.len() {
        ends.push(step(&mut truth, rank, &Step::Wait(5)));
    }
    for node in &mut truth.graph.0 {
        let is_body = node.label.1 == Kind::Collective;
        for before in node.waits_for.iter_mut().filter(|_| !is_body) {
            let common = commons.iter().find(|(arrival, _)| arrival == before);
            *before = common.map_or(*before, |(_, body)| *body);
        }
    }
    (truth, ends)
}

/// The traces of a job.
struct Traces {
    timelines: Vec<Rc<RankTimeline>>,
    last_arrivals: BTreeMap<(usize, u64), LastArrival>,
}

impl Traces {
    fn of(truth: &Truth) -> Self {
        let ends = truth.graph.ends();
        let node = |number: usize| &truth.graph.0[number];
        let start = |number: usize| ends[number] - node(number).long;
        let mut traces = Self {
            timelines: Vec::new(),
            last_arrivals: BTreeMap::new(),
        };
        for (rank, of_rank) in truth.operations.iter().enumerate() {
            let mut track = Track::default();
            for &(number, before, what) in &truth.threads[rank] {
                let name = Rc::from(node(number).label.2.as_str());
                let (start, end) = (before.map_or(0, |before| ends[before]), ends[number]);
                match what {
                    What::Code => track.pieces.push(Piece {
                        start,
                        end,
                        kind: Kind::Host(IdleCause::Code),
                        name,
                        is_range: false,
                    }),
                    _ => track.calls.push(HostCall {
                        meets_ns: None,
                        start,
                        end,
                        name,
                        blocks: what == What::Wait,
                        is_held: false,
                        is_slow_launch: false,
                        stream: 0,
                    }),
                }
            }
            let mut operations = Vec::new();
            for ran in of_rank {
                let begin = start(ran.arrival.unwrap_or(ran.node));
                let launch = Launch {
                    thread: 7,
                    start: start(ran.call),
                    end: ends[ran.call],
                    stream: ran.stream as u64 + 1,
                    is_held: false,
                };
                if ran.waits_for_other {
                    track.waits_for_event(launch.stream, launch.start);
                }
                if let Some(collective) = ran.collective {
                    let arrivals = truth.collectives[collective].iter().copied();
                    let arrivals = arrivals.enumerate();
                    let last = arrivals.max_by_key(|&(rank, one)| (start(one), rank));
                    let (last_rank, last) = last.unwrap();
                    let last_arrival = LastArrival {
                        name: node(ran.node).label.2.clone(),
                        last_rank,
                        last: start(last),
                        last_start_ns: start(last).cast_unsigned(),
                        crossing: Crossing {
                            margin_ns: 1,
                            margin_uncertainty_ns: Some(0),
                            uncertainty_ns: Some(0),
                        },
                    };
                    traces
                        .last_arrivals
                        .insert((rank, begin.cast_unsigned()), last_arrival);
                }
                operations.push(Operation {
                    start: begin,
                    end: ends[ran.node],
                    start_ns: begin.cast_unsigned(),
                    device: 0,
                    queue: ran.stream,
                    name: Rc::from(node(ran.node).label.2.as_str()),
                    kind: node(ran.node).label.1,
                    launch: Some(launch),
                });
            }
            let threads = BTreeMap::from([(7, track)]);
            let timeline = RankTimeline::new(operations, threads, 1);
            traces.timelines.push(Rc::new(timeline));
        }
        traces
    }
}

impl Ranks for Traces {
    fn timeline(&mut self, rank: usize) -> Option<Rc<RankTimeline>> {
        self.timelines.get(rank).cloned()
    }

    fn last_arrival(&self, rank: usize, start_ns: u64) -> Option<LastArrival> {
        self.last_arrivals.get(&(rank, start_ns)).cloned()
    }

    fn grain_ns(&self) -> u64 {
        0
    }
}

/// Whether there is one longest path, which is what a walk has found then.
fn is_the_longest(phases: &[Phase]) -> Result<bool, TestCaseError> {
    let (truth, last_nodes) = truth(phases);
    let ends = truth.graph.ends();
    let last = last_nodes.iter().enumerate();
    let last = last.max_by_key(|&(rank, &node)| (ends[node], rank));
    let (rank, &last) = last.unwrap();
    let mut traces = Traces::of(&truth);
    let segments = walk(&mut traces, (rank, At::Thread(7)), (0, ends[last]));
    // Side by side, from the begin to the end.
    prop_assert_eq!(segments[0].start, 0);
    prop_assert_eq!(segments.last().unwrap().end, ends[last]);
    for pair in segments.windows(2) {
        prop_assert_eq!(pair[0].end, pair[1].start);
    }
    let Some(path) = truth.graph.longest(last) else {
        return Ok(false);
    };
    let expected = path.iter().map(|&node| &truth.graph.0[node]);
    let expected: Vec<_> = expected
        .map(|node| (node.label.1, node.label.2.as_str(), node.long))
        .collect();
    let found = segments.iter();
    let found: Vec<_> = found
        .map(|one| (one.kind, &*one.name, one.end - one.start))
        .collect();
    prop_assert_eq!(found, expected);
    for (segment, &node) in segments.iter().zip(&path) {
        let on = truth.graph.0[node].label.0;
        prop_assert!(on == usize::MAX || segment.rank == on);
    }
    Ok(true)
}

#[test]
fn a_walk_is_the_longest_path() {
    const CASES: u32 = 3_000;
    let unique = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let outcome = runner.run(&phases(), |phases| {
        unique.set(unique.get() + u32::from(is_the_longest(&phases)?));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(unique.get() > CASES / 2, "only {} had one", unique.get());
}
