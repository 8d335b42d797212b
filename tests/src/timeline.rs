//! The slices on the tracks of threads.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, ensure};

use crate::samples::{Sample, Samples};
use crate::trace::Trace;

/// Name of the tracks of waits.
const WAITING: &str = "waiting";
/// Names of the tracks of calls and ranges that were told.
const TOLD: &str = "'calls', 'roctx', 'regions', 'openmp', 'kokkos'";

/// Name of the tracks of times off the processor.
const OFF_CPU: &str = "off-CPU";

/// One slice.
#[derive(Debug, Clone)]
pub struct Slice {
    /// Its beginning, in nanoseconds of trace time.
    pub start_ns: i64,
    /// Its length; negative when it was not closed.
    pub duration_ns: i64,
    /// 0 for the outermost.
    pub depth: i64,
    /// The function's name.
    pub name: String,
    /// The track it is on.
    pub track: i64,
    /// The trace processor's number of the thread.
    pub utid: i64,
    /// The thread's name.
    pub thread: String,
}

impl Slice {
    /// Its end.
    #[must_use]
    pub fn end_ns(&self) -> i64 {
        self.start_ns + self.duration_ns.max(0)
    }
}

/// The slices of all threads, ordered by track, time and depth.
#[derive(Debug)]
pub struct Timeline {
    slices: Vec<Slice>,
}

impl Timeline {
    /// The slices on the tracks of threads.
    pub(crate) fn fetch(trace: &Trace) -> Result<Self> {
        let others = format!("coalesce(k.name, '') not in ('{WAITING}', '{OFF_CPU}', {TOLD})");
        Self::fetch_where(trace, &others)
    }

    /// The slices on the tracks of their calls and ranges.
    pub(crate) fn fetch_told(trace: &Trace) -> Result<Self> {
        Self::fetch_where(trace, &format!("k.name in ({TOLD})"))
    }

    /// The slices on the tracks of their waits.
    pub(crate) fn fetch_waits(trace: &Trace) -> Result<Self> {
        Self::fetch_where(trace, &format!("k.name = '{WAITING}'"))
    }

    /// The slices on the tracks of times off the processor.
    pub(crate) fn fetch_off_cpu(trace: &Trace) -> Result<Self> {
        Self::fetch_where(trace, &format!("k.name = '{OFF_CPU}'"))
    }

    fn fetch_where(trace: &Trace, track: &str) -> Result<Self> {
        let rows = trace.query(&format!(
            "select s.ts, s.dur, s.depth, coalesce(s.name, '') as name, s.track_id, t.utid, coalesce(t.name, '') as thread
             from slice s join thread_track k on s.track_id = k.id join thread t using (utid)
             where {track} order by s.track_id, s.ts, s.depth",
        ))?;
        let slices = rows.iter().map(|row| {
            Ok(Slice {
                start_ns: row.int("ts")?,
                duration_ns: row.int("dur")?,
                depth: row.int("depth")?,
                name: row.text("name")?.to_owned(),
                track: row.int("track_id")?,
                utid: row.int("utid")?,
                thread: row.text("thread")?.to_owned(),
            })
        });
        Ok(Self {
            slices: slices.collect::<Result<_>>()?,
        })
    }

    /// Goes over them.
    pub fn iter(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The time covered by the outermost slices of a thread, in nanoseconds.
    #[must_use]
    pub fn covered_ns(&self, thread: &str) -> i64 {
        let outermost = self
            .slices
            .iter()
            .filter(|slice| slice.depth == 0 && slice.thread == thread);
        outermost.map(|slice| slice.duration_ns.max(0)).sum()
    }

    /// The spans of at least this length between outermost slices of a thread, as start and end.
    #[must_use]
    pub fn gaps(&self, thread: &str, at_least_ns: i64) -> Vec<(i64, i64)> {
        let mut outermost: Vec<&Slice> = self
            .slices
            .iter()
            .filter(|s| s.depth == 0 && s.thread == thread)
            .collect();
        outermost.sort_by_key(|slice| slice.start_ns);
        let between = outermost
            .windows(2)
            .map(|pair| (pair[0].end_ns(), pair[1].start_ns));
        between
            .filter(|(end, start)| start - end >= at_least_ns)
            .collect()
    }

    /// Fails unless each slice lies within the one that is open one level above it.
    ///
    /// # Errors
    /// Names the first slice that does not.
    pub fn check_nesting(&self) -> Result<()> {
        let mut track = None;
        let mut open: Vec<&Slice> = Vec::new();
        for slice in &self.slices {
            if track != Some(slice.track) {
                track = Some(slice.track);
                open.clear();
            }
            // A slice without length may start where its elder sibling ends, or where its parent does.
            while open.len() > usize::try_from(slice.depth)? {
                let before = open.pop();
                ensure!(
                    before.is_none_or(|before| before.end_ns() <= slice.start_ns),
                    "{slice:?} starts before {before:?} ends"
                );
            }
            ensure!(
                open.len() == usize::try_from(slice.depth)?,
                "{slice:?} has no parent"
            );
            if let Some(parent) = open.last() {
                let inside = parent.start_ns <= slice.start_ns && slice.end_ns() <= parent.end_ns();
                ensure!(
                    inside || parent.duration_ns < 0,
                    "{slice:?} is not within {parent:?}"
                );
            }
            open.push(slice);
        }
        Ok(())
    }

    /// The share of samples for which the slices of their thread name the functions of their stack.
    ///
    /// A sample stands for the time before it, so the slices that count are those open a nanosecond earlier.
    #[must_use]
    pub fn agreement(&self, samples: &Samples) -> f64 {
        let mut by_thread: HashMap<i64, Vec<&Sample>> = HashMap::new();
        for sample in samples.iter() {
            by_thread.entry(sample.utid).or_default().push(sample);
        }
        let mut slices: BTreeMap<i64, Vec<&Slice>> = BTreeMap::new();
        for slice in &self.slices {
            slices.entry(slice.utid).or_default().push(slice);
        }
        let mut agreeing = 0;
        for (utid, mut mine) in by_thread {
            mine.sort_by_key(|sample| sample.time_ns);
            let mut coming = slices
                .remove(&utid)
                .unwrap_or_default()
                .into_iter()
                .peekable();
            let mut open: Vec<&Slice> = Vec::new();
            for sample in mine {
                let just_before = sample.time_ns - 1;
                while let Some(slice) = coming.next_if(|slice| slice.start_ns <= just_before) {
                    open.truncate(usize::try_from(slice.depth).unwrap_or(0));
                    open.push(slice);
                }
                let now = open.iter().take_while(|slice| just_before < slice.end_ns());
                agreeing += usize::from(now.map(|slice| slice.name.as_str()).eq(sample.names()));
            }
        }
        agreeing as f64 / samples.count().max(1) as f64
    }
}
