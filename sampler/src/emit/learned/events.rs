//! What events refer to by numbers: texts, call stacks, labels, calls.

use rsys_proto::hashing::FastMap;
use rsys_wire::event::{Args, Event, Key, Labelled, Read};
use rsys_wire::record::{PYTHON_BROKEN, PYTHON_TRUNCATED, SAMPLE_BROKEN, SAMPLE_TRUNCATED};

use super::calls::{Call, KeptCalls};
use crate::emit::learned::frames::{FrameId, Frames};
use crate::emit::learned::stacks::{PythonStack, ShownStack, Stack};
use crate::os;
use crate::python::PythonView;
use crate::python::merge::Ends;
use crate::resolve::demangled;

/// A label.
#[derive(Debug, Clone, Default)]
pub struct Label {
    /// What it says.
    pub text: String,
    /// What was recorded beside it: names and values.
    pub more: Vec<(&'static str, String)>,
}

/// A stack whose frames were not looked up yet.
#[derive(Debug)]
struct NewStack {
    id: u64,
    flags: u8,
    time_ns: u64,
    words: Vec<u64>,
    python_flags: u8,
    python: Vec<u64>,
}

/// A text that names a place whose function was not looked up yet.
#[derive(Debug)]
struct NewPlace {
    key: u64,
    address: u64,
    time_ns: u64,
    text: String,
}

/// What stacks are put together with.
#[derive(Debug, Default)]
struct Merger {
    native: Stack,
    python: PythonStack,
    shown: ShownStack,
}

/// The number of a text among all that a process recorded: another one for each, also if it has the key of one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextNumber(pub u32);

/// What other events refer to by numbers.
#[derive(Debug, Default)]
pub struct EventTables {
    texts: FastMap<u64, (TextNumber, String)>,
    /// How many texts were recorded.
    text_count: u32,
    stacks: FastMap<u64, Vec<FrameId>>,
    new_stacks: Vec<NewStack>,
    new_places: Vec<NewPlace>,
    merger: Merger,
    labels: FastMap<(Labelled, u64), Label>,
    calls: KeptCalls,
    /// The thread whose events each ring holds.
    event_threads: FastMap<u32, u32>,
}

impl EventTables {
    /// Takes what an event defines.
    pub fn learn(&mut self, ring: u32, event: &Event<'_>) {
        match event {
            Event::Thread { tid, .. } => _ = self.event_threads.insert(ring, *tid),
            Event::Text { key, text } => {
                let text = demangled(&String::from_utf8_lossy(text));
                self.insert_text(*key, text);
            }
            Event::Place { key, address, text } => self.new_places.push(NewPlace {
                key: *key,
                address: *address,
                time_ns: os::boot_time_ns(),
                text: String::from_utf8_lossy(text).into_owned(),
            }),
            Event::Stack(stack) if !self.stacks.contains_key(&stack.id) => {
                self.new_stacks.push(NewStack {
                    id: stack.id,
                    flags: stack.flags,
                    time_ns: os::boot_time_ns(),
                    words: stack.frames.to_vec(),
                    python_flags: stack.python_flags,
                    python: stack.python.to_vec(),
                });
            }
            Event::Label {
                what,
                id,
                text,
                args,
            } => {
                let label = Label {
                    text: String::from_utf8_lossy(text).into_owned(),
                    more: args
                        .into_iter()
                        .map(|(key, value)| (key.name(), self.plain(&value)))
                        .collect(),
                };
                self.labels.insert((*what, *id), label);
            }
            Event::Begin {
                time_ns,
                correlation,
                awaited,
                args,
                ..
            } if *correlation != 0 => {
                let tid = self.event_threads.get(&ring).copied().unwrap_or_default();
                self.learn_call((tid, *time_ns), *correlation, *awaited, *args);
            }
            _ => {}
        }
    }

    fn learn_call(
        &mut self,
        (tid, start_ns): (u32, u64),
        correlation: u64,
        awaited: bool,
        args: Args<'_>,
    ) {
        let mut call = Call {
            tid,
            ..Call::default()
        };
        let mut operations = 1;
        for (key, value) in args {
            match (key, value) {
                (Key::Stream, Read::Pointer(stream) | Read::Uint(stream)) => {
                    call.stream = Some(stream);
                }
                (Key::LaunchStack, Read::Uint(stack)) => call.stack = stack,
                (Key::Bytes, Read::Uint(bytes)) => call.bytes = Some(bytes),
                (Key::Direction, Read::Known(direction)) => call.direction = direction,
                (Key::Kernel, Read::Known(kernel)) => call.kernel = kernel,
                (Key::Operations, Read::Uint(count)) => operations = count,
                _ => {}
            }
        }
        // What a batch copies as a whole is not the size of each copy.
        call.bytes = call.bytes.filter(|_| operations == 1);
        self.calls.insert(correlation, call, start_ns, awaited);
    }

    fn insert_text(&mut self, key: u64, text: String) {
        let number = TextNumber(self.text_count);
        self.text_count += 1;
        self.texts.insert(key, (number, text));
    }

    /// Asks for the addresses of new stacks.
    pub fn want(&self, frames: &mut Frames) {
        for stack in &self.new_stacks {
            for &word in &stack.words {
                frames.want(word, stack.time_ns);
            }
        }
        for place in &self.new_places {
            frames.want(place.address, place.time_ns);
        }
    }

    /// Takes over the frames of new stacks, and the names of new places.
    pub fn settle(&mut self, frames: &mut Frames, marks: StackMarks, view: PythonView) {
        let merger = &mut self.merger;
        for stack in self.new_stacks.drain(..) {
            let shown = merger.merge(&stack, frames, marks, view);
            self.stacks.insert(stack.id, shown.to_vec());
        }
        for place in std::mem::take(&mut self.new_places) {
            let text = place_name(&place, frames);
            self.insert_text(place.key, text);
        }
    }

    /// The call that caused an operation which was recorded now, and when it began (to 64 ns), if the call is known.
    pub fn cause(&mut self, correlation: u64) -> Option<(Call, u64)> {
        self.calls.told(correlation)
    }

    /// Launches of kernels that were not recorded, newest first, and when they began.
    pub fn unended(&self) -> impl Iterator<Item = (Call, u64)> {
        self.calls.unended()
    }

    /// The frames of a stack, outermost first; empty when it was not recorded.
    pub fn stack(&self, id: u64) -> &[FrameId] {
        self.stacks.get(&id).map_or(&[], Vec::as_slice)
    }

    /// What a text says.
    pub fn text(&self, key: u64) -> Option<&str> {
        self.numbered_text(key).map(|(_, text)| text)
    }

    /// What a text says, and its number.
    pub fn numbered_text(&self, key: u64) -> Option<(TextNumber, &str)> {
        let (number, text) = self.texts.get(&key)?;
        Some((*number, text))
    }

    /// A label.
    pub fn label(&self, what: Labelled, id: u64) -> Option<&Label> {
        self.labels.get(&(what, id))
    }

    /// What the program calls a GPU.
    pub fn device_name(&self, number: u32) -> Option<&str> {
        let ordinal = || {
            let more = &self.label(Labelled::Device, u64::from(number))?.more;
            let (_, ordinal) = more.iter().find(|(key, _)| *key == Key::Ordinal.name())?;
            self.label(Labelled::NamedOrdinal, ordinal.parse().ok()?)
        };
        let label = self.label(Labelled::NamedDevice, u64::from(number));
        Some(label.or_else(ordinal)?.text.as_str()).filter(|text| !text.is_empty())
    }

    /// A value as text.
    pub fn plain(&self, value: &Read) -> String {
        match value {
            Read::Uint(value) => value.to_string(),
            Read::Int(value) => value.to_string(),
            Read::Double(value) => value.to_string(),
            Read::Pointer(value) => format!("{value:#x}"),
            Read::Known(key) => self.text(*key).unwrap_or("?").to_owned(),
            Read::Size3(size) => size3_text(*size),
            Read::Text(text) => String::from_utf8_lossy(text).into_owned(),
        }
    }
}

/// What happens at a place, with the function that the program's author wrote there, and the line: `barrier solve (main.c:12)`.
fn place_name(place: &NewPlace, frames: &Frames) -> String {
    let Some(&innermost) = frames.frames_of(place.address, place.time_ns).last() else {
        return place.text.clone();
    };
    let frame = frames.frame(innermost);
    let function = written_function(&frames.function(frame.function).name);
    let mut name = place.text.clone();
    if !function.is_empty() {
        name.push(' ');
        name.push_str(function);
    }
    if let Some(source) = &frame.source
        && frame.line != 0
    {
        let file = source.rsplit('/').next().unwrap_or(source);
        name.push_str(&format!(" ({file}:{})", frame.line));
    }
    name
}

/// The function that holds an OpenMP construct, of the name of the body that gcc (`f._omp_fn.0`) or clang (`f.omp_outlined`, and up to 16
/// `.omp_outlined.` alone) has made of the construct. Empty where the name does not say.
fn written_function(name: &str) -> &str {
    let body = [
        "._omp_",
        ".omp_outlined",
        ".omp_task_entry",
        "__omp_offloading",
    ]
    .iter()
    .filter_map(|mark| name.find(mark))
    .min();
    body.map_or(name, |end| {
        name[..end]
            .trim_end_matches('.')
            .trim_end_matches(" [clone ")
    })
}

/// A size in three dimensions as text.
#[must_use]
pub fn size3_text([x, y, z]: [u32; 3]) -> String {
    format!("{x}×{y}×{z}")
}

impl Merger {
    /// The frames of a stack, outermost first, as those of a sample would be.
    fn merge(
        &mut self,
        stack: &NewStack,
        frames: &mut Frames,
        marks: StackMarks,
        view: PythonView,
    ) -> &[FrameId] {
        let Self {
            native,
            python,
            shown,
        } = self;
        // Nothing is shared with the stack before, so both always succeed.
        _ = native.update(frames, stack.time_ns, 0, &stack.words);
        _ = python.update(frames, stack.python_flags, 0, &stack.python);
        let mark = if stack.flags & SAMPLE_TRUNCATED != 0 {
            Some(marks.truncated)
        } else if stack.flags & SAMPLE_BROKEN != 0 {
            Some(marks.broken)
        } else {
            None
        };
        shown.start(frames, mark.as_slice());
        if stack.python.is_empty() {
            if view.only {
                shown.push(frames, &[marks.no_python]);
            } else {
                shown.push_native(native);
            }
        } else if view.only {
            shown.push_python(frames, python);
        } else {
            let ends = Ends {
                native_root: stack.flags & (SAMPLE_TRUNCATED | SAMPLE_BROKEN) == 0,
                python_root: stack.python_flags & (PYTHON_TRUNCATED | PYTHON_BROKEN) == 0,
            };
            shown.push_merged(frames, native, python, ends, view.interpreter);
        }
        &shown.frames
    }
}

/// Frames that say what is wrong with a stack.
#[derive(Debug, Clone, Copy)]
pub struct StackMarks {
    /// It was deeper than the limit.
    pub truncated: FrameId,
    /// It could not be walked to its root.
    pub broken: FrameId,
    /// Only Python is wanted, and there is none.
    pub no_python: FrameId,
    /// There is nothing but code of the profiler's own, which is not shown.
    pub profiler: FrameId,
}

#[cfg(test)]
mod tests {
    use super::written_function;

    #[test]
    fn bodies_that_compilers_make_are_their_functions() {
        for (name, written) in [
            ("solve", "solve"),
            ("solve._omp_fn.0", "solve"),
            ("solve.omp_outlined", "solve"),
            ("ns::solve(int) [clone .omp_outlined.3]", "ns::solve(int)"),
            (".omp_outlined.", ""),
            (".omp_outlined._debug__", ""),
        ] {
            assert_eq!(written_function(name), written, "{name}");
        }
    }
}
