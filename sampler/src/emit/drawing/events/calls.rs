//! Calls, ranges and marks: two tracks beside each thread's own, and one for ranges that any thread
//! may end.

use rsys_config::Flows;
use rsys_proto::hashing::FastMap;
use rsys_proto::{Annotation, Event as Drawn, EventKind, Name, Sample, TrackSequence, Value};
use rsys_wire::event::{Args, Category, Event, Key, Read};
use rsys_wire::sources::Track;

use super::args::Annotations;
use super::lanes::Lanes;
use super::locks::Locks;
use super::messages;
use super::traffic::Traffic;
use super::{EventThread, EventWriter};
use crate::counters::{Counter, Unit};
use crate::emit::digest;
use crate::emit::learned::frames::FrameId;
use crate::emit::output::{Output, counter_value};

/// The outermost frame of the time in calls: some viewers put the samples of all clocks into one flame graph.
const ROOT: &str = "[calls]";
/// The annotation at the end of what had not ended when the process did.
const CUT_OFF: &str = "cut_off";

/// The tracks beside a thread's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Calls of runtimes, nested in each other.
    Calls,
    /// What the program says of itself, by roctx.
    Ranges,
    /// The same by interfaces of our own.
    Regions,
    /// What its OpenMP runtime says.
    OpenMp,
    /// What Kokkos tells its tools.
    Kokkos,
}

impl Group {
    const COUNT: usize = 5;

    fn of(category: Category) -> Self {
        match category.source().track {
            Track::Calls => Group::Calls,
            Track::Ranges => Group::Ranges,
            Track::Regions => Group::Regions,
            Track::OpenMp => Group::OpenMp,
            Track::Kokkos => Group::Kokkos,
        }
    }

    fn title(self) -> (&'static str, &'static str) {
        match self {
            Group::Calls => (
                "calls",
                "Calls of runtimes and libraries that this thread made, and its waits for locks",
            ),
            Group::Ranges => ("roctx", "Ranges and marks of this thread, by roctx"),
            Group::Regions => (
                "regions",
                "Regions and marks of this thread, as the program says",
            ),
            Group::OpenMp => (
                "openmp",
                "OpenMP: regions, loops, tasks and waits of this thread",
            ),
            Group::Kokkos => (
                "kokkos",
                "Kokkos: kernels, regions, fences and copies of this thread",
            ),
        }
    }
}

/// The tracks of ranges of this category that any thread may end, and what they are for.
fn shared_title(category: Category) -> (&'static str, &'static str) {
    match category {
        Category::Openmp => ("openmp locks", "OpenMP locks: from acquired to released"),
        Category::Kokkos => ("kokkos sections", "Sections of Kokkos: from start to stop"),
        Category::User | Category::Itt | Category::Nvtx => (
            "own ranges",
            "Ranges that any thread may end, as the program says",
        ),
        _ => ("roctx ranges", "Ranges that any thread may end, by roctx"),
    }
}

/// A track of a thread and what is open on it.
#[derive(Debug)]
struct Nest {
    sequence: TrackSequence,
    open: Vec<Open>,
}

/// A call that goes on.
#[derive(Debug, Clone, Copy)]
struct Open {
    category: Category,
    begin_ns: u64,
    is_drawn: bool,
    /// The id of its name in the overview.
    name: u64,
    /// Id of the stack from which it was made, or 0.
    stack: u64,
    /// Of a wait: the lock, or 0, and id of the stack by which another thread holds it, or 0.
    lock: u64,
    holder_stack: u64,
}

/// The tracks of one thread.
#[derive(Debug, Default)]
struct Threads {
    /// The uuid of the thread's own track: another thread may get its id.
    thread: u64,
    nests: [Option<Nest>; Group::COUNT],
}

/// A range that any thread may end.
#[derive(Debug)]
struct Range {
    category: Category,
    name: u64,
    begin_ns: u64,
    text: Option<String>,
}

/// All calls, ranges and marks of a process.
#[derive(Debug, Default)]
pub struct Calls {
    threads: FastMap<u32, Threads>,
    ranges: FastMap<(Category, u64), Range>,
    /// Ends that came before their beginnings, from another ring.
    early_ends: FastMap<(Category, u64), u64>,
    locks: Locks,
    traffic: Traffic,
    counters: FastMap<String, TrackSequence>,
    shared: FastMap<&'static str, Rows>,
    samples: Vec<Sample>,
    root: Option<FrameId>,
    annotations: Annotations,
}

/// Ranges that may overlap, on as many tracks as it takes.
#[derive(Debug, Default)]
struct Rows {
    lanes: Lanes,
    tracks: Vec<TrackSequence>,
}

/// The name that an event brings itself.
fn own_name(args: Args<'_>) -> Option<String> {
    match args.get(Key::Name)? {
        Read::Text(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    }
}

/// Id of the stack from which a call was made, or 0. The stacks of launches stand with their kernels' time.
fn stack_of(args: Args<'_>) -> u64 {
    if args.has_any(&[Key::Kernel, Key::Grid]) {
        return 0;
    }
    match args.get(Key::LaunchStack) {
        Some(Read::Uint(id)) => id,
        _ => 0,
    }
}

impl Calls {
    /// Draws an event.
    pub fn draw(&mut self, thread: &EventThread, event: &Event<'_>, pen: &mut EventWriter<'_>) {
        match *event {
            Event::Begin {
                time_ns,
                category,
                name,
                correlation,
                awaited: _,
                args,
            } => {
                *pen.last_time_ns = time_ns.max(*pen.last_time_ns);
                let is_drawn = pen.run.windows.events.active(time_ns);
                if is_drawn {
                    self.traffic.call(time_ns, category, args);
                }
                let group = Group::of(category);
                let nest = nest(&mut self.threads, thread, group, pen.output);
                let of_lock = |key| {
                    let number = category.is_of_locks().then(|| args.number(key));
                    number.flatten().unwrap_or_default()
                };
                nest.open.push(Open {
                    category,
                    begin_ns: time_ns,
                    is_drawn,
                    name: match &mut pen.overview {
                        Some(overview) if name == 0 => overview.own_name(own_name(args)),
                        _ => name,
                    },
                    stack: stack_of(args),
                    lock: of_lock(Key::Lock),
                    holder_stack: of_lock(Key::HolderStack),
                });
                if is_drawn {
                    pen.tally.calls += 1;
                    let what = (EventKind::SliceBegin, category, name, correlation);
                    let annotations = &mut self.annotations;
                    write(&mut nest.sequence, time_ns, what, args, annotations, pen);
                } else {
                    pen.tally.outside_window += 1;
                }
            }
            Event::End {
                time_ns,
                category,
                args,
            } => {
                *pen.last_time_ns = time_ns.max(*pen.last_time_ns);
                let group = Group::of(category);
                let nest = nest(&mut self.threads, thread, group, pen.output);
                match nest.open.pop() {
                    Some(open) if open.is_drawn => {
                        let begin_ns = open.begin_ns;
                        let window = pen.run.windows.events.window_at(begin_ns);
                        let end_ns = window.map_or(time_ns, |(_, end_ns)| time_ns.min(end_ns));
                        let end_ns = end_ns.max(begin_ns);
                        self.traffic.call(end_ns, category, args);
                        self.annotations.clear();
                        self.annotations.add(args, pen.known, pen.output);
                        let event = Drawn {
                            annotations: &self.annotations.list(),
                            ..Drawn::default()
                        };
                        nest.sequence.event(
                            pen.output.buffer(),
                            end_ns,
                            EventKind::SliceEnd,
                            &event,
                        );
                        if let Some(overview) = &mut pen.overview {
                            let times = (begin_ns, end_ns);
                            overview.call(thread.tid, group.title(), times, open.name);
                        }
                        let is_of_mpi = |open: &Open| open.category == Category::Mpi;
                        if is_of_mpi(&open) && !nest.open.iter().any(is_of_mpi) {
                            pen.digest.mpi(end_ns - begin_ns);
                        }
                        self.sample(thread.tid, open, end_ns, pen);
                        if open.lock != 0 {
                            let stacks = [open.stack, open.holder_stack];
                            self.locks
                                .wait(category, open.lock, stacks, end_ns - begin_ns);
                        }
                    }
                    Some(_) => {}
                    None => pen.tally.unmatched_ends += 1,
                }
            }
            Event::Mark {
                time_ns,
                category,
                name,
                correlation,
                args,
            } => {
                *pen.last_time_ns = time_ns.max(*pen.last_time_ns);
                if category.is_of_locks() {
                    let kind = pen.known.text(name).unwrap_or("?").to_owned();
                    self.locks.learn(category, &kind, args);
                    return;
                }
                if !pen.run.windows.events.active(time_ns) {
                    pen.tally.outside_window += 1;
                    return;
                }
                if let Some(Read::Double(value)) = args.get(Key::CounterValue) {
                    self.count(time_ns, name, args, value, pen);
                    return;
                }
                pen.tally.marks += 1;
                let group = Group::of(category);
                let nest = nest(&mut self.threads, thread, group, pen.output);
                let what = (EventKind::Instant, category, name, correlation);
                let annotations = &mut self.annotations;
                write(&mut nest.sequence, time_ns, what, args, annotations, pen);
            }
            Event::AsyncBegin {
                time_ns,
                category,
                id,
                name,
                args,
            } => {
                *pen.last_time_ns = time_ns.max(*pen.last_time_ns);
                let range = Range {
                    category,
                    name,
                    begin_ns: time_ns,
                    text: own_name(args),
                };
                match self.early_ends.remove(&(category, id)) {
                    Some(end_ns) => self.range(&range, end_ns, pen),
                    None => _ = self.ranges.insert((category, id), range),
                }
            }
            Event::AsyncEnd {
                time_ns,
                category,
                id,
            } => {
                *pen.last_time_ns = time_ns.max(*pen.last_time_ns);
                match self.ranges.remove(&(category, id)) {
                    Some(range) => self.range(&range, time_ns, pen),
                    None => _ = self.early_ends.insert((category, id), time_ns),
                }
            }
            _ => {}
        }
    }

    fn range(&mut self, range: &Range, end_ns: u64, pen: &mut EventWriter<'_>) {
        let schedule = &pen.run.windows.events;
        let part = schedule.first_part(range.begin_ns, end_ns.max(range.begin_ns));
        let Some((begin_ns, end_ns)) = part else {
            pen.tally.outside_window += 1;
            return;
        };
        pen.tally.ranges += 1;
        let (title, description) = shared_title(range.category);
        let shared = self.shared.entry(title).or_default();
        let row = shared.lanes.place(begin_ns, end_ns);
        while shared.tracks.len() <= row {
            let process = pen.output.process_track();
            let track = pen.output.child_track(process, title, Some(description));
            shared.tracks.push(track);
        }
        let name = match &range.text {
            Some(text) => Name::Once(text),
            None => pen
                .output
                .event_text(pen.known, range.name)
                .map_or(Name::Once("?"), Name::Interned),
        };
        let category = Some(pen.output.call_category(range.category));
        let out = pen.output.buffer();
        let event = Drawn {
            name,
            category,
            ..Drawn::default()
        };
        let row = &mut shared.tracks[row];
        row.event(out, begin_ns, EventKind::SliceBegin, &event);
        row.slice_end(out, end_ns);
    }

    /// Draws a value of a counter of the program's.
    fn count(
        &mut self,
        time_ns: u64,
        name: u64,
        args: Args<'_>,
        value: f64,
        pen: &mut EventWriter<'_>,
    ) {
        let name = own_name(args).or_else(|| Some(pen.known.text(name)?.to_owned()));
        let name = name.unwrap_or_else(|| "?".to_owned());
        let output = &mut *pen.output;
        let track = self.counters.entry(name).or_insert_with_key(|name| {
            let counter = Counter::new(name.as_str(), Unit::Count, None, "As the program says");
            output.counter_track(&counter)
        });
        track.counter(pen.output.buffer(), time_ns, counter_value(value));
        pen.tally.counters += 1;
    }

    /// Adds the time of a call under the stack from which it was made.
    fn sample(&mut self, tid: u32, call: Open, end_ns: u64, pen: &mut EventWriter<'_>) {
        let stack = pen.known.stack(call.stack);
        if stack.is_empty() {
            return;
        }
        pen.tally.call_stacks += 1;
        let frames = &mut *pen.frames;
        let root = *self.root.get_or_insert_with(|| frames.pseudo_frame(ROOT));
        let all = || std::iter::once(root).chain(stack.iter().copied()).collect();
        let callstack = pen.output.call_callstack(frames, call.stack, all);
        let time_ns = end_ns - call.begin_ns;
        let sample = pen.output.sample(call.begin_ns, tid, callstack, time_ns);
        self.samples.push(sample);
    }

    /// Writes the samples of a batch.
    pub fn flush(&mut self, output: &mut Output) {
        self.traffic.flush(output);
        if !self.samples.is_empty() {
            output.call_samples(&mut self.samples);
        }
    }

    /// Closes what is open.
    pub fn finish(&mut self, end_ns: u64, pen: &mut EventWriter<'_>) {
        let mut open: Vec<Range> = self.ranges.drain().map(|(_, range)| range).collect();
        open.sort_by_key(|range| range.begin_ns);
        for range in open {
            self.range(&range, end_ns, pen);
        }
        pen.tally.unmatched_ends += self.early_ends.len() as u64;
        let mut cut_off = Vec::new();
        for (tid, threads) in &mut self.threads {
            for nest in threads.nests.iter_mut().flatten() {
                let last = nest.open.iter().map(|open| open.begin_ns).max();
                let end_ns = end_ns.max(last.unwrap_or(0));
                if !nest.open.iter().any(|open| open.is_drawn) {
                    nest.open.clear();
                    continue;
                }
                let out = pen.output.buffer();
                let cut_off_here = [Annotation::new(out.intern(CUT_OFF), Value::Bool(true))];
                let event = Drawn {
                    annotations: &cut_off_here,
                    ..Drawn::default()
                };
                for _ in nest.open.iter().filter(|open| open.is_drawn) {
                    nest.sequence
                        .event(out, end_ns, EventKind::SliceEnd, &event);
                }
                let open = nest.open.drain(..).filter(|open| open.is_drawn);
                cut_off.extend(open.map(|open| (*tid, open, end_ns)));
            }
        }
        for (tid, open, end_ns) in cut_off {
            self.sample(tid, open, end_ns, pen);
        }
        self.locks.finish(end_ns, pen);
        self.flush(pen.output);
    }
}

/// The track of a thread for events of a group.
fn nest<'a>(
    threads: &'a mut FastMap<u32, Threads>,
    thread: &EventThread,
    group: Group,
    output: &mut Output,
) -> &'a mut Nest {
    let uuid = output.thread_uuid(thread.tid, &thread.name);
    let threads = threads.entry(thread.tid).or_default();
    if threads.thread != uuid {
        *threads = Threads {
            thread: uuid,
            ..Threads::default()
        };
    }
    threads.nests[group as usize].get_or_insert_with(|| {
        let (name, description) = group.title();
        Nest {
            sequence: output.child_track(uuid, name, Some(description)),
            open: Vec::new(),
        }
    })
}

/// Writes the beginning of a call, or a mark.
fn write(
    sequence: &mut TrackSequence,
    time_ns: u64,
    (kind, category, name, correlation): (EventKind, Category, u64, u64),
    args: Args<'_>,
    annotations: &mut Annotations,
    pen: &mut EventWriter<'_>,
) {
    let (known, frames) = (&*pen.known, &*pen.frames);
    let output = &mut *pen.output;
    let own_name = if name == 0 { own_name(args) } else { None };
    let name = match &own_name {
        Some(text) => Name::Once(text),
        None => output
            .event_text(known, name)
            .map_or(Name::Once("?"), Name::Interned),
    };
    annotations.clear();
    annotations.add(args, known, output);
    if category.is_of_locks()
        && let Some(holder) = args.number(Key::HolderStack)
    {
        let stack = known.stack(holder);
        annotations.push_text("holder", digest::place(stack, frames), output);
        annotations.push_text(Key::HolderStack.name(), digest::line(stack, frames), output);
    }
    let mut flows = [0; 1 + messages::ARROWS_MAX];
    let mut flow_count = 0;
    if pen.run.flows != Flows::Numbers {
        let is_request = correlation != 0 && kind == EventKind::SliceBegin;
        let arrows = messages::flows(category, args, is_request, known);
        for arrow in arrows.into_iter().flatten() {
            flows[flow_count] = arrow;
            flow_count += 1;
        }
    }
    if correlation != 0 {
        // The flow of a collective has no end of its own: its kernels hang on the calls within it.
        let owns_operations = category.source().owns_operations;
        if owns_operations && pen.run.flows != Flows::Numbers {
            flows[flow_count] = output.flow(correlation);
            flow_count += 1;
        }
        if !owns_operations || pen.run.flows != Flows::Arrows {
            annotations.push_number(output.correlation(), correlation);
        }
    }
    let event = Drawn {
        name,
        category: Some(output.call_category(category)),
        flows: &flows[..flow_count],
        annotations: &annotations.list(),
        ..Drawn::default()
    };
    sequence.event(output.buffer(), time_ns, kind, &event);
}
