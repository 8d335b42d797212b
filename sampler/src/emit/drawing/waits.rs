//! Waits as slices and samples: a track of their own beside each thread's, and call stacks weighted
//! in wall time.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use rsys_config::Numbers;
use rsys_proto::{Annotation, Event, EventKind, Name, PacketBuffer, Sample, TrackSequence, Value};
use rsys_wire::event::Key;
use rsys_wire::record::FRAME_SCANNED;

use super::slices::DEPTH_MAX;
use super::threads::SliceNames;
use crate::emit::account::WaitTally;
use crate::emit::digest::{self, Digest};
use crate::emit::learned::events::StackMarks;
use crate::emit::learned::frames::{FrameId, Frames, FunctionId};
use crate::emit::learned::stacks::{PythonStack, ShownStack};
use crate::emit::learned::thread_numbers::ThreadNumbers;
use crate::emit::output::Output;
use crate::emit::overview::Overview;
use crate::emit::profile::{Profile, Whose};
use crate::python::PythonView;
use crate::waits::record::{Completeness, InterpreterLock, PastWait, Wait, WaitRecord};
use crate::windows::Schedule;

/// The outermost frame of the samples of waiting threads: some viewers put the samples of both
/// clocks into one flame graph.
const ROOT: &str = "[waiting]";

/// How many windows of time one look at a wait may fill: who asks for windows of nanoseconds does
/// not get all of them.
const PARTS_MAX: usize = 1000;

/// Maximum number of waits that are kept with their frames.
const SHOWN_MAX: usize = 1 << 12;

/// The waits of all threads of a process.
#[derive(Debug, Default)]
pub struct WaitTracks {
    threads: HashMap<u32, WaitThread>,
    /// What waits are shown as, by where they are kept.
    shown: HashMap<*const Wait, (Arc<Wait>, Rc<Shown>)>,
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
    /// What the closing table says.
    pub digest: &'a mut Digest,
    /// The first thread of the process.
    pub main_tid: u32,
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
}

/// The tracks of a thread.
#[derive(Debug)]
struct WaitTrack {
    sequence: TrackSequence,
    /// Slices that are open.
    open: usize,
}

impl WaitTrack {
    /// Tracks without events.
    fn new(output: &mut Output, tid: u32, name: &str) -> Self {
        Self {
            sequence: output.wait_track(tid, name),
            open: 0,
        }
    }
}

/// What a wait is shown as.
#[derive(Debug)]
struct Shown {
    /// Outermost first, from [`ROOT`] to what is waited for.
    frames: Vec<FrameId>,
    /// The same without the first one.
    functions: Vec<FunctionId>,
    /// What is said of the interpreter's lock, if that is what it waits for.
    lock: Option<Lock>,
    /// The place in the program.
    place: Option<Rc<str>>,
}

/// A wait that goes on.
#[derive(Debug)]
struct Current {
    shown: Rc<Shown>,
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
                // Learnt before, or drawn elsewhere.
                WaitRecord::Module(_)
                | WaitRecord::Interpreter(_)
                | WaitRecord::Code(_)
                | WaitRecord::Woken { .. } => {}
                WaitRecord::Thread { tid, name } => self.name(*tid, name, pen),
                WaitRecord::Begin {
                    tid, time_ns, wait, ..
                } => self.begin(*tid, *time_ns, wait, pen),
                WaitRecord::Past(past) => self.past(past, pen),
                WaitRecord::Continue { tid, time_ns, .. } => self.go_on(*tid, *time_ns, pen),
                WaitRecord::End { tid, time_ns } => self.end(*tid, *time_ns, pen),
                WaitRecord::Gone { tid } => {
                    self.threads.remove(tid);
                }
                WaitRecord::Missed(missed) => {
                    pen.tally.raced = missed.raced;
                    pen.tally.unreadable_threads = missed.unreadable_threads;
                }
            }
        }
        pen.output.wait_samples(&mut self.samples);
    }

    fn name(&mut self, tid: u32, name: &str, pen: &mut WaitWriter<'_>) {
        let thread = self.threads.entry(tid).or_default();
        name.clone_into(&mut thread.name);
        pen.output.name_thread(tid, |names| names.by_kernel(name));
    }

    fn begin(&mut self, tid: u32, time_ns: u64, wait: &Arc<Wait>, pen: &mut WaitWriter<'_>) {
        let shown = self.shown(wait, time_ns, pen);
        count(wait, pen);
        let thread = self.threads.entry(tid).or_default();
        thread.close(time_ns, pen);
        thread.current = Some(Current {
            shown,
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
            let shown_ns = std::mem::replace(&mut current.shown_ns, end_ns);
            let shown = Rc::clone(&current.shown);
            if current.drawn && begin_ns > shown_ns.max(from_ns) {
                // Between two windows nothing is shown.
                current.drawn = false;
                thread.close(shown_ns, pen);
            }
            let sample = thread.sample(tid, (begin_ns, end_ns), end_ns - begin_ns, &shown, pen);
            self.samples.push(sample);
            thread.draw(tid, begin_ns, pen);
        }
    }

    fn end(&mut self, tid: u32, time_ns: u64, pen: &mut WaitWriter<'_>) {
        self.go_on(tid, time_ns, pen);
        if let Some(thread) = self.threads.get_mut(&tid)
            && let Some(current) = thread.current.take()
        {
            thread.close(current.shown_ns, pen);
        }
    }

    /// A wait of which all is known.
    fn past(&mut self, past: &PastWait, pen: &mut WaitWriter<'_>) {
        let tid = past.tid;
        if past.is_seen {
            count(&past.wait, pen);
        } else {
            pen.tally.unseen += 1;
        }
        if !pen.wants(tid) {
            return;
        }
        let shown = self.shown(&past.wait, past.end_ns, pen);
        let is_one = past.waited_ns == past.end_ns - past.begin_ns;
        let thread = self.threads.entry(tid).or_default();
        let parts = pen.schedule.parts(past.begin_ns, past.end_ns);
        for (begin_ns, end_ns) in parts.take(PARTS_MAX) {
            let weight_ns = past.waited_ns.min(end_ns - begin_ns);
            let sample = thread.sample(tid, (begin_ns, end_ns), weight_ns, &shown, pen);
            self.samples.push(sample);
            if is_one {
                let track = thread.track(tid, pen);
                // The stack is that of another wait: only what was waited for is drawn.
                let first = match past.is_seen {
                    true => 0,
                    false => shown.functions.len().saturating_sub(1),
                };
                track.draw(&shown, first, begin_ns, pen);
                track.close(shown.functions.len() - first, end_ns, pen);
            }
        }
    }

    /// What a wait is shown as. Those that have the names of others come again and again.
    fn shown(&mut self, wait: &Arc<Wait>, time_ns: u64, pen: &mut WaitWriter<'_>) -> Rc<Shown> {
        if let Some((_, shown)) = self.shown.get(&Arc::as_ptr(wait)) {
            return Rc::clone(shown);
        }
        let frames = stack(wait, time_ns, pen);
        let functions = frames[1..].iter();
        let functions = functions.map(|&frame| pen.frames.frame(frame).function);
        let shown = Rc::new(Shown {
            functions: functions.collect(),
            place: digest::place(&frames, pen.frames).map(Rc::from),
            frames,
            lock: wait.lock.as_ref().map(|lock| Lock::of(lock, pen)),
        });
        if self.shown.len() >= SHOWN_MAX {
            self.shown.clear();
        }
        let kept = (Arc::clone(wait), Rc::clone(&shown));
        self.shown.insert(Arc::as_ptr(wait), kept);
        shown
    }
}

/// Counts a wait that was seen.
fn count(wait: &Wait, pen: &mut WaitWriter<'_>) {
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
    if let Some(python) = &wait.python {
        tally.python.count(python.flags);
    }
}

impl WaitThread {
    /// A sample that stands for a part of a wait.
    fn sample(
        &self,
        tid: u32,
        (begin_ns, end_ns): (u64, u64),
        weight_ns: u64,
        shown: &Shown,
        pen: &mut WaitWriter<'_>,
    ) -> Sample {
        let callstack = pen.output.wait_callstack(pen.frames, &shown.frames);
        if let Some(profile) = &mut pen.profile {
            let whose = Whose {
                number: pen.numbers.of(tid).unwrap_or(tid),
                tid,
                name: &self.name,
            };
            profile.wait(whose, &shown.functions, weight_ns);
        }
        if let Some(overview) = &mut pen.overview {
            let from_ns = end_ns.saturating_sub(weight_ns).max(begin_ns);
            overview.wait(tid, (from_ns, end_ns), &shown.frames, pen.frames);
        }
        if tid == pen.main_tid {
            pen.digest.main_wait(shown.place.as_ref(), weight_ns);
        }
        pen.tally.samples += 1;
        pen.tally.wall_ns = pen.tally.wall_ns.saturating_add(weight_ns);
        pen.output.sample(end_ns, tid, callstack, weight_ns)
    }

    fn track(&mut self, tid: u32, pen: &mut WaitWriter<'_>) -> &mut WaitTrack {
        let name = &self.name;
        self.track
            .get_or_insert_with(|| WaitTrack::new(pen.output, tid, name))
    }

    /// Opens the slices of the current wait, unless they are.
    fn draw(&mut self, tid: u32, time_ns: u64, pen: &mut WaitWriter<'_>) {
        let Some(current) = self.current.as_mut().filter(|current| !current.drawn) else {
            return;
        };
        current.drawn = true;
        let shown = Rc::clone(&current.shown);
        let track = self.track(tid, pen);
        track.draw(&shown, 0, time_ns, pen);
        track.open = shown.functions.len();
    }

    /// Closes what is open.
    fn close(&mut self, time_ns: u64, pen: &mut WaitWriter<'_>) {
        if let Some(track) = &mut self.track {
            let open = std::mem::take(&mut track.open);
            track.close(open, time_ns, pen);
        }
    }
}

impl WaitTrack {
    /// Opens slices for the functions from the one with this number on.
    fn draw(&mut self, shown: &Shown, first: usize, time_ns: u64, pen: &mut WaitWriter<'_>) {
        let count = shown.functions.len();
        for (number, &function) in (1..).zip(&shown.functions).skip(first) {
            let out = pen.output.buffer();
            let name = pen
                .names
                .get(function, || out.intern(&pen.frames.function(function).name));
            match &shown.lock {
                Some(lock) if number == count => {
                    let event = Event {
                        name: Name::Interned(name),
                        annotations: &lock.annotations(out),
                        ..Event::default()
                    };
                    self.sequence
                        .event(out, time_ns, EventKind::SliceBegin, &event);
                }
                _ => self.sequence.slice_begin(out, time_ns, name),
            }
            pen.tally.slices += 1;
        }
    }

    fn close(&mut self, slices: usize, time_ns: u64, pen: &mut WaitWriter<'_>) {
        for _ in 0..slices {
            self.sequence.slice_end(pen.output.buffer(), time_ns);
        }
    }
}

/// [`ROOT`] and the frames of a wait, native and Python merged as in samples, outermost first, with
/// what is wrong outside of them and what is waited for inside.
fn stack(wait: &Wait, time_ns: u64, pen: &mut WaitWriter<'_>) -> Vec<FrameId> {
    let mut shown = ShownStack::default();
    let root = pen.frames.pseudo_frame(ROOT);
    shown.start(pen.frames, &[root]);
    let unpaired = shown.push_wait(pen.frames, pen.marks, wait, pen.python, time_ns);
    pen.tally.python.unpaired_frames += unpaired as u64;
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
