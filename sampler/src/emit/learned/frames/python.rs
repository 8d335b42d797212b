//! The Python functions and frames of a process, and which of its native frames are the
//! interpreter's.

use std::collections::HashMap;
use std::sync::Arc;

use rsys_python::stack::{ENTRY, instruction_of, key_of};

use super::{ADDRESSES_MAX, CodeFile, FrameId, Frames, Function, FunctionId, NO_FILE};
use crate::python::codes::{Code, Codes};
use crate::python::merge::Role;
use crate::resolve::Symbolized;

/// The Python functions of the process.
#[derive(Debug, Default)]
pub(super) struct PythonFrames {
    codes: Codes,
    /// By name, file and first line: names alone are not unique.
    functions: HashMap<(Arc<str>, u32, u32), FunctionId>,
    /// By word.
    frames: HashMap<u64, FrameId>,
    /// Files of interpreters.
    interpreters: Vec<u32>,
    /// Frames whose code object was not recorded.
    unknown: u64,
    /// Whether some function is the first one of a process, or none of the program.
    has_special: bool,
}

impl Frames {
    /// Notes that the module around `address` is a Python interpreter.
    pub fn add_interpreter(&mut self, address: u64, time_ns: u64) {
        if let Some(module) = self.modules.find(address, time_ns)
            && !self.python.interpreters.contains(&module.value.file)
        {
            self.python.interpreters.push(module.value.file);
        }
    }

    /// Takes over a code object.
    pub fn add_code(&mut self, key: u64, code: Code) {
        if self
            .python
            .codes
            .get(key)
            .is_some_and(|known| *known != code)
        {
            // Two objects with one key, one after the other: what was found for the first does not
            // hold for the second.
            self.python.frames.retain(|word, _| key_of(*word) != key);
        }
        self.python.codes.add(key, code);
    }

    /// Code objects that were recorded.
    #[must_use]
    pub fn codes(&self) -> u64 {
        self.python.codes.len() as u64
    }

    /// Frames whose code object was not recorded.
    #[must_use]
    pub fn unknown_codes(&self) -> u64 {
        self.python.unknown
    }

    /// The frame behind a Python word.
    pub fn python_frame(&mut self, word: u64) -> FrameId {
        let word = word & !ENTRY;
        if let Some(&id) = self.python.frames.get(&word) {
            return id;
        }
        let Some(code) = self.python.codes.get(key_of(word)) else {
            self.python.unknown += 1;
            return self.pseudo_frame("[unknown Python function]");
        };
        let line = code.lines.line(instruction_of(word));
        let (name, source, first_line) = (
            Arc::clone(&code.name),
            Arc::clone(&code.file),
            code.first_line,
        );
        let part = Part::of_python(&name, &source);
        let file = self.file_id(CodeFile {
            path: source.to_string(),
            build_id: Vec::new(),
        });
        let functions = &mut self.functions;
        let function = *self
            .python
            .functions
            .entry((Arc::clone(&name), file, first_line))
            .or_insert_with(|| {
                let id = FunctionId(functions.len() as u32);
                functions.push(Function { name, file, part });
                id
            });
        self.python.has_special |= part != Part::Plain;
        // The line stands for the address, which has to differ where the line does.
        let id = self.line_of(function, line, Some(source), u64::from(line));
        if self.python.frames.len() < ADDRESSES_MAX {
            self.python.frames.insert(word, id);
        }
        id
    }

    /// Whether a Python frame is none of the program: CPython runs `__init__` of a class below one of its own since 3.12.
    pub fn is_shim(&self, frame: FrameId) -> bool {
        self.python.has_special && self.function(self.frame(frame).function).part == Part::Shim
    }

    /// Where the stack of a process of `multiprocessing` begins: frames outside of that are of the process that it was forked from.
    #[must_use]
    pub fn process_root(&self, functions: &[FunctionId]) -> Option<usize> {
        if !self.python.has_special {
            return None;
        }
        let is_root = |function: &FunctionId| self.function(*function).part == Part::ProcessRoot;
        functions.iter().rposition(is_root)
    }

    /// What the frames of one address have to do with Python.
    #[must_use]
    pub fn role(&self, frames: &[FrameId]) -> Role {
        let function = |frame: &FrameId| self.function(self.frame(*frame).function);
        let Some(outer) = frames.first().map(function) else {
            return Role::Native;
        };
        match outer.part {
            Part::Switches => Role::Switches,
            Part::Trampoline => Role::Interpreter,
            Part::Made => Role::Made,
            _ if !self.python.interpreters.contains(&outer.file) => Role::Native,
            // What was inlined into it, and it into others, has its name as well.
            _ if frames
                .iter()
                .any(|frame| function(frame).part == Part::Evaluates) =>
            {
                Role::Evaluates
            }
            Part::Nameless => Role::Nameless,
            Part::Plain | Part::Evaluates | Part::ProcessRoot | Part::Shim => Role::Interpreter,
        }
    }
}

/// What the name and the file of a function say of its part in running Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Frames without a code object.
    Plain,
    /// The name is made of an address.
    Nameless,
    /// So it is, and the code is in no file, nor in memory that a file of its own stands for.
    Made,
    /// It is called as the function that runs Python frames.
    Evaluates,
    /// It is of the library of greenlets.
    Switches,
    /// `-X perf` puts it between the calls of the interpreter. The Python frames say the same.
    Trampoline,
    /// The first Python function of a process that `multiprocessing` has made.
    ProcessRoot,
    /// A Python frame of CPython's own.
    Shim,
}

impl Part {
    /// The part of a Python function, by its name as it is shown and its file.
    pub(super) fn of_python(name: &str, file: &str) -> Self {
        let is_bootstrap = matches!(
            name,
            "BaseProcess._bootstrap (process.py)" | "_bootstrap (process.py)"
        );
        if is_bootstrap && file.ends_with("multiprocessing/process.py") {
            Part::ProcessRoot
        } else if name == "__init__ (__init__)" {
            Part::Shim
        } else {
            Part::Plain
        }
    }

    /// The part of a function of the file with this number and path.
    pub(super) fn of(frame: &Symbolized, file: u32, path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        // Compilers add `.cold`, `.constprop.0` and the like to the parts and copies of a function.
        if frame.name.split('.').next() == Some("_PyEval_EvalFrameDefault") {
            Part::Evaluates
        } else if file == NO_FILE && frame.name.starts_with("py::") {
            Part::Trampoline
        } else if file == NO_FILE
            && ["[code at ", "[code in anon:"]
                .iter()
                .any(|made| frame.name.starts_with(made))
        {
            Part::Made
        } else if name.starts_with("_greenlet") {
            Part::Switches
        } else if frame.function_start == 0 {
            Part::Nameless
        } else {
            Part::Plain
        }
    }
}
