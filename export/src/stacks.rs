//! Call stacks, and their times.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use rsys_tables::store::StoreError;
use rsys_tables::view::{NO_WORD, Values, View, Words};

use crate::rows::{Word, each};
use crate::run::Run;
use crate::{Failure, Time};

/// What stands in place of an outermost function where samples are not of CPU time, and names no function.
const CLOCKS: [&str; 3] = ["[waiting]", "[GPU]", "[calls]"];

/// A function in a stack; texts are empty and the line is 0 if they are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Frame<'s> {
    pub function: &'s str,
    /// The file that it was loaded from.
    pub module: &'s str,
    pub source: &'s str,
    pub line: u64,
}

/// All call stacks: each the innermost function and the stack of its caller. The number of a stack is its row; 0 is the empty one.
#[derive(Debug)]
pub(crate) struct Stacks {
    callers: Vec<usize>,
    functions: Column,
    modules: Column,
    sources: Column,
    lines: Vec<u64>,
}

#[derive(Debug)]
struct Column {
    ids: Vec<u32>,
    words: Arc<Words>,
}

impl Column {
    fn read(view: &View, name: &'static str) -> Result<Self, Failure> {
        match &*view.whole("stacks", name)? {
            Values::Texts(ids, words) => Ok(Self {
                ids: ids.clone(),
                words: Arc::clone(words),
            }),
            _ => Err(StoreError::Damaged.into()),
        }
    }

    fn word(&self, row: usize) -> Word<'_> {
        let id = self.ids.get(row).copied().unwrap_or(NO_WORD);
        Word::of(id, &self.words)
    }

    fn text(&self, row: usize) -> &str {
        self.word(row).text()
    }
}

impl Stacks {
    /// Reads them.
    ///
    /// # Errors
    /// When the store is damaged.
    pub(crate) fn read(view: &View) -> Result<Self, Failure> {
        let (mut callers, mut lines) = (Vec::new(), Vec::new());
        each(view, "stacks", &["caller_id", "line"], |row| {
            callers.push(row.number(0) as usize);
            lines.push(row.number(1));
            Ok(())
        })?;
        Ok(Self {
            callers,
            functions: Column::read(view, "function")?,
            modules: Column::read(view, "module")?,
            sources: Column::read(view, "source")?,
            lines,
        })
    }

    /// The innermost function of a stack.
    pub(crate) fn frame(&self, stack: usize) -> Frame<'_> {
        Frame {
            function: self.functions.text(stack),
            module: self.modules.text(stack),
            source: self.sources.text(stack),
            line: self.lines.get(stack).copied().unwrap_or(0),
        }
    }

    /// The name of a stack's innermost function.
    pub(crate) fn function(&self, stack: usize) -> Word<'_> {
        self.functions.word(stack)
    }

    /// The caller of a stack's innermost function; `None` at its end, which is not where a stack names a clock.
    pub(crate) fn caller(&self, stack: usize) -> Option<usize> {
        let caller = self.callers.get(stack).copied()?;
        // Callers have smaller numbers in a store that is not damaged.
        (caller != 0 && caller < stack && !self.is_clock(caller)).then_some(caller)
    }

    /// Whether a stack is none: it is empty, or names a clock alone.
    pub(crate) fn is_empty(&self, stack: usize) -> bool {
        stack == 0 || stack >= self.callers.len() || self.is_clock(stack)
    }

    fn is_clock(&self, stack: usize) -> bool {
        self.callers.get(stack) == Some(&0) && CLOCKS.contains(&self.functions.text(stack))
    }

    /// The rows of a stack's functions, innermost first.
    pub(crate) fn rows(&self, stack: usize) -> impl Iterator<Item = usize> {
        let first = (!self.is_empty(stack)).then_some(stack);
        std::iter::successors(first, |&at| self.caller(at))
    }

    /// The functions of a stack, innermost first.
    pub(crate) fn frames(&self, stack: usize) -> impl Iterator<Item = Frame<'_>> {
        self.rows(stack).map(|row| self.frame(row))
    }
}

/// A thread and what it did.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key<'s> {
    /// The number of the process.
    pub process: usize,
    /// The thread id.
    pub thread: u64,
    pub thread_name: String,
    /// The functions, outermost first; of GPU time the last is the kernel.
    pub frames: Vec<Frame<'s>>,
}

/// A sum, and of how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum {
    pub count: u64,
    pub weight: u64,
}

/// One sample of a thread, or one kernel that it launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'r> {
    pub process: usize,
    pub thread: u64,
    pub thread_name: &'r str,
    pub time_ns: u64,
    pub stack: usize,
    /// The kernel, if it is one.
    pub kernel: &'r str,
    /// Nanoseconds.
    pub weight: u64,
}

/// Hands each sample of a time to `take`; of GPU time, each kernel.
///
/// # Errors
/// When the store is damaged, or `take` fails.
pub(crate) fn samples(
    run: &Run<'_>,
    time: Time,
    mut take: impl FnMut(Sample<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let basis = match time {
        Time::Cpu => "cpu",
        Time::Wait => "wait",
        Time::Gpu => return kernels(run, take),
    };
    if !run.only.samples {
        return Ok(());
    }
    const COLUMNS: [&str; 7] = [
        "process_id",
        "basis",
        "time_ns",
        "thread",
        "thread_name",
        "stack_id",
        "weight",
    ];
    each(run.view, "samples", &COLUMNS, |row| {
        let (process, time_ns) = (row.number(0), row.number(2));
        if row.text(1) != basis || run.at(process, time_ns).is_none() {
            return Ok(());
        }
        take(Sample {
            process: process as usize,
            thread: row.number(3),
            thread_name: row.text(4),
            time_ns,
            stack: row.number(5) as usize,
            kernel: "",
            weight: row.number(6),
        })
    })
}

fn kernels(
    run: &Run<'_>,
    mut take: impl FnMut(Sample<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !run.only.gpu {
        return Ok(());
    }
    let mut names: HashMap<(u64, u64), String> = HashMap::new();
    const THREADS: [&str; 3] = ["process_id", "thread", "name"];
    each(run.view, "threads", &THREADS, |row| {
        names.insert((row.number(0), row.number(1)), row.text(2).to_owned());
        Ok(())
    })?;
    const COLUMNS: [&str; 7] = [
        "process_id",
        "kind",
        "start_ns",
        "duration_ns",
        "thread",
        "stack_id",
        "name",
    ];
    each(run.view, "operations", &COLUMNS, |row| {
        let (process, start_ns, duration_ns) = (row.number(0), row.number(2), row.number(3));
        let is_chosen = run
            .during(process, start_ns, start_ns + duration_ns)
            .is_some();
        if row.text(1) != "kernel" || !is_chosen {
            return Ok(());
        }
        let thread = row.number(4);
        take(Sample {
            process: process as usize,
            thread,
            thread_name: names.get(&(process, thread)).map_or("", String::as_str),
            time_ns: start_ns,
            stack: row.number(5) as usize,
            kernel: row.text(6),
            weight: duration_ns,
        })
    })
}

/// The times of threads by call stack, in an order that depends on names and ids alone.
///
/// # Errors
/// When the store is damaged.
pub(crate) fn times<'s>(
    run: &Run<'_>,
    time: Time,
    stacks: &'s Stacks,
    kernels: &'s mut Vec<String>,
) -> Result<BTreeMap<Key<'s>, Sum>, Failure> {
    // Kernels by number, for their names are to live as long as the stacks.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut sums: HashMap<(usize, u64, usize, usize), Sum> = HashMap::new();
    let mut threads: HashMap<(usize, u64), String> = HashMap::new();
    samples(run, time, |sample| {
        let kernel = match numbers.get(sample.kernel) {
            Some(&number) => number,
            None => {
                let number = numbers.len();
                numbers.insert(sample.kernel.to_owned(), number);
                kernels.push(sample.kernel.to_owned());
                number
            }
        };
        let key = (sample.process, sample.thread, sample.stack, kernel);
        let sum = sums.entry(key).or_default();
        sum.count += 1;
        sum.weight += sample.weight;
        threads
            .entry((sample.process, sample.thread))
            .or_insert_with(|| sample.thread_name.to_owned());
        Ok(())
    })?;
    let kernels: &'s [String] = kernels;
    let mut times: BTreeMap<Key<'s>, Sum> = BTreeMap::new();
    for ((process, thread, stack, kernel), sum) in sums {
        let mut frames: Vec<Frame<'s>> = stacks.frames(stack).collect();
        frames.reverse();
        let kernel = kernels[kernel].as_str();
        if !kernel.is_empty() {
            frames.push(Frame {
                function: kernel,
                ..Frame::default()
            });
        }
        let thread_name = threads.get(&(process, thread)).cloned().unwrap_or_default();
        let key = Key {
            process,
            thread,
            thread_name,
            frames,
        };
        let all = times.entry(key).or_default();
        all.count += sum.count;
        all.weight += sum.weight;
    }
    Ok(times)
}
