//! The threads that read ELF files.
//!
//! A parser's data cannot move between threads, so an opened file belongs to the worker that opened
//! it, and work for it goes to that worker while it stays open. Work for other modules goes to
//! whoever is free.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, never, select_biased, unbounded};

use super::cache_store::Loaded;
use super::demangle::demangle;
use super::image::{Image, RawFrame};
use super::locate::{cache_key, fingerprint, locate};
use super::module::{Answer, Module};
use super::names::{Language, display_name, module_frame, split};
use super::resolver::Shared;
use super::types::{ModuleProblem, Symbolized};

/// The parsers recurse over what the file says.
const STACK_BYTES: usize = 16 << 20;

/// How much nicer workers are in the background.
const BACKGROUND_NICENESS: i32 = 10;

/// Raw frames are turned into answers after this many addresses, which bounds what is held twice.
const CHUNK_ADDRESSES: usize = 4_096;

/// Addresses of one module to be answered. The answers go into the module; the end of `done` says
/// that they are there.
#[derive(Debug)]
pub(super) struct Job {
    /// The module.
    pub module: Arc<Module>,
    /// Sorted, distinct addresses.
    pub vaddrs: Vec<u64>,
    /// Dropped when the job is done.
    pub done: Sender<()>,
}

/// A set of workers. Dropping it lets them finish and waits for them.
#[derive(Debug)]
pub(super) struct Pool {
    common: Option<Sender<Job>>,
    own: Vec<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts workers. If threads cannot be created, there are fewer, or none.
    pub fn start(shared: &Arc<Shared>, workers: usize, background: bool) -> Self {
        quiet_panics::install();
        let (common, common_jobs) = unbounded();
        let mut pool = Self {
            common: Some(common),
            own: Vec::new(),
            threads: Vec::new(),
        };
        for index in 0..workers {
            let (own, own_jobs) = unbounded();
            let common_jobs = common_jobs.clone();
            let shared = Arc::clone(shared);
            let spawned = std::thread::Builder::new()
                .name(format!("rsys-symbols-{index}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    quiet_panics::silence_this_thread();
                    if background {
                        lower_priority();
                    }
                    Worker {
                        shared,
                        home: index + 1,
                        open: Vec::new(),
                    }
                    .run(own_jobs, common_jobs);
                });
            match spawned {
                Ok(thread) => {
                    pool.own.push(own);
                    pool.threads.push(thread);
                }
                Err(_) => break,
            }
        }
        if pool.threads.is_empty() {
            shared.note_threadless();
        }
        pool
    }

    /// Hands out a job. If nobody can take it, it is dropped, which ends it.
    pub fn submit(&self, job: Job) {
        if self.threads.is_empty() {
            return;
        }
        let home = job.module.home.load(Ordering::Relaxed);
        let queue = home
            .checked_sub(1)
            .and_then(|index| self.own.get(index))
            .or(self.common.as_ref());
        if let Some(queue) = queue {
            // A queue is closed only when its worker died; the dropped job wakes the caller.
            queue.send(job).unwrap_or_default();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.common = None;
        self.own.clear();
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_default();
        }
    }
}

struct OpenModule {
    module: Arc<Module>,
    image: Image,
    last_used: Instant,
}

struct Worker {
    shared: Arc<Shared>,
    home: usize,
    open: Vec<OpenModule>,
}

impl Worker {
    fn run(mut self, mut own: Receiver<Job>, mut common: Receiver<Job>) {
        // Closed queues are emptied first; see the test `many_threads_share_a_resolver`.
        let mut queues = 2;
        while queues > 0 {
            let timeout = if self.open.is_empty() {
                Duration::from_secs(3600)
            } else {
                self.shared
                    .options
                    .open_idle_max
                    .clamp(Duration::from_millis(10), Duration::from_secs(3600))
            };
            select_biased! {
                recv(own) -> job => match job {
                    Ok(job) => self.work(job),
                    Err(_) => {
                        own = never();
                        queues -= 1;
                    }
                },
                recv(common) -> job => match job {
                    Ok(job) => self.work(job),
                    Err(_) => {
                        common = never();
                        queues -= 1;
                    }
                },
                default(timeout) => {}
            }
            self.close_unused();
        }
        while let Some(open) = self.open.pop() {
            self.close(open);
        }
    }

    fn work(&mut self, job: Job) {
        let started = Instant::now();
        let Job {
            module,
            mut vaddrs,
            done,
        } = job;
        self.load_cache(&module);
        vaddrs.retain(|&vaddr| module.answer(vaddr).is_none());
        for chunk in vaddrs.chunks(CHUNK_ADDRESSES) {
            self.answer(&module, chunk);
        }
        self.shared.add_busy(started.elapsed());
        drop(done);
    }

    /// Takes over what an earlier run found, once per module.
    fn load_cache(&self, module: &Arc<Module>) {
        let mut state = module.state();
        if state.fingerprint.is_some() {
            return;
        }
        let options = &self.shared.options;
        let current = fingerprint(
            &module.desc,
            &state.roots,
            &options.debug_dirs,
            options.inlines,
        );
        state.fingerprint = Some(current);
        state.cache_key = cache_key(&module.desc, &state.roots);
        let Some(store) = &self.shared.cache else {
            return;
        };
        match store.load(&state.cache_key, |text| self.shared.intern(text)) {
            Loaded::Absent => {}
            Loaded::Rejected => self.shared.count_rejected_cache_file(),
            Loaded::Content(content, file) if content.fingerprint == current => {
                state.cached = file.mark_used();
                self.shared.count_disk_hits(content.addresses.len());
                module.add_answers(content.addresses.into_iter().map(|(vaddr, frames)| {
                    let named = frames
                        .iter()
                        .flat_map(|list| list.iter())
                        .any(Symbolized::is_named);
                    let frames =
                        frames.unwrap_or_else(|| [module_frame(&module.name, vaddr)].into());
                    (vaddr, Answer { frames, named })
                }));
            }
            Loaded::Content(content, _) => state.stale = Some(content),
        }
    }

    fn answer(&mut self, module: &Arc<Module>, vaddrs: &[u64]) {
        let mut raw: Vec<(u64, Vec<RawFrame>)> = Vec::new();
        let result = self.read_frames(module, vaddrs, &mut raw);
        let mut answers = self.finish(module, raw);
        let mut state = module.state();
        if let Err(problem) = result {
            for &vaddr in &vaddrs[answers.len()..] {
                let stale = state.stale.as_ref().and_then(|content| {
                    let index = content
                        .addresses
                        .binary_search_by_key(&vaddr, |(at, _)| *at)
                        .ok()?;
                    content.addresses[index].1.clone()
                });
                let named = stale
                    .iter()
                    .flat_map(|list| list.iter())
                    .any(Symbolized::is_named);
                let frames = stale.unwrap_or_else(|| [module_frame(&module.name, vaddr)].into());
                answers.push((vaddr, Answer { frames, named }));
            }
            state.problem = Some(problem);
        } else if !answers.is_empty() {
            state.dirty = true;
        }
        self.shared.count_answers(
            answers.iter().filter(|(_, answer)| answer.named).count(),
            answers.len(),
        );
        module.add_answers(answers);
    }

    /// Reads frames from the file, address by address; those read before an error stay.
    fn read_frames(
        &mut self,
        module: &Arc<Module>,
        vaddrs: &[u64],
        raw: &mut Vec<(u64, Vec<RawFrame>)>,
    ) -> Result<(), ModuleProblem> {
        let known_problem = module.state().problem.clone();
        if let Some(problem) = known_problem {
            return Err(problem);
        }
        let image = self.image(module)?;
        for &vaddr in vaddrs {
            raw.push((vaddr, image.frames(vaddr)?));
        }
        Ok(())
    }

    fn image(&mut self, module: &Arc<Module>) -> Result<&mut Image, ModuleProblem> {
        let index = match self
            .open
            .iter()
            .position(|open| Arc::ptr_eq(&open.module, module))
        {
            Some(index) => index,
            None => {
                let options = &self.shared.options;
                let (roots, mapped) = {
                    let state = module.state();
                    (state.roots.clone(), state.mapped.clone())
                };
                let located = locate(&module.desc, &roots, &mapped, &options.debug_dirs)?;
                let image = Image::open(
                    located,
                    &options.debug_dirs,
                    options.inlines,
                    self.shared.cache.as_ref(),
                )?;
                self.shared.count_opened(image.file_bytes());
                module.home.store(self.home, Ordering::Relaxed);
                self.open.push(OpenModule {
                    module: Arc::clone(module),
                    image,
                    last_used: Instant::now(),
                });
                self.open.len() - 1
            }
        };
        let open = &mut self.open[index];
        open.last_used = Instant::now();
        Ok(&mut open.image)
    }

    /// Makes answers of raw frames: each distinct symbol is demangled once, equal lists of frames
    /// are shared.
    fn finish(&self, module: &Module, raw: Vec<(u64, Vec<RawFrame>)>) -> Vec<(u64, Answer)> {
        type Name = (Arc<str>, Option<Arc<str>>);
        let mut names: HashMap<(&str, Language), Option<Name>> = HashMap::new();
        for frame in raw.iter().flat_map(|(_, frames)| frames) {
            names.entry((&frame.symbol, frame.language)).or_default();
        }
        for ((symbol, language), name) in &mut names {
            let demangled = match language {
                Language::Go => None,
                _ => demangle(split(symbol).base),
            };
            let display = display_name(symbol, demangled.as_deref(), *language, &module.name);
            let mangled = (display != *symbol).then(|| self.shared.intern(symbol));
            *name = Some((self.shared.intern(&display), mangled));
        }

        let mut lists: HashMap<Vec<Symbolized>, Arc<[Symbolized]>> = HashMap::new();
        let mut answers = Vec::with_capacity(raw.len());
        for (vaddr, raw_frames) in &raw {
            let last = raw_frames.len().saturating_sub(1);
            let mut list = Vec::with_capacity(raw_frames.len());
            for (index, frame) in raw_frames.iter().enumerate() {
                if frame.symbol.is_empty() {
                    list.push(Symbolized {
                        function_start: frame.function_start,
                        ..module_frame(&module.name, frame.function_start)
                    });
                    continue;
                }
                let name = names
                    .get(&(frame.symbol.as_str(), frame.language))
                    .cloned()
                    .flatten();
                let (name, mangled) =
                    name.unwrap_or_else(|| (self.shared.intern(&frame.symbol), None));
                list.push(Symbolized {
                    name,
                    mangled,
                    file: frame.file.as_deref().map(|file| self.shared.intern(file)),
                    line: frame.line,
                    inlined: index != last,
                    function_start: frame.function_start,
                });
            }
            let named = raw_frames.iter().any(|frame| !frame.symbol.is_empty());
            let frames = if !list.is_empty() {
                match lists.get(&list) {
                    Some(shared) => Arc::clone(shared),
                    None => {
                        let shared: Arc<[Symbolized]> = list.clone().into();
                        lists.insert(list, Arc::clone(&shared));
                        shared
                    }
                }
            } else {
                [module_frame(&module.name, *vaddr)].into()
            };
            answers.push((*vaddr, Answer { frames, named }));
        }
        answers
    }

    /// Closes files that were not used for a while, and the least recently used ones while too much
    /// is open.
    fn close_unused(&mut self) {
        let options = &self.shared.options;
        let idle = options.open_idle_max;
        let (kept, closed): (Vec<_>, Vec<_>) = self
            .open
            .drain(..)
            .partition(|open| open.last_used.elapsed() < idle);
        self.open = kept;
        for open in closed {
            self.close(open);
        }
        while self.shared.open_bytes() > self.shared.options.open_bytes_max && !self.open.is_empty()
        {
            let oldest = self
                .open
                .iter()
                .enumerate()
                .min_by_key(|(_, open)| open.last_used)
                .map(|(index, _)| index);
            if let Some(index) = oldest {
                let open = self.open.swap_remove(index);
                self.close(open);
            }
        }
    }

    fn close(&self, open: OpenModule) {
        self.shared.count_closed(open.image.file_bytes());
        // Another worker may have opened it as well.
        open.module
            .home
            .compare_exchange(self.home, 0, Ordering::Relaxed, Ordering::Relaxed)
            .unwrap_or_default();
    }
}

fn lower_priority() {
    // SAFETY: `setpriority` takes numbers only; `who` 0 is the calling thread (on Linux, niceness belongs to threads).
    // Without effect the worker runs at normal priority, which is what the result would be used to find out.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, BACKGROUND_NICENESS) };
}

/// Panics of the parsers are caught and counted; their messages would only alarm the user.
mod quiet_panics {
    use std::cell::Cell;
    use std::sync::Once;

    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }

    /// Puts a filter in front of the panic hook; threads that did not ask for silence are as loud
    /// as before.
    pub(super) fn install() {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                if !QUIET.try_with(Cell::get).unwrap_or(false) {
                    previous(info);
                }
            }));
        });
    }

    pub(super) fn silence_this_thread() {
        QUIET.with(|quiet| quiet.set(true));
    }
}
