//! The resolver's face: modules in, frames out.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use rsys_proto::hashing::FastSet;

use super::cache_file::CacheContent;
use super::cache_store::CacheStore;
use super::module::Module;
use super::names::{module_frame, unknown_frame};
use super::pool::{Job, Pool};
use super::types::{
    ModuleDesc, ModuleId, ModuleProblem, ResolverOptions, ResolverStats, Symbolized,
};

/// More threads than this are not taken by default: they would compete with the target.
const THREADS_DEFAULT_MAX: usize = 4;

/// Turns addresses into frames, for all processes of a run. See the [module](super).
#[derive(Debug)]
pub struct Resolver {
    shared: Arc<Shared>,
    pool: Mutex<Option<Arc<Pool>>>,
    background: AtomicBool,
}

impl Resolver {
    /// A resolver that knows no module yet. Starts no thread and touches no file.
    #[must_use]
    pub fn new(options: ResolverOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                cache: CacheStore::new(&options.cache, options.cache_bytes_max),
                options,
                modules: RwLock::default(),
                strings: Mutex::default(),
                real_paths: Mutex::default(),
                counters: Counters::default(),
            }),
            pool: Mutex::new(None),
            background: AtomicBool::new(false),
        }
    }

    /// The id of a module; the same path and build-id get the same id. Cheap, reads no file.
    pub fn module(&self, desc: &ModuleDesc) -> ModuleId {
        let key = (desc.path.clone(), desc.build_id.clone());
        let mut modules = self
            .shared
            .modules
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(&index) = modules.index.get(&key) {
            modules.list[index as usize].add_places(desc.root.as_ref(), desc.mapped);
            return ModuleId(index);
        }
        let index = modules.list.len() as u32;
        modules.list.push(Arc::new(Module::new(desc.clone())));
        modules.index.insert(key, index);
        ModuleId(index)
    }

    /// The path of a file without links, so that a library has one name whatever a process calls it by. It stays as it is where there is no such file, or
    /// another one than the process with this root directory sees.
    #[must_use]
    pub fn real_path(&self, path: &str, root: Option<&Path>) -> String {
        if !path.starts_with('/') {
            return path.to_owned();
        }
        let mut known = self
            .shared
            .real_paths
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let real = known.entry(path.to_owned()).or_insert_with(|| {
            let real = fs::canonicalize(path).ok()?.into_os_string();
            let real = real.into_string().ok()?;
            let metadata = fs::metadata(&real).ok()?;
            Some(RealFile {
                path: real,
                device: metadata.dev(),
                inode: metadata.ino(),
            })
        });
        let Some(real) = real else {
            return path.to_owned();
        };
        // Of a process that has ended no root is left.
        let seen = root.and_then(|root| fs::metadata(root.join(&path[1..])).ok());
        match seen {
            Some(seen) if (seen.dev(), seen.ino()) != (real.device, real.inode) => path.to_owned(),
            _ => real.path.clone(),
        }
    }

    /// The frames at addresses of one module, in the order of `vaddrs`.
    ///
    /// An address is one of the ELF file's own address space (the program counter minus the load
    /// bias), and lies inside the instruction: one is already subtracted from a return address.
    /// Each result has at least one frame, innermost first.
    pub fn resolve(&self, module: ModuleId, vaddrs: &[u64]) -> Vec<Arc<[Symbolized]>> {
        let module = self.get(module);
        self.resolve_all(&[(module, vaddrs)])
            .pop()
            .unwrap_or_default()
    }

    /// The frames at addresses of many modules, read in parallel; one result per request, as from
    /// [`Resolver::resolve`].
    pub fn resolve_many(&self, requests: &[(ModuleId, Vec<u64>)]) -> Vec<Vec<Arc<[Symbolized]>>> {
        let requests: Vec<_> = requests
            .iter()
            .map(|(module, vaddrs)| (self.get(*module), vaddrs.as_slice()))
            .collect();
        self.resolve_all(&requests)
    }

    fn resolve_all(
        &self,
        requests: &[(Option<Arc<Module>>, &[u64])],
    ) -> Vec<Vec<Arc<[Symbolized]>>> {
        let (done, finished) = bounded(0);
        let mut hits = 0;
        let mut missing: HashMap<*const Module, (Arc<Module>, Vec<u64>)> = HashMap::new();
        for (module, vaddrs) in requests {
            let Some(module) = module else { continue };
            let answers = module
                .answers
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let absent: Vec<u64> = vaddrs
                .iter()
                .copied()
                .filter(|vaddr| !answers.contains_key(vaddr))
                .collect();
            drop(answers);
            hits += vaddrs.len() - absent.len();
            if !absent.is_empty() {
                missing
                    .entry(Arc::as_ptr(module))
                    .or_insert_with(|| (Arc::clone(module), Vec::new()))
                    .1
                    .extend(absent);
            }
        }
        self.shared
            .counters
            .memory_hits
            .fetch_add(hits as u64, Ordering::Relaxed);

        // Held until the jobs are done, so that nobody else's `set_background` ends the threads under
        // them.
        let pool = (!missing.is_empty()).then(|| self.pool());
        if let Some(pool) = &pool {
            let mut jobs: Vec<_> = missing.into_values().collect();
            // The longest first, so that no thread is left with one at the end.
            jobs.sort_by_key(|(_, vaddrs)| std::cmp::Reverse(vaddrs.len()));
            for (module, mut vaddrs) in jobs {
                vaddrs.sort_unstable();
                vaddrs.dedup();
                let done: Sender<()> = done.clone();
                pool.submit(Job {
                    module,
                    vaddrs,
                    done,
                });
            }
        }
        drop(done);
        // Nothing is ever sent: this returns when the last job's sender is gone.
        finished.recv().unwrap_or_default();
        drop(pool);

        requests
            .iter()
            .map(|(module, vaddrs)| match module {
                None => vaddrs
                    .iter()
                    .map(|&vaddr| [unknown_frame(vaddr)].into())
                    .collect(),
                Some(module) => {
                    let answers = module
                        .answers
                        .read()
                        .unwrap_or_else(PoisonError::into_inner);
                    vaddrs
                        .iter()
                        .map(|vaddr| match answers.get(vaddr) {
                            Some(answer) => Arc::clone(&answer.frames),
                            None => [module_frame(&module.name, *vaddr)].into(),
                        })
                        .collect()
                }
            })
            .collect()
    }

    /// Whether to stay out of the target's way: in the background there is one thread, with low
    /// priority. Off at first; changing it closes all files.
    pub fn set_background(&self, background: bool) {
        if self.background.swap(background, Ordering::Relaxed) != background {
            let stopped = self.lock_pool().take();
            drop(stopped);
        }
    }

    /// Writes what was found to the cache of later runs. Also done when the resolver is dropped.
    /// Trouble costs the next run some time and is not reported.
    pub fn flush(&self) {
        let Some(store) = &self.shared.cache else {
            return;
        };
        let mut saved = false;
        for module in self.shared.list() {
            let mut state = module.state();
            let fingerprint = match state.fingerprint {
                Some(fingerprint) if state.dirty && fingerprint != 0 => fingerprint,
                _ => continue,
            };
            state.dirty = false;
            let key = state.cache_key.clone();
            let known = state.cached;
            drop(state);
            if key.is_empty() {
                continue;
            }
            let content = content_of(&module, fingerprint);
            saved |= store.save(&key, content, known).is_ok();
        }
        if saved {
            store.prune().unwrap_or_default();
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> ResolverStats {
        let counters = &self.shared.counters;
        let mut stats = ResolverStats {
            modules_opened: counters.opened.load(Ordering::Relaxed),
            resolved: counters.resolved.load(Ordering::Relaxed),
            unresolved: counters.unresolved.load(Ordering::Relaxed),
            memory_hits: counters.memory_hits.load(Ordering::Relaxed),
            disk_hits: counters.disk_hits.load(Ordering::Relaxed),
            cache_files_rejected: counters.cache_files_rejected.load(Ordering::Relaxed),
            busy: Duration::from_nanos(counters.busy_ns.load(Ordering::Relaxed)),
            threadless: counters.threadless.load(Ordering::Relaxed),
            ..ResolverStats::default()
        };
        for module in self.shared.list() {
            stats.modules += 1;
            let state = module.state();
            let Some(problem) = &state.problem else {
                continue;
            };
            stats.modules_unusable += 1;
            match problem {
                ModuleProblem::FileMissing { .. } => stats.modules_missing += 1,
                ModuleProblem::BuildIdMismatch { .. } => stats.modules_replaced += 1,
                _ => {}
            }
        }
        stats
    }

    /// The modules that give no names, and why.
    #[must_use]
    pub fn problems(&self) -> Vec<(ModuleId, PathBuf, ModuleProblem)> {
        self.shared
            .list()
            .into_iter()
            .zip(0..)
            .filter_map(|(module, index)| {
                let problem = module.state().problem.clone()?;
                Some((ModuleId(index), module.desc.path.clone(), problem))
            })
            .collect()
    }

    fn get(&self, module: ModuleId) -> Option<Arc<Module>> {
        let modules = self
            .shared
            .modules
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        modules.list.get(module.0 as usize).cloned()
    }

    fn lock_pool(&self) -> MutexGuard<'_, Option<Arc<Pool>>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self) -> Arc<Pool> {
        let mut pool = self.lock_pool();
        let background = self.background.load(Ordering::Relaxed);
        let workers = match self.shared.options.threads {
            _ if background => 1,
            0 => std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(THREADS_DEFAULT_MAX),
            threads => threads,
        };
        let pool =
            pool.get_or_insert_with(|| Arc::new(Pool::start(&self.shared, workers, background)));
        Arc::clone(pool)
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.flush();
    }
}

fn content_of(module: &Module, fingerprint: u64) -> CacheContent {
    let answers = module
        .answers
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    CacheContent {
        fingerprint,
        addresses: answers
            .iter()
            .map(|(vaddr, answer)| {
                // Of a function in several pieces, as compilers make of hot and cold code, the debug information says no start; of one without a name,
                // the unwind table says that.
                let is_function = |frame: &Symbolized| frame.function_start != 0;
                let known = answer.named || answer.frames.iter().any(is_function);
                (*vaddr, known.then(|| Arc::clone(&answer.frames)))
            })
            .collect(),
    }
}

/// What the resolver and its workers share.
#[derive(Debug)]
pub(super) struct Shared {
    /// How to work.
    pub options: ResolverOptions,
    /// The cache of earlier runs.
    pub cache: Option<CacheStore>,
    modules: RwLock<ModuleTable>,
    strings: Mutex<FastSet<Arc<str>>>,
    real_paths: Mutex<HashMap<String, Option<RealFile>>>,
    counters: Counters,
}

/// A file by its path without links.
#[derive(Debug)]
struct RealFile {
    path: String,
    device: u64,
    inode: u64,
}

#[derive(Debug, Default)]
struct ModuleTable {
    list: Vec<Arc<Module>>,
    index: HashMap<(PathBuf, Vec<u8>), u32>,
}

#[derive(Debug, Default)]
struct Counters {
    opened: AtomicU64,
    resolved: AtomicU64,
    unresolved: AtomicU64,
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    cache_files_rejected: AtomicU64,
    busy_ns: AtomicU64,
    open_bytes: AtomicU64,
    threadless: AtomicBool,
}

impl Shared {
    /// One copy of each text.
    pub fn intern(&self, text: &str) -> Arc<str> {
        let mut strings = self.strings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = strings.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        strings.insert(Arc::clone(&new));
        new
    }

    fn list(&self) -> Vec<Arc<Module>> {
        self.modules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .list
            .clone()
    }

    /// The size of all files that are open now.
    pub fn open_bytes(&self) -> u64 {
        self.counters.open_bytes.load(Ordering::Relaxed)
    }

    /// A file was opened.
    pub fn count_opened(&self, bytes: u64) {
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        self.counters.open_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file was closed.
    pub fn count_closed(&self, bytes: u64) {
        self.counters.open_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Addresses were answered, some of them with names.
    pub fn count_answers(&self, named: usize, all: usize) {
        self.counters
            .resolved
            .fetch_add(named as u64, Ordering::Relaxed);
        self.counters
            .unresolved
            .fetch_add((all - named) as u64, Ordering::Relaxed);
    }

    /// Addresses came from the cache of an earlier run.
    pub fn count_disk_hits(&self, addresses: usize) {
        self.counters
            .disk_hits
            .fetch_add(addresses as u64, Ordering::Relaxed);
    }

    /// A cache file could not be used.
    pub fn count_rejected_cache_file(&self) {
        self.counters
            .cache_files_rejected
            .fetch_add(1, Ordering::Relaxed);
    }

    /// No worker could be made.
    pub fn note_threadless(&self) {
        self.counters.threadless.store(true, Ordering::Relaxed);
    }

    /// A worker was busy.
    pub fn add_busy(&self, time: Duration) {
        self.counters
            .busy_ns
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}
