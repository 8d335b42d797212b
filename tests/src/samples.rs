//! The samples of a trace, with their call stacks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use crate::packets::{CALL_TIME, GPU_TIME, WAITING_TIME};
use crate::rows::Cell;
use crate::trace::{Trace, key};

/// Functions at which the stack of a thread starts.
pub const THREAD_ROOTS: &[&str] = &[
    "_start",
    "start_thread",
    "clone3",
    "__clone3",
    "clone",
    "__clone",
    // Stacks of what multiprocessing has made begin there.
    "BaseProcess._bootstrap (process.py)",
    "_bootstrap (process.py)",
];

/// The outermost frame of waiting threads.
const WAITING_ROOT: &str = "[waiting]";

/// The bytes of code that `_start` may have.
const START_CODE_BYTES: i64 = 64;

/// One frame: a function, at an address in a module.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The demangled name, or what stands for it.
    pub function: String,
    /// The module's path.
    pub module: String,
    /// The address in the module.
    pub address: i64,
}

/// One sample.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When, in nanoseconds of trace time.
    pub time_ns: i64,
    /// The trace processor's number of the thread.
    pub utid: i64,
    /// The thread's id.
    pub tid: i64,
    /// The thread's name.
    pub thread: String,
    /// For how many periods it stands.
    pub weight: f64,
    /// Outermost first; inlined functions are frames of their own.
    pub stack: Rc<[Frame]>,
}

impl Sample {
    /// Whether a function of this name is on the stack.
    #[must_use]
    pub fn calls(&self, function: &str) -> bool {
        self.stack.iter().any(|frame| is_function(frame, function))
    }

    /// The names on the stack, outermost first.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.stack
            .iter()
            .map(|frame| frame.function.as_str())
            .collect()
    }
}

/// All samples of a trace, or of several.
#[derive(Debug, Default)]
pub struct Samples {
    pub(crate) samples: Vec<Sample>,
    /// The addresses of `_start` in the programs that occur as roots.
    entries: HashMap<String, i64>,
}

impl Samples {
    /// The samples of the CPU clock.
    pub(crate) fn fetch(trace: &Trace) -> Result<Self> {
        let unit = periods_per_unit(trace)?;
        let of_cpu = format!("t.name not in ('{WAITING_TIME}', '{GPU_TIME}', '{CALL_TIME}')");
        Self::fetch_where(trace, &of_cpu, unit)
    }

    /// The samples of waiting threads; their weights are seconds.
    pub(crate) fn fetch_waits(trace: &Trace) -> Result<Self> {
        let mut found = Self::fetch_where(trace, &format!("t.name = '{WAITING_TIME}'"), 1e-9)?;
        for sample in &mut found.samples {
            let stack = sample.stack.split_first();
            let (root, rest) = stack.context("a waiting thread without a stack")?;
            ensure!(root.function == WAITING_ROOT, "a root {root:?}");
            sample.stack = Rc::from(rest);
        }
        Ok(found)
    }

    fn fetch_where(trace: &Trace, time_base: &str, unit: f64) -> Result<Self> {
        let stacks = fetch_stacks(trace)?;
        // Each sample also is a row of its time base's counter, put there at the same moment: the nth belongs to the nth.
        let rows = trace.query(&format!(
            "select p.ts, p.utid, t.tid, coalesce(t.name, '') as thread, p.callsite_id
             from perf_sample p join thread t using (utid)
             where p.perf_session_id in (select t.perf_session_id from perf_counter_track t where {time_base})
             order by p.id",
        ))?;
        let weights = trace.query(&format!(
            "select c.ts, c.value from counter c join perf_counter_track t on c.track_id = t.id
             where {time_base} order by c.id",
        ))?;
        ensure!(
            weights.is_empty() || weights.len() == rows.len(),
            "{} weights for {} samples",
            weights.len(),
            rows.len()
        );
        let mut weights = weights.iter();
        let mut samples = Vec::with_capacity(rows.len());
        let empty: Rc<[Frame]> = Rc::from([]);
        for row in rows.iter() {
            let weight = match weights.next() {
                Some(weight) => {
                    ensure!(
                        weight.int("ts")? == row.int("ts")?,
                        "weights and samples are in different orders"
                    );
                    weight.float("value")? * unit
                }
                None => 1.0,
            };
            let stack = row
                .cell("callsite_id")?
                .as_int()
                .and_then(|id| stacks.get(&id))
                .unwrap_or(&empty);
            samples.push(Sample {
                time_ns: row.int("ts")?,
                utid: row.int("utid")?,
                tid: row.int("tid")?,
                thread: row.text("thread")?.to_owned(),
                weight,
                stack: Rc::clone(stack),
            });
        }
        let roots: HashSet<&str> = samples
            .iter()
            .filter_map(|sample| Some(sample.stack.first()?.module.as_str()))
            .collect();
        let entries = roots
            .into_iter()
            .filter_map(|path| Some((path.to_owned(), entry_address(path)?)))
            .collect();
        Ok(Self { samples, entries })
    }

    /// Takes in the samples of another trace. The numbers of threads are then those of different traces.
    pub(crate) fn append(&mut self, other: Self) {
        self.samples.extend(other.samples);
        self.entries.extend(other.entries);
    }

    /// Goes over them in the order of the trace.
    pub fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.samples.len()
    }

    /// The sum of their weights.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.samples.iter().map(|sample| sample.weight).sum()
    }

    /// On how many threads they are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.samples
            .iter()
            .map(|sample| sample.utid)
            .collect::<HashSet<_>>()
            .len()
    }

    /// The weighted share of samples for which something holds.
    #[must_use]
    pub fn share_where(&self, holds: impl Fn(&Sample) -> bool) -> f64 {
        let held = self
            .samples
            .iter()
            .filter(|sample| holds(sample))
            .fold(0.0, |sum, sample| sum + sample.weight);
        held / self.weight().max(1.0)
    }

    /// The weights by thread name.
    #[must_use]
    pub fn thread_weights(&self) -> BTreeMap<String, f64> {
        let mut weights = BTreeMap::new();
        for sample in &self.samples {
            *weights.entry(sample.thread.clone()).or_default() += sample.weight;
        }
        weights
    }

    /// Whether a stack starts where a thread does: at `_start` of the program, or in the C library's thread start.
    ///
    /// Without debug symbols neither has a name: then `_start` is known by the program's entry address, and the thread
    /// start by two nameless frames of the C library.
    #[must_use]
    pub fn is_rooted(&self, sample: &Sample) -> bool {
        let Some(root) = sample.stack.first() else {
            return false;
        };
        if THREAD_ROOTS.iter().any(|name| is_function(root, name)) {
            return true;
        }
        let nameless_libc = |frame: &Frame| {
            file_name(&frame.module).starts_with("libc.so") && frame.function.contains("+0x")
        };
        if sample.stack.len() > 2 && sample.stack[..2].iter().all(nameless_libc) {
            return true;
        }
        let entry = self.entries.get(&root.module);
        entry.is_some_and(|entry| (*entry..entry + START_CODE_BYTES).contains(&root.address))
    }

    /// The weighted share of stacks that are rooted.
    #[must_use]
    pub fn rooted_share(&self) -> f64 {
        self.share_where(|sample| self.is_rooted(sample))
    }

    /// The most frequent stacks that are not rooted, for a message.
    #[must_use]
    pub fn unrooted_examples(&self) -> String {
        let mut found: BTreeMap<String, f64> = BTreeMap::new();
        for sample in self.samples.iter().filter(|sample| !self.is_rooted(sample)) {
            *found.entry(sample.names().join(" > ")).or_default() += sample.weight;
        }
        let mut found: Vec<(String, f64)> = found.into_iter().collect();
        found.sort_by(|one, other| other.1.total_cmp(&one.1));
        found
            .iter()
            .take(10)
            .map(|(stack, weight)| format!("{weight:6} {stack}\n"))
            .collect()
    }
}

/// The name without the parameter list that demangling may leave.
pub(crate) fn bare_name(function: &str) -> &str {
    if function.starts_with('(') || function.starts_with('<') {
        function
    } else {
        function.split('(').next().unwrap_or(function)
    }
}

fn is_function(frame: &Frame, name: &str) -> bool {
    frame.function == name || bare_name(&frame.function) == name
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The stacks of all call sites that samples use, built from the four small tables that hold them.
fn fetch_stacks(trace: &Trace) -> Result<HashMap<i64, Rc<[Frame]>>> {
    let mut symbols: HashMap<i64, Vec<String>> = HashMap::new();
    for row in trace
        .query("select symbol_set_id, name from stack_profile_symbol order by id")?
        .iter()
    {
        symbols
            .entry(row.int("symbol_set_id")?)
            .or_default()
            .push(row.text("name")?.to_owned());
    }
    let mut frames: HashMap<i64, Vec<Frame>> = HashMap::new();
    let rows = trace.query(
        "select f.id, coalesce(f.deobfuscated_name, f.name, '') as name, f.rel_pc, f.symbol_set_id,
         coalesce(m.name, '') as module from stack_profile_frame f left join stack_profile_mapping m on f.mapping = m.id",
    )?;
    for row in rows.iter() {
        let set = row
            .cell("symbol_set_id")?
            .as_int()
            .and_then(|id| symbols.get(&id));
        // The lines of a symbol set are innermost first; ours go the other way.
        let names = set.map_or_else(
            || Ok::<_, anyhow::Error>(vec![row.text("name")?.to_owned()]),
            |set| Ok(set.iter().rev().cloned().collect()),
        )?;
        let (module, address) = (row.text("module")?, row.int("rel_pc")?);
        let made = names.into_iter().map(|function| Frame {
            function,
            module: module.to_owned(),
            address,
        });
        frames.insert(row.int("id")?, made.collect());
    }
    let mut sites: HashMap<i64, (Option<i64>, i64)> = HashMap::new();
    for row in trace
        .query("select id, parent_id, frame_id from stack_profile_callsite")?
        .iter()
    {
        sites.insert(
            row.int("id")?,
            (row.cell("parent_id")?.as_int(), row.int("frame_id")?),
        );
    }
    let mut stacks = HashMap::new();
    for row in trace
        .query("select distinct callsite_id from perf_sample where callsite_id is not null")?
        .iter()
    {
        let leaf = row.cell("callsite_id")?;
        let Cell::Int(leaf) = *leaf else { continue };
        let mut path = Vec::new();
        let mut at = Some(leaf);
        while let Some((parent, frame)) = at.and_then(|id| sites.get(&id)) {
            path.push(*frame);
            at = *parent;
        }
        let stack: Vec<Frame> = path
            .iter()
            .rev()
            .filter_map(|id| frames.get(id))
            .flatten()
            .cloned()
            .collect();
        stacks.insert(leaf, stack.into());
    }
    Ok(stacks)
}

/// How many sampling periods one unit of the samples' weights is: they are in periods, or in nanoseconds.
fn periods_per_unit(trace: &Trace) -> Result<f64> {
    let name = trace.query(&format!(
        "select coalesce(name, '') as name from perf_counter_track where name not in ('{WAITING_TIME}', '{GPU_TIME}', '{CALL_TIME}') limit 1"
    ))?;
    let is_in_ns = name
        .iter()
        .any(|row| row.text("name").is_ok_and(|name| name.ends_with(" ns")));
    if !is_in_ns {
        return Ok(1.0);
    }
    let hertz = trace.metadata()?.get(key::FREQUENCY_HZ)?.as_float();
    Ok(hertz.context("the frequency is not a number")? / 1e9)
}

/// Where a 64-bit ELF program starts.
fn entry_address(path: &str) -> Option<i64> {
    const E_ENTRY: std::ops::Range<usize> = 24..32;
    let bytes = fs::read(path).ok()?;
    (bytes.starts_with(b"\x7fELF\x02")).then_some(())?;
    let entry = i64::from_le_bytes(bytes.get(E_ENTRY)?.try_into().ok()?);
    (entry != 0).then_some(entry)
}

#[cfg(test)]
#[path = "samples_tests.rs"]
mod tests;
