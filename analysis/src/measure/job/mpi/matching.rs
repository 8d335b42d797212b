//! Calls of MPI matched over ranks: which calls of others each call depends on.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::calls::{Calls, End, NONE, RankCall, Role};
use rsys_traces::model::ProcessId;

/// Calls of all ranks that are compared, the first ones of each: some 250 MB.
const CALLS: usize = 1 << 21;

/// The calls of a process, and where it ran.
#[derive(Debug)]
pub(crate) struct PlacedCalls {
    pub(crate) process: ProcessId,
    pub(crate) host: usize,
    /// Tells copies of a job apart.
    pub(crate) folder: usize,
    pub(crate) calls: Calls,
}

/// How a call waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A receiver waits for the sender.
    LateSender,
    /// A sender waits for the receiver.
    LateReceiver,
    /// All wait for all.
    All,
    /// The same in a barrier.
    Barrier,
    /// The others wait for the root.
    LateRoot,
    /// The root waits for the others.
    AtRoot,
    /// A rank waits for those before it.
    Scan,
    /// Ranks pass on what the root gives or gets, and wait for each other.
    Relay,
    /// All wait for all in what is not compared by its arrivals: it has no number, or returned before it was done.
    Joint,
}

impl Kind {
    /// As the answer has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::LateSender => "late_sender",
            Self::LateReceiver => "late_receiver",
            Self::All | Self::Joint => "all",
            Self::Barrier => "barrier",
            Self::LateRoot => "late_root",
            Self::AtRoot => "at_root",
            Self::Scan => "scan",
            Self::Relay => "relay",
        }
    }

    /// Whether it is that of a message.
    pub(super) fn is_of_message(self) -> bool {
        matches!(self, Self::LateSender | Self::LateReceiver)
    }

    /// Whether all ranks wait alike, so that comparing their arrivals says all.
    pub(super) fn is_mutual(self) -> bool {
        matches!(self, Self::All | Self::Barrier)
    }
}

/// What a call depends on.
#[derive(Debug, Clone, Copy)]
pub(super) enum On {
    /// The begin of another call.
    RankCall(u32),
    /// The begins of all other calls of a collective.
    Group(u32),
    /// Those of the ranks that pass data on to this one: the library decides which these are.
    Relays(u32),
}

/// A call on the axis that all ranks have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Its begin by the clock of its process.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) line: u32,
    pub(super) name: u32,
    /// How many messages it sends and receives; a collective without a number counts as one.
    pub(super) messages: u8,
    /// The first of what it depends on, and how much that is.
    depends: (u32, u32),
    /// Whether something that it depends on is not in the traces, or what that is is not known.
    pub(super) is_unknown: bool,
    /// Whether a message that it waits for has no number.
    pub(super) is_unnumbered: bool,
    /// Whether it waits for requests.
    pub(super) is_wait: bool,
}

/// The calls of one thread.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) process: ProcessId,
    pub(super) host: usize,
    pub(super) calls: Range<usize>,
}

/// A collective.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// In the order of their begins.
    pub(super) calls: Vec<u32>,
    /// Whether all of its ranks are there.
    pub(super) is_whole: bool,
    /// Its communicator.
    pub(super) communicator: u32,
    /// The call of its root.
    root: Option<u32>,
    /// Where it has no number: its function, by whose calls it was counted.
    pub(super) joint: Option<u32>,
}

/// The calls of all ranks.
#[derive(Debug, Default)]
pub(super) struct Matched {
    pub(super) lines: Vec<Line>,
    pub(super) calls: Vec<Timed>,
    pub(super) names: Vec<String>,
    pub(super) groups: Vec<Group>,
    depends: Vec<(Kind, On)>,
    /// By process, how often it asked whether requests are done, and how long it did that.
    pub(super) tested: Vec<(ProcessId, (u64, u64))>,
    /// Calls that are not compared because there are too many.
    pub(super) left_out: u64,
}

/// The two calls of a message.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    send: Option<u32>,
    receive: Option<u32>,
}

/// Sender, receiver, tag and number of a message of a communicator.
type Message = (u32, u32, u32, u32, u32);

/// Names of all processes.
#[derive(Debug, Default)]
struct Names {
    list: Vec<String>,
    places: HashMap<String, u32>,
}

impl Names {
    fn place(&mut self, name: &str) -> u32 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.list.len() as u32;
        self.list.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }
}

/// Leaves calls out before there are far too many.
pub(crate) fn limit(mut all: Vec<&mut Calls>) {
    if all.iter().map(|calls| calls.len()).sum::<usize>() > 2 * CALLS {
        shorten(&mut all);
    }
}

fn shorten(all: &mut [&mut Calls]) {
    let with_calls = all.iter().filter(|calls| !calls.is_empty()).count();
    let most = CALLS / with_calls.max(1);
    all.iter_mut().for_each(|calls| calls.truncate(most));
}

/// What a call is matched by.
#[derive(Debug, Clone, Copy)]
struct Matchable {
    call: RankCall,
    communicator: (usize, u32),
}

impl Matched {
    /// Matches calls. `common` turns a time of a host into one of the common axis.
    pub(super) fn new(mut processes: Vec<PlacedCalls>, common: impl Fn(usize, u64) -> i64) -> Self {
        let mut all: Vec<&mut Calls> = processes.iter_mut().map(|one| &mut one.calls).collect();
        let sum: usize = all.iter().map(|calls| calls.len()).sum();
        // Where some were left out before, of each rank as many are taken as if all had been there.
        if sum > CALLS || all.iter().any(|calls| calls.left_out > 0) {
            shorten(&mut all);
        }
        let mut matched = Self::default();
        let mut names = Names::default();
        // Communicators of copies of a job are different ones.
        let mut communicators: HashMap<(usize, u32), u32> = HashMap::new();
        let mut matchable: Vec<Matchable> = Vec::new();
        let mut requests: Vec<Vec<u64>> = Vec::new();
        for one in processes {
            matched.left_out += one.calls.left_out;
            if one.calls.tested.0 > 0 {
                matched.tested.push((one.process, one.calls.tested));
            }
            let own: Vec<u32> = one
                .calls
                .names
                .iter()
                .map(|name| names.place(name))
                .collect();
            for thread in one.calls.threads {
                let first = matched.calls.len();
                for call in &thread.calls {
                    let communicator = own[call.communicator as usize];
                    matched.calls.push(Timed {
                        start: common(one.host, call.start_ns),
                        end: common(one.host, call.end_ns),
                        start_ns: call.start_ns,
                        end_ns: call.end_ns,
                        line: matched.lines.len() as u32,
                        name: own[call.name as usize],
                        messages: u8::from(call.sends.is_some())
                            + u8::from(call.receives.is_some())
                            + u8::from(call.role == Role::Joint),
                        depends: (0, 0),
                        is_unknown: call.role == Role::Unknown,
                        is_unnumbered: call.request == 0 && call.is_unnumbered,
                        is_wait: call.role == Role::Wait,
                    });
                    matchable.push(Matchable {
                        call: *call,
                        communicator: (one.folder, communicator),
                    });
                }
                matched.lines.push(Line {
                    process: one.process,
                    host: one.host,
                    calls: first..matched.calls.len(),
                });
                requests.push(thread.requests);
            }
        }
        let mut pairs: HashMap<Message, Pair> = HashMap::new();
        // By communicator, number, and the function of those that have no number of their own.
        let mut groups: HashMap<(u32, u32, Option<u32>), u32> = HashMap::new();
        let mut makers: HashMap<(ProcessId, u64), u32> = HashMap::new();
        for (place, one) in (0..).zip(&matchable) {
            let next = communicators.len() as u32;
            let communicator = *communicators.entry(one.communicator).or_insert(next);
            if let Some(end) = one.call.sends {
                pairs
                    .entry(sent(communicator, &one.call, end))
                    .or_default()
                    .send = Some(place);
            }
            if let Some(end) = one.call.receives {
                let pair = pairs.entry(received(communicator, &one.call, end));
                pair.or_default().receive = Some(place);
            }
            if one.call.sequence != NONE {
                let list = &mut matched.groups;
                let joint =
                    (one.call.role == Role::Joint).then(|| matched.calls[place as usize].name);
                let group = *groups
                    .entry((communicator, one.call.sequence, joint))
                    .or_insert_with(|| {
                        list.push(Group {
                            communicator,
                            joint,
                            ..Group::default()
                        });
                        list.len() as u32 - 1
                    });
                list[group as usize].calls.push(place);
            }
            if one.call.request != 0 {
                let line = &matched.lines[matched.calls[place as usize].line as usize];
                makers.insert((line.process, one.call.request), place);
            }
        }
        for group in &mut matched.groups {
            let calls = &matched.calls;
            group
                .calls
                .sort_by_key(|call| (calls[*call as usize].start, *call));
            let ranks = matchable[group.calls[0] as usize].call.ranks;
            group.is_whole = group.calls.len() == ranks as usize;
            let mut calls = group.calls.iter().copied();
            group.root = calls.find(|call| {
                let call = &matchable[*call as usize].call;
                call.root == call.rank
            });
        }
        let own = |one: &Matchable| communicators[&one.communicator];
        let group_of = |place: u32| {
            let one = &matchable[place as usize];
            let joint = (one.call.role == Role::Joint).then(|| matched.calls[place as usize].name);
            let key = (own(one), one.call.sequence, joint);
            groups.get(&key).copied()
        };
        // By collective, the calls that wait for its requests: libraries go on with a collective within calls only.
        let mut waits: HashMap<u32, Group> = HashMap::new();
        for (place, one) in (0..).zip(&matchable) {
            let line = matched.calls[place as usize].line as usize;
            let process = matched.lines[line].process;
            for request in completed(&requests[line], &one.call) {
                let maker = makers.get(&(process, *request));
                let begun = maker.filter(|maker| {
                    let call = &matchable[**maker as usize].call;
                    call.sequence != NONE
                });
                if let Some(group) = begun.and_then(|maker| group_of(*maker)) {
                    let waits = waits.entry(group).or_default();
                    if waits.calls.last() != Some(&place) {
                        waits.calls.push(place);
                    }
                }
            }
        }
        let mut waits: Vec<(u32, Group)> = waits.into_iter().collect();
        waits.sort_unstable_by_key(|(group, _)| *group);
        let first = matched.groups.len() as u32;
        let waits_of: HashMap<u32, u32> =
            waits.iter().map(|(group, _)| *group).zip(first..).collect();
        // What a call or a request of it depends on.
        let depends_on = |place: u32, is_begun: bool, to: &mut Vec<(Kind, On)>| -> bool {
            let one = &matchable[place as usize];
            let mut is_known = true;
            let mut on = |kind, other: Option<u32>| match other {
                Some(other) => to.push((kind, On::RankCall(other))),
                None => is_known = false,
            };
            let of_pair = |key: Message| pairs.get(&key).copied().unwrap_or_default();
            if let Some(end) = one.call.receives {
                on(
                    Kind::LateSender,
                    of_pair(received(own(one), &one.call, end)).send,
                );
            }
            if let Some(end) = one.call.sends {
                on(
                    Kind::LateReceiver,
                    of_pair(sent(own(one), &one.call, end)).receive,
                );
            }
            if one.call.sequence == NONE {
                return is_known && one.call.role != Role::Start;
            }
            let Some(group) = group_of(place) else {
                return false;
            };
            let of_group = &matched.groups[group as usize];
            let is_root = one.call.root == one.call.rank;
            match one.call.role {
                Role::All | Role::Barrier | Role::Joint
                    if is_begun || one.call.role == Role::Joint =>
                {
                    to.push((Kind::Joint, On::Group(group)));
                }
                Role::All => to.push((Kind::All, On::Group(group))),
                Role::Barrier => to.push((Kind::Barrier, On::Group(group))),
                Role::FromRoot if is_root => {}
                Role::FromRoot => {
                    on(Kind::LateRoot, of_group.root);
                    to.push((Kind::Relay, On::Relays(group)));
                }
                Role::ToRoot if is_root => to.push((Kind::AtRoot, On::Group(group))),
                // Large ones are sent when the root is there; and ranks pass on what they get from others.
                Role::ToRoot => {
                    to.extend(
                        of_group
                            .root
                            .map(|root| (Kind::LateReceiver, On::RankCall(root))),
                    );
                    to.push((Kind::Relay, On::Relays(group)));
                }
                Role::Scan => {
                    let before = of_group
                        .calls
                        .iter()
                        .copied()
                        .filter(|other| matchable[*other as usize].call.rank < one.call.rank);
                    let last = before.max_by_key(|other| matched.calls[*other as usize].start);
                    to.extend(last.map(|last| (Kind::Scan, On::RankCall(last))));
                }
                // Not understood.
                _ => return false,
            }
            if let Some(waits) = waits_of.get(&group).filter(|_| is_begun) {
                to.push((Kind::Relay, On::Relays(*waits)));
            }
            is_known && of_group.is_whole
        };
        let mut depends = Vec::new();
        let mut found = Vec::with_capacity(matchable.len());
        let mut unnumbered = Vec::new();
        for (place, one) in (0..).zip(&matchable) {
            let first = depends.len();
            let mut is_known = true;
            // What begins something returns at once.
            if one.call.request == 0 {
                is_known &= depends_on(place, false, &mut depends);
            }
            let line = matched.calls[place as usize].line as usize;
            let process = matched.lines[line].process;
            for request in completed(&requests[line], &one.call) {
                match makers.get(&(process, *request)) {
                    Some(&maker) => {
                        is_known &= depends_on(maker, true, &mut depends);
                        if matchable[maker as usize].call.is_unnumbered {
                            unnumbered.push(place);
                        }
                    }
                    None => is_known = false,
                }
            }
            found.push(((first as u32, (depends.len() - first) as u32), is_known));
        }
        for (call, (depends, is_known)) in matched.calls.iter_mut().zip(found) {
            call.depends = depends;
            call.is_unknown |= !is_known;
        }
        for place in unnumbered {
            matched.calls[place as usize].is_unnumbered = true;
        }
        let waits = waits.into_iter().map(|(_, waits)| waits);
        matched.groups.extend(waits);
        matched.depends = depends;
        matched.names = names.list;
        matched
    }

    /// Puts the calls onto another common axis.
    pub(super) fn move_to(&mut self, common: impl Fn(usize, u64) -> i64) {
        for call in &mut self.calls {
            let host = self.lines[call.line as usize].host;
            (call.start, call.end) = (common(host, call.start_ns), common(host, call.end_ns));
        }
        for group in &mut self.groups {
            let calls = &self.calls;
            group
                .calls
                .sort_by_key(|call| (calls[*call as usize].start, *call));
        }
    }

    /// Takes back what collectives without a number are said to wait for, those of one function and communicator together, where a rank ended one before another had begun it: ranks do
    /// not wait for each other in them, or others belong together. `uncertainty_ns` says how far the clocks of two hosts may be apart.
    pub(super) fn refuse(&mut self, uncertainty_ns: impl Fn(usize, usize) -> Option<u64>) {
        let host = |call: &Timed| self.lines[call.line as usize].host;
        let mut refused: HashSet<(u32, u32)> = HashSet::new();
        for group in &self.groups {
            let Some((name, last)) = group.joint.zip(group.calls.last()) else {
                continue;
            };
            let last = &self.calls[*last as usize];
            let is_before = |call: &u32| {
                let call = &self.calls[*call as usize];
                let apart_ns = uncertainty_ns(host(call), host(last));
                apart_ns.is_some_and(|ns| call.end.saturating_add_unsigned(ns) < last.start)
            };
            if group.calls.iter().any(is_before) {
                refused.insert((group.communicator, name));
            }
        }
        for group in &mut self.groups {
            let is_refused = |name: &u32| refused.contains(&(group.communicator, *name));
            if group.joint.as_ref().is_some_and(is_refused) {
                group.is_whole = false;
                for call in &group.calls {
                    let call = &mut self.calls[*call as usize];
                    (call.depends, call.is_unknown) = ((0, 0), true);
                }
            }
        }
    }

    /// What a call depends on.
    pub(super) fn depends(&self, call: &Timed) -> &[(Kind, On)] {
        let (first, count) = call.depends;
        &self.depends[first as usize..(first + count) as usize]
    }

    /// The line of a call.
    pub(super) fn line(&self, call: &Timed) -> &Line {
        &self.lines[call.line as usize]
    }

    /// The calls of a line that end after a time, the first ones first.
    pub(super) fn after(&self, line: u32, time: i64) -> impl Iterator<Item = (usize, &Timed)> {
        let range = self.lines[line as usize].calls.clone();
        let calls = &self.calls[range.clone()];
        let first = calls.partition_point(|call| call.end <= time);
        (range.start + first..).zip(&calls[first..])
    }
}

/// The requests that a call of a thread completes.
fn completed<'r>(requests: &'r [u64], call: &RankCall) -> &'r [u64] {
    let (from, count) = call.completes;
    &requests[from as usize..(from + count) as usize]
}

/// The message that a call sends.
fn sent(communicator: u32, call: &RankCall, end: End) -> Message {
    (communicator, call.rank, end.peer, end.tag, end.number)
}

/// The message that a call receives.
fn received(communicator: u32, call: &RankCall, end: End) -> Message {
    (communicator, end.peer, call.rank, end.tag, end.number)
}
