//! One pass over the inputs: readers make batches, questions consume them.
//!
//! Several files are read at the same time, each by a thread of its own, and several questions are measured at the same time (`line.rs`). Every
//! question is shown every batch; the order of batches of one file is that of the file. A file is read into a model of its own, which is a
//! [`Part`] of the one that the answers are made of.

mod line;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

use crate::measure::Measure;
use crate::table::Answer;
use line::Line;
use rsys_traces::model::{Batch, Kinds, Model, Notice, Part};
use rsys_traces::read::{self, BytesRead};

/// How many processors this process may use.
#[must_use]
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Reads all files and shows every batch to every question, on all processors. Files that cannot be read are in the model's notices.
pub fn pass(files: &[PathBuf], measures: &mut [Box<dyn Measure>]) -> Model {
    pass_counted(files, measures, &BytesRead::default(), processors())
}

/// [`pass()`], which tells others meanwhile how much of the files was read. At most `jobs` files are read and `jobs` questions measured at the
/// same time; with 1, everything is done in turn by the thread that calls. What comes of it does not depend on that.
pub fn pass_counted(
    files: &[PathBuf],
    measures: &mut [Box<dyn Measure>],
    read_bytes: &BytesRead,
    jobs: usize,
) -> Model {
    pass_by(files, measures, read_bytes, jobs, jobs)
}

/// [`pass_counted`], which reads one file after the other, so that questions see batches, and ids are given out, in the order of the files.
pub fn pass_in_order(
    files: &[PathBuf],
    measures: &mut [Box<dyn Measure>],
    read_bytes: &BytesRead,
    jobs: usize,
) -> Model {
    pass_by(files, measures, read_bytes, jobs, 1)
}

/// At most `readers` files are read at the same time.
fn pass_by(
    files: &[PathBuf],
    measures: &mut [Box<dyn Measure>],
    read_bytes: &BytesRead,
    jobs: usize,
    readers: usize,
) -> Model {
    let kinds = measures
        .iter()
        .fold(Kinds::default(), |kinds, measure| kinds.or(measure.needs()));
    let input = Input {
        kinds,
        read_bytes,
        is_ahead: jobs > 1,
        is_only: files.len() == 1,
        whole: RwLock::default(),
    };
    if jobs > 1 && !measures.is_empty() {
        at_once(files, measures, &input, (jobs, readers));
    } else {
        let mut in_turn = InTurn {
            measures,
            batch: Batch::default(),
        };
        files.iter().for_each(|file| input.read(file, &mut in_turn));
    }
    input
        .whole
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// The answers to all questions, when all was read. At most `jobs` are made at the same time.
pub fn answers(
    measures: &mut [Box<dyn Measure>],
    model: &Model,
    label: &str,
    jobs: usize,
) -> Vec<Answer> {
    let mut answers: Vec<Option<Answer>> = measures.iter().map(|_| None).collect();
    let threads = jobs.min(measures.len());
    let left = Mutex::new(measures.iter_mut().zip(&mut answers));
    let answer_some = || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((measure, answer)) = next else { break };
            *answer = Some(measure.answer(model, label));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(answer_some);
        }
        answer_some();
    });
    answers.into_iter().flatten().collect()
}

/// Reads and measures on several threads: on as many as there are files at most, and as many as there are questions.
fn at_once(
    files: &[PathBuf],
    measures: &mut [Box<dyn Measure>],
    input: &Input<'_>,
    (jobs, readers): (usize, usize),
) {
    let (readers, measurers) = (readers.min(files.len()), jobs.min(measures.len()));
    let line = Line::new(measures, readers);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                let _reading = line.reading();
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    input.read(file, &mut &line);
                }
            });
        }
        for _ in 1..measurers {
            scope.spawn(|| line.measure(input));
        }
        line.measure(input);
    });
}

/// Where batches go.
trait Sink {
    /// A batch without records.
    fn empty(&mut self) -> Batch;

    /// Takes a batch with records. `false`: no more are wanted.
    fn take(&mut self, batch: Batch, input: &Input<'_>) -> bool;
}

impl Sink for &Line<'_> {
    fn empty(&mut self) -> Batch {
        Line::empty(self)
    }

    fn take(&mut self, batch: Batch, _: &Input<'_>) -> bool {
        self.push(batch)
    }
}

/// Shows each batch to all questions at once.
struct InTurn<'m> {
    measures: &'m mut [Box<dyn Measure>],
    batch: Batch,
}

impl Sink for InTurn<'_> {
    fn empty(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    fn take(&mut self, mut batch: Batch, input: &Input<'_>) -> bool {
        for measure in self.measures.iter_mut() {
            input.show(&batch, measure.as_mut());
        }
        batch.clear();
        self.batch = batch;
        true
    }
}

/// What the files of a pass have in common.
struct Input<'a> {
    kinds: Kinds,
    read_bytes: &'a BytesRead,
    /// Whether files are unpacked by threads of their own.
    is_ahead: bool,
    /// Whether there is one file: its model is all.
    is_only: bool,
    whole: RwLock<Model>,
}

impl Input<'_> {
    fn whole(&self) -> RwLockReadGuard<'_, Model> {
        self.whole.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn whole_mut(&self) -> RwLockWriteGuard<'_, Model> {
        self.whole.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a batch to a question.
    fn show(&self, batch: &Batch, measure: &mut dyn Measure) {
        measure.take(batch);
        if measure.is_full() {
            measure.settle(&self.whole());
        }
    }

    /// Reads a whole file.
    fn read(&self, file: &Path, sink: &mut impl Sink) {
        let mut part = Part::default();
        match read::open_counted(file, self.kinds, self.read_bytes, self.is_ahead) {
            Ok(mut reader) => loop {
                let mut batch = sink.empty();
                let goes_on = if self.is_only {
                    reader.read(&mut self.whole_mut(), &mut batch)
                } else {
                    let goes_on = reader.read(&mut part.model, &mut batch);
                    if part.has_news() {
                        part.tell(&mut self.whole_mut());
                    }
                    part.rename(&mut batch);
                    goes_on
                };
                if !sink.take(batch, self) || !goes_on {
                    break;
                }
            },
            Err(error) => {
                let notice = unreadable(file, &error);
                match self.is_only {
                    true => self.whole_mut().notices.push(notice),
                    false => part.model.notices.push(notice),
                }
            }
        }
        if !self.is_only {
            part.finish(&mut self.whole_mut());
        }
    }
}

fn unreadable(file: &Path, error: &read::OpenError) -> Notice {
    use std::error::Error;

    let text = match error.source() {
        Some(source) => format!("cannot be read: {source}"),
        // The place is said by the notice.
        None => {
            let text = error.to_string();
            let place = format!("{}: ", file.display());
            text.strip_prefix(&place).unwrap_or(&text).to_owned()
        }
    };
    Notice {
        file: file.display().to_string(),
        offset: None,
        text,
    }
}
