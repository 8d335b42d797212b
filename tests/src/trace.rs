//! One loaded trace: questions, the checks that every trace must pass, and what it says about itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use crate::judge::Judge;
use crate::packets::scan_packets;
use crate::rows::{Cell, Rows};
use crate::samples::Samples;
use crate::schema;
use crate::summary::Summary;
use crate::timeline::Timeline;

/// A table of slices at the ends of arrows, in brackets: `id`, and the `number` that a call shares with what it caused. It is the lower half of the arrow's
/// id.
pub const LINKED: &str = "(select slice_out as id, trace_id & 0xffffffff as number from flow
    union select slice_in, trace_id & 0xffffffff from flow)";

/// Names under which a trace describes itself: debug annotations on the process track called `rsys`.
///
/// This is the only place that knows them.
pub mod key {
    /// The track.
    pub const TRACK: &str = "rsys";
    /// `PerfSample` packets.
    pub const SAMPLES: &str = "samples";
    /// The sum of their weights.
    pub const WEIGHTED_SAMPLES: &str = "weighted_samples";
    /// Slices on the tracks of threads.
    pub const SLICES: &str = "slices";
    /// Samples of waiting threads.
    pub const WAIT_SAMPLES: &str = "wait_samples";
    /// The wall time that they stand for.
    pub const WAIT_NS: &str = "wait_ns";
    /// Slices on the tracks of waits.
    pub const WAIT_SLICES: &str = "wait_slices";
    /// Waits that were seen.
    pub const WAITS: &str = "waits";
    /// Those with whole stacks.
    pub const WAITS_COMPLETE: &str = "waits_complete";
    /// Records lost, of all causes.
    pub const DROPPED: &str = "dropped";
    /// `timer` or `perf`.
    pub const CLOCK: &str = "clock";
    /// Samples per second of CPU time.
    pub const FREQUENCY_HZ: &str = "frequency_hz";
    /// Stacks deeper than what is kept.
    pub const TRUNCATED_STACKS: &str = "truncated_stacks";
    /// Stacks whose walk did not reach the root.
    pub const BROKEN_STACKS: &str = "broken_stacks";
    /// Where most of them stopped.
    pub const BROKEN_MOST: &str = "broken_most";
    /// Stacks in which a frame was found by searching the stack.
    pub const SCANNED_STACKS: &str = "scanned_stacks";
    /// The share of stacks that are neither truncated nor broken, in percent.
    pub const COMPLETE_PERCENT: &str = "complete_stacks_percent";
    /// The process.
    pub const PID: &str = "pid";
    /// Its parent.
    pub const PARENT_PID: &str = "parent_pid";
    /// Its command line.
    pub const COMMAND_LINE: &str = "command_line";
    /// When it started.
    pub const START_TIME: &str = "start_time_ns";
    /// The machine's boot id.
    pub const BOOT_ID: &str = "boot_id";
    /// The machine's name.
    pub const HOST: &str = "host";
    /// The version of rsys.
    pub const VERSION: &str = "version";
    /// The rank, when the launcher gave one.
    pub const RANK: &str = "rank";
}

/// What a trace says about itself.
#[derive(Debug, Clone)]
pub struct Metadata(BTreeMap<String, Cell>);

impl Metadata {
    /// The value under a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&self, name: &str) -> Result<&Cell> {
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        self.0
            .get(name)
            .with_context(|| format!("the trace says nothing of `{name}`, only of {known:?}"))
    }

    /// The number under a name.
    ///
    /// # Errors
    /// When there is none or it is not whole.
    pub fn int(&self, name: &str) -> Result<i64> {
        let cell = self.get(name)?;
        cell.as_int()
            .or_else(|| {
                cell.as_float()
                    .filter(|value| value.fract() == 0.0)
                    .map(|value| value as i64)
            })
            .or_else(|| cell.as_text()?.parse().ok())
            .with_context(|| format!("`{name}` is {cell}"))
    }

    /// The value under a name, as text.
    ///
    /// # Errors
    /// When there is none.
    pub fn text(&self, name: &str) -> Result<String> {
        Ok(self.get(name)?.to_string())
    }
}

/// One trace in the trace processor.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    summary: Option<Summary>,
    judge: Mutex<Judge>,
}

impl Trace {
    /// Loads a file, with what `rsys-sample` said of it.
    ///
    /// # Errors
    /// When it does not load.
    pub fn load(path: &Path, summary: Option<Summary>) -> Result<Self> {
        let judge = Mutex::new(Judge::load(&[path])?);
        Ok(Self {
            path: path.to_path_buf(),
            summary,
            judge,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the trace processor.
    ///
    /// # Errors
    /// When it does not understand the question.
    pub fn query(&self, sql: &str) -> Result<Rows> {
        self.judge
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .query(sql)
    }

    /// Asks for a single number.
    ///
    /// # Errors
    /// When the answer is something else.
    pub fn number(&self, sql: &str) -> Result<i64> {
        let rows = self.query(sql)?;
        let cell = rows.single()?;
        cell.as_int()
            .with_context(|| format!("`{sql}` answers {cell}"))
    }

    /// What the trace processor found wrong while it loaded the trace, and fields that Perfetto does not know.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn problems(&self) -> Result<Vec<String>> {
        let rows = self.query(
            "select name, severity, value from stats where value > 0
             and (severity in ('error', 'data_loss') or name like '%skipped%')",
        )?;
        let mut problems = schema::unknown_fields(&self.path)?;
        for row in rows.iter() {
            problems.push(format!(
                "{} ({}): {}",
                row.text("name")?,
                row.text("severity")?,
                row.int("value")?
            ));
        }
        Ok(problems)
    }

    /// The process ids in the order in which the trace asks for its processes to be shown, which viewers heed since Perfetto v57; none when it
    /// does not ask.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn order_of_processes(&self) -> Result<Vec<i64>> {
        schema::order_of_processes(&self.path)
    }

    /// Fails unless the trace is complete and in order: no problem while loading, every slice closed and properly
    /// nested, and as many samples, weights and slices as the summary and the metadata say.
    #[track_caller]
    pub fn assert_clean(&self) {
        if let Err(error) = self.check().and_then(|()| self.check_counts()) {
            panic!("{}: {error:#}", self.path.display());
        }
    }

    /// Fails unless the trace is a valid prefix: it loads without a problem, whatever is missing at its end.
    #[track_caller]
    pub fn assert_valid_prefix(&self) {
        let problems = self
            .problems()
            .unwrap_or_else(|error| vec![format!("{error:#}")]);
        assert!(problems.is_empty(), "{}: {problems:?}", self.path.display());
    }

    fn check(&self) -> Result<()> {
        let problems = self.problems()?;
        ensure!(problems.is_empty(), "the judges found: {problems:?}");
        let torn = scan_packets(&self.path)?.torn_bytes;
        ensure!(torn == 0, "the last packet is torn: {torn} bytes");
        let open = self.number("select count(*) from slice where dur < 0")?;
        ensure!(open == 0, "{open} slices are not closed");
        Timeline::fetch_told(self)?.check_nesting()?;
        self.timeline()?.check_nesting()
    }

    fn check_counts(&self) -> Result<()> {
        let said = self
            .summary
            .as_ref()
            .context("the summary says nothing of this trace")?;
        let (samples, metadata) = (self.samples()?, self.metadata()?);
        let (count, weight) = (samples.count() as f64, samples.weight());
        agree("samples", count, said.samples as f64)?;
        agree("weighted samples", weight, said.weighted as f64)?;
        ensure!(
            samples.threads() as u64 <= said.threads,
            "samples are on {} threads, said are {}",
            samples.threads(),
            said.threads
        );
        let told = |name| metadata.int(name).map(|value| value as f64);
        agree("samples in the metadata", count, told(key::SAMPLES)?)?;
        agree(
            "weighted samples in the metadata",
            weight,
            told(key::WEIGHTED_SAMPLES)?,
        )?;
        agree(
            "dropped in the metadata",
            said.dropped as f64,
            told(key::DROPPED)?,
        )?;
        let slices = self.timeline()?.len() as f64;
        agree("slices in the metadata", slices, told(key::SLICES)?)?;
        if let Some(said) = &said.waits {
            let (waits, slices) = (self.wait_samples()?, self.wait_timeline()?);
            slices.check_nesting()?;
            let count = waits.count() as f64;
            agree("samples of waits", count, said.samples as f64)?;
            agree(
                "samples of waits in the metadata",
                count,
                told(key::WAIT_SAMPLES)?,
            )?;
            let slices = slices.len() as f64;
            agree(
                "slices of waits in the metadata",
                slices,
                told(key::WAIT_SLICES)?,
            )?;
            let seconds = waits.weight();
            agree("waited nanoseconds", seconds * 1e9, told(key::WAIT_NS)?)?;
            ensure!(
                (seconds - said.seconds).abs() < 1e-3,
                "waited seconds: the trace holds {seconds}, said are {}",
                said.seconds
            );
            agree(
                "waits in the metadata",
                said.waits as f64,
                told(key::WAITS)?,
            )?;
            let complete = said.complete as f64;
            agree(
                "complete waits in the metadata",
                complete,
                told(key::WAITS_COMPLETE)?,
            )?;
        }
        Ok(())
    }

    /// What the trace says about itself.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn metadata(&self) -> Result<Metadata> {
        let rows = self.query(&format!(
            "select a.key, a.int_value, a.string_value, a.real_value from slice s
             join track t on s.track_id = t.id join args a using (arg_set_id)
             where t.name = '{}' and a.key like 'debug.%' order by s.ts",
            key::TRACK
        ))?;
        let mut found = BTreeMap::new();
        for row in rows.iter() {
            let cells = ["int_value", "string_value", "real_value"].map(|column| row.cell(column));
            let name = row.text("key")?.trim_start_matches("debug.").to_owned();
            for cell in cells {
                let cell = cell?;
                if *cell != Cell::Null {
                    found.insert(name.clone(), cell.clone());
                }
            }
        }
        ensure!(
            !found.is_empty(),
            "no annotations on a track named `{}`",
            key::TRACK
        );
        Ok(Metadata(found))
    }

    /// All samples with their stacks.
    ///
    /// # Errors
    /// When the trace processor cannot be asked.
    pub fn samples(&self) -> Result<Samples> {
        Samples::fetch(self)
    }

    /// All samples of waiting threads, weighted in seconds, without the frame that says that they are; innermost is what is waited for.
    ///
    /// # Errors
    /// When the trace processor cannot be asked.
    pub fn wait_samples(&self) -> Result<Samples> {
        Samples::fetch_waits(self)
    }

    /// The times of threads off the processor.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn off_cpu_timeline(&self) -> Result<Timeline> {
        Timeline::fetch_off_cpu(self)
    }

    /// All slices on the tracks of waits.
    ///
    /// # Errors
    /// When the trace processor cannot be asked.
    pub fn wait_timeline(&self) -> Result<Timeline> {
        Timeline::fetch_waits(self)
    }

    /// All slices on the tracks of threads.
    ///
    /// # Errors
    /// When the trace processor cannot be asked.
    pub fn timeline(&self) -> Result<Timeline> {
        Timeline::fetch(self)
    }

    /// The names of all threads, in no order.
    ///
    /// # Errors
    /// When the trace processor cannot be asked.
    pub fn thread_names(&self) -> Result<Vec<String>> {
        let rows = self.query("select coalesce(name, '') as name from thread where utid != 0")?;
        rows.iter()
            .map(|row| Ok(row.text("name")?.to_owned()))
            .collect()
    }
}

fn agree(what: &str, found: f64, said: f64) -> Result<()> {
    if (found - said).abs() > 0.5 {
        bail!("{what}: the trace holds {found}, said is {said}");
    }
    Ok(())
}
