//! When each call begins and ends.
//!
//! Each rank goes on until it waits for another one; who gives what it waits for wakes it. What is found does not depend on the order, for
//! receives name their sender.

use std::collections::HashMap;

use super::MpiJob;
use super::collective::Meeting;
use super::patterns::program;
use super::program::{Collective, Message, Program, Step};
use crate::random::random;

/// Standard sends of more wait for their receiver.
pub(crate) const EAGER_BYTES: u64 = 65_536;
/// What a call takes at least.
pub(crate) const OVERHEAD_NS: u64 = 400;

/// How long it takes to move so many bytes.
pub(crate) fn copy_ns(bytes: u64) -> u64 {
    bytes / 10
}

/// What has happened on each rank.
#[derive(Debug)]
pub struct Outcome {
    pub(crate) program: Program,
    pub(crate) ranks: Vec<Happened>,
}

/// What has happened on a rank, in true time.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// `MPI_Init`.
    pub(crate) init: (u64, u64),
    /// Begin and end of each step.
    pub(crate) steps: Vec<(u64, u64)>,
    /// `MPI_Finalize`.
    pub(crate) finalize: (u64, u64),
}

impl Outcome {
    /// Nanoseconds of true time from the begin of the first call by which ranks wait for each other to the end of the last one.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        let calls = self.calls();
        let begins = calls.clone().map(|(start_ns, _)| start_ns);
        let ends = calls.map(|(_, end_ns)| end_ns);
        ends.max().unwrap_or(0) - begins.min().unwrap_or(0)
    }

    /// The same from the begin of the first `MPI_Init`.
    #[must_use]
    pub fn with_init_ns(&self) -> u64 {
        let begins = self.ranks.iter().map(|rank| rank.init.0);
        let ends = self.calls().map(|(_, end_ns)| end_ns);
        ends.max().unwrap_or(0) - begins.min().unwrap_or(0)
    }

    /// Nanoseconds that all ranks together spend in calls by which they wait for each other.
    #[must_use]
    pub fn in_calls_ns(&self) -> u64 {
        self.calls()
            .map(|(start_ns, end_ns)| end_ns - start_ns)
            .sum()
    }

    /// What each rank did from the end of `MPI_Init` to the start of `MPI_Finalize`, in nanoseconds of true time: how long that was, and how much of it in MPI.
    #[must_use]
    pub fn times_of_ranks(&self) -> Vec<(u64, u64)> {
        let ranks = self.program.steps.iter().zip(&self.ranks);
        let times = ranks.map(|(steps, happened)| {
            let calls = steps.iter().zip(&happened.steps);
            let calls = calls.filter(|(step, _)| step.is_call());
            let in_mpi_ns = calls.map(|(_, (start_ns, end_ns))| end_ns - start_ns).sum();
            (happened.finalize.0 - happened.init.1, in_mpi_ns)
        });
        times.collect()
    }

    fn calls(&self) -> impl Iterator<Item = (u64, u64)> + Clone + '_ {
        let ranks = self.program.steps.iter().zip(&self.ranks);
        let steps = ranks.flat_map(|(steps, happened)| steps.iter().zip(&happened.steps));
        let calls = steps.filter(|(step, _)| step.communicates());
        calls.map(|(_, times)| *times)
    }
}

/// Runs a job.
///
/// # Panics
/// When its ranks wait for each other for ever.
#[must_use]
pub fn simulate(job: &MpiJob) -> Outcome {
    let program = program(job);
    let mut engine = Engine::new(job, &program);
    engine.run();
    let ranks = engine.finish();
    Outcome { program, ranks }
}

/// Communicator, sender, receiver and tag.
type Route = (usize, u64, u64, u64);

/// A message that was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at_ns: u64,
    bytes: u64,
}

/// A receive that was begun.
#[derive(Debug, Clone, Copy)]
struct Received {
    at_ns: u64,
    /// When the receiver began to wait in MPI, so that messages go on.
    waits_ns: Option<u64>,
}

/// All messages of a route.
#[derive(Debug, Default)]
struct Channel {
    sent: Vec<Sent>,
    received: Vec<Received>,
    waiting: Vec<usize>,
}

/// One end of a message that goes on.
#[derive(Debug, Clone, Copy)]
struct Request {
    route: Route,
    number: usize,
    is_send: bool,
}

/// A collective to which ranks come.
#[derive(Debug)]
struct Arrivals {
    came_ns: Vec<u64>,
    missing: usize,
    left_ns: Vec<u64>,
}

#[derive(Debug, Default)]
struct Rank {
    now_ns: u64,
    happened: Happened,
    /// When the call began that the rank is in, and the ends of messages that it waits for.
    call: Option<(u64, Vec<Request>)>,
    open: Vec<Request>,
    collectives: HashMap<usize, u64>,
}

struct Engine<'e> {
    job: &'e MpiJob,
    program: &'e Program,
    ranks: Vec<Rank>,
    channels: HashMap<Route, Channel>,
    meetings: HashMap<(usize, u64), Arrivals>,
    ready: Vec<usize>,
}

impl<'e> Engine<'e> {
    fn new(job: &'e MpiJob, program: &'e Program) -> Self {
        let start_ns = |rank| 1_000_000 + random([job.seed, rank, 0, 0, 7]) % 20_000_000;
        let last_ns = (0..job.ranks).map(start_ns).max().unwrap_or(0);
        let ranks = (0..job.ranks).map(|rank| {
            let end_ns = last_ns + 5_000_000 + random([job.seed, rank, 0, 0, 8]) % 40_000;
            let mut state = Rank {
                now_ns: end_ns + 5_000,
                ..Rank::default()
            };
            state.happened.init = (start_ns(rank), end_ns);
            state
        });
        Self {
            job,
            program,
            ranks: ranks.collect(),
            channels: HashMap::new(),
            meetings: HashMap::new(),
            ready: (0..job.ranks as usize).rev().collect(),
        }
    }

    fn run(&mut self) {
        while let Some(rank) = self.ready.pop() {
            while self.step(rank) {}
        }
    }

    fn finish(self) -> Vec<Happened> {
        for (rank, steps) in self.ranks.iter().zip(&self.program.steps) {
            let are_done = rank.happened.steps.len() == steps.len();
            assert!(are_done, "a rank waits for ever: {:?}", self.job);
        }
        let last_ns = self.ranks.iter().map(|rank| rank.now_ns).max();
        let end_ns = last_ns.unwrap_or(0) + 1_000_000;
        let ranks = self.ranks.into_iter();
        let ranks = ranks.map(|mut rank| {
            rank.happened.finalize = (rank.now_ns + 2_000, end_ns);
            rank.happened
        });
        ranks.collect()
    }

    /// Goes on with a rank; whether it can go on after that.
    fn step(&mut self, rank: usize) -> bool {
        let state = &mut self.ranks[rank];
        let now_ns = state.now_ns;
        let Some(step) = self.program.steps[rank].get(state.happened.steps.len()) else {
            return false;
        };
        let end_ns = match *step {
            Step::Run { ns, .. } | Step::Sleep { ns, .. } | Step::Lock { ns, .. } => {
                state.happened.steps.push((now_ns, now_ns + ns));
                state.now_ns = now_ns + ns;
                return true;
            }
            Step::Collective(call) => self.collective(rank, call),
            _ => {
                if self.ranks[rank].call.is_none() {
                    let waits_for = self.begin(rank, *step);
                    self.ranks[rank].call = Some((self.begins_ns(rank), waits_for));
                }
                self.end_of_messages(rank)
            }
        };
        let (Some(end_ns), Some((start_ns, _))) = (end_ns, &self.ranks[rank].call) else {
            return false;
        };
        let times = (*start_ns, end_ns);
        let state = &mut self.ranks[rank];
        state.call = None;
        state.happened.steps.push(times);
        state.now_ns = end_ns;
        true
    }

    /// When the call of a rank begins that is next: the program does a little between two calls.
    fn begins_ns(&self, rank: usize) -> u64 {
        let state = &self.ranks[rank];
        let number = state.happened.steps.len() as u64;
        state.now_ns + 150 + random([self.job.seed, rank as u64, number, 0, 31]) % 250
    }

    /// A call of messages begins. Returns the ends that it waits for.
    fn begin(&mut self, rank: usize, step: Step) -> Vec<Request> {
        let at_ns = self.begins_ns(rank);
        let mut waits_for = Vec::new();
        match step {
            Step::Send(message) => waits_for.push(self.send(rank, message, at_ns)),
            Step::Recv(message) => waits_for.push(self.receive(rank, message, at_ns, true)),
            Step::Sendrecv { sent, received } => {
                waits_for.extend(sent.map(|message| self.send(rank, message, at_ns)));
                let received = received.map(|message| self.receive(rank, message, at_ns, true));
                waits_for.extend(received);
            }
            Step::Isend(message) => {
                let request = self.send(rank, message, at_ns);
                self.ranks[rank].open.push(request);
                return waits_for;
            }
            Step::Irecv(message) => {
                let request = self.receive(rank, message, at_ns, false);
                self.ranks[rank].open.push(request);
                return waits_for;
            }
            Step::Wait => waits_for.push(self.ranks[rank].open.remove(0)),
            Step::Waitall => waits_for.append(&mut self.ranks[rank].open),
            _ => {}
        }
        let also = waits_for.clone();
        self.waits(rank, &also, at_ns);
        waits_for
    }

    fn send(&mut self, rank: usize, message: Message, at_ns: u64) -> Request {
        let route = (message.communicator, rank as u64, message.peer, message.tag);
        let channel = self.channels.entry(route).or_default();
        let bytes = message.bytes;
        channel.sent.push(Sent { at_ns, bytes });
        self.ready.append(&mut channel.waiting);
        Request {
            route,
            number: channel.sent.len() - 1,
            is_send: true,
        }
    }

    fn receive(&mut self, rank: usize, message: Message, at_ns: u64, waits: bool) -> Request {
        let route = (message.communicator, message.peer, rank as u64, message.tag);
        let channel = self.channels.entry(route).or_default();
        let waits_ns = waits.then_some(at_ns);
        channel.received.push(Received { at_ns, waits_ns });
        self.ready.append(&mut channel.waiting);
        Request {
            route,
            number: channel.received.len() - 1,
            is_send: false,
        }
    }

    /// A rank waits in MPI: all messages that it receives go on.
    fn waits(&mut self, rank: usize, also: &[Request], at_ns: u64) {
        let open = self.ranks[rank].open.iter().chain(also);
        let requests = open.filter(|request| !request.is_send);
        for request in requests {
            let Some(channel) = self.channels.get_mut(&request.route) else {
                continue;
            };
            let received = &mut channel.received[request.number];
            if received.waits_ns.is_none() {
                received.waits_ns = Some(at_ns);
                self.ready.append(&mut channel.waiting);
            }
        }
    }

    /// When the call ends that a rank is in; `None` while that is not known.
    fn end_of_messages(&mut self, rank: usize) -> Option<u64> {
        let (start_ns, requests) = self.ranks[rank].call.clone()?;
        let mut end_ns = start_ns + OVERHEAD_NS;
        for request in requests {
            match self.end(request) {
                Some(done_ns) => end_ns = end_ns.max(done_ns) + OVERHEAD_NS / 2,
                None => {
                    let channel = self.channels.entry(request.route).or_default();
                    channel.waiting.push(rank);
                    return None;
                }
            }
        }
        Some(end_ns)
    }

    /// When an end of a message is done, if that is known.
    fn end(&self, request: Request) -> Option<u64> {
        let channel = self.channels.get(&request.route)?;
        let sent = channel.sent.get(request.number)?;
        let (_, from, to, tag) = request.route;
        let latency = self.latency((from, to), request.number as u64 * 64 + tag);
        let copy_ns = copy_ns(sent.bytes);
        if sent.bytes <= EAGER_BYTES {
            let gone_ns = sent.at_ns + OVERHEAD_NS + copy_ns;
            return Some(if request.is_send {
                gone_ns
            } else {
                gone_ns + latency
            });
        }
        let received = channel.received.get(request.number)?;
        let asked_ns = sent.at_ns + OVERHEAD_NS + latency;
        let engaged_ns = if self.job.progresses_alone || asked_ns <= received.at_ns {
            received.at_ns
        } else {
            received.waits_ns?
        };
        let end_ns = asked_ns.max(engaged_ns) + latency + copy_ns;
        Some(if request.is_send {
            end_ns + latency / 2
        } else {
            end_ns
        })
    }

    /// The latency of a message between two ranks.
    fn latency(&self, (from, to): (u64, u64), number: u64) -> u64 {
        let job = self.job;
        let any = random([job.seed, from, to, number, 41]);
        if job.host(from) == job.host(to) {
            return 1_000 + any % 1_000;
        }
        let pair = random([job.seed, job.host(from), job.host(to), 0, 42]);
        let rare_ns = if any.is_multiple_of(500) { 12_000 } else { 0 };
        5_000 + pair % 6_000 + any % 7_000 + rare_ns
    }

    /// A rank is in a collective; when it leaves, if that is known.
    fn collective(&mut self, rank: usize, call: Collective) -> Option<u64> {
        let communicator = &self.program.communicators[call.communicator];
        let own = communicator.number(rank as u64) as usize;
        if self.ranks[rank].call.is_none() {
            let at_ns = self.begins_ns(rank);
            self.waits(rank, &[], at_ns);
            self.ranks[rank].call = Some((at_ns, Vec::new()));
            let count = communicator.members.len();
            let sequence = self.sequence(rank, call, true);
            let key = (call.communicator, sequence);
            let meeting = self.meetings.entry(key).or_insert_with(|| Arrivals {
                came_ns: vec![0; count],
                missing: count,
                left_ns: Vec::new(),
            });
            meeting.came_ns[own] = at_ns;
            meeting.missing -= 1;
            if meeting.missing == 0 {
                self.meet(call, sequence);
                let members = communicator.members.iter();
                let others = members.filter(|member| **member != rank as u64);
                self.ready.extend(others.map(|member| *member as usize));
            }
        }
        let sequence = self.sequence(rank, call, false);
        let meeting = self.meetings.get(&(call.communicator, sequence))?;
        meeting.left_ns.get(own).copied()
    }

    /// The number of the collective that a rank is in.
    fn sequence(&mut self, rank: usize, call: Collective, is_next: bool) -> u64 {
        let counts = &mut self.ranks[rank].collectives;
        let count = counts.entry(call.communicator).or_default();
        *count += u64::from(is_next);
        *count
    }

    fn meet(&mut self, call: Collective, sequence: u64) {
        let communicator = &self.program.communicators[call.communicator];
        let key = (call.communicator, sequence);
        let came_ns = self.meetings[&key].came_ns.clone();
        let latency = |from: usize, to: usize| {
            let pair = (communicator.members[from], communicator.members[to]);
            self.latency(pair, 1_000_000 + sequence)
        };
        let meeting = Meeting {
            kind: call.kind,
            came_ns: &came_ns,
            root: communicator.number(call.root) as usize % came_ns.len(),
            bytes: call.bytes,
            latency: &latency,
        };
        let left_ns = meeting.left_ns();
        if let Some(meeting) = self.meetings.get_mut(&key) {
            meeting.left_ns = left_ns;
        }
    }
}
