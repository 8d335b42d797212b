//! The functions and frames of one process, and which of them stand behind an address.
//!
//! A *function* is a name in a module: the unit of timeline slices. A *frame* is a line of a
//! function: the unit of call stacks, coarse enough that stacks repeat. One address is several
//! frames where the compiler inlined functions, and none where it lies in the agent, which has no
//! place in the user's trace.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rsys_proto::hashing::FastMap;
use rsys_wire::record::{FRAME_ADDRESS, FRAME_EXACT};

mod mappings;
mod python;

use self::mappings::Mappings;
use self::python::{Part, PythonFrames};
use super::modules::{MappedModule, ModuleTable};
use crate::identity::Identity;
use crate::resolve::{Mapped, ModuleDesc, ModuleId, PerfMap, Resolver, Symbolized, module_frame};
use rsys_wire::program::is_agent_file;

/// Distinct addresses of one process that get names of their own; a process beyond it makes code
/// without end, or fools us.
const ADDRESSES_MAX: usize = 1 << 21;

/// Shortest time between two readings of the names of code that is made at run time.
const MAP_REFRESH: Duration = Duration::from_millis(500);

/// A function; an index into [`Frames::function`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FunctionId(pub u32);

/// A frame; an index into [`Frames::frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameId(pub u32);

/// A function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its name, fit for display.
    pub name: Arc<str>,
    /// The file that it is in; an index into [`Frames::file`].
    pub file: u32,
    /// Its part in running Python.
    part: Part,
}

/// A line of a function.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The function.
    pub function: FunctionId,
    /// Its source file.
    pub source: Option<Arc<str>>,
    /// The line, or 0.
    pub line: u32,
    /// An address of it, in the file's own address space.
    pub address: u64,
}

/// A file that code is in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CodeFile {
    /// Its path, or a made-up one in brackets.
    pub path: String,
    /// Its build-id.
    pub build_id: Vec<u8>,
}

/// What is kept of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    file: u32,
    id: ModuleId,
    hidden: bool,
}

/// Where an address is: in a file at an address of its own, or in none.
type Place = (u32, u64);

/// Code in no file.
const NO_FILE: u32 = 0;
/// What we say ourselves.
const OUR_FILE: u32 = 1;
/// What the kernel does for a thread.
const KERNEL_FILE: u32 = 2;

/// The functions and frames of one process.
#[derive(Debug)]
pub struct Frames {
    modules: ModuleTable<Known>,
    files: Vec<CodeFile>,
    file_index: FastMap<CodeFile, u32>,
    functions: Vec<Function>,
    function_index: FastMap<(Arc<str>, u32), FunctionId>,
    frames: Vec<Frame>,
    frame_index: FastMap<(FunctionId, u32), FrameId>,
    /// Ranges of `expanded`, outermost frame first.
    places: FastMap<Place, (u32, u32)>,
    expanded: Vec<FrameId>,
    wanted: FastMap<(u32, ModuleId), Vec<u64>>,
    wanted_nowhere: Vec<u64>,
    perf_map: PerfMap,
    perf_map_path: PathBuf,
    perf_map_read: Option<Instant>,
    mappings: Mappings,
    too_many: Option<(u32, u32)>,
    unresolved: u64,
    root: Option<PathBuf>,
    executable: String,
    host_pid: u32,
    /// The folder that the process was in when it was seen first.
    folder: Option<PathBuf>,
    scanned_mark: FrameId,
    python: PythonFrames,
}

impl Frames {
    /// The tables of a process.
    #[must_use]
    pub fn new(identity: &Identity) -> Self {
        let (pid, host_pid, root) = (identity.pid, identity.host_pid, identity.root.clone());
        let perf_map_path = PerfMap::path(root.as_deref(), pid);
        let made_up = |path: &str| CodeFile {
            path: path.to_owned(),
            build_id: Vec::new(),
        };
        let mut frames = Self {
            modules: ModuleTable::default(),
            files: ["[unknown]", "[rsys]", "[kernel]"].map(made_up).into(),
            file_index: FastMap::default(),
            functions: Vec::new(),
            function_index: FastMap::default(),
            frames: Vec::new(),
            frame_index: FastMap::default(),
            places: FastMap::default(),
            expanded: Vec::new(),
            wanted: FastMap::default(),
            wanted_nowhere: Vec::new(),
            perf_map: PerfMap::default(),
            perf_map_path,
            perf_map_read: None,
            mappings: Mappings::new(host_pid),
            too_many: None,
            unresolved: 0,
            root,
            executable: identity.executable.clone(),
            host_pid,
            folder: identity.folder.clone(),
            scanned_mark: FrameId(0),
            python: PythonFrames::default(),
        };
        frames.scanned_mark = frames.pseudo_frame("[scanned]");
        frames
    }

    /// Adds a module that covers `range`; an empty path means the executable.
    pub fn add_module(
        &mut self,
        resolver: &Resolver,
        time_ns: u64,
        range: (u64, u64),
        bias: u64,
        build_id: Vec<u8>,
        path: &[u8],
    ) {
        let is_program = path.is_empty();
        let path = match is_program {
            true => self.executable.clone(),
            false => String::from_utf8_lossy(path).into_owned(),
        };
        // Agent and map may call the same file by different paths.
        let known = self.modules.find(range.0, time_ns).filter(|module| {
            module.bias == bias
                && !build_id.is_empty()
                && self.file(module.value.file).build_id == build_id
        });
        let value = match known.map(|module| module.value) {
            Some(value) => value,
            None => {
                // The loader has it as the program gave it, which may be below a folder that the program is no longer in.
                let path = match path.starts_with(['/', '[']) {
                    true => path,
                    false => self.whole_path(path, range.0),
                };
                let path = resolver.real_path(&path, self.root.as_deref());
                let mapped = (self.host_pid != 0).then_some(Mapped {
                    host_pid: self.host_pid,
                    address: (!is_program).then_some(range.0),
                });
                self.new_file(resolver, CodeFile { path, build_id }, mapped)
            }
        };
        self.modules.add(MappedModule {
            time_ns,
            start: range.0,
            end: range.1,
            bias,
            value,
        });
    }

    /// The path of a file that a process opened by a relative one and has, or had, mapped at an address.
    fn whole_path(&self, path: String, address: u64) -> String {
        let mapped = self.mappings.file_at(address);
        // Another file may be there by now.
        let has_name =
            |mapped: &&String| Path::new(mapped).file_name() == Path::new(&path).file_name();
        if let Some(mapped) = mapped.as_ref().filter(has_name) {
            return mapped.clone();
        }
        self.below_folder(&path).or(mapped).unwrap_or(path)
    }

    /// The path of a file below the folder that the process began in, if it is there.
    fn below_folder(&self, path: &str) -> Option<String> {
        let path = self.folder.as_ref()?.join(path);
        let seen = match (&self.root, path.strip_prefix("/")) {
            (Some(root), Ok(inner)) => root.join(inner),
            _ => path.clone(),
        };
        seen.exists().then(|| path.to_str().map(str::to_owned))?
    }

    fn new_file(&mut self, resolver: &Resolver, file: CodeFile, mapped: Option<Mapped>) -> Known {
        let desc = ModuleDesc {
            path: (&file.path).into(),
            build_id: file.build_id.clone(),
            root: self.root.clone(),
            mapped,
        };
        let hidden = file
            .path
            .rsplit('/')
            .next()
            .is_some_and(|name| is_agent_file(name.as_bytes()));
        Known {
            file: self.file_id(file),
            id: resolver.module(&desc),
            hidden,
        }
    }

    /// Number of modules.
    #[must_use]
    pub fn modules(&self) -> usize {
        self.modules.len()
    }

    /// Distinct addresses without a name.
    #[must_use]
    pub fn unresolved(&self) -> u64 {
        self.unresolved
    }

    /// A function.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// A frame.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// A file.
    #[must_use]
    pub fn file(&self, index: u32) -> &CodeFile {
        &self.files[index as usize]
    }

    /// The path of the file that a word's code is in.
    #[must_use]
    pub fn path_of(&self, word: u64, time_ns: u64) -> &str {
        let (known, _) = self.place(word, time_ns);
        &self.file(known.map_or(NO_FILE, |known| known.file)).path
    }

    /// The frame that stands between a caller that was found by searching the stack and its callee.
    #[must_use]
    pub fn scanned_mark(&self) -> FrameId {
        self.scanned_mark
    }

    /// A frame that says something about the stack.
    pub fn pseudo_frame(&mut self, name: &str) -> FrameId {
        self.made_up_frame(OUR_FILE, name)
    }

    /// A frame of the kernel: a system call.
    pub fn kernel_frame(&mut self, name: &str) -> FrameId {
        self.made_up_frame(KERNEL_FILE, name)
    }

    fn made_up_frame(&mut self, file: u32, name: &str) -> FrameId {
        // Viewers distinguish frames of a file by their addresses.
        let address = self.frames.len() as u64;
        self.frame_id(
            file,
            &Symbolized {
                name: name.into(),
                mangled: None,
                file: None,
                line: None,
                inlined: false,
                function_start: 0,
            },
            address,
        )
    }

    /// Notes that the frames of a word will be asked for.
    pub fn want(&mut self, word: u64, time_ns: u64) {
        let (known, address) = self.place(word, time_ns);
        match known {
            Some(known) if !known.hidden && !self.places.contains_key(&(known.file, address)) => {
                self.wanted
                    .entry((known.file, known.id))
                    .or_default()
                    .push(address);
            }
            None if !self.places.contains_key(&(NO_FILE, address)) => {
                self.wanted_nowhere.push(address)
            }
            _ => {}
        }
    }

    /// Finds the names of all that was wanted; without a resolver, makes names of the addresses.
    pub fn resolve_wanted(&mut self, resolver: Option<&Resolver>) {
        // First of all: names of libraries may take longer than the process lives.
        for &address in &self.wanted_nowhere {
            self.mappings.look(address);
        }
        if !self.wanted.is_empty() {
            let (files, requests): (Vec<u32>, Vec<(ModuleId, Vec<u64>)>) =
                std::mem::take(&mut self.wanted)
                    .into_iter()
                    .map(|((file, id), mut addresses)| {
                        addresses.sort_unstable();
                        addresses.dedup();
                        (file, (id, addresses))
                    })
                    .unzip();
            let answers = match resolver {
                Some(resolver) => resolver.resolve_many(&requests),
                None => files
                    .iter()
                    .zip(&requests)
                    .map(|(&file, (_, addresses))| self.nameless(file, addresses))
                    .collect(),
            };
            for ((file, (_, addresses)), answers) in files.iter().zip(&requests).zip(answers) {
                for (&address, frames) in addresses.iter().zip(answers) {
                    self.insert_place((*file, address), &frames);
                }
            }
        }
        if !self.wanted_nowhere.is_empty() {
            self.resolve_nowhere();
        }
    }

    fn nameless(&self, file: u32, addresses: &[u64]) -> Vec<Arc<[Symbolized]>> {
        let path = &self.file(file).path;
        let module = path.rsplit('/').next().unwrap_or(path);
        addresses
            .iter()
            .map(|&address| [module_frame(module, address)].into())
            .collect()
    }

    /// Has the map of names read once more before the next names are found: its writer has ended,
    /// and will have written the rest.
    pub fn read_map_again(&mut self) {
        self.perf_map_read = None;
    }

    fn resolve_nowhere(&mut self) {
        if self
            .perf_map_read
            .is_none_or(|read| read.elapsed() >= MAP_REFRESH)
        {
            // A map that cannot be read leaves the addresses without names.
            let is_changed = self.perf_map.refresh(&self.perf_map_path).unwrap_or(false);
            self.perf_map_read = Some(Instant::now());
            if is_changed {
                // New code may lie where old code was.
                self.places.retain(|(file, _), _| *file != NO_FILE);
            }
        }
        for address in std::mem::take(&mut self.wanted_nowhere) {
            let frame = self.perf_map.resolve(address).unwrap_or_else(|| {
                self.unresolved += 1;
                self.mappings.frame(address)
            });
            self.insert_place((NO_FILE, address), &[frame]);
        }
    }

    /// The frames behind a word, outermost first. Empty for code that is not to be seen.
    #[must_use]
    pub fn frames_of(&self, word: u64, time_ns: u64) -> &[FrameId] {
        let (known, address) = self.place(word, time_ns);
        let file = match known {
            Some(known) if known.hidden => return &[],
            Some(known) => known.file,
            None => NO_FILE,
        };
        let range = self.places.get(&(file, address)).copied().or(self.too_many);
        range
            .and_then(|(start, end)| self.expanded.get(start as usize..end as usize))
            .unwrap_or_default()
    }

    /// The module and the address to look up.
    fn place(&self, word: u64, time_ns: u64) -> (Option<Known>, u64) {
        let mut address = word & FRAME_ADDRESS;
        if address & (FRAME_ADDRESS + 1) >> 1 != 0 {
            // The kernel's half: the flags took the place of its sign bits.
            address |= !FRAME_ADDRESS;
        }
        if word & FRAME_EXACT == 0 {
            // A return address may belong to the next function already.
            address = address.saturating_sub(1);
        }
        match self.modules.find(address, time_ns) {
            Some(module) => (Some(module.value), address.wrapping_sub(module.bias)),
            None => (None, address),
        }
    }

    fn insert_place(&mut self, place: Place, frames: &[Symbolized]) {
        if self.places.len() >= ADDRESSES_MAX {
            if self.too_many.is_none() {
                let frame = self.pseudo_frame("[too many addresses]");
                self.too_many = Some(self.expand([frame]));
            }
            return;
        }
        if place.0 != NO_FILE && !frames.iter().any(Symbolized::is_named) {
            self.unresolved += 1;
        }
        let ids: Vec<FrameId> = frames
            .iter()
            .rev()
            .map(|frame| self.frame_id(place.0, frame, place.1))
            .collect();
        let range = self.expand(ids);
        self.places.insert(place, range);
    }

    fn expand(&mut self, ids: impl IntoIterator<Item = FrameId>) -> (u32, u32) {
        let start = self.expanded.len() as u32;
        self.expanded.extend(ids);
        (start, self.expanded.len() as u32)
    }

    fn file_id(&mut self, file: CodeFile) -> u32 {
        if let Some(&index) = self.file_index.get(&file) {
            return index;
        }
        let index = self.files.len() as u32;
        self.files.push(file.clone());
        self.file_index.insert(file, index);
        index
    }

    fn frame_id(&mut self, file: u32, frame: &Symbolized, address: u64) -> FrameId {
        let key = (Arc::clone(&frame.name), file);
        let function = match self.function_index.get(&key) {
            Some(&function) => function,
            None => {
                let id = FunctionId(self.functions.len() as u32);
                let path = &self.files[file as usize].path;
                self.functions.push(Function {
                    part: Part::of(frame, file, path),
                    name: Arc::clone(&frame.name),
                    file,
                });
                self.function_index.insert(key, id);
                id
            }
        };
        let line = frame.line.unwrap_or(0);
        self.line_of(function, line, frame.file.clone(), address)
    }

    fn line_of(
        &mut self,
        function: FunctionId,
        line: u32,
        source: Option<Arc<str>>,
        address: u64,
    ) -> FrameId {
        *self.frame_index.entry((function, line)).or_insert_with(|| {
            let id = FrameId(self.frames.len() as u32);
            self.frames.push(Frame {
                function,
                source,
                line,
                address,
            });
            id
        })
    }
}
