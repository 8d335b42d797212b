//! What the closing table says of a process, gathered while its trace is written: a bounded amount of memory, and a few operations for
//! each record. Nothing is read again for it.

mod busy;

use std::collections::BTreeMap;
use std::rc::Rc;

use self::busy::Busy;
use super::learned::events::EventTables;
use super::learned::frames::{FrameId, Frames, FunctionId};

/// At most this many of each are named: the rest is one sum. Names of many processes are added up, so this is more than the table shows.
const NAMED_MAX: usize = 64;
/// At most this many places of waits are told apart.
const PLACES_MAX: usize = 1 << 16;

/// A name and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// A function or kernel.
    pub name: String,
    /// Samples or dispatches.
    pub count: u64,
    /// Their time.
    pub ns: u64,
}

/// What a GPU did for a process, from its first operation to the end of its last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuTime {
    /// The GPU.
    pub name: String,
    /// From the first begin to the last end.
    pub total_ns: u64,
    /// At least one operation was under way.
    pub busy_ns: u64,
    /// Idle, and the next operation had not been submitted.
    pub late_ns: u64,
    /// Idle, and the next operation had been submitted.
    pub submitted_ns: u64,
    /// The place that submitted what was most waited for in `late_ns`, with its part of it.
    pub late_place: Option<(String, u64)>,
}

impl GpuTime {
    /// Nothing was under way.
    #[must_use]
    pub fn idle_ns(&self) -> u64 {
        self.total_ns - self.busy_ns
    }
}

/// What was seen of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockUse {
    /// Its kind and address.
    pub name: String,
    /// Whether a thread holds it while others wait: not so conditions and the like.
    pub is_held: bool,
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often a thread had to wait for it.
    pub contended: u64,
    /// The time of these waits.
    pub wait_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// Where it was waited for most.
    pub waiter: Option<String>,
    /// Where it was taken by those who were waited for most.
    pub holder: Option<String>,
}

/// What the first thread of a process did.
#[derive(Debug, Clone, Default)]
pub struct MainThread {
    /// From the start of the program to its end.
    pub wall_ns: u64,
    /// CPU time that its samples stand for.
    pub cpu_ns: u64,
    /// How long it was seen waiting.
    pub wait_ns: u64,
    /// The place in the program where it waited most, and how long.
    pub wait_place: Option<(String, u64)>,
}

/// What is said of a process.
#[derive(Debug, Clone, Default)]
pub struct ProcessDigest {
    /// CPU time that samples stand for; where they were taken by an event, how often that happened.
    pub cpu_ns: u64,
    /// The functions in which most of it passed, most first.
    pub functions: Vec<Entry>,
    /// The time of all kernels.
    pub kernel_ns: u64,
    /// The kernels that took most of it, most first.
    pub kernels: Vec<Entry>,
    /// Of these, the time of those that RCCL and NCCL run for collectives.
    pub collective_ns: u64,
    /// How long its threads were in calls of MPI.
    pub mpi_ns: u64,
    /// Of its CPU time, what was in files of MPI, as its samples show it.
    pub in_mpi_ns: u64,
    /// Its GPUs.
    pub gpus: Vec<GpuTime>,
    /// The locks that threads waited for most, most first.
    pub locks: Vec<LockUse>,
    /// Its first thread.
    pub main: MainThread,
}

/// The same while records come.
#[derive(Debug, Default)]
pub struct Digest {
    is_wanted: bool,
    functions: Sums,
    cpu_ns: u64,
    kernels: Sums,
    kernel_ns: u64,
    mpi_ns: u64,
    gpus: BTreeMap<u32, (String, Busy)>,
    locks: Vec<LockUse>,
    main: MainThread,
    /// How long the first thread waited, by place.
    main_waits: BTreeMap<Rc<str>, u64>,
}

/// An operation that keeps a GPU busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// Its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// When the call began that submitted it.
    pub submitted_ns: Option<u64>,
    /// The stack of that call, or 0.
    pub stack: u64,
}

impl Digest {
    /// Nothing is known yet; nor will it be, unless it `is_wanted`.
    #[must_use]
    pub fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            ..Self::default()
        }
    }

    /// Adds a sample of CPU time, by its innermost function.
    pub fn sample(&mut self, function: Option<FunctionId>, is_main_thread: bool, ns: u64) {
        if !self.is_wanted {
            return;
        }
        self.cpu_ns = self.cpu_ns.saturating_add(ns);
        if is_main_thread {
            self.main.cpu_ns = self.main.cpu_ns.saturating_add(ns);
        }
        if let Some(function) = function {
            self.functions.add(function.0, ns);
        }
    }

    /// Adds a wait of the first thread, by its place in the program.
    pub fn main_wait(&mut self, place: Option<&Rc<str>>, ns: u64) {
        if !self.is_wanted {
            return;
        }
        self.main.wait_ns = self.main.wait_ns.saturating_add(ns);
        if let Some(place) = place
            && (self.main_waits.len() < PLACES_MAX || self.main_waits.contains_key(place))
        {
            *self.main_waits.entry(Rc::clone(place)).or_default() += ns;
        }
    }

    /// Adds a call of MPI that no other one made.
    pub fn mpi(&mut self, ns: u64) {
        self.mpi_ns = self.mpi_ns.saturating_add(ns);
    }

    /// Adds a kernel by the frame of its name.
    pub fn kernel(&mut self, frame: FrameId, ns: u64) {
        if !self.is_wanted {
            return;
        }
        self.kernel_ns = self.kernel_ns.saturating_add(ns);
        self.kernels.add(frame.0, ns);
    }

    /// Adds an operation of a GPU.
    pub fn operation(&mut self, device: u32, name: &str, operation: Operation) {
        if !self.is_wanted {
            return;
        }
        let (_, busy) = self
            .gpus
            .entry(device)
            .or_insert_with(|| (name.to_owned(), Busy::default()));
        busy.add(operation);
    }

    /// Adds a lock. Those that were waited for most come first.
    pub fn lock(&mut self, lock: LockUse) {
        if self.is_wanted && lock.is_held && lock.wait_ns > 0 && self.locks.len() < NAMED_MAX {
            self.locks.push(lock);
        }
    }

    /// What is said, when all was seen.
    #[must_use]
    pub fn finish(self, frames: &Frames, known: &EventTables, wall_ns: u64) -> ProcessDigest {
        // Of equal ones the first by name.
        let waits = self.main_waits.into_iter();
        let most = waits.reduce(|most, one| if one.1 > most.1 { one } else { most });
        let function = |id| frames.function(id).name.to_string();
        let kernel = |id| function(frames.frame(FrameId(id)).function);
        let gpus = self.gpus.into_values();
        ProcessDigest {
            cpu_ns: self.cpu_ns,
            functions: self.functions.most(|id| function(FunctionId(id))),
            kernel_ns: self.kernel_ns,
            collective_ns: self.kernels.sum(|id| is_collective(&kernel(id))),
            mpi_ns: self.mpi_ns,
            in_mpi_ns: self.functions.sum(|id| {
                let file = frames.function(FunctionId(id)).file;
                is_of_mpi(&frames.file(file).path)
            }),
            kernels: self.kernels.most(kernel),
            gpus: gpus
                .map(|(name, busy)| busy.finish(name, |stack| place(known.stack(stack), frames)))
                .collect(),
            locks: self.locks,
            main: MainThread {
                wall_ns,
                wait_place: most.map(|(place, ns)| (place.to_string(), ns)),
                ..self.main
            },
        }
    }
}

/// Counts and times by ids that are dense: less memory than what stands behind the ids takes.
#[derive(Debug, Default)]
struct Sums(Vec<(u64, u64)>);

impl Sums {
    fn add(&mut self, id: u32, ns: u64) {
        let at = id as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, (0, 0));
        }
        let (count, sum) = &mut self.0[at];
        *count += 1;
        *sum = sum.saturating_add(ns);
    }

    /// The time of those that are `wanted`.
    fn sum(&self, wanted: impl Fn(u32) -> bool) -> u64 {
        let known = (0..).zip(&self.0).filter(|(_, (count, _))| *count > 0);
        let sums = known.filter(|(id, _)| wanted(*id)).map(|(_, (_, ns))| *ns);
        sums.fold(0, u64::saturating_add)
    }

    /// Those with the most time, by name: several ids may have one name.
    fn most(&self, name: impl Fn(u32) -> String) -> Vec<Entry> {
        let mut by_name: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let known = (0..).zip(&self.0).filter(|(_, (count, _))| *count > 0);
        for (id, (count, ns)) in known {
            let sum = by_name.entry(name(id)).or_default();
            sum.0 += count;
            sum.1 = sum.1.saturating_add(*ns);
        }
        let entries = by_name.into_iter();
        let mut entries: Vec<Entry> = entries
            .map(|(name, (count, ns))| Entry { name, count, ns })
            .collect();
        entries.sort_by(|one, other| other.ns.cmp(&one.ns).then(one.name.cmp(&other.name)));
        entries.truncate(NAMED_MAX);
        entries
    }
}

/// Whether RCCL or NCCL call their kernels so (`ncclDevKernel_…`, `rcclGenericKernel`).
fn is_collective(kernel: &str) -> bool {
    ["nccl", "rccl"].iter().any(|name| kernel.contains(name))
}

/// Whether a file is of an implementation of MPI: Open MPI's, with its plug-ins, or one that descends from MPICH.
fn is_of_mpi(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let files = ["libmpi", "libopen-pal", "libopen-rte", "mca_", "libpmpi"];
    files.iter().any(|start| name.starts_with(start))
}

/// At most this many frames of a stack are written out.
const LINE_FRAMES: usize = 64;

/// The functions of a stack in one line, innermost first.
#[must_use]
pub fn line(stack: &[FrameId], frames: &Frames) -> Option<String> {
    let name = |id: &FrameId| &*frames.function(frames.frame(*id).function).name;
    let names: Vec<&str> = stack.iter().rev().take(LINE_FRAMES).map(name).collect();
    (!names.is_empty()).then(|| names.join(" <- "))
}

/// Where in the program a call was made: its innermost Python function, else the innermost function of a file that is no runtime's.
#[must_use]
pub fn place(stack: &[FrameId], frames: &Frames) -> Option<String> {
    let told = |id: &FrameId| {
        let frame = frames.frame(*id);
        let function = frames.function(frame.function);
        let source = frame.source.as_deref().unwrap_or_default();
        let file = &frames.file(function.file).path;
        (
            function.name.to_string(),
            source.to_owned(),
            frame.line,
            file.clone(),
        )
    };
    let all: Vec<_> = stack.iter().rev().map(told).collect();
    let is_python = |(_, source, ..): &&(String, String, u32, String)| source.ends_with(".py");
    let is_own = |(name, _, _, file): &&(String, String, u32, String)| {
        !name.starts_with('[') && !file.starts_with('[') && !rsys_proto::is_runtime_file(file)
    };
    let is_of_header =
        |(_, source, ..): &(String, String, u32, String)| rsys_proto::is_library_header(source);
    let found = all.iter().find(is_python);
    let found = found.or_else(|| all.iter().find(|one| is_own(one) && !is_of_header(one)));
    let found = found.or_else(|| all.iter().find(is_own));
    found.map(|(name, source, line, _)| in_words(name, source, *line))
}

/// A function and its line. Python functions have their file in their names already.
fn in_words(function: &str, source: &str, line: u32) -> String {
    let file = source.rsplit('/').next().unwrap_or_default();
    let in_file = format!(" ({file})");
    let function = function.strip_suffix(&in_file).unwrap_or(function);
    match (file, line) {
        ("", _) => function.to_owned(),
        (file, 0) => format!("{function} ({file})"),
        (file, line) => format!("{function} ({file}:{line})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_sums_of_their_ids() {
        let mut sums = Sums::default();
        for (id, ns) in [(2, 10), (7, 30), (2, 5), (9, 20), (100_000, 1_000)] {
            sums.add(id, ns);
        }
        let name = |id: u32| if id == 7 { "one" } else { "other" }.to_owned();
        let told: Vec<(String, u64, u64)> = sums
            .most(name)
            .into_iter()
            .map(|entry| (entry.name, entry.count, entry.ns))
            .collect();
        assert_eq!(
            told,
            [("other".to_owned(), 4, 1_035), ("one".to_owned(), 1, 30)]
        );
    }

    #[test]
    fn what_nobody_asks_for_takes_no_memory() {
        for is_wanted in [true, false] {
            let mut digest = Digest::new(is_wanted);
            digest.sample(None, true, 5);
            let operation = Operation {
                start_ns: 1,
                end_ns: 2,
                submitted_ns: None,
                stack: 0,
            };
            digest.operation(0, "GPU 0", operation);
            assert_eq!(digest.cpu_ns, if is_wanted { 5 } else { 0 });
            assert_eq!(digest.gpus.len(), usize::from(is_wanted));
        }
    }

    #[test]
    fn places_name_their_file_once() {
        for (function, source, line, expected) in [
            (
                "step (train.py)",
                "/home/me/train.py",
                57,
                "step (train.py:57)",
            ),
            ("step (train.py)", "/home/me/train.py", 0, "step (train.py)"),
            ("main", "src/solver.c", 9, "main (solver.c:9)"),
            ("main", "", 0, "main"),
        ] {
            assert_eq!(in_words(function, source, line), expected);
        }
    }
}
