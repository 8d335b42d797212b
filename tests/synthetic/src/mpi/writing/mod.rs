//! The trace of a rank of MPI, as `rsys-sample -I mpip` writes it.

mod requests;

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use rsys_proto::{
    Annotation, Compression, Event, Name, PacketBuffer, TraceWriter, Value, shared_flow,
};

use self::requests::Request;
use super::pen::{POLLS, Pen, Within, of_kernel, of_mpi};
use super::program::{Collective, Communicator, Kind, Message, Place, Program, Step};
use super::simulation::Happened;
use super::{Flows, MpiJob, Outcome};
use crate::random::random;

/// The functions of the program that call MPI.
const SETS_UP: Place = Place {
    function: "set_up",
    line: 21,
};
const EXCHANGES: Place = Place {
    function: "exchange",
    line: 311,
};
const LOCK: &[(&str, &str)] = &[
    ("pthread_mutex_lock", "/lib/x86_64-linux-gnu/libc.so.6"),
    ("futex", "[kernel]"),
];
const SLEEP: &[(&str, &str)] = &[
    ("clock_nanosleep", "/lib/x86_64-linux-gnu/libc.so.6"),
    ("clock_nanosleep", "[kernel]"),
];
/// The longest that others have the processor at a time.
const SLICE_NS: u64 = 3_000_000;
/// A wait in MPI that takes longer gives up the processor, where waits do.
const SPIN_NS: u64 = 50_000;

/// Writes the trace of a rank into a folder.
pub(super) fn write_rank(job: &MpiJob, outcome: &Outcome, rank: u64, folder: &Path) -> Result<()> {
    let path = folder.join(format!("perfetto-trace-{}.proto", 2000 + rank));
    let file = BufWriter::new(File::create(&path).with_context(|| path.display().to_string())?);
    let mut trace = TraceWriter::new(file, Compression::None);
    let happened = &outcome.ranks[rank as usize];
    let pen = Pen::new(job, trace.buffer(), rank, happened.init.0 - 500_000);
    let mut writer = Writer {
        job,
        program: &outcome.program,
        rank,
        pen,
        names: texts(job, &outcome.program),
        messages: HashMap::new(),
        collectives: vec![0; outcome.program.communicators.len()],
        splits: 0,
        correlation: 0,
        open: Vec::new(),
    };
    writer.write(trace.buffer(), happened);
    trace.flush()?;
    trace.finish()?;
    Ok(())
}

/// The identities of the communicators.
fn texts(job: &MpiJob, program: &Program) -> Vec<String> {
    let places = (0..).zip(&program.communicators);
    places
        .map(|(number, _)| format!("{:016x}", random([job.seed, number, 0, 0, 51]) | 1 << 60))
        .collect()
}

type Annotations<'a> = Vec<(&'static str, Value<'a>)>;

struct Writer<'w> {
    job: &'w MpiJob,
    program: &'w Program,
    rank: u64,
    pen: Pen,
    names: Vec<String>,
    /// How many messages there were to and from a rank, with a tag, in a communicator.
    messages: HashMap<(usize, u64, u64, bool), u64>,
    collectives: Vec<u64>,
    splits: usize,
    correlation: u64,
    open: Vec<Request>,
}

/// What is said of a call.
struct Told<'t> {
    name: &'static str,
    annotations: Annotations<'t>,
    /// The messages that it sends or has received.
    arrows: Vec<u64>,
    /// Of the request that it makes or waits for.
    correlation: u64,
}

impl<'w> Writer<'w> {
    fn write(&mut self, out: &mut PacketBuffer, happened: &Happened) {
        if self.job.records_all {
            self.begin_of_mpi(out, happened.init);
        }
        let program = self.program;
        let steps = program.steps[self.rank as usize].iter();
        for (step, times) in steps.zip(&happened.steps) {
            self.step(out, *step, *times);
        }
        if self.job.records_all {
            self.plain(out, "MPI_Finalize", happened.finalize);
        }
        self.pen.finish(out, happened.finalize.1 + 200_000);
    }

    /// What each program calls first.
    fn begin_of_mpi(&mut self, out: &mut PacketBuffer, times: (u64, u64)) {
        self.plain(out, "MPI_Init", times);
        for (number, name) in (0..).zip(["MPI_Comm_rank", "MPI_Comm_size"]) {
            let at_ns = times.1 + 1_000 + 800 * number;
            let told = Told {
                name,
                annotations: self.whose(0),
                arrows: Vec::new(),
                correlation: 0,
            };
            self.begin(out, at_ns, &told);
            self.pen.end_with(out, at_ns + 200, &[]);
        }
    }

    /// A call of which nothing is known but its name.
    fn plain(&mut self, out: &mut PacketBuffer, name: &'static str, times: (u64, u64)) {
        let told = Told {
            name,
            annotations: Vec::new(),
            arrows: Vec::new(),
            correlation: 0,
        };
        self.begin(out, times.0, &told);
        self.within(out, name, times, SETS_UP);
        self.pen.end_with(out, times.1, &[]);
    }

    fn step(&mut self, out: &mut PacketBuffer, step: Step, times: (u64, u64)) {
        match step {
            Step::Run {
                place,
                preempted_ns,
                ..
            } => self.run(out, place, times, preempted_ns),
            Step::Sleep { place, .. } => {
                let called = SLEEP;
                self.pen.waited(out, times, Within { place, called });
            }
            Step::Lock {
                place, is_recorded, ..
            } => self.lock(out, place, times, is_recorded),
            Step::Send(message) => {
                let (sent, arrow, _) = self.side(message, true);
                let told = self.told("MPI_Send", (Some(message), None), [sent, None], arrow, 0);
                self.call(out, &told, times);
            }
            Step::Recv(message) => {
                let (received, arrow, _) = self.side(message, false);
                let sides = (None, Some(message));
                let told = self.told("MPI_Recv", sides, [None, received], arrow, 0);
                self.call(out, &told, times);
            }
            Step::Sendrecv { sent, received } => {
                let [from, to] = [(sent, true), (received, false)]
                    .map(|(side, sends)| side.map(|message| self.side(message, sends)));
                let numbers = [&from, &to].map(|side| side.as_ref().and_then(|side| side.0));
                let arrows = [from, to].into_iter().flatten().flat_map(|side| side.1);
                let arrows = arrows.collect();
                let told = self.told("MPI_Sendrecv", (sent, received), numbers, arrows, 0);
                self.call(out, &told, times);
            }
            Step::Isend(message) => self.start(out, message, true, times),
            Step::Irecv(message) => self.start(out, message, false, times),
            Step::Wait => self.wait(out, times),
            Step::Waitall => self.waitall(out, times),
            Step::Collective(call) => self.collective(out, call, times),
        }
        self.pen.seen(out);
    }

    /// The thread computes; now and then others have its processor.
    fn run(
        &mut self,
        out: &mut PacketBuffer,
        place: Place,
        (from_ns, to_ns): (u64, u64),
        preempted_ns: u64,
    ) {
        let within = Within { place, called: &[] };
        let pieces = preempted_ns.div_ceil(SLICE_NS);
        let ran_ns = (to_ns - from_ns - preempted_ns) / (pieces + 1);
        let mut at_ns = from_ns;
        for _ in 0..pieces {
            self.pen.ran((at_ns, at_ns + ran_ns), within);
            let back_ns = at_ns + ran_ns + preempted_ns / pieces;
            self.pen.preempted(out, (at_ns + ran_ns, back_ns));
            at_ns = back_ns;
        }
        self.pen.ran((at_ns, to_ns), within);
    }

    fn lock(&mut self, out: &mut PacketBuffer, place: Place, times: (u64, u64), is_recorded: bool) {
        if is_recorded {
            let holder = format!("fill_cache ({}:77)", file_of(self.job));
            let facts = [
                ("lock", Value::Pointer(0x5555_0000_1040)),
                ("holder_tid", Value::Uint(2000 + self.rank + 100_000)),
                ("holder", Value::Interned(out.intern(&holder))),
            ];
            let annotations = facts.map(|(key, value)| Annotation::new(out.intern(key), value));
            let event = Event {
                name: Name::Interned(out.intern("pthread_mutex_lock")),
                category: Some(out.intern("mutex")),
                annotations: &annotations,
                ..Event::default()
            };
            let time = self.pen.time;
            self.pen.calls.begin(out, times.0, &event, &time);
            self.pen.end_with(out, times.1, &[]);
            self.pen.site(out, times, Within { place, called: &[] });
        }
        self.pen.waited(
            out,
            times,
            Within {
                place,
                called: LOCK,
            },
        );
    }

    fn communicator(&self, number: usize) -> &'w Communicator {
        &self.program.communicators[number]
    }

    /// Whose call it is.
    fn whose<'a>(&self, communicator: usize) -> Annotations<'a> {
        let known = self.communicator(communicator);
        vec![
            // Its text is put in where the event is written.
            ("communicator", Value::Uint(communicator as u64)),
            ("rank", Value::Uint(known.number(self.rank))),
            ("ranks", Value::Uint(known.members.len() as u64)),
        ]
    }

    /// The number of a message, its arrow, and its other end in the communicator.
    fn side(&mut self, message: Message, sends: bool) -> (Option<u64>, Vec<u64>, u64) {
        let communicator = self.communicator(message.communicator);
        let (own, peer) = (
            communicator.number(self.rank),
            communicator.number(message.peer),
        );
        let key = (message.communicator, peer, message.tag, sends);
        let count = self.messages.entry(key).or_default();
        let number = *count;
        *count += 1;
        let ends = if sends { [own, peer] } else { [peer, own] };
        let place = [self.job.seed, ends[0], ends[1], message.tag, number];
        let any = random(place);
        // One side at most does not know it: mostly the one that receives.
        let is_known = any % 1000 >= self.job.unnumbered || (any / 1000).is_multiple_of(8) != sends;
        if !is_known {
            return (None, Vec::new(), peer);
        }
        let text = self.names[message.communicator].as_bytes();
        let arrow = shared_flow(text, &[ends[0], ends[1], message.tag, number]);
        (Some(number), vec![arrow], peer)
    }

    /// What is said of a call that sends a message, receives one, or both.
    fn told(
        &self,
        name: &'static str,
        (sent, received): (Option<Message>, Option<Message>),
        [sent_number, received_number]: [Option<u64>; 2],
        arrows: Vec<u64>,
        correlation: u64,
    ) -> Told<'static> {
        let Some(any) = sent.or(received) else {
            let annotations = Vec::new();
            return Told {
                name,
                annotations,
                arrows,
                correlation,
            };
        };
        let communicator = self.communicator(any.communicator);
        let peer = |message: Message| Value::Uint(communicator.number(message.peer));
        let does_both = name == "MPI_Sendrecv";
        let mut annotations = self.whose(any.communicator);
        annotations.extend(sent_number.map(|number| ("message", Value::Uint(number))));
        if let Some(number) = received_number {
            annotations.push(("received_message", Value::Uint(number)));
            if does_both {
                annotations.push(("received_tag", Value::Uint(any.tag)));
            }
        }
        let first = if does_both { sent } else { Some(any) };
        annotations.extend(first.map(|message| ("peer", peer(message))));
        if let Some(message) = received.filter(|_| does_both) {
            annotations.push(("source", peer(message)));
        }
        annotations.push(("tag", Value::Uint(any.tag)));
        annotations.extend(volume(any.bytes));
        if does_both && received.is_some() && sent.is_some() {
            annotations.push(("received_bytes", Value::Uint(any.bytes)));
        }
        Told {
            name,
            annotations,
            arrows,
            correlation,
        }
    }

    /// A call begins.
    fn begin(&mut self, out: &mut PacketBuffer, at_ns: u64, told: &Told<'_>) {
        let annotations = self.annotations(out, told);
        let flows = self.flows(told);
        let event = Event {
            name: Name::Interned(out.intern(told.name)),
            category: Some(out.intern("mpi")),
            flows: &flows,
            annotations: &annotations,
            ..Event::default()
        };
        let time = self.pen.time;
        self.pen.calls.begin(out, at_ns, &event, &time);
    }

    fn flows(&self, told: &Told<'_>) -> Vec<u64> {
        if self.job.flows == Flows::Numbers {
            return Vec::new();
        }
        let mut flows = told.arrows.clone();
        if told.correlation != 0 {
            flows.push(self.pen.ids.flow(told.correlation));
        }
        flows
    }

    fn annotations<'a>(&self, out: &mut PacketBuffer, told: &Told<'a>) -> Vec<Annotation<'a>> {
        let mut annotations = Vec::new();
        for (key, value) in &told.annotations {
            let value = match (*key, *value) {
                ("communicator", Value::Uint(number)) => {
                    Value::Interned(out.intern(&self.names[number as usize]))
                }
                // Texts come again and again.
                (_, Value::Text(text)) => Value::Interned(out.intern(text)),
                (_, value) => value,
            };
            annotations.push(Annotation::new(out.intern(key), value));
        }
        if told.correlation != 0 && self.job.flows != Flows::Arrows {
            let number = Value::Uint(told.correlation);
            annotations.push(Annotation::new(out.intern("correlation"), number));
        }
        annotations
    }

    /// A call of which all is known when it begins.
    fn call(&mut self, out: &mut PacketBuffer, told: &Told<'_>, times: (u64, u64)) {
        self.begin(out, times.0, told);
        self.within(out, told.name, times, EXCHANGES);
        self.pen.end_with(out, times.1, &[]);
    }

    /// The thread is in a call: it polls, or after a while gives up the processor.
    fn within(
        &mut self,
        out: &mut PacketBuffer,
        name: &'static str,
        (from_ns, to_ns): (u64, u64),
        place: Place,
    ) {
        let polls = [of_mpi(name), POLLS];
        let called = &polls;
        let spins_ns = match self.job.blocks {
            true if to_ns - from_ns > SPIN_NS => from_ns + SPIN_NS,
            _ => to_ns,
        };
        self.pen.ran((from_ns, spins_ns), Within { place, called });
        if spins_ns < to_ns {
            let blocks = [of_mpi(name), POLLS, of_kernel("poll")];
            let called = &blocks;
            self.pen
                .waited(out, (spins_ns, to_ns), Within { place, called });
        }
    }

    fn collective(&mut self, out: &mut PacketBuffer, call: Collective, times: (u64, u64)) {
        let communicator = self.communicator(call.communicator);
        let mut annotations = self.whose(call.communicator);
        if call.kind == Kind::Split {
            annotations.push(("color", Value::Uint(self.color())));
        } else {
            let count = &mut self.collectives[call.communicator];
            annotations.push(("sequence", Value::Uint(*count)));
            *count += 1;
            if call.kind.is_rooted() {
                annotations.push(("root", Value::Uint(communicator.number(call.root))));
            }
            annotations.push(("blocking", Value::Bool(true)));
            if call.kind != Kind::Barrier {
                annotations.extend(volume(call.bytes));
                annotations.extend(self.moved(call));
            }
        }
        let told = Told {
            name: call.kind.name(),
            annotations,
            arrows: Vec::new(),
            correlation: 0,
        };
        let place = match call.kind {
            Kind::Split => SETS_UP,
            _ => EXCHANGES,
        };
        self.begin(out, times.0, &told);
        self.within(out, told.name, times, place);
        self.pen.end_with(out, times.1, &[]);
    }

    /// Which of the new communicators the rank is in.
    fn color(&mut self) -> u64 {
        self.splits += 1;
        let communicators = self.program.communicators.iter().zip(0..).skip(1);
        let own = communicators.filter(|(one, _)| one.members.contains(&self.rank));
        let mut own = own.map(|(_, number)| number);
        own.nth(self.splits - 1).unwrap_or(0)
    }

    /// What a collective gives to other ranks and gets from them, where that is not `bytes`.
    fn moved(&self, call: Collective) -> Annotations<'static> {
        let ranks = self.communicator(call.communicator).members.len() as u64;
        let all = call.bytes * ranks;
        let is_root = call.root == self.rank;
        let (sent, received) = match (call.kind, is_root) {
            (Kind::Allgather, _) => (0, all),
            (Kind::Alltoall, _) => (all, all),
            (Kind::Gather, true) => (0, all),
            (Kind::Scatter, true) => (all, 0),
            _ => (0, 0),
        };
        let moved = [("sent_bytes", sent), ("received_bytes", received)];
        let moved = moved.into_iter();
        moved
            .filter(|(_, bytes)| *bytes > 0 && *bytes != call.bytes)
            .map(|(key, bytes)| (key, Value::Uint(bytes)))
            .collect()
    }
}

/// What is said of data: all of it is numbers of eight bytes.
fn volume(bytes: u64) -> Annotations<'static> {
    let (name, size) = if bytes.is_multiple_of(8) {
        ("MPI_DOUBLE", 8)
    } else {
        ("MPI_INT", 4)
    };
    vec![
        ("count", Value::Uint(bytes / size)),
        ("datatype", Value::Text(name)),
        ("type_bytes", Value::Uint(size)),
        ("bytes", Value::Uint(bytes)),
    ]
}

fn file_of(job: &MpiJob) -> &'static str {
    if job.is_python {
        "job.py"
    } else {
        "solver.cpp"
    }
}
