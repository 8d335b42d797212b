//! The calls of MPI of one process, while its file is read.

use std::collections::HashMap;

use crate::measure::job::operation::Operation;
use rsys_traces::model::{Batch, Completion, Joint, MessageEnd, Model, MpiCall, TextId, entry};

/// Calls that are kept of a process, the first ones: some 80 MB.
const OF_PROCESS: usize = 1 << 20;
/// Calls that move nothing and are shorter are part of the program's own work.
const SHORT_NS: u64 = 10_000;

/// What a call does, as far as other ranks are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    /// Sends, receives, or both; or begins that.
    #[default]
    Message,
    /// A collective that no rank ends before all have begun it.
    All,
    /// The same, a barrier.
    Barrier,
    /// A collective in which one rank gives to the others.
    FromRoot,
    /// One in which one rank gets from the others.
    ToRoot,
    /// One in which each rank gets from those before it.
    Scan,
    /// A collective without a number in which all may wait for all.
    Joint,
    /// Begins a request that was made before.
    Start,
    /// Waits for requests.
    Wait,
    /// May wait for other ranks; the call does not say for which.
    Unknown,
}

impl Role {
    /// By the name of the function.
    fn of(name: &str) -> Self {
        let plain = name.strip_prefix("MPI_").unwrap_or(name);
        let lower = plain.to_ascii_lowercase();
        match lower.strip_prefix('i').unwrap_or(&lower) {
            "bcast" | "scatter" | "scatterv" => Self::FromRoot,
            "reduce" | "gather" | "gatherv" => Self::ToRoot,
            "scan" | "exscan" => Self::Scan,
            "allgatherv" | "reduce_scatter" | "alltoallw" => Self::All,
            "wait" | "waitall" | "waitany" | "waitsome" => Self::Wait,
            "start" | "startall" => Self::Start,
            _ => match Operation::of(name) {
                Operation::Barrier => Self::Barrier,
                operation if operation.is_mutual() => Self::All,
                _ => Self::Message,
            },
        }
    }
}

/// Start-up and end of a rank: no part of what ranks wait for.
const OUTSIDE: [&str; 5] = [
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Session_init",
    "MPI_Finalize",
    "MPI_Session_finalize",
];

/// Functions of which the arguments do not say for whom they wait.
const UNKNOWN: [&str; 15] = [
    "MPI_Probe",
    "MPI_Mprobe",
    "MPI_Mrecv",
    "MPI_Comm_create_group",
    "MPI_Comm_disconnect",
    "MPI_Comm_free",
    "MPI_Intercomm_create",
    "MPI_Intercomm_merge",
    "MPI_Win_wait",
    "MPI_Win_start",
    "MPI_Win_complete",
    "MPI_Win_lock",
    "MPI_Win_unlock",
    "MPI_Win_unlock_all",
    "MPI_Win_flush",
];

/// A call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RankCall {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The request that it makes; 0: none.
    pub(super) request: u64,
    /// Among the names of the process.
    pub(super) name: u32,
    pub(super) communicator: u32,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    /// [`NONE`]: no collective, or it has no root.
    pub(super) sequence: u32,
    pub(super) root: u32,
    pub(super) sends: Option<End>,
    pub(super) receives: Option<End>,
    pub(super) role: Role,
    /// The requests that it completes: where they begin among those of its thread, and how many there are.
    pub(super) completes: (u32, u32),
    /// It sends or receives a message that has no number.
    pub(super) is_unnumbered: bool,
}

/// In place of a number that a call does not have.
pub(super) const NONE: u32 = u32::MAX;

/// One side of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) peer: u32,
    pub(super) tag: u32,
    pub(super) number: u32,
}

impl End {
    fn of(end: MessageEnd) -> Option<Self> {
        Some(Self {
            peer: end.peer.try_into().ok()?,
            tag: end.tag.try_into().ok()?,
            number: end.number.try_into().ok()?,
        })
    }
}

/// The calls of a thread, in the order of their begins.
#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub(super) calls: Vec<RankCall>,
    pub(super) requests: Vec<u64>,
}

/// The calls of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    /// Functions and communicators.
    pub(super) names: Vec<String>,
    /// By thread, without those that made no call.
    pub(super) threads: Vec<Thread>,
    /// How often it asked by `MPI_Test` and its like whether requests are done, and how long it did that.
    pub(super) tested: (u64, u64),
    /// Calls that were not kept because there were too many.
    pub(super) left_out: u64,
}

impl Calls {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// How many calls are kept.
    pub(super) fn len(&self) -> usize {
        self.threads.iter().map(|thread| thread.calls.len()).sum()
    }

    /// How many messages there are, and collectives with a root, without a number, or that return before they are done: by these, ranks wait for each other in more ways than in
    /// collectives of all alike.
    pub(crate) fn messages(&self) -> u64 {
        let calls = self.threads.iter().flat_map(|thread| &thread.calls);
        let messages = calls.filter(|call| match call.role {
            Role::Message => call.sends.is_some() || call.receives.is_some(),
            Role::FromRoot | Role::ToRoot | Role::Scan | Role::Joint => true,
            Role::All | Role::Barrier => call.request != 0,
            Role::Wait | Role::Unknown | Role::Start => false,
        });
        messages.count() as u64
    }

    /// Keeps the first calls of each thread only.
    pub(super) fn truncate(&mut self, most: usize) {
        let most = most / self.threads.len().max(1);
        for thread in &mut self.threads {
            let more = thread.calls.len().saturating_sub(most);
            self.left_out += more as u64;
            thread.calls.truncate(most);
        }
    }
}

/// What is read of a process.
#[derive(Debug, Default)]
struct ProcessRecords {
    /// By thread.
    threads: Vec<ThreadRecords>,
    kept: usize,
    left_out: u64,
}

#[derive(Debug, Default)]
struct ThreadRecords {
    calls: Vec<MpiCall>,
    completions: Vec<Completion>,
    /// How often it asked whether requests are done, from where one time of that followed the other at once for how long, and when the last one ended.
    tests: u64,
    tested_ns: u64,
    tested_until_ns: u64,
}

/// Between two times of asking whether a request is done a thread that waits does nothing else for so long.
const ASKS_AGAIN_NS: u64 = 1_000_000;

impl ThreadRecords {
    fn tests(&mut self, call: &MpiCall) {
        if self.tests == 0 {
            self.tested_until_ns = call.start_ns;
        }
        let pause_ns = call.start_ns.saturating_sub(self.tested_until_ns);
        self.tests += 1;
        self.tested_ns += match pause_ns {
            ..ASKS_AGAIN_NS => call.end_ns.saturating_sub(self.tested_until_ns),
            _ => call.end_ns - call.start_ns,
        };
        self.tested_until_ns = self.tested_until_ns.max(call.end_ns);
    }
}

/// The calls of the processes of a file.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    processes: Vec<ProcessRecords>,
    /// What functions do, by the ids of their names.
    roles: HashMap<TextId, Role>,
}

impl Recorder {
    pub(crate) fn take(&mut self, batch: &Batch) {
        for call in &batch.mpi {
            let process = entry(&mut self.processes, call.process.index());
            if call.is_test {
                entry(&mut process.threads, call.thread.index()).tests(call);
                continue;
            }
            let is_about = call.sends.is_some()
                || call.receives.is_some()
                || call.sequence.is_some()
                || call.joint.is_some()
                || call.request != 0;
            if !is_about && call.end_ns - call.start_ns < SHORT_NS {
                continue;
            }
            if process.kept == OF_PROCESS {
                process.left_out += 1;
                continue;
            }
            process.kept += 1;
            let thread = entry(&mut process.threads, call.thread.index());
            thread.calls.push(*call);
        }
        for done in batch.completions.iter().filter(|done| done.request != 0) {
            let process = entry(&mut self.processes, done.process.index());
            let thread = entry(&mut process.threads, done.thread.index());
            thread.completions.push(*done);
        }
    }

    /// All was read: the calls of each process of a model, at its place.
    pub(crate) fn finish(&mut self, model: &Model) -> Vec<Calls> {
        let mut processes = std::mem::take(&mut self.processes);
        processes.resize_with(model.processes.len(), ProcessRecords::default);
        let processes = processes.into_iter();
        processes
            .map(|process| process.finish(model, &mut self.roles))
            .collect()
    }
}

/// Whether a function sends or receives.
fn is_message(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("send") || name.contains("recv")
}

/// A communicator: its name, the rank of the process in it, and how many ranks it has.
type Whose = (TextId, Option<u64>, Option<u64>);

/// Collectives of a process that have no number: all ranks of a communicator call them in the same order, which numbers those of each function.
#[derive(Debug, Default)]
struct Order {
    numbers: HashMap<(TextId, TextId), u64>,
    /// The communicators of windows and of files, where all of the process have the same one.
    windows: Option<Whose>,
    files: Option<Whose>,
}

impl Order {
    fn new(threads: &[ThreadRecords]) -> Self {
        let all = || threads.iter().flat_map(|thread| &thread.calls);
        let only = |joint| {
            let makers = all().filter(|call| call.joint == Some(joint));
            let mut whose = makers.map(|call| (call.communicator, call.rank, call.ranks));
            let first = whose.next()?;
            whose.all(|other| other == first).then_some(first)
        };
        Self {
            numbers: HashMap::new(),
            windows: only(Joint::MakesWindow),
            files: only(Joint::OpensFile),
        }
    }

    /// The call with its communicator and number, if these are known.
    fn of(&mut self, call: &MpiCall, joint: Joint) -> (MpiCall, Role) {
        let whose = match joint {
            Joint::Communicator | Joint::MakesWindow | Joint::OpensFile => {
                Some((call.communicator, call.rank, call.ranks))
            }
            Joint::Window => self.windows,
            Joint::File => self.files,
        };
        let known = whose.filter(|whose| whose.0 != TextId::EMPTY);
        let Some((communicator, rank, ranks)) = known else {
            return (*call, Role::Unknown);
        };
        let next = self.numbers.entry((communicator, call.name)).or_default();
        let sequence = Some(*next);
        *next += 1;
        let call = MpiCall {
            communicator,
            rank,
            ranks,
            sequence,
            ..*call
        };
        (call, Role::Joint)
    }
}

impl ProcessRecords {
    fn finish(self, model: &Model, roles: &mut HashMap<TextId, Role>) -> Calls {
        let mut names: Vec<String> = Vec::new();
        let mut places: HashMap<TextId, u32> = HashMap::new();
        let mut place = |text: TextId| {
            *places.entry(text).or_insert_with(|| {
                names.push(model.text(text).to_owned());
                names.len() as u32 - 1
            })
        };
        let mut order = Order::new(&self.threads);
        let mut tested = (0, 0);
        let mut threads = Vec::new();
        for mut of_thread in self.threads {
            of_thread
                .calls
                .sort_by_key(|call| (call.start_ns, call.end_ns));
            of_thread.completions.sort_by_key(|done| done.time_ns);
            tested.0 += of_thread.tests;
            tested.1 += of_thread.tested_ns;
            let mut completions = of_thread.completions.iter().peekable();
            let mut thread = Thread::default();
            for call in &of_thread.calls {
                let name = model.text(call.name);
                if OUTSIDE.contains(&name) {
                    continue;
                }
                let (call, role) = match call.joint {
                    Some(joint) => order.of(call, joint),
                    None if UNKNOWN.contains(&name) => (*call, Role::Unknown),
                    None => {
                        let role = roles.entry(call.name).or_insert_with(|| Role::of(name));
                        (*call, *role)
                    }
                };
                let first = thread.requests.len();
                while completions
                    .next_if(|done| done.time_ns < call.start_ns)
                    .is_some()
                {}
                if role == Role::Wait {
                    thread
                        .requests
                        .extend((call.request != 0).then_some(call.request));
                    while let Some(done) = completions.next_if(|done| done.time_ns <= call.end_ns) {
                        thread.requests.push(done.request);
                    }
                }
                let number = |value: Option<u64>| {
                    value
                        .and_then(|value| u32::try_from(value).ok())
                        .unwrap_or(NONE)
                };
                thread.calls.push(RankCall {
                    start_ns: call.start_ns,
                    end_ns: call.end_ns,
                    request: if role == Role::Wait { 0 } else { call.request },
                    name: place(call.name),
                    communicator: place(call.communicator),
                    rank: number(call.rank),
                    ranks: number(call.ranks),
                    sequence: number(call.sequence),
                    root: number(call.root),
                    sends: call.sends.and_then(End::of),
                    receives: call.receives.and_then(End::of),
                    role,
                    completes: (first as u32, (thread.requests.len() - first) as u32),
                    is_unnumbered: role == Role::Message
                        && call.sends.is_none()
                        && call.receives.is_none()
                        && is_message(name),
                });
            }
            if !thread.calls.is_empty() {
                threads.push(thread);
            }
        }
        Calls {
            names,
            threads,
            tested,
            left_out: self.left_out,
        }
    }
}
