//! Waits as slices and samples: a track of their own beside each thread's, and call stacks weighted
//! in wall time.

use std::collections::HashMap;

use rsys_config::Numbers;
use rsys_proto::{Annotation, Event, EventKind, Name, PacketBuffer, Sample, TrackSequence, Value};
use rsys_wire::event::Key;
use rsys_wire::record::{FRAME_SCANNED, PYTHON_BROKEN, PYTHON_SUBINTERPRETER, PYTHON_TRUNCATED};

use super::slices::DEPTH_MAX;
use super::threads::SliceNames;
use crate::emit::account::WaitTally;
use crate::emit::digest;
use crate::emit::learned::events::StackMarks;
use crate::emit::learned::frames::{FrameId, Frames, FunctionId};
use crate::emit::learned::stacks::{PythonStack, ShownStack, Stack};
use crate::emit::learned::thread_numbers::ThreadNumbers;
use crate::emit::output::Output;
use crate::emit::overview::Overview;
use crate::emit::profile::{Profile, Whose};
use crate::python::PythonView;
use crate::python::merge::Ends;
use crate::waits::record::{Completeness, InterpreterLock, Wait, WaitRecord};
use crate::windows::Schedule;

/// The outermost frame of the samples of waiting threads: some viewers put the samples of both
/// clocks into one flame graph.
const ROOT: &str = "[waiting]";

/// How many windows of time one look at a wait may fill: who asks for windows of nanoseconds does
/// not get all of them.
const PARTS_MAX: usize = 1000;

/// The waits of all threads of a process.
#[derive(Debug, Default)]
pub struct WaitTracks {
    threads: HashMap<u32, WaitThread>,
    samples: Vec<Sample>,
    /// Names and waits from before there was a trace.
    early: HashMap<u32, [Option<WaitRecord>; 2]>,
}

/// What waits are drawn with.
#[derive(Debug)]
pub struct WaitWriter<'a> {
    /// The trace.
    pub output: &'a mut Output,
    /// What stands behind addresses.
    pub frames: &'a mut Frames,
    /// The names of functions as slices.
    pub names: &'a mut SliceNames,
    /// What is counted.
    pub tally: &'a mut WaitTally,
    /// Which times are kept.
    pub schedule: &'a Schedule,
    /// Which threads are kept,
    pub threads: &'a Numbers,
    /// and their numbers.
    pub numbers: &'a ThreadNumbers,
    /// What is shown of Python.
    pub python: PythonView,
    /// Frames that say what is wrong with a stack.
    pub marks: StackMarks,
    /// The summary, if one was asked for.
    pub profile: Option<&'a mut Profile>,
    /// The small trace of the whole run, if there is to be one.
    pub overview: Option<&'a mut Overview>,
}

impl WaitWriter<'_> {
    /// Whether a thread is to be shown. One that is not known yet may become so.
    fn wants(&self, tid: u32) -> bool {
        let number = || self.numbers.of(tid);
        self.threads.is_all() || number().is_some_and(|number| self.threads.contains(number))
    }
}

#[derive(Debug, Default)]
struct WaitThread {
    name: String,
    track: Option<WaitTrack>,
    current: Option<Current>,
    /// The wait that is over but still drawn, and when it ended: the next one may begin in the same
    /// functions.
    ended_ns: Option<u64>,
}

/// The tracks of a thread.
#[derive(Debug)]
struct WaitTrack {
    sequence: TrackSequence,
    open: Vec<FunctionId>,
}

impl WaitTrack {
    /// Tracks without events.
    fn new(output: &mut Output, tid: u32, name: &str) -> Self {
        Self {
            sequence: output.wait_track(tid, name),
            open: Vec::new(),
        }
    }
}

/// A wait that goes on.
#[derive(Debug)]
struct Current {
    /// Outermost first, from [`ROOT`] to what is waited for.
    frames: Vec<FrameId>,
    /// The same without the first one.
    functions: Vec<FunctionId>,
    /// What is said of the interpreter's lock, if that is what it waits for.
    lock: Option<Lock>,
    /// Samples stand for the time up to here.
    sampled_ns: u64,
    /// And this is how far it is shown: what follows may lie outside of the windows of time.
    shown_ns: u64,
    drawn: bool,
}

/// The interpreter's lock, and who held it when the wait was seen to begin.
#[derive(Debug)]
struct Lock {
    address: u64,
    /// 0 where the lock was free.
    holder_tid: u32,
    /// The place and the stack of that thread.
    holder: [Option<String>; 2],
}

impl Lock {
    fn of(lock: &InterpreterLock, pen: &mut WaitWriter<'_>) -> Self {
        let mut python = PythonStack::default();
        if let Some(stack) = &lock.holder {
            _ = python.update(pen.frames, stack.flags, 0, &stack.words);
        }
        let (stack, frames) = (python.frames(), &*pen.frames);
        Self {
            address: lock.address,
            holder_tid: lock.holder_tid,
            holder: [digest::place(stack, frames), digest::line(stack, frames)],
        }
    }

    /// As arguments, which have the names that those of recorded waits for locks have.
    fn annotations(&self, out: &mut PacketBuffer) -> Vec<Annotation<'static>> {
        let lock = out.intern(Key::Lock.name());
        let mut annotations = vec![Annotation::new(lock, Value::Pointer(self.address))];
        if self.holder_tid != 0 {
            let holder = out.intern(Key::HolderThread.name());
            let tid = Value::Uint(u64::from(self.holder_tid));
            annotations.push(Annotation::new(holder, tid));
        }
        let names = ["holder", Key::HolderStack.name()];
        for (name, text) in names.into_iter().zip(&self.holder) {
            if let Some(text) = text {
                let (name, text) = (out.intern(name), out.intern(text));
                annotations.push(Annotation::new(name, Value::Interned(text)));
            }
        }
        annotations
    }
}

impl WaitTracks {
    /// Keeps in mind what was seen, without a trace to draw it in.
    pub fn skip(&mut self, records: &[WaitRecord]) {
        for record in records {
            match record {
                WaitRecord::Thread { tid, .. } => {
                    self.early.entry(*tid).or_default()[0] = Some(record.clone());
                }
                WaitRecord::Begin { tid, .. } => {
                    self.early.entry(*tid).or_default()[1] = Some(record.clone());
                }
                WaitRecord::End { tid, .. } => {
                    self.early.entry(*tid).or_default()[1] = None;
                }
                WaitRecord::Gone { tid } => {
                    self.early.remove(tid);
                }
                _ => {}
            }
        }
    }

    /// Draws what was seen. The modules among the records were added to the frames, and their words
    /// resolved.
    pub fn take(&mut self, records: &[WaitRecord], pen: &mut WaitWriter<'_>) {
        let early: Vec<WaitRecord> = self
            .early
            .drain()
            .flat_map(|(_, both)| both)
            .flatten()
            .collect();
        for record in early.iter().chain(records) {
            match record {
                // Learnt before.
                WaitRecord::Module(_) | WaitRecord::Interpreter(_) | WaitRecord::Code(_) => {}
                WaitRecord::Thread { tid, name } => self.name(*tid, name, pen),
                WaitRecord::Begin {
                    tid,
                    time_ns,
                    wait,
                    adjoins,
                } => self.begin(*tid, *time_ns, wait, *adjoins, pen),
                WaitRecord::Continue { tid, time_ns } => self.go_on(*tid, *time_ns, pen),
                WaitRecord::End { tid, time_ns } => self.end(*tid, *time_ns, pen),
                WaitRecord::Gone { tid } => {
                    if let Some(mut thread) = self.threads.remove(tid) {
                        thread.close(pen);
                    }
                }
                WaitRecord::Missed(missed) => {
                    pen.tally.raced = missed.raced;
                    pen.tally.unreadable_threads = missed.unreadable_threads;
                }
            }
        }
        for thread in self.threads.values_mut() {
            thread.close(pen);
        }
        pen.output.wait_samples(&mut self.samples);
    }

    fn name(&mut self, tid: u32, name: &str, pen: &mut WaitWriter<'_>) {
        let thread = self.threads.entry(tid).or_default();
        name.clone_into(&mut thread.name);
        pen.output.name_thread(tid, |names| names.by_kernel(name));
    }

    fn begin(
        &mut self,
        tid: u32,
        time_ns: u64,
        wait: &Wait,
        adjoins: bool,
        pen: &mut WaitWriter<'_>,
    ) {
        let thread = self.threads.entry(tid).or_default();
        if !(adjoins && thread.ended_ns == Some(time_ns)) {
            thread.close(pen);
        }
        let frames = stack(wait, time_ns, pen);
        let functions = frames[1..]
            .iter()
            .map(|&frame| pen.frames.frame(frame).function)
            .collect();
        let lock = wait.lock.as_ref().map(|lock| Lock::of(lock, pen));
        let tally = &mut *pen.tally;
        tally.waits += 1;
        match wait.completeness {
            Completeness::Complete => tally.complete += 1,
            Completeness::Truncated => tally.truncated += 1,
            Completeness::Broken => tally.broken += 1,
        }
        let is_scanned = |word: &u64| word & FRAME_SCANNED != 0;
        let scanned = wait.words.iter().copied().filter(is_scanned).count();
        tally.scanned += u64::from(scanned > 0);
        tally.scanned_frames += scanned as u64;
        thread.current = Some(Current {
            frames,
            functions,
            lock,
            sampled_ns: time_ns,
            shown_ns: time_ns,
            drawn: false,
        });
        if pen.schedule.active(time_ns) && pen.wants(tid) {
            thread.draw(tid, time_ns, pen);
        }
    }

    fn go_on(&mut self, tid: u32, time_ns: u64, pen: &mut WaitWriter<'_>) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let Some(current) = &mut thread.current else {
            return;
        };
        let from_ns = std::mem::replace(&mut current.sampled_ns, time_ns);
        if !pen.wants(tid) {
            return;
        }
        for (begin_ns, end_ns) in pen.schedule.parts(from_ns, time_ns).take(PARTS_MAX) {
            let Some(current) = &mut thread.current else {
                return;
            };
            if current.drawn && begin_ns > current.shown_ns.max(from_ns) {
                // Between two windows nothing is shown.
                current.drawn = false;
                thread.ended_ns = Some(current.shown_ns);
                thread.close(pen);
            }
            let Some(current) = &mut thread.current else {
                return;
            };
            let weight_ns = end_ns - begin_ns;
            let callstack = pen.output.wait_callstack(pen.frames, &current.frames);
            self.samples
                .push(pen.output.sample(end_ns, tid, callstack, weight_ns));
            if let Some(profile) = &mut pen.profile {
                let whose = Whose {
                    number: pen.numbers.of(tid).unwrap_or(tid),
                    tid,
                    name: &thread.name,
                };
                profile.wait(whose, &current.functions, weight_ns);
            }
            if let Some(overview) = &mut pen.overview {
                overview.wait(tid, (begin_ns, end_ns), &current.frames, pen.frames);
            }
            pen.tally.samples += 1;
            pen.tally.wall_ns = pen.tally.wall_ns.saturating_add(weight_ns);
            current.shown_ns = end_ns;
            if !current.drawn {
                thread.draw(tid, begin_ns, pen);
            }
        }
    }

    fn end(&mut self, tid: u32, time_ns: u64, pen: &mut WaitWriter<'_>) {
        self.go_on(tid, time_ns, pen);
        if let Some(thread) = self.threads.get_mut(&tid)
            && let Some(current) = thread.current.take()
            && current.drawn
        {
            thread.ended_ns = Some(current.shown_ns);
        }
    }
}

impl WaitThread {
    /// Opens the slices of the current wait. Of what is still open, what it has in common stays,
    /// but for what is waited for: each wait is a slice of its own.
    fn draw(&mut self, tid: u32, time_ns: u64, pen: &mut WaitWriter<'_>) {
        let Some(current) = &mut self.current else {
            return;
        };
        current.drawn = true;
        let name = &self.name;
        let track = self
            .track
            .get_or_insert_with(|| WaitTrack::new(pen.output, tid, name));
        let inner = current
            .functions
            .len()
            .min(track.open.len())
            .saturating_sub(1);
        let common = current.functions[..inner]
            .iter()
            .zip(&track.open)
            .take_while(|(new, open)| new == open)
            .count();
        track.close_to(common, self.ended_ns.take().unwrap_or(time_ns), pen);
        let count = current.functions.len();
        for (number, &function) in (1..).zip(&current.functions).skip(common) {
            let out = pen.output.buffer();
            let name = pen
                .names
                .get(function, || out.intern(&pen.frames.function(function).name));
            match &current.lock {
                Some(lock) if number == count => {
                    let event = Event {
                        name: Name::Interned(name),
                        annotations: &lock.annotations(out),
                        ..Event::default()
                    };
                    track
                        .sequence
                        .event(out, time_ns, EventKind::SliceBegin, &event);
                }
                _ => track.sequence.slice_begin(out, time_ns, name),
            }
            track.open.push(function);
            pen.tally.slices += 1;
        }
    }

    /// Closes what is over.
    fn close(&mut self, pen: &mut WaitWriter<'_>) {
        if let Some(ended_ns) = self.ended_ns.take()
            && let Some(track) = &mut self.track
        {
            track.close_to(0, ended_ns, pen);
        }
    }
}

impl WaitTrack {
    fn close_to(&mut self, depth: usize, time_ns: u64, pen: &mut WaitWriter<'_>) {
        while self.open.len() > depth {
            self.open.pop();
            self.sequence.slice_end(pen.output.buffer(), time_ns);
        }
    }
}

/// [`ROOT`] and the frames of a wait, native and Python merged as in samples, outermost first, with
/// what is wrong outside of them and what is waited for inside.
fn stack(wait: &Wait, time_ns: u64, pen: &mut WaitWriter<'_>) -> Vec<FrameId> {
    let (native, python) = (&mut Stack::default(), &mut PythonStack::default());
    // Whole stacks, which share nothing with one before.
    _ = native.update(pen.frames, time_ns, 0, &wait.words);
    if let Some(stack) = &wait.python {
        _ = python.update(pen.frames, stack.flags, 0, &stack.words);
    }
    let has = |flag: u8| python.flags & flag != 0;
    let mut shown = ShownStack::default();
    let root = pen.frames.pseudo_frame(ROOT);
    shown.start(pen.frames, &[root]);
    match wait.completeness {
        _ if has(PYTHON_TRUNCATED) => shown.push(pen.frames, &[pen.marks.truncated]),
        Completeness::Truncated => shown.push(pen.frames, &[pen.marks.truncated]),
        _ if has(PYTHON_BROKEN) => shown.push(pen.frames, &[pen.marks.broken]),
        Completeness::Broken => shown.push(pen.frames, &[pen.marks.broken]),
        Completeness::Complete => {}
    }
    if wait.python.is_some() {
        pen.tally.python.count(python.flags);
    }
    match wait.python {
        Some(_) if pen.python.only => shown.push(pen.frames, python.frames()),
        Some(_) => {
            let ends = Ends {
                native_root: wait.completeness == Completeness::Complete,
                // Outside of another interpreter than the main one may be the main one.
                python_root: !has(PYTHON_TRUNCATED | PYTHON_BROKEN | PYTHON_SUBINTERPRETER),
            };
            let interpreter = pen.python.interpreter;
            let unpaired = shown.push_merged(pen.frames, native, python, ends, interpreter);
            pen.tally.python.unpaired_frames += unpaired as u64;
        }
        None if pen.python.only => shown.push(pen.frames, &[pen.marks.no_python]),
        None => shown.push_native(native),
    }
    let mut frames = shown.frames;
    let most = DEPTH_MAX - 1;
    if frames.len() > most {
        let folded = frames.len() - most;
        frames.truncate(most);
        frames.push(pen.frames.pseudo_frame(&format!("[… {folded} frames]")));
    }
    frames.push(pen.frames.kernel_frame(&wait.label));
    frames
}
