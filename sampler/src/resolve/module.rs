//! What the resolver knows about one module.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rsys_proto::hashing::FastMap;

use super::cache_file::CacheContent;
use super::cache_store::FileVersion;
use super::types::{Mapped, ModuleDesc, ModuleProblem, Symbolized};

/// At most this many root directories are tried for one module, and processes that have mapped it.
const PLACES_MAX: usize = 8;

/// The answer for one address.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Never empty.
    pub frames: Arc<[Symbolized]>,
    /// Whether the names come from the file, and not from the address.
    pub named: bool,
}

/// A module and all that was found in it.
#[derive(Debug)]
pub(super) struct Module {
    /// What the first process that maps it said.
    pub desc: ModuleDesc,
    /// The base name of its path.
    pub name: String,
    /// Answers by address.
    pub answers: RwLock<FastMap<u64, Answer>>,
    /// The worker that holds the file open, counted from one; zero if none does.
    pub home: AtomicUsize,
    /// The rest, rarely touched.
    pub state: Mutex<ModuleState>,
}

/// The slow-moving part of a [`Module`].
#[derive(Debug, Default)]
pub(super) struct ModuleState {
    /// Root directories of processes that map it.
    pub roots: Vec<PathBuf>,
    /// Where processes have it, the last one behind.
    pub mapped: Vec<Mapped>,
    /// The fingerprint of its files; `None` until the cache was asked.
    pub fingerprint: Option<u64>,
    /// The name under which results are kept; empty if they are not.
    pub cache_key: Vec<u8>,
    /// The content of a cache file whose fingerprint is another: better than nothing if there is no
    /// file.
    pub stale: Option<CacheContent>,
    /// The cache file all of which is in `answers`.
    pub cached: Option<FileVersion>,
    /// Whether `answers` holds what the cache file does not.
    pub dirty: bool,
    /// Why it gives no names.
    pub problem: Option<ModuleProblem>,
}

impl Module {
    /// A module of which nothing is known yet.
    pub fn new(desc: ModuleDesc) -> Self {
        let name = desc
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "[anonymous]".to_owned());
        let state = ModuleState {
            roots: desc.root.iter().cloned().collect(),
            mapped: desc.mapped.into_iter().collect(),
            ..ModuleState::default()
        };
        Self {
            desc,
            name: name
                .strip_suffix(" (deleted)")
                .map_or(name.clone(), str::to_owned),
            answers: RwLock::default(),
            home: AtomicUsize::new(0),
            state: Mutex::new(state),
        }
    }

    /// Another process maps it: the file may be found in its root directory, or where it has it.
    pub fn add_places(&self, root: Option<&PathBuf>, mapped: Option<Mapped>) {
        let mut state = self.state();
        let root =
            root.filter(|root| state.roots.len() < PLACES_MAX && !state.roots.contains(root));
        let mapped = mapped.filter(|mapped| !state.mapped.contains(mapped));
        state.roots.extend(root.cloned());
        if mapped.is_some() {
            // Those that have ended have nothing any more.
            if state.mapped.len() == PLACES_MAX {
                state.mapped.remove(0);
            }
            state.mapped.extend(mapped);
        }
        let is_new = root.is_some() || mapped.is_some();
        let is_missing = matches!(
            state.problem,
            Some(ModuleProblem::FileMissing { .. } | ModuleProblem::BuildIdMismatch { .. })
        );
        if is_new && is_missing {
            state.problem = None;
            drop(state);
            // Names made for want of a file are to be made anew.
            let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
            answers.retain(|_, answer| answer.named);
        }
    }

    /// The state; whoever panicked while holding it left it in order, as all changes are single
    /// assignments.
    pub fn state(&self) -> MutexGuard<'_, ModuleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer for an address, if it is there.
    pub fn answer(&self, vaddr: u64) -> Option<Answer> {
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(&vaddr).cloned()
    }

    /// Adds answers; those that are there stay.
    pub fn add_answers(&self, new: impl IntoIterator<Item = (u64, Answer)>) {
        let new = new.into_iter();
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        answers.reserve(new.size_hint().0);
        for (vaddr, answer) in new {
            answers.entry(vaddr).or_insert(answer);
        }
    }
}
