//! One ring's words become one thread's stacks.
//!
//! A sample names only the frames that differ from the sample before in its ring. [`Stack`] puts
//! the whole stack together again and keeps the frames that were found for the part that did not
//! change.

use rsys_wire::record::{
    FRAME_SCANNED, PYTHON_BROKEN, PYTHON_SUBINTERPRETER, PYTHON_TRUNCATED, ThreadName,
};

use super::events::StackMarks;
use super::frames::{FrameId, Frames, FunctionId};
use crate::python::PythonView;
use crate::python::merge::{Ends, Piece, Role, merge};
use crate::waits::record::{Completeness, Wait};

/// The stack of the last sample of a ring, outermost frame first.
#[derive(Debug, Default)]
pub struct Stack {
    words: Vec<u64>,
    /// How many frames there are up to each word.
    ends: Vec<u32>,
    frames: Vec<FrameId>,
    functions: Vec<FunctionId>,
}

impl Stack {
    /// Forgets everything, as at a thread's start or after damage.
    pub fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
        self.frames.clear();
        self.functions.clear();
    }

    /// Takes over a sample: its `shared` outermost words stay, the `new` ones (innermost first)
    /// come inside of them.
    ///
    /// Returns `false`, with an empty stack, when there are fewer to share.
    #[must_use]
    pub fn update(&mut self, tables: &Frames, time_ns: u64, shared: u16, new: &[u64]) -> bool {
        let shared = usize::from(shared);
        if shared > self.words.len() {
            self.clear();
            return false;
        }
        self.words.truncate(shared);
        self.ends.truncate(shared);
        let kept = self.ends.last().map_or(0, |&end| end as usize);
        self.frames.truncate(kept);
        self.functions.truncate(kept);
        for &word in new.iter().rev() {
            let mark = (word & FRAME_SCANNED != 0).then(|| tables.scanned_mark());
            let frames = tables.frames_of(word, time_ns).iter().copied();
            for frame in frames.chain(mark) {
                self.frames.push(frame);
                self.functions.push(tables.frame(frame).function);
            }
            self.words.push(word);
            self.ends.push(self.frames.len() as u32);
        }
        true
    }

    /// The words as they came.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Frames and functions, outermost first.
    #[must_use]
    pub fn frames(&self) -> (&[FrameId], &[FunctionId]) {
        (&self.frames, &self.functions)
    }

    /// The frames of each word, outermost first.
    pub fn by_word(&self) -> impl Iterator<Item = &[FrameId]> {
        (0..self.words.len()).map(|word| self.word_frames(word))
    }

    /// The frames of one word.
    #[must_use]
    pub fn word_frames(&self, word: usize) -> &[FrameId] {
        let start = word.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.frames[start as usize..self.ends[word] as usize]
    }
}

/// The Python frames of the last Python stack of a ring, outermost first.
#[derive(Debug, Default)]
pub struct PythonStack {
    frames: Vec<FrameId>,
    entries: Vec<bool>,
    /// What the record said of it.
    pub flags: u8,
}

impl PythonStack {
    /// Forgets everything, as at a thread's start or after damage.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.entries.clear();
        self.flags = 0;
    }

    /// As [`Stack::update`].
    #[must_use]
    pub fn update(&mut self, tables: &mut Frames, flags: u8, shared: u16, new: &[u64]) -> bool {
        let shared = usize::from(shared);
        if shared > self.frames.len() {
            self.clear();
            return false;
        }
        self.flags = flags;
        self.frames.truncate(shared);
        self.entries.truncate(shared);
        for &word in new.iter().rev() {
            self.frames.push(tables.python_frame(word));
            self.entries.push(word & rsys_python::stack::ENTRY != 0);
        }
        true
    }

    /// The frames, outermost first.
    #[must_use]
    pub fn frames(&self) -> &[FrameId] {
        &self.frames
    }

    /// Which of them are entries.
    #[must_use]
    pub fn entries(&self) -> &[bool] {
        &self.entries
    }
}

/// The stack of a sample as it is shown, outermost first.
#[derive(Debug, Default)]
pub struct ShownStack {
    /// Its frames.
    pub frames: Vec<FrameId>,
    /// The function of each.
    pub functions: Vec<FunctionId>,
    roles: Vec<Role>,
    pieces: Vec<Piece>,
}

impl ShownStack {
    /// Starts with these frames.
    pub fn start(&mut self, tables: &Frames, frames: &[FrameId]) {
        self.frames.clear();
        self.functions.clear();
        self.push(tables, frames);
    }

    /// Adds frames inside.
    pub fn push(&mut self, tables: &Frames, frames: &[FrameId]) {
        self.frames.extend_from_slice(frames);
        self.functions
            .extend(frames.iter().map(|&frame| tables.frame(frame).function));
    }

    /// Adds a Python stack inside.
    pub fn push_python(&mut self, tables: &Frames, python: &PythonStack) {
        let first = self.frames.len();
        self.push_of_program(tables, python.frames());
        self.begin_at_fork(tables, first);
    }

    /// Adds Python frames inside, without those that are none of the program.
    fn push_of_program(&mut self, tables: &Frames, frames: &[FrameId]) {
        for frame in frames.iter().filter(|frame| !tables.is_shim(**frame)) {
            self.push(tables, std::slice::from_ref(frame));
        }
    }

    /// Takes away what the parent of a worker had called before it made it. The frames from `first` on are the thread's.
    fn begin_at_fork(&mut self, tables: &Frames, first: usize) {
        if let Some(root) = tables.process_root(&self.functions[first..]) {
            self.frames.drain(first..first + root);
            self.functions.drain(first..first + root);
        }
    }

    /// Adds a native stack inside.
    pub fn push_native(&mut self, native: &Stack) {
        let (frames, functions) = native.frames();
        self.frames.extend_from_slice(frames);
        self.functions.extend_from_slice(functions);
    }

    /// Adds a native and a Python stack inside, merged. Returns how many Python frames found no
    /// native function that runs them.
    pub fn push_merged(
        &mut self,
        tables: &Frames,
        native: &Stack,
        python: &PythonStack,
        ends: Ends,
        show_interpreter: bool,
    ) -> usize {
        let mut roles = std::mem::take(&mut self.roles);
        let mut pieces = std::mem::take(&mut self.pieces);
        roles.clear();
        roles.extend(native.by_word().map(|frames| tables.role(frames)));
        let entries = python.entries();
        let unpaired = merge(&roles, entries, ends, show_interpreter, &mut pieces);
        let first = self.frames.len();
        for piece in &pieces {
            match *piece {
                Piece::Native(word) => self.push(tables, native.word_frames(word)),
                Piece::Python(start, end) => {
                    self.push_of_program(tables, &python.frames()[start..end])
                }
            }
        }
        self.begin_at_fork(tables, first);
        (self.roles, self.pieces) = (roles, pieces);
        unpaired
    }
}

impl ShownStack {
    /// Adds the stack of a wait inside, native and Python merged as in samples, with what is wrong outside of it. Its words are resolved. Returns how
    /// many Python frames found no native function that runs them.
    pub fn push_wait(
        &mut self,
        frames: &mut Frames,
        marks: StackMarks,
        wait: &Wait,
        view: PythonView,
        time_ns: u64,
    ) -> usize {
        let (native, python) = (&mut Stack::default(), &mut PythonStack::default());
        // Whole stacks, which share nothing with one before.
        _ = native.update(frames, time_ns, 0, &wait.words);
        if let Some(stack) = &wait.python {
            _ = python.update(frames, stack.flags, 0, &stack.words);
        }
        let has = |flag: u8| python.flags & flag != 0;
        match wait.completeness {
            _ if has(PYTHON_TRUNCATED) => self.push(frames, &[marks.truncated]),
            Completeness::Truncated => self.push(frames, &[marks.truncated]),
            _ if has(PYTHON_BROKEN) => self.push(frames, &[marks.broken]),
            Completeness::Broken => self.push(frames, &[marks.broken]),
            Completeness::Complete => {}
        }
        match wait.python {
            Some(_) if view.only => self.push_python(frames, python),
            Some(_) => {
                let ends = Ends {
                    native_root: wait.completeness == Completeness::Complete,
                    // Outside of another interpreter than the main one may be the main one.
                    python_root: !has(PYTHON_TRUNCATED | PYTHON_BROKEN | PYTHON_SUBINTERPRETER),
                };
                return self.push_merged(frames, native, python, ends, view.interpreter);
            }
            None if view.only => self.push(frames, &[marks.no_python]),
            None => self.push_native(native),
        }
        0
    }
}

/// A thread's name without its padding.
#[must_use]
pub fn thread_name(name: &ThreadName) -> String {
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
